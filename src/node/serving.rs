//! Answers to neighbours that ask for code: at most three bytes for each byte of the request.
//!
//! A request is answered only if it comes from a neighbour and within the rate of its payer. So a forged one is not
//! worth sending. That rule needs no table, and is stricter than that of [`crate::topology::Reach`]: nothing is saved
//! up for later, and an answer gives nobody more.
//!
//! Rates go by [`Payer`]: each peer of a port, each neighbour that proves its name, and all others of a port together.
//! Addresses on a link can be forged, so a thousand of them have no more than one.
//!
//! An object that is not in memory is looked up in the store. The request waits in a short list, where the oldest of
//! the payer with most gives way. The look-up is charged like a part that is sent, also if it finds nothing.

use super::output::{Effect, EventKind, Ingress, Turn};
use super::rates::Rates;
use super::{Capsules, Cx};
use crate::classify::Native;
use crate::code::fetch::{Part, Source};
use crate::core::reason::Reason;
use crate::frame::shares::gives_way;
use crate::frame::{Frame, Payer, PortId};
use crate::wire::{Addr, Digest, anep, fetch};
use std::collections::VecDeque;

/// Requests that wait for the store.
const ASKED_MAX: usize = 32;

/// What a look-up in the store is charged, in bytes.
const LOOK_UP: u64 = fetch::PART as u64;

/// A request that can be answered.
#[derive(Clone, Copy)]
struct Request {
    from: Source,
    payer: Payer,
    nonce: u32,
    digest: Digest,
    missing: u64,
    /// Parts its bytes pay for.
    budget: u32,
}

/// When a message was done with.
enum Served {
    Now,
    /// When the store has answered.
    Later,
}

/// Requests under way and the rates of those who ask.
pub(super) struct Serving {
    asked: VecDeque<Request>,
    rates: Rates<Payer>,
}

/// What one may ask for at once: two of the largest objects at least.
fn burst(bytes_per_second: u64) -> u64 {
    bytes_per_second.max(2 * fetch::MAX_OBJECT as u64)
}

impl Serving {
    pub(super) fn new(bytes_per_second: u64) -> Serving {
        Serving { asked: VecDeque::new(), rates: Rates::new(bytes_per_second, burst(bytes_per_second)) }
    }

    /// Each neighbour may ask for so much from now on.
    pub(super) fn renew(&mut self, now: u64, bytes_per_second: u64) {
        self.rates.renew(now, bytes_per_second, burst(bytes_per_second));
    }

    /// Requests that wait for the store.
    pub(super) fn waiting(&self) -> usize {
        self.asked.len()
    }

    /// Charges a payer for so many bytes; false if they are beyond its rate.
    fn charge(&mut self, now: u64, payer: Payer, bytes: u64) -> bool {
        self.rates.charge(now, payer, bytes)
    }
}

impl Cx {
    /// The neighbour a fetch message comes from, or nothing if it is none.
    pub(super) fn fetch_peer(&self, frame: &Frame, claimed: Addr, native: Option<&Native>) -> Option<Source> {
        let core = &self.core;
        let (port, peer) = (frame.port, frame.peer);
        let Some(native) = native else {
            let (_, known) = core.topology.neighbours.of_peer(port, peer)?;
            return Some(Source { port, peer, addr: known.addr });
        };
        if frame.authenticated && frame.sender != claimed {
            return None;
        }
        if claimed != native.source || !core.topology.is_own(native.destination) {
            return None;
        }
        self.is_neighbour(port, claimed).then_some(Source { port, peer, addr: claimed })
    }

    /// Whether code may be asked of a node, or served to it: a known neighbour, or one on the link.
    pub(super) fn is_neighbour(&self, port: PortId, addr: Addr) -> bool {
        let core = &self.core;
        let known = core.topology.neighbours.index(port, addr).is_some();
        known || core.topology.port(port).is_some_and(|port| port.on_link(addr))
    }

    /// Sends a fetch message to a neighbour.
    pub(super) fn send_fetch(&mut self, turn: &mut Turn<'_>, to: Source, message: &fetch::Message<'_>) {
        let mut frame = turn.out.pool.take();
        let room = frame.room();
        match room.get_mut(..message.len()).map(|room| message.emit(room)) {
            Some(Ok(length)) => {
                frame.received(length);
                self.send_to_neighbour(turn, frame, anep::type_id::FETCH, to);
            }
            _ => {
                self.core.ledger.made += 1;
                self.drop(turn, frame, Reason::TooBig);
            }
        }
    }
}

impl Capsules {
    /// A code-fetch message has come in: it begins the frame.
    pub(super) fn receive_fetch(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, frame: Frame, native: Option<&Native>) {
        // Whoever's code it is: the work is the node's own.
        cx.on_domain(turn.now, cx.control.management);
        let Ok(message) = fetch::Message::parse(frame.bytes()) else {
            return cx.drop(turn, frame, Reason::MalformedFetch);
        };
        let claimed = match (&message, native) {
            (fetch::Message::Request { requester, .. }, _) => *requester,
            (_, Some(native)) => native.source,
            (_, None) => Addr::UNSPECIFIED,
        };
        let Some(from) = cx.fetch_peer(&frame, claimed, native) else {
            return cx.drop(turn, frame, Reason::FetchForeign);
        };
        let taken = match message {
            fetch::Message::Request { nonce, digest, missing, .. } => {
                let budget = fetch::reply_budget(frame.len());
                self.serve(cx, turn, Request { from, payer: frame.payer, nonce, digest, missing, budget })
            }
            fetch::Message::Part { nonce, digest, part, total, bytes } => {
                let part = Part { nonce, digest, part, total, bytes };
                self.fetch.part(turn.now, from, part).map(|steps| {
                    // It has repeated the nonce of a request.
                    cx.control.originate.reach.answered(turn.now, from.addr);
                    self.take_steps(cx, turn, steps);
                    Served::Now
                })
            }
            fetch::Message::Absent { nonce, digest } => self.fetch.absent(turn.now, from, nonce, digest).map(|step| {
                self.take_steps(cx, turn, step);
                Served::Now
            }),
        };
        match taken {
            Ok(Served::Now) => cx.use_up(turn, frame),
            // What it asks for is kept, and counts as held.
            Ok(Served::Later) => turn.out.pool.give(frame),
            Err(reason) => cx.drop(turn, frame, reason),
        }
    }

    fn serve(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, request: Request) -> Result<Served, Reason> {
        if self.objects.of(&request.digest).is_some() {
            return self.answer(cx, turn, request).map(|()| Served::Now);
        }
        if !self.serving.charge(turn.now, request.payer, LOOK_UP) {
            return Err(Reason::FetchRate);
        }
        if self.serving.asked.len() == ASKED_MAX {
            let worst = gives_way(self.serving.asked.iter(), |asked| asked.payer);
            if worst.and_then(|worst| self.serving.asked.remove(worst)).is_some() {
                cx.core.drops.count(Reason::ServingFull);
            }
        }
        self.serving.asked.push_back(request);
        let ingress = Ingress::Port(request.from.port, request.payer);
        turn.out.effects.push(Effect::LookUp(request.digest, ingress));
        Ok(Served::Later)
    }

    /// Answers the requests that waited for the store's word on `digest`.
    pub(super) fn answer_waiting(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, digest: Digest) {
        let waiting = self.serving.asked.len();
        for _ in 0..waiting {
            let Some(request) = self.serving.asked.pop_front() else { break };
            if request.digest != digest {
                self.serving.asked.push_back(request);
            } else {
                match self.answer(cx, turn, request) {
                    Ok(()) => cx.core.ledger.used += 1,
                    Err(reason) => cx.core.drops.count(reason),
                }
            }
        }
    }

    /// Sends the parts asked for, as far as the request pays for them, or word that there are none.
    fn answer(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, request: Request) -> Result<(), Reason> {
        let Request { from, payer, nonce, digest, missing, budget } = request;
        let Some(bytes) = self.objects.of(&digest) else {
            let message = fetch::Message::Absent { nonce, digest };
            if !self.serving.charge(turn.now, payer, message.len() as u64) {
                return Err(Reason::FetchRate);
            }
            cx.send_fetch(turn, from, &message);
            return Ok(());
        };
        let total = bytes.len() as u32;
        let wanted = (0..fetch::parts(total) as u16).filter(|part| missing >> part & 1 == 1);
        let mut sent = 0;
        for part in wanted.take(budget as usize) {
            let Some(length) = fetch::part_len(part, total) else { break };
            let start = usize::from(part) * fetch::PART;
            let message = fetch::Message::Part { nonce, digest, part, total, bytes: &bytes[start..start + length] };
            if !self.serving.charge(turn.now, payer, message.len() as u64) {
                return Err(Reason::FetchRate);
            }
            cx.send_fetch(turn, from, &message);
            sent += 1;
        }
        turn.out.event(0, EventKind::Served(digest, sent));
        Ok(())
    }
}
