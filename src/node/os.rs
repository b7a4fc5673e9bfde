//! The NodeOS interface, bound to a domain of this node.
//!
//! [`Os`] is what [`NodeOs`] is for environments of the node: a node, a turn, and in whose name. Every call
//! first sees to it that what it is given exists and is of the caller's subtree of domains.

use super::hosts::Environment;
use super::output::{Effect, Turn};
use super::{Node, channels};
use crate::nodeos::channel::Target;
use crate::nodeos::channel::spec::{Filter, Layer};
use crate::nodeos::domain::Domain;
use crate::nodeos::interface::{
    ChanSpec, CutChanId, Destination, DomainId, DomainSpec, Error, EventId, HostId, InChanId, MemPoolSpec, NetSpec,
    NodeOs, OutChanId, PoolId, Upcall,
};
use crate::port::{Frame, PortId};
use crate::trust::{Role, RoleRefused};
use crate::wire::anep;
use std::sync::Arc;

/// Characters of a title.
const TITLE_MAX: usize = 64;

/// Channels of one domain.
pub const CHANNELS_OF_DOMAIN_MAX: usize = 256;

/// What ended with a domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Ended {
    /// Domains, with those below.
    pub domains: usize,
    /// Channels.
    pub channels: usize,
    /// Codes.
    pub codes: usize,
}

/// Packets that have gone through the channels that exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct ChannelCounts {
    /// Through incoming ones.
    pub received: u64,
    /// Through outgoing ones.
    pub sent: u64,
    /// Through cut-through ones, which are among the others too.
    pub cut: u64,
}

/// The NodeOS interface in the name of a domain.
pub struct Os<'a, 't> {
    node: &'a mut Node,
    turn: &'a mut Turn<'t>,
    caller: DomainId,
}

impl Node {
    /// The interface in the name of `caller`.
    pub fn os<'a, 't>(&'a mut self, turn: &'a mut Turn<'t>, caller: DomainId) -> Os<'a, 't> {
        Os { node: self, turn, caller }
    }

    /// The root of the node's domains.
    pub fn root_domain(&self) -> Option<DomainId> {
        self.env.as_deref().map(|env| env.domains.root())
    }

    /// A new host in a process of its own, and the domain that is its, below the root.
    pub fn connect(&mut self, title: &str) -> Result<(HostId, DomainId), Error> {
        let host = self.hosts.add_remote().ok_or(Error::Full)?;
        self.found_host(host, title)
    }

    /// A new host in the node's process, and the domain that is its, below the root.
    pub fn attach(&mut self, title: &str, environment: Box<dyn Environment>) -> Result<(HostId, DomainId), Error> {
        let host = self.hosts.add_local(environment).ok_or(Error::Full)?;
        self.found_host(host, title)
    }

    /// Puts another environment in the place of the one that runs a domain; false if that is none of this process.
    pub fn replace_environment(&mut self, domain: DomainId, environment: Box<dyn Environment>) -> bool {
        let host = self.env.as_deref().and_then(|env| env.domains.by_id(domain)).map(|domain| domain.host);
        host.is_some_and(|host| self.hosts.replace(host, environment))
    }

    /// How many packets have gone through channels.
    pub fn channel_counts(&self) -> ChannelCounts {
        let sum = |traffic: &mut dyn Iterator<Item = u64>| traffic.sum();
        ChannelCounts {
            received: sum(&mut self.channels.ins.iter().map(|(_, channel)| channel.traffic.packets)),
            sent: sum(&mut self.channels.outs.iter().map(|(_, channel)| channel.traffic.packets)),
            cut: sum(&mut self.channels.cuts.iter().map(|(_, channel)| channel.traffic.packets)),
        }
    }

    fn found_host(&mut self, host: HostId, title: &str) -> Result<(HostId, DomainId), Error> {
        let root = self.root_domain().ok_or(Error::Full)?;
        let created = title_of(title).and_then(|title| self.add_domain(root, title, host, &Role::of_node()));
        match created {
            Ok(domain) => Ok((host, domain)),
            Err(error) => {
                self.hosts.remove(host);
                Err(error)
            }
        }
    }

    fn add_domain(
        &mut self,
        parent: DomainId,
        title: String,
        host: HostId,
        role: &Arc<Role>,
    ) -> Result<DomainId, Error> {
        let env = self.env.as_deref_mut().ok_or(Error::Full)?;
        let above = env.domains.by_id(parent).ok_or(Error::Stale)?;
        // The node's own role has no limits of code: a domain in it has those of the one above.
        let limits = if Arc::ptr_eq(role, &Role::of_node()) { above.limits } else { role.limits };
        let mut domain = Domain::new(title, limits);
        (domain.host, domain.role) = (host, role.clone());
        if !env.domains.has_room(parent) {
            return Err(Error::Limit);
        }
        env.domains.create(parent, domain).ok_or(Error::Full)
    }

    /// A host is gone: with it all its domains.
    pub fn disconnect(&mut self, turn: &mut Turn<'_>, host: HostId) -> Ended {
        let Some(env) = self.env.as_deref() else { return Ended::default() };
        let own: Vec<_> = env.domains.iter().filter(|(_, domain)| domain.host == host).map(|(id, _)| id).collect();
        let mut ended = Ended::default();
        for domain in own {
            let more = self.end_domain(turn, domain, false);
            ended.domains += more.domains;
            ended.channels += more.channels;
            ended.codes += more.codes;
        }
        self.hosts.remove(host);
        ended
    }

    /// Tells the ports which packets are channels', if that has changed.
    pub(super) fn tell_channels(&mut self, turn: &mut Turn<'_>) {
        if self.channels_told != self.channels.changes {
            self.channels_told = self.channels.changes;
            let filters = self.channels.ins.iter().map(|(_, channel)| channel.filter.clone()).collect();
            turn.out.effects.push(Effect::Channels(filters));
        }
    }

    /// Ends a domain and all below it, with all that they own: nothing reaches them from now on. `tell`: their hosts are told.
    pub fn end_domain(&mut self, turn: &mut Turn<'_>, top: DomainId, tell: bool) -> Ended {
        let codes = self.withdraw_codes_of(turn, top);
        let Some(env) = self.env.as_deref_mut() else { return Ended::default() };
        let gone = env.domains.end(top);
        let mut ended = Ended { domains: gone.len(), channels: 0, codes };
        for (id, _) in &gone {
            env.state.forget(&mut env.domains, *id);
            ended.channels += self.channels.remove_all(*id);
        }
        for (id, domain) in gone {
            if tell && self.hosts.is_remote(domain.host) {
                turn.out.upcalls.push((domain.host, id, Upcall::Ended));
            }
        }
        self.tell_channels(turn);
        ended
    }
}

fn title_of(title: &str) -> Result<String, Error> {
    let fits = !title.is_empty() && title.chars().count() <= TITLE_MAX && !title.chars().any(char::is_control);
    if fits { Ok(title.to_owned()) } else { Err(Error::Invalid) }
}

impl Os<'_, '_> {
    /// Whether the caller may use what is this domain's.
    fn may(&self, domain: DomainId) -> Result<(), Error> {
        let env = self.node.env.as_deref().ok_or(Error::Stale)?;
        if env.domains.by_id(domain).is_none() {
            return Err(Error::Stale);
        }
        if env.domains.is_within(domain, self.caller) { Ok(()) } else { Err(Error::Denied) }
    }

    fn owner_of_in(&self, channel: InChanId) -> Result<DomainId, Error> {
        let domain = self.node.channels.ins.get(channel).ok_or(Error::Stale)?.domain;
        self.may(domain).map(|()| domain)
    }

    fn owner_of_out(&self, channel: OutChanId) -> Result<DomainId, Error> {
        let domain = self.node.channels.outs.get(channel).ok_or(Error::Stale)?.domain;
        self.may(domain).map(|()| domain)
    }

    fn filter(&self, domain: DomainId, spec: &ChanSpec) -> Result<Filter, Error> {
        self.may(domain)?;
        let env = self.node.env.as_deref().ok_or(Error::Stale)?;
        let granted = env.domains.by_id(domain).map_or(0, |domain| usize::from(domain.role.grants.channels));
        if self.node.channels.count(domain) >= CHANNELS_OF_DOMAIN_MAX.min(granted) {
            return Err(Error::Limit);
        }
        let ports = &env.topology.ports;
        Filter::parse(&spec.protocol, &spec.address, &spec.key, |name| {
            let numbered = name.strip_prefix("if").and_then(|digits| digits.parse::<usize>().ok());
            let at = ports.iter().position(|port| port.name == name).or(numbered.filter(|at| *at < ports.len()))?;
            Some(PortId(at as u16))
        })
    }
}

impl Os<'_, '_> {
    /// Octets a second for one more outgoing channel of a domain: all that its role has left if none are asked for. 0 is without bound,
    /// and only in the node's own role.
    fn bandwidth(&self, domain: DomainId, wanted: u64) -> Result<u64, Error> {
        let env = self.node.env.as_deref().ok_or(Error::Stale)?;
        let granted = env.domains.by_id(domain).ok_or(Error::Stale)?.role.grants.bandwidth;
        if granted == u64::MAX {
            return Ok(wanted);
        }
        let own = self.node.channels.outs.iter().filter(|(_, channel)| channel.domain == domain);
        let taken = own.fold(0, |sum: u64, (_, channel)| sum.saturating_add(channel.spec.net.bandwidth));
        let left = granted.saturating_sub(taken);
        match if wanted == 0 { left } else { wanted } {
            0 => Err(Error::Limit),
            rate if rate > left => Err(Error::Limit),
            rate => Ok(rate),
        }
    }
}

impl NodeOs for Os<'_, '_> {
    fn domain_self(&self) -> DomainId {
        self.caller
    }

    fn domain_create(&mut self, parent: DomainId, spec: &DomainSpec) -> Result<DomainId, Error> {
        self.may(parent)?;
        let title = title_of(&spec.title)?;
        if spec.threads.max_threads == 0 {
            return Err(Error::Invalid);
        }
        let env = self.node.env.as_deref().ok_or(Error::Stale)?;
        let host = env.domains.by_id(parent).ok_or(Error::Stale)?.host;
        let creator = &env.domains.by_id(self.caller).ok_or(Error::Stale)?.role;
        let role = self.node.roles.domain(&self.node.name, &title, creator, spec.role.as_deref());
        let role = role.map_err(|refused| match refused {
            RoleRefused::Unknown { .. } => Error::Unknown,
            RoleRefused::Exceeds { .. } => Error::Denied,
        })?;
        self.node.add_domain(parent, title, host, &role)
    }

    fn domain_terminate(&mut self, domain: DomainId) -> Result<(), Error> {
        self.may(domain)?;
        if Some(domain) == self.node.root_domain() {
            return Err(Error::Denied);
        }
        self.node.end_domain(self.turn, domain, domain != self.caller);
        Ok(())
    }

    fn mempool_create(&mut self, _: &MemPoolSpec) -> Result<PoolId, Error> {
        Err(Error::Unsupported)
    }

    fn mempool_destroy(&mut self, _: PoolId) -> Result<(), Error> {
        Err(Error::Unsupported)
    }

    fn mempool_charge(&mut self, _: PoolId, _: i64) -> Result<(), Error> {
        Err(Error::Unsupported)
    }

    fn inchan_create(&mut self, domain: DomainId, spec: &ChanSpec) -> Result<InChanId, Error> {
        let filter = self.filter(domain, spec)?;
        if filter.layer == Layer::Anep && filter.kind.is_none_or(channels::is_own_type) {
            return Err(if filter.kind.is_none() { Error::Invalid } else { Error::Exists });
        }
        if filter.layer == Layer::Udp && filter.destination_port == Some(anep::UDP_PORT)
            || filter.layer == Layer::Ip && filter.kind == Some(u16::from(anep::IP_PROTOCOL))
        {
            return Err(Error::Exists);
        }
        let channel = self.node.channels.add_in(domain, filter, spec)?;
        self.node.tell_channels(self.turn);
        Ok(channel)
    }

    fn inchan_destroy(&mut self, channel: InChanId) -> Result<(), Error> {
        self.owner_of_in(channel)?;
        self.node.channels.remove_in(channel);
        self.node.tell_channels(self.turn);
        Ok(())
    }

    fn outchan_create(&mut self, domain: DomainId, spec: &ChanSpec) -> Result<OutChanId, Error> {
        let filter = self.filter(domain, spec)?;
        if filter.layer == Layer::Tcp {
            return Err(Error::Unsupported);
        }
        if filter.layer == Layer::Anep && filter.kind.is_some_and(channels::is_own_type) {
            return Err(Error::Exists);
        }
        let target = Target::of(&filter)?;
        let env = self.node.env.as_deref().ok_or(Error::Stale)?;
        if target.source.is_some_and(|source| !env.topology.is_own(source)) {
            return Err(Error::Denied);
        }
        let bandwidth = self.bandwidth(domain, spec.net.bandwidth)?;
        let spec = ChanSpec { net: NetSpec { bandwidth, ..spec.net }, ..spec.clone() };
        self.node.channels.add_out(domain, target, &spec)
    }

    fn outchan_destroy(&mut self, channel: OutChanId) -> Result<(), Error> {
        self.owner_of_out(channel)?;
        self.node.channels.remove_out(channel);
        Ok(())
    }

    fn outchan_send(&mut self, channel: OutChanId, to: Destination, frame: Frame) -> Result<(), (Frame, Error)> {
        match self.owner_of_out(channel) {
            Ok(_) => self.node.send_out(self.turn, channel, to, frame),
            Err(error) => Err((frame, error)),
        }
    }

    fn cutchan_create(&mut self, from: InChanId, to: OutChanId) -> Result<CutChanId, Error> {
        self.owner_of_in(from)?;
        self.owner_of_out(to)?;
        let cut = self.node.channels.add_cut(from, to)?;
        self.node.tell_channels(self.turn);
        Ok(cut)
    }

    fn cutchan_destroy(&mut self, channel: CutChanId) -> Result<(), Error> {
        let domain = self.node.channels.cuts.get(channel).ok_or(Error::Stale)?.domain;
        self.may(domain)?;
        self.node.channels.remove_cut(channel);
        self.node.tell_channels(self.turn);
        Ok(())
    }

    fn event_schedule(&mut self, _: DomainId, _: u64, _: u64) -> Result<EventId, Error> {
        Err(Error::Unsupported)
    }

    fn event_cancel(&mut self, _: EventId) -> Result<(), Error> {
        Err(Error::Unsupported)
    }

    fn time_now(&self) -> u64 {
        self.turn.now
    }

    fn packet_alloc(&mut self, domain: DomainId) -> Result<Frame, Error> {
        self.may(domain)?;
        Ok(self.turn.out.pool.take())
    }

    fn packet_free(&mut self, _: DomainId, frame: Frame) {
        self.turn.out.pool.give(frame);
    }
}
