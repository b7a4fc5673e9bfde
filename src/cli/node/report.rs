//! `anode node report`: one file for whoever looks for a fault: versions, configuration without keys, status, health, events, log, and
//! what processes have left that fell. Of a node that is gone, what it has left in its store.

use crate::log::fall;
use crate::manage::client::{ClientError, Control, run_dir};
use crate::manage::observe::versions;
use anyhow::{Context as _, bail};
use model::Ask;
use model::health::Whole;
use std::path::{Path, PathBuf};

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

/// Writes the report.
pub(super) fn write(args: &Args) -> anyhow::Result<()> {
    let system = rustix::system::uname();
    let words = [system.sysname(), system.release(), system.version(), system.machine()];
    let system = words.map(|word| word.to_string_lossy().into_owned()).join(" ");
    let mut whole = Whole { program: versions::versions(), system, ..Whole::default() };
    if let Err(why) = ask(&args.node, &mut whole) {
        if args.store.is_none() {
            return Err(why).context("of a node that is gone --store DIRECTORY has what its process has left");
        }
        whole.not_reachable = Some(why.to_string());
    }
    if let Some(store) = &args.store {
        check_store(store)?;
        whole.report.falls = fall::falls(store);
    }
    let text = serde_json::to_string_pretty(&whole)?;
    match &args.output {
        Some(path) => crate::cli::replace(path, text.as_bytes()).with_context(|| path.display().to_string())?,
        None => crate::say!("{text}"),
    }
    Ok(())
}

/// What every store has (`code/store/disk.rs`).
const OBJECTS: &str = "objects";

/// Refuses what no node has used as its store.
fn check_store(store: &Path) -> anyhow::Result<()> {
    let shown = store.display();
    std::fs::read_dir(store).with_context(|| format!("{shown} cannot be read as the store of a node"))?;
    if !store.join(OBJECTS).exists() && !fall::is_kept_in(store) {
        bail!("{shown} is no store of a node: give the directory that its configuration has as store");
    }
    Ok(())
}

fn ask(node: &str, whole: &mut Whole) -> Result<(), ClientError> {
    let mut control = Control::connect(&run_dir(node))?;
    whole.report = control.asked(&Ask::Report)?;
    whole.health = Some(control.asked(&Ask::Health)?);
    whole.events = Some(control.asked(&Ask::Events)?);
    whole.journal = Some(control.asked(&Ask::Journal)?);
    whole.status = Some(control.asked(&Ask::Status)?);
    whole.domains = Some(control.asked(&Ask::Domains)?);
    Ok(())
}
