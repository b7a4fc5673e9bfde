//! Labs and the demonstration in network namespaces: needs root.

mod chance;
mod demo;
mod examples;
#[path = "../running/gate.rs"]
mod gate;
mod labs;
mod links;
mod near;
mod nodes;
#[path = "../running/mod.rs"]
mod running;
#[path = "../running/shown.rs"]
mod shown;
#[path = "../running/wait.rs"]
mod wait;
