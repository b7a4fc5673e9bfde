//! Labs and the demonstration in network namespaces: needs root.

mod demo;
#[path = "../running/gate.rs"]
mod gate;
mod labs;
