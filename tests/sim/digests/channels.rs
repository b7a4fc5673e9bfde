//! Datagrams through the channels of domains in simulated nodes: a relay in the middle, an echo at the end.
//!
//! Frames are put on the first link as a host would: for the relay's channel, for nobody's port, with a wrong sum, cut short.

use super::recorder::Events;
use anode::node::hosts::InProcess;
use anode::nodeos::interface::{ChanSpec, DomainId, NodeOs, OutChanId, Upcall};
use anode::schedule::Policy;
use anode::sim::{Carries, Line, MS, Network, SECOND, Shape, Simulation};
use anode::trust::Role;
use anode::trust::grants::Grants;
use anode::trust::limits::Limits;
use anode::wire::ethernet::{self, Mac, ethertype};
use anode::wire::{ipv4, udp};
use std::cell::Cell;
use std::sync::{Arc, Mutex};

type Run = (&'static str, fn(u64) -> Events);

pub const CHANNELS: &[Run] = &[("channels-fifo", fifo), ("channels-wfq-and-a-budget", fair)];

const RELAY: &str = "172.16.0.2:5000";
const RELAY_BACK: &str = "172.16.0.5:5001";
const ECHO: &str = "172.16.0.6:7000";

/// Sends what comes on, changed a little, and says what came.
struct Passer {
    out: Arc<Mutex<Option<OutChanId>>>,
    told: Arc<Mutex<Vec<String>>>,
}

impl InProcess for Passer {
    fn upcall(&mut self, os: &mut dyn NodeOs, domain: DomainId, upcall: Upcall) {
        let Upcall::Packet { mut frame, .. } = upcall else { return };
        self.told.lock().unwrap().push(format!("{} upcall {}", os.time_now(), hex::encode(frame.bytes())));
        frame.bytes_mut().make_ascii_uppercase();
        let Some(out) = *self.out.lock().unwrap() else { return os.packet_free(domain, frame) };
        if let Err((frame, error)) = os.outchan_send(out, None, frame) {
            self.told.lock().unwrap().push(format!("{} refused {}", os.time_now(), error.name()));
            os.packet_free(domain, frame);
        }
    }
}

/// An environment at a node with one channel in and perhaps one out.
fn passer(
    sim: &mut Simulation,
    node: usize,
    role: &Role,
    ways: (&str, &str),
    out: Option<(&str, &str)>,
) -> Arc<Mutex<Vec<String>>> {
    let told = Arc::new(Mutex::new(Vec::new()));
    let channel = Arc::new(Mutex::new(None));
    let environment = Passer { out: channel.clone(), told: told.clone() };
    let spec = |(protocol, address): (&str, &str)| ChanSpec {
        protocol: protocol.into(),
        address: address.into(),
        ..ChanSpec::default()
    };
    sim.with_node(node, |node, turn| {
        let (_, domain) = node.attach("passer", role, Box::new(environment)).unwrap();
        node.with_os(turn, domain, |os| {
            os.inchan_create(domain, &spec(ways)).unwrap();
            *channel.lock().unwrap() = out.map(|out| os.outchan_create(domain, &spec(out)).unwrap());
        })
    })
    .unwrap();
    told
}

fn datagram(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; ethernet::HEADER + ipv4::HEADER + udp::HEADER];
    bytes.extend_from_slice(payload);
    let header = ethernet::Repr {
        destination: Mac([2, 0, 0, 0, 1, 0xa1]),
        source: Mac([2, 0, 0, 0, 0, 0xa1]),
        tag: None,
        ethertype: ethertype::IPV4,
    };
    let (from, to) = ([172, 16, 0, 1], [172, 16, 0, 2]);
    header.emit(&mut bytes).unwrap();
    let ip = ipv4::Repr::new(from, to, udp::IP_PROTOCOL, 64, udp::HEADER + payload.len());
    ip.emit(&mut bytes[ethernet::HEADER..]).unwrap();
    let datagram = udp::Repr { source_port: 9, destination_port: port, payload_len: payload.len() };
    datagram.emit(&mut bytes[ethernet::HEADER + ipv4::HEADER..]).unwrap();
    bytes
}

fn run(seed: u64, policy: Policy, packets_per_second: u64) -> Events {
    let line = Line { carries: Carries::Ethernet, loss: 0.02, ..Line::default() };
    let role = Role {
        grants: Grants { bandwidth: 1 << 30, ..Grants::of_node() },
        ..Role::anyone(Limits { packets_per_second, ..Limits::default() })
    };
    let network = Network::new(Shape::Line { nodes: 3 }, line, seed).unwrap();
    let mut sim = Simulation::new(network, seed).unwrap();
    let events = Events::watch(&mut sim);
    for node in 0..3 {
        sim.with_node(node, |node, turn| node.set_scheduler(policy, turn.now)).unwrap();
    }
    let relay = passer(&mut sim, 1, &role, ("if0/ip/udp", RELAY), Some(("if1/ip/udp", "*:5000 -> 172.16.0.6:7000")));
    let back = passer(&mut sim, 1, &role, ("if1/ip/udp", RELAY_BACK), None);
    let echo = passer(&mut sim, 2, &role, ("if0/ip/udp", ECHO), Some(("if0/ip/udp", "*:7000 -> 172.16.0.5:5001")));
    let count = Cell::new(0u64);
    for burst in 0..6 + seed {
        for _ in 0..4 + 7 * burst {
            let number = count.replace(count.get() + 1);
            let mut frame = datagram(5000, format!("packet {number} of seed {seed}").as_bytes());
            match number % 13 {
                5 => frame = datagram(5999, b"nobody's"),
                7 => frame[ethernet::HEADER + 10] ^= 1,
                9 => frame.truncate(ethernet::HEADER + 15 + seed as usize),
                11 => frame = datagram(5000, &vec![b'x'; 1400]),
                _ => {}
            }
            sim.put_frame(0, 0, &frame);
        }
        sim.run_for(20 * MS);
    }
    sim.run_for(5 * SECOND);
    for (node, told) in [(1, relay), (1, back), (2, echo)] {
        told.lock().unwrap().iter().for_each(|line| events.push(node, line));
    }
    events.finish(&mut sim)
}

fn fifo(seed: u64) -> Events {
    run(seed, Policy::Fifo, 1_000_000)
}

/// A budget that the bursts exceed.
fn fair(seed: u64) -> Events {
    run(seed, Policy::Wfq, 100)
}
