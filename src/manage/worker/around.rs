//! The outside of a worker: ports, applications, processes, the loader, which carry out the node's output.

use super::Order;
use super::crew::Link;
use super::watch::Watchers;
use crate::core::domain::DomainId;
use crate::core::reason::Reason;
use crate::driver::{Driven, Outside};
use crate::frame::Frame;
use crate::manage::apps::Apps;
use crate::manage::ee::Desk;
use crate::manage::loader::Loader;
use crate::manage::ports::{OpenPort, Opener};
use crate::node::handing::Handed;
use crate::node::{Delivery, Effect, Event, EventKind, Node, SentEnd};
use crate::nodeos::interface::{HostId, Upcall};

/// What is around the node of a worker.
pub(super) struct Around {
    pub(super) ports: Vec<OpenPort>,
    pub(super) processes: Desk,
    pub(super) place: Place,
    /// The other workers, in the order of their numbers.
    pub(super) links: Vec<Link>,
    /// Those who watch packets.
    pub(super) watchers: Watchers,
}

/// Which worker of its node it is, and what only that one has.
pub(super) enum Place {
    /// The first.
    First(Box<Front>),
    /// Another one.
    Further,
}

/// What the first worker has around it.
pub(super) struct Front {
    pub(super) apps: Apps,
    pub(super) loader: Loader,
    /// What opens sockets for the ports of all workers, once they are open.
    pub(super) opener: Option<Opener>,
}

impl Place {
    /// What the first worker has; nothing of another one.
    #[inline]
    pub(super) fn front(&mut self) -> Option<&mut Front> {
        match self {
            Place::First(front) => Some(front),
            Place::Further => None,
        }
    }

    /// What opens sockets for ports, once they are open.
    pub(super) fn opener(&mut self) -> Option<&mut Opener> {
        self.front().and_then(|front| front.opener.as_mut())
    }
}

impl Outside for Around {
    #[cold]
    fn happened(&mut self, node: &Node, mut event: Event) {
        if let EventKind::Charged(domain) = &mut event.kind {
            // By the name that it has at the first worker, which is asked for titles.
            *domain = node.at_first(*domain);
        }
        self.watchers.tell_event(&event);
    }

    /// Frames wait in the queue of their port, and are sent together.
    #[inline]
    fn send(&mut self, driven: &mut Driven<'_>, frame: Frame) {
        // While codes are prepared no port is open yet.
        if !self.watchers.are_none() {
            self.tell_frame(driven.turn.now, usize::from(frame.port.0), &frame, false);
        }
        let pushed = match self.ports.get_mut(usize::from(frame.port.0)) {
            Some(port) => port.push(frame, driven.turn.now),
            None => Err((frame, Reason::PortClosed)),
        };
        if let Err((frame, reason)) = pushed {
            driven.node.refused_by_port(&mut driven.turn, frame, reason);
        }
    }

    fn deliver(&mut self, driven: &mut Driven<'_>, delivery: Delivery) {
        match self.place.front() {
            Some(front) => front.apps.deliver(delivery, driven.node, &mut driven.turn),
            // Another worker hands over what is for an application.
            None => driven.node.refused_by_application(&mut driven.turn, delivery.frame, Reason::NoApplication),
        }
    }

    #[cold]
    fn hand(&mut self, driven: &mut Driven<'_>, handed: Handed) {
        let refused = match self.links.iter_mut().find(|link| link.to() == handed.to) {
            Some(link) => link.hand(handed),
            None => Err(handed),
        };
        if let Err(handed) = refused {
            driven.node.not_handed(&mut driven.turn, handed);
        }
    }

    fn refused(&mut self, refusal: SentEnd) {
        self.place.front().into_iter().for_each(|front| front.apps.refused(refusal));
    }

    fn tell(&mut self, driven: &mut Driven<'_>, port: u64, message: Vec<u8>) {
        if let Some(front) = self.place.front() {
            front.apps.tell(port, &message, driven.node, &mut driven.turn);
        }
    }

    #[inline]
    fn upcall(&mut self, driven: &mut Driven<'_>, host: HostId, domain: DomainId, upcall: Upcall) {
        self.processes.tell(host, domain, upcall, driven.node, &mut driven.turn);
    }

    fn effect(&mut self, Driven { node, turn }: &mut Driven<'_>, effect: Effect) {
        let front = match (&mut self.place, effect) {
            // The first of the others is the first of all.
            (Place::Further, Effect::Heard(list)) => {
                return self.links.iter().take(1).for_each(|first| first.heard(list.clone()));
            }
            (Place::Further, Effect::Channel { watch, exists }) => {
                let order = || Order::Channel { watch: watch.clone(), exists };
                return self.links.iter().take(1).for_each(|first| first.way().order(order()));
            }
            (Place::Further, Effect::AskLink(port, addr)) => {
                return self.links.iter().take(1).for_each(|first| first.ask_link(port, addr));
            }
            (Place::Further, Effect::EndStores(domains)) => {
                return self.links.iter().take(1).for_each(|first| {
                    let domains = domains.clone();
                    first.way().order(Order::Do(Box::new(move |node, turn| node.end_stores(turn, &domains))));
                });
            }
            // All else the first worker asks for.
            (Place::Further, _) => return,
            (Place::First(_), Effect::Workers(order)) => {
                return self.links.iter().for_each(|link| link.tell((*order).clone()));
            }
            (Place::First(front), Effect::Channel { watch, exists }) => {
                // Before ports are open there are no channels.
                return front.opener.iter().for_each(|opener| opener.take_for((*watch).clone(), exists));
            }
            (Place::First(front), Effect::Foreign(port, flow)) => {
                return front.opener.iter().for_each(|opener| opener.tell_foreign(port, flow));
            }
            (Place::First(front), Effect::NoneForeign) => {
                return front.opener.iter().for_each(Opener::forget_foreign);
            }
            (Place::First(front), effect) => front.loader.submit(effect),
        };
        let Err(effect) = front else { return };
        match effect {
            Effect::LookUp(digest, _) => node.found(turn, digest, None),
            Effect::Prepare(prepare) => node.unprepared(turn, prepare.code),
            Effect::Authorise(claim, _) => node.unprepared(turn, claim.code),
            // The kernel half is told again when something changes; until then capsules run here.
            Effect::Plan(wish, _) => node.wished_in_vain(turn, wish),
            Effect::GraphEdit(wish) => node.edited_in_vain(turn, &wish, "the node is busy"),
            // Neighbours tell it again.
            Effect::Revoke(..) => node.revocation_unjudged(),
            Effect::Store(_) | Effect::Kernel(_) | Effect::Channel { .. } | Effect::Workers(_) => {}
            Effect::Heard(_) | Effect::AskLink(..) | Effect::EndStores(_) => {}
            Effect::Foreign(..) | Effect::NoneForeign => {}
        }
    }
}
