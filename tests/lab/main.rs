//! Labs and the demonstration in network namespaces: needs root.

mod demo;
#[path = "../running/gate.rs"]
mod gate;
mod labs;
mod links;
#[path = "../running/mod.rs"]
mod running;
#[path = "../running/wait.rs"]
mod wait;
