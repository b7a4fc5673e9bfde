//! Hellos at one node: what is believed, what is dropped under which reason, and that nothing answers.

use crate::node_bench::{Bench, HERE, LEFT, MAC, native};
use anode::core::reason::Reason;
use anode::frame::{Link, PeerId, PortId};
use anode::node::Sizes;
use anode::topology::neighbours::NEIGHBOURS_MAX;
use anode::topology::{Ceiling, Port, Routes};
use anode::wire::hello::{Hello, LENGTH};
use anode::wire::{Addr, Prefix, anep};

const SECOND: u64 = 1_000_000_000;

/// The ANEP packet of a hello.
fn hello(address: Addr, interval: u16) -> Vec<u8> {
    let mut bytes = vec![0; anep::HEADER + LENGTH];
    anep::emit_basic(&mut bytes, anep::type_id::HELLO, LENGTH).unwrap();
    Hello { interval, age: 7, address }.emit(&mut bytes[anep::HEADER..]).unwrap();
    bytes
}

/// The same on a link, to an IP destination.
fn on_link(name: [u8; 4], claims: [u8; 4], to: [u8; 4], interval: u16) -> Vec<u8> {
    native([name, to], &hello(Addr::v4(claims), interval))
}

const EVERYBODY: [u8; 4] = [255; 4];

/// A node at a link that says hello there, once in an hour so that it does not while a test looks.
fn listening(mut bench: Bench) -> Bench {
    bench.driver.node.say_hello(0, PortId(0), 600);
    bench
}

fn names(bench: &Bench) -> Vec<Addr> {
    bench.status().neighbours.iter().filter(|known| known.hello.is_some()).map(|known| known.addr).collect()
}

#[test]
fn only_who_is_there_is_believed_and_every_other_hello_moves_one_counter() {
    let here = [10, 0, 0, 2];
    for (what, frame, reason) in [
        ("to everybody", on_link([10, 0, 0, 7], [10, 0, 0, 7], EVERYBODY, 10), None),
        ("to this node", on_link([10, 0, 0, 7], [10, 0, 0, 7], here, 10), None),
        ("in another's name", on_link([10, 0, 0, 7], [10, 0, 0, 8], EVERYBODY, 10), Some(Reason::HelloForeign)),
        ("from elsewhere", on_link([192, 0, 2, 7], [192, 0, 2, 7], EVERYBODY, 10), Some(Reason::HelloForeign)),
        ("from elsewhere to this node", on_link([192, 0, 2, 7], [192, 0, 2, 7], here, 10), Some(Reason::HelloForeign)),
        (
            "without an end",
            native([[10, 0, 0, 7], here], &hello(LEFT, 10)[..anep::HEADER + 3]),
            Some(Reason::MalformedAnep),
        ),
    ] {
        let mut bench = listening(Bench::on_link());
        bench.receive(0, &frame);
        let (frames, deliveries, drops) = bench.outcome();
        assert_eq!((frames, deliveries), (0, 0), "{what}: nothing answers a hello");
        assert_eq!(drops, reason.map(|reason| (reason, 1)).into_iter().collect::<Vec<_>>(), "{what}");
        let known = if reason.is_none() { vec![Addr::v4([10, 0, 0, 7])] } else { vec![] };
        assert_eq!(names(&bench), known, "{what}");
    }
}

#[test]
fn a_port_that_says_no_hello_hears_none_and_bent_ones_are_told_apart() {
    let mut bench = Bench::new();
    bench.receive(0, &hello(LEFT, 10));
    assert_eq!(bench.outcome(), (0, 0, vec![(Reason::UnknownType, 1)]));
    let mut bench = listening(Bench::new());
    bench.receive(0, &hello(LEFT, 10));
    assert_eq!((bench.outcome().2, names(&bench)), (vec![], vec![LEFT]));
    let mut bent = hello(LEFT, 10);
    bent[anep::HEADER + 1] = 1;
    bench.receive(0, &bent);
    bench.receive(0, &hello(HERE, 10));
    assert_eq!(bench.outcome(), (0, 0, vec![(Reason::MalformedHello, 1), (Reason::HelloForeign, 1)]));
}

#[test]
fn who_says_more_than_its_share_is_not_heard_and_displaces_nobody_who_is_established() {
    let mut bench = listening(Bench::on_link());
    let honest = [10, 0, 0, 7];
    for second in 0..12 {
        bench.now = second * SECOND;
        bench.receive(0, &on_link(honest, honest, EVERYBODY, 10));
    }
    for number in 0..5000u16 {
        let [high, low] = number.to_be_bytes();
        let name = [10, 0, 1 + high, low];
        bench.receive(0, &on_link(name, name, EVERYBODY, 600));
    }
    let status = bench.status();
    assert!(status.neighbours.len() <= NEIGHBOURS_MAX && names(&bench).contains(&Addr::v4(honest)));
    assert!(bench.driver.out.frames.is_empty());
    assert!(status.drops.of(Reason::HelloRate) + status.drops.of(Reason::EntryShare) > 1000, "{:?}", status.drops);
}

/// From elsewhere, in new names of the link, and in one that is known: a flood each second, and behind it the neighbour.
#[test]
fn a_flood_of_hellos_keeps_no_neighbour_from_being_heard_again() {
    let honest = [10, 0, 0, 7];
    let hear = |bench: &mut Bench, name: [u8; 4], interval: u16| {
        // Natively nobody is the peer of a port.
        bench.take(0, PeerId::NONE, &on_link(name, name, EVERYBODY, interval));
        bench.settle();
    };
    let said = |bench: &Bench| {
        let status = bench.status();
        let known = status.neighbours.iter().find(|known| known.addr == Addr::v4(honest));
        known.and_then(|known| known.hello).map(|hello| hello.heard_ns)
    };
    let floods: [fn([u8; 2]) -> [u8; 4]; 3] =
        [|[high, low]| [192, 0, high, low], |[high, low]| [10, 0, 16 + high, low], |_| [10, 0, 0, 8]];
    for (number, name) in floods.into_iter().enumerate() {
        let mut bench = listening(Bench::on_link());
        for second in 0..24 {
            bench.now = second * SECOND;
            // It is established by then.
            for at in (0..3000u16).filter(|_| second > 11) {
                hear(&mut bench, name(at.to_be_bytes()), 600);
            }
            hear(&mut bench, honest, 10);
            assert_eq!(said(&bench), Some(bench.now), "flood {number}, second {second}");
        }
    }
}

#[test]
fn a_neighbour_is_forgotten_after_three_intervals_and_nobody_makes_that_sooner() {
    let mut bench = listening(Bench::on_link());
    let name = [10, 0, 0, 7];
    bench.receive(0, &on_link(name, name, EVERYBODY, 10));
    // A forger's shorter interval changes nothing.
    bench.receive(0, &on_link(name, name, EVERYBODY, 1));
    let knows = |bench: &Bench| bench.status().neighbours.iter().any(|known| known.addr == Addr::v4(name));
    while bench.now < 29 * SECOND / 10 {
        bench.next_timer();
        assert!(knows(&bench) || bench.now >= 3 * SECOND, "at {}", bench.now);
    }
    while bench.now < 4 * SECOND {
        bench.next_timer();
    }
    assert!(!knows(&bench));
}

/// Where the node is a host too, with addresses of its loopback interface or of tunnels: they are none of a link's.
#[test]
fn nobody_on_a_link_is_told_an_address_that_is_not_on_it() {
    let said = |addresses: &[&str]| -> Vec<String> {
        let read =
            |text: &&str| (text.split('/').next().unwrap().parse::<Addr>().unwrap(), text.parse::<Prefix>().unwrap());
        let port = Port {
            name: "eth".into(),
            link: Link::Ethernet { mac: MAC, answers: false },
            addresses: addresses.iter().map(read).collect(),
            mtu: 1452,
            bits_per_second: 0,
            ceiling: Ceiling::default(),
        };
        let mut bench = Bench::of(port, None, Routes::default(), Sizes::default());
        bench.driver.node.say_hello(0, PortId(0), 10);
        while bench.now < SECOND / 2 {
            bench.next_timer();
        }
        assert_eq!(bench.drops().total(), 0, "{addresses:?}");
        let frames = bench.driver.out.frames.iter().map(|frame| frame.bytes());
        frames.map(|frame| Hello::parse(&frame[frame.len() - LENGTH..]).unwrap().address.to_string()).collect()
    };
    assert_eq!(said(&["10.0.0.2/16", "fd00::9/128", "192.0.2.9/32"]), ["10.0.0.2"]);
    assert_eq!(said(&["192.0.2.9/32", "fd00::9/128"]), [""; 0]);
    assert_eq!(said(&["fe80::2/64", "fd00::9/128"]), ["fe80::2"]);
    assert_eq!(
        said(&["10.0.0.2/16", "fe80::2/64"]),
        ["10.0.0.2"],
        "one name for a neighbour, and a family that it has"
    );
    assert_eq!(said(&["fe80::2/64", "fd00:1::2/64", "10.0.0.2/16"]), ["fd00:1::2"], "one name for a neighbour");
}
