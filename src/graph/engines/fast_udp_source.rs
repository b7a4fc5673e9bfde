//! Whole UDP packets in Ethernet frames, at a rate.

use super::rated_source::RatedSource;
use crate::frame::FRAME;
use crate::graph::arguments::{Arguments, Data, Ip4, Most};
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::Engine;
use crate::graph::packet;
use crate::graph::source::PacketSource;
use crate::wire::ethernet::{self, Mac};
use crate::wire::ipv4;

/// `FastUDPSource`.
pub const CLASS: EngineClass = EngineClass {
    name: "FastUDPSource",
    doc: "Makes UDP packets of LENGTH bytes with their Ethernet header, at least 60. FastUDPSource(RATE, LIMIT, LENGTH, \
          SRCETH, SRCIP, SPORT, DSTETH, DSTIP, DPORT, [CHECKSUM], [ACTIVE]). Handlers: count, active (read, write), \
          reset (write)",
    make: Make::task("0/1", "/a", make),
};

/// Bytes of a frame without its checksum, at least (IEEE 802.3).
const LEAST: u16 = 60;

fn make(args: &mut Arguments<'_>) -> Option<Box<dyn Engine>> {
    let (rate, limit): (Option<u32>, Option<Most>) = (args.must("RATE"), args.must("LIMIT"));
    let length: Option<u16> = args.must("LENGTH");
    let (from_mac, from, out): (Option<Mac>, Option<Ip4>, Option<u16>) =
        (args.must("SRCETH"), args.must("SRCIP"), args.must("SPORT"));
    let (to_mac, to, into): (Option<Mac>, Option<Ip4>, Option<u16>) =
        (args.must("DSTETH"), args.must("DSTIP"), args.must("DPORT"));
    let sums = args.may("CHECKSUM", true)?;
    // How often the packets of another program differ; here none does.
    args.may("INTERVAL", 0u32)?;
    let (active, _) = (args.may("ACTIVE", true)?, args.key("STOP", false)?);
    let length = usize::from(length?.max(LEAST));
    if length > FRAME {
        args.say_all(format!("'{}' makes packets of {length} bytes", args.name), format!("LENGTH is at most {FRAME}"));
        return None;
    }
    let mut bytes = vec![0; length];
    bytes[..6].copy_from_slice(&to_mac?.0);
    bytes[6..12].copy_from_slice(&from_mac?.0);
    bytes[12..14].copy_from_slice(&[0x08, 0x00]);
    let ip = &mut bytes[ethernet::HEADER..];
    for (at, word) in [(20, out?), (22, into?), (24, (length - ethernet::HEADER - ipv4::HEADER) as u16)] {
        ip[at..at + 2].copy_from_slice(&word.to_be_bytes());
    }
    packet::write_ip(ip, (from?, to?), packet::protocol::UDP, (TTL, 0));
    if sums {
        packet::sum_transport(ip, packet::protocol::UDP);
    }
    let data = PacketSource::new(Data(bytes), 0);
    Some(Box::new(RatedSource::new(data, rate?.into(), limit?.0, active)))
}

/// The time to live that packets have.
const TTL: u8 = 64;
