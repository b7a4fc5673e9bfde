//! IP headers that are right (RFC 1812 §5.2.2).

use crate::frame::FRAME;
use crate::frame::Frame;
use crate::graph::arguments::{Arguments, FromArgument, Ip4, Net4, WordList, words_of};
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::packet;
use crate::wire::ipv4;

/// `CheckIPHeader`.
pub const CLASS: EngineClass = EngineClass {
    name: "CheckIPHeader",
    doc: "Passes IPv4 packets whose header, checksum and source are right, notes where the header is, and cuts \
          padding off; others leave by output 1. CheckIPHeader([OFFSET or BADSRC], [INTERFACES], [BADSRC], \
          [GOODDST], [OFFSET n], [CHECKSUM]). Handler: drops",
    make: Make::with("1/1-2", "a/ah", "x/x", make),
};

fn make(args: &mut Arguments<'_>) -> Option<Box<dyn Engine>> {
    let mut check = CheckIpHeader {
        offset: args.key("OFFSET", 0u16)?.into(),
        sums: args.key("CHECKSUM", true)?,
        ..Default::default()
    };
    let near = args.key("INTERFACES", WordList::default())?;
    let mut bad = args.key("BADSRC", WordList::default())?;
    let good = args.key("GOODDST", WordList::default())?;
    args.ignore(&["VERBOSE", "DETAILS", "BADSRC*"]);
    if let Some(first) = args.rest().first() {
        match first.text.parse() {
            Ok(offset) if offset < FRAME => check.offset = offset,
            _ => bad.0.extend(words_of(first).into_iter().map(str::to_owned)),
        }
    }
    let mut read = |words: &WordList| {
        let read: Option<Vec<_>> = words.0.iter().map(|word| Net4::read(word, args.names)).collect();
        if read.is_none() {
            args.say_all(
                format!("'{}' has what is no address", words.0.join(" ")),
                "IPv4 addresses with spaces between them",
            );
        }
        read
    };
    let (near, bad, good) = (read(&near)?, read(&bad)?, read(&good)?);
    let last = |net: &Net4| Ip4((u32::from_be_bytes(net.address.0) | !net.mask()).to_be_bytes());
    check.bad = bad.iter().map(|net| net.address).collect();
    if !near.is_empty() {
        // Broadcasts of the networks, and nobody.
        check.bad.extend(near.iter().filter(|net| net.length < 31).map(last));
        check.good.extend(near.iter().filter(|net| net.length < 31).map(last));
        check.bad.extend([Ip4([0; 4]), Ip4([255; 4])]);
    }
    check.good.extend(good.iter().map(|net| net.address));
    Some(Box::new(check))
}

#[derive(Default)]
struct CheckIpHeader {
    offset: usize,
    sums: bool,
    bad: Vec<Ip4>,
    /// Receivers of which any sender is right.
    good: Vec<Ip4>,
    drops: u64,
}

impl CheckIpHeader {
    /// The length of the packet, if its header is right.
    fn length(&self, frame: &Frame) -> Option<usize> {
        let packet = ipv4::Packet::new_checked(frame.bytes().get(self.offset..)?).ok()?;
        let (from, to) = (Ip4(packet.source().bytes_v4()?), Ip4(packet.destination().bytes_v4()?));
        let summed = !self.sums || packet.verify_checksum();
        (summed && (!self.bad.contains(&from) || self.good.contains(&to))).then_some(packet.total_len())
    }
}

impl Engine for CheckIpHeader {
    fn push(&mut self, _: u16, mut frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        match self.length(&frame) {
            Some(length) => {
                frame.truncate(self.offset + length);
                packet::note_ip(&mut frame, self.offset);
                if let Some((_, to)) = packet::ends(&frame) {
                    frame.notes.next = to.0;
                }
                Pushed::To(0, frame)
            }
            None => {
                self.drops += 1;
                Pushed::To(1, frame)
            }
        }
    }

    fn read(&self, handler: &str) -> Option<String> {
        (handler == "drops").then(|| self.drops.to_string())
    }
}
