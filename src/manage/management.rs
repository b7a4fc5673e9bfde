//! The management environment: the first execution environment of a node. It starts, watches and stops the others.
//!
//! ```text
//! root (node) ─┬─ capsules ── a domain for each code
//!              └─ management ─┬─ one environment's ── its flows
//!                             └─ another's
//! ```
//!
//! Its domain is a child of the root (PLAN on OSKit, figure 4.5; Snow on Silk, §1), and every environment of the
//! configuration gets a domain below it, in the role that the security module ([`Roles::environment`]) lets it have.
//! The environments themselves are processes (`broker/process.rs`), or shared objects that the role trusts with this
//! process (`object`): one ends with its domain, and a domain with it. What ends is started again as its `restart`
//! says, later each time it fails soon. One thread does all this; the worker is only asked to create and end domains.
//!
//! [`Roles::environment`]: crate::trust::Roles::environment

mod being;
mod lines;
mod object;
mod supervisor;

pub use model::wish::Act;
pub use object::{ARGUMENT as OBJECT_ARGUMENT, run as run_object};
pub use supervisor::{BACK_OFF_MAX, State};

use super::ee::ObjectHost;
use super::observe::told::told;
use crate::config::environments::{Environment, Program, Restart};
use crate::core::domain::DomainId;
use crate::frame::WorkerId;
use crate::node::EndedBy;
use crate::sys::jail::{Groups, Part, Starter, Weights};
use crate::sys::poll::Waker;
use crate::sys::seqpacket::SeqPacket;
use crate::sys::threads::{self, Duty};
use serde::Serialize;
use std::collections::BTreeSet;
use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use supervisor::{Order, Supervisor};

/// How long whoever starts, stops or restarts one waits for how it stands then: an object need not end when it is asked to.
const ACTED_WITHIN: Duration = Duration::from_secs(8);

/// How an environment stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EnvironmentStatus {
    /// Its name.
    pub name: String,
    /// Its role.
    pub role: String,
    /// What it is doing.
    pub state: State,
    /// Its process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Its domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<u32>,
    /// How often it was started.
    pub starts: u64,
    /// How often it has failed.
    pub failures: u64,
    /// How it ended the last time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// What of its jail this host has not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub weaker: Vec<Part>,
    /// Whether it failed when it ended the last time.
    #[serde(skip)]
    pub failed: bool,
}

impl EnvironmentStatus {
    /// Whether it does not run because it has failed.
    pub fn lies(&self) -> bool {
        self.failed && matches!(self.state, State::Waiting | State::Ended)
    }
}

/// A process that the node runs, as whoever talks to it has to know it.
#[derive(Debug)]
pub struct Member {
    /// The environment.
    pub name: String,
    /// Its role.
    pub role: String,
    /// Its domain, below which all is that it creates.
    pub domain: DomainId,
    /// Its control groups, which know what it uses.
    pub groups: Groups,
    /// Its first process, for where there are none.
    pub pid: u32,
    /// The files with the weights of its control groups, if they have some.
    pub weights: Option<Weights>,
}

/// What the management environment asks of the node.
pub trait Domains: Send + 'static {
    /// Creates a domain of an environment, below the management environment's, at a worker.
    fn create(&self, name: &str, role: &str, worker: WorkerId) -> Result<DomainId, String>;
    /// Ends a domain and all below it.
    fn end(&self, domain: DomainId);
    /// Who has ended this domain against its will: the node, for its budgets, its memory or a thread that hung, or the
    /// operator; asked once.
    fn felled_by(&self, domain: DomainId) -> Option<EndedBy>;
    /// Which of these domains there still are; nothing when nobody can say.
    fn living(&self, domains: Vec<DomainId>) -> Option<Vec<DomainId>>;
    /// The domains that use files; nothing when the node keeps none.
    fn with_files(&self) -> Option<Vec<DomainId>>;
    /// Closes the files of a domain that has ended.
    fn without_files(&self, domain: DomainId);
    /// Serves a process that was started, over the connection that it has from its birth: whoever speaks there is this one.
    fn admit(&self, member: Member, socket: SeqPacket) -> io::Result<()>;
    /// What an object of the node's process connects by, in a domain and a role.
    fn host(&self, domain: DomainId, role: &str) -> Result<Arc<ObjectHost>, String>;
}

/// What the supervisor tells others.
pub(super) type Board = Arc<Mutex<Vec<EnvironmentStatus>>>;

/// The management environment of a running node.
pub struct Management {
    orders: Mutex<Sender<Order>>,
    waker: Waker,
    board: Board,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Management {
    /// Starts the environments, their processes by `starter`, or by the broker.
    pub fn start(
        environments: Vec<Environment>,
        starter: Option<Starter>,
        domains: impl Domains,
    ) -> io::Result<Management> {
        let (orders, inbox) = channel();
        let waker = Waker::new()?;
        let board = Board::default();
        let (wakes, tells) = (waker.clone(), board.clone());
        let thread = threads::start("anode-manage", Duty::Sessions, move || {
            match Supervisor::new(environments, starter, Box::new(domains), inbox, wakes, tells) {
                Ok(supervisor) => supervisor.run(),
                Err(error) => tracing::error!(%error, "no environment can be started"),
            }
        })?;
        Ok(Management { orders: Mutex::new(orders), waker, board, thread: Mutex::new(Some(thread)) })
    }

    /// How the environments stand.
    pub fn status(&self) -> Vec<EnvironmentStatus> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Somebody has ended these domains on purpose: what ran in them is ended too, and not started again.
    pub fn ended(&self, domains: Vec<DomainId>) {
        self.order(Order::Ended(domains));
    }

    /// These are the environments from now on. Those of these names have changed: they are started, restarted or ended. The
    /// others run on.
    pub fn renew(&self, environments: Vec<Environment>, changed: BTreeSet<String>) {
        self.order(Order::Renew(environments, changed));
    }

    /// Starts, stops or restarts one, and gives how it stands then.
    pub fn act(&self, name: &str, act: Act) -> Result<model::domains::Environment, String> {
        let (reply, answer) = channel();
        self.order(Order::Act(name.to_owned(), act, reply));
        let status = answer.recv_timeout(ACTED_WITHIN).map_err(|why| match why {
            RecvTimeoutError::Timeout => format!("environment {name} is still at it: anode ee ls says how it stands"),
            RecvTimeoutError::Disconnected => "the node is going down".to_owned(),
        })??;
        told(&status)
    }

    /// Ends all environments and waits for that.
    pub fn stop(&self) {
        self.order(Order::Stop);
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // One that panicked has left processes to die with this one.
            let _ = thread.join();
        }
    }

    fn order(&self, order: Order) {
        // A supervisor that is gone has nothing left to end.
        let _ = self.orders.lock().unwrap_or_else(PoisonError::into_inner).send(order);
        self.waker.wake();
    }
}

impl Drop for Management {
    fn drop(&mut self) {
        self.stop();
    }
}
