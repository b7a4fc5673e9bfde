//! The attacker's side of code fetch: it gives a node every part of every object that it asks for.

use anode::code::bundle::Bundle;
use anode::wire::{Digest, anep, fetch};
use std::collections::HashMap;
use std::sync::Arc;

/// Objects by name.
pub(super) struct Server(HashMap<Digest, Arc<[u8]>>);

impl Server {
    /// All objects of these codes.
    pub(super) fn new<'a>(bundles: impl IntoIterator<Item = &'a Bundle>) -> Server {
        let objects = bundles.into_iter().flat_map(Bundle::objects);
        Server(objects.map(|object| (Digest::of(object), object.clone())).collect())
    }

    /// Answers a datagram, if it asks for something.
    pub(super) fn answer(&self, datagram: &[u8], mut send: impl FnMut(&[u8])) {
        let Ok(packet) = anep::Packet::new_checked(datagram) else { return };
        if packet.type_id() != anep::type_id::FETCH {
            return;
        }
        let Ok(fetch::Message::Request { nonce, digest, missing, .. }) = fetch::Message::parse(packet.payload()) else {
            return;
        };
        let Some(object) = self.0.get(&digest) else {
            return put(&fetch::Message::Absent { nonce, digest }, &mut send);
        };
        let total = object.len() as u32;
        for part in (0..fetch::parts(total) as u16).filter(|part| missing >> part & 1 == 1) {
            let Some(length) = fetch::part_len(part, total) else { break };
            let start = usize::from(part) * fetch::PART;
            let bytes = &object[start..start + length];
            put(&fetch::Message::Part { nonce, digest, part, total, bytes }, &mut send);
        }
    }
}

fn put(message: &fetch::Message<'_>, send: &mut impl FnMut(&[u8])) {
    let mut bytes = vec![0; anep::HEADER + message.len()];
    let headed = anep::emit_basic(&mut bytes, anep::type_id::FETCH, message.len());
    if headed.is_ok() && message.emit(&mut bytes[anep::HEADER..]).is_ok() {
        send(&bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anode::code::bundle::Kind;
    use anode::wire::Addr;

    #[test]
    fn what_is_asked_for_is_given_part_by_part() {
        let wasm: Arc<[u8]> = vec![7; 2500].into();
        let bundle = Bundle::build("x", 0, &[(Kind::Wasm, wasm.clone())], None).unwrap();
        let server = Server::new([&bundle]);
        let ask = |digest, missing| {
            let message = fetch::Message::Request { nonce: 9, digest, missing, requester: Addr::UNSPECIFIED };
            let (mut asked, mut answers) = (Vec::new(), Vec::new());
            put(&message, &mut |bytes: &[u8]| asked = bytes.to_vec());
            server.answer(&asked, |bytes| answers.push(bytes.to_vec()));
            answers
        };
        assert_eq!(ask(Digest::of(&wasm), 0b101).len(), 2);
        let absent = ask(Digest([0; 32]), 1);
        let packet = anep::Packet::new_checked(&absent[0]).unwrap();
        assert!(matches!(fetch::Message::parse(packet.payload()), Ok(fetch::Message::Absent { nonce: 9, .. })));
        server.answer(b"nonsense", |_| panic!("nothing was asked"));
    }
}
