//! Frames under construction: every field can be set to anything, and lengths and sums follow unless told not to.
//!
//! Written out by hand, byte by byte, and not by the code under test.
#![allow(dead_code)]

use super::place::{MACS, OWN_MACS};
use anode::wire::{Addr, capsule};

/// How a capsule stands in its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    V4Udp,
    V4Direct,
    V6Udp,
    V6Direct,
}

impl Form {
    pub const ALL: [Form; 4] = [Form::V4Udp, Form::V4Direct, Form::V6Udp, Form::V6Direct];

    pub fn is_v4(self) -> bool {
        matches!(self, Form::V4Udp | Form::V4Direct)
    }

    pub fn is_udp(self) -> bool {
        matches!(self, Form::V4Udp | Form::V6Udp)
    }
}

/// A frame that is not yet bytes.
#[derive(Clone, Debug)]
pub struct Draft {
    pub form: Form,
    pub to_mac: [u8; 6],
    pub from_mac: [u8; 6],
    /// Tags behind the link addresses: tag protocol and control information.
    pub tags: Vec<(u16, u16)>,
    pub ethertype: Option<u16>,
    pub version: u8,
    pub service: u8,
    pub identification: u16,
    pub fragment: u16,
    pub hops: u8,
    pub protocol: Option<u8>,
    pub flow_label: u32,
    /// IPv4 options, or IPv6 extension headers with the protocol number of the first.
    pub options: Vec<u8>,
    pub extension: Option<u8>,
    /// The IP addresses, if others than the capsule's.
    pub ip_source: Option<Addr>,
    pub ip_destination: Option<Addr>,
    pub ports: (u16, u16),
    /// A UDP checksum; `None`: none over IPv4, the right one over IPv6.
    pub udp_sum: Option<u16>,
    pub anep_version: u8,
    pub anep_flags: u8,
    pub anep_type: u16,
    pub anep_options: Vec<u8>,
    pub capsule_version: u8,
    pub capsule_flags: u8,
    pub header: capsule::Header,
    pub payload: Vec<u8>,
    /// What is added to each length field: IP, UDP, ANEP header words, ANEP packet.
    pub lies: [i32; 4],
    /// What is added to the IPv4 header's checksum.
    pub sum_lie: u16,
    /// Bytes behind the ANEP packet, within UDP or IP; and behind IP.
    pub slack: usize,
    pub trailer: usize,
}

impl Draft {
    /// A good frame that comes in by `port`.
    pub fn new(form: Form, port: u16, header: capsule::Header, payload: Vec<u8>) -> Draft {
        Draft {
            form,
            to_mac: OWN_MACS[usize::from(port)].0,
            from_mac: MACS[usize::from(port)].0,
            tags: vec![],
            ethertype: None,
            version: if form.is_v4() { 4 } else { 6 },
            service: 0,
            identification: 0,
            fragment: 0x4000,
            hops: 64,
            protocol: None,
            flow_label: 0,
            options: vec![],
            extension: None,
            ip_source: None,
            ip_destination: None,
            ports: (3322, 3322),
            udp_sum: None,
            anep_version: 1,
            anep_flags: 0,
            anep_type: 0x0ac0,
            anep_options: vec![],
            capsule_version: 1,
            capsule_flags: 0,
            header,
            payload,
            lies: [0; 4],
            sum_lie: 0,
            slack: 0,
            trailer: 0,
        }
    }

    /// The bytes.
    pub fn frame(&self) -> Vec<u8> {
        let mut inner = self.anep();
        inner.resize(inner.len() + self.slack, 0x5a);
        if self.form.is_udp() {
            inner = self.udp(&inner);
        }
        let packet = if self.form.is_v4() { self.ipv4(&inner) } else { self.ipv6(&inner) };
        let mut frame = [self.to_mac, self.from_mac].concat();
        for (protocol, control) in &self.tags {
            frame.extend(protocol.to_be_bytes());
            frame.extend(control.to_be_bytes());
        }
        let ethertype = if self.form.is_v4() { 0x0800 } else { 0x86dd };
        frame.extend(self.ethertype.unwrap_or(ethertype).to_be_bytes());
        frame.extend(packet);
        frame.resize(frame.len() + self.trailer, 0xa5);
        frame
    }

    fn anep(&self) -> Vec<u8> {
        let header = 8 + self.anep_options.len();
        let length = header + 88 + self.payload.len();
        let mut out = vec![self.anep_version, self.anep_flags];
        out.extend(self.anep_type.to_be_bytes());
        out.extend(lied(header / 4, self.lies[2]));
        out.extend(lied(length, self.lies[3]));
        out.extend(&self.anep_options);
        let capsule::Header { app_port, bound, code, previous, source, destination } = self.header;
        out.extend([self.capsule_version, self.capsule_flags]);
        out.extend(app_port.to_be_bytes());
        out.extend(bound.to_be_bytes());
        out.extend(code.0);
        [previous, source, destination].iter().for_each(|addr| out.extend(addr.0));
        out.extend(&self.payload);
        out
    }

    fn ends(&self) -> (Addr, Addr) {
        (self.ip_source.unwrap_or(self.header.source), self.ip_destination.unwrap_or(self.header.destination))
    }

    fn udp(&self, inner: &[u8]) -> Vec<u8> {
        let length = 8 + inner.len();
        let mut out = self.ports.0.to_be_bytes().to_vec();
        out.extend(self.ports.1.to_be_bytes());
        out.extend(lied(length, self.lies[1]));
        out.extend(self.udp_sum.unwrap_or(0).to_be_bytes());
        out.extend(inner);
        if !self.form.is_v4() && self.udp_sum.is_none() {
            let (source, destination) = self.ends();
            let pseudo = [&source.0[..], &destination.0, &(length as u32).to_be_bytes(), &[0, 0, 0, 17], &out].concat();
            let sum = match !folded(&pseudo) {
                0 => 0xffff,
                sum => sum,
            };
            out[6..8].copy_from_slice(&sum.to_be_bytes());
        }
        out
    }

    fn ipv4(&self, inner: &[u8]) -> Vec<u8> {
        let words = 5 + self.options.len() / 4;
        let protocol = self.protocol.unwrap_or(if self.form.is_udp() { 17 } else { 107 });
        let (source, destination) = self.ends();
        let v4 = |addr: Addr| [addr.0[12], addr.0[13], addr.0[14], addr.0[15]];
        let mut out = vec![self.version << 4 | words as u8, self.service];
        out.extend(lied(words * 4 + inner.len(), self.lies[0]));
        out.extend(self.identification.to_be_bytes());
        out.extend(self.fragment.to_be_bytes());
        out.extend([self.hops, protocol, 0, 0]);
        out.extend(v4(source));
        out.extend(v4(destination));
        out.extend(&self.options);
        let sum = (!folded(&out)).wrapping_add(self.sum_lie);
        out[10..12].copy_from_slice(&sum.to_be_bytes());
        out.extend(inner);
        out
    }

    fn ipv6(&self, inner: &[u8]) -> Vec<u8> {
        let protocol = self.protocol.unwrap_or(if self.form.is_udp() { 17 } else { 107 });
        let first = u32::from(self.version) << 28 | u32::from(self.service) << 20 | self.flow_label & 0xf_ffff;
        let mut out = first.to_be_bytes().to_vec();
        out.extend(lied(self.options.len() + inner.len(), self.lies[0]));
        out.extend([self.extension.unwrap_or(protocol), self.hops]);
        let (source, destination) = self.ends();
        out.extend(source.0);
        out.extend(destination.0);
        out.extend(&self.options);
        if let (Some(_), Some(next)) = (self.extension, out.get_mut(40)) {
            *next = protocol;
        }
        out.extend(inner);
        out
    }
}

fn lied(length: usize, by: i32) -> [u8; 2] {
    ((length as i32 + by) as u16).to_be_bytes()
}

/// The sum of RFC 1071, not inverted.
fn folded(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum >> 16 > 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Puts the checksum of the IPv4 header in a frame right, if there is one.
pub fn mend_ipv4(frame: &mut [u8]) {
    let length = usize::from(frame.get(14).copied().unwrap_or(0) & 15) * 4;
    if length >= 20 && frame.len() >= 14 + length {
        frame[24..26].fill(0);
        let sum = !folded(&frame[14..14 + length]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    }
}
