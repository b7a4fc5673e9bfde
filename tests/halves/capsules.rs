//! One packet, two halves: the kernel half does to a capsule what the user half does.
//!
//! A node of the user half and a kernel half are told the same: ports, addresses, neighbours, routes,
//! link addresses. The same frame goes into both; the kernel's by BPF_PROG_TEST_RUN, in a namespace of
//! its own.

mod balance;
mod budget;
mod children;
mod fair;

use crate::draft::{Draft, Form};
use crate::place::{Came, FAR, LEFT, OWN_LEFT, OWN_MACS, Place, RIGHT, frame, header, shipped, v6};
use anode::contract::passed_up;
use anode::core::reason::Reason;
use anode::sys::clock::Clock;
use anode::wire::ethernet::Mac;
use anode::wire::{Addr, anep, capsule};

/// The outcome of both halves for the same frame.
fn both(place: &mut Place, frame: &[u8]) -> (Came, Came) {
    (place.user(frame), place.kernel(frame))
}

/// What is done to a good frame, and how.
type Edit = (&'static str, fn(&mut Vec<u8>));

macro_rules! place {
    () => {
        match Place::new() {
            Some(place) => place,
            None => return,
        }
    };
}

#[test]
fn a_capsule_is_forwarded_alike() {
    let mut place = place!();
    let code = place.add_guest("forward");
    // Rules that every host has say the same whether they are asked or not.
    for (ruled, direct) in [(false, false), (false, true), (true, false), (true, true)] {
        place.rule(ruled);
        for length in [0, 1, 7, 100, 1300] {
            let (user, kernel) = both(&mut place, &frame(&header(code), &vec![7; length], direct));
            assert!(matches!(kernel, Came::Sent(..)), "{kernel:?}");
            assert_eq!(user, kernel, "{length} bytes, direct {direct}");
        }
    }
    let counts = place.usage(code);
    assert_eq!((counts.packets, counts.forwarded, counts.passed_up), (20, 20, 0));
}

#[test]
fn capsules_in_udp_are_forwarded_alike_whatever_their_sum() {
    let mut place = place!();
    let codes = ["forward", "ping", "calls"].map(|guest| place.add_guest(guest));
    for code in codes {
        for (form, source, destination, previous) in
            [(Form::V4Udp, LEFT, FAR, LEFT), (Form::V6Udp, v6(8, 1), v6(9, 1), v6(1, 1))]
        {
            let header = capsule::Header { source, destination, previous, ..header(code) };
            for length in [120, 121, 122, 123, 127, 500, 1200] {
                for sum in [None, Some(0), Some(1), Some(0xffff)] {
                    let payload: Vec<u8> = (0..length).map(|at| (at * 37) as u8).collect();
                    let mut draft = Draft::new(form, 0, header, payload);
                    draft.udp_sum = sum;
                    let kernel = place.kernel(&draft.frame());
                    let Came::Sent(sent) = &kernel else { panic!("{form:?}, {length} bytes: {kernel:?}") };
                    assert!(form == Form::V4Udp || sent[60..62] != [0, 0], "over IPv6 there is a sum");
                    if code != codes[2] {
                        assert_eq!(place.user(&draft.frame()), kernel, "{form:?}, {length} bytes, sum {sum:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn what_the_kernel_half_cannot_do_comes_up_as_it_came() {
    let mut place = place!();
    let code = place.add_guest("forward");
    let good = frame(&header(code), b"payload", false);
    let edits: &[Edit] = &[
        ("another code", |f| f[14 + 20 + 8 + anep::HEADER + capsule::CODE] ^= 1),
        ("an IP checksum that is wrong", |f| f[24] ^= 1),
        ("a fragment", |f| f[20] = 0x20),
        ("for another host", |f| f[5] ^= 1),
        ("another UDP port", |f| f[37] ^= 1),
        ("a tag", |f| (f[12], f[13]) = (0x81, 0)),
        ("another ANEP type", |f| f[14 + 28 + 3] ^= 1),
        ("an ANEP version", |f| f[14 + 28] = 2),
        ("a length that lies", |f| f[14 + 28 + 7] += 1),
        ("a previous node that is not known", |f| f[14 + 28 + 8 + capsule::PREVIOUS + 15] ^= 64),
        ("another destination in the IP header", |f| f[33] ^= 1),
        ("half of it", |f| f.truncate(70)),
        ("a byte less than it says", |f| f.truncate(f.len() - 1)),
        ("a byte more than it says", |f| f.push(0)),
    ];
    for (what, edit) in edits {
        let mut bytes = good.clone();
        edit(&mut bytes);
        assert_eq!(place.kernel(&bytes), Came::Up(bytes), "{what}");
    }
    let nowhere = capsule::Header { destination: anode::wire::Addr::v4([192, 0, 2, 1]), ..header(code) };
    let bytes = frame(&nowhere, b"payload", false);
    assert_eq!(place.kernel(&bytes), Came::Up(bytes));
}

#[test]
fn a_link_address_of_a_group_of_nobody_or_of_the_node_is_no_next_hops() {
    let mut place = place!();
    let code = place.add_guest("forward");
    let claims = [
        (Mac::BROADCAST, false),
        (Mac([1, 0, 0x5e, 0, 0, 1]), false),
        (Mac([0x33, 0x33, 0, 0, 0, 1]), false),
        (Mac([1, 0x80, 0xc2, 0, 0, 0]), false),
        (Mac([0; 6]), false),
        (OWN_MACS[1], false),
        (Mac([2, 0, 0, 0, 2, 9]), true),
    ];
    for (host, (mac, good)) in (101u8..).zip(claims) {
        for (destination, source, previous) in
            [(Addr::v4([10, 0, 2, host]), LEFT, LEFT), (v6(2, host), v6(8, 1), v6(1, 1))]
        {
            place.neighbour(destination, mac);
            let header = capsule::Header { destination, source, previous, ..header(code) };
            let form = if source.is_v4() { Form::V4Udp } else { Form::V6Udp };
            let bytes = Draft::new(form, 0, header, b"payload".to_vec()).frame();
            // The user half asks by itself who has it.
            match place.kernel(&bytes) {
                Came::Sent(sent) => assert!(good && sent[..6] == mac.0, "{mac}"),
                came => assert!(!good && matches!(came, Came::Up(_) | Came::UpRun(_)), "{mac}: {came:?}"),
            }
        }
    }
}

#[test]
fn what_is_malformed_in_ipv6_comes_up_as_it_came() {
    let mut place = place!();
    let code = place.add_guest("forward");
    let (source, destination) = (v6(8, 1), v6(9, 1));
    let header = capsule::Header { previous: v6(1, 1), source, destination, ..header(code) };
    let good = Draft::new(Form::V6Direct, 0, header, vec![1; 9]);
    let (user, kernel) = both(&mut place, &good.frame());
    assert!(matches!(kernel, Came::Sent(..)), "{kernel:?}");
    assert_eq!(user, kernel);
    let far = capsule::Header { destination: FAR, ..header };
    for (what, draft) in [
        ("another version", Draft { version: 12, ..good.clone() }),
        ("a mapped source", Draft { ip_source: Some(LEFT), ..good.clone() }),
        ("a mapped destination", Draft { header: far, ..good.clone() }),
        ("bytes behind it", Draft { trailer: 3, ..good.clone() }),
    ] {
        let bytes = draft.frame();
        assert_eq!(place.kernel(&bytes), Came::Up(bytes), "{what}");
    }
}

#[test]
fn a_forged_frame_from_the_kernel_half_is_dropped() {
    let place = place!();
    let mut bytes = frame(&header(anode::wire::Digest([1; 32])), b"", false);
    (bytes[12], bytes[13]) = (0x88, 0xb5);
    assert_eq!(place.kernel(&bytes), Came::Dropped);
    assert_eq!(place.counts().dropped_forged, 1);
}

#[test]
fn without_bound_or_with_another_verdict_the_user_half_goes_on() {
    let mut place = place!();
    let (forward, deliver) = (place.add_guest("forward"), place.add_guest("deliver"));
    for (code, bound) in [(forward, 0), (deliver, 9)] {
        let header = capsule::Header { bound, ..header(code) };
        let (user, kernel) = both(&mut place, &frame(&header, b"payload and more", false));
        assert!(matches!(kernel, Came::UpRun(_)), "{kernel:?}");
        assert_eq!(user, place.resume(&kernel), "bound {bound}");
    }
}

#[test]
fn what_is_for_this_node_runs_in_the_kernel_and_goes_on_in_the_user_half() {
    let mut place = place!();
    for user in [&mut place.alone, &mut place.above] {
        user.open(&[5]);
    }
    for guest in ["forward", "acts"] {
        let code = place.add_guest(guest);
        for (destination, verdict) in [(OWN_LEFT, 1), (anode::wire::Addr::v4([10, 0, 2, 254]), 1), (OWN_LEFT, 2)] {
            let header = capsule::Header { destination, ..header(code) };
            let payload = [&u32::to_be_bytes(verdict)[..], &[0; 120]].concat();
            let (user, kernel) = both(&mut place, &frame(&header, &payload, false));
            assert!(matches!(kernel, Came::UpRun(_)), "{kernel:?}");
            assert!(matches!(user, Came::Delivered(5, _)), "{user:?}");
            assert_eq!(user, place.resume(&kernel), "{guest}, {destination}");
        }
    }
    // A ping turns round without the user half.
    let code = place.add_guest("ping");
    let header = capsule::Header { destination: OWN_LEFT, ..header(code) };
    let (user, kernel) = both(&mut place, &frame(&header, &[0; 16], false));
    assert!(matches!(kernel, Came::Sent(_)), "{kernel:?}");
    assert_eq!(user, kernel);
}

#[test]
fn what_code_writes_into_its_context_is_neither_believed_nor_kept() {
    let mut place = place!();
    let code = place.add_guest("forge");
    for _ in 0..2 {
        let (user, kernel) = both(&mut place, &frame(&header(code), &[0; 8], false));
        let Came::UpRun(up) = &kernel else { panic!("{kernel:?}") };
        let payload = 14 + passed_up::SIZE + 28 + anep::HEADER + capsule::HEADER;
        assert_eq!(up[payload..payload + 4], [0; 4], "nothing of the packet before");
        assert_eq!(user, Came::DroppedFor(Reason::Source));
        assert_eq!(user, place.resume(&kernel));
    }
}

#[test]
fn every_call_gives_the_same() {
    let mut place = place!();
    let code = place.add_guest("calls");
    let bytes = frame(&header(code), &[0; 120], false);
    for round in 1..=3u8 {
        let (user, kernel) = both(&mut place, &bytes);
        assert_eq!(user, kernel, "round {round}");
        let Came::Sent(sent) = kernel else { panic!("{kernel:?}") };
        let payload = &sent[14 + 28 + anep::HEADER + capsule::HEADER..];
        assert_eq!(payload[..8], (3 * u64::from(round)).to_be_bytes(), "the state is kept");
        assert_eq!((payload[84], payload[85]), (1, 1), "time goes on, chance differs");
    }
}

#[test]
fn a_code_has_one_state_wherever_it_runs() {
    let mut place = place!();
    let code = place.add_guest("calls");
    let bytes = frame(&header(code), &[0; 120], false);
    let count = |came: Came| match came {
        Came::Sent(sent) => sent[14 + 28 + anep::HEADER + capsule::HEADER + 7],
        came => panic!("{came:?}"),
    };
    // What the user half has counted before it shares goes along.
    assert_eq!((count(place.user(&bytes)), count(place.user(&bytes))), (3, 6));
    place.share_state(1, code);
    assert_eq!(count(place.kernel(&bytes)), 9);
    assert_eq!(count(place.user(&bytes)), 12);
    assert_eq!(count(place.kernel(&bytes)), 15);
}

#[test]
fn shipped_capsules_do_the_same_in_both() {
    let mut place = place!();
    let mut loaded = vec![];
    for (name, code) in shipped() {
        match place.add_app(name) {
            Ok(()) => loaded.push((name, code)),
            Err(why) => println!("{name}: {why}"),
        }
    }
    let names: Vec<_> = loaded.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["ping", "multicast", "cache", "heavy"]);
    for (name, code) in loaded {
        for (source, destination) in [(LEFT, FAR), (LEFT, RIGHT)] {
            let header = capsule::Header { source, destination, ..header(code) };
            let (user, kernel) = both(&mut place, &frame(&header, &[0; 64], false));
            assert_eq!(user, place.resume(&kernel), "{name}");
        }
    }
}

#[test]
fn a_domain_over_its_packets_is_throttled() {
    let mut place = place!();
    place.limits.packets_per_second = 10;
    let code = place.add_guest("forward");
    let frame = frame(&header(code), b"payload", false);
    // `both_halves_together_admit_what_the_domain_may` says how many go on; on a machine that stands still for long it is any number.
    let mut sent = 0;
    while matches!(place.kernel(&frame), Came::Sent(_)) {
        sent += 1;
    }
    assert!(sent > 0, "something is there at once");
    let usage = place.usage(code);
    assert_eq!((usage.packets, usage.dropped_over_budget), (sent, 1));
}

#[test]
fn a_domain_over_its_time_is_throttled() {
    let mut place = place!();
    // No time at all beyond the first nanosecond: the first packet that is timed uses up all. Which one of a share that is nobody knows, so
    // each CPU that this test ran on may have had a share by then.
    place.limits.kernel_us_per_second = 0;
    let code = place.add_guest("forward");
    let frame = frame(&header(code), b"payload", false);
    let sent = (0..1000).filter(|_| matches!(place.kernel(&frame), Came::Sent(_))).count() as u64;
    let usage = place.usage(code);
    let cpus = std::thread::available_parallelism().unwrap().get() as u64;
    assert!((1..=256 * cpus).contains(&sent), "a share of each CPU at most: {sent}");
    assert_eq!((usage.packets, usage.dropped_over_budget), (sent, 1000 - sent));
    assert!(usage.time_ns > 64, "{usage:?}");
}

#[test]
fn who_is_heard_in_the_kernel_half_is_not_silent() {
    let mut place = place!();
    let code = place.add_guest("forward");
    let strange = capsule::Header { previous: v6(1, 77), ..header(code) };
    assert!(matches!(place.kernel(&frame(&strange, b"x", false)), Came::Up(_)));
    assert_eq!(place.heard(), [], "a stranger");
    for _ in 0..2 {
        assert!(matches!(place.kernel(&frame(&header(code), b"x", false)), Came::Sent(_)));
    }
    assert_eq!(place.heard(), [(0, LEFT)]);
    assert_eq!(place.heard(), [], "nothing since");
    // A flow that goes on is looked at anew after a moment, and its neighbour is heard.
    let clock = Clock::start();
    while place.heard().is_empty() {
        assert!(matches!(place.kernel(&frame(&header(code), b"x", false)), Came::Sent(_)));
        assert!(clock.now() < 60_000_000_000, "a cached flow is never heard again");
    }
    // The user half learns one and hears nothing more of it but by the kernel half.
    let learned = Addr::v4([10, 0, 1, 7]);
    let from = capsule::Header { previous: learned, ..header(code) };
    place.user(&frame(&from, b"x", false));
    let known = |place: &mut Place, now| {
        place.above.timer(now);
        place.above.knows(learned)
    };
    const MINUTE: u64 = 60_000_000_000;
    assert!(known(&mut place, MINUTE / 2));
    place.above.heard(MINUTE / 2, &[(0, learned)]);
    assert!(known(&mut place, MINUTE * 5 / 4) && !known(&mut place, MINUTE * 7 / 4));
}

#[test]
fn trusted_code_does_the_same() {
    let mut place = place!();
    place.form = anode::trust::CodeForm::Trusted;
    let (forward, deliver) = (place.add_guest("forward"), place.add_guest("deliver"));
    for (code, sent) in [(forward, true), (deliver, false)] {
        let (user, kernel) = both(&mut place, &frame(&header(code), b"payload and more", false));
        assert_eq!(matches!(kernel, Came::Sent(_)), sent, "{kernel:?}");
        assert_eq!(user, place.resume(&kernel));
        assert_eq!(place.usage(code).packets, 1);
    }
}

#[test]
fn code_that_takes_the_verifier_too_long_for_its_role_is_refused() {
    let mut place = place!();
    place.limits.verified_instructions = 10;
    let (_, refused) = place.try_guest("forward");
    assert!(refused.unwrap_err().contains("verified_instructions"));
}

#[test]
fn the_verdict_on_what_is_shipped_does_not_take_long() {
    let mut place = place!();
    // An author waits for it. Two hundred thousand take a quarter of a second.
    place.limits.verified_instructions = 100_000;
    for name in ["ping", "multicast", "cache", "heavy"] {
        place.add_app(name).unwrap();
    }
}

#[test]
fn a_bound_above_the_ceiling_of_its_port_is_cut_alike() {
    let mut place = place!();
    let code = place.add_guest("forward");
    // The user half fetches and compiles it for the first.
    both(&mut place, &frame(&header(code), b"payload", false));
    let most = anode::topology::Ceiling::default().unsigned;
    for (bound, direct) in [(most, false), (most, true), (most + 1, false), (4096, true), (u32::MAX, false)] {
        let bytes = frame(&capsule::Header { bound, ..header(code) }, b"payload", direct);
        let (user, kernel) = both(&mut place, &bytes);
        // The kernel half leaves it to the user half, where there is one place to cut and count.
        let sent = if bound > most {
            assert_eq!(kernel, Came::Up(bytes.clone()), "bound {bound}");
            place.user(&bytes)
        } else {
            kernel
        };
        assert_eq!(user, sent, "bound {bound}");
        let Came::Sent(sent) = sent else { panic!("bound {bound}: {sent:?}") };
        let at = 34 + if direct { 0 } else { 8 } + anep::HEADER + capsule::BOUND;
        assert_eq!(sent[at..at + 4], (most - 1).to_be_bytes(), "bound {bound}");
    }
}
