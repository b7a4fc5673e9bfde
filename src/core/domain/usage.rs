//! The account of a domain: packets, bytes, steps, time, and rarer counts. Example: 1,000 packets that came, of which 990 were sent on
//! and 10 dropped for the budget.

use crate::core::kept::{Held, Refused};
use crate::core::reason::Drops;

/// The account of a domain.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Usage {
    /// Packets that came to it.
    pub packets: u64,
    /// Bytes of those packets, from the capsule header on.
    pub bytes: u64,
    /// Steps its code has taken.
    pub steps: u64,
    /// Nanoseconds its packets took of the CPU; steps, where there is no clock.
    pub cpu_ns: u64,
    /// Packets it has sent on, or by its channels.
    pub forwarded: u64,
    /// Packets it was handed, or its code delivered to applications.
    pub delivered: u64,
    /// Packets it began: of its channels, and by their engines.
    #[serde(skip_serializing_if = "is_zero")]
    pub made: u64,
    /// Rarer counts.
    #[serde(flatten)]
    pub counts: Counts,
}

/// Activations of threads, by cause. Packets are counted as they come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Activations {
    /// By events.
    pub events: u64,
    /// By exceptions: memory over its limit, an end.
    pub exceptions: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Counts that not every packet changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Activations of its threads by other causes than packets.
    pub activations: Activations,
    /// Children its code sent.
    pub children: u64,
    /// Packets that engines of its channels have put together with others.
    #[serde(skip_serializing_if = "is_zero")]
    pub used: u64,
    /// Packets that had run in the kernel half and went on here.
    #[serde(skip_serializing_if = "is_zero")]
    pub punted: u64,
    /// Soft-state entries it holds.
    pub state_entries: u32,
    /// Soft-state entries refused because of its quota, or because others hold their place.
    pub state_refused: u64,
    /// Reads and changes of soft state that the kernel did not carry out, for another reason than want of room.
    #[serde(skip_serializing_if = "is_zero")]
    pub state_failed: u64,
    /// Soft-state entries that gave way to those of domains with less than their share.
    pub state_displaced: u64,
    /// Log lines suppressed because of its rate.
    pub logs_suppressed: u64,
    /// Its packets that were dropped.
    pub drops: Drops,
}

impl Counts {
    /// Something became of an entry of soft state.
    #[inline]
    pub fn note_state(&mut self, what: Held) {
        match what {
            Held::Taken => self.state_entries += 1,
            Held::Released => self.state_entries = self.state_entries.saturating_sub(1),
            Held::Refused => self.state_refused += 1,
            Held::Displaced => self.state_displaced += 1,
        }
    }

    /// Soft state was refused.
    #[cold]
    pub fn refuse(&mut self, why: Refused) {
        match why {
            Refused::Full => self.state_refused += 1,
            Refused::Failed => self.state_failed += 1,
            Refused::Changed => {}
        }
    }
}

impl core::ops::Deref for Usage {
    type Target = Counts;
    fn deref(&self) -> &Counts {
        &self.counts
    }
}
