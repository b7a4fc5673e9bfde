//! One node without anything around it: frames, timers and upcalls in, frames out.

mod accounts;
mod balance;
mod bandwidth;
mod bed;
mod cases;
mod charges;
mod codes;
mod common;
mod fair;
mod forms;
mod greedy;
mod heads;
mod hello;
mod keeper;
mod links;
mod moves;
mod node_bench;
mod nodeos_ending;
mod paths;
mod plan_turns;
mod roles;
mod shares;
mod workers;
