//! The configuration of the wasm engine: one for compiling and running.
//!
//! The engine takes a module compiled elsewhere only if both agree on everything in the machine code (features, fuel,
//! epochs, guards). So both are made here. The tiers differ in effort alone. Fuel is counted per instruction of the
//! module before optimisation, so a run takes the same steps in either tier. Vector instructions give the same bits on
//! every processor; the relaxed ones, whose results differ, are left out.

use super::Tier;
use core::num::NonZeroUsize;
use wasmtime::{Config, OptLevel, RegallocAlgorithm};

/// For code of capsules; `ticked`: a clock watches it beside its fuel.
pub(crate) fn capsule(ticked: bool, tier: Tier) -> Config {
    let mut config = Config::new();
    config.wasm_custom_page_sizes(true).wasm_relaxed_simd(false);
    config.cranelift_nan_canonicalization(true).wasm_backtrace_max_frames(NonZeroUsize::new(1));
    config.consume_fuel(true).epoch_interruption(ticked);
    // First contents are copied: memories are small, and not all are wasmtime's own.
    config.memory_init_cow(false);
    // Of a trap the log says where it was: one frame and, from the map of addresses, its instruction.
    config.generate_address_map(true);
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
    // First contents are copied: a node's threads may not seal files for them.
    config.memory_init_cow(false);
    config
}
