//! Capture files: pcapng (draft-ietf-opsawg-pcapng) with nanoseconds, as Wireshark and tcpdump read it.
//!
//! ```text
//! section header · interface (one for each port) … · packet: time, direction, bytes, comment … · statistics (one for each port)
//! ```
//!
//! Ethernet ports have their frames as they are. Overlay ports have IP packets: the datagram with the IP and UDP headers that it has
//! between the sockets, as the port knows them ([`headers`]).

use crate::wire::{Addr, ipv4, ipv6, udp};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::path::Path;

mod old;

/// Types of blocks.
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;

/// Says in which order bytes are, which is this host's.
const ORDER: u32 = 0x1a2b_3c4d;

/// Codes of options.
const END: u16 = 0;
const COMMENT: u16 = 1;
const NAME: u16 = 2;
const FLAGS: u16 = 2;
const WRITER: u16 = 4;
const RECEIVED: u16 = 4;
const DROPPED: u16 = 5;
const RESOLUTION: u16 = 9;

/// Bytes of what is longest in a packet's block beside the packet: the comment.
const COMMENT_MAX: usize = 1024;

/// UDP in an IP header.
const UDP: u8 = 17;

/// Bytes of the headers of a datagram, at most.
pub const HEADERS: usize = ipv6::HEADER + udp::HEADER;

/// What packets of an interface begin with, by the number of its link type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Beginning {
    /// An Ethernet header (LINKTYPE_ETHERNET).
    Ethernet = 1,
    /// An IP header (LINKTYPE_RAW).
    Ip = 101,
}

/// A packet for a capture.
#[derive(Clone, Copy, Debug)]
pub struct Captured<'a> {
    /// The interface, by its place.
    pub interface: u32,
    /// Nanoseconds since 1970.
    pub at: u64,
    /// Whether it came in, or went out; nothing: who sees it is neither.
    pub inward: Option<bool>,
    /// The packet.
    pub bytes: &'a [u8],
    /// What there is to say about it, or nothing.
    pub comment: &'a str,
}

/// A capture that is written.
pub struct Capture<W> {
    to: W,
    /// Packets of each interface.
    written: Vec<u64>,
    block: Vec<u8>,
}

impl Capture<BufWriter<File>> {
    /// Makes a file.
    pub fn create(path: &Path, interfaces: &[(String, Beginning)]) -> io::Result<Capture<BufWriter<File>>> {
        Capture::begin(BufWriter::new(File::create(path)?), interfaces)
    }
}

impl<W: Write> Capture<W> {
    /// Begins one of these interfaces, each with its name.
    pub fn begin(to: W, interfaces: &[(String, Beginning)]) -> io::Result<Capture<W>> {
        let mut capture = Capture { to, written: vec![0; interfaces.len()], block: Vec::new() };
        capture.words(&[ORDER, 1, u32::MAX, u32::MAX]);
        capture.option(WRITER, concat!("anode ", env!("CARGO_PKG_VERSION")).as_bytes());
        capture.finish(SECTION)?;
        for (name, link) in interfaces {
            capture.words(&[u32::from(*link as u16), 0]);
            capture.option(NAME, name.as_bytes());
            capture.option(RESOLUTION, &[9]);
            capture.finish(INTERFACE)?;
        }
        capture.flush()?;
        Ok(capture)
    }

    /// Writes a packet.
    pub fn packet(&mut self, packet: &Captured<'_>) -> io::Result<()> {
        let Captured { interface, at, inward, bytes, comment } = *packet;
        self.words(&[interface, (at >> 32) as u32, at as u32, bytes.len() as u32, bytes.len() as u32]);
        self.padded(bytes);
        if !comment.is_empty() {
            self.option(COMMENT, &comment.as_bytes()[..comment.floor_char_boundary(COMMENT_MAX)]);
        }
        if let Some(inward) = inward {
            self.option(FLAGS, &(if inward { 1u32 } else { 2 }).to_ne_bytes());
        }
        self.finish(PACKET)?;
        if let Some(written) = self.written.get_mut(interface as usize) {
            *written += 1;
        }
        Ok(())
    }

    /// Ends it with the statistics of each interface. What was missed is not known by interface, so the first one has it.
    pub fn end(&mut self, at: u64, missed: u64) -> io::Result<()> {
        for interface in 0..self.written.len() {
            let dropped = if interface == 0 { missed } else { 0 };
            self.words(&[interface as u32, (at >> 32) as u32, at as u32]);
            if dropped > 0 {
                self.option(COMMENT, b"what the capture has missed at all ports together");
            }
            self.option(RECEIVED, &self.written[interface].to_ne_bytes());
            self.option(DROPPED, &dropped.to_ne_bytes());
            self.finish(STATISTICS)?;
        }
        self.flush()
    }

    /// Packets so far.
    pub fn written(&self) -> u64 {
        self.written.iter().sum()
    }

    /// Brings what was written to where it goes.
    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }

    fn words(&mut self, words: &[u32]) {
        words.iter().for_each(|word| self.block.extend_from_slice(&word.to_ne_bytes()));
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.block.extend_from_slice(bytes);
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        self.block.extend_from_slice(&code.to_ne_bytes());
        self.block.extend_from_slice(&(value.len() as u16).to_ne_bytes());
        self.padded(value);
    }

    /// Writes the block that has been put together, whose options end here.
    fn finish(&mut self, kind: u32) -> io::Result<()> {
        self.option(END, &[]);
        let length = (self.block.len() + 12) as u32;
        self.to.write_all(&kind.to_ne_bytes())?;
        self.to.write_all(&length.to_ne_bytes())?;
        self.to.write_all(&self.block)?;
        self.block.clear();
        self.to.write_all(&length.to_ne_bytes())
    }
}

/// Puts the headers of a datagram of so many bytes between two sockets into `room`; says how many bytes they have.
pub fn headers(room: &mut [u8; HEADERS], from: SocketAddr, to: SocketAddr, length: usize) -> usize {
    let (source, destination) = (Addr::from(from.ip()), Addr::from(to.ip()));
    let payload = udp::HEADER + length;
    let ip = match (source.bytes_v4(), destination.bytes_v4()) {
        (Some(source), Some(destination)) => {
            let header = ipv4::Repr::new(source, destination, UDP, 64, payload);
            header.emit(&mut room[..header.header_len()])
        }
        _ => ipv6::Repr::new(source, destination, UDP, 64, payload).emit(&mut room[..ipv6::HEADER]),
    };
    let header = udp::Repr { source_port: from.port(), destination_port: to.port(), payload_len: length };
    // Only a datagram too long for its header has none.
    let Ok(ip) = ip else { return 0 };
    match header.emit(&mut room[ip..ip + udp::HEADER]) {
        Ok(_) => ip + udp::HEADER,
        Err(_) => 0,
    }
}

/// A packet that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// The name of its interface.
    pub interface: String,
    /// Nanoseconds since 1970.
    pub at: u64,
    /// Whether it came in, if that is said.
    pub inward: Option<bool>,
    /// The packet.
    pub bytes: Vec<u8>,
    /// What is said about it.
    pub comment: String,
}

/// The packets of a capture, of this format in this host's byte order or of the older one (pcap) in either, as far as it is whole.
pub fn packets(bytes: &[u8]) -> Vec<Packet> {
    match old::packets(bytes) {
        Some(packets) => packets.into_iter().map(|(at, bytes)| Packet { at, bytes, ..Packet::default() }).collect(),
        None => new_packets(bytes),
    }
}

/// An interface of a capture: its name, and nanoseconds of a unit of its times.
struct Interface {
    name: String,
    unit: u64,
}

impl Interface {
    fn read(block: &[u8]) -> Interface {
        let (mut name, mut unit) = (String::new(), 1_000);
        for (code, value) in options(block.get(8..)) {
            match (code, value) {
                (NAME, value) => name = String::from_utf8_lossy(value).into_owned(),
                // Powers of ten up to nanoseconds; what is finer or in powers of two is rare, and taken as nanoseconds.
                (RESOLUTION, [digits, ..]) => unit = 10u64.pow(9u8.saturating_sub(*digits).into()),
                _ => {}
            }
        }
        Interface { name, unit }
    }
}

fn new_packets(bytes: &[u8]) -> Vec<Packet> {
    let (mut found, mut names, mut rest) = (Vec::new(), Vec::new(), bytes);
    while let Some((kind, block, behind)) = block(rest) {
        rest = behind;
        match kind {
            INTERFACE => names.push(Interface::read(block)),
            PACKET => found.extend(packet(block, &names)),
            _ => {}
        }
    }
    found
}

/// Of each interface, packets written and missed, as the statistics at the end of a capture say.
pub fn statistics(bytes: &[u8]) -> Vec<(u64, u64)> {
    let (mut found, mut rest) = (Vec::new(), bytes);
    while let Some((kind, block, behind)) = block(rest) {
        rest = behind;
        if kind == STATISTICS {
            let number = |code: u16| {
                let value = options(block.get(12..)).find(|(known, _)| *known == code)?.1;
                value.first_chunk().map(|value| u64::from_ne_bytes(*value))
            };
            found.push((number(RECEIVED).unwrap_or(0), number(DROPPED).unwrap_or(0)));
        }
    }
    found
}

/// The bytes of the packets of a capture file of this host, as far as it is whole.
pub fn read(path: &Path) -> io::Result<Vec<Vec<u8>>> {
    Ok(packets(&std::fs::read(path)?).into_iter().map(|packet| packet.bytes).collect())
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_ne_bytes(*word))
}

fn block(bytes: &[u8]) -> Option<(u32, &[u8], &[u8])> {
    let (kind, length) = (word(bytes, 0)?, word(bytes, 4)? as usize);
    let whole = bytes.get(..length)?;
    let inside = whole.get(8..length.checked_sub(4)?)?;
    Some((kind, inside, &bytes[length..]))
}

fn packet(block: &[u8], names: &[Interface]) -> Option<Packet> {
    let length = word(block, 12)? as usize;
    let bytes = block.get(20..)?.get(..length)?.to_vec();
    let behind = block.get(20 + length.next_multiple_of(4)..);
    let (mut comment, mut inward) = (String::new(), None);
    for (code, value) in options(behind) {
        match code {
            COMMENT => comment = String::from_utf8_lossy(value).into_owned(),
            FLAGS => inward = word(value, 0).map(|flags| flags & 3 == 1),
            _ => {}
        }
    }
    let Interface { name, unit } = names.get(word(block, 0)? as usize)?;
    let interface = name.clone();
    let at = (u64::from(word(block, 4)?) << 32 | u64::from(word(block, 8)?)).saturating_mul(*unit);
    Some(Packet { interface, at, inward, bytes, comment })
}

fn options(bytes: Option<&[u8]>) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes.unwrap_or_default();
    std::iter::from_fn(move || {
        let head = word(rest, 0)?.to_ne_bytes();
        let (code, length) = (u16::from_ne_bytes([head[0], head[1]]), u16::from_ne_bytes([head[2], head[3]]) as usize);
        let value = rest.get(4..4 + length).filter(|_| code != END)?;
        rest = rest.get(4 + length.next_multiple_of(4)..).unwrap_or_default();
        Some((code, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_has_the_layout_of_the_format() {
        let addr = |text: &str| text.parse().unwrap();
        let mut room = [0; HEADERS];
        let length = headers(&mut room, addr("127.0.0.1:4001"), addr("127.0.0.1:4002"), 4);
        let datagram = [&room[..length], b"anep"].concat();
        let mut written = Vec::new();
        let ports = [("west".to_owned(), Beginning::Ip), ("eth0".to_owned(), Beginning::Ethernet)];
        let mut capture = Capture::begin(&mut written, &ports).unwrap();
        let at = 5_000_000_007;
        let first = Captured { interface: 0, at, inward: Some(true), bytes: &datagram, comment: "taken in" };
        capture.packet(&first).unwrap();
        capture.packet(&Captured { interface: 1, inward: Some(false), bytes: &[7; 61], comment: "", ..first }).unwrap();
        capture.end(at, 3).unwrap();
        let word = |at: usize| u32::from_ne_bytes(written[at..at + 4].try_into().unwrap());
        assert_eq!((word(0), word(8), word(4)), (SECTION, ORDER, word(word(4) as usize - 4)));
        let found = packets(&written);
        let packet = |name: &str, inward, bytes: &[u8], comment: &str| Packet {
            interface: name.into(),
            at,
            inward: Some(inward),
            bytes: bytes.to_vec(),
            comment: comment.into(),
        };
        assert_eq!(found, [packet("west", true, &datagram, "taken in"), packet("eth0", false, &[7; 61], "")]);
        assert_eq!(statistics(&written), [(1, 3), (1, 0)]);
        let ip = ipv4::Packet::new_checked(&found[0].bytes).unwrap();
        assert!(ip.verify_checksum());
        assert_eq!(udp::Packet::new_checked(ip.payload()).unwrap().payload(), b"anep");
        for cut in 0..written.len() {
            assert!(packets(&written[..cut]).len() <= 2, "what is cut off is no packet");
        }
    }
}
