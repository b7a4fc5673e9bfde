//! The program from the command line: commands that do something and end.

mod again;
mod author;
mod bad_settings;
mod bench;
mod classify_wrong;
mod docs;
mod examples;
mod graphs;
mod lab_wrong;
mod lacks;
mod node_check;
mod plan_cli;
mod plan_wrong;
#[path = "../running/shown.rs"]
mod shown;
mod sim_cli;
#[path = "../running/wait.rs"]
mod wait;
mod wireshark;
