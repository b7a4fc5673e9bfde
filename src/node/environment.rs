//! Environments of a node, and the table that finds one by the kind of a packet.
//!
//! ```text
//! receive ─▶ classify ─┬─▶ type of ANEP, ARP, punt ─▶ row of the table ─▶ Environment::packet ─▶ (waits) ─▶ Environment::run
//!                      └─▶ rule of a channel ─▶ its domain ─▶ (waits) ─▶ Environment::run of the domain's environment
//! ```
//!
//! A new environment is one file with an [`Environment`] in it, and one call of [`Environments::add`]. Capsules, PLAN,
//! hosts behind the NodeOS interface, revocations and address resolution are rows like any other; `tests` below has one more. Calls do not
//! nest: endings and messages of a call are left in [`Cx`] and carried out by [`Environments::settle`] when it has
//! returned.

use super::ending::Gone;
use super::output::Turn;
use super::paths::Work;
use super::status::Status;
use super::{Cx, Node};
use crate::classify::Native;
use crate::core::domain::{DomainId, EnvironmentId};
use crate::core::ledger::Balance;
use crate::core::reason::Reason;
use crate::frame::Frame;
use crate::nodeos::interface::Upcall;
use core::any::Any;

/// What packets come to an environment as, other than by rules of its domains' channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PacketKind {
    /// ANEP packets of this type: the payload begins the frame.
    Anep(u16),
    /// ARP packets, which begin the frame.
    Arp,
    /// Messages of neighbour discovery, which begin the frame.
    Discovery,
    /// Frames from the kernel half, which has run their code: as they came from there.
    Punt,
}

/// A kind that is an environment's own.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnType {
    pub kind: PacketKind,
    /// Whether its packets wait for their domain's turn, and are paid for then; else they are done, and paid for, when they come.
    pub waits: bool,
}

/// An execution environment, as the node calls it.
pub(super) trait Environment: Any + Send {
    /// Its place in the table: what names it in packets that wait.
    fn placed(&mut self, place: EnvironmentId) {
        let _ = place;
    }

    /// The kinds that are its own, and the domain that has the channels of its types of ANEP.
    fn types(&self) -> (&'static [OwnType], Option<DomainId>) {
        (&[], None)
    }

    /// A packet of one of its kinds has come in.
    fn packet(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, kind: PacketKind, frame: Frame, native: Option<&Native>) {
        let _ = (kind, native);
        cx.drop(turn, frame, Reason::UnknownType);
    }

    /// A packet that waited, or one of a channel, has its turn; says how many steps its domain took for it.
    fn run(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, domain: DomainId, what: u32, frame: Frame) -> u64 {
        let _ = what;
        cx.drop_in(turn, frame, Reason::HostGone, domain);
        0
    }

    /// Something has happened to one of its domains, other than a packet.
    fn upcall(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, domain: DomainId, upcall: Upcall) {
        let _ = (cx, turn, domain, upcall);
    }

    /// When [`Environment::timer`] has something to do.
    fn next_timer(&self) -> u64 {
        u64::MAX
    }

    /// Does what is due.
    fn timer(&mut self, cx: &mut Cx, turn: &mut Turn<'_>) {
        let _ = (cx, turn);
    }

    /// A tenth of a second is over.
    fn sweep(&mut self, cx: &mut Cx, turn: &mut Turn<'_>) {
        let _ = (cx, turn);
    }

    /// Domains of somebody's are no more, all that ended in one. Says how much code went out of service.
    fn ended(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, gone: &[Gone]) -> usize {
        let _ = (cx, turn, gone);
        0
    }

    /// Packets that wait with it.
    fn held(&self) -> u64 {
        0
    }

    /// The same of one domain, where they count for that.
    fn held_of(&self, domain: DomainId) -> u64 {
        let _ = domain;
        0
    }

    /// What became of the packets that it took in and began, if it counts that for all its domains together.
    fn balance(&self) -> Option<Balance> {
        None
    }

    /// Its counters.
    fn status(&self, cx: &Cx, status: &mut Status) {
        let _ = (cx, status);
    }
}

/// A kind of packets, and its environment.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub own: OwnType,
    pub environment: EnvironmentId,
}

/// The environments of a node.
#[derive(Default)]
pub(super) struct Environments {
    list: Vec<Box<dyn Environment>>,
    types: Vec<Row>,
}

impl Environments {
    /// One more, with the channels of its types. It runs packets of these domains, and of all that will be below them.
    pub(super) fn add(&mut self, cx: &mut Cx, mut environment: impl Environment, runs: &[DomainId]) {
        let id = EnvironmentId(self.list.len() as u8);
        environment.placed(id);
        let (types, domain) = environment.types();
        for own in types {
            self.types.push(Row { own: *own, environment: id });
            if let (Some(domain), PacketKind::Anep(kind)) = (domain, own.kind) {
                cx.own_channels(domain, kind);
            }
        }
        for domain in runs {
            if let Some(domain) = cx.core.domains.of(*domain) {
                domain.environment = id;
            }
        }
        self.list.push(Box::new(environment));
    }

    /// The row of a kind.
    #[inline]
    pub(super) fn row(&self, kind: PacketKind) -> Option<Row> {
        self.types.iter().find(|row| row.own.kind == kind).copied()
    }

    #[inline]
    pub(super) fn at(&mut self, id: EnvironmentId) -> Option<&mut dyn Environment> {
        Some(&mut **self.list.get_mut(usize::from(id.0))?)
    }

    /// How many.
    pub(super) fn len(&self) -> u8 {
        self.list.len() as u8
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &dyn Environment> {
        self.list.iter().map(|environment| &**environment)
    }

    /// The same, to call them.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Box<dyn Environment>> {
        self.list.iter_mut()
    }

    /// The one of this type.
    #[inline]
    pub(super) fn get<E: Environment>(&self) -> Option<&E> {
        self.list.iter().find_map(|environment| (&**environment as &dyn Any).downcast_ref())
    }

    /// The same, to call it.
    #[inline]
    pub(super) fn get_mut<E: Environment>(&mut self) -> Option<&mut E> {
        self.list.iter_mut().find_map(|environment| (&mut **environment as &mut dyn Any).downcast_mut())
    }

    /// A packet of a domain has its turn; says how many steps the domain took for it.
    #[inline]
    pub(super) fn run(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, domain: DomainId, work: Work, frame: Frame) -> u64 {
        let Some(environment) = self.at(work.environment) else {
            cx.drop_in(turn, frame, Reason::HostGone, domain);
            return 0;
        };
        let steps = environment.run(cx, turn, domain, work.what, frame);
        self.settle(cx, turn);
        steps
    }
}

impl Node {
    /// Work of a driver on the environment of a type; nothing if there is none.
    pub(super) fn ask<E: Environment, R>(&mut self, work: impl FnOnce(&mut E, &mut Cx) -> R) -> Option<R> {
        Some(work(self.environments.get_mut()?, &mut self.cx))
    }
}

#[cfg(test)]
mod tests;
