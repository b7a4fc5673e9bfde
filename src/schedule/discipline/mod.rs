//! Output disciplines: which of the packets that wait at a port leaves first, and when. Example: voice before all else,
//! and of what is left of 10 Mbit/s three parts for the web and one for the rest.
//!
//! ```text
//! packet of a class ─▶ admission ─▶ queue ─┐
//! packet of a class ─▶ admission ─▶ queue ─┴▶ order ─▶ rate ─┐
//! packet of a class ─▶ admission ─▶ queue ───────────────────┴▶ order ─▶ rate ─▶ link
//! ```
//!
//! Classes are one tree ([`DisciplineSpec`]). A class has either a queue of packets, and [`Admission`] says which may wait
//! there, or classes below it, of which its *order* names the one that is next: the policies of the path scheduler, with
//! bytes as cost, deficit round robin, or what an extension says ([`OrderKind`]). Any class may have a *rate*: a token bucket
//! by which what is below it leaves. A discipline is a data structure: time is passed in, packets are the caller's, and
//! nothing is allocated for one once queues have grown. It stands where
//! Bowman's node has its output queues (Merugu et al., INFOCOM 2000, III.A).

mod admission;
mod brought;
mod order;
mod spec;
#[cfg(test)]
mod tests;

use super::Share;
use crate::core::bucket::TokenBucket;
pub use crate::topology::gauge::ClassCounts;
use admission::Gate;
pub use admission::{Admission, Red};
pub use brought::{BroughtPolicy, KNOWN_MAX, MakesPolicies, NoExtensions, PolicyCounts, PolicyName};
pub use order::OrderKind;
pub(crate) use order::{Order, TURN};
pub use spec::{BURST_LEAST, CLASSES_MAX, ClassSpec, DisciplineSpec, PACKETS_MAX, RateLimit};
use std::collections::VecDeque;

/// The number of the port itself among stations: above all classes.
const ROOT: usize = 0;

/// Why a packet may not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoom {
    /// The queue of its class is full.
    Full,
    /// Chance has it dropped before that is so.
    Early,
}

/// What leaves next.
#[derive(Debug, PartialEq, Eq)]
pub enum Leaving<P> {
    /// This packet, now.
    Packet(P),
    /// Some packet at that time, which no rate allows before.
    At(u64),
    /// None waits.
    Nothing,
}

/// A class, or the port itself.
#[derive(Debug)]
struct Station<P> {
    /// The station above, and the number among those below that.
    above: usize,
    number: usize,
    rate: Option<TokenBucket>,
    /// Whether it waits for its rate.
    held: bool,
    part: Part<P>,
}

#[derive(Debug)]
enum Part<P> {
    /// Those below, by their numbers.
    Classes(Order, Vec<usize>),
    Queue(Queue<P>),
}

#[derive(Debug)]
struct Queue<P> {
    packets: VecDeque<(P, u32)>,
    room: usize,
    gate: Gate,
    counts: ClassCounts,
}

/// The packets that wait at a port.
#[derive(Debug)]
pub struct Discipline<P> {
    stations: Vec<Station<P>>,
    /// When the first of those that wait for their rates may go on.
    release: u64,
    packets: usize,
    bytes: u64,
}

impl<P> Discipline<P> {
    /// An empty one of a description that was checked; `seed`: nobody's who sends packets. An error: an extension is not as it is
    /// wanted.
    pub fn new(spec: &DisciplineSpec, seed: u64, policies: &dyn MakesPolicies) -> Result<Discipline<P>, String> {
        let above =
            |class: &ClassSpec| class.below.as_deref().and_then(|name| spec.place(name)).map_or(ROOT, |at| at + 1);
        let tops: Vec<usize> = spec.classes.iter().map(above).collect();
        let station = |at: usize, order: &OrderKind, rate: Option<RateLimit>, queue: Option<&ClassSpec>| {
            let below: Vec<usize> = (0..tops.len()).filter(|class| tops[*class] == at).collect();
            let shares: Vec<Share> = below.iter().map(|class| spec.classes[*class].share()).collect();
            let part = match queue.filter(|_| below.is_empty()) {
                Some(class) => Part::Queue(Queue::new(class, seed.wrapping_add(at as u64), policies)?),
                None => {
                    let order = Order::new(order, &shares, policies)?;
                    Part::Classes(order, below.iter().map(|class| class + 1).collect())
                }
            };
            let rate = rate.map(|rate| TokenBucket::new(rate.bits_per_second / 8, rate.burst));
            Ok::<_, String>(Station { above: ROOT, number: 0, rate, held: false, part })
        };
        let mut stations = vec![station(ROOT, &spec.order, spec.rate, None)?];
        for (at, class) in spec.classes.iter().enumerate() {
            stations.push(station(at + 1, &class.order, class.rate, Some(class))?);
        }
        for (at, above) in tops.iter().enumerate() {
            let number = tops[..at].iter().filter(|other| *other == above).count();
            (stations[at + 1].above, stations[at + 1].number) = (*above, number);
        }
        Ok(Discipline { stations, release: u64::MAX, packets: 0, bytes: 0 })
    }

    /// Packets that wait.
    #[inline]
    pub fn packets(&self) -> usize {
        self.packets
    }

    /// Their bytes.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What a class has done, by its place in the description; nothing of one without a queue.
    pub fn counts(&self, class: usize) -> Option<ClassCounts> {
        match &self.stations.get(class + 1)?.part {
            Part::Queue(queue) => Some(ClassCounts { waiting: queue.packets.len() as u64, ..queue.counts }),
            Part::Classes(..) => None,
        }
    }

    /// What a policy of an extension has done: that of a class, by its place in the description, or of the port itself.
    pub fn policy_counts(&self, class: Option<usize>) -> Option<PolicyCounts> {
        match &self.stations.get(class.map_or(ROOT, |class| class + 1))?.part {
            Part::Queue(queue) => queue.gate.counts(),
            Part::Classes(order, _) => order.counts(),
        }
    }

    /// A packet of so many bytes has come for a class with a queue, named by its place in the description. It is given back if it
    /// may not wait.
    #[inline]
    pub fn put(&mut self, class: usize, packet: P, bytes: usize, now: u64) -> Result<(), (P, NoRoom)> {
        let Some(Station { part: Part::Queue(queue), .. }) = self.stations.get_mut(class + 1) else {
            return Err((packet, NoRoom::Full));
        };
        let is_first = queue.put(packet, bytes, now)?;
        self.packets += 1;
        self.bytes += bytes as u64;
        if is_first {
            self.wake(class + 1, now);
        }
        Ok(())
    }

    /// What leaves now, or when something may.
    #[inline]
    pub fn next(&mut self, now: u64) -> Leaving<P> {
        if now >= self.release {
            self.let_go(now);
        }
        if self.packets == 0 {
            return Leaving::Nothing;
        }
        let Some((leaf, packet, bytes)) = self.take_first(now) else { return Leaving::At(self.release) };
        self.packets -= 1;
        self.bytes -= u64::from(bytes);
        self.pay(leaf, bytes, now);
        Leaving::Packet(packet)
    }

    /// Takes all packets that wait, class by class.
    pub fn drain(&mut self) -> Vec<P> {
        let mut all = Vec::with_capacity(self.packets);
        for station in &mut self.stations {
            if let Part::Queue(queue) = &mut station.part {
                all.extend(queue.packets.drain(..).map(|(packet, _)| packet));
            }
        }
        // Orders and rates are made anew with the discipline: nobody asks this one any more.
        (self.packets, self.bytes) = (0, 0);
        all
    }

    /// A station has packets: those above it are told as far as they had none, and as far as rates allow.
    fn wake(&mut self, mut at: usize, now: u64) {
        loop {
            if self.stations[at].held || self.hold(at, now) || at == ROOT {
                return;
            }
            let (above, number) = (self.stations[at].above, self.stations[at].number);
            let Part::Classes(order, _) = &mut self.stations[above].part else { return };
            let had_some = order.waiting() > 0;
            order.wake(number, now);
            if had_some {
                return;
            }
            at = above;
        }
    }

    /// A station with packets waits if its rate allows none now: whether that is so.
    #[inline]
    fn hold(&mut self, at: usize, now: u64) -> bool {
        let station = &mut self.stations[at];
        let Some(rate) = &mut station.rate else { return false };
        if rate.has_any(now) {
            return false;
        }
        station.held = true;
        self.release = self.release.min(rate.any_at());
        true
    }

    /// The packet that is first, its queue's station and its bytes; none while rates hold back all.
    #[inline]
    fn take_first(&mut self, now: u64) -> Option<(usize, P, u32)> {
        let mut at = ROOT;
        if self.stations[ROOT].held {
            return None;
        }
        loop {
            match &mut self.stations[at].part {
                Part::Classes(order, below) => at = *below.get(order.next(now)?)?,
                Part::Queue(queue) => return queue.take(now).map(|(packet, bytes)| (at, packet, bytes)),
            }
        }
    }

    /// A packet of a queue has left: its class and those above pay for it.
    #[inline]
    fn pay(&mut self, leaf: usize, bytes: u32, now: u64) {
        let mut at = leaf;
        loop {
            let station = &mut self.stations[at];
            station.rate.iter_mut().for_each(|rate| rate.charge(now, bytes.into()));
            let has_more = station.has_packets() && !self.hold(at, now);
            let station = &self.stations[at];
            if at == ROOT {
                return;
            }
            let (above, number) = (station.above, station.number);
            if let Part::Classes(order, _) = &mut self.stations[above].part {
                order.charge(number, bytes as usize, has_more, now);
            }
            at = above;
        }
    }

    /// Stations whose rates allow something again go on.
    #[cold]
    fn let_go(&mut self, now: u64) {
        self.release = u64::MAX;
        for at in 0..self.stations.len() {
            let station = &mut self.stations[at];
            let Some(rate) = station.rate.as_mut().filter(|_| station.held) else { continue };
            if rate.has_any(now) {
                station.held = false;
                self.wake(at, now);
            } else {
                self.release = self.release.min(rate.any_at());
            }
        }
    }
}

impl ClassSpec {
    fn share(&self) -> Share {
        Share { weight: self.weight, priority: self.priority, deadline_ns: self.deadline_ns }
    }
}

impl<P> Station<P> {
    #[inline]
    fn has_packets(&self) -> bool {
        match &self.part {
            Part::Classes(order, _) => order.waiting() > 0,
            Part::Queue(queue) => !queue.packets.is_empty(),
        }
    }
}

impl<P> Queue<P> {
    fn new(class: &ClassSpec, seed: u64, policies: &dyn MakesPolicies) -> Result<Queue<P>, String> {
        let gate = Gate::new(&class.admission, seed, policies)?;
        Ok(Queue { packets: VecDeque::new(), room: class.packets, gate, counts: ClassCounts::default() })
    }

    /// Takes a packet in; whether it is the only one.
    #[inline]
    fn put(&mut self, packet: P, bytes: usize, now: u64) -> Result<bool, (P, NoRoom)> {
        let waiting = self.packets.len();
        if waiting >= self.room {
            self.counts.full += 1;
            return Err((packet, NoRoom::Full));
        }
        if !self.gate.lets_in((waiting, self.room), bytes, now) {
            self.counts.early += 1;
            return Err((packet, NoRoom::Early));
        }
        self.packets.push_back((packet, bytes as u32));
        Ok(waiting == 0)
    }

    #[inline]
    fn take(&mut self, now: u64) -> Option<(P, u32)> {
        let (packet, bytes) = self.packets.pop_front()?;
        self.counts.sent += 1;
        self.counts.sent_bytes += u64::from(bytes);
        if self.packets.is_empty() {
            self.gate.ran_empty(now);
        }
        Some((packet, bytes))
    }
}
