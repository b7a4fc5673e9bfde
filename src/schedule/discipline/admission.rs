//! Which packets may wait in a queue: all that find room (tail drop), or the fewer the longer it is on the average. The
//! latter is random early detection (RED; Floyd and Jacobson 1993). An extension may say it, too.
//!
//! Example: with `Red { least: 20, most: 60, chance: 0.1 }` nothing is dropped while 20 packets wait on the average, one of
//! ten where 60 do, and everything above.

use super::brought::{BroughtGate, MakesPolicies, PolicyCounts, PolicyName};

/// Bits of an average behind the point: a packet that comes moves it by a part of 2⁹ = 512.
const WEIGHT: f64 = 1.0 / 512.0;

/// Packets of the link's time by which an average falls at once while a queue is empty: beyond, it is nothing.
const IDLE_MAX: u64 = 8_192;

/// What happens to packets that come.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Admission {
    /// Those that find no room are dropped.
    #[default]
    Tail,
    /// Some are dropped by chance before.
    Red(Red),
    /// Those are that an extension says.
    Extension(PolicyName),
}

/// Random early detection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Red {
    /// Packets on the average up to which none is dropped.
    pub least: u32,
    /// Packets on the average from which all are.
    pub most: u32,
    /// The chance just before.
    pub chance: f64,
}

impl Admission {
    /// Whether it can be, for a queue of so many packets.
    pub(super) fn check(&self, packets: usize) -> Result<(), String> {
        let Admission::Red(red) = self else { return Ok(()) };
        if red.least >= red.most || red.most as usize > packets {
            return Err(format!("red from {} to {} packets: least < most ≤ packets ({packets})", red.least, red.most));
        }
        if !(red.chance > 0.0 && red.chance <= 1.0) {
            return Err(format!("red with chance = {}: above 0, at most 1", red.chance));
        }
        Ok(())
    }
}

/// What says of each packet whether it may wait.
#[derive(Debug)]
pub(super) enum Gate {
    Tail,
    Red(Box<Detection>),
    Brought(Box<BroughtGate>),
}

/// An average of a queue's length, and chance.
#[derive(Debug)]
pub(super) struct Detection {
    red: Red,
    average: f64,
    /// Packets since one was dropped.
    since: u32,
    /// Since when the queue is empty.
    idle_since: Option<u64>,
    chance: u64,
}

impl Gate {
    /// `seed`: nobody's who sends packets.
    pub(super) fn new(admission: &Admission, seed: u64, policies: &dyn MakesPolicies) -> Result<Gate, String> {
        Ok(match admission {
            Admission::Tail => Gate::Tail,
            Admission::Extension(name) => Gate::Brought(Box::new(BroughtGate::new(policies.admission(name)?))),
            Admission::Red(red) => Gate::Red(Box::new(Detection {
                red: *red,
                average: 0.0,
                since: 0,
                idle_since: Some(0),
                chance: seed | 1,
            })),
        })
    }

    /// What an extension's has done.
    pub(super) fn counts(&self) -> Option<PolicyCounts> {
        match self {
            Gate::Brought(gate) => Some(gate.counts()),
            _ => None,
        }
    }

    /// Whether a packet of so many bytes may wait where so many of so many do.
    #[inline]
    pub(super) fn lets_in(&mut self, (waiting, room): (usize, usize), bytes: usize, now: u64) -> bool {
        match self {
            Gate::Tail => true,
            Gate::Red(detection) => detection.lets_in(waiting, now),
            Gate::Brought(gate) => gate.lets_in((waiting, room), bytes, now),
        }
    }

    /// The queue is empty from now on.
    #[inline]
    pub(super) fn ran_empty(&mut self, now: u64) {
        match self {
            Gate::Tail => {}
            Gate::Red(detection) => detection.idle_since = Some(now),
            Gate::Brought(gate) => gate.ran_empty(now),
        }
    }
}

/// Nanoseconds in which a packet would have left while none was there: a frame of 1,514 bytes at 10 Mbit/s to 10 Gbit/s, between.
const PACKET_NS: u64 = 120_000;

impl Detection {
    fn lets_in(&mut self, waiting: usize, now: u64) -> bool {
        if let Some(since) = self.idle_since.take() {
            let gone = (now.saturating_sub(since) / PACKET_NS).min(IDLE_MAX);
            self.average *= (1.0 - WEIGHT).powi(gone as i32);
        }
        self.average += (waiting as f64 - self.average) * WEIGHT;
        let Red { least, most, chance } = self.red;
        let (least, most) = (f64::from(least), f64::from(most));
        if self.average < least {
            self.since = 0;
            return true;
        }
        let at = (self.average - least) / (most - least) * chance;
        // Spread evenly: the longer none was dropped, the sooner one is.
        let left = 1.0 - f64::from(self.since) * at;
        let drops = self.average >= most || left <= 0.0 || self.draw() < at / left;
        self.since = if drops { 0 } else { self.since + 1 };
        !drops
    }

    /// A number from 0 to 1 (xorshift; Marsaglia 2003).
    fn draw(&mut self) -> f64 {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        (self.chance >> 11) as f64 / (1u64 << 53) as f64
    }
}
