//! The order in which a driver carries out the output of a node.

use super::*;
use crate::code::fetch::Source;
use crate::code::run::wasm::{Backstop, Compiler};
use crate::core::domain::DomainId;
use crate::core::reason::Reason;
use crate::frame::{PeerId, PortId};
use crate::node::{Delivery, Event, EventKind, NodeConfig, Sizes};
use crate::nodeos::interface::{HostId, Upcall};
use crate::topology::Routes;
use crate::wire::revocation::{Repr, What};
use crate::wire::{Addr, Digest};
use std::sync::Arc;

fn driver() -> Driver {
    Driver::new(Node::new(NodeConfig {
        name: "driven".into(),
        ports: vec![],
        neighbours: vec![],
        routes: Arc::new(Routes::default()),
        roles: Arc::default(),
        sizes: Sizes::default(),
        seed: 1,
        kernel: false,
    }))
}

fn look_up(number: u8) -> Effect {
    Effect::LookUp(Digest([number; 32]), Default::default())
}

/// Writes down what it is to do. The first effect causes another one, and a frame.
#[derive(Default)]
struct Witness(Vec<String>);

impl Outside for Witness {
    fn happened(&mut self, _: &Node, event: Event) {
        self.0.push(format!("event {}", event.trace));
    }

    fn send(&mut self, driven: &mut Driven<'_>, frame: Frame) {
        self.0.push(format!("frame {}", frame.port.0));
        driven.turn.out.events.push(Event { trace: 9, kind: EventKind::Injected });
        driven.turn.out.pool.give(frame);
    }

    fn deliver(&mut self, _: &mut Driven<'_>, delivery: Delivery) {
        self.0.push(format!("delivery {}", delivery.port));
    }

    fn tell(&mut self, _: &mut Driven<'_>, port: u64, _: Vec<u8>) {
        self.0.push(format!("told {port}"));
    }

    fn upcall(&mut self, _: &mut Driven<'_>, host: HostId, _: DomainId, _: Upcall) {
        self.0.push(format!("upcall {}", host.0));
    }

    fn effect(&mut self, driven: &mut Driven<'_>, effect: Effect) {
        let Effect::LookUp(Digest([number, ..]), _) = effect else { return };
        self.0.push(format!("effect {number}"));
        if number == 1 {
            driven.turn.out.effects.push(look_up(3));
            driven.turn.out.frames.push(frame(7));
        }
    }
}

fn frame(port: u16) -> Frame {
    let mut frame = Frame::from_bytes(b"x");
    frame.port = PortId(port);
    frame
}

#[test]
fn what_a_node_wants_is_done_first_to_last_and_what_that_causes_behind_it() {
    let mut driver = driver();
    let out = &mut driver.out;
    out.effects.extend([look_up(1), look_up(2)]);
    out.upcalls.push((HostId(4), DomainId(0), Upcall::Ended));
    out.told.push((5, vec![]));
    out.deliveries.extend([1, 2].map(|port| Delivery { port, frame: frame(0) }));
    out.frames.extend([1, 2].map(frame));
    out.events.push(Event { trace: 8, kind: EventKind::Injected });
    let mut witness = Witness::default();
    assert!(driver.settle(1, &mut witness));
    let first =
        ["event 8", "frame 1", "frame 2", "event 9", "event 9", "delivery 1", "delivery 2", "told 5", "upcall 4"];
    let then = ["effect 1", "effect 2", "frame 7", "event 9", "effect 3"];
    assert_eq!(witness.0, [&first[..], &then].concat());
    assert!(!driver.settle(1, &mut witness), "nothing is left");
}

#[test]
fn answers_leave_what_goes_out_where_it_is() {
    let mut driver = driver();
    driver.out.effects.extend([look_up(1), look_up(2)]);
    driver.out.frames.push(frame(5));
    let mut asked = vec![];
    driver.answer_by(1, |driven, effect| {
        let Effect::LookUp(Digest([number, ..]), _) = effect else { return };
        asked.push(number);
        if number == 1 {
            driven.turn.out.effects.push(look_up(3));
        }
    });
    assert_eq!((asked, driver.out.frames.len()), (vec![1, 2, 3], 1));
}

#[test]
fn a_revocation_that_nobody_judges_is_counted() {
    let mut driver = driver();
    let repr = Repr { what: What::Code, unix_s: 5, subject: [1; 32], signer: [2; 32], signature: [0; 64] };
    let from = Source { port: PortId(0), peer: PeerId::NONE, addr: Addr::v4([10, 0, 0, 9]) };
    driver.out.effects.push(Effect::Revoke(Box::new(repr), from, Default::default()));
    driver.settle(1, &mut Supply::new(Compiler::new(Backstop::Ticker).unwrap()));
    assert_eq!(driver.node.drops().of(Reason::RevocationBusy), 1);
}
