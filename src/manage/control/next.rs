//! The next answer that differs: who waits for a change asks once, and is told when there is one.
//!
//! Example: an operator waits until code is linked. The first `{"do":"next","of":"status"}` of a connection is answered
//! at once, each further one when the status reads otherwise than in the answer before, at the latest within 5 s. Most
//! counters, those of the kernel half among them, change without telling anybody, so the thread of the connection looks
//! at them, a hundred times a second at most, and for no more than a fifth of the time. Meanwhile the connection
//! gives way to others, as one that waits.

use super::places::Place;
use crate::log;
use model::Subject;
use model::WITHIN_MS;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// What one connection was told last, and when.
#[derive(Default)]
pub(super) struct Next(Option<Told>);

/// An answer, when the next look may be, and what it was of.
struct Told {
    of: Subject,
    answer: String,
    /// Events there were before that look.
    events: u64,
    again: Instant,
}

impl Next {
    /// Waits for another answer than the one before, or for the end of the time; nothing: the place is another's.
    pub(super) fn await_change(
        &mut self,
        place: &Place,
        of: Subject,
        within_ms: u64,
        look: impl Fn() -> String,
    ) -> Option<String> {
        let end = Instant::now() + Duration::from_millis(within_ms.min(WITHIN_MS));
        loop {
            let before = self.0.as_ref().filter(|told| told.of == of);
            if let Some(Told { again, .. }) = before {
                if !place.waits() || !place.stays() {
                    return None;
                }
                sleep(again.saturating_duration_since(Instant::now()));
                if place.is_hung_up() || !place.works() {
                    return None;
                }
            }
            let begun = Instant::now();
            let events = log::so_far();
            // Many may wait for events for ever, and while there are none, none of them has the answer written anew.
            let same = before.filter(|told| of == Subject::Events && told.events == events);
            let now = same.map_or_else(&look, |told| told.answer.clone());
            let changed = before.is_none_or(|told| told.answer != now);
            // Looks take no more than a fifth of the time.
            let again = Instant::now() + LOOK.max(4 * begun.elapsed());
            self.0 = Some(Told { of, answer: now.clone(), events, again });
            if changed || Instant::now() >= end {
                return Some(now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::places::Places;
    use super::*;
    use std::cell::Cell;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    #[test]
    fn an_answer_is_told_when_it_is_another_one_and_who_waits_for_it_gives_way() {
        let (here, _there) = UnixStream::pair().unwrap();
        let places = Places::new(1, Arc::default());
        let place = places.take(&Arc::new(here)).unwrap();
        let (mut next, looks) = (Next::default(), Cell::new(0));
        let count = |every: i32| {
            looks.set(looks.get() + 1);
            (looks.get() / every).to_string()
        };
        assert_eq!(next.await_change(&place, Subject::Status, 5000, || count(1)), Some("1".to_owned()), "at once");
        assert_eq!(next.await_change(&place, Subject::Status, 5000, || count(4)), Some("0".to_owned()));
        assert_eq!(next.await_change(&place, Subject::Status, 5000, || count(4)), Some("1".to_owned()), "two looks");
        assert_eq!(looks.get(), 4);
        assert_eq!(
            next.await_change(&place, Subject::Status, 0, || "1".to_owned()),
            Some("1".to_owned()),
            "its time is over"
        );
        assert_eq!(
            next.await_change(&place, Subject::Log, 5000, || "1".to_owned()),
            Some("1".to_owned()),
            "of something else"
        );
        // It waits without end, and the next one takes its place.
        let (other, _other) = UnixStream::pair().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| places.take(&Arc::new(other)).unwrap());
            while next.await_change(&place, Subject::Log, 5000, || "1".to_owned()).is_some() {}
        });
    }
}
