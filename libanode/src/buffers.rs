//! The packet buffers of a process: owner, beginning and length of each packet.
//!
//! A program names a packet by the number of its buffer and the count of its uses (the generation). So a packet that
//! was sent or freed is known to be gone. One word of state says all about a buffer, and is changed in one step; so of
//! two threads that free the same packet one fails.

use crate::error::Error;
use crate::memory::{HEADROOM, Memory};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError};

/// What is known of a buffer: whether it holds a packet, for which time it is used, where the packet begins and its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    live: bool,
    generation: u32,
    start: u16,
    length: u16,
}

const GENERATIONS: u32 = (1 << 31) - 1;

impl State {
    fn of(word: u64) -> State {
        State {
            live: word & 1 == 1,
            generation: (word >> 1) as u32 & GENERATIONS,
            start: (word >> 32) as u16,
            length: (word >> 48) as u16,
        }
    }

    fn word(self) -> u64 {
        u64::from(self.live)
            | u64::from(self.generation & GENERATIONS) << 1
            | u64::from(self.start) << 32
            | u64::from(self.length) << 48
    }
}

/// Names a packet of a session: its buffer and the time that it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The buffer.
    pub buffer: u16,
    /// Which time.
    pub generation: u32,
}

/// Where a packet lies in its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes before it.
    pub start: u16,
    /// Its bytes.
    pub length: u16,
}

/// A buffer of the node's own process: where it is now, and its bytes.
#[derive(Default)]
struct Room {
    base: AtomicPtr<u8>,
    size: AtomicUsize,
}

/// Where buffers are.
enum Rooms {
    /// In memory shared with the node.
    Shared(Arc<Memory>),
    /// In this process, which is the node's.
    Here(Box<[Room]>),
}

/// The buffers of one session.
pub struct Buffers {
    rooms: Rooms,
    states: Vec<AtomicU64>,
    free: Mutex<Vec<u16>>,
}

impl Buffers {
    /// All are free; generations begin with `first`, which differs from session to session.
    pub fn new(memory: Arc<Memory>, first: u32) -> Buffers {
        let geometry = memory.geometry();
        let state = State { live: false, generation: first & GENERATIONS, start: 0, length: 0 }.word();
        let own = geometry.buffers_node as usize..geometry.buffers();
        let free = own.rev().map(|buffer| buffer as u16).collect();
        let states = (0..geometry.buffers()).map(|_| AtomicU64::new(state)).collect();
        Buffers { rooms: Rooms::Shared(memory), states, free: Mutex::new(free) }
    }

    /// So many in the node's own process, all empty: the node says what is in each ([`Buffers::put`]).
    pub fn here(count: u16, first: u32) -> Buffers {
        let state = State { live: false, generation: first & GENERATIONS, start: 0, length: 0 }.word();
        let rooms = (0..count).map(|_| Room::default()).collect();
        let states = (0..count).map(|_| AtomicU64::new(state)).collect();
        Buffers { rooms: Rooms::Here(rooms), states, free: Mutex::default() }
    }

    /// Bytes of a buffer.
    pub fn size(&self, buffer: u16) -> usize {
        match &self.rooms {
            Rooms::Shared(memory) => memory.geometry().buffer_bytes as usize,
            Rooms::Here(rooms) => rooms.get(usize::from(buffer)).map_or(0, |room| room.size.load(Acquire)),
        }
    }

    /// Whether a buffer is of the node's share.
    pub fn is_nodes(&self, buffer: u16) -> bool {
        match &self.rooms {
            Rooms::Shared(memory) => u32::from(buffer) < memory.geometry().buffers_node,
            Rooms::Here(_) => true,
        }
    }

    /// Puts a packet of the node's own process into a buffer: `size` bytes at `base`, which stay there until the packet is claimed.
    #[inline]
    pub fn put(&self, buffer: u16, (base, size): (*mut u8, usize), start: u16, length: u16) -> Option<Packet> {
        let Rooms::Here(rooms) = &self.rooms else { return None };
        let room = rooms.get(usize::from(buffer))?;
        room.base.store(base, Relaxed);
        room.size.store(size, Release);
        self.revive(buffer, start, length)
    }

    /// Puts a packet of the node's own process back into its buffer, under the name that it had before it was claimed.
    pub fn put_again(&self, packet: Packet, (base, size): (*mut u8, usize), extent: Extent) {
        if let Rooms::Here(rooms) = &self.rooms
            && let Some(room) = rooms.get(usize::from(packet.buffer))
        {
            room.base.store(base, Relaxed);
            room.size.store(size, Release);
            self.unclaim(packet, extent);
        }
    }

    /// An empty packet in a buffer of the process's, or nothing if all are in use.
    pub fn alloc(&self) -> Option<Packet> {
        let buffer = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        self.revive(buffer, HEADROOM as u16, 0)
    }

    /// Gives a buffer of the process's back, which holds no packet any more.
    pub fn release(&self, buffer: u16) {
        if !self.is_nodes(buffer) {
            self.free.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
        }
    }

    /// A packet that came in a buffer.
    pub fn revive(&self, buffer: u16, start: u16, length: u16) -> Option<Packet> {
        let word = self.states.get(usize::from(buffer))?;
        if usize::from(start) + usize::from(length) > self.size(buffer) {
            return None;
        }
        let before = State::of(word.load(Acquire));
        let generation = before.generation.wrapping_add(1) & GENERATIONS;
        word.store(State { live: true, generation, start, length }.word(), Release);
        Some(Packet { buffer, generation })
    }

    /// The packet in a buffer, if there is one, or the last that was.
    pub fn latest(&self, buffer: u16) -> Option<(Packet, bool)> {
        let state = State::of(self.states.get(usize::from(buffer))?.load(Acquire));
        Some((Packet { buffer, generation: state.generation }, state.live))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.states.len()
    }

    fn state(&self, packet: Packet) -> Result<(&AtomicU64, State), Error> {
        let word = self.states.get(usize::from(packet.buffer)).ok_or(Error::Stale)?;
        let state = State::of(word.load(Acquire));
        if state.live && state.generation == packet.generation { Ok((word, state)) } else { Err(Error::Stale) }
    }

    /// Where a packet lies.
    pub fn extent(&self, packet: Packet) -> Result<Extent, Error> {
        let (_, State { start, length, .. }) = self.state(packet)?;
        Ok(Extent { start, length })
    }

    /// Moves a packet's ends.
    pub fn set_extent(&self, packet: Packet, change: impl Fn(Extent) -> Option<Extent>) -> Result<(), Error> {
        loop {
            let (word, state) = self.state(packet)?;
            let Extent { start, length } =
                change(Extent { start: state.start, length: state.length }).ok_or(Error::Invalid)?;
            if usize::from(start) + usize::from(length) > self.size(packet.buffer) {
                return Err(Error::Invalid);
            }
            let new = State { start, length, ..state };
            if word.compare_exchange(state.word(), new.word(), AcqRel, Acquire).is_ok() {
                return Ok(());
            }
        }
    }

    /// Takes a packet away from the program; its buffer is then the caller's.
    pub fn claim(&self, packet: Packet) -> Result<Extent, Error> {
        loop {
            let (word, state) = self.state(packet)?;
            let gone = State { live: false, ..state };
            if word.compare_exchange(state.word(), gone.word(), AcqRel, Acquire).is_ok() {
                return Ok(Extent { start: state.start, length: state.length });
            }
        }
    }

    /// Gives a packet another name: the one that it had means nothing any more.
    pub fn rename(&self, packet: Packet) -> Result<Packet, Error> {
        let Extent { start, length } = self.claim(packet)?;
        self.revive(packet.buffer, start, length).ok_or(Error::Stale)
    }

    /// Gives a packet that was claimed back to the program, under the same name.
    pub fn unclaim(&self, packet: Packet, extent: Extent) {
        let Extent { start, length } = extent;
        let state = State { live: true, generation: packet.generation, start, length };
        self.states[usize::from(packet.buffer)].store(state.word(), Release);
    }

    /// Where the bytes of a packet are.
    pub fn data(&self, packet: Packet) -> Result<*mut u8, Error> {
        let extent = self.extent(packet)?;
        match &self.rooms {
            Rooms::Shared(memory) => memory.address(packet.buffer.into(), extent.start.into()).ok_or(Error::Stale),
            Rooms::Here(rooms) => {
                let room = rooms.get(usize::from(packet.buffer)).ok_or(Error::Stale)?;
                Ok(room.base.load(Acquire).wrapping_add(extent.start.into()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Geometry;

    fn buffers() -> Buffers {
        let geometry = Geometry { buffers_process: 2, ..Geometry::default() };
        Buffers::new(Memory::make(geometry).unwrap().0, 5)
    }

    #[test]
    fn a_packet_that_is_gone_is_known_to_be_gone() {
        let buffers = buffers();
        let first = buffers.alloc().unwrap();
        let second = buffers.alloc().unwrap();
        assert!(buffers.alloc().is_none() && first != second);
        buffers.claim(first).unwrap();
        assert_eq!(buffers.claim(first), Err(Error::Stale));
        buffers.release(first.buffer);
        let again = buffers.alloc().unwrap();
        assert!(again.buffer == first.buffer && again != first);
        assert_eq!(buffers.data(first), Err(Error::Stale));
    }

    #[test]
    fn a_packet_stays_within_its_buffer() {
        let buffers = buffers();
        let packet = buffers.alloc().unwrap();
        let longest = (buffers.size(packet.buffer) - HEADROOM) as u16;
        buffers.set_extent(packet, |extent| Some(Extent { length: longest, ..extent })).unwrap();
        let longer = |extent: Extent| Some(Extent { length: longest + 1, ..extent });
        assert_eq!(buffers.set_extent(packet, longer), Err(Error::Invalid));
        assert_eq!(buffers.set_extent(packet, |_| None), Err(Error::Invalid));
        assert_eq!(buffers.extent(packet), Ok(Extent { start: HEADROOM as u16, length: longest }));
    }
}
