//! UDP and IPv4 headers in front.

use crate::frame::Frame;
use crate::graph::arguments::Ip4;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::packet;
use crate::wire::{ipv4, udp};

/// `UDPIPEncap`.
pub const CLASS: EngineClass = EngineClass {
    name: "UDPIPEncap",
    doc: "Puts UDP and IPv4 headers in front. UDPIPEncap(SRC, SPORT, DST, DPORT, [CHECKSUM])",
    make: Make::element("1/1", |args| {
        let (from, out): (Option<Ip4>, Option<u16>) = (args.must("SRC"), args.must("SPORT"));
        let (to, into): (Option<Ip4>, Option<u16>) = (args.must("DST"), args.must("DPORT"));
        let sums = args.may("CHECKSUM", true)?;
        Some(Box::new(UdpIpEncap { source: (from?, out?), destination: (to?, into?), sums, id: 0 }))
    }),
};

struct UdpIpEncap {
    source: (Ip4, u16),
    destination: (Ip4, u16),
    sums: bool,
    id: u16,
}

impl Engine for UdpIpEncap {
    fn push(&mut self, _: u16, mut frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        if frame.prepend(ipv4::HEADER + udp::HEADER).is_none() {
            return Pushed::thrown(frame);
        }
        let bytes = frame.bytes_mut();
        let length = (bytes.len() - ipv4::HEADER) as u16;
        for (at, word) in [(20, self.source.1), (22, self.destination.1), (24, length), (26, 0)] {
            bytes[at..at + 2].copy_from_slice(&word.to_be_bytes());
        }
        self.id = self.id.wrapping_add(1);
        packet::write_ip(bytes, (self.source.0, self.destination.0), packet::protocol::UDP, (100, self.id));
        if self.sums {
            packet::sum_transport(bytes, packet::protocol::UDP);
        }
        packet::note_ip(&mut frame, 0);
        frame.notes.next = self.destination.0.0;
        Pushed::To(0, frame)
    }
}
