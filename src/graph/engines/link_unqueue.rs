//! A link: packets take time to be put on it, one behind the other, and time to its other end.

use crate::frame::Frame;
use crate::graph::arguments::{BytesPerSecond, Span64};
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx};
use std::collections::VecDeque;

/// Packets that are on one link, at most: none is pulled while it is full, so that a link of a day holds no more.
const ON_LINK_MAX: usize = 4096;

/// How late a turn may come for a packet, in nanoseconds: one that came earlier was somewhere else before.
const LATE: u64 = 1_000_000;

/// `LinkUnqueue`.
pub const CLASS: EngineClass = EngineClass {
    name: "LinkUnqueue",
    doc: "Pulls packets and pushes them on as a link of this bandwidth and latency would; at most 4,096 are on it. \
          LinkUnqueue(LATENCY, BANDWIDTH). Handlers: latency (seconds), bandwidth (bytes a second), size",
    make: Make::task("1/1", "l/h", |args| {
        let (latency, bandwidth): (Option<Span64>, Option<BytesPerSecond>) =
            (args.must("LATENCY"), args.must("BANDWIDTH"));
        let (latency, bandwidth) = (latency?.0, bandwidth?.0.max(1));
        Some(Box::new(LinkUnqueue { latency, bandwidth, free: 0, on: VecDeque::new() }))
    }),
};

struct LinkUnqueue {
    latency: u64,
    bandwidth: u64,
    /// When the last packet is on the link as a whole.
    free: u64,
    /// The packets on it, and when they come to its end.
    on: VecDeque<(Frame, u64)>,
}

impl LinkUnqueue {
    fn has_room(&self) -> bool {
        self.on.len() < ON_LINK_MAX
    }
}

impl Engine for LinkUnqueue {
    fn run(&mut self, cx: &mut GraphCx<'_>) -> bool {
        let mut has_done = false;
        if self.on.front().is_some_and(|(_, end)| *end <= cx.now)
            && let Some((mut frame, end)) = self.on.pop_front()
        {
            frame.notes.at = end;
            cx.emit(0, frame);
            has_done = true;
        }
        if self.free <= cx.now
            && self.has_room()
            && let Some(frame) = cx.pull(0)
        {
            let time = u128::from(frame.len() as u64) * 1_000_000_000 / u128::from(self.bandwidth);
            // It begins when it came and the link is free: turns come late, and each would lose that time.
            let at = frame.notes.at;
            let came = if (cx.now.saturating_sub(LATE)..cx.now).contains(&at) { at } else { cx.now };
            self.free = self.free.max(came).saturating_add(u64::try_from(time).unwrap_or(u64::MAX));
            self.on.push_back((frame, self.free.saturating_add(self.latency)));
            has_done = true;
        }
        // Packets come to the end whether or not others come in meanwhile.
        if let Some((_, end)) = self.on.front() {
            cx.ask_again(*end);
        }
        has_done
    }

    fn next_run(&self) -> u64 {
        let end = self.on.front().map_or(u64::MAX, |(_, end)| *end);
        if self.has_room() { end.min(self.free) } else { end }
    }

    fn held(&self) -> u64 {
        self.on.len() as u64
    }

    fn empty(&mut self, give: &mut dyn FnMut(Frame)) {
        self.on.drain(..).for_each(|(frame, _)| give(frame));
    }

    fn take_state(&mut self, before: &mut dyn Engine) {
        if let Some(before) = before.as_any().and_then(|before| before.downcast_mut::<LinkUnqueue>()) {
            (self.on, self.free) = (core::mem::take(&mut before.on), before.free);
        }
    }

    fn as_any(&mut self) -> Option<&mut dyn core::any::Any> {
        Some(self)
    }

    fn read(&self, handler: &str) -> Option<String> {
        match handler {
            "latency" => Some((self.latency as f64 / 1e9).to_string()),
            "bandwidth" => Some(self.bandwidth.to_string()),
            "size" => Some(self.on.len().to_string()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::frame::FramePool;
    use crate::graph::load::load;
    use crate::graph::scratch::Scratch;

    #[test]
    fn a_packet_comes_to_the_end_though_no_other_comes_in() {
        let text = "RatedSource(LENGTH 1000, RATE 10, LIMIT 3) -> LinkUnqueue(20ms, 1Mbps) -> Queue -> ToDevice(out);";
        let mut graph = load(text, &[]).unwrap();
        let (mut pool, mut scratch) = (FramePool::new(2048, 16), Scratch::default());
        let (begin, mut now, mut came) = (1_000_000_000, 1_000_000_000, Vec::new());
        while now < 2_000_000_000 {
            while graph.work(now, &mut pool, &mut scratch) {}
            came.extend(scratch.out.drain(..).map(|_| (now - begin) / 1_000_000));
            now = graph.next_run(now).min(scratch.wake).max(now + 1);
        }
        // 1,000 bytes take 8 ms on the link, and 20 to its end.
        assert_eq!(came, [28, 128, 228]);
        assert_eq!(graph.held(), 0);
    }
}
