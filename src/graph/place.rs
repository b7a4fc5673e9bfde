//! Where a graph meets what is around it: devices, captures, the host, and other nodes. Each place is a port of the graph, by its name.

use super::edges::{EdgeKind, GraphEdges};
use super::engine::{Engine, GraphCx, Pushed};
use super::fused::{FusedAt, FusedBody, FusedLabel, NoForm};
use crate::contract::plan::FusedStep;
use crate::frame::{Frame, PortId};

/// Keywords of devices that change nothing here.
pub const IGNORED: &[&str] = &[
    "SNIFFER",
    "PROMISC",
    "SNAPLEN",
    "FORCE_IP",
    "METHOD",
    "CAPTURE",
    "BPF_FILTER",
    "PROTOCOL",
    "OUTBOUND",
    "HEADROOM",
    "ENCAP",
    "BURST",
    "TIMESTAMP",
    "ACTIVE",
    "TIMING",
    "STOP",
    "UNBUFFERED",
    "EXTRA_LENGTH",
    "NO_PAD",
    "DEBUG",
    "ALLOW_NONEXISTENT",
    "QUIET",
    "CLEANUP_SKB",
    "TYPE",
    "HEADER",
    "USE_ENCAP_FROM",
    "FORCE_IP",
    "END_CALL",
    "MTU",
];

/// Where packets come in.
pub struct Entrance {
    place: (EdgeKind, String),
    port: PortId,
    count: u64,
}

impl Entrance {
    /// By this place.
    pub fn new(kind: EdgeKind, name: String) -> Entrance {
        Entrance { place: (kind, name), port: PortId(0), count: 0 }
    }
}

impl Engine for Entrance {
    /// What comes from outside comes in here, by no input.
    fn push(&mut self, _: u16, frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        self.count += 1;
        Pushed::To(0, frame)
    }

    fn kernel(&self, _: u16, at: FusedAt, body: &mut FusedBody<'_>) -> Result<FusedLabel, NoForm> {
        if self.place.0 == EdgeKind::Host {
            return Err(NoForm::Because("the host's end is served in user space".to_owned()));
        }
        let next = body.to(0, at)?;
        body.steps(vec![FusedStep::Count(body.own(0))], next)
    }

    fn kernel_words(&self) -> u16 {
        1
    }

    fn add_kernel(&mut self, words: &[u64]) {
        self.count += words.first().unwrap_or(&0);
    }

    fn meet(&mut self, places: &mut GraphEdges) -> Option<PortId> {
        self.port = places.port(self.place.0, &self.place.1);
        Some(self.port)
    }

    fn read(&self, handler: &str) -> Option<String> {
        (handler == "count").then(|| self.count.to_string())
    }
}

/// Where packets leave.
pub struct Gate {
    place: (EdgeKind, String),
    port: PortId,
    count: u64,
}

impl Gate {
    /// By this place.
    pub fn new(kind: EdgeKind, name: String) -> Gate {
        Gate { place: (kind, name), port: PortId(0), count: 0 }
    }

    fn leave(&mut self, mut frame: Frame, cx: &mut GraphCx<'_>) {
        self.count += 1;
        if cx.has_output(0) {
            let mut copy = cx.copy(&frame);
            copy.port = self.port;
            cx.leave(copy);
            cx.emit(0, frame);
        } else {
            frame.port = self.port;
            cx.leave(frame);
        }
    }
}

impl Engine for Gate {
    fn push(&mut self, _: u16, frame: Frame, cx: &mut GraphCx<'_>) -> Pushed {
        self.leave(frame, cx);
        Pushed::Kept
    }

    fn pull(&mut self, _: u16, cx: &mut GraphCx<'_>) -> Option<Frame> {
        let frame = cx.pull(0)?;
        let mut copy = cx.copy(&frame);
        (copy.port, self.count) = (self.port, self.count + 1);
        cx.leave(copy);
        Some(frame)
    }

    fn run(&mut self, cx: &mut GraphCx<'_>) -> bool {
        let Some(frame) = cx.pull(0) else { return false };
        self.leave(frame, cx);
        true
    }

    fn next_run(&self) -> u64 {
        0
    }

    fn kernel(&self, _: u16, at: FusedAt, body: &mut FusedBody<'_>) -> Result<FusedLabel, NoForm> {
        if self.place.0 == EdgeKind::Remote {
            return Err(NoForm::Because("it sends to another node, with a proof".to_owned()));
        }
        if self.place.0 == EdgeKind::Host {
            return Err(NoForm::Because("the host's end is served in user space".to_owned()));
        }
        if body.outputs() > 0 {
            return Err(NoForm::Because(
                "it copies what it sends to its output, and the kernel copies none".to_owned(),
            ));
        }
        let end = body.leave(self.port.0, at)?;
        body.steps(vec![FusedStep::Count(body.own(0))], end)
    }

    fn kernel_words(&self) -> u16 {
        1
    }

    fn add_kernel(&mut self, words: &[u64]) {
        self.count += words.first().unwrap_or(&0);
    }

    fn meet(&mut self, places: &mut GraphEdges) -> Option<PortId> {
        self.port = places.exit(self.place.0, &self.place.1);
        None
    }

    fn read(&self, handler: &str) -> Option<String> {
        (handler == "count").then(|| self.count.to_string())
    }
}
