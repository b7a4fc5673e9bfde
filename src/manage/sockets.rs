//! The AF_XDP sockets of a node on this host: opened from its configuration, all in one memory.
//!
//! A port that cannot have them is an AF_PACKET port, and the log says why. Frames are copied by the kernel, or put
//! into memory by the drivers: at all ports alike, since they share the memory.

mod again;

pub use again::Again;

use super::kernel::{entry, redirected};
use crate::broker;
use crate::config::{Plan, XdpFile, XdpMode};
use crate::frame::Link;
use crate::frame::WorkerId;
use crate::kernel::{KernelHalf, PuntCounts, SOCKETS, Steering};
use crate::node::NodeConfig;
use crate::port::packet::AROUND;
use crate::port::xdp::QueueSocket;
use crate::port::{BeforeStack, NativeInterface};
use crate::sys::ethtool;
use crate::sys::xsk::{Copying, HEADROOM, Place, Umem, XskSocket};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Bytes of memory for the frames of all sockets: the kernel keeps it in RAM.
const MEMORY_MAX: u64 = 256 << 20;

/// The same of more ports than these: each carries less.
const MEMORY_OF_MANY: u64 = 32 << 20;
const MANY: usize = 16;

/// Bytes of the smallest page: a chunk of the memory is no longer.
const PAGE: usize = 4096;

/// The largest MTU whose frames have room in a chunk.
const MTU_MAX: usize = PAGE - AROUND - HEADROOM;

/// Tries to bind to a queue that is still in use, 8 s in all: the kernel lets go of the sockets of a process that has ended by and by,
/// which takes longest where network namespaces come and go.
const TRIES: usize = 800;
const PAUSE: Duration = Duration::from_millis(10);

/// What was opened.
#[derive(Default)]
pub struct Opened {
    /// What each port of the node has before the Linux stack.
    pub ports: Vec<BeforeStack>,
    /// What stands there if it is not the kernel half.
    pub own: Option<Arc<Steering>>,
    /// What is in use, and what became of frames.
    pub report: Option<Arc<Report>>,
    /// Opens sockets anew at interfaces that were made again.
    pub again: Option<Again>,
    /// Whether the kernel half takes frames to some.
    pub behind_half: bool,
}

/// A port that is to have sockets.
#[derive(Clone)]
struct Wanted {
    number: usize,
    name: String,
    interface: u32,
    steering: Arc<Steering>,
    /// Its receive queues, and those that get sockets.
    queues: u32,
    sockets: u32,
    /// How many of these send: the first of each worker.
    senders: u32,
    /// Number of its first socket, and shares of memory of the ports before.
    first: u32,
    before: u32,
}

impl Wanted {
    /// Shares of memory: one for each socket to receive into, and one for each that sends.
    fn shares(&self) -> u32 {
        self.sockets + self.senders
    }
}

/// What is in use at the ports.
pub struct Report {
    ports: Mutex<Vec<Entry>>,
}

type Entry = (PortStatus, Option<InUse>);

/// Where a port's counters are.
struct InUse {
    interface: u32,
    first: u16,
    steering: Arc<Steering>,
}

/// A port that was to have sockets.
#[derive(Clone, Debug, serde::Serialize)]
pub struct PortStatus {
    /// Its number in the node.
    pub port: usize,
    /// "zero-copy", "copy", or "none": frames come through AF_PACKET.
    pub mode: &'static str,
    /// Receive queues of the interface.
    pub queues: u32,
    /// Those with a socket.
    pub sockets: usize,
    /// Frames that went to each socket, in the order of the queues.
    pub per_queue: Vec<u64>,
    /// Microseconds for which the driver is polled when a frame has come; 0: it is not.
    pub busy_poll_us: u32,
    /// Why it is not as it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What became of frames for the node.
    #[serde(flatten)]
    pub punted: PuntCounts,
}

impl Report {
    /// All as it is now.
    pub fn status(&self) -> Vec<PortStatus> {
        let now = |(port, used): &(PortStatus, Option<InUse>)| match used {
            Some(InUse { interface, first, steering }) => PortStatus {
                per_queue: (0..port.sockets as u16).map(|queue| steering.tickets(first + queue)).collect(),
                punted: steering.punted(*interface),
                ..port.clone()
            },
            None => port.clone(),
        };
        self.ports.lock().unwrap_or_else(PoisonError::into_inner).iter().map(now).collect()
    }

    /// Nothing goes to the sockets any more; what is in them can still be received.
    pub fn stop_listening(&self) -> io::Result<()> {
        let ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        let mut used = ports.iter().filter_map(|(_, used)| used.as_ref());
        used.try_for_each(|used| used.steering.stop_listening(std::iter::once(used.interface)))
    }

    /// One more port is to have sockets.
    fn add(&self, entry: Entry) {
        let mut ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        ports.push(entry);
        ports.sort_by_key(|(status, _)| status.port);
    }

    /// A port is there no more.
    fn remove(&self, port: usize) {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner).retain(|(status, _)| status.port != port);
    }

    /// A port has other sockets now, or none.
    fn renew(&self, entry: Entry) {
        let mut ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = ports.iter_mut().find(|(status, _)| status.port == entry.0.port) {
            *place = entry;
        }
    }
}

/// Opens the sockets of all ports that ask for them, before which the kernel half may stand.
pub fn open(
    config: &NodeConfig,
    plans: &[Plan],
    (file, run_dir): (&XdpFile, &Path),
    half: Option<&Arc<KernelHalf>>,
    workers: WorkerId,
) -> Opened {
    let asks = |plan: &Plan| plan.opening.interface().is_some_and(|interface| interface.xdp);
    let behind_half = |number: usize| half.is_some_and(|half| half.interface(number as u32).is_some());
    let before = |number| BeforeStack { program: behind_half(number), ..BeforeStack::default() };
    let mut ports: Vec<BeforeStack> = (0..plans.len()).map(before).collect();
    if !plans.iter().any(asks) {
        // Ports that have some may come.
        let report = Arc::new(Report { ports: Mutex::default() });
        let again = Again::new((*file, run_dir), Default::default(), workers, (half.cloned(), None), report.clone());
        return Opened { ports, report: Some(report), again: Some(again), ..Opened::default() };
    }
    let mut opener = Opener { file, run_dir, statuses: Vec::new(), own: None };
    let (mut wanted, mut waiting) = (Vec::new(), Vec::new());
    for (number, plan) in plans.iter().enumerate().filter(|(_, plan)| asks(plan)) {
        let name = &config.ports[number].name;
        if plan.opening.interface().is_some_and(|interface| interface.index == 0) {
            // Room for some that come.
            ports[number].sockets = Some(Vec::new());
            waiting.push((number, name.clone()));
            opener.statuses.push((self::waiting(number), None));
            continue;
        }
        match opener.prepare(config, number, plan, half) {
            Ok(port) => wanted.push(port),
            Err(why) => opener.give_up(number, name, 0, &why),
        }
    }
    if !waiting.is_empty()
        && let Err(why) = opener.own()
    {
        tracing::warn!(why, "ports whose interfaces come later have no AF_XDP but behind the kernel half");
    }
    let (mut first, mut shares) = (0, 0);
    for port in &mut wanted {
        port.sockets = port.queues.min(file.queues_max).min(SOCKETS - first);
        port.senders = port.sockets.min(workers.into());
        (port.first, port.before) = (first, shares);
        first += port.sockets;
        shares += port.shares();
    }
    let largest = wanted.iter().map(|port| config.ports[port.number].mtu).max().unwrap_or(0);
    let sockets = opener.open_all(&wanted, largest);
    for port in &wanted {
        ports[port.number].program = true;
    }
    for (port, sockets) in sockets {
        match opener.connect(port, sockets) {
            Ok(queues) => {
                ports[port.number].at_all_queues = port.sockets == port.queues;
                ports[port.number].sockets = Some(queues);
            }
            Err(error) => opener.give_up(port.number, &port.name, port.queues, &error.to_string()),
        }
    }
    opener.statuses.sort_by_key(|(status, _)| status.port);
    let behind = |port: &Wanted| port.steering.is_of_half() && ports[port.number].sockets.is_some();
    let behind_half = wanted.iter().any(behind);
    let report = Arc::new(Report { ports: Mutex::new(opener.statuses) });
    let steering = (half.cloned(), opener.own.clone());
    let again = Some(Again::new((*file, run_dir), (wanted, waiting), workers, steering, report.clone()));
    Opened { ports, own: opener.own, report: Some(report), again, behind_half }
}

/// Opens sockets.
struct Opener<'a> {
    file: &'a XdpFile,
    run_dir: &'a Path,
    statuses: Vec<Entry>,
    own: Option<Arc<Steering>>,
}

impl Opener<'_> {
    /// Puts before an interface what takes frames to its sockets.
    fn prepare(
        &mut self,
        config: &NodeConfig,
        number: usize,
        plan: &Plan,
        half: Option<&Arc<KernelHalf>>,
    ) -> Result<Wanted, String> {
        let port = &config.ports[number];
        let (Some(&NativeInterface { index: interface, kernel, .. }), Link::Ethernet { mac, .. }) =
            (plan.opening.interface(), port.link)
        else {
            return Err("not an Ethernet interface".into());
        };
        check_mtu(port.mtu)?;
        let name = interface_name(interface).map_err(|error| error.to_string())?;
        let queues = ethtool::queues(&name).map_err(|error| format!("its queues cannot be counted: {error}"))?;
        let steering = match half {
            Some(half) if kernel && half.interface(number as u32).is_some() => {
                Arc::new(Steering::of(half.clone()).map_err(|error| error.to_string())?)
            }
            _ => self.own()?,
        };
        steering
            .attach(&entry(number as u32, interface, mac, port, &redirected(std::slice::from_ref(plan))))
            .map_err(|error| error.to_string())?;
        let name = port.name.clone();
        Ok(Wanted { number, name, interface, steering, queues, sockets: 0, senders: 0, first: 0, before: 0 })
    }

    /// What takes frames to sockets where no kernel half does.
    fn own(&mut self) -> Result<Arc<Steering>, String> {
        if let Some(own) = &self.own {
            return Ok(own.clone());
        }
        Ok(self.own.insert(alone(self.run_dir)?).clone())
    }

    /// Opens the sockets of all ports, all in zero-copy mode or all in copy mode.
    fn open_all<'w>(&mut self, wanted: &'w [Wanted], largest: usize) -> Vec<(&'w Wanted, Vec<XskSocket>)> {
        let mut failures = Vec::new();
        if self.file.mode != XdpMode::Copy {
            let sockets = self.try_open(wanted, largest, Copying::ZeroCopy, &mut failures);
            if self.file.mode == XdpMode::ZeroCopy || failures.is_empty() {
                return self.concluded(sockets, failures);
            }
            let (port, why) = failures.remove(0);
            tracing::info!(
                port = port.name,
                why,
                "no zero copy by AF_XDP here, so at no port: the kernel copies frames"
            );
            failures.clear();
        }
        let sockets = self.try_open(wanted, largest, Copying::Copy, &mut failures);
        self.concluded(sockets, failures)
    }

    fn concluded<'w>(
        &mut self,
        sockets: Vec<(&'w Wanted, Vec<XskSocket>)>,
        failures: Vec<(&Wanted, String)>,
    ) -> Vec<(&'w Wanted, Vec<XskSocket>)> {
        for (port, why) in failures {
            self.give_up(port.number, &port.name, port.queues, &why);
        }
        sockets
    }

    fn try_open<'w>(
        &self,
        wanted: &'w [Wanted],
        largest: usize,
        copying: Copying,
        failures: &mut Vec<(&'w Wanted, String)>,
    ) -> Vec<(&'w Wanted, Vec<XskSocket>)> {
        let mut opened: Vec<(&Wanted, Vec<XskSocket>)> = Vec::new();
        let layout = match Layout::new(wanted, largest, self.file.frames_per_queue) {
            Ok(layout) => layout,
            Err(error) => {
                failures.extend(wanted.iter().map(|port| (port, explain(&error))));
                return opened;
            }
        };
        for port in wanted {
            let first = opened.iter().find_map(|(_, sockets)| sockets.first());
            let chunk = port.before * layout.frames;
            match layout.open(port, chunk, first, copying, self.file.busy_poll_us) {
                Ok(sockets) => opened.push((port, sockets)),
                Err(error) => failures.push((port, explain(&error))),
            }
            if copying == Copying::ZeroCopy && self.file.mode == XdpMode::Auto && !failures.is_empty() {
                return Vec::new();
            }
        }
        opened
    }

    /// Lets frames go to the sockets of a port.
    fn connect(&mut self, port: &Wanted, sockets: Vec<XskSocket>) -> io::Result<Vec<QueueSocket>> {
        let (queues, entry) = connect(self.file, port, sockets)?;
        self.statuses.push(entry);
        Ok(queues)
    }

    fn give_up(&mut self, port: usize, name: &str, queues: u32, why: &str) {
        self.statuses.push((without(port, name, queues, why), None));
    }
}

/// Lets frames go to the sockets of a port: those, and what is in use there now.
fn connect(file: &XdpFile, port: &Wanted, sockets: Vec<XskSocket>) -> io::Result<(Vec<QueueSocket>, Entry)> {
    let mode = if sockets.iter().all(XskSocket::zero_copy) { "zero-copy" } else { "copy" };
    let mut queues = Vec::with_capacity(sockets.len());
    for (number, socket) in (port.first as u16..).zip(sockets) {
        let tickets = port.steering.connect(number, &socket)?;
        queues.push(QueueSocket::new(socket, tickets));
    }
    port.steering.announce(port.interface, port.first as u16, queues.len() as u16)?;
    tracing::info!(port = port.name, mode, queues = queues.len(), "frames come by AF_XDP");
    let status = PortStatus {
        port: port.number,
        mode,
        queues: port.queues,
        sockets: queues.len(),
        per_queue: Vec::new(),
        busy_poll_us: file.busy_poll_us,
        why: None,
        punted: PuntCounts::default(),
    };
    let (interface, first, steering) = (port.interface, port.first as u16, port.steering.clone());
    Ok((queues, (status, Some(InUse { interface, first, steering }))))
}

/// What takes frames to sockets where no kernel half does.
fn alone(run_dir: &Path) -> Result<Arc<Steering>, String> {
    let own = Steering::alone(Some(run_dir));
    own.map(Arc::new)
        .map_err(|error| format!("the kernel has no AF_XDP, or refuses its program (CAP_BPF, CAP_NET_ADMIN): {error}"))
}

/// A port waits for its interface.
fn waiting(port: usize) -> PortStatus {
    let (why, punted, per_queue) =
        (Some("its interface is not there: it waits".into()), PuntCounts::default(), Vec::new());
    PortStatus { port, mode: "none", queues: 0, sockets: 0, per_queue, busy_poll_us: 0, why, punted }
}

/// A port goes on without sockets.
fn without(port: usize, name: &str, queues: u32, why: &str) -> PortStatus {
    tracing::warn!(port = name, why, "no AF_XDP here: frames come through AF_PACKET");
    let (why, punted, per_queue) = (Some(why.to_owned()), PuntCounts::default(), Vec::new());
    PortStatus { port, mode: "none", queues, sockets: 0, per_queue, busy_poll_us: 0, why, punted }
}

/// How the memory is shared out.
struct Layout {
    umem: Arc<Umem>,
    /// Chunks of each socket for receiving, and as many for each that sends.
    frames: u32,
}

impl Layout {
    fn new(wanted: &[Wanted], largest: usize, frames_per_queue: u32) -> io::Result<Layout> {
        let chunk = (largest + AROUND + HEADROOM).next_power_of_two().max(2048);
        let shares: u32 = wanted.iter().map(Wanted::shares).sum::<u32>().max(1);
        let memory = if wanted.len() > MANY { MEMORY_OF_MANY } else { MEMORY_MAX };
        let most = memory / chunk as u64 / u64::from(shares);
        // Both are powers of two, so this is one.
        let frames = frames_per_queue.min(1 << most.max(1).ilog2());
        let umem = Umem::new(chunk as u32, shares * frames)?;
        Ok(Layout { umem: Arc::new(umem), frames })
    }

    fn open(
        &self,
        port: &Wanted,
        mut chunk: u32,
        first: Option<&XskSocket>,
        copying: Copying,
        busy_poll_us: u32,
    ) -> io::Result<Vec<XskSocket>> {
        let mut sockets: Vec<XskSocket> = Vec::new();
        if port.sockets == 0 {
            return Err(io::Error::other(format!("all {SOCKETS} sockets are in use")));
        }
        for queue in 0..port.sockets {
            let send = if queue < port.senders { self.frames } else { 0 };
            let place =
                Place { interface: port.interface, queue, first: chunk, receive: self.frames, send, busy_poll_us };
            chunk += self.frames + send;
            let first = first.or(sockets.first());
            let open = || XskSocket::with(self.raw(first, busy_poll_us)?, &self.umem, first, &place, copying);
            let socket = patiently(open)?;
            sockets.push(socket);
        }
        Ok(sockets)
    }
}

impl Layout {
    /// A socket that knows the memory if it is the first.
    fn raw(&self, first: Option<&XskSocket>, busy_poll_us: u32) -> io::Result<OwnedFd> {
        let raw = broker::xdp(busy_poll_us)?;
        if first.is_none() {
            broker::register(&raw, &self.umem)?;
        }
        Ok(raw)
    }
}

/// Tries again while a queue is in use by a socket that is being closed.
fn patiently(open: impl Fn() -> io::Result<XskSocket>) -> io::Result<XskSocket> {
    let mut tries = 0;
    loop {
        match open() {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && tries < TRIES => {
                if tries == 0 {
                    tracing::info!("a receive queue has a socket still; waiting for it to go");
                }
                tries += 1;
                std::thread::sleep(PAUSE);
            }
            done => return done,
        }
    }
}

fn check_mtu(mtu: usize) -> Result<(), String> {
    let too_large = || format!("an MTU of {mtu} bytes is too large: AF_XDP carries {MTU_MAX}");
    if mtu > MTU_MAX { Err(too_large()) } else { Ok(()) }
}

fn explain(error: &io::Error) -> String {
    let remedy = match error.raw_os_error() {
        Some(libc::EAFNOSUPPORT) => ": the kernel is built without AF_XDP (CONFIG_XDP_SOCKETS)",
        Some(libc::EOPNOTSUPP) => ": the driver does not do that",
        Some(libc::EBUSY) => ": another process has a socket at this queue",
        Some(libc::ENOBUFS) => ": not enough locked memory (ulimit -l, or CAP_IPC_LOCK)",
        Some(libc::EPERM) => ": needs CAP_NET_RAW",
        _ => "",
    };
    format!("{error}{remedy}")
}

pub(super) fn interface_name(index: u32) -> io::Result<String> {
    let known = crate::sys::netlink::interfaces()?;
    let found = known.into_iter().find(|interface| interface.index == index).map(|interface| interface.name);
    found.ok_or_else(|| io::Error::other("the interface is gone"))
}
