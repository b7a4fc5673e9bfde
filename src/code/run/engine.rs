//! What wasm is compiled with: one configuration for whoever compiles and whoever runs.
//!
//! The engine that runs code takes what was compiled elsewhere only if the two agree on everything that code depends on (features,
//! fuel, epochs, guards); so both are made here. The tiers differ in effort alone. Fuel is counted per instruction of the module
//! before anything is optimised, so a run takes the same steps in either tier. Vectors are computed with to the bit on every processor;
//! the relaxed instructions, whose results differ, are left out.

use super::Tier;
use wasmtime::{Config, OptLevel, RegallocAlgorithm};

/// For code of capsules; `ticked`: a clock watches it beside its fuel.
pub(crate) fn capsule(ticked: bool, tier: Tier) -> Config {
    let mut config = Config::new();
    config.wasm_custom_page_sizes(true).wasm_relaxed_simd(false);
    config.cranelift_nan_canonicalization(true).wasm_backtrace_max_frames(None);
    config.consume_fuel(true).epoch_interruption(ticked);
    // First contents are copied: memories are small, and not all are wasmtime's own.
    config.memory_init_cow(false);
    // Nobody reads backtraces of capsules.
    config.generate_address_map(false);
    match tier {
        // The author's compiler has optimised already: what a tiny capsule could gain is less than what it costs to be late.
        Tier::Fast => {
            config.cranelift_opt_level(OptLevel::None).cranelift_regalloc_algorithm(RegallocAlgorithm::SinglePass)
        }
        Tier::Optimised => config.cranelift_opt_level(OptLevel::Speed),
    };
    config
}

/// For services of PLAN, which stay for long: optimised at once.
pub(crate) fn service() -> Config {
    let mut config = Config::new();
    config.wasm_relaxed_simd(false);
    config.consume_fuel(true).cranelift_nan_canonicalization(true).cranelift_opt_level(OptLevel::Speed);
    config
}
