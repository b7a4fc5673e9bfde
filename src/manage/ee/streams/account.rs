//! Who has which streams: one account for each domain, and the counts of all.

mod seat;

use super::ends::{Changes, Ends};
use crate::core::bucket::{TokenBucket, burst};
use crate::core::domain::DomainId;
use crate::nodeos::interface::Error;
use crate::sys::clock::Clock;
use crate::sys::lock::lock;
use crate::trust::streams::StreamGrants;
use rustix::net::{Shutdown, shutdown};
pub use seat::Seat;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

/// Streams of one node, and channels that listen: each takes two descriptors.
pub const NODE_STREAMS_MAX: u64 = 4096;

/// How far a domain may be ahead of the bytes a second that it may send, in nanoseconds.
const AHEAD_NS: u64 = 10_000_000;

/// What is counted of all streams.
#[derive(Debug, Default)]
pub struct StreamTotals {
    /// Streams and channels that are there.
    pub open: AtomicU64,
    /// Streams that others have begun.
    pub accepted: AtomicU64,
    /// Those that programs have.
    pub connected: AtomicU64,
    /// Those that went beyond a bound, or where the role does not lead.
    pub refused: AtomicU64,
    /// Bytes that came, and bytes that were sent.
    pub bytes_in: AtomicU64,
    /// See `bytes_in`.
    pub bytes_out: AtomicU64,
}

/// What a stream, or a channel that listens, is to people.
#[derive(Clone, Debug)]
pub struct StreamRow {
    /// Its number.
    pub number: u32,
    /// Who pays.
    pub domain: DomainId,
    /// That domain, for people.
    pub title: Arc<str>,
    /// `listen` or `stream`.
    pub kind: &'static str,
    /// Where it listens, or between which ends it is.
    pub address: String,
    /// Streams that were accepted, their bytes both ways, and streams that were refused.
    pub counts: [u64; 3],
}

/// The streams of all domains.
#[derive(Clone, Default)]
pub struct Streams(Arc<All>);

#[derive(Default)]
struct All {
    accounts: Mutex<BTreeMap<DomainId, Weak<Account>>>,
    serial: AtomicU32,
    totals: Arc<StreamTotals>,
    changes: Changes,
}

/// Counts of one stream or channel, and what has cut it off.
#[derive(Debug, Default)]
pub struct Traffic {
    accepted: AtomicU64,
    bytes: AtomicU64,
    refused: AtomicU64,
    cut: OnceLock<Error>,
}

/// By which right a stream or a channel is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// The role lets it listen here.
    Listen(SocketAddr),
    /// The role lets it connect there.
    Connect(SocketAddr),
}

impl Right {
    fn is_of(self, grants: &StreamGrants) -> bool {
        match self {
            Right::Listen(at) => grants.may_listen(&at),
            Right::Connect(at) => grants.may_connect(&at),
        }
    }
}

/// The sockets of a stream or a channel.
type Sockets = [Arc<dyn AsFd + Send + Sync>; 2];

/// A stream or a channel in its account.
struct Entry {
    kind: &'static str,
    address: String,
    right: Right,
    traffic: Arc<Traffic>,
    /// To be shut when the domain ends, or its role gives that right no more.
    sockets: Sockets,
}

impl Entry {
    /// It ends, for this reason: all that waits for its sockets is told.
    fn cut(&self, why: Error) {
        // The first reason counts.
        let _ = self.traffic.cut.set(why);
        for socket in &self.sockets {
            // One whose other end has gone is shut already.
            let _ = shutdown(socket.as_fd(), Shutdown::Both);
        }
    }
}

/// What the role of a domain gives it, and what it has.
struct Held {
    grants: StreamGrants,
    entries: BTreeMap<u32, Option<Entry>>,
}

/// The streams of one domain.
pub struct Account {
    domain: DomainId,
    title: Arc<str>,
    /// Bytes a second.
    bandwidth: AtomicU64,
    totals: Arc<StreamTotals>,
    ended: AtomicBool,
    begins: Mutex<TokenBucket>,
    held: Mutex<Held>,
    /// When what was sent so far is paid for, in nanoseconds of the node's clock.
    paid_at: AtomicU64,
}

impl StreamTotals {
    /// All of it.
    pub fn status(&self) -> model::status::Streams {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        model::status::Streams {
            open: of(&self.open),
            accepted: of(&self.accepted),
            connected: of(&self.connected),
            refused: of(&self.refused),
            bytes_in: of(&self.bytes_in),
            bytes_out: of(&self.bytes_out),
        }
    }
}

impl Streams {
    /// What is counted.
    pub fn totals(&self) -> &StreamTotals {
        &self.0.totals
    }

    /// That of a domain, if it has one.
    pub fn of(&self, domain: DomainId) -> Option<Arc<Account>> {
        lock(&self.0.accounts).get(&domain).and_then(Weak::upgrade).filter(|account| !account.has_ended())
    }

    /// Starts the thread that cuts streams off.
    pub fn serve(&self, clock: Clock) -> io::Result<()> {
        self.0.changes.serve(clock)
    }

    /// A new account, and what the domain is to hold.
    pub fn enter(&self, domain: DomainId, title: &str, grants: &StreamGrants, bandwidth: u64) -> Ends {
        let begins = TokenBucket::new(grants.per_second.into(), begin_burst(grants));
        let account = Arc::new(Account {
            domain,
            title: title.into(),
            bandwidth: AtomicU64::new(bandwidth),
            totals: self.0.totals.clone(),
            ended: AtomicBool::new(false),
            begins: Mutex::new(begins),
            held: Mutex::new(Held { grants: grants.clone(), entries: BTreeMap::new() }),
            paid_at: AtomicU64::new(0),
        });
        let mut accounts = lock(&self.0.accounts);
        accounts.retain(|_, account| account.strong_count() > 0);
        accounts.insert(domain, Arc::downgrade(&account));
        self.0.changes.ends(account)
    }

    /// What has cut a stream off, if something has.
    pub fn cut(&self, number: u32) -> Option<Error> {
        let accounts: Vec<_> = lock(&self.0.accounts).values().filter_map(Weak::upgrade).collect();
        accounts.iter().find_map(|account| {
            let held = lock(&account.held);
            held.entries.get(&number)?.as_ref()?.traffic.cut.get().copied()
        })
    }

    /// All streams and channels.
    pub fn rows(&self) -> Vec<StreamRow> {
        let accounts: Vec<_> = lock(&self.0.accounts).values().filter_map(Weak::upgrade).collect();
        accounts.iter().flat_map(|account| account.rows()).collect()
    }

    /// A program has begun one.
    pub fn count_connected(&self) {
        self.0.totals.connected.fetch_add(1, Ordering::Relaxed);
    }

    /// One more is refused.
    pub fn count_refused(&self) {
        self.0.totals.refused.fetch_add(1, Ordering::Relaxed);
    }

    fn number(&self) -> u32 {
        self.0.serial.fetch_add(1, Ordering::Relaxed)
    }

    /// A place for a stream or a channel of a domain, if it may have one more. `Again`: too many in this second.
    pub fn take(&self, account: &Arc<Account>, now: u64) -> Result<Seat, Error> {
        let taken = self.take_quietly(account, now);
        if taken.is_err() {
            self.count_refused();
        }
        taken
    }

    /// The same for one that comes in, which its channel counts.
    pub fn take_quietly(&self, account: &Arc<Account>, now: u64) -> Result<Seat, Error> {
        let mut held = lock(&account.held);
        if account.has_ended() {
            return Err(Error::Stale);
        }
        // First of all, so that refusals for another cause have a rate too.
        if !lock(&account.begins).take(now, 1) {
            return Err(Error::Again);
        }
        if held.entries.len() >= usize::from(held.grants.streams) {
            return Err(Error::Limit);
        }
        if self.0.totals.open.load(Ordering::Relaxed) >= NODE_STREAMS_MAX {
            return Err(Error::Full);
        }
        let number = self.number();
        held.entries.insert(number, None);
        self.0.totals.open.fetch_add(1, Ordering::Relaxed);
        Ok(Seat { account: account.clone(), number, traffic: Arc::default() })
    }
}

impl Account {
    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Its domain has ended: nothing begins any more.
    pub(super) fn mark_ended(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Its domain has ended: so do its streams.
    pub(super) fn end(&self) {
        self.mark_ended();
        lock(&self.held).entries.values().flatten().for_each(|entry| entry.cut(Error::Stale));
    }

    /// Its role gives it this from now on: what it gives no more is cut off.
    pub(super) fn renew(&self, grants: &StreamGrants, bandwidth: u64, now: u64) {
        let mut held = lock(&self.held);
        held.grants = grants.clone();
        let goes = |entry: &&Entry| bandwidth == 0 || !entry.right.is_of(grants);
        held.entries.values().flatten().filter(goes).for_each(|entry| entry.cut(Error::Denied));
        lock(&self.begins).renew(now, grants.per_second.into(), begin_burst(grants));
        self.bandwidth.store(bandwidth, Ordering::Relaxed);
        // What was sent by another rate is forgiven.
        self.paid_at.fetch_min(now, Ordering::Relaxed);
    }

    fn rows(&self) -> Vec<StreamRow> {
        let row = |(number, entry): (&u32, &Option<Entry>)| {
            let Entry { kind, address, traffic, .. } = entry.as_ref()?;
            let counts = [&traffic.accepted, &traffic.bytes, &traffic.refused];
            Some(StreamRow {
                number: *number,
                domain: self.domain,
                title: self.title.clone(),
                kind,
                address: address.clone(),
                counts: counts.map(|count| count.load(Ordering::Relaxed)),
            })
        };
        lock(&self.held).entries.iter().filter_map(row).collect()
    }

    /// When it may begin one more: now, or then.
    pub fn begins_at(&self, now: u64) -> Option<u64> {
        let mut begins = lock(&self.begins);
        if begins.has_any(now) { None } else { Some(begins.any_at()) }
    }

    /// When it may send more: now, or then.
    pub fn sends_at(&self, clock: Clock) -> Option<u64> {
        let at = self.paid_at.load(Ordering::Relaxed).saturating_sub(AHEAD_NS);
        (at > clock.now()).then_some(at)
    }

    /// It has sent so much.
    pub fn sent(&self, bytes: usize, clock: Clock) {
        let cost = (bytes as u64).saturating_mul(1_000_000_000) / self.bandwidth.load(Ordering::Relaxed).max(1);
        let now = clock.now();
        let paid = |at: u64| Some(at.max(now).saturating_add(cost));
        // It always gives a number.
        let _ = self.paid_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, paid);
    }
}

/// Streams that may begin at once.
fn begin_burst(grants: &StreamGrants) -> u64 {
    burst(grants.per_second.into()).max(4)
}

/// The ends of a stream, for people.
pub fn between(from: Option<SocketAddr>, to: SocketAddr) -> String {
    from.map_or_else(|| format!("-> {to}"), |from| format!("{from} -> {to}"))
}

#[cfg(test)]
mod tests;
