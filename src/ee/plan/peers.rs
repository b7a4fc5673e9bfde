//! The codes that neighbours hold, so that packets need not carry them again.
//!
//! Two tables of fixed size, in which any entry may take the place of another: then a code travels once more. A
//! neighbour that reports a code as missing only makes the node ask. Such a report is answered once for each digest
//! that was sent, so nobody can have codes sent to others.

use crate::frame::PortId;
use crate::wire::Addr;
use plan::program::Digest;

/// Places in each table.
const PLACES: usize = 1024;

/// Nanoseconds after which a neighbour that goes on sending a code whole is told again.
const AGAIN: u64 = 1_000_000_000;

#[derive(Clone, Copy)]
struct Entry {
    port: PortId,
    addr: Addr,
    digest: Digest,
    /// In the table of what others hold: whether they were sent the digest. In the other: when they were told.
    mark: u64,
}

#[derive(Default)]
struct Places(Vec<Option<Entry>>);

impl Places {
    fn place(&mut self, port: PortId, addr: Addr, digest: &Digest) -> Option<&mut Option<Entry>> {
        if self.0.is_empty() {
            self.0.resize(PLACES, None);
        }
        // The digest is as good as random.
        let mut word = [0; 8];
        word.copy_from_slice(&digest.0[..8]);
        let low = u128::from_be_bytes(addr.0) as u64;
        let mixed = (low ^ u64::from(port.0) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from_le_bytes(word);
        self.0.get_mut((mixed >> 32) as usize % PLACES)
    }

    fn find(&mut self, port: PortId, addr: Addr, digest: &Digest) -> Option<&mut Entry> {
        if self.0.is_empty() {
            return None;
        }
        let entry = self.place(port, addr, digest)?.as_mut()?;
        (entry.port == port && entry.addr == addr && entry.digest == *digest).then_some(entry)
    }

    fn put(&mut self, entry: Entry) {
        if let Some(place) = self.place(entry.port, entry.addr, &entry.digest) {
            *place = Some(entry);
        }
    }
}

/// What neighbours hold, and what they were told.
#[derive(Default)]
pub struct Peers {
    held: Places,
    told: Places,
}

impl Peers {
    /// A neighbour holds a code.
    pub fn learn(&mut self, port: PortId, addr: Addr, digest: Digest) {
        if self.held.find(port, addr, &digest).is_none() {
            self.held.put(Entry { port, addr, digest, mark: 0 });
        }
    }

    /// Whether a neighbour holds a code.
    #[inline]
    pub fn knows(&mut self, port: PortId, addr: Addr, digest: &Digest) -> bool {
        self.held.find(port, addr, digest).is_some()
    }

    /// A neighbour is sent the digest alone.
    #[inline]
    pub fn mark(&mut self, port: PortId, addr: Addr, digest: &Digest) {
        if let Some(entry) = self.held.find(port, addr, digest) {
            entry.mark = 1;
        }
    }

    /// A neighbour asks for a code, so it does not hold it; whether it was sent the digest.
    pub fn lacks(&mut self, port: PortId, addr: Addr, digest: &Digest) -> bool {
        let Some(entry) = self.held.find(port, addr, digest) else { return false };
        let marked = entry.mark != 0;
        if marked && let Some(place) = self.held.place(port, addr, digest) {
            *place = None;
        }
        marked
    }

    /// Whether a neighbour that sends a code whole is to be told that it need not.
    pub fn tell(&mut self, now: u64, port: PortId, addr: Addr, digest: &Digest) -> bool {
        if let Some(entry) = self.told.find(port, addr, digest) {
            if now.saturating_sub(entry.mark) < AGAIN {
                return false;
            }
            entry.mark = now;
            return true;
        }
        self.told.put(Entry { port, addr, digest: *digest, mark: now });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORT: PortId = PortId(1);
    const ADDR: Addr = Addr([1; 16]);

    #[test]
    fn a_code_is_given_once_for_each_digest_that_was_sent() {
        let digest = Digest([7; 32]);
        let mut peers = Peers::default();
        assert!(!peers.lacks(PORT, ADDR, &digest));
        peers.learn(PORT, ADDR, digest);
        assert!(!peers.lacks(PORT, ADDR, &digest), "it was sent nothing");
        assert!(peers.knows(PORT, ADDR, &digest) && !peers.knows(PortId(2), ADDR, &digest));
        peers.mark(PORT, ADDR, &digest);
        assert!(peers.lacks(PORT, ADDR, &digest) && !peers.lacks(PORT, ADDR, &digest));
        assert!(!peers.knows(PORT, ADDR, &digest));
    }

    #[test]
    fn a_neighbour_is_told_once_a_second() {
        let mut peers = Peers::default();
        let mut told = |now| peers.tell(now, PORT, ADDR, &Digest([1; 32]));
        assert_eq!([told(5), told(AGAIN), told(AGAIN + 5), told(AGAIN + 6)], [true, false, true, false]);
    }

    #[test]
    fn other_codes_take_places_and_nothing_grows() {
        let mut peers = Peers::default();
        for number in 0..10_000u32 {
            let mut digest = [0; 32];
            digest[..4].copy_from_slice(&number.to_be_bytes());
            digest[4..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9).to_be_bytes());
            peers.learn(PORT, ADDR, Digest(digest));
            assert!(peers.knows(PORT, ADDR, &Digest(digest)));
        }
        assert_eq!(peers.held.0.len(), PLACES);
    }
}
