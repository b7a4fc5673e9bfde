//! Names by places, for whoever looks at them one by one while others come and go. Example: of 10,000 codes a survey looks at 60 between
//! two batches of packets, from the last place to the first.
//!
//! One that goes leaves its place to the last one. So names move towards the first place, never away: whoever goes that way meets each
//! that stays, some twice, and none that has come meanwhile.

use crate::wire::Digest;

/// The names.
#[derive(Debug, Default)]
pub(super) struct Places(Vec<Digest>);

impl Places {
    /// None yet, with room for so many at first.
    pub fn with_room(names: usize) -> Places {
        Places(Vec::with_capacity(names))
    }

    /// One more; its place.
    pub fn add(&mut self, name: Digest) -> usize {
        self.0.push(name);
        self.0.len() - 1
    }

    /// The one at a place goes; gives the one that is there from now on, if another is.
    pub fn free(&mut self, place: usize) -> Option<Digest> {
        if place < self.0.len() {
            self.0.swap_remove(place);
        }
        self.at(place)
    }

    /// The one at a place.
    pub fn at(&self, place: usize) -> Option<Digest> {
        self.0.get(place).copied()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}
