//! Which lines are written: those as grave as the filter says. Events among them are kept whatever it says.
//!
//! Example: with the level `error`, `tracing::info!(event = "link", port, "the link is down")` is not written, and `anode node events`
//! has it all the same. Who wants fewer lines does not want to know less of what has changed.

use super::happened;
use super::words::is_event;
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Layer};

/// A filter of lines that lets none of them be forgotten that is an event.
pub struct Sieve(EnvFilter);

impl Sieve {
    /// With this filter.
    pub fn new(filter: EnvFilter) -> Sieve {
        Sieve(filter)
    }

    fn writes<S: Subscriber>(&self, meta: &Metadata<'_>, cx: Context<'_, S>) -> bool {
        EnvFilter::enabled(&self.0, meta, cx)
    }
}

impl<S: Subscriber> Layer<S> for Sieve {
    fn register_callsite(&self, meta: &'static Metadata<'static>) -> Interest {
        if is_event(meta) {
            return Interest::always();
        }
        Layer::<S>::register_callsite(&self.0, meta)
    }

    fn enabled(&self, meta: &Metadata<'_>, cx: Context<'_, S>) -> bool {
        is_event(meta) || self.writes(meta, cx)
    }

    fn event_enabled(&self, event: &Event<'_>, cx: Context<'_, S>) -> bool {
        let meta = event.metadata();
        if !is_event(meta) || self.writes(meta, cx) {
            return true;
        }
        // Nobody else has it.
        happened::keep(event);
        false
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        // Events are not passed over before anybody has looked at them.
        Some(self.0.max_level_hint()?.max(LevelFilter::INFO))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::happened::tests::ALONE;
    use crate::log::tests::{log, texts};
    use crate::log::{LINES_BURST, Log, happened};
    use tracing_subscriber::layer::SubscriberExt as _;

    fn with(level: &str, log: &Log, work: impl FnOnce()) {
        let lines = tracing_subscriber::fmt::layer().with_writer(log.clone()).with_ansi(false);
        let all = tracing_subscriber::registry().with(Sieve::new(EnvFilter::new(level)));
        tracing::subscriber::with_default(all.with(log.limits()).with(lines), work);
    }

    fn kept(what: &str) -> usize {
        happened().events.iter().filter(|event| event.what.contains(what)).count()
    }

    #[test]
    fn an_event_is_kept_whatever_is_written() {
        let _alone = ALONE.lock();
        let (log, queue) = log();
        for (number, level) in ["error", "off", "warn,anode=error"].into_iter().enumerate() {
            with(level, &log, || {
                tracing::info!(event = "link", number, "a link of the sieve is down");
                tracing::info!(number, "a line of the sieve that is no event");
                tracing::debug!(event = "link", number, "a finer line of the sieve");
            });
            assert_eq!(kept(&format!("a link of the sieve is down number={number}")), 1, "{level}");
        }
        assert_eq!(texts(&queue), [""; 0]);
        with("info", &log, || tracing::info!(event = "link", "a link of the sieve is up"));
        assert_eq!((kept("a link of the sieve is up"), texts(&queue).len()), (1, 1), "once each");
        assert_eq!((kept("no event"), kept("a finer line")), (0, 0));
    }

    #[test]
    fn events_beyond_the_limit_of_their_cause_are_counted_and_leave_a_gap() {
        let _alone = ALONE.lock();
        let (log, _queue) = log();
        let before = happened().unkept;
        with("error", &log, || {
            for number in 0..10 * LINES_BURST {
                tracing::info!(event = "link", number, "a link that flaps");
            }
            tracing::info!(event = "route", "the one behind the flaps");
        });
        let after = happened();
        let flaps = after.events.iter().filter(|event| event.what.contains("a link that flaps")).count() as u64;
        assert!(flaps >= LINES_BURST && after.unkept - before >= 10 * LINES_BURST - flaps, "{flaps} {}", after.unkept);
        let behind = after.events.iter().position(|event| event.what.contains("the one behind")).unwrap();
        let (one, other) = (&after.events[behind - 1], &after.events[behind]);
        assert!(other.number > one.number + 1, "{} {}", one.number, other.number);
    }
}
