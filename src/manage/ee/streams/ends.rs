//! What cuts streams off: their domain ends, or its role gives them no more.
//!
//! ```text
//! worker: the domain is dropped, or acts in another role ─▶ an order ─▶ a thread of the sessions: sockets are shut
//! ```
//!
//! The worker marks the account and goes on: shutting thousands of sockets is the thread's, and so are the locks for it. An account that
//! has ended begins nothing more from that mark on.

use super::account::Account;
use crate::core::domain::OwnsStreams;
use crate::sys::clock::Clock;
use crate::sys::threads::{self, Duty};
use crate::trust::Role;
use core::fmt;
use std::io;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};

/// What becomes of a domain's streams.
enum Change {
    End(Arc<Account>),
    Renew(Arc<Account>, Arc<Role>, u64),
}

impl Change {
    fn carry_out(self, now: u64) {
        match self {
            Change::End(account) => account.end(),
            Change::Renew(account, role, bandwidth) => account.renew(&role.streams, bandwidth, now),
        }
    }
}

/// The way to the thread, as soon as there is one.
#[derive(Default)]
pub(super) struct Changes(OnceLock<Sender<Change>>);

impl Changes {
    /// Starts it; it ends with the last of those who may give it something to do.
    pub(super) fn serve(&self, clock: Clock) -> io::Result<()> {
        let (changes, inbox) = channel::<Change>();
        threads::start("anode-ee-ends", Duty::Sessions, move || {
            inbox.into_iter().for_each(|change| change.carry_out(clock.now()));
        })?;
        self.0.set(changes).map_err(|_| io::Error::other("streams are served already"))
    }

    /// What a domain is to hold.
    pub(super) fn ends(&self, account: Arc<Account>) -> Ends {
        Ends { account, changes: self.0.get().cloned() }
    }
}

/// What ends the streams of a domain when it goes: the domain's own, at its worker.
pub struct Ends {
    account: Arc<Account>,
    /// Without a thread it is done at once, as in tests.
    changes: Option<Sender<Change>>,
}

impl fmt::Debug for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ends").finish_non_exhaustive()
    }
}

impl Ends {
    fn tell(&self, change: Change) {
        let left = match &self.changes {
            Some(changes) => changes.send(change).map_err(|unsent| unsent.0).err(),
            None => Some(change),
        };
        left.into_iter().for_each(|change| change.carry_out(0));
    }
}

impl OwnsStreams for Ends {
    fn renew(&self, role: &Arc<Role>, bandwidth: u64) {
        self.tell(Change::Renew(self.account.clone(), role.clone(), bandwidth));
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        self.account.mark_ended();
        self.tell(Change::End(self.account.clone()));
    }
}
