//! Packets on their way through a graph: one by one, and together.
//!
//! One by one a packet goes from engine to engine without a stop: it is laid aside ([`Scratch::between`]) only where an engine sends more
//! than one. Packets that came together (a *run*) pass an engine all of them before the next one is asked, so that the engine, its place
//! and its links are looked up once for all. Where one of them leaves by another output, or something else comes of it, the run is cut:
//!
//! ```text
//! run 0 1 2 3 4 at an engine; 3 leaves by another output:  0 1 2 go on  │  3 goes on  │  4 comes to the engine
//! ```
//!
//! and these parts go their whole way one after the other. So on each way packets have the order in which they came.
//!
//! [`Scratch::between`]: super::scratch::Scratch

use super::engine::{GraphCx, Pushed};
use super::scratch::{Hop, Part};
use crate::core::reason::Reason;
use crate::frame::Frame;

/// Engines that packets are asked to be taken through until all have come to their end, at most: there may be circles that a switch
/// could lead out of, and does not. As many as a run of packets meets in the largest graph.
pub const STEPS_MAX: usize = 1 << 16;

/// Takes on packets between engines, down to so many.
pub(super) fn settle(cx: &mut GraphCx<'_>, down_to: usize) {
    let mut steps = STEPS_MAX;
    settle_in(cx, down_to, &mut steps);
}

/// The same, in no more than so many steps.
fn settle_in(cx: &mut GraphCx<'_>, down_to: usize, steps: &mut usize) {
    while cx.scratch.between.len() > down_to {
        let Some((at, input, frame)) = cx.scratch.between.pop() else { return };
        go_on(cx, (at, input), frame, steps);
    }
}

/// Takes one packet through the graph, beginning at this engine.
pub(super) fn take_one(cx: &mut GraphCx<'_>, engine: u16, frame: Frame) {
    let mut steps = STEPS_MAX;
    go_on(cx, (engine, 0), frame, &mut steps);
    settle_in(cx, 0, &mut steps);
}

/// A packet goes on from this input of an engine until it comes to its end, or others are to go before it.
#[inline]
fn go_on(cx: &mut GraphCx<'_>, (mut at, mut input): (u16, u16), mut frame: Frame, steps: &mut usize) {
    let mark = cx.scratch.between.len();
    loop {
        let behind = at.wrapping_add(1);
        if *steps == 0 {
            cx.scratch.dropped.push((frame, Reason::GraphCircle));
            break;
        }
        *steps -= 1;
        let taken = cx.engines.get_mut(usize::from(at)).filter(|_| !cx.scratch.is_full());
        let Some(mut engine) = taken.and_then(|place| place.engine.take()) else {
            cx.scratch.go(Hop::End, frame);
            break;
        };
        cx.at = at;
        cx.met(&frame);
        let pushed = engine.push(input, frame, cx);
        let Some(place) = cx.engines.get_mut(usize::from(at)) else { break };
        let links = place.put_back(engine);
        let Pushed::To(output, on) = pushed else {
            cx.goes_on(pushed);
            break;
        };
        let hop = links.get_mut(usize::from(output)).map_or(Hop::End, |link| link.pass(1));
        let is_alone = cx.scratch.between.len() == mark;
        // Most engines lead to the one behind them, whose number need not be waited for: that of the link would have to be read first.
        if is_alone && hop == Hop::Engine(behind, 0) {
            (at, input, frame) = (behind, 0, on);
            continue;
        }
        match elsewhere(hop) {
            Some(next) if is_alone => ((at, input), frame) = (next, on),
            _ => {
                cx.scratch.go(hop, on);
                break;
            }
        }
    }
    // What it has sent first goes on first.
    if cx.scratch.between.len() > mark + 1 {
        cx.scratch.between[mark..].reverse();
    }
}

/// Where a packet goes that does not go to the engine behind. Not inlined: so the two ways are a branch, which the processor guesses, and
/// no choice between two numbers.
#[inline(never)]
fn elsewhere(hop: Hop) -> Option<(u16, u16)> {
    match hop {
        Hop::Engine(next, input) => Some((next, input)),
        Hop::Exit | Hop::End => None,
    }
}

/// Takes the run of `cx` through the graph, beginning at this engine.
pub(super) fn take_through(cx: &mut GraphCx<'_>, engine: u16) {
    let (all, mut steps) = (cx.scratch.run.len(), STEPS_MAX);
    cx.scratch.parts.push(Part::Ahead(engine, 0, 0, all));
    while let Some(part) = cx.scratch.parts.pop() {
        match part {
            Part::Between(down_to) => settle(cx, down_to),
            Part::Ahead(_, _, from, to) if steps == 0 => {
                let over = cx.scratch.run.iter_mut().take(to).skip(from).filter_map(Option::take);
                cx.scratch.dropped.extend(over.map(|frame| (frame, Reason::GraphCircle)));
            }
            Part::Ahead(at, input, from, to) => {
                steps -= 1;
                pass(cx, (at, input), from, to);
            }
        }
    }
    cx.scratch.run.clear();
}

/// One engine has some packets of the run.
fn pass(cx: &mut GraphCx<'_>, (at, input): (u16, u16), from: usize, to: usize) {
    // The engine may use all that is around it, but not the packets that it has not seen yet.
    let mut run = core::mem::take(&mut cx.scratch.run);
    let packets = run.get_mut(from..to).unwrap_or_default();
    let taken = cx.engines.get_mut(usize::from(at)).filter(|_| !cx.scratch.is_full());
    let Some(mut engine) = taken.and_then(|place| place.engine.take()) else {
        packets.iter_mut().filter_map(Option::take).for_each(|frame| cx.scratch.go(Hop::End, frame));
        cx.scratch.run = run;
        return;
    };
    let mark = cx.scratch.between.len();
    cx.at = at;
    let end = engine.push_run(input, packets, cx);
    if let Some(place) = cx.engines.get_mut(usize::from(at)) {
        place.put_back(engine);
    }
    let stop = end.stop.as_ref().map_or(to, |(place, _)| from + place);
    if let Some((_, other)) = end.stop {
        if stop + 1 < to {
            cx.scratch.parts.push(Part::Ahead(at, input, stop + 1, to));
        }
        if let Some((output, frame)) = other {
            cx.emit(output, frame);
        }
        cx.scratch.between[mark..].reverse();
        if cx.scratch.between.len() > mark {
            cx.scratch.parts.push(Part::Between(mark));
        }
    }
    if end.packets > 0 {
        match cx.behind(end.output, end.packets) {
            Hop::Engine(next, input) => cx.scratch.parts.push(Part::Ahead(next, input, from, stop)),
            hop => run.iter_mut().take(stop).skip(from).filter_map(Option::take).for_each(|it| cx.scratch.go(hop, it)),
        }
    }
    cx.scratch.run = run;
}

#[cfg(test)]
mod tests {
    use crate::core::reason::Reason;
    use crate::frame::{FRAME, Frame, FramePool, PortId};
    use crate::graph::load::load;
    use crate::graph::scratch::Scratch;
    use crate::graph::table::Graph;
    use rand_core::{Rng, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    /// Graphs in which ways part and meet, and engines that keep, copy, use up and drop packets.
    const TEXTS: &[&str] = &[
        "FromDevice(a) -> Counter -> Paint(3) -> Strip(4) -> q :: Queue -> ToDevice(b);",
        "FromDevice(a) -> c :: Classifier(0/00, 0/01, -); c [0] -> q :: Queue -> ToDevice(b); c [1] -> p :: Queue -> ToDevice(x); \
         c [2] -> Paint(7) -> q;",
        "FromDevice(a) -> t :: Tee -> q :: Queue -> ToDevice(b); t [1] -> Strip(1) -> q; t [2] -> r :: RoundRobinSwitch -> q; \
         r [1] -> Discard;",
        "FromDevice(a) -> r :: RoundRobinSwitch -> Strip(2) -> t :: Tee -> q :: Queue -> ToDevice(b); r [1] -> q; t [1] -> q;",
        "FromDevice(a) -> Queue(3) -> Unqueue -> l :: CheckLength(30) -> q :: Queue -> ToDevice(b); l [1] -> Print(long) -> q;",
        "FromDevice(a) -> s :: RandomSample(0.5); s [0] -> q :: Queue -> ToDevice(b); s [1] -> MarkIPHeader(0) \
         -> ICMPError(10.0.0.1, unreachable) -> q;",
        "FromDevice(a) -> CheckIPHeader -> rt :: StaticIPLookup(10.0.0.0/9 0, 10.128.0.0/9 1) -> ttl :: DecIPTTL \
         -> f :: IPFragmenter(68) -> q :: Queue -> ToDevice(b); rt [1] -> DropBroadcasts -> q; \
         ttl [1] -> ICMPError(10.0.0.1, timeexceeded) -> q; f [1] -> ICMPError(10.0.0.1, unreachable, needfrag) -> q;",
        "FromDevice(a) -> Counter -> Discard; FromDevice(a) -> q :: Queue -> ToDevice(b);",
        "FromDevice(a) -> CheckLength(30) -> Queue -> ToDevice(b);",
    ];

    /// IPv4 packets of any length, kind and end.
    fn packets(chance: &mut Xoshiro256PlusPlus) -> Vec<Vec<u8>> {
        let mut one = || {
            let word = chance.next_u64();
            let mut bytes = vec![word as u8; 20 + (word >> 8) as usize % 100];
            let total = bytes.len() as u16;
            let header = &mut bytes[..20];
            header.fill(0);
            (header[0], header[6], header[8], header[9]) =
                (0x45, (word >> 16) as u8 & 0x40, (word >> 24) as u8 % 3, 17);
            header[2..4].copy_from_slice(&total.to_be_bytes());
            (header[12], header[16], header[17]) = (11, 10, (word >> 32) as u8);
            let sum = crate::wire::checksum::checksum(header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            if word.is_multiple_of(3) {
                bytes[0] = (word >> 40) as u8 % 3;
            }
            bytes
        };
        (0..64).map(|_| one()).collect()
    }

    /// What has come of packets: what left by each device, in its order, the reasons of drops, and the counts.
    fn outcome(graph: &mut Graph, pool: &mut FramePool, scratch: &mut Scratch) -> String {
        while graph.work(1, pool, scratch) {}
        let by = |port: u16| {
            let frames = scratch.out.iter().filter(|frame| frame.port.0 == port);
            frames.map(|frame| (frame.bytes().to_vec(), frame.notes.paint)).collect::<Vec<_>>()
        };
        let out: Vec<_> = (0..3).map(by).collect();
        let mut dropped: Vec<(Vec<u8>, Reason)> =
            scratch.dropped.iter().map(|(frame, reason)| (frame.bytes().to_vec(), *reason)).collect();
        dropped.sort_by(|one, other| one.0.cmp(&other.0));
        let wires: Vec<_> = graph.wires().iter().map(|wire| (wire.from, wire.packets)).collect();
        let counts = (scratch.begun, scratch.used, graph.held(), &scratch.said);
        format!("{out:?}\n{dropped:?}\n{wires:?}\n{counts:?}")
    }

    #[test]
    fn who_is_followed_is_told_of_at_each_engine_and_at_the_same_ones_alone_and_together() {
        let text = "FromDevice(a) -> c :: Classifier(0/00, -) -> t :: Tee -> q :: Queue -> s :: Shaper(1000000) \
                    -> d :: ToDevice(b); t [1] -> n :: Counter -> x :: Discard; c [1] -> m :: CheckLength(60) -> x;";
        for is_run in [false, true] {
            let mut graph = load(text, &[]).unwrap_or_else(|wrong| panic!("{wrong:?}"));
            let mut pool = FramePool::new(FRAME, 16);
            let mut scratch = Scratch { is_watched: true, ..Scratch::default() };
            // The last one is not among those that are followed.
            let sample = [([0; 60], 7), ([1; 60], 8), ([0; 60], 0)];
            let frames = sample.map(|(bytes, trace)| {
                let mut frame = Frame::from_bytes(&bytes);
                frame.trace = trace;
                frame
            });
            if is_run {
                graph.receive_all(PortId(0), &mut frames.into_iter().collect(), 1, &mut pool, &mut scratch);
            } else {
                frames.into_iter().for_each(|frame| graph.receive(frame, 1, &mut pool, &mut scratch));
            }
            while graph.work(1, &mut pool, &mut scratch) {}
            let of = |number| {
                let met = scratch.met.iter().filter(|(trace, _)| *trace == number);
                met.map(|(_, engine)| &**engine).collect::<Vec<_>>()
            };
            assert_eq!(of(7), ["FromDevice@1", "c", "t", "q", "n", "x", "s", "d"], "{is_run}");
            assert_eq!(of(8), ["FromDevice@1", "c", "m", "x"], "{is_run}");
            assert_eq!(scratch.met.len(), 12, "{is_run}");
        }
    }

    #[test]
    fn packets_in_a_circle_that_nothing_leads_out_of_come_to_an_end() {
        for text in [
            "FromDevice(a) -> s :: Switch(0); s -> Counter -> s; s[1] -> Discard;",
            "FromDevice(a) -> t :: Tee; t -> t; t[1] -> t;",
            "FromDevice(a) -> t :: Tee; t -> t; t[1] -> Counter -> t;",
        ] {
            for is_run in [false, true] {
                let mut graph = load(text, &[]).unwrap_or_else(|wrong| panic!("{text}: {wrong:?}"));
                let (mut pool, mut scratch) = (FramePool::new(FRAME, 16), Scratch::default());
                let frames = [Frame::from_bytes(&[0; 60]), Frame::from_bytes(&[1; 60])];
                if is_run {
                    graph.receive_all(PortId(0), &mut frames.into_iter().collect(), 1, &mut pool, &mut scratch);
                } else {
                    frames.into_iter().for_each(|frame| graph.receive(frame, 1, &mut pool, &mut scratch));
                }
                let ended = scratch.dropped.len() as u64;
                assert_eq!((ended, scratch.out.len(), scratch.between.len()), (2 + scratch.begun, 0, 0), "{text}");
                assert!(ended <= 2 * super::super::scratch::AT_ONCE_MAX as u64 + 2, "{text}: {ended}");
                let is_circle = scratch.dropped.iter().any(|(_, reason)| *reason == Reason::GraphCircle);
                assert_eq!(is_circle, text.contains("Switch"), "{text}");
            }
        }
    }

    #[test]
    fn together_each_packet_goes_the_way_that_it_goes_alone() {
        let seed = 5;
        println!("seed {seed}");
        let mut chance = Xoshiro256PlusPlus::seed_from_u64(seed);
        for text in TEXTS {
            let sample = packets(&mut chance);
            for together in [1, 2, 7, 16, 64] {
                let outcomes = [false, true].map(|is_run| {
                    let mut graph = load(text, &[]).unwrap_or_else(|wrong| panic!("{text}: {wrong:?}"));
                    let (mut pool, mut scratch) = (FramePool::new(FRAME, 16), Scratch::default());
                    for part in sample.chunks(together) {
                        let mut frames: Vec<_> = part.iter().map(|bytes| Frame::from_bytes(bytes)).collect();
                        if is_run {
                            graph.receive_all(PortId(0), &mut frames, 1, &mut pool, &mut scratch);
                        }
                        for frame in frames {
                            graph.receive(frame, 1, &mut pool, &mut scratch);
                        }
                    }
                    outcome(&mut graph, &mut pool, &mut scratch)
                });
                assert!(outcomes[0] == outcomes[1], "{text}, {together}\n{}\n\n{}", outcomes[0], outcomes[1]);
            }
        }
    }
}
