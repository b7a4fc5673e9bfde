//! Who watches the packets of a node: `anode capture`, `anode packet explain`, and the capture files of ports.
//!
//! Each has a ring that each worker tells, and one for what the kernel half has had. The kernel has a single ring buffer for all of them:
//! whoever looks next empties it into all rings. When the last one goes, the kernel half is as it was before the first.
//!
//! Records go to other processes as bytes through the control socket, written by the thread of the connection. Shared memory would save
//! that copy, on a thread that nobody waits for; it would also let a process of another user write where the worker reads.

use super::control::Handle;
use super::worker::Order;
use crate::config::{NodeFile, Plan, PortFile};
use crate::frame::WorkerId;
use crate::kernel::KernelHalf;
use crate::kernel::watch::KernelWatch;
use crate::port::pcap::{Beginning, Capture, Captured};
use crate::seen::filter::Filter;
use crate::seen::join::Join;
use crate::seen::record::{self, KERNEL, MISSED, NO_PORT, Records};
use crate::seen::ring::{HEAD, Listener, Teller, ring};
use crate::seen::words::{CodeName, Names, Naming as _, PortName, questions};
use crate::sys::clock::Clock;
use crate::sys::threads::{self, Duty};
use crate::topology::Port;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Words of the rings of all workers: 8 MiB, and at least half of one for each; and of one for what the kernel half has had: 4 MiB.
const WORDS: usize = 1 << 20;
const WORKER_WORDS: usize = 1 << 16;
const KERNEL_WORDS: usize = 1 << 19;

/// Bytes taken from a ring at once.
const AT_ONCE: usize = 1 << 20;

/// Those who may watch at the same time.
const WATCHES_MAX: usize = 8;

/// Between two looks into a ring that was empty.
pub(super) const LOOK: Duration = Duration::from_millis(5);

/// Between two questions for what the kernel half has missed.
const AGAIN: Duration = Duration::from_millis(50);

/// Who watches a node.
pub struct Watching {
    clock: Clock,
    half: Option<Arc<KernelHalf>>,
    node: String,
    ports: Mutex<Vec<PortName>>,
    workers: usize,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    /// How many watch.
    watches: usize,
    /// The rings for what the kernel half has had, of all who watch that too.
    tellers: Vec<Teller>,
    /// What the kernel half has had, while somebody watches.
    kernel: Option<KernelWatch>,
    /// What it has missed, and when that was asked.
    missed: Option<(Instant, u64)>,
}

/// One who watches.
pub struct Watch {
    watching: Arc<Watching>,
    /// The first worker's first.
    workers: Vec<Listener>,
    /// The kernel half, if it is watched too.
    kernel: Option<Listener>,
    /// Tells the workers when nobody watches any more.
    handle: Option<Handle>,
    /// What each worker has told.
    held: Vec<Vec<u8>>,
    /// What the kernel half had missed before.
    before: u64,
    /// Missed so far, as it was said last.
    said: Option<(u64, u64)>,
}

impl Watching {
    /// Of a node with these ports, and so many workers.
    pub fn new(
        (node, workers): (&str, WorkerId),
        ports: &[Port],
        plans: &[Plan],
        clock: Clock,
        half: Option<Arc<KernelHalf>>,
    ) -> Watching {
        let name = |(port, plan): (&Port, &Plan)| PortName {
            name: port.name.clone(),
            ethernet: plan.opening.beginning() == Beginning::Ethernet,
        };
        let ports = Mutex::new(ports.iter().zip(plans).map(name).collect());
        Watching { clock, half, node: node.into(), ports, workers: workers.max(1).into(), open: Mutex::default() }
    }

    /// The node's name.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// These are its ports from now on; vacant places have no name.
    pub fn name_ports(&self, file: &NodeFile, ports: &[Port]) {
        let name =
            |(file, port): (&PortFile, &Port)| PortName { name: port.name.clone(), ethernet: file.packet.is_some() };
        *self.ports.lock().unwrap_or_else(PoisonError::into_inner) = file.ports.iter().zip(ports).map(name).collect();
    }

    fn ports(&self) -> Vec<PortName> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        // What it holds is right between any two statements.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more who watches, and what each worker is to tell them by, the first one first.
    fn watch(self: &Arc<Watching>, kernel_too: bool) -> Result<(Watch, Vec<Teller>), String> {
        let mut open = self.open();
        if open.watches >= WATCHES_MAX {
            return Err(format!("{WATCHES_MAX} others watch this node already; end one"));
        }
        let words = (WORDS / self.workers).max(WORKER_WORDS);
        let (tellers, workers): (Vec<_>, Vec<_>) = (0..self.workers).map(|_| ring(words)).unzip();
        let mut kernel = None;
        if let Some(half) = self.half.as_ref().filter(|_| kernel_too) {
            if open.kernel.is_none() {
                let watch = KernelHalf::watch(half);
                open.kernel = Some(watch.map_err(|error| format!("the kernel half cannot be watched: {error}"))?);
            }
            let (teller, listener) = ring(KERNEL_WORDS);
            open.tellers.push(teller);
            kernel = Some(listener);
        }
        let before = open.kernel.as_mut().map_or(0, KernelWatch::missed);
        open.watches += 1;
        let (watching, held) = (self.clone(), vec![Vec::new(); workers.len()]);
        Ok((Watch { watching, workers, kernel, handle: None, held, before, said: None }, tellers))
    }

    /// One more who watches from now on, of one packet in so many that come in alone; then without the kernel half, which tells of all.
    pub(super) fn begin(self: &Arc<Watching>, handle: &Handle, one_in: u32) -> Result<Watch, String> {
        if one_in == 0 {
            return Err("one packet in 0 is none: ask for one in 1 to see all".into());
        }
        let (mut watch, tellers) = self.watch(one_in == 1)?;
        handle.order_all(tellers.into_iter().map(|teller| Order::Watch(teller, one_in)))?;
        // What is asked of the node next finds it watched.
        handle.with_each(|_, _| ())?;
        watch.handle = Some(handle.clone());
        Ok(watch)
    }

    /// Names of all that records say by number, as they are now.
    pub(super) fn names(&self, handle: &Handle) -> Result<Names, String> {
        let snapshot = handle.snapshot()?;
        let code = |code: &crate::node::status::CodeStatus| CodeName {
            name: code.name.clone(),
            title: code.title.clone(),
            domain: code.domain,
        };
        Ok(Names {
            node: self.node.clone(),
            epoch: crate::config::guard::unix_ns(self.clock.now()),
            origin: self.clock.origin(),
            now: self.clock.now(),
            ports: self.ports(),
            codes: snapshot.status.codes.iter().map(code).collect(),
            domains: snapshot.domains.iter().map(|domain| (domain.id, domain.title.clone())).collect(),
        })
    }

    /// Empties the ring buffer of the kernel half into the rings of all who watch; says what it has missed.
    fn empty_kernel(&self) -> u64 {
        let mut open = self.open();
        let Open { tellers, kernel, missed, .. } = &mut *open;
        let Some(kernel) = kernel else { return 0 };
        kernel.read(|frame| {
            let (port, out) = (frame.port.unwrap_or(NO_PORT), frame.out.unwrap_or(NO_PORT));
            let at = frame.at.saturating_sub(self.clock.origin());
            let word = record::kernel_word(out, frame.reason, frame.before.len());
            let head = record::head(KERNEL, frame.done, port, at, 0, word);
            for teller in tellers.iter_mut() {
                teller.tell(head, frame.before, frame.after);
            }
        });
        let fresh = missed.filter(|(asked, _)| asked.elapsed() < AGAIN);
        let (asked, count) = fresh.unwrap_or_else(|| (Instant::now(), kernel.missed()));
        *missed = Some((asked, count));
        count
    }
}

impl Watch {
    /// Adds the next records to `into`, whole ones, and a last one of how many were missed, if that has changed or `beat` says so; whether
    /// there was anything to be told.
    pub(super) fn hear(&mut self, into: &mut Vec<u8>, beat: bool) -> bool {
        // Before the rings are read: what is told meanwhile is later.
        let now = self.watching.clock.now();
        // What the kernel half hands to the user half it has told of before, and so it is told before. The same goes for what one worker
        // hands to another, which is told later.
        let heard = self.workers.iter_mut().zip(&mut self.held).map(|(worker, held)| worker.hear(held, AT_ONCE));
        let worker = heard.fold(false, |any, some| any | some);
        let (mut kernel, mut missed_there) = (false, 0);
        if let Some(listener) = &mut self.kernel {
            let in_kernel = self.watching.empty_kernel();
            kernel = listener.hear(into, usize::MAX);
            missed_there = listener.missed() + in_kernel.saturating_sub(self.before);
        }
        record::merge(&mut self.held, into);
        let of_workers = self.workers.iter().map(Listener::missed).sum();
        let missed = (of_workers, missed_there);
        if beat || self.said != Some(missed) {
            self.said = Some(missed);
            let head: [u64; HEAD] = record::head(MISSED, 0, NO_PORT, now, missed.0, missed.1);
            head.iter().for_each(|word| into.extend_from_slice(&word.to_le_bytes()));
        }
        kernel || worker
    }

    /// Whether the workers have gone: what is in the rings is all.
    pub(super) fn is_over(&self) -> bool {
        self.workers.iter().all(Listener::is_over)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.kernel.iter_mut().for_each(Listener::close);
        self.workers.iter_mut().for_each(Listener::close);
        let mut open = self.watching.open();
        open.watches -= 1;
        open.tellers.retain(|teller| !teller.is_closed());
        if open.tellers.is_empty() {
            (open.kernel, open.missed) = (None, None);
        }
        drop(open);
        // A node that goes down needs no telling.
        let all = std::iter::repeat_with(|| Order::Unwatch).take(self.workers.len());
        let _ = self.handle.as_ref().map(|handle| handle.order_all(all));
    }
}

/// The capture files of ports, to be written by a thread of their own.
pub(super) struct Files {
    watch: Watch,
    files: Vec<(Filter, PathBuf, Capture<BufWriter<File>>)>,
}

impl Files {
    /// Opens those that the configuration names; and what each worker is to tell them by. Nothing: it names none.
    pub(super) fn open(watching: &Arc<Watching>, plans: &[Plan]) -> io::Result<Option<(Files, Vec<Teller>)>> {
        let mut files = Vec::new();
        for (plan, port) in plans.iter().zip(&watching.ports()) {
            let Some(path) = &plan.pcap else { continue };
            let interface = [(port.name.clone(), plan.opening.beginning())];
            let capture = Capture::create(&crate::broker::reach(path), &interface)
                .map_err(|error| super::ports::explain(&port.name, error))?;
            files.push((Filter::of_port(&port.name), path.clone(), capture));
        }
        if files.is_empty() {
            return Ok(None);
        }
        let (watch, tellers) = watching.watch(true).map_err(io::Error::other)?;
        Ok(Some((Files { watch, files }, tellers)))
    }

    /// Writes them until the worker has gone, or the last file is given up.
    pub(super) fn start(mut self, handle: Handle) -> io::Result<JoinHandle<()>> {
        self.watch.handle = Some(handle.clone());
        threads::start("anode-capture", Duty::Control, move || self.write(&handle))
    }

    fn write(mut self, handle: &Handle) {
        let watching = self.watch.watching.clone();
        let mut names = Names {
            epoch: crate::config::guard::unix_ns(watching.clock.now()),
            ports: watching.ports(),
            ..Names::default()
        };
        let mut join = Join::new(watching.ports().iter().map(|port| port.ethernet).collect());
        let (mut bytes, mut may) = (Vec::new(), questions());
        while !self.files.is_empty() {
            let is_over = self.watch.is_over();
            bytes.clear();
            let more = self.watch.hear(&mut bytes, true);
            Records::of(&bytes).for_each(|record| join.take(&record));
            let mut wrote = false;
            while let Some(seen) = join.next(is_over && !more) {
                // A node that goes down has told all that it will.
                let ask = || watching.names(handle).ok().filter(|_| !is_over);
                names.renew(&seen, (&mut may, watching.clock.now()), ask);
                wrote = true;
                let comment = names.comment(&seen);
                let packet = Captured {
                    interface: 0,
                    at: names.epoch + seen.at,
                    inward: Some(seen.inward),
                    bytes: &seen.bytes,
                    comment: &comment,
                };
                self.files.retain_mut(|(filter, path, capture)| {
                    !filter.holds(&seen, &names) || kept(path, capture.packet(&packet))
                });
            }
            if wrote {
                self.files.retain_mut(|(_, path, capture)| kept(path, capture.flush()));
            }
            if is_over && !more {
                break;
            }
            if !more {
                std::thread::sleep(LOOK);
            }
        }
        let (worker, kernel) = join.missed();
        let now = names.epoch + watching.clock.now();
        for (_, path, capture) in &mut self.files {
            kept(path, capture.end(now, worker + kernel));
        }
    }
}

/// Whether a file could be written to; one that could not is given up.
fn kept(path: &std::path::Path, written: io::Result<()>) -> bool {
    written.inspect_err(|error| tracing::error!(file = %path.display(), %error, "capture file given up")).is_ok()
}
