//! Places for sessions, with shares: each user has a share of the places of operators' processes ([`Shares`]), each
//! environment a number of its own. So nobody takes another's last place.
//!
//! Connections without a greeting have fewer places, and a time limit ([`super::GREETING`]). An entry exists while
//! somebody has a place, so there are no more of them than places.

use crate::core::bucket::TokenBucket;
use crate::core::domain::DomainId;
use crate::frame::shares::Shares;
use crate::manage::connections::Counts;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Sessions of all processes that operators connect; half of them are there for one user alone.
pub const USERS_SESSIONS_MAX: u64 = 128;

/// The same for connections that have not said hello.
pub const USERS_GREETING_MAX: u64 = 16;

/// Sessions of one environment. The configuration says how many environments there are.
pub const ENVIRONMENT_SESSIONS_MAX: u64 = 16;

/// Connections of one environment that have not said hello.
pub const ENVIRONMENT_GREETING_MAX: u64 = 8;

/// CPU time of the node that one holder's connections and their calls may cost, in nanoseconds a second, and at once: a quarter of a CPU.
/// Who has had more is answered, and heard again when that has come back.
pub const CALLS_NS_PER_SECOND: u64 = 250_000_000;
/// See [`CALLS_NS_PER_SECOND`].
pub const CALLS_BURST_NS: u64 = 50_000_000;

/// Whose a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Holder {
    /// A user's of this host, by the socket in the run directory.
    User(u32),
    /// An environment's, by its domain.
    Environment(DomainId),
}

/// Places of one kind.
struct Taken {
    users: Shares<u32>,
    environments: Shares<DomainId>,
    /// Of one environment.
    most: u64,
}

impl Taken {
    fn new(users: u64, most: u64) -> Taken {
        Taken { users: Shares::new(users), environments: Shares::new(u64::MAX), most }
    }

    fn take(&mut self, holder: Holder) -> bool {
        match holder {
            Holder::User(uid) => self.users.take(uid, 1),
            Holder::Environment(domain) => {
                self.environments.of(domain) < self.most && self.environments.take(domain, 1)
            }
        }
    }

    fn has(&self, holder: Holder) -> bool {
        match holder {
            Holder::User(uid) => self.users.of(uid) > 0,
            Holder::Environment(domain) => self.environments.of(domain) > 0,
        }
    }

    fn give(&mut self, holder: Holder) {
        match holder {
            Holder::User(uid) => self.users.give(uid, 1),
            Holder::Environment(domain) => self.environments.give(domain, 1),
        }
    }
}

/// All places, and of them those for connections that have not said hello.
struct Places {
    sessions: Taken,
    greeting: Taken,
    /// What connections of each holder and their calls may cost, for as long as it has sessions or owes anything.
    calls: HashMap<Holder, TokenBucket>,
}

/// The places of a node.
#[derive(Clone)]
pub struct Seats {
    places: Arc<Mutex<Places>>,
    counts: Arc<Counts>,
}

/// A place; free again when it goes.
pub struct Seat {
    seats: Seats,
    holder: Holder,
    greeting: bool,
}

impl Seats {
    /// All of them free; whoever finds none is counted.
    pub fn new(counts: Arc<Counts>) -> Seats {
        let sessions = Taken::new(USERS_SESSIONS_MAX, ENVIRONMENT_SESSIONS_MAX);
        let greeting = Taken::new(USERS_GREETING_MAX, ENVIRONMENT_GREETING_MAX);
        Seats { places: Arc::new(Mutex::new(Places { sessions, greeting, calls: HashMap::new() })), counts }
    }

    /// A place for a connection that has not said hello, if its holder may have one more.
    pub fn take(&self, holder: Holder) -> Option<Seat> {
        let mut places = self.places();
        if !places.sessions.take(holder) {
            self.counts.refused();
            return None;
        }
        if !places.greeting.take(holder) {
            places.sessions.give(holder);
            self.counts.refused();
            return None;
        }
        drop(places);
        Some(Seat { seats: self.clone(), holder, greeting: true })
    }

    /// Connections of a holder, or calls by them, have cost the node so many nanoseconds of CPU time. Says how long it has to wait for
    /// that, if at all.
    pub fn called(&self, holder: Holder, now: u64, cost: u64) -> Option<Duration> {
        let mut places = self.places();
        if !places.calls.contains_key(&holder) {
            // Who has no session and owes nothing is forgotten: a new connection gains nothing.
            let Places { sessions, calls, .. } = &mut *places;
            calls.retain(|holder, bucket| sessions.has(*holder) || !bucket.take(now, CALLS_BURST_NS));
        }
        let full = || TokenBucket::new(CALLS_NS_PER_SECOND, CALLS_BURST_NS);
        let bucket = places.calls.entry(holder).or_insert_with(full);
        bucket.charge(now, cost);
        self.counts.cost(cost);
        let owed = u64::try_from(-bucket.tokens()).ok().filter(|owed| *owed > 0)?;
        self.counts.slowed();
        Some(Duration::from_nanos(owed * (1_000_000_000 / CALLS_NS_PER_SECOND)))
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        // What it holds is right between any two statements.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// Its connection has said nothing in time.
    pub fn silent(&self) {
        self.seats.counts.silent();
    }

    /// Whose it is.
    pub fn holder(&self) -> Holder {
        self.holder
    }

    /// Its connection has said hello.
    pub fn greeted(&mut self) {
        if std::mem::take(&mut self.greeting) {
            self.seats.places().greeting.give(self.holder);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.greeted();
        self.seats.places().sessions.give(self.holder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_paid_for_by_their_holder_and_a_new_connection_gains_nothing() {
        const MS: u64 = 1_000_000;
        let seats = Seats::new(Arc::default());
        let [caller, other] = [1, 2].map(|uid| seats.take(Holder::User(uid)).unwrap());
        let called = |seat: &Seat, now, cost| seats.called(seat.holder(), now, cost);
        assert_eq!(called(&caller, MS, CALLS_BURST_NS), None, "a burst is free");
        assert_eq!(called(&caller, MS, MS), Some(Duration::from_millis(4)), "a quarter of a CPU");
        assert_eq!(called(&other, MS, MS), None);
        drop(caller);
        let again = seats.take(Holder::User(1)).unwrap();
        assert_eq!(called(&again, MS, MS), Some(Duration::from_millis(8)), "what was owed is owed");
        assert_eq!(called(&again, 500 * MS, MS), None);
        assert_eq!(seats.counts.status().slowed, 2);
        drop(again);
        let third = seats.take(Holder::User(3)).unwrap();
        assert_eq!(called(&third, 10_000 * MS, 1), None);
        assert_eq!(seats.places().calls.len(), 2, "who is gone and owes nothing is forgotten");
    }

    #[test]
    fn nobody_takes_the_places_of_others() {
        let seats = Seats::new(Arc::default());
        let half_open: Vec<_> = (0..200).map_while(|_| seats.take(Holder::User(1000))).collect();
        assert_eq!(half_open.len() as u64, USERS_GREETING_MAX / 2);
        let fill = |holder: Holder| {
            let one = || {
                let mut seat = seats.take(holder)?;
                seat.greeted();
                Some(seat)
            };
            (0..200).map_while(|_| one()).collect::<Vec<_>>()
        };
        let users: Vec<_> = (0..4).map(|uid| fill(Holder::User(uid))).collect();
        assert_eq!(users[0].len() as u64, (USERS_SESSIONS_MAX - USERS_GREETING_MAX / 2) / 2, "half of what is left");
        assert!(users.iter().all(|own| !own.is_empty()));
        assert!(seats.take(Holder::User(4)).is_some(), "for whoever has none there is one");
        let environments: Vec<_> = (5..8).map(|number| fill(Holder::Environment(DomainId(number)))).collect();
        assert!(environments.iter().all(|own| own.len() as u64 == ENVIRONMENT_SESSIONS_MAX));
        let domain = Holder::Environment(DomainId(9));
        let half_open_too: Vec<_> = (0..200).map_while(|_| seats.take(domain)).collect();
        assert_eq!(half_open_too.len() as u64, ENVIRONMENT_GREETING_MAX);
        drop((half_open, half_open_too, users, environments));
        let places = seats.places();
        for taken in [&places.sessions, &places.greeting] {
            assert_eq!((taken.users.held(), taken.environments.held()), (0, 0), "nothing is left");
        }
    }
}
