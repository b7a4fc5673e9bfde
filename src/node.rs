//! The node: frames in, frames out. A capsule comes in by port 0, its code runs, and it leaves by port 1.
//!
//! [`Node`] is the state machine of the user half. A driver (a real worker, a simulator, a test) hands it frames,
//! timers and commands together with the time, and carries out its [`Output`]. The node itself opens nothing, waits for
//! nothing and reads no clock.
//!
//! A node has two parts. `Environments` run packets of domains. `Cx` is the context of every call to one: the core,
//! channels, the order of packets, and the operator's settings. Calls do not nest: endings and messages of a call are
//! left in `Cx` and carried out when it has returned (`Environments::settle`), endings first.
//!
//! The way of a packet is the code below, from [`Node::receive`] on, or from `receive_all` of a batch (`batch`). A frame
//! is looked at and let in (`receiving`); a table says whose it is (`environment`). There it waits for its domain's turn
//! (`paths`), and runs: capsules in `running`, PLAN in `plan`, graphs of channels in `forms` (hosts behind the NodeOS
//! interface, engines, cut-through). `sending` finds the next hop and puts headers on.
//!
//! What no fixed field gives to a channel is asked of the rules over taught protocols (`ruled`).
//!
//! What is off that way is in a module of its own: `founding` makes a node, `api` has what a driver tells and asks it,
//! `timers` does what is due, `moving` takes a domain to another worker (`workers`, `handing`). `codes` knows what each
//! code name means, `loading` brings absent code here, `vouching` asks others for what it came without, `serving`
//! answers neighbours that ask for code, `links` finds out who is on a link.

mod alarms;
mod anew;
mod api;
mod asked;
mod balance;
mod batch;
mod capsules;
mod ceilings;
mod channels;
pub mod codes;
pub mod config;
pub mod domains;
mod ending;
mod entering;
pub mod entry;
mod environment;
pub mod explaining;
mod forms;
mod founding;
pub mod graphs;
mod halves;
pub mod handing;
pub mod hello;
pub mod hosts;
mod links;
mod loading;
mod marks;
pub mod moving;
pub mod objects;
pub mod os;
mod outgoing;
pub mod output;
mod overrun;
pub mod paths;
pub mod places;
mod plan;
pub mod policy;
pub mod proofs;
mod rates;
mod reach;
mod receiving;
mod replay;
pub mod revoking;
mod ruled;
mod running;
mod sending;
mod serving;
pub mod status;
pub mod stores;
pub mod survey;
mod teaching;
mod tiers;
mod timers;
mod trust;
pub mod turning;
mod unproved;
mod vouching;
pub mod wishing;
pub mod workers;

use crate::classify::Class;
pub use crate::classify::taught::classifier::MatchMode;
pub use crate::classify::taught::words::RuleWords;
use crate::core::Core;
use crate::core::domain::DomainId;
use crate::core::reason::Reason;
use crate::frame::Frame;
pub use crate::graph::taught::Classifying;
use crate::graph::{Graphs, Taker};
use crate::nodeos::event::Events;
use crate::nodeos::store::Stores;
use crate::trust::Roles;
use batch::Seen;
use capsules::Capsules;
pub use config::{NodeConfig, Sizes};
pub use ending::{Ended, EndedBy};
use environment::{Environments, OwnType, PacketKind, Row};
use founding::{below_root, secret, secret_word};
use handing::Handed;
pub use output::{
    Cause, Delivery, Effect, Event, EventKind, Ingress, KernelOrder, Linked, Output, Prepare, SentEnd, Shared, Turn,
};
use paths::Work;
use receiving::Admitted;
pub use status::CredentialCounts;
use std::collections::VecDeque;
use std::sync::Arc;

/// Time between two sweeps of soft state, in nanoseconds.
const SWEEP: u64 = 100_000_000;

/// Time between two looks at rare events, in nanoseconds.
const LOOK: u64 = 1_000_000_000;

/// Codes in the list for the next process.
pub const RECENT_MAX: usize = 256;

/// One active node.
pub struct Node {
    cx: Cx,
    environments: Environments,
}

/// The context of every call of an environment.
struct Cx {
    core: Core,
    graphs: Graphs,
    order: Order,
    control: Control,
}

/// Whose packet is next.
struct Order {
    /// Packets that wait for the CPU.
    paths: paths::Paths,
    /// Shares of neighbours at the entrance.
    entry: entry::Entry,
}

/// Settings of the operator, and everything that timers look after.
struct Control {
    roles: Arc<Roles>,
    /// Whether these are others than those of the start: then who judges may know others for a moment.
    roles_renewed: bool,
    /// The domain of the management environment, above those of the environments that it starts.
    management: DomainId,
    /// Domains that end with the node only.
    kept: [DomainId; 3],
    /// Keys of neighbours, and what ports demand.
    proofs: Option<Box<proofs::Proofs>>,
    /// Events of domains, by their time.
    events: Events,
    /// Named stores of domains; those of all workers are at the first.
    stores: Stores,
    /// Those that are due now.
    due: Vec<(DomainId, crate::nodeos::interface::EventId, u64)>,
    /// Domains that have ended, of which environments are to be told.
    ended: VecDeque<ending::Gone>,
    /// Upcalls to make when the current call has returned.
    untold: Vec<(DomainId, crate::nodeos::interface::Upcall)>,
    /// Domains that the node has ended against their will.
    felled: ending::Felled,
    /// Limits on the node's own messages, by address.
    originate: reach::Originate,
    /// Sources of packets with cut bounds.
    clamps: ceilings::Said,
    /// Drops that the log is to tell.
    alarms: alarms::Alarms,
    mirror: Mirror,
    workers: workers::Workers,
    /// What code wishes of graphs.
    wishing: wishing::Wishing,
    next_sweep: u64,
    next_look: u64,
}

/// The node's view of the kernel half.
#[derive(Clone, Copy)]
struct Mirror {
    /// Whether one works for the node.
    on: bool,
    /// Changes of the neighbours that it has been told, and when it may be told of more before the next sweep.
    told: u64,
    next_tell: u64,
}

impl Node {
    /// A frame has come in by `frame.port`.
    pub fn receive(&mut self, turn: &mut Turn<'_>, mut frame: Frame) {
        let mut seen = Seen::Nowhere;
        self.cx.renew_rules(turn);
        self.cx.see(&mut frame, &mut seen);
        self.take_in(turn, frame, &seen);
    }

    /// A frame has come in of which this is known. A packet goes to the environment of its kind.
    #[inline(always)]
    fn take_in(&mut self, turn: &mut Turn<'_>, mut frame: Frame, seen: &Seen) {
        if self.cx.control.workers.are_several()
            && let Some((to, what)) = self.cx.elsewhere(&frame, seen)
        {
            return self.cx.hand_frame(turn, Handed { to, what, frame });
        }
        self.cx.count_received(&frame);
        let (admitted, native) = match seen {
            Seen::Class(Ok(Class::Anep(range, native))) => {
                (self.cx.let_in(turn, &mut frame, range.clone()), native.as_ref())
            }
            Seen::Channel(found) if !self.cx.graphs.channels.taught.go_to_all() => {
                return self.receive_channel(turn, frame, found.owner);
            }
            Seen::Channel(found) => return self.receive_by_rules(turn, frame, Some(found.owner)),
            Seen::Class(Ok(Class::NotOurs(Some(_)))) if !self.cx.graphs.channels.taught.is_empty() => {
                return self.receive_by_rules(turn, frame, None);
            }
            Seen::PassedUp => (Ok(self.cx.let_in_punt(&mut frame)), None),
            Seen::Class(Ok(Class::Arp(range))) => {
                if !self.cx.graphs.hears.is_empty() {
                    self.hear(turn, &frame);
                }
                (Ok(self.cx.let_in_resolution(&mut frame, PacketKind::Arp, range.clone())), None)
            }
            Seen::Class(Ok(Class::Discovery(range, native))) => {
                (Ok(self.cx.let_in_resolution(&mut frame, PacketKind::Discovery, range.clone())), Some(native))
            }
            _ => return self.cx.take_in_other(turn, frame, seen),
        };
        let Admitted { kind, header, discard } = match admitted {
            Ok(admitted) => admitted,
            Err(reason) => return self.cx.turn_away(turn, frame, reason),
        };
        let Some(Row { own: OwnType { waits, .. }, environment }) = self.environments.row(kind) else {
            return match self.receive_anep_channel(turn, frame, kind, header) {
                Some(frame) if discard => self.cx.turn_away(turn, frame, Reason::UnknownType),
                Some(frame) => {
                    self.cx.count_taken(frame.port);
                    self.cx.pass_on(turn, frame, native);
                }
                None => {}
            };
        };
        frame.strip(header);
        self.cx.count_taken(frame.port);
        let run = self.cx.begin(turn.now, frame.payer, waits);
        if let Some(environment) = self.environments.at(environment) {
            environment.packet(&mut self.cx, turn, kind, frame, native);
            self.environments.settle(&mut self.cx, turn);
        } else {
            self.cx.drop(turn, frame, Reason::HostGone);
        }
        self.cx.end(turn.now, run);
    }

    /// A frame has come in that is a channel's.
    #[inline(always)]
    fn receive_channel(&mut self, turn: &mut Turn<'_>, mut frame: Frame, owner: Taker) {
        frame.authenticated = false;
        if !self.cx.order.entry.admit(&mut frame, turn.now, self.cx.order.paths.waiting()) {
            return self.cx.turn_away(turn, frame, Reason::EntryShare);
        }
        self.cx.count_taken(frame.port);
        turn.out.event(frame.trace, EventKind::Received(frame.port));
        let run = self.cx.begin(turn.now, frame.payer, true);
        self.enter_channel(turn, frame, owner);
        self.cx.end(turn.now, run);
    }

    /// A packet is a channel's: its domain takes it on and pays from here on, and it waits for that
    /// one's turn where packets wait.
    #[inline]
    fn enter_channel(&mut self, turn: &mut Turn<'_>, frame: Frame, owner: Taker) {
        let Taker { channel: id, domain, .. } = owner;
        self.cx.on_domain(turn.now, domain);
        let Some(channel) = self.cx.graphs.channels.ins.get_mut(id) else {
            return self.cx.drop(turn, frame, Reason::ChannelGone);
        };
        channel.traffic.count((frame.marks.end - frame.marks.payload) as usize);
        let (is_full, joins) = (channel.is_full(), channel.joins);
        let admitted = match self.cx.core.domains.of(domain) {
            Some(domain) => domain.admit(turn.now, frame.len()).map(|()| domain.environment),
            None => Err(Reason::DomainEnded),
        };
        let environment = match admitted {
            Ok(environment) => environment,
            Err(reason) => {
                channel.traffic.dropped += 1;
                return self.cx.throttle(turn, frame, reason, domain);
            }
        };
        turn.out.event(frame.trace, EventKind::Charged(domain));
        let work = Work { environment, what: id.0, joins };
        if !self.cx.order.paths.is_queueing() || self.cx.has_turn(turn.now, domain, frame.payer) {
            self.environments.run(&mut self.cx, turn, domain, work, frame);
            return;
        }
        let waits = if is_full {
            self.cx.order.paths.count_came(domain);
            self.cx.drop_in(turn, frame, Reason::ChannelQueueFull, domain);
            false
        } else {
            self.cx.enqueue(turn, domain, frame, work)
        };
        if let Some(channel) = self.cx.graphs.channels.ins.get_mut(id) {
            if waits { channel.waiting += 1 } else { channel.traffic.dropped += 1 }
        }
    }
}
