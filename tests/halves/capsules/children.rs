//! Code that sends children and writes into the log: both halves send the same packets.

use crate::draft::{Draft, Form};
use crate::place::user::Went;
use crate::place::wires::Left;
use crate::place::{FAR, LEFT, MACS, OWN_LEFT, OWN_MACS, Place, RIGHT, frame, header, v6};
use anode::core::reason::Reason;
use anode::kernel::watch::KernelWatch;
use anode::kernel::{KernelHalf, KernelUsage};
use anode::seen::record::kernel::{COPIED, COPY, RAISED};
use anode::trust::CodeForm as Rights;
use anode::trust::limits::Limits;
use anode::wire::{Addr, Digest, capsule};

/// What tests/guests/sends.c is to do.
#[derive(Clone)]
struct Orders {
    verdict: u32,
    count: u8,
    lines: u8,
    from_here: bool,
    bounds: [u32; 4],
    to: [Addr; 4],
    source: Addr,
    destination: Addr,
}

const PEER: Addr = Addr::v4([10, 0, 8, 3]);

impl Orders {
    /// So many children, two to each side, and the packet itself goes on.
    fn new(count: u8) -> Orders {
        let to = [FAR, PEER, RIGHT, Addr::v4([10, 0, 9, 77])];
        let (source, destination) = (LEFT, FAR);
        Orders { verdict: 1, count, lines: 0, from_here: false, bounds: [1, 2, 1, 3], to, source, destination }
    }

    fn payload(&self) -> Vec<u8> {
        let mut bytes = self.verdict.to_be_bytes().to_vec();
        bytes.extend([self.count, self.lines, 0, self.from_here.into()]);
        bytes.resize(32, 0);
        self.bounds.iter().for_each(|bound| bytes.extend(bound.to_be_bytes()));
        self.to.iter().chain([&self.source, &self.destination]).for_each(|addr| bytes.extend(addr.0));
        // Behind the window.
        bytes.extend(b"and more of it");
        bytes
    }
}

/// The place, and the code, which the user halves have fetched.
fn place() -> Option<(Place, Digest)> {
    with(Place::new()?)
}

fn with(mut place: Place) -> Option<(Place, Digest)> {
    let code = place.add_guest("sends");
    let bytes = frame(&header(code), &Orders::new(0).payload(), false);
    for user in [&mut place.alone, &mut place.above] {
        user.open(&[5]);
        user.put(1, 0, &bytes);
        user.take();
    }
    place.share_state(1, code);
    Some((place, code))
}

/// What came of a frame in a user half alone, and by a kernel half, with the user half above it if it went up; and what left
/// the kernel half by itself.
fn both(place: &mut Place, port: u16, bytes: &[u8]) -> (Went, Went, Left) {
    place.alone.put(1, port, bytes);
    let alone = place.alone.take();
    let before = place.drops();
    let left = place.live(port, bytes);
    let dropped = [0, 1].map(|at| place.drops()[at] - before[at]);
    for up in &left.up {
        place.above.put(1, port, up);
    }
    let mut above = place.above.take();
    above.frames.extend(left.sent.iter().cloned());
    let here = [Reason::Code, Reason::Verdict].into_iter().zip(dropped);
    above.drops.extend(here.filter(|(_, count)| *count > 0));
    (sorted(alone), sorted(above), left)
}

fn sorted(mut went: Went) -> Went {
    went.frames.sort();
    went
}

/// Runs a frame until the kernel half has the links that it wants: the first goes up.
fn settled(place: &mut Place, port: u16, bytes: &[u8]) -> (Went, Went, Left) {
    let (alone, above, left) = both(place, port, bytes);
    assert_eq!(alone, above, "the first");
    if place.pass_links_on() == 0 {
        return (alone, above, left);
    }
    both(place, port, bytes)
}

/// How many children, packets passed up and packets by code the kernel half has counted since `before`.
fn moved(place: &Place, code: Digest, before: KernelUsage) -> [u64; 4] {
    let now = place.usage(code);
    [
        now.packets - before.packets,
        now.children - before.children,
        now.passed_up - before.passed_up,
        now.dropped_by_code - before.dropped_by_code,
    ]
}

#[test]
fn children_leave_the_kernel_half_as_they_leave_the_user_half() {
    let Some((mut place, code)) = place() else { return };
    for count in [1, 2, 3, 4, 7, 16] {
        for direct in [false, true] {
            for verdict in [0, 1] {
                let orders = Orders { verdict, ..Orders::new(count) };
                let header = capsule::Header { bound: 60, ..header(code) };
                let bytes = frame(&header, &orders.payload(), direct);
                let (alone, above, left) = settled(&mut place, 0, &bytes);
                assert_eq!(alone, above, "{count} children, verdict {verdict}, direct {direct}");
                assert_eq!(left.sent.len(), usize::from(count) + verdict as usize, "{left:?}");
                assert!(left.up.is_empty(), "nothing goes up");
                for (port, bytes) in &left.sent {
                    let port = usize::from(*port);
                    assert_eq!(bytes[..12], [MACS[port].0, OWN_MACS[port].0].concat());
                }
            }
        }
    }
}

#[test]
fn children_over_ipv6_have_a_sum() {
    let Some((mut place, code)) = place() else { return };
    let (source, destination) = (v6(8, 1), v6(9, 1));
    let to = [v6(9, 2), v6(8, 7), v6(2, 1), v6(9, 1)];
    let orders = Orders { to, source, destination, ..Orders::new(4) };
    let header = capsule::Header { previous: v6(1, 1), source, destination, bound: 40, ..header(code) };
    for form in [Form::V6Udp, Form::V6Direct] {
        let bytes = Draft::new(form, 0, header, orders.payload()).frame();
        let (alone, above, left) = settled(&mut place, 0, &bytes);
        assert_eq!(alone, above, "{form:?}");
        assert_eq!((left.sent.len(), left.up.len()), (5, 0));
    }
}

#[test]
fn what_is_sent_and_what_is_counted_agree() {
    let Some((mut place, code)) = place() else { return };
    let header = capsule::Header { bound: 60, ..header(code) };
    let bytes = frame(&header, &Orders { verdict: 0, ..Orders::new(3) }.payload(), false);
    settled(&mut place, 0, &bytes);
    let (before, above) = (place.usage(code), place.above.usage(code).unwrap());
    let (alone, ..) = both(&mut place, 0, &bytes);
    assert_eq!(moved(&place, code, before), [1, 3, 0, 1]);
    assert_eq!(alone.drops.len(), 1, "the packet itself");
    // What goes up is counted there: the children have no route, and are not forwarded.
    let nowhere = Orders { to: [Addr::v4([192, 0, 2, 1]); 4], ..Orders::new(2) };
    let before = place.usage(code);
    let (alone, up, left) = both(&mut place, 0, &frame(&header, &nowhere.payload(), false));
    assert_eq!((&alone, left.sent.len(), left.up.len()), (&up, 0, 1));
    assert_eq!(moved(&place, code, before), [1, 0, 1, 0]);
    let now = place.above.usage(code).unwrap();
    assert_eq!((now.children - above.children, now.forwarded - above.forwarded), (2, 1));
}

#[test]
fn what_cannot_leave_from_here_goes_up_once_and_with_all_that_was_sent() {
    let Some((mut place, code)) = place() else { return };
    let own = Orders { to: [OWN_LEFT; 4], ..Orders::new(2) };
    let cases: &[(&str, Orders)] = &[
        ("nowhere", Orders { to: [FAR, Addr::v4([192, 0, 2, 1]), FAR, FAR], ..Orders::new(4) }),
        ("this node", own.clone()),
        ("another family", Orders { to: [FAR, v6(9, 1), FAR, FAR], ..Orders::new(3) }),
        ("delivered", Orders { verdict: 2, ..Orders::new(2) }),
        ("delivered elsewhere", Orders { verdict: 2 | 6 << 16, ..Orders::new(2) }),
        ("a foreign source", Orders { source: Addr::v4([10, 0, 9, 200]), ..Orders::new(2) }),
        ("the bound used up", Orders { bounds: [20, 20, 19, 1], ..Orders::new(4) }),
        ("the bound not there", Orders { bounds: [61, 0, u32::MAX, 1], ..Orders::new(5) }),
        ("no such verdict", Orders { verdict: 7, ..Orders::new(3) }),
        ("too many children", Orders::new(18)),
        ("from here", Orders { from_here: true, source: OWN_LEFT, ..Orders::new(3) }),
        ("lines", Orders { lines: 3, ..Orders::new(0) }),
        ("lines and children", Orders { lines: 4, ..Orders::new(3) }),
        ("lines and no such verdict", Orders { lines: 1, verdict: 9, ..Orders::new(3) }),
    ];
    let header = capsule::Header { bound: 60, ..header(code) };
    for (what, orders) in cases {
        let bytes = frame(&header, &orders.payload(), false);
        for round in 0..2 {
            let (alone, above, _) = both(&mut place, 0, &bytes);
            assert_eq!(alone, above, "{what}, round {round}");
            place.pass_links_on();
        }
    }
    assert_eq!(place.alone.log(), place.above.log());
    assert!(!place.above.log().is_empty());
}

#[test]
fn a_packet_about_as_large_as_the_link_carries_and_its_children() {
    let Some((mut place, code)) = place() else { return };
    let header = capsule::Header { bound: 60, ..header(code) };
    for more in 0..4 {
        let mut payload = Orders::new(2).payload();
        payload.resize(1500 - 20 - 8 - 8 - 88 - 2 + more, 7);
        let (alone, above, _) = settled(&mut place, 0, &frame(&header, &payload, false));
        assert_eq!(alone, above, "{more}");
    }
}

#[test]
fn the_role_says_how_many_children() {
    let limits = Limits { children_per_packet: 2, ..Limits::default() };
    let Some((mut place, code)) = Place::within(limits).and_then(with) else { return };
    let header = capsule::Header { bound: 60, ..header(code) };
    let (alone, above, left) = settled(&mut place, 0, &frame(&header, &Orders::new(5).payload(), false));
    assert_eq!((&alone, left.sent.len()), (&above, 3));
    place.remove(&code);
    place.limits.children_per_packet = 17;
    let (_, refused) = place.try_guest("sends");
    assert!(refused.unwrap_err().contains("children_per_packet"));
}

#[test]
fn trusted_code_sends_too() {
    let Some(mut place) = Place::new() else { return };
    place.form = Rights::Trusted;
    let Some((mut place, code)) = with(place) else { return };
    let header = capsule::Header { bound: 60, ..header(code) };
    let (alone, above, left) = settled(&mut place, 0, &frame(&header, &Orders::new(5).payload(), false));
    assert_eq!((&alone, left.sent.len()), (&above, 6));
}

#[test]
fn others_leave_as_before_while_there_is_code_that_sends_and_when_it_has_gone() {
    let Some((mut place, code)) = place() else { return };
    let plain = place.add_guest("forward");
    let bytes = frame(&header(plain), b"payload", false);
    place.user(&bytes);
    let (alone, ..) = both(&mut place, 0, &bytes);
    let (_, above, left) = both(&mut place, 0, &bytes);
    assert_eq!((&alone, left.sent.len()), (&above, 1));
    place.remove(&code);
    let (_, above, left) = both(&mut place, 0, &bytes);
    assert_eq!((&alone, left.sent.len()), (&above, 1));
}

/// Frames with their ports.
type Frames = Vec<(u16, Vec<u8>)>;

/// Frames that were copied since the last call, and the copies, in order.
fn told(watch: &mut KernelWatch) -> (Vec<Vec<u8>>, Frames) {
    let (mut copied, mut copies, mut marks) = (vec![], vec![], vec![]);
    watch.read(|had| match had.done {
        COPIED => {
            copied.push(had.before.to_vec());
            marks.push(had.after[..12].to_vec());
        }
        COPY => {
            assert_eq!(marks.last().unwrap(), &had.before[..12], "of what was told of last");
            copies.push((had.port.unwrap(), had.after.to_vec()));
        }
        // Its links were not known yet, or its code had not come.
        RAISED => {}
        done => panic!("{done}: {:?} {:?}", had.before, had.after),
    });
    copies.sort();
    (copied, copies)
}

#[test]
fn whoever_captures_is_told_of_each_copy_as_it_leaves_and_of_none_afterwards() {
    let Some((mut place, code)) = place() else { return };
    let header = capsule::Header { bound: 60, ..header(code) };
    let bytes = |count| frame(&header, &Orders::new(count).payload(), false);
    settled(&mut place, 0, &bytes(3));
    let (half, empty) = (place.half(), (vec![], vec![]));
    let mut watch = place.enter(|| KernelHalf::watch(&half)).unwrap();
    // By links that were there, then by links that are made meanwhile.
    for count in [3, 5] {
        settled(&mut place, 0, &bytes(count));
        told(&mut watch);
        let (alone, above, left) = both(&mut place, 0, &bytes(count));
        assert_eq!((&alone, left.sent.len(), left.up.len()), (&above, usize::from(count) + 1, 0));
        let mut sent = left.sent;
        sent.sort();
        assert_eq!(told(&mut watch), (vec![bytes(count)], sent), "{count} children");
    }
    assert_eq!(watch.missed(), 0);
    // Code that sends goes and comes meanwhile: the way out is turned as before.
    place.remove(&code);
    assert_eq!(place.add_guest("sends"), code);
    place.share_state(1, code);
    settled(&mut place, 0, &bytes(3));
    assert_eq!(told(&mut watch).1.len(), 4);
    place.enter(|| half.unwatch());
    for count in [3, 5] {
        let (alone, above, _) = settled(&mut place, 0, &bytes(count));
        assert_eq!((alone, told(&mut watch)), (above, empty.clone()), "the programs of before stand there");
    }
}

/// A capsule of apps/multicast.c from a neighbour to this node, the root of the group.
fn of_group(kind: u8, from: Addr, sequence: u32) -> Vec<u8> {
    let mut bytes = vec![kind, 0, 0, 0];
    bytes.extend(60_000u32.to_be_bytes());
    bytes.extend(7u64.to_be_bytes());
    bytes.extend(OWN_LEFT.0);
    bytes.extend(from.0);
    bytes.extend(5u32.to_be_bytes());
    bytes.extend(sequence.to_be_bytes());
    bytes.extend([0; 8]);
    bytes.extend(b"what is sent to all");
    bytes
}

#[test]
fn a_tree_branches_in_the_kernel() {
    const JOIN: u8 = 1;
    const DATA: u8 = 2;
    let Some(mut place) = Place::new() else { return };
    place.add_app("multicast").unwrap();
    let code = super::shipped().into_iter().find(|(name, _)| *name == "multicast").unwrap().1;
    let from = |source| capsule::Header { source, destination: OWN_LEFT, bound: 20, ..header(code) };
    let join = |port: u16, near: Addr| {
        let header = capsule::Header { previous: near, ..from(near) };
        Draft::new(Form::V4Udp, port, header, of_group(JOIN, near, 0)).frame()
    };
    // The first makes both user halves fetch the code.
    for user in [&mut place.alone, &mut place.above] {
        user.put(1, 0, &join(0, LEFT));
        user.take();
    }
    place.share_state(1, code);
    for (port, near) in [(0, LEFT), (1, RIGHT)] {
        let (alone, above, left) = both(&mut place, port, &join(port, near));
        assert_eq!((alone, left.up.len()), (above, 0), "the join ends here");
    }
    let data = |sequence| frame(&from(LEFT), &of_group(DATA, LEFT, sequence), false);
    let (alone, above, _) = settled(&mut place, 0, &data(1));
    assert_eq!(alone, above);
    let before = place.usage(code);
    for sequence in 2..6 {
        let (alone, above, left) = both(&mut place, 0, &data(sequence));
        assert_eq!((&alone, left.sent.len(), left.up.len()), (&above, 2, 0), "to both branches");
        let ports: Vec<u16> = left.sent.iter().map(|(port, _)| *port).collect();
        assert_eq!(ports, [0, 1]);
    }
    assert_eq!(moved(&place, code, before), [4, 4, 0, 0]);
}
