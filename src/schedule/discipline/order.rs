//! Which of the classes below one is next: by the policies of the path scheduler, with bytes as cost, in turns, or as an extension says.
//!
//! Example: `drr` with weights 100 and 300 lets two frames of full length of the first leave, and then six of the second.

use super::brought::{BroughtOrder, MakesPolicies, PolicyCounts, PolicyName};
use crate::schedule::{PathScheduler, Policy, Share};
use std::collections::VecDeque;

/// An order, by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(try_from = "String")]
pub enum OrderKind {
    /// The highest priority first.
    Priority,
    /// By shares, in virtual time (start-time fair queueing).
    #[default]
    Wfq,
    /// In turns, by shares: deficit round robin (Shreedhar and Varghese 1995).
    Drr,
    /// The earliest deadline first; who has none gets what is left, by shares.
    Edf,
    /// That of an extension.
    Extension(Box<PolicyName>),
}

/// Cost units of a byte: virtual times are told apart to some bytes also where weights are large.
const UNITS: u64 = 2_048;

/// Bytes of the shortest turn: a frame of full length.
pub(crate) const TURN: i64 = 1_514;

impl OrderKind {
    /// All that there are without extensions.
    pub const ALL: [OrderKind; 4] = [OrderKind::Priority, OrderKind::Wfq, OrderKind::Drr, OrderKind::Edf];

    /// Its name in configurations.
    pub fn name(&self) -> &str {
        match self {
            OrderKind::Priority => "priority",
            OrderKind::Wfq => "wfq",
            OrderKind::Drr => "drr",
            OrderKind::Edf => "edf",
            OrderKind::Extension(name) => name.text(),
        }
    }

    /// Whose it is, if it is an extension's.
    pub fn brought(&self) -> Option<&PolicyName> {
        match self {
            OrderKind::Extension(name) => Some(name),
            _ => None,
        }
    }
}

impl core::str::FromStr for OrderKind {
    type Err = String;

    fn from_str(text: &str) -> Result<OrderKind, String> {
        if let Some(known) = OrderKind::ALL.into_iter().find(|kind| kind.name() == text) {
            return Ok(known);
        }
        if text.contains('/') {
            return text.parse().map(|name| OrderKind::Extension(Box::new(name)));
        }
        let known = OrderKind::ALL.each_ref().map(OrderKind::name).join(", ");
        Err(format!("'{}' is no order: {known}, or EXTENSION/CLASS(ARGUMENTS)", text.escape_debug()))
    }
}

impl TryFrom<String> for OrderKind {
    type Error = String;

    fn try_from(text: String) -> Result<OrderKind, String> {
        text.parse()
    }
}

/// By its name.
impl serde::Serialize for OrderKind {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// The classes below one that have packets, in an order; or ports with frames, of which a worker takes them in.
#[derive(Debug)]
pub(crate) enum Order {
    /// By a policy of the path scheduler.
    Path(Box<PathScheduler>),
    /// In turns.
    Turns(Turns),
    /// As an extension says.
    Brought(Box<BroughtOrder>),
}

/// Deficit round robin. A turn ends with the packet that uses it up, and what that had too much is missing in the next one: so no
/// length has to be known in advance (surplus round robin; Adiseshu, Parulkar and Varghese 1996).
#[derive(Debug)]
pub(crate) struct Turns {
    /// Those with packets, the one whose turn it is first.
    ring: VecDeque<u16>,
    members: Vec<Member>,
    /// Whether the first one's turn has begun.
    began: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Member {
    turn: i64,
    left: i64,
    waits: bool,
}

impl Order {
    /// An order of classes with these shares, by their numbers.
    pub(super) fn new(kind: &OrderKind, shares: &[Share], policies: &dyn MakesPolicies) -> Result<Order, String> {
        Order::with_turn(kind, shares, policies, TURN)
    }

    /// The same, where the least weight has a turn of so many bytes.
    pub(crate) fn with_turn(
        kind: &OrderKind,
        shares: &[Share],
        policies: &dyn MakesPolicies,
        turn: i64,
    ) -> Result<Order, String> {
        let policy = match kind {
            OrderKind::Priority => Policy::Priority,
            OrderKind::Wfq => Policy::Wfq,
            OrderKind::Edf => Policy::Edf,
            OrderKind::Drr => return Ok(Order::Turns(Turns::new(shares, turn))),
            OrderKind::Extension(name) => {
                let order = BroughtOrder::new(policies.order(name)?, shares.len());
                return Ok(Order::Brought(Box::new(order)));
            }
        };
        let mut scheduler = PathScheduler::new(policy);
        for (at, share) in shares.iter().enumerate() {
            scheduler.enter(at, *share, 0);
        }
        Ok(Order::Path(Box::new(scheduler)))
    }

    /// Classes that wait.
    #[inline]
    pub(crate) fn waiting(&self) -> usize {
        match self {
            Order::Path(scheduler) => scheduler.waiting(),
            Order::Turns(turns) => turns.ring.len(),
            Order::Brought(order) => order.waiting(),
        }
    }

    /// What an extension's has done.
    pub(super) fn counts(&self) -> Option<PolicyCounts> {
        match self {
            Order::Brought(order) => Some(order.counts()),
            _ => None,
        }
    }

    /// How often an extension's has failed.
    #[inline]
    pub(crate) fn failed(&self) -> u64 {
        match self {
            Order::Brought(order) => order.failed(),
            _ => 0,
        }
    }

    /// No class of an extension's order waits any more; says whether it is one.
    pub(crate) fn forget_brought(&mut self) -> bool {
        match self {
            Order::Brought(order) => {
                order.forget();
                true
            }
            _ => false,
        }
    }

    /// A class has packets, perhaps more of them.
    #[inline]
    pub(crate) fn wake(&mut self, class: usize, now: u64) {
        match self {
            Order::Path(scheduler) => scheduler.wake(class, now),
            Order::Turns(turns) => turns.wake(class),
            Order::Brought(order) => order.wake(class),
        }
    }

    /// The class of which a packet leaves now; [`Order::charge`] follows.
    #[inline]
    pub(crate) fn next(&mut self, now: u64) -> Option<usize> {
        match self {
            Order::Path(scheduler) => scheduler.next(now),
            Order::Turns(turns) => turns.next(),
            Order::Brought(order) => order.next(now),
        }
    }

    /// A packet of so many bytes of a class has left; `more`: it has more.
    #[inline]
    pub(crate) fn charge(&mut self, class: usize, bytes: usize, more: bool, now: u64) {
        match self {
            Order::Path(scheduler) => scheduler.charge(class, bytes as u64 * UNITS, more, now),
            Order::Turns(turns) => turns.charge(class, bytes, more),
            Order::Brought(order) => order.charge(class, bytes, more),
        }
    }
}

impl Turns {
    /// The class of the least weight has a turn of so many bytes.
    fn new(shares: &[Share], turn: i64) -> Turns {
        let least = i64::from(shares.iter().map(|share| share.weight).min().unwrap_or(1).max(1));
        let member = |share: &Share| Member { turn: turn * i64::from(share.weight) / least, ..Member::default() };
        Turns {
            ring: VecDeque::with_capacity(shares.len()),
            members: shares.iter().map(member).collect(),
            began: false,
        }
    }

    fn wake(&mut self, class: usize) {
        if let Some(member) = self.members.get_mut(class).filter(|member| !member.waits) {
            member.waits = true;
            self.ring.push_back(class as u16);
        }
    }

    fn next(&mut self) -> Option<usize> {
        loop {
            let class = usize::from(*self.ring.front()?);
            let member = self.members.get_mut(class)?;
            if !self.began {
                member.left += member.turn;
                self.began = true;
            }
            if member.left > 0 {
                return Some(class);
            }
            // It owes more than a turn, for a packet longer than one.
            self.end_turn();
        }
    }

    fn end_turn(&mut self) {
        self.ring.rotate_left(1);
        self.began = false;
    }

    fn charge(&mut self, class: usize, bytes: usize, more: bool) {
        let Some(member) = self.members.get_mut(class) else { return };
        member.left -= bytes as i64;
        if !more {
            // Who has nothing to send keeps no turn, and owes what it owes.
            (member.left, member.waits) = (member.left.min(0), false);
            self.ring.pop_front();
            self.began = false;
        } else if member.left <= 0 {
            self.end_turn();
        }
    }
}
