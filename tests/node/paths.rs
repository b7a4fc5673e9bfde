//! Packets that wait for their domain's turn, in one node without sockets. Datagrams come for channels of domains with
//! different roles, and an environment in the node's process takes them: shares, drops, and the end of a domain.

use anode::core::reason::Reason;
use anode::driver::Driver;
use anode::frame::{Frame, Link, PortId};
use anode::node::hosts::InProcess;
use anode::node::paths::{QUEUE_MAX, Round, WAITING_MAX};
use anode::node::{Node, NodeConfig, Sizes};
use anode::nodeos::interface::{ChanSpec, DomainId, DomainSpec, Error, EventId, InChanId, NetSpec, NodeOs, Upcall};
use anode::schedule::Policy;
use anode::topology::{Ceiling, Port, Routes};
use anode::trust::Role;
use anode::trust::grants::Grants;
use anode::wire::ethernet::{self, Mac};
use anode::wire::{Addr, Prefix, anep, ipv4, udp};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

const HERE: [u8; 4] = [10, 0, 0, 1];
const MS: u64 = 1_000_000;

/// What came for a domain.
#[derive(Debug, PartialEq)]
enum Came {
    Packet(DomainId),
    Event(DomainId, EventId, u64),
}

struct Tell(Sender<Came>);

impl InProcess for Tell {
    fn upcall(&mut self, os: &mut dyn NodeOs, domain: DomainId, upcall: Upcall) {
        let came = match upcall {
            Upcall::Packet { frame, .. } => {
                os.packet_free(domain, frame);
                Came::Packet(domain)
            }
            Upcall::Event { event, argument } => Came::Event(domain, event, argument),
            _ => return,
        };
        self.0.send(came).unwrap();
    }
}

struct Bed {
    driver: Driver,
    now: u64,
    tell: Sender<Came>,
    told: Receiver<Came>,
}

impl Bed {
    fn new(policy: Policy) -> Bed {
        let link = Link::Ethernet { mac: Mac([2, 0, 0, 0, 0, 1]), answers: true };
        let addresses = vec![(Addr::v4(HERE), Prefix::host(Addr::v4(HERE)))];
        let mut node = Node::new(NodeConfig {
            name: "bed".into(),
            ports: vec![Port {
                name: "if0".into(),
                link,
                addresses,
                mtu: 1500,
                bits_per_second: 0,
                ceiling: Ceiling::default(),
            }],
            neighbours: Vec::new(),
            routes: Arc::new(Routes::default()),
            roles: Arc::default(),
            sizes: Sizes::default(),
            seed: 1,
            kernel: false,
        });
        node.set_scheduler(policy, 0);
        let (tell, told) = channel();
        Bed { driver: Driver::new(node), now: 1, tell, told }
    }

    fn domain(&mut self, grants: Grants) -> DomainId {
        let role = Role { grants, ..Role::anyone(Default::default()) };
        self.driver.node.attach("d", &role, Box::new(Tell(self.tell.clone()))).unwrap().1
    }

    fn with<R>(&mut self, caller: DomainId, call: impl FnOnce(&mut dyn NodeOs) -> R) -> R {
        self.driver.turn(self.now, |node, turn| node.with_os(turn, caller, |os| call(os)))
    }

    fn channel(&mut self, domain: DomainId, port: u16, buffers: u16) -> InChanId {
        let net = NetSpec { buffers, ..NetSpec::default() };
        let spec = ChanSpec { protocol: "if0/ip/udp".into(), address: format!("*:{port}"), net, ..ChanSpec::default() };
        self.with(domain, |os| os.inchan_create(domain, &spec)).unwrap()
    }

    fn feed(&mut self, port: u16) {
        let link = ethernet::Repr {
            destination: Mac([2, 0, 0, 0, 0, 1]),
            source: Mac([2, 0, 0, 0, 0, 2]),
            tag: None,
            ethertype: ethernet::ethertype::IPV4,
        };
        let ip = ipv4::Repr::new([10, 0, 0, 2], HERE, udp::IP_PROTOCOL, 64, udp::HEADER + 4);
        let mut bytes = vec![0; 14 + 20 + udp::HEADER + 4];
        link.emit(&mut bytes).unwrap();
        ip.emit(&mut bytes[14..]).unwrap();
        let datagram = udp::Repr { source_port: 9, destination_port: port, payload_len: 4 };
        datagram.emit(&mut bytes[34..]).unwrap();
        let mut frame = Frame::from_bytes(&bytes);
        frame.port = PortId(0);
        self.driver.receive(self.now, frame);
    }

    /// A PLAN packet from a neighbour on the link.
    fn feed_plan(&mut self, message: &[u8]) {
        let link = ethernet::Repr {
            destination: Mac([2, 0, 0, 0, 0, 1]),
            source: Mac([2, 0, 0, 0, 0, 2]),
            tag: None,
            ethertype: ethernet::ethertype::IPV4,
        };
        let length = anep::HEADER + message.len();
        let ip = ipv4::Repr::new([10, 0, 0, 2], HERE, udp::IP_PROTOCOL, 64, udp::HEADER + length);
        let mut bytes = vec![0; 14 + 20 + udp::HEADER + length];
        link.emit(&mut bytes).unwrap();
        ip.emit(&mut bytes[14..]).unwrap();
        udp::Repr { source_port: 9, destination_port: anep::UDP_PORT, payload_len: length }
            .emit(&mut bytes[34..])
            .unwrap();
        anep::emit_basic(&mut bytes[42..], anep::type_id::PLAN, message.len()).unwrap();
        bytes[42 + anep::HEADER..].copy_from_slice(message);
        let mut frame = Frame::from_bytes(&bytes);
        frame.port = PortId(0);
        self.driver.receive(self.now, frame);
    }

    /// Runs the next packet at a cost, and says whose it was.
    fn run(&mut self, cost: impl Fn(DomainId) -> u64) -> Option<DomainId> {
        let ran = self.driver.turn(self.now, |node, turn| node.run_next(turn))?;
        let domain = match self.told.try_recv() {
            Ok(Came::Packet(domain)) => domain,
            other => panic!("{other:?}"),
        };
        self.now += cost(domain);
        self.driver.node.ran(ran, cost(domain), self.now);
        Some(domain)
    }

    fn timer(&mut self, now: u64) -> Vec<Came> {
        self.now = now;
        self.driver.turn(now, |node, turn| node.timer(turn));
        self.told.try_iter().collect()
    }

    fn end(&mut self, domain: DomainId) {
        self.driver.turn(self.now, |node, turn| node.end_domain(turn, domain, true));
    }

    fn dropped(&self, reason: Reason) -> u64 {
        self.driver.node.drops().of(reason)
    }
}

fn grants(weight: u32) -> Grants {
    Grants { weight, channels: 4, events: 8, ..Grants::default() }
}

#[test]
fn with_fifo_a_packet_runs_when_it_comes() {
    let mut bed = Bed::new(Policy::Fifo);
    let domain = bed.domain(grants(100));
    bed.channel(domain, 5000, 8);
    bed.feed(5000);
    assert_eq!(bed.told.try_recv(), Ok(Came::Packet(domain)));
    assert!(!bed.driver.node.has_work() && bed.run(|_| 1).is_none());
}

#[test]
fn domains_get_the_cpu_by_the_weight_of_their_roles() {
    let mut bed = Bed::new(Policy::Wfq);
    let (heavy, light) = (bed.domain(grants(300)), bed.domain(grants(100)));
    bed.channel(heavy, 5000, 1000);
    bed.channel(light, 5001, 1000);
    for _ in 0..400 {
        bed.feed(5000);
        bed.feed(5001);
    }
    assert!(bed.told.try_recv().is_err(), "nobody runs before its turn");
    let cost = |domain| if domain == heavy { 9_000 } else { 4_000 };
    for _ in 0..400 {
        bed.run(cost).unwrap();
    }
    let [three, one] = [heavy, light].map(|domain| bed.driver.node.usage(domain).unwrap().cpu_ns as f64);
    assert!((three / one / 3.0 - 1.0).abs() < 0.02, "{three} {one}");
    while bed.run(cost).is_some() {}
    assert_eq!((bed.driver.node.drops().total(), bed.driver.node.has_work()), (0, false));
}

#[test]
fn sub_domains_divide_what_their_environment_has() {
    let mut bed = Bed::new(Policy::Edf);
    let many = bed.domain(Grants { domains: 64, memory_bytes: 1 << 24, ..grants(100) });
    let one = bed.domain(grants(400));
    bed.channel(one, 5000, 1000);
    let below: Vec<_> = (0..30)
        .map(|at| {
            let spec = DomainSpec { title: format!("sub {at}"), ..DomainSpec::default() };
            let below = bed.with(many, |os| os.domain_create(many, &spec)).unwrap();
            bed.channel(below, 6000 + at, 100);
            below
        })
        .collect();
    let feed = |bed: &mut Bed, times| {
        for _ in 0..times {
            bed.feed(5000);
            (0..30).for_each(|at| bed.feed(6000 + at));
        }
    };
    feed(&mut bed, 1);
    // What enters anew is below whom it was before.
    bed.driver.node.set_scheduler(Policy::Wfq, bed.now);
    feed(&mut bed, 30);
    (0..600).for_each(|_| bed.feed(5000));
    for _ in 0..750 {
        bed.run(|_| 5_000).unwrap();
    }
    let cpu = |bed: &Bed, domain| bed.driver.node.usage(domain).unwrap().cpu_ns as f64;
    let alone = cpu(&bed, one);
    let together: f64 = below.iter().map(|domain| cpu(&bed, *domain)).sum();
    let share = together / (together + alone);
    assert!((share - 0.2).abs() < 0.02, "{share}: a fifth, however many there are");
}

#[test]
fn plan_is_one_environment_of_its_weight() {
    let mut bed = Bed::new(Policy::Wfq);
    bed.driver.node.speak_plan(anode::ee::plan::Config::default());
    bed.driver.node.set_weights(100, 50);
    let other = bed.domain(grants(150));
    bed.channel(other, 5000, 1000);
    for _ in 0..400 {
        bed.feed(5000);
        // No message: it takes its turn all the same.
        bed.feed_plan(b"nonsense");
    }
    assert_eq!(bed.dropped(Reason::MalformedPlan), 0, "nothing is done before its turn");
    let mut plan = 0;
    for _ in 0..400 {
        let ran = bed.driver.turn(bed.now, |node, turn| node.run_next(turn)).unwrap();
        plan += u32::from(ran.domain() != other);
        bed.now += 5_000;
        bed.driver.node.ran(ran, 5_000, bed.now);
    }
    assert!((95..=105).contains(&plan), "a quarter: {plan}");
    assert_eq!(bed.dropped(Reason::MalformedPlan), u64::from(plan));
}

#[test]
fn a_flood_is_dropped_by_whose_it_is_and_leaves_room_for_others() {
    let mut bed = Bed::new(Policy::Wfq);
    let greedy: Vec<_> = (0..6).map(|_| bed.domain(grants(100))).collect();
    let modest = bed.domain(grants(100));
    for (at, domain) in greedy.iter().enumerate() {
        bed.channel(*domain, 5000 + at as u16, u16::MAX);
    }
    let small = bed.channel(modest, 6000, 3);
    for port in 5000..5006 {
        (0..2 * QUEUE_MAX).for_each(|_| bed.feed(port));
    }
    let waiting: u64 = (12 * QUEUE_MAX) as u64 - bed.dropped(Reason::PathFull);
    assert!(waiting <= WAITING_MAX as u64, "{waiting}");
    let longest = 2 * QUEUE_MAX as u64 - bed.driver.node.usage(greedy[0]).unwrap().drops.of(Reason::PathFull);
    assert_eq!(longest, QUEUE_MAX as u64);
    (0..5).for_each(|_| bed.feed(6000));
    let drops = |bed: &Bed| bed.driver.node.usage(modest).unwrap().drops.of(Reason::ChannelQueueFull);
    assert_eq!(drops(&bed), 2, "of five, three are what the channel may have waiting");
    bed.with(modest, |os| os.inchan_destroy(small)).unwrap();
    while let Some(ran) = bed.driver.turn(bed.now, |node, turn| node.run_next(turn)) {
        bed.driver.node.ran(ran, 1000, bed.now);
    }
    assert!(bed.told.try_iter().all(|came| came != Came::Packet(modest)));
    assert_eq!(
        (bed.dropped(Reason::ChannelGone), bed.driver.node.has_work()),
        (3, false),
        "nobody has a channel that is gone"
    );
}

#[test]
fn what_waits_for_a_domain_that_ends_goes_with_it() {
    for policy in Policy::ALL.into_iter().filter(|policy| policy.waits()) {
        let mut bed = Bed::new(policy);
        let (gone, left) = (bed.domain(grants(100)), bed.domain(grants(100)));
        bed.channel(gone, 5000, 100);
        bed.channel(left, 5001, 100);
        for _ in 0..10 {
            bed.feed(5000);
            bed.feed(5001);
        }
        bed.end(gone);
        assert_eq!(bed.dropped(Reason::DomainEnded), 10);
        let again = bed.domain(grants(100));
        assert_eq!(again.index(), gone.index(), "the place is used again");
        bed.channel(again, 5000, 100);
        bed.feed(5000);
        let mut ran = Vec::new();
        while let Some(domain) = bed.run(|_| 1000) {
            ran.push(domain);
        }
        assert_eq!((ran.len(), ran.iter().filter(|domain| **domain == again).count()), (11, 1), "{policy:?}");
    }
}

#[test]
fn deadlines_of_roles_are_kept_and_counted() {
    let mut bed = Bed::new(Policy::Edf);
    let timed = bed.domain(Grants { deadline_us: 1000, ..grants(1) });
    let other = bed.domain(grants(10_000));
    bed.channel(timed, 5000, 100);
    bed.channel(other, 5001, 100);
    for _ in 0..50 {
        bed.feed(5001);
    }
    bed.feed(5000);
    assert_eq!(bed.run(|_| 100), Some(timed));
    assert_eq!(bed.driver.node.missed_deadlines(timed), 0);
    bed.now += 10 * MS;
    bed.feed(5000);
    assert_eq!(bed.run(|_| 5 * MS), Some(timed));
    assert_eq!(bed.driver.node.missed_deadlines(timed), 1);
    assert_eq!(bed.run(|_| 100), Some(other));
}

#[test]
fn a_packet_with_a_deadline_leaves_at_once_and_a_round_is_no_longer_than_half_of_it() {
    let mut bed = Bed::new(Policy::Edf);
    let (timed, other) = (bed.domain(Grants { deadline_us: 40, ..grants(1) }), bed.domain(grants(100)));
    bed.channel(timed, 5000, 100);
    bed.channel(other, 5001, 100);
    assert!(Round::of(&bed.driver.node, 0, false).goes_on(1, 99_000), "nobody has a deadline to meet yet");
    (5000..5002).for_each(|port| bed.feed(port));
    let urgent = [(); 2].map(|()| {
        let ran = bed.driver.turn(bed.now, |node, turn| node.run_next(turn)).unwrap();
        let urgent = ran.is_urgent();
        bed.driver.node.ran(ran, 100, bed.now);
        urgent
    });
    assert_eq!(urgent, [true, false]);
    let mut round = Round::of(&bed.driver.node, 1_000_000, true);
    assert_eq!((round.goes_on(1, 19_000), round.goes_on(1, 1_000)), (true, false));
    bed.end(timed);
    assert!(Round::of(&bed.driver.node, 0, false).goes_on(1, 99_000), "who had one is gone");
}

#[test]
fn another_scheduler_takes_over_what_waits() {
    let mut bed = Bed::new(Policy::Wfq);
    let domains = [bed.domain(grants(100)), bed.domain(grants(100))];
    for (at, domain) in domains.into_iter().enumerate() {
        bed.channel(domain, 5000 + at as u16, 100);
        (0..5).for_each(|_| bed.feed(5000 + at as u16));
    }
    for policy in [Policy::Edf, Policy::Fifo, Policy::Bert] {
        bed.driver.node.set_scheduler(policy, bed.now);
        assert_eq!(bed.driver.node.scheduler(), policy);
        bed.run(|_| 1000).unwrap();
        bed.feed(5001);
    }
    let ran = std::iter::from_fn(|| bed.run(|_| 1000)).count();
    assert_eq!((ran, bed.driver.node.drops().total()), (10, 0));
}

#[test]
fn events_come_at_their_time_to_their_domain_and_end_with_it() {
    let mut bed = Bed::new(Policy::Fifo);
    let (one, two) = (bed.domain(grants(100)), bed.domain(grants(100)));
    let schedule = |os: &mut dyn NodeOs, domain, delay, argument| os.event_schedule(domain, delay, argument);
    let first = bed.with(one, |os| schedule(os, one, 5, 7)).unwrap();
    let later = bed.with(one, |os| schedule(os, one, 50, 8)).unwrap();
    bed.with(two, |os| schedule(os, two, 60, 9)).unwrap();
    assert!(bed.driver.node.next_timer() <= 6 * MS);
    assert_eq!(bed.timer(5 * MS), []);
    assert_eq!(bed.timer(6 * MS), [Came::Event(one, first, 7)]);
    assert_eq!(bed.with(two, |os| os.event_cancel(later)), Err(Error::Denied));
    assert_eq!(bed.with(one, |os| os.event_cancel(later)), Ok(()));
    assert_eq!(bed.with(one, |os| os.event_cancel(later)), Err(Error::Stale));
    assert_eq!(bed.with(two, |os| schedule(os, one, 1, 0)), Err(Error::Denied));
    for _ in 0..7 {
        bed.with(two, |os| schedule(os, two, u64::MAX, 0)).unwrap();
    }
    assert_eq!(bed.with(two, |os| schedule(os, two, 1, 0)), Err(Error::Limit));
    bed.end(two);
    assert_eq!(bed.timer(1000 * MS), []);
}
