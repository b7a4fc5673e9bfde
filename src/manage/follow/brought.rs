//! Routes that extensions set while the node runs. Example: a static routing sets 10.2.0.0/16 by 10.0.0.2, until it is unloaded.
//!
//! ```text
//! a call of an extension ─▶ table, which is no other's ─▶ the thread that follows routes wakes ─▶ kernel half, workers
//! ```
//!
//! They are the node's as those of its configuration are: told to both halves, and before the kernel's. The configuration's come first. Of
//! two extensions with a route to the same network, the one counts whose name is first. A next hop that no port has in its subnet any more
//! leads nowhere until one has it again. Whoever sets one does not wait: the thread that keeps extensions may not tell the kernel half, and
//! whoever applies a configuration may have the follower meanwhile.

use crate::code::extension::built_in::{TOO_MANY, UNKNOWN};
use crate::config::routes::port_towards;
use crate::node::NodeConfig;
use crate::sys::lock::lock;
use crate::sys::poll::Waker;
use crate::topology::{NextHop, RouteChange, Routes};
use crate::wire::{Addr, Prefix};
use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock};

/// Routes of all extensions.
pub const BROUGHT_MAX: usize = 1024;

/// Routes that extensions have set.
#[derive(Default)]
pub struct BroughtRoutes {
    table: Mutex<Table>,
    /// What wakes the thread that follows routes: while it does, and while it waits for something to follow.
    wakes: OnceLock<(Waker, Box<dyn Fn() + Send + Sync>)>,
}

#[derive(Default)]
struct Table {
    /// The next node to each network, by the extension that has said so.
    all: BTreeMap<(String, Prefix), Addr>,
    /// Whether something has changed that is not told yet.
    changed: bool,
    /// Whether somebody follows what the kernel tells.
    watched: bool,
}

impl BroughtRoutes {
    /// From now on these wake who follows routes, and who waits for something to follow.
    pub fn wake_by(&self, waker: Waker, begin: impl Fn() + Send + Sync + 'static) {
        // There is one thread.
        let _ = self.wakes.set((waker, Box::new(begin)));
    }

    /// Whether the thread follows what the kernel tells, or waits for something to follow.
    pub fn watch(&self, watched: bool) {
        lock(&self.table).watched = watched;
    }

    /// An extension's route to a network is by this node from now on; a number says why not.
    pub fn set(&self, whose: &str, to: Prefix, via: Addr) -> Result<(), i32> {
        let key = (whose.to_owned(), to);
        let mut table = lock(&self.table);
        if table.all.len() >= BROUGHT_MAX && !table.all.contains_key(&key) {
            return Err(TOO_MANY);
        }
        table.all.insert(key, via);
        self.are_others(&mut table);
        Ok(())
    }

    /// It has none any more.
    pub fn remove(&self, whose: &str, to: Prefix) -> Result<(), i32> {
        let mut table = lock(&self.table);
        table.all.remove(&(whose.to_owned(), to)).ok_or(UNKNOWN)?;
        self.are_others(&mut table);
        Ok(())
    }

    /// An extension is gone, and all its routes.
    pub fn withdraw(&self, whose: &str) {
        let mut table = lock(&self.table);
        let before = table.all.len();
        table.all.retain(|(of, _), _| of != whose);
        if table.all.len() < before {
            self.are_others(&mut table);
        }
    }

    fn are_others(&self, table: &mut Table) {
        let Some((waker, begin)) = self.wakes.get() else { return };
        let told = core::mem::replace(&mut table.changed, true);
        if table.watched {
            waker.wake();
        } else if !told {
            begin();
        }
    }
}

impl BroughtRoutes {
    /// Whether something has changed since somebody asked last.
    pub fn take_news(&self) -> bool {
        core::mem::take(&mut lock(&self.table).changed)
    }

    /// These routes, and those of extensions behind them, as far as their next nodes are behind ports.
    pub fn behind(&self, mut fixed: Routes, config: &NodeConfig) -> Routes {
        for ((_, to), via) in &lock(&self.table).all {
            if let Some(port) = port_towards(config, *via).filter(|_| fixed.get(*to).is_none()) {
                fixed.change(RouteChange { to: *to, now: Some(Some(NextHop { port, via: *via })) });
            }
        }
        fixed
    }
}
