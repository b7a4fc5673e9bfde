//! `anode node run` and `anode node helper`: a node, or what it does by privileges, as a process in the foreground.

use crate::broker::{self, apart};
use crate::config::NodeFile;
use crate::log::Log;
use crate::sys::notify::Notifier;
use anyhow::Context as _;
use std::io::IsTerminal;
use std::path::Path;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Lets what is logged go to standard error: for people at a terminal, else as JSON. A node's own threads write it later.
fn begin_log() -> Log {
    let filter = tracing_subscriber::EnvFilter::try_from_env("ANODE_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let log = Log::default();
    let (all, lines) =
        (tracing_subscriber::registry().with(filter).with(log.limits()), tracing_subscriber::fmt::layer());
    // No colours: all control characters in a log are somebody else's, and cleaned.
    let lines = lines.with_writer(log.clone()).with_ansi(false);
    if std::io::stderr().is_terminal() {
        all.with(lines).init()
    } else {
        all.with(lines.json()).init()
    }
    log
}

/// Is the helper of the node of a configuration, to that node's end; or mounts what it cannot.
pub(super) fn help(path: &Path, mount: bool) -> anyhow::Result<()> {
    let file = &NodeFile::read(path)?.placed();
    if mount {
        return apart::mount(file);
    }
    let _log = begin_log();
    let notifier = Notifier::of_environment().context("the service manager cannot be told")?;
    apart::serve(file, || {
        tracing::info!(node = file.name, run_dir = %file.run_dir().display(), "the helper waits for its node");
        notifier.ready();
    })
}

/// Runs the node of a configuration to its end, with the helper that listens there or with one of its own.
pub(super) fn run(path: &Path, helper: Option<&Path>) -> anyhow::Result<()> {
    let file = &NodeFile::read(path)?.placed();
    let log = begin_log();
    let notifier = Notifier::of_environment().context("the service manager cannot be told")?;
    file.changed_defaults().iter().for_each(|line| tracing::info!("changed default: {line}"));
    file.remarks().iter().for_each(|line| tracing::warn!("{line}"));
    if file.cpu.realtime {
        // Before wasm has its memories, which cannot be locked, and as long as there is the right to.
        crate::sys::realtime::lock_memory()?;
    }
    // A code of the kernel half has two, its map and the program that changes that; there are 1,024 of them.
    if let Err(error) = crate::sys::process::raise_descriptors() {
        tracing::warn!(%error, "the node has as many descriptors as it began with");
    }
    let plan = crate::manage::Planned::with(file, helper.is_some()).with_context(|| path.display().to_string())?;
    match helper {
        Some(socket) => apart::join(file, socket)?,
        None => broker::begin(file)?,
    }
    let _settled = log.start()?;
    let node = crate::manage::assemble_planned(file, plan)?;
    broker::ask(&broker::Request::Runs, &[])?;
    crate::manage::obey_signals(node.handle())?;
    tracing::info!(node = file.name, run_dir = %file.run_dir().display(), "node runs");
    notifier.ready();
    let ended = node.run();
    notifier.stopping();
    ended?;
    tracing::info!(node = file.name, "node is down");
    Ok(())
}
