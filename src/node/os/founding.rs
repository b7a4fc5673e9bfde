//! Who calls by the interface: environments are connected here, and domains and their titles are made.

use super::*;

impl Node {
    /// Does something by the interface in the name of `caller`. Environments are told of what has come of it afterwards.
    pub fn with_os<R>(&mut self, turn: &mut Turn<'_>, caller: DomainId, work: impl FnOnce(&mut Os<'_, '_>) -> R) -> R {
        let result = work(&mut Os { cx: &mut self.cx, turn, caller, called: false });
        self.environments.settle(&mut self.cx, turn);
        result
    }

    /// The root of the node's domains.
    pub fn root_domain(&self) -> DomainId {
        self.cx.core.domains.root()
    }

    /// A new host in a process of its own, and the domain that is its, below the root.
    pub fn connect(&mut self, title: &str, role: &Role) -> Result<(HostId, DomainId), Error> {
        let host = self.ask(|hosts: &mut Hosts, _| hosts.add_remote()).flatten().ok_or(Error::Full)?;
        self.found_host(host, title, role)
    }

    /// A new host in the node's process, and the domain that is its, below the root.
    pub fn attach(
        &mut self,
        title: &str,
        role: &Role,
        environment: Box<dyn InProcess>,
    ) -> Result<(HostId, DomainId), Error> {
        let host = self.ask(|hosts: &mut Hosts, _| hosts.add_local(environment)).flatten().ok_or(Error::Full)?;
        self.found_host(host, title, role)
    }

    /// Puts another environment in the place of the one that runs a domain; false if that is none of this process.
    pub fn replace_environment(&mut self, domain: DomainId, environment: Box<dyn InProcess>) -> bool {
        let host = self.cx.core.domains.by_id(domain).map(|domain| domain.host);
        host.and_then(|host| self.ask(|hosts: &mut Hosts, _| hosts.replace(host, environment))).unwrap_or(false)
    }

    fn found_host(&mut self, host: HostId, title: &str, role: &Role) -> Result<(HostId, DomainId), Error> {
        let root = self.root_domain();
        let role = Arc::new(role.clone());
        match title_of(title).and_then(|title| self.cx.add_domain(root, title, host, (&role, role.grants), None)) {
            Ok(domain) => Ok((host, domain)),
            Err(error) => {
                self.ask(|hosts: &mut Hosts, _| hosts.remove(host));
                Err(error)
            }
        }
    }

    /// Tells domains of their events that are due.
    pub(in crate::node) fn expire_events(&mut self, turn: &mut Turn<'_>) {
        if self.cx.control.events.is_empty() {
            return;
        }
        let mut due = core::mem::take(&mut self.cx.control.due);
        self.cx.control.events.expire(turn.now, &mut |domain, event, argument| due.push((domain, event, argument)));
        for (domain, event, argument) in due.drain(..) {
            // An event of the same moment may have ended it.
            if self.cx.core.domains.by_id(domain).is_some() {
                self.environments.upcall(&mut self.cx, turn, domain, Upcall::Event { event, argument });
                self.environments.settle(&mut self.cx, turn);
            }
        }
        self.cx.control.due = due;
    }
}

impl Cx {
    /// Domains with pools over their limits are told, and ended if they have not obeyed in time.
    pub(in crate::node) fn look_after_pools(&mut self, turn: &mut Turn<'_>) {
        if self.core.pools.is_quiet() {
            return;
        }
        let untold = &mut self.control.untold;
        self.core.pools.tell(turn.now, |domain, pool, deadline| {
            if untold.len() < UNTOLD_MAX {
                untold.push((domain, Upcall::Overrun { pool, deadline }));
            }
        });
        for domain in self.core.pools.due(turn.now) {
            tracing::warn!(node = self.core.name, domain = domain.0, "domain ended: over its memory for too long");
            self.fell(domain, EndedBy::Node);
            self.end_domain(turn, domain, |_| true);
        }
    }

    /// A domain in a role, with the memory pool it uses, or one of its own.
    pub(in crate::node) fn add_domain(
        &mut self,
        parent: DomainId,
        title: String,
        host: HostId,
        (role, grants): (&Arc<Role>, Grants),
        pool: Option<PoolId>,
    ) -> Result<DomainId, Error> {
        let core = &mut self.core;
        let mut domain = Domain::in_role(title, role).with_grants(grants);
        domain.host = host;
        let id = core.domains.create(parent, domain).ok_or(Error::Full)?;
        let own = MemPoolSpec { parent: None, limit_bytes: grants.memory_bytes, deadline_ms: DEADLINE_MS };
        let attached = match pool {
            Some(pool) => core.pools.attach(id, pool),
            None => core.pools.create(id, &own).and_then(|pool| core.pools.attach(id, pool)),
        };
        if let Err(error) = attached {
            core.pools.end(id);
            core.domains.end(id);
            return Err(error);
        }
        Ok(id)
    }

    pub(super) fn count_channel(&mut self, domain: DomainId, change: i32) {
        if let Some(domain) = self.core.domains.of(domain) {
            domain.channels = domain.channels.saturating_add_signed(change);
        }
    }
}
