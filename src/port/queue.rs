//! The queue in front of a socket that cannot take frames as fast as they come.

use super::{Frame, FramePool};
use crate::sys::mmsg::BATCH;
use std::collections::VecDeque;
use std::io;

/// Frames that wait for one port.
const FRAMES_MAX: usize = 1024;

/// Frames on their way out of one port.
#[derive(Default)]
pub struct SendQueue {
    frames: VecDeque<Frame>,
    bytes: u64,
}

impl SendQueue {
    /// Puts a frame at the end, or gives it back if the queue is full.
    pub fn push(&mut self, frame: Frame) -> Result<(), Frame> {
        if self.frames.len() >= FRAMES_MAX {
            return Err(frame);
        }
        self.bytes += frame.len() as u64;
        self.frames.push_back(frame);
        Ok(())
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Octets that wait.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Sends from the front with `send`, which takes frames and says how many it has sent, until
    /// nothing waits or nothing more is taken.
    pub(super) fn flush(
        &mut self,
        pool: &mut FramePool,
        mut send: impl FnMut(&mut dyn Iterator<Item = &Frame>) -> io::Result<usize>,
    ) -> io::Result<()> {
        while !self.frames.is_empty() {
            let sent = match send(&mut self.frames.iter()) {
                Ok(0) => return Ok(()),
                Ok(sent) => sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // What keeps one frame from leaving must not keep the others: it goes.
                Err(error) if is_passing(&error) => 1,
                Err(error) => {
                    self.release(pool, 1);
                    return Err(error);
                }
            };
            self.release(pool, sent);
        }
        Ok(())
    }

    fn release(&mut self, pool: &mut FramePool, count: usize) {
        for frame in self.frames.drain(..count) {
            self.bytes -= frame.len() as u64;
            pool.give(frame);
        }
    }
}

/// How many frames to ask a socket for: room for a frame that does not come costs as much as one for a frame that does.
#[derive(Debug)]
pub(super) struct Asking(usize);

/// Frames asked for at least.
const ASKED_MIN: usize = 8;

impl Default for Asking {
    fn default() -> Asking {
        Asking(ASKED_MIN)
    }
}

impl Asking {
    /// Frames to ask for now.
    pub(super) fn count(&self) -> usize {
        self.0
    }

    /// So many came; says whether there may be more.
    pub(super) fn got(&mut self, count: usize) -> bool {
        let full = count >= self.0;
        let next = if full { self.0 * 4 } else { count * 2 };
        self.0 = next.clamp(ASKED_MIN, BATCH);
        full
    }
}

/// Errors that say something about the network or the moment, not about the socket.
pub(super) fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::*;
    matches!(
        error.kind(),
        WouldBlock | Interrupted | ConnectionRefused | HostUnreachable | NetworkUnreachable | NetworkDown
    ) || error.raw_os_error() == Some(libc::ENOBUFS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_is_bounded_and_keeps_order() {
        let mut queue = SendQueue::default();
        let mut pool = FramePool::default();
        for n in 0..FRAMES_MAX {
            assert!(queue.push(Frame::from_bytes(&(n as u32).to_be_bytes())).is_ok());
        }
        assert!(queue.push(Frame::from_bytes(b"late")).is_err());
        assert_eq!(queue.bytes(), 4 * FRAMES_MAX as u64);
        let mut seen = Vec::new();
        let mut calls = 0;
        queue
            .flush(&mut pool, |frames| {
                calls += 1;
                if calls > 3 {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                let some: Vec<_> = frames.take(10).map(|frame| frame.bytes().to_vec()).collect();
                seen.extend(some.clone());
                Ok(some.len())
            })
            .unwrap();
        assert_eq!(seen.len(), 30);
        assert_eq!(seen[29], 29u32.to_be_bytes());
        assert_eq!(queue.bytes(), 4 * (FRAMES_MAX as u64 - 30));
    }

    #[test]
    fn as_many_frames_are_asked_for_as_come() {
        let mut asking = Asking::default();
        assert!(asking.got(ASKED_MIN) && asking.got(4 * ASKED_MIN));
        assert_eq!(asking.count(), BATCH);
        assert!(asking.got(BATCH) && !asking.got(20));
        assert_eq!(asking.count(), 40);
        assert!(!asking.got(1));
        assert_eq!(asking.count(), ASKED_MIN);
    }
}
