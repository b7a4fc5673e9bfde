//! Options of IP that routers act upon (RFC 791 §3.1, RFC 1812 §5.2.4).

use crate::frame::Frame;
use crate::graph::arguments::{FromArgument, Ip4, WordList};
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::fused::{FusedAt, FusedBody, FusedLabel, NoForm};
use crate::graph::packet;

/// `IPGWOptions`.
pub const CLASS: EngineClass = EngineClass {
    name: "IPGWOptions",
    doc: "Writes addresses into record route and timestamp options; packets with wrong options leave by output \
          1. IPGWOptions(MYADDR, [OTHERADDRS]). Handler: drops",
    make: Make::with("1/1-2", "a/ah", "x/x", |args| {
        let mine: Option<Ip4> = args.must("MYADDR");
        let others = args.may("OTHERADDRS", WordList::default())?;
        let read = others.0.iter().map(|word| Ip4::read(word, args.names)).collect::<Option<Vec<_>>>();
        if read.is_none() {
            args.say_all("OTHERADDRS has what is no address", "IPv4 addresses with spaces between them");
        }
        Some(Box::new(IpGwOptions { mine: mine?, others: read?, drops: 0 }))
    }),
};

struct IpGwOptions {
    mine: Ip4,
    others: Vec<Ip4>,
    drops: u64,
}

/// Options that are looked at.
const RECORD_ROUTE: u8 = 7;
const TIMESTAMP: u8 = 68;

impl Engine for IpGwOptions {
    fn push(&mut self, _: u16, mut frame: Frame, cx: &mut GraphCx<'_>) -> Pushed {
        let header = packet::ip(&frame).map_or(0, |ip| ip.header_len());
        if header <= 20 {
            return Pushed::To(0, frame);
        }
        // Milliseconds since midnight, as far as the clock knows.
        let time = (cx.now / 1_000_000 % 86_400_000) as u32;
        let bytes = packet::from_ip_mut(&mut frame);
        if self.act(&mut bytes[20..header], time).is_none() {
            self.drops += 1;
            return Pushed::To(1, frame);
        }
        packet::sum_ip(bytes);
        Pushed::To(0, frame)
    }

    /// No plain packet has options.
    fn kernel(&self, _: u16, at: FusedAt, body: &mut FusedBody<'_>) -> Result<FusedLabel, NoForm> {
        at.plain_ip()?;
        body.to(0, at)
    }

    fn read(&self, handler: &str) -> Option<String> {
        (handler == "drops").then(|| self.drops.to_string())
    }
}

impl IpGwOptions {
    /// Nothing if an option is wrong.
    fn act(&self, mut options: &mut [u8], time: u32) -> Option<()> {
        loop {
            let length = match *options {
                [] | [0, ..] => return Some(()),
                [1, ..] => 1,
                [_, length, ..] if length >= 2 => usize::from(length),
                _ => return None,
            };
            let (option, rest) = options.split_at_mut_checked(length)?;
            match option[0] {
                RECORD_ROUTE => self.record(option)?,
                TIMESTAMP => self.stamp(option, time)?,
                _ => {}
            }
            options = rest;
        }
    }

    /// The address goes where the pointer shows, which counts from 1.
    fn record(&self, option: &mut [u8]) -> Option<()> {
        let pointer = usize::from(*option.get(2)?);
        if pointer < 4 {
            return None;
        }
        if pointer > option.len() {
            return Some(());
        }
        option.get_mut(pointer - 1..pointer + 3)?.copy_from_slice(&self.mine.0);
        option[2] = (pointer + 4) as u8;
        Some(())
    }

    fn stamp(&self, option: &mut [u8], time: u32) -> Option<()> {
        let (pointer, flags) = (usize::from(*option.get(2)?), *option.get(3)?);
        let step = match flags & 0xf {
            0 => 4,
            1 | 3 => 8,
            _ => return None,
        };
        if pointer < 5 {
            return None;
        }
        if pointer > option.len() {
            // No room: one more that could not write. Sixteen are too many.
            let overflow = (flags >> 4) + 1;
            option[3] = if overflow > 15 { return None } else { overflow << 4 | flags & 0xf };
            return Some(());
        }
        let place = option.get_mut(pointer - 1..pointer - 1 + step)?;
        if flags & 0xf == 3 {
            let named = Ip4(*place.first_chunk::<4>()?);
            if named != self.mine && !self.others.contains(&named) {
                return Some(());
            }
        } else if step == 8 {
            place[..4].copy_from_slice(&self.mine.0);
        }
        let at = step - 4;
        place[at..].copy_from_slice(&time.to_be_bytes());
        option[2] = (pointer + step) as u8;
        Some(())
    }
}
