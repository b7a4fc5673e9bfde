//! The rows of the entrance, their levels, and that levels are max-min shares: with given times and costs.

use super::*;
use crate::frame::Link;
use crate::wire::Addr;

const MS: u64 = 1_000_000;

fn port(bits_per_second: u64) -> Port {
    Port {
        name: "p".into(),
        link: Link::Overlay,
        addresses: Vec::new(),
        mtu: 1500,
        bits_per_second,
        ceiling: crate::topology::Ceiling::default(),
    }
}

fn neighbour(port: u16, peer: u16) -> Neighbour {
    Neighbour { addr: Addr::v4([10, 0, port as u8, peer as u8]), port: PortId(port), peer: PeerId(peer) }
}

fn frame(port: u16, peer: PeerId) -> Frame {
    let mut frame = Frame::from_bytes(&[0; 100]);
    (frame.port, frame.peer) = (PortId(port), peer);
    frame
}

/// Work is what is not rest, nor lost: all that was worked once more, if others have half of the CPU.
#[derive(Default)]
struct Given {
    now: u64,
    rested: u64,
    is_halved: bool,
}

impl WorkClock for Given {
    fn read(&mut self) -> u64 {
        0
    }

    fn at(&mut self, now: u64) -> u64 {
        self.now = now;
        now.saturating_sub(self.rested) - self.lost()
    }

    fn rested(&mut self, nanoseconds: u64) {
        self.rested += nanoseconds;
    }

    fn lost(&self) -> u64 {
        if self.is_halved { self.now.saturating_sub(self.rested) / 2 } else { 0 }
    }
}

/// Two ports, two peers behind the first.
fn entry() -> Entry {
    Entry::new(&[port(0), port(0)], &[neighbour(0, 0), neighbour(0, 1)])
}

#[test]
fn peers_have_rows_of_their_own_and_no_name_makes_another() {
    let mut entry = entry();
    assert_eq!(entry.owners.len(), 4);
    let mut payer = |port, peer| {
        let mut frame = frame(port, peer);
        entry.admit(&mut frame, 0, 0);
        frame.payer
    };
    let rows = [payer(0, PeerId::NONE), payer(0, PeerId(0)), payer(0, PeerId(1)), payer(1, PeerId::NONE)];
    assert_eq!(rows, [0, 2, 3, 1].map(Payer));
    for name in 2..2000 {
        assert_eq!((payer(0, PeerId(name)), payer(1, PeerId(name))), (Payer(0), Payer(1)));
    }
    assert_eq!(payer(9, PeerId(0)).0 as usize, usize::from(u16::MAX), "no such port");
    assert_eq!((entry.owners.len(), entry.came.len()), (4, 4));
    let ways = [0, 1, 2, 3, 4].map(|row| entry.ingress(Payer(row)));
    let of = |port, row| Ingress::Port(PortId(port), Payer(row));
    let expected = [of(0, 0), of(1, 1), of(0, 2), of(0, 3), Ingress::Node];
    assert_eq!(ways, expected);
}

#[test]
fn who_has_a_key_has_a_row_for_what_it_proves_and_for_nothing_else() {
    let mut entry = entry();
    let addr = Addr::v4([10, 0, 1, 7]);
    let on_link = entry.know(PortId(1), PeerId::NONE, addr, 0);
    assert_eq!((on_link, entry.know(PortId(1), PeerId::NONE, addr, 0)), (Payer(4), Payer(4)), "two keys, one row");
    assert_eq!(entry.know(PortId(0), PeerId(1), addr, 0), Payer(3), "the row that its peer has");
    assert_eq!(entry.ingress(on_link), Ingress::Port(PortId(1), Payer(4)));
    let mut proved = frame(1, PeerId::NONE);
    (proved.authenticated, proved.payer) = (true, on_link);
    let mut claimed = [frame(1, PeerId::NONE), frame(0, PeerId(1)), frame(0, PeerId(0))];
    assert!(entry.admit(&mut proved, 0, 0) && claimed.iter_mut().all(|frame| entry.admit(frame, 0, 0)));
    assert_eq!((proved.payer, Ingress::of(&proved)), (Payer(4), Ingress::Port(PortId(1), Payer(4))));
    let forged = [&claimed[0], &claimed[1]].map(Ingress::of);
    assert_eq!(
        forged,
        [Ingress::Port(PortId(1), Payer(1)), Ingress::Port(PortId(0), Payer(0))],
        "whoever they say to be"
    );
    assert_eq!(claimed.map(|frame| frame.payer), [1, 0, 2].map(Payer), "strangers, strangers, a peer without a key");
}

#[test]
fn who_is_alone_is_refused_nothing_and_who_is_not_has_half() {
    let mut entry = entry();
    entry.clock = Some(Box::new(Given::default()));
    let hog = &mut frame(0, PeerId(0));
    for at in 0..1000 {
        assert!(entry.admit(hog, at * MS, 0));
        entry.settle(hog.payer, at * MS, 0, MS);
    }
    entry.roll(1000 * MS);
    entry.admit(&mut frame(0, PeerId(1)), 1000 * MS, 0);
    let mut ran = 0;
    for at in 1000..2000u64 {
        if at % 100 == 0 {
            entry.clock.as_mut().unwrap().rested(45 * MS);
            entry.roll(at * MS);
            assert!(entry.admit(&mut frame(0, PeerId(1)), at * MS, 0));
        }
        if entry.admit(hog, at * MS, 0) {
            let reserved = entry.reserve(hog.payer, at * MS);
            entry.settle(hog.payer, at * MS, reserved, MS);
            ran += 1;
        }
    }
    assert!((425..=505).contains(&ran), "half of a second less some slack, and a burst of 5 ms: {ran}");
}

#[test]
fn what_others_have_of_the_cpu_is_not_shared_out() {
    let mut entry = entry();
    entry.clock = Some(Box::new(Given { is_halved: true, ..Given::default() }));
    let hog = &mut frame(0, PeerId(0));
    let (mut ran, mut in_window) = (0, 0);
    for at in 0..4000u64 {
        if at % 100 == 0 {
            // Of the rest of the window others had as much as the worker.
            entry.clock.as_mut().unwrap().rested((100 - 2 * core::mem::take(&mut in_window)) * MS);
            entry.roll(at * MS);
            assert!(entry.admit(&mut frame(0, PeerId(1)), at * MS, 0));
        }
        if in_window < 50 && entry.admit(hog, at * MS, 0) {
            entry.settle(hog.payer, at * MS, 0, MS);
            in_window += 1;
            ran += u64::from(at >= 3000);
        }
    }
    assert!((290..=335).contains(&ran), "a third, of which others lose as much, less some slack: {ran}");
}

#[test]
fn what_nobody_pays_for_comes_off_all_levels() {
    let mut entry = entry();
    entry.clock = Some(Box::new(Given::default()));
    let hog = &mut frame(0, PeerId(0));
    for window in 1..=20u64 {
        let now = window * 100 * MS;
        entry.admit(&mut frame(0, PeerId(1)), now, 0);
        entry.admit(hog, now, 0);
        // Ninety of a hundred milliseconds it works, and for sixty somebody pays.
        entry.settle(hog.payer, now, 0, 60 * MS);
        entry.clock.as_mut().unwrap().rested(10 * MS);
        entry.roll(now);
    }
    assert!((600..=640).contains(&entry.paid), "two thirds, less slack: {}", entry.paid);
}

#[test]
fn questions_for_addresses_make_nobody_active() {
    let mut entry = entry();
    entry.admit(&mut frame(0, PeerId(0)), 0, 0);
    for _ in 0..1000 {
        entry.note(&mut frame(1, PeerId::NONE));
    }
    assert!(entry.alone);
    entry.admit(&mut frame(1, PeerId::NONE), 0, 0);
    assert!(!entry.alone);
}

#[test]
fn a_queue_holds_no_more_of_a_neighbours_than_a_burst() {
    let mut entry = entry();
    entry.clock = Some(Box::new(Given::default()));
    entry.admit(&mut frame(1, PeerId::NONE), 0, 0);
    let hog = &mut frame(0, PeerId(0));
    entry.admit(hog, 0, 0);
    for _ in 0..100 {
        entry.settle(hog.payer, 0, 0, MS / 10);
    }
    entry.set_limits(EntryLimits::default());
    // Nothing of it has run yet: it is known what it will cost.
    let queued = (0..10_000).take_while(|_| entry.admit(hog, 0, 0) && entry.reserve(hog.payer, 0) > 0).count();
    assert!((50..=55).contains(&queued), "{queued}");
}

#[test]
fn levels_are_max_min_shares_and_half_at_most() {
    let of = |list: &[(u64, bool)]| level(list.iter().copied(), 100 * MS, 500);
    let half = SECOND / 2;
    assert_eq!(of(&[]), half);
    assert_eq!(of(&[(80 * MS, false), (MS, false)]), half, "nobody wants more");
    assert_eq!(of(&[(50 * MS, true), (MS, false)]), half);
    assert_eq!(of(&[(50 * MS, true), (50 * MS, true)]), half, "nobody else is there");
    assert_eq!(of(&[(50 * MS, true), (50 * MS, true), (0, false)]), (SECOND - SECOND / 16) / 2, "room to begin");
    assert_eq!(of(&[(30 * MS, true), (30 * MS, true), (20 * MS, false)]), SECOND / 3, "an equal part at least");
    assert_eq!(of(&[(9 * MS, true); 10]), SECOND / 10);
}

#[test]
fn bytes_are_half_of_what_a_port_carries_unless_the_operator_says() {
    let mut entry = Entry::new(&[port(16_000_000)], &[neighbour(0, 0)]);
    entry.clock = Some(Box::new(Given::default()));
    entry.admit(&mut frame(0, PeerId::NONE), 0, 0);
    let sent =
        |entry: &mut Entry, now| (0..100_000).take_while(|_| entry.admit(&mut frame(0, PeerId(0)), now, 0)).count();
    assert_eq!(sent(&mut entry, 0), 1000, "the burst is a tenth of a second's: 100,000 bytes");
    assert_eq!(sent(&mut entry, 50 * MS), 500);
    entry.set_limits(EntryLimits { bytes_per_second: 100_000, ..EntryLimits::default() });
    assert_eq!(sent(&mut entry, 50 * MS), 656, "a burst is 65,536 bytes at least");
}

#[test]
fn while_much_waits_who_wants_more_than_its_share_comes_after_those_who_do_not() {
    let mut entry = entry();
    entry.clock = Some(Box::new(Given::default()));
    let (hog, other) = (&mut frame(0, PeerId(0)), &mut frame(0, PeerId(1)));
    let now = MS;
    entry.admit(other, now, 0);
    // More than a burst at once: the hog is refused, and in the next window known for it.
    while entry.admit(hog, now, 0) {
        entry.settle(hog.payer, now, 0, MS);
    }
    entry.settle(other.payer, now, 0, MS);
    entry.roll(100 * MS);
    assert!(entry.admit(hog, 200 * MS, CROWDED - 1), "little waits");
    let refused = entry.owners[usize::from(hog.payer.0)].counts.refused;
    assert!(!entry.admit(hog, 200 * MS, CROWDED) && entry.admit(other, 200 * MS, CROWDED));
    assert_eq!(entry.owners[usize::from(hog.payer.0)].counts.refused, refused + 1, "and it is counted");
    // Where all want more, nobody comes after others.
    entry.owners[usize::from(other.payer.0)].hungry = true;
    entry.roll(300 * MS);
    assert!(entry.admit(hog, 400 * MS, CROWDED) && entry.admit(other, 400 * MS, CROWDED));
}
