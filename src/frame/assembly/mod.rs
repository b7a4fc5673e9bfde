//! Messages in pieces, until they are whole: one bounded table for every wire form. Example: fragments 0 and 2 of 3
//! wait a second for 1.
//!
//! ```text
//! piece ─▶ its message here? ─▶ to its place in it ─▶ all here? ─▶ the message
//!           │ no: one begins. What is late goes, and while there is no room the oldest of whoever has most of what is short
//! ```
//!
//! A key says of whom a message is and which one, so that nobody's pieces get into another's. What pieces look like, where they belong and
//! whom they count for is the user's: messages and chunks of PLAN (`ee/plan/pieces.rs`, `parts.rs`), fragments and sums of channels
//! (`graph/engines`), and code (`code/fetch/assembly.rs`), which has its pieces from here and a table of searches of its own.

#[cfg(test)]
mod tests;

use super::shares::Shares;
use std::hash::Hash;

/// Which pieces of one message are here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pieces {
    here: [u64; 4],
    count: u8,
    left: u8,
}

impl Pieces {
    /// None of so many.
    pub fn new(count: u8) -> Pieces {
        Pieces { here: [0; 4], count, left: count }
    }

    /// How many the message has.
    pub fn count(&self) -> u8 {
        self.count
    }

    /// Whether a piece is here.
    pub fn has(&self, index: u8) -> bool {
        self.here[usize::from(index / 64)] >> (index % 64) & 1 != 0
    }

    /// A piece is here; whether it is one of the message, and was not here before.
    pub fn note(&mut self, index: u8) -> bool {
        let new = index < self.count && !self.has(index);
        if new {
            self.here[usize::from(index / 64)] |= 1 << (index % 64);
            self.left -= 1;
        }
        new
    }

    /// How many are here.
    pub fn here(&self) -> u8 {
        self.count - self.left
    }

    /// Whether all are here.
    pub fn are_whole(&self) -> bool {
        self.left == 0
    }

    /// Which of the first 64 are not here, bit by bit.
    pub fn missing(&self) -> u64 {
        let all = if self.count >= 64 { u64::MAX } else { (1 << self.count) - 1 };
        all & !self.here[0]
    }
}

/// A piece that has no place in its message: it would lie outside, or is shorter or longer than what belongs there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misfit;

/// A message of known length in pieces of one size, but for the last one.
#[derive(Clone, Debug)]
pub struct PartialMessage {
    pieces: Pieces,
    size: usize,
    total: usize,
    bytes: Vec<u8>,
}

impl PartialMessage {
    /// Nothing yet of `total` bytes in so many pieces of so many bytes.
    pub fn new(count: u8, size: usize, total: usize) -> PartialMessage {
        PartialMessage { pieces: Pieces::new(count), size, total, bytes: vec![0; total] }
    }

    /// Which pieces are here.
    pub fn pieces(&self) -> &Pieces {
        &self.pieces
    }

    /// Bytes of the whole.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Puts a piece to its place; whether it was not there before. The first that comes stays.
    pub fn put(&mut self, index: u8, piece: &[u8]) -> Result<bool, Misfit> {
        let start = usize::from(index).saturating_mul(self.size);
        let length = self.total.checked_sub(start).map(|left| left.min(self.size));
        if index >= self.pieces.count() || length != Some(piece.len()) {
            return Err(Misfit);
        }
        let new = self.pieces.note(index);
        if new && let Some(room) = self.bytes.get_mut(start..start + piece.len()) {
            room.copy_from_slice(piece);
        }
        Ok(new)
    }

    /// The bytes, once all are here; then it holds none, but knows what it was.
    pub fn whole(&mut self) -> Option<Vec<u8>> {
        self.pieces.are_whole().then(|| core::mem::take(&mut self.bytes))
    }
}

/// What one table may hold, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct AssemblyLimits {
    /// Messages under assembly.
    pub messages: usize,
    /// Bytes that all of them count.
    pub bytes: usize,
    /// Nanoseconds from a message's first piece until it is given up.
    pub within: u64,
}

struct Entry<Key, Owner, Body> {
    key: Key,
    owner: Owner,
    bytes: usize,
    until: u64,
    body: Body,
}

/// Messages under assembly, in bodies of whatever form. Places are numbers that hold until the next call that may let messages go.
pub struct Assemblies<Key, Owner, Body> {
    limits: AssemblyLimits,
    /// The oldest first.
    list: Vec<Entry<Key, Owner, Body>>,
    places: Shares<Owner>,
    bytes: Shares<Owner>,
    lost: u32,
}

impl<Key: PartialEq, Owner: Copy + Eq + Hash + Ord, Body> Assemblies<Key, Owner, Body> {
    /// A table without a message.
    pub fn new(limits: AssemblyLimits) -> Assemblies<Key, Owner, Body> {
        let (places, bytes) = (Shares::new(limits.messages as u64), Shares::new(limits.bytes as u64));
        Assemblies { limits, list: Vec::new(), places, bytes, lost: 0 }
    }

    /// The place of a message that is not late.
    pub fn find(&self, now: u64, key: &Key) -> Option<usize> {
        self.list.iter().position(|entry| entry.key == *key && now < entry.until)
    }

    /// Begins a message that counts so many bytes for its owner, and gives its place; `gone` takes the bodies of those that go for it.
    /// None: no table of this size holds it.
    pub fn begin(
        &mut self,
        now: u64,
        (key, owner): (Key, Owner),
        bytes: usize,
        body: Body,
        mut gone: impl FnMut(Body),
    ) -> Option<usize> {
        if bytes > self.limits.bytes || self.limits.messages == 0 {
            return None;
        }
        self.expire(now, &mut gone);
        while self.list.len() >= self.limits.messages || self.held().saturating_add(bytes) > self.limits.bytes {
            let at = self.worst()?;
            self.lose(at, &mut gone);
        }
        self.places.take_back(owner, 1);
        self.bytes.take_back(owner, bytes as u64);
        self.list.push(Entry { key, owner, bytes, until: now.saturating_add(self.limits.within), body });
        Some(self.list.len() - 1)
    }

    /// A message counts so many bytes more, and gets another place. None: it is too long, or its owner's share of the
    /// bytes is, and it has gone.
    pub fn grow(&mut self, at: usize, bytes: usize, mut gone: impl FnMut(Body)) -> Option<usize> {
        let mut at = at;
        let own = self.list.get(at)?.bytes.saturating_add(bytes);
        if own > self.limits.bytes {
            self.lose(at, &mut gone);
            return None;
        }
        while self.held() + bytes > self.limits.bytes {
            let worst = self.worst()?;
            self.lose(worst, &mut gone);
            if worst == at {
                return None;
            }
            at -= usize::from(worst < at);
        }
        let entry = self.list.get_mut(at)?;
        entry.bytes = own;
        self.bytes.take_back(entry.owner, bytes as u64);
        Some(at)
    }

    /// The message at a place.
    pub fn get_mut(&mut self, at: usize) -> Option<&mut Body> {
        self.list.get_mut(at).map(|entry| &mut entry.body)
    }

    /// Takes the message at a place out: it is whole, or not wanted.
    pub fn take(&mut self, at: usize) -> Option<Body> {
        if at >= self.list.len() {
            return None;
        }
        let entry = self.list.remove(at);
        self.places.give(entry.owner, 1);
        self.bytes.give(entry.owner, entry.bytes as u64);
        Some(entry.body)
    }

    /// Gives up what is late.
    pub fn expire(&mut self, now: u64, mut gone: impl FnMut(Body)) {
        while self.list.first().is_some_and(|entry| entry.until <= now) {
            self.lose(0, &mut gone);
        }
    }

    /// When [`Assemblies::expire`] has something to do.
    pub fn next_timer(&self) -> u64 {
        self.list.first().map_or(u64::MAX, |entry| entry.until)
    }

    /// The messages under assembly.
    pub fn bodies(&self) -> impl Iterator<Item = &Body> {
        self.list.iter().map(|entry| &entry.body)
    }

    /// Messages that went before they were whole, since this was last asked.
    pub fn lost(&mut self) -> u32 {
        core::mem::take(&mut self.lost)
    }

    /// Messages under assembly.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Bytes that they count.
    pub fn held(&self) -> usize {
        self.bytes.held() as usize
    }

    /// Where something must go: the oldest of whoever has most places, or most bytes if there are places.
    fn worst(&self) -> Option<usize> {
        let full = self.list.len() >= self.limits.messages;
        let most = if full { self.places.largest() } else { self.bytes.largest() }?;
        self.list.iter().position(|entry| entry.owner == most)
    }

    fn lose(&mut self, at: usize, gone: &mut impl FnMut(Body)) {
        if let Some(body) = self.take(at) {
            self.lost = self.lost.saturating_add(1);
            gone(body);
        }
    }
}
