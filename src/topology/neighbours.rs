//! Neighbours of a node, configured and learned. Example: 10.0.1.2 on port 1, heard a second ago.
//!
//! A *neighbour* is an active node that can be reached without another active node between. On an overlay port it is a
//! configured peer. On an Ethernet port it is a configured address, or the sender of a capsule from the port's own
//! subnet. Code is fetched from neighbours and served to neighbours only.
//!
//! Anybody on the link can forge the latter. So learned neighbours are forgotten after a while of silence and give way
//! when there are many: first those of the port with most, and there the latest. A neighbour heard for ten seconds
//! gives way to no other name of its own port. Configured neighbours stay.

use super::Ceiling;
use crate::frame::{Link, PeerId, PortId};
use crate::wire::{Addr, Prefix};

/// Neighbours one node knows.
pub const NEIGHBOURS_MAX: usize = 256;

/// Silence after which a learned neighbour is forgotten, in nanoseconds.
pub const SILENT_FOR: u64 = 60_000_000_000;

/// For how long a learned neighbour must have been heard to keep its place, in nanoseconds.
pub const ESTABLISHED_AFTER: u64 = 10_000_000_000;

/// When a configured neighbour was heard: it never counts as silent.
const ALWAYS: u64 = u64::MAX;

/// A port of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its name: that of the interface, or one from the configuration.
    pub name: String,
    /// Its kind of link.
    pub link: Link,
    /// The node's addresses on it, each with the subnet it is in.
    pub addresses: Vec<(Addr, Prefix)>,
    /// Bytes of the largest IP packet (Ethernet) or ANEP packet (overlay) it carries.
    pub mtu: usize,
    /// Its capacity in bits a second, 0 when unknown.
    pub bits_per_second: u64,
    /// The most that a resource bound counts for that comes in by it.
    pub ceiling: Ceiling,
}

impl Port {
    /// The node's address on this port that `peer` can answer to: of its family, and link-local only
    /// if `peer` is; any address if there is none such.
    #[inline]
    pub fn address_towards(&self, peer: Addr) -> Addr {
        let fits = |addr: &Addr| addr.is_v4() == peer.is_v4() && addr.is_link_local() == peer.is_link_local();
        let mut own = self.addresses.iter().map(|(addr, _)| *addr);
        let first = self.addresses.first().map_or(Addr::UNSPECIFIED, |(addr, _)| *addr);
        own.find(fits).unwrap_or(first)
    }

    /// Whether this is a place without a port: it carries no packet.
    pub fn is_vacant(&self) -> bool {
        self.mtu == 0
    }

    /// Whether packets for others can go to an address of its own link: one of an overlay has none but its neighbours.
    pub fn leads_to(&self, addr: Addr) -> bool {
        self.link != Link::Overlay && self.on_link(addr)
    }

    /// Whether `addr` is in a subnet of the port.
    pub fn on_link(&self, addr: Addr) -> bool {
        self.addresses.iter().any(|(own, subnet)| subnet.contains(addr) && *own != addr)
    }
}

/// An active node next to this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Its address.
    pub addr: Addr,
    /// The port towards it.
    pub port: PortId,
    /// Which peer of an overlay port it is.
    pub peer: PeerId,
}

/// A neighbour, and when it was heard last in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Known {
    neighbour: Neighbour,
    heard: u64,
    /// When it was heard first.
    since: u64,
    /// When it is forgotten, unless it is heard again.
    until: u64,
}

impl Known {
    fn is_learned(&self) -> bool {
        self.heard != ALWAYS
    }

    fn is_established(&self) -> bool {
        self.heard.saturating_sub(self.since) >= ESTABLISHED_AFTER
    }
}

/// The neighbours of a node, those configured first. Positions stay the same while one packet is
/// handled, so that mobile code can name a neighbour by its index.
#[derive(Clone, Debug, Default)]
pub struct Neighbours {
    list: Vec<Known>,
    /// How many are learned, by port.
    learned: Vec<u16>,
    changes: u64,
}

impl Neighbours {
    /// How often the list has changed.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Adds one that is configured, unless it is known or the table is full; gives its index.
    pub fn add(&mut self, neighbour: Neighbour) -> Option<u32> {
        match self.index(neighbour.port, neighbour.addr) {
            Some(index) => Some(index),
            None => self.push(Known { neighbour, heard: ALWAYS, since: 0, until: ALWAYS }),
        }
    }

    /// Those that are configured are these from now on. A learned one that is configured now stays where it is.
    pub fn configure(&mut self, wanted: &[Neighbour]) {
        let before: Vec<_> =
            self.list.iter().filter(|known| !known.is_learned()).map(|known| known.neighbour).collect();
        if before == wanted {
            return;
        }
        self.list.retain(|known| known.is_learned() || wanted.contains(&known.neighbour));
        self.changes += 1;
        for neighbour in wanted {
            if self.is_configured(neighbour.port, neighbour.addr) {
                continue;
            }
            // Whoever was learned under its name, or has shown itself last if there is no room, gives way.
            let full = self.list.len() >= NEIGHBOURS_MAX;
            let learned = || self.list.iter().rposition(Known::is_learned).filter(|_| full);
            let own = self.index(neighbour.port, neighbour.addr).map(|index| index as usize);
            if let Some(gone) = own.or_else(learned).map(|at| self.list.remove(at)) {
                self.learned[usize::from(gone.neighbour.port.0)] -= 1;
            }
            self.add(*neighbour);
        }
    }

    /// Adds one that has shown itself at `now`; another may have to give way to it. None if nobody has to.
    #[cold]
    pub fn learn(&mut self, neighbour: Neighbour, now: u64) -> Option<u32> {
        self.learn_until(neighbour, now, now + SILENT_FOR)
    }

    /// The same of one that is forgotten then, unless it is heard again.
    #[cold]
    pub fn learn_until(&mut self, neighbour: Neighbour, now: u64, until: u64) -> Option<u32> {
        let known = Known { neighbour, heard: now, since: now, until };
        if self.list.len() < NEIGHBOURS_MAX {
            return self.push(known);
        }
        let at = self.to_give_way(neighbour.port)?;
        let gone = core::mem::replace(&mut self.list[at], known);
        self.learned[usize::from(gone.neighbour.port.0)] -= 1;
        self.count_learned(neighbour.port);
        self.changes += 1;
        Some(at as u32)
    }

    /// Who gives way to a new name behind a port: of the port with most learned neighbours, if that has more than this one, else of
    /// this one; who is not established first, and of those the one silent for longest.
    fn to_give_way(&self, port: PortId) -> Option<usize> {
        let own = self.learned.get(usize::from(port.0)).copied().unwrap_or(0);
        let (largest, most) = self.learned.iter().enumerate().max_by_key(|(_, count)| **count)?;
        let from = if *most > own { PortId(largest as u16) } else { port };
        let (at, gone) = (self.list.iter().enumerate())
            .filter(|(_, known)| known.is_learned() && known.neighbour.port == from)
            .min_by_key(|(_, known)| (known.is_established(), known.heard))?;
        (from != port || !gone.is_established()).then_some(at)
    }

    fn push(&mut self, known: Known) -> Option<u32> {
        if self.list.len() >= NEIGHBOURS_MAX {
            return None;
        }
        self.list.push(known);
        if known.is_learned() {
            self.count_learned(known.neighbour.port);
        }
        self.changes += 1;
        Some(self.list.len() as u32 - 1)
    }

    fn count_learned(&mut self, port: PortId) {
        let at = usize::from(port.0);
        if self.learned.len() <= at {
            self.learned.resize(at + 1, 0);
        }
        self.learned[at] += 1;
    }

    /// The neighbour with this index has been heard at `now`.
    #[inline]
    pub fn hear(&mut self, index: u32, now: u64) {
        if let Some(known) = self.list.get_mut(index as usize)
            && known.heard != ALWAYS
        {
            known.heard = now;
            known.until = known.until.max(now + SILENT_FOR);
        }
    }

    /// Those learned that were heard since then.
    pub fn heard_since(&self, then: u64) -> Vec<(PortId, Addr)> {
        let heard = self.list.iter().filter(|known| known.is_learned() && known.heard >= then);
        heard.map(|known| (known.neighbour.port, known.neighbour.addr)).collect()
    }

    /// Somebody else's list: of those learned it counts when they were heard here, as this list of before says.
    pub fn keep_heard(&mut self, before: &Neighbours) {
        for known in self.list.iter_mut().filter(|known| known.is_learned()) {
            let is = |own: &&Known| own.is_learned() && own.neighbour == known.neighbour;
            known.heard = before.list.iter().find(is).map_or(0, |own| own.heard);
        }
    }

    /// The same of one that has said when it will speak again: it stays until then at least. Nobody makes it go sooner.
    pub fn hear_until(&mut self, index: u32, now: u64, until: u64) {
        if let Some(known) = self.list.get_mut(index as usize)
            && known.heard != ALWAYS
        {
            (known.heard, known.until) = (now, known.until.max(until));
        }
    }

    /// Forgets learned neighbours that are silent for too long. Call it between packets.
    pub fn forget_silent(&mut self, now: u64) {
        let before = self.list.len();
        let Neighbours { list, learned, .. } = self;
        list.retain(|known| {
            let stays = !known.is_learned() || now < known.until;
            if !stays {
                learned[usize::from(known.neighbour.port.0)] -= 1;
            }
            stays
        });
        self.changes += u64::from(self.list.len() != before);
    }

    /// Forgets those learned behind a port that is there no more. Call it between packets.
    pub fn forget_behind(&mut self, port: PortId) {
        let before = self.list.len();
        self.list.retain(|known| !known.is_learned() || known.neighbour.port != port);
        if let Some(learned) = self.learned.get_mut(usize::from(port.0)) {
            *learned = 0;
        }
        self.changes += u64::from(self.list.len() != before);
    }

    /// The index of the neighbour with this address on this port.
    #[inline]
    pub fn index(&self, port: PortId, addr: Addr) -> Option<u32> {
        let is = |known: &Known| known.neighbour.port == port && known.neighbour.addr == addr;
        self.list.iter().position(is).map(|at| at as u32)
    }

    /// The neighbour behind an overlay peer.
    #[inline]
    pub fn of_peer(&self, port: PortId, peer: PeerId) -> Option<(u32, &Neighbour)> {
        let is = |known: &Known| known.neighbour.port == port && known.neighbour.peer == peer;
        let at = self.list.iter().position(is)?;
        Some((at as u32, &self.list[at].neighbour))
    }

    /// The neighbour with this index.
    pub fn of(&self, index: u32) -> Option<&Neighbour> {
        self.list.get(index as usize).map(|known| &known.neighbour)
    }

    /// All neighbours.
    pub fn iter(&self) -> impl Iterator<Item = &Neighbour> {
        self.list.iter().map(|known| &known.neighbour)
    }

    /// That at a place, in the order of [`Neighbours::iter`].
    pub fn at(&self, place: usize) -> Option<&Neighbour> {
        self.list.get(place).map(|known| &known.neighbour)
    }

    /// How many are known.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether a neighbour stands in the configuration.
    pub fn is_configured(&self, port: PortId, addr: Addr) -> bool {
        let at = self.index(port, addr).and_then(|index| self.list.get(index as usize));
        at.is_some_and(|known| known.heard == ALWAYS)
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(n: u32) -> Neighbour {
        Neighbour { addr: Addr(u128::from(n).to_be_bytes()), port: PortId(0), peer: PeerId::NONE }
    }

    #[test]
    fn the_table_is_bounded() {
        let mut neighbours = Neighbours::default();
        for n in 0..NEIGHBOURS_MAX as u32 {
            assert_eq!(neighbours.add(at(n)), Some(n));
        }
        assert_eq!(neighbours.add(at(9999)), None);
        assert_eq!(neighbours.learn(at(9999), 1), None, "who is configured gives way to nobody");
        assert_eq!(neighbours.add(at(3)), Some(3));
        assert_eq!(neighbours.len(), NEIGHBOURS_MAX);
    }

    #[test]
    fn who_takes_a_list_over_has_heard_only_whom_it_heard_itself() {
        let (mut told, mut own) = (Neighbours::default(), Neighbours::default());
        told.add(at(0));
        (1..4).for_each(|n| _ = told.learn(at(n), 100));
        own.learn(at(2), 90);
        own.learn(at(9), 95);
        told.keep_heard(&own);
        let heard = |then| told.heard_since(then).iter().map(|(_, addr)| *addr).collect::<Vec<_>>();
        assert_eq!((heard(90), heard(91)), (vec![at(2).addr], vec![]));
        assert_eq!(told.len(), 4, "they are known all the same");
    }

    #[test]
    fn of_those_learned_the_longest_silent_gives_way() {
        let mut neighbours = Neighbours::default();
        neighbours.add(at(0));
        let honest = neighbours.learn(at(1), 0).unwrap();
        for n in 2..2000 {
            neighbours.hear(honest, u64::from(n));
            neighbours.learn(at(n), u64::from(n)).unwrap();
        }
        let knows = |n| neighbours.index(PortId(0), at(n).addr).is_some();
        assert!(knows(0) && knows(1) && knows(1999) && !knows(2));
        assert_eq!(neighbours.len(), NEIGHBOURS_MAX);
    }

    #[test]
    fn a_flood_of_names_displaces_no_established_neighbour_and_none_of_other_ports() {
        let mut neighbours = Neighbours::default();
        let behind = |port: u16, n: u32| Neighbour { port: PortId(port), ..at(n) };
        let old = neighbours.learn(behind(0, 1), 0).unwrap();
        neighbours.hear(old, ESTABLISHED_AFTER);
        let new = neighbours.learn(behind(1, 2), ESTABLISHED_AFTER);
        assert!(new.is_some());
        for n in 3..5000 {
            neighbours.learn(behind(0, n), ESTABLISHED_AFTER + u64::from(n));
        }
        let knows = |list: &Neighbours, port, n| list.index(PortId(port), at(n).addr).is_some();
        assert!(knows(&neighbours, 0, 1), "established, though silent for longest");
        assert!(knows(&neighbours, 1, 2), "of a port with fewer");
        assert!(neighbours.learn(behind(1, 9000), ESTABLISHED_AFTER).is_some() && knows(&neighbours, 1, 2));
        assert_eq!(neighbours.len(), NEIGHBOURS_MAX);
    }

    #[test]
    fn others_can_be_configured_and_those_learned_stay() {
        let mut neighbours = Neighbours::default();
        neighbours.add(at(0));
        neighbours.add(at(1));
        (2..NEIGHBOURS_MAX as u32).for_each(|n| _ = neighbours.learn(at(n), 0));
        let before = neighbours.changes();
        neighbours.configure(&[at(0), at(1)]);
        assert_eq!(neighbours.changes(), before, "nothing has changed");
        neighbours.configure(&[at(1), at(2), at(1000)]);
        let is = |n| neighbours.index(PortId(0), at(n).addr).map(|_| neighbours.is_configured(PortId(0), at(n).addr));
        assert_eq!([0, 1, 2, 3, 1000].map(is), [None, Some(true), Some(true), Some(false), Some(true)]);
        assert_eq!(neighbours.len(), NEIGHBOURS_MAX, "there was room");
        neighbours.configure(&[at(1), at(2), at(1000), at(1001)]);
        assert_eq!(neighbours.len(), NEIGHBOURS_MAX, "one that was learned has given way");
        neighbours.forget_silent(u64::MAX);
        assert_eq!(neighbours.len(), 4);
    }

    #[test]
    fn those_learned_are_forgotten_after_silence() {
        let mut neighbours = Neighbours::default();
        neighbours.add(at(0));
        neighbours.learn(at(1), 0).unwrap();
        let heard = neighbours.learn(at(2), 0).unwrap();
        neighbours.hear(heard, 1);
        neighbours.hear(0, 1);
        neighbours.forget_silent(SILENT_FOR - 1);
        assert_eq!(neighbours.len(), 3);
        neighbours.forget_silent(SILENT_FOR);
        assert_eq!(neighbours.iter().copied().collect::<Vec<_>>(), [at(0), at(2)]);
        neighbours.forget_silent(u64::MAX);
        assert_eq!(neighbours.len(), 1, "who is configured stays");
    }

    #[test]
    fn the_own_address_has_the_family_of_the_peer() {
        let addr = |text: &str| text.parse::<Addr>().unwrap();
        let port = Port {
            name: "p".into(),
            link: Link::Overlay,
            addresses: vec![
                (addr("10.0.0.1"), "10.0.0.0/24".parse().unwrap()),
                (addr("2001:db8::1"), "2001:db8::/64".parse().unwrap()),
            ],
            mtu: 1500,
            bits_per_second: 0,
            ceiling: Ceiling::default(),
        };
        assert_eq!(port.address_towards(addr("2001:db8::9")), addr("2001:db8::1"));
        assert_eq!(port.address_towards(addr("192.0.2.1")), addr("10.0.0.1"));
        assert!(port.on_link(addr("10.0.0.7")) && !port.on_link(addr("10.0.1.7")));
        assert!(!port.on_link(addr("10.0.0.1")), "the own address is no neighbour");
    }
}
