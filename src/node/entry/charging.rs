//! Measures the use of each payer and charges it: the clock is read around work, and the difference goes to a row.

use super::{Bill, Entry, EntryCounts, EntryLimits, FRAME_STEPS, RUN, Run, WorkClock};
use crate::code::run::Ingress;
use crate::core::domain::DomainId;
use crate::frame::{Payer, PeerId, PortId};
use crate::node::{Cx, Node};
use crate::wire::Addr;

impl Node {
    /// What neighbours may use from now on.
    pub fn set_entry(&mut self, limits: EntryLimits) {
        self.cx.order.entry.set_limits(limits);
    }

    /// By which clock work is measured; without one, steps are counted.
    pub fn set_clock(&mut self, clock: Box<dyn WorkClock>) {
        self.cx.order.entry.clock = Some(clock);
    }

    /// The worker has rested for so many nanoseconds.
    #[inline]
    pub fn rested(&mut self, nanoseconds: u64) {
        if let Some(clock) = &mut self.cx.order.entry.clock {
            clock.rested(nanoseconds);
        }
    }

    /// What the worker has worked so far, in nanoseconds, when the node's clock shows this, and now; without a clock of
    /// work, what that shows.
    #[inline]
    pub fn worked(&mut self, now: u64) -> u64 {
        let entry = &mut self.cx.order.entry;
        let reading = entry.clock.as_mut().map_or(now, |clock| clock.at(now));
        if entry.run.frames > 0 && entry.clock.is_some() {
            entry.charge_run(now, reading);
        }
        self.cx.pay(now);
        reading
    }

    /// What the worker has worked so far, read now, or how many steps it has taken.
    #[inline]
    pub fn work_so_far(&mut self) -> u64 {
        let entry = &mut self.cx.order.entry;
        entry.end_run(entry.now);
        entry.reading()
    }
}

/// Whether a packet's work is measured until [`Cx::end`]: not if the packet waits, and is paid for then.
#[must_use]
pub(in crate::node) struct Metered(bool);

impl Entry {
    /// A frame is done at once at this one's expense: behind others of the same, or as the first.
    #[inline]
    fn begin_run(&mut self, now: u64, payer: Payer) {
        if self.run.payer != payer || self.run.frames == 0 {
            self.end_run(now);
            self.run = Run { payer, since: self.reading(), ..Run::NONE };
        }
        (self.is_open, self.is_named) = (true, false);
    }

    /// What is done is this domain's. What was done for another one is charged first.
    #[inline]
    fn name(&mut self, now: u64, domain: DomainId) {
        self.is_named = true;
        match self.run.domain {
            Some(known) if known == domain && self.run.part.is_none() => {}
            None => self.run.domain = Some(domain),
            Some(_) => self.divide_run(now, Some(domain), None),
        }
    }

    /// The same, and of this domain below it. Others of the run were not, or were another one's.
    fn name_part(&mut self, now: u64, part: DomainId) {
        match self.run.part {
            Some(known) if known == part => {}
            None if self.run.frames == 0 => self.run.part = Some(part),
            _ => self.divide_run(now, self.run.domain, Some(part)),
        }
    }

    /// What was done so far is charged, and what follows is at the expense of these.
    fn divide_run(&mut self, now: u64, domain: Option<DomainId>, part: Option<DomainId>) {
        let (payer, since) = (self.run.payer, self.reading());
        self.charge_run(now, since);
        self.run = Run { payer, domain, part, since, ..Run::NONE };
    }

    /// One of them is done.
    #[inline]
    fn ran_one(&mut self, now: u64) {
        self.run.frames += 1;
        self.run.nobodys += u32::from(!self.is_named);
        self.is_open = false;
        // Steps cost nothing to read, and what was taken is known before the next frame is.
        let ends = self.run.frames >= RUN || self.run.part.is_some() || self.run.payer == Payer::NOBODY;
        if ends || self.clock.is_none() {
            self.end_run(now);
        }
    }

    /// No more frames of the one whose frames were done: what they took is charged.
    #[inline]
    pub(in crate::node) fn end_run(&mut self, now: u64) {
        if self.run.frames > 0 {
            let reading = self.reading();
            self.charge_run(now, reading);
        }
    }

    fn charge_run(&mut self, now: u64, reading: u64) {
        let Run { payer, domain, part, frames, nobodys, since } = core::mem::replace(&mut self.run, Run::NONE);
        let spent = reading.saturating_sub(since);
        let alone = self.alone;
        if let Some(owner) = self.owners.get_mut(usize::from(payer.0)) {
            // What has waited, or comes of an application, is no part of a batch.
            self.charged += if owner.came > 0 { spent } else { 0 };
            owner.spend(now, spent, alone);
        }
        if let Some(domain) = domain {
            let own = frames - nobodys;
            let cost = if nobodys == 0 { spent } else { spent * u64::from(own) / u64::from(frames) };
            self.bill = Some(Bill { domain, part, frames: own, cost });
        }
    }
}

impl Cx {
    /// A packet is begun with: what is done until [`Cx::end`] is at its neighbour's expense, unless it waits where
    /// packets wait, or comes of a packet that was begun with before. The clock is read when another one's frame comes,
    /// and after some of one's own.
    #[inline(always)]
    pub(in crate::node) fn begin(&mut self, now: u64, payer: Payer, waits: bool) -> Metered {
        let metered = !(waits && self.order.paths.is_queueing() || self.order.entry.is_open);
        if metered {
            self.order.entry.begin_run(now, payer);
            self.order.entry.current = payer;
            self.pay(now);
        }
        Metered(metered)
    }

    /// The packet is done with.
    #[inline(always)]
    pub(in crate::node) fn end(&mut self, now: u64, Metered(metered): Metered) {
        if metered {
            self.order.entry.current = Payer::NOBODY;
            self.order.entry.ran_one(now);
            self.pay(now);
        }
    }

    /// The packet that was begun with is this domain's: if it is measured, what it costs is in the domain's account too. The
    /// clock is read when it is another one's than the packet before.
    #[inline]
    pub(in crate::node) fn on_domain(&mut self, now: u64, domain: DomainId) {
        if self.order.entry.is_open {
            self.order.entry.name(now, domain);
            self.pay(now);
        }
    }

    /// What is done in the turn of a domain, or at its expense, is for one below it: its cost is in that one's account.
    pub(in crate::node) fn on_part(&mut self, now: u64, part: DomainId) {
        if self.order.entry.is_open {
            self.order.entry.name_part(now, part);
            self.pay(now);
        } else {
            self.order.paths.set_part(Some(part));
        }
    }

    /// What domains are to be charged is in their accounts.
    #[inline(always)]
    pub(in crate::node) fn pay(&mut self, now: u64) {
        // Field by field, as they were written: a copy of the whole would wait for them.
        if let Some(Bill { domain, part, frames, cost }) = &self.order.entry.bill {
            let (domain, part, frames, cost) = (*domain, *part, *frames, *cost);
            self.order.entry.bill = None;
            self.pay_bill(now, (domain, part), frames, cost);
        }
    }

    fn pay_bill(&mut self, now: u64, (domain, part): (DomainId, Option<DomainId>), frames: u32, cost: u64) {
        if self.order.paths.is_queueing() {
            self.enter_account((domain, part), cost);
            return self.bill_path(domain, cost, now);
        }
        self.enter_account((domain, part), cost + u64::from(frames) * self.order.paths.intake());
    }

    /// What became of the frames of a peer of a port; of [`PeerId::NONE`], of its strangers'.
    pub fn entry_counts(&self, port: PortId, peer: PeerId) -> EntryCounts {
        let owner = self.order.entry.owners.get(self.order.entry.place(port, peer));
        owner.map_or(EntryCounts::default(), |owner| owner.counts)
    }

    /// The same of a neighbour on a link that has a key; nothing of any other.
    pub fn entry_counts_of(&self, port: PortId, addr: Addr) -> Option<EntryCounts> {
        let known = self.order.entry.keyed.iter().find(|known| (known.0, known.1) == (port, addr))?;
        self.order.entry.owners.get(usize::from(known.2)).map(|owner| owner.counts)
    }

    /// Who pays for what is being done, and for what comes of it later.
    pub(in crate::node) fn current_payer(&self) -> Payer {
        self.order.entry.current
    }

    /// Does what a packet that waited is for, whose neighbour is charged when its turn is over ([`Node::ran`]); says
    /// how many steps that took.
    pub(in crate::node) fn on_account_of(&mut self, payer: Payer, work: impl FnOnce(&mut Cx)) -> u64 {
        let before = self.order.entry.steps;
        self.order.entry.current = payer;
        work(self);
        self.order.entry.current = Payer::NOBODY;
        self.order.entry.steps.saturating_sub(before)
    }

    /// By which way came what this one pays for.
    pub(in crate::node) fn ingress_of_payer(&self, payer: Payer) -> Ingress {
        self.order.entry.ingress(payer)
    }

    /// A packet has its turn that came in no frame; without a clock it costs what receiving one does.
    pub(in crate::node) fn count_frame(&mut self) {
        if self.order.entry.clock.is_none() {
            self.order.entry.steps += FRAME_STEPS;
        }
    }

    /// Code has taken so many steps, in whatever environment.
    #[inline]
    pub(in crate::node) fn count_steps(&mut self, steps: u64) {
        self.order.entry.steps += steps;
    }

    /// What everybody may have until the next call, a tenth of a second later.
    pub(in crate::node) fn share_out(&mut self, now: u64) {
        self.order.entry.roll(now);
    }
}
