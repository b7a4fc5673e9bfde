//! The tiers of the compiler, fast and optimising; [`super::engine`] has the settings.

/// How much effort the compiler makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// Ready soon: no optimisation, registers placed in one pass.
    #[default]
    Fast,
    /// Runs fast: cranelift's optimiser and its better allocator of registers.
    Optimised,
}

impl core::fmt::Display for Tier {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Tier::Fast => "fast",
            Tier::Optimised => "optimised",
        })
    }
}
