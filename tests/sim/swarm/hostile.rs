//! A hostile place in the network: it answers with replays, mutated copies, forgeries and lies.

use super::random::Dice;
use anode::code::bundle::Bundle;
use anode::sim::Actor;
use anode::wire::{Addr, Digest, anep, capsule, fetch, proof};

/// Frames that one sends at most: two of them beside each other would go on for ever.
const SENDS_MAX: usize = 400;
/// Frames it remembers.
const HEARD_MAX: usize = 64;

pub struct Hostile {
    dice: Dice,
    codes: Vec<Digest>,
    nodes: usize,
    heard: Vec<Vec<u8>>,
    sent: usize,
}

impl Actor for Hostile {
    fn receive(&mut self, _: u64, port: usize, frame: &[u8], send: &mut Vec<(usize, Vec<u8>)>) {
        if self.heard.len() == HEARD_MAX {
            let oldest = self.dice.below(HEARD_MAX);
            self.heard.swap_remove(oldest);
        }
        self.heard.push(frame.to_vec());
        for _ in 0..self.dice.below(4) {
            if self.sent < SENDS_MAX {
                self.sent += 1;
                send.push((port, self.frame()));
            }
        }
    }
}

/// A place that answers nothing: when all shall end, nobody begins anew.
pub struct Silent;

impl Actor for Silent {
    fn receive(&mut self, _: u64, _: usize, _: &[u8], _: &mut Vec<(usize, Vec<u8>)>) {}
}

impl Hostile {
    pub fn new(dice: Dice, codes: &[Bundle], nodes: usize) -> Hostile {
        let codes =
            codes.iter().flat_map(|code| code.objects().map(|object| Digest::of(object)).collect::<Vec<_>>()).collect();
        Hostile { dice, codes, nodes, heard: Vec::new(), sent: 0 }
    }

    /// Something to send.
    pub fn frame(&mut self) -> Vec<u8> {
        let heard = self.heard.len();
        match self.dice.below(if heard == 0 { 6 } else { 10 }) {
            0 => self.capsule(),
            1 => self.message(),
            2 => {
                let from = self.dice.below(self.nodes);
                let bytes = self.dice.plan(from, self.nodes);
                packet(anep::type_id::PLAN, &bytes)
            }
            3 => (0..self.dice.below(200)).map(|_| self.dice.below(256) as u8).collect(),
            4 => self.revocation(),
            5 => self.proved(),
            6 => self.heard[self.dice.below(heard)].clone(),
            _ => self.bent(),
        }
    }

    fn addr(&mut self) -> Addr {
        let node = self.dice.below(self.nodes + 1) as u8;
        let mut v6 = [0; 16];
        (v6[0], v6[15]) = (0xfd, node + 1);
        self.dice.pick(&[Addr::v4([10, 0, 0, node + 1]), Addr(v6), Addr::UNSPECIFIED, Addr::v4([255; 4])])
    }

    fn code(&mut self) -> Digest {
        if self.codes.is_empty() || self.dice.one_in(4) {
            return Digest([self.dice.below(256) as u8; 32]);
        }
        self.dice.pick(&self.codes)
    }

    fn capsule(&mut self) -> Vec<u8> {
        let header = capsule::Header {
            app_port: self.dice.below(3) as u16,
            bound: self.dice.pick(&[0, 1, 60, u32::MAX]),
            code: self.code(),
            previous: self.addr(),
            source: self.addr(),
            destination: self.addr(),
        };
        let mut bytes = vec![self.dice.below(256) as u8; capsule::HEADER + self.dice.below(1300)];
        header.emit(&mut bytes).unwrap();
        packet(anep::type_id::CAPSULE, &bytes)
    }

    fn message(&mut self) -> Vec<u8> {
        let (nonce, digest) = (self.dice.below(3) as u32, self.code());
        let requester = self.addr();
        let bytes = vec![7; self.dice.pick(&[1, 300, fetch::PART])];
        let message = match self.dice.below(3) {
            0 => fetch::Message::Request { nonce, digest, missing: u64::MAX, requester },
            1 => fetch::Message::Part { nonce, digest, part: 0, total: bytes.len() as u32, bytes: &bytes },
            _ => fetch::Message::Absent { nonce, digest },
        };
        let mut sent = vec![0; message.len()];
        message.emit(&mut sent).unwrap();
        packet(anep::type_id::FETCH, &sent)
    }

    /// A word of some key's that takes something back, or one with a signature that is wrong.
    fn revocation(&mut self) -> Vec<u8> {
        let mut bytes = self.dice.revocation(&self.codes).wire().unwrap().bytes().to_vec();
        if self.dice.one_in(3) {
            let at = self.dice.below(bytes.len());
            bytes[at] ^= 1;
        }
        packet(anep::type_id::REVOCATION, &bytes)
    }

    /// Something with a proof in front that nobody has made who has the key.
    fn proved(&mut self) -> Vec<u8> {
        let inner = match self.heard.len() {
            0 => self.capsule(),
            heard => self.heard[self.dice.below(heard)].clone(),
        };
        let known = anep::Packet::new_checked(&inner).ok().and_then(|packet| proof::Repr::of(&packet));
        let counter = known.map_or(0, |known| known.counter);
        let repr = proof::Repr {
            key: known.map_or(1, |known| known.key),
            counter: self.dice.pick(&[0, counter, counter.wrapping_add(1), u64::MAX]),
            code: [self.dice.below(256) as u8; proof::CODE],
        };
        let room = if known.is_some() { 0 } else { proof::PROOF };
        let mut bytes = [vec![0; room], inner].concat();
        match known {
            // In the place of the one that it had.
            Some(_) => bytes[proof::CODE_IN_PACKET..][..proof::CODE].copy_from_slice(&repr.code),
            None if repr.put(&mut bytes).is_err() => bytes.clear(),
            None => {}
        }
        bytes
    }

    /// A frame it has heard, with some bytes changed: mostly behind the headers, so that it is looked at.
    fn bent(&mut self) -> Vec<u8> {
        let mut frame = self.heard[self.dice.below(self.heard.len())].clone();
        for _ in 0..1 + self.dice.below(3) {
            let at = self.dice.below(frame.len());
            if let Some(byte) = frame.get_mut(at) {
                *byte = self.dice.pick(&[0, 1, 0x7f, 0x80, 0xff, byte.wrapping_add(1)]);
            }
        }
        if self.dice.one_in(6) {
            frame.truncate(self.dice.below(frame.len() + 1));
        }
        frame
    }
}

fn packet(type_id: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; anep::HEADER + payload.len()];
    bytes[anep::HEADER..].copy_from_slice(payload);
    if anep::emit_basic(&mut bytes, type_id, payload.len()).is_err() {
        bytes.clear();
    }
    bytes
}
