//! The further workers of a node: how many there are, and their threads.

use super::apps::Apps;
use super::control::Others;
use super::cpu::{self, Cpu};
use super::loader::Loader;
use super::ports::OpenPort;
use super::worker::crew::{Link, Way, between_all};
use super::worker::{FirstSeat, Order, Parts, Seat, Worker};
use crate::config::cpu::{CpuFile, Workers};
use crate::config::{NodeFile, Plan};
use crate::frame::WorkerId;
use crate::graph::half::{SharedHalf, boxed};
use crate::node::NodeConfig;
use crate::node::entry::EntryLimits;
use crate::node::proofs::Guard;
use crate::node::workers::Joint;
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
    (entry, clock): (EntryLimits, Clock),
) -> Result<(Worker, Crew, Arc<cpu::Report>)> {
    let workers = count(&file.cpu, plans);
    file.check_workers(workers)?;
    let (crew, links) = Crew::of(workers, &config, &way)?;
    let cpu = Cpu::new(&file.cpu.of_worker(0, workers));
    let report = cpu.report();
    let parts = Parts {
        config,
        seat: Seat::First(Box::new(FirstSeat { plan, apps, loader })),
        links,
        joint: crew.joint.clone(),
        busy_poll_us: file.xdp.busy_poll_us,
        cpu,
        entry,
        orders,
        waker: way.waker,
        clock,
    };
    Ok((Worker::new(parts)?, crew, report))
}

/// How many workers a node has.
fn count(file: &CpuFile, plans: &[Plan]) -> WorkerId {
    let wanted = match file.workers {
        Workers::Count(count) => count,
        Workers::Auto => automatic(plans),
    };
    let native = plans.iter().any(|plan| plan.opening.interface().is_some());
    if wanted > 1 && native && !can_stay() {
        tracing::warn!("this kernel lets several sockets share no interface (Linux 6.2 does): the node has one worker");
        return 1;
    }
    wanted
}

fn automatic(plans: &[Plan]) -> WorkerId {
    let interfaces = plans.iter().filter_map(|plan| plan.opening.interface());
    let queues = interfaces.map(|interface| {
        let name = ethtool::name(interface.index);
        name.and_then(|name| ethtool::queues(&name)).unwrap_or(1)
    });
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
    let most = processors.min(WORKERS_MAX.into()) as u32;
    queues.max().unwrap_or(1).clamp(1, most) as WorkerId
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
    fn of(workers: WorkerId, config: &NodeConfig, first: &Way) -> Result<(Crew, Vec<Link>)> {
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
        Ok((Crew { joint, workers, seated }, own))
    }

    /// Starts the threads, each with its ports.
    pub fn start(
        self,
        file: &NodeFile,
        config: &NodeConfig,
        (entry, guard, clock): (&EntryLimits, &Guard, Clock),
        (ports, halves): (Vec<Vec<OpenPort>>, &[SharedHalf]),
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
                entry: *entry,
                orders,
                waker: way.waker.clone(),
                clock,
            };
            let (guard, (telling, told), halves) = (guard.clone(), sync_channel(1), halves.to_vec());
            let work = move || {
                let mut worker = Worker::new(parts)?;
                worker.leave_guard(&guard);
                worker.set_channel_halves(boxed(halves));
                worker.take_ports(ports.into_iter())?;
                // Whoever starts it waits for this.
                let _ = telling.send(());
                worker.run()?;
                worker.drain()
            };
            let thread = threads::start(&format!("anode-worker-{id}"), Duty::Worker, work)?;
            running.threads.push((way, thread));
            if told.recv().is_err() {
                running.stop().with_context(|| format!("worker {id} cannot begin"))?;
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
