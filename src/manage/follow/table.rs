//! The table of a node that follows the kernel's routes: what the kernel has told, what leads where, and when that is told.
//!
//! Changes are gathered for a moment and told together. So ways that the halves remember are forgotten twenty times a
//! second at most, however many routes change.

use super::mirror::{Mirror, Told};
use super::report::Report;
use crate::frame::PortId;
use crate::sys::netlink::{Change, Interface, LinkNews, RouteNews, RouteReader, RouteWatch};
use crate::topology::{Leads, RouteChange, Routes};
use crate::wire::Prefix;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Between two times that routes are told, while they change.
const SPACING: Duration = Duration::from_millis(50);
/// How long changes lie in the kernel's queue while they are gathered: it may be small.
const SLICE: Duration = Duration::from_millis(2);
/// All routes are read again at the earliest after so many times what that took last, since anything may ask for it.
const READ_REST: u32 = 4;
/// How often reading begins anew when routes change meanwhile; and how long nothing is tried after an error.
const READS_MAX: usize = 4;
const RETRY: Duration = Duration::from_secs(1);
/// Changes that may come while all is read: more are the same as lost ones.
const LATER_MAX: usize = 1 << 18;
/// Changes of routes are logged once in this time.
const SAY: Duration = Duration::from_secs(1);

/// What is followed of the host's routes, and what the node was told.
pub(super) struct Followed {
    /// Hears of changes, if the kernel's routes are the node's.
    watch: Option<RouteWatch>,
    kernel: Mirror,
    /// Static routes and neighbours on overlays, which come first.
    pub fixed: Routes,
    /// Subnets of links, which come last.
    links: Routes,
    /// Ports by their interfaces.
    ports: HashMap<u32, PortId>,
    pub told: Routes,
    /// The copy that was told last, and those before that a worker may still have: none of them is to take a large one down.
    current: Arc<Routes>,
    retired: Vec<Arc<Routes>>,
    /// Prefixes whose routes may lead otherwise than was told.
    touched: Vec<Prefix>,
    /// Whether packets may go otherwise though no route does: by rules, or by tables that these lead to.
    stale: bool,
    elsewhere: bool,
    reading: Reading,
    saying: Saying,
    /// When routes were told last.
    since: Instant,
}

/// When all is read again.
struct Reading {
    due: bool,
    not_before: Instant,
}

/// What comes while all is read.
#[derive(Default)]
struct Later {
    news: Vec<RouteNews>,
    /// Whether some of it is lost.
    lost: bool,
}

impl Later {
    fn take(&mut self, watch: &mut RouteWatch) -> io::Result<()> {
        self.lost |= !watch.take(&mut |news| self.news.push(news))? || self.news.len() > LATER_MAX;
        if self.lost {
            self.news.clear();
        }
        Ok(())
    }
}

/// What is to be logged.
#[derive(Clone, Copy)]
struct Saying {
    changes: usize,
    /// Prefixes among them to which nothing leads any more.
    gone: usize,
    last: Option<Prefix>,
    not_before: Instant,
}

impl Followed {
    /// Nothing yet; the kernel's routes are followed or not.
    pub fn new(kernel: bool) -> io::Result<Followed> {
        let (watch, now) = (kernel.then(RouteWatch::new).transpose()?, Instant::now());
        Ok(Followed {
            watch,
            kernel: Mirror::default(),
            fixed: Routes::default(),
            links: Routes::default(),
            ports: HashMap::new(),
            told: Routes::default(),
            current: Arc::default(),
            retired: Vec::new(),
            touched: Vec::new(),
            stale: true,
            elsewhere: false,
            reading: Reading { due: kernel, not_before: now },
            saying: Saying { changes: 0, gone: 0, last: None, not_before: now },
            since: now,
        })
    }

    /// What is ready when the kernel has told something.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_ref().map(|watch| watch.as_fd())
    }

    /// For how long nothing need be done if nothing is told; nothing: for ever.
    pub fn patience(&self) -> Option<Duration> {
        let reading = self.reading.due.then_some(self.reading.not_before);
        let saying = (self.saying.changes > 0).then_some(self.saying.not_before);
        let until = [reading, saying].into_iter().flatten().min();
        let until = until.map(|until| until.saturating_duration_since(Instant::now()));
        let retired = (!self.retired.is_empty()).then_some(SAY);
        [until, retired].into_iter().flatten().min()
    }

    /// When it is time to tell what has changed, so much later at least.
    pub fn due(&self, least: Duration) -> Instant {
        (Instant::now() + least).max(self.since + SPACING)
    }

    /// For how long changes may lie in the kernel's queue until then; nothing: it is time.
    pub fn rest(&self, until: Instant) -> Option<Duration> {
        let rest = until.saturating_duration_since(Instant::now());
        let most = if self.watch.is_some() { SLICE } else { rest };
        (!rest.is_zero()).then(|| rest.min(most))
    }

    /// Takes down what is told by now.
    pub fn take(&mut self, report: &Report) -> io::Result<()> {
        let Followed { watch: Some(watch), kernel, touched, elsewhere, reading, .. } = self else { return Ok(()) };
        let whole = watch.take(&mut |news| {
            report.changes.fetch_add(1, Ordering::Relaxed);
            reading.due |= hear(kernel, touched, elsewhere, news);
        })?;
        if !whole {
            report.overruns.fetch_add(1, Ordering::Relaxed);
            reading.due = true;
        }
        Ok(())
    }

    /// Whether routes have changed that are not read yet.
    pub fn is_behind(&self) -> bool {
        self.reading.due
    }

    /// Interfaces have changed, and perhaps routes with them of which the kernel does not tell: those by an interface, and those from an
    /// address of IPv4. All is not read again for others, which may flap.
    pub fn doubt_if_gone(&mut self, news: &LinkNews, before: &[Interface], now: &[Interface]) {
        let (before, now) = (by_number(before), by_number(now));
        let is_other = |index: u32| {
            let was = before.get(&index);
            news.down.contains(&index) || was.is_some() && was != now.get(&index)
        };
        let doubtful = || news.lost || news.without_address || self.kernel.leads_by().any(is_other);
        self.reading.due |= self.watch.is_some() && doubtful();
    }

    /// Something else than routes decides otherwise than before.
    pub fn renew(&mut self) {
        self.stale = true;
    }

    /// Takes down the routes that come first and last.
    pub fn set_own(&mut self, own: [Routes; 2]) {
        let before = [&self.fixed, &self.links];
        self.touched.extend(own.iter().chain(before).flat_map(Routes::iter).map(|(to, _)| to));
        [self.fixed, self.links] = own;
    }

    /// Takes down the ports by their interfaces.
    pub fn set_ports(&mut self, ports: HashMap<u32, PortId>) {
        if ports != self.ports {
            self.touched.extend(self.kernel.prefixes());
            self.ports = ports;
        }
    }

    /// Reads all of the kernel's routes, if that is due and not too soon.
    pub fn read_if_due(&mut self, report: &Report) {
        let began = Instant::now();
        if !self.reading.due || began < self.reading.not_before {
            return;
        }
        self.reading.due = false;
        report.reads.fetch_add(1, Ordering::Relaxed);
        match self.read(report) {
            Ok(()) => self.reading.not_before = Instant::now() + began.elapsed() * READ_REST,
            Err(error) => {
                tracing::warn!(%error, "routes not followed");
                self.reading = Reading { due: true, not_before: began + RETRY };
            }
        }
    }

    fn read(&mut self, report: &Report) -> io::Result<()> {
        let Some(watch) = &mut self.watch else { return Ok(()) };
        let mut later = Later::default();
        let fresh = read_all(|| later.take(watch))?;
        later.take(watch)?;
        self.touched.extend(fresh.differs(&self.kernel));
        self.kernel = fresh;
        self.replay(later, report);
        Ok(())
    }

    /// Reads the kernel's routes for the first time; gives those that lead somewhere piece by piece.
    pub fn begin(&mut self, report: &Report, mut give: impl FnMut(Vec<RouteChange>)) {
        if !core::mem::take(&mut self.reading.due) {
            return;
        }
        report.reads.fetch_add(1, Ordering::Relaxed);
        match self.read_pieces(&mut give) {
            Ok(later) => self.replay(later, report),
            Err(error) => {
                tracing::warn!(%error, "routes not followed");
                self.reading = Reading { due: true, not_before: Instant::now() + RETRY };
            }
        }
    }

    fn read_pieces(&mut self, give: &mut impl FnMut(Vec<RouteChange>)) -> io::Result<Later> {
        let mut later = Later::default();
        for v4 in [true, false] {
            let (mut reader, mut more) = (RouteReader::ask(v4)?, true);
            while more {
                let Followed { watch: Some(watch), kernel, touched, .. } = self else { return Ok(later) };
                let read = reader.next(&mut |news| {
                    if let RouteNews::Main(to, route, _) = news {
                        touched.push(to);
                        kernel.hear(to, route, Change::Appended);
                    }
                });
                later.take(watch)?;
                more = match read {
                    // They changed meanwhile: all is read once more.
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                        self.reading.due = true;
                        false
                    }
                    read => read?,
                };
                give(self.settle());
            }
        }
        Ok(later)
    }

    /// Takes changes down that came while all was read: what was read has them already, or has them not.
    fn replay(&mut self, later: Later, report: &Report) {
        if later.lost {
            report.overruns.fetch_add(1, Ordering::Relaxed);
            self.reading.due = true;
        }
        report.changes.fetch_add(later.news.len() as u64, Ordering::Relaxed);
        for news in later.news {
            let is_route = matches!(news, RouteNews::Main(..));
            let doubtful = hear(&mut self.kernel, &mut self.touched, &mut self.elsewhere, news);
            self.reading.due |= doubtful && !is_route;
        }
    }

    /// Where a prefix leads.
    fn leads(&self, to: Prefix) -> Option<Leads> {
        let port = |interface: u32| self.ports.get(&interface).copied();
        let kernel = || self.kernel.leads(to, &port);
        self.fixed.get(to).or_else(kernel).or_else(|| self.links.get(to))
    }

    /// What leads otherwise than was told, in the table now, while rules decide or not; nothing: nothing has changed at all.
    pub fn changes(&mut self, ruled: bool) -> Option<Vec<RouteChange>> {
        let elsewhere = core::mem::take(&mut self.elsewhere);
        let stale = core::mem::take(&mut self.stale) || elsewhere && ruled;
        (stale || !self.touched.is_empty()).then(|| self.settle())
    }

    /// Puts what leads otherwise into the table.
    fn settle(&mut self) -> Vec<RouteChange> {
        let mut touched = core::mem::take(&mut self.touched);
        touched.sort_unstable_by_key(|to| (to.addr, to.length));
        touched.dedup();
        let mut changes = Vec::new();
        for to in touched {
            let change = RouteChange { to, now: self.leads(to) };
            if self.told.change(change) {
                changes.push(change);
            }
        }
        self.saying.changes += changes.len();
        self.saying.gone += changes.iter().filter(|change| change.now.is_none()).count();
        self.saying.last = changes.last().map(|change| change.to).or(self.saying.last);
        changes
    }

    /// A copy for the workers.
    pub fn copy(&mut self) -> Arc<Routes> {
        self.since = Instant::now();
        let now = Arc::new(self.told.clone());
        self.retired.push(core::mem::replace(&mut self.current, now.clone()));
        now
    }

    /// Copies that no worker has any more go.
    pub fn release(&mut self) {
        self.retired.retain(|copy| Arc::strong_count(copy) > 1);
    }

    /// Logs what has changed, a few times at most.
    pub fn say(&mut self) {
        let now = Instant::now();
        if let (Some(last), true) = (self.saying.last, self.saying.changes > 0 && now >= self.saying.not_before) {
            let (Saying { changes, gone, .. }, routes) = (self.saying, self.told.len());
            tracing::info!(event = "route", changes, gone, routes, last = %last, "routes lead otherwise");
            self.saying = Saying { changes: 0, gone: 0, last: None, not_before: now + SAY };
        }
    }
}

/// Takes news down; says whether all is to be read again.
fn hear(kernel: &mut Mirror, touched: &mut Vec<Prefix>, elsewhere: &mut bool, news: RouteNews) -> bool {
    match news {
        RouteNews::Main(to, route, change) => {
            touched.push(to);
            kernel.hear(to, route, change) == Told::Differs
        }
        RouteNews::Elsewhere => {
            *elsewhere = true;
            false
        }
        RouteNews::Object(object) => kernel.uses(object),
    }
}

/// All routes; between two pieces something else is done.
fn read_all(mut between: impl FnMut() -> io::Result<()>) -> io::Result<Mirror> {
    for _ in 1..READS_MAX {
        match read_once(&mut between) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
    read_once(&mut between)
}

fn read_once(between: &mut impl FnMut() -> io::Result<()>) -> io::Result<Mirror> {
    let mut found = Mirror::default();
    for v4 in [true, false] {
        let mut reader = RouteReader::ask(v4)?;
        let mut take = |news| {
            if let RouteNews::Main(to, route, _) = news {
                found.hear(to, route, Change::Appended);
            }
        };
        while reader.next(&mut take)? {
            between()?;
        }
    }
    Ok(found)
}

/// Interfaces by their numbers.
fn by_number(all: &[Interface]) -> HashMap<u32, &Interface> {
    all.iter().map(|one| (one.index, one)).collect()
}
