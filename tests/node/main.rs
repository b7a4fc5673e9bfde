//! One node without anything around it: frames, timers and upcalls in, frames out.

// Files of the node that are modules of `remade` name what they use so.
use anode::{core, frame, trust};

mod accounts;
mod again;
mod balance;
mod bandwidth;
mod bed;
mod buckets;
mod budgets;
mod cases;
mod charges;
mod codes;
mod common;
mod compat;
mod fair;
mod forms;
mod graphs;
mod greedy;
mod heads;
mod hello;
mod interleaved;
mod keeper;
mod links;
mod moves;
mod node_bench;
mod nodeos_ending;
mod panics;
mod paths;
mod plan_turns;
mod remade;
mod roles;
mod ruled;
mod shares;
mod stores;
mod survey;
mod workers;
