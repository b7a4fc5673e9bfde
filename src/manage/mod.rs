//! Running a node on this host: configuration, the worker loop, the local sockets.
//!
//! [`assemble`] puts the pieces together: a [`worker`] thread that only moves packets, a [`loader`] for
//! the store and the compiler, the [`control`] socket, the applications' socket ([`apps`]), and a
//! thread that follows the host's interfaces, routes and rules (`follow`). [`client`] is the other end of the sockets.

pub mod account;
pub mod apps;
mod archive;
pub mod client;
pub mod config;
pub mod control;
pub mod cpu;
mod domains;
pub mod ee;
pub mod files;
mod follow;
pub mod kernel;
pub mod linker;
pub mod loader;
pub mod management;
pub mod netlink;
pub mod plan;
mod ports;
pub mod resolver;
pub mod sockets;
pub mod worker;

use crate::code::bundle::Kind;
use crate::code::run::wasm::{Backstop, Compiler};
use crate::code::store::Store;
use crate::kernel::{KernelHalf, Steering, tags};
use crate::nodeos::domain::DomainId;
use crate::nodeos::file::Quota;
use crate::sys::clock::Clock;
use crate::sys::poll::Waker;
use crate::trust::Roles;
use anyhow::{Context, Result, bail};
use config::{NodeFile, RouteSource};
use control::Handle;
use files::Files;
use management::{Domains, Management};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;
use worker::{FIRST_APP, Order, Parts, Worker};

/// Period of the clock that stops code which runs too long.
const TICK: Duration = Duration::from_millis(5);

/// A node that has been set up and can be run.
pub struct Assembled {
    worker: Worker,
    handle: Handle,
    half: Option<Arc<KernelHalf>>,
    /// What stands before ports without the kernel half, as long as this is there.
    _steering: Option<Arc<Steering>>,
    management: Arc<Management>,
    stop: Arc<AtomicBool>,
    sockets: Vec<std::path::PathBuf>,
    run_dir: std::path::PathBuf,
}

/// Sets a node up: opens its ports and sockets, starts its helpers.
pub fn assemble(file: &NodeFile) -> Result<Assembled> {
    let (config, plans) = file.plan()?;
    let environments = file.environments(&config.roles)?;
    let plan = file.plan_environment(&config)?;
    let dir = file.run_dir();
    claim(&dir)?;
    if file.cpu.realtime {
        // Before wasm has its memories, which cannot be locked.
        crate::sys::realtime::lock_memory()?;
    }
    let files = file.files.as_deref().map(open_files).transpose()?.map(Arc::new);
    let compiler = Compiler::new(Backstop::Ticker).map_err(|error| anyhow::anyhow!("{error:#}"))?;
    let store = Store::open(file.store.as_deref(), Default::default())?;
    let waker = Waker::new()?;
    let half = kernel::open(&config, &plans, &dir, Clock::start())?;
    let clock = half.as_ref().map_or_else(Clock::start, |half| Clock::since(half.origin()));
    let left = half.as_deref().map(|half| kernel::left(half, &store)).transpose()?;
    let xdp = sockets::open(&config, &plans, &file.xdp, half.as_ref());
    kernel::leave_all_tags(&dir, &plans, &xdp.ports);
    let channels = kernel::channels(half.as_ref(), config.ports.len(), &xdp);
    let messenger = half.clone().map(kernel::Messenger::new);
    let policy = loader::Policy { node: config.name.clone(), roles: config.roles.clone() };
    let loader = loader::Loader::start(store, compiler.clone(), policy, messenger, waker.clone())?;
    let (orders, inbox) = channel();
    let handle = Handle::new(orders, waker.clone(), loader.shelf(), half.clone()).with_sockets(xdp.report);
    let cpu = cpu::Cpu::new(&file.cpu);
    let followed = (file.routes == RouteSource::Kernel).then(Arc::<follow::Report>::default);
    let handle = handle.with_cpu(cpu.report()).with_rules(followed.clone());
    if let Some((neighbours, codes)) = left {
        let take_over: worker::Command = Box::new(move |node, turn| node.take_over(turn, neighbours, codes));
        handle.order(Order::Do(take_over)).map_err(anyhow::Error::msg)?;
    }
    let apps_path = dir.join("apps.sock");
    let apps = listen_for_apps(file, &apps_path)?;
    let mut sockets = vec![apps_path];
    let (name, roles) = (config.name.clone(), config.roles.clone());
    let (routing, following) = (config.clone(), plans.clone());
    let worker = Worker::new(Parts {
        config,
        plan,
        plans,
        before: xdp.ports,
        channels,
        busy_poll_us: file.xdp.busy_poll_us,
        cpu,
        apps,
        loader,
        orders: inbox,
        waker,
        clock,
    })?;
    listen(half.as_deref(), xdp.own.as_deref()).context("programs before the Linux stack cannot pass packets up")?;
    let domains = NodeDomains {
        handle: handle.clone().with_files(files.clone()),
        clock,
        roles: roles.clone(),
        files: files.clone(),
    };
    let management = Arc::new(Management::start(environments, dir.clone(), domains)?);
    let handle = handle.with_management(management.clone()).with_files(files);
    sockets.extend(listen_for_others(&dir, ee::Door { handle: handle.clone(), node: name, roles, clock })?);
    let stop = Arc::new(AtomicBool::new(false));
    tick(compiler, stop.clone())?;
    let before = (half.clone(), xdp.own.clone());
    follow::Follower::new(file.clone(), (routing, following), handle.clone(), before, followed).follow()?;
    Ok(Assembled { worker, handle, half, _steering: xdp.own, management, stop, sockets, run_dir: dir })
}

/// All sockets are there: what stands before the Linux stack may give them what is the node's.
fn listen(half: Option<&KernelHalf>, steering: Option<&Steering>) -> std::io::Result<()> {
    half.map_or(Ok(()), KernelHalf::listen)?;
    steering.map_or(Ok(()), Steering::listen)
}

/// The sockets of control and of environments in processes of their own.
fn listen_for_others(dir: &Path, door: ee::Door) -> Result<[std::path::PathBuf; 2]> {
    let paths = [dir.join("control.sock"), dir.join("nodeos.sock")];
    let cannot = |path: &Path| format!("cannot listen at {}", path.display());
    control::serve(&paths[0], door.handle.clone()).with_context(|| cannot(&paths[0]))?;
    ee::serve(&paths[1], door).with_context(|| cannot(&paths[1]))?;
    Ok(paths)
}

/// The socket of applications, and their way to it by TCP if there is one.
fn listen_for_apps(file: &NodeFile, path: &Path) -> Result<apps::Apps> {
    let apps = apps::Apps::listen(path, FIRST_APP).with_context(|| format!("cannot listen at {}", path.display()))?;
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600))?;
    if let Some(listen) = file.plan.tcp {
        let at = plan::serve(listen, path).with_context(|| format!("[plan] tcp = \"{listen}\""))?;
        tracing::info!(%at, "PLAN ports by TCP");
    }
    Ok(apps)
}

impl Assembled {
    /// A way to the node from other threads.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Works until it is told to stop.
    pub fn run(mut self) -> Result<()> {
        let result = self.worker.run();
        // Nobody waits for its answers any more.
        drop(self.worker);
        self.management.stop();
        self.stop.store(true, Ordering::Relaxed);
        if !self.handle.keeps_kernel() {
            self.half.map_or(Ok(()), |half| half.take_down())?;
            tags::give_back(&self.run_dir)?;
        }
        for socket in &self.sockets {
            // Somebody may have cleaned up before us.
            let _ = std::fs::remove_file(socket);
        }
        Ok(result?)
    }
}

fn open_files(path: &Path) -> Result<Files> {
    Files::open_at(path).with_context(|| format!("cannot keep files in {}", path.display()))
}

/// What the management environment asks of this node.
struct NodeDomains {
    handle: Handle,
    clock: Clock,
    roles: Arc<Roles>,
    files: Option<Arc<Files>>,
}

impl Domains for NodeDomains {
    fn create(&self, name: &str, role: &str) -> Result<DomainId, String> {
        let asked = (name.to_owned(), role.to_owned());
        let domain = self.handle.with_node(move |node, _| node.add_environment(&asked.0, &asked.1))??;
        let quota = self.roles.iter().find(|found| found.name == role).map(|role| Quota::from(&role.grants));
        if let Some((files, quota)) = self.files.as_ref().zip(quota)
            && let Err(error) = files.enter(domain, name, quota)
        {
            self.end(domain);
            return Err(format!("its files: {error}"));
        }
        Ok(domain)
    }

    fn end(&self, domain: DomainId) {
        // A node that is going down ends all of them.
        let _ = self.handle.with_node(move |node, turn| node.end_environment(turn, domain));
        if let Some(files) = &self.files {
            files.leave(domain);
        }
    }

    fn host(&self, domain: DomainId, role: &str) -> Result<Arc<ee::ObjectHost>, String> {
        let role = self.roles.iter().find(|found| found.name == role).ok_or("its role is gone")?;
        if !role.representations.has(Kind::Native) {
            return Err(format!("the role {} does not include native code", role.name));
        }
        Ok(Arc::new(ee::ObjectHost::new(self.handle.clone(), self.clock, domain, role.clone())))
    }

    fn living(&self, domains: Vec<DomainId>) -> Option<Vec<DomainId>> {
        self.handle.with_node(move |node, _| node.living(domains)).ok()
    }

    fn with_files(&self) -> Option<Vec<DomainId>> {
        self.files.as_ref().map(|files| files.users())
    }

    fn without_files(&self, domain: DomainId) {
        if let Some(files) = &self.files {
            files.leave(domain);
        }
    }
}

/// Makes the run directory ours: sockets of a node that died are taken away, those of a living one
/// are not.
fn claim(dir: &Path) -> Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .with_context(|| format!("cannot make {}; set run_dir in the configuration", dir.display()))?;
    let control = dir.join("control.sock");
    if UnixStream::connect(&control).is_ok() {
        bail!("a node is running with {}; stop it with: anode node down {0}", dir.display());
    }
    for name in ["control.sock", "apps.sock", "nodeos.sock"] {
        match std::fs::remove_file(dir.join(name)) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("cannot replace {}", dir.join(name).display())),
        }
    }
    Ok(())
}

/// The clock behind the wasm backstop.
fn tick(compiler: Compiler, stop: Arc<AtomicBool>) -> Result<()> {
    std::thread::Builder::new().name("anode-tick".into()).spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(TICK);
            compiler.tick();
        }
    })?;
    Ok(())
}

/// Lets the node stop in good order on SIGINT and SIGTERM.
pub fn stop_on_signals(handle: Handle) -> Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM])
        .context("cannot wait for signals")?;
    std::thread::Builder::new().name("anode-signals".into()).spawn(move || {
        if signals.forever().next().is_some() {
            // A worker that is gone already needs no telling.
            let _ = handle.order(Order::Stop);
        }
    })?;
    Ok(())
}
