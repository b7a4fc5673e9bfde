//! The books of a simulation: where every packet is.
//!
//! Each capsule frame has an identity of its own: injected ones and those a link doubles get it from here, children
//! from their node (whose identities begin above [`CHILDREN`]). A packet is in a node, on a link, or has ended, in one
//! way only. So at any time injected + children + doubled + forged = ended + alive, and a leak is a packet that stays
//! alive.

use std::collections::{HashMap, VecDeque};

/// Identities from here on are those of children: the number of the node's life is above it.
const CHILDREN: u64 = 1 << 32;

/// What is known of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    /// When the packet that it comes from was injected, in nanoseconds.
    pub(super) since: u64,
    /// Links it has crossed, those of its parents included.
    pub(super) hops: u32,
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Node(u32),
    Link,
    Ended,
}

/// All packets that are alive, and some that ended lately.
#[derive(Default)]
pub(super) struct Packets {
    /// Identity of the first in `row`.
    first: u64,
    row: VecDeque<Packet>,
    children: HashMap<u64, Packet, foldhash::fast::FixedState>,
    alive: u64,
}

impl Packets {
    pub(super) fn new() -> Packets {
        // 0 is the identity of what is no packet.
        Packets { first: 1, ..Packets::default() }
    }

    /// How many are alive.
    pub(super) fn alive(&self) -> u64 {
        self.alive
    }

    /// The identity of a new packet in node `node`.
    pub(super) fn begin(&mut self, since: u64, node: usize) -> u64 {
        self.alive += 1;
        self.row.push_back(Packet { since, hops: 0, place: Place::Node(node as u32) });
        let identity = self.first + self.row.len() as u64 - 1;
        debug_assert!(identity < CHILDREN);
        identity
    }

    /// The identity of a copy that a link has made.
    pub(super) fn copy(&mut self, of: u64) -> u64 {
        let copied = self.of(of).map(|packet| Packet { place: Place::Link, ..*packet });
        let packet = copied.unwrap_or(Packet { since: 0, hops: 0, place: Place::Link });
        self.alive += 1;
        self.row.push_back(packet);
        self.first + self.row.len() as u64 - 1
    }

    /// A packet's code has sent a child.
    pub(super) fn child(&mut self, parent: u64, child: u64) {
        let Some(parent) = self.of(parent).copied() else { return };
        self.alive += 1;
        self.children.insert(child, parent);
    }

    /// A packet has come to a node; false if there is no such packet.
    #[inline]
    pub(super) fn arrive(&mut self, identity: u64, node: usize) -> bool {
        self.of(identity).is_some_and(|packet| {
            packet.place = Place::Node(node as u32);
            packet.hops += 1;
            true
        })
    }

    /// A packet has left its node.
    #[inline]
    pub(super) fn leave(&mut self, identity: u64) {
        if let Some(packet) = self.of(identity) {
            packet.place = Place::Link;
        }
    }

    /// A packet has ended; gives what was known of it, or nothing if it had ended before.
    #[inline]
    pub(super) fn end(&mut self, identity: u64) -> Option<Packet> {
        let ended = if identity >= CHILDREN {
            self.children.remove(&identity)?
        } else {
            let packet = self.of(identity).filter(|packet| packet.place != Place::Ended)?;
            let ended = *packet;
            packet.place = Place::Ended;
            while self.row.front().is_some_and(|packet| packet.place == Place::Ended) {
                self.row.pop_front();
                self.first += 1;
            }
            ended
        };
        self.alive -= 1;
        Some(ended)
    }

    /// The packets in a node, in the order of their identities.
    pub(super) fn in_node(&self, node: usize) -> Vec<u64> {
        let here = Place::Node(node as u32);
        let row = self.row.iter().enumerate().filter(|(_, packet)| packet.place == here);
        let mut found: Vec<u64> = row.map(|(at, _)| self.first + at as u64).collect();
        found.extend(self.children.iter().filter(|(_, packet)| packet.place == here).map(|(identity, _)| *identity));
        found.sort_unstable();
        found
    }

    #[inline]
    fn of(&mut self, identity: u64) -> Option<&mut Packet> {
        if identity >= CHILDREN {
            return self.children.get_mut(&identity);
        }
        self.row.get_mut(usize::try_from(identity.checked_sub(self.first)?).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_ends_once() {
        let mut packets = Packets::new();
        let (one, two) = (packets.begin(5, 0), packets.begin(6, 0));
        packets.leave(two);
        let copy = packets.copy(two);
        packets.child(one, CHILDREN + 7);
        assert_eq!(packets.alive(), 4);
        assert_eq!(packets.in_node(0), [one, CHILDREN + 7]);
        assert_eq!(packets.end(one).unwrap().since, 5);
        assert!(packets.end(one).is_none());
        assert_eq!(packets.end(copy).unwrap().since, 6);
        assert!(packets.arrive(two, 3));
        assert_eq!(packets.in_node(3), [two]);
        assert_eq!(packets.end(two).unwrap().hops, 1);
        assert!(packets.end(CHILDREN + 7).is_some() && packets.end(CHILDREN + 7).is_none());
        assert_eq!((packets.alive(), packets.row.len()), (0, 0));
    }
}
