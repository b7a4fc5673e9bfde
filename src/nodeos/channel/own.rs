//! The channels of the environments that every node has: capsules, fetches of their code, PLAN.
//!
//! They are channels like others, of those environments' domains: an incoming and an outgoing one for a type of ANEP, by any port. Only
//! how their packets are found differs: the type alone says it, so nothing is looked up, and their traffic is counted here.

use super::module::Module;
use super::spec::Filter;
use super::{Channels, InChan, Target, Traffic};
use crate::core::domain::DomainId;
use crate::nodeos::interface::{ChanSpec, Error, InChanId, OutChanId};
use crate::wire::anep::type_id;

/// The types.
pub const OWN: [u16; 4] = [type_id::CAPSULE, type_id::FETCH, type_id::PLAN, type_id::REVOCATION];

/// The channels of one type.
#[derive(Clone, Copy, Debug, Default)]
pub struct Own {
    ids: Option<(InChanId, OutChanId)>,
    /// What came.
    pub came: Traffic,
    /// What went.
    pub went: Traffic,
}

/// The place of a type among [`OWN`].
#[inline]
pub fn place(kind: u16) -> Option<usize> {
    OWN.iter().position(|own| *own == kind)
}

impl Channels {
    /// Gives an environment of the node's own the channels of a type.
    pub fn add_own(&mut self, domain: DomainId, kind: u16) -> Result<(), Error> {
        let at = place(kind).ok_or(Error::Invalid)?;
        let (protocol, address) = ("*/anep".to_owned(), format!("type {kind}"));
        let filter = Filter::parse(&protocol, &address, &[], |_| None)?;
        let spec = ChanSpec { protocol, address, ..ChanSpec::default() };
        let target = Target::of(&filter)?;
        let modules = Vec::<Module>::new;
        let channel = InChan::new(domain, (filter, modules()), &spec);
        let incoming = self.ins.add(channel).map_err(|_| Error::Full)?;
        let outgoing = self.add_out(domain, (target, modules()), &spec)?;
        self.own[at].ids = Some((incoming, outgoing));
        Ok(())
    }

    /// Counts a packet that came to an environment of the node's own.
    #[inline]
    pub fn count_came(&mut self, kind: u16, length: usize) {
        if let Some(own) = place(kind).and_then(|at| self.own.get_mut(at)) {
            own.came.count(length);
        }
    }

    /// Counts a packet that one has sent.
    #[inline]
    pub fn count_went(&mut self, kind: u16, length: usize) {
        if let Some(own) = place(kind).and_then(|at| self.own.get_mut(at)) {
            own.went.count(length);
        }
    }

    /// What has gone through an incoming channel.
    pub fn traffic_in(&self, id: InChanId, channel: &InChan) -> Traffic {
        let own = self.own.iter().find(|own| own.ids.is_some_and(|(incoming, _)| incoming == id));
        own.map_or(channel.traffic, |own| own.came)
    }

    /// What has gone through an outgoing one.
    pub fn traffic_out(&self, id: OutChanId, traffic: Traffic) -> Traffic {
        let own = self.own.iter().find(|own| own.ids.is_some_and(|(_, outgoing)| outgoing == id));
        own.map_or(traffic, |own| own.went)
    }
}
