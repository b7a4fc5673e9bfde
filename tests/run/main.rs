//! Nodes, environments, compilers and jails as processes of this machine; as root all of it, as an ordinary user most.

mod apply;
mod broker;
#[path = "../nodeos/build.rs"]
mod build;
mod clean;
mod clocks;
mod compiling;
mod completions;
mod control;
mod cpu;
mod desk;
mod environments_end;
mod extensions;
mod files;
#[path = "../running/gate.rs"]
mod gate;
mod gated;
#[path = "../running/held.rs"]
mod held;
mod helper;
mod http;
mod jail;
mod keys;
#[path = "../running/lease.rs"]
mod lease;
mod management;
mod modules;
mod native_extensions;
mod nodeos_attacks;
mod nodeos_c;
mod observe;
mod old_configurations;
mod operating;
mod overlay;
mod overlay_workers;
#[path = "../running/pace.rs"]
mod pace;
mod package;
#[path = "../running/restless.rs"]
mod restless;
#[path = "../running/mod.rs"]
mod running;
mod schema;
mod sending;
mod shares;
#[path = "../running/single.rs"]
mod single;
mod stores;
mod streams;
#[path = "../running/wait.rs"]
mod wait;
mod ways_back;
