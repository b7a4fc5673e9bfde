//! The output of a node for one frame, timer or command: frames to send, capsules to deliver, and effects for the
//! outside, such as "compile this". The driver empties it after every call.

use super::handing::Handed;
use super::wishing::WishedEdit;
use super::workers::WorkerOrder;
use crate::classify::filter::{Filter, Watch};
use crate::classify::foreign::ForeignFlow;
use crate::code::fetch::Source;
use crate::code::judge::Claim;
use crate::code::run::Runtime;
pub use crate::code::run::{Cause, Ingress, Prepare};
use crate::core::domain::DomainId;
use crate::core::log::Trap;
use crate::core::reason::Reason;
use crate::core::record::SharedRecords;
use crate::core::share::SharedAccount;
use crate::core::state_store::SharedState;
use crate::ee::plan::Wish;
use crate::frame::{Frame, FramePool, PortId, Sent};
use crate::nodeos::interface::{HostId, Upcall};
use crate::trust::Role;
use crate::wire::revocation::Repr;
use crate::wire::{Addr, Digest};
use std::sync::Arc;

/// One call into a node: the time, the worker's run-time, and where results go.
pub struct Turn<'a> {
    /// The node's clock, in nanoseconds; never goes back.
    pub now: u64,
    /// The worker's run-time.
    pub runtime: &'a mut Runtime,
    /// The output of this turn.
    pub out: &'a mut Output,
}

/// Results of calls into a node.
#[derive(Default)]
pub struct Output {
    /// Frames to send, each with its port and peer.
    pub frames: Vec<Frame>,
    /// Packets for the first worker of the node.
    pub handed: Vec<Handed>,
    /// Capsules for applications.
    pub deliveries: Vec<Delivery>,
    /// Packets of applications that have ended here, for who has sent them.
    pub refused: Vec<SentEnd>,
    /// Whose packet the PLAN environment works on.
    pub(crate) sender: Sent,
    /// Messages for applications at PLAN ports.
    pub told: Vec<(u64, Vec<u8>)>,
    /// Work for the outside; its results come back through the node's methods.
    pub effects: Vec<Effect>,
    /// Upcalls for domains of other processes.
    pub upcalls: Vec<(HostId, DomainId, Upcall)>,
    /// Events of packets, if [`Output::traced`].
    pub events: Vec<Event>,
    /// By which way what the PLAN environment works on has come.
    pub(crate) ingress: Ingress,
    /// Whether events are recorded.
    pub traced: bool,
    /// Whether only those of packets with a number are, since nobody wants to hear of others.
    pub sampled: bool,
    /// The pool of frames.
    pub pool: FramePool,
}

impl Output {
    /// A packet has ended: whoever waits for word of it gets that.
    #[inline]
    pub(crate) fn refuse(&mut self, sent: Sent, reason: Reason) {
        if sent.is_awaited() && reason.is_refusal() {
            self.refused.push(SentEnd { sent, reason, trap: None });
        }
    }

    /// Ports hear which packets are a channel's, or are not any more.
    pub(crate) fn watch(&mut self, filter: Filter, exists: bool) {
        let told = filter.watches().into_iter().map(|watch| Effect::Channel { watch: Box::new(watch), exists });
        self.effects.extend(told);
    }

    /// Records an event if traces are wanted.
    #[inline]
    pub(crate) fn event(&mut self, trace: u64, kind: EventKind) {
        if self.traced && !(self.sampled && trace == 0) {
            self.events.push(Event { trace, kind });
        }
    }
}

/// A packet that an application of this node has sent has ended here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentEnd {
    /// Which one.
    pub sent: Sent,
    /// Why.
    pub reason: Reason,
    /// Where its code has trapped, if it has.
    pub trap: Option<Trap>,
}

/// A capsule for an application of this node.
pub struct Delivery {
    /// The application port.
    pub port: u16,
    /// Capsule header and payload.
    pub frame: Frame,
}

/// An order to the outside.
pub enum Effect {
    /// Look into the persistent store; answer with `Node::found`.
    LookUp(Digest, Ingress),
    /// Keep an object in the persistent store.
    Store(Arc<[u8]>),
    /// Say in which role code acts, on behalf of whom it is asked; answer with `Node::authorised`.
    Authorise(Claim, Cause),
    /// Verify a revocation that a neighbour tells, by the way that it came, and remember it; answer with `Node::revocation_judged`.
    Revoke(Box<Repr>, Source, Ingress),
    /// Make a representation ready to run; answer with `Node::prepared`.
    Prepare(Prepare),
    /// Tell the kernel half, if there is one.
    Kernel(KernelOrder),
    /// From now on these packets are a channel's, or not any more. There is no answer.
    Channel {
        /// The packets.
        watch: Box<Watch>,
        /// Whether the channel exists.
        exists: bool,
    },
    /// No rule over taught protocols can hold for this flow of a port. There is no answer.
    Foreign(PortId, ForeignFlow),
    /// All rules were read again: what was said of flows is not to be believed. There is no answer.
    NoneForeign,
    /// Tell the other workers of the node. There is no answer.
    Workers(Box<WorkerOrder>),
    /// Tell the first worker of the node whom this one hears: `Node::heard`.
    Heard(Vec<(PortId, Addr)>),
    /// Tell the first worker of the node that this one has known the link address of this next hop for long: `Node::link_is_old`.
    AskLink(PortId, Addr),
    /// Tell the first worker of the node that these domains have ended, which may have something in its stores: `Node::end_stores`.
    EndStores(Vec<DomainId>),
    /// Have an edit of a graph done that code of capsules wishes for; answer with `Node::edited`.
    GraphEdit(Box<WishedEdit>),
    /// Grant the PLAN environment a wish, on behalf of whom it is wished; answer as it says.
    Plan(Wish, Cause),
}

/// The kernel half's answer on a code: the state shared by both halves, or why it does not run there.
pub type Linked = Result<Shared, String>;

/// The state of a code that both halves share.
#[derive(Clone, Debug)]
pub struct Shared {
    /// Its soft state.
    pub state: Arc<dyn SharedState>,
    /// The spending of its domain.
    pub account: Option<Arc<dyn SharedAccount>>,
    /// Records of its packets from the kernel half.
    pub records: Option<Arc<dyn SharedRecords>>,
}

/// An order to the kernel half.
pub enum KernelOrder {
    /// Let this code run.
    Activate(Digest),
    /// Link and load this code; answer with `Node::linked`.
    Link {
        /// The code's name.
        code: Digest,
        /// The bpf representation.
        bpf: Arc<[u8]>,
        /// Payload bytes in its window.
        window: u32,
        /// In which it acts: its form, calls and limits in the kernel.
        role: Arc<Role>,
        /// The payer, in whose turn it is done.
        cause: Cause,
    },
    /// Take this code out.
    Unlink(Digest),
    /// This code has the budget of this role from now on.
    Limit {
        /// The code's name.
        code: Digest,
        /// In which it acts.
        role: Arc<Role>,
    },
    /// Let copies of packets leave by this set of links.
    Links(u64),
    /// These are the neighbours now, in the order of their numbers.
    Neighbours(Vec<(PortId, Addr)>),
    /// The node sends to this next hop: the system shall know its link address too.
    NextHop {
        /// The port it is behind.
        port: PortId,
        /// Its address.
        addr: Addr,
    },
}

/// Something that happened to a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The packet.
    pub trace: u64,
    /// What.
    pub kind: EventKind,
}

/// Events of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// It came in by a port.
    Received(PortId),
    /// An application of this node sent it.
    Injected,
    /// It waits for its code.
    Waiting(Digest),
    /// Parts of an object were asked for on behalf of those that wait.
    Requested(Digest, u64),
    /// Parts of an object were sent to a neighbour.
    Served(Digest, u32),
    /// An object arrived whole.
    Arrived(Digest),
    /// Code is ready to run.
    Ready(Digest),
    /// Its code ran, in so many steps.
    Ran(u64),
    /// Its code sent a child, which has this identity.
    Child(u64),
    /// It left by a port towards a destination.
    Forwarded(PortId, Addr),
    /// It went to an application port.
    Delivered(u16),
    /// Its resource bound was cut from this to the ceiling of the port that it came in by.
    Clamped(PortId, u32),
    /// It was dropped.
    Dropped(Reason),
    /// It is this domain's, which pays for what comes of it.
    Charged(DomainId),
    /// An engine of a graph had it: the names of both.
    Met(Arc<str>, Arc<str>),
}
