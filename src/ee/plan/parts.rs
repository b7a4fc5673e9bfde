//! Chunks in parts, until they are whole ([`crate::frame::assembly`]): the contents of `reassemble` layers.
//!
//! A chunk is named by the claimed source of its packets, a key drawn by its maker, and the number of its parts. Both
//! can be forged, so places and bytes are charged to the payer of each part.

use super::holders::Holder;
use crate::frame::assembly::{Assemblies, AssemblyLimits, Pieces};
use plan::value::Host;
use std::sync::Arc;

/// Chunks on their way.
const CHUNKS_MAX: usize = 64;

/// Bytes of all their parts.
const BYTES_MAX: usize = 1 << 20;

/// Parts of one chunk.
pub const PARTS_MAX: u8 = u8::MAX;

/// Nanoseconds within which all parts must come.
const WITHIN: u64 = 10_000_000_000;

/// What a chunk is known by.
pub type PartsKey = (Host, [u8; 16], u8);

/// The parts of one chunk, of any length each, as they came.
struct Parts {
    pieces: Pieces,
    list: Vec<(u8, Arc<[u8]>)>,
}

/// Chunks on their way.
pub struct Chunks {
    table: Assemblies<PartsKey, Holder, Parts>,
}

impl Default for Chunks {
    fn default() -> Chunks {
        let limits = AssemblyLimits { messages: CHUNKS_MAX, bytes: BYTES_MAX, within: WITHIN };
        Chunks { table: Assemblies::new(limits) }
    }
}

impl Chunks {
    /// Takes a part; the whole if it was the last one.
    pub fn take(
        &mut self,
        now: u64,
        (key, holder): (PartsKey, Holder),
        index: u8,
        part: &Arc<[u8]>,
    ) -> Option<Vec<u8>> {
        let nothing = Parts { pieces: Pieces::new(key.2), list: Vec::new() };
        let at = self.table.find(now, &key).or_else(|| self.table.begin(now, (key, holder), 0, nothing, drop))?;
        if !self.table.get_mut(at)?.pieces.note(index) {
            return None;
        }
        let at = self.table.grow(at, part.len(), drop)?;
        let parts = self.table.get_mut(at)?;
        parts.list.push((index, part.clone()));
        if !parts.pieces.are_whole() {
            return None;
        }
        let mut list = self.table.take(at)?.list;
        list.sort_unstable_by_key(|(index, _)| *index);
        Some(list.iter().flat_map(|(_, part)| part.iter().copied()).collect())
    }

    /// Gives up what is not whole in time.
    pub fn expire(&mut self, now: u64) {
        self.table.expire(now, drop);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_in_any_order_make_the_chunk() {
        let mut chunks = Chunks::default();
        let chunk = |number, parts| ((Host::default(), [number; 16], parts), Holder::HERE);
        let part = |text: &str| Arc::<[u8]>::from(text.as_bytes());
        assert_eq!(chunks.take(0, chunk(1, 2), 1, &part("b")), None);
        assert_eq!(chunks.take(0, chunk(2, 2), 0, &part("x")), None, "another chunk's");
        assert_eq!(chunks.take(0, chunk(1, 3), 0, &part("x")), None, "of another number of parts");
        assert_eq!(chunks.take(0, chunk(1, 2), 0, &part("a")), Some(b"ab".to_vec()));
        chunks.expire(WITHIN);
        assert!(chunks.table.is_empty() && chunks.table.held() == 0);
        let big = Arc::<[u8]>::from(vec![0; 60_000]);
        for number in 0..200u8 {
            chunks.take(0, chunk(number, 2), 0, &big);
        }
        assert!(chunks.table.len() <= CHUNKS_MAX && chunks.table.held() <= BYTES_MAX);
    }

    #[test]
    fn parts_of_chunks_that_have_begun_count_too() {
        let mut chunks = Chunks::default();
        let key = |number| (Host::default(), [number; 16], PARTS_MAX);
        let (small, big) = (Arc::<[u8]>::from([1; 9]), Arc::<[u8]>::from(vec![0; 60_000]));
        let (one, other) = (Holder::Principal(1), Holder::Principal(2));
        for number in 0..3 {
            chunks.take(0, (key(number), one), 0, &small);
        }
        // Few chunks of many bytes: whoever has most bytes gives way, not most chunks.
        for number in [10, 11] {
            for index in 0..PARTS_MAX {
                chunks.take(0, (key(number), other), index, &big);
                assert!(chunks.table.held() <= BYTES_MAX);
            }
        }
        assert!((0..3).all(|number| chunks.table.find(0, &key(number)).is_some()));
    }
}
