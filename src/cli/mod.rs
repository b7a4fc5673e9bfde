//! The command line: `anode NOUN VERB`. One file per noun, one line each here.
//!
//! Exit status: 0 done, 1 refused or failed, 2 wrong usage.

mod attach;
mod bench;
mod cache;
mod capsule;
mod code;
mod cred;
mod demo;
mod heavy;
mod lab;
mod multicast;
mod node;
mod ping;
mod sim;
mod trace;

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
    /// The two-minute tour
    Demo = demo;
    /// Run a node, and ask a running one
    Node = node;
    /// Code bundles: make, check and keep them
    Code = code;
    /// Keys, and credentials that grant roles to them
    Cred = cred;
    /// Networks of namespaces on this machine
    Lab = lab;
    /// Networks in virtual time, from a seed
    Sim = sim;
    /// Send capsules of any code, and receive them
    Capsule = capsule;
    /// Round-trip times to a node, by capsule
    Ping = ping;
    /// Every node on the way to a destination and back
    Trace = trace;
    /// Send to a group and listen to one: packets branch in the network
    Multicast = multicast;
    /// Values of an origin, with copies in the nodes
    Cache = cache;
    /// Which sources send most, counted in the nodes
    Heavy = heavy;
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
