//! Compression: LZ4, a packet by itself; what does not get shorter goes as it is.

use super::Stage;
use crate::core::reason::Reason;
use crate::frame::Frame;
use lz4_flex::block::{CompressTable, compress_into_with_table, decompress_into};

pub(super) fn compress(
    table: &mut CompressTable,
    stage: &mut Stage<'_>,
    mut frame: Frame,
) -> Result<(), (Frame, Reason)> {
    let length = frame.len();
    let mut packed = stage.pool.take();
    let room = packed.room();
    // Only what ends up shorter is worth it.
    let done = match room.get_mut(3..length) {
        Some(room) => compress_into_with_table(frame.bytes(), room, table).ok(),
        None => None,
    };
    if let Some(count) = done {
        packed.received(3 + count);
        let bytes = packed.bytes_mut();
        bytes[0] = 1;
        bytes[1..3].copy_from_slice(&(length as u16).to_be_bytes());
        stage.pool.give(frame);
        stage.out.push(packed);
        return Ok(());
    }
    stage.pool.give(packed);
    match frame.prepend(1) {
        Some(room) => room[0] = 0,
        None => return Err((frame, Reason::TooBig)),
    }
    stage.out.push(frame);
    Ok(())
}

pub(super) fn decompress(stage: &mut Stage<'_>, mut frame: Frame) -> Result<(), (Frame, Reason)> {
    match *frame.bytes() {
        [0, ..] => {
            frame.strip(1);
            stage.out.push(frame);
            Ok(())
        }
        [1, high, low, ..] => {
            let length = usize::from(u16::from_be_bytes([high, low]));
            let mut whole = stage.pool.take();
            let done = whole.room().get_mut(..length).and_then(|room| decompress_into(&frame.bytes()[3..], room).ok());
            if done != Some(length) {
                stage.pool.give(whole);
                return Err((frame, Reason::MalformedModule));
            }
            whole.received(length);
            (whole.port, whole.peer, whole.trace) = (frame.port, frame.peer, frame.trace);
            stage.pool.give(frame);
            stage.out.push(whole);
            Ok(())
        }
        _ => Err((frame, Reason::MalformedModule)),
    }
}
