//! Errors about packets whose ends were changed go to who sent those packets (RFC 5508 §4). Example: a router far away says to a translator
//! that a host is unreachable, and somebody behind the translator is told.

use super::ip_rewriter::IpRewriter;
use crate::frame::Frame;
use crate::graph::arguments::{Arguments, words_of};
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::packet::{self, FlowEnds};
use crate::graph::partner::Partner;
use crate::wire::{checksum, icmp};

/// `ICMPRewriter`.
pub const CLASS: EngineClass = EngineClass {
    name: "ICMPRewriter",
    doc: "Gives ICMP errors about packets of rewriters the ends that those packets had before; all others leave by output \
          1. ICMPRewriter(MAPS): IPRewriter and ICMPPingRewriter engines, with spaces between them",
    make: Make::with("1/1-2", "h/h", "x/x", make),
};

/// Rewriters that one looks at, at most.
const MAPS_MAX: usize = 8;

/// The classes that they are of, the first also by its other names.
const REWRITERS: &[&str] = &["IPRewriter", "ICMPPingRewriter"];

fn make(args: &mut Arguments<'_>) -> Option<Box<dyn Engine>> {
    args.ignore(&["DST_ANNO", "REPLY_ANNO"]);
    let [written] = args.rest()[..] else {
        args.say_all(format!("'{}' has one argument", args.name), "MAPS: rewriters, with spaces between them");
        return None;
    };
    let words = words_of(written);
    if !(1..=MAPS_MAX).contains(&words.len()) {
        args.say(written, format!("'{}' looks at {} rewriters", args.name, words.len()), format!("1 to {MAPS_MAX}"));
        return None;
    }
    let maps: Vec<_> = words.iter().map(|word| args.other(written, word, REWRITERS)).collect();
    Some(Box::new(IcmpRewriter { maps: maps.into_iter().collect::<Option<_>>()? }))
}

struct IcmpRewriter {
    maps: Vec<Partner>,
}

/// The ends that an error has, and those of the packet it is about: before and after.
struct About {
    quote: usize,
    was: FlowEnds,
    becomes: FlowEnds,
}

impl Engine for IcmpRewriter {
    fn push(&mut self, _: u16, mut frame: Frame, cx: &mut GraphCx<'_>) -> Pushed {
        let Some(about) = self.about(&frame, cx) else { return Pushed::To(1, frame) };
        about.rewrite(&mut frame);
        Pushed::To(0, frame)
    }
}

impl IcmpRewriter {
    /// What is about a packet of a flow that is known, and goes to where that packet came from.
    fn about(&mut self, frame: &Frame, cx: &mut GraphCx<'_>) -> Option<About> {
        let ip = packet::ip(frame)?;
        let is_error = ip.protocol() == packet::protocol::ICMP
            && ip.payload().first().is_some_and(|kind| matches!(kind, 3 | 4 | 5 | 11 | 12))
            && !ip.is_fragment();
        let (quote, total) = (ip.header_len() + icmp::HEADER, ip.total_len());
        let was = FlowEnds::quoted(packet::from_ip(frame).get(quote..total).filter(|_| is_error)?)?;
        // Nobody else is told of it but who has sent it.
        packet::ends(frame).filter(|(_, to)| *to == was.source.0)?;
        let now = cx.now;
        let becomes = self.maps.iter_mut().find_map(|map| cx.other::<IpRewriter>(map)?.before(&was, now))?;
        Some(About { quote, was, becomes })
    }
}

impl About {
    fn rewrite(&self, frame: &mut Frame) {
        let Some((from, _)) = packet::ends(frame) else { return };
        let total = packet::ip(frame).map_or(0, |ip| ip.total_len());
        let bytes = packet::from_ip_mut(frame);
        if let Some(quoted) = bytes.get_mut(self.quote..total) {
            self.becomes.write(quoted);
        }
        // Nobody outside sees who is behind the translator: a station there, or a router on the way to it.
        let is_hidden = self.becomes.destination.0 != self.was.destination.0;
        let source = if is_hidden { self.becomes.destination.0 } else { from };
        for (at, address) in [(12, source), (16, self.becomes.source.0)] {
            for half in [0, 2] {
                packet::change_word(bytes, at + half, [address.0[half], address.0[half + 1]]);
            }
        }
        if let Some(message) = bytes.get_mut(self.quote - icmp::HEADER..total) {
            message[2..4].fill(0);
            let sum = checksum::checksum(message);
            message[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        frame.notes.next = self.becomes.source.0.0;
    }
}
