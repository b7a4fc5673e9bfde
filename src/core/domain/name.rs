//! Names of domains, and of who runs their packets.

use crate::object_name;

object_name! {
    /// Names a domain.
    DomainId
}

object_name! {
    /// The host of a domain: an environment in the node's process or in one of its own. Domains inherit it.
    HostId
}

impl HostId {
    /// The node itself: the first of all hosts.
    pub const NODE: HostId = HostId(0);
}

/// The environment that runs packets of a domain, by its place in the node's table. Domains inherit it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EnvironmentId(pub u8);
