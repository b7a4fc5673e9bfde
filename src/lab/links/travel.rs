//! Frames on their way between two ends, in the order in which they arrive.
//!
//! Frames lie in places that are used again. What all places have room for is bounded, whatever the links are asked to hold.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// Bytes that places may have room for together, in use or not.
pub(super) const BYTES_MAX: usize = 256 << 20;

/// Places there may be.
pub(super) const FRAMES_MAX: usize = 1 << 18;

/// Bytes of room that a place keeps for its next frame, as long as all have room for less than half of [`BYTES_MAX`].
const KEPT: usize = 4096;

/// A frame under way.
#[derive(Debug, Default)]
pub(super) struct Travelling {
    /// The end that it arrives at, and in which of its lives.
    pub(super) to: (usize, u64),
    /// When it arrives, in nanoseconds of the system's monotonic clock.
    pub(super) due: u64,
    /// Its bytes.
    pub(super) bytes: Vec<u8>,
}

/// All frames under way.
#[derive(Debug, Default)]
pub(super) struct Travel {
    /// When, in which order among those of the same time, and where.
    order: BinaryHeap<Reverse<(u64, u64, usize)>>,
    places: Vec<Travelling>,
    free: Vec<usize>,
    /// Bytes that places have room for.
    room: usize,
    number: u64,
}

impl Travel {
    /// Puts a frame, which may be in pieces, on its way; false if there is no room.
    pub(super) fn put(&mut self, due: u64, to: (usize, u64), pieces: &[&[u8]]) -> bool {
        let length = pieces.iter().map(|piece| piece.len()).sum();
        let place = match self.free.pop() {
            Some(place) => place,
            None if self.places.len() < FRAMES_MAX => {
                self.places.push(Travelling::default());
                self.places.len() - 1
            }
            None => return false,
        };
        let Some(frame) = self.places.get_mut(place) else { return false };
        let before = frame.bytes.capacity();
        if before < length {
            if self.room + (length - before) > BYTES_MAX {
                self.free.push(place);
                return false;
            }
            frame.bytes.reserve_exact(length);
            self.room += frame.bytes.capacity() - before;
        }
        (frame.to, frame.due) = (to, due);
        pieces.iter().for_each(|piece| frame.bytes.extend_from_slice(piece));
        self.number += 1;
        self.order.push(Reverse((due, self.number, place)));
        true
    }

    /// When the next one arrives.
    pub(super) fn next(&self) -> Option<u64> {
        self.order.peek().map(|Reverse((due, ..))| *due)
    }

    /// The place of the next one that has arrived by `now`.
    pub(super) fn arrived(&mut self, now: u64) -> Option<usize> {
        if self.next()? > now {
            return None;
        }
        self.order.pop().map(|Reverse((.., place))| place)
    }

    /// The frame in a place.
    pub(super) fn frame(&self, place: usize) -> Option<&Travelling> {
        self.places.get(place)
    }

    /// Its frame has left.
    pub(super) fn give(&mut self, place: usize) {
        let Some(frame) = self.places.get_mut(place) else { return };
        frame.bytes.clear();
        let before = frame.bytes.capacity();
        // What short frames leave behind must not keep longer ones out.
        if before > KEPT || self.room > BYTES_MAX / 2 {
            frame.bytes = Vec::new();
            self.room -= before;
        }
        self.free.push(place);
    }

    /// Bytes that places have room for.
    #[cfg(test)]
    fn room(&self) -> usize {
        self.room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_arrive_in_the_order_of_their_times_and_then_of_their_coming() {
        let mut travel = Travel::default();
        for (due, byte) in [(5, 1), (3, 2), (5, 3), (4, 4)] {
            assert!(travel.put(due, (0, 0), &[&[byte], &[byte; 2]]));
        }
        assert_eq!((travel.next(), travel.arrived(2)), (Some(3), None));
        let mut order = Vec::new();
        while let Some(place) = travel.arrived(5) {
            order.extend_from_slice(&travel.frame(place).unwrap().bytes);
            travel.give(place);
        }
        assert_eq!(order, [2, 2, 2, 4, 4, 4, 1, 1, 1, 3, 3, 3]);
        assert_eq!(travel.next(), None);
    }

    #[test]
    fn memory_is_used_again_and_has_a_bound() {
        let mut travel = Travel::default();
        let frame = vec![0; 1 << 20];
        let mut count = 0;
        while travel.put(0, (0, 0), &[&frame]) {
            count += 1;
        }
        assert_eq!((count, travel.room()), (256, BYTES_MAX));
        while let Some(place) = travel.arrived(0) {
            travel.give(place);
        }
        assert_eq!(travel.room(), 0, "long frames keep no room");
        for _ in 0..10_000 {
            assert!(travel.put(0, (0, 0), &[&frame[..1514]]));
            let place = travel.arrived(0).unwrap();
            travel.give(place);
        }
        assert!(travel.room() <= 2 * 1514);
    }

    #[test]
    fn short_frames_that_have_left_keep_no_long_one_out() {
        let mut travel = Travel::default();
        let frame = vec![0; 9000];
        while travel.put(0, (0, 0), &[&frame[..1514]]) {}
        assert!(!travel.put(0, (0, 0), &[&frame]), "it is full");
        while let Some(place) = travel.arrived(0) {
            travel.give(place);
        }
        assert!(travel.put(0, (0, 0), &[&frame]) && travel.room() <= BYTES_MAX / 2 + 9000);
    }
}
