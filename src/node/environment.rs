//! Environments of a node, and the table that finds one by a packet's type of ANEP.
//!
//! ```text
//! receive ─▶ classify ─▶ type of ANEP ─▶ row of the table ─▶ Environment::packet ─▶ (waits) ─▶ Environment::run
//! ```
//!
//! A new environment is one file with an [`Environment`] in it, and one call of [`Environments::add`]. Capsules, PLAN,
//! hosts behind the NodeOS interface, and revocations are rows like any other; `tests` below has one more. Calls do not
//! nest: endings and messages of a call are left in [`Cx`] and carried out by [`Environments::settle`] when it has
//! returned.

use super::ending::Gone;
use super::output::Turn;
use super::paths::Work;
use super::status::Status;
use super::{Cx, Node};
use crate::classify::Native;
use crate::core::domain::DomainId;
use crate::core::reason::Reason;
use crate::frame::{Frame, Link};
use crate::nodeos::interface::Upcall;
use core::any::Any;

/// The place of an environment in the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct EnvironmentId(pub u8);

/// A type of ANEP that is an environment's own.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnType {
    pub kind: u16,
    /// Whether its packets wait for their domain's turn, and are paid for then; else they are done, and paid for, when they come.
    pub waits: bool,
}

/// A way by which packets come that have no type of ANEP. Each leads to one environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inlet {
    /// Packets that rules of channels find, and what else happens to domains of hosts.
    Channels,
    /// Packets whose code has run in the kernel half.
    Kernel,
}

/// Ways of this kind.
const INLETS: usize = 2;

/// An execution environment, as the node calls it.
pub(super) trait Environment: Any + Send {
    /// Its place in the table: what names it in packets that wait.
    fn placed(&mut self, place: EnvironmentId) {
        let _ = place;
    }

    /// The types of ANEP that are its own, and the domain that has their channels.
    fn types(&self) -> (&'static [OwnType], Option<DomainId>) {
        (&[], None)
    }

    /// The other ways that lead to it.
    fn inlets(&self) -> &'static [Inlet] {
        &[]
    }

    /// A packet of one of its types has come in: its payload begins the frame.
    fn packet(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, kind: u16, frame: Frame, native: Option<&Native>) {
        let _ = (kind, native);
        cx.drop(turn, frame, Reason::UnknownType);
    }

    /// A packet that waited has its turn; says how many steps its domain took for it.
    fn run(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, domain: DomainId, what: u32, frame: Frame) -> u64 {
        let _ = what;
        cx.drop_in(turn, frame, Reason::HostGone, domain);
        0
    }

    /// A frame has come up from the kernel half, which has run its code.
    fn resume(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, frame: Frame, link: Link) {
        let _ = link;
        cx.drop(turn, frame, Reason::MalformedPunt);
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

    /// Its counters.
    fn status(&self, cx: &Cx, status: &mut Status) {
        let _ = (cx, status);
    }
}

/// A type of ANEP, and its environment.
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
    inlets: [EnvironmentId; INLETS],
}

impl Environments {
    /// One more, with the channels of its types.
    pub(super) fn add(&mut self, cx: &mut Cx, mut environment: impl Environment) -> EnvironmentId {
        let id = EnvironmentId(self.list.len() as u8);
        environment.placed(id);
        let (types, domain) = environment.types();
        for own in types {
            self.types.push(Row { own: *own, environment: id });
            if let Some(domain) = domain {
                cx.own_channels(domain, own.kind);
            }
        }
        for inlet in environment.inlets() {
            self.inlets[*inlet as usize] = id;
        }
        self.list.push(Box::new(environment));
        id
    }

    /// The row of a type of ANEP.
    #[inline]
    pub(super) fn row(&self, kind: u16) -> Option<Row> {
        self.types.iter().find(|row| row.own.kind == kind).copied()
    }

    /// Where a way leads that is no type's.
    #[inline]
    pub(super) fn behind(&self, inlet: Inlet) -> EnvironmentId {
        self.inlets[inlet as usize]
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
