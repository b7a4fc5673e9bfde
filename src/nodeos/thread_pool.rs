//! Thread pools: how much of a domain is worked on at the same time.
//!
//! Every domain has one, made with it. A packet, an event or an exception activates a thread, which runs end to end: it takes a slot and gives
//! it back. In the node's own environments a slot is nothing but this account; in processes of environments it stands
//! for a real thread. There is no call that ends a thread: one that keeps its slot for too long ends its domain, which is all the node can do
//! about code that it does not run itself. Slots of processes come back over a socket, so a slot given twice, or never taken, is
//! an error and moves nothing. Nothing allocates after creation.
//! After PLAN on OSKit, §3.3.1; Snow on Silk, §2.4.

use super::interface::Error;

/// Threads of one domain, at most.
pub const THREADS_MAX: u16 = 1024;

/// The end of the list of free slots.
const NONE: u16 = u16::MAX;

/// Why a thread is activated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Activation {
    /// A packet has come in.
    Packet,
    /// An event is due.
    Event,
    /// Something has gone wrong: memory is over its limit, a channel has gone.
    Exception,
}

/// How often, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Activations {
    /// By packets.
    pub packets: u64,
    /// By events.
    pub events: u64,
    /// By exceptions.
    pub exceptions: u64,
    /// Not, because all threads were at work.
    pub refused: u64,
}

/// A slot that is taken: where, and for the how-manieth time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Which.
    pub index: u16,
    /// Of its uses.
    pub turn: u32,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    /// And the next one that is.
    Free(u16),
    /// Since then, in nanoseconds.
    Busy(u64),
}

/// The threads of one domain.
#[derive(Debug)]
pub struct ThreadPool {
    places: Box<[(Place, u32)]>,
    free: u16,
    busy: u16,
    /// Nanoseconds a slot may be kept.
    hold: u64,
    activations: Activations,
}

impl ThreadPool {
    /// A pool of so many threads, each of which may be busy for so many milliseconds at a time.
    pub fn new(threads: u16, hold_ms: u32) -> Result<ThreadPool, Error> {
        if threads == 0 || threads > THREADS_MAX || hold_ms == 0 {
            return Err(Error::Invalid);
        }
        let next = |at: u16| if at + 1 < threads { at + 1 } else { NONE };
        let places = (0..threads).map(|at| (Place::Free(next(at)), 0)).collect();
        let hold = u64::from(hold_ms) * 1_000_000;
        Ok(ThreadPool { places, free: 0, busy: 0, hold, activations: Activations::default() })
    }

    /// Activates a thread, unless all are at work.
    #[inline]
    pub fn take(&mut self, now: u64, why: Activation) -> Result<Slot, Error> {
        let index = self.free;
        let Some((place, turn)) = self.places.get_mut(usize::from(index)) else {
            self.activations.refused += 1;
            return Err(Error::Again);
        };
        if let Place::Free(next) = *place {
            self.free = next;
        }
        (*place, *turn) = (Place::Busy(now), turn.wrapping_add(1));
        self.busy += 1;
        match why {
            Activation::Packet => self.activations.packets += 1,
            Activation::Event => self.activations.events += 1,
            Activation::Exception => self.activations.exceptions += 1,
        }
        Ok(Slot { index, turn: *turn })
    }

    /// A thread has come to its end.
    #[inline]
    pub fn give(&mut self, slot: Slot) -> Result<(), Error> {
        match self.places.get_mut(usize::from(slot.index)) {
            Some((place @ Place::Busy(_), turn)) if *turn == slot.turn => {
                *place = Place::Free(self.free);
                self.free = slot.index;
                self.busy -= 1;
                Ok(())
            }
            Some(_) => Err(Error::Stale),
            None => Err(Error::Invalid),
        }
    }

    /// Whether a thread has been at work for longer than one may: its domain is to be ended.
    pub fn is_overdue(&self, now: u64) -> bool {
        let late = |place: &Place| matches!(place, Place::Busy(since) if now.saturating_sub(*since) > self.hold);
        self.busy > 0 && self.places.iter().any(|(place, _)| late(place))
    }

    /// Threads at work.
    pub fn busy(&self) -> u16 {
        self.busy
    }

    /// Threads there are.
    pub fn threads(&self) -> u16 {
        self.places.len() as u16
    }

    /// How often threads were activated.
    pub fn activations(&self) -> Activations {
        self.activations
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn at_most_so_many_are_at_work_and_every_activation_is_counted() {
        let mut pool = ThreadPool::new(2, 10).unwrap();
        let (a, b) = (pool.take(0, Activation::Packet).unwrap(), pool.take(0, Activation::Event).unwrap());
        assert_eq!(pool.take(0, Activation::Packet), Err(Error::Again));
        assert_eq!((pool.busy(), pool.threads()), (2, 2));
        pool.give(a).unwrap();
        let c = pool.take(0, Activation::Exception).unwrap();
        assert_eq!((c.index, pool.give(b), pool.give(c), pool.busy()), (a.index, Ok(()), Ok(()), 0));
        assert_eq!(pool.activations(), Activations { packets: 1, events: 1, exceptions: 1, refused: 1 });
    }

    #[test]
    fn slots_that_are_not_taken_cannot_be_given() {
        let mut pool = ThreadPool::new(2, 10).unwrap();
        let first = pool.take(0, Activation::Packet).unwrap();
        for (slot, error) in [
            (Slot { index: 1, turn: 0 }, Error::Stale),
            (Slot { index: 0, turn: first.turn + 1 }, Error::Stale),
            (Slot { index: 2, turn: 1 }, Error::Invalid),
            (Slot { index: NONE, turn: 1 }, Error::Invalid),
        ] {
            assert_eq!(pool.give(slot), Err(error));
        }
        pool.give(first).unwrap();
        let again = pool.take(0, Activation::Packet).unwrap();
        assert_eq!((again.index, pool.give(first)), (first.index, Err(Error::Stale)), "taken by another meanwhile");
        assert_eq!(pool.busy(), 1);
    }

    #[test]
    fn a_thread_that_keeps_its_slot_is_found() {
        let mut pool = ThreadPool::new(3, 10).unwrap();
        let slow = pool.take(5 * MS, Activation::Packet).unwrap();
        let quick = pool.take(14 * MS, Activation::Packet).unwrap();
        assert!(!pool.is_overdue(15 * MS) && pool.is_overdue(15 * MS + 1));
        pool.give(slow).unwrap();
        assert!(!pool.is_overdue(24 * MS) && pool.is_overdue(25 * MS));
        pool.give(quick).unwrap();
        assert!(!pool.is_overdue(u64::MAX));
    }

    #[test]
    fn the_books_balance_whatever_comes() {
        let mut pool = ThreadPool::new(7, 1).unwrap();
        let mut taken = Vec::new();
        for step in 0..50_000u64 {
            let mixed = step.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
            if mixed & 1 == 0 {
                match pool.take(step, Activation::Packet) {
                    Ok(slot) => taken.push(slot),
                    Err(error) => assert_eq!((error, taken.len()), (Error::Again, 7)),
                }
            } else if mixed & 6 == 0 {
                let wild = Slot { index: (mixed >> 3) as u16 % 9, turn: (mixed >> 12) as u32 & 15 };
                assert_eq!(pool.give(wild).is_ok(), taken.contains(&wild));
                taken.retain(|slot| *slot != wild);
            } else if let Some(slot) = taken.pop() {
                pool.give(slot).unwrap();
            }
            assert_eq!(usize::from(pool.busy()), taken.len());
        }
    }

    #[test]
    fn a_pool_has_a_size() {
        for (threads, hold_ms) in [(0, 1), (1, 0), (THREADS_MAX + 1, 1), (u16::MAX, 1)] {
            assert_eq!(ThreadPool::new(threads, hold_ms).err(), Some(Error::Invalid));
        }
        assert!(ThreadPool::new(THREADS_MAX, 1).is_ok());
    }
}
