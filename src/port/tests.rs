//! A new kind of ports in one file and one row: what is sent by an [`EchoPort`] comes in again.

use super::*;
use crate::frame::PeerId;

/// Gives back what is sent, as from the first neighbour.
pub struct EchoPort {
    id: PortId,
    queue: SendQueue,
    sent: Vec<Frame>,
}

impl PortKind for EchoPort {
    type Opening = ();
    const BEGINNING: Beginning = Beginning::Ethernet;

    fn open(
        id: PortId,
        (): (),
        _: usize,
        _: BeforeStack,
        workers: WorkerId,
    ) -> io::Result<(Vec<EchoPort>, Option<Taker>)> {
        let port = |_| EchoPort { id, queue: SendQueue::default(), sent: Vec::new() };
        Ok(((0..workers).map(port).collect(), None))
    }

    fn wait_for(&self, _: &mut Poll, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn receive(&mut self, _: &mut FramePool, into: &mut Vec<Frame>) -> io::Result<(usize, bool)> {
        let count = self.sent.len();
        into.extend(self.sent.drain(..).map(|mut frame| {
            (frame.port, frame.peer) = (self.id, PeerId(0));
            frame
        }));
        Ok((count, false))
    }

    fn queue(&mut self) -> &mut SendQueue {
        &mut self.queue
    }

    fn flush(&mut self, pool: &mut FramePool, refused: &mut Vec<Frame>) {
        let sent = &mut self.sent;
        self.queue.flush(pool, refused, |frames| {
            let before = sent.len();
            sent.extend(frames.map(|frame| Frame::from_bytes(frame.bytes())));
            Ok(sent.len() - before)
        });
    }

    fn overflows(&mut self) -> u32 {
        0
    }
}

#[test]
fn a_kind_of_ports_is_one_file_and_one_row() {
    let opening = Opening::Echo(());
    assert_eq!(opening.interface(), None);
    let (mut sockets, taker) = opening.open(PortId(3), 1500, BeforeStack::default(), 1).unwrap();
    let mut socket = sockets.remove(0);
    assert!(taker.is_none() && !socket.leave_interface() && socket.cut_short() == 0);
    let mut pool = FramePool::new(2048, 4);
    let (mut refused, mut came) = (Vec::new(), Vec::new());
    socket.queue().push(Frame::from_bytes(b"hello")).unwrap();
    socket.flush(&mut pool, &mut refused);
    assert_eq!(socket.receive(&mut pool, &mut came).unwrap(), (1, false));
    assert_eq!((came[0].bytes(), came[0].port, refused.len()), (&b"hello"[..], PortId(3), 0));
}
