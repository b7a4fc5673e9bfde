//! IP headers that are right (RFC 1812 §5.2.2).

use crate::contract::plan::{FusedStep, FusedTest, IP_AT};
use crate::frame::FRAME;
use crate::frame::Frame;
use crate::graph::arguments::{Arguments, FromArgument, Ip4, Net4, WordList, words_of};
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::fused::{FusedAt, FusedBody, FusedLabel, NoForm};
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

/// Addresses that one compares with in the kernel, at most.
const ADDRESSES_MAX: usize = 32;

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
    /// The length of the packet and its receiver, if its header is right.
    #[inline]
    fn right(&self, frame: &Frame) -> Option<(usize, Ip4)> {
        let packet = ipv4::Packet::new_checked(frame.bytes().get(self.offset..)?).ok()?;
        let (from, to) = (Ip4(packet.source().bytes_v4()?), Ip4(packet.destination().bytes_v4()?));
        let summed = !self.sums || packet.verify_checksum();
        (summed && (!self.bad.contains(&from) || self.good.contains(&to))).then_some((packet.total_len(), to))
    }
}

impl Engine for CheckIpHeader {
    fn push(&mut self, _: u16, mut frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        match self.right(&frame) {
            Some((length, to)) => {
                frame.truncate(self.offset + length);
                packet::note_ip(&mut frame, self.offset);
                frame.notes.next = to.0;
                Pushed::To(0, frame)
            }
            None => {
                self.drops += 1;
                Pushed::To(1, frame)
            }
        }
    }

    fn kernel(&self, _: u16, at: FusedAt, body: &mut FusedBody<'_>) -> Result<FusedLabel, NoForm> {
        if usize::from(at.first) + self.offset != usize::from(IP_AT) {
            let why =
                format!("an IP header {} bytes behind the frame's beginning", usize::from(at.first) + self.offset);
            return Err(NoForm::Because(why));
        }
        if self.bad.len() + self.good.len() > ADDRESSES_MAX {
            return Err(NoForm::Because(format!("it knows more than {ADDRESSES_MAX} addresses")));
        }
        let (wrong, right) = (
            body.to(1, at)?,
            body.to(0, FusedAt { network: Some(IP_AT), next: Some(at.receiver()), is_v4: true, ..at })?,
        );
        let wrong = body.steps(vec![FusedStep::Count(body.own(0))], wrong)?;
        let right = body.steps(vec![FusedStep::Trim], right)?;
        let is = |at: u16, address: &Ip4| {
            let number = u32::from_be_bytes(address.0);
            FusedTest { at, width: 4, shift: 0, mask: u32::MAX, low: number, high: number, reach: 0 }
        };
        let mut of_bad = wrong;
        for good in self.good.iter().rev() {
            of_bad = body.test(is(IP_AT + 16, good), right, of_bad)?;
        }
        let mut label = right;
        for bad in self.bad.iter().rev() {
            label = body.test(is(IP_AT + 12, bad), of_bad, label)?;
        }
        // Its length and sum were looked at before it came here.
        body.is_v4(at, label, wrong)
    }

    fn kernel_words(&self) -> u16 {
        1
    }

    fn add_kernel(&mut self, words: &[u64]) {
        self.drops += words.first().unwrap_or(&0);
    }

    fn read(&self, handler: &str) -> Option<String> {
        (handler == "drops").then(|| self.drops.to_string())
    }
}
