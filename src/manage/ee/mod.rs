//! Execution environments in processes of their own: sessions over a socket and shared memory.
//!
//! An environment started by the node has its connection from its birth, and asks for more over it (`birth`). A process
//! of an operator connects at `nodeos.sock` in the node's run directory, for the node's user only, and names its role.
//! Each connection gets a domain and shared memory; `libanode` is its other side. A session has a thread for its calls,
//! which the worker carries out between batches (`calls`). Packets pass through the memory without that thread (`half`,
//! `desk`). When a process is gone, its domain ends with all it owns.

mod accounts;
mod bills;
mod birth;
mod calls;
mod costs;
mod desk;
mod files;
mod graphs;
mod half;
mod kept;
mod object;
mod seats;
mod stores;
mod streams;

pub use accounts::{Account, AccountCounts, Accounts};
pub use birth::attend;
pub use desk::{Desk, MovedProcesses};
pub use graphs::GraphCalls;
pub use half::Half;
pub use object::{Entrance, ObjectHost};
pub use streams::{StreamRow, Streams};

use super::control::Handle;
use super::homes::Home;
use super::management::Member;
use super::worker::Order;
use crate::core::reason::Reason;
use crate::node::os::Os;
use crate::node::{Node, Turn};
use crate::nodeos::file::Quota;
use crate::nodeos::interface::{DomainId, DomainSpec, Error, HostId, NodeOs, Upcall};
use crate::sys::clock::Clock;
use crate::sys::poll::Waker;
use crate::sys::seqpacket::SeqPacket;
use crate::sys::threads::{self, Duty};
use crate::trust::grants::Grants;
use crate::trust::{ANYONE, CurrentRoles, Role};
use accounts::Kept;
use costs::Costs;
use files::Opened;
pub use kept::KeptStores;
use libanode::memory::{Geometry, Memory};
use libanode::message::{Answer, Call, MESSAGE_MAX, VERSION};
pub use seats::Seats;
use seats::{Holder, Seat};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// How long a process may take to say hello.
const GREETING: Duration = Duration::from_secs(5);

/// How long is waited at a time; nothing happens when it is over.
const WAIT: Duration = Duration::from_secs(3600);

/// Pause when no connection can be taken: the process has no descriptors left.
const PAUSE: Duration = Duration::from_millis(100);

/// What sessions need of the node.
#[derive(Clone)]
pub struct Acceptor {
    /// The way to the worker.
    pub handle: Handle,
    /// The node's name.
    pub node: String,
    /// In which a process may act.
    pub roles: CurrentRoles,
    /// The node's clock.
    pub clock: Clock,
    /// Who has how many sessions.
    pub seats: Seats,
    /// What their processes use.
    pub accounts: Accounts,
}

/// Who is at the other end of a connection, known from how it was made.
#[derive(Clone)]
enum Peer {
    /// A process of this user that has connected by the socket's path; its number is only for what it has used.
    User { uid: u32, pid: u32 },
    /// An environment that the node has started.
    Environment(Arc<Member>, Arc<Kept>),
}

impl Peer {
    fn of(connection: &SeqPacket) -> io::Result<Peer> {
        let peer = rustix::net::sockopt::socket_peercred(connection)?;
        Ok(Peer::User { uid: peer.uid.as_raw(), pid: peer.pid.as_raw_nonzero().get() as u32 })
    }

    /// The environment, if it is one.
    fn member(&self) -> Option<&Member> {
        match self {
            Peer::User { .. } => None,
            Peer::Environment(member, _) => Some(member),
        }
    }
}

impl Acceptor {
    /// What the processes at the other end of a connection use is charged to its domain, or to that of the oldest of their connections.
    fn account(&self, peer: &Peer, domain: DomainId) -> Option<Arc<Kept>> {
        let kept = match peer {
            Peer::User { pid, .. } => {
                let home = self.handle.homes().of(domain);
                self.accounts.of_process(domain, *pid).and_then(|kept| self.charge(kept, &home))
            }
            Peer::Environment(_, kept) => return Some(kept.clone()),
        };
        // Then nobody pays for it; its packets are paid for all the same.
        kept.map_err(|error| tracing::warn!(%error, "what a process uses is not known")).ok().map(Arc::new)
    }

    /// Has an account charged by the worker.
    fn charge(&self, kept: Kept, home: &Home) -> io::Result<Kept> {
        self.handle.order_home(home, Order::Charge(kept.account())).map_err(io::Error::other)?;
        Ok(kept)
    }

    /// Gives a process a host and a domain: that of its environment if the node has started it, or a new one in the role that it names.
    fn grant(&self, peer: &Peer, spec: DomainSpec, costs: &Costs) -> Result<Granted, Error> {
        if spec.pool.is_some() || spec.threads.max_threads == 0 {
            return Err(Error::Invalid);
        }
        let member = peer.member();
        // Of what the node has started the node knows the role, whatever it says.
        let role = match member {
            Some(member) => &member.role,
            None => spec.role.as_deref().unwrap_or(ANYONE),
        };
        let role = self.roles.now().environment(&self.node, &spec.title, role).map_err(|_| Error::Unknown)?;
        let grants = role.grants.with_threads(&spec.threads).ok_or(Error::Limit)?;
        // How many threads a domain has says its creator; of the first one the role does.
        let role = Arc::new(Role { grants: Grants { threads: role.grants.threads, ..grants }, ..(*role).clone() });
        let geometry = affordable(role.grants.memory_bytes).ok_or(Error::Limit)?;
        let mut opened = Opened::new(self.handle.files().cloned(), Quota::from(&role.grants));
        let (own, title) = (member.map(|member| member.domain), spec.title.clone());
        let join = spec.clone();
        let connect = move |node: &mut Node, turn: &mut Turn<'_>| {
            let (host, domain) = match own {
                Some(domain) => node.join(domain, &join, None)?,
                None => node.connect(&title, &role)?,
            };
            let charged = node.with_os(turn, domain, |os| os.charge(domain, geometry.bytes() as u64));
            if let Err(error) = charged {
                node.disconnect(turn, host);
                return Err(error);
            }
            Ok((host, domain))
        };
        let (host, domain) = costs.with_node(own, connect).unwrap_or(Err(Error::Ended))?;
        match own {
            None => {
                costs.move_in(self.handle.homes().of(domain));
                opened.enter(domain, &spec.title);
            }
            // A second connection has a domain below that of the first.
            Some(own) if own != domain => opened.inherit(domain, own),
            Some(_) => {}
        }
        Ok(Granted { host, domain, geometry, opened })
    }
}

/// Serves processes that connect to a socket from threads of its own.
pub fn serve(socket: OwnedFd, acceptor: Acceptor) -> io::Result<()> {
    acceptor.handle.streams.serve(acceptor.clock)?;
    let listener = SeqPacket::of(socket);
    threads::start("anode-ees", Duty::Sessions, move || {
        loop {
            if !matches!(listener.wait(WAIT), Ok(true)) {
                continue;
            }
            match listener.accept() {
                Ok(connection) => admit(connection, &acceptor),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    tracing::warn!(%error, "no process can connect for now");
                    std::thread::sleep(PAUSE);
                }
            }
        }
    })?;
    Ok(())
}

/// Serves whoever has connected by the socket's path, if its user has not too many sessions.
fn admit(connection: SeqPacket, acceptor: &Acceptor) {
    let Ok(peer) = Peer::of(&connection) else { return refuse(&connection, 0, Error::Denied) };
    let Peer::User { uid, .. } = peer else { return };
    match acceptor.seats.take(Holder::User(uid)) {
        Some(seat) => start(connection, acceptor.clone(), peer, seat),
        None => refuse(&connection, 0, Error::Full),
    }
}

/// Serves a connection from a thread of its own, which has its place as long as it lives.
fn start(connection: SeqPacket, acceptor: Acceptor, peer: Peer, seat: Seat) {
    let served = threads::start("anode-ee", Duty::Sessions, move || {
        let mut seat = seat;
        let costs = Costs::of_thread(&acceptor, seat.holder());
        let payer = peer.member().map(|member| member.domain);
        // A connection that breaks concerns only its other end.
        if let Ok(mut session) = Session::begin(connection, acceptor, peer, &seat, &costs) {
            seat.greeted();
            let _ = session.converse();
        }
        // Its beginning and its end are paid for too, before somebody else has its place.
        costs.end(payer);
    });
    if let Err(error) = served {
        tracing::warn!(%error, "no thread for a process");
    }
}

fn answer(connection: &SeqPacket, number: u32, answer: &Answer) -> io::Result<()> {
    message_with(connection, number, answer, None)
}

/// An answer, with a socket if one was asked for.
fn message_with(connection: &SeqPacket, number: u32, answer: &Answer, socket: Option<&OwnedFd>) -> io::Result<()> {
    let mut message = Vec::new();
    answer.encode(number, &mut message);
    match socket {
        Some(socket) => connection.send_with(&message, &[socket.as_fd()]),
        None => connection.send(&message),
    }
}

fn refuse(connection: &SeqPacket, number: u32, error: Error) {
    // It may have gone already.
    let _ = answer(connection, number, &Answer::Refused { error });
}

/// The session of one process; with it ends what it had.
struct Session<'a> {
    connection: Arc<SeqPacket>,
    acceptor: Acceptor,
    host: HostId,
    domain: DomainId,
    /// What its processes use.
    kept: Option<Arc<Kept>>,
    opened: Opened,
    /// Who hands the bytes of its streams over, if it has had one.
    relay: Option<streams::Relay>,
    costs: &'a Costs,
    /// The domain of the environment that the node has started, which pays for the session's end.
    above: Option<DomainId>,
}

/// What a process has been given.
struct Granted {
    host: HostId,
    domain: DomainId,
    geometry: Geometry,
    opened: Opened,
}

impl<'a> Session<'a> {
    fn begin(
        connection: SeqPacket,
        acceptor: Acceptor,
        peer: Peer,
        seat: &Seat,
        costs: &'a Costs,
    ) -> Result<Session<'a>, ()> {
        let mut message = vec![0; MESSAGE_MAX];
        let came = connection.receive_within(&mut message, GREETING).map_err(drop)?;
        let length = came.ok_or_else(|| seat.silent())?;
        let Some((number, Call::Hello { version, domain: spec })) = Call::decode(&message[..length]) else {
            refuse(&connection, 0, Error::Invalid);
            return Err(());
        };
        let granted = match version {
            VERSION => acceptor.grant(&peer, calls::domain_spec(&spec), costs),
            _ => Err(Error::Unsupported),
        };
        let Granted { host, domain, geometry, opened } = granted.map_err(|error| refuse(&connection, number, error))?;
        let kept = acceptor.account(&peer, domain);
        let session = Session {
            connection: Arc::new(connection),
            acceptor,
            host,
            domain,
            kept,
            opened,
            relay: None,
            costs,
            above: peer.member().map(|member| member.domain),
        };
        session.welcome(number, geometry).map_err(|error| {
            tracing::warn!(%error, "a process gets no memory to share");
            refuse(&session.connection, number, Error::Full);
        })?;
        Ok(session)
    }

    /// Makes the memory, gives the worker its half and the process the other.
    fn welcome(&self, number: u32, geometry: Geometry) -> io::Result<()> {
        let (memory, descriptor) = Memory::make(geometry)?;
        let waker = Waker::new()?;
        let wake = waker.descriptor()?;
        let mut half = Box::new(Half::new(memory, self.domain, waker, self.connection.clone()));
        half.account = self.kept.as_ref().map(|kept| kept.account());
        self.acceptor
            .handle
            .order_home(&self.costs.home(), Order::Attach(self.host, half))
            .map_err(io::Error::other)?;
        let welcome = Answer::Welcome { domain: self.domain.0, geometry, origin: self.acceptor.clock.origin() as i64 };
        let mut message = Vec::new();
        welcome.encode(number, &mut message);
        self.connection.send_with(&message, &[descriptor.as_fd(), wake.as_fd()])
    }

    /// Carries out calls until the process is gone, speaks nonsense or does not take its answers. What they cost the node, its domain pays,
    /// and whose calls have cost more than they may waits before the next one.
    fn converse(&mut self) -> io::Result<()> {
        let mut message = vec![0; MESSAGE_MAX];
        loop {
            self.costs.pay(Some(self.domain));
            let Some(length) = self.connection.receive_within(&mut message, WAIT)? else { continue };
            let Some((number, call)) = Call::decode(&message[..length]) else {
                // Also what nobody sends: nothing, when the other end is gone.
                return Ok(());
            };
            if let Some((result, socket)) = self.stream_call(&call) {
                message_with(&self.connection, number, &result, socket.as_ref())?;
                continue;
            }
            let result = self.execute(call);
            answer(&self.connection, number, &result)?;
        }
    }

    fn execute(&mut self, call: Call) -> Answer {
        let refused = |error: Error| Answer::Refused { error };
        if let Some(answer) = stores::call(self, self.acceptor.handle.kept_stores(), &call) {
            return answer;
        }
        if let Some(answer) = graphs::call(self, &self.acceptor.handle, &call) {
            return answer;
        }
        if !files::is_about_files(&call) {
            let above = if let Call::DomainCreate { parent, .. } = call { Some(DomainId(parent)) } else { None };
            let settles = calls::changes_channels(&call);
            let own = matches!(&call, Call::DomainUsage { domain } if *domain == self.domain.0);
            let mut answer =
                self.with_os_settled(settles, move |os| calls::execute(os, &call)).unwrap_or(refused(Error::Ended));
            if let (true, Answer::Used { usage }) = (own, &mut answer) {
                // What its processes used is charged some milliseconds later.
                usage.cpu_ns += self.kept.as_ref().map_or(0, |kept| kept.unread_ns(self.domain));
            }
            if let (Some(above), Answer::Object { name }) = (above, &answer) {
                self.opened.inherit(DomainId(*name), above);
            }
            return answer;
        }
        let allowed = match files::in_name_of(&call) {
            Some(domain) => self.with_os(move |os| os.domain_usage(domain).map(drop)).unwrap_or(Err(Error::Ended)),
            None => Ok(()),
        };
        allowed.and_then(|()| self.opened.execute(&call)).unwrap_or_else(refused)
    }

    /// Lets the worker do something in the name of the process.
    fn with_os<R: Send + 'static>(&self, work: impl FnOnce(&mut Os<'_, '_>) -> R + Send + 'static) -> Option<R> {
        self.with_os_settled(false, work)
    }

    /// The same, and waits until the ports know of it, if that is wanted.
    fn with_os_settled<R: Send + 'static>(
        &self,
        settles: bool,
        work: impl FnOnce(&mut Os<'_, '_>) -> R + Send + 'static,
    ) -> Option<R> {
        let domain = self.domain;
        let work = move |node: &mut Node, turn: &mut Turn<'_>| node.with_os(turn, domain, work);
        self.costs.with_node_settled(Some(domain), settles, work).ok()
    }
}

impl stores::Ways for Session<'_> {
    fn at_home<R: Send + 'static>(&self, work: impl FnOnce(&mut Os<'_, '_>) -> R + Send + 'static) -> Result<R, Error> {
        self.with_os(work).ok_or(Error::Ended)
    }

    fn at_first<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Node, &mut Turn<'_>) -> R + Send + 'static,
    ) -> Result<R, Error> {
        self.costs.with_first(work).map_err(|_| Error::Ended)
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        let (host, payer) = (self.host, self.above.unwrap_or(self.domain));
        // First the half, then the host: its number may be another's at once.
        let detached = self.acceptor.handle.order_home(&self.costs.home(), Order::Detach(host));
        let disconnect = move |node: &mut Node, turn: &mut Turn<'_>| {
            let ended = node.disconnect(turn, host);
            let upcalls = core::mem::take(&mut turn.out.upcalls);
            for (of, domain, upcall) in upcalls {
                match upcall {
                    Upcall::Packet { frame, .. } if of == host => {
                        node.refused_by_process(turn, frame, Reason::HostGone, domain)
                    }
                    _ if of == host => {}
                    upcall => turn.out.upcalls.push((of, domain, upcall)),
                }
            }
            ended
        };
        if self.above.is_none() {
            self.acceptor.handle.homes().forget(self.domain);
        }
        if let Ok(ended) = detached.and_then(|()| self.costs.with_node(Some(payer), disconnect)) {
            tracing::info!(
                event = "session",
                host = host.0,
                domains = ended.domains,
                channels = ended.channels,
                "a process has gone"
            );
        }
    }
}

/// How much memory is shared with a process whose domain may hold so much: at most half of it goes there.
fn affordable(memory_bytes: u64) -> Option<Geometry> {
    let most = Geometry::default();
    let smaller = (0..6).map(|halvings: u32| Geometry {
        up: most.up >> halvings,
        down: most.down >> halvings,
        buffers_node: most.buffers_node >> halvings,
        buffers_process: most.buffers_process >> halvings,
        ..most
    });
    smaller.into_iter().find(|geometry| geometry.bytes() as u64 <= memory_bytes / 2)
}
