//! Neighbour discovery (RFC 4861): the contents of the two ICMPv6 messages that replace ARP.
//!
//! [`icmp`](super::icmp) recognises the messages and verifies their checksums. Here are the target, the Ethernet
//! address in an option, and the rules of a valid message.

use super::ethernet::Mac;
use super::icmp::{HEADER, V6};
use super::{Addr, Error, Result, field, put};

/// The hop limit of neighbour discovery: a packet that was forwarded has less (RFC 4861 §7.1).
pub const NEIGHBOUR_HOP_LIMIT: u8 = 255;

const TARGET: usize = 8;
/// Length in bytes of a message without options.
pub(super) const NEIGHBOUR: usize = 24;
/// Length in bytes of an option that holds an Ethernet address.
pub(super) const OPTION: usize = 8;
/// The option with the asker's Ethernet address.
pub(super) const OPTION_SOURCE: u8 = 1;
/// The option with the owner's Ethernet address.
pub(super) const OPTION_TARGET: u8 = 2;

const ROUTER: u8 = 0x80;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;

/// Reads a solicitation that came from this link, by the rules of RFC 4861 §7.1.1.
pub(super) fn solicitation(bytes: &[u8], source: Addr, destination: Addr) -> Result<V6<'_>> {
    let (target, source_mac) = parse_neighbour(bytes, OPTION_SOURCE)?;
    if source.is_unspecified() && (source_mac.is_some() || !is_solicited_node(destination)) {
        return Err(Error::Malformed);
    }
    Ok(V6::Solicitation { target, source_mac })
}

/// Reads an advertisement that came from this link, by the rules of RFC 4861 §7.1.2.
pub(super) fn advertisement(bytes: &[u8], flags: u8, destination: Addr) -> Result<V6<'_>> {
    let (target, target_mac) = parse_neighbour(bytes, OPTION_TARGET)?;
    let solicited = flags & SOLICITED != 0;
    if solicited && is_multicast(destination) {
        return Err(Error::Malformed);
    }
    let (router, overrides) = (flags & ROUTER != 0, flags & OVERRIDE != 0);
    Ok(V6::Advertisement { target, target_mac, router, solicited, overrides })
}

/// The flags of an advertisement as they stand in its first byte.
pub(super) fn flags(router: bool, solicited: bool, overrides: bool) -> u8 {
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    flag(router, ROUTER) | flag(solicited, SOLICITED) | flag(overrides, OVERRIDE)
}

/// The target and the Ethernet address that the option `wanted` holds; other options are passed over.
fn parse_neighbour(bytes: &[u8], wanted: u8) -> Result<(Addr, Option<Mac>)> {
    let (header, mut options) = bytes.split_first_chunk::<NEIGHBOUR>().ok_or(Error::Truncated)?;
    let target = Addr(field::<TARGET, _, _>(header));
    if is_multicast(target) || target.is_v4() {
        return Err(Error::Malformed);
    }
    let mut mac = None;
    while let [kind, units, ..] = *options {
        if units == 0 {
            return Err(Error::Length);
        }
        let (option, rest) = options.split_at_checked(usize::from(units) * OPTION).ok_or(Error::Length)?;
        if let (true, [_, 1, a, b, c, d, e, f]) = (kind == wanted, option) {
            mac = mac.or(Some(Mac([*a, *b, *c, *d, *e, *f])));
        }
        options = rest;
    }
    if options.is_empty() { Ok((target, mac)) } else { Err(Error::Length) }
}

/// Writes target and option, and returns what was written.
pub(super) fn emit(body: &mut [u8; NEIGHBOUR - HEADER + OPTION], target: Addr, option: u8, mac: Option<Mac>) -> &[u8] {
    put::<0, _, _>(body, target.0);
    match mac {
        Some(mac) => {
            put::<16, _, _>(body, [option, 1]);
            put::<18, _, _>(body, mac.0);
            body
        }
        None => body.first_chunk::<{ NEIGHBOUR - HEADER }>().map_or(&[], |body| body),
    }
}

#[inline]
fn is_multicast(addr: Addr) -> bool {
    addr.0[0] == 0xff
}

fn is_solicited_node(addr: Addr) -> bool {
    solicited_node(addr) == addr
}

/// The multicast group in which the owner of `addr` listens for solicitations (RFC 4291 §2.7.1).
pub fn solicited_node(addr: Addr) -> Addr {
    let [.., a, b, c] = addr.0;
    Addr([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c])
}
