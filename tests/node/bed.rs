//! One node without sockets, driven as by a worker but in virtual time. Taking a packet in has a price, then packets
//! run, each for its own. Environments in the process take the packets of their domains.
#![allow(dead_code)]

use anode::core::domain::Usage;
use anode::core::ledger::Unaccounted;
use anode::driver::Driver;
use anode::frame::{Frame, Link, PeerId, PortId};
use anode::node::hosts::InProcess;
use anode::node::paths::Round;
use anode::node::{Node, NodeConfig, Sizes, Turn};
use anode::nodeos::interface::{ChanSpec, DomainId, InChanId, NetSpec, NodeOs};
use anode::schedule::Policy;
use anode::topology::{Ceiling, Port, Routes};
use anode::trust::{Role, Roles};
use anode::wire::ethernet::{self, Mac};
use anode::wire::{Addr, Prefix, arp, ipv4, udp};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// What it costs to take a packet in, in nanoseconds.
pub const INTAKE: u64 = 100;

/// Frames that a port's ring holds.
const RING: usize = 4096;

/// Frames taken in until packets run: four batches.
const TAKEN: usize = 256;

/// Packets of a flow to a UDP port.
pub struct Source {
    pub port: u16,
    /// Nanoseconds between two of them.
    pub gap: u64,
    pub next: u64,
}

/// The node.
pub struct Bed {
    pub driver: Driver,
    pub now: u64,
    ring: VecDeque<u16>,
    /// Frames that found the ring full.
    pub overrun: u64,
}

impl Bed {
    pub fn new(policy: Policy) -> Bed {
        Bed::with(policy, Roles::default(), false)
    }

    /// The same with roles, and perhaps with a kernel half to speak to.
    pub fn with(policy: Policy, roles: Roles, kernel: bool) -> Bed {
        let port = |number: u8| Port {
            name: format!("eth{number}"),
            link: Link::Ethernet { mac: Mac([2, 0, 0, 0, 0, number]), answers: false },
            addresses: vec![(Addr::v4([10, 0, number, 1]), Prefix::new(Addr::v4([10, 0, number, 0]), 120))],
            mtu: 1500,
            bits_per_second: 0,
            ceiling: Ceiling::default(),
        };
        let mut node = Node::new(NodeConfig {
            name: "bed".into(),
            ports: vec![port(0), port(1)],
            neighbours: Vec::new(),
            routes: Arc::new(Routes::default()),
            roles: Arc::new(roles),
            sizes: Sizes::default(),
            seed: 1,
            kernel,
        });
        node.set_scheduler(policy, 0);
        Bed { driver: Driver::new(node), now: 1, ring: VecDeque::new(), overrun: 0 }
    }

    pub fn turn<R>(&mut self, work: impl FnOnce(&mut Node, &mut Turn<'_>) -> R) -> R {
        self.driver.turn(self.now, work)
    }

    /// A domain in a role, run by an environment of its own.
    pub fn domain(&mut self, role: &Role, environment: Box<dyn InProcess>) -> DomainId {
        self.driver.node.attach("d", role, environment).unwrap().1
    }

    pub fn os<R>(&mut self, caller: DomainId, call: impl FnOnce(&mut dyn NodeOs) -> R) -> R {
        self.turn(|node, turn| node.with_os(turn, caller, |os| call(os)))
    }

    pub fn channel(&mut self, domain: DomainId, port: u16) -> InChanId {
        let net = NetSpec { buffers: u16::MAX, ..NetSpec::default() };
        let (protocol, address) = ("if0/ip/udp".into(), format!("*:{port}"));
        let spec = ChanSpec { protocol, address, net, ..ChanSpec::default() };
        self.os(domain, |os| os.inchan_create(domain, &spec)).unwrap()
    }

    pub fn usage(&self, domain: DomainId) -> Option<Usage> {
        self.driver.node.usage(domain)
    }

    /// A datagram comes in by the first port and is taken in at once.
    pub fn feed(&mut self, port: u16) {
        let frame = datagram(port);
        self.turn(|node, turn| node.receive(turn, frame));
    }

    /// Somebody on a port's link says which link address an address has.
    pub fn say(&mut self, port: u8, who: [u8; 4], mac: Mac) {
        let own = Mac([2, 0, 0, 0, 0, port]);
        let reply = arp::Repr {
            operation: arp::Operation::Reply,
            sender_mac: mac,
            sender_ip: who,
            target_mac: own,
            target_ip: [10, 0, port, 1],
        };
        let ethertype = ethernet::ethertype::ARP;
        let header = ethernet::Repr { destination: own, source: mac, tag: None, ethertype };
        let mut bytes = vec![0; ethernet::HEADER + arp::LENGTH];
        let length = header.emit(&mut bytes).unwrap();
        reply.emit(&mut bytes[length..]).unwrap();
        let mut frame = Frame::from_bytes(&bytes);
        (frame.port, frame.peer) = (PortId(u16::from(port)), PeerId::NONE);
        self.turn(|node, turn| node.receive(turn, frame));
    }

    /// The worker works until a time on what these bring; `cost` is what a domain's packet costs.
    pub fn work(&mut self, sources: &mut [Source], costs: &HashMap<DomainId, u64>, until: u64) {
        while self.now < until {
            self.arrive(sources);
            let mut frames: Vec<_> = self.ring.drain(..self.ring.len().min(TAKEN)).map(datagram).collect();
            let (count, began) = (frames.len(), self.now);
            self.turn(|node, turn| node.receive_all(turn, &mut frames));
            self.now += count as u64 * INTAKE;
            let received = self.now - began;
            self.driver.node.received(count, received);
            let mut round = Round::behind(received, !self.ring.is_empty());
            let mut ran_any = count > 0;
            while let Some(ran) = self.turn(|node, turn| node.run_next(turn)) {
                let cost = costs.get(&ran.domain()).copied().unwrap_or(INTAKE);
                self.now += cost;
                self.driver.node.ran(ran, cost, self.now);
                ran_any = true;
                if !round.goes_on(1, cost) {
                    break;
                }
            }
            self.driver.timer_if_due(self.now);
            self.driver.out.frames.clear();
            if !ran_any {
                self.now = sources.iter().map(|source| source.next).min().unwrap_or(until).max(self.now + 1);
            }
        }
    }

    /// What has come meanwhile is in the port's ring, as far as that has room.
    fn arrive(&mut self, sources: &mut [Source]) {
        while let Some(source) = sources.iter_mut().min_by_key(|source| source.next).filter(|it| it.next <= self.now) {
            source.next += source.gap;
            if self.ring.len() < RING {
                self.ring.push_back(source.port);
            } else {
                self.overrun += 1;
            }
        }
    }
}

/// A datagram of four bytes to a port.
pub fn datagram(port: u16) -> Frame {
    datagram_with(port, &[0; 4])
}

/// The same with this payload.
pub fn datagram_with(port: u16, payload: &[u8]) -> Frame {
    let link = ethernet::Repr {
        destination: Mac([2, 0, 0, 0, 0, 0]),
        source: Mac([2, 0, 0, 0, 0, 9]),
        tag: None,
        ethertype: ethernet::ethertype::IPV4,
    };
    let ip = ipv4::Repr::new([10, 0, 0, 2], [10, 0, 0, 1], udp::IP_PROTOCOL, 64, udp::HEADER + payload.len());
    let mut bytes = vec![0; 14 + 20 + udp::HEADER];
    link.emit(&mut bytes).unwrap();
    ip.emit(&mut bytes[14..]).unwrap();
    let datagram = udp::Repr { source_port: 9, destination_port: port, payload_len: payload.len() };
    datagram.emit(&mut bytes[34..]).unwrap();
    bytes.extend_from_slice(payload);
    let mut frame = Frame::from_bytes(&bytes);
    (frame.port, frame.peer) = (PortId(0), PeerId::NONE);
    frame
}

impl Drop for Bed {
    /// No frame is lost without a counter, whatever the test did.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let node = &self.driver.node;
            assert_eq!(node.unaccounted(&self.driver.out.frames), Unaccounted::default(), "{:?}", node.balance());
        }
    }
}
