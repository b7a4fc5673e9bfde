//! An IPv4 header in front (RFC 2003).

use crate::frame::Frame;
use crate::graph::arguments::Ip4;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::packet;
use crate::wire::ipv4;

/// `IPEncap`.
pub const CLASS: EngineClass = EngineClass {
    name: "IPEncap",
    doc: "Puts an IPv4 header in front. IPEncap(PROTO, SRC, DST, [TTL n])",
    make: Make::element("1/1", |args| {
        let protocol: String = args.must("PROTO")?;
        let number = match protocol.as_str() {
            "icmp" => Some(1),
            "ipip" | "ip" => Some(4),
            "tcp" => Some(6),
            "udp" => Some(17),
            other => other.parse().ok(),
        };
        let (source, destination): (Option<Ip4>, Option<Ip4>) = (args.must("SRC"), args.must("DST"));
        let ttl = args.key("TTL", 250u8)?;
        args.ignore(&["DSCP", "TOS", "ID", "DF"]);
        let Some(protocol) = number else {
            args.say_all(format!("'{protocol}' is no protocol"), "a number, or as ipip");
            return None;
        };
        Some(Box::new(IpEncap { protocol, ends: (source?, destination?), ttl, id: 0 }))
    }),
};

struct IpEncap {
    protocol: u8,
    ends: (Ip4, Ip4),
    ttl: u8,
    id: u16,
}

impl Engine for IpEncap {
    fn push(&mut self, _: u16, mut frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        if frame.prepend(ipv4::HEADER).is_none() {
            return Pushed::thrown(frame);
        }
        self.id = self.id.wrapping_add(1);
        packet::write_ip(frame.bytes_mut(), self.ends, self.protocol, (self.ttl, self.id));
        packet::note_ip(&mut frame, 0);
        frame.notes.next = self.ends.1.0;
        Pushed::To(0, frame)
    }
}
