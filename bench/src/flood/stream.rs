//! The packets of the flood: size, batches, destinations and codes of its frames, and their receiver.

use std::net::IpAddr;

use super::super::guests::packet_to;
use super::super::line::{ANEP_PORT, INGRESS, IP_UDP, destination, frame};
use anode::code::bundle::Bundle;
use anode::wire::{Addr, udp};

/// What is sent: capsules in IP packets of `size` bytes, or datagrams that are none, `batch` frames at a time, one
/// batch right after the other or with pauses between. Destination and code change from packet to packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    /// Bytes of the IP packet.
    pub(crate) size: usize,
    /// Frames that enter the router together.
    pub(crate) batch: u32,
    /// How batches follow.
    pub(crate) rhythm: Rhythm,
    /// Destinations, in turn.
    pub(crate) destinations: u16,
    /// Codes, in turn.
    pub(crate) codes: u16,
    /// Whether they are capsules; else UDP to a port that is nobody's.
    pub(crate) capsules: bool,
    /// Whether those to nobody's port have a checksum.
    pub(crate) summed: bool,
    /// Whether several packets leave for one that comes in.
    pub(crate) copied: bool,
    /// What the next hop does with what it gets.
    pub(crate) sink: Sink,
}

/// "discard" of the registry of ports.
pub(crate) const NO_CAPSULES: u16 = 9;

/// Where the UDP header of a frame begins.
pub(crate) const UDP_HEADER: usize = 34;

/// How batches follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rhythm {
    /// At once; generator, router and sink on one CPU.
    Flood,
    /// After a pause in which the router falls asleep; generator on one CPU, router and sink on another.
    Fair,
}

/// How the next hop takes frames in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sink {
    /// By an XDP program, which makes nothing of them.
    Xdp,
    /// By its stack: its driver makes a packet of each first.
    Stack,
}

impl Stream {
    /// One flow of one code.
    pub(crate) const fn plain(size: usize, batch: u32) -> Stream {
        Stream {
            size,
            batch,
            rhythm: Rhythm::Flood,
            destinations: 1,
            codes: 1,
            capsules: true,
            summed: false,
            copied: false,
            sink: Sink::Xdp,
        }
    }

    /// One flow of packets that no active node looks into.
    pub(crate) const fn ordinary(size: usize, batch: u32) -> Stream {
        Stream { capsules: false, ..Stream::plain(size, batch) }
    }

    /// The same with checksums, as hosts send them.
    pub(crate) const fn summed(self) -> Stream {
        Stream { summed: true, ..self }
    }

    /// One flow of which several copies leave.
    pub(crate) const fn copied(self) -> Stream {
        Stream { copied: true, ..self }
    }

    /// The same to a next hop without XDP.
    pub(crate) const fn to_stack(self) -> Stream {
        Stream { sink: Sink::Stack, ..self }
    }

    /// The same with pauses.
    pub(crate) fn fair(size: usize, batch: u32) -> Stream {
        Stream { rhythm: Rhythm::Fair, ..Stream::plain(size, batch) }
    }

    /// The circumstances in words.
    pub(crate) fn regime(&self) -> String {
        let mut words = match self.rhythm {
            Rhythm::Flood => format!("flood, batches of {}", self.batch),
            Rhythm::Fair => format!("fair bursts of {}", self.batch),
        };
        if !self.capsules {
            words += ", ordinary packets";
        }
        if (self.destinations, self.codes) != (1, 1) {
            words += &format!(", {} destinations, {} codes", self.destinations, self.codes);
        }
        if self.sink == Sink::Stack {
            words += ", next hop without XDP";
        }
        words
    }

    /// One round of frames: every destination and every code is in it, equally often.
    pub(super) fn frames(&self, bundles: &[Bundle]) -> Vec<Vec<u8>> {
        if !self.capsules {
            let mut bytes = frame(destination(0), NO_CAPSULES, &vec![0x5a; self.size - IP_UDP]);
            let ends = [INGRESS.peer, destination(0)].map(|addr| Addr::from(IpAddr::V4(addr)));
            if let Ok(mut datagram) = udp::PacketMut::new_checked(&mut bytes[UDP_HEADER..])
                && self.summed
            {
                datagram.fill_checksum(ends[0], ends[1]);
            }
            return vec![bytes];
        }
        let codes = usize::from(self.codes).min(bundles.len());
        let period = lcm(usize::from(self.destinations), codes);
        let one = |at: usize| {
            let to = destination((at % usize::from(self.destinations)) as u16);
            let payload = packet_to(&bundles[at % codes], Addr::from(IpAddr::V4(to)), self.size - IP_UDP);
            frame(to, ANEP_PORT, &payload)
        };
        (0..period).map(one).collect()
    }
}

fn lcm(a: usize, b: usize) -> usize {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    a / x.max(1) * b
}

#[cfg(test)]
mod tests {
    use super::super::super::guests::generated;
    use super::*;

    #[test]
    fn destinations_and_codes_take_turns() {
        let bundles = [generated(1).unwrap(), generated(2).unwrap()];
        let stream = Stream { destinations: 3, codes: 2, ..Stream::plain(128, 1) };
        let frames = stream.frames(&bundles);
        assert_eq!(frames.len(), 6);
        let to = |at: usize| <[u8; 4]>::try_from(&frames[at][30..34]).unwrap();
        assert_eq!([to(0), to(1), to(2)], [[198, 18, 2, 1], [198, 19, 0, 1], [198, 19, 0, 2]]);
        assert_eq!(to(0), to(3));
        assert!(frames[0] != frames[3] && frames.iter().all(|frame| frame.len() == 14 + 128));
        assert_eq!(stream.regime(), "flood, batches of 1, 3 destinations, 2 codes");
        assert_eq!(Stream::plain(128, 1).to_stack().regime(), "flood, batches of 1, next hop without XDP");
    }
}
