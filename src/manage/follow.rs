//! Follows the kernel's interfaces, routes and rules of policy routing, and routes that extensions set, and tells both halves.

mod brought;
pub mod choice;
mod interfaces;
mod links;
mod mirror;
mod places;
mod queues;
mod report;
mod rounds;
mod routes;
mod table;
mod weigh;

use super::control::{Handle, Unsettled};
use super::sockets::Again;
use super::worker::Order;
use crate::config::places::Move;
use crate::config::{NodeFile, Plan};
use crate::frame::Link;
use crate::kernel::{Asker, KernelHalf, Settings, Steering};
use crate::node::NodeConfig;
use crate::sys::netdev::Redirected;
use crate::sys::netlink::{self, Carrier, Interface, LinkNews};
use crate::sys::poll::Waker;
use crate::sys::threads::{self, Duty};
use crate::topology::{Neighbour, Port};
use anyhow::{Context, Result};
pub use brought::BroughtRoutes;
use choice::{Choice, Choices, Together};
use interfaces::Patience;
pub use interfaces::{Follows, LinkStatus, Links, State as LinkState};
use queues::Queues;
pub use report::Report;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use table::Followed;

/// Changes of the kernel's tables are gathered for this long before they are told.
const GATHER: Duration = Duration::from_millis(20);

/// Until changes that could not be waited for are waited for again.
const WAITED_AGAIN: Duration = Duration::from_secs(1);

/// One that others have something to tell too.
pub type Following = Arc<Mutex<Follower>>;

/// Who is told of what.
pub struct Follower {
    file: NodeFile,
    /// The node and its ports, as they were told last.
    config: NodeConfig,
    plans: Vec<Plan>,
    handle: Handle,
    half: Option<Arc<KernelHalf>>,
    /// What stands before its ports beside that.
    steering: Option<Arc<Steering>>,
    settings: Arc<Settings>,
    /// Opens AF_XDP sockets anew, if there are some.
    again: Option<Again>,
    /// Whether the kernel's routes are the node's; for the status.
    routes: bool,
    report: Arc<Report>,
    /// The interfaces of its ports, for the status.
    links: Arc<Links>,
    /// What was chosen before the start, until the first look.
    choices: Choices,
    seen: Seen,
    followed: Followed,
    /// Routes that extensions have set.
    brought: Arc<BroughtRoutes>,
    /// The way to the thread that follows, and what wakes it.
    begin: Option<(Sender<Wake>, Waker)>,
}

/// Says that nothing is followed any more, at its end.
struct Ends(Arc<Links>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.leave_alone(true);
    }
}

/// What wakes the thread that follows while it waits for something to follow.
enum Wake {
    /// There is something to follow.
    Following(Box<Beginning>),
    /// There is nothing to follow, and extensions have set routes.
    Routes,
}

/// What the thread that follows has, when there is something to follow: threads that come later may start none.
struct Beginning {
    following: Following,
    watch: netlink::Watch,
    routes: Option<OwnedFd>,
    /// Wakes it, for whoever wants to know whether it comes round.
    waker: Waker,
    ends: Ends,
}

/// What a look at the host has found.
#[derive(Default)]
struct Seen {
    /// Whether there is somebody who looks.
    watched: bool,
    /// What is known of each port; none: nobody has looked yet.
    ports: Vec<SeenPort>,
    /// Bytes of the largest packet of any port, at most.
    mtu_max: usize,
    /// When the first of the ports that wait may be opened anew.
    due: Option<Instant>,
    /// What is so at all ports that traffic decides on.
    together: Together,
    /// When traffic is looked at, if the kernel half of a port goes by that.
    looks_at_traffic: Option<Instant>,
    /// Capsules that had ended in the kernel half at the last look, and what those of each port were charged with; and the part of
    /// each port since the beginning.
    in_kernel: (u64, Vec<u64>),
    by_port: Vec<u64>,
    /// The interfaces at the last look, and what the kernel has told of them since.
    interfaces: Vec<Interface>,
    news: LinkNews,
    /// What redirects to each port lead to, as its programs were told last.
    redirected: Redirected,
    /// What asks the kernel, if there was a reason to.
    asker: Option<Arc<Asker>>,
    /// When the kernel half is told again what it did not take, and the time from one try to the next.
    again: Option<(Instant, Duration)>,
}

/// What is known of a port.
struct SeenPort {
    /// Bytes of the largest packet that its sockets are for.
    room: usize,
    /// What its driver has said of receive queues.
    queues: Queues,
    /// Its link; nothing: not looked at yet.
    link: Option<Carrier>,
    /// How often it may be opened anew.
    patience: Patience,
    /// What was chosen of the kernel half, if link and traffic decide.
    choice: Option<Choice>,
}

impl SeenPort {
    /// Of one whose sockets are for packets of so many bytes.
    fn new(room: usize) -> SeenPort {
        let now = Instant::now();
        SeenPort { room, queues: Queues::new(now), link: None, patience: Patience::new(now), choice: None }
    }
}

impl Follower {
    /// One that tells a node and what is before its ports; with a report if the kernel's routes are the node's.
    pub fn new(
        file: NodeFile,
        (config, plans, choices): (NodeConfig, Vec<Plan>, Choices),
        handle: Handle,
        (half, steering, again): (Option<Arc<KernelHalf>>, Option<Arc<Steering>>, Option<Again>),
        settings: Arc<Settings>,
        (report, links): (Option<Arc<Report>>, Arc<Links>),
    ) -> Result<Follower> {
        let (routes, report, seen) = (report.is_some(), report.unwrap_or_default(), Seen::default());
        let followed = Followed::new(routes).context("cannot follow the kernel's routes")?;
        Ok(Follower {
            file,
            config,
            plans,
            handle,
            half,
            steering,
            settings,
            again,
            routes,
            report,
            links,
            choices,
            seen,
            followed,
            brought: Arc::default(),
            begin: None,
        })
    }

    /// Tells all there is now, and then what changes as long as the node lives.
    pub fn follow(mut self) -> Result<Following> {
        let has_some = self.routes || self.plans.iter().any(|plan| plan.opening.interface().is_some());
        let (begin, begun) = channel();
        let waker = Waker::new().context("nobody could wake who follows interfaces")?;
        let tells = begin.clone();
        // A thread that has ended follows nothing any more, and has said so.
        self.brought.wake_by(waker.clone(), move || drop(tells.send(Wake::Routes)));
        self.begin = Some((begin, waker));
        let following = Arc::new(Mutex::new(self));
        let own = Arc::downgrade(&following);
        threads::start("anode-routes", Duty::Routes, move || {
            // There may be a port with an interface later, or never.
            begun.into_iter().for_each(|wake| match wake {
                Wake::Following(beginning) => beginning.follow(),
                Wake::Routes => own.upgrade().iter().for_each(|following| locked(following).tell_brought()),
            });
        })?;
        if has_some {
            Follower::watch(&following)?;
        }
        Ok(following)
    }

    /// Follows what changes from now on, if nobody does yet: there was no interface to follow.
    pub fn watch(following: &Following) -> Result<()> {
        let mut first = locked(following);
        if first.seen.watched {
            return Ok(());
        }
        let watch = netlink::Watch::new().context("cannot follow the kernel's interfaces")?;
        // Nobody knows what has changed meanwhile.
        first.seen.news.lost = true;
        first.look()?;
        first.begin_routes()?;
        let routes = first.followed.descriptor().map(|watched| watched.try_clone_to_owned()).transpose()?;
        let told = first.begin.as_ref().map(|(begin, waker)| {
            let (following, ends) = (following.clone(), Ends(first.links.clone()));
            first.links.rounds.begin(waker.clone());
            let beginning = Beginning { following, watch, routes, waker: waker.clone(), ends };
            begin.send(Wake::Following(Box::new(beginning)))
        });
        anyhow::ensure!(matches!(told, Some(Ok(()))), "interfaces and routes are followed no more");
        first.links.leave_alone(false);
        first.seen.watched = true;
        first.brought.watch(true);
        Ok(())
    }

    /// Routes that extensions set, while the node is.
    pub fn brought(&self) -> Arc<BroughtRoutes> {
        self.brought.clone()
    }

    /// Takes down what extensions have set meanwhile.
    fn take_brought(&mut self) {
        if self.brought.take_news() {
            self.renew_own_routes();
        }
    }

    /// Tells what extensions have set where there is nothing to follow.
    fn tell_brought(&mut self) {
        self.take_brought();
        if let Err(why) = self.tell_routes() {
            tracing::warn!(event = "route", %why, "routes of extensions are not told");
        }
    }

    /// Waits until workers have done what follows from the orders so far, or for as long as that usually takes. An error: the node is
    /// gone.
    fn wait_for_workers(&self) -> Result<()> {
        match self.handle.settle() {
            Err(Unsettled::Late) => {
                tracing::warn!(event = "link", "ports are not closed or opened yet: it takes longer than usual");
                Ok(())
            }
            settled => settled.map_err(anyhow::Error::msg),
        }
    }

    /// Whether the routes of another configuration lead somewhere here, where these neighbours and ports are.
    pub fn check(&self, file: &NodeFile, neighbours: Vec<Neighbour>, ports: Vec<Port>) -> Result<()> {
        let config = NodeConfig { neighbours, ports, ..self.config.clone() };
        file.fixed_routes(&config)?;
        Ok(())
    }

    /// Takes down what the kernel tells of routes; gives for how long to wait for more, while it is not time to tell.
    fn hear(&mut self, until: Instant) -> Result<Option<Duration>> {
        let heard = self.followed.take(&self.report);
        heard.inspect_err(|error| tracing::error!(%error, "routes are followed no more"))?;
        Ok(self.followed.rest(until))
    }

    /// Something has changed, links or routes; gives when to look again if nothing does. An error: the node is gone.
    fn turn(&mut self, links: LinkNews) -> Result<Option<Duration>> {
        self.seen.news.add(links);
        // Ports that were opened too often may be opened again.
        let is_due = self.seen.due.is_some_and(|due| due <= Instant::now());
        let is_another = self.weigh()?;
        if self.seen.news.some || is_due || is_another {
            self.look()?;
        }
        self.take_brought();
        self.tell_routes()?;
        self.report.falls_behind(self.followed.is_behind());
        let again = self.tell_again();
        let rest = |due: Option<Instant>| due.map(|due| due.saturating_duration_since(Instant::now()));
        let (due, traffic) = (rest(self.seen.due), rest(self.seen.looks_at_traffic));
        Ok([self.followed.patience(), due, traffic, again].into_iter().flatten().min())
    }

    /// From now on the node has this configuration, and these neighbours; whether its routes are others, and what it says of
    /// ports. At some places are other ports.
    pub fn renew(
        &mut self,
        file: NodeFile,
        neighbours: Vec<Neighbour>,
        (routes, ports): (bool, bool),
        moves: &[Move],
    ) -> Result<()> {
        self.config.neighbours = neighbours;
        self.enter(&file, moves)?;
        for (at, of_file) in file.ports.iter().enumerate() {
            // What is no ceiling was refused before.
            let (Ok(ceiling), rate) = (of_file.ceiling(), of_file.bits_per_second) else { continue };
            let Some(port) =
                self.config.ports.get_mut(at).filter(|port| port.ceiling != ceiling || port.bits_per_second != rate)
            else {
                continue;
            };
            (port.ceiling, port.bits_per_second) = (ceiling, rate);
            // The node knows it already, and its link addresses stay; the kernel half has ceilings of its own.
            if let (true, Link::Ethernet { mac, .. }, Some(half)) = (ports, port.link, self.half.as_deref()) {
                let interface = interface_of(&self.plans[at]);
                let entry = super::kernel::entry(at as u32, interface, mac, port, &self.seen.redirected);
                if let Err(error) = half.follow(entry, false) {
                    tracing::error!(%error, "the kernel half has the old ceiling of a port");
                }
            }
        }
        self.file = file;
        // What ports demand, and where routes are from, says whether the kernel half may stand before them.
        if self.seen.watched && (self.judge_all() || !moves.is_empty()) {
            self.look()?;
        }
        if routes {
            self.renew_ports();
            self.tell_routes()?;
        }
        Ok(())
    }

    /// Looks at interfaces and rules anew. An error: the node is gone.
    fn look(&mut self) -> Result<()> {
        match netlink::interfaces() {
            Ok(interfaces) => {
                if self.look_at_ports(&interfaces)? {
                    self.renew_ports();
                }
                // Of routes that came before an interface went, the kernel has told.
                self.followed.take(&self.report)?;
                let news = core::mem::take(&mut self.seen.news);
                self.followed.doubt_if_gone(&news, &self.seen.interfaces, &interfaces);
                self.seen.interfaces = interfaces;
            }
            Err(error) => tracing::warn!(%error, "interfaces not followed"),
        }
        if self.routes {
            self.look_at_rules();
        }
        Ok(())
    }

    fn tell(
        &self,
        command: impl FnOnce(&mut crate::node::Node, &mut crate::node::Turn<'_>) + Send + 'static,
    ) -> Result<()> {
        self.handle.order(Order::Do(Box::new(command))).map_err(anyhow::Error::msg)
    }
}

impl Beginning {
    /// Follows what changes. It ends with the worker, and else never.
    fn follow(self) {
        let Beginning { following, watch, routes, waker, ends } = self;
        let mut patience = Some(Duration::ZERO);
        let turn = |links: LinkNews| {
            // Nobody else waits while changes are gathered.
            let until = locked(&following).followed.due(GATHER);
            while let Some(rest) = { locked(&following).hear(until)? } {
                std::thread::sleep(rest);
            }
            locked(&following).turn(links)
        };
        let why = loop {
            let others = routes.iter().map(AsFd::as_fd).chain([waker.as_fd()]).collect::<Vec<_>>();
            let links = await_change(&watch, &others, patience, &ends.0);
            let asked = ends.0.rounds.wakes();
            match turn(links) {
                Ok(next) => patience = next,
                Err(why) => break why,
            }
            ends.0.rounds.is_done(asked);
        };
        tracing::error!(event = "link", %why, "interfaces and routes are followed no more");
        // Another configuration may have them followed again.
        let mut follower = locked(&following);
        follower.seen.watched = false;
        follower.brought.watch(false);
    }
}

/// Waits until something has changed, or for so long; says what has changed of links. Where that cannot be waited for (there may be fewer
/// descriptors than before) it is tried again, and health says so meanwhile.
fn await_change(
    watch: &netlink::Watch,
    others: &[BorrowedFd<'_>],
    patience: Option<Duration>,
    told: &Links,
) -> LinkNews {
    let mut failed = false;
    loop {
        match watch.wait(others, if failed { Some(Duration::ZERO) } else { patience }) {
            Ok(links) if !failed => return links,
            Ok(_) => {
                told.leave_alone(false);
                tracing::info!(event = "link", "interfaces and routes are followed again");
                return LinkNews { some: true, lost: true, ..LinkNews::default() };
            }
            Err(error) if failed => tracing::debug!(%error, "interfaces and routes are not followed yet"),
            Err(error) => {
                failed = true;
                told.leave_alone(true);
                tracing::error!(event = "link", %error, "interfaces and routes are not followed: changes cannot be waited for");
            }
        }
        std::thread::sleep(WAITED_AGAIN);
    }
}

fn locked(following: &Following) -> MutexGuard<'_, Follower> {
    following.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The interface of a port, 0 if it has none.
fn interface_of(plan: &Plan) -> u32 {
    plan.opening.interface().map_or(0, |interface| interface.index)
}
