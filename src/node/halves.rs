//! The node's link with the kernel half: orders to it, and packets punted by it.
//!
//! Code that is ready here is linked for the kernel too, in the background, if its bundle has that representation. From
//! then on its capsules run there. A punted capsule is as it came, or it has the verdict of code that has run
//! ([`Capsules::go_on`]). The contract is `bpf/contract.h`.

use super::codes::Code;
use super::output::{Cause, Effect, EventKind, Ingress, KernelOrder, Linked, Turn};
use super::paths::Work;
use super::running::Done;
use super::{Capsules, Cx, Mirror, Node};
use crate::abi::{CHILDREN_MAX, LINES_MAX, NONE};
use crate::classify::{Class, classify};
use crate::code::run::Verdict;
use crate::contract::passed_up;
use crate::core::bucket::TokenBucket;
use crate::core::domain::{Counts, DomainId};
use crate::core::log::Line;
use crate::core::reason::Reason;
use crate::core::record::Written;
use crate::core::state_store::Change;
use crate::frame::{Frame, Link, PortId};
use crate::topology::Neighbour;
use crate::wire::ethernet::ethertype;
use crate::wire::{Addr, Digest, anep, capsule};
use std::sync::Arc;

/// The Ethernet type of frames that come up with a verdict.
const PASSED_UP: [u8; 2] = ethertype::PASSED_UP.to_be_bytes();

/// Bytes of an Ethernet header, and of its two addresses.
const ETHERNET: usize = 14;
const MACS: usize = 12;

/// What waits for its turn is a frame as it came from the kernel half: no index of a neighbour.
pub(super) const PUNT: u32 = NONE - 1;

/// Codes taken over that are prepared at the same time.
const ADOPTED_AT_ONCE: usize = 8;

/// Bytes of `struct passed_up`.
const LENGTH: usize = passed_up::SIZE;

/// Sets of links a second that the kernel half is asked for.
const LINKS_PER_SECOND: u64 = 64;

/// How often the kernel half may be asked for a set of links.
pub(super) fn links_wanted() -> TokenBucket {
    TokenBucket::new(LINKS_PER_SECOND, LINKS_PER_SECOND)
}

/// The kernel half's report on a punted capsule that has run there: `struct passed_up`.
struct PassedUp {
    verdict: Result<Verdict, Reason>,
    /// The resource bound that is left.
    bound: u32,
    code: Digest,
    /// Its source before the code ran.
    source: Addr,
    /// The node's address that the code saw.
    here: Addr,
    /// Where it is written what the code has sent and logged: so many children and lines.
    written: Written,
    children: usize,
    lines: usize,
    /// The set of links that is missing there to copy the packet; 0: it would not help.
    links: u64,
}

impl PassedUp {
    /// The code that has run on a frame.
    fn code_in(frame: &Frame) -> Option<Digest> {
        let told = frame.bytes().get(ETHERNET..)?.first_chunk::<LENGTH>()?;
        Some(Digest(passed_up::CODE.of(told)))
    }

    /// Whether what the code has sent or logged is kept in the kernel half until the frame is done.
    fn has_record(frame: &Frame) -> bool {
        let told = frame.bytes().get(ETHERNET..).and_then(|bytes| bytes.first_chunk::<LENGTH>());
        told.is_some_and(|told| passed_up::CHILDREN.of(told) != [0; 2] || passed_up::LINES.of(told) != [0; 2])
    }

    /// Takes it out of a frame, which is then as it would have come from the wire.
    fn take(frame: &mut Frame) -> Option<PassedUp> {
        let bytes = frame.bytes_mut();
        let told = bytes.get(ETHERNET..)?.first_chunk::<LENGTH>()?;
        let up = PassedUp {
            verdict: Verdict::from_code(i32::from_ne_bytes(passed_up::VERDICT.of(told))),
            bound: u32::from_ne_bytes(passed_up::BOUND.of(told)),
            code: Digest(passed_up::CODE.of(told)),
            source: Addr(passed_up::SOURCE.of(told)),
            here: Addr(passed_up::HERE.of(told)),
            written: Written {
                record: u32::from_ne_bytes(passed_up::RECORD.of(told)),
                number: u64::from_ne_bytes(passed_up::NUMBER.of(told)),
            },
            links: u64::from_ne_bytes(passed_up::LINKS.of(told)),
            children: usize::from(u16::from_ne_bytes(passed_up::CHILDREN.of(told))),
            lines: usize::from(u16::from_ne_bytes(passed_up::LINES.of(told))),
        };
        bytes.copy_within(ETHERNET..ETHERNET + 2, LENGTH + MACS);
        bytes.copy_within(..MACS, LENGTH);
        frame.strip(LENGTH);
        Some(up)
    }
}

/// Whether a frame comes up with a verdict.
#[inline]
pub(super) fn is_passed_up(frame: &Frame, link: Link) -> bool {
    frame.bytes().get(MACS..ETHERNET) == Some(&PASSED_UP) && link != Link::Overlay
}

impl Node {
    /// The kernel half hears these neighbours, each behind a port: they are as little silent as if they were heard here.
    pub fn heard(&mut self, now: u64, list: &[(PortId, Addr)]) {
        let core = &mut self.cx.core;
        let known = &mut core.topology.neighbours;
        for (port, addr) in list {
            if let Some(index) = known.index(*port, *addr) {
                known.hear(index, now);
            }
        }
    }
}

impl Cx {
    /// Code does not run here: it must not run in the kernel half either, also if an earlier process put it there.
    pub(super) fn unlink(&self, turn: &mut Turn<'_>, code: Digest) {
        if self.control.mirror.on {
            turn.out.effects.push(Effect::Kernel(KernelOrder::Unlink(code)));
        }
    }

    /// Tells the kernel half, and other workers, of a new neighbour at once, since its capsules wait for that; of many together
    /// in the next sweep.
    #[inline]
    pub(super) fn tell_new_neighbours(&mut self, turn: &mut Turn<'_>) {
        let Mirror { on, told, next_tell } = self.control.mirror;
        let changed = |told| self.core.topology.neighbours.changes() != told;
        let unheard = on && changed(told) || self.control.workers.told_of_neighbours().is_some_and(changed);
        if unheard && turn.now >= next_tell {
            self.control.mirror.next_tell = turn.now + super::SWEEP;
            self.tell_neighbours(turn);
            self.tell_topology(turn);
        }
    }

    /// Tells the kernel half who the neighbours are, if that has changed.
    pub(super) fn tell_neighbours(&mut self, turn: &mut Turn<'_>) {
        if !self.control.mirror.on {
            return;
        }
        let core = &self.core;
        let changes = core.topology.neighbours.changes();
        if changes != self.control.mirror.told {
            self.control.mirror.told = changes;
            let list = core.topology.neighbours.iter().map(|known| (known.port, known.addr)).collect();
            turn.out.effects.push(Effect::Kernel(KernelOrder::Neighbours(list)));
        }
    }

    /// Lets the system learn a link address that the node has learned: the kernel half asks it.
    pub(super) fn tell_next_hop(&self, turn: &mut Turn<'_>, port: PortId, addr: Addr) {
        if self.control.mirror.on {
            turn.out.effects.push(Effect::Kernel(KernelOrder::NextHop { port, addr }));
        }
    }
}

impl Capsules {
    /// A capsule has come that has run in the kernel half, where its domain has taken it on. It waits for that domain's turn.
    #[cold]
    pub(super) fn receive_punt(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, frame: Frame) {
        let Some(code) = PassedUp::code_in(&frame) else { return cx.drop(turn, frame, Reason::MalformedPunt) };
        let Some(Code::Ready(ready)) = self.codes.of(&code) else {
            return cx.drop(turn, frame, Reason::CodeGone);
        };
        let domain = ready.domain;
        cx.on_domain(turn.now, domain);
        if let Some(owner) = cx.core.domains.of(domain) {
            owner.counts.punted += 1;
        }
        if cx.order.paths.is_queueing() && !cx.has_turn(turn.now, domain, frame.payer) {
            if PassedUp::has_record(&frame) {
                // Its record is taken from all codes of that CPU: it goes on at once, and its domain is billed.
                let run = cx.begin(turn.now, frame.payer, false);
                cx.on_domain(turn.now, domain);
                self.go_on(cx, turn, frame, domain);
                return cx.end(turn.now, run);
            }
            cx.enqueue(turn, domain, frame, Work { environment: self.place, what: PUNT, joins: true });
            return;
        }
        self.go_on(cx, turn, frame, domain);
    }

    /// Goes on with a capsule that has run in the kernel half, in the turn of its domain.
    #[cold]
    pub(super) fn go_on(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, mut frame: Frame, domain: DomainId) {
        let Some(link) = cx.core.topology.port(frame.port).map(|port| port.link) else {
            return cx.drop_in(turn, frame, Reason::MalformedPunt, domain);
        };
        let Some(up) = PassedUp::take(&mut frame) else {
            return cx.drop_in(turn, frame, Reason::MalformedPunt, domain);
        };
        let Ok(Class::Anep(range, Some(native))) = classify(link, frame.bytes()) else {
            return cx.drop_in(turn, frame, Reason::MalformedPunt, domain);
        };
        let Ok(packet) = anep::Packet::new_checked(&frame.bytes()[range.clone()]) else {
            return cx.drop_in(turn, frame, Reason::MalformedPunt, domain);
        };
        let (header, length) = (packet.header_len(), packet.bytes().len());
        frame.truncate(range.start + length);
        frame.strip(range.start + header);
        frame.envelope = native.envelope;
        let Ok(after) = capsule::Header::parse(frame.bytes()) else {
            return cx.drop_in(turn, frame, Reason::MalformedPunt, domain);
        };
        let Some(Code::Ready(ready)) = self.codes.of(&up.code) else {
            return cx.drop_in(turn, frame, Reason::CodeGone, domain);
        };
        if ready.domain != domain {
            return cx.drop_in(turn, frame, Reason::CodeGone, domain);
        }
        let window = ready.window;
        if up.children + up.lines > 0 && !self.take_written(cx, turn, &frame, &up, domain, window) {
            return cx.drop_in(turn, frame, Reason::Forgotten, domain);
        }
        turn.out.event(frame.trace, EventKind::Charged(domain));
        let done = Done { frame, bound: up.bound, here: up.here, domain };
        let before = capsule::Header { source: up.source, ..after };
        self.conclude(cx, turn, done, &before, up.verdict);
    }

    /// Takes over what code has done in the kernel half beside its verdict: lines go into the log, children to those that wait
    /// for the verdict. False if that is not known any more: then nothing has been done.
    fn take_written(
        &mut self,
        cx: &mut Cx,
        turn: &mut Turn<'_>,
        parent: &Frame,
        up: &PassedUp,
        domain: DomainId,
        window: usize,
    ) -> bool {
        let core = &mut cx.core;
        let Some(owner) = core.domains.of(domain) else { return false };
        let Some(records) = owner.records.clone() else { return false };
        let mut lines = [(0, 0); LINES_MAX];
        let Some(lines) = lines.get_mut(..up.lines) else { return false };
        let read = |(at, line): (usize, &mut _)| records.line(up.written, at).map(|found| *line = found).is_some();
        let mut all = lines.iter_mut().enumerate().all(read);
        for at in 0..up.children.min(CHILDREN_MAX) {
            let mut child = turn.out.pool.take();
            child.fill(parent.bytes());
            child.envelope = parent.envelope;
            let place = child.bytes_mut().get_mut(capsule::LOCKED..capsule::HEADER + window);
            let bound = place.and_then(|place| records.send(up.written, at, place));
            all &= bound.is_some();
            core.add_child(child, bound.unwrap_or(0));
        }
        if !all {
            core.children.drain(..).for_each(|child| turn.out.pool.give(child));
            return false;
        }
        records.done(up.written);
        let Some(owner) = core.domains.of(domain) else { return false };
        owner.counts.children += up.children as u64;
        for (tag, value) in lines.iter().copied() {
            if owner.may_log(turn.now) {
                core.log.write(Line { at: turn.now, code: up.code, tag, value, trap: None });
            }
        }
        if up.links != 0 && self.links_wanted.take(turn.now, 1) {
            turn.out.effects.push(Effect::Kernel(KernelOrder::Links(up.links)));
        }
        true
    }

    /// The kernel half has been at work since a process that has gone: the node learns the neighbours that it knows,
    /// and prepares the codes that run there, which come from the store.
    pub fn take_over(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, neighbours: Vec<Neighbour>, codes: Vec<Digest>) {
        let (known, ports) = (&mut cx.core.topology.neighbours, cx.core.gauges.len());
        for neighbour in neighbours.into_iter().filter(|near| usize::from(near.port.0) < ports) {
            if known.index(neighbour.port, neighbour.addr).is_none() {
                known.learn(neighbour, turn.now);
            }
        }
        self.adopted = codes;
        self.want_adopted(cx, turn);
    }

    /// Whether no code is on its way, nor one that ran before still to be prepared.
    pub fn awaits_no_code(&self) -> bool {
        self.adopted.is_empty() && self.fetch.is_empty()
    }

    /// Whether the kernel half has said of these, as far as they are ready, whether it runs them.
    pub fn awaits_no_link(&self, codes: &[Digest]) -> bool {
        let awaits = |code| matches!(self.codes.of(code), Some(Code::Ready(ready)) if ready.bpf.is_some() && ready.kernel.is_none());
        !codes.iter().any(awaits)
    }

    /// Names of the codes that have run lately, the last used first: what the next process prepares.
    pub fn recent_codes(&self) -> Vec<Digest> {
        self.codes.recent(super::RECENT_MAX)
    }

    /// Prepares the next codes that run in the kernel half and not here, a few at a time.
    pub(super) fn want_adopted(&mut self, cx: &mut Cx, turn: &mut Turn<'_>) {
        while self.fetch.len() < ADOPTED_AT_ONCE
            && let Some(code) = self.adopted.pop()
        {
            if self.codes.of(&code).is_none() {
                let (steps, _) = self.fetch.wait(turn.now, code, None);
                self.take_steps(cx, turn, steps);
            }
        }
    }

    /// The bpf representation of code that is ready, or will be, has come.
    pub(super) fn take_bpf(&mut self, turn: &mut Turn<'_>, code: Digest, bpf: Arc<[u8]>, ingress: Ingress) {
        let (window, grant) = match self.codes.of(&code) {
            Some(Code::Ready(ready)) => (ready.window as u32, &ready.grant),
            Some(Code::Coming(coming)) => match &coming.grant {
                Some(grant) => (coming.claim.manifest.window(), grant),
                None => return,
            },
            _ => return,
        };
        let (role, principal) = (grant.role.clone(), grant.vouched_for());
        let cause = Cause { ingress, principal };
        turn.out.effects.push(Effect::Kernel(KernelOrder::Link { code, bpf, window, role, cause }));
    }

    /// The answer to [`KernelOrder::Link`]: the code's soft state moves to where both halves reach it, then its
    /// capsules may run there.
    pub fn linked(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, code: Digest, result: Linked) {
        let ready = match self.codes.of_mut(&code) {
            Some(Code::Ready(ready)) => ready,
            // When it is ready here too.
            Some(Code::Coming(coming)) => {
                coming.linked = Some(result);
                return;
            }
            _ => return cx.unlink(turn, code),
        };
        let role = ready.grant.role.clone();
        match &result {
            Ok(shared) => {
                tracing::info!(event = "code", node = cx.core.name, code = %code.short(), "code runs in the kernel");
                let (core, now) = (&mut cx.core, turn.now);
                let common = core.domains.of(ready.domain).and_then(|domain| domain.common.clone());
                if let Some(common) = &common {
                    common.share(&shared.state, shared.account.as_ref(), now);
                }
                let mut lost = Counts::default();
                core.state.hand_over(&mut core.domains, ready.domain, now, |key, value, keep_ms| {
                    // What finds no place there vanishes early, as soft state may.
                    if let Err(why) = shared.state.change(key, Change::Put(value), keep_ms, now) {
                        lost.refuse(why);
                    }
                });
                if let Some(domain) = core.domains.of(ready.domain) {
                    domain.counts.state_refused += lost.state_refused;
                    domain.counts.state_failed += lost.state_failed;
                    // Of several workers each has what all have in common.
                    if common.is_none() {
                        domain.shared = Some(shared.state.clone());
                        shared.account.iter().for_each(|account| domain.share_with_kernel(account));
                    }
                    domain.records = shared.records.clone();
                    domain.wishes.kernel = shared.account.clone();
                }
                cx.seat_wishes(now, ready.domain);
                cx.tell_limits(turn, &code, &role);
                turn.out.effects.push(Effect::Kernel(KernelOrder::Activate(code)));
            }
            Err(why) => {
                tracing::info!(event = "code", node = cx.core.name, code = %code.short(), why, "code stays in user space")
            }
        }
        self.codes.set_kernel(&code, result.map(drop));
    }
}
