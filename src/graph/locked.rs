//! Fields of packets that are locked: a graph's engines carry them, and at another place nobody sees them. Example: with
//! `locked = ["ip.src"]` a packet that goes to a part at another node has no source address any more.
//!
//! ```text
//! packet ─▶ its headers, from the first byte on ─▶ bits of locked fields become zero ─▶ sums are carried over ─▶ it crosses
//!                   │ they cannot all be read                                   ┌ comes back, as long as it was ◀┘
//!                   └─▶ it does not cross                                       └▶ put back ─▶ the same headers, or it is dropped
//! ```
//!
//! Headers are those of the taught protocols, as rules read them. They end with a protocol that says of nothing behind it, or with
//! UDP or TCP of an unknown port: whatever else has something unknown in it cannot all be read. A sum that was right stays right, and
//! so does a wrong one stay wrong. What of a packet is no header that was read is what the graph's text lets go.

use crate::classify::taught::bits::Bits;
use crate::classify::taught::pattern::DEPTH_MAX;
use crate::classify::taught::protocol::{Inner, ProtocolId};
use crate::classify::taught::protocols::Protocols;
use core::ops::Range;
use std::sync::Arc;

/// What is printed of a packet whose locked fields cannot be told.
pub const LOCKED: &str = "(fields of it are locked, and its headers cannot all be read)";

/// Bytes of an Ethernet header, behind which a network header may be.
const ETHERNET: usize = 14;

/// Where the sums of known protocols are in their headers, and whether the ends of IP are in them too.
const SUMS: [(&str, usize, bool); 4] = [("ip", 10, false), ("icmp", 2, false), ("udp", 6, true), ("tcp", 16, true)];

/// Protocols behind whose header no other one need be known.
const PAYLOADS: [&str; 2] = ["udp", "tcp"];

/// Where the ends are in a header of IP.
const ENDS: [(&str, Range<usize>); 2] = [("ip", 12..20), ("ip6", 8..40)];

/// The headers of a packet cannot all be read, so nobody knows where its locked fields are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unread;

/// A header of a packet: its protocol, where it begins, where what is in it begins, and where that ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Header {
    id: ProtocolId,
    start: usize,
    inner: usize,
    end: usize,
}

/// The headers of a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Headers {
    all: [Header; DEPTH_MAX],
    count: usize,
}

/// A sum in a packet: where it is, and the bytes that it is of.
#[derive(Clone, Debug)]
struct SumPlace {
    at: usize,
    own: Range<usize>,
    ends: Range<usize>,
    /// Whether it is never zero.
    is_udp: bool,
}

/// What was in a packet before.
#[derive(Clone, Debug, Default)]
pub struct HiddenFields {
    /// Of each byte its place, which bits were hidden, and these.
    bytes: Vec<(usize, u8, u8)>,
    sums: Vec<SumPlace>,
    headers: Headers,
    network: Option<usize>,
    length: usize,
}

/// The fields that a role locks.
#[derive(Clone, Debug)]
pub struct LockedFields {
    protocols: Arc<Protocols>,
    fields: Vec<(ProtocolId, Bits)>,
}

impl LockedFields {
    /// Those of these names, each PROTOCOL.FIELD of what is taught; or which is none, and what is near it.
    pub fn new(names: &[String], protocols: &Arc<Protocols>) -> Result<LockedFields, String> {
        let fields = names.iter().map(|name| field(name, protocols)).collect::<Result<_, _>>()?;
        Ok(LockedFields { protocols: protocols.clone(), fields })
    }

    /// Such that no packet crosses.
    pub fn unknown() -> LockedFields {
        LockedFields { protocols: Arc::default(), fields: Vec::new() }
    }

    /// Hides the locked fields of a packet, whose network header begins at `network` if that was noted; what was there is in `hidden`.
    /// Whether there were any.
    pub fn hide(&self, bytes: &mut [u8], network: Option<usize>, hidden: &mut HiddenFields) -> Result<bool, Unread> {
        let headers = self.headers(bytes, network)?;
        hidden.bytes.clear();
        (hidden.length, hidden.network) = (bytes.len(), network);
        self.find_sums(bytes, &headers, &mut hidden.sums);
        for header in headers.iter() {
            for (_, bits) in self.fields.iter().filter(|(id, _)| *id == header.id) {
                hide_bits(bytes, header.start, *bits, hidden);
            }
        }
        hidden.headers = headers;
        Ok(!hidden.bytes.is_empty())
    }

    /// Puts back what was hidden, where the packet is as long as it was; whether it is. Its headers are the same then: else a field that
    /// is locked would stand where none is, and nothing is put back.
    pub fn put_back(&self, bytes: &mut [u8], hidden: &HiddenFields) -> Result<bool, Unread> {
        if bytes.len() != hidden.length {
            return Ok(false);
        }
        hidden.write(bytes, |mask, before, now| now & !mask | before);
        if self.headers(bytes, hidden.network).as_ref() == Ok(&hidden.headers) {
            return Ok(true);
        }
        hidden.write(bytes, |mask, _, now| now & !mask);
        Err(Unread)
    }

    /// The headers of a packet, from its first byte on.
    fn headers(&self, bytes: &[u8], network: Option<usize>) -> Result<Headers, Unread> {
        let ethernet = || self.walk("ethernet", bytes).filter(|headers| headers.count > 1);
        let version = bytes.first().map(|byte| byte >> 4);
        let ip = || match version {
            Some(4) => self.walk("ip", bytes),
            Some(6) => self.walk("ip6", bytes),
            _ => None,
        };
        let found = match network {
            Some(0) => ip(),
            Some(at) if at >= ETHERNET => ethernet().filter(|headers| headers.iter().any(|header| header.start == at)),
            Some(_) => None,
            // Bytes that have IPv4's sum are no Ethernet header; those of IPv6 may be.
            None if version == Some(4) => self.walk("ip", bytes).or_else(ethernet),
            None => ethernet().or_else(ip),
        };
        found.ok_or(Unread)
    }

    /// All headers from one of this protocol on; nothing if one is not what the one before says, or says nothing of what is behind it.
    fn walk(&self, first: &str, bytes: &[u8]) -> Option<Headers> {
        let mut id = self.protocols.id(first)?;
        let (mut start, mut end) = (0, bytes.len());
        let mut headers = Headers::default();
        loop {
            let protocol = self.protocols.one(id)?;
            let Inner { start: inner, end: own_end, next } = protocol.read(bytes, start, end).ok()?;
            *headers.all.get_mut(headers.count)? = Header { id, start, inner, end: own_end };
            headers.count += 1;
            let Some(next) = next else {
                // Of a piece of a packet nobody knows what is in it.
                return protocol.next.is_none().then_some(headers);
            };
            let Some(behind) = self.protocols.inside(id, next) else {
                return PAYLOADS.contains(&protocol.name.as_str()).then_some(headers);
            };
            (id, start, end) = (behind, inner, own_end);
        }
    }

    /// The sums of a packet that are not locked themselves.
    fn find_sums(&self, bytes: &[u8], headers: &Headers, sums: &mut Vec<SumPlace>) {
        sums.clear();
        let mut ends = 0..0;
        for header in headers.iter() {
            let Some(protocol) = self.protocols.one(header.id) else { continue };
            let outer = ends.clone();
            if let Some((_, range)) = ENDS.iter().find(|(name, _)| *name == protocol.name) {
                ends = header.start + range.start..header.start + range.end;
            }
            let Some((name, at, has_ends)) = SUMS.iter().find(|(name, ..)| *name == protocol.name) else { continue };
            let is_locked =
                |(id, bits): &(ProtocolId, Bits)| *id == header.id && bits.byte as usize <= at + 1 && bits.end() > *at;
            let (at, is_udp) = (header.start + at, *name == "udp");
            let is_none = is_udp && bytes.get(at..at + 2) == Some(&[0, 0]);
            if is_none || self.fields.iter().any(is_locked) {
                continue;
            }
            let own = header.start..if *name == "ip" { header.inner } else { header.end };
            sums.push(SumPlace { at, own, ends: if *has_ends { outer } else { 0..0 }, is_udp });
        }
    }
}

impl Headers {
    fn iter(&self) -> impl Iterator<Item = &Header> {
        self.all.iter().take(self.count)
    }
}

impl HiddenFields {
    /// Writes each byte of which something was hidden: by its mask, what was there before, and what is there now.
    fn write(&self, bytes: &mut [u8], new: impl Fn(u8, u8, u8) -> u8) {
        for (at, mask, before) in &self.bytes {
            let Some(now) = bytes.get(*at).copied() else { continue };
            set(bytes, &self.sums, *at, new(*mask, *before, now));
        }
    }

    /// What of a word of four bytes was hidden, if all of it was: an address, to compare it with.
    pub fn has_word(&self, word: [u8; 4]) -> bool {
        let is_it = |four: &[(usize, u8, u8)]| {
            four.iter().zip(word).all(|((_, mask, was), byte)| (*mask, *was) == (0xff, byte))
        };
        self.bytes.windows(4).any(is_it)
    }
}

/// The field that a name means.
fn field(name: &str, protocols: &Protocols) -> Result<(ProtocolId, Bits), String> {
    let (protocol, of) = name
        .split_once('.')
        .ok_or_else(|| format!("'{}' is no field: PROTOCOL.FIELD, as ip.src", crate::clean::shown(name)))?;
    let id = protocols.id(protocol).ok_or_else(|| protocols.unknown(protocol))?;
    let Some(known) = protocols.one(id) else { return Err(protocols.unknown(protocol)) };
    let at = known.field(of).ok_or_else(|| known.no_field(of, 0).what)?;
    let bits = known.fields.get(at).map(|field| field.bits).ok_or_else(|| known.no_field(of, 0).what)?;
    Ok((id, bits))
}

/// Bits of a header become zero.
fn hide_bits(bytes: &mut [u8], start: usize, bits: Bits, hidden: &mut HiddenFields) {
    let first = start + bits.byte as usize;
    let (from, to) = (usize::from(bits.bit), usize::from(bits.bit) + usize::from(bits.count));
    for at in first..start + bits.end() {
        let begins = (at - first) * 8;
        // Of this byte the bits from one place up to another.
        let (low, high) = (from.saturating_sub(begins).min(8), to.saturating_sub(begins).min(8));
        let mask = ((0xff_u16 >> low) & !(0xff_u16 >> high)) as u8;
        let Some(was) = bytes.get(at).copied() else { return };
        hidden.bytes.push((at, mask, was & mask));
        set(bytes, &hidden.sums, at, was & !mask);
    }
}

/// Writes a byte, and carries all sums over that it is in (RFC 1624), and those that they are in.
fn set(bytes: &mut [u8], sums: &[SumPlace], at: usize, new: u8) {
    let Some(place) = bytes.get_mut(at) else { return };
    let old = core::mem::replace(place, new);
    if old == new {
        return;
    }
    for sum in sums {
        let range = match () {
            () if at == sum.at || at == sum.at + 1 => continue,
            () if sum.own.contains(&at) => &sum.own,
            () if sum.ends.contains(&at) => &sum.ends,
            () => continue,
        };
        let shift = if (at - range.start).is_multiple_of(2) { 8 } else { 0 };
        let Some(word) = bytes.get(sum.at..).and_then(<[u8]>::first_chunk::<2>) else { continue };
        let known = u32::from(!u16::from_be_bytes(*word));
        let total = known + u32::from(!(u16::from(old) << shift)) + u32::from(u16::from(new) << shift);
        let folded = (total & 0xffff) + (total >> 16);
        let next = !(((folded & 0xffff) + (folded >> 16)) as u16);
        let [high, low] = if next == 0 && sum.is_udp { [0xff; 2] } else { next.to_be_bytes() };
        set(bytes, sums, sum.at, high);
        set(bytes, sums, sum.at + 1, low);
    }
}

#[cfg(test)]
mod tests;
