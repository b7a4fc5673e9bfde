//! Peers that are no nodes: their messages, and the messages to them.
#![allow(dead_code)]

use anode::sim::Actor;
use anode::wire::{anep, capsule, fetch};
use std::cell::RefCell;
use std::rc::Rc;

/// Frames a peer has heard, for the test to look at.
pub type Heard = Rc<RefCell<Vec<Vec<u8>>>>;

/// A peer on overlay links that answers fetch requests as `answer` says.
pub struct Peer<F> {
    pub heard: Heard,
    pub answer: F,
}

impl<F: FnMut(fetch::Message<'_>) -> Vec<Vec<u8>>> Actor for Peer<F> {
    fn receive(&mut self, _: u64, port: usize, frame: &[u8], send: &mut Vec<(usize, Vec<u8>)>) {
        self.heard.borrow_mut().push(frame.to_vec());
        let Ok(packet) = anep::Packet::new_checked(frame) else { return };
        if packet.type_id() == anep::type_id::FETCH
            && let Ok(message) = fetch::Message::parse(packet.payload())
        {
            send.extend((self.answer)(message).into_iter().map(|frame| (port, frame)));
        }
    }
}

/// An ANEP packet.
pub fn anep(type_id: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; anep::HEADER + payload.len()];
    anep::emit_basic(&mut frame, type_id, payload.len()).unwrap();
    frame[anep::HEADER..].copy_from_slice(payload);
    frame
}

/// A capsule as an overlay frame.
pub fn capsule(header: &capsule::Header) -> Vec<u8> {
    let mut bytes = vec![0; capsule::HEADER];
    header.emit(&mut bytes).unwrap();
    anep(anep::type_id::CAPSULE, &bytes)
}

/// A fetch message as an overlay frame.
pub fn message(message: &fetch::Message<'_>) -> Vec<u8> {
    let mut bytes = vec![0; message.len()];
    message.emit(&mut bytes).unwrap();
    anep(anep::type_id::FETCH, &bytes)
}

/// A part with this content out of an object of that length, in the answer to a request.
pub fn part(nonce: u32, digest: anode::wire::Digest, part: u16, object: &[u8]) -> Vec<u8> {
    let total = object.len() as u32;
    let start = usize::from(part) * fetch::PART;
    let bytes = &object[start..start + fetch::part_len(part, total).unwrap()];
    message(&fetch::Message::Part { nonce, digest, part, total, bytes })
}

/// Word that an object is not here, in the answer to a request.
pub fn absent(nonce: u32, digest: anode::wire::Digest) -> Vec<u8> {
    message(&fetch::Message::Absent { nonce, digest })
}
