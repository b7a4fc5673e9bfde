//! The broker's process: takes one request after the other until the node is gone.

use super::acts::Acts;
use super::message::{ANSWER_MAX, Answer, REQUEST_MAX, Request};
use crate::sys::seqpacket::SeqPacket;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Serves the node behind the socket until it is gone, then undoes what must not stay.
pub(super) fn serve(socket: &SeqPacket, mut acts: Acts) {
    // One byte more than any request has, so that what is cut off is none.
    let mut message = vec![0; REQUEST_MAX + 1];
    while let Ok((length @ 1.., with)) = socket.receive_with(&mut message) {
        if answer(socket, &mut acts, &message[..length], &with).is_err() {
            break;
        }
    }
    acts.end();
}

fn answer(socket: &SeqPacket, acts: &mut Acts, message: &[u8], with: &[OwnedFd]) -> io::Result<()> {
    let done = match Request::decode(message) {
        Some(request) => acts.carry_out(&request, with),
        None => Err(io::Error::new(io::ErrorKind::InvalidData, "that is no request")),
    };
    match done {
        Ok(done) => {
            let (answer, descriptors) = done.parts();
            let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
            let words = answer.encode();
            debug_assert!(words.len() <= ANSWER_MAX, "names are bounded");
            socket.send_with(&words, &descriptors)
        }
        Err(error) => socket.send_with(&Answer::failed(&error).encode(), &[]),
    }
}
