//! The command line: `anode NOUN VERB`. One file per noun, one line each here.
//!
//! Exit status: 0 done, 1 refused or failed, 2 wrong usage.

mod bench;
mod lab;
mod node;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Every noun: its variant, its module, and its line in `anode --help`.
macro_rules! nouns {
    ($($(#[doc = $help:literal])+ $variant:ident = $module:ident;)+) => {
        /// An active network node for Linux: deploy code into the packet path at run time.
        #[derive(Parser)]
        #[command(name = "anode", version)]
        struct Cli {
            #[command(subcommand)]
            noun: Noun,
        }

        #[derive(Subcommand)]
        enum Noun { $($(#[doc = $help])+ $variant($module::Args),)+ }

        fn dispatch(cli: Cli) -> anyhow::Result<ExitCode> {
            match cli.noun { $(Noun::$variant(args) => $module::run(args),)+ }
        }
    };
}

nouns! {
    /// Run a node, and ask a running one
    Node = node;
    /// Networks of namespaces on this machine
    Lab = lab;
    /// Experiments beside plain baselines
    Bench = bench;
}

/// Runs the command line of this process.
pub fn run() -> ExitCode {
    dispatch(Cli::parse()).unwrap_or_else(|error| {
        eprintln!("anode: {error:#}");
        ExitCode::FAILURE
    })
}
