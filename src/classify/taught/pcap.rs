//! Rules in the syntax of pcap filters, as far as they look at bytes. Example: `udp and dst net 10.0.0.0/8 and not port 53`.
//!
//! The words are those of pcap-filter(7): protocols, `host`, `net`, `port`, `portrange` and `proto` with `src` and `dst`, `ether`, `ip`,
//! `ip6`, `arp`, `tcp`, `udp`, `icmp` before them, `x[o:n]` with a mask and names of values, and `and`, `or`, `not`. Whatever else that
//! language has is refused by its name. Fragments have no ports here, as everywhere in the node.

mod numbers;
mod primitives;

use super::pattern::{Pattern, Wanted};
use super::protocol::ProtocolId;
use super::text::Vocabulary;
use super::token::{Mistake, Reader, Token, Words, nearest, shown};

/// Parentheses within each other.
const NESTED_MAX: usize = 64;
/// Words and signs of one filter.
const PRIMITIVES_MAX: usize = 256;

/// What the language has elsewhere, and not here.
const REFUSED: [&str; 33] = [
    "len",
    "less",
    "greater",
    "gateway",
    "broadcast",
    "multicast",
    "vlan",
    "mpls",
    "pppoed",
    "pppoes",
    "geneve",
    "vxlan",
    "inbound",
    "outbound",
    "ifname",
    "on",
    "rnr",
    "reason",
    "ruleset",
    "rset",
    "srnr",
    "subrulenum",
    "action",
    "wlan",
    "type",
    "subtype",
    "llc",
    "decnet",
    "iso",
    "protochain",
    "rarp",
    "sctp",
    "mask",
];
const WORDS: [&str; 17] = [
    "and",
    "or",
    "not",
    "src",
    "dst",
    "host",
    "net",
    "port",
    "portrange",
    "proto",
    "ether",
    "ip",
    "ip6",
    "arp",
    "tcp",
    "udp",
    "icmp",
];

/// Which end is meant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Source,
    Destination,
    Either,
    Both,
}

/// The words before a value.
#[derive(Clone, Copy)]
struct Qualified<'a> {
    protocol: Option<Token<'a>>,
    end: Option<End>,
    kind: Option<Token<'a>>,
}

struct Parser<'a, 'k, 'p> {
    reader: Reader<'a>,
    known: &'k mut Vocabulary<'p>,
    depth: usize,
    count: usize,
    /// The words of the last primitive, which a value alone repeats: `port 80 or 443`.
    last: Option<Qualified<'a>>,
}

/// Reads a filter.
pub fn filter(text: &str, known: &mut Vocabulary<'_>) -> Result<Wanted, Mistake> {
    let reader = Reader::new(text, Words::SplitInBrackets)?;
    if reader.peek().is_none() {
        return Err(Mistake::at(0, "an empty filter: say what is wanted"));
    }
    let mut parser = Parser { reader, known, depth: 0, count: 0, last: None };
    let wanted = parser.either()?;
    match parser.reader.peek() {
        None => Ok(wanted),
        Some(token) => Err(parser.no_word(token)),
    }
}

impl<'a> Parser<'a, '_, '_> {
    /// In pcap filters `and` and `or` bind alike, from the left.
    fn either(&mut self) -> Result<Wanted, Mistake> {
        let mut wanted = self.term()?;
        loop {
            if self.reader.take("and") || self.reader.take("&&") {
                let more = self.term()?;
                wanted = match wanted {
                    Wanted::All(mut all) => {
                        all.push(more);
                        Wanted::All(all)
                    }
                    one => Wanted::All(vec![one, more]),
                };
            } else if self.reader.take("or") || self.reader.take("||") {
                let more = self.term()?;
                wanted = match wanted {
                    Wanted::Any(mut any) => {
                        any.push(more);
                        Wanted::Any(any)
                    }
                    one => Wanted::Any(vec![one, more]),
                };
            } else {
                return Ok(wanted);
            }
        }
    }

    fn term(&mut self) -> Result<Wanted, Mistake> {
        self.count += 1;
        if self.count > PRIMITIVES_MAX || self.depth > NESTED_MAX {
            let what = format!("a filter has at most {PRIMITIVES_MAX} terms, {NESTED_MAX} within each other");
            return Err(Mistake::at(self.reader.at(), what));
        }
        self.depth += 1;
        let wanted = if self.reader.take("not") || self.reader.take("!") {
            Wanted::Not(Box::new(self.term()?))
        } else if self.reader.take("(") {
            let inner = self.either()?;
            self.reader.demand(")")?;
            inner
        } else {
            self.primitive()?
        };
        self.depth -= 1;
        Ok(wanted)
    }

    fn no_word(&self, token: Token<'a>) -> Mistake {
        let text = token.text;
        if REFUSED.contains(&text) {
            return Mistake::at(token.at, format!("'{text}' is a word of pcap filters that rules do not have"));
        }
        let signs = ["+", "-", "/", "%", "^", "<<", ">>", "|", "*"];
        if signs.contains(&text) {
            return Mistake::at(
                token.at,
                format!("'{text}' computes: rules compare bytes with numbers, without arithmetic"),
            );
        }
        let near = nearest(text, WORDS.into_iter());
        Mistake::at(token.at, format!("'{}' is not expected here{near}", shown(text)))
    }

    fn primitive(&mut self) -> Result<Wanted, Mistake> {
        const PROTOCOLS: [&str; 7] = ["ether", "ip", "ip6", "arp", "tcp", "udp", "icmp"];
        let begin = self.reader.at();
        let mut said = Qualified { protocol: None, end: None, kind: None };
        if let Some(token) = self.reader.peek().filter(|token| PROTOCOLS.contains(&token.text)) {
            self.reader.advance();
            if self.reader.is("[") {
                return self.bytes(token);
            }
            said.protocol = Some(token);
        }
        said.end = self.end()?;
        if let Some(token) =
            self.reader.peek().filter(|t| ["host", "net", "port", "portrange", "proto"].contains(&t.text))
        {
            self.reader.advance();
            said.kind = Some(token);
        }
        let Some(value) = self.reader.peek().filter(|token| token.is_word && !is_word_of_logic(token.text)) else {
            return match (said.protocol, said.end, said.kind) {
                (Some(protocol), None, None) => {
                    self.last = None;
                    self.protocol(protocol)
                }
                _ => match self.reader.peek() {
                    Some(token) if said.protocol.is_none() && said.end.is_none() && said.kind.is_none() => {
                        Err(self.no_word(token))
                    }
                    _ => Err(self.reader.wrong("a value")),
                },
            };
        };
        if REFUSED.contains(&value.text) {
            return Err(self.no_word(value));
        }
        if said.protocol.is_none() && said.end.is_none() && said.kind.is_none() {
            said = self.last.ok_or_else(|| self.no_word(value))?;
        }
        self.reader.advance();
        self.last = Some(said);
        self.compare(said, value, begin)
    }

    fn end(&mut self) -> Result<Option<End>, Mistake> {
        let first = match self.reader.peek().map(|token| token.text) {
            Some("src") => End::Source,
            Some("dst") => End::Destination,
            _ => return Ok(None),
        };
        self.reader.advance();
        let both = if self.reader.is("or") { End::Either } else { End::Both };
        if !(self.reader.is("or") || self.reader.is("and")) {
            return Ok(Some(first));
        }
        self.reader.advance();
        self.reader.demand(if first == End::Source { "dst" } else { "src" })?;
        Ok(Some(both))
    }

    /// `ip`, `udp` without more.
    fn protocol(&mut self, token: Token<'a>) -> Result<Wanted, Mistake> {
        let name = if token.text == "ether" { "ethernet" } else { token.text };
        let ways = self.ways(name, token.at)?;
        Ok(any(ways.into_iter().map(|way| Pattern { way, ..Pattern::default() }).collect()))
    }

    /// The ways on which a protocol is found, without tags: each where another one is before it.
    fn ways(&self, name: &str, at: usize) -> Result<Vec<Vec<ProtocolId>>, Mistake> {
        let protocols = self.known.protocols;
        let missing = |what: String| Mistake::at(at, what);
        let id = protocols.id(name).ok_or_else(|| missing(protocols.unknown(name)))?;
        let mut ways: Vec<Vec<ProtocolId>> = Vec::new();
        for outer in ["ip", "ip6"] {
            let Some(outer) = protocols.id(outer).filter(|outer| *outer != id) else { continue };
            let inner = protocols.way(outer, id).filter(|way| way.len() == 2);
            if let (Some(mut way), Some(_)) = (protocols.way(self.known.root, outer), inner) {
                way.push(id);
                ways.push(way);
            }
        }
        if ways.is_empty() {
            ways.extend(protocols.way(self.known.root, id));
        }
        if ways.is_empty() { Err(missing(format!("{name} is in no packet here"))) } else { Ok(ways) }
    }
}

fn any(mut patterns: Vec<Pattern>) -> Wanted {
    if patterns.len() == 1 {
        Wanted::One(patterns.remove(0))
    } else {
        Wanted::Any(patterns.into_iter().map(Wanted::One).collect())
    }
}

fn is_word_of_logic(text: &str) -> bool {
    ["and", "or", "not"].contains(&text)
}
