//! A place without a port: what ran there has gone while the node runs, and the places behind it stay what they are.
//!
//! Nothing comes in. What somebody still sends by it, by a way of before, does not leave.

use super::kind::{BeforeStack, PortKind};
use super::packet::Taker;
use super::pcap::Beginning;
use super::queue::SendQueue;
use crate::frame::WorkerId;
use crate::frame::{Frame, FramePool, PortId};
use crate::sys::poll::Poll;
use std::io;

/// None.
#[derive(Default)]
pub struct VacantPort {
    queue: SendQueue,
}

impl PortKind for VacantPort {
    type Opening = ();
    const BEGINNING: Beginning = Beginning::Ip;

    fn open(
        _: PortId,
        (): (),
        _: usize,
        _: BeforeStack,
        workers: WorkerId,
    ) -> io::Result<(Vec<VacantPort>, Option<Taker>)> {
        Ok(((0..workers.max(1)).map(|_| VacantPort::default()).collect(), None))
    }

    fn wait_for(&self, _: &mut Poll, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn receive(&mut self, _: &mut FramePool, _: &mut Vec<Frame>) -> io::Result<(usize, bool)> {
        Ok((0, false))
    }

    fn queue(&mut self) -> &mut SendQueue {
        &mut self.queue
    }

    fn flush(&mut self, pool: &mut FramePool, refused: &mut Vec<Frame>) {
        self.queue.flush(pool, refused, |_| Err(io::Error::from_raw_os_error(libc::ENXIO)));
    }

    fn overflows(&mut self) -> u32 {
        0
    }
}
