//! Frames that kernel halves have sent or dropped, as long as there is room, and which engines of a graph they have met there.
//!
//! A kernel half tells of a frame as it came and as it left, and of no engine. Its node finds the engines out when it is asked with the
//! frame, so the frames of a story must still be there when that is known.

use crate::seen::record::{Kernel, kernel};
use crate::sim::trace::{Entry, What};
use std::collections::{HashMap, VecDeque};

/// Frames that are kept, and bytes of each: a graph's program looks no further.
const FRAMES_MAX: usize = 4096;
const FRAME_BYTES: usize = 2048;

/// A frame that the kernel half of a node has had.
#[derive(Clone)]
pub(super) struct Passed {
    pub(super) node: usize,
    at: u64,
    pub(super) port: u16,
    pub(super) before: Vec<u8>,
    /// As it left; nothing: it was dropped.
    pub(super) after: Option<Vec<u8>>,
}

/// A graph, and engines of it.
pub(super) type Met = (String, Vec<String>);

/// What is known of them.
#[derive(Default)]
pub(super) struct PassedFrames {
    all: VecDeque<Passed>,
    /// By node and time.
    met: HashMap<(usize, u64), Met>,
}

impl PassedFrames {
    /// Keeps a frame that was sent or dropped.
    pub(super) fn keep(&mut self, node: usize, at: u64, told: &Kernel<'_>) {
        let after = match told.done {
            kernel::SENT if !told.after.is_empty() => Some(told.after.to_vec()),
            kernel::DROPPED => None,
            _ => return,
        };
        if [told.before, told.after].iter().any(|bytes| bytes.len() > FRAME_BYTES) {
            return;
        }
        if self.all.len() >= FRAMES_MAX {
            self.all.pop_front();
        }
        self.all.push_back(Passed { node, at, port: told.port, before: told.before.to_vec(), after });
    }

    /// Those of a story.
    pub(super) fn of<'a>(&self, story: &[Entry], name: impl Fn(usize) -> Option<&'a str>) -> Vec<Passed> {
        let came = |entry: &Entry, passed: &Passed| {
            matches!(entry.what, What::Received { port } if port == passed.port)
                && (Some(entry.node.as_str()), entry.at) == (name(passed.node), passed.at)
        };
        self.all.iter().filter(|passed| story.iter().any(|entry| came(entry, passed))).cloned().collect()
    }

    /// One has met engines.
    pub(super) fn note(&mut self, passed: &Passed, met: Met) {
        self.met.insert((passed.node, passed.at), met);
    }

    /// What is told of the engines that one has met.
    pub(super) fn told(&self, node: usize, at: u64) -> Vec<What> {
        let Some((graph, engines)) = self.met.get(&(node, at)) else { return Vec::new() };
        let met = |engine: &String| What::Met { graph: graph.clone(), engine: engine.clone(), kernel: true };
        engines.iter().map(met).collect()
    }
}
