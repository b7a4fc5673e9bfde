//! What specifications of channels say, in a node with these ports and these taught protocols.

use super::Os;
use crate::classify::filter::{Filter, RuleRefused, TaughtRule};
use crate::classify::rule::{Layer, Rule};
use crate::classify::taught::classifier::MatchMode;
use crate::classify::taught::language::Language;
use crate::frame::PortId;
use crate::graph::table::Graph;
use crate::nodeos::channel;
use crate::nodeos::interface::{ChanSpec, DomainId, Error};
use crate::wire::anep;
use std::sync::Arc;

impl Os<'_, '_> {
    /// The packets of an incoming channel, and its engines.
    pub(super) fn incoming(&mut self, domain: DomainId, spec: &ChanSpec) -> Result<(Filter, Graph), Error> {
        self.may_have_one_more(domain)?;
        let (protocol, engines) = channel::split(&spec.protocol);
        let graph = Graph::chain(&engines)?;
        let filter = match channel::language(protocol) {
            (channel::PASSED, None) => passed(spec, &graph)?,
            (_, None) => Filter::Fixed(self.fixed(protocol, spec)?),
            (base, Some(language)) => self.taught(domain, (base, language), spec)?,
        };
        if let Filter::Fixed(rule) = &filter {
            self.refuse_own(rule)?;
        }
        Ok((filter, graph))
    }

    /// Where an outgoing channel leads, and its engines.
    pub(super) fn outgoing(&mut self, domain: DomainId, spec: &ChanSpec) -> Result<(Rule, Graph), Error> {
        self.may_have_one_more(domain)?;
        let (protocol, engines) = channel::split(&spec.protocol);
        let graph = Graph::chain(&engines)?;
        Ok((self.fixed(protocol, spec)?, graph))
    }

    fn may_have_one_more(&self, domain: DomainId) -> Result<(), Error> {
        self.may(domain)?;
        let owner = self.cx.core.domains.by_id(domain).ok_or(Error::Stale)?;
        if owner.channels >= u32::from(owner.grants.channels) { Err(Error::Limit) } else { Ok(()) }
    }

    fn fixed(&self, protocol: &str, spec: &ChanSpec) -> Result<Rule, Error> {
        channel::rule(protocol, &spec.address, &spec.key, |name| self.port(name))
    }

    fn port(&self, name: &str) -> Option<PortId> {
        channel::port_at(name, self.cx.core.topology.ports.iter().map(|port| port.name.as_str()))
    }

    /// A rule over taught protocols. One that fixed fields can say is one of those, as if it had been written so, where only the
    /// first that holds gets a packet.
    fn taught(
        &mut self,
        domain: DomainId,
        (base, language): (&str, Language),
        spec: &ChanSpec,
    ) -> Result<Filter, Error> {
        let head = channel::rule(base, "", &[], |name| self.port(name))?;
        if head.layer == Layer::Anep {
            return Err(Error::Unsupported);
        }
        if !spec.key.is_empty() {
            return Err(Error::Invalid);
        }
        let classifying = self.cx.graphs.channels.taught.classifying();
        let (mode, ends) = (classifying.mode, (head.port, head.layer));
        match TaughtRule::read(&spec.address, language, ends, &classifying.protocols, &classifying.words) {
            Ok(TaughtRule { same: Some(rule), .. }) if mode == MatchMode::First => Ok(Filter::Fixed(rule)),
            Ok(rule) => Ok(Filter::Taught(Arc::new(rule))),
            Err(why) => {
                self.say_refused(domain, &why);
                Err((&why).into())
            }
        }
    }

    /// Callers get a number; why is in the log, as far as the domain may write there.
    fn say_refused(&mut self, domain: DomainId, why: &RuleRefused) {
        let (now, node) = (self.turn.now, &self.cx.core.name);
        let Some(owner) = self.cx.core.domains.of(domain) else { return };
        if owner.may_log(now) {
            let title = &owner.title;
            tracing::warn!(node, domain = domain.0, title, %why, "a channel's rule is refused");
        }
    }

    /// What the node takes itself is no channel's.
    fn refuse_own(&self, rule: &Rule) -> Result<(), Error> {
        if rule.layer == Layer::Anep && rule.kind.is_none_or(|kind| self.cx.graphs.channels.is_own(kind)) {
            return Err(if rule.kind.is_none() { Error::Invalid } else { Error::Exists });
        }
        if rule.layer == Layer::Udp && rule.destination_port == Some(anep::UDP_PORT)
            || rule.layer == Layer::Ip && rule.kind == Some(u16::from(anep::IP_PROTOCOL))
        {
            return Err(Error::Exists);
        }
        Ok(())
    }
}

/// What programs pass on to a channel is no port's: neither addresses nor engines mean anything.
fn passed(spec: &ChanSpec, graph: &Graph) -> Result<Filter, Error> {
    let is_bare = spec.address.is_empty() && spec.key.is_empty() && graph.is_empty();
    if is_bare { Ok(Filter::Passed) } else { Err(Error::Invalid) }
}
