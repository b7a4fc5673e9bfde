//! Inputs with equal shares of bytes (deficit round robin, Shreedhar and Varghese, 1995).

use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx};

/// `DRRSched`.
pub const CLASS: EngineClass = EngineClass {
    name: "DRRSched",
    doc: "Takes packets from its inputs so that each has the same share of bytes. DRRSched([QUANTUM])",
    make: Make::with("1-/1", "l/l", "x/x", |args| {
        let quantum = args.may("QUANTUM", 500u32)?;
        Some(Box::new(Drr { quantum: quantum.max(1).into(), at: 0, lanes: Vec::new() }))
    }),
};

struct Drr {
    quantum: u64,
    at: usize,
    lanes: Vec<Lane>,
}

#[derive(Default)]
struct Lane {
    /// Bytes that it may still send in its turn.
    deficit: u64,
    /// Its first packet, if that was too long for what was left.
    head: Option<Frame>,
}

impl Engine for Drr {
    fn pull(&mut self, _: u16, cx: &mut GraphCx<'_>) -> Option<Frame> {
        let inputs = usize::from(cx.inputs());
        self.lanes.resize_with(inputs, Lane::default);
        let (mut empty, mut began) = (0, false);
        while empty < inputs {
            let lane = &mut self.lanes[self.at];
            if lane.head.is_none() {
                lane.head = cx.pull(self.at as u16);
            }
            match lane.head.take_if(|frame| frame.len() as u64 <= lane.deficit) {
                Some(frame) => {
                    lane.deficit -= frame.len() as u64;
                    return Some(frame);
                }
                None if lane.head.is_none() => {
                    (lane.deficit, empty) = (0, empty + 1);
                    self.go_on(inputs);
                    began = true;
                }
                None => {
                    // Its turn begins, or is over.
                    if began {
                        empty = 0;
                    }
                    self.go_on(inputs);
                    began = true;
                }
            }
            self.lanes[self.at].deficit += self.quantum;
        }
        None
    }

    fn held(&self) -> u64 {
        self.lanes.iter().filter(|lane| lane.head.is_some()).count() as u64
    }

    fn empty(&mut self, give: &mut dyn FnMut(Frame)) {
        self.lanes.iter_mut().filter_map(|lane| lane.head.take()).for_each(give);
    }
}

impl Drr {
    fn go_on(&mut self, inputs: usize) {
        self.at = (self.at + 1) % inputs;
    }
}
