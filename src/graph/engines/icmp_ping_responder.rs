//! Answers to pings (RFC 792).

use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::packet;
use crate::wire::checksum;

/// `ICMPPingResponder`.
pub const CLASS: EngineClass = EngineClass {
    name: "ICMPPingResponder",
    doc: "Answers ICMP echo requests; what is none leaves by output 1",
    make: Make::with("1/1-2", "a/ah", "x/x", |_| Some(Box::new(IcmpPingResponder))),
};

struct IcmpPingResponder;

impl Engine for IcmpPingResponder {
    fn push(&mut self, _: u16, mut frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        let Some(ip) = packet::ip(&frame) else { return Pushed::To(1, frame) };
        let is_echo = ip.protocol() == packet::protocol::ICMP && ip.payload().first() == Some(&8) && !ip.is_fragment();
        let (header, total) = (ip.header_len(), ip.total_len());
        if !is_echo || total < header + 8 {
            return Pushed::To(1, frame);
        }
        let bytes = packet::from_ip_mut(&mut frame);
        let (from, to) = bytes[12..20].split_at_mut(4);
        from.swap_with_slice(to);
        let message = &mut bytes[header..total];
        message[0] = 0;
        message[2..4].fill(0);
        let sum = checksum::checksum(message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        packet::sum_ip(bytes);
        if let Some((_, to)) = packet::ends(&frame) {
            frame.notes.next = to.0;
        }
        Pushed::To(0, frame)
    }
}
