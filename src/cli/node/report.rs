//! `anode node report`: one file for whoever looks for a fault: versions, configuration without keys, status, health, events, log, and
//! what processes have left that fell. Of a node that is gone, what it has left in its store.

use crate::log::fall;
use crate::manage::client::{ClientError, Control, run_dir};
use crate::manage::observe::versions;
use anyhow::Context as _;
use model::health::Report;
use model::{Ask, versions::Versions};
use serde::Serialize;
use serde_json::Value;
use std::path::PathBuf;

/// Of which node, and where to.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The node's name, or its run directory
    node: String,
    /// The file to write, in the place of standard output
    #[arg(long, short)]
    output: Option<PathBuf>,
    /// The store of a node that is gone: what its process has left when it fell
    #[arg(long, value_name = "DIRECTORY")]
    store: Option<PathBuf>,
}

/// All of it. What could not be had says why.
#[derive(Serialize)]
struct Whole {
    /// Of the program that makes the report.
    program: Versions,
    /// As uname(2) has it.
    system: String,
    /// Why the node was not asked, if it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_reachable: Option<String>,
    report: Report,
    status: Option<Value>,
    health: Option<Value>,
    domains: Option<Value>,
    events: Option<Value>,
    journal: Option<Value>,
}

/// Writes the report.
pub(super) fn write(args: &Args) -> anyhow::Result<()> {
    let system = rustix::system::uname();
    let words = [system.sysname(), system.release(), system.version(), system.machine()];
    let system = words.map(|word| word.to_string_lossy().into_owned()).join(" ");
    let (report, none) = (Report::default(), || None);
    let mut whole = Whole {
        program: versions::versions(),
        system,
        not_reachable: None,
        report,
        status: none(),
        health: none(),
        domains: none(),
        events: none(),
        journal: none(),
    };
    if let Err(why) = ask(&args.node, &mut whole) {
        if args.store.is_none() {
            return Err(why).context("of a node that is gone --store DIRECTORY has what its process has left");
        }
        whole.not_reachable = Some(why.to_string());
    }
    if let Some(store) = &args.store {
        whole.report.falls = fall::falls(store);
    }
    let text = serde_json::to_string_pretty(&whole)?;
    match &args.output {
        Some(path) => crate::cli::replace(path, text.as_bytes()).with_context(|| path.display().to_string())?,
        None => crate::say!("{text}"),
    }
    Ok(())
}

fn ask(node: &str, whole: &mut Whole) -> Result<(), ClientError> {
    let mut control = Control::connect(&run_dir(node))?;
    whole.report = control.asked(&Ask::Report)?;
    whole.health = Some(control.ask(&Ask::Health)?);
    whole.events = Some(control.ask(&Ask::Events)?);
    whole.journal = Some(control.ask(&Ask::Journal)?);
    whole.status = Some(control.ask(&Ask::Status)?);
    whole.domains = Some(control.ask(&Ask::Domains)?);
    Ok(())
}
