//! Where a graph is to run, and where one engine of it: example, `place = "auto"`, and in its text `Counter @user`.
//!
//! A graph's place is said beside its text, and an engine's in it (`@kernel`, `@user`, `@auto`). That of one is no contradiction to that
//! of the other, which is seen to where a text is read ([`super::load`]). Whether the kernel can have what is to be there is known when
//! the graph is fused ([`super::fused`]).

use crate::clean;

/// Where a graph is to run, or an engine of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GraphPlace {
    /// In the kernel if it can and may, else in user space.
    #[default]
    Auto,
    /// In the kernel, or not at all.
    Kernel,
    /// In user space.
    User,
}

impl core::fmt::Display for GraphPlace {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            GraphPlace::Auto => "auto",
            GraphPlace::Kernel => "kernel",
            GraphPlace::User => "user",
        })
    }
}

impl core::str::FromStr for GraphPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<GraphPlace, String> {
        match text {
            "auto" => Ok(GraphPlace::Auto),
            "kernel" => Ok(GraphPlace::Kernel),
            "user" => Ok(GraphPlace::User),
            _ => Err(format!("place: '{}' is none: auto, kernel, user", clean::shown(text))),
        }
    }
}
