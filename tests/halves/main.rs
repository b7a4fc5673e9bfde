//! Both halves of a node beside each other, in a namespace: needs root and a kernel that takes XDP programs.

// The fuzz targets name it at the root of their crate.
use anode::code;

mod capsules;
mod channels;
mod dice;
mod draft;
mod fields;
#[path = "../running/gate.rs"]
mod gate;
mod generated;
mod generator;
mod graphs;
mod hostile;
mod index;
#[path = "../../fuzz/src/instructions.rs"]
mod instructions;
mod messages;
mod pair;
mod place;
#[path = "../../fuzz/src/programs.rs"]
mod programs;
mod random;
#[path = "../vectors/state.rs"]
mod rules;
mod sample;
mod state;
#[path = "../running/wait.rs"]
mod wait;
mod wishes;
