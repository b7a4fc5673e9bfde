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

use crate::kernel::loader;
use clap::{Parser, Subcommand};
use std::os::fd::AsFd;
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

/// Runs the command line of this process, or what a node starts it as.
pub fn run() -> ExitCode {
    let done = if std::env::args_os().nth(1).is_some_and(|first| first == loader::ARGUMENT) {
        std::io::stdin()
            .as_fd()
            .try_clone_to_owned()
            .and_then(loader::serve)
            .map(|()| ExitCode::SUCCESS)
            .map_err(Into::into)
    } else {
        dispatch(Cli::parse())
    };
    done.unwrap_or_else(|error| {
        eprintln!("anode: {error:#}");
        ExitCode::FAILURE
    })
}
