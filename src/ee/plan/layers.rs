//! Layers: services around a chunk that its packet's node opens before it evaluates what is inside.
//!
//! `authEval` says in whose name the inside is evaluated, `reliably` has its arrival told, `reassemble` is a part of a
//! chunk that was too long. They work as the outermost chunk of a packet, one in the other in any order; called
//! by a program they raise `Refused`, so that nothing but the inside has what they give.

use super::config::Principal;
use super::evaluate::At;
use super::library::Shelf;
use super::outbox::{Deed, Outbox};
use super::{ANYONE, Environment, Plan, route};
use crate::topology::Neighbour;
use crate::wire::Addr;
use plan::name::Name;
use plan::packet::{Header, Packet};
use plan::value::{Callee, Chunk, Host, Value};
use sha2::{Digest as _, Sha256};
use std::collections::VecDeque;
use std::sync::Arc;

pub(super) const AUTH_EVAL: Name = Name::known("authEval");
pub(super) const RELIABLY: Name = Name::known("reliably");
pub(super) const ACKNOWLEDGED: Name = Name::known("acknowledged");
pub(super) const REASSEMBLE: Name = Name::known("reassemble");
const REFUSED: Name = Name::known("Refused");

/// Layers of one packet.
const LAYERS_MAX: usize = 8;

/// Arrivals that are remembered, so that a second copy is not evaluated.
const ARRIVALS_MAX: usize = 1024;

/// Chunks in parts on their way, and the octets of all.
const CHUNKS_MAX: usize = 64;
const BYTES_MAX: usize = 1 << 20;

/// Parts of one chunk.
pub const PARTS_MAX: i64 = 255;

/// Nanoseconds within which all parts must come.
const WITHIN: u64 = 10_000_000_000;

/// Hops that word of an arrival may take more than what arrived.
const SPARE: u32 = 2;

/// What is inside all layers.
pub(super) enum Opened {
    /// A chunk, and in whose name it is evaluated.
    Chunk(Packet, usize),
    /// Nothing now; so much is left of the bound.
    Nothing(u32),
    /// A layer cannot be opened.
    Wrong(Packet, Name),
}

/// Who has sent what lately: numbers must grow, or be among the last 64 and new.
#[derive(Clone, Copy, Default)]
struct Window {
    highest: u64,
    seen: u64,
}

impl Window {
    /// Takes a number; false if it was there before, or is too old.
    fn take(&mut self, number: u64) -> bool {
        if number > self.highest {
            let shift = number - self.highest;
            self.seen = if shift >= 64 { 0 } else { self.seen << shift };
            self.seen |= 1;
            self.highest = number;
            return number > 0;
        }
        let age = self.highest - number;
        let new = age < 64 && self.seen >> age & 1 == 0 && number > 0;
        if new {
            self.seen |= 1 << age;
        }
        new
    }
}

struct Parts {
    id: (Host, [u8; 16]),
    parts: Vec<Option<Arc<[u8]>>>,
    until: u64,
}

/// What layers remember.
pub(super) struct Layers {
    windows: Vec<Window>,
    arrivals: VecDeque<(Host, i64)>,
    parts: Vec<Parts>,
}

impl Layers {
    pub fn new(principals: &[Principal]) -> Layers {
        let windows = vec![Window::default(); principals.len()];
        Layers { windows, arrivals: VecDeque::new(), parts: Vec::new() }
    }

    /// Whether this one arrives for the first time.
    fn is_new(&mut self, from: Host, number: i64) -> bool {
        if self.arrivals.contains(&(from, number)) {
            return false;
        }
        if self.arrivals.len() >= ARRIVALS_MAX {
            self.arrivals.pop_front();
        }
        self.arrivals.push_back((from, number));
        true
    }

    /// Takes a part; the whole if it was the last one.
    fn part(&mut self, now: u64, id: (Host, [u8; 16]), place: (usize, usize), octets: &Arc<[u8]>) -> Option<Vec<u8>> {
        let (index, count) = place;
        let at = match self.parts.iter().position(|parts| parts.id == id && parts.parts.len() == count) {
            Some(at) => at,
            None => {
                let bytes = |parts: &Parts| parts.parts.iter().flatten().map(|part| part.len()).sum::<usize>();
                while self.parts.len() >= CHUNKS_MAX || self.parts.iter().map(bytes).sum::<usize>() > BYTES_MAX {
                    self.parts.remove(0);
                }
                let until = now.saturating_add(WITHIN);
                self.parts.push(Parts { id, parts: vec![None; count], until });
                self.parts.len() - 1
            }
        };
        let parts = self.parts.get_mut(at)?;
        *parts.parts.get_mut(index)? = Some(octets.clone());
        if parts.parts.iter().any(Option::is_none) {
            return None;
        }
        Some(self.parts.swap_remove(at).parts.into_iter().flatten().flat_map(|part| part.to_vec()).collect())
    }

    pub fn sweep(&mut self, now: u64) {
        self.parts.retain(|parts| parts.until > now);
    }
}

/// The code that shows that somebody with this key sends the chunk to this host: HMAC-SHA256 (RFC 2104) over the number, the host, and
/// the octets of a packet with the chunk and an empty header.
pub fn authenticator(key: &[u8; 32], number: i64, to: Host, chunk: &Arc<Chunk>) -> Option<[u8; 32]> {
    let octets = bare(chunk)?;
    let pad = |octet: u8| {
        let mut block = [octet; 64];
        block.iter_mut().zip(key).for_each(|(block, key)| *block ^= key);
        block
    };
    let mut inner = Sha256::new();
    inner.update(pad(0x36));
    inner.update(number.to_be_bytes());
    inner.update(to.0);
    inner.update(&octets);
    let mut outer = Sha256::new();
    outer.update(pad(0x5c));
    outer.update(inner.finalize());
    Some(outer.finalize().into())
}

/// A chunk alone, as octets.
pub fn bare(chunk: &Arc<Chunk>) -> Option<Vec<u8>> {
    let none = Host::default();
    let header = Header { routing: Name::NONE, handler: Name::NONE, ..Header::injected(none, 0) };
    Packet { header, chunk: chunk.clone() }.octets()
}

impl Plan {
    /// Opens the layers around a packet's chunk.
    pub(super) fn open_layers(
        &mut self,
        env: &mut dyn Environment,
        from: Option<&Neighbour>,
        mut packet: Packet,
        outbox: &mut Outbox,
    ) -> Opened {
        let mut principal = ANYONE;
        for _ in 0..LAYERS_MAX {
            let Callee::Service(name) = packet.chunk.callee() else { break };
            let inside = match (name.clone(), packet.chunk.clone().arguments()) {
                (AUTH_EVAL, [Value::Text(who), Value::Int(number), Value::Blob(code), Value::Chunk(inside)]) => {
                    match self.authenticate(packet.header.destination, who, *number, code, inside) {
                        Some(who) => principal = who,
                        None => return Opened::Wrong(packet, REFUSED),
                    }
                    inside.clone()
                }
                (RELIABLY, [Value::Host(sender), Value::Int(number), Value::Int(donated), Value::Chunk(inside)]) => {
                    let new = self.state.layers.is_new(*sender, *number);
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
        // All octets are looked at, so that the time says nothing of where they differ.
        let differ = expected.iter().zip(code).fold(0, |differ, (one, other)| differ | (one ^ other));
        let right = code.len() == expected.len() && differ == 0;
        let new = right && self.state.layers.windows.get_mut(at)?.take(u64::try_from(number).ok()?);
        new.then_some(at + 1)
    }

    /// A part of a chunk: the chunk if it is whole now; nothing at all if the part cannot be one.
    fn put_part(
        &mut self,
        env: &mut dyn Environment,
        header: &Header,
        key: [u8; 16],
        place: (i64, i64),
        part: &Arc<[u8]>,
    ) -> Option<Option<Arc<Chunk>>> {
        let (index, count) = place;
        if !(1..=PARTS_MAX).contains(&count) || !(0..count).contains(&index) {
            return None;
        }
        let (now, id) = (env.now(), (header.source, key));
        let Some(octets) = self.state.layers.part(now, id, (index as usize, count as usize), part) else {
            return Some(None);
        };
        let mut seen = Vec::new();
        let mut shelf = Shelf { library: &mut self.library, table: &self.table, seen: &mut seen, compiled: 0 };
        let whole = Packet::decode(&octets, &mut shelf);
        env.charge(ANYONE, shelf.compiled as u64 * 16, 0);
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
        let next = route::find(self.state, self.config, self.env, &header.routing, flow, to);
        let (Ok(next), Some(bound)) = (next, cost.checked_sub(1)) else { return };
        let here = Host(self.env.way(to).own.0);
        let word = Header { bound, destination: sender, previous: here, handler: Name::NONE, ..header.clone() };
        if self.put(Some(next), word, &chunk).is_ok() {
            header.bound -= cost;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_counts_once() {
        let mut window = Window::default();
        let taken = [1, 1, 0, 5, 3, 3, 2, 70, 7, 6, 5, 70, 1000, 936, 937].map(|number| window.take(number));
        let expected =
            [true, false, false, true, true, false, true, true, true, false, false, false, true, false, true];
        assert_eq!(taken, expected);
    }

    #[test]
    fn parts_in_any_order_make_the_chunk() {
        let mut layers = Layers::new(&[]);
        let id = (Host::default(), [1; 16]);
        let part = |text: &str| Arc::<[u8]>::from(text.as_bytes());
        assert_eq!(layers.part(0, id, (1, 2), &part("b")), None);
        assert_eq!(layers.part(0, (Host::default(), [2; 16]), (0, 2), &part("x")), None, "another chunk's");
        assert_eq!(layers.part(0, id, (0, 2), &part("a")), Some(b"ab".to_vec()));
        layers.sweep(WITHIN);
        assert!(layers.parts.is_empty());
        let big = Arc::<[u8]>::from(vec![0; 60_000]);
        for number in 0..200u8 {
            layers.part(0, (Host::default(), [number; 16]), (0, 2), &big);
        }
        assert!(layers.parts.len() <= CHUNKS_MAX && layers.parts.len() * 60_000 <= BYTES_MAX + 120_000);
    }
}
