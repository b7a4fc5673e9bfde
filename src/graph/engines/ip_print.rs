//! IP packets are shown in words.

use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::locked::LOCKED;
use crate::graph::packet::{self, FlowEnds};

/// `IPPrint`.
pub const CLASS: EngineClass = EngineClass {
    name: "IPPrint",
    doc: "Prints the ends, protocol and length of each IP packet. IPPrint([LABEL])",
    make: Make::element("1/1", |args| {
        let label = args.may("LABEL", String::new())?;
        args.ignore(&[
            "CONTENTS",
            "NBYTES",
            "ID",
            "TTL",
            "TOS",
            "LENGTH",
            "TIMESTAMP",
            "AGGREGATE",
            "PAINT",
            "OUTFILE",
            "ACTIVE",
            "PAYLOAD",
        ]);
        Some(Box::new(IpPrint(label)))
    }),
};

struct IpPrint(String);

impl Engine for IpPrint {
    fn push(&mut self, _: u16, mut frame: Frame, cx: &mut GraphCx<'_>) -> Pushed {
        let label = if self.0.is_empty() { String::new() } else { format!("{}: ", self.0) };
        let words = cx.show(&mut frame, |_, frame| words(frame));
        cx.say(format!("{label}{}", words.unwrap_or_else(|_| LOCKED.to_owned())));
        Pushed::To(0, frame)
    }
}

fn words(frame: &Frame) -> String {
    match (packet::ip(frame), FlowEnds::of(packet::from_ip(frame))) {
        (Some(ip), Some(flow)) => {
            let name = if flow.protocol == packet::protocol::TCP { "tcp" } else { "udp" };
            let ((from, out), (to, into)) = (flow.source, flow.destination);
            format!("{from}.{out} > {to}.{into}: {name} {}", ip.total_len())
        }
        (Some(ip), None) => {
            format!("{} > {}: protocol {} length {}", ip.source(), ip.destination(), ip.protocol(), ip.total_len())
        }
        (None, _) => "(not an IP packet)".to_owned(),
    }
}
