//! Two workers of one node: what comes to the second, what it hands to the first, and what both have in common.

use crate::node_bench::{Bench, FAR, HERE, LEFT, MAC, RIGHT, give_marks_back, header, module, native, packet};
use anode::code::bundle::{Bundle, Kind};
use anode::core::ledger::{Balance, Unaccounted};
use anode::core::reason::Reason;
use anode::driver::{Driver, Supply};
use anode::frame::{Frame, Link, PeerId, PortId};
use anode::node::proofs::{Guard, NeighbourKey};
use anode::node::turning::{HELD_EACH, PATIENCE};
use anode::node::workers::{Joint, WorkerOrder};
use anode::node::{Shared, Sizes};
use anode::topology::{Ceiling, NextHop, Port, Routes};
use anode::trust::{PrincipalKey, Roles};
use anode::wire::ethernet::{self, Mac, ethertype};
use anode::wire::{Addr, Digest, Prefix, arp, capsule};
use std::sync::Arc;

const FORWARD: &str = "i32.const 1";

/// A node with two workers.
pub struct Two {
    pub first: Bench,
    pub second: Driver,
    outside: Supply,
    /// What the first has told the second.
    told: Vec<&'static str>,
}

impl Two {
    fn new() -> Two {
        Two::of(Bench::new(), Bench::new())
    }

    /// The same where the left port is a link.
    fn on_link() -> Two {
        let bench = || {
            let link = Link::Ethernet { mac: MAC, answers: false };
            let near: Prefix = "10.0.0.0/16".parse().unwrap();
            let addresses = vec![(HERE, near)];
            let (name, ceiling) = ("eth".into(), Ceiling::default());
            let port = Port { name, link, addresses, mtu: 1452, bits_per_second: 0, ceiling };
            let routes = Routes::new([
                (near, NextHop { port: PortId(0), via: Addr::UNSPECIFIED }),
                (Prefix::host(FAR), NextHop { port: PortId(1), via: RIGHT }),
            ]);
            Bench::of(port, None, routes, Sizes { state_entries: 256, ..Sizes::default() })
        };
        Two::of(bench(), bench())
    }

    pub fn of(mut first: Bench, other: Bench) -> Two {
        let joint = Joint::new(2, 256);
        first.driver.node.set_worker(0, joint.clone());
        let (mut second, outside) = (other.into_driver(), Supply::new(first.supply.compiler.clone()));
        second.node.set_worker(1, joint);
        Two { first, second, outside, told: Vec::new() }
    }

    /// A frame comes to a worker; then all is done that follows, and that the first has told and been handed.
    pub fn receive(&mut self, worker: usize, port: u16, bytes: &[u8]) {
        self.take(worker, port, bytes);
        self.settle();
    }

    pub fn take(&mut self, worker: usize, port: u16, bytes: &[u8]) {
        let mut frame = Frame::from_bytes(bytes);
        let overlay = port == 1 || bytes.first() != Some(&2);
        (frame.port, frame.peer) = (PortId(port), if overlay { PeerId(0) } else { PeerId::NONE });
        match worker {
            0 => self.first.driver.receive(self.first.now, frame),
            _ => self.second.receive(self.first.now, frame),
        }
    }

    pub fn settle(&mut self) {
        loop {
            let now = self.first.now;
            self.first.settle();
            for order in std::mem::take(&mut self.first.supply.orders) {
                self.told.push(match order {
                    WorkerOrder::Topology(_) => "topology",
                    WorkerOrder::Routes(..) => "routes",
                    WorkerOrder::Link(..) => "link",
                    WorkerOrder::Run(_) => "run",
                    WorkerOrder::Replace(..) => "replace",
                    WorkerOrder::Stop(_) => "stop",
                    WorkerOrder::Changed(_) => "changed",
                });
                self.second.turn(now, |node, turn| node.obey(turn, order));
            }
            self.second.answer(now, &mut self.outside);
            let heard = std::mem::take(&mut self.outside.heard);
            self.first.driver.node.heard(now, &heard);
            for (port, addr) in std::mem::take(&mut self.outside.old_links) {
                self.first.driver.turn(now, |node, turn| node.link_is_old(turn, port, addr));
            }
            let handed = std::mem::take(&mut self.second.out.handed);
            let some = !handed.is_empty();
            for packet in handed {
                self.first.driver.turn(now, |node, turn| node.take_handed(turn, packet));
            }
            let some = some | give_marks_back(&mut self.first.driver, &mut self.second, &mut self.first.now);
            if !some {
                return;
            }
        }
    }

    /// The first worker does what it wants of the outside, and the second what it is told; what that hands over is in the ring.
    fn tell(&mut self) {
        self.first.settle_alone();
        for order in std::mem::take(&mut self.first.supply.orders) {
            self.second.turn(self.first.now, |node, turn| node.obey(turn, order));
        }
        self.second.answer(self.first.now, &mut self.outside);
    }

    /// Frames that each has sent, and deliveries of the first.
    fn out(&mut self) -> ([usize; 2], usize) {
        ([self.first.driver.out.frames.len(), self.second.out.frames.len()], self.first.driver.out.deliveries.len())
    }

    /// What of both together.
    fn balance(&self) -> Balance {
        self.first
            .driver
            .node
            .balance_within(&self.first.driver.out.frames)
            .with(&self.second.node.balance_within(&self.second.out.frames))
    }

    fn timer(&mut self) {
        self.first.next_timer();
        let now = self.first.now;
        self.second.timer_if_due(now);
        self.settle();
    }
}

impl Drop for Two {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.second.node.unaccounted(&self.second.out.frames), Unaccounted::default());
            assert_eq!(self.balance().handed, 0, "nothing is between them: {:?}", self.balance());
        }
    }
}

#[test]
fn code_is_fetched_by_the_first_worker_and_runs_at_both() {
    let mut two = Two::new();
    let code = two.first.add(0, &module("", "", FORWARD));
    two.receive(1, 0, &packet(&header(code), b"x"));
    assert_eq!(two.out(), ([1, 0], 0), "the first capsule is gone on with where its code came");
    assert_eq!(two.told, ["topology", "run"]);
    for _ in 0..3 {
        two.receive(1, 0, &packet(&header(code), b"x"));
    }
    two.receive(0, 0, &packet(&header(code), b"x"));
    assert_eq!(two.out(), ([2, 3], 0));
    let bytes = |driver: &Driver| driver.out.frames.iter().map(|frame| frame.bytes().to_vec()).collect::<Vec<_>>();
    assert_eq!(bytes(&two.first.driver)[0], bytes(&two.second)[0], "both do the same to it");
    let mut sum = two.first.driver.node.status();
    sum.add(&two.second.node.status_within(&two.second.out.frames));
    let usage = sum.codes[0].usage.as_ref().unwrap();
    assert_eq!((usage.packets, usage.forwarded), (5, 5));
    assert_eq!((sum.ports[0].gauge.received, sum.ports[1].gauge.sent, sum.unaccounted_by.ports), (5, 5, 0));
}

/// Capsules that come to the second worker while those before them are still on their way by the first wait for these.
#[test]
fn capsules_do_not_overtake_those_that_were_handed_over_before_their_code_was_known() {
    let mut two = Two::new();
    let code = two.first.add(0, &module("", "", FORWARD));
    let bytes = packet(&header(code), b"x");
    // The code is ready at the first, and the second has not heard of that.
    two.take(0, 0, &bytes);
    two.take(1, 0, &bytes);
    two.tell();
    assert_eq!(two.out(), ([1, 0], 0));
    for _ in 0..3 {
        two.take(1, 0, &bytes);
    }
    assert_eq!((two.out(), two.second.node.held_back()), (([1, 0], 0), 3), "they wait for the one in the ring");
    // That one runs, and waits in the queue of its port behind two others.
    for handed in std::mem::take(&mut two.second.out.handed) {
        two.first.driver.turn(two.first.now, |node, turn| node.take_handed(turn, handed));
    }
    let look = |two: &mut Two, left: u64| {
        let node = &mut two.first.driver.node;
        node.set_port_queue(PortId(1), (13_u64.saturating_sub(left) as u32, 300), left);
        let now = node.next_look_at_marks().unwrap();
        two.first.now = now;
        two.first.driver.turn(now, |node, turn| node.timer(turn));
        two.first.driver.out.handed.len()
    };
    assert_eq!((two.out(), look(&mut two, 10), look(&mut two, 12)), (([2, 0], 0), 0, 0), "its mark waits with it");
    assert_eq!((two.second.node.held_back(), look(&mut two, 13)), (3, 1));
    two.settle();
    assert_eq!((two.out(), two.second.node.held_back()), (([2, 3], 0), 0), "they have gone in their turn");
    two.receive(1, 0, &bytes);
    assert_eq!(two.out(), ([2, 4], 0), "nothing waits any more");
    // There is no port: both frames are here.
    two.first.driver.node.set_port_queue(PortId(1), (0, 0), 0);
}

/// Many codes turn at once: those beyond the marks that may be under way go with the last of them, and keep their order.
#[test]
fn more_turns_at_once_than_marks_share_those() {
    const CODES: usize = 100;
    let mut two = Two::new();
    let body = |number| format!("(drop (i32.const {number})) {FORWARD}");
    let codes: Vec<_> = (0..CODES).map(|number| two.first.add(0, &module("", "", &body(number)))).collect();
    // So many that one neighbour may have on their way.
    for some in codes.chunks(CODES / 4) {
        for code in some {
            (0..2).for_each(|worker| two.take(worker, 0, &packet(&header(*code), b"x")));
        }
        two.first.settle_alone();
    }
    two.tell();
    let handed = two.second.out.handed.len();
    assert!((CODES + 2..2 * CODES).contains(&handed), "{handed}: a packet of each code, and fewer marks than codes");
    codes.iter().for_each(|code| two.take(1, 0, &packet(&header(*code), b"x")));
    assert_eq!((two.out(), two.second.node.held_back()), (([CODES, 0], 0), CODES as u64));
    // The marks go once, and that of the last ones once more.
    for handed in std::mem::take(&mut two.second.out.handed) {
        two.first.driver.turn(two.first.now, |node, turn| node.take_handed(turn, handed));
    }
    assert!(give_marks_back(&mut two.first.driver, &mut two.second, &mut two.first.now));
    let (held, again) = (two.second.node.held_back(), two.second.out.handed.len());
    assert_eq!((two.out(), again), (([2 * CODES, CODES - held as usize], 0), 1), "{held} wait for it");
    assert!(held > 0);
    two.settle();
    assert_eq!((two.out(), two.second.node.held_back()), (([2 * CODES, CODES], 0), 0));
}

/// A capsule whose sender may have a credential for its code goes to the first worker, and those behind it wait for it.
#[test]
fn capsules_wait_for_one_by_which_the_first_worker_asks_for_a_credential() {
    let mut two = Two::new();
    let wasm = wat::parse_str(module("", "", FORWARD)).unwrap();
    let author = PrincipalKey::from_seed([2; 32]);
    let bundle = Bundle::build("signed", 0, &[(Kind::Wasm, wasm.into())], Some(&author)).unwrap();
    two.first.supply.add(&bundle);
    two.first.supply.judge = Some(("bench".into(), Roles::default()));
    let bytes = packet(&header(bundle.name()), b"x");
    two.receive(0, 0, &bytes);
    // Who is asked for a credential has none.
    for _ in 0..9 {
        for asked in std::mem::take(&mut two.first.driver.out.frames) {
            let absent = crate::shares::reply(&asked, |_, _| None);

            absent.into_iter().for_each(|(.., absent)| two.receive(0, 0, &absent));
        }
        if !two.told.contains(&"run") {
            two.timer();
        }
    }
    assert!(two.told.contains(&"run"), "{:?}", two.told);
    let sent = |two: &mut Two| two.out().0[1];
    for number in 1..=3 {
        two.take(1, 0, &bytes);
        let waits = two.second.out.handed.iter().filter(|handed| handed.what.is_counted()).count();
        assert_eq!((waits, two.second.node.held_back(), sent(&mut two)), (1, number - 1, 0));
    }
    two.settle();
    assert_eq!((two.second.node.held_back(), sent(&mut two)), (0, 2), "in their turn");
    two.receive(1, 0, &bytes);
    assert_eq!(sent(&mut two), 3, "that sender is asked once in a while");
}

/// The mark of a worker that has begun anew may be lost: what is held goes on after a while all the same, and no more than so many
/// capsules are held.
#[test]
fn what_is_held_is_bounded_and_goes_on_without_its_mark() {
    let mut two = Two::new();
    let code = two.first.add(0, &module("", "", FORWARD));
    let bytes = packet(&header(code), b"x");
    two.take(0, 0, &bytes);
    two.tell();
    for handed in std::mem::take(&mut two.second.out.handed) {
        two.second.out.pool.give(handed.frame);
    }
    let more = 10;
    (0..HELD_EACH + more).for_each(|_| two.take(1, 0, &bytes));
    assert_eq!(two.second.node.held_back(), HELD_EACH as u64);
    assert_eq!(two.second.node.drops().of(Reason::HandOver), more as u64);
    // Others have room beside them.
    let other = two.first.add(0, &module("", "", &format!("(drop (i32.const 1)) {FORWARD}")));
    two.take(0, 0, &packet(&header(other), b"x"));
    two.tell();
    two.take(1, 0, &packet(&header(other), b"x"));
    assert_eq!(two.second.node.held_back(), HELD_EACH as u64 + 1);
    two.second.out.handed.drain(..).for_each(|mark| two.second.out.pool.give(mark.frame));
    two.first.now += PATIENCE;
    let now = two.first.now;
    two.second.turn(now, |node, turn| node.timer(turn));
    let gone = two.second.out.frames.len() as u64 + two.second.node.drops().total() - more as u64;
    assert_eq!((gone, two.second.node.held_back()), (HELD_EACH as u64 + 1, 0));
}

#[test]
fn what_is_no_capsule_is_the_first_workers() {
    let mut two = Two::new();
    for bytes in [crate::node_bench::request(Digest([3; 32]), LEFT), b"nonsense".to_vec(), vec![]] {
        two.receive(1, 0, &bytes);
        two.receive(0, 0, &bytes);
    }
    let (first, second) = (two.first.driver.node.balance(), two.second.node.balance());
    assert_eq!((first.received, first.handed, second), (6, 0, Balance::default()));
    assert_eq!(two.first.driver.node.drops().of(Reason::MalformedPacket) % 2, 0);
}

#[test]
fn capsules_for_applications_reach_them_from_any_worker() {
    let mut two = Two::new();
    let code = two.first.add(0, &module("", "", "i32.const 2"));
    assert!(two.first.driver.node.open(5));
    let packet = packet(&capsule::Header { destination: HERE, ..header(code) }, b"x");
    two.receive(0, 0, &packet);
    two.receive(1, 0, &packet);
    assert_eq!(two.out(), ([0, 0], 2));
    let of = |at: usize| two.first.driver.out.deliveries[at].frame.bytes().to_vec();
    assert_eq!(of(0), of(1));
    two.first.driver.node.close(5);
    two.receive(1, 0, &packet);
    assert_eq!(two.first.driver.node.drops().of(Reason::NoApplication), 1);
    assert_eq!(two.second.node.drops().total(), 0);
}

#[test]
fn soft_state_is_one_and_a_page_of_it_has_all() {
    let imports = "(import \"anode\" \"an_state_add\" (func $add (param i64 i64 i32) (result i64)))";
    let body = "(drop (call $add (i64.const 9) (i64.const 1) (i32.const 60000))) (i32.const 1)";
    let mut two = Two::new();
    let code = two.first.add(0, &module(imports, "", body));
    for round in 0..10 {
        two.receive(round % 2, 0, &packet(&header(code), b"x"));
    }
    let now = two.first.now;
    let page = two.first.driver.node.state_page(now, &code, 0);
    let mut from = 0;
    let mut kept = Vec::new();
    assert!(page.is_some());
    loop {
        let Some(anode::core::kept::StateFound::Page(page)) = two.first.driver.node.state_page(now, &code, from) else {
            panic!("the workers keep it")
        };
        kept.extend(page.entries);
        match page.next {
            Some(next) => from = next,
            None => break,
        }
    }
    assert_eq!(kept.iter().map(|entry| (entry.key, entry.value[0])).collect::<Vec<_>>(), [(9, 10)]);
    let usage = two.first.driver.node.status().codes[0].usage.clone().unwrap();
    assert_eq!(usage.counts.state_entries, 1);
}

#[test]
fn one_budget_is_spent_by_both_and_no_more() {
    use anode::trust::Roles;
    let mut two = Two::new();
    let code = two.first.add(0, &module("", "", FORWARD));
    two.receive(1, 0, &packet(&header(code), b"x"));
    let burst = Roles::default().anyone().limits.packets_per_second / 10;
    let each = burst * 2;
    for _ in 0..each {
        two.take(0, 0, &packet(&header(code), b"x"));
        two.take(1, 0, &packet(&header(code), b"x"));
    }
    two.settle();
    let ([first, second], _) = two.out();
    let sent = (first + second) as u64;
    assert!(sent >= burst && sent <= burst + 2 * 32 + 2, "{sent} of {burst}");
    assert!(first as u64 > burst / 3 && second as u64 > burst / 3, "each has had its part: {first}, {second}");
}

#[test]
fn code_whose_domain_an_operator_ends_runs_nowhere() {
    let mut two = Two::new();
    let code = two.first.add(0, &module("", "", FORWARD));
    two.receive(1, 0, &packet(&header(code), b"x"));
    let (now, domain) = (two.first.now, two.first.driver.node.status().codes[0].domain.unwrap());
    two.first.driver.turn(now, |node, turn| node.end_domain(turn, anode::nodeos::interface::DomainId(domain), true));
    two.settle();
    assert_eq!(two.told.last(), Some(&"stop"));
    assert!(two.second.node.status().codes.is_empty());
}

#[test]
fn code_that_is_taken_out_runs_nowhere() {
    let mut two = Two::new();
    let code = two.first.add(0, &module("", "", FORWARD));
    two.receive(1, 0, &packet(&header(code), b"x"));
    let now = two.first.now;
    assert!(two.first.driver.turn(now, |node, turn| node.remove_code(turn, &code)));
    two.settle();
    assert_eq!(two.told, ["topology", "run", "stop"]);
    assert!(two.second.node.status().codes.is_empty());
    two.first.supply.store.clear();
    two.receive(1, 0, &packet(&header(code), b"x"));
    assert_eq!(two.second.out.frames.len(), 0, "it is asked for anew by the first");
    while two.first.driver.node.drops().total() == 0 {
        two.timer();
    }
}

/// An answer to ARP: who has this address has said so.
fn says(who: Addr) -> Vec<u8> {
    let mac = Mac([2, 0, 0, 0, 0, 77]);
    let mut answer = vec![0; ethernet::HEADER + arp::LENGTH];
    let head = ethernet::Repr { destination: MAC, source: mac, tag: None, ethertype: ethertype::ARP };
    head.emit(&mut answer).unwrap();
    let says = arp::Repr {
        operation: arp::Operation::Reply,
        sender_mac: mac,
        sender_ip: who.bytes_v4().unwrap(),
        target_mac: MAC,
        target_ip: HERE.bytes_v4().unwrap(),
    };
    says.emit(&mut answer[ethernet::HEADER..]).unwrap();
    answer
}

/// The same for packets to a next hop whose link address the second learns, and for those from a neighbour that it learns.
#[test]
fn packets_do_not_overtake_those_before_a_next_hop_or_a_neighbour_was_known() {
    let mut two = Two::on_link();
    let code = two.first.add(0, &module("", "", FORWARD));
    let to = Addr::v4([10, 0, 0, 77]);
    let capsule = packet(&capsule::Header { previous: RIGHT, source: RIGHT, destination: to, ..header(code) }, b"x");
    two.receive(1, 1, &capsule);
    two.receive(1, 1, &capsule);
    assert_eq!(two.out().0, [1, 0], "a question; two wait for the answer");
    two.take(1, 1, &capsule);
    two.take(0, 0, &says(to));
    two.tell();
    two.take(1, 1, &capsule);
    assert_eq!((two.out().0, two.second.node.held_back()), ([3, 0], 1), "it waits for the one in the ring");
    two.settle();
    assert_eq!((two.out().0, two.second.node.held_back()), ([4, 1], 0));

    let near = native([[10, 0, 0, 1], [10, 0, 0, 9]], &packet(&header(code), b"x"));
    two.take(1, 0, &near);
    two.take(0, 0, &near);
    two.first.now += 1_000_000_000;
    let now = two.first.now;
    two.first.driver.timer_if_due(now);
    two.tell();
    two.take(1, 0, &near);
    assert_eq!((two.out().0[1], two.second.node.held_back()), (1, 1), "it waits for the one in the ring");
    two.settle();
    assert_eq!((two.out().0[1], two.second.node.held_back()), (2, 0));
}

/// ARP, natively: the first asks, and the second sends by itself when it has been told.
#[test]
fn a_next_hop_is_asked_for_by_the_first_and_known_to_both() {
    let mut two = Two::on_link();
    let code = two.first.add(0, &module("", "", FORWARD));
    let to = Addr::v4([10, 0, 0, 77]);
    let capsule = packet(&capsule::Header { previous: RIGHT, source: RIGHT, destination: to, ..header(code) }, b"x");
    for _ in 0..3 {
        // By the overlay port on the right; it leaves by the link on the left.
        two.receive(1, 1, &capsule);
    }
    assert_eq!(two.out().0, [1, 0], "one question, and packets that wait for the answer");
    let asked = two.first.driver.out.frames.remove(0);
    assert_eq!(asked.bytes()[12..14], [8, 6]);
    let mut answer = says(to);
    // It comes to the wrong worker.
    two.receive(1, 0, &answer);
    assert_eq!(two.out().0, [3, 0]);
    two.receive(1, 1, &capsule);
    assert_eq!(two.out().0, [3, 1], "now the second knows");
    let (by_first, by_second) = (two.first.driver.out.frames[0].bytes(), two.second.out.frames[0].bytes());
    assert_eq!(by_first, by_second);
    // The answer grows old: the second lets the first ask again, and goes on sending, so that no packet overtakes another.
    two.first.now += 30_000_000_000;
    two.receive(1, 1, &capsule);
    two.receive(1, 1, &capsule);
    assert_eq!(two.out().0, [4, 3], "the first asks, once");
    // Nobody is told of what nobody has asked for, however often it is said.
    let orders = two.told.len();
    answer = says(Addr::v4([10, 0, 0, 99]));
    (0..100).for_each(|_| two.receive(0, 0, &answer));
    assert_eq!(two.told.len(), orders);
}

/// A neighbour shows itself at the second worker: the first learns it, and both know it by the same index.
#[test]
fn neighbours_are_learned_by_the_first_and_known_to_both() {
    let mut two = Two::on_link();
    let code = two.first.add(0, &module("", "", FORWARD));
    let capsule = packet(&header(code), b"x");
    let frame = native([[10, 0, 0, 1], [10, 0, 0, 9]], &capsule);
    for _ in 0..4 {
        two.receive(1, 0, &frame);
    }
    assert!(two.told.contains(&"topology"), "{:?}", two.told);
    let near = |driver: &Driver| driver.node.status().neighbours.iter().map(|near| near.addr).collect::<Vec<_>>();
    assert_eq!(near(&two.first.driver), near(&two.second));
    assert!(near(&two.second).contains(&LEFT));
    assert!(two.second.node.balance().received >= 4);
    // Whom only the second hears is not silent to the first.
    for _ in 0..130 {
        two.first.now += 1_000_000_000;
        two.receive(1, 0, &frame);
        let now = two.first.now;
        two.second.timer_if_due(now);
        two.first.driver.timer_if_due(now);
        two.settle();
        two.first.driver.out.frames.clear();
        two.second.out.frames.clear();
    }
    assert!(near(&two.first.driver).contains(&LEFT));
}

/// The kernel half takes over code that both run.
#[test]
fn the_kernel_half_is_one_more() {
    #[derive(Debug, Default)]
    struct Kernel(std::sync::Mutex<std::collections::HashMap<u64, [u8; 64]>>);
    impl anode::core::state_store::SharedState for Kernel {
        fn value(&self, key: u64, _: u64) -> Result<Option<[u8; 64]>, anode::core::state_store::Refused> {
            Ok(self.0.lock().unwrap().get(&key).copied())
        }
        fn change(
            &self,
            key: u64,
            change: anode::core::state_store::Change<'_>,
            _: u32,
            _: u64,
        ) -> Result<u64, anode::core::state_store::Refused> {
            let mut table = self.0.lock().unwrap();
            let value = table.entry(key).or_insert([0; 64]);
            match change {
                anode::core::state_store::Change::Put(new) => *value = *new,
                anode::core::state_store::Change::Add(more) => value[0] += more as u8,
                _ => unreachable!("not here"),
            }
            Ok(value[0].into())
        }
        fn page(&self, _: u64, _: u64) -> Result<anode::core::kept::Page, anode::core::state_store::Refused> {
            Ok(Default::default())
        }
    }
    let imports = "(import \"anode\" \"an_state_add\" (func $add (param i64 i64 i32) (result i64)))";
    let body = "(drop (call $add (i64.const 9) (i64.const 1) (i32.const 60000))) (i32.const 1)";
    let mut two = Two::of(Bench::with_kernel(), Bench::new());
    let code = two.first.add(0, &module(imports, "", body));
    for round in 0..4 {
        two.receive(round % 2, 0, &packet(&header(code), b"x"));
    }
    let kernel = Arc::new(Kernel::default());
    let (now, shared) = (two.first.now, Shared { state: kernel.clone(), account: None, records: None });
    two.first.driver.turn(now, |node, turn| node.linked(turn, code, Ok(shared)));
    for round in 0..4 {
        two.receive(round % 2, 0, &packet(&header(code), b"x"));
    }
    assert_eq!(kernel.0.lock().unwrap().get(&9).map(|value| value[0]), Some(8));
}

#[test]
fn packets_that_find_the_ring_full_are_counted_and_their_domain_goes_on() {
    let mut two = Two::new();
    let code = two.first.add(0, &module("", "", FORWARD));
    two.take(1, 0, &packet(&header(code), b"x"));
    two.take(1, 0, b"nonsense");
    let now = two.first.now;
    for packet in std::mem::take(&mut two.second.out.handed) {
        two.second.turn(now, |node, turn| node.not_handed(turn, packet));
    }
    assert_eq!(two.second.node.drops().of(Reason::HandOver), 2);
    assert_eq!((two.second.node.balance().received, two.second.node.balance().handed), (2, 0));
    two.receive(1, 0, &packet(&header(code), b"x"));
    assert_eq!(two.out().0, [1, 0]);
}

/// Who proves what it sends is let in by the first worker alone, which proves what the second sends there.
#[test]
fn what_is_proved_goes_by_the_first_worker() {
    let mut two = Two::new();
    let key = NeighbourKey { port: PortId(1), addr: RIGHT, id: 7, secret: [3; 32] };
    let guard = Guard { demands: Vec::new(), keys: vec![key], unix_ns: 1 << 60, ..Guard::default() };
    two.first.driver.node.set_guard(1, guard.clone());
    two.second.node.leave_guard(&guard);
    let code = two.first.add(0, &module("", "", FORWARD));
    for _ in 0..3 {
        two.receive(1, 0, &packet(&header(code), b"x"));
    }
    assert_eq!(two.out(), ([3, 0], 0), "all leave by the port with a key");
    let lengths: Vec<_> = two.first.driver.out.frames.iter().map(Frame::len).collect();
    assert!(lengths.iter().all(|length| *length == lengths[0] && *length > packet(&header(code), b"x").len()));
    let sum = two.second.node.status();
    assert_eq!(sum.codes[0].usage.as_ref().unwrap().forwarded, 2, "it has run there");
    two.receive(1, 1, &packet(&header(code), b"x"));
    assert_eq!(two.second.node.balance().received, 3, "by that port the first alone lets in");
}

/// They may change twenty times a second, and all else that is told of a topology is large.
#[test]
fn routes_that_change_are_told_by_themselves() {
    let mut two = Two::new();
    two.timer();
    two.told.clear();
    let (now, next) = (two.first.now, NextHop { port: PortId(0), via: LEFT });
    let routes = Arc::new(Routes::new([(Prefix::host(FAR), next)]));
    two.first.driver.turn(now, |node, turn| node.follow_routes(turn, routes, None));
    two.settle();
    assert_eq!(two.told, ["routes"]);
    assert_eq!(two.second.node.way_to(FAR).next, Some(next));
    two.timer();
    assert_eq!(two.told, ["routes"], "once is enough");
}
