//! Invariants for any bytes: in messages of the socket, and in a ring that the other side writes. The fuzz targets run
//! these, and so do the tests from a seed.

use anode1::entry::Message;
use anode1::memory::{Geometry, Memory};
use anode1::message::{Answer, Call};
use anode1::ring::{Cells, Consumer, Producer};
use std::sync::atomic::Ordering;

const SMALL: Geometry = Geometry { up: 4, down: 4, buffers_node: 4, buffers_process: 4, buffer_bytes: 128, threads: 4 };

/// Any bytes as a call of a process and as an answer of the node: what decodes is encoded again to the same bytes.
pub fn message(bytes: &[u8]) {
    let mut again = Vec::new();
    if let Some((number, call)) = Call::decode(bytes) {
        call.encode(number, &mut again);
        assert_eq!(again, bytes);
    }
    again.clear();
    if let Some((number, answer)) = Answer::decode(bytes) {
        answer.encode(number, &mut again);
        assert_eq!(again, bytes);
    }
}

/// A process that writes what it likes into the shared memory, three bytes a step, while the node's side works: the node sees what
/// cannot be, or entries that mean something or not, and never more of them than the ring holds.
pub fn ring(bytes: &[u8]) {
    let (memory, _) = Memory::make(SMALL).unwrap();
    let mut up = Producer::new(memory.clone(), SMALL.up());
    let mut down = Consumer::new(memory.clone(), SMALL.down());
    for step in bytes.chunks_exact(3) {
        let (act, at, value) = (step[0], usize::from(step[1]), step[2] as i8 as u64);
        match act % 4 {
            0 => memory.store(at % 240, value, Ordering::Relaxed),
            1 => memory.store([0, 16, 32, 80, 96, 112][at % 6], value, Ordering::Relaxed),
            2 => {
                let pushed = (0..5).filter(|_| up.push(&Message::Free { buffer: 1 }.entry()) == Ok(true)).count();
                assert!(pushed <= 5 && up.put().wrapping_sub(up.taken()) <= 4);
                let _ = up.wakes();
            }
            _ => {
                let mut taken = 0;
                while let Ok(Some(entry)) = down.pop() {
                    taken += 1;
                    assert!(taken <= 8, "what was known, and one look");
                    if let Some(Message::Packet { span, .. }) = Message::of(&entry) {
                        let mut copy = vec![0; usize::from(span.length)];
                        let fits = usize::from(span.offset) + copy.len() <= 128 && span.buffer < 8;
                        assert_eq!(memory.copy_out(span.buffer.into(), span.offset.into(), &mut copy), fits);
                    }
                }
                let _ = down.sleep();
            }
        }
    }
}
