//! A snapshot of a node's counters: surveys of its workers, put together.

use super::health::Looks;
use super::pace::Paced;
use super::report::Configured;
use crate::core::ledger::Balance;
use crate::manage::control::Handle;
use crate::manage::worker::Order;
use crate::node::domains::{ChannelStatus, DomainStatus};
use crate::node::status::Status;
use crate::node::survey::{Survey, SurveyCost, Surveyed};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// For how long workers are waited for, less than clients wait for an answer.
const PATIENCE: Duration = Duration::from_secs(8);

/// What one worker has counted.
#[derive(Clone, Copy, Debug)]
pub struct OfWorker {
    /// What became of its frames.
    pub balance: Balance,
    /// Packets that wait for their turn.
    pub waiting: usize,
}

/// The counters of all workers together.
#[derive(Debug)]
pub struct Snapshot {
    /// The counter tree.
    pub status: Status,
    /// All domains, each behind the one above it; those of codes with what was used at each worker.
    pub domains: Vec<DomainStatus>,
    /// What each worker has counted, the first one first.
    pub workers: Vec<OfWorker>,
    /// What it has cost the worker to which it has cost most.
    pub cost: SurveyCost,
}

/// What was observed of a node last.
#[derive(Debug)]
pub struct Observed {
    /// When that began.
    pub begun: Instant,
    counters: Paced<Snapshot>,
    channels: Paced<Vec<ChannelStatus>>,
    /// Domains that there were in the last snapshot.
    domains: AtomicUsize,
    /// Looks at the node's health.
    pub looks: Looks,
    /// What it was configured by.
    pub configured: Mutex<Configured>,
}

impl Default for Observed {
    fn default() -> Observed {
        let (counters, channels, domains, looks, configured) = Default::default();
        Observed { begun: Instant::now(), counters, channels, domains, looks, configured }
    }
}

impl Handle {
    /// A snapshot of the counters, begun after this was called.
    pub fn snapshot(&self) -> Result<Arc<Snapshot>, String> {
        self.observed.counters.fresh(|| {
            // No domain is between two workers.
            let _still = self.homes().still();
            let surveys = self.survey(Surveyed::Counters)?;
            let cost = most(&surveys);
            let snapshot = put_together(surveys, cost).ok_or("the workers were surveyed for something else")?;
            self.observed.domains.store(snapshot.domains.len(), Ordering::Relaxed);
            Ok((snapshot, Duration::from_nanos(cost.worked_ns)))
        })
    }

    /// All channels, as they are after this was called.
    pub fn channel_list(&self) -> Result<Arc<Vec<ChannelStatus>>, String> {
        self.observed.channels.fresh(|| {
            let _still = self.homes().still();
            let surveys = self.survey(Surveyed::Channels)?;
            let cost = most(&surveys);
            Ok((surveys.into_iter().flat_map(Survey::channels).collect(), Duration::from_nanos(cost.worked_ns)))
        })
    }

    /// Has each worker survey its node, the first one first, and waits for all.
    fn survey(&self, of: Surveyed) -> Result<Vec<Survey>, String> {
        let room = if of == Surveyed::Counters { self.observed.domains.load(Ordering::Relaxed) } else { 0 };
        let (answer, first) = channel();
        self.order(Order::Survey(Box::new(Survey::of(of).with_room(room)), answer))?;
        let others = self.others.ways.iter().map(|way| {
            let (answer, other) = channel();
            way.order(Order::Survey(Box::new(Survey::of(of)), answer));
            other
        });
        let all: Vec<_> = std::iter::once(first).chain(others).collect();
        let end = Instant::now() + PATIENCE;
        let surveyed = all.iter().map(|answer| answer.recv_timeout(end.saturating_duration_since(Instant::now())));
        let why = |error| match error {
            RecvTimeoutError::Timeout => format!("a worker has not come round for {} s", PATIENCE.as_secs()),
            RecvTimeoutError::Disconnected => "the node is going down".to_owned(),
        };
        surveyed.map(|survey| survey.map(|survey| *survey).map_err(why)).collect()
    }
}

/// What it has cost the worker to which it has cost most.
fn most(surveys: &[Survey]) -> SurveyCost {
    surveys.iter().map(Survey::cost).max_by_key(|cost| cost.worked_ns).unwrap_or_default()
}

fn put_together(surveys: Vec<Survey>, cost: SurveyCost) -> Option<Snapshot> {
    let mut all = surveys.into_iter().map(Survey::counters);
    let (mut status, mut domains, waiting) = all.next()??;
    let mut workers = vec![OfWorker { balance: status.balance, waiting }];
    for more in all {
        let (more, theirs, waiting) = more?;
        workers.push(OfWorker { balance: more.balance, waiting });
        status.add(&more);
        for more in theirs.iter().filter(|more| more.code.is_some()) {
            domains.iter_mut().filter(|own| own.code == more.code).for_each(|own| own.add(more));
        }
        // Those that are this worker's: each worker has the node's own, below which they are.
        let theirs: Vec<_> = theirs.into_iter().filter(|domain| domain.worker.is_some()).collect();
        let above = theirs.first().and_then(|top| domains.iter().position(|domain| Some(domain.id) == top.parent));
        let at = above.map_or(domains.len(), |above| above + 1);
        domains.splice(at..at, theirs);
    }
    Some(Snapshot { status, domains, workers, cost })
}
