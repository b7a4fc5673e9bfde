//! Code at one node: fetched, and served to others, within rates; and its drops.

use crate::node_bench::{Bench, LEFT, RIGHT, drops_one, header, module, native, packet, request};
use anode::code::bundle::{Bundle, Kind};
use anode::core::reason::Reason;
use anode::frame::{PeerId, PortId};
use anode::node::{Effect, Sizes};
use anode::trust::{PrincipalKey, Roles};
use anode::wire::{Addr, Digest, anep, capsule, fetch};

#[test]
fn unknown_code_is_asked_for_at_the_previous_hop_and_given_up() {
    let mut bench = Bench::new();
    bench.receive(0, &packet(&capsule::Header { bound: 40, ..header(Digest([9; 32])) }, b"x"));
    let mut requests = 0;
    while bench.drops().total() == 0 {
        for frame in bench.driver.out.frames.drain(..) {
            assert_eq!((frame.port, frame.peer), (PortId(0), PeerId(0)));
            let anep = anep::Packet::new_checked(frame.bytes()).unwrap();
            assert!(matches!(fetch::Message::parse(anep.payload()), Ok(fetch::Message::Request { missing: 1, .. })));
            requests += 1;
        }
        bench.next_timer();
    }
    assert!((2..20).contains(&requests), "{requests} requests");
    assert_eq!(bench.outcome(), drops_one(Reason::FetchTimeout));
}

#[test]
fn what_is_left_of_a_capsules_bound_pays_for_asking() {
    for (bound, most) in [(0, 0), (1, 1), (3, 3), (40, 40)] {
        let mut bench = Bench::new();
        bench.receive(0, &packet(&capsule::Header { bound, ..header(Digest([9; 32])) }, b"x"));
        let mut bytes = 0;
        while bench.drops().total() == 0 {
            bytes += bench.driver.out.frames.drain(..).map(|frame| frame.len()).sum::<usize>();
            bench.next_timer();
        }
        assert!(bytes <= most * 1452 && (bytes > 0) == (bound > 0), "{bytes} bytes of requests for {bound}");
        let reason = if bound < 40 { Reason::FetchUnpaid } else { Reason::FetchTimeout };
        assert_eq!(bench.outcome(), drops_one(reason));
    }
}

#[test]
fn code_is_not_asked_of_a_previous_node_that_is_no_neighbour() {
    for (previous, reason) in [(Addr::v4([203, 0, 113, 7]), Reason::CodeUnknown), (LEFT, Reason::FetchTimeout)] {
        let mut bench = Bench::on_link();
        let anep = packet(&capsule::Header { previous, ..header(Digest([9; 32])) }, b"x");
        bench.take(0, PeerId::NONE, &native([[10, 0, 0, 1], [10, 0, 0, 9]], &anep));
        bench.settle();
        while bench.drops().total() == 0 {
            bench.next_timer();
        }
        assert!(bench.drops().of(reason) > 0 || reason == Reason::FetchTimeout, "{:?}", bench.outcome());
        assert_eq!(bench.driver.out.frames.is_empty(), reason == Reason::CodeUnknown);
    }
}

#[test]
fn code_that_cannot_be_prepared_now_is_not_refused_later() {
    let mut bench = Bench::new();
    let code = bench.add(0, &module("", "", "i32.const 1"));
    bench.take(0, PeerId(0), &packet(&header(code), b"x"));
    let mut overloaded = 0;
    bench.settle_with(|driven, effect| match effect {
        Effect::Prepare(prepare) => {
            driven.node.unprepared(&mut driven.turn, prepare.code);
            overloaded += 1;
            None
        }
        other => Some(other),
    });
    assert_eq!((overloaded, bench.outcome()), (1, drops_one(Reason::Unprepared)));
    bench.receive(0, &packet(&header(code), b"x"));
    assert_eq!(bench.driver.out.frames.len(), 1);
}

#[test]
fn a_neighbour_that_sends_unknown_codes_makes_the_node_look_within_its_rate_only() {
    let mut bench = Bench::new();
    let sizes = Sizes::default();
    let unknown = |n: u32| packet(&header(Digest::of(&n.to_be_bytes())), b"x");
    for n in 0..5000 {
        bench.receive(0, &unknown(n));
    }
    let beyond = |bench: &Bench| bench.drops().of(Reason::LookUpRate);
    assert_eq!(
        beyond(&bench),
        5000 - sizes.codes as u64,
        "as many as the table has codes, and no more at this instant"
    );
    bench.now += 1_000_000_000;
    for n in 5000..6000 {
        bench.receive(0, &unknown(n));
    }
    assert_eq!(beyond(&bench), 5000 - sizes.codes as u64 + 1000 - sizes.look_ups_per_second, "a second later");
    // Whoever asks for what is on its way already is not charged.
    for _ in 0..10 {
        bench.receive(0, &unknown(5000 + sizes.look_ups_per_second as u32 - 1));
    }
    assert_eq!(beyond(&bench), 5000 - sizes.codes as u64 + 1000 - sizes.look_ups_per_second);
}

#[test]
fn a_request_that_gives_way_to_others_is_counted() {
    let mut bench = Bench::new();
    for n in 0..33u8 {
        bench.take(0, PeerId(0), &request(Digest([n; 32]), LEFT));
    }
    assert_eq!(bench.outcome(), drops_one(Reason::ServingFull));
}

#[test]
fn a_neighbour_that_asks_for_what_is_not_here_keeps_the_store_busy_within_its_rate_only() {
    let mut bench = Bench::new();
    let mut look_ups = 0;
    for n in 0..5000u32 {
        bench.take(0, PeerId(0), &request(Digest::of(&n.to_be_bytes()), LEFT));
        look_ups += bench.driver.out.effects.len();
        bench.settle();
    }
    let rate = Sizes::default().fetch_bytes_per_second as usize;
    assert!((100..=rate / fetch::PART).contains(&look_ups), "{look_ups} look-ups");
    assert!(bench.drops().of(Reason::FetchRate) > 3000, "{:?}", bench.outcome());
}

#[test]
fn one_neighbour_with_ten_thousand_names_has_one_rate_and_keeps_nobody_from_being_served() {
    let mut bench = Bench::on_link();
    let wanted = bench.add(0, &module("", "", "i32.const 1"));
    for n in 0..10_000u16 {
        let source = [10, 0, 1 + (n >> 8) as u8, n as u8];
        let request = request(Digest::of(&n.to_be_bytes()), Addr::v4(source));
        bench.take(0, PeerId::NONE, &native([source, [10, 0, 0, 2]], &request));
    }
    let counted = |reason| bench.drops().of(reason);
    let (look_ups, beyond, displaced) =
        (bench.driver.out.effects.len(), counted(Reason::FetchRate), counted(Reason::ServingFull));
    let rate = Sizes::default().fetch_bytes_per_second as usize;
    assert_eq!(look_ups, rate / fetch::PART, "all of its names have one rate");
    // Beside those beyond the rate there are those that gave way in the list that waits for the store.
    assert_eq!(beyond, 10_000 - look_ups as u64);
    assert!(displaced > 0 && bench.drops().total() == beyond + displaced, "{:?}", bench.outcome());
    bench.take(1, PeerId(0), &request(wanted, RIGHT));
    bench.settle();
    let served = bench.driver.out.frames.iter().filter(|frame| frame.port == PortId(1)).count();
    assert_eq!(served, 1, "the other neighbour has what it asked for");
}

#[test]
fn keys_that_cost_nothing_have_no_turns_of_their_own() {
    let mut bench = Bench::new();
    bench.supply.judge = Some(("bench".into(), Roles::default()));
    let wasm = wat::parse_str(module("", "", "i32.const 1")).unwrap();
    for number in 0..3 {
        let invented = PrincipalKey::from_seed([number; 32]);
        let bundle = Bundle::build("case", 0, &[(Kind::Wasm, wasm.clone().into())], Some(&invented)).unwrap();
        bench.supply.add(&bundle);
        bench.take(0, PeerId(0), &packet(&capsule::Header { bound: 40, ..header(bundle.name()) }, b"x"));
    }
    let (mut judged, mut prepared) = (Vec::new(), Vec::new());
    for _ in 0..1000 {
        bench.settle_with(|_, effect| {
            match &effect {
                Effect::Authorise(_, cause) => judged.push(*cause),
                Effect::Prepare(prepare) => prepared.push(prepare.cause),
                _ => {}
            }
            Some(effect)
        });
        bench.next_timer();
    }
    // Before it is judged nobody knows whose it is; and then, that nobody vouches for him.
    assert_eq!((judged.len(), prepared.len()), (3, 3));
    assert!([judged, prepared].concat().iter().all(|cause| cause.principal.is_none()));
}

#[test]
fn hot_code_waits_for_the_stores_answer_to_be_compiled_again() {
    // Nothing stays in memory, so the store is asked for what is hot.
    let mut bench = Bench::sized(Sizes { object_bytes: 0, ..Sizes::default() });
    let code = bench.add(0, &module("", "", "(loop (br 0)) (i32.const 1)"));
    let capsule = packet(&header(code), b"x");
    bench.receive(0, &capsule);
    let tier = |bench: &Bench| bench.status().codes.remove(0).tier.unwrap();
    let mut asked = Vec::new();
    for _ in 0..50 {
        (0..100).for_each(|_| bench.take(0, PeerId(0), &capsule));
        bench.settle_with(|_, effect| match effect {
            Effect::LookUp(digest, _) => {
                asked.push(digest);
                None
            }
            other => Some(other),
        });
        bench.next_timer();
    }
    assert_eq!((asked.len(), tier(&bench).as_str()), (1, "fast, being optimised"), "{asked:?}");
    // No answer but that it is not there: it is tried again, later each time.
    bench.driver.turn(bench.now, |node, turn| node.found(turn, asked[0], None));
    assert_eq!(tier(&bench), "fast");
    for _ in 0..50 {
        (0..100).for_each(|_| bench.take(0, PeerId(0), &capsule));
        bench.settle();
        bench.next_timer();
    }
    assert_eq!(tier(&bench), "optimised");
}

/// A capsule of this code for the neighbour on the right, that a stranger of the link says has come from this neighbour.
fn strange(code: Digest, previous: u8) -> Vec<u8> {
    let (from, header) = ([10, 0, 0, previous], capsule::Header { bound: 40, ..header(code) });
    native([from, [10, 0, 0, 9]], &packet(&capsule::Header { previous: Addr::v4(from), ..header }, b"x"))
}

/// The same of the neighbour on the right itself, for one on the link.
fn known(code: Digest) -> Vec<u8> {
    let destination = Addr::v4([10, 0, 0, 1]);
    packet(&capsule::Header { bound: 40, previous: RIGHT, source: RIGHT, destination, ..header(code) }, b"mine")
}

#[test]
fn whoever_is_named_as_having_a_code_another_neighbour_is_asked_at_once() {
    let mut bench = Bench::on_link();
    let code = Digest([9; 32]);
    for previous in 11..31 {
        bench.take(0, PeerId::NONE, &strange(code, previous));
    }
    bench.settle();
    bench.driver.out.frames.clear();
    let now = bench.now;
    bench.receive(1, &known(code));
    bench.driver.timer_if_due(now);
    let asked = bench.driver.out.frames.iter().filter(|frame| frame.port == PortId(1)).count();
    assert_eq!(asked, 1, "{:?}", bench.outcome());
}

#[test]
fn who_has_most_capsules_of_a_code_waiting_loses_its_own() {
    let mut bench = Bench::on_link();
    let code = bench.add(0, &module("", "", "i32.const 1"));
    // The store has not answered yet.
    bench.take(1, PeerId(0), &known(code));
    for _ in 0..100 {
        bench.take(0, PeerId::NONE, &strange(code, 11));
    }
    assert_eq!(bench.outcome(), (0, 0, vec![(Reason::FetchFull, 85)]));
    bench.settle();
    assert_eq!(bench.drops().total(), 85);
    let on = bench.driver.out.frames.iter().filter(|frame| frame.bytes().ends_with(b"x")).count();
    assert_eq!(on, 15, "the sixteenth waits for its next hop: it is the neighbour's");
}
