//! The program from the command line, where it does something and ends.

mod bad_settings;
mod bench;
mod docs;
mod lacks;
mod node_check;
mod plan_cli;
mod sim_cli;
