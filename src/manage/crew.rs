//! The further workers of a node: how many there are, and their threads.

use super::apps::Apps;
use super::control::Others;
use super::cpu::{self, Cpu};
use super::extensions::Policies;
use super::loader::Loader;
use super::ports::OpenPort;
use super::worker::crew::{Link, Way, between_all};
use super::worker::input::Input;
use super::worker::{FirstSeat, Order, Parts, Seat, Worker};
use crate::config::cpu::{CpuFile, Workers};
use crate::config::{NodeFile, Plan};
use crate::frame::WorkerId;
use crate::graph::half::{SharedHalf, boxed};
use crate::node::entry::EntryLimits;
use crate::node::proofs::Guard;
use crate::node::workers::Joint;
use crate::node::{Classifying, NodeConfig};
use crate::seen::ring::Teller;
use crate::sys::clock::Clock;
use crate::sys::ethtool;
use crate::sys::packet::can_stay;
use crate::sys::poll::Waker;
use crate::sys::threads::{self, Duty, WORKERS_MAX};
use anyhow::{Context, Result};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel, sync_channel};
use std::thread::JoinHandle;

/// Entries of soft state that a further worker keeps for itself: none, since all keep them in common.
const NO_STATE: usize = 0;

/// The first worker of a node, and the others before their ports are open; and what the first has of a CPU.
pub(super) fn first(
    (file, plans): (&NodeFile, &[Plan]),
    config: NodeConfig,
    (plan, apps, loader): (Box<crate::ee::plan::Config>, Apps, Loader),
    (way, orders): (Way, Receiver<Order>),
    (entry, clock, classifying): (EntryLimits, Clock, Classifying),
    policies: &Policies,
) -> Result<(Worker, Crew, Arc<cpu::Report>)> {
    let workers = count(&file.cpu, plans);
    file.check_workers(workers)?;
    let (crew, links) = Crew::of(workers, &config, &way, classifying.clone())?;
    let cpu = Cpu::new(&file.cpu.of_worker(0, workers));
    let report = cpu.report();
    let parts = Parts {
        config,
        seat: Seat::First(Box::new(FirstSeat { plan, apps, loader })),
        links,
        joint: crew.joint.clone(),
        busy_poll_us: file.xdp.busy_poll_us,
        cpu,
        input: input(file, policies)?,
        entry,
        classifying,
        orders,
        waker: way.waker,
        clock,
    };
    Ok((Worker::new(parts)?, crew, report))
}

/// The order in which a worker takes frames of ports, if the configuration has one: each has its own.
pub(super) fn input(file: &NodeFile, policies: &Policies) -> Result<Option<Box<Input>>> {
    let made = file.input()?.map(|spec| Input::new(spec, policies)).transpose();
    Ok(made.map_err(|why| anyhow::anyhow!("[input] order: {why}"))?.map(Box::new))
}

/// How many workers a node has.
fn count(file: &CpuFile, plans: &[Plan]) -> WorkerId {
    let room = Room::of(plans);
    room.notes(file).iter().for_each(|note| tracing::warn!("{note}"));
    room.workers(file)
}

/// What there is for workers.
pub struct Room {
    /// Receive queues of the interface with most, if a port is at one.
    queues: Option<u32>,
    /// Processors that the node may use.
    processors: u32,
    /// Whether a port has a discipline, which is one worker's.
    sorts: bool,
}

impl Room {
    /// For ports that are opened so.
    pub fn of(plans: &[Plan]) -> Room {
        let interfaces = plans.iter().filter_map(|plan| plan.opening.interface());
        let queues = interfaces.map(|interface| {
            let name = ethtool::name(interface.index);
            name.and_then(|name| ethtool::queues(&name)).unwrap_or(1)
        });
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
        let sorts = plans.iter().any(|plan| plan.sorting.is_some());
        Room { queues: queues.max(), processors, sorts }
    }

    /// How many workers a node of this file has here.
    pub fn workers(&self, file: &CpuFile) -> WorkerId {
        let wanted = self.wanted(file);
        if self.sorts || wanted > 1 && self.queues.is_some() && !can_stay() { 1 } else { wanted }
    }

    /// How many workers a file wants here.
    fn wanted(&self, file: &CpuFile) -> WorkerId {
        match file.workers {
            Workers::Count(count) => count,
            Workers::Auto => self.queues.unwrap_or(1).clamp(1, self.processors.min(WORKERS_MAX.into())) as WorkerId,
        }
    }

    /// What whoever has written the file should know: of more workers than there is work for, or room.
    pub fn notes(&self, file: &CpuFile) -> Vec<String> {
        let wanted = u32::from(self.wanted(file));
        let mut notes = Vec::new();
        if wanted > 1 && self.sorts {
            notes.push(format!(
                "[cpu] workers = {wanted}: the discipline of a port is one worker's, so the node has one"
            ));
            return notes;
        }
        if wanted > 1 && self.queues.is_some() && !can_stay() {
            notes.push(format!(
                "[cpu] workers = {wanted}: this kernel lets several sockets share no interface (Linux 6.2 does), so the node has one"
            ));
            return notes;
        }
        if let Some(queues) = self.queues.filter(|queues| wanted > *queues) {
            notes.push(format!(
                "[cpu] workers = {wanted}: no interface has more than {} (more: ethtool -L), so {} no frame from one",
                many(queues, "receive queue"),
                match wanted - queues {
                    1 => "one worker gets".to_owned(),
                    idle => format!("{idle} workers get"),
                }
            ));
        }
        let places = file.affinity.len() as u32;
        if (1..wanted).contains(&places) {
            let all: Vec<_> = file.affinity.iter().map(usize::to_string).collect();
            notes.push(format!(
                "[cpu] affinity = [{}]: {wanted} workers have {} of the processors, so some take turns on one",
                all.join(", "),
                if places == 1 { "one".to_owned() } else { places.to_string() },
            ));
        }
        if wanted > self.processors {
            notes.push(format!(
                "[cpu] workers = {wanted}: the node may use {}, on which they take turns",
                many(self.processors, "processor")
            ));
        }
        notes
    }
}

/// So many of something.
fn many(count: u32, what: &str) -> String {
    if count == 1 { format!("one {what}") } else { format!("{count} {what}s") }
}

/// A worker beyond the first that has no thread yet.
struct Seated {
    id: WorkerId,
    orders: Receiver<Order>,
    way: Way,
    links: Vec<Link>,
}

/// The workers beyond the first, before their ports are open.
pub(super) struct Crew {
    /// What all workers have in common, if there are several.
    joint: Option<Joint>,
    /// How many there are, the first included.
    pub workers: WorkerId,
    /// The way to the first one.
    first: Way,
    /// What all say of classifying at first.
    classifying: Classifying,
    seated: Vec<Seated>,
}

/// The same at work.
#[derive(Default)]
pub(super) struct Running {
    threads: Vec<(Way, JoinHandle<io::Result<()>>)>,
    /// What each has of a CPU.
    reports: Vec<Arc<cpu::Report>>,
}

impl Crew {
    /// For so many workers, of which the first is reached so; with what that one has of the others.
    fn of(workers: WorkerId, config: &NodeConfig, first: &Way, classifying: Classifying) -> Result<(Crew, Vec<Link>)> {
        let joint = (workers > 1).then(|| Joint::new(workers, config.sizes.state_entries));
        let (mut ways, mut inboxes) = (vec![first.clone()], Vec::new());
        for _ in 1..workers {
            let (sender, orders) = channel();
            ways.push(Way { orders: sender, waker: Waker::new()? });
            inboxes.push(orders);
        }
        let mut links = between_all(&ways).into_iter();
        let own = links.next().unwrap_or_default();
        let others = (1..).zip(ways.into_iter().skip(1)).zip(inboxes).zip(links);
        let seated = others.map(|(((id, way), orders), links)| Seated { id, orders, way, links }).collect();
        Ok((Crew { joint, workers, first: first.clone(), classifying, seated }, own))
    }

    /// Somebody watches, and is told by each of these, the first by the first worker; before the threads are started.
    pub fn watch(&self, first: &mut Worker, tellers: Vec<Teller>) {
        let mut tellers = tellers.into_iter();
        tellers.next().into_iter().for_each(|teller| first.watch(teller, 1));
        self.seated.iter().zip(tellers).for_each(|(seated, teller)| seated.way.order(Order::Watch(teller, 1)));
    }

    /// Starts the threads, each with its ports.
    pub fn start(
        self,
        file: &NodeFile,
        config: &NodeConfig,
        (entry, guard, clock): (&EntryLimits, &Guard, Clock),
        (ports, halves): (Vec<Vec<OpenPort>>, &[SharedHalf]),
        policies: &Policies,
    ) -> Result<Running> {
        let mut running = Running::default();
        for (Seated { id, orders, way, links }, ports) in self.seated.into_iter().zip(ports) {
            let cpu = Cpu::new(&file.cpu.of_worker(id, self.workers));
            running.reports.push(cpu.report());
            let mut config = config.clone();
            config.sizes.state_entries = NO_STATE;
            config.seed = config.seed.wrapping_add(u64::from(id));
            let parts = Parts {
                config,
                seat: Seat::Further(id),
                links,
                joint: self.joint.clone(),
                busy_poll_us: file.xdp.busy_poll_us,
                cpu,
                input: input(file, policies)?,
                entry: *entry,
                classifying: self.classifying.clone(),
                orders,
                waker: way.waker.clone(),
                clock,
            };
            let (guard, all, (telling, told)) = (guard.clone(), self.first.clone(), sync_channel(1));
            let halves = halves.to_vec();
            let work = move || {
                let mut worker = Worker::new(parts)?;
                worker.leave_guard(&guard);
                worker.set_channel_halves(boxed(halves));
                worker.take_ports(ports.into_iter())?;
                // Whoever starts it waits for this.
                let _ = telling.send(());
                let done = worker.run_on();
                if let Err(error) = &done {
                    // Its queues have nobody: the node ends as it does when the first worker fails.
                    tracing::error!(worker = id, %error, "a worker cannot go on: the node ends");
                    all.order(Order::Stop);
                }
                done
            };
            let thread = threads::start(&format!("anode-worker-{id}"), Duty::Worker, work)?;
            running.threads.push((way, thread));
            if told.recv().is_err() {
                running.stop().with_context(|| format!("worker {id} cannot begin"))?;
                // It has ended without an error of its own.
                anyhow::bail!("worker {id} cannot begin: it has panicked, which is a bug");
            }
        }
        Ok(running)
    }
}

impl Running {
    /// Ways to them.
    pub fn others(&self) -> Others {
        Others { ways: self.threads.iter().map(|(way, _)| way.clone()).collect(), reports: self.reports.clone() }
    }

    /// Ends them when they have sent what their sockets held; what the first can do alone is in its rings then.
    pub fn stop(&mut self) -> io::Result<()> {
        let threads = std::mem::take(&mut self.threads);
        threads.iter().for_each(|(way, _)| way.order(Order::Stop));
        // One that panicked has said so.
        threads.into_iter().try_for_each(|(_, thread)| thread.join().unwrap_or(Ok(())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_workers_than_queues_or_processors_are_said_and_no_fault() {
        let file = |workers| CpuFile { workers, ..CpuFile::default() };
        let notes =
            |queues, processors, workers| Room { queues, processors, sorts: false }.notes(&file(workers)).join("; ");
        let count = Workers::Count;
        assert_eq!(notes(Some(2), 4, count(2)) + &notes(None, 4, count(4)), "");
        assert!(
            notes(Some(1), 4, count(3)).contains("more than one receive queue (more: ethtool -L), so 2 workers get")
        );
        assert!(
            notes(Some(2), 4, count(3)).contains("more than 2 receive queues (more: ethtool -L), so one worker gets")
        );
        assert!(notes(Some(8), 2, count(3)).contains("may use 2 processors"));
        assert!(notes(Some(1), 1, count(64)).contains("; "), "both");
        let auto = |queues, processors| Room { queues, processors, sorts: false }.wanted(&file(Workers::Auto));
        assert_eq!([auto(Some(8), 4), auto(Some(2), 4), auto(None, 4), auto(Some(999), 999)], [4, 2, 1, 64]);
        assert_eq!(notes(Some(8), 4, Workers::Auto), "");
        let pinned = |affinity: &[usize]| {
            let file = CpuFile { workers: count(2), affinity: affinity.to_vec(), ..CpuFile::default() };
            Room { queues: Some(2), processors: 4, sorts: false }.notes(&file).join("; ")
        };
        assert!(pinned(&[3]).contains("affinity = [3]: 2 workers have one of the processors"), "{}", pinned(&[3]));
        assert_eq!(pinned(&[0, 1]) + &pinned(&[]), "");
    }
}
