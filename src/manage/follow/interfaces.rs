//! The interfaces of native ports as they come and go, for the status, and how often that is followed.
//!
//! An interface that comes back needs sockets and programs anew. Whoever can make and delete one could keep a node at
//! that, so a port does it a few times at once, and then by and by. Meanwhile it waits as if the interface were away.

use super::rounds::Rounds;
use crate::frame::PortId;
use crate::sys::netlink::Carrier;
use model::status::Chosen;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often a port is opened anew at once, and after what time once more.
pub const OPENED_AT_ONCE: u32 = 4;
pub const OPENED_AGAIN: Duration = Duration::from_secs(2);

/// What is known of the interface of a native port.
#[derive(Clone, Debug, serde::Serialize)]
pub struct LinkStatus {
    /// The port's number in the node.
    pub port: u16,
    /// The interface.
    pub interface: String,
    /// Whether it is there, waited for, or left alone for a while because it came too often.
    pub state: State,
    /// Whether frames can pass.
    pub carrier: bool,
    /// How often that has changed, as the kernel counts it.
    pub carrier_changes: u32,
    /// How often it has come and gone since the node started.
    pub came: u64,
    /// The same.
    pub went: u64,
    /// What was chosen of the kernel half, where link and traffic decide.
    pub chosen: Option<Chosen>,
}

/// How an interface is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The port serves it.
    There,
    /// The port waits for it.
    Away,
    /// It has come too often, and the port waits until it may be opened again.
    Held,
}

/// What is known of all of them.
#[derive(Debug, Default)]
pub struct Links {
    all: Mutex<Vec<LinkStatus>>,
    /// Whether they are followed no more, nor routes.
    stopped: AtomicBool,
    /// Whether who follows them still comes round.
    pub(super) rounds: Rounds,
}

/// Whether somebody follows interfaces and routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follows {
    /// Or there is nothing to follow.
    Yes,
    /// Nobody does, now or any more.
    Stopped,
    /// Who does comes round no more.
    Stuck,
}

impl Links {
    /// All as it is now.
    pub fn status(&self) -> Vec<LinkStatus> {
        self.list().clone()
    }

    /// Whether somebody follows interfaces and routes; who does is waited for so long.
    pub fn are_followed(&self, within: Duration) -> Follows {
        let is_stopped = || self.stopped.load(Ordering::Relaxed);
        if !is_stopped() && self.rounds.come(within) {
            return Follows::Yes;
        }
        if is_stopped() { Follows::Stopped } else { Follows::Stuck }
    }

    /// Who follows them cannot, or can again.
    pub(super) fn leave_alone(&self, alone: bool) {
        self.stopped.store(alone, Ordering::Relaxed);
    }

    /// One more port, whose interface is there or not.
    pub(super) fn add(&self, port: PortId, interface: &str, there: bool) {
        let state = if there { State::There } else { State::Away };
        let (interface, carrier) = (interface.to_owned(), there);
        let port = port.0;
        let chosen = None;
        self.list().push(LinkStatus { port, interface, state, carrier, carrier_changes: 0, came: 0, went: 0, chosen });
    }

    /// A port is there no more.
    pub(super) fn remove(&self, port: PortId) {
        self.list().retain(|link| link.port != port.0);
    }

    /// The interface of a port has come, or gone, or is held.
    pub(super) fn turn(&self, port: PortId, state: State) {
        self.change(port, |link| {
            let before = std::mem::replace(&mut link.state, state);
            link.went += u64::from(before == State::There);
            link.came += u64::from(state == State::There);
        });
    }

    /// Frames can pass the interface of a port, or not.
    pub(super) fn carries(&self, port: PortId, carrier: Option<Carrier>) {
        self.change(port, |link| {
            link.carrier = carrier.is_some_and(|carrier| carrier.up);
            link.carrier_changes = carrier.map_or(link.carrier_changes, |carrier| carrier.changes);
        });
    }

    /// This was chosen of a port.
    pub(super) fn chose(&self, port: PortId, chosen: Chosen) {
        self.change(port, |link| link.chosen = Some(chosen));
    }

    fn change(&self, port: PortId, change: impl FnOnce(&mut LinkStatus)) {
        if let Some(link) = self.list().iter_mut().find(|link| link.port == port.0) {
            change(link);
        }
    }

    fn list(&self) -> MutexGuard<'_, Vec<LinkStatus>> {
        // Each entry is whole between any two statements.
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How often a port may be opened anew.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Times left, and since when that grows.
    left: u32,
    since: Instant,
}

impl Patience {
    /// Of a port that was just opened first.
    pub fn new(now: Instant) -> Patience {
        Patience { left: OPENED_AT_ONCE, since: now }
    }

    /// Whether it may be opened now; else when.
    pub fn open(&mut self, now: Instant) -> Result<(), Instant> {
        while self.left < OPENED_AT_ONCE && now >= self.since + OPENED_AGAIN {
            self.left += 1;
            self.since += OPENED_AGAIN;
        }
        if self.left == OPENED_AT_ONCE {
            self.since = now;
        }
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(self.since + OPENED_AGAIN),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_opened_a_few_times_at_once_and_then_by_and_by() {
        let begun = Instant::now();
        let mut patience = Patience::new(begun);
        // Ten times a second, for a minute.
        let times = (0..600).map(|tenth| begun + Duration::from_millis(100) * tenth);
        let opened = times.filter(|now| patience.open(*now).is_ok()).count();
        assert_eq!(opened, OPENED_AT_ONCE as usize + 29, "once in two seconds");
        let later = begun + Duration::from_secs(3600);
        assert_eq!((0..9).filter(|_| patience.open(later).is_ok()).count(), OPENED_AT_ONCE as usize, "calm again");
        assert_eq!(patience.open(later), Err(later + OPENED_AGAIN));
        assert_eq!(patience.open(later + OPENED_AGAIN), Ok(()));
    }

    #[test]
    fn what_comes_and_goes_is_counted() {
        let links = Links::default();
        links.add(PortId(3), "eth3", false);
        for state in [State::There, State::Away, State::There, State::Held, State::Away, State::There] {
            links.turn(PortId(3), state);
        }
        let [link] = &links.status()[..] else { panic!("one") };
        assert_eq!((link.came, link.went, link.state), (3, 2, State::There));
    }
}
