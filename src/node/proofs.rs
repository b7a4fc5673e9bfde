//! Proofs of neighbours: packets with a code from a shared secret, and ports that demand one.
//!
//! ```text
//! in    frame ─▶ proof? ─▶ key of the port? ─▶ counter in the window? ─▶ code right? ─▶ authenticated, without the proof
//!                 │ none: unauthenticated if the port demands one        mac-replayed      mac-forged
//! out   ANEP packet to a neighbour with a key ─▶ proof in front
//! ```
//!
//! Two neighbours share a secret. Each direction has a key of its own, derived from it and both addresses, so a packet
//! sent back to its sender is refused. A sender's counter grows with every packet and over restarts: it begins at the
//! time of day, and jumps to it once in `STEP`. So a node that has just started refuses packets from before by its
//! clock, and needs no memory of them. `docs/trust.md` has the remaining gap.

use super::replay::Window;
use super::unproved::Unproved;
use super::{Cx, Node};
use crate::core::reason::Reason;
use crate::frame::{Frame, Payer, PeerId, PortId};
use crate::topology::Topology;
use crate::trust::PrincipalId;
use crate::wire::anep;
use crate::wire::proof::{CODE, CODE_IN_PACKET, PROOF, Repr};
use crate::wire::{Addr, plan};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use std::collections::HashSet;

/// Keys of one neighbour: the first is used to send, all are accepted, so that keys can be changed one side after the other.
pub const KEYS_MAX: usize = 4;

/// Keys that have gone and are still remembered, at most.
const GONE_MAX: usize = 4096;

/// Nanoseconds between two jumps of a counter to the time of day.
const STEP: u64 = 16_000_000_000;
/// Nanoseconds for which a counter has one number: nobody sends packets faster.
const UNIT: u64 = 64;
/// Nanoseconds that clocks of neighbours may differ: what was sent so long before a node's start counts as sent before.
const SKEW: u64 = 60_000_000_000;

/// What a port demands of what comes in by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demands {
    /// Neighbours must prove what they send.
    pub mac: bool,
    /// Code must be signed.
    pub signed_code: bool,
    /// PLAN packets must be signed.
    pub signed_plan: bool,
}

impl Demands {
    /// Whether it demands anything.
    pub fn any(self) -> bool {
        self != Demands::default()
    }
}

impl Demands {
    /// As in the configuration.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let all = [(self.mac, "mac"), (self.signed_code, "signed-code"), (self.signed_plan, "signed-plan")];
        all.into_iter().filter(|(demanded, _)| *demanded).map(|(_, name)| name)
    }
}

/// As in the configuration.
impl core::fmt::Display for Demands {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut separator = "";
        for name in self.names() {
            write!(f, "{separator}{name}")?;
            separator = ", ";
        }
        Ok(())
    }
}

/// A secret that a neighbour has too.
#[derive(Clone, PartialEq, Eq)]
pub struct NeighbourKey {
    /// The port towards the neighbour.
    pub port: PortId,
    /// The neighbour's address, as it is configured here.
    pub addr: Addr,
    /// The key's number, the same on both sides; no other key of the port has it.
    pub id: u32,
    /// The secret.
    pub secret: [u8; 32],
}

impl core::fmt::Debug for NeighbourKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "NeighbourKey({} behind port {}, {:x})", self.addr, self.port.0, self.id)
    }
}

/// Whom ports let in.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    /// Of each port, by its number; ports beyond demand nothing.
    pub demands: Vec<Demands>,
    /// Keys of neighbours, at most [`KEYS_MAX`] for each.
    pub keys: Vec<NeighbourKey>,
    /// The roles in which neighbours with keys have parts of their graphs here.
    pub parts: Vec<(PortId, Addr, String)>,
    /// What time it was, in nanoseconds since 1970, when the node's clock began.
    pub unix_ns: u64,
}

impl Guard {
    /// Whether a port demands anything, or somebody behind it has a key: the first worker alone lets packets in there.
    pub(super) fn guards(&self, port: PortId) -> bool {
        let demands = self.demands.get(usize::from(port.0)).is_some_and(|demands| demands.any());
        demands || self.keys.iter().any(|key| key.port == port)
    }
}

/// A key in use.
struct Held {
    key: NeighbourKey,
    peer: PeerId,
    /// Whose share of the worker pays for what it proves to have sent.
    payer: Payer,
    incoming: Hmac<Sha256>,
    outgoing: Hmac<Sha256>,
    window: Window,
    counter: u64,
}

/// Keys and demands of a node.
#[derive(Default)]
pub(super) struct Proofs {
    demands: Vec<Demands>,
    /// By port and number of the key.
    held: Vec<Held>,
    /// Keys that have gone, until when what was seen of them is kept.
    gone: Vec<(u64, Held)>,
    /// The key to send with, by port and address.
    sends: Vec<(PortId, Addr, usize)>,
    unix_ns: u64,
    /// Principals with signatures that were revoked.
    disowned: HashSet<PrincipalId>,
    /// The roles in which neighbours have parts of their graphs here.
    parts: Vec<(PortId, Addr, String)>,
    /// Who was not let in, as far as the log has said it.
    pub(super) unproved: Unproved,
}

impl Held {
    fn new(key: &NeighbourKey, topology: &Topology, unix_ns: u64) -> Held {
        let own = topology.port(key.port).map_or(Addr::UNSPECIFIED, |port| port.address_towards(key.addr));
        let known = topology.neighbours.index(key.port, key.addr).and_then(|index| topology.neighbours.of(index));
        Held {
            key: key.clone(),
            peer: known.map_or(PeerId::NONE, |known| known.peer),
            payer: Payer::NOBODY,
            incoming: direction(&key.secret, key.addr, own),
            outgoing: direction(&key.secret, own, key.addr),
            window: Window::above(unix_ns.saturating_sub(SKEW + STEP) / UNIT),
            counter: unix_ns / UNIT,
        }
    }
}

/// The key of one direction.
fn direction(secret: &[u8; 32], from: Addr, to: Addr) -> Hmac<Sha256> {
    let mut derived = hmac(secret);
    [&b"anode-mac-1\0"[..], &from.0, &to.0].iter().for_each(|part| derived.update(part));
    hmac(&derived.finalize().into_bytes().into())
}

fn hmac(key: &[u8; 32]) -> Hmac<Sha256> {
    // As HMAC pads it itself.
    let mut block = [0; 64];
    block[..32].copy_from_slice(key);
    Hmac::new(&block.into())
}

/// The code of a packet: over all of it but the field that the code is in.
#[inline]
fn code(mut mac: Hmac<Sha256>, packet: &[u8]) -> Option<[u8; CODE]> {
    mac.update(packet.get(..CODE_IN_PACKET)?);
    mac.update(packet.get(CODE_IN_PACKET + CODE..)?);
    mac.finalize().into_bytes().first_chunk().copied()
}

/// Whether two codes are equal, in a time that does not depend on where they differ.
#[inline]
fn is_same(one: &[u8; CODE], other: &[u8; CODE]) -> bool {
    let difference = u128::from_ne_bytes(*one) ^ u128::from_ne_bytes(*other);
    core::hint::black_box(difference) == 0
}

impl Proofs {
    pub(super) fn new(guard: Guard, topology: &Topology, now: u64) -> Proofs {
        let Guard { demands, mut keys, parts, unix_ns } = guard;
        let sends: Vec<_> = keys.iter().map(|key| (key.port, key.addr, key.id)).collect();
        keys.sort_by_key(|key| (key.port, key.id));
        let held: Vec<Held> = keys.iter().map(|key| Held::new(key, topology, unix_ns.saturating_add(now))).collect();
        let mut proofs = Proofs { demands, held, parts, unix_ns, ..Proofs::default() };
        for (port, addr, id) in sends {
            // The first one given for an address.
            if proofs.sender(port, addr).is_none()
                && let Some(at) = proofs.place(port, id)
            {
                proofs.sends.push((port, addr, at));
                proofs.sends.sort_by_key(|(port, addr, _)| (*port, *addr));
            }
        }
        proofs
    }

    /// Keys that were there before go on where they were: nothing that was seen counts again, and no number is used twice.
    /// What was seen of one that has gone is kept for as long as it could count again, if the key comes back.
    fn go_on(&mut self, before: Proofs, now: u64) {
        let held = before.held.into_iter().map(|held| (now.saturating_add(SKEW + STEP), held));
        for (until, was) in before.gone.into_iter().filter(|(until, _)| *until > now).chain(held) {
            match self.held.iter_mut().find(|is| is.key == was.key) {
                Some(is) => (is.window, is.counter) = (was.window, was.counter),
                None => self.gone.push((until, was)),
            }
        }
        // Who changes keys as often as that has other troubles.
        let many = self.gone.len().saturating_sub(GONE_MAX);
        self.gone.drain(..many);
        (self.unix_ns, self.unproved) = (before.unix_ns, before.unproved);
    }

    /// The addresses of a port have changed: so have the keys of its directions. Counters and windows stay.
    pub(super) fn derive_again(&mut self, port: PortId, topology: &Topology) {
        for held in self.held.iter_mut().filter(|held| held.key.port == port) {
            let fresh = Held::new(&held.key, topology, 0);
            (held.incoming, held.outgoing) = (fresh.incoming, fresh.outgoing);
        }
    }

    /// What a port demands.
    #[inline]
    pub(super) fn demands(&self, port: PortId) -> Demands {
        self.demands.get(usize::from(port.0)).copied().unwrap_or_default()
    }

    fn place(&self, port: PortId, id: u32) -> Option<usize> {
        self.held.binary_search_by_key(&(port, id), |held| (held.key.port, held.key.id)).ok()
    }

    fn sender(&self, port: PortId, addr: Addr) -> Option<usize> {
        let at = self.sends.binary_search_by_key(&(port, addr), |(port, addr, _)| (*port, *addr)).ok()?;
        self.sends.get(at).map(|(_, _, at)| *at)
    }

    /// Whose the proof of a packet is, or why it counts for nothing. The packet is whole, and its form was checked.
    fn judge(&mut self, frame: &Frame, packet: &[u8], proof: &Repr) -> Result<(Addr, Payer), Reason> {
        let at = self.place(frame.port, proof.key).ok_or(Reason::Unauthenticated)?;
        let held = self.held.get_mut(at).ok_or(Reason::Unauthenticated)?;
        if held.peer != frame.peer {
            return Err(Reason::MacForged);
        }
        if !held.window.admits(proof.counter) {
            return Err(Reason::MacReplayed);
        }
        let expected = code(held.incoming.clone(), packet).ok_or(Reason::MacForged)?;
        if !is_same(&expected, &proof.code) {
            return Err(Reason::MacForged);
        }
        held.window.came(proof.counter);
        Ok((held.key.addr, held.payer))
    }
}

impl Node {
    /// What ports demand, and keys of neighbours, from now on.
    pub fn set_guard(&mut self, now: u64, guard: Guard) {
        self.note_guarded(&guard);
        let topology = &self.cx.core.topology;
        let mut proofs = Box::new(Proofs::new(guard, topology, now));
        self.cx.order.entry.forget_keys();
        for held in &mut proofs.held {
            let rate = topology.port(held.key.port).map_or(0, |port| port.bits_per_second);
            held.payer = self.cx.order.entry.know(held.key.port, held.peer, held.key.addr, rate);
        }
        if let Some(before) = self.cx.control.proofs.take() {
            proofs.go_on(*before, now);
        }
        self.cx.control.proofs = Some(proofs);
        self.cx.disown();
    }
}

impl Node {
    /// Forgets what keys have proved so far, as a node that was started again has: for measurements that show it the same packets.
    pub fn forget_proofs(&mut self) {
        self.cx.control.proofs = None;
    }
}

impl Cx {
    /// Whether a neighbour has a key here: what it proves to have sent is marked ([`Frame`]'s `authenticated`).
    pub fn has_key(&self, port: PortId, addr: Addr) -> bool {
        self.control.proofs.as_deref().is_some_and(|proofs| proofs.sender(port, addr).is_some())
    }

    /// The role in which a neighbour has parts of its graphs here.
    pub(super) fn part_role(&self, port: PortId, addr: Addr) -> Option<&str> {
        let parts = self.control.proofs.as_deref().map(|proofs| &proofs.parts[..]).unwrap_or_default();
        parts.iter().find(|known| (known.0, known.1) == (port, addr)).map(|(_, _, role)| role.as_str())
    }

    /// Asks anew for the principals with revoked signatures, for ports that demand signatures.
    pub(super) fn disown(&mut self) {
        if let Some(proofs) = self.control.proofs.as_deref_mut() {
            proofs.disowned = self.control.roles.disowned();
        }
    }

    /// Whether a principal's signatures count for nothing where a port demands some.
    #[inline]
    pub(super) fn is_disowned(&self, principal: &PrincipalId) -> bool {
        self.control.proofs.as_deref().is_some_and(|proofs| proofs.disowned.contains(principal))
    }

    /// The numbers of a neighbour's keys, that to send with first.
    pub fn key_numbers(&self, port: PortId, addr: Addr) -> Vec<u32> {
        let Some(proofs) = self.control.proofs.as_deref() else { return Vec::new() };
        let first = proofs.sender(port, addr);
        let mut all: Vec<(bool, u32)> = proofs
            .held
            .iter()
            .enumerate()
            .filter(|(_, held)| (held.key.port, held.key.addr) == (port, addr))
            .map(|(at, held)| (Some(at) != first, held.key.id))
            .collect();
        all.sort_unstable();
        all.into_iter().map(|(_, id)| id).collect()
    }

    /// What a port demands.
    #[inline]
    pub fn demands(&self, port: PortId) -> Demands {
        self.control.proofs.as_deref().map_or(Demands::default(), |proofs| proofs.demands(port))
    }

    /// Finds out who has sent the ANEP packet that the frame is, and takes the proof off. Its header was checked and has so
    /// many bytes; says how many of them are gone.
    #[inline]
    pub(super) fn authenticate(&mut self, now: u64, frame: &mut Frame, header: usize) -> Result<usize, Reason> {
        (frame.authenticated, frame.sender) = (false, Addr::UNSPECIFIED);
        let Some(proofs) = self.control.proofs.as_deref_mut() else { return Ok(0) };
        let Some(packet) = anep::Packet::again(frame.bytes(), header) else { return Err(Reason::MalformedAnep) };
        let Some(proof) = Repr::of(&packet) else {
            // What everybody on a link is told goes to no neighbour in particular, and has no key.
            return if proofs.demands(frame.port).mac { Err(Reason::Unauthenticated) } else { Ok(0) };
        };
        match proofs.judge(frame, packet.bytes(), &proof) {
            Ok((sender, payer)) => (frame.authenticated, frame.sender, frame.payer) = (true, sender, payer),
            // Somebody else's link, or a key that was taken away: the proof says nothing, no more than its absence.
            Err(Reason::Unauthenticated) if !proofs.demands(frame.port).mac => self.note_unproved(now, frame),
            Err(reason) => return Err(reason),
        }
        if Repr::take_off(frame.bytes_mut()).is_err() {
            return Err(Reason::MalformedAnep);
        }
        frame.strip(PROOF);
        Ok(PROOF)
    }

    /// Puts a proof on an ANEP packet if the neighbour that it goes to has a key. `Err`: it does not fit.
    #[inline]
    pub(super) fn prove(&mut self, now: u64, frame: &mut Frame, port: PortId, via: Addr) -> Result<(), Reason> {
        let Some(proofs) = self.control.proofs.as_deref_mut() else { return Ok(()) };
        if plan::is_everybody(via) {
            return Ok(());
        }
        let Some(at) = proofs.sender(port, via) else { return Ok(()) };
        let jump = proofs.unix_ns.saturating_add(now) / STEP * (STEP / UNIT);
        let Some(held) = proofs.held.get_mut(at) else { return Ok(()) };
        held.counter = held.counter.saturating_add(1).max(jump);
        let proof = Repr { key: held.key.id, counter: held.counter, code: [0; CODE] };
        if frame.prepend(PROOF).is_none() || proof.put(frame.bytes_mut()).is_err() {
            return Err(Reason::TooBig);
        }
        let mac = held.outgoing.clone();
        if let Some(code) = code(mac, frame.bytes())
            && let Some(place) = frame.bytes_mut().get_mut(CODE_IN_PACKET..CODE_IN_PACKET + CODE)
        {
            place.copy_from_slice(&code);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, test case 2, with the key padded as HMAC does; and that the pieces of a packet are one message.
    #[test]
    fn a_key_that_comes_back_soon_goes_on_where_it_was() {
        let topology = Topology::new(Vec::new(), Default::default(), Default::default());
        let key = NeighbourKey { port: PortId(0), addr: Addr::v4([10, 0, 0, 2]), id: 1, secret: [7; 32] };
        let with = |keys: &[NeighbourKey]| {
            Proofs::new(Guard { keys: keys.to_vec(), unix_ns: 1 << 60, ..Guard::default() }, &topology, 0)
        };
        let seen = (1 << 60) / UNIT + 5;
        for (back, admits) in [(1, false), (SKEW + STEP + 1, true)] {
            let mut first = with(std::slice::from_ref(&key));
            first.held[0].window.came(seen);
            let (mut without, mut again) = (with(&[]), with(std::slice::from_ref(&key)));
            without.go_on(first, 0);
            again.go_on(without, back);
            assert_eq!(again.held[0].window.admits(seen), admits, "after {back} ns");
        }
    }

    #[test]
    fn the_code_is_hmac_sha_256() {
        let mut key = [0; 32];
        key[..4].copy_from_slice(b"Jefe");
        let mut mac = hmac(&key);
        mac.update(b"what do ya want for nothing?");
        let whole: [u8; 32] = mac.finalize().into_bytes().into();
        assert_eq!(hex::encode(whole), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        let packet: Vec<u8> = (0..100).collect();
        let mut pieces = hmac(&key);
        pieces.update(&[&packet[..CODE_IN_PACKET], &packet[CODE_IN_PACKET + CODE..]].concat());
        assert_eq!(code(hmac(&key), &packet).unwrap(), pieces.finalize().into_bytes()[..CODE]);
    }

    #[test]
    fn each_direction_has_its_own_key() {
        let (a, b) = (Addr::v4([10, 0, 0, 1]), Addr::v4([10, 0, 0, 2]));
        let of = |from, to| code(direction(&[7; 32], from, to), &[0; 64]).unwrap();
        assert_eq!(of(a, b), of(a, b));
        assert_ne!(of(a, b), of(b, a));
    }
}
