//! The PLAN execution environment: evaluates packets that are programs, and routes the others.
//!
//! ```text
//!  message ─▶ piece ──▶ whole? ─┐                               pieces
//!     │                         ▼
//!     └────▶ packet ─▶ clamp the bound ─▶ for this node? ──no──▶ routing function ─▶ spend a hop ─▶ next   route
//!                                           │ yes
//!                                           ▼
//!            decode ─▶ code absent? wait, ask the previous node                              library, waiting
//!               ▼
//!            layers ─▶ evaluate ─▶ services ─▶ outbox ─▶ new packets: here, or the next node  evaluate, services
//! ```
//!
//! [`Plan`] is a part of a node without I/O, clock or threads, and knows the node only through [`PlanOs`]: what
//! that has is all that PLAN packets can reach. The language itself is the crate `plan/`; docs/plan.md has the
//! services. In steady state a packet that is routed allocates nothing; evaluating one allocates what
//! its values, new chunks and their list of codes need, and messages to applications.

mod account;
mod ceilings;
pub mod config;
mod costs;
mod evaluate;
mod flows;
mod graphs;
mod holders;
mod jobs;
mod layers;
mod library;
mod loaded;
mod names;
mod os;
mod outbox;
mod outside;
mod parts;
mod peers;
mod pieces;
mod ports;
mod ready;
mod reports;
mod resident;
pub mod rip;
mod route;
mod sending;
mod services;
mod signers;
pub mod status;
mod table;
mod waiting;
pub mod wasm;
mod work;

use crate::code::extension::call_type::CallType;
use crate::core::reason::Reason;
use crate::frame::{PeerId, PortId};
use crate::topology::Neighbour;
use crate::wire::Addr;
use crate::wire::plan::{Message, is_everybody};
pub use account::Account;
pub use config::Config;
use flows::Flows;
pub use graphs::{GraphAnswer, GraphAsk, GraphAsker, GraphCause, GraphDeed, GraphRefused, GraphSaid};
use jobs::Jobs;
pub use layers::{authenticator, signed};
use library::{Library, Room};
use loaded::Loaded;
pub use loaded::LoadedService;
use names::Names;
pub use os::PlanOs;
use outbox::Outbox;
pub use outside::{Brought, Install, Wish};
use peers::Peers;
use pieces::{Lost, MessagePieces, Taken};
use plan::eval::Machine;
use plan::packet::{Outline, View, ViewMut};
use plan::value::Host;
use ports::Ports;
pub use ports::{Seat, message};
use resident::Resident;
use rip::Rip;
use table::Table;
use waiting::Waiting;

/// The principal of packets that nobody has authenticated.
pub const ANYONE: usize = 0;

/// Buffers that are kept for packets to the node itself.
const BUFFERS: usize = 16;

/// Where a packet goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// By this port.
    pub port: PortId,
    /// To this peer of an overlay port.
    pub peer: PeerId,
    /// The next node, or a router towards it.
    pub via: Addr,
    /// Natively, what the IP header says: nodes on the way that are not active send it on to there.
    pub to: Addr,
}

/// How a message has come.
enum Came {
    /// In a frame: natively, to this address.
    Frame(Option<Addr>),
    /// In pieces, which were heard of.
    Pieces,
}

/// What becomes of the bytes that came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// They are used up.
    Taken,
    /// They wait, where [`Plan::packets_held`] finds them.
    Kept,
    /// They have ended, and are counted.
    Dropped,
    /// They go on as they are now.
    Forward(Next),
    /// They end here.
    Drop(Reason),
}

/// Why a native message to an address is not for this node, if it is not: pieces are taken on their way, the others are
/// from neighbour to neighbour.
fn astray(env: &dyn PlanOs, from: &Neighbour, to: Addr, message: &Message<'_>) -> Option<Reason> {
    let own = env.topology().is_own(to);
    match message {
        _ if own && env.is_neighbour(from) => None,
        Message::Packet(_) | Message::Piece(_) => None,
        // Somebody looks for neighbours, or tells all that there are.
        Message::Routes(_) if is_everybody(to) => (!env.is_neighbour(from)).then_some(Reason::Stranger),
        _ if own => Some(Reason::Stranger),
        _ => Some(Reason::DestinationMismatch),
    }
}

/// The PLAN environment of one node.
pub struct Plan {
    config: Config,
    table: Table,
    loaded: Vec<Loaded>,
    library: Library,
    machine: Machine,
    state: State,
    assemblies: MessagePieces,
    waiting: Waiting,
    outbox: Outbox,
    /// What waits for a turn and came in no frame.
    ready: ready::Line,
    buffers: Vec<Vec<u8>>,
    /// The codes of the packet under way.
    seen: Vec<plan::program::Digest>,
    /// Bytes of questions that the packet under way is to pay with its next frames.
    debt: usize,
    /// Whether its codes came whole, and its neighbour is to be told that this need not be.
    untold: bool,
}

/// What services reach, besides the node.
struct State {
    peers: Peers,
    ports: Ports,
    resident: Resident,
    flows: Flows,
    names: Names,
    jobs: Jobs,
    rip: Option<Rip>,
    layers: layers::Layers,
    installs: outside::Installs,
    graphs: graphs::GraphTalk,
    account: Account,
    /// The number of the next message in pieces.
    message: u32,
}

impl Plan {
    /// An environment at rest.
    pub fn new(config: Config) -> Plan {
        let state = State {
            peers: Peers::default(),
            ports: Ports::default(),
            resident: Resident::default(),
            flows: Flows::default(),
            names: Names::new(config.hosts.clone()),
            jobs: Jobs::default(),
            rip: config.rip.map(Rip::new),
            layers: layers::Layers::new(&config.principals),
            installs: outside::Installs::default(),
            graphs: graphs::GraphTalk::default(),
            account: Account::default(),
            message: 0,
        };
        Plan {
            table: Table::new(&config),
            loaded: Vec::new(),
            library: Library::new(Room { codes: config.codes, bytes: config.code_bytes, memory: config.code_memory }),
            machine: Machine::new(),
            state,
            assemblies: MessagePieces::default(),
            waiting: Waiting::default(),
            outbox: Outbox::default(),
            ready: ready::Line::default(),
            buffers: Vec::new(),
            seen: Vec::new(),
            debt: 0,
            untold: false,
            config,
        }
    }

    /// A service of this name is there from now on; one of the same name gives way. The error says why it cannot be.
    pub fn load(&mut self, name: &str, signature: CallType, service: Box<dyn LoadedService>) -> Result<(), String> {
        let name = loaded::service(name)?;
        if self.loaded.len() >= loaded::SERVICES_MAX && !self.loaded.iter().any(|loaded| loaded.name == name) {
            return Err(format!("{} services are loaded; unload one", self.loaded.len()));
        }
        self.loaded.retain(|loaded| loaded.name != name);
        self.loaded.push(Loaded::new(name, signature, service));
        self.link_again();
        Ok(())
    }

    /// Whether services of these names can be loaded when those have gone.
    pub fn fits(&self, gone: &[String], new: &[String]) -> Result<(), String> {
        let stay: Vec<&str> = self.loaded.iter().map(|loaded| loaded.name.as_str()).collect();
        let stay: Vec<&str> = stay.into_iter().filter(|name| !gone.iter().any(|it| it == name)).collect();
        for name in new {
            loaded::service(name)?;
            if stay.contains(&&**name) {
                return Err(format!("a service {name} is loaded already: anode plan unload-service"));
            }
        }
        if stay.len() + new.len() > loaded::SERVICES_MAX {
            return Err(format!("{} services are loaded, {} at most: unload some", stay.len(), loaded::SERVICES_MAX));
        }
        Ok(())
    }

    /// Whether a service of this name was loaded.
    pub fn has_loaded(&self, name: &str) -> bool {
        self.loaded.iter().any(|loaded| loaded.name.as_str() == name)
    }

    /// A service that was loaded is there no more; whether it was.
    pub fn unload(&mut self, name: &str) -> bool {
        let before = self.loaded.len();
        self.loaded.retain(|loaded| loaded.name.as_str() != name);
        self.link_again();
        self.loaded.len() != before
    }

    /// Programs know services by number, and those may have changed.
    fn link_again(&mut self) {
        self.table.set_loaded(self.loaded.iter().map(|loaded| loaded.name.clone()));
        self.library.compile_again();
    }

    /// The names of all principals, [`ANYONE`] first, with the roles whose limits they have.
    pub fn principals(&self) -> impl Iterator<Item = (&str, &str)> {
        let own = self.config.principals.iter().map(|principal| (principal.name.as_str(), principal.role.as_str()));
        std::iter::once(("anyone", crate::trust::ANYONE)).chain(own)
    }

    /// A message has come from a neighbour in a frame: natively, to the address `to`.
    pub fn receive(&mut self, env: &mut dyn PlanOs, from: &Neighbour, to: Option<Addr>, bytes: &mut [u8]) -> Fate {
        match Message::parse(bytes) {
            Err(_) => Fate::Drop(Reason::MalformedPlan),
            Ok(Message::Packet(_)) => self.packet(env, from, Came::Frame(to), bytes),
            Ok(message) => {
                if let Some(reason) = to.and_then(|to| astray(env, from, to, &message)) {
                    return Fate::Drop(reason);
                }
                env.heard(from.addr, bytes.len());
                self.word(env, from, message)
            }
        }
    }

    /// A message that is no packet, from a neighbour.
    fn word(&mut self, env: &mut dyn PlanOs, from: &Neighbour, message: Message<'_>) -> Fate {
        match message {
            Message::Packet(_) => Fate::Drop(Reason::MalformedPlan),
            Message::Piece(piece) => match self.assemblies.take(env.now(), from, env.payer(), &piece) {
                Ok(Taken::Kept) => Fate::Kept,
                Ok(Taken::Again) => Fate::Taken,
                Ok(Taken::Whole(mut whole, pieces)) => {
                    // The message goes on in the place of its last piece.
                    env.used(u64::from(pieces) - 1);
                    self.whole(env, from, &mut whole)
                }
                Err(reason) => Fate::Drop(reason),
            },
            Message::Want(digest) => self.serve_code(env, from, plan::program::Digest(digest)),
            Message::Code(code) => self.take_code(env, code),
            Message::Have(digest) => {
                self.state.peers.learn(from.port, from.addr, plan::program::Digest(digest));
                Fate::Taken
            }
            Message::Routes(routes) => match &mut self.state.rip {
                Some(rip) => {
                    rip.receive(env, from, &routes);
                    Fate::Taken
                }
                None => Fate::Drop(Reason::UnknownType),
            },
        }
    }

    /// All pieces of a message are here.
    fn whole(&mut self, env: &mut dyn PlanOs, from: &Neighbour, bytes: &mut [u8]) -> Fate {
        let fate = match Message::parse(bytes) {
            Err(_) | Ok(Message::Piece(_)) => Fate::Drop(Reason::MalformedPlan),
            Ok(Message::Packet(_)) => self.packet(env, from, Came::Pieces, bytes),
            Ok(message) => self.word(env, from, message),
        };
        match fate {
            Fate::Forward(next) => {
                self.state.send(env, &next, bytes);
                Fate::Taken
            }
            fate => fate,
        }
    }

    /// A packet has come from a neighbour. Its front is read once.
    fn packet(&mut self, env: &mut dyn PlanOs, from: &Neighbour, came: Came, bytes: &mut [u8]) -> Fate {
        let Ok(outline) = Outline::read(bytes) else { return Fate::Drop(Reason::MalformedPlan) };
        let (source, destination) = (Addr(outline.view().source().0), Addr(outline.view().destination().0));
        if let Came::Frame(to) = came {
            if to.is_some_and(|to| to != destination && !env.topology().is_own(to)) {
                return Fate::Drop(Reason::DestinationMismatch);
            }
            env.heard(from.addr, bytes.len());
        }
        if env.demands_signature(from.port) && !layers::is_signed(&outline, |principal| env.is_disowned(principal)) {
            return Fate::Drop(Reason::Unsigned);
        }
        let ceiling = self.ceiling(env, from);
        // Whether it is signed is found out before it may cause more than anybody's (ceilings.rs).
        let most = if layers::claims_signer(&outline) { ceiling.signed } else { ceiling.unsigned };
        let front = outline.front();
        let Some(mut view) = ViewMut::again(bytes) else { return Fate::Drop(Reason::MalformedPlan) };
        let cut = view.clamp(most);
        view.set_previous(Host(from.addr.0));
        if source != from.addr {
            env.heard(source, bytes.len());
        }
        if cut > 0 {
            env.clamped(from, most.saturating_add(cut), most);
        }
        let account = &mut self.state.account;
        account.packets += 1;
        account.clamped += u64::from(cut);
        account.received += account::bound_of(bytes);
        if env.topology().is_own(destination) {
            self.arrive(env, Some(from), bytes)
        } else {
            self.pass_read(env, Some(from), (bytes, front), false)
        }
    }

    /// Evaluates a packet or sends it on.
    fn process(&mut self, env: &mut dyn PlanOs, from: Option<&Neighbour>, bytes: &mut [u8]) -> Fate {
        let Some(view) = View::new_checked(bytes) else { return Fate::Drop(Reason::MalformedPlan) };
        if env.topology().is_own(Addr(view.destination().0)) {
            self.arrive(env, from, bytes)
        } else {
            self.pass(env, from, bytes, false)
        }
    }

    /// Packets and pieces held.
    pub fn packets_held(&self) -> u64 {
        self.assemblies.pieces() + (self.waiting.len() + self.ready.len()) as u64
    }

    fn recycle(&mut self, buffer: Vec<u8>) {
        if self.buffers.len() < BUFFERS {
            self.buffers.push(buffer);
        }
    }

    /// When [`Plan::timer`] has something to do.
    pub fn next_timer(&self) -> u64 {
        let state = &self.state;
        let rip = state.rip.as_ref().map_or(u64::MAX, Rip::next_timer);
        let others = [self.assemblies.next_timer(), self.waiting.next_timer(), state.jobs.next_timer()];
        others.into_iter().fold(rip, u64::min)
    }

    /// Does what is due.
    pub fn timer(&mut self, env: &mut dyn PlanOs) {
        let Lost { late, full } = self.assemblies.expire(env.now());
        (0..late).for_each(|_| env.drop(ANYONE, Reason::ReassemblyTimeout));
        (0..full).for_each(|_| env.drop(ANYONE, Reason::ReassemblyFull));
        self.expire_waiting(env);
        self.run_jobs(env);
        if let Some(rip) = &mut self.state.rip {
            rip.timer(env);
        }
    }

    /// A principal's word counts no more: its data go, the ways that it has set, and its packets that were to leave by and by.
    pub fn forget_principal(&mut self, principal: usize) {
        let holder = holders::Holder::Principal(principal);
        self.state.resident.leave(holder);
        self.state.flows.leave(holder);
        while let Some(job) = self.state.jobs.leave(holder) {
            self.state.account.unused += job.bound();
        }
    }

    /// Forgets what nobody has used for long: call it now and then.
    pub fn sweep(&mut self, now: u64) {
        self.state.resident.sweep(now);
        self.state.flows.sweep(now);
        self.state.names.sweep(now);
        self.state.ports.sweep(now);
        self.state.layers.sweep(now);
    }
}
