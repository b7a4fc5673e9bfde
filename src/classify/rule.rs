//! Rules: conditions on a packet's header fields and a few bytes of its payload. Example: UDP from 10.0.0.0/24 to port
//! 5000.
//!
//! A rule is a value that says nothing of what is done with its packets, so both halves of the node, ports and the domains' channels
//! share it: the tuple space ([`super::shapes`]), the maps of the kernel half (`kernel/filters.rs`), and specifications of channels as text
//! (`nodeos/channel.rs`).

use crate::frame::PortId;
use crate::wire::{Addr, Prefix};

/// Comparisons of one demultiplexing key.
pub const TUPLES_MAX: usize = crate::contract::TUPLES as usize;

/// The last protocol that a rule is about: what a channel hands over is its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// Whole Ethernet frames.
    Link,
    /// What is behind the IP header.
    Ip,
    /// What is behind the UDP header.
    Udp,
    /// What is behind the TCP header: segments, not a stream.
    Tcp,
    /// What is behind the ANEP header, on overlay ports and natively.
    Anep,
}

/// Which packets are meant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// The port, or any.
    pub port: Option<PortId>,
    /// The last protocol.
    pub layer: Layer,
    /// What that protocol says is inside: Ethernet's type, IP's protocol, ANEP's type.
    pub kind: Option<u16>,
    /// The sender's address.
    pub source: Prefix,
    /// The receiver's.
    pub destination: Prefix,
    /// The sender's UDP or TCP port.
    pub source_port: Option<u16>,
    /// The receiver's.
    pub destination_port: Option<u16>,
    /// Comparisons with the payload.
    pub key: DemuxKey,
}

/// Any address of either family.
pub const ANYWHERE: Prefix = Prefix { addr: Addr::UNSPECIFIED, length: 0 };

/// One comparison of a demultiplexing key with the payload of the channel's last protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyTuple {
    /// Where, in bytes from the payload's start.
    pub offset: u16,
    /// How many bytes, 1 to 8.
    pub length: u8,
    /// What must stand there, big endian.
    pub value: u64,
    /// The bits that matter.
    pub mask: u64,
}

/// All of these must hold.
pub type DemuxKey = Vec<KeyTuple>;

impl KeyTuple {
    /// Whether it can ever hold, and does not reach beyond what it says.
    pub fn is_meant(&self) -> bool {
        let bits = u32::from(self.length) * 8;
        let fits = |value: u64| bits == 64 || value >> bits == 0;
        (1..=8).contains(&self.length) && fits(self.value) && fits(self.mask) && self.value & !self.mask == 0
    }

    /// Whether it holds of a payload.
    #[inline]
    pub fn holds(&self, payload: &[u8]) -> bool {
        let from = usize::from(self.offset);
        let Some(bytes) = payload.get(from..from + usize::from(self.length)) else { return false };
        let value = bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
        value & self.mask == self.value
    }
}
