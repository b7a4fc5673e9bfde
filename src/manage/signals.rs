//! What a node does on SIGINT, SIGTERM and SIGHUP.

use super::apply::wish::Wish;
use super::control::Handle;
use super::worker::Order;
use crate::sys::notify::Notifier;
use crate::sys::threads::{self, Duty};
use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::IsTerminal as _;

/// What is kept of signals until the node obeys them.
pub struct Signals(signal_hook::iterator::Signals);

/// Keeps hang-ups from now on: one that comes while the node starts has its file read again when it works, and does not kill it. What is to
/// stop it does so at once until then.
pub fn keep_signals() -> Result<Signals> {
    signal_hook::iterator::Signals::new([SIGHUP]).map(Signals).context("cannot wait for signals")
}

/// Lets the node stop in good order on SIGINT and SIGTERM, and take over what its file says on SIGHUP; where that says that
/// the terminal is gone which the node was started at, it stops too.
pub fn obey_signals(Signals(mut signals): Signals, handle: Handle, manager: Notifier) -> Result<()> {
    for signal in [SIGINT, SIGTERM] {
        signals.add_signal(signal).context("cannot wait for signals")?;
    }
    let at_terminal = std::io::stderr().is_terminal();
    threads::start("anode-signals", Duty::Ticks, move || {
        for signal in signals.forever() {
            let hung_up = at_terminal && !std::io::stderr().is_terminal();
            if signal != SIGHUP || hung_up {
                // A worker that is gone already needs no telling.
                let _ = handle.order(Order::Stop);
                return;
            }
            // What comes of it is in the log: another signal does not wait for it.
            manager.reloading();
            let told = manager.clone();
            let done = Box::new(move |_| told.ready());
            if let Err(why) = handle.begin_configuring(Wish::Reread, "SIGHUP", done) {
                tracing::warn!(why, "the configuration is not read again");
                manager.ready();
            }
        }
    })?;
    Ok(())
}
