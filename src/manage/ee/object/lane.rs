//! Places of packets that a program of this process has. Example: the packet of an upcall is in place 7 until the program frees it.

use crate::frame::Frame;
use crate::nodeos::interface::DomainId;
use libanode::buffers::Extent;

/// Packets that one connection can have at the same time: so many that came, and so many of its own, as a process.
pub(super) const PACKETS_MAX: u16 = 512;

/// Bytes before a packet that a program may use; those before them are for the headers of the way out.
pub(super) const ROOM: usize = libanode::memory::HEADROOM;

/// The packets that a program has: each in a place, with the domain that pays for it.
#[derive(Default)]
pub(super) struct Lane {
    places: Vec<Option<Held>>,
    free: Vec<u16>,
    came: u16,
    own: u16,
}

/// A packet.
pub(super) struct Held {
    pub(super) frame: Frame,
    pub(super) domain: DomainId,
    /// Whether the program has made it.
    pub(super) own: bool,
}

impl Lane {
    fn count(&mut self, own: bool) -> &mut u16 {
        if own { &mut self.own } else { &mut self.came }
    }

    pub(super) fn put(&mut self, held: Held) -> Result<u16, Held> {
        if *self.count(held.own) >= PACKETS_MAX {
            return Err(held);
        }
        *self.count(held.own) += 1;
        let at = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            (self.places.len() - 1) as u16
        });
        self.places[usize::from(at)] = Some(held);
        Ok(at)
    }

    pub(super) fn take(&mut self, at: u16) -> Option<Held> {
        let held = self.places.get_mut(usize::from(at))?.take()?;
        *self.count(held.own) -= 1;
        self.free.push(at);
        Some(held)
    }

    /// Puts back what was just taken.
    pub(super) fn put_back(&mut self, at: u16, held: Held) -> Result<(), Held> {
        if self.free.pop() != Some(at) {
            return Err(held);
        }
        *self.count(held.own) += 1;
        self.places[usize::from(at)] = Some(held);
        Ok(())
    }
}

/// The part of a frame's buffer that a program may use, and where the packet is in it. The bytes stay where they are when the frame moves.
#[inline]
pub(super) fn room_of(frame: &mut Frame) -> ((*mut u8, usize), Extent) {
    let (start, length) = frame.extent();
    let before = start.saturating_sub(ROOM);
    let room = &mut frame.buffer_mut()[before..];
    ((room.as_mut_ptr(), room.len()), Extent { start: (start - before) as u16, length: length as u16 })
}
