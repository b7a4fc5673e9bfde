//! The marks of a frame: the port, the neighbour, the payer, and the applications at both ends.

use crate::wire::Addr;
use crate::wire::ethernet::Mac;

/// The number of a worker of a node: 0 is the first, which has the tables of the node.
pub type WorkerId = u16;

/// Index of a port in its node's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortId(pub u16);

/// Index of a neighbour on an overlay port. Ethernet ports have [`PeerId::NONE`] only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerId(pub u16);

impl PeerId {
    /// No particular peer: the frame carries link addresses itself.
    pub const NONE: PeerId = PeerId(u16::MAX);
}

/// The payer of a packet that came in: a row of the node's table of neighbours and ports (`node::entry`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Payer(pub u16);

impl Payer {
    /// Nobody outside: the packet begins here.
    pub const NOBODY: Payer = Payer(u16::MAX);
}

/// The fields of the IP header around a native packet that go on with the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Time to live, or hop limit.
    pub hop_limit: u8,
    /// Type of service, or traffic class.
    pub service: u8,
    /// ANEP right behind the IP header, without UDP.
    pub direct: bool,
}

impl Envelope {
    /// That of a packet which begins its way here, or comes from an overlay: it leaves with 64.
    pub const FRESH: Envelope = Envelope { hop_limit: 65, service: 0, direct: false };
}

/// The two ends of a packet, as far as its protocols name them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// The sender's address and port.
    pub source: Option<(Addr, u16)>,
    /// The receiver's.
    pub destination: Option<(Addr, u16)>,
}

/// Where a packet's headers and payload are in its frame, as the rule that has found it says. An IP packet of 65,535 bytes
/// ends behind byte 65,535 of its frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Where the IP header begins, if there is one.
    pub network: u32,
    /// Where the payload of the rule's last protocol begins.
    pub payload: u32,
    /// Where that ends.
    pub end: u32,
}

/// What engines of a graph have noted about a packet, each for those behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Nanoseconds of the clock when it came in.
    pub at: u64,
    /// Where in its buffer the network header begins, and 1; 0: nobody has said so.
    pub network: u16,
    /// The IPv4 address that it goes to next.
    pub next: [u8; 4],
    /// A number that `Paint` has given it.
    pub paint: u8,
    /// Whether it was for all stations of its link, or for several.
    pub group: bool,
    /// Whether its IP source address is to be that of the interface by which it leaves.
    pub fix_source: bool,
}

/// What kind of link a port has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Frames are Ethernet frames; IP addresses are resolved by ARP and neighbour discovery.
    Ethernet {
        /// The port's own hardware address.
        mac: Mac,
        /// Whether the node itself answers ARP and neighbour solicitations for its addresses; on an
        /// interface of the host, the Linux stack does.
        answers: bool,
    },
    /// Frames are ANEP packets between configured peers.
    Overlay,
}

/// For people.
impl core::fmt::Display for Link {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Link::Ethernet { mac, .. } => write!(f, "Ethernet {mac}"),
            Link::Overlay => f.write_str("overlay"),
        }
    }
}

/// A packet that an application of this node has sent: by whom, and which one of its packets, from 1. The number 0: no
/// application's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// The application's connection.
    pub by: u64,
    /// The packet.
    pub number: u32,
}

impl Sent {
    /// Whether an application waits for word of it.
    #[inline]
    pub fn is_awaited(self) -> bool {
        self.number != 0
    }
}
