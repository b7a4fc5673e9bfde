//! Errors about packets (RFC 792, RFC 1812 §4.3.2).

use crate::frame::Frame;
use crate::graph::arguments::{Arguments, Ip4, WordList};
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::packet;
use crate::wire::{checksum, icmp, ipv4};

/// `ICMPError`.
pub const CLASS: EngineClass = EngineClass {
    name: "ICMPError",
    doc: "Makes an ICMP error about each packet, unless RFC 1812 forbids that; it asks for a source address \
          (FixIPSrc). ICMPError(SRC, TYPE, [CODE], [BADADDRS], [MTU])",
    make: Make::element("1/1", make),
};

const TYPES: &[(&str, u8)] =
    &[("unreachable", 3), ("sourcequench", 4), ("redirect", 5), ("timeexceeded", 11), ("parameterproblem", 12)];
const CODES: &[(u8, &str, u8)] = &[
    (3, "net", 0),
    (3, "host", 1),
    (3, "protocol", 2),
    (3, "port", 3),
    (3, "needfrag", 4),
    (3, "srcroutefail", 5),
    (3, "netprohibited", 9),
    (3, "hostprohibited", 10),
    (3, "filterprohibited", 13),
    (5, "net", 0),
    (5, "host", 1),
    (11, "transit", 0),
    (11, "reassembly", 1),
    (12, "erroratptr", 0),
    (12, "missingopt", 1),
    (12, "length", 2),
];

fn make(args: &mut Arguments<'_>) -> Option<Box<dyn Engine>> {
    let (source, kind): (Option<Ip4>, Option<String>) = (args.must("SRC"), args.must("TYPE"));
    let code = args.may("CODE", "0".to_owned())?;
    let (_, mtu) = (args.may("BADADDRS", WordList::default())?, args.may("MTU", 0u16)?);
    args.ignore(&["SET_FIX_ANNO", "PMTU", "USE_FIX_ANNO"]);
    let (source, kind) = (source?, kind?);
    let number = TYPES.iter().find(|(name, _)| *name == kind).map(|(_, number)| *number).or_else(|| kind.parse().ok());
    let named = |number: u8| CODES.iter().find(|(of, name, _)| *of == number && *name == code).map(|(.., code)| *code);
    let code = number.and_then(|number| named(number).or_else(|| code.parse().ok()));
    match (number, code) {
        (Some(kind), Some(code)) => Some(Box::new(IcmpError { source, kind, code, mtu, id: 0 })),
        _ => {
            args.say_all(format!("'{}' has a type or code that is none", args.name), "as timeexceeded, transit");
            None
        }
    }
}

struct IcmpError {
    source: Ip4,
    kind: u8,
    code: u8,
    mtu: u16,
    id: u16,
}

/// Bytes of a packet that an error quotes, at most.
const QUOTE_MAX: usize = icmp::QUOTE_MAX_V4;

impl Engine for IcmpError {
    fn push(&mut self, _: u16, frame: Frame, cx: &mut GraphCx<'_>) -> Pushed {
        if !may_be_told(&frame) {
            return Pushed::thrown(frame);
        }
        let about = packet::from_ip(&frame);
        let total = packet::ip(&frame).map_or(about.len(), |ip| ip.total_len());
        let Some(quote) = about.get(..total.min(QUOTE_MAX)) else { return Pushed::thrown(frame) };
        let Some((to, _)) = packet::ends(&frame) else { return Pushed::thrown(frame) };
        let mut error = cx.begin();
        error.received(ipv4::HEADER + icmp::HEADER + quote.len());
        let bytes = error.bytes_mut();
        let message = &mut bytes[ipv4::HEADER..];
        message[..icmp::HEADER].fill(0);
        (message[0], message[1]) = (self.kind, self.code);
        match self.kind {
            3 if self.code == 4 => message[6..8].copy_from_slice(&self.mtu.to_be_bytes()),
            5 => message[4..8].copy_from_slice(&frame.notes.next),
            _ => {}
        }
        message[icmp::HEADER..].copy_from_slice(quote);
        let sum = checksum::checksum(message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        self.id = self.id.wrapping_add(1);
        packet::write_ip(bytes, (self.source, to), packet::protocol::ICMP, (255, self.id));
        // Precedence of internetwork control (RFC 1812 §4.3.2.5).
        packet::change_word(bytes, 0, [0x45, 0xc0]);
        (error.notes.next, error.notes.fix_source, error.port) = (to.0, true, frame.port);
        packet::note_ip(&mut error, 0);
        cx.emit(0, error);
        Pushed::Used(frame)
    }
}

/// Whether an error about a packet may be sent (RFC 1812 §4.3.2.7): not about errors, later fragments, nor what was for several or is
/// from nobody in particular.
fn may_be_told(frame: &Frame) -> bool {
    let Some((ip, (from, to))) = packet::ip(frame).zip(packet::ends(frame)) else { return false };
    let is_error = ip.protocol() == packet::protocol::ICMP
        && ip.payload().first().is_none_or(|kind| !matches!(kind, 0 | 8 | 9 | 10 | 13..=18));
    let is_one = |address: Ip4| address.0 != [255; 4] && address.0[0] & 0xf0 != 0xe0;
    let from_one = is_one(from) && from.0[0] != 0 && from.0[0] != 127 && from.0[0] & 0xf0 != 0xf0;
    !is_error && ip.fragment_offset() == 0 && !frame.notes.group && is_one(to) && from_one
}
