//! TCP streams, as far as they are the domain's: its rights and its memory. Bytes and sockets are `manage/ee/streams`.

use super::Os;
use crate::core::domain::OwnsStreams;
use crate::nodeos::interface::{DomainId, Error};
use crate::trust::Role;

/// What ends the streams of a domain when it is dropped.
pub type EndsStreams = Box<dyn OwnsStreams>;

impl Os<'_, '_> {
    /// Takes memory of a domain for a stream, if its role lets it have that one. `enter` makes what ends its streams, for its
    /// title, role and bytes a second, if there is nothing yet. `Denied`: the role does not lead there. `Limit`: it may send
    /// nothing, or has not so much memory.
    pub fn begin_stream(
        &mut self,
        domain: DomainId,
        bytes: u64,
        may: impl FnOnce(&Role) -> bool,
        enter: impl FnOnce(&str, &Role, u64) -> EndsStreams,
    ) -> Result<(), Error> {
        self.may(domain)?;
        self.cx.settle_hand();
        let core = &mut self.cx.core;
        let found = core.domains.of(domain).ok_or(Error::Stale)?;
        if !may(&found.role) {
            return Err(Error::Denied);
        }
        if found.grants.bandwidth == 0 {
            return Err(Error::Limit);
        }
        if found.streams.is_none() {
            found.streams = Some(enter(&found.title, &found.role, found.grants.bandwidth));
        }
        self.charge_within(domain, bytes)
    }

    /// Takes memory for one more stream of a domain that has some.
    pub fn charge_stream(&mut self, domain: DomainId, bytes: u64) -> Result<(), Error> {
        self.may(domain)?;
        self.cx.settle_hand();
        self.charge_within(domain, bytes)
    }

    /// What is asked for at leisure is no reason to go over the limit, and to be ended for it.
    fn charge_within(&mut self, domain: DomainId, bytes: u64) -> Result<(), Error> {
        let pools = &mut self.cx.core.pools;
        let pool = pools.of_domain(domain).and_then(|pool| pools.status(pool)).ok_or(Error::Stale)?;
        if pool.held_bytes.saturating_add(bytes) > pool.limit_bytes {
            return Err(Error::Limit);
        }
        pools.charge(domain, bytes)
    }

    /// A stream has ended: its memory is the domain's again, if that is still there.
    pub fn end_stream(&mut self, domain: DomainId, bytes: u64) {
        if self.cx.core.domains.by_id(domain).is_some() {
            self.cx.settle_hand();
            self.cx.core.pools.free(domain, bytes);
        }
    }
}
