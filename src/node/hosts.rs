//! Who runs domains: environments in the node's process, called directly, and those in processes of their own, told through
//! [`super::Output::upcalls`]. They are an environment of the node, whose packets come by channels: `forms` runs those.

use crate::core::table::Table;
use crate::nodeos::interface::{DomainId, HostId, NodeOs, Upcall};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Hosts of one node at the same time.
pub const HOSTS_MAX: usize = 1024;

/// An execution environment in the node's process: it is called on the packet path and must not wait for anything. It
/// goes with the last of its domains. If a call panics, its domains end and it is gone; the node works on.
pub trait InProcess: Send {
    /// Something has happened to one of its domains; `os` acts for that domain.
    fn upcall(&mut self, os: &mut dyn NodeOs, domain: DomainId, upcall: Upcall);

    /// One of its domains has ended, and it has others.
    fn ended(&mut self, _domain: DomainId) {}

    /// The principal in a call for a domain.
    fn acts_for(&self, domain: DomainId) -> DomainId {
        domain
    }
}

/// Who runs domains.
pub(super) enum Host {
    Node,
    Remote,
    Local(Box<dyn InProcess>),
}

/// Where a host is reached.
pub(super) enum Reached<'a> {
    Remote,
    Local(&'a mut dyn InProcess),
    /// It is gone, or the node itself.
    Nobody,
}

/// The hosts of a node. The first is the node itself.
pub(super) struct Hosts(pub(super) Table<HostId, Host>);

impl Default for Hosts {
    fn default() -> Hosts {
        let mut table = Table::new(HOSTS_MAX);
        let first = table.add(Host::Node).ok();
        debug_assert_eq!(first, Some(HostId::NODE));
        Hosts(table)
    }
}

impl Hosts {
    /// One in a process of its own.
    pub fn add_remote(&mut self) -> Option<HostId> {
        self.0.add(Host::Remote).ok()
    }

    /// One in the node's process.
    pub fn add_local(&mut self, environment: Box<dyn InProcess>) -> Option<HostId> {
        self.0.add(Host::Local(environment)).ok()
    }

    /// One in the node's process, or in one of its own.
    pub fn enter(&mut self, here: Option<Box<dyn InProcess>>) -> Option<HostId> {
        match here {
            Some(environment) => self.add_local(environment),
            None => self.add_remote(),
        }
    }

    /// Another environment in the place of one of this process.
    pub fn replace(&mut self, host: HostId, environment: Box<dyn InProcess>) -> bool {
        match self.0.get_mut(host) {
            Some(Host::Local(place)) => {
                let_go(core::mem::replace(place, environment));
                true
            }
            _ => false,
        }
    }

    /// One is no more.
    pub fn remove(&mut self, host: HostId) {
        if host != HostId::NODE
            && let Some(Host::Local(environment)) = self.0.remove(host)
        {
            let_go(environment);
        }
    }

    /// Hosts there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Where a host is.
    #[inline]
    pub fn reach(&mut self, host: HostId) -> Reached<'_> {
        match self.0.get_mut(host) {
            Some(Host::Remote) => Reached::Remote,
            Some(Host::Local(environment)) => Reached::Local(&mut **environment),
            _ => Reached::Nobody,
        }
    }
}

/// An environment goes with what it holds; if it panics, the node works on.
fn let_go(environment: Box<dyn InProcess>) {
    if catch_unwind(AssertUnwindSafe(|| drop(environment))).is_err() {
        tracing::error!("an environment has panicked as it went");
    }
}
