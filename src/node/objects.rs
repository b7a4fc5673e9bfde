//! Objects in memory, by digest: manifests and representations that the node can serve at once.
//!
//! Bounded in bytes; the object unused for longest goes first. What persists is the driver's store.

use super::{Capsules, Cx};
use crate::wire::Digest;
use std::collections::HashMap;
use std::sync::Arc;

/// Objects in memory.
pub struct Objects {
    table: HashMap<Digest, (Arc<[u8]>, u64), foldhash::fast::FixedState>,
    bytes: usize,
    limit: usize,
    clock: u64,
}

impl Objects {
    /// An empty table of at most `limit` bytes.
    pub fn new(limit: usize) -> Objects {
        Objects { table: HashMap::default(), bytes: 0, limit, clock: 0 }
    }

    /// The object of this name.
    pub fn of(&mut self, digest: &Digest) -> Option<Arc<[u8]>> {
        self.clock += 1;
        let (bytes, used) = self.table.get_mut(digest)?;
        *used = self.clock;
        Some(bytes.clone())
    }

    /// Keeps an object; its digest has been checked.
    pub fn keep(&mut self, digest: Digest, bytes: Arc<[u8]>) {
        self.clock += 1;
        self.bytes += bytes.len();
        if let Some((before, _)) = self.table.insert(digest, (bytes, self.clock)) {
            self.bytes -= before.len();
        }
        while self.bytes > self.limit {
            let oldest = self.table.iter().min_by_key(|(_, (_, used))| *used).map(|(digest, _)| *digest);
            match oldest {
                Some(oldest) => self.remove(&oldest),
                None => break,
            }
        }
    }

    /// Forgets an object.
    pub fn remove(&mut self, digest: &Digest) {
        if let Some((bytes, _)) = self.table.remove(digest) {
            self.bytes -= bytes.len();
        }
    }

    /// Bytes kept.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Capsules {
    /// Keeps an object; its digest has been checked.
    pub(super) fn hold_object(&mut self, cx: &mut Cx, digest: Digest, bytes: Arc<[u8]>) {
        self.objects.keep(digest, bytes);
        cx.core.object_bytes = self.objects.bytes();
    }

    /// Forgets an object.
    pub(super) fn forget_object(&mut self, cx: &mut Cx, digest: &Digest) {
        self.objects.remove(digest);
        cx.core.object_bytes = self.objects.bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_object_unused_for_longest_goes_first() {
        let mut objects = Objects::new(100);
        let names: Vec<_> = (0..3u8).map(|n| Digest::of(&[n])).collect();
        objects.keep(names[0], vec![0; 40].into());
        objects.keep(names[1], vec![0; 40].into());
        assert!(objects.of(&names[0]).is_some());
        objects.keep(names[2], vec![0; 40].into());
        assert!(objects.of(&names[1]).is_none());
        assert!(objects.of(&names[0]).is_some());
        assert_eq!(objects.bytes(), 80);
        objects.keep(names[0], vec![0; 10].into());
        assert_eq!(objects.bytes(), 50);
    }
}
