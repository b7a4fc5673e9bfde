//! A ring between one thread that tells and one that listens: bounded, without locks, and without allocation.
//!
//! Example: the worker tells that a frame of 84 bytes came in. That is a record of four words and eleven words of bytes. If so much is not
//! free, the record is not written and counts as missed: whoever tells never waits. The memory is made of atomic words, so nothing
//! in it can be torn, and nothing here is unsafe.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Words at the beginning of a record; the upper half of the first is the number of bytes behind them.
pub const HEAD: usize = 4;

/// Bytes of the longest record: a frame of any size, with the headers of an overlay.
pub const RECORD_MAX: usize = 128 << 10;

/// What both ends see.
struct Shared {
    words: Box<[AtomicU64]>,
    /// Words told since the beginning, and words heard.
    told: AtomicU64,
    heard: AtomicU64,
    /// Records for which there was no room.
    missed: AtomicU64,
    /// Whether nobody listens any more.
    closed: AtomicBool,
}

/// The end of the one who tells.
pub struct Teller {
    shared: Arc<Shared>,
    /// Words told, and words known to have been heard.
    told: u64,
    heard: u64,
}

/// The end of the one who listens.
pub struct Listener {
    shared: Arc<Shared>,
    heard: u64,
}

/// A ring of so many words, rounded up to a power of two.
pub fn ring(words: usize) -> (Teller, Listener) {
    let words = (0..words.next_power_of_two()).map(|_| AtomicU64::new(0)).collect();
    let (told, heard, missed) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let shared = Arc::new(Shared { words, told, heard, missed, closed: AtomicBool::new(false) });
    (Teller { shared: shared.clone(), told: 0, heard: 0 }, Listener { shared, heard: 0 })
}

impl Teller {
    /// Tells a record of a head and the bytes of two parts; false: there was no room, which is counted.
    pub fn tell(&mut self, head: [u64; HEAD], first: &[u8], second: &[u8]) -> bool {
        let bytes = first.len() + second.len();
        let words = (HEAD + bytes.div_ceil(8)) as u64;
        if bytes > RECORD_MAX || !self.has_room(words) {
            self.shared.missed.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        let mut at = self.told;
        let length = (bytes as u64) << 32;
        self.put(&mut at, head[0] & 0xffff_ffff | length);
        head[1..].iter().for_each(|word| self.put(&mut at, *word));
        // The first part may end within a word.
        let (whole, rest) = first.as_chunks::<8>();
        whole.iter().for_each(|chunk| self.put(&mut at, u64::from_le_bytes(*chunk)));
        let mut second = second;
        if !rest.is_empty() {
            let mut word = [0; 8];
            let (start, end) = word.split_at_mut(rest.len());
            start.copy_from_slice(rest);
            let (here, behind) = second.split_at(end.len().min(second.len()));
            end[..here.len()].copy_from_slice(here);
            second = behind;
            self.put(&mut at, u64::from_le_bytes(word));
        }
        let (whole, rest) = second.as_chunks::<8>();
        whole.iter().for_each(|chunk| self.put(&mut at, u64::from_le_bytes(*chunk)));
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.put(&mut at, u64::from_le_bytes(word));
        }
        self.told = at;
        self.shared.told.store(at, Ordering::Release);
        true
    }

    /// Whether nobody listens any more.
    pub fn is_closed(&self) -> bool {
        self.shared.closed.load(Ordering::Relaxed)
    }

    #[inline]
    fn has_room(&mut self, words: u64) -> bool {
        let size = self.shared.words.len() as u64;
        if self.told - self.heard + words > size {
            self.heard = self.shared.heard.load(Ordering::Acquire);
        }
        self.told - self.heard + words <= size
    }

    #[inline]
    fn put(&self, at: &mut u64, word: u64) {
        let place = *at as usize & (self.shared.words.len() - 1);
        if let Some(slot) = self.shared.words.get(place) {
            slot.store(word, Ordering::Relaxed);
        }
        *at += 1;
    }
}

impl Listener {
    /// Adds what was told to `into`, whole records as bytes, up to about so many; whether there was anything.
    pub fn hear(&mut self, into: &mut Vec<u8>, most: usize) -> bool {
        let told = self.shared.told.load(Ordering::Acquire);
        let (begun, before) = (into.len(), self.heard);
        while self.heard < told && into.len() - begun < most {
            let words = HEAD as u64 + (self.word(self.heard) >> 32).div_ceil(8);
            for at in self.heard..self.heard + words {
                into.extend_from_slice(&self.word(at).to_le_bytes());
            }
            self.heard += words;
        }
        self.shared.heard.store(self.heard, Ordering::Release);
        self.heard != before
    }

    /// Whether nobody tells any more, nor will.
    pub fn is_over(&self) -> bool {
        Arc::strong_count(&self.shared) == 1
    }

    /// From now on nobody listens.
    pub fn close(&mut self) {
        self.shared.closed.store(true, Ordering::Relaxed);
    }

    /// Records so far for which there was no room.
    pub fn missed(&self) -> u64 {
        self.shared.missed.load(Ordering::Relaxed)
    }

    fn word(&self, at: u64) -> u64 {
        let place = at as usize & (self.shared.words.len() - 1);
        self.shared.words.get(place).map_or(0, |word| word.load(Ordering::Relaxed))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_heard_or_missed() {
        let (mut teller, mut listener) = ring(32);
        let bytes: Vec<u8> = (0..=255).collect();
        let (mut told, mut heard, mut at) = (0u64, Vec::new(), 0u64);
        for round in 0..1000usize {
            let (first, second) = (round * 7 % 31, round * 5 % 41);
            at += 1;
            told += u64::from(teller.tell([1, at, 0, first as u64], &bytes[..first], &bytes[first..first + second]));
            if round % 3 == 0 {
                listener.hear(&mut heard, usize::MAX);
            }
        }
        listener.hear(&mut heard, usize::MAX);
        let (mut rest, mut count, mut last) = (&heard[..], 0, 0);
        while !rest.is_empty() {
            let word = |at: usize| u64::from_le_bytes(rest[at * 8..at * 8 + 8].try_into().unwrap());
            let (length, at) = ((word(0) >> 32) as usize, word(1));
            assert!(at > last, "in order");
            assert_eq!(rest[32..32 + length], bytes[..length], "the parts are one");
            (count, last) = (count + 1, at);
            rest = &rest[32 + length.next_multiple_of(8)..];
        }
        assert_eq!((count, told + listener.missed()), (told, 1000));
        assert!(listener.missed() > 0 && told > 300, "{told} told");
    }

    #[test]
    fn two_threads_lose_nothing_unseen() {
        let (mut teller, mut listener) = ring(1 << 10);
        let telling = std::thread::spawn(move || {
            (0..100_000u64).filter(|at| teller.tell([2, *at, *at, *at], &at.to_le_bytes(), &[])).count()
        });
        let (mut heard, mut count) = (Vec::new(), 0);
        loop {
            let done = telling.is_finished();
            while listener.hear(&mut heard, 4096) {
                for record in heard.chunks_exact(40) {
                    assert_eq!(record[8..16], record[32..40]);
                    count += 1;
                }
                heard.clear();
            }
            if done {
                break;
            }
        }
        assert_eq!((count, count as u64 + listener.missed()), (telling.join().unwrap(), 100_000));
    }

    #[test]
    fn who_listens_no_more_is_noticed() {
        let (mut teller, listener) = ring(8);
        assert!(!teller.is_closed() && !teller.tell([0; 4], &[0; 64], &[]), "longer than the ring");
        drop(listener);
        assert!(teller.is_closed());
    }
}
