//! Which name is looked up next, and in whose place: no threads, no clock.

use super::Cause;
use crate::frame::shares::Shares;
use crate::manage::loader::turns::{QueueStatus, Turns};
use crate::node::Ingress;
use serde::Serialize;
use std::time::Instant;

/// Names that can wait.
const NAMES_MAX: usize = 64;

/// What has become of names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Counts {
    /// Answered by the file of hosts.
    pub hosts: u64,
    /// Looked up.
    pub looked_up: u64,
    /// Not answered in time.
    pub late: u64,
}

/// What there is to say of names.
#[derive(Clone, Debug, Default, Serialize)]
pub struct NamesStatus {
    /// Names that wait, by ingress.
    pub queues: Vec<QueueStatus>,
    /// Look-ups under way, of which that many are late.
    pub busy: usize,
    /// Names answered by the file of hosts.
    pub hosts: u64,
    /// Names looked up.
    pub looked_up: u64,
    /// Names that were not answered in time, which counted as unknown.
    pub late: u64,
}

/// A look-up under way.
struct Busy {
    ingress: Ingress,
    name: Box<str>,
    /// When it is late; nothing: it is, and that was told.
    until: Option<Instant>,
}

/// Names that wait, and those that are looked up.
pub(super) struct Names {
    turns: Turns<Box<str>>,
    places: Vec<Option<Busy>>,
    /// Who has how many places: one ingress alone has half, and whoever comes next finds one.
    shares: Shares<Ingress>,
    pub(super) counts: Counts,
    /// Nobody wants answers any more.
    pub(super) over: bool,
}

impl Names {
    pub(super) fn new(places: usize) -> Names {
        // One more than there are, since a share leaves as much as it takes.
        let shares = Shares::new(places as u64 + 1);
        let (turns, counts) = (Turns::new(NAMES_MAX), Counts::default());
        Names { turns, places: (0..places).map(|_| None).collect(), shares, counts, over: false }
    }

    /// Takes a name on; gives back the one that there is no place for.
    pub(super) fn push(&mut self, cause: Cause, name: Box<str>) -> Option<Box<str>> {
        self.turns.push(cause, name)
    }

    /// The next name of an ingress that may have another place, for this one.
    pub(super) fn take(&mut self, place: usize, until: Instant) -> Option<Box<str>> {
        let (ingress, name) = self.turns.next(|ingress| self.shares.fits(*ingress, 1))?;
        self.shares.take_back(ingress, 1);
        self.counts.looked_up += 1;
        if let Some(place) = self.places.get_mut(place) {
            *place = Some(Busy { ingress, name: name.clone(), until: Some(until) });
        }
        Some(name)
    }

    /// What was looked up in a place is known; whether that is late.
    pub(super) fn done(&mut self, place: usize) -> bool {
        let Some(busy) = self.places.get_mut(place).and_then(Option::take) else { return false };
        self.shares.give(busy.ingress, 1);
        busy.until.is_none()
    }

    /// Names that are late at `now`, each once.
    pub(super) fn late(&mut self, now: Instant) -> Vec<Box<str>> {
        let late = self.places.iter_mut().flatten().filter(|busy| busy.until.is_some_and(|until| until <= now));
        let late: Vec<_> = late.map(|busy| (busy.until.take(), busy.name.clone()).1).collect();
        self.counts.late += late.len() as u64;
        late
    }

    /// When the next one is late.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.places.iter().flatten().filter_map(|busy| busy.until).min()
    }

    pub(super) fn status(&self) -> NamesStatus {
        let Counts { hosts, looked_up, late } = self.counts;
        let busy = self.places.iter().flatten().count();
        NamesStatus { queues: self.turns.status(), busy, hosts, looked_up, late }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Payer, PortId};
    use std::time::Duration;

    fn of(peer: u16) -> Cause {
        Cause { ingress: Ingress::Port(PortId(0), Payer(peer)), principal: None }
    }

    #[test]
    fn names_of_one_neighbour_displace_its_own_and_others_have_their_turn() {
        let mut names = Names::new(4);
        let flood = (0..500).filter_map(|number| names.push(of(0), format!("flood-{number}").into()));
        assert_eq!(flood.count(), 500 - NAMES_MAX);
        let displaced = names.push(of(1), "other".into()).unwrap();
        assert!(displaced.starts_with("flood"), "{displaced}");
        let turns: Vec<_> = (0..2).filter_map(|place| names.take(place, Instant::now())).collect();
        assert!(turns.contains(&"other".into()), "{turns:?}");
    }

    #[test]
    fn one_has_half_of_the_places_and_there_is_one_for_the_next() {
        let (mut names, now) = (Names::new(4), Instant::now());
        (0..6).for_each(|number| drop(names.push(of(0), format!("a{number}").into())));
        assert_eq!((0..4).filter(|place| names.take(*place, now).is_some()).count(), 2);
        (0..6).for_each(|number| drop(names.push(of(1), format!("b{number}").into())));
        assert_eq!(names.take(2, now).as_deref(), Some("b0"));
        assert_eq!(names.take(3, now), None, "the last one is kept");
        names.push(of(2), "c".into());
        assert_eq!(names.take(3, now).as_deref(), Some("c"));
        assert!(!names.done(0));
        assert_eq!(names.take(0, now), None, "all have one, and it is kept for another");
        names.push(of(3), "d".into());
        assert_eq!(names.take(0, now).as_deref(), Some("d"));
        assert_eq!((names.status().busy, names.status().looked_up), (4, 5));
    }

    #[test]
    fn what_is_late_is_told_once_and_keeps_its_place() {
        let (mut names, now) = (Names::new(2), Instant::now());
        let second = Duration::from_secs(1);
        names.push(of(0), "slow".into());
        assert!(names.take(0, now + second).is_some());
        assert_eq!((names.late(now), names.deadline()), (vec![], Some(now + second)));
        assert_eq!((names.late(now + second), names.deadline()), (vec!["slow".into()], None));
        assert_eq!(names.late(now + 2 * second), Vec::<Box<str>>::new());
        assert_eq!((names.status().busy, names.status().late), (1, 1));
        assert!(names.done(0), "late");
        assert_eq!(names.status().busy, 0);
    }
}
