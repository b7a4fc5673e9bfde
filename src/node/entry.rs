//! The entrance of a node: each neighbour has a share of bytes and worker time, from buckets that every frame passes
//! before any environment.
//!
//! ```text
//! frame ─▶ payer ─▶ bucket of bytes ─▶ bucket of worker time ─▶ classes, environments ─▶ time that this took
//!                          └──────────── empty ─┴─▶ drop (entry-share)       ▲────────────────── charged ──┘
//! ```
//!
//! **Payers.** A configured peer of an overlay port has buckets of its own ([`PeerId`]), and so has a neighbour with a
//! key, on whatever port. Packets that it has proved are charged to it. Packets in its name without a proof, or with a
//! forged one, are charged to the strangers of the port. These share one pair of buckets: addresses on a link can be
//! forged, so a name that costs nothing is worth nothing, and no flood of names displaces anything here. The table has
//! a row for each port, each peer and each neighbour with a key from the start, and never another.
//!
//! **Levels.** A payer alone (no other for ten seconds) has the whole worker. Else each may have a *level* of worker
//! time a second: a half at most (`[entry] share`). Payers that want more than they get divide the rest of the content
//! ones, when these have twice their use. Nobody's level is less than an equal part for each active payer. Levels are
//! found anew ten times a second, as max-min shares are (Bertsekas and Gallager, *Data Networks*, 6.5.2). Work in
//! nobody's cost, such as sending, comes off all levels alike. The burst is `burst_ms`, 5 ms, which the queue of a
//! content neighbour outlasts; an overdraft is paid back, for a second at most. A level is an estimate. So while more
//! than `CROWDED` packets wait, payers above their share come after payers below theirs: the error of the estimate is
//! at their expense.
//!
//! **Costs.** A payer is charged the time of its packets. Packets that wait for their turn are charged when they have
//! run; the mean is taken beforehand, so that a queue holds no more than a burst. Packets done at once are charged
//! their time; so is the domain that a packet turns out to be of. Later work of a packet (it waited for a name, a code
//! or a signature, sent packets to this node, or left copies to be sent later) has a turn and is charged then. Reading a batch is
//! divided among its frames, refused ones included. Time is the work of the thread ([`WorkClock`]); other threads on
//! its CPU are charged to nobody. Without a clock, in the simulator, a step of code counts as a nanosecond, and a frame
//! as [`FRAME_STEPS`].

mod charging;
mod limits;
mod owner;

use crate::code::run::Ingress;
use crate::core::bucket::TokenBucket;
use crate::core::domain::DomainId;
use crate::frame::{Frame, Payer, PeerId, PortId};
use crate::topology::{Neighbour, Port};
use crate::wire::Addr;
pub use limits::{EntryCounts, EntryLimits, WorkClock, bytes_beside_others};
use owner::{Owner, SECOND, level};

/// Windows of a tenth of a second for which somebody counts as active: so seldom packets find room in sockets that others fill.
const ACTIVE: u64 = 100;

/// Of what is left when costs that nobody pays have come off, this many sixteenths are shared out: a worker without any slack has queues.
const SLACK: u64 = 15;

/// Packets that wait for the worker from which on those who want more than their share come after those who do not.
const CROWDED: usize = 64;

/// The cost of a received frame without a clock.
pub const FRAME_STEPS: u64 = 500;

/// Frames of one neighbour that are done at once between two readings of the clock.
const RUN: u32 = 16;

/// Frames of one neighbour for one domain that were done at once, one behind the other, and are not charged yet.
struct Run {
    payer: Payer,
    /// Whose they were, as far as that was found out, and for which domain below that one.
    domain: Option<DomainId>,
    part: Option<DomainId>,
    frames: u32,
    /// Of these, the ones that were nobody's.
    nobodys: u32,
    /// What the clock showed when the first began.
    since: u64,
}

impl Run {
    const NONE: Run = Run { payer: Payer::NOBODY, domain: None, part: None, frames: 0, nobodys: 0, since: 0 };
}

/// What a domain is to be charged: frames that were done at once, and what they cost. It is in the account of the domain
/// below it for which they were, if there is one.
#[derive(Clone, Copy)]
struct Bill {
    domain: DomainId,
    part: Option<DomainId>,
    frames: u32,
    cost: u64,
}

/// Where the owners of a port are among all.
#[derive(Clone, Copy)]
struct Place {
    strangers: u16,
    /// Its first peer, and how many there are.
    first: u16,
    peers: u16,
}

/// The rows of a node.
pub(super) struct Entry {
    limits: EntryLimits,
    /// Of each port its strangers; then the peers of all; and behind them those of ports that have come later.
    owners: Vec<Owner>,
    /// Of each port, where its strangers are and its peers.
    places: Vec<Place>,
    /// Neighbours on links that have keys, and their places, which are behind all others.
    keyed: Vec<(PortId, Addr, u16)>,
    /// Owners of whom frames are in the batch.
    came: Vec<u16>,
    /// The number of the window, when it began, and when a frame came last.
    window: u64,
    began: u64,
    now: u64,
    /// The number of active payers; whether that is one at most, and whether some of several wanted no more than they got.
    active: u32,
    alone: bool,
    some_content: bool,
    /// The clock of the worker's work.
    clock: Option<Box<dyn WorkClock>>,
    /// Steps that code has taken, where there is no clock.
    steps: u64,
    /// Of the batch, what is charged already.
    charged: u64,
    /// Frames that are not charged yet; whether one of them is being done, and whether it is known to be a domain's.
    run: Run,
    is_open: bool,
    is_named: bool,
    /// What is charged already, but not to the domain.
    bill: Option<Bill>,
    /// The payer of the packet that is being done at once, or of the one that waited.
    current: Payer,
    /// When the window began, what the worker had worked, and what it had lost to others; of its work, thousandths that somebody pays for.
    worked: u64,
    lost: u64,
    paid: u64,
}

impl Entry {
    /// Rows for these ports and the neighbours behind them.
    pub(super) fn new(ports: &[Port], neighbours: &[Neighbour]) -> Entry {
        let mut owners: Vec<Owner> = ports.iter().map(|port| Owner::new(port.bits_per_second)).collect();
        let mut places = Vec::new();
        for (at, port) in ports.iter().enumerate() {
            let behind = neighbours.iter().filter(|known| usize::from(known.port.0) == at);
            let peers = behind.filter(|known| known.peer != PeerId::NONE).map(|known| known.peer.0 + 1).max();
            places.push(Place { strangers: at as u16, first: owners.len() as u16, peers: peers.unwrap_or(0) });
            owners.extend((0..peers.unwrap_or(0)).map(|_| Owner::new(port.bits_per_second)));
        }
        let mut entry = Entry {
            limits: EntryLimits::default(),
            came: Vec::with_capacity(owners.len()),
            owners,
            places,
            keyed: Vec::new(),
            window: ACTIVE + 1,
            began: 0,
            now: 0,
            active: 0,
            alone: true,
            some_content: false,
            clock: None,
            steps: 0,
            charged: 0,
            run: Run::NONE,
            is_open: false,
            is_named: false,
            bill: None,
            current: Payer::NOBODY,
            worked: 0,
            lost: 0,
            paid: 1000,
        };
        entry.set_limits(EntryLimits::default());
        entry
    }

    /// The same entrance, where whatever was being done has come to nothing.
    pub(super) fn abandon(mut self) -> Entry {
        (self.run, self.is_open, self.is_named, self.bill) = (Run::NONE, false, false, None);
        (self.current, self.charged) = (Payer::NOBODY, 0);
        self.came.clear();
        self.owners.iter_mut().for_each(|owner| owner.came = 0);
        self
    }

    /// Whether work is measured by a clock.
    pub(super) fn has_clock(&self) -> bool {
        self.clock.is_some()
    }

    /// Whether what is being done is measured, until its packet is done with.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// When a frame came last.
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    fn set_limits(&mut self, limits: EntryLimits) {
        self.limits = limits;
        self.set_limits_from(0);
    }

    /// Gives owners from this place on full buckets.
    fn set_limits_from(&mut self, first: usize) {
        let limits = self.limits;
        let (level, burst) = (u64::from(limits.permille) * SECOND / 1000, u64::from(limits.burst_us) * 1000);
        for owner in self.owners.iter_mut().skip(first) {
            owner.time = TokenBucket::new(level, burst);
            if limits.bytes_per_second > 0 {
                owner.bytes = TokenBucket::new(limits.bytes_per_second, (limits.bytes_per_second / 10).max(65_536));
            }
        }
    }

    /// The place of a peer of a port, or of the port's strangers.
    #[inline(always)]
    fn place(&self, port: PortId, peer: PeerId) -> usize {
        match self.places.get(usize::from(port.0)) {
            Some(Place { first, peers, .. }) if peer.0 < *peers => usize::from(first + peer.0),
            Some(place) => usize::from(place.strangers),
            None => usize::from(u16::MAX),
        }
    }

    /// A code that it had brought had to give way.
    pub(super) fn count_displaced(&mut self, payer: Payer) {
        if let Some(owner) = self.owners.get_mut(usize::from(payer.0)) {
            owner.counts.displaced += 1;
        }
    }

    /// By which way came what this one pays for.
    pub(super) fn ingress(&self, payer: Payer) -> Ingress {
        let keyed = self.keyed.iter().find(|known| known.2 == payer.0).map(|(port, ..)| *port);
        let is = |at: &Place| at.strangers == payer.0 || (at.first..at.first + at.peers).contains(&payer.0);
        let port = keyed.or_else(|| self.places.iter().position(is).map(|port| PortId(port as u16)));
        port.map_or(Ingress::Node, |port| Ingress::Port(port, payer))
    }

    /// Who pays for a frame: whoever has proved to have sent it ([`Payer`] is set then); else its peer, unless that
    /// would have proved it; else the strangers of the port.
    #[inline(always)]
    fn place_of(&self, frame: &Frame) -> usize {
        if frame.authenticated {
            return usize::from(frame.payer.0);
        }
        let at = self.place(frame.port, frame.peer);
        match self.owners.get(at) {
            Some(owner) if owner.keyed => self.place(frame.port, PeerId::NONE),
            _ => at,
        }
    }

    /// Ports that have come have rows for their strangers, full ones.
    pub(super) fn make_places(&mut self, ports: &[Port]) {
        for port in ports.iter().skip(self.places.len()) {
            let at = self.owners.len();
            self.owners.push(Owner::new(port.bits_per_second));
            self.places.push(Place { strangers: at as u16, first: at as u16, peers: 0 });
            self.set_limits_from(at);
        }
        self.came.reserve(self.owners.len());
    }

    /// A port has numbers for so many peers from now on. Those it had keep their buckets, under new places if there are more.
    pub(super) fn make_room(&mut self, port: PortId, peers: u16, bits_per_second: u64) {
        let Some(Place { strangers, first, peers: had }) = self.places.get(usize::from(port.0)).copied() else {
            return;
        };
        if peers <= had {
            return;
        }
        // Twice as many, so that few places are left behind however often one comes: what still waits is settled there.
        let (begin, room) = (self.owners.len(), peers.max(had.saturating_mul(2)));
        let kept: Vec<Owner> = self.owners.iter().skip(usize::from(first)).take(usize::from(had)).cloned().collect();
        self.owners.extend(kept);
        self.owners.resize_with(begin + usize::from(room), || Owner::new(bits_per_second));
        self.places[usize::from(port.0)] = Place { strangers, first: begin as u16, peers: room };
        self.came.reserve(self.owners.len());
        self.set_limits_from(begin + usize::from(had));
    }

    /// Nobody has a key any more.
    pub(super) fn forget_keys(&mut self) {
        self.owners.iter_mut().for_each(|owner| owner.keyed = false);
    }

    /// A neighbour has a key from now on. Gives who pays for what it proves to have sent: it has a row, whatever its port.
    pub(super) fn know(&mut self, port: PortId, peer: PeerId, addr: Addr, bits_per_second: u64) -> Payer {
        let at = match self.keyed.iter().find(|known| (known.0, known.1) == (port, addr)) {
            _ if peer != PeerId::NONE => self.place(port, peer),
            Some((.., at)) => usize::from(*at),
            None => {
                let at = self.owners.len();
                self.owners.push(Owner::new(bits_per_second));
                self.came.reserve(self.owners.len());
                self.keyed.push((port, addr, at as u16));
                self.set_limits_from(at);
                at
            }
        };
        if let Some(owner) = self.owners.get_mut(at) {
            owner.keyed = true;
        }
        Payer(at as u16)
    }

    /// A frame has come while so many packets wait; whether its neighbour has a share left for it. It is marked with who pays.
    #[inline]
    pub(super) fn admit(&mut self, frame: &mut Frame, now: u64, waiting: usize) -> bool {
        self.now = now;
        let at = self.note(frame);
        let Some(owner) = self.owners.get(at) else { return true };
        if owner.seen != self.window {
            self.appear(at);
        }
        let owner = &mut self.owners[at];
        let gives_way = self.some_content && waiting >= CROWDED && (owner.hungry || owner.was_hungry);
        if self.alone || !gives_way && owner.take(now, frame.len()) {
            return true;
        }
        owner.hungry = true;
        owner.counts.refused += 1;
        false
    }

    /// A frame has come that cannot be refused, but is paid for. It makes nobody active: that neighbours ask for addresses is no work.
    #[inline]
    pub(super) fn note(&mut self, frame: &mut Frame) -> usize {
        let at = self.place_of(frame);
        frame.payer = Payer(at as u16);
        if self.run.payer != frame.payer {
            self.end_run(self.now);
        }
        let Some(owner) = self.owners.get_mut(at) else { return at };
        if owner.came == 0 {
            self.came.push(at as u16);
        }
        owner.came = owner.came.saturating_add(1);
        if self.clock.is_none() {
            self.steps += FRAME_STEPS;
            self.owners[at].spend(self.now, FRAME_STEPS, self.alone);
        }
        at
    }

    /// The first frame of somebody's in this window.
    #[cold]
    fn appear(&mut self, at: usize) {
        let seen = core::mem::replace(&mut self.owners[at].seen, self.window);
        if seen + ACTIVE < self.window {
            self.active += 1;
            self.alone = self.active <= 1;
        }
    }

    /// A packet waits its turn: its mean cost is taken now, and given back by [`Entry::settle`].
    #[inline]
    pub(super) fn reserve(&mut self, payer: Payer, now: u64) -> u32 {
        match self.owners.get_mut(usize::from(payer.0)) {
            Some(owner) if !self.alone => {
                owner.time.charge(now, owner.mean.into());
                owner.mean
            }
            _ => 0,
        }
    }

    /// A packet that waited has run at this cost, or was dropped at none.
    #[inline]
    pub(super) fn settle(&mut self, payer: Payer, now: u64, reserved: u32, cost: u64) {
        let Some(owner) = self.owners.get_mut(usize::from(payer.0)) else { return };
        owner.time.give_back(reserved.into());
        if cost > 0 {
            let (mean, cost_32) = (owner.mean, cost.min(u32::MAX.into()));
            owner.mean = if mean == 0 { cost_32 } else { (u64::from(mean) * 7 + cost_32) / 8 } as u32;
            owner.spend(now, cost, self.alone);
        }
    }

    /// A batch of so many frames has been read and taken in, in so many nanoseconds. Says how many that are for each, but
    /// for what was done at once.
    pub(super) fn received(&mut self, count: usize, cost: u64) -> u64 {
        self.end_run(self.now);
        let rest = cost.saturating_sub(core::mem::take(&mut self.charged));
        let each = rest / count.max(1) as u64;
        while let Some(at) = self.came.pop() {
            let owner = &mut self.owners[usize::from(at)];
            let came = core::mem::take(&mut owner.came);
            owner.spend(self.now, u64::from(came) * each, self.alone);
        }
        each
    }

    /// The clock, or the number of steps so far.
    #[inline]
    fn reading(&mut self) -> u64 {
        self.clock.as_mut().map_or(self.steps, |clock| clock.read())
    }

    /// Of a window, how long the worker worked, and how long it could have: not while others had its CPU.
    fn window_of_work(&mut self, now: u64, length: u64) -> (u64, u64) {
        let Some(clock) = &mut self.clock else { return (0, length) };
        let work = clock.at(now);
        let worked = work.saturating_sub(core::mem::replace(&mut self.worked, work));
        let lost = clock.lost().saturating_sub(core::mem::replace(&mut self.lost, clock.lost()));
        (worked, length.saturating_sub(lost).max(length / 16))
    }

    /// Of a worker's work, thousandths that are in somebody's cost. Where it rested for most of a window that says nothing.
    fn paid_for(&mut self, length: u64, worked: u64, used: u64) -> u64 {
        if worked > length / 4 {
            let paid = (used * 1000 / worked * SLACK / 16).clamp(500, 1000);
            self.paid = (self.paid * 3 + paid) / 4;
        }
        self.paid
    }

    /// A tenth of a second is over: what everybody may have in the next.
    fn roll(&mut self, now: u64) {
        let length = now.saturating_sub(self.began).max(1);
        self.began = now;
        let (worked, there) = self.window_of_work(now, length);
        let window = self.window;
        let active = || self.owners.iter().filter(|owner| owner.seen + ACTIVE > window);
        let level = level(active().map(|owner| (owner.used, owner.hungry)), there, self.limits.permille);
        self.active = active().count() as u32;
        self.some_content = active().any(|owner| !owner.hungry && owner.used > 0);
        let used = self.owners.iter().map(|owner| owner.used).sum();
        // Of a second, the worker has so much as it had of this window.
        let level = (u128::from(level) * u128::from(there) / u128::from(length)) as u64;
        let level = level * self.paid_for(there, worked, used) / 1000;
        self.alone = self.active <= 1;
        self.window += 1;
        for owner in &mut self.owners {
            owner.was_hungry = core::mem::take(&mut owner.hungry);
            owner.used = 0;
            owner.time.set_rate(now, level);
        }
    }
}

#[cfg(test)]
mod tests;
