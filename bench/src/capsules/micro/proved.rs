//! A capsule of neighbours with proofs, beside one without: the cost of the codes (`keys`, docs/trust.md).
//!
//! A second node, at the other end of the link, makes the incoming packets, since each needs a counter and a code of
//! its own. There are as many as a replay window is long; then the node's windows begin anew. That is part of the
//! figure, and so of the row without proofs, whose packets come from as much memory.

use super::super::super::micro::Micro;
use super::super::super::series::Series;
use super::super::super::{Error, Settings};
use super::{Stand, compiler, config, own};
use crate::guests::{Guests, packet};
use crate::line::{EGRESS, INGRESS};
use anode::frame::{Frame, PeerId, PortId};
use anode::node::proofs::{Demands, Guard, NeighbourKey};
use anode::node::{Node, NodeConfig};
use anode::topology::{Neighbour, NextHop, Routes};
use anode::wire::proof::PROOF;
use anode::wire::{Addr, Prefix};
use std::net::IpAddr;
use std::sync::Arc;

const REGIME: &str = "proofs";
/// What others are compared with.
pub(crate) const BARE: &str = "no proofs";
const IN: &str = "proof in";
const BOTH: &str = "proof in and out";
/// Bytes of the IP packet, without its proof.
const SIZES: [u32; 2] = [128, 1400];
/// Packets that are made beforehand.
const PACKETS: usize = 1024;
/// Nanoseconds between two of them.
const GAP: u64 = 400;
/// The time of both nodes, in nanoseconds since 1970.
const UNIX: u64 = 1_800_000_000_000_000_000;

/// Runs it.
pub(crate) fn run(settings: &Settings, guests: &Guests) -> Result<Series, Error> {
    let mut all = Series::default();
    for size in SIZES {
        let ways = [&[][..], &[ingress()], &[ingress(), egress()]];
        let [mut bare, mut one, mut both] = [0, 1, 2].map(|way| Road::new(guests, size as usize - 28, ways[way]));
        let [bare, one, both] = [bare.as_mut(), one.as_mut(), both.as_mut()];
        let (Ok(bare), Ok(one), Ok(both)) = (bare, one, both) else {
            return Err(Error::Node("the packets of the benchmark were not made".into()));
        };
        let micro = Micro::new(REGIME, Some(size))
            .variant(BARE, || bare.pass())
            .variant(IN, || one.pass())
            .variant(BOTH, || both.pass());
        all.extend(micro.run(settings)?);
        for (road, name) in [(bare, BARE), (one, IN), (both, BOTH)] {
            if road.lost > 0 {
                return Err(Error::Node(format!("{} capsules of \"{name}\" were dropped", road.lost)));
            }
        }
    }
    Ok(all)
}

fn ingress() -> Addr {
    Addr::from(IpAddr::V4(INGRESS.peer))
}

fn egress() -> Addr {
    Addr::from(IpAddr::V4(EGRESS.peer))
}

/// Keys of these neighbours.
fn guard(neighbours: &[Addr]) -> Guard {
    let key = |(at, addr): (usize, &Addr)| NeighbourKey {
        port: PortId(0),
        addr: *addr,
        id: at as u32 + 1,
        secret: [at as u8 + 1; 32],
    };
    let keys = neighbours.iter().enumerate().map(key).collect();
    Guard { demands: vec![Demands::default()], keys, unix_ns: UNIX, ..Guard::default() }
}

/// A node, and packets for it.
struct Road {
    stand: Stand,
    packets: Vec<Vec<u8>>,
    at: usize,
    spare: Option<Frame>,
    guard: Option<Guard>,
    lost: u64,
}

impl Road {
    /// A node with keys of these neighbours, the one that packets come from first.
    fn new(guests: &Guests, length: usize, keyed: &[Addr]) -> Result<Road, Error> {
        let mut stand = Stand::new(&guests.forward)?;
        let plain = packet(&guests.forward, length);
        let guard = (!keyed.is_empty()).then(|| guard(keyed));
        let packets = if guard.is_some() { proved(guests, &plain)? } else { vec![plain; PACKETS] };
        if let Some(guard) = &guard {
            stand.driver.node.set_guard(0, guard.clone());
        }
        Ok(Road { stand, packets, at: 0, spare: Some(Frame::with_capacity(2048)), guard, lost: 0 })
    }

    /// One capsule through the node.
    #[inline]
    fn pass(&mut self) {
        if self.at == self.packets.len() {
            self.at = 0;
            if let Some(guard) = &self.guard {
                self.stand.driver.node.forget_proofs();
                self.stand.driver.node.set_guard(0, guard.clone());
            }
        }
        let mut frame = self.spare.take().unwrap_or_else(|| Frame::with_capacity(2048));
        frame.fill(&self.packets[self.at]);
        (frame.port, frame.peer) = (PortId(0), PeerId(0));
        self.at += 1;
        let Stand { driver, now, .. } = &mut self.stand;
        *now += GAP;
        driver.receive(*now, frame);
        self.spare = driver.out.frames.pop();
        self.lost += u64::from(self.spare.is_none());
    }
}

/// Packets as the node at the other end sends them on.
fn proved(guests: &Guests, plain: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
    let NodeConfig { mut ports, neighbours, .. } = config();
    if let Some(port) = ports.first_mut() {
        port.addresses = vec![(ingress(), Prefix::new(ingress(), 96 + 24))];
        port.mtu = 1452 + PROOF;
    }
    let neighbour = |addr, peer| Neighbour { addr, port: PortId(0), peer: PeerId(peer) };
    let way = NextHop { port: PortId(0), via: own() };
    let routes = Arc::new(Routes::new(neighbours.iter().map(|known| (Prefix::host(known.addr), way))));
    let neighbours = vec![neighbour(Addr::v4([192, 0, 2, 77]), 0), neighbour(own(), 1)];
    let mut sender = Stand::new(&guests.forward)?;
    sender.driver.node = Node::new(NodeConfig { ports, neighbours, routes, ..config() });
    sender.load(&guests.forward, &compiler()?)?;
    sender.driver.node.set_guard(0, guard(&[own()]));
    let made = (0..PACKETS).map(|_| {
        let mut frame = Frame::with_capacity(2048);
        frame.fill(plain);
        (frame.port, frame.peer) = (PortId(0), PeerId(0));
        sender.now += GAP;
        sender.driver.receive(sender.now, frame);
        sender.driver.out.frames.pop().map(|frame| frame.bytes().to_vec())
    });
    let made: Option<Vec<_>> = made.collect();
    made.filter(|made| made.iter().all(|packet| packet.len() == plain.len() + PROOF))
        .ok_or_else(|| Error::Node("a node with keys did not send on what came".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capsules_with_proofs_pass_again_and_again() {
        let Ok(guests) = Guests::build() else {
            println!("SKIPPED: no clang");
            return;
        };
        for keyed in [&[][..], &[ingress()], &[ingress(), egress()]] {
            let mut road = Road::new(&guests, 100, keyed).unwrap();
            (0..3 * PACKETS).for_each(|_| road.pass());
            assert_eq!(road.lost, 0, "{keyed:?}");
        }
    }
}
