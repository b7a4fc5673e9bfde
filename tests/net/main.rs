//! Nodes as processes in network namespaces: needs root.

mod apply;
mod awaited;
#[path = "../nodeos/build.rs"]
mod build;
mod channels;
mod chosen;
mod confined;
mod corral;
mod disciplines;
mod extended;
mod failed_start;
mod fake_router;
mod fewer_descriptors;
mod flaps;
mod flood;
mod flows;
mod foreign;
mod full_disk;
#[path = "../running/gate.rs"]
mod gate;
mod graphs;
#[path = "../sim/guests.rs"]
mod guests;
mod hangs;
#[path = "../running/held.rs"]
mod held;
mod hosts;
mod inputs;
mod joined;
mod kernel_host;
mod marshalled;
mod native;
mod nodeos_objects;
mod nodeos_processes;
mod outlive;
#[path = "../running/pace.rs"]
mod pace;
mod parts;
mod plan_graphs;
mod plan_nodes;
mod ports;
mod queues;
mod redirects;
mod remains;
mod replumbed;
mod restart;
#[path = "../running/restless.rs"]
mod restless;
mod routers;
mod routes;
mod ruled;
#[path = "../running/mod.rs"]
mod running;
mod schemas;
mod seen;
mod sender;
mod shapes;
mod shared_hook;
mod streams;
mod stuck;
mod tiers;
mod together;
mod tutorial;
mod upgrade;
#[path = "../running/wait.rs"]
mod wait;
mod waiting;
mod wishes;
mod workers;
mod xdp;
