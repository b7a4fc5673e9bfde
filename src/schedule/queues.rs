//! Where flows wait for their turn: lists by level, and calendars by virtual time and by deadline.
//!
//! A policy names the place of each flow ([`Place`]) and takes the next one from [`Queues`]; the scheduler puts flows
//! there, takes them out, and moves their times. So a policy is a few lines over what is here (`policies`).

use super::buckets::{BUCKETS_MAX, Buckets, Link, Linked};
use super::calendar::{Calendar, Keyed};
use super::class::Uses;
use super::virtual_time::{FAIR_SHIFT, FRACTION, is_later, later_of};

/// Step of the calendar of deadlines: 66 µs, so that it reaches over a second.
const DUE_SHIFT: u32 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Absent,
    Idle,
    /// Named by `next`, not charged yet.
    Running,
    /// The same, and more work has come.
    Woken,
    Level,
    Fair,
    Safe,
    Due,
}

/// Where a policy has a flow wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In order of arrival, behind those of lower levels.
    Level(u8),
    /// By virtual time; it may be robbed.
    Fair,
    /// The same, but nobody robs it.
    Safe,
    /// By deadline.
    Due,
}

/// Whose turn a flow runs in, and so who pays for it in virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Own,
    /// That of the flows that may be robbed.
    Stolen,
    Nobodys,
}

/// What every decision looks at, half a cache line.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub link: Link,
    pub state: State,
    pub turn: Turn,
    pub weight: u16,
    pub priority: u8,
    /// It has deadlines, and so a [`Due`].
    pub timed: bool,
    /// Virtual time.
    pub tag: u64,
    /// What the calendar sorts by: the virtual time or the deadline.
    pub key: u64,
}

const _: () = assert!(size_of::<Flow>() == crate::sys::cache::LINE / 2);

impl Flow {
    #[inline]
    pub fn is_important(&self) -> bool {
        self.priority > 0
    }
}

impl Linked for Flow {
    #[inline]
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}

impl Keyed for Flow {
    #[inline]
    fn key(&self) -> u64 {
        self.key
    }
}

/// The part that flows with deadlines have besides.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Due {
    pub deadline: u64,
    pub missed: u64,
    /// The time between deadlines; 0: none.
    pub every: u64,
    /// The epoch in which `deadline` was set.
    pub epoch: u64,
}

pub(super) const ABSENT: Flow = Flow {
    link: Link::NONE,
    state: State::Absent,
    turn: Turn::Own,
    weight: 0,
    priority: 0,
    timed: false,
    tag: 0,
    key: 0,
};

/// The flows of a scheduler, and where those wait that have work.
#[derive(Debug)]
pub(super) struct Queues {
    pub flows: Vec<Flow>,
    pub dues: Vec<Due>,
    levels: Buckets,
    /// By virtual time; where some are immune, those who may be robbed.
    fair: Calendar,
    /// By virtual time those who may not.
    safe: Calendar,
    due: Calendar,
    /// The virtual time of who runs, or ran last, to a step: of those in `fair`, and of all others.
    pub fair_now: u64,
    pub safe_now: u64,
    /// What thieves have taken of the virtual time of those in `fair`: so far it is behind that of the others.
    stolen: u64,
    /// The weights of those who wait in `fair`.
    fair_weight: u64,
    /// Flows that wait for their turn.
    pub waiting: usize,
}

impl Queues {
    /// Nobody waits.
    pub fn new(uses: &Uses) -> Queues {
        let steps = |used: bool| if used { BUCKETS_MAX } else { 0 };
        Queues {
            flows: Vec::new(),
            dues: Vec::new(),
            levels: Buckets::new(uses.levels),
            fair: Calendar::new(FAIR_SHIFT, steps(uses.shares)),
            safe: Calendar::new(FAIR_SHIFT, steps(uses.immune)),
            due: Calendar::new(DUE_SHIFT, steps(uses.deadlines)),
            fair_now: 0,
            safe_now: 0,
            stolen: 0,
            fair_weight: 0,
            waiting: 0,
        }
    }

    /// The first of the lowest level.
    #[inline]
    pub fn next_level(&self) -> Option<u32> {
        self.levels.first_from(0).map(|level| self.levels.head(level))
    }

    /// Who has the earliest deadline. It runs in nobody's turn, unless the policy says in whose.
    #[inline]
    pub fn next_due(&mut self, now: u64) -> Option<u32> {
        let flow = self.due.first(&mut self.flows, Some(now))?;
        self.run_in(flow, Turn::Nobodys);
        Some(flow)
    }

    /// In whose turn a flow runs.
    #[inline]
    pub fn run_in(&mut self, flow: u32, turn: Turn) {
        self.flows[flow as usize].turn = turn;
    }

    /// Whose turn it is by virtual time, and that time, among those who may be robbed and those who may not.
    pub fn turn(&mut self) -> Option<(u32, u64)> {
        let [fair, safe] = self.firsts();
        let fair = fair.map(|flow| (flow, self.flows[flow as usize].tag.wrapping_add(self.stolen)));
        let safe = safe.map(|flow| (flow, self.flows[flow as usize].tag));
        match (fair, safe) {
            (Some(fair), Some(safe)) => Some(if is_later(fair.1, safe.1) { safe } else { fair }),
            (fair, safe) => fair.or(safe),
        }
    }

    /// Who is first by virtual time of those who may be robbed, and of the others.
    pub fn firsts(&mut self) -> [Option<u32>; 2] {
        [self.fair.first(&mut self.flows, None), self.safe.first(&mut self.flows, None)]
    }

    /// The flow whose turn it is by virtual time.
    #[inline(always)]
    pub fn next_turn(&mut self) -> Option<u32> {
        if !self.safe.is_empty() {
            let (flow, time) = self.turn()?;
            self.advance(time);
            return Some(flow);
        }
        let flow = self.fair.first(&mut self.flows, None)?;
        self.advance(self.flows[flow as usize].tag.wrapping_add(self.stolen));
        Some(flow)
    }

    /// Virtual time goes on, never back. Flows within a step are not told apart, so none of them may fall behind because another ran first.
    #[inline]
    pub fn advance(&mut self, to: u64) {
        let step = |time: u64| time & (u64::MAX << FAIR_SHIFT);
        self.safe_now = later_of(step(to), self.safe_now);
        self.fair_now = later_of(step(to.wrapping_sub(self.stolen)), self.fair_now);
    }

    /// A cost is paid by all who wait and may be robbed, by weight.
    #[inline]
    pub fn steal(&mut self, cost: u64) {
        self.stolen = self.stolen.wrapping_add((cost << FRACTION) / self.fair_weight.max(1));
    }

    /// Whether a flow waits.
    pub fn is_waiting(&self, flow: usize) -> bool {
        matches!(self.flows[flow].state, State::Level | State::Fair | State::Safe | State::Due)
    }

    /// Has a flow wait in a place.
    #[inline(always)]
    pub fn put(&mut self, flow: usize, place: Place, now: u64) {
        self.waiting += 1;
        let known = &mut self.flows[flow];
        match place {
            Place::Level(level) => {
                known.state = State::Level;
                self.levels.push(&mut self.flows, level.into(), flow as u32);
            }
            Place::Due => {
                (known.state, known.key) = (State::Due, self.dues[flow].deadline);
                self.due.push(&mut self.flows, flow as u32, now);
            }
            Place::Safe => {
                (known.state, known.key) = (State::Safe, known.tag);
                self.safe.push(&mut self.flows, flow as u32, self.safe_now);
            }
            Place::Fair => {
                (known.state, known.key) = (State::Fair, known.tag);
                self.fair_weight += u64::from(known.weight);
                self.fair.push(&mut self.flows, flow as u32, self.fair_now);
            }
        }
    }

    /// Takes a flow from where it waits.
    #[inline(always)]
    pub fn take(&mut self, flow: usize) {
        self.waiting -= 1;
        let known = &mut self.flows[flow];
        match core::mem::replace(&mut known.state, State::Idle) {
            State::Level => self.levels.remove(&mut self.flows, flow as u32),
            State::Fair => {
                self.fair_weight -= u64::from(known.weight);
                self.fair.remove(&mut self.flows, flow as u32);
            }
            State::Safe => self.safe.remove(&mut self.flows, flow as u32),
            State::Due => self.due.remove(&mut self.flows, flow as u32),
            State::Absent | State::Idle | State::Running | State::Woken => {}
        }
    }
}
