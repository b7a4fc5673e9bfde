//! Protocol and address specifications of channels, from text.
//!
//! ```text
//! protocol  = port [ "/ip" [ "/udp" | "/tcp" ] | "/anep" ]       if0 · eth1/ip/udp · */ip · if2/anep
//! port      = "if" number | name | "*"                            number: the port's place in the configuration
//! address   = link:      "*" | "type" number
//!             ip:        [ block "->" ] block [ "proto" number ]   10.0.0.0/24 -> 10.0.1.0/24 proto 47
//!             udp, tcp:  [ end "->" ] end                          10.0.0.7:* -> 10.0.1.0/24:5000 · *:5000
//!             anep:      "type" number
//! end       = block ":" ( number | "*" ), an IPv6 block in brackets
//! block     = address [ "/" length ] | "*"
//! ```
//!
//! Numbers are decimal, or hexadecimal behind `0x`. An empty address means `*`.

use crate::frame::PortId;
use crate::nodeos::interface::{Error, KeyTuple};
use crate::wire::{Addr, Prefix};

/// Comparisons of one demultiplexing key.
pub const TUPLES_MAX: usize = crate::contract::TUPLES as usize;

/// The last protocol of a channel: what it hands over is that protocol's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// Whole Ethernet frames.
    Link,
    /// What is behind the IP header.
    Ip,
    /// What is behind the UDP header.
    Udp,
    /// What is behind the TCP header: segments, not a stream.
    Tcp,
    /// What is behind the ANEP header, on overlay ports and natively.
    Anep,
}

/// Which packets a channel is about, or where it sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// The port, or any.
    pub port: Option<PortId>,
    /// The last protocol.
    pub layer: Layer,
    /// What that protocol says is inside: Ethernet's type, IP's protocol, ANEP's type.
    pub kind: Option<u16>,
    /// The sender's address.
    pub source: Prefix,
    /// The receiver's.
    pub destination: Prefix,
    /// The sender's UDP or TCP port.
    pub source_port: Option<u16>,
    /// The receiver's.
    pub destination_port: Option<u16>,
    /// Comparisons with the payload.
    pub key: Vec<KeyTuple>,
}

/// Any address of either family.
pub const ANYWHERE: Prefix = Prefix { addr: Addr::UNSPECIFIED, length: 0 };

impl Filter {
    /// Reads a protocol, an address and a key. `port` finds a port by its name or number.
    pub fn parse(
        protocol: &str,
        address: &str,
        key: &[KeyTuple],
        port: impl Fn(&str) -> Option<PortId>,
    ) -> Result<Filter, Error> {
        let (name, rest) = protocol.split_once('/').unwrap_or((protocol, ""));
        let layer = match rest {
            "" => Layer::Link,
            "ip" => Layer::Ip,
            "ip/udp" => Layer::Udp,
            "ip/tcp" => Layer::Tcp,
            "anep" => Layer::Anep,
            _ => return Err(Error::Unsupported),
        };
        let port = match name {
            "*" => None,
            name => Some(port(name).ok_or(Error::Unknown)?),
        };
        if key.len() > TUPLES_MAX || !key.iter().all(is_meant) {
            return Err(Error::Invalid);
        }
        let mut filter = Filter {
            port,
            layer,
            kind: None,
            source: ANYWHERE,
            destination: ANYWHERE,
            source_port: None,
            destination_port: None,
            key: key.to_vec(),
        };
        filter.read_address(address).ok_or(Error::Invalid)?;
        Ok(filter)
    }

    fn read_address(&mut self, text: &str) -> Option<()> {
        let mut words = text.split_ascii_whitespace().collect::<Vec<_>>();
        let word = if self.layer == Layer::Ip { "proto" } else { "type" };
        if let [.., name, number] = words[..]
            && name == word
            && !matches!(self.layer, Layer::Udp | Layer::Tcp)
        {
            self.kind = Some(number16(number)?);
            words.truncate(words.len() - 2);
        }
        let (source, destination) = match words[..] {
            [] => (None, None),
            [destination] => (None, Some(destination)),
            [source, "->", destination] => (Some(source), Some(destination)),
            _ => return None,
        };
        match self.layer {
            // Nothing but the type.
            Layer::Link | Layer::Anep => {
                return (source.is_none() && matches!(destination, None | Some("*"))).then_some(());
            }
            Layer::Ip => {
                self.source = source.map_or(Some(ANYWHERE), block)?;
                self.destination = destination.map_or(Some(ANYWHERE), block)?;
                if self.kind.is_some_and(|kind| kind > 255) {
                    return None;
                }
            }
            Layer::Udp | Layer::Tcp => {
                (self.source, self.source_port) = source.map_or(Some((ANYWHERE, None)), end)?;
                (self.destination, self.destination_port) = destination.map_or(Some((ANYWHERE, None)), end)?;
            }
        }
        Some(())
    }
}

/// Whether a comparison can ever hold, and does not reach beyond what it says.
fn is_meant(tuple: &KeyTuple) -> bool {
    let bits = u32::from(tuple.length) * 8;
    let fits = |value: u64| bits == 64 || value >> bits == 0;
    (1..=8).contains(&tuple.length) && fits(tuple.value) && fits(tuple.mask) && tuple.value & !tuple.mask == 0
}

fn number16(text: &str) -> Option<u16> {
    match text.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn block(text: &str) -> Option<Prefix> {
    if text == "*" { Some(ANYWHERE) } else { text.parse().ok() }
}

fn end(text: &str) -> Option<(Prefix, Option<u16>)> {
    let (place, port) = text.rsplit_once(':')?;
    let place = match place.strip_prefix('[') {
        Some(inner) => inner.strip_suffix(']')?,
        // An IPv6 address without brackets would swallow its port.
        None if place.contains(':') => return None,
        None => place,
    };
    let port = if port == "*" { None } else { Some(number16(port)?) };
    Some((block(place)?, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(protocol: &str, address: &str) -> Result<Filter, Error> {
        let port = |name: &str| ["if0", "eth1"].iter().position(|known| *known == name).map(|at| PortId(at as u16));
        Filter::parse(protocol, address, &[], port)
    }

    #[test]
    fn specifications_mean_what_they_say() {
        let block = |text: &str| text.parse::<Prefix>().unwrap();
        let any = Filter {
            port: Some(PortId(0)),
            layer: Layer::Link,
            kind: None,
            source: ANYWHERE,
            destination: ANYWHERE,
            source_port: None,
            destination_port: None,
            key: vec![],
        };
        let cases = [
            ("if0", "", any.clone()),
            ("if0", "type 0x88b5", Filter { kind: Some(0x88b5), ..any.clone() }),
            ("*/anep", "type 7", Filter { port: None, layer: Layer::Anep, kind: Some(7), ..any.clone() }),
            (
                "eth1/ip",
                "10.0.0.0/24 -> 10.0.1.9 proto 47",
                Filter {
                    port: Some(PortId(1)),
                    layer: Layer::Ip,
                    kind: Some(47),
                    source: block("10.0.0.0/24"),
                    destination: block("10.0.1.9"),
                    ..any.clone()
                },
            ),
            ("if0/ip", "proto 0x2f", Filter { layer: Layer::Ip, kind: Some(47), ..any.clone() }),
            ("if0/ip/udp", "*:5000", Filter { layer: Layer::Udp, destination_port: Some(5000), ..any.clone() }),
            (
                "if0/ip/tcp",
                "[fd00::/64]:* -> [fd01::1]:80",
                Filter {
                    layer: Layer::Tcp,
                    source: block("fd00::/64"),
                    destination: block("fd01::1"),
                    destination_port: Some(80),
                    ..any.clone()
                },
            ),
        ];
        for (protocol, address, expected) in cases {
            assert_eq!(parse(protocol, address), Ok(expected), "{protocol} {address}");
        }
    }

    #[test]
    fn what_means_nothing_is_refused() {
        let cases = [
            ("", "", Error::Unknown),
            ("if7", "", Error::Unknown),
            ("if0/", "type", Error::Invalid),
            ("if0/ipx", "", Error::Unsupported),
            ("if0/ip/udp/x", "", Error::Unsupported),
            ("if0", "10.0.0.1", Error::Invalid),
            ("if0", "type 65536", Error::Invalid),
            ("if0/ip", "proto 256", Error::Invalid),
            ("if0/ip", "10.0.0.1 10.0.0.2", Error::Invalid),
            ("if0/ip", "10.0.0.1 -> ", Error::Invalid),
            ("if0/ip/udp", "10.0.0.1", Error::Invalid),
            ("if0/ip/udp", "fd00::1:80", Error::Invalid),
            ("if0/ip/udp", "[fd00::1:80", Error::Invalid),
            ("if0/ip/udp", "*:99999", Error::Invalid),
            ("if0/ip/udp", "*:5 type 1", Error::Invalid),
            ("if0/anep", "type 1 -> type 2", Error::Invalid),
        ];
        for (protocol, address, expected) in cases {
            assert_eq!(parse(protocol, address), Err(expected), "{protocol} {address}");
        }
        let tuple = KeyTuple { offset: 0, length: 1, value: 1, mask: 1 };
        let with = |key: &[KeyTuple]| Filter::parse("if0", "", key, |_| Some(PortId(0))).map(|filter| filter.key.len());
        assert_eq!(with(&[tuple; TUPLES_MAX]), Ok(TUPLES_MAX));
        let wrong: [Vec<KeyTuple>; 5] = [
            vec![tuple; TUPLES_MAX + 1],
            vec![KeyTuple { length: 0, ..tuple }],
            vec![KeyTuple { length: 9, ..tuple }],
            vec![KeyTuple { value: 256, mask: 256, ..tuple }],
            vec![KeyTuple { value: 3, ..tuple }],
        ];
        for key in wrong {
            assert_eq!(with(&key), Err(Error::Invalid), "{key:?}");
        }
    }
}
