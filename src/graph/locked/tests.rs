//! Which bytes of a packet are blanked, and what its sums say then.

use super::*;
use crate::wire::sum::Sum;

fn locked(names: &[&str]) -> LockedFields {
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    LockedFields::new(&names, &Arc::new(Protocols::standard())).unwrap()
}

/// The sum of UDP or TCP with its ends, zero if it is right.
fn sum_of(ip: &[u8]) -> u16 {
    let (ends, protocol, inner) = match ip[0] >> 4 {
        4 => (&ip[12..20], ip[9], &ip[20..]),
        _ => (&ip[8..40], ip[6], &ip[40..]),
    };
    Sum::new().bytes(ends).word(protocol.into()).word(inner.len() as u16).bytes(inner).finish()
}

fn udp(ends: (&[u8], &[u8]), payload: &[u8]) -> Vec<u8> {
    let length = 8 + payload.len();
    let header = [7000_u16, 53, length as u16, 0].map(u16::to_be_bytes).concat();
    let mut inner = [header, payload.to_vec()].concat();
    let (from, to) = ends;
    let sum = Sum::new().bytes(&[from, to].concat()).word(17).word(length as u16).bytes(&inner).finish();
    inner[6..8].copy_from_slice(&sum.to_be_bytes());
    inner
}

fn ip4(payload: &[u8]) -> Vec<u8> {
    let (from, to) = ([10, 1, 2, 3], [192, 0, 2, 7]);
    let inner = udp((&from, &to), payload);
    let total = (20 + inner.len()) as u16;
    let mut header = [&[0x45, 0][..], &total.to_be_bytes(), &[0, 1, 0, 0, 64, 17, 0, 0], &from, &to].concat();
    let sum = Sum::new().bytes(&header).finish();
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    [header, inner].concat()
}

fn ip6(payload: &[u8]) -> Vec<u8> {
    let (from, to) = ([0xfd; 16], [0x20; 16]);
    let inner = udp((&from, &to), payload);
    [&[0x60, 0, 0, 0][..], &(inner.len() as u16).to_be_bytes(), &[17, 64], &from, &to, &inner].concat()
}

fn framed(kind: u16, packet: &[u8]) -> Vec<u8> {
    [&[2; 12][..], &kind.to_be_bytes(), packet].concat()
}

#[test]
fn fields_are_hidden_and_sums_stay_right_and_all_is_put_back() {
    let fields = locked(&["ethernet.src", "ip.src", "ip.ttl", "ip6.dst", "ip6.class", "udp.dport"]);
    for (payload, network) in [(&b"even"[..], None), (b"odd", Some(0)), (b"", None)] {
        for (packet, version) in [(ip4(payload), 4), (ip6(payload), 6)] {
            let kind = if version == 4 { 0x0800 } else { 0x86dd };
            for (before, at, network) in [(packet.clone(), 0, network), (framed(kind, &packet), 14, Some(14))] {
                let (mut bytes, mut hidden) = (before.clone(), HiddenFields::default());
                assert_eq!(fields.hide(&mut bytes, network, &mut hidden), Ok(true));
                let ip = &bytes[at..];
                match version {
                    4 => assert!(
                        ip[12..16] == [0; 4] && ip[16..20] == [192, 0, 2, 7] && ip[8] == 0 && ip[22..24] == [0; 2]
                    ),
                    _ => assert!(ip[24..40] == [0; 16] && ip[8..24] == [0xfd; 16] && ip[..2] == [0x60, 0]),
                }
                assert!(at == 0 || bytes[..14] == [&[2; 6][..], &[0; 6], &kind.to_be_bytes()].concat());
                assert_eq!((sum_of(ip), version == 6 || Sum::new().bytes(&ip[..20]).finish() == 0), (0, true));
                assert_eq!(fields.put_back(&mut bytes, &hidden), Ok(true));
                assert_eq!(bytes, before);
                bytes.push(0);
                assert_eq!(fields.put_back(&mut bytes, &hidden), Ok(false), "another packet");
            }
        }
    }
}

#[test]
fn a_wrong_sum_stays_wrong_and_none_stays_none() {
    let fields = locked(&["ip.src"]);
    let mut hidden = HiddenFields::default();
    let (mut none, mut wrong) = (ip4(b"x"), ip4(b"x"));
    none[26..28].fill(0);
    wrong[27] ^= 1;
    assert_eq!(fields.hide(&mut none, None, &mut hidden), Ok(true));
    assert_eq!(none[26..28], [0; 2]);
    assert_eq!(fields.hide(&mut wrong, None, &mut hidden), Ok(true));
    assert_ne!(sum_of(&wrong), 0);
    let mut itself = ip4(b"x");
    let sum = locked(&["udp.checksum"]);
    assert_eq!(sum.hide(&mut itself, None, &mut hidden), Ok(true));
    assert_eq!(itself[26..28], [0; 2]);
    assert_eq!((sum.put_back(&mut itself, &hidden), itself), (Ok(true), ip4(b"x")));
}

#[test]
fn headers_within_headers_are_found_and_what_is_none_is_not() {
    let mut hidden = HiddenFields::default();
    let mut tagged = framed(0x8100, &[&[0, 5, 8, 0][..], &ip4(b"x")].concat());
    assert_eq!(locked(&["udp.sport", "vlan.id"]).hide(&mut tagged, Some(18), &mut hidden), Ok(true));
    assert_eq!((&tagged[14..16], &tagged[38..40]), (&[0, 0][..], &[0, 0][..]));
    // No such field is in it.
    assert_eq!(locked(&["tcp.seq"]).hide(&mut tagged, Some(18), &mut hidden), Ok(false));
    let mut piece = ip4(b"x");
    piece[6] = 0x20;
    let sum = {
        piece[10..12].fill(0);
        Sum::new().bytes(&piece[..20]).finish()
    };
    piece[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut unsummed = ip4(b"x");
    unsummed[8] = 9;
    let cut = ip4(b"xyz")[..30].to_vec();
    for (mut bytes, network) in [
        (piece, None),
        (unsummed.clone(), Some(0)),
        (framed(0x0800, &unsummed), Some(14)),
        (framed(0x9999, &ip4(b"x")), Some(14)),
        (framed(0x9999, &ip4(b"x")), None),
        (ip4(b"x"), Some(4)),
        (cut, None),
        (vec![], None),
        (vec![0x45], Some(0)),
    ] {
        let before = bytes.clone();
        assert_eq!(locked(&["udp.dport"]).hide(&mut bytes, network, &mut hidden), Err(Unread), "{before:x?}");
        assert_eq!(bytes, before);
        assert_eq!(LockedFields::unknown().hide(&mut bytes, network, &mut hidden), Err(Unread));
    }
}

#[test]
fn what_has_something_unknown_in_it_does_not_cross() {
    let fields = locked(&["ip.src", "ip6.src", "udp.dport"]);
    let mut hidden = HiddenFields::default();
    // An extension header of IPv6, in front of what is no longer UDP: hop by hop, routing, fragment, authentication, destination.
    let extended = |kind: u8| {
        let mut packet = ip6(&[0; 8]);
        packet[6] = kind;
        packet
    };
    let inside = |kind: u8| {
        let mut packet = ip4(b"x");
        (packet[9], packet[10], packet[11]) = (kind, 0, 0);
        let sum = Sum::new().bytes(&packet[..20]).finish();
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet
    };
    let tagged =
        |kinds: &[u16]| kinds.iter().flat_map(|kind| [[0, 5], kind.to_be_bytes()].concat()).collect::<Vec<u8>>();
    let mut all: Vec<_> = [0, 43, 44, 51, 58, 60, 41, 253].map(extended).to_vec();
    all.extend([4, 41, 47, 50, 253].map(inside));
    all.extend([&[0x8100, 0x0800][..], &[0x8847], &[0x8864]].map(|kinds| {
        let packet = if kinds.len() == 1 { [&[0; 4][..], &ip4(b"x")].concat() } else { ip4(b"x") };
        framed(0x8100, &[tagged(kinds), packet].concat())
    }));
    for mut bytes in all.clone().into_iter().chain(all.iter().map(|packet| framed(0x86dd, packet))) {
        let before = bytes.clone();
        assert_eq!(fields.hide(&mut bytes, None, &mut hidden), Err(Unread), "{before:x?}");
        assert_eq!(bytes, before);
    }
}

#[test]
fn nothing_is_put_back_where_other_headers_are() {
    let fields = locked(&["ip.src", "udp.dport"]);
    let (mut bytes, mut hidden) = (ip4(b"x"), HiddenFields::default());
    assert_eq!(fields.hide(&mut bytes, None, &mut hidden), Ok(true));
    // Another protocol, with the sum of the header mended: UDP's port would be in the clear the next time.
    (bytes[9], bytes[10], bytes[11]) = (253, 0, 0);
    let sum = Sum::new().bytes(&bytes[..20]).finish();
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(fields.put_back(&mut bytes, &hidden), Err(Unread));
    assert_eq!((&bytes[12..16], &bytes[22..24]), (&[0; 4][..], &[0; 2][..]));
    // What is behind the headers may be another.
    let mut bytes = ip4(b"xyz");
    assert_eq!(fields.hide(&mut bytes, None, &mut hidden), Ok(true));
    let end = bytes.len() - 1;
    bytes[end] = b'!';
    assert_eq!(fields.put_back(&mut bytes, &hidden), Ok(true));
    assert_eq!((&bytes[12..16], &bytes[28..]), (&[10, 1, 2, 3][..], &b"xy!"[..]));
}

#[test]
fn what_is_no_field_is_refused_with_what_is_near() {
    let refused = |name: &str| LockedFields::new(&[name.into()], &Arc::new(Protocols::standard())).unwrap_err();
    for (name, why) in [
        ("src", "'src' is no field: PROTOCOL.FIELD, as ip.src"),
        ("ip.scr", "ip has no field 'scr'; do you mean 'src'?"),
        ("upd.dport", "no protocol 'upd' is taught; do you mean 'udp'"),
        ("ip.", "ip has no field ''"),
    ] {
        assert!(refused(name).contains(why), "{}", refused(name));
    }
}

#[test]
fn an_address_that_was_hidden_is_known() {
    let mut hidden = HiddenFields::default();
    assert_eq!(locked(&["ip.ttl", "ip.dst"]).hide(&mut ip4(b"x"), None, &mut hidden), Ok(true));
    assert!(hidden.has_word([192, 0, 2, 7]) && !hidden.has_word([10, 1, 2, 3]));
}
