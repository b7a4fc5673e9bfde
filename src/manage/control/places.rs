//! Places of connections to the control socket.
//!
//! Example: 32 connections are open and say nothing; the next one takes the place of the one that has waited longest.
//! What a connection waits for is the other end's to do: ask, or take its answer. A new one has a moment to ask. While
//! the node works on a request it keeps its place; but who has had an answer goes when another wants a place. So who
//! may open the socket keeps its operator from nothing, be he silent, slow, deaf or busy: all come in their turn.

use super::super::connections::Counts;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// For how long a new connection may ask before it gives way.
const GRACE: Duration = Duration::from_millis(100);

/// For how long another one is waited for that gives way.
const PATIENCE: Duration = Duration::from_secs(2);

/// A connection that has a place.
struct Open {
    stream: Arc<UnixStream>,
    /// Since when it has waited for the other end; nothing: the node works on its request.
    waits: Option<Instant>,
    /// Whether it has asked anything.
    has_asked: bool,
}

impl Open {
    /// From when on it gives way, if it waits.
    fn gives_way(&self) -> Option<Instant> {
        self.waits.map(|since| if self.has_asked { since } else { since + GRACE })
    }
}

/// Those that have one, by number.
#[derive(Default)]
struct Table {
    open: BTreeMap<u64, Open>,
    next: u64,
    /// Whether another one waits for a place.
    wanted: bool,
}

/// All places.
#[derive(Clone)]
pub(super) struct Places {
    table: Arc<Mutex<Table>>,
    /// Told when a place is free, or who has it waits.
    changed: Arc<Condvar>,
    most: usize,
    counts: Arc<Counts>,
}

/// A place; free again when it goes, if no other connection has it already.
pub(super) struct Place {
    places: Places,
    number: u64,
    pub(super) stream: Arc<UnixStream>,
}

impl Places {
    /// So many.
    pub(super) fn new(most: usize, counts: Arc<Counts>) -> Places {
        Places { table: Arc::default(), changed: Arc::default(), most, counts }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // What it holds is right between any two statements.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place, if need be that of the one which has waited longest; nothing: the node works for all, and for long.
    pub(super) fn take(&self, stream: &Arc<UnixStream>) -> Option<Place> {
        let (mut table, end) = (self.table(), Instant::now() + PATIENCE);
        while table.open.len() >= self.most {
            let first = table.open.iter().filter_map(|(number, open)| Some((open.gives_way()?, *number))).min();
            let now = Instant::now();
            if let Some((_, number)) = first.filter(|(at, _)| *at <= now) {
                // It may be broken already.
                let _ = table.open.remove(&number).map(|open| open.stream.shutdown(Shutdown::Both));
                self.counts.displaced();
                break;
            }
            if now >= end {
                table.wanted = false;
                self.counts.refused();
                return None;
            }
            table.wanted = true;
            let left = first.map_or(end, |(at, _)| at.min(end)) - now;
            table = self.changed.wait_timeout(table, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        table.wanted = false;
        let number = table.next;
        table.next += 1;
        table.open.insert(number, Open { stream: stream.clone(), waits: Some(Instant::now()), has_asked: false });
        drop(table);
        Some(Place { places: self.clone(), number, stream: stream.clone() })
    }
}

impl Place {
    /// The node works on a request from now on; false: the place is another's.
    pub(super) fn works(&self) -> bool {
        self.set(None)
    }

    /// It waits for the other end to take its answer from now on; false: the place is another's.
    pub(super) fn waits(&self) -> bool {
        self.set(Some(Instant::now()))
    }

    fn set(&self, waits: Option<Instant>) -> bool {
        let mut table = self.places.table();
        let Some(open) = table.open.get_mut(&self.number) else { return false };
        (open.waits, open.has_asked) = (waits, true);
        self.places.changed.notify_all();
        true
    }

    /// It has had its answer: whether it may ask more, since no other wants its place.
    pub(super) fn stays(&self) -> bool {
        let mut table = self.places.table();
        let goes = table.wanted && table.open.remove(&self.number).is_some();
        if goes {
            self.places.counts.displaced();
            self.places.changed.notify_all();
        }
        !goes && table.open.contains_key(&self.number)
    }

    /// Whether the other end is closed.
    pub(super) fn is_hung_up(&self) -> bool {
        let mut seen = [PollFd::new(&*self.stream, PollFlags::empty())];
        // An error is no end: the next answer meets it.
        poll(&mut seen, Some(&Timespec::default())).is_ok() && seen[0].revents().contains(PollFlags::HUP)
    }

    /// It was closed that had not said in time what it wants.
    pub(super) fn was_silent(&self) {
        self.places.counts.silent();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.table().open.remove(&self.number);
        self.places.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};

    fn connection() -> (Arc<UnixStream>, UnixStream) {
        let (here, there) = UnixStream::pair().unwrap();
        (Arc::new(here), there)
    }

    #[test]
    fn who_has_waited_longest_gives_way_and_nobody_for_whom_the_node_works() {
        let counts = Arc::new(Counts::default());
        let places = Places::new(2, counts.clone());
        let [(one, mut first), (two, _second), (three, _third), (four, mut fourth)] = [(); 4].map(|()| connection());
        let one = places.take(&one).unwrap();
        let two = places.take(&two).unwrap();
        assert!(one.works(), "so the other has waited longest");
        let three = places.take(&three).unwrap();
        assert!(!two.works() && !two.waits() && !two.stays() && three.works());
        drop(two);
        assert!(places.take(&four).is_none(), "nobody waits");
        assert!(one.waits());
        let fourth_place = places.take(&four).unwrap();
        assert!(!one.stays() && three.stays(), "nobody else wants one");
        assert_eq!(first.read(&mut [0; 1]).unwrap(), 0, "closed");
        drop((one, three));
        assert!(fourth_place.works());
        fourth_place.stream.as_ref().write_all(b"x").unwrap();
        fourth.read_exact(&mut [0; 1]).unwrap();
        let status = counts.status();
        assert_eq!((status.displaced, status.refused), (2, 1), "{status:?}");
        drop(fourth_place);
        assert!(places.table().open.is_empty());
    }

    #[test]
    fn who_asks_all_the_time_goes_when_another_wants_a_place() {
        let places = Places::new(1, Arc::default());
        let [(busy, _one), (other, _two)] = [(); 2].map(|()| connection());
        let place = places.take(&busy).unwrap();
        assert!(place.works());
        let taking = std::thread::spawn({
            let places = places.clone();
            move || places.take(&other).is_some()
        });
        // It works but for the moments in which it says an answer.
        while place.works() && place.waits() && place.works() && place.stays() {}
        assert!(taking.join().unwrap());
    }
}
