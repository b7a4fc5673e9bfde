//! The tree of domains, as operators and the management environment see it.
//!
//! The management environment's domain is the first below the root, and the environments that the node runs in processes of
//! their own have theirs below it, each in its role. Operators look at all of them and may end any but the node's own.

use super::ending::Ended;
use super::ending::EndedBy;
use super::hosts::{Hosts, InProcess};
use super::os::title_of;
use super::output::Turn;
use super::survey::Surveyed;
use super::{Cx, Node};
use crate::core::common::account::Leased;
use crate::core::domain::{Domain, DomainId, Usage};
use crate::core::memory_pool::PoolStatus;
use crate::frame::WorkerId;
use crate::graph::Traffic;
use crate::nodeos::interface::{DomainSpec, Error, HostId};
use crate::trust::SecurityCounts;
use crate::trust::grants::Grants;
use serde::Serialize;

/// What is known of a domain.
#[derive(Clone, Debug, Serialize)]
pub struct DomainStatus {
    /// Its name.
    pub id: u32,
    /// The domain above it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<u32>,
    /// For people.
    pub title: String,
    /// The role it was created in.
    pub role: String,
    /// Who runs it; 0 is the node.
    pub host: u32,
    /// The worker that runs its packets, if there are several and it is one's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerId>,
    /// What its role grants it.
    pub grants: Grants,
    /// What it has used; of a code's domain, in the user half.
    pub usage: Usage,
    /// How much of its budget is with workers, if several run its code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Leased>,
    /// Packets of its that no counter of the user half knows of; below 0: counted more than once.
    pub unaccounted: i64,
    /// Packets of its that were done after their deadline.
    pub missed_deadlines: u64,
    /// Bytes of memory that it holds.
    pub memory_bytes: u64,
    /// The memory pool it uses, which others may use too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<PoolStatus>,
    /// Channels it owns.
    pub channels: usize,
    /// The code that runs in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

/// What is known of a channel.
#[derive(Clone, Debug, Serialize)]
pub struct ChannelStatus {
    /// Its name, among those of its kind.
    pub id: u32,
    /// in, out or cut.
    pub kind: &'static str,
    /// Who pays.
    pub domain: u32,
    /// That domain, for people.
    pub title: String,
    /// Its protocol, as it was asked for; of a cut-through channel the names of its two ends.
    pub protocol: String,
    /// Its address, as it was asked for.
    pub address: String,
    /// The port, if it is bound to one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
    /// What has gone through it.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// Of a cut-through channel, packets of these that passed by the kernel half.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_kernel: Option<u64>,
    /// Why its rule holds for nothing now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<String>,
}

impl Node {
    /// The domain of the management environment.
    pub fn management(&self) -> DomainId {
        self.cx.control.management
    }

    /// A domain for an execution environment of the configuration, in the role of that name, below the management environment's.
    pub fn add_environment(&mut self, title: &str, role: &str) -> Result<DomainId, String> {
        let role = self.cx.control.roles.environment(&self.cx.core.name, title, role).map_err(|why| why.to_string())?;
        let what = (&role, role.grants);
        let created = self.cx.add_domain(self.cx.control.management, title.to_owned(), HostId::NODE, what, None);
        created.map_err(|error| error.help().to_owned())
    }

    /// Ends the domain of an environment after the end of its process, and all below it.
    pub fn end_environment(&mut self, turn: &mut Turn<'_>, domain: DomainId) -> Ended {
        self.end_domain(turn, domain, true)
    }

    /// A program of an environment has connected, in a process of its own or `here`: it runs the environment's domain,
    /// and what is created below that. One more connection of the same environment gets a domain of its own below it,
    /// in the role it asks for as far as that reaches.
    pub fn join(
        &mut self,
        top: DomainId,
        spec: &DomainSpec,
        here: Option<Box<dyn InProcess>>,
    ) -> Result<(HostId, DomainId), Error> {
        let title = title_of(&spec.title)?;
        let core = &mut self.cx.core;
        let domain = core.domains.of(top).ok_or(Error::Ended)?;
        let role = domain.role.clone();
        let granted = role.grants.with_threads(&spec.threads).ok_or(Error::Limit)?;
        if domain.host == HostId::NODE && spec.role.as_ref().is_none_or(|name| *name == role.name) {
            let hosts = self.environments.get_mut::<Hosts>();
            let host = hosts.and_then(|hosts| hosts.enter(here)).ok_or(Error::Full)?;
            domain.grants = granted;
            core.domains.set_host(top, host);
            return Ok((host, top));
        }
        let room = core.domains.has_room(top);
        let role = self
            .cx
            .control
            .roles
            .domain(&self.cx.core.name, &title, &role, spec.role.as_deref())
            .map_err(|refused| refused.error())?;
        let grants = role.grants.with_threads(&spec.threads).filter(|_| room).ok_or(Error::Limit)?;
        let host = self.ask(|hosts: &mut Hosts, _| hosts.enter(here)).flatten().ok_or(Error::Full)?;
        let added = self.cx.add_domain(top, title, host, (&role, grants), None);
        if added.is_err() {
            self.ask(|hosts: &mut Hosts, _| hosts.remove(host));
        }
        added.map(|domain| (host, domain))
    }

    /// For how long a thread of a process may work at a time for a domain, in nanoseconds; nothing if the domain is not within `top`.
    pub fn thread_limit(&self, top: DomainId, domain: DomainId) -> Option<u64> {
        let domains = &self.cx.core.domains;
        let found = domains.by_id(domain).filter(|_| domains.is_within(domain, top))?;
        Some(u64::from(found.grants.thread_ms) * 1_000_000)
    }

    /// Ends a domain because a thread of it has worked for too long at a time: no call ends a thread.
    pub fn end_hung(&mut self, turn: &mut Turn<'_>, domain: DomainId) -> Ended {
        let title = self.cx.core.domains.by_id(domain).map(|found| found.title.as_str());
        tracing::warn!(
            event = "session",
            node = self.cx.core.name,
            domain = domain.0,
            title,
            "domain ended: a thread has worked for too long at a time"
        );
        self.cx.fell(domain, EndedBy::Node);
        self.end_domain(turn, domain, true)
    }

    /// Those of these domains that there still are.
    pub fn living(&self, mut domains: Vec<DomainId>) -> Vec<DomainId> {
        domains.retain(|domain| self.cx.core.domains.by_id(*domain).is_some());
        domains
    }

    /// What the security module has decided.
    pub fn security(&self) -> SecurityCounts {
        self.cx.control.roles.decided()
    }

    /// All channels.
    pub fn channel_list(&mut self) -> Vec<ChannelStatus> {
        self.cx.graphs.settle_cuts(&mut self.cx.core);
        self.surveyed(Surveyed::Channels, &[]).channels()
    }
}

impl Cx {
    /// A domain and all below it.
    pub fn domains_within(&self, top: DomainId) -> Vec<DomainId> {
        let core = &self.core;
        core.domains.iter().map(|(id, _)| id).filter(|id| core.domains.is_within(*id, top)).collect()
    }
}

impl Cx {
    /// The domains that end if an operator ends one: it and all below it; not the node's own.
    pub fn killable(&self, domain: DomainId) -> Result<Vec<DomainId>, String> {
        let core = &self.core;
        let found = core.domains.by_id(domain).ok_or_else(|| format!("there is no domain {}", domain.0))?;
        if self.control.kept.contains(&domain) {
            return Err(format!("{} is the node's own and ends with it", found.title));
        }
        tracing::warn!(
            event = "session",
            node = self.core.name,
            domain = domain.0,
            title = found.title,
            "an operator ends a domain"
        );
        Ok(self.domains_within(domain))
    }

    /// What is known of a domain but the code that runs in it.
    pub(super) fn domain_status(&self, id: DomainId, domain: &Domain, unaccounted: i64) -> DomainStatus {
        let core = &self.core;
        DomainStatus {
            id: id.0,
            parent: domain.parent().map(|parent| parent.0),
            title: domain.title.clone(),
            role: domain.role.name.clone(),
            host: domain.host.0,
            worker: self.worker_of(id, domain),
            grants: domain.grants,
            memory: core.pools.of_domain(id).and_then(|pool| core.pools.status(pool)),
            memory_bytes: core.pools.held_by(id),
            usage: domain.usage(),
            budget: domain.common.as_ref().map(|common| common.account.leased()),
            unaccounted,
            missed_deadlines: self.order.paths.missed_deadlines(id),
            channels: domain.channels as usize,
            code: None,
        }
    }
}
