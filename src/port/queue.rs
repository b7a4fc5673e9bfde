//! The queue in front of a socket that cannot take frames as fast as they come.

use crate::frame::{Frame, FramePool};
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
    /// Frames that have left so far.
    sent: u64,
    lost: Option<io::Error>,
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

    /// Frames that wait.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Frames that have left so far.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Bytes that wait.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Sends from the front with `send`, which takes frames and says how many it has sent, until
    /// nothing waits or nothing more is taken. Frames that cannot leave (the interface is down or gone,
    /// a link on the way carries less, a firewall says no) go into `refused`: what keeps one frame
    /// from leaving must not keep the others.
    pub(super) fn flush(
        &mut self,
        pool: &mut FramePool,
        refused: &mut Vec<Frame>,
        mut send: impl FnMut(&mut dyn Iterator<Item = &Frame>) -> io::Result<usize>,
    ) {
        while !self.frames.is_empty() {
            let sent = match send(&mut self.frames.iter()) {
                Ok(0) => return,
                Ok(sent) => sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    if let Some(frame) = self.frames.pop_front() {
                        self.bytes -= frame.len() as u64;
                        refused.push(frame);
                    }
                    self.tell(error);
                    continue;
                }
            };
            self.release(pool, sent);
        }
    }

    /// Writes to the log why frames do not leave, once for each cause in a row.
    fn tell(&mut self, error: io::Error) {
        if self.lost.as_ref().is_none_or(|last| last.raw_os_error() != error.raw_os_error()) {
            tracing::warn!(%error, "frames cannot leave a port");
        }
        self.lost = Some(error);
    }

    fn release(&mut self, pool: &mut FramePool, count: usize) {
        for frame in self.frames.drain(..count) {
            self.bytes -= frame.len() as u64;
            self.sent += 1;
            pool.give(frame);
        }
    }
}

/// How many frames to ask a socket for: room for a frame that does not come costs as much as one for a frame that does, and a
/// packet that comes alone is answered soonest by the call for one. Whether others came with it, a second call tells; where packets
/// keep coming alone, that is made now and then only, and the poll tells of others.
#[derive(Debug)]
pub(super) struct Asking {
    count: usize,
    /// Packets in a row that came alone.
    alone: u32,
}

/// Frames asked for at least where more than one may be there.
const ASKED_MIN: usize = 8;

/// Packets in a row that come alone before nobody looks for a second one; after so many more somebody does.
const ALONE: u32 = 4;
const ALONE_MAX: u32 = 16;

impl Default for Asking {
    fn default() -> Asking {
        Asking { count: 1, alone: 0 }
    }
}

impl Asking {
    /// Frames to ask for now.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// So many came; says whether to ask for more at once.
    pub(super) fn got(&mut self, count: usize) -> bool {
        let full = count >= self.count;
        if self.count == 1 {
            self.alone += u32::from(full);
            let look = full && !(ALONE + 1..ALONE + ALONE_MAX).contains(&self.alone);
            self.count = if look { ASKED_MIN } else { 1 };
            return look;
        }
        self.count = match count {
            _ if full => (self.count * 4).min(BATCH),
            // Nobody behind one that came alone.
            0 if self.alone > 0 => 1,
            0 => self.count,
            1 if self.count == ASKED_MIN => 1,
            _ => (count * 2).clamp(ASKED_MIN, BATCH),
        };
        self.alone = if count == 0 { self.alone.min(ALONE) } else { 0 };
        full
    }
}

/// Errors that say something about the network or the moment, not about the socket.
pub(super) fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::*;
    matches!(
        error.kind(),
        WouldBlock | Interrupted | ConnectionRefused | HostUnreachable | NetworkUnreachable | NetworkDown
    ) || matches!(
        error.raw_os_error(),
        Some(libc::ENOBUFS | libc::ENOMEM | libc::ENODEV | libc::ENXIO | libc::EHOSTDOWN | libc::EMSGSIZE)
    )
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
        queue.flush(&mut pool, &mut Vec::new(), |frames| {
            calls += 1;
            if calls > 3 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let some: Vec<_> = frames.take(10).map(|frame| frame.bytes().to_vec()).collect();
            seen.extend(some.clone());
            Ok(some.len())
        });
        assert_eq!(seen.len(), 30);
        assert_eq!(seen[29], 29u32.to_be_bytes());
        assert_eq!((queue.bytes(), queue.sent()), (4 * (FRAMES_MAX as u64 - 30), 30));
    }

    #[test]
    fn a_frame_that_cannot_leave_is_given_back_and_keeps_no_other() {
        for error in [libc::EMSGSIZE, libc::ENXIO, libc::ENETDOWN, libc::EPERM, libc::ENOBUFS] {
            let mut queue = SendQueue::default();
            for n in 0..4u8 {
                assert!(queue.push(Frame::from_bytes(&[n])).is_ok());
            }
            let (mut sent, mut refused) = (Vec::new(), Vec::new());
            queue.flush(&mut FramePool::default(), &mut refused, |frames| match frames.next().map(Frame::bytes) {
                Some([2]) => Err(io::Error::from_raw_os_error(error)),
                frame => {
                    sent.extend(frame.into_iter().flatten().copied());
                    Ok(1)
                }
            });
            assert_eq!(sent, [0, 1, 3]);
            assert_eq!(refused.iter().map(Frame::bytes).collect::<Vec<_>>(), [[2]]);
            assert_eq!((queue.bytes(), queue.len(), queue.sent()), (0, 0, 3), "what was given back has not left");
        }
    }

    #[test]
    fn as_many_frames_are_asked_for_as_come() {
        let mut asking = Asking::default();
        assert!(asking.got(1) && asking.got(ASKED_MIN) && asking.got(4 * ASKED_MIN));
        assert_eq!(asking.count(), BATCH);
        assert!(asking.got(BATCH) && !asking.got(20));
        assert_eq!(asking.count(), 40);
        assert!(!asking.got(1));
        assert_eq!(asking.count(), ASKED_MIN);
        assert!(!asking.got(1));
        assert_eq!(asking.count(), 1);
    }

    #[test]
    fn bursts_of_one_length_are_asked_for_in_whole_batches() {
        let mut asking = Asking::default();
        let mut burst = |mut left: usize| {
            let mut asked = Vec::new();
            loop {
                asked.push(asking.count());
                let got = left.min(asking.count());
                left -= got;
                if !asking.got(got) {
                    assert_eq!(left, 0);
                    return asked;
                }
            }
        };
        for _ in 0..20 {
            burst(2 * BATCH);
        }
        assert_eq!(burst(2 * BATCH), [BATCH, BATCH, BATCH]);
    }

    #[test]
    fn behind_packets_that_come_alone_others_are_looked_for_now_and_then() {
        let mut asking = Asking::default();
        let mut looks = 0;
        for _ in 0..1000 {
            assert_eq!(asking.count(), 1);
            if asking.got(1) {
                looks += 1;
                assert!(!asking.got(0));
            }
        }
        assert!((50..=80).contains(&looks), "{looks}");
        // Packets that come together are found after some at most, and then batches grow.
        let mut singles = 0;
        while !asking.got(1) {
            singles += 1;
        }
        assert!(singles < ALONE_MAX && asking.got(ASKED_MIN));
        assert!(!asking.got(2 * ASKED_MIN));
        assert_eq!(asking.count(), 4 * ASKED_MIN);
    }
}
