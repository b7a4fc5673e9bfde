//! Packets that leave later: tries of reliable delivery, and senders of the bandwidth service. Example: three tries,
//! 200 ms apart.
//!
//! All copies are paid when the job is made. Unsent copies are lost to the packet that paid, since it has ended long
//! ago. What that packet had left waits with the job: it pays for the report if no copy is known to have arrived.

use super::holders::Holder;
use super::ready::{Ready, Task};
use super::{Plan, PlanOs, account};
use crate::frame::Payer;
use crate::frame::shares::Shares;
use crate::wire::Addr;
use plan::eval::Cause;
use plan::name::Name;
use plan::value::Value;
use std::collections::HashMap;
use std::sync::LazyLock;

/// What is said of a packet that was sent again and again, and of which no copy is known to have arrived.
static UNACKNOWLEDGED: LazyLock<Name> = LazyLock::new(|| Name::new("Unacknowledged").unwrap_or(Name::NONE));

/// Jobs at the same time.
const JOBS_MAX: u64 = 256;

/// Bytes of their packets.
const BYTES_MAX: u64 = 4 << 20;

/// Nanoseconds within which all copies leave that a program sends until it is known that one has arrived, and within
/// which that is known: a place comes back after that.
const WITHIN: u64 = 300_000_000_000;

/// The shortest time between them, in nanoseconds.
const INTERVAL_MIN: u64 = 10_000_000;

/// Copies that leave in one call into the node.
const JOBS_TURN: usize = 64;

/// Meters at the same time.
const METERS_MAX: usize = 256;

/// Copies of a packet that are still to be sent.
#[derive(Debug)]
pub struct SendJob {
    /// The packet, with the bound of one copy before its first hop.
    pub bytes: Vec<u8>,
    /// How many copies; with none left, word of an arrival is waited for once more.
    pub left: u32,
    /// When the next one leaves, in nanoseconds.
    pub due: u64,
    /// Nanoseconds between them.
    pub interval: u64,
    /// By which the destination says that one has arrived; then no more leave.
    pub number: Option<i64>,
    /// Who has answered if that is said: the destination, if the packet went where all others for it go.
    pub proves: Option<Addr>,
    /// What of the bound of the packet that made it is left to say that no copy has arrived.
    pub rest: u32,
    /// Whose share of the worker pays for the copies, and who holds the place.
    pub payer: Payer,
    pub holder: Holder,
}

impl SendJob {
    /// What the copies have been given, and what is left for a report.
    pub fn bound(&self) -> u64 {
        account::bound_of(&self.bytes) * u64::from(self.left) + u64::from(self.rest)
    }
}

/// Copies of a packet that leave if nobody says that one has arrived.
#[derive(Clone, Copy, Debug)]
pub struct Copies {
    /// How many.
    pub again: u32,
    /// Milliseconds between them, as the program says.
    pub interval_ms: u32,
}

impl Copies {
    /// Nanoseconds between them: all leave, and word of the last is waited for, within [`WITHIN`].
    pub fn interval(self) -> u64 {
        let most = WITHIN / u64::from(self.again.saturating_add(1));
        (u64::from(self.interval_ms) * 1_000_000).min(most).max(INTERVAL_MIN)
    }
}

/// What arrives for one name of the bandwidth service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meter {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// When the first and the last came, in nanoseconds.
    pub first: u64,
    pub last: u64,
    /// Until when they are counted.
    until: u64,
}

/// The meters of one node.
pub struct Meters {
    open: HashMap<Box<[u8]>, (Meter, Holder)>,
    shares: Shares<Holder>,
}

impl Default for Meters {
    fn default() -> Meters {
        Meters { open: HashMap::new(), shares: Shares::new(METERS_MAX as u64) }
    }
}

impl Meter {
    /// One that has counted nothing yet.
    pub fn until(until: u64) -> Meter {
        Meter { until, ..Meter::default() }
    }

    /// With one packet more, of so many bytes.
    pub fn and(self, now: u64, bytes: usize) -> Meter {
        let first = if self.packets == 0 { now } else { self.first };
        Meter { packets: self.packets + 1, bytes: self.bytes + bytes as u64, first, last: now, ..self }
    }
}

impl Meters {
    /// Whether its holder may have another meter, or has this one.
    pub fn has_room(&self, name: &[u8], holder: Holder) -> bool {
        self.shares.fits(holder, 1) || self.open.contains_key(name)
    }

    /// Begins to count.
    pub fn receive(&mut self, now: u64, name: Box<[u8]>, until: u64, holder: Holder) {
        let Meters { open, shares } = self;
        open.retain(|known, (meter, holder)| {
            let stays = meter.until > now && *known != name;
            if !stays {
                shares.give(*holder, 1);
            }
            stays
        });
        if shares.take(holder, 1) {
            open.insert(name, (Meter::until(until), holder));
        }
    }

    /// Counts a packet.
    pub fn count(&mut self, now: u64, name: &[u8], bytes: usize) {
        let Some(meter) = self.open.get_mut(name).map(|(meter, _)| meter).filter(|meter| meter.until > now) else {
            return;
        };
        *meter = meter.and(now, bytes);
    }

    /// What has been counted.
    pub fn of(&self, now: u64, name: &[u8]) -> Option<Meter> {
        self.open.get(name).map(|(meter, _)| *meter).filter(|meter| meter.until > now)
    }
}

/// What is due.
#[derive(Debug)]
enum Due {
    /// A copy, and who pays for it.
    Copy(Payer),
    /// No copy has arrived, as far as is known.
    GivenUp(SendJob),
}

/// The jobs of one node.
pub struct Jobs {
    list: Vec<SendJob>,
    shares: Shares<Holder>,
    bytes: Shares<Holder>,
    pub meters: Meters,
}

impl Default for Jobs {
    fn default() -> Jobs {
        let (shares, bytes) = (Shares::new(JOBS_MAX), Shares::new(BYTES_MAX));
        Jobs { list: Vec::new(), shares, bytes, meters: Meters::default() }
    }
}

impl Jobs {
    /// Whether its holder may have another job beside so many with so many bytes: nobody has the last place, or the last byte.
    pub fn has_room(&self, job: &SendJob, (jobs, bytes): (u64, u64)) -> bool {
        self.shares.fits(job.holder, jobs + 1) && self.bytes.fits(job.holder, bytes + job.bytes.len() as u64)
    }

    /// Adds a job; false if there are too many.
    pub fn add(&mut self, job: SendJob) -> bool {
        let room = self.has_room(&job, (0, 0));
        if room {
            self.shares.take_back(job.holder, 1);
            self.bytes.take_back(job.holder, job.bytes.len() as u64);
            self.list.push(job);
        }
        room
    }

    /// A copy has arrived: the job is done.
    pub fn acknowledge(&mut self, number: i64) -> Option<SendJob> {
        let at = self.list.iter().position(|job| job.number == Some(number))?;
        Some(self.remove(at))
    }

    /// Takes out a job of a holder, who is none any more.
    pub fn leave(&mut self, holder: Holder) -> Option<SendJob> {
        let at = self.list.iter().position(|job| job.holder == holder)?;
        Some(self.remove(at))
    }

    fn remove(&mut self, at: usize) -> SendJob {
        let gone = self.list.swap_remove(at);
        self.shares.give(gone.holder, 1);
        self.bytes.give(gone.holder, gone.bytes.len() as u64);
        gone
    }

    pub fn next_timer(&self) -> u64 {
        self.list.iter().map(|job| job.due).min().unwrap_or(u64::MAX)
    }

    /// The bounds of all copies that are still to be sent.
    pub fn bounds(&self) -> u64 {
        self.list.iter().map(SendJob::bound).sum()
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Bytes of their packets.
    pub fn bytes(&self) -> u64 {
        self.bytes.held()
    }

    /// Leaves a job what its packet had left when it ended; false if there is no such job.
    pub fn leave_rest(&mut self, number: i64, rest: u32) -> bool {
        let job = self.list.iter_mut().find(|job| job.number == Some(number));
        job.map(|job| job.rest += rest).is_some()
    }

    /// A copy that is due, put into `into`; or a job that has waited long enough for word of an arrival.
    fn due(&mut self, now: u64, into: &mut Vec<u8>) -> Option<Due> {
        let at = (0..self.list.len()).find(|&at| self.list[at].due <= now)?;
        let job = &mut self.list[at];
        if job.left == 0 {
            return Some(Due::GivenUp(self.remove(at)));
        }
        into.extend_from_slice(&job.bytes);
        let payer = job.payer;
        job.left -= 1;
        // One that is late does not catch up at once.
        job.due = job.due.saturating_add(job.interval).max(now.saturating_sub(8 * job.interval));
        if job.left == 0 && job.number.is_none() {
            self.remove(at);
        }
        Some(Due::Copy(payer))
    }
}

impl Plan {
    pub(super) fn run_jobs(&mut self, env: &mut dyn PlanOs) {
        let now = env.now();
        for _ in 0..JOBS_TURN {
            let mut bytes = self.buffers.pop().unwrap_or_default();
            bytes.clear();
            let due = self.state.jobs.due(now, &mut bytes);
            let ready = match due {
                Some(Due::Copy(payer)) => Ready::own(bytes, payer),
                Some(Due::GivenUp(job)) => {
                    self.recycle(bytes);
                    Ready { task: Task::GiveUp(job.rest), ..Ready::own(job.bytes, job.payer) }
                }
                None => return self.recycle(bytes),
            };
            // What finds no place is counted.
            let _ = self.begin_ready(env, ready);
        }
    }

    /// No copy has arrived, as far as is known: the source is told, as of a packet that failed.
    pub(super) fn give_up(&mut self, env: &mut dyn PlanOs, bytes: &[u8], rest: u32) {
        self.state.account.given_up += 1;
        let rest = match self.decode(env, bytes, &mut Vec::new()) {
            Ok(mut packet) => {
                if let Some(Value::Chunk(inside)) = packet.chunk.arguments().last() {
                    packet.chunk = inside.clone();
                }
                self.report(env, &packet, &Cause::Exception(UNACKNOWLEDGED.clone()), rest)
            }
            Err(_) => rest.into(),
        };
        self.state.account.unused += rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meters_count_while_they_are_open() {
        let mut meters = Meters::default();
        meters.count(0, b"a", 9);
        assert_eq!(meters.of(0, b"a"), None);
        meters.receive(0, (*b"a").into(), 100, Holder::HERE);
        meters.count(10, b"a", 9);
        meters.count(99, b"a", 9);
        meters.count(100, b"a", 9);
        assert_eq!(meters.of(99, b"a"), Some(Meter { packets: 2, bytes: 18, first: 10, last: 99, until: 100 }));
        (0..1000u32).for_each(|name| meters.receive(0, name.to_be_bytes().into(), 9, Holder::HERE));
        assert_eq!(meters.open.len(), METERS_MAX / 2);
        meters.receive(9, (*b"b").into(), 10, Holder::HERE);
        assert_eq!((meters.open.len(), meters.shares.held()), (2, 2));
    }

    #[test]
    fn a_job_ends_with_its_copies_or_with_word_of_an_arrival() {
        let job = |number| SendJob {
            bytes: vec![1],
            left: 2,
            due: 5,
            interval: 10,
            number,
            proves: None,
            rest: 0,
            payer: Payer(3),
            holder: Holder::HERE,
        };
        let mut jobs = Jobs::default();
        assert!(jobs.add(job(Some(7))) && jobs.add(job(None)));
        let mut out = Vec::new();
        let mut due = |now| jobs.due(now, &mut out);
        assert!(due(4).is_none());
        assert!((0..2).all(|_| matches!(due(5), Some(Due::Copy(Payer(3))))) && due(5).is_none());
        assert!(jobs.acknowledge(7).is_some() && jobs.acknowledge(7).is_none());
        assert_eq!((jobs.next_timer(), out.len()), (15, 2));
        assert!(jobs.due(15, &mut out).is_some() && jobs.len() == 0, "nobody waits for word of it");
        assert!(jobs.add(job(Some(8))) && jobs.leave_rest(8, 3) && !jobs.leave_rest(7, 3));
        assert!((0..2).all(|_| matches!(jobs.due(15, &mut out), Some(Due::Copy(_)))));
        assert_eq!((jobs.len(), jobs.bounds()), (1, 3), "its last copy has left, and word of it may come");
        assert!(matches!(jobs.due(25, &mut out), Some(Due::GivenUp(job)) if job.rest == 3));
        assert_eq!(jobs.len(), 0);
    }

    #[test]
    fn packets_of_jobs_count_by_their_bytes_and_one_leaves_others_room() {
        let job = |holder| SendJob {
            bytes: vec![1; 60_000],
            left: 2,
            due: 5,
            interval: 10,
            number: Some(1),
            proves: None,
            rest: 0,
            payer: Payer(3),
            holder,
        };
        let mut jobs = Jobs::default();
        let fit = (0..200).filter(|_| jobs.add(job(Holder::HERE))).count();
        assert_eq!((fit, jobs.bytes()), (34, 34 * 60_000), "half of 69 that there is room for");
        assert!(jobs.add(job(Holder::Principal(1))));
        assert!(jobs.acknowledge(1).is_some());
        assert_eq!(jobs.bytes(), 34 * 60_000);
    }

    #[test]
    fn all_copies_leave_in_time() {
        let interval = |again, interval_ms| Copies { again, interval_ms }.interval();
        assert_eq!([interval(0, u32::MAX), interval(1, u32::MAX)], [WITHIN, WITHIN / 2]);
        assert_eq!(interval(60, u32::MAX), WITHIN / 61);
        assert_eq!((interval(60, 500), interval(u32::MAX, 0)), (500_000_000, INTERVAL_MIN));
    }
}
