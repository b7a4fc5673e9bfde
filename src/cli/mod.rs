//! The command line: `anode NOUN VERB`. One file per noun, one line here.

mod bench;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "anode", version, about)]
struct Root {
    #[command(subcommand)]
    noun: Noun,
}

#[derive(Subcommand)]
enum Noun {
    /// Experiments beside plain baselines
    Bench(bench::Args),
}

/// Runs the command line of this process.
pub fn run() -> ExitCode {
    let done = match Root::parse().noun {
        Noun::Bench(args) => bench::run(args),
    };
    done.unwrap_or_else(|error| {
        eprintln!("anode: {error:#}");
        ExitCode::FAILURE
    })
}
