//! A tap on a port: its frames in a capture file (pcap, nanosecond resolution) that Wireshark opens.
//!
//! Ethernet ports write their frames as they are. Overlay ports write IP packets: the datagram with
//! the IP and UDP headers it has between the sockets, as the port knows them.

use crate::wire::{Addr, ipv4, ipv6, udp};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::path::Path;

/// The file's first word: nanoseconds, in this host's byte order.
const MAGIC: u32 = 0xa1b2_3c4d;

/// Frames that begin with an Ethernet header (LINKTYPE_ETHERNET).
const ETHERNET: u32 = 1;

/// Packets that begin with an IP header (LINKTYPE_RAW).
const RAW_IP: u32 = 101;

/// Bytes kept of each packet.
const SNAP: u32 = 65_535;

/// UDP in an IP header.
const UDP: u8 = 17;

/// A capture file.
pub struct Tap {
    file: BufWriter<File>,
    epoch: u64,
}

impl Tap {
    /// Makes a file for an Ethernet port. `epoch` is the time of day, in nanoseconds since 1970, at
    /// which the node's clock was 0.
    pub fn ethernet(path: &Path, epoch: u64) -> io::Result<Tap> {
        Tap::create(path, epoch, ETHERNET)
    }

    /// Makes a file for an overlay port.
    pub fn overlay(path: &Path, epoch: u64) -> io::Result<Tap> {
        Tap::create(path, epoch, RAW_IP)
    }

    fn create(path: &Path, epoch: u64, link: u32) -> io::Result<Tap> {
        let mut file = BufWriter::new(File::create(path)?);
        for word in [MAGIC, 4 << 16 | 2, 0, 0, SNAP, link] {
            file.write_all(&word.to_ne_bytes())?;
        }
        file.flush()?;
        Ok(Tap { file, epoch })
    }

    /// Writes a frame that passed at `now` (nanoseconds of the node's clock).
    pub fn frame(&mut self, now: u64, bytes: &[u8]) -> io::Result<()> {
        self.record(now, bytes.len())?;
        self.file.write_all(bytes)
    }

    /// Writes a datagram between two sockets.
    pub fn datagram(&mut self, now: u64, from: SocketAddr, to: SocketAddr, bytes: &[u8]) -> io::Result<()> {
        let (source, destination) = (Addr::from(from.ip()), Addr::from(to.ip()));
        let mut headers = [0; ipv6::HEADER + udp::HEADER];
        let payload = udp::HEADER + bytes.len();
        let ip = match (source.bytes_v4(), destination.bytes_v4()) {
            (Some(source), Some(destination)) => {
                let header = ipv4::Repr::new(source, destination, UDP, 64, payload);
                header.emit(&mut headers[..header.header_len()])
            }
            _ => ipv6::Repr::new(source, destination, UDP, 64, payload).emit(&mut headers[..ipv6::HEADER]),
        };
        let ip = ip.map_err(io::Error::other)?;
        let header = udp::Repr { source_port: from.port(), destination_port: to.port(), payload_len: bytes.len() };
        header.emit(&mut headers[ip..ip + udp::HEADER]).map_err(io::Error::other)?;
        self.record(now, ip + payload)?;
        self.file.write_all(&headers[..ip + udp::HEADER])?;
        self.file.write_all(bytes)
    }

    /// Brings what was written to the file.
    pub fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }

    fn record(&mut self, now: u64, length: usize) -> io::Result<()> {
        let at = self.epoch + now;
        let words = [(at / 1_000_000_000) as u32, (at % 1_000_000_000) as u32, length as u32, length as u32];
        words.iter().try_for_each(|word| self.file.write_all(&word.to_ne_bytes()))
    }
}

/// The packets of a capture file of this host, as far as it is whole.
pub fn read(path: &Path) -> io::Result<Vec<Vec<u8>>> {
    let bytes = std::fs::read(path)?;
    let mut packets = Vec::new();
    let mut rest = bytes.get(24..).unwrap_or_default();
    while let Some((header, behind)) = rest.split_first_chunk::<16>() {
        let [.., a, b, c, d, _, _, _, _] = *header;
        let Some((packet, behind)) = behind.split_at_checked(u32::from_ne_bytes([a, b, c, d]) as usize) else { break };
        packets.push(packet.to_vec());
        rest = behind;
    }
    Ok(packets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_has_the_layout_of_the_format() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pcap");
        let mut tap = Tap::overlay(&path, 5_000_000_000).unwrap();
        let addr = |text: &str| text.parse().unwrap();
        tap.datagram(7, addr("127.0.0.1:4001"), addr("127.0.0.1:4002"), b"anep").unwrap();
        tap.flush().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!((word(0), word(20)), (MAGIC, RAW_IP));
        assert_eq!((word(24), word(28), word(32)), (5, 7, 32));
        let packet = ipv4::Packet::new_checked(&bytes[40..]).unwrap();
        assert!(packet.verify_checksum());
        assert_eq!(udp::Packet::new_checked(packet.payload()).unwrap().payload(), b"anep");
        assert_eq!(read(&path).unwrap(), [&bytes[40..]]);
    }
}
