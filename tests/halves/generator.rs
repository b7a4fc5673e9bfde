//! Random packet cases from a seed: capsules in transit, capsules that end here, and frames with any field, byte or
//! length wrong.

use super::dice::Dice;
use super::draft::{Draft, Form, mend_ipv4};
use super::fields;
use super::messages;
use super::place::{LEFT, OWN_LEFT, RIGHT, own, v6};
use anode::wire::{Addr, Digest, capsule};

/// A program that cases are made for.
#[derive(Clone, Debug)]
pub struct Subject {
    pub title: &'static str,
    pub code: Digest,
    /// Whether it sends children.
    pub sends: bool,
    /// Of how many cases it gets its share.
    pub weight: usize,
    /// Why the kernel half does not run it, if it does not.
    pub refused: Option<String>,
}

/// What is done to a capsule in transit to make a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Nothing: good, between two neighbours, with bound and time to live, to where the node knows a way.
    Transit,
    /// It is good, and its way is not: for this node, nowhere, from strangers, without bound, too big …
    Edge,
    /// A field or byte is wrong, or there are more or fewer bytes than there should be.
    Mutated,
}

/// How many cases of a thousand are of which kind.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    pub edge: usize,
    pub mutated: usize,
}

/// Traffic as a node in the middle of a network has it.
pub const TRAFFIC: Mix = Mix { edge: 20, mutated: 20 };

/// As many strange cases as good ones.
pub const ROUGH: Mix = Mix { edge: 300, mutated: 400 };

/// One frame that comes in, after some time.
#[derive(Clone, Debug)]
pub struct Case {
    pub what: String,
    /// Index of the subject.
    pub subject: usize,
    pub form: Form,
    pub kind: Kind,
    pub port: u16,
    pub bytes: Vec<u8>,
    /// By how many steps of the clock it comes later than the one before.
    pub steps: u64,
}

pub struct Generator {
    pub dice: Dice,
    pub subjects: Vec<Subject>,
    mix: Mix,
}

/// Largest frame that a node's buffer takes whole.
const FRAME_MAX: usize = 1900;

impl Generator {
    pub fn new(seed: u64, subjects: Vec<Subject>, mix: Mix) -> Generator {
        Generator { dice: Dice::new(seed), subjects, mix }
    }

    /// The next case.
    pub fn next(&mut self) -> Case {
        let subject = self.subject();
        let roll = self.dice.below(1000);
        let kind = match roll {
            _ if roll < self.mix.mutated => Kind::Mutated,
            _ if roll < self.mix.mutated + self.mix.edge => Kind::Edge,
            _ => Kind::Transit,
        };
        let form =
            *self.dice.pick(&[Form::V4Udp, Form::V4Udp, Form::V4Udp, Form::V4Direct, Form::V6Udp, Form::V6Direct]);
        let port = self.dice.below(2) as u16;
        let mut draft = self.transit(subject, form, port);
        let title = self.subjects[subject].title;
        let (mut what, mut bytes) = (format!("{title}, {form:?}"), vec![]);
        match kind {
            Kind::Transit => {}
            Kind::Edge => what += self.edge(&mut draft),
            Kind::Mutated if self.dice.chance(600) => {
                for _ in 0..1 + self.dice.below(2) {
                    what += self.field(&mut draft);
                }
            }
            Kind::Mutated => {
                bytes = draft.frame();
                what += &self.bytes(&mut bytes);
            }
        }
        if bytes.is_empty() {
            bytes = draft.frame();
        }
        bytes.truncate(FRAME_MAX);
        let steps = *self.dice.pick(&[0, 0, 0, 0, 0, 0, 0, 1, 1, 10]);
        Case { what, subject, form, kind, port, bytes, steps }
    }

    fn subject(&mut self) -> usize {
        let all: usize = self.subjects.iter().map(|subject| subject.weight).sum();
        let mut at = self.dice.below(all);
        for (index, subject) in self.subjects.iter().enumerate() {
            if at < subject.weight {
                return index;
            }
            at -= subject.weight;
        }
        0
    }

    /// A good capsule between two neighbours, in one direction or the other.
    pub fn transit(&mut self, subject: usize, form: Form, port: u16) -> Draft {
        let (dice, v4) = (&mut self.dice, form.is_v4());
        let (source, destination) = (dice.host(port, v4), dice.host(1 - port, v4));
        let previous = match (port, v4) {
            (0, true) => LEFT,
            (_, true) => RIGHT,
            (port, false) => v6(port as u8 + 1, 1),
        };
        let bound = *dice.pick(&[1, 2, 3, 8, 33, 63, 64]);
        let app_port = *dice.pick(&[5, 5, 6, 0, 49152, 65535]);
        let subject = &self.subjects[subject];
        let payload = messages::payload(subject.title, dice, source, destination);
        let header = capsule::Header { app_port, bound, code: subject.code, previous, source, destination };
        let mut draft = Draft::new(form, port, header, payload);
        draft.hops = *dice.pick(&[2, 3, 33, 63, 64, 255]);
        draft.service = *dice.pick(&[0, 0, 0, 0xb8, 0x03, 0xff]);
        draft
    }

    /// Gives a good capsule a way that is none, or a long one.
    fn edge(&mut self, draft: &mut Draft) -> &'static str {
        let dice = &mut self.dice;
        let (v4, port) = (draft.form.is_v4(), u16::from(draft.header.previous == RIGHT));
        match dice.below(13) {
            0 => {
                draft.header.destination = own(dice.below(2) as u16, v4);
                ", for this node"
            }
            1 => {
                draft.header.destination = dice.any_addr();
                ", for anywhere"
            }
            2 => {
                draft.header.source = dice.any_addr();
                ", from anywhere"
            }
            3 => {
                draft.header.bound = *dice.pick(&[0, 0, 65, 255, 1000, u32::MAX]);
                ", with a bound of nothing or above its port's ceiling"
            }
            4 => {
                draft.hops = dice.below(2) as u8;
                ", at the end of its time to live"
            }
            5 => {
                let strangers =
                    [Addr::v4([10, 0, 9, 9]), Addr::UNSPECIFIED, OWN_LEFT, LEFT, RIGHT, v6(1, 1), v6(2, 1), v6(7, 7)];
                draft.header.previous = *dice.pick(&strangers);
                ", by a stranger"
            }
            6 => {
                let host = 70 + dice.below(4) as u8;
                let near = if v4 { Addr::v4([10, 0, 1 + port as u8, host]) } else { v6(port as u8 + 1, host) };
                draft.header.previous = near;
                ", by a neighbour not configured"
            }
            7 => {
                let length = dice.below(draft.payload.len().max(1));
                draft.payload.truncate(length);
                ", less payload"
            }
            8 => {
                let ip = if v4 { 20 } else { 40 } + if draft.form.is_udp() { 8 } else { 0 } + 8 + 88;
                draft.payload.resize(1500 - ip - 3 + dice.below(6), 1);
                ", about as large as the link carries"
            }
            9 => {
                draft.header.destination = dice.host(port, v4);
                ", back to where it came from"
            }
            10 => {
                draft.header.code = Digest([dice.below(4) as u8; 32]);
                ", unknown code"
            }
            11 => {
                draft.payload.resize(draft.payload.len() + dice.below(900), 7);
                ", more payload"
            }
            _ => {
                draft.header.source = own(dice.below(2) as u16, v4);
                ", from this node"
            }
        }
    }

    /// Sets a field to what it should not be.
    fn field(&mut self, draft: &mut Draft) -> &'static str {
        if self.dice.chance(500) {
            fields::outer_field(&mut self.dice, draft)
        } else {
            fields::inner_field(&mut self.dice, draft)
        }
    }

    /// Changes bytes of a frame, or how many there are; the IPv4 header's checksum is mended half of the time.
    fn bytes(&mut self, bytes: &mut Vec<u8>) -> String {
        let dice = &mut self.dice;
        let mut what = String::new();
        for _ in 0..1 + dice.below(3) {
            let at = dice.below(bytes.len().clamp(1, 14 + 48 + 8 + 88 + 40));
            match dice.below(8) {
                0 => {
                    bytes.truncate(at.max(14));
                    what += &format!(", cut to {}", bytes.len());
                }
                1 => {
                    let more = dice.below(200);
                    bytes.extend(dice.bytes(more));
                    what += &format!(", {more} bytes more");
                }
                2 => {
                    let byte = dice.below(256) as u8;
                    bytes.insert(at.min(bytes.len()), byte);
                    what += &format!(", one more byte at {at}");
                }
                3 if bytes.len() > 15 => {
                    bytes.remove(at.min(bytes.len() - 1));
                    what += &format!(", one byte less at {at}");
                }
                4 => {
                    let at = at.min(bytes.len() - 1);
                    bytes[at] = *dice.pick(&[0, 1, 0x7f, 0x80, 0xff]);
                    what += &format!(", byte {at} set");
                }
                _ => {
                    let at = at.min(bytes.len() - 1);
                    bytes[at] ^= 1 << dice.below(8);
                    what += &format!(", byte {at} bent");
                }
            }
        }
        if dice.chance(500) && bytes.get(12..14) == Some(&[8, 0]) {
            mend_ipv4(bytes);
        }
        what
    }
}
