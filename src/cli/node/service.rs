//! `anode node run` and `anode node helper`: a node, or what it does by privileges, as a process in the foreground.

use crate::broker::{self, apart};
use crate::config::NodeFile;
use crate::log::journald::Journald;
use crate::log::sieve::Sieve;
use crate::log::{Log, fall, level};
use crate::manage::control::Handle;
use crate::sys::notify::Notifier;
use crate::sys::threads::{self, Duty};
use anyhow::Context as _;
use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, reload};

/// Lets what is logged go to standard error: for people at a terminal, to the journal with its fields, else as JSON. A node's own
/// threads write it later.
fn begin_log() -> Log {
    let filter = EnvFilter::try_from_env("ANODE_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let (filter, changing) = reload::Layer::new(Sieve::new(filter));
    level::is_changed_by(Box::new(move |directives| {
        let filter = EnvFilter::try_new(directives).map_err(|error| error.to_string())?;
        changing.reload(Sieve::new(filter)).map_err(|error| error.to_string())
    }));
    let log = Log::default();
    let all = tracing_subscriber::registry().with(filter).with(log.limits());
    if let Some(journal) = Journald::of_environment() {
        all.with(log.journal(journal)).init();
        return log;
    }
    let lines = tracing_subscriber::fmt::layer();
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
    let mut plan = crate::manage::Planned::with(file, helper.is_some()).with_context(|| path.display().to_string())?;
    plan.text = file.text.to_string();
    match helper {
        Some(socket) => apart::join(file, socket)?,
        None => broker::begin(file)?,
    }
    let _settled = log.start()?;
    if let Some(store) = &file.store
        && let Err(error) = fall::keep_in(&broker::reach(store))
    {
        tracing::warn!(%error, "should the node fall, no report is left of it");
    }
    // Whoever finds the node answering may send it one.
    let signals = crate::manage::keep_signals()?;
    let node = crate::manage::assemble_planned(file, plan)?;
    broker::ask(&broker::Request::Runs, &[])?;
    crate::manage::obey_signals(signals, node.handle(), notifier.clone())?;
    tracing::info!(node = file.name, run_dir = %file.run_dir().display(), "node runs");
    notifier.ready();
    if let Some(patience) = notifier.watchdog() {
        watch_worker(node.handle(), notifier.clone(), patience)?;
    }
    let ended = node.run();
    notifier.stopping();
    ended?;
    tracing::info!(node = file.name, "node is down");
    Ok(())
}

/// Tells the service manager, thrice as often as it wants to be told, that the workers come round, as long as they do.
fn watch_worker(handle: Handle, notifier: Notifier, patience: Duration) -> anyhow::Result<()> {
    threads::start("anode-watchdog", Duty::Ticks, move || {
        loop {
            std::thread::sleep(patience / 3);
            // Who has gone is told of by its process's end.
            match handle.comes_round(patience / 3) {
                Ok(Some(_)) => notifier.comes_round(),
                Ok(None) => tracing::error!("a worker does not come round"),
                Err(_) => return,
            }
        }
    })?;
    Ok(())
}
