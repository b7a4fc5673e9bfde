//! The command line: `anode NOUN VERB`. One file per noun, one line here.

mod lab;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// An active network node for Linux.
#[derive(Parser)]
#[command(name = "anode", version)]
struct Cli {
    #[command(subcommand)]
    noun: Noun,
}

#[derive(Subcommand)]
enum Noun {
    /// Networks of namespaces on this machine
    Lab(lab::Args),
}

/// Runs the command line of this process.
pub fn run() -> ExitCode {
    let result = match Cli::parse().noun {
        Noun::Lab(args) => lab::run(args),
    };
    result.unwrap_or_else(|error| {
        eprintln!("anode: {error:#}");
        ExitCode::FAILURE
    })
}
