//! What a packet must have to be of a rule. Example: an IP packet from 10.0.0.0/8 in which is a datagram to port 2001.
//!
//! A [`Pattern`] is a way of headers with tests of their fields; a rule is patterns put together by *and*, *or* and *not*
//! ([`Wanted`]). Both languages of rules, the paper's (`text.rs`) and that of pcap filters (`pcap.rs`), are read into it, and it is taken
//! apart into [`Case`]s: one pattern that must hold, and some that must not.

use super::bits::Bits;
use super::protocol::ProtocolId;
use std::net::IpAddr;

/// Headers of a way.
pub const DEPTH_MAX: usize = 8;
/// Cases of one rule.
pub const CASES_MAX: usize = 64;
/// Tests of one pattern, in pieces of 32 bits.
pub const TESTS_MAX: usize = 64;

/// Where a test looks: at most 32 bits of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Spot {
    /// The header's number on the way.
    pub header: u8,
    /// Its bits, which may lie behind the header.
    pub bits: Bits,
    /// Whether they lie in the part that every such header has.
    pub inside: bool,
}

/// What must stand there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A number from this to that.
    Range(u32, u32),
    /// Of these bits, these.
    Mask(u32, u32),
}

/// A way of headers, with tests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pattern {
    /// The protocols, the first one first.
    pub way: Vec<ProtocolId>,
    /// Whether no other taught protocol may be behind the last.
    pub ends: bool,
    /// All of these must hold.
    pub tests: Vec<(Spot, Op)>,
    /// The sum of the costs of the fields that were named.
    pub cost: u32,
}

/// Patterns together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// One.
    One(Pattern),
    /// All must hold.
    All(Vec<Wanted>),
    /// One must.
    Any(Vec<Wanted>),
    /// It must not.
    Not(Box<Wanted>),
}

/// One pattern that must hold, and some that must not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Case {
    /// This one must.
    pub holds: Pattern,
    /// These must not.
    pub fails: Vec<Pattern>,
}

/// Who knows the addresses of hosts, and constants beside those that everybody knows.
pub trait HostNames {
    /// The addresses of a host, none if it is not known.
    fn addresses(&mut self, name: &str) -> Vec<IpAddr>;

    /// The number of a constant.
    fn constant(&mut self, _name: &str) -> Option<u64> {
        None
    }
}

/// Knows no names.
pub struct NoNames;

impl HostNames for NoNames {
    fn addresses(&mut self, _: &str) -> Vec<IpAddr> {
        Vec::new()
    }
}

impl Op {
    /// Whether it holds of a value.
    #[inline]
    pub fn holds(self, value: u32) -> bool {
        match self {
            Op::Range(low, high) => (low..=high).contains(&value),
            Op::Mask(mask, wanted) => value & mask == wanted,
        }
    }
}

impl Pattern {
    /// Adds a test of a field of any length: the bits that matter, and what they are.
    pub fn masked(&mut self, spot: (u8, Bits, bool), mask: u128, value: u128) {
        let (header, bits, inside) = spot;
        for (piece, behind) in bits.pieces() {
            let all = piece.most() as u32;
            let cut = |wide: u128| (wide >> behind) as u32 & all;
            let (mask, value) = (cut(mask), cut(value) & cut(mask));
            let spot = Spot { header, bits: piece, inside };
            let free = all & !mask;
            // A prefix is a range, which the structures like better.
            if mask != 0 {
                let is_prefix = free & free.wrapping_add(1) == 0;
                self.tests.push((spot, if is_prefix { Op::Range(value, value | free) } else { Op::Mask(mask, value) }));
            }
        }
    }

    /// Both of two: nothing if no packet can be of both.
    fn and(mut self, other: &Pattern) -> Option<Pattern> {
        let shorter = self.way.len().min(other.way.len());
        if self.way[..shorter] != other.way[..shorter] {
            return None;
        }
        if self.ends && other.way.len() > self.way.len() || other.ends && self.way.len() > other.way.len() {
            return None;
        }
        if other.way.len() > self.way.len() {
            self.way.clone_from(&other.way);
        }
        self.ends |= other.ends;
        self.tests.extend(&other.tests);
        self.cost += other.cost;
        self.tidy()
    }

    /// One range for each spot: nothing if one is empty.
    pub fn tidy(mut self) -> Option<Pattern> {
        let mut tests: Vec<(Spot, Op)> = Vec::new();
        for (spot, op) in self.tests.drain(..) {
            let is_range = |op: Op| matches!(op, Op::Range(..));
            let known = tests.iter().position(|(other, known)| *other == spot && is_range(*known) && is_range(op));
            match (known, op) {
                (Some(at), Op::Range(from, to)) => {
                    if let (_, Op::Range(low, high)) = &mut tests[at] {
                        (*low, *high) = ((*low).max(from), (*high).min(to));
                    }
                }
                _ if tests.contains(&(spot, op)) => {}
                _ => tests.push((spot, op)),
            }
        }
        if tests.iter().any(|(_, op)| matches!(op, Op::Range(low, high) if low > high)) {
            return None;
        }
        tests.sort_by_key(|(spot, _)| *spot);
        self.tests = tests;
        Some(self)
    }
}

/// More cases than can be.
fn too_many() -> String {
    format!("taken apart into cases without `or`, this rule has more than {CASES_MAX}: make several rules of it")
}

impl Wanted {
    /// The cases of which one must hold; `root` is the protocol that every packet begins with.
    pub fn cases(&self, root: ProtocolId) -> Result<Vec<Case>, String> {
        let any = Case { holds: Pattern { way: vec![root], ..Pattern::default() }, fails: vec![] };
        let cases = self.join(true, vec![any])?;
        if cases.iter().any(|case| case.holds.tests.len() > TESTS_MAX || case.fails.len() > TESTS_MAX) {
            return Err(format!("a rule has at most {TESTS_MAX} tests of 32 bits in one case"));
        }
        Ok(cases)
    }

    /// The cases that hold in some of those before, if this holds, or does not.
    fn join(&self, holds: bool, before: Vec<Case>) -> Result<Vec<Case>, String> {
        match (self, holds) {
            (Wanted::Not(inner), _) => inner.join(!holds, before),
            (Wanted::One(pattern), true) => {
                let both = |case: Case| Some(Case { holds: case.holds.and(pattern)?, fails: case.fails });
                Ok(before.into_iter().filter_map(both).collect())
            }
            (Wanted::One(pattern), false) => {
                let without = |mut case: Case| {
                    case.fails.push(pattern.clone());
                    case
                };
                Ok(before.into_iter().map(without).collect())
            }
            (Wanted::All(all), true) | (Wanted::Any(all), false) => {
                all.iter().try_fold(before, |before, one| one.join(holds, before))
            }
            (Wanted::Any(all), true) | (Wanted::All(all), false) => {
                let mut cases = Vec::new();
                for one in all {
                    cases.extend(one.join(holds, before.clone())?);
                    if cases.len() > CASES_MAX {
                        return Err(too_many());
                    }
                }
                Ok(cases)
            }
        }
    }
}
