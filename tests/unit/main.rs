//! Tests that need nothing but this crate and a C compiler: formats, bundles, rights, checkers, and the fuzz targets
//! without a fuzzer.

// As the harnesses of libanode call it, which they do in their own crate.
extern crate libanode as anode1;

// The fuzz targets name these at the root of their crate.
use anode::{broker, classify, code, frame, kernel, nodeos, port, seen, sys, trust, wire};

#[path = "../../fuzz/src/assembling.rs"]
mod assembling;
#[path = "../../fuzz/src/classifying.rs"]
mod classifying;
#[path = "../../fuzz/src/clicks.rs"]
mod clicks;
mod code_build;
mod formats;
mod fuzzed;
mod graphs;
#[path = "../../fuzz/src/instructions.rs"]
mod instructions;
mod lint;
mod native_code;
#[path = "../../fuzz/src/plans.rs"]
mod plans;
#[path = "../../fuzz/src/programs.rs"]
mod programs;
#[path = "../../fuzz/src/reading.rs"]
mod reading;
mod rights;
#[path = "../vectors/state.rs"]
mod rules;
mod state;
#[allow(dead_code, reason = "the fuzzer uses the rest")]
#[path = "../../fuzz/src/targets.rs"]
mod targets;
