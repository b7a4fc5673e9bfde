//! The next generation of a graph takes over what the one before knows, and that one comes to its end.
//!
//! Engines of the same name and class are the same engine in another graph: a queue's packets, a translator's flows and a counter's counts
//! go on. Classes are this program's own, so both speak of one version. What has no successor stays, and goes its way there.

use super::engine::Engine;
use super::scratch::Hop;
use super::table::Graph;
use std::collections::HashMap;
use std::sync::Arc;

/// A connection, with what has gone over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphWire {
    /// The engine before it, and its output.
    pub from: (u16, u16),
    /// The engine behind it, and its input.
    pub to: (u16, u16),
    /// Whether packets are pushed over it; else they are pulled.
    pub pushes: bool,
    /// Packets so far.
    pub packets: u64,
}

impl Graph {
    /// Takes over what engines of the same names and classes keep in `before`; how many of them there are in both.
    pub fn take_over(&mut self, before: &mut Graph) -> usize {
        self.follow(before, |engine, old| engine.take_state(old))
    }

    /// What `before` has counted since then, for packets that came late, is counted here.
    pub fn count_late(&mut self, before: &mut Graph) {
        self.follow(before, |engine, old| engine.count_late(old));
    }

    /// Does something for each engine of the same name and class in both, whose counts at outputs go on; how many there are.
    fn follow(&mut self, before: &mut Graph, mut each: impl FnMut(&mut dyn Engine, &mut dyn Engine)) -> usize {
        let places = before.engines.iter().enumerate().map(|(at, placed)| (placed.name.clone(), at));
        let places: HashMap<Arc<str>, usize> = places.collect();
        let mut both = 0;
        for placed in &mut self.engines {
            let known = places.get(&placed.name).and_then(|at| before.engines.get_mut(*at));
            let Some(known) = known.filter(|known| known.class.is(&placed.class)) else { continue };
            both += 1;
            let (Some(engine), Some(old)) = (&mut placed.engine, &mut known.engine) else { continue };
            each(&mut **engine, &mut **old);
            for (link, old) in placed.links.iter_mut().zip(&mut known.links) {
                link.packets += core::mem::take(&mut old.packets);
            }
        }
        both
    }

    /// Nothing begins here any more: engines without inputs have no turns, and nothing to give. What is held goes on.
    pub fn wind_down(&mut self) {
        let sources = self.engines.iter_mut().filter(|placed| placed.before.is_empty());
        for engine in sources.filter_map(|placed| placed.engine.as_mut()) {
            // One that cannot be switched off begins nothing by itself.
            let _ = engine.write("active", "false");
        }
        let engines = &self.engines;
        self.tasks.retain(|at| engines.get(usize::from(*at)).is_some_and(|placed| !placed.before.is_empty()));
    }

    /// All connections, by the engines before them.
    pub fn wires(&self) -> Vec<GraphWire> {
        let mut wires = Vec::new();
        for (at, placed) in (0..).zip(&self.engines) {
            for (output, link) in (0..).zip(&placed.links) {
                if let Hop::Engine(to, input) = link.to {
                    wires.push(GraphWire { from: (at, output), to: (to, input), pushes: true, packets: link.packets });
                }
            }
            for (input, from) in (0..).zip(&placed.before) {
                let before = self.engines.get(usize::from(from.0));
                if let Some(link) = before.and_then(|before| before.links.get(usize::from(from.1))) {
                    wires.push(GraphWire { from: *from, to: (at, input), pushes: false, packets: link.packets });
                }
            }
        }
        wires.sort_unstable_by_key(|wire| (wire.from, wire.to));
        wires
    }

    /// Packets that an engine holds.
    pub fn held_by(&self, engine: u16) -> u64 {
        let placed = self.engines.get(usize::from(engine));
        placed.and_then(|placed| placed.engine.as_ref()).map_or(0, |engine| engine.held())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{FRAME, Frame, FramePool, PortId};
    use crate::graph::load::load;
    use crate::graph::scratch::Scratch;

    fn graph(text: &str) -> Graph {
        load(text, &[]).unwrap_or_else(|wrong| panic!("{text}: {wrong:?}"))
    }

    fn feed(graph: &mut Graph, packets: usize, (pool, scratch): (&mut FramePool, &mut Scratch)) {
        for _ in 0..packets {
            let mut frame = Frame::from_bytes(&[0; 60]);
            frame.port = PortId(0);
            graph.receive(frame, 1, pool, scratch);
        }
    }

    #[test]
    fn engines_of_the_same_name_and_class_go_on() {
        let shaped = |rest: &str| format!("FromDevice(a) -> c :: Counter -> q :: {rest} -> Shaper(1) -> ToDevice(b);");
        // Whether the queue's packets go on, and how many of them.
        for (after, held, left) in [
            (shaped("Queue(10)"), 5, 0),
            (shaped("Queue(3)"), 3, 2),
            (shaped("FrontDropQueue(10)"), 0, 5),
            (shaped("Queue(10) -> other :: Counter"), 5, 0),
            ("FromDevice(a) -> c :: Counter -> p :: Queue(10) -> Shaper(1) -> ToDevice(b);".into(), 0, 5),
        ] {
            let (mut pool, mut scratch) = (FramePool::new(FRAME, 16), Scratch::default());
            let mut before = graph(&shaped("Queue(10)"));
            feed(&mut before, 5, (&mut pool, &mut scratch));
            let mut next = graph(&after);
            next.take_over(&mut before);
            assert_eq!((next.held(), before.held()), (held, left), "{after}");
            let count = next.find("c").and_then(|at| next.read(at, "count"));
            assert_eq!(count.as_deref(), Some("5"), "{after}");
        }
    }

    /// A question for 10.0.0.9, whose answer is waited for in one generation and comes in the next.
    #[test]
    fn who_is_asked_for_answers_in_the_next_generation() {
        let text = |own: &str| {
            format!(
                "FromDevice(a) -> Strip(14) -> SetIPAddress(10.0.0.9) -> [0] q :: ARPQuerier({own}, 02:00:00:00:00:01); \
                 FromDevice(b) -> [1] q; q -> Queue -> ToDevice(b);"
            )
        };
        for (own, held) in [("10.0.0.1", 0), ("10.0.0.2", 1)] {
            let (mut pool, mut scratch) = (FramePool::new(FRAME, 16), Scratch::default());
            let mut before = graph(&text("10.0.0.1"));
            feed(&mut before, 1, (&mut pool, &mut scratch));
            assert_eq!(before.held(), 2, "the packet, and the question in the queue");
            while before.work(1, &mut pool, &mut scratch) {}
            let mut next = graph(&text(own));
            next.take_over(&mut before);
            assert_eq!((next.held(), before.held()), (1 - held, held), "{own}");
        }
    }

    #[test]
    fn what_winds_down_begins_nothing() {
        let mut graph = graph("InfiniteSource(LIMIT 7) -> q :: Queue(10) -> ToDevice(b);");
        let (mut pool, mut scratch) = (FramePool::new(FRAME, 16), Scratch::default());
        graph.wind_down();
        while graph.work(1, &mut pool, &mut scratch) {}
        assert_eq!((scratch.begun, scratch.out.len()), (0, 0));
        let mut pulled = self::graph("InfiniteSource(LIMIT 7) -> ToDevice(b);");
        pulled.wind_down();
        while pulled.work(1, &mut pool, &mut scratch) {}
        assert_eq!((scratch.begun, scratch.out.len()), (0, 0));
    }

    #[test]
    fn connections_are_told_with_how_packets_go_over_them() {
        let mut graph = graph("FromDevice(a) -> q :: Queue(9) -> ToDevice(b);");
        let (mut pool, mut scratch) = (FramePool::new(FRAME, 16), Scratch::default());
        feed(&mut graph, 4, (&mut pool, &mut scratch));
        while graph.work(1, &mut pool, &mut scratch) {}
        let told: Vec<_> = graph.wires().iter().map(|wire| (wire.from, wire.to, wire.pushes, wire.packets)).collect();
        assert_eq!(told, [((0, 0), (1, 0), true, 4), ((1, 0), (2, 0), false, 4)]);
    }
}
