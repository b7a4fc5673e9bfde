//! Packets in pieces (RFC 791 §3.2).

use crate::contract::plan::{FusedTest, IP_AT};
use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::fused::{FusedAt, FusedBody, FusedLabel, NoForm};
use crate::graph::packet;

/// `IPFragmenter`.
pub const CLASS: EngineClass = EngineClass {
    name: "IPFragmenter",
    doc: "Sends IPv4 packets longer than MTU in pieces; those that must not be leave by output 1. \
          IPFragmenter(MTU, [HONOR_DF]). Handlers: drops, fragments",
    make: Make::with("1/1-2", "h/h", "x/x", |args| {
        let (mtu, honour): (Option<u16>, _) = (args.must("MTU"), args.may("HONOR_DF", true)?);
        args.ignore(&["VERBOSE", "HEADROOM"]);
        let mtu = mtu?;
        if mtu < 68 {
            args.say_all("an MTU that cannot be", "at least 68 bytes");
            return None;
        }
        Some(Box::new(IpFragmenter { mtu: mtu.into(), honour, drops: 0, fragments: 0 }))
    }),
};

struct IpFragmenter {
    mtu: usize,
    honour: bool,
    drops: u64,
    fragments: u64,
}

impl Engine for IpFragmenter {
    fn push(&mut self, _: u16, frame: Frame, cx: &mut GraphCx<'_>) -> Pushed {
        let Some(packet) = packet::ip(&frame) else { return Pushed::thrown(frame) };
        let (header, total) = (packet.header_len(), packet.total_len());
        if total <= self.mtu {
            return Pushed::To(0, frame);
        }
        if self.honour && packet.dont_fragment() {
            self.drops += 1;
            return Pushed::To(1, frame);
        }
        let (start, more) = (packet.fragment_offset() as usize, packet.more_fragments());
        let at = packet::ip_at(&frame);
        // The first piece has all options, the others those that are to be copied.
        let first = frame.bytes().get(at..at + header).unwrap_or_default().to_vec();
        let later = without_uncopied(&first);
        let mut from = header;
        while from < total {
            let head = if from == header { &first } else { &later };
            let room = (self.mtu - head.len()) & !7;
            let end = (from + room).min(total);
            let Some(payload) = frame.bytes().get(at + from..at + end) else { break };
            let mut piece = cx.begin();
            piece.received(head.len() + payload.len());
            let bytes = piece.bytes_mut();
            bytes[..head.len()].copy_from_slice(head);
            bytes[head.len()..].copy_from_slice(payload);
            let field = ((start + from - header) / 8) as u16 | if more || end < total { 0x2000 } else { 0 };
            let length = bytes.len() as u16;
            bytes[2..4].copy_from_slice(&length.to_be_bytes());
            bytes[6..8].copy_from_slice(&field.to_be_bytes());
            packet::sum_ip(bytes);
            (piece.notes, piece.port) = (frame.notes, frame.port);
            packet::note_ip(&mut piece, 0);
            self.fragments += 1;
            cx.emit(0, piece);
            from = end;
        }
        Pushed::Used(frame)
    }

    fn kernel(&self, _: u16, at: FusedAt, body: &mut FusedBody<'_>) -> Result<FusedLabel, NoForm> {
        at.plain_ip()?;
        let (fits, thrown) = (body.to(0, FusedAt { is_v4: true, ..at })?, body.drop()?);
        let most = self.mtu.min(usize::from(u16::MAX)) as u32;
        let longer = body.up("longer packets are cut there")?;
        let length = FusedTest { at: IP_AT + 2, width: 2, shift: 0, mask: 0xffff, low: 0, high: most, reach: 0 };
        let fits = body.test(length, fits, longer)?;
        body.is_v4(at, fits, thrown)
    }

    fn read(&self, handler: &str) -> Option<String> {
        match handler {
            "drops" => Some(self.drops.to_string()),
            "fragments" => Some(self.fragments.to_string()),
            _ => None,
        }
    }
}

/// A header without the options that stay with the first piece.
fn without_uncopied(header: &[u8]) -> Vec<u8> {
    let mut kept = header.get(..20).unwrap_or(header).to_vec();
    let mut rest = header.get(20..).unwrap_or_default();
    while let [kind, ..] = *rest {
        let length = match (kind, rest.get(1)) {
            (0, _) => break,
            (1, _) => 1,
            (_, Some(length)) if usize::from(*length) >= 2 => usize::from(*length),
            _ => break,
        };
        let Some((option, behind)) = rest.split_at_checked(length) else { break };
        if kind & 0x80 != 0 {
            kept.extend(option);
        }
        rest = behind;
    }
    kept.resize(kept.len().next_multiple_of(4), 0);
    if let Some(first) = kept.first_mut() {
        *first = 0x40;
    }
    let words = (kept.len() / 4) as u8;
    kept.iter_mut().take(1).for_each(|first| *first |= words);
    kept
}
