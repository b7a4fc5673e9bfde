//! The control socket: one request a line, one answer a line, both JSON.
//!
//! `control.sock` in the node's run directory, readable and writable by the node's user only. Requests:
//! `{"do":"status"}`, `{"do":"log"}`, `{"do":"add-code","bundle":HEX}`, `{"do":"remove-code","name":NAME}`,
//! `{"do":"load-service","name":NAME,"type":TYPE,"module":HEX}`, `{"do":"unload-service","name":NAME}`,
//! `{"do":"domains"}`, `{"do":"kill-domain","domain":ID}`, `{"do":"channels"}`,
//! `{"do":"cut","title":…,"role":ROLE,"from":[PROTOCOL,ADDRESS],"to":[…],"bandwidth":N}`, `{"do":"down"}`, or with
//! `"keep_kernel":true`. `{"do":"names"}`.
//! `{"do":"watch"}` is followed by records of packets (`watch`). `{"do":"next","of":"status"}` is answered when the answer is another
//! one than before (`next`).
//! Answers: `{"ok":…}` or `{"error":WHY}`. Connections are few: one that asks nothing for a minute is closed, and so is
//! one whose request has not come within 5 s. Where there is no room for another, the one that has waited longest gives
//! way (`places`), so that nobody keeps the operator out.

mod journal;
mod next;
mod places;
mod sources;
mod state;
mod watch;

use super::account::{self, Total};
use super::connections::Connections;
use super::files::Files;
use super::loader::{Request, Shelf};
use super::management::Management;
use super::revoked::{self, Revocations};
use super::services::Services;
use super::sockets::Report;
use super::watching::Watching;
use super::worker::Order;
use crate::clean;
use crate::code::bundle::Bundle;
use crate::core::domain::DomainId;
use crate::core::ledger::Unaccounted;
use crate::core::reason::Reason;
use crate::ee::plan::ServiceSignature;
use crate::kernel::KernelHalf;
use crate::node::{Node, Turn};
use crate::sys::poll::Waker;
use crate::sys::threads::{self, Duty};
use crate::trust::Revocation;
use crate::wire::Digest;
use crate::wire::revocation::Repr;
use places::{Place, Places, Times, read_line};
use serde::Deserialize;
use serde_json::{Value, json};
use sources::Sources;
use std::io::{self, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Bytes of the longest request: a bundle in hexadecimal, and some.
const REQUEST_MAX: usize = 1 << 20;

/// Connections served at the same time.
const CONNECTIONS_MAX: usize = 32;

/// For how long a connection may ask nothing, or not take its answer.
const IDLE: Duration = Duration::from_secs(60);

/// For how long ports are waited for, less than clients wait for an answer.
const SETTLED_WITHIN: Duration = Duration::from_secs(8);

/// For how long a request may be on its way that has begun.
const LINE: Duration = Duration::from_secs(5);

/// Pause when no connection can be taken: the process has no descriptors left.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
enum Ask {
    Status,
    Log,
    /// The lines of mobile code and the node's own, with numbers.
    Journal,
    AddCode {
        bundle: String,
    },
    RemoveCode {
        name: String,
    },
    /// Some of a code's soft state, from a place on.
    State {
        code: String,
        #[serde(default)]
        from: u64,
    },
    /// Tries modules again on which the compiler has failed.
    RetryCode,
    Domains,
    KillDomain {
        domain: u32,
    },
    Channels,
    /// A domain with a cut-through channel, in a role.
    Cut(super::domains::NewCut),
    /// Makes a wasm module a PLAN service.
    LoadService {
        name: String,
        #[serde(rename = "type")]
        signature: String,
        module: String,
    },
    UnloadService {
        name: String,
    },
    /// Takes back what a credential, a principal or a code has here, now and from now on.
    Revoke(Taken),
    /// Lists what was taken back.
    Revoked,
    /// The next answer to another request that differs from the one before.
    Next {
        of: next::Subject,
        /// The longest wait; then the answer is as it was.
        #[serde(default = "next::longest_ms")]
        within_ms: u64,
    },
    /// What happens to packets from now on, as records behind the answer, until the other end goes.
    Watch,
    /// Names of ports, codes and domains, as records have them by number.
    Names,
    Down {
        /// The kernel half works on, for the next process.
        #[serde(default)]
        keep_kernel: bool,
    },
}

impl From<next::Subject> for Ask {
    fn from(subject: next::Subject) -> Ask {
        match subject {
            next::Subject::Status => Ask::Status,
            next::Subject::Log => Ask::Log,
            next::Subject::Journal => Ask::Journal,
            next::Subject::Domains => Ask::Domains,
            next::Subject::Channels => Ask::Channels,
        }
    }
}

/// What is taken back.
#[derive(Deserialize)]
#[serde(untagged)]
enum Taken {
    /// By a key: the message that neighbours are told, in hexadecimal digits.
    Signed { message: String },
    /// By the operator of this node alone: `token`, `principal` or `code`, and its name.
    Here { what: String, name: String },
}

impl Taken {
    fn revocation(&self) -> Result<Revocation, String> {
        match self {
            Taken::Signed { message } => {
                let bytes = hex::decode(message).map_err(|_| "the message is not in hexadecimal")?;
                let repr = Repr::parse(&bytes).map_err(|error| format!("the message is no revocation: {error}"))?;
                Ok(Revocation::of_wire(&repr))
            }
            Taken::Here { what, name } => {
                let subject =
                    revoked::subject_of(what, name).ok_or("revoke a token, a principal or a code by its name")?;
                Ok(Revocation::by_operator(subject, revoked::unix_s()))
            }
        }
    }
}

/// Ways to the worker and the loader.
#[derive(Clone)]
pub struct Handle {
    orders: Sender<Order>,
    waker: Waker,
    shelf: Shelf,
    half: Option<Arc<KernelHalf>>,
    sockets: Option<Arc<Report>>,
    cpu: Option<Arc<super::cpu::Report>>,
    connections: Connections,
    rules: Option<Arc<super::follow::Report>>,
    keep_kernel: Arc<AtomicBool>,
    management: Option<Arc<Management>>,
    files: Option<Arc<Files>>,
    revocations: Option<Arc<Revocations>>,
    services: Option<Services>,
    sources: Sources,
    watching: Option<Arc<Watching>>,
}

impl Handle {
    /// A handle on the worker behind `orders` and `waker`, on the loader behind `shelf`, and on the kernel
    /// half if there is one.
    pub fn new(orders: Sender<Order>, waker: Waker, shelf: Shelf, half: Option<Arc<KernelHalf>>) -> Handle {
        let keep_kernel = Arc::default();
        let (sockets, cpu, rules, management, files, revocations) = (None, None, None, None, None, None);
        let (services, watching) = (None, None);
        Handle {
            orders,
            waker,
            shelf,
            half,
            sockets,
            cpu,
            connections: Connections::default(),
            rules,
            keep_kernel,
            management,
            files,
            revocations,
            services,
            sources: Sources::default(),
            watching,
        }
    }

    /// The same with who watches the node's packets.
    pub fn with_watching(self, watching: Arc<Watching>) -> Handle {
        Handle { watching: Some(watching), ..self }
    }

    /// The same with who compiles services that the operator loads.
    pub fn with_services(self, services: Services) -> Handle {
        Handle { services: Some(services), ..self }
    }

    /// The same with who remembers what is taken back.
    pub fn with_revocations(self, revocations: Arc<Revocations>) -> Handle {
        Handle { revocations: Some(revocations), ..self }
    }

    /// The same with what is known of the node's AF_XDP sockets.
    pub fn with_sockets(self, sockets: Option<Arc<Report>>) -> Handle {
        Handle { sockets, ..self }
    }

    /// The same with what is known of the worker's CPU.
    pub fn with_cpu(self, cpu: Arc<super::cpu::Report>) -> Handle {
        Handle { cpu: Some(cpu), ..self }
    }

    /// The same with what is counted of connections.
    pub fn with_connections(self, connections: Connections) -> Handle {
        Handle { connections, ..self }
    }

    /// The same with what is known of the host's rules of policy routing, if its routes are followed.
    pub fn with_rules(self, rules: Option<Arc<super::follow::Report>>) -> Handle {
        Handle { rules, ..self }
    }

    /// The same with the management environment.
    pub fn with_management(self, management: Arc<Management>) -> Handle {
        Handle { management: Some(management), ..self }
    }

    /// The same with the files of domains, if there are any.
    pub fn with_files(self, files: Option<Arc<Files>>) -> Handle {
        Handle { files, ..self }
    }

    /// The management environment.
    pub fn management(&self) -> Option<&Arc<Management>> {
        self.management.as_ref()
    }

    /// The files of domains.
    pub fn files(&self) -> Option<&Arc<Files>> {
        self.files.as_ref()
    }

    /// The kernel half.
    pub(super) fn kernel_half(&self) -> Option<&Arc<KernelHalf>> {
        self.half.as_ref()
    }

    /// Whether whoever stopped the node wants its kernel half to work on.
    pub fn keeps_kernel(&self) -> bool {
        self.keep_kernel.load(Ordering::Relaxed)
    }

    /// Lets the worker do something, and waits for what comes of it.
    pub fn with_node<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Node, &mut Turn<'_>) -> R + Send + 'static,
    ) -> Result<R, String> {
        let (reply, answer) = channel();
        let command = Box::new(move |node: &mut Node, turn: &mut Turn<'_>| {
            // Whoever asked may have gone away meanwhile.
            let _ = reply.send(work(node, turn));
        });
        self.order(Order::Do(command))?;
        answer.recv().map_err(|_| "the node is going down".into())
    }

    /// Waits until the worker has carried out what follows from the orders so far: the ports know of new channels.
    pub fn settle(&self) -> Result<(), String> {
        let (reply, answer) = channel();
        self.order(Order::Settle(reply))?;
        answer.recv_timeout(SETTLED_WITHIN).map_err(|why| match why {
            RecvTimeoutError::Timeout => "the ports are not ready yet; ask again".into(),
            RecvTimeoutError::Disconnected => "the node is going down".into(),
        })
    }

    /// Gives the worker an order.
    pub fn order(&self, order: Order) -> Result<(), String> {
        self.orders.send(order).map_err(|_| "the node is going down".to_string())?;
        self.waker.wake();
        Ok(())
    }

    /// What the node, its kernel half, its sockets and its worker say of themselves.
    fn status(&self) -> Result<Value, String> {
        let node = self.with_node(|node, turn| {
            node.settle_cuts();
            node.status_within(&turn.out.frames)
        })?;
        let kernel = self.half.as_ref().map(|half| half.status());
        let value = |value: serde_json::Result<Value>| value.map_err(|error| error.to_string());
        let mut status = value(serde_json::to_value(&node))?;
        for (code, told) in node.codes.iter().zip(status["codes"].as_array_mut().into_iter().flatten()) {
            if code.domain.is_some() {
                told["total"] = value(serde_json::to_value(Total::of(code, kernel.as_ref())))?;
            }
            if code.trap.is_some() {
                self.sources.complete(&code.name, &mut told["trap"]);
            }
        }
        let lost = Unaccounted {
            kernel: kernel.as_ref().map_or(0, |kernel| kernel.balance.unaccounted().unsigned_abs()),
            ..node.unaccounted_by
        };
        status["unaccounted"] = json!(lost.total());
        status["unaccounted_by"] = json!(lost);
        status["domains"] = value(serde_json::to_value(account::by_domain(&node, kernel.as_ref())))?;
        if let Some(kernel) = kernel {
            if kernel.undelivered > 0 {
                status["drops"][Reason::Undelivered.name()] = json!(kernel.undelivered);
            }
            status["kernel"] = value(serde_json::to_value(kernel))?;
        }
        status["connections"] = self.connections.status();
        status["loader"] = value(serde_json::to_value(self.shelf.status()?))?;
        add_losses(&mut status["ports"]);
        if let (Some(sockets), Some(tree)) = (&self.sockets, status.as_object_mut()) {
            let sockets = serde_json::to_value(sockets.status()).map_err(|error| error.to_string())?;
            tree.insert("xdp".into(), sockets);
        }
        if let (Some(report), Some(tree)) = (&self.rules, status.as_object_mut()) {
            tree.insert("rules".into(), json!(report.rules()));
        }
        if let (Some(cpu), Some(tree)) = (&self.cpu, status.as_object_mut()) {
            let cpu = serde_json::to_value(cpu.status()).map_err(|error| error.to_string())?;
            tree.insert("cpu".into(), cpu);
        }
        if let (Some(sandbox), Some(tree)) = (crate::broker::sandbox::entered(), status.as_object_mut()) {
            tree.insert("sandbox".into(), json!(sandbox));
        }
        super::names::add_former(&mut status);
        Ok(status)
    }

    /// Adds code to the store, by its bundle in hexadecimal.
    fn add_code(&self, bundle: &str) -> Result<Value, String> {
        let bytes = hex::decode(bundle).map_err(|_| "the bundle is not in hexadecimal")?;
        let bundle = Bundle::read(&bytes).map_err(|error| error.to_string())?;
        let (name, credentials) = (bundle.name(), bundle.credentials().cloned());
        self.sources.keep(&bundle);
        self.shelf.ask(Request::Add(Box::new(bundle)))?;
        self.with_node(move |node, turn| match credentials {
            Some(set) => node.look_again(turn, &name, &set),
            None => node.forget_refusal(&name),
        })?;
        Ok(json!({"name": name.to_string()}))
    }

    /// Makes a module, in hexadecimal, a service of PLAN programs.
    fn load_service(&self, name: &str, signature: &str, module: &str) -> Result<Value, String> {
        let module = hex::decode(module).map_err(|_| "the module is not in hexadecimal")?;
        let signature = ServiceSignature::parse(signature)?;
        // The worker does not wait for it.
        let services = self.services.as_ref().ok_or("this node loads no services")?;
        let service = Box::new(services.load(module)?);
        let called = name.to_owned();
        self.with_node(move |node, _| node.load_service(&called, signature, service))??;
        Ok(json!({ "name": name }))
    }

    fn answer(&self, ask: Ask) -> Result<Value, String> {
        match ask {
            Ask::Status => self.status(),
            Ask::Log => {
                let lines = self.with_node(|node, _| node.log())?;
                Ok(lines.iter().map(|line| self.sources.line(line)).collect())
            }
            Ask::Journal => journal::lines(self),
            Ask::AddCode { bundle } => self.add_code(&bundle),
            Ask::RemoveCode { name } => {
                let name: Digest = name.parse().map_err(|error: crate::wire::DigestError| error.to_string())?;
                self.shelf.ask(Request::Remove(name))?;
                let (was_known, dropped) = self.with_node(move |node, turn| {
                    // What waited for it, and nothing else, ends within this.
                    let before = node.drops().total();
                    (node.remove_code(turn, &name), node.drops().total() - before)
                })?;
                Ok(json!({"name": name.to_string(), "was_known": was_known, "dropped": dropped}))
            }
            Ask::State { code, from } => state::page(self, &code, from),
            Ask::RetryCode => {
                let modules = self.shelf.forgive()?;
                self.with_node(|node, _| node.forget_refusals())?;
                Ok(json!({ "modules": modules }))
            }
            Ask::Domains => super::domains::list(self),
            Ask::KillDomain { domain } => super::domains::kill(self, DomainId(domain)),
            Ask::Channels => {
                let channels = self.with_node(|node, _| node.channel_list())?;
                // What is listed is open when it is told: the ports have it too.
                self.settle()?;
                serde_json::to_value(channels).map_err(|error| error.to_string())
            }
            Ask::Cut(wanted) => super::domains::cut(self, wanted),
            Ask::LoadService { name, signature, module } => self.load_service(&name, &signature, &module),
            Ask::UnloadService { name } => {
                let called = name.clone();
                let was = self.with_node(move |node, _| node.unload_service(&called))?;
                if was { Ok(json!({ "name": name })) } else { Err(format!("no service {name} was loaded")) }
            }
            Ask::Revoke(taken) => {
                let revocations = self.revocations.as_deref().ok_or("this node remembers no revocations")?;
                let ended = revocations.order(self, taken.revocation()?)?;
                let mut answer = serde_json::to_value(ended).map_err(|error| error.to_string())?;
                answer["remembered"] = revocations.are_kept().into();
                Ok(answer)
            }
            Ask::Revoked => {
                let revocations = self.revocations.as_deref().ok_or("this node remembers no revocations")?;
                Ok(revocations.list().into())
            }
            Ask::Next { of, .. } => self.answer(of.into()),
            Ask::Watch | Ask::Names => {
                let watching = self.watching.as_ref().ok_or("this node cannot be watched")?;
                serde_json::to_value(watching.names(self)?).map_err(|error| error.to_string())
            }
            Ask::Down { keep_kernel } => {
                self.keep_kernel.store(keep_kernel, Ordering::Relaxed);
                Ok(json!("going down"))
            }
        }
    }
}

/// What the interfaces of native ports have dropped themselves, before the node had it or behind it. Nothing where the system does not say.
fn add_losses(ports: &mut Value) {
    let losses = crate::sys::netlink::losses().unwrap_or_default();
    for port in ports.as_array_mut().into_iter().flatten() {
        if let Some([incoming, outgoing]) = port["name"].as_str().and_then(|name| losses.get(name)) {
            port["interface"] = json!({ "dropped_in": incoming, "dropped_out": outgoing });
        }
    }
}

/// Serves a control socket from threads of its own.
pub fn serve(socket: OwnedFd, handle: Handle) -> io::Result<()> {
    let places = Places::new(CONNECTIONS_MAX, handle.connections.control.clone());
    serve_within(UnixListener::from(socket), handle, places, Times { idle: IDLE, line: LINE })
}

fn serve_within(listener: UnixListener, handle: Handle, places: Places, times: Times) -> io::Result<()> {
    threads::start("anode-control", Duty::Control, move || {
        let mut failing = false;
        loop {
            match listener.accept() {
                Ok((connection, _)) => {
                    failing = false;
                    let connection = Arc::new(connection);
                    if !is_operator(&connection) {
                        refuse(&connection, "control of the node is its own user's and root's");
                    } else if let Some(place) = places.take(&connection) {
                        start(place, handle.clone(), times);
                    } else {
                        refuse(&connection, "too many control connections");
                    }
                }
                Err(error) => {
                    if !std::mem::replace(&mut failing, true) {
                        tracing::warn!(%error, "no control connection can be taken for now");
                    }
                    // What waits would be ready again at once, so nothing is waited for but time.
                    std::thread::sleep(PAUSE);
                }
            }
        }
    })?;
    Ok(())
}

/// Serves a connection from a thread of its own, as long as that holds its place.
fn start(place: Place, handle: Handle, times: Times) {
    let served = threads::start("anode-control", Duty::Control, move || {
        let written = place.stream.set_write_timeout(Some(times.idle));
        // A connection that breaks concerns only its other end.
        let ended = written.and_then(|()| converse(&place, &handle, times));
        if ended.is_err_and(|error| error.kind() == io::ErrorKind::TimedOut) {
            place.was_silent();
        }
    });
    if let Err(error) = served {
        tracing::warn!(%error, "no thread for a control connection");
    }
}

/// Whether the other end is the node's own user or root, who alone can open the socket: its mode says so, and this does.
fn is_operator(connection: &UnixStream) -> bool {
    let peer = rustix::net::sockopt::socket_peercred(connection);
    peer.is_ok_and(|peer| peer.uid.is_root() || peer.uid == rustix::process::geteuid())
}

fn refuse(connection: &UnixStream, why: &str) {
    let _ = say(connection, &json!({ "error": why }));
}

/// One answer, one clean line, one write.
fn say(mut connection: &UnixStream, answer: &Value) -> io::Result<()> {
    connection.write_all((clean::line(&answer.to_string()) + "\n").as_bytes())
}

fn converse(place: &Place, handle: &Handle, times: Times) -> io::Result<()> {
    let connection = &*place.stream;
    let mut reader = BufReader::new(connection);
    let mut next = next::Next::default();
    loop {
        let mut line = Vec::new();
        if !read_line(&mut reader, &mut line, REQUEST_MAX, times)? {
            return Ok(());
        }
        if line.last() != Some(&b'\n') {
            refuse(connection, "the request is too long, or its line does not end");
            return Ok(());
        }
        if !place.works() {
            return Ok(());
        }
        let ask = serde_json::from_slice::<Ask>(&line);
        let stops = matches!(ask, Ok(Ask::Down { .. }));
        if matches!(ask, Ok(Ask::Watch)) {
            return watch::serve(place, handle);
        }
        let answer = match ask {
            Ok(Ask::Next { of, within_ms }) => {
                match next.await_change(place, of, within_ms, || handle.answer(of.into())) {
                    Some(answer) => answer,
                    None => return Ok(()),
                }
            }
            Ok(ask) => handle.answer(ask),
            Err(error) => Err(format!("request not understood: {error}")),
        };
        let answer = match answer {
            Ok(value) => json!({ "ok": value }),
            Err(why) => json!({ "error": why }),
        };
        // It may not take its answer, so that another has its place.
        let told = if place.waits() { say(connection, &answer) } else { Ok(()) };
        if stops {
            // Behind the answer: the process may be gone before another line is written.
            let _ = handle.order(Order::Stop);
        }
        told?;
        if !place.stays() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::compiler::Compilers;
    use crate::code::run::wasm::{Backstop, Compiler};
    use crate::code::store::Store;
    use crate::manage::loader::{Compiling, Loader, Policy};
    use std::io::BufRead as _;
    use std::path::Path;

    /// A control socket for one connection at a time.
    fn listen(dir: &Path, idle: Duration) -> std::path::PathBuf {
        let path = dir.join(format!("{}.sock", idle.as_millis()));
        let waker = Waker::new().unwrap();
        let store = Store::open(None, Default::default()).unwrap();
        let revocations = Arc::new(Revocations::open(None, Default::default()).unwrap());
        let policy = Policy { node: "n".into(), roles: Default::default(), revocations };
        let compiler = Compiler::new(Backstop::FuelOnly).unwrap();
        let jailed = Compilers::new("/proc/self/exe".into(), Default::default());
        let compiling = Compiling { compiler, jailed, jobs: 1 };
        let loader = Loader::start(store, compiling, policy, None, waker.clone()).unwrap();
        let listener = UnixListener::bind(&path).unwrap();
        let (places, times) = (Places::new(1, Arc::default()), Times { idle, line: Duration::from_secs(3600) });
        serve_within(listener, Handle::new(channel().0, waker, loader.shelf(), None), places, times).unwrap();
        path
    }

    fn said(mut connection: &UnixStream, ask: &str) -> String {
        // A connection that is closed already says so when it is read.
        let _ = connection.write_all(ask.as_bytes());
        let mut line = String::new();
        let _ = BufReader::new(connection).read_line(&mut line);
        line
    }

    #[test]
    fn connections_are_few_and_who_waits_gives_way() {
        let dir = tempfile::tempdir().unwrap();
        let path = listen(dir.path(), Duration::from_secs(3600));
        let first = UnixStream::connect(&path).unwrap();
        assert!(said(&first, "x\n").contains("not understood"));
        // Who waits gives way to who asks.
        assert!(said(&UnixStream::connect(&path).unwrap(), "x\n").contains("not understood"));
        assert_eq!(said(&first, ""), "", "closed without a word");
    }

    #[test]
    fn a_connection_that_asks_nothing_is_closed_and_keeps_nobody_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = listen(dir.path(), Duration::from_millis(20));
        let idle = UnixStream::connect(&path).unwrap();
        assert_eq!(said(&idle, ""), "", "closed without a word");
        // On a busy machine this one may be slow to ask, and closed too.
        let next = || said(&UnixStream::connect(&path).unwrap(), "x\n");
        assert!((0..100).any(|_| next().contains("not understood")));
    }
}
