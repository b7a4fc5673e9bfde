//! The cost of a search, and its payers: the waiting capsules, with their resource bounds.
//!
//! A unit of a bound pays for one full packet of a link. Before a request leaves, it and its answers must be paid,
//! retries like first tries. So a capsule causes at most its bound in full packets, whoever answers, and whatever is
//! lost. The first waiting capsule pays first, and only for questions to its own source: nobody's bound is spent on a
//! forger's source. The rest of a unit stays with the search.

use super::pending::Pending;
use super::sources::Sources;
use super::{AGAIN, Fetch, Source, Step};
use crate::code::run::Ingress;
use crate::core::reason::Reason;
use crate::frame::Frame;
use crate::wire::{Digest, fetch};

/// Requests that are paid for what is asked for beside code without its length being known.
const ASIDE_REQUESTS: u64 = 4;

/// What frames of a link cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Toll {
    /// Bytes that a unit of a bound pays for: those of the longest packet.
    pub unit: u64,
    /// Bytes around a message in its packet.
    pub around: u64,
}

impl Toll {
    /// Of no link.
    pub const NONE: Toll = Toll { unit: u64::MAX, around: 0 };

    /// What is enough on both links.
    fn and(self, other: Toll) -> Toll {
        Toll { unit: self.unit.min(other.unit), around: self.around.max(other.around) }
    }

    /// Bytes that a request for these parts causes, of an object of this length if that is known: it, and its answers.
    pub(super) fn of_request(&self, parts: u64, length: Option<u32>) -> u64 {
        let answer = |part: u16| {
            let bytes = length.map_or(Some(fetch::PART), |length| fetch::part_len(part, length)).unwrap_or(0);
            (fetch::PART_HEADER + bytes) as u64 + self.around
        };
        let answers: u64 = (0..fetch::MAX_PARTS as u16).filter(|part| parts >> part & 1 == 1).map(answer).sum();
        fetch::padded_request_len(parts.count_ones()) as u64 + self.around + answers
    }

    /// Bytes that all requests for these parts cause.
    pub(super) fn of_parts(&self, parts: u64, length: Option<u32>) -> u64 {
        requests(parts).map(|parts| self.of_request(parts, length)).sum()
    }

    /// Units that so many bytes cost.
    fn units(&self, bytes: u64) -> u32 {
        u32::try_from(bytes.div_ceil(self.unit)).unwrap_or(u32::MAX)
    }
}

/// The requests by which these parts are asked for: the parts of each.
pub(super) fn requests(mut parts: u64) -> impl Iterator<Item = u64> {
    core::iter::from_fn(move || {
        let rest = (0..fetch::PARTS_PER_REQUEST).fold(parts, |rest, _| rest & rest.wrapping_sub(1));
        let these = parts & !rest;
        parts = rest;
        (these != 0).then_some(these)
    })
}

/// A capsule that waits for its code.
#[derive(Debug)]
pub struct Waiter {
    /// The capsule.
    pub frame: Frame,
    /// Where its code can be asked for.
    pub source: Option<Source>,
    /// What frames cost there.
    pub toll: Toll,
    /// Units of its bound that it may pay.
    pub means: u32,
    /// Units that it has paid.
    pub paid: u32,
}

impl Waiter {
    /// Who pays for it.
    pub(super) fn whose(&self) -> Ingress {
        Ingress::of(&self.frame)
    }

    fn left(&self) -> u32 {
        self.means.saturating_sub(self.paid)
    }

    /// Whether it pays for asking this neighbour: the one that it came from. One that came from none pays for any.
    fn pays_for(&self, source: &Source) -> bool {
        self.source.is_none_or(|own| own == *source)
    }
}

/// A capsule that waited in vain.
#[derive(Debug)]
pub struct Given {
    /// The capsule.
    pub frame: Frame,
    /// Why.
    pub reason: Reason,
}

impl Given {
    /// One that there was no room for.
    pub(super) fn for_room(waiter: Waiter) -> Given {
        Given { frame: waiter.frame, reason: Reason::FetchFull }
    }
}

impl Pending {
    /// Somebody waits for whom frames cost this.
    pub(super) fn pay_by(&mut self, toll: Toll) {
        self.toll = self.toll.and(toll);
    }

    /// Bytes that asking this neighbour may cost.
    pub(super) fn funds(&self, source: &Source) -> u64 {
        let who = self.waiting.iter().filter(|waiter| waiter.pays_for(source));
        who.fold(self.credit, |sum, waiter| sum.saturating_add(self.toll.unit.saturating_mul(waiter.left().into())))
    }

    /// Has those that wait pay for so many bytes between here and a neighbour, which they can.
    pub(super) fn pay(&mut self, source: &Source, bytes: u64) {
        for waiter in self.waiting.iter_mut().filter(|waiter| waiter.pays_for(source)) {
            let units = self.toll.units(bytes.saturating_sub(self.credit)).min(waiter.left());
            waiter.paid += units;
            self.credit += self.toll.unit.saturating_mul(units.into());
        }
        self.credit = self.credit.saturating_sub(bytes);
    }

    /// Bytes that fetching what is still missing costs.
    fn fare(&self) -> u64 {
        use super::pending::Stage::{Fetching, LookingUp, Preparing};
        match &self.stage {
            Fetching(assembly) => self.toll.of_parts(assembly.missing(), assembly.total()),
            LookingUp(_, Some(length)) => self.toll.of_parts(fetch::all_parts(*length), Some(*length)),
            // Nothing waits for it that could pay for a retry or another part.
            LookingUp(_, None) if self.beside => ASIDE_REQUESTS * self.toll.of_request(1, None),
            LookingUp(_, None) => self.toll.of_request(1, None),
            Preparing => 0,
        }
    }

    /// Whether a capsule with so many units left pays for it.
    pub(super) fn is_affordable(&self, left: u32) -> bool {
        affords(left, self.fare_left())
    }

    /// Units that are still to be paid for that.
    pub(super) fn fare_left(&self) -> u32 {
        self.toll.units(self.fare().saturating_sub(self.credit))
    }

    /// Has one of those that wait for this code pay for what is fetched beside it: one to which twice that is left when the code
    /// itself is paid.
    pub(super) fn pay_beside(&mut self, beside: &mut Pending) -> bool {
        let (own, fare) = (self.fare_left(), beside.fare_left());
        let Some(rich) =
            self.waiting.iter_mut().find(|waiter| fare > 0 && affords(waiter.left().saturating_sub(own), fare))
        else {
            return false;
        };
        rich.paid += fare;
        beside.credit += beside.toll.unit.saturating_mul(fare.into());
        true
    }
}

impl Fetch {
    /// Has those that wait for a code pay for what is fetched beside it; whether they do.
    pub(super) fn pays_beside(&mut self, at: usize) -> bool {
        let Some(mut beside) = self.pending.remove(at) else { return false };
        let of = self.pending.iter_mut().find(|pending| pending.is_of(&beside.code));
        let paid = beside.beside && of.is_some_and(|of| of.pay_beside(&mut beside));
        self.pending.insert(at, beside);
        paid
    }

    /// A search that nobody can pay for ends; what is beside a code waits for a capsule that can.
    pub(super) fn put_off(&mut self, now: u64, unpaid: Pending, steps: &mut Vec<Step>, given: &mut Vec<Given>) {
        if unpaid.beside && unpaid.optional {
            return steps.push(Step::Without { code: unpaid.code });
        }
        if !unpaid.beside {
            let gone = unpaid.waiting.into_iter();
            given.extend(gone.map(|waiter| Given { frame: waiter.frame, reason: Reason::FetchUnpaid }));
            return;
        }
        let again = now + if unpaid.rounds == 0 { 0 } else { AGAIN << unpaid.rounds.min(6) };
        let waits = Pending { unpaid: true, ..unpaid.begin_again(again) };
        given.extend(self.queue.push(waits).into_iter().map(Given::for_room));
    }

    /// Whether anything beside a code waits for a capsule that pays for it.
    #[inline]
    pub fn is_owed(&self) -> bool {
        self.queue.unpaid() > 0
    }

    /// A capsule of ready code from `source` has so many units of its bound left: how many it pays for what is to be had beside the code,
    /// and the steps that come of that.
    pub fn pay_owed(
        &mut self,
        now: u64,
        code: &Digest,
        (left, source): (u32, Source),
        whose: Ingress,
    ) -> Option<(u32, Vec<Step>, Vec<Given>)> {
        let fare = self.queue.owed(now, code).map(Pending::fare_left).filter(|fare| affords(left, *fare))?;
        let mut paid = self.queue.remove(code, true)?;
        paid.credit += paid.toll.unit.saturating_mul(fare.into());
        paid.sources = Sources::of(source, whose);
        paid.unpaid = false;
        paid.asking.wait_until(now);
        let (mut steps, mut given) = (Vec::new(), Vec::new());
        given.extend(self.queue.push(paid).into_iter().map(Given::for_room));
        self.go_on(now, &mut steps, &mut given);
        Some((fare, steps, given))
    }
}

/// Whether a capsule with so many units left pays this fare for something that it can go on without.
pub(super) fn affords(left: u32, fare: u32) -> bool {
    fare <= left / 2
}
