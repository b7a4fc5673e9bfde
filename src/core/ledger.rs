//! The balance of a node: every frame that came in has left, was delivered, used or dropped, or is held. Example: 100
//! in, 97 out, 2 dropped, 1 held.
//!
//! ```text
//! received + made  =  sent + delivered + used + not ours + dropped + held
//! ```
//!
//! Each frame that comes in or begins here ends in one of these, once. Counters are kept where it happens: those of
//! ports by their gauges ([`crate::topology::Gauge`]), drops by reason ([`super::reason`]), the rest in the [`Ledger`].
//! What is held is no counter: whoever holds frames is asked. So a frame that is lost, or counted twice, shows as a
//! difference ([`Balance::unaccounted`]), which the simulator asserts to be 0 and `anode node status` shows.

use serde::ser::{Serialize, SerializeStruct, Serializer};

/// Counters of frames that nobody else keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Frames that were lost before the node saw them: each is counted as a drop too.
    pub unseen: u64,
    /// Packets that began here: of applications and environments, children, copies, messages of the node's own.
    pub made: u64,
    /// Packets handed to applications and environments.
    pub delivered: u64,
    /// Packets that the node itself was meant by: messages of its protocols, PLAN packets that were evaluated, pieces put together.
    pub used: u64,
    /// Packets handed to the first worker of the node, less those taken over from others.
    pub handed: u64,
    /// Of ports that are there no more.
    pub closed: ClosedPorts,
}

/// What the gauges of ports that are there no more have counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClosedPorts {
    /// Frames that came in.
    pub received: u64,
    /// Frames that have left.
    pub sent: u64,
    /// Frames that were the Linux stack's.
    pub not_ours: u64,
}

impl Ledger {
    /// A step that takes so many packets and gives so many has made or used the difference.
    pub fn transform(&mut self, taken: u64, given: u64) {
        self.made = self.made.wrapping_add(given.saturating_sub(taken));
        self.used = self.used.wrapping_add(taken.saturating_sub(given));
    }
}

/// How far a counter has gone on since an earlier look, also past its end. One that is read while packets pass may lag
/// behind others, and a difference of two of them seem to be below 0: then it is 0.
pub fn gone_on(now: u64, then: u64) -> u64 {
    let more = now.wrapping_sub(then);
    if more > u64::MAX / 2 { 0 } else { more }
}

/// Frames that no counter knows of, by whose counters. Each is compared by itself, and magnitudes are added: one frame
/// lost here and one counted twice there are two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Unaccounted {
    /// The node's.
    pub node: u64,
    /// Of each port, of frames that came in and of frames that went out.
    pub ports: u64,
    /// Of each domain.
    pub domains: u64,
    /// Of each environment that counts for all its domains.
    pub environments: u64,
    /// Of the kernel half, by cut-through channels.
    pub cuts: u64,
    /// Of the kernel half, by capsules.
    pub kernel: u64,
}

impl Unaccounted {
    /// All of them.
    pub fn total(&self) -> u64 {
        let Unaccounted { node, ports, domains, environments, cuts, kernel } = *self;
        [ports, domains, environments, cuts, kernel].into_iter().fold(node, u64::saturating_add)
    }
}

/// What became of all frames so far. Counters may wrap; differences stay right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    /// Frames that came in by ports.
    pub received: u64,
    /// Packets that began here.
    pub made: u64,
    /// Frames that left by ports.
    pub sent: u64,
    /// Packets handed to applications and environments.
    pub delivered: u64,
    /// Packets that the node itself was meant by.
    pub used: u64,
    /// Frames left to the Linux stack.
    pub not_ours: u64,
    /// Packets dropped, under any reason.
    pub dropped: u64,
    /// Packets that wait, as those say who hold them.
    pub held: u64,
    /// Packets handed to the first worker of the node, less those taken over from others: over all workers, those between them.
    pub handed: u64,
}

impl Balance {
    /// Frames lost without a counter; below 0: counted more than once.
    pub fn unaccounted(&self) -> i64 {
        let Balance { received, made, sent, delivered, used, not_ours, dropped, held, handed } = *self;
        let ends = [sent, delivered, used, not_ours, dropped, held, handed];
        received.wrapping_add(made).wrapping_sub(ends.into_iter().fold(0, u64::wrapping_add)) as i64
    }

    /// What has happened since an earlier one.
    #[must_use]
    pub fn since(&self, before: &Balance) -> Balance {
        self.zip(before, u64::wrapping_sub)
    }

    /// Both together.
    #[must_use]
    pub fn with(&self, other: &Balance) -> Balance {
        self.zip(other, u64::wrapping_add)
    }

    fn zip(&self, other: &Balance, each: impl Fn(u64, u64) -> u64) -> Balance {
        Balance {
            received: each(self.received, other.received),
            made: each(self.made, other.made),
            sent: each(self.sent, other.sent),
            delivered: each(self.delivered, other.delivered),
            used: each(self.used, other.used),
            not_ours: each(self.not_ours, other.not_ours),
            dropped: each(self.dropped, other.dropped),
            held: each(self.held, other.held),
            handed: each(self.handed, other.handed),
        }
    }
}

impl Serialize for Balance {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Balance", 10)?;
        fields.serialize_field("received", &self.received)?;
        fields.serialize_field("made", &self.made)?;
        fields.serialize_field("sent", &self.sent)?;
        fields.serialize_field("delivered", &self.delivered)?;
        fields.serialize_field("used", &self.used)?;
        fields.serialize_field("not_ours", &self.not_ours)?;
        fields.serialize_field("dropped", &self.dropped)?;
        fields.serialize_field("held", &self.held)?;
        if self.handed == 0 {
            fields.skip_field("handed")?;
        } else {
            fields.serialize_field("handed", &self.handed.cast_signed())?;
        }
        fields.serialize_field("unaccounted", &self.unaccounted())?;
        fields.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_that_wrap_lose_nothing() {
        let before = Balance { received: u64::MAX - 1, sent: u64::MAX - 3, dropped: 2, ..Balance::default() };
        assert_eq!(before.unaccounted(), 0);
        let after = Balance { received: 3, sent: u64::MAX, dropped: 4, ..before };
        assert_eq!(after.unaccounted(), 0, "{after:?}");
        assert_eq!(after.since(&before), Balance { received: 5, sent: 3, dropped: 2, ..Balance::default() });
        assert_eq!(after.since(&before).unaccounted(), 0);
        assert_eq!(after.since(&before).with(&before), after);
        let lost = Balance { received: after.received.wrapping_add(1), ..after };
        assert_eq!((lost.unaccounted(), Balance { held: 2, ..lost }.unaccounted()), (1, -1));
    }

    #[test]
    fn a_counter_that_wraps_has_gone_on_and_one_that_lags_has_not() {
        assert_eq!((gone_on(7, 7), gone_on(9, 7)), (0, 2));
        assert_eq!((gone_on(1, u64::MAX - 1), gone_on(u64::MAX, u64::MAX - 4)), (3, 4));
        assert_eq!((gone_on(5, 9), gone_on(0, 1000), gone_on(u64::MAX, 2)), (0, 0, 0));
    }

    #[test]
    fn one_lost_and_one_counted_twice_are_two() {
        let both = Unaccounted { node: 1, kernel: (-1i64).unsigned_abs(), ..Unaccounted::default() };
        assert_eq!((both.total(), Unaccounted::default().total()), (2, 0));
    }

    #[test]
    fn a_step_makes_or_uses_the_difference() {
        let mut ledger = Ledger::default();
        ledger.transform(1, 3);
        ledger.transform(5, 1);
        assert_eq!((ledger.made, ledger.used), (2, 4));
    }
}
