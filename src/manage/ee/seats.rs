//! Who has how many sessions: a quota for each user and each environment, so that nobody takes the last place of another.
//!
//! A connection that has not said hello has a smaller quota, and a time ([`super::GREETING`]). Entries are there as long as somebody
//! has a place, so there are no more of them than places.

use crate::nodeos::domain::DomainId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Sessions of one user's processes, those that say hello included.
pub const USER_SESSIONS_MAX: usize = 48;

/// Sessions of all processes that operators connect.
pub const USERS_SESSIONS_MAX: usize = 128;

/// Sessions of one environment.
pub const ENVIRONMENT_SESSIONS_MAX: usize = 16;

/// Connections of one holder that have not said hello.
pub const GREETING_MAX: usize = 8;

/// Whose a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Holder {
    /// A user's of this host, by the socket in the run directory.
    User(u32),
    /// An environment's, by its domain.
    Environment(DomainId),
}

#[derive(Default)]
struct Taken {
    greeting: usize,
    sessions: usize,
}

/// The places of a node.
#[derive(Clone, Default)]
pub struct Seats(Arc<Mutex<HashMap<Holder, Taken>>>);

/// A place; free again when it goes.
pub struct Seat {
    seats: Seats,
    holder: Holder,
    greeting: bool,
}

impl Seats {
    /// A place for a connection that has not said hello, if its holder may have one more.
    pub fn take(&self, holder: Holder) -> Option<Seat> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_user = |holder: &Holder| matches!(holder, Holder::User(_));
        let users: usize = all.iter().filter(|(other, _)| is_user(other)).map(|(_, taken)| taken.sessions).sum();
        let most = if is_user(&holder) { USER_SESSIONS_MAX } else { ENVIRONMENT_SESSIONS_MAX };
        if is_user(&holder) && users >= USERS_SESSIONS_MAX {
            return None;
        }
        let (sessions, greeting) = all.get(&holder).map_or((0, 0), |taken| (taken.sessions, taken.greeting));
        if sessions >= most || greeting >= GREETING_MAX {
            return None;
        }
        let taken = all.entry(holder).or_default();
        taken.sessions += 1;
        taken.greeting += 1;
        Some(Seat { seats: self.clone(), holder, greeting: true })
    }
}

impl Seat {
    /// Its connection has said hello.
    pub fn greeted(&mut self) {
        if std::mem::take(&mut self.greeting) {
            let mut all = self.seats.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.entry(self.holder).and_modify(|taken| taken.greeting -= 1);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.greeted();
        let mut all = self.seats.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(taken) = all.get_mut(&self.holder) {
            taken.sessions -= 1;
            if taken.sessions == 0 {
                all.remove(&self.holder);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_takes_the_places_of_others() {
        let seats = Seats::default();
        let half_open: Vec<_> = (0..200).map_while(|_| seats.take(Holder::User(1))).collect();
        assert_eq!(half_open.len(), GREETING_MAX);
        let mut sessions = Vec::new();
        while let Some(mut seat) = seats.take(Holder::User(0)) {
            seat.greeted();
            sessions.push(seat);
        }
        assert_eq!(sessions.len(), USER_SESSIONS_MAX);
        assert!(seats.take(Holder::Environment(DomainId(5))).is_some() && seats.take(Holder::User(2)).is_some());
        let mut own = Vec::new();
        while let Some(mut seat) = seats.take(Holder::Environment(DomainId(5))) {
            seat.greeted();
            own.push(seat);
        }
        assert_eq!(own.len(), ENVIRONMENT_SESSIONS_MAX);
        assert!(seats.take(Holder::Environment(DomainId(6))).is_some());
        drop((half_open, sessions, own));
        assert!(seats.0.lock().unwrap().is_empty(), "nothing is left");
    }
}
