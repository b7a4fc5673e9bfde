//! The primitives of pcap filters: what the words before a value say of it, and bytes of headers. Example: `src net 10.0.0.0/8`.

use super::super::bits::Bits;
use super::super::constants::constant;
use super::super::pattern::{Op, Pattern, Spot, Wanted};
use super::super::protocol::Notation;
use super::super::text::{Said, add, mac, of};
use super::super::token::{Mistake, Token, number, shown};
use super::{End, Parser, Qualified, any};

impl<'a> Parser<'a, '_, '_> {
    /// One test for each way and end of some protocols' fields.
    fn tests(&self, end: Option<End>, cases: &[(&str, [&str; 2], Vec<Said>)], at: usize) -> Result<Wanted, Mistake> {
        let mut ends = [Vec::new(), Vec::new()];
        for (name, fields, values) in cases {
            let Some(id) = self.known.protocols.id(name) else { continue };
            let Some(protocol) = self.known.protocols.one(id) else { continue };
            for way in self.ways(name, at)? {
                for (found, field) in ends.iter_mut().zip(fields) {
                    let field = protocol.field(field).ok_or_else(|| protocol.no_field(field, at))?;
                    for said in values {
                        let mut pattern = Pattern { way: way.clone(), ..Pattern::default() };
                        add(&mut pattern, way.len() - 1, &protocol.fields[field], *said);
                        found.push(pattern);
                    }
                }
            }
        }
        let [source, destination] = ends;
        if source.is_empty() {
            return Err(Mistake::at(at, "no protocol here has such a value"));
        }
        Ok(match end.unwrap_or(End::Either) {
            End::Source => any(source),
            End::Destination => any(destination),
            End::Either => any(source.into_iter().chain(destination).collect()),
            End::Both => Wanted::All(vec![any(source), any(destination)]),
        })
    }

    pub(super) fn compare(&mut self, said: Qualified<'a>, value: Token<'a>, begin: usize) -> Result<Wanted, Mistake> {
        let protocol = said.protocol.map(|token| token.text);
        match said.kind.map_or("host", |kind| kind.text) {
            "host" if protocol == Some("ether") => {
                let addr = mac(value.text).ok_or_else(|| {
                    Mistake::at(
                        value.at,
                        format!("'{}' is no address of Ethernet, such as 02:00:00:00:00:01", shown(value.text)),
                    )
                })?;
                let exact = vec![Said::Bits((1 << 48) - 1, addr)];
                self.tests(said.end, &[("ethernet", ["src", "dst"], exact)], value.at)
            }
            kind @ ("host" | "net") => {
                let [v4, v6] = self.addresses(kind, value)?;
                let mut cases = Vec::new();
                let wants = |name: &str| protocol.is_none() || protocol == Some(name);
                if !v4.is_empty() && wants("ip") {
                    cases.push(("ip", ["src", "dst"], v4.clone()));
                }
                if !v4.is_empty() && wants("arp") {
                    cases.push(("arp", ["spa", "tpa"], v4));
                }
                if !v6.is_empty() && wants("ip6") {
                    cases.push(("ip6", ["src", "dst"], v6));
                }
                if cases.is_empty() {
                    let name = protocol.unwrap_or("ip");
                    return Err(Mistake::at(
                        begin,
                        format!("{name} has no such addresses: {kind} is of ip, ip6, arp, or a host of ether"),
                    ));
                }
                self.tests(said.end, &cases, value.at)
            }
            "port" | "portrange" => {
                let (low, high) = match value.text.split_once('-') {
                    Some((low, high)) if said.kind.is_some_and(|kind| kind.text == "portrange") => {
                        (port(low), port(high))
                    }
                    _ => (port(value.text), port(value.text)),
                };
                let (Some(low), Some(high)) = (low, high) else {
                    return Err(Mistake::at(
                        value.at,
                        format!(
                            "'{}' is no port: a number up to 65535, or a known service, as https",
                            shown(value.text)
                        ),
                    ));
                };
                if low > high {
                    return Err(Mistake::at(value.at, "the range ends before it begins"));
                }
                let names = ["tcp", "udp"].into_iter().filter(|name| protocol.is_none_or(|wanted| wanted == *name));
                let cases: Vec<_> =
                    names.map(|name| (name, ["sport", "dport"], vec![Said::Range(low, high)])).collect();
                if cases.is_empty() {
                    return Err(Mistake::at(
                        begin,
                        format!("{} has no ports: tcp and udp have", protocol.unwrap_or("it")),
                    ));
                }
                self.tests(said.end, &cases, value.at)
            }
            _ => self.proto(protocol, said.end, value),
        }
    }

    /// `ip proto 17`, `ether proto 0x800`, `proto udp`.
    fn proto(&mut self, protocol: Option<&str>, end: Option<End>, value: Token<'a>) -> Result<Wanted, Mistake> {
        if end.is_some() {
            return Err(Mistake::at(value.at, "a protocol has neither src nor dst"));
        }
        let outer = protocol.unwrap_or("ip");
        let outer = if outer == "ether" { "ethernet" } else { outer };
        if !["ethernet", "ip", "ip6"].contains(&outer) {
            return Err(Mistake::at(value.at, format!("proto is of ether, ip or ip6, not of {outer}")));
        }
        let inner = self.known.protocols.id(value.text).and_then(|id| self.known.protocols.one(id));
        let by_name =
            inner.and_then(|inner| inner.follows.iter().find(|(below, _)| below == outer)).map(|(_, value)| *value);
        let known = number(value.text).or(by_name).or_else(|| constant(value.text));
        let most = if outer == "ethernet" { 0xffff } else { 0xff };
        let Some(known) = known.filter(|known| *known <= most) else {
            return Err(Mistake::at(value.at, format!("'{}' is no protocol of {outer}", shown(value.text))));
        };
        let said = || vec![Said::Range(known, known)];
        let mut cases = vec![(outer, ["proto", "proto"], said())];
        if protocol.is_none() {
            cases.push(("ip6", ["proto", "proto"], said()));
        }
        self.tests(Some(End::Source), &cases, value.at)
    }

    /// What a word means as addresses of both families.
    fn addresses(&mut self, kind: &str, value: Token<'a>) -> Result<[Vec<Said>; 2], Mistake> {
        let wrong = |what: &str| Mistake::at(value.at, format!("'{}' {what}", shown(value.text)));
        let (text, length) = match value.text.split_once('/') {
            Some((text, length)) if kind == "net" => {
                (text, Some(number(length).ok_or_else(|| wrong("has no length behind its /"))?))
            }
            _ => (value.text, None),
        };
        if kind == "net" && self.reader.is("mask") {
            return Err(Mistake::at(
                self.reader.at(),
                "'mask' is a word of pcap filters that rules do not have: write net ADDRESS/LENGTH",
            ));
        }
        let found: Vec<_> = match text.parse::<std::net::IpAddr>() {
            Ok(addr) => vec![addr],
            Err(_) if kind == "host" => self.known.names.addresses(text),
            Err(_) => Vec::new(),
        };
        let mut families = [Vec::new(), Vec::new()];
        for addr in found {
            for (family, notation, bits) in [(0, Notation::V4, 32u32), (1, Notation::V6, 128)] {
                let Some(addr) = of(addr, notation) else { continue };
                let length = length.map_or(bits, |length| u32::try_from(length).unwrap_or(u32::MAX));
                if length > bits {
                    return Err(wrong("has a longer prefix than there are bits"));
                }
                let all = u128::MAX >> (128 - bits);
                let mask = if length == 0 { 0 } else { all & (all << (bits - length)) };
                if addr & !mask != 0 {
                    return Err(wrong("has bits behind its prefix"));
                }
                families[family].push(Said::Bits(mask, addr));
            }
        }
        if families.iter().all(Vec::is_empty) {
            return Err(wrong("is no address, and no host of this name is known"));
        }
        Ok(families)
    }

    /// `ip[8] < 5`, `tcp[12:2] & 0x12 = 2`.
    pub(super) fn bytes(&mut self, token: Token<'a>) -> Result<Wanted, Mistake> {
        self.reader.demand("[")?;
        let byte = self.offset(token.text, 65_535)? as u32;
        let count = if self.reader.take(":") { self.reader.number("the number of bytes", 4)? } else { 1 };
        if ![1, 2, 4].contains(&count) {
            return Err(Mistake::at(token.at, "the number of bytes is 1, 2 or 4"));
        }
        self.reader.demand("]")?;
        let most = u64::MAX >> (64 - 8 * count);
        let mask = if self.reader.take("&") { Some(self.amount("the mask", most)? as u32) } else { None };
        let sign = self.reader.peek().filter(|token| ["=", "==", "!=", "<", "<=", ">", ">="].contains(&token.text));
        let Some(sign) = sign else {
            return Err(self
                .reader
                .peek()
                .map_or_else(|| self.reader.wrong("a comparison"), |token| self.no_word(token)));
        };
        self.reader.advance();
        let value = self.amount("the value", u64::from(u32::MAX))?;
        let (value, most) = (value as u32, most as u32);
        let never = || Mistake::at(sign.at, "this can never hold");
        let ops = match (mask, sign.text) {
            (Some(mask), "=" | "==") if value & !mask == 0 => vec![Op::Mask(mask, value)],
            (Some(_), "=" | "==") => return Err(never()),
            (Some(mask), "!=") => vec![Op::Mask(mask, value)],
            (Some(_), other) => {
                return Err(Mistake::at(sign.at, format!("masked bytes can be = or !=, not {other}")));
            }
            (None, "=" | "==") if value <= most => vec![Op::Range(value, value)],
            (None, "!=") => {
                let below = value.checked_sub(1).map(|high| Op::Range(0, high.min(most)));
                let above = value.checked_add(1).filter(|low| *low <= most).map(|low| Op::Range(low, most));
                below.into_iter().chain(above).collect()
            }
            (None, "<") if value > 0 => vec![Op::Range(0, (value - 1).min(most))],
            (None, "<=") => vec![Op::Range(0, value.min(most))],
            (None, ">") if value < most => vec![Op::Range(value + 1, most)],
            (None, ">=") if value <= most => vec![Op::Range(value, most)],
            _ => return Err(never()),
        };
        let name = if token.text == "ether" { "ethernet" } else { token.text };
        let bits = Bits::bytes(byte, count as u8);
        let mut found = Vec::new();
        for way in self.ways(name, token.at)? {
            let least =
                way.last().and_then(|id| self.known.protocols.one(*id)).map_or(0, |protocol| protocol.header.least);
            let spot = Spot { header: (way.len() - 1) as u8, bits, inside: bits.end() <= least as usize };
            let pattern = |op| Pattern { way: way.clone(), tests: vec![(spot, op)], cost: 1, ends: false };
            let holds = ops.iter().map(|op| pattern(*op)).collect();
            found.push(match (mask, sign.text) {
                // The bytes must be there to be something else.
                (Some(_), "!=") => {
                    let there = Wanted::One(pattern(Op::Range(0, most)));
                    Wanted::All(vec![there, Wanted::Not(Box::new(any(holds)))])
                }
                _ => any(holds),
            });
        }
        Ok(if found.len() == 1 { found.remove(0) } else { Wanted::Any(found) })
    }
}

/// Ports of services that have names (IANA's registry), those that filters are written about.
const SERVICES: &[(&str, u64)] = &[
    ("echo", 7),
    ("discard", 9),
    ("daytime", 13),
    ("chargen", 19),
    ("ftp-data", 20),
    ("ftp", 21),
    ("ssh", 22),
    ("telnet", 23),
    ("smtp", 25),
    ("domain", 53),
    ("dns", 53),
    ("bootps", 67),
    ("bootpc", 68),
    ("tftp", 69),
    ("finger", 79),
    ("http", 80),
    ("www", 80),
    ("pop3", 110),
    ("sunrpc", 111),
    ("auth", 113),
    ("nntp", 119),
    ("ntp", 123),
    ("netbios-ns", 137),
    ("netbios-dgm", 138),
    ("netbios-ssn", 139),
    ("imap", 143),
    ("snmp", 161),
    ("snmp-trap", 162),
    ("bgp", 179),
    ("irc", 194),
    ("https", 443),
    ("syslog", 514),
    ("rip", 520),
    ("mdns", 5353),
];

fn port(text: &str) -> Option<u64> {
    let named = SERVICES.iter().find(|(name, _)| *name == text).map(|(_, port)| *port);
    named.or_else(|| number(text)).filter(|port| *port <= 0xffff)
}
