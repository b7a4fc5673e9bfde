//! `anode node`: run a node in the foreground, and ask a running one.

mod apply;
mod check;
mod events;
mod health;
mod loader;
mod log;
mod ls;
mod metrics;
mod report;
mod route;
mod service;
mod status;
mod watch;
mod words;

use super::extension;
use crate::broker::remains;
use crate::clean;
use crate::manage::client::{ClientError, Control, run_dir};
use clap::Subcommand;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// For how long a node may take to end.
const END: Duration = Duration::from_secs(5);

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run the node of a configuration file in the foreground
    Run {
        /// The configuration, in TOML (docs/node.md)
        config: PathBuf,
        /// Have all that needs a privilege done by the helper that listens there
        #[arg(long, value_name = "SOCKET")]
        helper: Option<PathBuf>,
    },
    /// Be the helper of a node: all that it does by a privilege, in a service of its own
    Helper {
        /// The configuration of the node, in TOML
        config: PathBuf,
        /// Only mount where pins of a kernel half are kept, for a helper that has mounts of its own
        #[arg(long)]
        mount: bool,
    },
    /// Say what a configuration means here, and what is wrong with it
    Check {
        /// The configuration, in TOML
        config: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the nodes of this machine, and how they are
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print all counters of a running node
    Status {
        /// The node's name, or its run directory
        node: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print what changes in the counters of a running node, every second, until interrupted
    Watch {
        /// The node's name, or its run directory
        node: String,
        /// Seconds between two looks
        #[arg(long, default_value_t = 1.0, value_parser = interval)]
        interval: f64,
        /// Looks before it ends; 0 for no end
        #[arg(long, default_value_t = 0)]
        count: u64,
        /// Print JSON, one object a line
        #[arg(long)]
        json: bool,
    },
    /// Print the counters of a running node as text for Prometheus
    Metrics(metrics::Args),
    /// Call an extension of a running node, and print what it gives
    Call {
        /// The node's name, or its run directory
        node: String,
        /// The call: EXTENSION.CALL, as anode extension ls lists them
        call: String,
        /// A word for each of its parameters
        #[arg(allow_negative_numbers = true)]
        arguments: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Say whether all is well with a running node: exit status 0 healthy, 1 degraded, 2 not reachable
    Health {
        /// The node's name, or its run directory
        node: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print what was done to a running node, by whom, and what has changed in it
    Events(events::Args),
    /// Write all that is of interest when something went wrong into one file, without keys
    Report(report::Args),
    /// Print what mobile code has logged lately at a running node, and where it trapped; with --follow the node's own lines too
    Log(log::Args),
    /// Print where packets to an address go from a running node
    Route(route::Args),
    /// Apply another configuration to a running node: what differs is shown, then done as a whole or not at all
    Apply(apply::ApplyArgs),
    /// Let a configuration stay that was applied with --confirm-within
    Confirm {
        /// The node's name, or its run directory
        node: String,
        /// Its number, as `apply` and `history` say it: another one is refused
        number: u64,
    },
    /// List the configurations that ran, the last one at the end
    History {
        /// The node's name, or its run directory
        node: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Go back to a configuration that ran before: the one before this, or that of a number
    Rollback {
        /// The node's name, or its run directory
        node: String,
        /// Its number in the history
        number: Option<u64>,
        #[command(flatten)]
        manner: apply::Manner,
    },
    /// Stop a running node
    Down {
        /// The node's name, or its run directory
        node: String,
        /// Let the kernel half work on: the next `anode node run` takes it over, and no packet is lost
        #[arg(long)]
        keep_kernel: bool,
    },
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.verb {
        Verb::Run { config, helper } => service::run(&config, helper.as_deref())?,
        Verb::Helper { config, mount } => service::help(&config, mount)?,
        Verb::Check { config, json } => check::check(&config, json)?,
        Verb::Ls { json } => ls::print(json)?,
        Verb::Status { node, json } => status::print(&node, json)?,
        Verb::Watch { node, interval, count, json } => watch::watch(&node, interval, count, json)?,
        Verb::Metrics(args) => metrics::print(&args)?,
        Verb::Call { node, call, arguments, json } => extension::call(&node, call, arguments, json)?,
        Verb::Health { node, json } => return health::print(&node, json),
        Verb::Events(args) => events::print(&args)?,
        Verb::Report(args) => report::write(&args)?,
        Verb::Log(args) => log::print(&args)?,
        Verb::Route(args) => route::print(&args)?,
        Verb::Apply(args) => args.run()?,
        Verb::Confirm { node, number } => apply::confirm(&node, number)?,
        Verb::History { node, json } => apply::history(&node, json)?,
        Verb::Rollback { node, number, manner } => apply::rollback(&node, number, &manner)?,
        Verb::Down { node, keep_kernel } => down(&node, keep_kernel)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Seconds between two looks.
fn interval(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    seconds.ok_or_else(|| "seconds from 0.1 to 3600".into())
}

/// Somebody follows a node, and it is gone: said in the same way by all that follow, and no failure. Programs see the end alone.
fn has_ended(json: bool) -> anyhow::Result<()> {
    if !json {
        crate::say!("the node has ended");
    }
    Ok(())
}

fn down(node: &str, keep_kernel: bool) -> anyhow::Result<()> {
    let dir = run_dir(node);
    let mut control = match Control::connect(&dir) {
        // It has died, and something of it may have not.
        Err(why @ ClientError::NotRunning(..)) if !keep_kernel => {
            let gone = remains::clear(&dir, false)?;
            if gone.is_empty() {
                return Err(why.into());
            }
            crate::say!("node {} was not running; taken away: {}", clean::shown(node), gone.join(", "));
            return Ok(());
        }
        connected => connected?,
    };
    control.down(keep_kernel)?;
    // The node takes its sockets away as the last thing it does.
    let gone = || (!dir.join("control.sock").exists()).then_some(());
    let still = || format!("the node was told to stop but its sockets are still in {}", dir.display());
    crate::sys::watch::until(&dir, None, END, gone).map_err(|missed| anyhow::anyhow!("{}: {missed}", still()))?;
    if !keep_kernel {
        remains::clear(&dir, true)?;
    }
    Ok(())
}
