//! Who has which streams: one account for each domain, and the counts of all.

use crate::core::bucket::{TokenBucket, burst};
use crate::core::domain::DomainId;
use crate::nodeos::interface::Error;
use crate::sys::clock::Clock;
use crate::trust::streams::StreamGrants;
use rustix::net::{Shutdown, shutdown};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Streams of one node, and channels that listen: each takes two descriptors.
pub const NODE_STREAMS_MAX: u64 = 4096;

/// How far a domain may be ahead of the bytes a second that it may send, in nanoseconds.
const AHEAD_NS: u64 = 10_000_000;

/// What is in a lock of the streams.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is held is right between any two statements.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

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
}

/// Counts of one stream or channel.
#[derive(Debug, Default)]
pub struct Traffic {
    accepted: AtomicU64,
    bytes: AtomicU64,
    refused: AtomicU64,
}

/// The sockets of a stream or a channel.
type Sockets = [Arc<dyn AsFd + Send + Sync>; 2];

/// A stream or a channel in its account.
struct Entry {
    kind: &'static str,
    address: String,
    traffic: Arc<Traffic>,
    /// To be shut when the domain ends.
    sockets: Sockets,
}

/// The streams of one domain.
pub struct Account {
    domain: DomainId,
    title: Arc<str>,
    grants: StreamGrants,
    bandwidth: u64,
    totals: Arc<StreamTotals>,
    ended: AtomicBool,
    begins: Mutex<TokenBucket>,
    entries: Mutex<BTreeMap<u32, Option<Entry>>>,
    /// When what was sent so far is paid for, in nanoseconds of the node's clock.
    paid_at: AtomicU64,
}

/// What ends the streams of a domain when it goes: the domain's own, at its worker.
pub struct Ends(Arc<Account>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.end();
    }
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

    /// A new account, and what the domain is to hold.
    pub fn enter(&self, domain: DomainId, title: &str, grants: &StreamGrants, bandwidth: u64) -> Ends {
        let begins = TokenBucket::new(grants.per_second.into(), burst(grants.per_second.into()).max(4));
        let account = Arc::new(Account {
            domain,
            title: title.into(),
            grants: grants.clone(),
            bandwidth,
            totals: self.0.totals.clone(),
            ended: AtomicBool::new(false),
            begins: Mutex::new(begins),
            entries: Mutex::default(),
            paid_at: AtomicU64::new(0),
        });
        let mut accounts = lock(&self.0.accounts);
        accounts.retain(|_, account| account.strong_count() > 0);
        accounts.insert(domain, Arc::downgrade(&account));
        Ends(account)
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
        let mut entries = lock(&account.entries);
        if account.has_ended() {
            return Err(Error::Stale);
        }
        // First of all, so that refusals for another cause have a rate too.
        if !lock(&account.begins).take(now, 1) {
            return Err(Error::Again);
        }
        if entries.len() >= usize::from(account.grants.streams) {
            return Err(Error::Limit);
        }
        if self.0.totals.open.load(Ordering::Relaxed) >= NODE_STREAMS_MAX {
            return Err(Error::Full);
        }
        let number = self.number();
        entries.insert(number, None);
        self.0.totals.open.fetch_add(1, Ordering::Relaxed);
        Ok(Seat { account: account.clone(), number, traffic: Arc::default() })
    }
}

impl Account {
    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Its domain ends: all that waits for its sockets is told.
    fn end(&self) {
        let entries = lock(&self.entries);
        self.ended.store(true, Ordering::Release);
        let sockets = entries.values().flatten().flat_map(|entry| &entry.sockets);
        sockets.for_each(|socket| {
            // One whose other end has gone is shut already.
            let _ = shutdown(socket.as_fd(), Shutdown::Both);
        });
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
        lock(&self.entries).iter().filter_map(row).collect()
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
        let cost = (bytes as u64).saturating_mul(1_000_000_000).checked_div(self.bandwidth).unwrap_or(u64::MAX);
        let now = clock.now();
        let paid = |at: u64| Some(at.max(now).saturating_add(cost));
        // It always gives a number.
        let _ = self.paid_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, paid);
    }
}

/// The place of one stream or channel; free again when it goes.
pub struct Seat {
    account: Arc<Account>,
    number: u32,
    traffic: Arc<Traffic>,
}

impl Seat {
    /// Its account.
    pub fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Its domain.
    pub fn domain(&self) -> DomainId {
        self.account.domain
    }

    /// Its number, among all of the node.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// From now on it is seen, and shut when its domain ends. `Stale`: that has ended.
    pub fn show(&self, kind: &'static str, address: String, sockets: Sockets) -> Result<(), Error> {
        let mut entries = lock(&self.account.entries);
        if self.account.has_ended() {
            return Err(Error::Stale);
        }
        entries.insert(self.number, Some(Entry { kind, address, traffic: self.traffic.clone(), sockets }));
        Ok(())
    }

    /// A stream was accepted.
    pub fn count_accepted(&self) {
        self.traffic.accepted.fetch_add(1, Ordering::Relaxed);
        self.account.totals.accepted.fetch_add(1, Ordering::Relaxed);
    }

    /// One that came in was refused.
    pub fn count_refused(&self) {
        self.traffic.refused.fetch_add(1, Ordering::Relaxed);
        self.account.totals.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// So many bytes have come, or were sent.
    pub fn count_bytes(&self, bytes: usize, outward: bool) {
        let totals = &self.account.totals;
        let all = if outward { &totals.bytes_out } else { &totals.bytes_in };
        for count in [&self.traffic.bytes, all] {
            count.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        lock(&self.account.entries).remove(&self.number);
        self.account.totals.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The ends of a stream, for people.
pub fn between(from: Option<SocketAddr>, to: SocketAddr) -> String {
    from.map_or_else(|| format!("-> {to}"), |from| format!("{from} -> {to}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn entered(streams: &Streams, number: u32, bandwidth: u64) -> (Ends, Arc<Account>) {
        let grants = StreamGrants { streams: 3, per_second: 10, ..StreamGrants::default() };
        let ends = streams.enter(DomainId(number), "d", &grants, bandwidth);
        let account = streams.of(DomainId(number)).unwrap();
        (ends, account)
    }

    #[test]
    fn streams_are_bounded_and_each_refusal_is_counted() {
        let streams = Streams::default();
        let (ends, account) = entered(&streams, 1, 1);
        let mut seats: Vec<_> = (0..3).map(|_| streams.take(&account, SECOND).unwrap()).collect();
        assert_eq!(streams.take(&account, SECOND).err(), Some(Error::Limit));
        seats.pop();
        assert_eq!(
            streams.take(&account, SECOND).err(),
            Some(Error::Again),
            "four at once, the refused one among them"
        );
        assert!(account.begins_at(SECOND).is_some_and(|at| at > SECOND && at < 2 * SECOND));
        seats.push(streams.take(&account, 2 * SECOND).unwrap());
        let (_other_ends, other) = entered(&streams, 2, 1);
        streams.totals().open.store(NODE_STREAMS_MAX, Ordering::Relaxed);
        assert_eq!(streams.take(&other, SECOND).err(), Some(Error::Full), "the node's");
        streams.totals().open.store(3, Ordering::Relaxed);
        assert_eq!(streams.totals().status().refused, 3);
        // With the domain it ends, though somebody holds it.
        drop(ends);
        seats.pop();
        assert_eq!(
            (streams.take(&account, 9 * SECOND).err(), streams.of(DomainId(1)).is_none()),
            (Some(Error::Stale), true)
        );
        assert_eq!(seats[0].show("stream", String::new(), sockets()).err(), Some(Error::Stale));
        drop(seats);
        assert_eq!((streams.totals().status().open, streams.rows().len()), (0, 0));
    }

    fn sockets() -> Sockets {
        let (one, other) = std::os::unix::net::UnixStream::pair().unwrap();
        [Arc::new(one), Arc::new(other)]
    }

    #[test]
    fn who_has_sent_more_than_he_may_waits_as_long() {
        let (streams, clock) = (Streams::default(), Clock::start());
        let (_ends, account) = entered(&streams, 1, 1000);
        assert_eq!(account.sends_at(clock), None);
        account.sent(2000, clock);
        assert!(account.sends_at(clock).is_some_and(|at| at > SECOND && at < 3 * SECOND + clock.now()));
        let (_ends, free) = entered(&streams, 2, u64::MAX);
        free.sent(1 << 30, clock);
        assert_eq!(free.sends_at(clock), None);
    }
}
