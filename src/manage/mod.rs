//! A node on this host: configuration, the worker loop, the local sockets.
//!
//! [`assemble`] puts the parts together: a [`worker`] thread that only moves packets, a [`loader`] for the store and
//! the compiler, the [`control`] socket, the applications' socket ([`apps`]), and a thread that follows the host's
//! interfaces, routes and rules (`follow`). [`client`] is the other end of the sockets.

pub mod account;
pub mod apply;
pub mod apps;
mod archive;
pub mod client;
pub mod connections;
pub mod control;
pub mod cpu;
pub mod crew;
mod domains;
pub mod ee;
pub(crate) mod explain;
pub mod extensions;
pub mod files;
mod follow;
pub mod followed;
mod graphs;
mod homes;
mod http;
pub mod kernel;
mod lines;
pub mod linker;
pub mod loader;
pub mod management;
mod members;
pub mod names;
mod network;
pub mod observe;
pub mod plan;
mod planned;
mod plumber;
mod ports;
mod recent;
pub mod resolver;
pub mod revoked;
mod signals;
pub mod sockets;
mod undo;
pub mod watchdog;
pub mod watching;
pub mod worker;

use crate::broker;
use crate::code::extension::manifest::is_native;
use crate::code::run::wasm::{Backstop, Compiler};
use crate::code::store::Store;
use crate::config::half::KernelWish;
use crate::config::{self, NodeFile, Plan, RouteSource};
use crate::frame::WorkerId;
use crate::graph::half::{SharedHalf, boxed};
use crate::kernel::{KernelHalf, Pins, Setting, Settings, Steering};
use crate::node::NodeConfig;
use crate::node::entry::EntryLimits;
use crate::node::proofs::Guard;
use crate::sys::clock::Clock;
use crate::sys::jail::Starter;
use crate::sys::lock::lock;
use crate::sys::poll::Waker;
use crate::sys::threads::{self, Duty};
use crate::trust::CurrentRoles;
use crate::wire::Digest;
use anyhow::{Context, Result};
use connections::Connections;
use control::Handle;
use extensions::Extensions;
use files::Files;
use follow::choice::Choices;
use followed::FollowedHosts;
use kernel::Left;
use management::Management;
use members::NodeDomains;
use network::NodeNetwork;
pub use planned::Planned;
use ports::OpenPort;
use recent::Recent;
use revoked::Revocations;
pub use signals::{keep_signals, obey_signals};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use undo::{Undo, remove_sockets};
use watchdog::Watchdog;
use watching::Watching;
use worker::crew::Way;
use worker::{FIRST_APP, Order, Worker};

/// A node that has been set up and can be run.
pub struct Assembled {
    worker: Worker,
    crew: crew::Running,
    handle: Handle,
    half: Option<Arc<KernelHalf>>,
    beside: Beside,
    management: Arc<Management>,
    stop: Arc<AtomicBool>,
    run_dir: std::path::PathBuf,
}

/// What goes with a node.
struct Beside {
    /// What stands before ports without the kernel half, as long as this is there.
    steering: Option<Arc<Steering>>,
    /// Its AF_XDP sockets.
    report: Option<Arc<sockets::Report>>,
    recent: Option<Recent>,
    settings: Arc<Settings>,
    /// Who writes capture files.
    captures: Option<JoinHandle<()>>,
}

/// Sets a node up in this process as it is: opens its ports and sockets, starts its helpers. Its run directory must be there.
pub fn assemble(file: &NodeFile) -> Result<Assembled> {
    assemble_planned(file, Planned::of(file)?)
}

/// The same for what was planned before.
pub fn assemble_planned(file: &NodeFile, planned: Planned) -> Result<Assembled> {
    let Planned { mut config, mut plans, mut choices, environments, plan, guard, meters, hellos, text } = planned;
    let (dir, waker) = (file.run_dir(), Waker::new()?);
    let files = file.files.as_deref().map(open_files).transpose()?.map(Arc::new);
    let compiler = Compiler::new(Backstop::Ticker).map_err(|error| anyhow::anyhow!("{error:#}"))?;
    let compiling = loader::Compiling::new(compiler.clone(), &file.compiler);
    let warm = warm(&compiling)?;
    let store = open_store(file)?;
    let at_store = file.store.as_deref().map(broker::reach);
    let entry = file.entry.limits().map_err(anyhow::Error::msg)?;
    let settings = Arc::new(Settings::of(&dir));
    let mut undo = Undo::begin(&dir, settings.clone())?;
    // A process that has died had channels; this one has none yet.
    let of_channels = |setting, _: &str| setting != Setting::Tags;
    settings.give_back(of_channels).context("cannot give back what a node before has changed")?;
    choices.go_on(undo.stood(), &mut plans);
    let half = open_half(file, &mut config, (&mut choices, &mut plans), &entry)?;
    let clock = half.as_ref().map_or_else(Clock::of_host, |half| Clock::since(half.origin()));
    let left = left(half.as_deref(), &store, at_store.as_deref())?;
    let (messenger, in_force) = (half.clone().map(kernel::Messenger::new), CurrentRoles::from(config.roles.clone()));
    let policy = policy(file, &config, &in_force)?;
    let revocations = policy.revocations.clone();
    let loader = loader::Loader::start(store, compiling, policy, messenger, waker.clone())?;
    let shelf = loader.shelf();
    let ((orders, inbox), connections) = (channel(), Connections::default());
    let apps = listen_for_apps(file, &dir.join("apps.sock"), &connections)?;
    let (routing, way) = (config.clone(), Way { orders: orders.clone(), waker: waker.clone() });
    let (own, start) = ((Box::new(plan), apps, loader), (entry, clock));
    let (mut worker, crew, cpu_report, keeper) = first((file, &plans), config, own, (way, inbox), start)?;
    let guard = Guard { unix_ns: config::guard::unix_ns(clock.now()), ..guard };
    worker.set_guard(guard.clone(), revocations.signed());
    worker.set_meters(meters);
    let watching = Arc::new(Watching::new((&routing.name, crew.workers), &routing.ports, &plans, clock, half.clone()));
    let files_of_ports = watching::Files::open(&watching, &plans)?.map(|(files, tellers)| {
        crew.watch(&mut worker, tellers);
        files
    });
    worker.prepare(left)?;
    let (of, kernel_half, before) = ((&routing, &plans[..]), (half.as_ref(), crew.workers), (warm, keeper.policies()));
    let (xdp, ports, halves) = open_ports(&mut worker, file, of, kernel_half, &settings, &orders, before)?;
    let crew = crew.start(file, &routing, (&entry, &guard, clock), (ports, &halves), &keeper.policies())?;
    worker.begin((hellos, file.prepared_graphs(&keeper.classes())?)).map_err(anyhow::Error::msg)?;
    let (kernel, links) = (file.routes == RouteSource::Kernel, Arc::<follow::Links>::default());
    let followed = kernel.then(Arc::<follow::Report>::default);
    let handle = Handle::new(orders, waker, shelf, half.clone()).with_sockets(xdp.report.clone());
    let accounts = cpu_report.accounts();
    let handle =
        handle.with_cpu(cpu_report).with_rules(followed.clone()).with_links(links.clone()).with_files(files.clone());
    let handle = handle.with_foreign(worker.foreign()).with_revocations(revocations).with_extensions(keeper);
    let seats = ee::Seats::new(connections.environments.clone());
    let handle = handle.with_watching(watching).with_others(crew.others()).with_connections(connections);
    let captures = files_of_ports.map(|files| files.start(handle.clone())).transpose()?;
    let (node, roles) = (routing.name.clone(), in_force.clone());
    let acceptor = ee::Acceptor { handle: handle.clone(), node, roles, clock, seats, accounts };
    let domains = NodeDomains { acceptor: acceptor.clone(), files };
    let management = Arc::new(Management::start(environments, starter(&dir)?, domains)?);
    undo.management = Some(management.clone());
    let (handle, stop) = (handle.with_management(management.clone()), Arc::new(AtomicBool::new(false)));
    watchdog::tick(compiler, Watchdog::new(handle.rounds(), file.cpu.hang_s), stop.clone())?;
    let (before, told) = ((half.clone(), xdp.own.clone(), xdp.again), (followed, links));
    let follower =
        follow::Follower::new(file.clone(), (routing, plans, choices), handle.clone(), before, settings.clone(), told)?;
    let following = follower.follow()?;
    let handle = with_applier(file, handle, (guard, in_force), (following, management.clone()), clock)?;
    listen_for_others((file, &text), &handle, acceptor)?;
    let recent = at_store.map(|at| Recent::watch(&at, handle.clone())).transpose()?;
    undo.done();
    let beside = Beside { steering: xdp.own, report: xdp.report, recent, settings, captures };
    Ok(Assembled { worker, crew, handle, half, beside, management, stop, run_dir: dir })
}

/// The first worker and the others, which know what extensions of the configuration teach; with those who keep these.
fn first(
    (file, plans): (&NodeFile, &[Plan]),
    config: NodeConfig,
    own: (Box<crate::ee::plan::Config>, apps::Apps, loader::Loader),
    way: (Way, Receiver<Order>),
    (entry, clock): (EntryLimits, Clock),
) -> Result<(Worker, crew::Crew, Arc<cpu::Report>, Extensions)> {
    let keeper = Extensions::start(clock, file.security.native_extensions)?;
    let mut extended =
        keeper.prepare(file.extension_modules()?).map_err(|why| anyhow::anyhow!("[[extension]]: {why}"))?;
    let classifying = apply::taught_by(file, &extended.taught).map_err(anyhow::Error::msg)?;
    let (mut worker, crew, report) =
        crew::first((file, plans), config, own, way, (entry, clock, classifying), &extended.policies)?;
    worker.offer(std::mem::take(&mut extended.services)).map_err(anyhow::Error::msg)?;
    keeper.put(extended).map_err(anyhow::Error::msg)?;
    worker.bring(keeper.classes());
    Ok((worker, crew, report, keeper))
}

/// The kernel half, if there is one; without it no port has it by choice.
fn open_half(
    file: &NodeFile,
    config: &mut NodeConfig,
    (choices, plans): (&mut Choices, &mut [Plan]),
    entry: &EntryLimits,
) -> Result<Option<Arc<KernelHalf>>> {
    let must = file.ports.iter().any(|port| port.kernel == KernelWish::Yes);
    let half = kernel::open((config, must), plans, &file.run_dir(), Clock::of_host(), entry)?;
    if half.is_none() {
        choices.give_up(file, plans);
    }
    config.kernel = half.is_some();
    Ok(half)
}

/// The same with who applies other configurations, and looks for hosts that rules name.
fn with_applier(
    file: &NodeFile,
    handle: Handle,
    (guard, roles): (Guard, CurrentRoles),
    (following, management): (follow::Following, Arc<Management>),
    clock: Clock,
) -> Result<Handle> {
    let (file, peers) = (file.clone(), apply::Peers::of(file));
    let extensions = handle.extensions().map_err(anyhow::Error::msg)?.clone();
    let routes = lock(&following).brought();
    // Who keeps extensions ends with the last who can ask him.
    let asked = NodeNetwork { handle: handle.clone().without_extensions(), routes };
    extensions.network_by(Arc::new(asked));
    let handle = handle.with_hosts(FollowedHosts::start(extensions)?);
    let parts = apply::Parts { file, guard, peers, handle: handle.clone(), roles, following, management, clock };
    Ok(handle.with_applier(Arc::new(apply::Applier::start(parts)?)))
}

/// Has the compiler make itself ready beside all else; ends when it is.
fn warm(compiling: &loader::Compiling) -> Result<JoinHandle<()>> {
    let jailed = compiling.jailed.clone();
    let warm = move || {
        if let Err(error) = jailed.warm() {
            tracing::warn!(%error, "no wasm can be compiled for now");
        }
    };
    Ok(threads::start("anode-warm", Duty::Compile, warm)?)
}

/// Opens the ports of all workers, with what stands before them, which passes packets up when all are there.
fn open_ports(
    worker: &mut Worker,
    file: &NodeFile,
    (routing, plans): (&NodeConfig, &[Plan]),
    (half, workers): (Option<&Arc<KernelHalf>>, WorkerId),
    settings: &Arc<Settings>,
    orders: &Sender<Order>,
    (warm, policies): (JoinHandle<()>, extensions::Policies),
) -> Result<(sockets::Opened, Vec<Vec<OpenPort>>, Vec<SharedHalf>)> {
    let mut xdp = sockets::open(routing, plans, (&file.xdp, &file.run_dir()), half, workers);
    let without_tags = kernel::leave_all_tags(settings, plans, &xdp.ports);
    let halves: Vec<_> = kernel::channels(half, plans.len(), &xdp).into_iter().map(SharedHalf::new).collect();
    worker.set_channel_halves(boxed(halves.clone()));
    let before = std::mem::take(&mut xdp.ports);
    // Packets that bring code find somebody who compiles it. One that panicked has said so.
    let _ = warm.join();
    let of_others = worker.open(
        &routing.ports,
        (plans.iter().cloned().zip(before).collect(), policies),
        settings,
        orders.clone(),
    )?;
    worker.seed_links(&kernel::links(plans));
    let half = half.map(AsRef::as_ref);
    listen(half, xdp.own.as_deref()).context("programs before the Linux stack cannot pass packets up")?;
    half.map_or(Ok(()), KernelHalf::settle).context("the kernel half cannot take its place")?;
    kernel::take_tags_again(settings, &without_tags);
    Ok((xdp, of_others, halves))
}

/// What the next packets need of what a process before this one has left: neighbours, and codes that the store has.
fn left(half: Option<&KernelHalf>, store: &Store, at: Option<&Path>) -> Result<Left> {
    let mut left = half.map(|half| kernel::left(half, store)).transpose()?.unwrap_or_default();
    // The last ones are prepared first.
    let recent = at.map(recent::read).unwrap_or_default().into_iter().rev().filter(|code| store.object(code).is_some());
    let more: Vec<Digest> = recent.filter(|code| !left.codes.contains(code)).collect();
    left.codes.extend(more);
    Ok(left)
}

/// Who decides what code may, with what was revoked before.
fn policy(file: &NodeFile, config: &NodeConfig, roles: &CurrentRoles) -> Result<loader::Policy> {
    let (node, roles) = (config.name.clone(), roles.clone());
    let revocations = Revocations::open(file.store.as_deref().map(broker::reach).as_deref(), roles.clone())
        .context("cannot read what was revoked")?;
    Ok(loader::Policy { node, roles, revocations: Arc::new(revocations) })
}

/// All sockets are there: what stands before the Linux stack may give them what is the node's.
fn listen(half: Option<&KernelHalf>, steering: Option<&Steering>) -> std::io::Result<()> {
    half.map_or(Ok(()), KernelHalf::listen)?;
    steering.map_or(Ok(()), Steering::listen)
}

/// Whether the extensions of a configuration can be loaded and make the orders and admissions that it names. Of a shared object nothing
/// runs for that.
pub fn check_extensions(file: &NodeFile, planned: &Planned) -> Result<()> {
    let modules = file.extension_modules()?;
    if modules.is_empty() || modules.iter().any(|module| is_native(module)) {
        return Ok(());
    }
    let loading = Extensions::start(Clock::start(), false)?.prepare(modules);
    let policies = loading.map_err(|why| anyhow::anyhow!("[[extension]]: {why}"))?.policies;
    crew::input(file, &policies)?;
    for (plan, port) in planned.plans.iter().zip(&planned.config.ports) {
        let sorting = plan.sorting.as_ref().map(|sorting| ports::sorted(sorting, &policies)).transpose();
        sorting.with_context(|| format!("port {}", port.name))?;
    }
    Ok(())
}

/// Who starts environments in this process, if there is no broker to do that.
fn starter(dir: &Path) -> Result<Option<Starter>> {
    if broker::is_there() { Ok(None) } else { Ok(Some(broker::jails_of(dir)?)) }
}

/// The sockets of control and of processes that operators connect, who fetches code for extensions, and who changes graphs for programs.
fn listen_for_others((file, text): (&NodeFile, &str), handle: &Handle, acceptor: ee::Acceptor) -> Result<()> {
    let dir = &file.run_dir();
    handle.was_configured(text, file.store.as_deref());
    handle.shelf.plumber().start(handle.clone())?;
    let keeping = handle.clone().without_extensions();
    let keep = Box::new(move |bundle| keeping.keep_code(bundle).map(drop));
    let extensions = handle.extensions().map_err(anyhow::Error::msg)?;
    http::start(&file.http, (extensions, handle.http.clone()), keep, acceptor.clock)?;
    control::serve(broker::listen(dir, broker::LocalSocket::Control)?, handle.clone())?;
    ee::serve(broker::listen(dir, broker::LocalSocket::Nodeos)?, acceptor)?;
    Ok(())
}

/// The socket of applications, and their way to it by TCP if there is one.
fn listen_for_apps(file: &NodeFile, path: &Path, connections: &Connections) -> Result<apps::Apps> {
    let dir = path.parent().unwrap_or(path);
    let apps =
        apps::Apps::on(broker::listen(dir, broker::LocalSocket::Apps)?, FIRST_APP, connections.applications.clone())?;
    if let Some(listen) = file.plan.tcp {
        let counts = connections.plan_tcp.clone();
        let at =
            plan::serve(listen, &broker::reach(path), counts).with_context(|| format!("[plan] tcp = \"{listen}\""))?;
        tracing::info!(%at, "PLAN ports by TCP");
    }
    Ok(apps)
}

impl Assembled {
    /// A way to the node from other threads.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Programs before the Linux stack give it all that comes.
    fn stop_listening(&self) -> std::io::Result<()> {
        self.beside.report.as_ref().map_or(Ok(()), |report| report.stop_listening())?;
        self.beside.steering.as_ref().map_or(Ok(()), |steering| steering.stop_listening(std::iter::empty()))?;
        self.half.as_ref().map_or(Ok(()), |half| half.stop_listening())
    }

    /// Works until it is told to stop.
    pub fn run(mut self) -> Result<()> {
        threads::become_one(Duty::Worker).context("the worker cannot be confined")?;
        let mut result = self.worker.run();
        if result.is_ok() {
            // What comes from now on is the Linux stack's; what has come is nobody's but the node's. Sockets of further workers are closed
            // when these end: before that nothing goes to them.
            let taken = self.stop_listening().and_then(|()| self.worker.take_no_more());
            result = taken.and_then(|()| self.crew.stop()).and_then(|()| self.worker.drain());
        }
        let recent = self.beside.recent.map(|recent| recent.conclude(self.worker.recent_codes()));
        // Nobody waits for its answers any more.
        self.worker.close();
        // One that panicked has said so.
        recent.map(JoinHandle::join);
        self.beside.captures.map(JoinHandle::join);
        self.management.stop();
        self.stop.store(true, Ordering::Relaxed);
        // Whoever still watches has heard all; what outlives this process tells nobody.
        self.half.iter().for_each(|half| half.unwatch());
        let keeps = self.handle.keeps_kernel();
        if !keeps {
            // Without a kernel half there may be pins all the same.
            self.half.map_or_else(|| Pins::sweep(&self.run_dir).map(drop), |half| half.take_down())?;
        }
        self.beside.settings.give_back(|setting, _| !keeps || setting != Setting::Tags)?;
        if !broker::is_there() {
            remove_sockets(&self.run_dir);
        }
        Ok(result?)
    }
}

/// The store of a node; in memory alone if its disk is full.
fn open_store(file: &NodeFile) -> Result<Store> {
    match Store::open(file.store.as_deref().map(broker::reach).as_deref(), Default::default()) {
        Err(error) if error.is_of_full_disk() => {
            tracing::warn!(%error, "code is kept in memory only");
            Ok(Store::open(None, Default::default())?)
        }
        opened => Ok(opened?),
    }
}

fn open_files(path: &Path) -> Result<Files> {
    Files::open_at(&broker::reach(path)).with_context(|| format!("cannot keep files in {}", path.display()))
}
