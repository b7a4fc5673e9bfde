//! A node with many domains, each with channels of its own, without I/O.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::mpsc::channel;

use crate::Error;
use anode::driver::{Driven, Driver};
use anode::frame::{Frame, Link as Medium, PeerId, PortId};
use anode::manage::worker::crew::{Link, Way, between};
use anode::node::hosts::InProcess;
use anode::node::workers::Joint;
use anode::node::{Node, NodeConfig, Sizes, Turn};
use anode::nodeos::interface::{self, ChanSpec, DomainId, DomainSpec, NodeOs, OutChanId, Upcall};
use anode::schedule::Policy;
use anode::sys::poll::Waker;
use anode::topology::{Ceiling, Port, Routes};
use anode::trust::Role;
use anode::trust::grants::Grants;
use anode::trust::limits::Limits;
use anode::wire::ethernet::{self, Mac, ethertype};
use anode::wire::{Addr, Prefix, arp, ipv4, udp};

/// Nanoseconds between two packets.
const GAP: u64 = 400;
/// The UDP port of the first domain.
const FIRST: u16 = 5000;
/// Bytes of the headers in front of a payload.
const HEADERS: usize = ethernet::HEADER + ipv4::HEADER + udp::HEADER;

/// Packets that a port hands over at once when it is busy.
pub(super) const BATCH: usize = 32;

const FAR: [u8; 4] = [10, 0, 1, 2];
const FAR_MAC: Mac = Mac([2, 0, 0, 0, 1, 2]);

/// No channel.
const NONE: u32 = u32::MAX;

/// Sends every payload on by the channel of its domain.
struct Relay {
    outs: Vec<u32>,
}

impl InProcess for Relay {
    fn upcall(&mut self, os: &mut dyn NodeOs, domain: DomainId, upcall: Upcall) {
        let Upcall::Packet { frame, .. } = upcall else { return };
        let out = self.outs.get(domain.index()).copied().unwrap_or(NONE);
        if let Err((frame, _)) = os.outchan_send(OutChanId(out), None, frame) {
            os.packet_free(domain, frame);
        }
    }
}

/// The node, and a packet for each of its domains.
pub(crate) struct Stand {
    driver: Driver,
    now: u64,
    top: DomainId,
    packet: Vec<u8>,
    frame: Option<Frame>,
    /// Packets that come together.
    batch: Vec<Frame>,
    /// Frames for the next ones.
    spare: Vec<Frame>,
    domains: usize,
    /// Steps through the domains without an order that a cache could follow.
    next: usize,
    step: usize,
    queues: bool,
    lost: u64,
}

impl Stand {
    pub(crate) fn new(policy: Policy, domains: usize, size: usize) -> Result<Stand, Error> {
        Stand::of(Node::new(config()), policy, domains, size)
    }

    fn of(node: Node, policy: Policy, domains: usize, size: usize) -> Result<Stand, Error> {
        let mut stand = Stand {
            driver: Driver::new(node),
            now: 1,
            top: DomainId(0),
            packet: packet(size),
            frame: Some(Frame::from_bytes(&[])),
            batch: Vec::with_capacity(BATCH),
            spare: (0..BATCH).map(|_| Frame::from_bytes(&[])).collect(),
            domains,
            next: 0,
            step: coprime(domains),
            queues: policy.waits(),
            lost: 0,
        };
        stand.turn(|node, turn| node.set_scheduler(policy, turn.now));
        let attached = stand.turn(|node, _| node.attach("relay", &role(), Box::new(Relay { outs: Vec::new() })));
        let (_, top) = attached.map_err(failed)?;
        stand.top = top;
        let mut outs = Vec::new();
        for at in 0..domains {
            let (domain, out) = stand.found(FIRST + at as u16).map_err(failed)?;
            outs.resize(outs.len().max(domain.index() + 1), NONE);
            outs[domain.index()] = out.0;
        }
        stand.turn(|node, _| node.replace_environment(top, Box::new(Relay { outs })));
        stand.learn()?;
        Ok(stand)
    }

    fn turn<R>(&mut self, work: impl FnOnce(&mut Node, &mut Turn<'_>) -> R) -> R {
        let result = self.driver.turn(self.now, work);
        self.driver.out.effects.clear();
        result
    }

    /// A domain with its two channels.
    fn found(&mut self, port: u16) -> Result<(DomainId, OutChanId), interface::Error> {
        let top = self.top;
        self.turn(|node, turn| {
            node.with_os(turn, top, |os| {
                let spec = DomainSpec { title: "one of many".into(), ..DomainSpec::default() };
                let domain = os.domain_create(top, &spec)?;
                let channel = |protocol: &str, address: String| ChanSpec {
                    protocol: protocol.into(),
                    address,
                    ..ChanSpec::default()
                };
                os.inchan_create(domain, &channel("if0/ip/udp", format!("10.0.0.1:{port}")))?;
                let out = os.outchan_create(domain, &channel("if1/ip/udp", format!("*:{port} -> 10.0.1.2:7000")))?;
                Ok((domain, out))
            })
        })
    }

    /// A domain with channels, a pool and events, which no packet is for.
    pub(super) fn furnish(&mut self) -> Result<DomainId, Error> {
        let (domain, _) = self.found(4000).map_err(failed)?;
        let scheduled = self.turn(|node, turn| {
            node.with_os(turn, domain, |os| {
                (0..8).try_for_each(|at| os.event_schedule(domain, 1000 + at, at).map(drop))
            })
        });
        scheduled.map(|()| domain).map_err(failed)
    }

    pub(super) fn end(&mut self, domain: DomainId) -> Result<(), Error> {
        let top = self.top;
        self.turn(|node, turn| node.with_os(turn, top, |os| os.domain_terminate(domain))).map_err(failed)
    }

    /// The next hop's link address is known before anything is measured.
    fn learn(&mut self) -> Result<(), Error> {
        self.pass();
        let reply = arp::Repr {
            operation: arp::Operation::Reply,
            sender_mac: FAR_MAC,
            sender_ip: FAR,
            target_mac: mac(1),
            target_ip: [10, 0, 1, 1],
        };
        let header = ethernet::Repr { destination: mac(1), source: FAR_MAC, tag: None, ethertype: ethertype::ARP };
        let mut bytes = vec![0; ethernet::HEADER + arp::LENGTH];
        let written = header.emit(&mut bytes).and_then(|length| reply.emit(&mut bytes[length..]));
        written.map_err(|error| Error::Node(format!("no ARP reply: {error:?}")))?;
        let mut frame = Frame::from_bytes(&bytes);
        (frame.port, frame.peer) = (PortId(1), PeerId::NONE);
        self.turn(|node, turn| node.receive(turn, frame));
        self.driver.out.frames.clear();
        self.frame = Some(Frame::from_bytes(&[]));
        self.lost = 0;
        (0..2 * self.domains).for_each(|_| self.pass());
        self.balanced()
    }

    /// One packet through the node, for another domain each time.
    #[inline]
    pub(crate) fn pass(&mut self) {
        let mut frame = self.frame.take().unwrap_or_else(|| self.driver.out.pool.take());
        self.fill(&mut frame);
        self.now += GAP;
        let Driven { node, mut turn } = self.driver.at(self.now);
        node.receive(&mut turn, frame);
        if self.queues
            && let Some(ran) = node.run_next(&mut turn)
        {
            node.ran(ran, GAP / 4, self.now);
        }
        match self.driver.out.frames.pop() {
            Some(frame) => self.frame = Some(frame),
            None => self.lost += 1,
        }
    }

    /// One packet more of a batch; when that is complete it goes through the node, as a worker hands it over.
    #[inline]
    pub(super) fn pass_in_batch(&mut self) {
        let mut frame = self.spare.pop().unwrap_or_else(|| self.driver.out.pool.take());
        self.fill(&mut frame);
        self.batch.push(frame);
        if self.batch.len() == BATCH {
            self.pass_batch();
        }
    }

    fn pass_batch(&mut self) {
        self.now += GAP * BATCH as u64;
        let Driven { node, mut turn } = self.driver.at(self.now);
        node.receive_all(&mut turn, &mut self.batch);
        while self.queues
            && let Some(ran) = node.run_next(&mut turn)
        {
            node.ran(ran, GAP / 4, self.now);
        }
        self.lost += (BATCH - self.driver.out.frames.len().min(BATCH)) as u64;
        self.spare.append(&mut self.driver.out.frames);
    }

    /// The next domain's packet.
    #[inline]
    fn fill(&mut self, frame: &mut Frame) {
        let port = FIRST + self.next as u16;
        self.next += self.step;
        if self.next >= self.domains {
            self.next -= self.domains;
        }
        self.packet[ethernet::HEADER + ipv4::HEADER + 2..][..2].copy_from_slice(&port.to_be_bytes());
        frame.fill(black_box(&self.packet));
        (frame.port, frame.peer) = (PortId(0), PeerId::NONE);
    }

    pub(crate) fn balanced(&self) -> Result<(), Error> {
        match self.lost {
            0 => Ok(()),
            lost => Err(Error::Node(format!("{lost} packets of the benchmark were dropped"))),
        }
    }
}

/// Two workers of a node: packets come to the second, and their domains are at the first.
pub(crate) struct Two {
    other: Driver,
    home: Stand,
    /// Each worker, as the other one sees it.
    links: (Link, Link),
}

impl Two {
    pub(crate) fn new(policy: Policy, domains: usize, size: usize) -> Result<Two, Error> {
        let joint = Joint::new(2, 64);
        let mut nodes = [1, 0].map(|id| {
            let mut node = Node::new(config());
            node.set_worker(id, joint.clone());
            node
        });
        nodes[0].set_scheduler(policy, 1);
        let [other, home] = nodes;
        let way = || -> Result<Way, Error> {
            let waker = Waker::new().map_err(|error| Error::Node(error.to_string()))?;
            Ok(Way { orders: channel().0, waker })
        };
        let links = between((1, way()?), (0, way()?));
        Ok(Two { other: Driver::new(other), home: Stand::of(home, policy, domains, size)?, links })
    }

    /// One packet that the second worker hands to the first, for another domain each time.
    #[inline]
    pub(crate) fn pass(&mut self) {
        let Two { other, home, links: (to_home, to_other) } = self;
        let mut frame = home.frame.take().unwrap_or_else(|| other.out.pool.take());
        home.fill(&mut frame);
        home.now += GAP;
        other.receive(home.now, frame);
        while let Some(handed) = other.out.handed.pop() {
            if let Err(handed) = to_home.hand(handed) {
                other.turn(home.now, |node, turn| node.not_handed(turn, handed));
            }
        }
        let mut driven = home.driver.at(home.now);
        to_other.take(&mut driven, &mut |_, _| {});
        if home.queues
            && let Some(ran) = driven.node.run_next(&mut driven.turn)
        {
            driven.node.ran(ran, GAP / 4, home.now);
        }
        to_home.take_back(|frame| other.out.pool.give(frame));
        match home.driver.out.frames.pop() {
            Some(frame) => home.driver.out.pool.give(frame),
            None => home.lost += 1,
        }
    }

    pub(crate) fn balanced(&self) -> Result<(), Error> {
        self.home.balanced()
    }
}

fn failed(error: interface::Error) -> Error {
    Error::Node(error.to_string())
}

fn mac(number: u8) -> Mac {
    Mac([2, 0, 0, 0, 0, number])
}

/// A step that comes by every one of so many places.
fn coprime(count: usize) -> usize {
    fn divisor(a: usize, b: usize) -> usize {
        if b == 0 { a } else { divisor(b, a % b) }
    }
    (1..=count).rev().skip(count * 2 / 5).find(|step| divisor(count, *step) == 1).unwrap_or(1) % count.max(1)
}

fn role() -> Role {
    let grants = Grants { bandwidth: u64::MAX, memory_bytes: 1 << 30, ..Grants::of_node() };
    let limits = Limits {
        packets_per_second: u64::MAX / 1_000_000_000,
        steps_per_second: u64::MAX / 1_000_000_000,
        ..Limits::default()
    };
    Role { grants, ..Role::anyone(limits) }
}

/// A datagram of so many bytes, IP header included.
fn packet(size: usize) -> Vec<u8> {
    let payload = size + ethernet::HEADER - HEADERS;
    let mut bytes = vec![0x55; HEADERS + payload];
    let header = ethernet::Repr { destination: mac(0), source: FAR_MAC, tag: None, ethertype: ethertype::IPV4 };
    let ip = ipv4::Repr::new([10, 0, 0, 9], [10, 0, 0, 1], udp::IP_PROTOCOL, 64, udp::HEADER + payload);
    let datagram = udp::Repr { source_port: 9, destination_port: 0, payload_len: payload };
    // The buffer is as long as these headers and more.
    let _ = header.emit(&mut bytes);
    let _ = ip.emit(&mut bytes[ethernet::HEADER..]);
    let _ = datagram.emit(&mut bytes[ethernet::HEADER + ipv4::HEADER..]);
    bytes
}

fn config() -> NodeConfig {
    let port = |number: u8| Port {
        name: format!("eth{number}"),
        link: Medium::Ethernet { mac: mac(number), answers: false },
        addresses: vec![(Addr::v4([10, 0, number, 1]), Prefix::new(Addr::v4([10, 0, number, 0]), 120))],
        mtu: 1500,
        bits_per_second: 0,
        ceiling: Ceiling::NONE,
    };
    NodeConfig {
        name: "bench".into(),
        ports: vec![port(0), port(1)],
        neighbours: Vec::new(),
        routes: Arc::new(Routes::new([])),
        roles: Arc::default(),
        sizes: Sizes::default(),
        seed: 1,
        kernel: false,
    }
}
