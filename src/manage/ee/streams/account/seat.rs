//! The place of one stream or channel in its account.

use super::{Account, Entry, Right, Sockets, Traffic};
use crate::core::domain::DomainId;
use crate::nodeos::interface::Error;
use crate::sys::lock::lock;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The place of one stream or channel; free again when it goes.
pub struct Seat {
    pub(super) account: Arc<Account>,
    pub(super) number: u32,
    pub(super) traffic: Arc<Traffic>,
}

impl Seat {
    /// Its account.
    pub fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Its domain.
    pub fn domain(&self) -> DomainId {
        self.account.domain
    }

    /// Its number, among all of the node.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// From now on it is seen, and cut off when its domain ends. `Stale`: that has ended; `Denied`: the role has changed meanwhile.
    pub fn show(&self, kind: &'static str, (address, right): (String, Right), sockets: Sockets) -> Result<(), Error> {
        let mut held = lock(&self.account.held);
        if self.account.has_ended() {
            return Err(Error::Stale);
        }
        if !right.is_of(&held.grants) {
            return Err(Error::Denied);
        }
        let entry = Entry { kind, address, right, traffic: self.traffic.clone(), sockets };
        held.entries.insert(self.number, Some(entry));
        Ok(())
    }

    /// What has cut it off, if something has.
    pub fn cut(&self) -> Option<Error> {
        self.traffic.cut.get().copied()
    }

    /// A stream was accepted.
    pub fn count_accepted(&self) {
        self.traffic.accepted.fetch_add(1, Ordering::Relaxed);
        self.account.totals.accepted.fetch_add(1, Ordering::Relaxed);
    }

    /// One that came in was refused.
    pub fn count_refused(&self) {
        self.traffic.refused.fetch_add(1, Ordering::Relaxed);
        self.account.totals.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// So many bytes have come, or were sent.
    pub fn count_bytes(&self, bytes: usize, outward: bool) {
        let totals = &self.account.totals;
        let all = if outward { &totals.bytes_out } else { &totals.bytes_in };
        for count in [&self.traffic.bytes, all] {
            count.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        lock(&self.account.held).entries.remove(&self.number);
        self.account.totals.open.fetch_sub(1, Ordering::Relaxed);
    }
}
