//! Execution environments in processes of their own.
//!
//! `nodeos.sock` in the node's run directory, for the node's user only. A process connects, says in which role it wants to act, and gets a
//! domain and shared memory; `libanode` is its side. Each session has a thread for its calls, which are carried out by the worker between
//! batches (`calls`); packets pass through the memory without that thread (`half`, `desk`). When a process is gone, for
//! whatever reason, its domain ends with all it owns.

mod calls;
mod desk;
mod files;
mod half;
mod object;

pub use desk::Desk;
pub use half::Half;
pub use object::{Entrance, ObjectHost};

use super::control::Handle;
use super::worker::Order;
use crate::node::os::Os;
use crate::node::{Node, Turn};
use crate::nodeos::file::Quota;
use crate::nodeos::grants::Grants;
use crate::nodeos::interface::{DomainId, DomainSpec, Error, HostId, NodeOs, Upcall};
use crate::sys::clock::{Clock, process_cpu};
use crate::sys::poll::Waker;
use crate::sys::seqpacket::SeqPacket;
use crate::trust::{ANYONE, Role, Roles};
use files::Opened;
use libanode::memory::{Geometry, Memory};
use libanode::message::{Answer, Call, MESSAGE_MAX, VERSION};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Processes served at the same time.
pub const SESSIONS_MAX: usize = 64;

/// How long a process may take to say hello.
const GREETING: Duration = Duration::from_secs(10);

/// How long is waited at a time; nothing happens when it is over.
const WAIT: Duration = Duration::from_secs(3600);

/// Pause when no connection can be taken: the process has no descriptors left.
const PAUSE: Duration = Duration::from_millis(100);

/// What sessions need of the node.
#[derive(Clone)]
pub struct Door {
    /// The way to the worker.
    pub handle: Handle,
    /// The node's name.
    pub node: String,
    /// In which a process may act.
    pub roles: Arc<Roles>,
    /// The node's clock.
    pub clock: Clock,
}

impl Door {
    /// Gives a process a host and a domain: that of its environment if the node has started it, or a new one in the role that it names.
    fn grant(&self, connection: &SeqPacket, spec: DomainSpec) -> Result<Granted, Error> {
        if spec.pool.is_some() || spec.threads.max_threads == 0 {
            return Err(Error::Invalid);
        }
        let peer = rustix::net::sockopt::socket_peercred(connection).map_err(|_| Error::Denied)?;
        let pid = peer.pid.as_raw_nonzero().get() as u32;
        let member = self.handle.management().and_then(|management| management.of_process(pid));
        // Of what the node has started the node knows the role, whatever it says.
        let role = match &member {
            Some(member) => &member.role,
            None => spec.role.as_deref().unwrap_or(ANYONE),
        };
        let role = self.roles.environment(&self.node, &spec.title, role).map_err(|_| Error::Unknown)?;
        let grants = role.grants.with_threads(&spec.threads).ok_or(Error::Limit)?;
        // How many threads a domain has says its creator; of the first one the role does.
        let role = Arc::new(Role { grants: Grants { threads: role.grants.threads, ..grants }, ..(*role).clone() });
        let process = u32::try_from(peer.pid.as_raw_nonzero().get()).unwrap_or(0);
        let geometry = affordable(role.grants.memory_bytes).ok_or(Error::Limit)?;
        let mut opened = Opened::new(self.handle.files().cloned(), Quota::from(&role.grants));
        let (own, title) = (member.as_ref().map(|member| member.domain), spec.title.clone());
        let join = spec.clone();
        let connect = move |node: &mut Node, turn: &mut Turn<'_>| {
            let (host, domain) = match own {
                Some(domain) => node.join(domain, &join, None)?,
                None => node.connect(&title, &role)?,
            };
            let charged = node.os(turn, domain).charge(domain, geometry.bytes() as u64);
            if let Err(error) = charged {
                node.disconnect(turn, host);
                return Err(error);
            }
            Ok((host, domain))
        };
        let (host, domain) = self.handle.with_node(connect).unwrap_or(Err(Error::Ended))?;
        match own {
            None => opened.enter(domain, &spec.title),
            // A second connection has a domain below that of the first.
            Some(own) if own != domain => opened.inherit(domain, own),
            Some(_) => {}
        }
        Ok(Granted { host, domain, process, geometry, opened })
    }
}

/// Serves processes at `path` from threads of its own.
pub fn serve(path: &Path, door: Door) -> io::Result<()> {
    let listener = SeqPacket::listen(path)?;
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    let live = Arc::new(());
    std::thread::Builder::new().name("anode-ees".into()).spawn(move || {
        loop {
            if !matches!(listener.wait(WAIT), Ok(true)) {
                continue;
            }
            match listener.accept() {
                Ok(connection) if Arc::strong_count(&live) > SESSIONS_MAX => refuse(&connection, 0, Error::Full),
                Ok(connection) => start(connection, door.clone(), live.clone()),
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

/// Serves a process from a thread of its own, as long as that holds its ticket.
fn start(connection: SeqPacket, door: Door, ticket: Arc<()>) {
    let served = std::thread::Builder::new().name("anode-ee".into()).spawn(move || {
        // A connection that breaks concerns only its other end.
        if let Ok(mut session) = Session::begin(connection, door) {
            let _ = session.converse();
        }
        drop(ticket);
    });
    if let Err(error) = served {
        tracing::warn!(%error, "no thread for a process");
    }
}

fn answer(connection: &SeqPacket, number: u32, answer: &Answer) -> io::Result<()> {
    let mut message = Vec::new();
    answer.encode(number, &mut message);
    connection.send(&message)
}

fn refuse(connection: &SeqPacket, number: u32, error: Error) {
    // It may have gone already.
    let _ = answer(connection, number, &Answer::Refused { error });
}

/// The session of one process; with it ends what it had.
struct Session {
    connection: Arc<SeqPacket>,
    door: Door,
    host: HostId,
    domain: DomainId,
    process: u32,
    opened: Opened,
}

/// What a process has been given.
struct Granted {
    host: HostId,
    domain: DomainId,
    process: u32,
    geometry: Geometry,
    opened: Opened,
}

impl Session {
    fn begin(connection: SeqPacket, door: Door) -> Result<Session, ()> {
        let mut message = vec![0; MESSAGE_MAX];
        let length = connection.receive_within(&mut message, GREETING).ok().flatten().ok_or(())?;
        let Some((number, Call::Hello { version, domain: spec })) = Call::decode(&message[..length]) else {
            refuse(&connection, 0, Error::Invalid);
            return Err(());
        };
        let granted = match version {
            VERSION => door.grant(&connection, calls::domain_spec(&spec)),
            _ => Err(Error::Unsupported),
        };
        let Granted { host, domain, process, geometry, opened } =
            granted.map_err(|error| refuse(&connection, number, error))?;
        let session = Session { connection: Arc::new(connection), door, host, domain, process, opened };
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
        let half = Box::new(Half::new(memory, self.domain, waker, self.connection.clone()));
        self.door.handle.order(Order::Attach(self.host, half)).map_err(io::Error::other)?;
        let welcome = Answer::Welcome { domain: self.domain.0, geometry, origin: self.door.clock.origin() as i64 };
        let mut message = Vec::new();
        welcome.encode(number, &mut message);
        self.connection.send_with(&message, &[descriptor.as_fd(), wake.as_fd()])
    }

    /// Carries out calls until the process is gone, speaks nonsense or does not take its answers.
    fn converse(&mut self) -> io::Result<()> {
        let mut message = vec![0; MESSAGE_MAX];
        loop {
            let Some(length) = self.connection.receive_within(&mut message, WAIT)? else { continue };
            let Some((number, call)) = Call::decode(&message[..length]) else {
                // Also what nobody sends: nothing, when the other end is gone.
                return Ok(());
            };
            let result = self.execute(call);
            answer(&self.connection, number, &result)?;
        }
    }

    fn execute(&mut self, call: Call) -> Answer {
        let refused = |error: Error| Answer::Refused { error };
        if !files::is_about_files(&call) {
            let above = if let Call::DomainCreate { parent, .. } = call { Some(DomainId(parent)) } else { None };
            let settles = calls::changes_channels(&call);
            let own = matches!(&call, Call::DomainUsage { domain } if *domain == self.domain.0);
            let mut answer = self.with_os(move |os| calls::execute(os, &call)).unwrap_or(refused(Error::Ended));
            if let (true, Answer::Used { usage }) = (own, &mut answer) {
                // Its threads, of whatever domain, are the process's.
                usage.cpu_ns += process_cpu(self.process).unwrap_or(0);
            }
            if settles && self.door.handle.settle().is_err() {
                return refused(Error::Ended);
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
        let domain = self.domain;
        self.door.handle.with_node(move |node, turn| work(&mut node.os(turn, domain))).ok()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let host = self.host;
        // First the half, then the host: its number may be another's at once.
        let detached = self.door.handle.order(Order::Detach(host));
        let disconnect = move |node: &mut Node, turn: &mut Turn<'_>| {
            let ended = node.disconnect(turn, host);
            let upcalls = core::mem::take(&mut turn.out.upcalls);
            for (of, domain, upcall) in upcalls {
                match upcall {
                    Upcall::Packet { frame, .. } if of == host => turn.out.pool.give(frame),
                    _ if of == host => {}
                    upcall => turn.out.upcalls.push((of, domain, upcall)),
                }
            }
            ended
        };
        if let Ok(ended) = detached.and_then(|()| self.door.handle.with_node(disconnect)) {
            tracing::info!(host = host.0, domains = ended.domains, channels = ended.channels, "a process has gone");
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
