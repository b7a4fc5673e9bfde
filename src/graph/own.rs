//! Channels of environments with types of ANEP of their own: capsules, fetches of code, PLAN, revocations.
//!
//! They are channels of those environments' domains like any others: an incoming and an outgoing one for a type of
//! ANEP, by any port. Only the look-up differs: the type alone decides. Their traffic is counted here.

use super::channels::{Channels, InChan, Own, Traffic};
use super::exit::Target;
use super::table::Graph;
use crate::classify::filter::Filter;
use crate::core::domain::DomainId;
use crate::nodeos::channel;
use crate::nodeos::interface::{ChanSpec, Error, InChanId, OutChanId};
use crate::wire::anep::type_id;

/// Types that nobody else may have, also on nodes whose environments do not speak them.
const RESERVED: [u16; 4] = [type_id::CAPSULE, type_id::FETCH, type_id::PLAN, type_id::REVOCATION];

impl Channels {
    /// Whether a type is an environment's own: no other channel may have it.
    pub fn is_own(&self, kind: u16) -> bool {
        RESERVED.contains(&kind) || self.own.iter().any(|own| own.kind == kind)
    }

    /// Gives an environment of the node's own the channels of a type.
    pub fn add_own(&mut self, domain: DomainId, kind: u16) -> Result<(), Error> {
        let (protocol, address) = ("*/anep".to_owned(), format!("type {kind}"));
        let filter = channel::rule(&protocol, &address, &[], |_| None)?;
        let spec = ChanSpec { protocol, address, ..ChanSpec::default() };
        let target = Target::of(&filter)?;
        let channel = InChan::new(domain, (Filter::Fixed(filter), Graph::default()), &spec);
        let incoming = self.ins.add(channel).map_err(|_| Error::Full)?;
        let outgoing = self.add_out(domain, (target, Graph::default()), &spec)?;
        let (came, went) = Default::default();
        self.own.push(Own { kind, ids: (incoming, outgoing), came, went });
        Ok(())
    }

    /// Counts a packet that came to an environment of the node's own.
    #[inline]
    pub fn count_came(&mut self, kind: u16, length: usize) {
        if let Some(own) = self.own.iter_mut().find(|own| own.kind == kind) {
            own.came.count(length);
        }
    }

    /// Counts a packet that one has sent.
    #[inline]
    pub fn count_went(&mut self, kind: u16, length: usize) {
        if let Some(own) = self.own.iter_mut().find(|own| own.kind == kind) {
            own.went.count(length);
        }
    }

    /// What has gone through an incoming channel.
    pub fn traffic_in(&self, id: InChanId, channel: &InChan) -> Traffic {
        let own = self.own.iter().find(|own| own.ids.0 == id);
        own.map_or(channel.traffic, |own| own.came)
    }

    /// What has gone through an outgoing one.
    pub fn traffic_out(&self, id: OutChanId, traffic: Traffic) -> Traffic {
        let own = self.own.iter().find(|own| own.ids.1 == id);
        own.map_or(traffic, |own| own.went)
    }
}
