//! Layers: services around a chunk, opened by the node before it evaluates the inside.
//!
//! `authEval` and `signedBy` give the inside a principal, `reliably` reports its arrival, `reassemble` is one part of a
//! chunk that was too long. They work as the outermost chunk of a packet, in any order. A program that calls one gets
//! `Refused`, so only the inside of a layer has the rights from it.

use super::config::Principal;
use super::evaluate::{At, Stage};
use super::holders::Holder;
use super::outbox::{Deed, Outbox};
use super::parts::Chunks;
use super::signers::{Numbers, Signers};
use super::{ANYONE, Plan, PlanOs};
use crate::core::reason::Reason;
use crate::frame::shares::gives_way;
use crate::topology::Neighbour;
use crate::trust::{Credential, PrincipalId, PrincipalKey, Signature, Statement, said};
use crate::wire::{Addr, Digest};
use plan::name::Name;
use plan::packet::{Header, Outline, Packet, slices};
use plan::value::{Callee, Chunk, Host, Value};
use sha2::{Digest as _, Sha256};
use std::collections::VecDeque;
use std::sync::{Arc, LazyLock};

pub(super) const AUTH_EVAL: Name = Name::known("authEval");
/// No name of the common table: nodes that do not know it do not need to.
pub(super) static SIGNED_BY: LazyLock<Name> = LazyLock::new(|| Name::new("signedBy").unwrap_or(Name::NONE));
pub(super) const RELIABLY: Name = Name::known("reliably");
pub(super) const ACKNOWLEDGED: Name = Name::known("acknowledged");
pub(super) const REASSEMBLE: Name = Name::known("reassemble");
pub(super) const REFUSED: Name = Name::known("Refused");

/// Layers of one packet.
const LAYERS_MAX: usize = 8;

/// Arrivals that are remembered, so that a second copy is not evaluated.
const ARRIVALS_MAX: usize = 1024;

/// Hops that word of an arrival may take more than what arrived.
const SPARE: u32 = 2;

/// Steps that there are to send word of an arrival.
const ACKNOWLEDGING: u32 = 2000;

/// What is inside all layers.
pub(super) enum Opened {
    /// A chunk, and in whose name it is evaluated.
    Chunk(Packet, usize),
    /// What somebody has signed, as he says.
    Signed(Packet, Box<Statement>),
    /// Nothing now; so much is left of the bound.
    Nothing(u32),
    /// A layer cannot be opened.
    Wrong(Packet, Name),
}

/// What layers remember.
pub(super) struct Layers {
    /// Which numbers have been there, for each principal with a secret.
    numbers: Vec<Numbers>,
    pub signers: Signers,
    arrivals: VecDeque<(Host, i64, Holder)>,
    parts: Chunks,
}

impl Layers {
    pub fn new(principals: &[Principal]) -> Layers {
        let numbers = vec![Numbers::default(); principals.len()];
        Layers { numbers, signers: Signers::default(), arrivals: VecDeque::new(), parts: Chunks::default() }
    }

    /// Whether this one arrives for the first time.
    fn is_new(&mut self, from: Host, number: i64, holder: Holder) -> bool {
        if self.arrivals.iter().any(|known| (known.0, known.1) == (from, number)) {
            return false;
        }
        if self.arrivals.len() >= ARRIVALS_MAX
            && let Some(at) = gives_way(self.arrivals.iter(), |known| known.2)
        {
            self.arrivals.remove(at);
        }
        self.arrivals.push_back((from, number, holder));
        true
    }

    pub fn sweep(&mut self, now: u64) {
        self.parts.expire(now);
    }
}

/// The code that shows that somebody with this key sends the chunk to this host: HMAC-SHA256 (RFC 2104) over the number, the host, and
/// the bytes of a packet with the chunk and an empty header.
pub fn authenticator(key: &[u8; 32], number: i64, to: Host, chunk: &Arc<Chunk>) -> Option<[u8; 32]> {
    let bytes = bare(chunk)?;
    let pad = |byte: u8| {
        let mut block = [byte; 64];
        block.iter_mut().zip(key).for_each(|(block, key)| *block ^= key);
        block
    };
    let mut inner = Sha256::new();
    inner.update(pad(0x36));
    inner.update(number.to_be_bytes());
    inner.update(to.0);
    inner.update(&bytes);
    let mut outer = Sha256::new();
    outer.update(pad(0x5c));
    outer.update(inner.finalize());
    Some(outer.finalize().into())
}

/// The chunk, signed by a principal for this host at this time, with its credential if it has one.
pub fn signed(
    key: &PrincipalKey,
    credential: Option<&Credential>,
    unix_ns: u64,
    to: Host,
    chunk: &Arc<Chunk>,
) -> Option<Chunk> {
    let signature = key.say(unix_ns, &to.0, &bare(chunk)?);
    let blob = |bytes: &[u8]| Value::Blob(bytes.into());
    let credential = credential.map(Credential::bytes).unwrap_or_default();
    let number = Value::Int(i64::try_from(unix_ns).ok()?);
    let arguments = [blob(&key.id().0), number, blob(&signature.0), blob(&credential), Value::Chunk(chunk.clone())];
    Chunk::new(Callee::Service(SIGNED_BY.clone()), arguments)
}

/// Whether a packet says that it is signed: its outermost layer names a principal, and none that was revoked. Whoever
/// evaluates it finds out whether that is true.
pub(super) fn is_signed(outline: &Outline<'_>, is_disowned: impl Fn(&PrincipalId) -> bool) -> bool {
    match outline.service() {
        Some(name) if name == *SIGNED_BY => {
            let who = outline.first_blob().and_then(|who| who.try_into().ok());
            who.is_some_and(|who| !is_disowned(&PrincipalId(who)))
        }
        Some(name) => name == AUTH_EVAL,
        None => false,
    }
}

/// Whether its outermost layer names a principal by a key that any node on the way can judge.
pub(super) fn claims_signer(outline: &Outline<'_>) -> bool {
    outline.service().is_some_and(|name| name == *SIGNED_BY)
}

/// What a `signedBy` layer says, and what is inside.
pub(super) fn statement(packet: &Packet) -> Option<(Arc<Chunk>, Statement)> {
    let [Value::Blob(who), Value::Int(number), Value::Blob(signature), Value::Blob(credential), Value::Chunk(inside)] =
        packet.chunk.arguments()
    else {
        return None;
    };
    let unix_ns = u64::try_from(*number).ok()?;
    let code = slices(inside)?.first().map_or(Digest([0; 32]), |slice| Digest(slice.digest.0));
    let statement = Statement {
        principal: PrincipalId((**who).try_into().ok()?),
        unix_ns,
        bytes: said(unix_ns, &packet.header.destination.0, &bare(inside)?),
        signature: Signature((**signature).try_into().ok()?),
        code,
        credential: credential.to_vec(),
    };
    Some((inside.clone(), statement))
}

/// A chunk alone, as bytes.
fn bare(chunk: &Arc<Chunk>) -> Option<Vec<u8>> {
    Packet { header: bare_header(), chunk: chunk.clone() }.bytes()
}

/// The header of a chunk alone.
pub(super) fn bare_header() -> Header {
    Header { routing: Name::NONE, handler: Name::NONE, ..Header::injected(Host::default(), 0) }
}

impl Plan {
    /// Opens the layers around a packet's chunk.
    pub(super) fn open_layers(
        &mut self,
        env: &mut dyn PlanOs,
        (from, length): (Option<&Neighbour>, usize),
        mut packet: Packet,
        stage: Stage,
        outbox: &mut Outbox,
    ) -> Opened {
        let mut principal = if let Stage::Vouched(principal) = stage { principal } else { ANYONE };
        let mut senders = 0;
        for _ in 0..LAYERS_MAX {
            let Callee::Service(name) = packet.chunk.callee() else { break };
            if *name == *SIGNED_BY {
                return match statement(&packet) {
                    Some((inside, statement)) => {
                        Opened::Signed(Packet { chunk: inside, ..packet }, Box::new(statement))
                    }
                    None => Opened::Wrong(packet, REFUSED),
                };
            }
            let inside = match (name.clone(), packet.chunk.clone().arguments()) {
                (AUTH_EVAL, [Value::Text(who), Value::Int(number), Value::Blob(code), Value::Chunk(inside)]) => {
                    match self.authenticate(packet.header.destination, who, *number, code, inside) {
                        Some(who) => principal = who,
                        None => return Opened::Wrong(packet, REFUSED),
                    }
                    inside.clone()
                }
                (RELIABLY, [Value::Host(sender), Value::Int(number), Value::Int(donated), Value::Chunk(inside)]) => {
                    let new = self.state.layers.is_new(*sender, *number, Holder::of(principal, env.payer()));
                    // All that came was said to be of its source already; the outermost sender may be another.
                    if senders == 0 && from.is_some() && *sender != packet.header.source {
                        env.heard(Addr(sender.0), length);
                    }
                    senders += 1;
                    let mut at = At {
                        env: &mut *env,
                        state: &mut self.state,
                        table: &self.table,
                        loaded: &mut self.loaded,
                        library: &mut self.library,
                        config: &self.config,
                        outbox: &mut *outbox,
                        from,
                        principal,
                    };
                    at.acknowledge(&mut packet.header, *sender, *number, *donated);
                    if !new {
                        return Opened::Nothing(packet.header.bound);
                    }
                    inside.clone()
                }
                (REASSEMBLE, [Value::Key(key), Value::Int(index), Value::Int(count), Value::Blob(part)]) => {
                    match self.put_part(env, &packet.header, *key, (*index, *count), part) {
                        Some(Some(inside)) => inside,
                        Some(None) => return Opened::Nothing(packet.header.bound),
                        None => return Opened::Wrong(packet, REFUSED),
                    }
                }
                _ => break,
            };
            packet.chunk = inside;
        }
        Opened::Chunk(packet, principal)
    }

    fn authenticate(&mut self, to: Host, who: &[u8], number: i64, code: &[u8], inside: &Arc<Chunk>) -> Option<usize> {
        let at = self.config.principals.iter().position(|principal| principal.name.as_bytes() == who)?;
        let expected = authenticator(&self.config.principals.get(at)?.key, number, to, inside)?;
        // All bytes are looked at, so that the time says nothing of where they differ.
        let differ = expected.iter().zip(code).fold(0, |differ, (one, other)| differ | (one ^ other));
        let right = code.len() == expected.len() && differ == 0;
        let number = u64::try_from(number).ok()?;
        let new = right && self.state.layers.numbers.get_mut(at)?.take(number);
        new.then_some(at + 1)
    }

    /// A part of a chunk: the chunk if it is whole now; nothing at all if the part cannot be one.
    fn put_part(
        &mut self,
        env: &mut dyn PlanOs,
        header: &Header,
        key: [u8; 16],
        (index, count): (i64, i64),
        part: &Arc<[u8]>,
    ) -> Option<Option<Arc<Chunk>>> {
        let (index, count) = (u8::try_from(index).ok()?, u8::try_from(count).ok()?);
        if index >= count {
            return None;
        }
        let chunk = ((header.source, key, count), Holder::of(ANYONE, env.payer()));
        let Some(bytes) = self.state.layers.parts.take(env.now(), chunk, index, part) else {
            return Some(None);
        };
        let whole = self.decode(env, &bytes, &mut Vec::new());
        whole.ok().map(|whole| Some(whole.chunk))
    }
}

impl At<'_> {
    /// Tells the sender of an arrival. What that costs comes from the packet; where it has too little, the sender
    /// tries again in vain.
    fn acknowledge(&mut self, header: &mut Header, sender: Host, number: i64, donated: i64) {
        let hops = u32::try_from(donated).unwrap_or(0).saturating_sub(header.bound);
        let here = self.env.topology().is_own(Addr(sender.0));
        if here {
            // A deed too many is one that the program lacks.
            let _ = self.outbox.deed(Deed::Acknowledge(number));
            return;
        }
        let cost = hops.saturating_add(SPARE).min(header.bound);
        let Some(chunk) = Chunk::new(Callee::Service(ACKNOWLEDGED), [Value::Int(number)]) else { return };
        let (flow, to) = ((header.session, header.flow), Addr(sender.0));
        // The word is short, and a packet has few layers.
        let mut steps = ACKNOWLEDGING;
        let next = self.find(&header.routing, flow, to, &mut steps);
        let (Ok(next), Some(bound)) = (next, cost.checked_sub(1)) else { return };
        let here = Host(self.env.way(to).own.0);
        let word = Header { bound, destination: sender, previous: here, handler: Name::NONE, ..header.clone() };
        if self.put(Some(next), word, &chunk, &mut steps).is_err() {
            return;
        }
        let bytes = self.outbox.packets.last().map_or(0, |last| last.range.len());
        if self.env.may_send(to, None, bytes) {
            header.bound -= cost;
        } else {
            self.outbox.take_back();
            self.env.withhold(Reason::Unanswered);
        }
    }
}
