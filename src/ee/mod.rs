//! Execution environments: what runs the code that packets name.

pub mod plan;
