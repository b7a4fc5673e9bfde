//! The NodeOS interface: the calls of execution environments on the node, such as "create a channel" or "wake me in 20
//! ms".
//!
//! Five abstractions: domains own, thread pools compute, memory pools hold, channels communicate, files last; besides
//! them events, soft state, stores, time and packets (Peterson et al.; Snow on Silk §2.1; PLAN on OSKit §3.3). *Objects* are
//! named by the types that end in `Id` and live from their creation to their destruction or to the end of their domain;
//! *specifications* are plain values whose life is one call. [`NodeOs`] is the binding for environments in the node's
//! process; `sdk/anode/nodeos.h` is the same for C, through a socket and shared memory. `docs/nodeos.md` is the
//! reference.

pub use crate::classify::rule::{DemuxKey, KeyTuple};
pub use crate::core::domain::{DomainId, HostId, Usage};
pub use crate::core::memory_pool::{MemPoolSpec, PoolId};
pub use crate::core::state_store::{Change, Value};
pub use crate::frame::Ends;
use crate::frame::Frame;
use crate::nodeos::store::ask::{StoreAsk, StoreReply, WatchId};
use crate::object_name;
pub use libanode::error::Error;

object_name! {
    /// Names an incoming channel.
    InChanId
}
object_name! {
    /// Names an outgoing channel.
    OutChanId
}
object_name! {
    /// Names a cut-through channel.
    CutChanId
}

/// Names an event that has been scheduled and not come yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId(pub u64);

/// The threads of a domain: at most so many of its packets, events and exceptions are worked on at the same time. They exist as
/// threads only where they need stacks of their own, in the processes of environments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadPoolSpec {
    /// How many.
    pub max_threads: u16,
    /// Bytes of a stack; 0 for the default of whoever makes it.
    pub stack_bytes: u32,
    /// Milliseconds that one may work on a packet, an event or an exception, before its domain is ended; 0: what the role grants.
    pub hold_ms: u32,
}

impl Default for ThreadPoolSpec {
    fn default() -> ThreadPoolSpec {
        ThreadPoolSpec { max_threads: 1, stack_bytes: 0, hold_ms: 0 }
    }
}

/// A domain to be created. What it may use comes from the credential, not from its parent.
#[derive(Clone, Debug, Default)]
pub struct DomainSpec {
    /// For people.
    pub title: String,
    /// Its threads.
    pub threads: ThreadPoolSpec,
    /// The memory pool that its buffers are taken from; one of its own if there is none.
    pub pool: Option<PoolId>,
    /// The role with its limits, as far as the creator's credential reaches; the creator's own if there is none.
    pub role: Option<String>,
}

/// What a channel may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetSpec {
    /// Packets of it that may be worked on at the same time; 0: as many as the domain's thread pool has.
    pub max_threads: u16,
    /// Bytes a second on the link; 0: what the domain was granted.
    pub bandwidth: u64,
    /// Packets that may wait.
    pub buffers: u16,
}

impl Default for NetSpec {
    fn default() -> NetSpec {
        NetSpec { max_threads: 0, bandwidth: 0, buffers: 256 }
    }
}

/// A channel to be created, incoming or outgoing.
#[derive(Clone, Debug, Default)]
pub struct ChanSpec {
    /// Where packets come from or go to, and what is done with them on the way: `if0/ip/udp`.
    pub protocol: String,
    /// The addresses of that protocol: `10.0.0.2:5000`, `*:5000`.
    pub address: String,
    /// What else must be in an incoming packet.
    pub key: DemuxKey,
    /// What it may use.
    pub net: NetSpec,
}

/// An event of a domain, told to its environment.
#[derive(Debug)]
pub enum Upcall {
    /// A packet has come in: what the channel's protocols have left of it. Its buffer is the domain's until it is sent or freed.
    Packet {
        /// The channel.
        channel: InChanId,
        /// The payload of the channel's last protocol; its [`Ends`] are what the channel's protocols say.
        frame: Frame,
    },
    /// An event is due.
    Event {
        /// Which.
        event: EventId,
        /// The value it was scheduled with.
        argument: u64,
    },
    /// The domain's memory pool is over its limit and has so long to change that.
    Overrun {
        /// The pool.
        pool: PoolId,
        /// Nanoseconds of the node's clock.
        deadline: u64,
    },
    /// Something has changed in a store: ask for it by [`StoreAsk::Changes`].
    Changed {
        /// The watch.
        watch: WatchId,
        /// What it was begun with.
        argument: u64,
    },
    /// The domain has ended; nothing comes for it any more.
    Ended,
}

/// Where a packet goes that an outgoing channel with an open address sends.
pub type Destination = Option<(crate::wire::Addr, u16)>;

/// The interface, bound to the domain that calls. Every call checks that the objects it is given exist and are of the caller's
/// subtree of domains.
pub trait NodeOs {
    /// The calling domain.
    fn domain_self(&self) -> DomainId;
    /// Creates a domain below the caller's, or below one of its subtree.
    fn domain_create(&mut self, parent: DomainId, spec: &DomainSpec) -> Result<DomainId, Error>;
    /// Ends a domain and all below it. When it returns no packet, event or call reaches them, and all that they owned is gone.
    fn domain_terminate(&mut self, domain: DomainId) -> Result<(), Error>;
    /// What a domain has used, and the bytes of memory that it holds.
    fn domain_usage(&mut self, domain: DomainId) -> Result<(Usage, u64), Error>;
    /// Creates a memory pool for the caller's subtree.
    fn mempool_create(&mut self, spec: &MemPoolSpec) -> Result<PoolId, Error>;
    /// Destroys a memory pool that no domain uses.
    fn mempool_destroy(&mut self, pool: PoolId) -> Result<(), Error>;
    /// Charges memory that the environment itself holds to a pool (negative: gives it back).
    fn mempool_charge(&mut self, pool: PoolId, bytes: i64) -> Result<(), Error>;
    /// Creates an incoming channel of a domain.
    fn inchan_create(&mut self, domain: DomainId, spec: &ChanSpec) -> Result<InChanId, Error>;
    /// Destroys it: packets that wait in it are dropped.
    fn inchan_destroy(&mut self, channel: InChanId) -> Result<(), Error>;
    /// Creates an outgoing channel of a domain.
    fn outchan_create(&mut self, domain: DomainId, spec: &ChanSpec) -> Result<OutChanId, Error>;
    /// Destroys it.
    fn outchan_destroy(&mut self, channel: OutChanId) -> Result<(), Error>;
    /// Sends a packet: the payload of the channel's last protocol. The frame is given back if it cannot.
    fn outchan_send(&mut self, channel: OutChanId, to: Destination, frame: Frame) -> Result<(), (Frame, Error)>;
    /// Joins an incoming and an outgoing channel of one domain: packets go from one to the other without anybody's code.
    fn cutchan_create(&mut self, from: InChanId, to: OutChanId) -> Result<CutChanId, Error>;
    /// Parts them again.
    fn cutchan_destroy(&mut self, channel: CutChanId) -> Result<(), Error>;
    /// What a domain's soft state has under a key.
    fn state_get(&mut self, domain: DomainId, key: u64) -> Result<Value, Error>;
    /// Changes it in one step, and keeps it for so many milliseconds, 0: not at all. Gives the number in what is kept.
    fn state_change(&mut self, domain: DomainId, key: u64, change: Change<'_>, keep_ms: u32) -> Result<u64, Error>;
    /// Asks something of the node's stores in a domain's name. `Invalid`: this worker has none, or the store is one that outlives the
    /// node, which nobody changes on the packet path.
    fn store(&mut self, domain: DomainId, ask: &StoreAsk) -> Result<StoreReply, Error>;
    /// Has an event come to a domain in so many milliseconds.
    fn event_schedule(&mut self, domain: DomainId, delay_ms: u64, argument: u64) -> Result<EventId, Error>;
    /// Takes an event back.
    fn event_cancel(&mut self, event: EventId) -> Result<(), Error>;
    /// Nanoseconds since the node started.
    fn time_now(&self) -> u64;
    /// An empty packet buffer of the domain.
    fn packet_alloc(&mut self, domain: DomainId) -> Result<Frame, Error>;
    /// Gives a packet buffer back.
    fn packet_free(&mut self, domain: DomainId, frame: Frame);
}
