//! The command line: `anode NOUN VERB`. One file per noun, one line here.

mod code;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// An active network node for Linux.
#[derive(Parser)]
#[command(name = "anode", version, subcommand_required = true, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    noun: Noun,
}

#[derive(Subcommand)]
enum Noun {
    /// Mobile code: build, check and keep bundles.
    Code(code::Arguments),
}

/// Runs the command line of this process: exit status 0 done, 1 refused or failed, 2 wrong usage.
pub fn run() -> ExitCode {
    let result = match Arguments::parse().noun {
        Noun::Code(arguments) => code::run(arguments),
    };
    result.unwrap_or_else(|error| {
        eprintln!("anode: {error:#}");
        ExitCode::FAILURE
    })
}
