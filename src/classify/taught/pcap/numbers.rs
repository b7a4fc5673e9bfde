//! Numbers of pcap filters, and the names that pcap-filter(7) has for some. Example: `tcp[tcpflags] & (tcp-syn|tcp-ack) = tcp-syn`.

use super::super::constants::constant;
use super::super::token::{Mistake, nearest, number, shown};
use super::Parser;

/// Names of bytes of headers, with their protocol.
const OFFSETS: &[(&str, &str, u64)] = &[("tcpflags", "tcp", 13), ("icmptype", "icmp", 0), ("icmpcode", "icmp", 1)];

/// Names of values.
const VALUES: &[(&str, u64)] = &[
    ("tcp-fin", 0x01),
    ("tcp-syn", 0x02),
    ("tcp-rst", 0x04),
    ("tcp-push", 0x08),
    ("tcp-ack", 0x10),
    ("tcp-urg", 0x20),
    ("tcp-ece", 0x40),
    ("tcp-cwr", 0x80),
    ("icmp-echoreply", 0),
    ("icmp-unreach", 3),
    ("icmp-sourcequench", 4),
    ("icmp-redirect", 5),
    ("icmp-echo", 8),
    ("icmp-routeradvert", 9),
    ("icmp-routersolicit", 10),
    ("icmp-timxceed", 11),
    ("icmp-paramprob", 12),
    ("icmp-tstamp", 13),
    ("icmp-tstampreply", 14),
    ("icmp-ireq", 15),
    ("icmp-ireqreply", 16),
    ("icmp-maskreq", 17),
    ("icmp-maskreply", 18),
];

impl Parser<'_, '_, '_> {
    /// Where the bytes begin: a number, or a name that this protocol has.
    pub(super) fn offset(&mut self, protocol: &str, most: u64) -> Result<u64, Mistake> {
        const WHAT: &str = "the offset in bytes";
        let named = self.reader.peek().filter(|token| token.is_word && number(token.text).is_none());
        let known = named.and_then(|token| OFFSETS.iter().find(|(name, ..)| *name == token.text));
        match (named, known) {
            (Some(_), Some((_, of, at))) if *of == protocol => {
                self.reader.advance();
                Ok(*at)
            }
            (Some(token), Some((name, of, _))) => {
                Err(Mistake::at(token.at, format!("{name} is of {of}, not of {protocol}")))
            }
            _ => self.reader.number(WHAT, most),
        }
    }

    /// A number, a name of one, or several with `|` between them in parentheses.
    pub(super) fn amount(&mut self, what: &str, most: u64) -> Result<u64, Mistake> {
        if !self.reader.take("(") {
            return self.one(what, most);
        }
        let mut bits = self.one(what, most)?;
        while self.reader.take("|") {
            bits |= self.one(what, most)?;
        }
        self.reader.demand(")")?;
        Ok(bits)
    }

    fn one(&mut self, what: &str, most: u64) -> Result<u64, Mistake> {
        let Some(word) = self.reader.peek().filter(|token| token.is_word && number(token.text).is_none()) else {
            return self.reader.number(what, most);
        };
        let named = VALUES.iter().find(|(name, _)| *name == word.text).map(|(_, value)| *value);
        let Some(value) = named.or_else(|| constant(word.text)).or_else(|| self.known.names.constant(word.text)) else {
            let near = nearest(word.text, VALUES.iter().map(|(name, _)| *name));
            let why = format!("{what} must be a number, and '{}' is no name of one{near}", shown(word.text));
            return Err(Mistake::at(word.at, why));
        };
        self.reader.advance();
        let fits = value <= most;
        if fits {
            Ok(value)
        } else {
            Err(Mistake::at(word.at, format!("{what} is at most {most}, and {} is {value}", word.text)))
        }
    }
}
