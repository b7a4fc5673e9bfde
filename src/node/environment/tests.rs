//! A new environment in one file and one line: it takes packets of a type of its own, lets them wait, and delivers
//! every second one.

use super::*;
use crate::driver::Driver;
use crate::frame::{Link, PeerId, PortId};
use crate::node::{NodeConfig, Sizes};
use crate::topology::{Ceiling, Neighbour, Port, Routes};
use crate::wire::{Addr, Prefix, anep};
use std::sync::Arc;

const KIND: u16 = 7777;

/// Delivers every other packet, and counts what it is called for.
struct Halver {
    place: EnvironmentId,
    domain: DomainId,
    due: u64,
    ran: u64,
    told: Vec<&'static str>,
}

impl Environment for Halver {
    fn placed(&mut self, place: EnvironmentId) {
        self.place = place;
    }

    fn types(&self) -> (&'static [OwnType], Option<DomainId>) {
        (&[OwnType { kind: PacketKind::Anep(KIND), waits: true }], Some(self.domain))
    }

    fn packet(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, _: PacketKind, frame: Frame, _: Option<&Native>) {
        let what = frame.bytes().first().copied().unwrap_or(0).into();
        cx.enqueue(turn, self.domain, frame, Work { environment: self.place, what, joins: true });
    }

    fn run(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, domain: DomainId, what: u32, frame: Frame) -> u64 {
        self.ran += 1;
        if what.is_multiple_of(2) {
            cx.drop_in(turn, frame, Reason::Code, domain);
        } else {
            turn.out.deliveries.push(crate::node::Delivery { port: what as u16, frame });
        }
        10
    }

    fn next_timer(&self) -> u64 {
        self.due
    }

    fn timer(&mut self, cx: &mut Cx, turn: &mut Turn<'_>) {
        self.told.push("timer");
        self.due = u64::MAX;
        // Ended now; told when this call has returned.
        cx.end_domain(turn, self.domain, |_| true);
    }

    fn ended(&mut self, _: &mut Cx, _: &mut Turn<'_>, gone: &[Gone]) -> usize {
        let told = |gone: &Gone| if gone.domain == self.domain { "own domain ended" } else { "another one's" };
        self.told.extend(gone.iter().map(told));
        0
    }

    fn status(&self, _: &Cx, status: &mut Status) {
        status.applications.push(self.ran as u16);
    }
}

/// A node with a neighbour and this environment.
fn driver() -> Driver {
    let port = Port {
        name: "p".into(),
        link: Link::Overlay,
        addresses: vec![(Addr::v4([10, 0, 0, 1]), Prefix::new(Addr::v4([10, 0, 0, 0]), 120))],
        mtu: 1500,
        bits_per_second: 0,
        ceiling: Ceiling::default(),
    };
    let neighbour = Neighbour { addr: Addr::v4([10, 0, 0, 2]), port: PortId(0), peer: PeerId(0) };
    let mut node = Node::new(NodeConfig {
        name: "table".into(),
        ports: vec![port],
        neighbours: vec![neighbour],
        routes: Arc::new(Routes::default()),
        roles: Arc::default(),
        sizes: Sizes::default(),
        seed: 1,
        kernel: false,
    });
    let domain = crate::node::below_root(&mut node.cx.core.domains, "halver");
    let halver = Halver { place: EnvironmentId::default(), domain, due: 5_000_000, ran: 0, told: Vec::new() };
    node.environments.add(&mut node.cx, halver, &[domain]);
    node.set_scheduler(crate::schedule::Policy::Wfq, 0);
    Driver::new(node)
}

fn packet(first: u8) -> Frame {
    let mut bytes = [0; anep::HEADER + 4];
    anep::emit_basic(&mut bytes, KIND, 4).unwrap();
    bytes[anep::HEADER] = first;
    let mut frame = Frame::from_bytes(&bytes);
    (frame.port, frame.peer) = (PortId(0), PeerId(0));
    frame
}

#[test]
fn an_environment_is_one_file_and_one_line() {
    let mut driver = driver();
    for number in 1..=6 {
        driver.receive(1000, packet(number));
    }
    let domain = driver.node.environments.get::<Halver>().unwrap().domain;
    assert!(driver.node.has_work(), "packets wait for their domain's turn");
    let cost = driver.turn(1000, |node, turn| {
        let ran = node.run_turn(turn).unwrap();
        let cost = (ran.packets(), ran.steps);
        node.ran(ran, 6000, 1000);
        cost
    });
    assert_eq!(cost, (6, 60), "one turn, since nobody else waits");
    let delivered: Vec<u16> = driver.out.deliveries.drain(..).map(|delivery| delivery.port).collect();
    assert_eq!(delivered, [1, 3, 5]);
    assert_eq!(driver.node.usage(domain).unwrap().cpu_ns, 6000, "and its domain pays");
    assert_eq!((driver.node.drops().of(Reason::Code), driver.node.status().applications), (3, vec![6]));
    // The traffic of its channels.
    let came =
        driver.node.channel_list().into_iter().find(|channel| channel.domain == domain.0 && channel.kind == "in");
    assert_eq!(came.unwrap().traffic.packets, 6);
}

#[test]
fn what_it_ends_itself_it_is_told_when_its_call_has_returned() {
    let mut driver = driver();
    driver.receive(1000, packet(1));
    assert_eq!(driver.node.next_timer(), 5_000_000);
    driver.timer_if_due(5_000_000);
    let halver = driver.node.environments.get::<Halver>().unwrap();
    assert_eq!(halver.told, ["timer", "own domain ended"]);
    assert!(!driver.node.has_work(), "what waited for the domain is gone");
    assert_eq!(driver.node.drops().of(Reason::DomainEnded), 1);
}
