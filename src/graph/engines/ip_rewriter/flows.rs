//! Flows that a rewriter knows, in both directions, and which of them its program in the kernel knows too.

use super::shift::Shift;
use crate::contract::plan::FOUND_BYTES;
use crate::graph::fused::{EngineTable, Holds, KEY, TableEntry, Tried};
use crate::graph::packet::{FlowEnds, protocol};
use std::collections::{HashMap, VecDeque};

#[cfg(test)]
mod tests;

/// Flows that are looked at when one more begins, and when there is no room for it: each may be two system calls.
const LOOKED_AT: usize = 2;
const LOOKED_AT_IF_FULL: usize = 8;

/// Entries that flows have in the kernel's table, at most: some are left for stations.
const SHOWN_MAX: usize = 15_360;

/// Tables of programs before that are asked for flows, at most.
const OLDER_MAX: usize = 4;

/// Nanoseconds without packets until a flow is forgotten: of TCP, of TCP that ends, of UDP, and of TCP that nobody has answered.
pub(super) type Timeouts = [u64; 4];

/// Bytes that one takes with both directions, its place in their order, and what tables have free.
pub(super) const FLOW_BYTES: u64 = 320;

/// Bytes that a direction takes besides, in which what is said has another length.
const SHIFT_BYTES: u64 = 128;

/// A flow in one direction.
#[derive(Clone, Copy)]
pub(super) struct Flow {
    pub becomes: FlowEnds,
    pub output: u16,
    used: u64,
    /// Whether its connection is ending.
    ends: bool,
    /// Which flow it is: ends may have been another one's before.
    number: u64,
    /// Whether its packets need not come here, and when that was tried last.
    in_kernel: bool,
    tried: Tried,
    /// Whether a program before may have had packets of it since.
    was_in_kernel: bool,
    /// Whether what is said in one of its directions has another length behind here, and so its packets come here.
    pub is_shifted: bool,
    /// Whether it is the direction that began.
    pub is_first: bool,
    /// Whether a packet has come in the other one.
    is_answered: bool,
}

pub(super) struct Flows {
    timeouts: Timeouts,
    capacity: usize,
    /// Both directions of each.
    all: HashMap<FlowEnds, Flow>,
    /// In the order in which they are looked at next, by their first direction; at most about twice as many as there are, since two are
    /// looked at for each that begins.
    order: VecDeque<(FlowEnds, u64)>,
    begun: u64,
    /// Where the program in the kernel looks flows up, and where those before did.
    table: Option<EngineTable>,
    older: Vec<EngineTable>,
    /// How many of its entries are these flows', and how many found no room.
    shown: usize,
    pub unshown: u64,
    /// Of directions in which what is said has another length, by how much.
    shifts: HashMap<FlowEnds, Shift>,
}

impl Flow {
    /// Whether its connection has been ending.
    pub(super) fn has_ended(&self) -> bool {
        self.ends
    }

    fn timeout(&self, [tcp, done, udp, unanswered]: Timeouts) -> u64 {
        match (self.becomes.protocol, self.ends) {
            (protocol::TCP, true) => done,
            (protocol::TCP, false) if !self.is_answered => unanswered,
            (protocol::TCP, false) => tcp,
            _ => udp,
        }
    }

    fn is_used(&self, timeouts: Timeouts, now: u64) -> bool {
        self.used.saturating_add(self.timeout(timeouts)) > now
    }

    /// What the kernel does with its packets.
    fn found(&self, from: &FlowEnds, timeouts: Timeouts) -> TableEntry {
        let (old, new) = (words(from), words(&self.becomes));
        let mut bytes = [0; FOUND_BYTES];
        bytes[..new.len()].copy_from_slice(&new);
        // RFC 1624: what a sum grows by when words become others. IP has the addresses, the transport has all.
        let grown = |bytes: usize| {
            let word = |of: &[u8; 12], at: usize| u64::from(u16::from_ne_bytes([of[at], of[at + 1]]));
            let sum: u64 = (0..bytes).step_by(2).map(|at| (0xffff - word(&old, at)) + word(&new, at)).sum();
            let once = (sum & 0xffff) + (sum >> 16);
            ((once & 0xffff) + (once >> 16)) as u16
        };
        TableEntry {
            bytes,
            output: self.output,
            sums: [grown(8), grown(12)],
            holds: Holds::Idle(self.timeout(timeouts)),
        }
    }
}

/// Addresses and ports as they stand in a packet.
fn words(ends: &FlowEnds) -> [u8; 12] {
    let ((source, from), (destination, to)) = (ends.source, ends.destination);
    let mut words = [0; 12];
    words[..4].copy_from_slice(&source.0);
    words[4..8].copy_from_slice(&destination.0);
    words[8..10].copy_from_slice(&from.to_be_bytes());
    words[10..].copy_from_slice(&to.to_be_bytes());
    words
}

fn key(ends: &FlowEnds) -> [u8; KEY] {
    let mut key = [0; KEY];
    key[..12].copy_from_slice(&words(ends));
    key[12..].copy_from_slice(&u32::from(ends.protocol).to_ne_bytes());
    key
}

impl Flows {
    pub(super) fn new(timeouts: Timeouts, capacity: usize) -> Flows {
        Flows {
            timeouts,
            capacity,
            all: HashMap::new(),
            order: VecDeque::new(),
            begun: 0,
            table: None,
            older: Vec::new(),
            shown: 0,
            unshown: 0,
            shifts: HashMap::new(),
        }
    }

    /// Bytes that all of them take.
    pub(super) fn bytes(&self) -> u64 {
        self.len() as u64 * FLOW_BYTES + self.shifts.len() as u64 * SHIFT_BYTES
    }

    /// From this number of a direction of a TCP flow on, what is said is so much longer than before. Nothing of a flow that is not known.
    pub(super) fn shift(&mut self, ends: &FlowEnds, from: u32, longer: u32, now: u64) {
        if !self.is_alive(ends, now) {
            return;
        }
        for way in self.all.get(ends).map_or([*ends; 2], |flow| [*ends, flow.becomes.reversed()]) {
            self.all.get_mut(&way).into_iter().for_each(|flow| flow.is_shifted = true);
            self.hide(&way);
        }
        self.shifts.entry(*ends).or_default().add(from, longer);
    }

    /// A connection of the same ends begins anew: nothing is known of what is said in it.
    pub(super) fn anew(&mut self, flow: Flow) {
        for ends in self.ways_of(flow) {
            self.shifts.remove(&ends);
            if let Some(flow) = self.all.get_mut(&ends) {
                (flow.is_shifted, flow.ends, flow.is_answered) = (false, false, false);
            }
        }
    }

    /// By how much a direction of a flow is shifted.
    pub(super) fn shift_of(&self, ends: &FlowEnds) -> Shift {
        self.shifts.get(ends).copied().unwrap_or_default()
    }

    pub(super) fn len(&self) -> usize {
        self.all.len() / 2
    }

    pub(super) fn in_kernel(&self) -> usize {
        self.shown
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&FlowEnds, &Flow)> {
        self.all.iter()
    }

    /// Takes over those of another one.
    pub(super) fn take(&mut self, before: &mut Flows) {
        let table = self.table.take();
        (self.all, self.order) = (core::mem::take(&mut before.all), core::mem::take(&mut before.order));
        (self.begun, self.unshown) = (before.begun, before.unshown);
        self.shifts = core::mem::take(&mut before.shifts);
        (self.older, self.table) = (core::mem::take(&mut before.older), before.table.take());
        self.meet(table);
    }

    /// None of them is in this table yet; the one before is asked when their packets came last.
    pub(super) fn meet(&mut self, table: Option<EngineTable>) {
        self.older.extend(core::mem::replace(&mut self.table, table));
        if self.older.len() > OLDER_MAX {
            self.older.remove(0);
        }
        self.shown = 0;
        for flow in self.all.values_mut() {
            flow.was_in_kernel |= flow.in_kernel;
            (flow.in_kernel, flow.tried) = (false, Tried::default());
        }
    }

    /// The flow of a packet that is not its first; from then on the kernel may have it.
    pub(super) fn find(&mut self, ends: &FlowEnds, now: u64) -> Option<Flow> {
        if !self.is_alive(ends, now) {
            return None;
        }
        let flow = self.all.get_mut(ends)?;
        flow.used = now;
        let mut found = *flow;
        if !found.is_first && !found.is_answered {
            found.is_answered = true;
            for way in [*ends, found.becomes.reversed()] {
                self.all.get_mut(&way).into_iter().for_each(|flow| flow.is_answered = true);
            }
        }
        if !found.ends && !found.is_shifted && found.tried.is_due(now) {
            self.show(ends, now);
        }
        Some(found)
    }

    /// What a packet of a flow was before it had these ends; it is no packet of the flow that asks.
    pub(super) fn before(&mut self, ends: &FlowEnds, now: u64) -> Option<FlowEnds> {
        let back = ends.reversed();
        let is_alive = self.is_alive(&back, now);
        self.all.get(&back).filter(|_| is_alive).map(|flow| flow.becomes.reversed())
    }

    /// Puts a flow where the kernel looks flows up.
    fn show(&mut self, ends: &FlowEnds, now: u64) {
        let timeouts = self.timeouts;
        let Some((table, flow)) = self.table.as_ref().zip(self.all.get_mut(ends)) else { return };
        flow.tried.note(now);
        let is_room = flow.in_kernel || self.shown < SHOWN_MAX;
        if is_room && table.put(key(ends), &flow.found(ends, timeouts)) {
            self.shown += usize::from(!core::mem::replace(&mut flow.in_kernel, true));
        } else {
            self.unshown += 1;
            self.age(LOOKED_AT_IF_FULL, now);
        }
    }

    /// Both directions of a flow end soon, and what is left of it comes here.
    pub(super) fn end(&mut self, flow: Flow) {
        for ends in self.ways_of(flow) {
            self.all.get_mut(&ends).into_iter().for_each(|flow| flow.ends = true);
            self.hide(&ends);
        }
    }

    /// The ends of a flow in both directions.
    fn ways_of(&self, flow: Flow) -> impl Iterator<Item = FlowEnds> + use<> {
        let back = flow.becomes.reversed();
        let own = self.all.get(&back).map(|back| back.becomes.reversed());
        [Some(back), own].into_iter().flatten()
    }

    /// The kernel knows a direction no more.
    fn hide(&mut self, ends: &FlowEnds) {
        if self.all.get_mut(ends).is_some_and(|flow| core::mem::take(&mut flow.in_kernel)) {
            self.shown -= 1;
            self.table.iter().for_each(|table| table.remove(key(ends)));
        }
    }

    /// Whether there is room for one more, here and in the memory of whoever pays for it.
    pub(super) fn has_room(&mut self, now: u64, is_paid: bool) -> bool {
        if self.len() >= self.capacity || !is_paid {
            self.age(LOOKED_AT_IF_FULL, now);
        }
        self.len() < self.capacity && is_paid
    }

    /// Looks at so many flows, one after the other and then at the first again; who is not in use any more is forgotten.
    fn age(&mut self, count: usize, now: u64) {
        for _ in 0..count.min(self.order.len()) {
            let Some((ends, number)) = self.order.pop_front() else { return };
            if self.all.get(&ends).is_none_or(|flow| flow.number != number) {
                continue;
            }
            if self.is_alive(&ends, now) {
                self.order.push_back((ends, number));
            } else {
                self.remove(&ends);
            }
        }
    }

    /// Whether nobody has these ends any more.
    pub(super) fn is_free(&mut self, ends: &FlowEnds, now: u64) -> bool {
        !self.is_alive(ends, now)
    }

    /// A flow begins, with its answers.
    pub(super) fn begin(&mut self, ends: FlowEnds, becomes: FlowEnds, (forward, back): (u16, u16), now: u64) -> Flow {
        self.age(LOOKED_AT, now);
        self.remove(&ends);
        self.remove(&becomes.reversed());
        self.begun += 1;
        let (number, tried) = (self.begun, Tried::default());
        let (ending, in_kernel, was_in_kernel) = (false, false, false);
        let (is_shifted, is_answered, is_first) = (false, false, true);
        let flow = Flow {
            becomes,
            output: forward,
            used: now,
            ends: ending,
            number,
            in_kernel,
            tried,
            was_in_kernel,
            is_shifted,
            is_first,
            is_answered,
        };
        self.all.insert(ends, flow);
        self.all.insert(becomes.reversed(), Flow { becomes: ends.reversed(), output: back, is_first: false, ..flow });
        self.order.push_back((ends, number));
        flow
    }

    /// Whether a packet has been of a flow lately, in either direction and in either half. Both directions know then.
    fn is_alive(&mut self, ends: &FlowEnds, now: u64) -> bool {
        let Some(flow) = self.all.get(ends).copied() else { return false };
        let back = flow.becomes.reversed();
        if !self.is_used(ends, now) && !self.is_used(&back, now) {
            return false;
        }
        let used = [ends, &back].into_iter().filter_map(|way| self.all.get(way)).map(|flow| flow.used).max();
        for way in [ends, &back] {
            self.all.get_mut(way).into_iter().for_each(|flow| flow.used = used.unwrap_or(flow.used));
        }
        true
    }

    fn is_used(&mut self, ends: &FlowEnds, now: u64) -> bool {
        let Flows { all, timeouts, table, older, .. } = self;
        let Some(flow) = all.get_mut(ends) else { return false };
        if flow.is_used(*timeouts, now) {
            return true;
        }
        let tables = table.iter().filter(|_| flow.in_kernel).chain(older.iter().filter(|_| flow.was_in_kernel));
        let idle = tables.filter_map(|table| table.idle(key(ends))).min();
        flow.used = idle.map_or(flow.used, |idle| flow.used.max(now.saturating_sub(idle)));
        flow.is_used(*timeouts, now)
    }

    /// Takes a flow out, with its answers.
    fn remove(&mut self, ends: &FlowEnds) {
        let back = self.all.get(ends).map(|flow| flow.becomes.reversed());
        for ends in [Some(*ends), back].into_iter().flatten() {
            self.hide(&ends);
            self.all.remove(&ends);
            self.shifts.remove(&ends);
        }
    }
}
