//! Routes that extensions set while the node runs. Example: a static routing sets 10.2.0.0/16 by 10.0.0.2, until it is unloaded.
//!
//! ```text
//! a call of an extension ─▶ table, which is no other's ─▶ the thread that follows routes wakes ─▶ kernel half, workers
//! ```
//!
//! They are the node's as those of its configuration are: told to both halves, and before the kernel's. The configuration's come first. Of
//! two extensions with a route to the same network, the one counts whose name is first; what an operator sets counts before both. A next
//! hop that no port has in its subnet any more leads nowhere until one has it again. Whoever sets one does not wait: the thread that keeps
//! extensions may not tell the kernel half, and whoever applies a configuration may have the follower meanwhile.

use crate::code::extension::every_node::is_built_in;
use crate::code::extension::given::{NOT_FOUND, TOO_BIG};
use crate::config::routes::is_behind;
use crate::sys::lock::lock;
use crate::sys::poll::Waker;
use crate::topology::{Neighbour, NextHop, Port, RouteChange, Routes};
use crate::wire::Prefix;
use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock};

/// Routes of all extensions, and of operators besides.
pub const BROUGHT_MAX: usize = 1024;
pub const OPERATORS_MAX: usize = 64;

/// As who operators set routes: it comes before all names of extensions.
const OPERATOR: &str = "";

/// Routes that extensions have set.
#[derive(Default)]
pub struct BroughtRoutes {
    table: Mutex<Table>,
    /// What wakes the thread that follows routes: while it does, and while it waits for something to follow.
    wakes: OnceLock<(Waker, Box<dyn Fn() + Send + Sync>)>,
}

#[derive(Default)]
struct Table {
    /// The next node to each network, and its port, by the extension that has said so.
    all: BTreeMap<(String, Prefix), NextHop>,
    /// Whether something has changed that is not told yet.
    changed: bool,
    /// Whether somebody follows what the kernel tells.
    watched: bool,
}

impl BroughtRoutes {
    /// From now on these wake who follows routes, and who waits for something to follow.
    pub fn wake_by(&self, waker: Waker, tell: impl Fn() + Send + Sync + 'static) {
        // There is one thread.
        let _ = self.wakes.set((waker, Box::new(tell)));
    }

    /// Whether the thread follows what the kernel tells, or waits for something to follow.
    pub fn watch(&self, watched: bool) {
        let mut table = lock(&self.table);
        table.watched = watched;
        if !watched && table.changed {
            // Whoever followed has not told it any more.
            self.wakes.get().into_iter().for_each(|(_, tell)| tell());
        }
    }

    /// An extension's route to a network is by this node from now on; a number says why not.
    pub fn set(&self, whose: &str, to: Prefix, next: NextHop) -> Result<(), i32> {
        let key = (owner(whose), to);
        let mut table = lock(&self.table);
        let is_operators = |key: &(String, Prefix)| key.0 == OPERATOR;
        let count = table.all.keys().filter(|known| is_operators(known) == is_operators(&key)).count();
        let most = if is_operators(&key) { OPERATORS_MAX } else { BROUGHT_MAX };
        if count >= most && !table.all.contains_key(&key) {
            return Err(TOO_BIG);
        }
        table.all.insert(key, next);
        self.are_others(&mut table);
        Ok(())
    }

    /// It has none any more.
    pub fn remove(&self, whose: &str, to: Prefix) -> Result<(), i32> {
        let mut table = lock(&self.table);
        table.all.remove(&(owner(whose), to)).ok_or(NOT_FOUND)?;
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
        let told = core::mem::replace(&mut table.changed, true);
        let Some((waker, tell)) = self.wakes.get() else { return };
        if table.watched {
            waker.wake();
        } else if !told {
            tell();
        }
    }

    /// Whether something has changed since somebody asked last.
    pub fn take_news(&self) -> bool {
        core::mem::take(&mut lock(&self.table).changed)
    }

    /// These routes, and those of extensions behind them, as far as their next nodes are behind ports.
    pub fn behind(&self, mut fixed: Routes, (ports, neighbours): (&[Port], &[Neighbour])) -> Routes {
        for ((_, to), next) in &lock(&self.table).all {
            if fixed.get(*to).is_none() && is_behind(ports, neighbours, *next) {
                fixed.change(RouteChange { to: *to, now: Some(Some(*next)) });
            }
        }
        fixed
    }
}

/// Whose route it is: what an operator calls of `ways` is his own.
fn owner(whose: &str) -> String {
    if is_built_in(whose) { OPERATOR } else { whose }.to_owned()
}

#[cfg(test)]
mod tests;
