//! A recorder of a simulation: a line of text for each event, in order, with its node.

use anode::sim::Simulation;
use std::cell::RefCell;
use std::io::{self, Write};
use std::path::Path;
use std::rc::Rc;

/// The events of a run; clones share them.
#[derive(Clone, Default)]
pub struct Events(Rc<RefCell<Inner>>);

#[derive(Default)]
struct Inner {
    lines: Vec<String>,
    nodes: Vec<usize>,
    /// Bytes of a line of the history that is not whole yet.
    begun: Vec<u8>,
}

/// FNV-1a, 64 bits: no security is wanted, and it is the same everywhere.
pub fn fnv(mut hash: u64, bytes: &[u8]) -> u64 {
    for byte in bytes {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash
}

pub const FNV: u64 = 0xcbf2_9ce4_8422_2325;

impl Events {
    /// Watches a simulation from now on.
    pub fn watch(sim: &mut Simulation) -> Events {
        let events = Events::default();
        let tapped = events.clone();
        sim.tap(Box::new(move |frame| {
            let way = if frame.leaves { "out" } else { "in" };
            let line = format!("{} n{} {way} {} {}", frame.at, frame.node, frame.port, hex::encode(frame.bytes));
            tapped.push(frame.node, &line);
        }));
        sim.trace(Box::new(events.clone()));
        events
    }

    pub fn push(&self, node: usize, line: &str) {
        let mut inner = self.0.borrow_mut();
        inner.lines.push(line.to_owned());
        inner.nodes.push(node);
    }

    /// The drop counters of all nodes, and the end of the history.
    pub fn finish(self, sim: &mut Simulation) -> Events {
        sim.finish_trace().unwrap();
        for node in 0..sim.nodes() {
            let drops = sim.node(node).map(|node| serde_json::to_string(node.drops()).unwrap());
            self.push(node, &format!("n{node} drops {}", drops.as_deref().unwrap_or("down")));
        }
        self
    }

    pub fn lines(&self) -> Vec<String> {
        self.0.borrow().lines.clone()
    }

    /// The digest of all events up to each.
    pub fn chain(&self) -> Vec<u64> {
        let add = |hash: &mut u64, line: &String| {
            *hash = fnv(fnv(*hash, line.as_bytes()), b"\n");
            Some(*hash)
        };
        self.0.borrow().lines.iter().scan(FNV, add).collect()
    }

    /// The digest of each node's own events.
    pub fn by_node(&self) -> Vec<u64> {
        let inner = self.0.borrow();
        let nodes = inner.nodes.iter().max().map_or(0, |most| most + 1);
        let mut digests = vec![FNV; nodes];
        for (node, line) in inner.nodes.iter().zip(&inner.lines) {
            digests[*node] = fnv(digests[*node], line.as_bytes());
        }
        digests
    }

    /// Writes them into a folder.
    pub fn write(&self, folder: &Path, name: &str) {
        std::fs::create_dir_all(folder).unwrap();
        let path = folder.join(name.replace(' ', "-") + ".txt");
        std::fs::write(path, self.lines().join("\n") + "\n").unwrap();
    }
}

/// The history: one line of JSON for each event, which names its node.
impl Write for Events {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut inner = self.0.borrow_mut();
        inner.begun.extend_from_slice(bytes);
        while let Some(end) = inner.begun.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = inner.begun.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line[..end]).into_owned();
            let node = line.split("\"node\":\"n").nth(1).and_then(|rest| rest.split('"').next()?.parse().ok());
            inner.nodes.push(node.unwrap_or(0));
            inner.lines.push(line);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
