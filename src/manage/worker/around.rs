//! The outside of a worker: ports, applications, processes, the loader, which carry out the node's output.

use super::watch::Watchers;
use crate::core::domain::DomainId;
use crate::core::reason::Reason;
use crate::driver::{Driven, Outside};
use crate::frame::Frame;
use crate::manage::apps::Apps;
use crate::manage::ee::Desk;
use crate::manage::loader::Loader;
use crate::manage::ports::{OpenPort, Opener};
use crate::node::{Delivery, Effect, Event, SentEnd};
use crate::nodeos::interface::{HostId, Upcall};

/// What is around the node of a worker.
pub(super) struct Around {
    pub(super) ports: Vec<OpenPort>,
    /// What opens sockets for them, once they are open.
    pub(super) opener: Option<Opener>,
    pub(super) apps: Apps,
    pub(super) processes: Desk,
    pub(super) loader: Loader,
    /// Those who watch packets.
    pub(super) watchers: Watchers,
}

impl Outside for Around {
    #[cold]
    fn happened(&mut self, event: Event) {
        self.watchers.tell_event(&event);
    }

    /// Frames wait in the queue of their port, and are sent together.
    #[inline]
    fn send(&mut self, driven: &mut Driven<'_>, frame: Frame) {
        // While codes are prepared no port is open yet.
        if !self.watchers.are_none() {
            self.tell_frame(driven.turn.now, usize::from(frame.port.0), &frame, false);
        }
        let (pushed, reason) = match self.ports.get_mut(usize::from(frame.port.0)) {
            Some(port) => (port.queue().push(frame), Reason::QueueFull),
            None => (Err(frame), Reason::PortClosed),
        };
        if let Err(frame) = pushed {
            driven.node.refused_by_port(&mut driven.turn, frame, reason);
        }
    }

    fn deliver(&mut self, driven: &mut Driven<'_>, delivery: Delivery) {
        self.apps.deliver(delivery, driven.node, &mut driven.turn);
    }

    fn refused(&mut self, refusal: SentEnd) {
        self.apps.refused(refusal);
    }

    fn tell(&mut self, driven: &mut Driven<'_>, port: u64, message: Vec<u8>) {
        self.apps.tell(port, &message, driven.node, &mut driven.turn);
    }

    #[inline]
    fn upcall(&mut self, driven: &mut Driven<'_>, host: HostId, domain: DomainId, upcall: Upcall) {
        self.processes.tell(host, domain, upcall, driven.node, &mut driven.turn);
    }

    fn effect(&mut self, Driven { node, turn }: &mut Driven<'_>, effect: Effect) {
        if let Effect::Channel { filter, exists } = effect {
            // Before ports are open there are no channels.
            return self.opener.iter().for_each(|opener| opener.take_for((*filter).clone(), exists));
        }
        let Err(effect) = self.loader.submit(effect) else { return };
        match effect {
            Effect::LookUp(digest, _) => node.found(turn, digest, None),
            Effect::Prepare(prepare) => node.unprepared(turn, prepare.code),
            Effect::Authorise(claim, _) => node.unprepared(turn, claim.code),
            // The kernel half is told again when something changes; until then capsules run here.
            Effect::Plan(wish, _) => node.wished_in_vain(turn, wish),
            // Neighbours tell it again.
            Effect::Revoke(..) => node.revocation_unjudged(),
            Effect::Store(_) | Effect::Kernel(_) | Effect::Channel { .. } => {}
        }
    }
}
