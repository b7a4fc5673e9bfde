//! The control socket's ways into the node: orders to the worker, questions to the loader and to whoever else does a part.
//! Example: `with_node` lets the worker do something between two packets, and waits for what comes of it.

use super::sources::Sources;
use super::workers::Others;
use crate::code::http::HttpTotals;
use crate::config::NodeFile;
use crate::frame::WorkerId;
use crate::graph::class::BroughtClasses;
use crate::kernel::KernelHalf;
use crate::manage::apply::wish::{Done, Fulfils, Reply, Wish};
use crate::manage::connections::Connections;
use crate::manage::ee::{GraphCalls, KeptStores, Streams};
use crate::manage::extensions::Extensions;
use crate::manage::files::Files;
use crate::manage::followed::FollowedHosts;
use crate::manage::homes::{Home, Homes};
use crate::manage::loader::Shelf;
use crate::manage::management::Management;
use crate::manage::observe::Observed;
use crate::manage::ports::ForeignPorts;
use crate::manage::revoked::Revocations;
use crate::manage::sockets::Report;
use crate::manage::watching::Watching;
use crate::manage::worker::Order;
use crate::node::{Node, Turn};
use crate::sys::poll::Waker;
use crate::topology::Port;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// The worker that has the tables of the node.
const FIRST: WorkerId = 0;

/// For how long ports are waited for, less than clients wait for an answer.
const SETTLED_WITHIN: Duration = Duration::from_secs(8);

/// Why workers have not carried out all orders so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsettled {
    /// It takes longer than usual: closing a socket waits for all processors, for one.
    Late,
    /// There are none any more.
    Gone,
}

impl std::fmt::Display for Unsettled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Unsettled::Late => "the ports are not ready yet; ask again",
            Unsettled::Gone => "the node is going down",
        })
    }
}

impl From<Unsettled> for String {
    fn from(why: Unsettled) -> String {
        why.to_string()
    }
}

/// Ways to the worker and the loader.
#[derive(Clone)]
pub struct Handle {
    pub(super) orders: Sender<Order>,
    pub(super) waker: Waker,
    pub(in crate::manage) shelf: Shelf,
    pub(in crate::manage) half: Option<Arc<KernelHalf>>,
    pub(in crate::manage) sockets: Option<Arc<Report>>,
    pub(in crate::manage) cpu: Option<Arc<crate::manage::cpu::Report>>,
    pub(in crate::manage) connections: Connections,
    pub(in crate::manage) rules: Option<Arc<crate::manage::follow::Report>>,
    pub(in crate::manage) links: Option<Arc<crate::manage::follow::Links>>,
    pub(in crate::manage) foreign: Option<Arc<ForeignPorts>>,
    pub(super) keep_kernel: Arc<AtomicBool>,
    pub(super) management: Option<Arc<Management>>,
    pub(super) files: Option<Arc<Files>>,
    pub(super) kept: Option<Arc<KeptStores>>,
    pub(in crate::manage) streams: Streams,
    pub(in crate::manage) graph_calls: GraphCalls,
    pub(in crate::manage) http: Arc<HttpTotals>,
    pub(in crate::manage) revocations: Option<Arc<Revocations>>,
    pub(super) extensions: Option<Extensions>,
    pub(super) hosts: Option<FollowedHosts>,
    pub(in crate::manage) sources: Sources,
    pub(in crate::manage) watching: Option<Arc<Watching>>,
    pub(in crate::manage) others: Others,
    pub(super) homes: Homes,
    pub(in crate::manage) observed: Arc<Observed>,
    pub(in crate::manage) applier: Option<Arc<dyn Fulfils>>,
}

impl Handle {
    /// A handle on the worker behind `orders` and `waker`, on the loader behind `shelf`, and on the kernel
    /// half if there is one.
    pub fn new(orders: Sender<Order>, waker: Waker, shelf: Shelf, half: Option<Arc<KernelHalf>>) -> Handle {
        let keep_kernel = Arc::default();
        let (sockets, cpu, rules, management, files, revocations) = (None, None, None, None, None, None);
        let (extensions, hosts, watching, links, foreign) = (None, None, None, None, None);
        let graph_calls = shelf.plumber().calls();
        Handle {
            orders,
            waker,
            shelf,
            half,
            sockets,
            cpu,
            connections: Connections::default(),
            rules,
            links,
            foreign,
            keep_kernel,
            management,
            files,
            kept: None,
            streams: Streams::default(),
            graph_calls,
            http: Arc::default(),
            revocations,
            extensions,
            hosts,
            sources: Sources::default(),
            watching,
            others: Others::default(),
            homes: Homes::default(),
            observed: Arc::default(),
            applier: None,
        }
    }

    /// The same with who applies other configurations.
    pub fn with_applier(self, applier: Arc<dyn Fulfils>) -> Handle {
        Handle { applier: Some(applier), ..self }
    }

    /// Does what somebody wishes of the node's configuration.
    pub fn configure(&self, wish: Wish, who: &str) -> Result<Done, String> {
        self.applier.as_ref().ok_or("this node has no other configurations")?.fulfil(wish, who)
    }

    /// The same for somebody who does not wait for what comes of it.
    pub fn begin_configuring(&self, wish: Wish, who: &str, told: Reply) -> Result<(), String> {
        self.applier.as_ref().ok_or("this node has no other configurations")?.begin(wish, who, told)
    }

    /// The same with who watches the node's packets.
    pub fn with_watching(self, watching: Arc<Watching>) -> Handle {
        Handle { watching: Some(watching), ..self }
    }

    /// Whoever watches packets is told names of other ports.
    pub(in crate::manage) fn name_ports(&self, file: &NodeFile, ports: &[Port]) {
        self.watching.iter().for_each(|watching| watching.name_ports(file, ports));
    }

    /// The same with who keeps extensions, and compiles services that the operator loads.
    pub fn with_extensions(self, extensions: Extensions) -> Handle {
        Handle { extensions: Some(extensions), ..self }
    }

    /// The same without them, for whom they ask themselves.
    pub(in crate::manage) fn without_extensions(self) -> Handle {
        Handle { extensions: None, ..self }
    }

    /// The same with who looks for hosts that rules name.
    pub fn with_hosts(self, hosts: FollowedHosts) -> Handle {
        Handle { hosts: Some(hosts), ..self }
    }

    /// Who looks for hosts that rules name, if anybody does.
    pub(in crate::manage) fn hosts(&self) -> Option<&FollowedHosts> {
        self.hosts.as_ref()
    }

    /// Who keeps extensions.
    pub(in crate::manage) fn extensions(&self) -> Result<&Extensions, String> {
        self.extensions.as_ref().ok_or_else(|| "this node loads no extensions".into())
    }

    /// The classes of engines that extensions have brought.
    pub(in crate::manage) fn engine_classes(&self) -> BroughtClasses {
        self.extensions.as_ref().map(Extensions::classes).unwrap_or_default()
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
    pub fn with_cpu(self, cpu: Arc<crate::manage::cpu::Report>) -> Handle {
        Handle { cpu: Some(cpu), ..self }
    }

    /// The same with what is counted of connections.
    pub fn with_connections(self, connections: Connections) -> Handle {
        Handle { connections, ..self }
    }

    /// The same with what is known of the host's rules of policy routing, if its routes are followed.
    pub fn with_rules(self, rules: Option<Arc<crate::manage::follow::Report>>) -> Handle {
        Handle { rules, ..self }
    }

    /// The same with what is known of the interfaces of its native ports.
    pub fn with_links(self, links: Arc<crate::manage::follow::Links>) -> Handle {
        Handle { links: Some(links), ..self }
    }

    /// The same with the tables of foreign flows of its native ports.
    pub fn with_foreign(self, foreign: Option<Arc<ForeignPorts>>) -> Handle {
        Handle { foreign, ..self }
    }

    /// The same with the management environment.
    pub fn with_management(self, management: Arc<Management>) -> Handle {
        Handle { management: Some(management), ..self }
    }

    /// The same with the files of domains, if there are any.
    pub fn with_files(self, files: Option<Arc<Files>>) -> Handle {
        let kept = files.clone().map(|files| Arc::new(KeptStores::new(files)));
        Handle { files, kept, ..self }
    }

    /// The management environment.
    pub fn management(&self) -> Option<&Arc<Management>> {
        self.management.as_ref()
    }

    /// The files of domains.
    pub fn files(&self) -> Option<&Arc<Files>> {
        self.files.as_ref()
    }

    /// Stores that outlive the node, if it keeps files.
    pub(in crate::manage) fn kept_stores(&self) -> Option<&KeptStores> {
        self.kept.as_deref()
    }

    /// The kernel half.
    pub(in crate::manage) fn kernel_half(&self) -> Option<&Arc<KernelHalf>> {
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
        self.with_worker(FIRST, work)
    }

    /// The same of any worker.
    pub(in crate::manage) fn with_worker<R: Send + 'static>(
        &self,
        worker: WorkerId,
        work: impl FnOnce(&mut Node, &mut Turn<'_>) -> R + Send + 'static,
    ) -> Result<R, String> {
        self.begin(worker, work)?.recv().map_err(|_| "the node is going down".into())
    }

    /// Lets a worker do something; what comes of it is told when it is done.
    fn begin<R: Send + 'static>(
        &self,
        worker: WorkerId,
        work: impl FnOnce(&mut Node, &mut Turn<'_>) -> R + Send + 'static,
    ) -> Result<Receiver<R>, String> {
        let (reply, answer) = channel();
        let command = Box::new(move |node: &mut Node, turn: &mut Turn<'_>| {
            // Whoever asked may have gone away meanwhile.
            let _ = reply.send(work(node, turn));
        });
        self.order_of(worker, Order::Do(command))?;
        Ok(answer)
    }

    /// The same of the worker that has an environment.
    pub(in crate::manage) fn with_home<R: Send + 'static>(
        &self,
        home: &Home,
        work: impl FnOnce(&mut Node, &mut Turn<'_>) -> R + Send + 'static,
    ) -> Result<R, String> {
        let worker = home.hold();
        self.with_worker(*worker, work)
    }

    /// The same, and then waits until what follows from it is carried out ([`Handle::settle`]). An only worker is asked for both at once.
    pub(in crate::manage) fn with_home_settled<R: Send + 'static>(
        &self,
        home: &Home,
        work: impl FnOnce(&mut Node, &mut Turn<'_>) -> R + Send + 'static,
    ) -> Result<R, String> {
        let going = |_| "the node is going down".to_owned();
        if !self.others.ways.is_empty() {
            let result = self.with_home(home, work)?;
            return self.settle().map(|()| result).map_err(|_| going(RecvTimeoutError::Timeout));
        }
        let answer = self.begin(FIRST, work)?;
        let settled = self.begin_settling(FIRST).map_err(|_| going(RecvTimeoutError::Disconnected))?;
        let result = answer.recv().map_err(|_| going(RecvTimeoutError::Disconnected))?;
        settled.recv_timeout(SETTLED_WITHIN).map(|()| result).map_err(going)
    }

    /// Waits until the workers have carried out what follows from the orders so far: the ports know of new channels. The first one
    /// comes last, since others ask it for theirs.
    pub fn settle(&self) -> Result<(), Unsettled> {
        let workers = self.others.ways.len() as WorkerId;
        (FIRST + 1..=workers).chain([FIRST]).try_for_each(|worker| {
            self.begin_settling(worker)?.recv_timeout(SETTLED_WITHIN).map_err(|why| match why {
                RecvTimeoutError::Timeout => Unsettled::Late,
                RecvTimeoutError::Disconnected => Unsettled::Gone,
            })
        })
    }

    fn begin_settling(&self, worker: WorkerId) -> Result<Receiver<()>, Unsettled> {
        let (reply, answer) = channel();
        self.order_of(worker, Order::Settle(reply)).map_err(|_| Unsettled::Gone)?;
        Ok(answer)
    }

    /// Gives the first worker an order.
    pub fn order(&self, order: Order) -> Result<(), String> {
        self.orders.send(order).map_err(|_| "the node is going down".to_string())?;
        self.waker.wake();
        Ok(())
    }

    /// Gives the worker that has an environment an order.
    pub(in crate::manage) fn order_home(&self, home: &Home, order: Order) -> Result<(), String> {
        let worker = home.hold();
        self.order_of(*worker, order)
    }

    /// Gives any worker an order.
    pub(in crate::manage) fn order_of(&self, worker: WorkerId, order: Order) -> Result<(), String> {
        match worker.checked_sub(FIRST + 1) {
            None => self.order(order),
            Some(at) => {
                let way =
                    self.others.ways.get(usize::from(at)).ok_or_else(|| format!("there is no worker {worker}"))?;
                way.orders.send(order).map_err(|_| "the node is going down".to_string())?;
                way.waker.wake();
                Ok(())
            }
        }
    }

    /// How many workers there are.
    pub(in crate::manage) fn workers(&self) -> WorkerId {
        self.others.ways.len() as WorkerId + 1
    }

    /// Which worker has which environment.
    pub(in crate::manage) fn homes(&self) -> &Homes {
        &self.homes
    }
}
