//! Sets of rules and packets from a seed: like those of access lists, after ClassBench (Taylor and Turner, INFOCOM 2005), and like
//! Bowman's, with fields and values at random. Example: 100,000 rules over addresses and ports, and packets of which most are of one.
//!
//! The benchmark and the oracle of the classifier's tests use them; nothing here is of either.

use std::fmt::Write as _;

/// Chance, from a seed.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// From a seed.
    pub fn new(seed: u64) -> Chance {
        Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// 64 bits (xorshift).
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Below a limit.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.bits().wrapping_mul(0x2545_f491_4f6c_dd1d)) * u128::from(limit)) >> 64) as u64
    }

    /// One of some.
    pub fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// A rule of an access list.
#[derive(Clone, Copy, Debug)]
pub struct AccessRule {
    /// Addresses of source and destination, and how many bits of each matter.
    pub ends: [(u32, u32); 2],
    /// First and last port of each.
    pub ports: [(u16, u16); 2],
    /// 6, 17, or any.
    pub protocol: Option<u8>,
}

const SERVICES: [u16; 14] = [80, 443, 53, 22, 25, 123, 161, 389, 445, 1433, 1521, 3306, 5060, 8080];

/// Rules like those of access lists: networks that recur, lengths of prefixes and ports as there.
pub fn access_list(count: usize, chance: &mut Chance) -> Vec<AccessRule> {
    let networks: Vec<u32> = (0..(count / 40).max(8)).map(|_| chance.bits() as u32).collect();
    let mut rules = Vec::with_capacity(count);
    while rules.len() < count {
        let ends = [0, 1].map(|_| prefix(&networks, chance));
        if ends == [(0, 0); 2] {
            continue;
        }
        let protocol = match chance.below(10) {
            0 => None,
            1..=6 => Some(6),
            _ => Some(17),
        };
        let ports = [85, 35].map(|wild| ports(wild, chance));
        let any = [(0, u16::MAX); 2];
        rules.push(AccessRule { ends, ports: if protocol.is_some() { ports } else { any }, protocol });
    }
    rules
}

fn prefix(networks: &[u32], chance: &mut Chance) -> (u32, u32) {
    let network = chance.pick(networks);
    let length = match chance.below(100) {
        0..=9 => return (0, 0),
        10..=24 => 16,
        25..=34 => chance.pick(&[20, 21, 22, 23]),
        35..=64 => 24,
        65..=74 => chance.pick(&[27, 28, 30]),
        _ => 32,
    };
    let addr = network ^ (chance.bits() as u32 & 0xffff & (u32::MAX << 8 | 0xff));
    (addr & (u32::MAX << (32 - length)), length)
}

fn ports(wild: u64, chance: &mut Chance) -> (u16, u16) {
    let kind = chance.below(100);
    let one = |port| (port, port);
    match kind {
        kind if kind < wild => (0, u16::MAX),
        kind if kind < wild + 25 => one(chance.pick(&SERVICES)),
        kind if kind < wild + 30 => (1024, u16::MAX),
        kind if kind < wild + 33 => {
            let low = chance.below(60_000) as u16;
            (low, low + chance.below(2000) as u16)
        }
        _ => one(chance.bits() as u16),
    }
}

impl AccessRule {
    /// The rule in the paper's syntax.
    pub fn text(&self) -> String {
        let mut text = String::from("[ethernet | ip");
        for (name, (addr, length)) in ["src", "dst"].into_iter().zip(self.ends) {
            if length > 0 {
                let _ = write!(text, " ({name} = {}/{length})", std::net::Ipv4Addr::from(addr));
            }
        }
        if let Some(protocol) = self.protocol {
            text += if protocol == 6 { " | tcp" } else { " | udp" };
            for (name, (low, high)) in ["sport", "dport"].into_iter().zip(self.ports) {
                if (low, high) != (0, u16::MAX) {
                    let _ = write!(text, " ({name} = {low}..{high})");
                }
            }
        }
        text + " | *]"
    }

    /// A packet of the rule.
    pub fn packet(&self, chance: &mut Chance) -> Vec<u8> {
        let ends = self.ends.map(|(addr, length)| {
            let free = u32::MAX.checked_shr(length).unwrap_or(0);
            addr | (chance.bits() as u32 & free)
        });
        let ports = self.ports.map(|(low, high)| low + chance.below(u64::from(high - low) + 1) as u16);
        frame(ends, ports, self.protocol.unwrap_or(17), b"....")
    }
}

/// Packets in random order, of which nine of ten are made for a rule.
pub fn packets(rules: &[AccessRule], count: usize, chance: &mut Chance) -> Vec<Vec<u8>> {
    let packet = |_| {
        if rules.is_empty() || chance.below(10) == 0 {
            let ends = [0, 1].map(|_| chance.bits() as u32);
            let ports = [0, 1].map(|_| chance.bits() as u16);
            return frame(ends, ports, chance.pick(&[6, 17]), b"....");
        }
        let rule = rules[chance.below(rules.len() as u64) as usize];
        rule.packet(chance)
    };
    (0..count).map(packet).collect()
}

/// An Ethernet frame with a datagram or a segment.
pub fn frame(ends: [u32; 2], ports: [u16; 2], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let header = if protocol == 6 { 20 } else { 8 };
    let total = 20 + header + payload.len();
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
    frame.extend((total as u16).to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, protocol, 0, 0]);
    ends.iter().for_each(|addr| frame.extend(addr.to_be_bytes()));
    let sum: u32 = frame[14..34].chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    frame[24..26].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    ports.iter().for_each(|port| frame.extend(port.to_be_bytes()));
    if protocol == 6 {
        frame.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0, 0, 0, 0, 0, 0]);
    } else {
        frame.extend(((8 + payload.len()) as u16).to_be_bytes());
        frame.extend([0, 0]);
    }
    frame.extend(payload);
    frame
}

/// The application of the paper's experiments, behind UDP: to be taught.
pub const APPLICATION: &str = "(protocol app (follows udp 2001) (hdr_len 12) (field kind offset 0 length 1)
  (field level offset 1 bit 0 bits 4) (field flags offset 1 bit 4 bits 4) (field stream offset 2 length 2)
  (field frame offset 4 length 4) (field part offset 8 length 4))";

/// Table I: rules of about six fields of four protocols, each value out of a few, so that several rules hold.
pub fn random_rules(count: usize, chance: &mut Chance) -> Vec<String> {
    const FIELDS: [(&str, &[&str]); 4] = [
        ("ethernet", &["src"]),
        ("ip", &["src", "dst", "tos", "ttl"]),
        ("udp", &["sport", "length"]),
        ("app", &["kind", "level", "flags", "stream", "frame"]),
    ];
    let rule = |_| {
        let mut text = String::from("[");
        for (header, fields) in FIELDS {
            text += header;
            for field in fields {
                if chance.below(2) == 0 {
                    let value = match (header, *field) {
                        ("ethernet", _) => format!("02:00:00:00:00:0{}", 1 + chance.below(3)),
                        ("ip", "src" | "dst") => format!("10.0.0.{}", 1 + chance.below(4)),
                        ("ip", "ttl") => "64".into(),
                        ("udp", "length") => "20".into(),
                        _ => chance.below(4).to_string(),
                    };
                    let _ = write!(text, " ({field} = {value})");
                }
            }
            text += " | ";
        }
        text + "*]"
    };
    (0..count).map(rule).collect()
}

/// A packet of the application.
pub fn application(chance: &mut Chance) -> Vec<u8> {
    let mut payload =
        vec![chance.below(4) as u8, (chance.below(4) << 4 | chance.below(4)) as u8, 0, chance.below(4) as u8];
    payload.extend([0, 0, 0, chance.below(4) as u8, 0, 0, 0, chance.below(4) as u8]);
    let ends = [0, 1].map(|_| 0x0a00_0001 + chance.below(4) as u32);
    frame(ends, [chance.below(4) as u16, 2001], 17, &payload)
}
