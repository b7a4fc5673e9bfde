//! A user half: one node, its store and its compiler, and link addresses on request.
#![allow(dead_code)]

use anode::code::bundle::Bundle;
use anode::code::run::wasm::{Backstop, Compiler};
use anode::core::reason::{Drops, Reason};
use anode::core::state_store::{Change, Refused, SharedState, Value};
use anode::driver::{Driver, Outside, Supply};
use anode::frame::{Frame, PeerId, PortId};
use anode::node::wishing::WishedEdit;
use anode::node::{Effect, KernelOrder, Linked, Node, NodeConfig, Shared, Turn};
use anode::trust::Roles;
use anode::wire::ethernet::{self, Mac, ethertype};
use anode::wire::{Addr, Digest, arp, icmp, ipv6};
use std::sync::{Arc, Mutex};

/// What came of frames and of time: all that leaves a node, and its drops.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Went {
    /// Frames, each with its port; questions for link addresses are left out.
    pub frames: Vec<(u16, Vec<u8>)>,
    /// Capsules for applications, each with its application port.
    pub deliveries: Vec<(u16, Vec<u8>)>,
    /// Drops under each reason.
    pub drops: Vec<(Reason, u64)>,
}

/// Who answers on the links: address and link address, by port.
pub type Hosts = &'static [(u16, Addr, Mac)];

/// One user half.
pub struct User {
    driver: Driver,
    supply: Supply,
    hosts: Hosts,
    /// The port's own link addresses.
    macs: [Mac; 2],
    /// The neighbours, if the node has told the kernel half of them since somebody looked.
    pub neighbours: Option<Vec<(PortId, Addr)>>,
    /// Sets of links that the node wants copies to leave by.
    pub links: Vec<u64>,
    /// Codes that the node has taken out of the kernel half.
    pub unlinked: Vec<Digest>,
    drops: Drops,
    went: Went,
}

/// Takes what a node keeps of soft state.
#[derive(Debug, Default)]
struct Recorder(Mutex<Vec<(u64, Value, u32)>>);

impl SharedState for Recorder {
    fn value(&self, _: u64, _: u64) -> Result<Option<Value>, Refused> {
        Ok(None)
    }

    fn change(&self, key: u64, change: Change<'_>, keep_ms: u32, _: u64) -> Result<u64, Refused> {
        let Change::Put(value) = change else { panic!("{change:?} where state moves") };
        self.0.lock().unwrap().push((key, *value, keep_ms));
        Ok(0)
    }

    fn page(&self, _: u64, _: u64) -> Result<anode::core::kept::Page, Refused> {
        Ok(anode::core::kept::Page::default())
    }
}

impl User {
    pub fn new(config: NodeConfig, hosts: Hosts, macs: [Mac; 2]) -> User {
        let node = Node::new(config);
        let drops = node.drops().clone();
        User {
            driver: Driver::new(node),
            supply: Supply::new(Compiler::new(Backstop::FuelOnly).unwrap()),
            hosts,
            macs,
            neighbours: None,
            links: Vec::new(),
            unlinked: Vec::new(),
            drops,
            went: Went::default(),
        }
    }

    /// Puts the objects of a bundle into the store.
    pub fn keep(&mut self, bundle: &Bundle) {
        self.supply.add(bundle);
    }

    /// From now on these roles decide what signed code may.
    pub fn judge(&mut self, node: &str, roles: Roles) {
        self.supply.judge = Some((node.to_owned(), roles));
    }

    /// Edits of graphs that its code wishes for.
    pub fn edits(&mut self) -> &mut Vec<WishedEdit> {
        &mut self.supply.edits
    }

    /// All its counters.
    pub fn status(&mut self) -> anode::node::status::Status {
        self.driver.node.status()
    }

    /// Opens application ports.
    pub fn open(&mut self, ports: &[u16]) {
        for port in ports {
            assert!(self.driver.node.open(*port));
        }
    }

    /// Lets somebody work with the node.
    pub fn control<R>(&mut self, now: u64, work: impl FnOnce(&mut Node, &mut Turn<'_>) -> R) -> R {
        let done = self.driver.turn(now, work);
        self.settle(now);
        done
    }

    /// A frame comes in by a port.
    pub fn put(&mut self, now: u64, port: u16, bytes: &[u8]) {
        let mut frame = Frame::from_bytes(bytes);
        (frame.port, frame.peer) = (PortId(port), PeerId::NONE);
        self.driver.receive(now, frame);
        self.settle(now);
    }

    /// Time goes on.
    pub fn timer(&mut self, now: u64) {
        self.driver.turn(now, |node, turn| node.timer(turn));
        self.settle(now);
    }

    /// The kernel half has heard neighbours.
    pub fn heard(&mut self, now: u64, list: &[(u16, Addr)]) {
        let list: Vec<_> = list.iter().map(|(port, addr)| (PortId(*port), *addr)).collect();
        self.driver.node.heard(now, &list);
    }

    /// What became of all its frames.
    pub fn balance(&self) -> anode::core::ledger::Balance {
        self.driver.node.balance()
    }

    /// Whether a neighbour is known.
    pub fn knows(&self, addr: Addr) -> bool {
        self.driver.node.status().neighbours.iter().any(|known| known.addr == addr)
    }

    /// What the kernel half made of a code.
    pub fn linked(&mut self, now: u64, code: Digest, result: Linked) {
        self.driver.turn(now, |node, turn| node.linked(turn, code, result));
        self.driver.out.effects.clear();
    }

    /// What came of it all since the last call.
    pub fn take(&mut self) -> Went {
        let (before, after) = (self.drops.clone(), self.driver.node.drops().clone());
        let moved = |reason: &Reason| {
            let count = after.of(*reason) - before.of(*reason);
            (count > 0).then_some((*reason, count))
        };
        self.went.drops = Reason::ALL.iter().filter_map(moved).collect();
        self.drops = after;
        // One that had to wait for a link address comes behind those with another next hop: that of the other family.
        self.went.frames.sort_by_key(|(port, bytes)| (*port, bytes[12]));
        core::mem::take(&mut self.went)
    }

    /// Takes away what the node's own table keeps for a code: key, value, milliseconds left; by key.
    pub fn drain_state(&mut self, now: u64, code: Digest) -> Vec<(u64, Value, u32)> {
        let recorder = Arc::new(Recorder::default());
        self.linked(now, code, Ok(Shared { state: recorder.clone(), account: None, records: None }));
        let mut entries = core::mem::take(&mut *recorder.0.lock().unwrap());
        entries.sort_unstable();
        entries
    }

    /// What code has written into the log: tag and value.
    pub fn log(&self) -> Vec<(u32, u64)> {
        self.driver.node.log().into_iter().map(|line| (line.tag, line.value)).collect()
    }

    /// What the domain of a code has used.
    pub fn usage(&self, code: Digest) -> Option<anode::core::domain::Usage> {
        let name = code.to_string();
        self.driver.node.status().codes.into_iter().find(|known| known.name == name)?.usage
    }

    /// Carries effects out and answers questions until there are none.
    fn settle(&mut self, now: u64) {
        loop {
            self.carry_out(now);
            let questions: Vec<_> = self.sort_frames();
            if questions.is_empty() {
                break;
            }
            for (port, asked) in questions {
                if let Some(answer) = self.answer(port, asked) {
                    let mut frame = Frame::from_bytes(&answer);
                    (frame.port, frame.peer) = (PortId(port), PeerId::NONE);
                    self.driver.receive(now, frame);
                }
            }
        }
        let deliveries = self.driver.out.deliveries.drain(..);
        self.went.deliveries.extend(deliveries.map(|delivery| (delivery.port, delivery.frame.bytes().to_vec())));
    }

    fn carry_out(&mut self, now: u64) {
        let User { driver, supply, neighbours, links, unlinked, .. } = self;
        driver.answer_by(now, |driven, effect| match effect {
            Effect::Kernel(KernelOrder::Neighbours(list)) => *neighbours = Some(list),
            Effect::Kernel(KernelOrder::Links(wanted)) => links.push(wanted),
            Effect::Kernel(KernelOrder::Unlink(code)) => unlinked.push(code),
            other => supply.effect(driven, other),
        });
    }

    /// Takes the frames that leave, and gives the questions among them: port, and whom they are after.
    fn sort_frames(&mut self) -> Vec<(u16, Addr)> {
        let mut questions = vec![];
        for frame in self.driver.out.frames.drain(..) {
            let (port, bytes) = (frame.port.0, frame.bytes());
            let parsed = ethernet::FrameView::new_checked(bytes).unwrap();
            let payload = parsed.payload();
            match parsed.ethertype() {
                ethertype::ARP => questions.push((port, Addr::v4(arp::Repr::parse(payload).unwrap().target_ip))),
                ethertype::IPV6 if payload[6] == icmp::IP_PROTOCOL_V6 => {
                    questions.push((port, Addr(*payload[ipv6::HEADER + 8..].first_chunk().unwrap())));
                }
                _ => self.went.frames.push((port, bytes.to_vec())),
            }
        }
        questions
    }

    /// The answer of the host that is asked for, if it is there.
    fn answer(&self, port: u16, asked: Addr) -> Option<Vec<u8>> {
        let (_, _, mac) = *self.hosts.iter().find(|(at, addr, _)| (*at, *addr) == (port, asked))?;
        let own = self.macs[usize::from(port)];
        let ours = |addr: Addr| super::own(port, addr.is_v4());
        let ethertype = if asked.is_v4() { ethertype::ARP } else { ethertype::IPV6 };
        let header = ethernet::Repr { destination: own, source: mac, tag: None, ethertype };
        let mut bytes = vec![0; 14];
        header.emit(&mut bytes).unwrap();
        if let Some(sender_ip) = asked.bytes_v4() {
            let operation = arp::Operation::Reply;
            let target_ip = ours(asked).bytes_v4()?;
            let reply = arp::Repr { operation, sender_mac: mac, sender_ip, target_mac: own, target_ip };
            bytes.resize(14 + arp::LENGTH, 0);
            reply.emit(&mut bytes[14..]).unwrap();
        } else {
            let (target, target_mac) = (asked, Some(mac));
            let advert =
                icmp::V6::Advertisement { target, target_mac, router: false, solicited: true, overrides: true };
            bytes.resize(14 + ipv6::HEADER + advert.len(), 0);
            let ip = ipv6::Repr::new(asked, ours(asked), icmp::IP_PROTOCOL_V6, 255, advert.len());
            ip.emit(&mut bytes[14..]).unwrap();
            advert.emit(&mut bytes[14 + ipv6::HEADER..], asked, ours(asked)).unwrap();
        }
        Some(bytes)
    }
}
