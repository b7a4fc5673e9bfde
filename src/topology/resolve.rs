//! Link addresses of next hops on Ethernet ports: the table behind ARP (RFC 826) and IPv6 neighbour discovery (RFC
//! 4861).
//!
//! Packets for an unresolved next hop wait here, a few for each; questions are repeated and given up. Only answers to
//! questions asked (or to a known address) are believed. Each neighbour whose packets make the node ask has a share of
//! the table ([`Shares`]), so nobody can fill it. The node builds the messages.

use crate::frame::shares::Shares;
use crate::frame::{Frame, Payer, PortId};
use crate::wire::Addr;
use crate::wire::ethernet::Mac;
use std::collections::{HashMap, VecDeque};

/// Next hops in the table.
const ENTRIES_MAX: usize = 1024;

/// Packets that wait for one next hop: as many as may have waited for one code and come at once.
const WAITING_MAX: usize = 16;

/// For how long an answer is used without asking again, in nanoseconds.
const FRESH_FOR: u64 = 20_000_000_000;

/// For how long an answer is used at all, in nanoseconds.
const KNOWN_FOR: u64 = 60_000_000_000;

/// Of what has been known for longer others are told again when it is answered again, in nanoseconds.
const TOLD_FOR: u64 = 5_000_000_000;

/// Time between two questions, in nanoseconds, and between two words to others of one next hop.
const ASK_AGAIN: u64 = 250_000_000;

/// Questions for one next hop before its packets are dropped.
const ASKS_MAX: u32 = 5;

type Key = (PortId, Addr);

struct Entry {
    known: Option<(Mac, u64)>,
    asks: u32,
    deadline: u64,
    waiting: VecDeque<Frame>,
    /// Whose packet has made the node ask.
    payer: Payer,
    /// Whether others are to be told what is known, and when they were told last.
    untold: bool,
    told: Option<u64>,
}

impl Entry {
    fn take_to_tell(&mut self, now: u64) -> Option<Mac> {
        let (mac, _) = self.known.filter(|_| self.untold && self.told.is_none_or(|at| now >= at + ASK_AGAIN))?;
        (self.untold, self.told) = (false, Some(now));
        Some(mac)
    }

    fn new(payer: Payer) -> Entry {
        Entry { known: None, asks: 0, deadline: 0, waiting: VecDeque::new(), payer, untold: false, told: None }
    }
}

/// What became of a packet whose next hop has no known link address.
pub struct Waiting {
    /// Whether the question is to be asked now.
    pub ask: bool,
    /// The packet that gave way: one that waited longest, or this one.
    pub displaced: Option<Frame>,
}

/// The link addresses known.
pub struct Resolver {
    table: HashMap<Key, Entry, foldhash::fast::FixedState>,
    shares: Shares<Payer>,
    /// When it is worth looking again for what nobody needs any more.
    next_sweep: u64,
    changes: u32,
}

impl Default for Resolver {
    fn default() -> Resolver {
        let shares = Shares::new(ENTRIES_MAX as u64);
        Resolver { table: HashMap::default(), shares, next_sweep: 0, changes: 0 }
    }
}

impl Resolver {
    /// The link address of next hop `addr` on `port` if it is known, and whether to ask again since the
    /// answer is getting old.
    #[inline]
    pub fn known(&mut self, now: u64, port: PortId, addr: Addr) -> Option<(Mac, bool)> {
        let entry = self.table.get_mut(&(port, addr))?;
        let (mac, at) = entry.known?;
        if now >= at + KNOWN_FOR {
            return None;
        }
        let ask = now > at + FRESH_FOR && entry.deadline <= now;
        if ask {
            entry.deadline = now + ASK_AGAIN;
        }
        Some((mac, ask))
    }

    /// The same, and nobody is asked.
    pub fn found(&self, now: u64, port: PortId, addr: Addr) -> Option<Mac> {
        let (mac, at) = self.table.get(&(port, addr))?.known?;
        (now < at + KNOWN_FOR).then_some(mac)
    }

    /// Until when a packet to this next hop needs to ask nobody, if that is not over.
    pub fn fresh_until(&self, now: u64, port: PortId, addr: Addr) -> Option<u64> {
        let (_, at) = self.table.get(&(port, addr))?.known?;
        Some(at + FRESH_FOR).filter(|until| now < *until)
    }

    /// How often a link address has become another.
    #[inline]
    pub fn changes(&self) -> u32 {
        self.changes
    }

    /// Keeps a packet until the link address of its next hop is known.
    #[cold]
    pub fn wait(&mut self, now: u64, port: PortId, addr: Addr, frame: Frame) -> Waiting {
        let (key, payer) = ((port, addr), frame.payer);
        if !self.table.contains_key(&key) {
            if !self.shares.fits(payer, 1) {
                self.sweep(now);
            }
            if !self.shares.take(payer, 1) {
                return Waiting { ask: false, displaced: Some(frame) };
            }
        }
        let entry = self.table.entry(key).or_insert_with(|| Entry::new(payer));
        entry.known = None;
        let ask = entry.waiting.is_empty();
        if ask {
            entry.asks = 1;
            entry.deadline = now + ASK_AGAIN;
        }
        let displaced = if entry.waiting.len() == WAITING_MAX { entry.waiting.pop_front() } else { None };
        entry.waiting.push_back(frame);
        Waiting { ask, displaced }
    }

    /// Packets that wait.
    pub fn waiting(&self) -> usize {
        self.table.values().map(|entry| entry.waiting.len()).sum()
    }

    /// Forgets what nobody needs any more; seldom, since whoever has used up its share makes the node ask for that with each packet.
    fn sweep(&mut self, now: u64) {
        if now < self.next_sweep {
            return;
        }
        self.next_sweep = now + ASK_AGAIN;
        let Resolver { table, shares, .. } = self;
        table.retain(|_, entry| {
            let stays = !entry.waiting.is_empty() || entry.known.is_some_and(|(_, at)| now < at + KNOWN_FOR);
            if !stays {
                shares.give(entry.payer, 1);
            }
            stays
        });
    }

    /// What was answered on `port` is not to be believed any more: its link was down, or is another.
    pub fn forget(&mut self, port: PortId) {
        self.table.iter_mut().filter(|((of, _), _)| *of == port).for_each(|(_, entry)| entry.known = None);
    }

    /// An answer: gives the packets that can go now. Ignored unless the question was asked.
    pub fn learn(&mut self, now: u64, port: PortId, addr: Addr, mac: Mac) -> VecDeque<Frame> {
        match self.table.get_mut(&(port, addr)) {
            Some(entry) => {
                if entry.known.is_some_and(|(before, _)| before != mac) {
                    self.changes = self.changes.wrapping_add(1);
                }
                let old = |(before, at): (Mac, u64)| before != mac || now > at + TOLD_FOR;
                entry.untold |= entry.known.is_none_or(old);
                entry.known = Some((mac, now));
                core::mem::take(&mut entry.waiting)
            }
            None => VecDeque::new(),
        }
    }

    /// Another worker has learned this just now.
    pub fn believe(&mut self, now: u64, port: PortId, addr: Addr, mac: Mac) {
        let payer = Payer::NOBODY;
        if !self.table.contains_key(&(port, addr)) {
            self.sweep(now);
            // The first worker has divided the places: here they are its.
            if self.table.len() >= ENTRIES_MAX {
                return;
            }
            self.shares.take_back(payer, 1);
            self.table.insert((port, addr), Entry::new(payer));
        }
        // Nothing waits here: who does not know an address hands its packets over.
        self.learn(now, port, addr, mac);
    }

    /// Others do not know a link address that is known here: they are told again.
    pub fn is_unknown_elsewhere(&mut self, port: PortId, addr: Addr) {
        self.table.get_mut(&(port, addr)).into_iter().for_each(|entry| entry.untold = true);
    }

    /// The link address of which others are to be told now; nothing: they know it, or have been told just before.
    pub fn take_to_tell(&mut self, now: u64, port: PortId, addr: Addr) -> Option<Mac> {
        self.table.get_mut(&(port, addr))?.take_to_tell(now)
    }

    /// All of which they are to be told now.
    pub fn all_to_tell(&mut self, now: u64) -> Vec<(PortId, Addr, Mac)> {
        let all = self.table.iter_mut().filter(|(_, entry)| entry.untold);
        let mut told: Vec<_> =
            all.filter_map(|((port, addr), entry)| Some((*port, *addr, entry.take_to_tell(now)?))).collect();
        told.sort_unstable_by_key(|(port, addr, _)| (*port, *addr));
        told
    }

    /// The host's stack knows a link address: it is used for now, and asked for when it is. Not in the place of what is known here.
    pub fn seed(&mut self, now: u64, port: PortId, addr: Addr, mac: Mac) {
        let payer = Payer::NOBODY;
        if !self.table.contains_key(&(port, addr)) && self.shares.take(payer, 1) {
            let known = Some((mac, now.saturating_sub(FRESH_FOR)));
            self.table.insert((port, addr), Entry { known, ..Entry::new(payer) });
        }
    }

    /// When [`Resolver::expire`] has something to do.
    pub fn deadline(&self) -> Option<u64> {
        self.table.values().filter(|entry| !entry.waiting.is_empty()).map(|entry| entry.deadline).min()
    }

    /// What to ask again, and packets whose next hop does not answer.
    pub fn expire(&mut self, now: u64) -> (Vec<Key>, Vec<Frame>) {
        let (mut asks, mut gone) = (Vec::new(), Vec::new());
        for (key, entry) in &mut self.table {
            if entry.waiting.is_empty() || entry.deadline > now {
                continue;
            }
            if entry.asks >= ASKS_MAX {
                gone.extend(entry.waiting.drain(..));
            } else {
                entry.asks += 1;
                entry.deadline = now + ASK_AGAIN;
                asks.push(*key);
            }
        }
        asks.sort_unstable();
        (asks, gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOP: Addr = Addr::v4([10, 0, 0, 2]);
    const MAC: Mac = Mac([2, 0, 0, 0, 0, 2]);

    fn packet() -> Frame {
        Frame::from_bytes(b"x")
    }

    #[test]
    fn packets_wait_for_the_first_answer_and_then_pass() {
        let mut resolver = Resolver::default();
        let port = PortId(0);
        assert_eq!(resolver.known(0, port, HOP), None);
        assert!(matches!(resolver.wait(0, port, HOP, packet()), Waiting { ask: true, displaced: None }));
        assert!(matches!(resolver.wait(0, port, HOP, packet()), Waiting { ask: false, displaced: None }));
        assert_eq!(resolver.learn(1, port, HOP, MAC).len(), 2);
        assert_eq!(resolver.known(2, port, HOP), Some((MAC, false)));
        let old = FRESH_FOR + 2;
        assert_eq!(resolver.known(old, port, HOP), Some((MAC, true)));
        assert_eq!(resolver.known(old, port, HOP), Some((MAC, false)));
        assert_eq!(resolver.known(KNOWN_FOR + 1, port, HOP), None);
        assert!(matches!(resolver.wait(KNOWN_FOR + 1, port, HOP, packet()), Waiting { ask: true, .. }));
    }

    #[test]
    fn others_are_told_what_was_asked_for_and_not_more_often_than_a_question_may_be_asked() {
        let (mut resolver, port) = (Resolver::default(), PortId(0));
        resolver.learn(0, port, HOP, MAC);
        assert_eq!(resolver.take_to_tell(0, port, HOP), None, "nobody has asked");
        let _ = resolver.wait(1, port, HOP, packet());
        resolver.learn(2, port, HOP, MAC);
        assert_eq!((resolver.take_to_tell(2, port, HOP), resolver.take_to_tell(2, port, HOP)), (Some(MAC), None));
        // A flood of answers, each with another address: the last one is told when its time has come.
        for at in 3..1000 {
            resolver.learn(at, port, HOP, Mac([2, 0, 0, 0, (at >> 8) as u8, at as u8]));
            assert_eq!(resolver.take_to_tell(at, port, HOP), None);
        }
        assert_eq!(resolver.all_to_tell(1000), []);
        let told = resolver.all_to_tell(2 + ASK_AGAIN);
        assert_eq!(told, [(port, HOP, Mac([2, 0, 0, 0, 3, 0xe7]))]);
        assert_eq!(resolver.all_to_tell(9 * ASK_AGAIN), []);
        // The same answer again says nothing new for a while.
        resolver.learn(2 + ASK_AGAIN, port, HOP, Mac([2, 0, 0, 0, 3, 0xe7]));
        assert_eq!(resolver.all_to_tell(9 * ASK_AGAIN), []);
    }

    #[test]
    fn what_the_first_worker_knows_has_room_at_others() {
        let mut resolver = Resolver::default();
        for hop in 0..2 * ENTRIES_MAX as u32 {
            resolver.believe(1, PortId(0), Addr::v4(hop.to_be_bytes()), MAC);
        }
        assert_eq!(resolver.table.len(), ENTRIES_MAX);
    }

    #[test]
    fn what_was_known_of_a_port_is_asked_anew_when_it_is_forgotten() {
        let mut resolver = Resolver::default();
        for port in [PortId(0), PortId(1)] {
            let _ = resolver.wait(0, port, HOP, packet());
            assert_eq!(resolver.learn(1, port, HOP, MAC).len(), 1);
        }
        resolver.forget(PortId(0));
        assert_eq!(resolver.known(2, PortId(0), HOP), None);
        assert_eq!(resolver.known(2, PortId(1), HOP), Some((MAC, false)));
        assert!(matches!(resolver.wait(2, PortId(0), HOP, packet()), Waiting { ask: true, displaced: None }));
    }

    #[test]
    fn a_silent_next_hop_is_asked_a_few_times_and_given_up() {
        let mut resolver = Resolver::default();
        let _ = resolver.wait(0, PortId(0), HOP, packet());
        let mut asked = 1;
        let mut now = 0;
        let gone = loop {
            now = resolver.deadline().unwrap_or(now);
            let (asks, gone) = resolver.expire(now);
            asked += asks.len() as u32;
            if !gone.is_empty() {
                break gone;
            }
        };
        assert_eq!((asked, gone.len()), (ASKS_MAX, 1));
        assert_eq!(resolver.deadline(), None);
    }

    #[test]
    fn unasked_answers_and_too_many_next_hops_change_nothing() {
        let mut resolver = Resolver::default();
        assert!(resolver.learn(0, PortId(0), HOP, MAC).is_empty());
        assert_eq!(resolver.table.len(), 0);
        for hop in 0..2 * ENTRIES_MAX as u32 {
            let _ = resolver.wait(0, PortId(0), Addr::v4(hop.to_be_bytes()), packet());
        }
        assert_eq!(resolver.table.len(), ENTRIES_MAX / 2);
    }

    #[test]
    fn a_flood_of_next_hops_leaves_others_room_and_ends_with_its_questions() {
        let mut resolver = Resolver::default();
        let from = |payer: u16| {
            let mut frame = packet();
            frame.payer = Payer(payer);
            frame
        };
        let hop = |number: u32| Addr::v4((0x0a00_0000 + number).to_be_bytes());
        for number in 0..5000 {
            let _ = resolver.wait(0, PortId(0), hop(number), from(1));
        }
        for number in 5000..5200 {
            let waiting = resolver.wait(1, PortId(0), hop(number), from(2));
            assert!(waiting.ask && waiting.displaced.is_none(), "{number}");
        }
        let mut now = 0;
        while let Some(deadline) = resolver.deadline() {
            now = deadline;
            resolver.expire(now);
        }
        assert!(now < 2_000_000_000, "all are given up in time");
        // Nobody answered, so nothing is held: who has flooded has its share again.
        for number in 6000..6500 {
            assert!(resolver.wait(now + ASK_AGAIN, PortId(0), hop(number), from(1)).ask, "{number}");
        }
    }
}
