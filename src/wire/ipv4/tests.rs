//! IPv4 headers: good ones, and each that is wrong.

use super::*;

fn packet(ttl: u8, options: &[u8]) -> ([u8; 80], usize) {
    let repr = Repr { options, ..Repr::new([10, 0, 0, 1], [10, 0, 0, 2], 17, ttl, 4) };
    let mut bytes = [0; 80];
    let length = repr.emit(&mut bytes).unwrap();
    (bytes, length + 4)
}

#[test]
fn every_hop_keeps_the_checksum_right_until_the_last() {
    let (mut bytes, _) = packet(255, &[]);
    for left in (1..255).rev() {
        assert_eq!(PacketMut::new_checked(&mut bytes).unwrap().decrement_ttl(), Some(left));
        assert!(Packet::new_checked(&bytes).unwrap().verify_checksum(), "ttl {left}");
    }
    let before = bytes;
    assert_eq!(PacketMut::new_checked(&mut bytes).unwrap().decrement_ttl(), None);
    assert_eq!(bytes, before);
}

#[test]
fn new_addresses_keep_the_checksum_right() {
    let (mut bytes, _) = packet(9, &[]);
    let mut packet = PacketMut::new_checked(&mut bytes).unwrap();
    packet.set_source([192, 168, 255, 255]);
    packet.set_destination([0, 0, 0, 1]);
    let packet = Packet::new_checked(&bytes).unwrap();
    assert!(packet.verify_checksum());
    assert_eq!(packet.source(), Addr::v4([192, 168, 255, 255]));
    assert_eq!(packet.destination(), Addr::v4([0, 0, 0, 1]));
}

#[test]
fn options_are_listed_up_to_a_broken_one() {
    let list = |options: &[u8]| {
        let (bytes, length) = packet(9, options);
        let packet = Packet::new_checked(&bytes[..length]).unwrap();
        packet.options().map(|option| option.map(|option| option.kind)).collect::<Vec<_>>()
    };
    assert_eq!(list(&[]), vec![]);
    assert_eq!(list(&[1, 148, 4, 0, 0, 1, 0, 0]), vec![Ok(148)]);
    assert_eq!(list(&[1, 0, 148, 4]), vec![]);
    assert_eq!(list(&[148, 4, 0, 0, 7, 9, 0, 0]), vec![Ok(148), Err(Error::Length)]);
    assert_eq!(list(&[7, 1, 0, 0]), vec![Err(Error::Length)]);
    assert_eq!(list(&[1, 1, 1, 7]), vec![Err(Error::Length)]);
}

#[test]
fn a_fragment_is_told_from_a_whole_datagram() {
    for (fragment, is, offset) in
        [(0x4000, false, 0), (0x2000, true, 0), (0x0001, true, 8), (0x3fff, true, 65528), (0x8000, false, 0)]
    {
        let mut bytes = [0; HEADER];
        let repr = Repr { fragment, ..Repr::new([1; 4], [2; 4], 17, 1, 0) };
        repr.emit(&mut bytes).unwrap();
        let packet = Packet::new_checked(&bytes).unwrap();
        assert_eq!((packet.is_fragment(), packet.fragment_offset()), (is, offset), "{fragment:#x}");
    }
}

#[test]
fn contradicting_lengths_are_refused() {
    let (bytes, length) = packet(9, &[]);
    let with = |at: usize, value: u8| {
        let mut bent = bytes;
        bent[at] = value;
        Packet::new_checked(&bent[..length]).map(|packet| packet.total_len())
    };
    assert_eq!(with(0, 0x65), Err(Error::Version));
    assert_eq!(with(0, 0x44), Err(Error::Length));
    assert_eq!(with(0, 0x47), Err(Error::Length));
    assert_eq!(with(3, 19), Err(Error::Length));
    assert_eq!(with(3, 25), Err(Error::Truncated));
    assert_eq!(with(3, 21), Ok(21));
    assert_eq!(Repr::new([1; 4], [2; 4], 17, 1, 65516).emit(&mut [0; 99]), Err(Error::Length));
}
