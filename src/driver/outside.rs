//! Who carries out what a node wants done ([`Outside`]), and what it is lent meanwhile ([`Driven`]).

use crate::core::domain::DomainId;
use crate::frame::Frame;
use crate::node::handing::Handed;
use crate::node::{Delivery, Effect, Event, Node, SentEnd, Turn};
use crate::nodeos::interface::{HostId, Upcall};

/// A node in one of its turns.
pub struct Driven<'a> {
    /// The node.
    pub node: &'a mut Node,
    /// The turn.
    pub turn: Turn<'a>,
}

/// Carries out what a node wants done; may call the node, whose further wishes come behind those that wait.
pub trait Outside {
    /// Events of packets, recorded if [`crate::node::Output::traced`]: before what follows from them.
    fn happened(&mut self, node: &Node, event: Event) {
        // Nobody has asked for them.
        let _ = (node, event);
    }

    /// A frame leaves by its port. It goes back to the pool, now or later.
    fn send(&mut self, driven: &mut Driven<'_>, frame: Frame) {
        driven.turn.out.pool.give(frame);
    }

    /// A packet is for the first worker of the node.
    fn hand(&mut self, driven: &mut Driven<'_>, handed: Handed) {
        driven.node.not_handed(&mut driven.turn, handed);
    }

    /// A capsule is for an application. Its frame goes back to the pool.
    fn deliver(&mut self, driven: &mut Driven<'_>, delivery: Delivery) {
        driven.turn.out.pool.give(delivery.frame);
    }

    /// A packet of an application has ended here: it is told, if it wants to be.
    fn refused(&mut self, refusal: SentEnd) {
        let _ = refusal;
    }

    /// A message is for the application at a PLAN port.
    fn tell(&mut self, driven: &mut Driven<'_>, port: u64, message: Vec<u8>) {
        let _ = (driven, port, message);
    }

    /// Something happens to a domain that another process runs.
    fn upcall(&mut self, driven: &mut Driven<'_>, host: HostId, domain: DomainId, upcall: Upcall) {
        let _ = (driven, host, domain, upcall);
    }

    /// Work for a store, a compiler, a linker, a resolver, a judge of credentials, or the kernel half: [`Effect`] says what answers it.
    fn effect(&mut self, driven: &mut Driven<'_>, effect: Effect);
}
