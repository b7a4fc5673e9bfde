//! A node without sockets whose domains do work of a known cost. Datagrams are found by their channels, wait for their
//! domains' turns, and an environment burns CPU time for each. Its clock is the CPU time of this thread, so other
//! threads of the machine do not count.

use super::super::Error;
use anode::core::memory_pool::POOLS_MAX;
use anode::driver::Driver;
use anode::frame::{Frame, FramePool, Link, PortId};
use anode::node::hosts::InProcess;
use anode::node::paths::Round;
use anode::node::survey::Survey;
use anode::node::{Node, NodeConfig, Sizes};
use anode::nodeos::interface::{ChanSpec, DomainId, DomainSpec, NetSpec, NodeOs, Upcall};
use anode::schedule::Policy;
use anode::seen::event::of_event;
use anode::seen::ring::Teller;
use anode::sys::clock::thread_cpu;
use anode::topology::{Ceiling, Port, Routes};
use anode::trust::Role;
use anode::trust::grants::Grants;
use anode::trust::limits::Limits;
use anode::wire::ethernet::{self, Mac};
use anode::wire::{Addr, Prefix, ipv4, udp};
use std::sync::Arc;

/// UDP port of the first domain's channel.
const PORTS: u16 = 20_000;

/// Where a datagram says which port it is for.
const PORT_AT: usize = 36;

const HERE: [u8; 4] = [10, 0, 0, 1];
const THERE: [u8; 4] = [10, 0, 0, 2];

/// What a domain is and does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    /// Its share.
    pub(super) grants: Grants,
    /// CPU time of a packet, in nanoseconds.
    pub(super) cost: u64,
}

/// A domain with a weight.
pub(super) fn weight(weight: u32, cost: u64) -> Member {
    Member { grants: Grants { weight, ..Grants::default() }, cost }
}

/// Burns what its domain's packets cost.
struct Burn(u64);

impl InProcess for Burn {
    fn upcall(&mut self, os: &mut dyn NodeOs, domain: DomainId, upcall: Upcall) {
        let Upcall::Packet { frame, .. } = upcall else { return };
        burn(self.0);
        os.packet_free(domain, frame);
    }
}

/// The same, but what it gets it keeps.
struct Leak(u64, Vec<Frame>);

impl InProcess for Leak {
    fn upcall(&mut self, _: &mut dyn NodeOs, _: DomainId, upcall: Upcall) {
        let Upcall::Packet { frame, .. } = upcall else { return };
        burn(self.0);
        self.1.push(frame);
    }
}

fn burn(cost: u64) {
    if cost > 0 {
        let end = thread_cpu() + cost;
        while thread_cpu() < end {}
    }
}

/// The node.
pub(super) struct Bed {
    driver: Driver,
    /// A datagram for the first domain; the others' differ in the port.
    datagram: Vec<u8>,
    domains: Vec<DomainId>,
    batch: Vec<Frame>,
    began: u64,
    skipped: u64,
    /// Where the time went.
    pub(super) spent: Spent,
}

/// CPU time by what it was spent for, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spent {
    /// Reading packets, finding whose they are, and letting them wait or dropping them.
    pub(super) taking_in: u64,
    /// Running them.
    pub(super) running: u64,
    /// Running those of the domain that is looked at.
    pub(super) of_member: u64,
}

impl Bed {
    /// A node with these domains, each in an environment of its own.
    pub(super) fn new(policy: Policy, members: &[Member]) -> Result<Bed, Error> {
        let mut bed = Bed::empty(policy);
        for member in members {
            bed.join(member, Box::new(Burn(member.cost)))?;
        }
        Ok(bed)
    }

    /// One more domain, run by this environment.
    fn join(&mut self, member: &Member, environment: Box<dyn InProcess>) -> Result<(), Error> {
        let role = Role { grants: Grants { channels: 1, ..member.grants }, ..role() };
        let attached = self.driver.node.attach("bench", &role, environment);
        let (_, domain) = attached.map_err(|error| Error::Node(error.to_string()))?;
        self.add(domain)
    }

    /// One more domain, which does the same with its packets but keeps them.
    pub(super) fn join_leaking(&mut self, member: &Member) -> Result<(), Error> {
        self.join(member, Box::new(Leak(member.cost, Vec::new())))
    }

    /// A node with so many domains of one environment that costs nothing.
    pub(super) fn crowd(policy: Policy, count: usize) -> Result<Bed, Error> {
        let mut bed = Bed::empty(policy);
        let failed = |error: anode::nodeos::interface::Error| Error::Node(error.to_string());
        let grants = Grants { channels: 1, domains: POOLS_MAX as u32, memory_bytes: 1 << 30, ..Grants::default() };
        let (_, top) =
            bed.driver.node.attach("bench", &Role { grants, ..role() }, Box::new(Burn(0))).map_err(failed)?;
        for _ in 0..count {
            let spec = DomainSpec { title: "member".into(), ..DomainSpec::default() };
            let created = bed.driver.turn(0, |node, turn| node.with_os(turn, top, |os| os.domain_create(top, &spec)));
            let domain = created.map_err(failed)?;
            bed.add(domain)?;
        }
        Ok(bed)
    }

    fn empty(policy: Policy) -> Bed {
        let link = Link::Ethernet { mac: Mac([2, 0, 0, 0, 0, 1]), answers: true };
        let addresses = vec![(Addr::v4(HERE), Prefix::host(Addr::v4(HERE)))];
        let mut node = Node::new(NodeConfig {
            name: "bench".into(),
            ports: vec![Port {
                name: "if0".into(),
                link,
                addresses,
                mtu: 1500,
                bits_per_second: 0,
                ceiling: Ceiling::NONE,
            }],
            neighbours: Vec::new(),
            routes: Arc::new(Routes::default()),
            roles: Arc::default(),
            sizes: Sizes { state_entries: 64, ..Sizes::default() },
            seed: 1,
            kernel: false,
        });
        node.set_scheduler(policy, 0);
        let mut driver = Driver::new(node);
        driver.out.pool = FramePool::new(2048, 512);
        let began = thread_cpu();
        Bed {
            driver,
            datagram: datagram(PORTS),
            domains: vec![],
            batch: vec![],
            began,
            skipped: 0,
            spent: Spent::default(),
        }
    }

    /// Gives a domain the channel of the next UDP port.
    fn add(&mut self, domain: DomainId) -> Result<(), Error> {
        let port = PORTS + self.domains.len() as u16;
        let spec = ChanSpec {
            protocol: "if0/ip/udp".into(),
            address: format!("*:{port}"),
            net: NetSpec::default(),
            ..ChanSpec::default()
        };
        let created =
            self.driver.turn(0, |node, turn| node.with_os(turn, domain, |os| os.inchan_create(domain, &spec)));
        created.map_err(|error| Error::Node(error.to_string()))?;
        self.driver.out.effects.clear();
        self.domains.push(domain);
        Ok(())
    }

    /// The node's time.
    pub(super) fn now(&self) -> u64 {
        thread_cpu() - self.began + self.skipped
    }

    /// The time if each datagram takes a microsecond: what a clock costs is not to be measured.
    #[inline]
    pub(super) fn now_cheap(&mut self) -> u64 {
        self.skipped += 1000;
        self.skipped
    }

    /// Lets time pass in which nobody has work.
    pub(super) fn skip(&mut self, nanoseconds: u64) {
        self.skipped += nanoseconds;
    }

    /// So many datagrams come for each of these domains and are read and taken in, at a cost that the node is told; the time afterwards.
    pub(super) fn take_in(&mut self, members: &[(usize, usize)], now: u64) -> u64 {
        let mut batch = core::mem::take(&mut self.batch);
        for (member, count) in members {
            batch.extend((0..*count).map(|_| self.datagram_for(*member)));
        }
        let count = batch.len();
        self.driver.turn(now, |node, turn| node.receive_all(turn, &mut batch));
        self.batch = batch;
        let after = self.now();
        self.spent.taking_in += after - now;
        self.driver.node.received(count, after - now);
        after
    }

    /// Runs packets until the port has its turn, which has more or not, and says how many were of this domain, and the time. As the
    /// node's worker, it reads its clock once for a packet, so what is between two packets is the second one's.
    pub(super) fn round(&mut self, received: u64, is_busy: bool, member: usize, mut now: u64) -> (u64, u64) {
        let (mut round, mut of_member) = (Round::behind(received, is_busy), 0);
        while let Some(ran) = self.driver.turn(now, |node, turn| node.run_next(turn)) {
            let began = core::mem::replace(&mut now, self.now());
            self.spent.running += now - began;
            if ran.domain() == self.domains[member] {
                of_member += 1;
                self.spent.of_member += now - began;
            }
            self.driver.node.ran(ran, now - began, now);
            if !round.goes_on(1, now - began) {
                break;
            }
        }
        self.driver.timer_if_due(now);
        (of_member, now)
    }

    /// A datagram comes for a domain.
    #[inline]
    pub(super) fn feed(&mut self, member: usize, now: u64) {
        let frame = self.datagram_for(member);
        self.driver.receive(now, frame);
    }

    /// The same with a number by which events are told of it; 0: none are.
    #[inline]
    pub(super) fn feed_numbered(&mut self, member: usize, now: u64, trace: u64) {
        let mut frame = self.datagram_for(member);
        frame.trace = trace;
        self.driver.receive(now, frame);
    }

    /// Whether events are told of packets with a number.
    pub(super) fn trace(&mut self, on: bool) {
        (self.driver.out.traced, self.driver.out.sampled) = (on, on);
    }

    /// Tells the events since the last time.
    pub(super) fn tell_events(&mut self, teller: &mut Teller) {
        for event in self.driver.out.events.drain(..) {
            of_event(self.skipped, &event, |head, bytes, behind| teller.tell(head, bytes, behind));
        }
    }

    /// Events that one packet is told with, where all are.
    pub(super) fn events_of_one(&mut self, member: usize) -> usize {
        let now = self.now_cheap();
        (self.driver.out.traced, self.driver.out.sampled) = (true, false);
        self.feed(member, now);
        self.run_at(now, 100);
        self.trace(false);
        self.driver.out.events.drain(..).count()
    }

    /// Does so often what the node does where it would tell an event.
    #[inline]
    pub(super) fn would_tell(&mut self, times: usize) {
        let out = &mut self.driver.out;
        for _ in 0..times {
            // The flag is read from memory each time, as the node does. Nothing else is: a pointer that goes through memory too costs more
            // than the branch.
            std::hint::black_box(());
            if out.traced && !out.sampled {
                out.events.clear();
            }
        }
    }

    /// A slice of a survey; whether it is done.
    pub(super) fn survey(&mut self, survey: &mut Survey, is_over: impl FnMut() -> bool) -> bool {
        self.driver.node.survey(survey, &self.driver.out.frames, is_over)
    }

    #[inline]
    fn datagram_for(&mut self, member: usize) -> Frame {
        let mut frame = self.driver.out.pool.take();
        frame.fill(&self.datagram);
        if let Some(port) = frame.bytes_mut().get_mut(PORT_AT..PORT_AT + 2) {
            port.copy_from_slice(&(PORTS + member as u16).to_be_bytes());
        }
        frame.port = PortId(0);
        frame
    }

    /// Runs the packet whose turn it is, at what it costs by the node's clock; the time afterwards.
    pub(super) fn run(&mut self, now: u64) -> Option<u64> {
        let ran = self.driver.turn(now, |node, turn| node.run_next(turn))?;
        let after = self.now();
        self.driver.node.ran(ran, after - now, after);
        Some(after)
    }

    /// The same at a cost that is given.
    #[inline]
    pub(super) fn run_at(&mut self, now: u64, cost: u64) -> bool {
        let Some(ran) = self.driver.turn(now, |node, turn| node.run_next(turn)) else { return false };
        self.driver.node.ran(ran, cost, now + cost);
        true
    }

    /// CPU time that each domain had.
    pub(super) fn cpu(&self) -> Vec<u64> {
        self.domains.iter().map(|id| self.driver.node.usage(*id).map_or(0, |usage| usage.cpu_ns)).collect()
    }

    /// Packets that came for a domain.
    pub(super) fn packets(&self, member: usize) -> u64 {
        self.driver.node.usage(self.domains[member]).map_or(0, |usage| usage.packets)
    }

    /// Deadlines that a domain has missed.
    pub(super) fn missed(&self, member: usize) -> u64 {
        self.driver.node.missed_deadlines(self.domains[member])
    }

    /// Packets dropped for whatever reason.
    pub(super) fn dropped(&self) -> u64 {
        self.driver.node.drops().total()
    }
}

fn role() -> Role {
    Role::anyone(Limits { packets_per_second: u64::MAX >> 32, ..Limits::default() })
}

fn datagram(port: u16) -> Vec<u8> {
    let payload = 32;
    let link = ethernet::Repr {
        destination: Mac([2, 0, 0, 0, 0, 1]),
        source: Mac([2, 0, 0, 0, 0, 2]),
        tag: None,
        ethertype: ethernet::ethertype::IPV4,
    };
    let ip = ipv4::Repr::new(THERE, HERE, udp::IP_PROTOCOL, 64, udp::HEADER + payload);
    let datagram = udp::Repr { source_port: 9, destination_port: port, payload_len: payload };
    let (begin, middle) = (ethernet::HEADER, ethernet::HEADER + ip.header_len());
    let mut bytes = vec![0; middle + udp::HEADER + payload];
    // All three have room; a frame cut short would be found by nobody.
    let _ = link.emit(&mut bytes).and(ip.emit(&mut bytes[begin..])).and(datagram.emit(&mut bytes[middle..]));
    bytes
}
