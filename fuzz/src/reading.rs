//! Invariants of the wire formats for any bytes.
//!
//! Each function here is a fuzz target and is also called by `tests/unit/formats.rs`. It parses, reads
//! every field, and where something was recognised writes it again and compares. Formats with a
//! checksum are read twice, as they are and with the checksum put right, so that random bytes
//! reach what stands behind it.

use crate::wire::{self, Addr, Error, anep as anep_wire, icmp as icmp_wire, ipv4 as ipv4_wire, ipv6 as ipv6_wire};
use crate::wire::{capsule as capsule_wire, checksum as sums, fetch as fetch_wire, udp as udp_wire};
use crate::wire::{hello as hello_wire, part as part_wire, proof as proof_wire, revocation as revocation_wire};

type Checked = Result<(), Error>;

const HERE: Addr = Addr([0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
const THERE: Addr = Addr([0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);

/// A frame, and what it carries down to a capsule.
pub fn ethernet(bytes: &[u8]) {
    let _ = read_ethernet(bytes);
}

/// An ARP packet.
pub fn arp(bytes: &[u8]) {
    if let Ok(repr) = wire::arp::Repr::parse(bytes) {
        let mut again = [0; wire::arp::LENGTH];
        assert_eq!(repr.emit(&mut again), Ok(again.len()));
        assert_eq!(again, bytes[..again.len()]);
        assert_eq!(repr.reply(repr.target_mac).target_ip, repr.sender_ip);
    }
}

/// An IPv4 packet.
pub fn ipv4(bytes: &[u8]) {
    let _ = read_ipv4(bytes);
    let header_len = usize::from(bytes.first().unwrap_or(&0) & 0xf) * 4;
    if bytes.len() >= header_len && header_len >= ipv4_wire::HEADER {
        let mut fixed = bytes.to_vec();
        fixed[10..12].fill(0);
        let sum = sums::checksum(&fixed[..header_len]);
        fixed[10..12].copy_from_slice(&sum.to_be_bytes());
        if ipv4_wire::Packet::new_checked(&fixed).is_ok_and(|packet| !packet.verify_checksum()) {
            panic!("a checksum put right is wrong");
        }
        let _ = read_ipv4(&fixed);
    }
}

/// An IPv6 packet.
pub fn ipv6(bytes: &[u8]) {
    let _ = read_ipv6(bytes);
}

/// A UDP datagram.
pub fn udp(bytes: &[u8]) {
    let _ = read_udp(bytes);
}

/// An ICMP message of either family.
pub fn icmp(bytes: &[u8]) {
    read_icmp(bytes);
    if bytes.len() < icmp_wire::HEADER {
        return;
    }
    let mut fixed = bytes.to_vec();
    fixed[2..4].fill(0);
    let sum = sums::checksum(&fixed);
    fixed[2..4].copy_from_slice(&sum.to_be_bytes());
    assert!(icmp_wire::V4::parse(&fixed).is_ok());
    fixed[2..4].fill(0);
    let length = u32::try_from(fixed.len()).unwrap_or(0);
    let sum = sums::Sum::new().pseudo_header(HERE, THERE, icmp_wire::IP_PROTOCOL_V6, length).bytes(&fixed).finish();
    fixed[2..4].copy_from_slice(&sum.to_be_bytes());
    assert_ne!(icmp_wire::V6::parse(&fixed, HERE, THERE, 255), Err(Error::Checksum));
    read_icmp(&fixed);
}

/// A revocation.
pub fn revocation(bytes: &[u8]) {
    let _ = read_revocation(bytes);
}

/// A message about parts of graphs.
pub fn part(bytes: &[u8]) {
    let _ = read_part(bytes);
}

fn read_part(bytes: &[u8]) -> Result<(), Error> {
    // What a part's pieces come to may be a text of any bytes.
    let text = core::str::from_utf8(bytes).unwrap_or_default();
    if let Ok((title, rest)) = part_wire::PartTitle::parse(text) {
        assert_eq!(format!("{title}\n{rest}").len(), text.len());
    }
    let (head, message) = part_wire::Message::parse(bytes)?;
    let mut again = vec![0; message.len()];
    assert_eq!(message.emit(head, &mut again), Ok(again.len()));
    assert_eq!(again, bytes);
    Ok(())
}

/// A hello.
pub fn hello(bytes: &[u8]) {
    let _ = read_hello(bytes);
}

fn read_hello(bytes: &[u8]) -> Result<(), Error> {
    let hello = hello_wire::Hello::parse(bytes)?;
    let mut again = [0; hello_wire::LENGTH];
    assert_eq!(hello.emit(&mut again), Ok(hello_wire::LENGTH));
    assert_eq!(again, bytes, "one spelling");
    Ok(())
}

/// An ANEP packet, and what it carries.
pub fn anep(bytes: &[u8]) {
    let _ = read_anep(bytes);
}

/// A capsule.
pub fn capsule(bytes: &[u8]) {
    let _ = read_capsule(bytes);
}

/// A code-fetch message.
pub fn fetch(bytes: &[u8]) {
    let _ = read_fetch(bytes);
}

/// Messages between PLAN nodes: pieces are written again, and lie inside their message.
pub fn plan_message(bytes: &[u8]) {
    use wire::plan::{Message, Piece, emit_piece, have, put_code, put_routes, want};
    let mut again = Vec::new();
    match Message::parse(bytes) {
        Err(_) => return,
        Ok(Message::Packet(packet)) => again.extend_from_slice(packet),
        Ok(Message::Piece(piece)) => {
            again.resize(bytes.len(), 0);
            assert_eq!(emit_piece(&piece, &mut again), Ok(bytes.len()));
            let Piece { total, bytes: inside, .. } = piece;
            assert!(!inside.is_empty() && piece.start() + inside.len() <= total as usize);
        }
        Ok(Message::Want(digest)) => again.extend_from_slice(&want(&digest)),
        Ok(Message::Have(digest)) => again.extend_from_slice(&have(&digest)),
        Ok(Message::Code(code)) => put_code(code, &mut again),
        Ok(Message::Routes(routes)) => {
            // Routes that are malformed are passed over.
            put_routes(routes.request, routes.iter(), &mut again);
            assert!(again.len() <= bytes.len());
            return;
        }
    }
    assert_eq!(again, bytes);
}

/// Checksums against a slow one, whole and in two pieces, and their update.
pub fn checksum(bytes: &[u8]) {
    let slow = bytes.chunks(2).fold(0u32, |sum, pair| {
        let sum = sum + (u32::from(pair[0]) << 8) + u32::from(*pair.get(1).unwrap_or(&0));
        (sum & 0xffff) + (sum >> 16)
    });
    assert_eq!(sums::checksum(bytes), !(slow as u16));
    let (a, b) = bytes.split_at(bytes.len() / 4 * 2);
    assert_eq!(sums::Sum::new().bytes(a).bytes(b).finish(), sums::checksum(bytes));
    if let [a, b, c, d, rest @ ..] = bytes {
        let (old, new) = (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]));
        // One word that is not zero keeps the two zeroes of one's complement apart (RFC 1624 §3).
        let sum = |word: u16| sums::Sum::new().word(0x4500).word(word).bytes(rest).finish();
        let expected = sum(new);
        let updated = sums::update(sum(old), old, new);
        assert!(updated == expected || (updated ^ expected == 0xffff && [0, 0xffff].contains(&updated)));
    }
}

fn read_ethernet(bytes: &[u8]) -> Checked {
    use wire::ethernet::{FrameView, Repr, ethertype};
    let frame = FrameView::new_checked(bytes)?;
    assert_eq!(frame.header_len() + frame.payload().len(), bytes.len());
    let mut again = [0; 18];
    assert_eq!(Repr::parse(&frame).emit(&mut again), Ok(frame.header_len()));
    assert_eq!(again[..frame.header_len()], bytes[..frame.header_len()]);
    match frame.ethertype() {
        ethertype::IPV4 => read_ipv4(frame.payload()),
        ethertype::IPV6 => read_ipv6(frame.payload()),
        _ => Ok(()),
    }
}

fn read_ipv4(bytes: &[u8]) -> Checked {
    use ipv4_wire::{OPTIONS_MAX, Packet, PacketMut, Repr};
    let packet = Packet::new_checked(bytes)?;
    assert!(packet.total_len() <= bytes.len() && packet.options().count() <= OPTIONS_MAX);
    assert!(packet.source().is_v4() && packet.destination().is_v4());
    let right = packet.verify_checksum();
    assert_eq!(Repr::parse(&packet).is_ok(), right);
    if let Ok(repr) = Repr::parse(&packet) {
        let mut again = [0; 60];
        assert_eq!(repr.emit(&mut again), Ok(packet.header_len()));
        // The checksum has two zeroes; all other bytes come back as they were.
        again[10..12].copy_from_slice(&bytes[10..12]);
        assert_eq!(again[..packet.header_len()], bytes[..packet.header_len()]);
    }
    let mut copy = bytes.to_vec();
    let left = PacketMut::new_checked(&mut copy)?.decrement_ttl();
    assert_eq!(left.is_some(), packet.ttl() > 1);
    PacketMut::new_checked(&mut copy)?.set_destination([10, 0, 0, 1]);
    assert_eq!(Packet::new_checked(&copy)?.verify_checksum(), right);
    match packet.protocol() {
        _ if packet.is_fragment() => Ok(()),
        udp_wire::IP_PROTOCOL => read_udp(packet.payload()),
        anep_wire::IP_PROTOCOL => read_anep(packet.payload()),
        _ => Ok(()),
    }
}

fn read_ipv6(bytes: &[u8]) -> Checked {
    use ipv6_wire::{HEADER, Packet, PacketMut, Repr};
    let packet = Packet::new_checked(bytes)?;
    assert!(packet.total_len() <= bytes.len());
    assert!(!packet.source().is_v4() && !packet.destination().is_v4());
    assert!(!packet.is_fragment() || packet.fragment().is_some());
    let mut again = [0; HEADER];
    assert_eq!(Repr::parse(&packet).emit(&mut again), Ok(HEADER));
    if packet.header_len() == HEADER {
        assert_eq!(again, bytes[..HEADER]);
    }
    let left = PacketMut::new_checked(&mut bytes.to_vec())?.decrement_hop_limit();
    assert_eq!(left.is_some(), packet.hop_limit() > 1);
    let (source, destination) = (packet.source(), packet.destination());
    match packet.protocol() {
        _ if packet.is_fragment() || packet.segments_left() != 0 => Ok(()),
        udp_wire::IP_PROTOCOL => read_udp(packet.payload()),
        anep_wire::IP_PROTOCOL => read_anep(packet.payload()),
        icmp_wire::IP_PROTOCOL_V6 => {
            icmp_wire::V6::parse(packet.payload(), source, destination, packet.hop_limit()).map(drop)
        }
        _ => Ok(()),
    }
}

fn read_udp(bytes: &[u8]) -> Checked {
    use udp_wire::{HEADER, Packet, PacketMut, Repr};
    let packet = Packet::new_checked(bytes)?;
    assert!(HEADER + packet.payload().len() <= bytes.len());
    let mut copy = bytes.to_vec();
    PacketMut::new_checked(&mut copy)?.fill_checksum(HERE, THERE);
    let filled = Packet::new_checked(&copy)?;
    assert!(filled.checksum() != 0 && filled.verify_checksum(HERE, THERE));
    let mut again = [0; HEADER];
    assert_eq!(Repr::parse(&filled, HERE, THERE)?.emit(&mut again), Ok(HEADER));
    assert_eq!(again[..6], bytes[..6]);
    let ports = [packet.source_port(), packet.destination_port()];
    if ports.contains(&anep_wire::UDP_PORT) { read_anep(packet.payload()) } else { Ok(()) }
}

fn read_icmp(bytes: &[u8]) {
    if let Ok(message) = icmp_wire::V4::parse(bytes) {
        let mut again = vec![0; message.len()];
        assert_eq!(message.emit(&mut again), Ok(bytes.len()));
        assert_eq!(icmp_wire::V4::parse(&again), Ok(message));
    }
    for hop_limit in [64, 255] {
        if let Ok(message) = icmp_wire::V6::parse(bytes, HERE, THERE, hop_limit) {
            let mut again = vec![0; message.len()];
            assert_eq!(message.emit(&mut again, HERE, THERE), Ok(again.len()));
            assert_eq!(icmp_wire::V6::parse(&again, HERE, THERE, hop_limit), Ok(message));
        }
    }
}

fn read_anep(bytes: &[u8]) -> Checked {
    use anep_wire::{HEADER, Packet, Repr, type_id};
    let packet = Packet::new_checked(bytes)?;
    assert_eq!(packet.header_len() + packet.payload().len(), packet.bytes().len());
    let options: usize = packet.options().map(|option| option.len()).sum();
    assert_eq!(HEADER + options, packet.header_len(), "the options fill the header");
    let _ = (packet.discard_if_unknown(), packet.unknown_option_discards());
    if let Ok(repr) = Repr::parse(&packet) {
        assert!(packet.verify_checksum());
        let mut again = vec![0; repr.len()];
        assert_eq!(repr.emit(&mut again), Ok(repr.len()));
        assert_eq!(Repr::parse(&Packet::new_checked(&again)?), Ok(repr));
    }
    read_proof(&packet)?;
    match packet.type_id() {
        type_id::CAPSULE => read_capsule(packet.payload()),
        type_id::FETCH => read_fetch(packet.payload()),
        type_id::REVOCATION => read_revocation(packet.payload()),
        anep_wire::type_id::HELLO => read_hello(packet.payload()),
        anep_wire::type_id::PART => read_part(packet.payload()),
        _ => Ok(()),
    }
}

fn read_capsule(bytes: &[u8]) -> Checked {
    use capsule_wire::{HEADER, Header, Packet, PacketMut};
    let header = Header::parse(bytes)?;
    let mut again = [0; HEADER];
    assert_eq!(header.emit(&mut again), Ok(HEADER));
    assert_eq!(again, bytes[..HEADER]);
    assert_eq!(Packet::new_checked(bytes)?.payload(), &bytes[HEADER..]);
    let mut copy = bytes.to_vec();
    PacketMut::new_checked(&mut copy)?.set_bound(header.bound / 2);
    assert_eq!(Header::parse(&copy)?, Header { bound: header.bound / 2, ..header });
    Ok(())
}

/// A proof that a packet has comes off and goes on again without a trace.
fn read_proof(packet: &anep_wire::Packet<'_>) -> Checked {
    let Some(proof) = proof_wire::Repr::of(packet) else { return Ok(()) };
    let mut copy = packet.bytes().to_vec();
    proof_wire::Repr::take_off(&mut copy)?;
    let inner = anep_wire::Packet::new_checked(&copy[proof_wire::PROOF..])?;
    assert_eq!((inner.type_id(), inner.payload()), (packet.type_id(), packet.payload()));
    proof.put(&mut copy)?;
    let again = anep_wire::Packet::new_checked(&copy)?;
    assert_eq!((proof_wire::Repr::of(&again), again.payload()), (Some(proof), packet.payload()));
    Ok(())
}

fn read_revocation(bytes: &[u8]) -> Checked {
    use revocation_wire::{LENGTH, Repr, View};
    let repr = Repr::parse(bytes)?;
    let view = View::new_checked(bytes)?;
    assert_eq!((view.what(), view.key()), (repr.what, repr.key()));
    let mut again = [0; LENGTH];
    assert_eq!(repr.emit(&mut again), Ok(LENGTH));
    assert_eq!(again, bytes);
    assert!(repr.said().starts_with(revocation_wire::LABEL) && repr.said().ends_with(&bytes[..76]));
    Ok(())
}

fn read_fetch(bytes: &[u8]) -> Checked {
    use fetch_wire::Message;
    let message = Message::parse(bytes)?;
    let mut again = vec![0; message.len()];
    assert_eq!(message.emit(&mut again), Ok(message.len()));
    assert_eq!(Message::parse(&again), Ok(message));
    match message {
        Message::Request { missing, .. } => {
            assert!(fetch_wire::reply_budget(message.len()) == missing.count_ones());
        }
        Message::Part { .. } | Message::Absent { .. } => assert_eq!(again, bytes),
    }
    Ok(())
}
