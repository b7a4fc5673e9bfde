//! Ports that come and go while the node runs: each has a place, and everything that is counted or bounded by port has
//! one as well.
//!
//! Places only become more. One whose port has gone is vacant until another port comes there, whose counters begin anew.

use super::founding;
use super::{Cx, Node};
use crate::core::ledger::ClosedPorts;
use crate::frame::PortId;
use crate::topology::{Gauge, Port};

/// What is at a place from now on.
#[derive(Clone, Debug)]
pub struct PortPlaced {
    /// The place.
    pub port: PortId,
    /// The port; one of no packets where there is none any more.
    pub is: Port,
}

impl Node {
    /// A port is at its place from now on, as a guard and neighbours come that know it.
    pub(super) fn place_port(&mut self, PortPlaced { port, is }: PortPlaced) {
        let ends = is.is_vacant();
        self.set_port(port, is);
        if ends {
            self.cx.core.topology.neighbours.forget_behind(port);
            if let Some(meter) = self.cx.core.meters.get_mut(usize::from(port.0)) {
                *meter = None;
            }
        }
        self.cx.fit_ports();
    }

    /// Another port begins at a place that was vacant. What the one before has counted stays in the balance.
    pub fn begin_port(&mut self, port: PortId) {
        let core = &mut self.cx.core;
        let Some(gauge) = core.gauges.get_mut(usize::from(port.0)).map(core::mem::take) else { return };
        core.ledger.closed.add(&gauge);
    }
}

impl ClosedPorts {
    fn add(&mut self, gauge: &Gauge) {
        self.received = self.received.wrapping_add(gauge.received);
        self.sent = self.sent.wrapping_add(gauge.gone());
        self.not_ours = self.not_ours.wrapping_add(gauge.not_ours);
    }
}

impl Cx {
    /// Everything that goes by port has a row for each.
    pub(super) fn fit_ports(&mut self) {
        let count = self.core.topology.ports.len();
        let core = &mut self.core;
        if count <= core.gauges.len() {
            return;
        }
        core.gauges.resize_with(count, Gauge::default);
        // All may bring in as much.
        let rate = core.ingress_rate;
        core.ingress.resize_with(count, || founding::ingress_bucket(rate));
        self.order.entry.make_places(&core.topology.ports);
        self.control.alarms.make_room(count);
        self.divide_ingress();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::bucket::TokenBucket;
    use crate::core::reason::Reason;
    use crate::driver::Driver;
    use crate::frame::{Frame, Link, PeerId};
    use crate::node::policy::Amendment;
    use crate::node::proofs::{Demands, Guard};
    use crate::node::workers::Joint;
    use crate::node::{NodeConfig, Sizes};
    use crate::topology::{Ceiling, Neighbour, Routes};
    use crate::wire::{Addr, Prefix};
    use std::sync::Arc;

    fn addr(port: u8, last: u8) -> Addr {
        Addr::v4([10, 0, port, last])
    }

    fn port(number: u8) -> Port {
        Port {
            name: format!("p{number}"),
            link: Link::Overlay,
            addresses: vec![(addr(number, 1), Prefix::new(addr(number, 1), 120))],
            mtu: 1400,
            bits_per_second: 0,
            ceiling: Ceiling::default(),
        }
    }

    fn vacant() -> Port {
        Port { name: String::new(), addresses: vec![], mtu: 0, ..port(0) }
    }

    fn near(number: u8) -> Neighbour {
        Neighbour { addr: addr(number, 2), port: PortId(number.into()), peer: PeerId(0) }
    }

    fn node() -> Node {
        Node::new(NodeConfig {
            name: "n".into(),
            ports: vec![port(0)],
            neighbours: vec![near(0)],
            routes: Arc::new(Routes::default()),
            roles: Arc::default(),
            sizes: Sizes { ingress_packets_per_second: 9, ..Sizes::default() },
            seed: 1,
            kernel: false,
        })
    }

    fn amend(node: &mut Driver, placed: Vec<(u16, Port)>, neighbours: Vec<Neighbour>) {
        let placed = placed.into_iter().map(|(at, is)| PortPlaced { port: PortId(at), is }).collect();
        let amendment = Amendment { placed, neighbours: Some(neighbours), ..Amendment::default() };
        node.turn(1, |node, turn| node.amend(turn, amendment));
    }

    /// Junk from the neighbour of a port: it is dropped there, and counted.
    fn junk(node: &mut Driver, at: u16) {
        let mut frame = Frame::from_bytes(&[0; 40]);
        (frame.port, frame.peer) = (PortId(at), PeerId(0));
        node.turn(1, |node, turn| node.receive_all(turn, &mut vec![frame]));
    }

    #[test]
    fn workers_have_parts_of_a_ceiling_and_the_first_has_all_where_it_alone_lets_packets_in() {
        let joint = Joint::new(2, 64);
        let mut workers = [0, 1].map(|id| {
            let mut node = node();
            node.set_worker(id, joint.clone());
            node
        });
        let rates = |workers: &[Node; 2]| {
            workers
                .each_ref()
                .map(|node| node.cx.core.ingress.iter().flatten().map(TokenBucket::rate).collect::<Vec<_>>())
        };
        assert_eq!(rates(&workers), [[5], [4]]);
        let demands = vec![Demands { mac: true, ..Demands::default() }];
        let guard = Guard { demands, ..Guard::default() };
        workers[0].set_guard(0, guard.clone());
        workers[1].leave_guard(&guard);
        assert_eq!(rates(&workers), [[9], [9]]);
        // One more port, which demands nothing.
        let placed = vec![PortPlaced { port: PortId(1), is: port(1) }];
        let mut first = Driver::new({
            let [first, _] = workers;
            first
        });
        first.turn(1, |node, turn| node.amend(turn, Amendment { placed, ..Amendment::default() }));
        let rates: Vec<_> = first.node.cx.core.ingress.iter().flatten().map(TokenBucket::rate).collect();
        assert_eq!(rates, [9, 5]);
        let rates = Some(Sizes { ingress_packets_per_second: 101, ..Sizes::default() });
        first.turn(1, |node, turn| node.amend(turn, Amendment { rates, ..Amendment::default() }));
        let rates: Vec<_> = first.node.cx.core.ingress.iter().flatten().map(TokenBucket::rate).collect();
        assert_eq!(rates, [101, 51]);
    }

    #[test]
    fn every_port_that_comes_has_rows_of_its_own_and_leaves_the_balance_right() {
        let mut all = Driver::new(node());
        amend(&mut all, vec![(1, port(1)), (2, port(2))], vec![near(0), near(1), near(2)]);
        (0..3).for_each(|at| junk(&mut all, at));
        let status = all.node.status();
        assert_eq!(status.ports.iter().map(|port| port.gauge.received).collect::<Vec<_>>(), [1, 1, 1]);
        assert_eq!(status.ports.iter().map(|port| &port.name[..]).collect::<Vec<_>>(), ["p0", "p1", "p2"]);
        // The second goes, and another one has its place: its counters begin anew.
        amend(&mut all, vec![(1, vacant())], vec![near(0), near(2)]);
        assert!(all.node.ports()[1].is_vacant() && all.node.way_to(addr(1, 1)).next.is_none());
        amend(&mut all, vec![(1, port(1))], vec![near(0), near(1), near(2)]);
        all.node.begin_port(PortId(1));
        junk(&mut all, 1);
        let status = all.node.status();
        assert_eq!(status.ports.iter().map(|port| port.gauge.received).collect::<Vec<_>>(), [1, 1, 1]);
        assert_eq!((status.balance.received, all.node.unaccounted(&[]).total()), (4, 0));
        let (malformed, too_many) = (Reason::MalformedAnep, Reason::IngressRate);
        assert_eq!([malformed, too_many].map(|reason| status.drops.of(reason)), [3, 1], "a place keeps its ceiling");
    }
}
