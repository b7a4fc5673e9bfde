//! The opener's thread: opens sockets and guards of native ports, so that the worker need not wait.
//!
//! The worker states a wish and goes on; an open socket comes back as an order. Wishes are carried out in their order,
//! and so is the wish to [settle](Opener::settle): when it is answered, all wishes before it are done, and what they
//! replaced is closed.

use crate::classify::filter::Watch;
use crate::classify::foreign::ForeignFlow;
use crate::frame::PortId;
use crate::kernel::{ForeignCounts, ForeignFlows, HeldShapes, Setting, Settings};
use crate::manage::ports::OpenPort;
use crate::manage::worker::Order;
use crate::port::packet::{AROUND, Change, Taker};
use crate::sys::ethtool;
use crate::sys::poll::Waker;
use crate::sys::threads::{self, Duty};
use std::cell::Cell;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What the worker wishes.
enum Wish {
    /// Packets of a channel are taken, or not any more.
    Channel(Watch, bool),
    /// A flow of a port is foreign.
    Foreign(PortId, ForeignFlow),
    /// No flow is any more.
    NoneForeign,
    /// A port has another interface, with packets of so many bytes, behind a program of the node's or not.
    Interface(PortId, (u32, usize), bool),
    /// All before this is done.
    Settle(Sender<()>),
    /// What a port had before goes, which may take its time.
    Close(Change),
    /// A port has come, with what takes frames for it.
    Enter(Box<Taking>),
    /// What was at the place of a port has gone; it is to be closed.
    Leave(PortId, Box<OpenPort>),
    /// Whoever waits is told that this is done too.
    Answer(Sender<()>),
}

/// The way to the thread.
pub(in crate::manage) struct Opener {
    wishes: Option<Sender<Wish>>,
    thread: Option<JoinHandle<Vec<Taking>>>,
    settings: Arc<Settings>,
    /// Whether there ever was anything that takes frames.
    takes: Cell<bool>,
    foreign: Arc<ForeignPorts>,
}

/// Foreign flows that may wait to be written down.
const FOREIGN_WAITING: usize = 1024;

/// The tables of foreign flows, by port.
#[derive(Debug, Default)]
pub struct ForeignPorts {
    ports: Mutex<HashMap<PortId, Arc<ForeignFlows>>>,
    waiting: AtomicUsize,
}

impl ForeignPorts {
    fn ports(&self) -> MutexGuard<'_, HashMap<PortId, Arc<ForeignFlows>>> {
        // What it holds is right between any two statements.
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was done about those of a port.
    pub fn counts(&self, port: PortId) -> Option<ForeignCounts> {
        let flows = self.ports().get(&port).cloned();
        flows.map(|flows| flows.counts())
    }

    /// What the table holds by which the kernel chooses packets of channels for a port.
    pub fn held(&self, port: PortId) -> Option<HeldShapes> {
        self.ports().get(&port).map(|flows| flows.held())
    }
}

/// What joins segments of a flow.
const JOINING: [Setting; 2] = [Setting::Gro, Setting::Lro];

/// How long segments are kept apart behind the last channel of a port. With some cards a change of this setting resets
/// the link, and whoever opens and closes channels should not do that to others more often.
const CALM: Duration = Duration::from_secs(5);

/// What takes frames for a port, and whether segments are kept apart at its interface.
struct Taking {
    taker: Taker,
    settings: Arc<Settings>,
    apart: bool,
    /// When they are joined again, if no channel comes before.
    joins: Option<Instant>,
}

impl Opener {
    /// Starts the thread for the ports of these takers, whose worker takes orders, and for those that come.
    pub fn start(takers: Vec<Taker>, settings: &Arc<Settings>, tell: (Sender<Order>, Waker)) -> io::Result<Opener> {
        let mut all: Vec<Taking> = takers.into_iter().map(|taker| Taking::of(taker, settings)).collect();
        let (takes, (wishes, inbox)) = (Cell::new(!all.is_empty()), channel());
        let foreign = Arc::<ForeignPorts>::default();
        foreign.ports().extend(all.iter().map(|taking| (taking.taker.port(), taking.taker.foreign().clone())));
        let of_thread = foreign.clone();
        let work = move || {
            serve(&mut all, &inbox, &tell, &of_thread);
            all
        };
        let thread = threads::start("anode-ports", Duty::Routes, work)?;
        Ok(Opener { wishes: Some(wishes), thread: Some(thread), settings: settings.clone(), takes, foreign })
    }

    /// A port has come: it takes the packets of all channels from now on, too.
    pub fn enter(&self, taker: Taker) {
        self.takes.set(true);
        self.foreign.ports().insert(taker.port(), taker.foreign().clone());
        self.wish(Wish::Enter(Box::new(Taking::of(taker, &self.settings))));
    }

    /// What was at the place of a port takes nothing any more, and is closed.
    pub fn leave(&self, port: PortId, before: OpenPort) {
        self.foreign.ports().remove(&port);
        if before.closes_slowly() {
            self.wish(Wish::Leave(port, Box::new(before)));
        }
    }

    /// Has packets of a channel taken, or not any more.
    pub fn take_for(&self, filter: Watch, exists: bool) {
        self.wish(Wish::Channel(filter, exists));
    }

    /// A flow of a port is foreign: no rule over taught protocols can hold for it. Whoever says so has rules that are as new as the
    /// channels that this was told of before.
    pub fn tell_foreign(&self, port: PortId, flow: ForeignFlow) {
        let Some(flows) = self.foreign.ports().get(&port).cloned() else { return };
        if self.foreign.waiting.load(Relaxed) >= FOREIGN_WAITING {
            return flows.refuse();
        }
        self.foreign.waiting.fetch_add(1, Relaxed);
        self.wish(Wish::Foreign(port, flow));
    }

    /// What was said of flows is not to be believed any more.
    pub fn forget_foreign(&self) {
        self.wish(Wish::NoneForeign);
    }

    /// The tables of foreign flows.
    pub fn foreign(&self) -> Arc<ForeignPorts> {
        self.foreign.clone()
    }

    /// Has a port take frames of another interface, whose largest packets have so many bytes.
    pub fn reopen(&self, port: PortId, interface: (u32, usize), program: bool) {
        self.wish(Wish::Interface(port, interface, program));
    }

    /// Closes what a port has had.
    pub fn close(&self, before: Change) {
        self.wish(Wish::Close(before));
    }

    /// Says so when all wishes before are carried out and the worker has what was opened for them; nothing is to be
    /// waited for where there are no native ports: then `done` comes back.
    pub fn settle(&self, done: Sender<()>) -> Option<Sender<()>> {
        if self.wishes.is_none() || !self.takes.get() {
            return Some(done);
        }
        self.wish(Wish::Settle(done));
        None
    }

    /// Says so when what was to be closed is closed: the last that is done for who waits.
    pub fn answer(&self, done: Sender<()>) {
        self.wish(Wish::Answer(done));
    }

    /// Ends the thread and has nothing more taken from the Linux stack.
    pub fn stop(&mut self) -> io::Result<()> {
        let takings = self.end();
        takings.into_iter().try_for_each(|mut taking| taking.taker.stop())
    }

    fn end(&mut self) -> Vec<Taking> {
        self.wishes = None;
        // One that panicked has said so, and holds nothing any more.
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }

    fn wish(&self, wish: Wish) {
        if let Some(wishes) = &self.wishes {
            // It ends with this value, or by a panic, which has been said.
            let _ = wishes.send(wish);
        }
    }
}

impl Drop for Opener {
    fn drop(&mut self) {
        self.end();
    }
}

fn serve(
    all: &mut Vec<Taking>,
    wishes: &Receiver<Wish>,
    (orders, waker): &(Sender<Order>, Waker),
    foreign: &ForeignPorts,
) {
    let tell = |order: Order| {
        // A worker that is gone needs nothing any more.
        let _ = orders.send(order);
        waker.wake();
    };
    let mut channels: HashMap<Watch, i32> = HashMap::new();
    loop {
        let next = all.iter().filter_map(|taking| taking.joins).min();
        let wish = match next.map(|at| at.saturating_duration_since(Instant::now())) {
            Some(wait) => wishes.recv_timeout(wait),
            None => wishes.recv().map_err(RecvTimeoutError::from),
        };
        let wish = match wish {
            Ok(wish) => wish,
            Err(RecvTimeoutError::Timeout) => {
                let now = Instant::now();
                all.iter_mut().filter(|taking| taking.joins.is_some_and(|at| at <= now)).for_each(Taking::join_again);
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        };
        match wish {
            Wish::Channel(filter, exists) => {
                if exists {
                    all.iter().for_each(|taking| taking.watch_anew(&filter));
                }
                if is_another(&mut channels, &filter, exists) {
                    all.iter_mut().for_each(|taking| taking.take_for(&filter, exists, &tell));
                }
            }
            Wish::Foreign(port, flow) => {
                foreign.waiting.fetch_sub(1, Relaxed);
                let of_port = all.iter().filter(|taking| taking.taker.port() == port);
                of_port.for_each(|taking| taking.say("a flow", taking.taker.learn(&flow)));
            }
            Wish::NoneForeign => all.iter().for_each(|taking| taking.say("flows", taking.taker.foreign().forget())),
            Wish::Interface(port, interface, program) => {
                let of_port = all.iter_mut().filter(|taking| taking.taker.port() == port);
                of_port.for_each(|taking| taking.reopen(interface, program, &tell));
            }
            Wish::Settle(done) => tell(Order::Settled(done)),
            Wish::Close(before) => drop(before),
            Wish::Enter(mut taking) => {
                channels.keys().for_each(|filter| taking.take_for(filter, true, &tell));
                all.push(*taking);
            }
            Wish::Leave(port, before) => {
                drop(before);
                all.extract_if(.., |taking| taking.taker.port() == port).for_each(Taking::leave);
            }
            Wish::Answer(done) => {
                // Whoever asked may have gone away meanwhile.
                let _ = done.send(());
            }
        }
    }
}

/// Whether the first channel with a filter begins, or the last one ends. Of several workers, one may tell of the end of a channel when
/// another has told of the next one's beginning.
fn is_another(channels: &mut HashMap<Watch, i32>, filter: &Watch, exists: bool) -> bool {
    let change = if exists { 1 } else { -1 };
    let count = channels.entry(filter.clone()).or_insert(0);
    *count += change;
    let count = *count;
    if count == 0 {
        channels.remove(filter);
    }
    count == i32::from(exists)
}

impl Taking {
    fn of(taker: Taker, settings: &Arc<Settings>) -> Taking {
        Taking { taker, settings: settings.clone(), apart: false, joins: None }
    }

    /// Its port has gone: its interface is as it was before.
    fn leave(mut self) {
        if self.apart {
            self.join_again();
        }
    }

    fn take_for(&mut self, filter: &Watch, exists: bool, tell: &impl Fn(Order)) {
        let port = self.taker.port();
        let taken = self.taker.take_for(filter, exists, |change| tell(Order::Change { port, changes: vec![change] }));
        self.keep_apart();
        if let Err(error) = taken {
            tracing::error!(port = port.0, %error, "a channel does not get the packets of a port");
        }
    }

    /// Another channel wants what is watched for: flows that may be its own are not foreign any more.
    fn watch_anew(&self, filter: &Watch) {
        if filter.rule.port.is_none_or(|port| port == self.taker.port()) {
            self.say("flows", self.taker.foreign().watch(&filter.rule));
        }
    }

    fn say(&self, what: &str, done: io::Result<()>) {
        if let Err(error) = done {
            tracing::error!(port = self.taker.port().0, %error, what, "the kernel does not hear which flows are foreign");
        }
    }

    fn reopen(&mut self, (interface, mtu): (u32, usize), program: bool, tell: &impl Fn(Order)) {
        let port = self.taker.port();
        match self.taker.reopen(interface, program, mtu + AROUND) {
            Ok(changes) => {
                if interface != 0 {
                    tracing::info!(
                        event = "link",
                        port = port.0,
                        interface = ethtool::name(interface).unwrap_or_default(),
                        "the interface of a port is there again"
                    );
                }
                tell(Order::Change { port, changes });
            }
            Err(error) => {
                tracing::error!(event = "link", port = port.0, %error, "a port does not come back with its interface");
            }
        }
        (self.apart, self.joins) = (false, None);
        self.keep_apart();
    }

    /// Keeps segments of a flow apart while packets of channels are taken, and some seconds more: joined they would be
    /// longer than any link carries.
    fn keep_apart(&mut self) {
        if !self.taker.has_channels() {
            self.joins = self.joins.or_else(|| self.apart.then(|| Instant::now() + CALM));
            return;
        }
        self.joins = None;
        if !self.apart {
            self.apart = true;
            self.change(|settings, name| {
                JOINING.into_iter().try_for_each(|setting| settings.turn_off(setting, name).map(drop))
            });
        }
    }

    /// No channel has come for some seconds.
    fn join_again(&mut self) {
        (self.joins, self.apart) = (None, false);
        self.change(|settings, name| {
            settings.give_back(|setting, of| JOINING.contains(&setting) && of == name).map(drop)
        });
    }

    fn change(&self, change: impl FnOnce(&Settings, &str) -> io::Result<()>) {
        let interface = self.taker.interface();
        if interface == 0 {
            return;
        }
        if let Err(error) = ethtool::name(interface).and_then(|name| change(&self.settings, &name)) {
            tracing::warn!(%error, interface, "joined segments cannot be sent on by channels: ethtool -K DEV gro off lro off");
        }
    }
}
