//! Execution environments in the node's own process: trusted shared objects.
//!
//! They are programs of the same header as processes, and their calls are carried out by the same code
//! ([`super::calls`], [`super::files`]). The worker calls their functions on the packet path, with the frame that came
//! in; their requests are done at once, with the node lent to them ([`crate::code::run::trusted`]). Requests of other
//! threads of the program are done by the worker between two batches, and they wait for it.

mod lane;
mod told;

use super::calls;
use super::files::{self, Opened};
use super::graphs;
use super::stores;
use crate::code::run::trusted;
use crate::frame::{Frame, HEADROOM};
use crate::manage::control::Handle;
use crate::manage::homes::Home;
use crate::manage::worker::Order;
use crate::node::os::Os;
use crate::node::{Node, Turn};
use crate::nodeos::file::Quota;
use crate::nodeos::interface::{Destination, DomainId, Error, NodeOs, OutChanId};
use crate::sys::clock::Clock;
use crate::sys::lock::lock;
use crate::trust::Role;
use crate::wire::Addr;
use lane::{Held, Lane, PACKETS_MAX, ROOM, room_of};
use libanode::buffers::{Buffers, Extent, Packet};
use libanode::crew::Channel;
use libanode::entry::{End, Message};
use libanode::here::Host;
use libanode::link::Link;
use libanode::message::{Answer, Call, DomainSpec};
use libanode::ring::Nonsense;
use libanode::session::{Session, first_generation};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;
use told::Told;

/// What a program of this process connects by.
pub struct ObjectHost {
    /// The way to the worker.
    pub handle: Handle,
    /// The node's clock.
    pub clock: Clock,
    /// The domain of its environment, and where that is.
    pub domain: DomainId,
    home: Home,
    /// Its role.
    pub role: Arc<Role>,
    /// Its connections.
    sessions: Mutex<Vec<Weak<Session>>>,
}

impl ObjectHost {
    /// For the program of an environment.
    pub fn new(handle: Handle, clock: Clock, domain: DomainId, role: Arc<Role>) -> ObjectHost {
        let home = handle.homes().of(domain);
        ObjectHost { handle, clock, domain, home, role, sessions: Mutex::default() }
    }

    /// Ends what the program has not: when this returns none of its functions runs, nor any thread of a domain's.
    pub fn finish(&self) {
        let domain = self.domain;
        // A node that goes down has ended it.
        let _ = self.handle.with_home(&self.home, move |node, turn| node.end_environment(turn, domain));
        let sessions = core::mem::take(&mut *lock(&self.sessions));
        sessions.iter().filter_map(Weak::upgrade).for_each(|session| session.disconnect());
    }
}

/// The host as programs' threads know it, with a way to note their connections.
pub struct Entrance(pub Arc<ObjectHost>);

impl Host for Entrance {
    fn connect(&self, spec: &DomainSpec) -> Result<(u32, Box<dyn Link>), Error> {
        let host = &self.0;
        let spec = calls::domain_spec(spec);
        if spec.pool.is_some() || spec.threads.max_threads == 0 {
            return Err(Error::Invalid);
        }
        let quota = Quota::from(&host.role.grants);
        let shared = Arc::new(Shared {
            host: host.clone(),
            domain: OnceLock::new(),
            buffers: Buffers::here(2 * PACKETS_MAX, first_generation()),
            lane: Mutex::new(Lane::default()),
            changes: Mutex::default(),
            changed: AtomicBool::new(false),
            opened: Mutex::new(Opened::new(host.handle.files().cloned(), quota)),
            session: OnceLock::new(),
        });
        let (own, told) = (host.domain, Told { shared: shared.clone(), session: None, channels: Vec::new() });
        let join = move |node: &mut Node, _: &mut Turn<'_>| node.join(own, &spec, Some(Box::new(told)));
        let (_, domain) = host.handle.with_home(&host.home, join).unwrap_or(Err(Error::Ended))?;
        // Nobody else sets it.
        let _ = shared.domain.set(domain);
        if own != domain {
            lock(&shared.opened).inherit(domain, own);
        }
        Ok((domain.0, Box::new(Near(shared))))
    }
}

/// A change of channels, for the worker.
enum Change {
    Opened(Arc<Channel>),
    Closed(u32),
}

/// A connection: what the program's threads and the worker have in common. Only the worker locks `lane`: whoever else wants
/// something done with a packet has the worker do it.
struct Shared {
    host: Arc<ObjectHost>,
    domain: OnceLock<DomainId>,
    buffers: Buffers,
    lane: Mutex<Lane>,
    changes: Mutex<Vec<Change>>,
    changed: AtomicBool,
    opened: Mutex<Opened>,
    session: OnceLock<Weak<Session>>,
}

impl Shared {
    fn domain(&self) -> DomainId {
        self.domain.get().copied().unwrap_or(self.host.domain)
    }

    /// Does something in the name of the program: at once if this is the worker calling it, else by the worker.
    fn with_os<R: Send + 'static>(&self, work: impl FnOnce(&mut dyn NodeOs) -> R + Send + 'static) -> Result<R, Error> {
        trusted::with_lent(work).or_else(|work| {
            if trusted::is_barred() {
                return Err(Error::Ended);
            }
            let domain = self.domain();
            let host = &self.host;
            let done = host.handle.with_home(&host.home, move |node, turn| node.with_os(turn, domain, |os| work(os)));
            done.map_err(|_| Error::Ended)
        })
    }

    /// Gives a frame a name that the program knows it by, or back if it has too many.
    #[inline]
    fn house(&self, mut frame: Frame, domain: DomainId, own: bool) -> Result<Packet, Frame> {
        let (room, extent) = room_of(&mut frame);
        let mut lane = lock(&self.lane);
        let at = lane.put(Held { frame, domain, own }).map_err(|held| held.frame)?;
        match self.buffers.put(at, room, extent.start, extent.length) {
            Some(packet) => Ok(packet),
            // A frame of more than 64 KiB.
            None => Err(lane.take(at).map_or_else(|| Frame::with_capacity(0), |held| held.frame)),
        }
    }

    /// Takes the frame of a packet that was claimed.
    #[inline]
    fn evict(&self, packet: Packet, extent: Extent) -> Option<Held> {
        let mut held = lock(&self.lane).take(packet.buffer)?;
        let before = held.frame.extent().0.saturating_sub(ROOM);
        // What the program says of the packet was checked when it said it.
        held.frame.set_extent(before + usize::from(extent.start), extent.length.into())?;
        Some(held)
    }

    /// Sends a packet that was claimed; it is the program's again if that fails.
    fn send(&self, os: &mut dyn NodeOs, (packet, extent): (Packet, Extent), way: &Way) -> Result<(), Error> {
        let Held { frame, domain: payer, own } = self.evict(packet, extent).ok_or(Error::Stale)?;
        let (frame, domain, error) = if payer == way.domain {
            match os.outchan_send(way.channel, way.to, frame) {
                Ok(()) => return Ok(()),
                Err((frame, error)) => (frame, payer, error),
            }
        } else {
            // Who sends pays, so one of the sender's is taken, and one of the other's given back.
            match os.packet_alloc(way.domain) {
                Err(error) => (frame, payer, error),
                Ok(spare) => {
                    os.packet_free(payer, spare);
                    match os.outchan_send(way.channel, way.to, frame) {
                        Ok(()) => return Ok(()),
                        Err((frame, error)) => (frame, way.domain, error),
                    }
                }
            }
        };
        self.keep(os, packet, Held { frame, domain, own });
        Err(error)
    }

    /// A packet that could not be sent stays the program's, under its name.
    #[cold]
    fn keep(&self, os: &mut dyn NodeOs, packet: Packet, mut held: Held) {
        let (room, extent) = room_of(&mut held.frame);
        // It was taken a moment ago, and this is the only thread that takes and puts.
        match lock(&self.lane).put_back(packet.buffer, held) {
            Ok(()) => self.buffers.put_again(packet, room, extent),
            Err(held) => os.packet_free(held.domain, held.frame),
        }
    }

    fn change(&self, change: Change) {
        lock(&self.changes).push(change);
        self.changed.store(true, Ordering::Release);
    }
}

impl stores::Ways for Shared {
    fn at_home<R: Send + 'static>(&self, work: impl FnOnce(&mut Os<'_, '_>) -> R + Send + 'static) -> Result<R, Error> {
        let (domain, host) = (self.domain(), &self.host);
        let done = host.handle.with_home(&host.home, move |node, turn| node.with_os(turn, domain, work));
        done.map_err(|_| Error::Ended)
    }

    fn at_first<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Node, &mut Turn<'_>) -> R + Send + 'static,
    ) -> Result<R, Error> {
        self.host.handle.with_node(work).map_err(|_| Error::Ended)
    }
}

/// Where a packet goes.
#[derive(Clone, Copy)]
struct Way {
    channel: OutChanId,
    domain: DomainId,
    to: Destination,
}

/// The link of a program to the node that it is in.
struct Near(Arc<Shared>);

impl Link for Near {
    fn began(&self, session: &Arc<Session>) -> Result<(), Error> {
        lock(&self.0.host.sessions).push(Arc::downgrade(session));
        self.0.session.set(Arc::downgrade(session)).map_err(|_| Error::Invalid)
    }

    fn is_here(&self) -> bool {
        true
    }

    fn call(&self, call: &Call) -> Result<Answer, Error> {
        let shared = &self.0;
        if files::is_about_files(call) {
            return Ok(self.file_call(call).unwrap_or_else(|error| Answer::Refused { error }));
        }
        if let Some(answer) = self.store_call(call) {
            return Ok(answer);
        }
        if graphs::in_name_of(call).is_some() {
            return Ok(self.graph_call(call));
        }
        let asked = call.clone();
        let answer = shared.with_os(move |os| calls::execute(os, &asked))?;
        // The worker tells the ports itself as soon as the function that it calls has returned.
        if calls::changes_channels(call) && !trusted::is_lent() {
            shared.host.handle.settle().map_err(|_| Error::Ended)?;
        }
        if let (Call::DomainCreate { parent, .. }, Answer::Object { name }) = (call, &answer) {
            lock(&shared.opened).inherit(DomainId(*name), DomainId(*parent));
        }
        Ok(answer)
    }

    fn now(&self) -> u64 {
        self.0.host.clock.now()
    }

    fn buffers(&self) -> &Buffers {
        &self.0.buffers
    }

    fn alloc(&self, domain: u32) -> Result<Packet, Error> {
        let (shared, domain) = (self.0.clone(), DomainId(domain));
        self.0.with_os(move |os| {
            let mut frame = os.packet_alloc(domain)?;
            // Room for headers, and before the packet for the program.
            frame.set_extent(HEADROOM + ROOM, 0).ok_or(Error::Limit)?;
            shared.house(frame, domain, true).map_err(|frame| {
                os.packet_free(domain, frame);
                Error::Limit
            })
        })?
    }

    fn free(&self, packet: Packet) -> Result<(), Error> {
        let extent = self.0.buffers.claim(packet)?;
        let shared = self.0.clone();
        let free = move |os: &mut dyn NodeOs| {
            if let Some(held) = shared.evict(packet, extent) {
                os.packet_free(held.domain, held.frame);
            }
        };
        if let Err(free) = trusted::with_lent(free) {
            let domain = self.0.domain();
            let command = move |node: &mut Node, turn: &mut Turn<'_>| node.with_os(turn, domain, |os| free(os));
            // With the node all packets have gone.
            let _ = self.0.host.handle.order_home(&self.0.host.home, Order::Do(Box::new(command)));
        }
        Ok(())
    }

    #[inline]
    fn send(&self, packet: Packet, channel: u32, domain: u32, to: Option<End>) -> Result<(), Error> {
        let way = Way {
            channel: OutChanId(channel),
            domain: DomainId(domain),
            to: to.map(|(address, port)| (Addr(address), port)),
        };
        let claimed = (packet, self.0.buffers.claim(packet)?);
        let shared = &self.0;
        match trusted::with_lent(|os| shared.send(os, claimed, &way)) {
            Ok(sent) => sent,
            Err(_) => {
                let shared = shared.clone();
                self.0.with_os(move |os| shared.send(os, claimed, &way))?
            }
        }
    }

    fn take(&self, _: &mut Vec<Message>, _: Option<Duration>, _: &dyn Fn() -> bool) -> Result<(), Nonsense> {
        // Nobody leads here: the worker calls.
        Ok(())
    }

    fn opened(&self, channel: &Arc<Channel>) {
        self.0.change(Change::Opened(channel.clone()));
    }

    fn closed(&self, channel: u32) {
        self.0.change(Change::Closed(channel));
    }

    fn end(&self) {
        let domain = self.0.domain();
        // It may have ended already.
        let _ = self.0.with_os(move |os| os.domain_terminate(domain));
    }
}

impl Near {
    /// The worker that calls a function has stores if it is the first; else a call goes to it.
    fn store_call(&self, call: &Call) -> Option<Answer> {
        let about = stores::asked(call)?;
        let lent = trusted::with_lent(|os| about.and_then(|(domain, ask)| os.store(domain, &ask)));
        Some(match lent {
            Ok(done) => done.map_or_else(|error| Answer::Refused { error }, stores::answered),
            Err(_) if trusted::is_barred() => Answer::Refused { error: Error::Ended },
            Err(_) => return stores::call(&*self.0, self.0.host.handle.kept_stores(), call),
        })
    }

    /// Texts are read and engines made by threads, for which the worker never waits.
    fn graph_call(&self, call: &Call) -> Answer {
        let refused = |error| Answer::Refused { error };
        if trusted::is_lent() || trusted::is_barred() {
            return refused(Error::Invalid);
        }
        graphs::call(&*self.0, &self.0.host.handle, call).unwrap_or(refused(Error::Invalid))
    }

    /// Files are on disks, for which the worker never waits.
    fn file_call(&self, call: &Call) -> Result<Answer, Error> {
        if trusted::is_lent() || trusted::is_barred() {
            return Err(Error::Invalid);
        }
        if let Some(domain) = files::in_name_of(call) {
            self.0.with_os(move |os| os.domain_usage(domain).map(drop))??;
        }
        lock(&self.0.opened).execute(call)
    }
}
