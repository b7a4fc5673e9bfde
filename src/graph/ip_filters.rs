//! Filters of IP packets as `IPClassifier` and `IPFilter` write them, by the classifier of taught protocols.
//!
//! Example: `src 10.0.0.0/8 && tcp dst port 80` becomes `ip src net 10.0.0.0/8 and tcp dst port 80`, a pcap filter ([`pcap`]). So there
//! is one classifier for rules of the node and of graphs; what is written here only has other words.

use super::arguments::{ArgumentNames, Arguments, FromArgument, Ip4, Net4};
use super::engine::{Engine, GraphCx, Pushed};
use super::fused::{FusedAt, FusedBody, FusedLabel, NoForm};
use super::packet;
use crate::classify::taught::classifier::{Classifier, MatchMode};
use crate::classify::taught::pattern::NoNames;
use crate::classify::taught::pcap;
use crate::classify::taught::protocols::Protocols;
use crate::classify::taught::text::Vocabulary;
use crate::frame::Frame;
use click::arguments::Argument;

/// Parentheses within each other.
const NESTED_MAX: usize = 32;

/// Types of ICMP, and flags of TCP, by their names.
const TYPES: &[(&str, u8)] = &[
    ("echo-reply", 0),
    ("unreachable", 3),
    ("sourcequench", 4),
    ("redirect", 5),
    ("echo", 8),
    ("routeradvert", 9),
    ("routersolicit", 10),
    ("timeexceeded", 11),
    ("parameterproblem", 12),
    ("timestamp", 13),
    ("timestamp-reply", 14),
];
const FLAGS: &[(&str, u8)] = &[("fin", 1), ("syn", 2), ("rst", 4), ("psh", 8), ("ack", 16), ("urg", 32)];

/// Filters in their order, each with an output, or none for what is dropped.
pub struct IpFilters {
    rules: Classifier<Option<u16>>,
}

impl IpFilters {
    /// Of these rules: where each is written, its filter, its output.
    pub fn make(args: &mut Arguments<'_>, written: Vec<(&Argument, &str, Option<u16>)>) -> Option<Box<dyn Engine>> {
        let mut rules = Classifier::new(Protocols::standard(), "ip", MatchMode::First, 0, 0).ok()?;
        let mut wrong = false;
        for (order, (argument, text, output)) in (0..).zip(written) {
            wrong |= output.is_some_and(|output| !args.leads(argument, output));
            let filter = Reader::translate(text, args.names);
            let added = filter.and_then(|filter| {
                let known = rules.protocols().clone();
                let mut names = NoNames;
                let mut known = Vocabulary { protocols: &known, root: rules.root(), names: &mut names };
                let wanted = pcap::filter(&filter, &mut known).map_err(|mistake| mistake.what)?;
                rules.add(&wanted, order, output).map(drop)
            });
            if let Err(why) = added {
                args.say(argument, format!("no filter: {why}"), "as src 10.0.0.1 && tcp dst port 80");
                wrong = true;
            }
        }
        rules.settle();
        (!wrong).then(|| Box::new(IpFilters { rules }) as Box<dyn Engine>)
    }
}

impl Engine for IpFilters {
    fn push(&mut self, _: u16, frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        let found = self.rules.find(packet::from_ip(&frame)).first().copied();
        match found.and_then(|rule| self.rules.owner(rule).copied().flatten()) {
            Some(output) => Pushed::To(output, frame),
            None => Pushed::thrown(frame),
        }
    }

    fn kernel(&self, _: u16, at: FusedAt, body: &mut FusedBody<'_>) -> Result<FusedLabel, NoForm> {
        body.rules(&self.rules, at)
    }
}

/// Words of a filter.
struct Reader<'a> {
    words: Vec<String>,
    at: usize,
    depth: usize,
    names: &'a ArgumentNames,
    /// What was said last of which end, protocol and kind a value is: who says only a value means the same of it.
    last: [String; 3],
}

impl Reader<'_> {
    /// The same filter in the words of pcap.
    fn translate(text: &str, names: &ArgumentNames) -> Result<String, String> {
        let mut spaced = text.to_owned();
        for sign in ["&&", "||", "(", ")", "<=", ">=", "==", "!="] {
            spaced = spaced.replace(sign, &format!(" {sign} "));
        }
        for sign in ["<", ">", "!"] {
            spaced = spaced.replace(&format!("{sign}="), "\u{1}");
            spaced = spaced.replace(sign, &format!(" {sign} "));
            spaced = spaced.replace('\u{1}', &format!("{sign}="));
        }
        let words: Vec<_> = spaced.split_whitespace().map(str::to_owned).collect();
        if words.is_empty() {
            return Ok("ip".to_owned());
        }
        let mut reader = Reader { words, at: 0, depth: 0, names, last: Default::default() };
        let filter = reader.either()?;
        match reader.peek() {
            "" => Ok(filter),
            word => Err(format!("'{word}' is too much")),
        }
    }

    fn peek(&self) -> &str {
        self.words.get(self.at).map_or("", String::as_str)
    }

    fn take(&mut self, words: &[&str]) -> bool {
        let is = words.contains(&self.peek());
        self.at += usize::from(is);
        is
    }

    fn next(&mut self) -> String {
        let word = self.peek().to_owned();
        self.at += 1;
        word
    }

    fn either(&mut self) -> Result<String, String> {
        let mut all = vec![self.both()?];
        while self.take(&["||", "or"]) {
            all.push(self.both()?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { format!("({})", all.join(" or ")) })
    }

    fn both(&mut self) -> Result<String, String> {
        let mut all = vec![self.one()?];
        loop {
            // Two filters behind each other are both meant.
            if self.take(&["&&", "and"]) || !["", ")", "||", "or"].contains(&self.peek()) {
                all.push(self.one()?);
            } else {
                break;
            }
        }
        Ok(if all.len() == 1 { all.remove(0) } else { format!("({})", all.join(" and ")) })
    }

    fn one(&mut self) -> Result<String, String> {
        if self.depth >= NESTED_MAX {
            return Err(format!("more than {NESTED_MAX} parentheses within each other"));
        }
        self.depth += 1;
        let found = if self.take(&["!", "not"]) {
            format!("not ({})", self.one()?)
        } else if self.take(&["("]) {
            let inner = self.either()?;
            if !self.take(&[")"]) {
                return Err("a ')' is missing".to_owned());
            }
            inner
        } else {
            self.primitive()?
        };
        self.depth -= 1;
        Ok(found)
    }

    fn primitive(&mut self) -> Result<String, String> {
        if self.take(&["-", "true", "all", "any"]) {
            return Ok("ip".to_owned());
        }
        if self.take(&["false", "none"]) {
            return Ok("not ip".to_owned());
        }
        let (mut end, mut protocol, mut kind) = (String::new(), String::new(), String::new());
        loop {
            match self.peek() {
                "src" | "dst" => {
                    end = self.next();
                    let other = self.words.get(self.at + 1).map_or("", String::as_str);
                    if ["or", "and", "||", "&&"].contains(&self.peek()) && ["src", "dst"].contains(&other) {
                        let word = if ["or", "||"].contains(&self.peek()) { "or" } else { "and" };
                        end = format!("src {word} dst");
                        self.at += 2;
                    }
                }
                "tcp" | "udp" | "icmp" | "ip" | "transp" => protocol = self.next(),
                "host" | "net" | "port" | "proto" | "type" | "opt" | "ttl" | "tos" | "dscp" | "hl" | "vers" | "id"
                | "frag" | "unfrag" => kind = self.next(),
                _ => break,
            }
        }
        match (kind.as_str(), self.peek()) {
            ("frag", _) => return Ok("ip[6:2] & 0x3fff != 0".to_owned()),
            ("unfrag", _) => return Ok("ip[6:2] & 0x3fff = 0".to_owned()),
            ("", "" | ")" | "&&" | "||" | "and" | "or") if end.is_empty() && !protocol.is_empty() => {
                return Ok(if protocol == "transp" { "(tcp or udp)".to_owned() } else { protocol });
            }
            _ => {}
        }
        if [&end, &protocol, &kind].into_iter().all(String::is_empty) {
            [end, protocol, kind] = self.last.clone();
        }
        self.last = [end.clone(), protocol.clone(), kind.clone()];
        let sign = if self.take(&["=", "=="]) {
            "="
        } else {
            ["!=", "<=", ">=", "<", ">"].into_iter().find(|sign| self.take(&[sign])).unwrap_or("=")
        };
        let value = self.next();
        if value.is_empty() {
            return Err(format!("a value is missing behind '{}'", self.words.join(" ")));
        }
        said(&end, &protocol, (&kind, sign, &value), self.names)
    }
}

/// One primitive in the words of pcap.
fn said(
    end: &str,
    protocol: &str,
    (kind, sign, value): (&str, &str, &str),
    names: &ArgumentNames,
) -> Result<String, String> {
    let number = |most: u32| {
        let read = value.strip_prefix("0x").map_or_else(|| value.parse().ok(), |hex| u32::from_str_radix(hex, 16).ok());
        read.filter(|number| *number <= most).ok_or(format!("'{value}' is no number up to {most}"))
    };
    let named = |names: &[(&str, u8)], most: u32| match names.iter().find(|(name, _)| *name == value) {
        Some((_, number)) => Ok(u32::from(*number)),
        None => number(most).map_err(|why| {
            let known: Vec<_> = names.iter().map(|(name, _)| *name).collect();
            format!("{why}, and no name: {}", known.join(", "))
        }),
    };
    let plain = match kind {
        "type" if protocol == "icmp" => Some(format!("icmp[0] {sign} {}", named(TYPES, 255)?)),
        "opt" if protocol == "tcp" => {
            let flag = named(FLAGS, 63)?;
            return Ok(format!("tcp[13] & {flag} {} 0", if sign == "!=" { "=" } else { "!=" }));
        }
        "ttl" => Some(format!("ip[8] {sign} {}", number(255)?)),
        "tos" => Some(format!("ip[1] {sign} {}", number(255)?)),
        "dscp" => Some(format!("ip[1] & 0xfc {sign} {}", number(63)? << 2)),
        "hl" => Some(format!("ip[0] & 0xf {sign} {}", number(15)?)),
        "vers" => Some(format!("ip[0] & 0xf0 {sign} {}", number(15)? << 4)),
        "id" => Some(format!("ip[4:2] {sign} {}", number(65_535)?)),
        _ => None,
    };
    if let Some(plain) = plain {
        return Ok(plain);
    }
    let negate = |filter: String| if sign == "!=" { format!("not ({filter})") } else { filter };
    let space = |word: &str| if word.is_empty() { String::new() } else { format!("{word} ") };
    let net = Net4::read(value, names);
    let is_flow = matches!(protocol, "tcp" | "udp" | "transp");
    match (kind, net) {
        // Of a flow what is no address is a port.
        ("port", _) | ("", None) if kind == "port" || is_flow => {
            let protocol = if protocol == "transp" { "" } else { protocol };
            let filter = |range: &str, what: String| format!("{}{}{range} {what}", space(protocol), space(end));
            let never = || format!("no port is {sign} {value}");
            Ok(match sign {
                "<" | "<=" => {
                    let last = number(65_535)?.checked_sub(u32::from(sign == "<")).ok_or_else(never)?;
                    filter("portrange", format!("0-{last}"))
                }
                ">" | ">=" => {
                    let first = Some(number(65_535)? + u32::from(sign == ">")).filter(|first| *first <= 65_535);
                    filter("portrange", format!("{}-65535", first.ok_or_else(never)?))
                }
                _ => negate(filter("port", value.to_owned())),
            })
        }
        ("proto", _) => Ok(negate(format!("ip proto {value}"))),
        ("" | "host" | "net", Some(net)) => {
            let first = Ip4((u32::from_be_bytes(net.address.0) & net.mask()).to_be_bytes());
            // A name has an address and a network.
            let is_net = value.contains('/') || kind == "net" && net.length < 32;
            let what = if is_net { format!("net {first}/{}", net.length) } else { format!("host {}", net.address) };
            let filter = negate(format!("ip {}{what}", space(end)));
            Ok(if protocol.is_empty() || protocol == "ip" { filter } else { format!("({protocol} and {filter})") })
        }
        _ => Err(format!("'{value}' is no address, and nothing else is said")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_those_of_pcap_in_other_words() {
        let ip = [("intern".to_owned(), ([10, 0, 0, 1], 8))].into();
        let names = ArgumentNames { ip, ..ArgumentNames::default() };
        for (ours, pcap) in [
            ("-", "ip"),
            ("src 10.0.0.1", "ip src host 10.0.0.1"),
            ("src 10.0.0.0/8 && tcp dst port 80", "(ip src net 10.0.0.0/8 and tcp dst port 80)"),
            ("dst tcp port 80 || udp", "(tcp dst port 80 or udp)"),
            ("icmp type echo", "icmp[0] = 8"),
            ("tcp opt syn and not tcp opt ack", "(tcp[13] & 2 != 0 and not (tcp[13] & 16 != 0))"),
            ("ip ttl<2", "ip[8] < 2"),
            ("src or dst host 10.0.0.1", "ip src or dst host 10.0.0.1"),
            ("ip proto 50", "ip proto 50"),
            ("udp src port >= 1024", "udp src portrange 1024-65535"),
            ("dst host != 10.0.0.1", "not (ip dst host 10.0.0.1)"),
            ("dst tcp www or https", "(tcp dst port www or tcp dst port https)"),
            ("src or dst port dns", "src or dst port dns"),
            ("src tcp port ftp", "tcp src port ftp"),
            ("src host 10.0.0.1 or 10.0.0.2", "(ip src host 10.0.0.1 or ip src host 10.0.0.2)"),
            ("dst host intern", "ip dst host 10.0.0.1"),
            ("dst net intern && udp 53", "(ip dst net 10.0.0.0/8 and udp port 53)"),
        ] {
            assert_eq!(Reader::translate(ours, &names).as_deref(), Ok(pcap), "{ours}");
        }
        for wrong in ["(", "src", "tcp port", "icmp type 300", "nobody", "src 10.0.0.1 )"] {
            assert!(Reader::translate(wrong, &names).is_err(), "{wrong}");
        }
    }
}
