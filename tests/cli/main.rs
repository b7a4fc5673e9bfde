//! The program from the command line: commands that do something and end.

mod author;
mod bad_settings;
mod bench;
mod docs;
mod lacks;
mod node_check;
mod plan_cli;
mod plan_wrong;
mod sim_cli;
#[path = "../running/wait.rs"]
mod wait;
mod wireshark;
