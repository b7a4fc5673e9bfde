//! Networks of nodes in virtual time.

mod amplify;
mod apps;
mod basic;
mod bound;
mod digests;
mod fetch;
mod guests;
mod hello;
mod kept_back;
mod lying;
mod net;
mod peers;
mod plan_apps;
mod plan_layers;
mod plan_order;
mod plans;
mod plans_bounds;
mod plans_hostile;
mod plans_signed;
mod proofs;
mod revoke;
mod rip;
mod searches;
mod sources;
mod swarm;
mod trust;
