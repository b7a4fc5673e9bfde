//! A sender of capsules to a node whose process lives or not, and counters behind it.
#![allow(dead_code, reason = "each test program uses its part")]

use super::running::{PATIENCE, Running};
use anode::kernel::{Filters, Which};
use anode::sys::mmsg::{BATCH, Batch, RawAddr};
use anode::sys::packet::PacketSocket;
use anode::wire::ethernet::{self, Mac, ethertype};
use anode::wire::{Addr, Digest, anep, capsule, ipv4, udp};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::time::Duration;

/// The mark of capsules that are sent before the count begins, and of one behind all others.
pub const WARM: u32 = crate::pace::END;

/// So often a frame is given to an interface whose queue is full.
const TRIES: u32 = 1 << 20;

/// After so much of it no capsule comes any more.
pub const SILENCE: Duration = Duration::from_secs(3);

/// A sender at node a, whose capsules run code at r and go on.
pub struct Sender {
    socket: PacketSocket,
    batch: Batch,
    frame: Vec<u8>,
}

impl Sender {
    /// Of capsules whose payload is that of a ping.
    pub fn new(net: &Running, code: Digest, to: &str) -> Sender {
        Sender::of(net, code, to, &[0; 16])
    }

    /// Of capsules with this payload, and a mark behind it.
    pub fn of(net: &Running, code: Digest, to: &str, payload: &[u8]) -> Sender {
        let link = |name: &str| {
            let shown = net.lab.command(name, "ip").unwrap().args(["-j", "link", "show"]).output().unwrap().stdout;
            let links: serde_json::Value = serde_json::from_slice(&shown).unwrap();
            let is = |at: &&serde_json::Value| at["ifname"] == if name == "a" { "to-r" } else { "to-a" };
            let found = links.as_array().unwrap().iter().find(is).unwrap().clone();
            (found["ifindex"].as_u64().unwrap() as u32, mac(found["address"].as_str().unwrap()))
        };
        let ((interface, own), (_, next)) = (link("a"), link("r"));
        let from: Addr = "10.0.1.1".parse().unwrap();
        let to: Addr = to.parse().unwrap();
        let header = capsule::Header { app_port: 5, bound: 8, code, previous: from, source: from, destination: to };
        let socket = net
            .lab
            .enter("a", || {
                let filter = Filters::create().unwrap().filter(Which::All).unwrap();
                PacketSocket::open(interface, 2048, &filter).unwrap()
            })
            .unwrap();
        Sender { socket, batch: Batch::default(), frame: frame((next, own), &header, payload) }
    }

    /// Sends under another link address from now on.
    pub fn pretend(&mut self, source: &str) {
        self.frame[6..12].copy_from_slice(&mac(source).0);
    }

    /// From this UDP port from now on: another flow.
    pub fn set_port(&mut self, port: u16) {
        self.frame[14 + 20..][..2].copy_from_slice(&port.to_be_bytes());
    }

    /// With this resource bound from now on.
    pub fn set_bound(&mut self, bound: u32) {
        let at = 14 + 20 + udp::HEADER + anep::HEADER + capsule::BOUND;
        self.frame[at..at + 4].copy_from_slice(&bound.to_be_bytes());
    }

    pub fn send(&mut self, mark: u32) {
        let end = self.frame.len();
        self.frame[end - 4..].copy_from_slice(&mark.to_be_bytes());
        // Others' streams may fill the interface's queue for a moment.
        for _ in 0..TRIES {
            match self.batch.send(self.socket.as_fd(), std::iter::once((&self.frame[..], RawAddr::NONE))) {
                Ok(1) => return,
                Err(full) if full.raw_os_error() == Some(libc::ENOBUFS) => {}
                other => panic!("the interface takes no frame: {other:?}"),
            }
        }
        panic!("the interface's queue stays full");
    }
}

impl Sender {
    /// As many as one system call takes, without marks; says how many those were.
    pub fn burst(&mut self) -> u64 {
        let end = self.frame.len();
        self.frame[end - 4..].copy_from_slice(&WARM.to_be_bytes());
        let frames = std::iter::repeat_n((&self.frame[..], RawAddr::NONE), BATCH);
        // The interface may take none for a moment.
        self.batch.send(self.socket.as_fd(), frames).map_or(0, |taken| taken as u64)
    }
}

fn mac(text: &str) -> Mac {
    let mut bytes = [0; 6];
    bytes.iter_mut().zip(text.split(':')).for_each(|(to, hex)| *to = u8::from_str_radix(hex, 16).unwrap());
    Mac(bytes)
}

/// A frame with a capsule, and a mark behind its payload.
fn frame(macs: (Mac, Mac), header: &capsule::Header, payload: &[u8]) -> Vec<u8> {
    let (inner, v4) = (anep::HEADER + capsule::HEADER + payload.len() + 4, |addr: Addr| addr.bytes_v4().unwrap());
    let mut bytes = vec![0; 14 + 20 + udp::HEADER + inner];
    let link = ethernet::Repr { destination: macs.0, source: macs.1, tag: None, ethertype: ethertype::IPV4 };
    let ip = link.emit(&mut bytes).unwrap();
    let datagram = udp::HEADER + inner;
    let repr = ipv4::Repr::new(v4(header.source), v4(header.destination), udp::IP_PROTOCOL, 64, datagram);
    let at = ip + repr.emit(&mut bytes[ip..]).unwrap();
    udp::Repr { source_port: 3322, destination_port: 3322, payload_len: inner }.emit(&mut bytes[at..]).unwrap();
    anep::emit_basic(&mut bytes[at + 8..], anep::type_id::CAPSULE, inner - anep::HEADER).unwrap();
    header.emit(&mut bytes[at + 8 + anep::HEADER..]).unwrap();
    bytes[at + 8 + anep::HEADER + capsule::HEADER..][..payload.len()].copy_from_slice(payload);
    bytes
}

/// A socket at the far end, with room for what comes while it does not look, which waits for what is bound to come.
pub fn receiver(net: &Running, node: &str, addr: &str) -> UdpSocket {
    let socket = net.lab.enter(node, || UdpSocket::bind((addr, 3322)).unwrap()).unwrap();
    rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 64 << 20).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// The mark of the next capsule; nothing: none comes any more.
pub fn next_mark(socket: &UdpSocket) -> Option<u32> {
    let mut buffer = [0; 2048];
    let length = socket.recv(&mut buffer).ok()?;
    Some(u32::from_be_bytes(*buffer[..length].last_chunk().unwrap()))
}
