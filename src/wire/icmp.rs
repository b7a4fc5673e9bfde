//! ICMP for IPv4 (RFC 792) and for IPv6 (RFC 4443), with neighbour discovery (RFC 4861).
//!
//! What a router needs: echo, the errors it has to report about packets it cannot forward, and
//! over IPv6 the two messages that take the place of ARP. Every other message parses as `Other`.
//! An error quotes the beginning of the packet it is about; how much of it, whether to send the
//! error at all, and which neighbours are believed is decided elsewhere.

use super::checksum::{Sum, checksum};
use super::ethernet::Mac;
use super::neighbour::{self, NEIGHBOUR, OPTION};
pub use super::neighbour::{NEIGHBOUR_HOP_LIMIT, solicited_node};
use super::{Addr, Error, Result, field, put};

/// ICMP's number as an IP protocol.
pub const IP_PROTOCOL_V4: u8 = 1;
/// ICMPv6's number as an IP protocol.
pub const IP_PROTOCOL_V6: u8 = crate::contract::ICMPV6 as u8;
/// Length in bytes of what stands before an error's quotation or an echo's data.
pub const HEADER: usize = 8;
/// Most bytes that an error over IPv4 quotes, so that its packet stays below 576 bytes (RFC 1812 §4.3.2.3).
pub const QUOTE_MAX_V4: usize = 576 - 20 - HEADER;
/// Most bytes that an error over IPv6 quotes, so that its packet stays within 1280 bytes (RFC 4443 §2.4).
pub const QUOTE_MAX_V6: usize = 1280 - 40 - HEADER;
const CHECKSUM: usize = 2;
const REST: usize = 4;

/// A message of ICMP for IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum V4<'a> {
    /// Are you there? (type 8)
    EchoRequest(Echo<'a>),
    /// I am. (type 0)
    EchoReply(Echo<'a>),
    /// The packet could not be delivered (type 3).
    Unreachable {
        /// Why: 0 net, 1 host, 2 protocol, 3 port, 4 fragmentation needed, … (RFC 1812 §5.2.7.1).
        code: u8,
        /// The next hop's MTU in bytes, for code 4 (RFC 1191); else 0.
        mtu: u16,
        /// The beginning of the packet.
        quote: &'a [u8],
    },
    /// The packet died on the way (type 11).
    TimeExceeded {
        /// 0 in transit, 1 in reassembly.
        code: u8,
        /// The beginning of the packet.
        quote: &'a [u8],
    },
    /// Any other message.
    Other(Other<'a>),
}

/// A message of ICMP for IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum V6<'a> {
    /// Are you there? (type 128)
    EchoRequest(Echo<'a>),
    /// I am. (type 129)
    EchoReply(Echo<'a>),
    /// The packet could not be delivered (type 1).
    Unreachable {
        /// Why: 0 no route, 1 prohibited, 3 address, 4 port, … (RFC 4443 §3.1).
        code: u8,
        /// The beginning of the packet.
        quote: &'a [u8],
    },
    /// The packet is larger than the next link allows (type 2).
    TooBig {
        /// The next link's MTU in bytes.
        mtu: u32,
        /// The beginning of the packet.
        quote: &'a [u8],
    },
    /// The packet died on the way (type 3).
    TimeExceeded {
        /// 0 in transit, 1 in reassembly.
        code: u8,
        /// The beginning of the packet.
        quote: &'a [u8],
    },
    /// Who has this address? (type 135)
    Solicitation {
        /// The address.
        target: Addr,
        /// The asker's Ethernet address, unless it has no IP address yet.
        source_mac: Option<Mac>,
    },
    /// I have it (type 136).
    Advertisement {
        /// The address.
        target: Addr,
        /// Its Ethernet address.
        target_mac: Option<Mac>,
        /// The sender is a router.
        router: bool,
        /// The answer to a solicitation.
        solicited: bool,
        /// What the receiver has cached is out of date.
        overrides: bool,
    },
    /// Any other message.
    Other(Other<'a>),
}

/// An echo request or reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo<'a> {
    /// Tells one asker from another.
    pub identifier: u16,
    /// Tells one question from another.
    pub sequence: u16,
    /// Comes back unchanged.
    pub data: &'a [u8],
}

/// A message that is not interpreted here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Other<'a> {
    /// The message's type.
    pub kind: u8,
    /// The message's code.
    pub code: u8,
    /// What stands behind the checksum.
    pub rest: [u8; 4],
    /// What follows.
    pub body: &'a [u8],
}

impl<'a> Echo<'a> {
    #[inline]
    fn parse([a, b, c, d]: [u8; 4], data: &'a [u8]) -> Echo<'a> {
        Echo { identifier: u16::from_be_bytes([a, b]), sequence: u16::from_be_bytes([c, d]), data }
    }

    #[inline]
    fn rest(&self) -> [u8; 4] {
        let ([a, b], [c, d]) = (self.identifier.to_be_bytes(), self.sequence.to_be_bytes());
        [a, b, c, d]
    }
}

impl<'a> V4<'a> {
    /// Reads a message that fills `bytes`.
    pub fn parse(bytes: &'a [u8]) -> Result<V4<'a>> {
        let (header, body) = bytes.split_first_chunk::<HEADER>().ok_or(Error::Truncated)?;
        if checksum(bytes) != 0 {
            return Err(Error::Checksum);
        }
        let rest @ [a, b, c, d] = field::<REST, 4, _>(header);
        Ok(match (header[0], header[1]) {
            (0, 0) => V4::EchoReply(Echo::parse(rest, body)),
            (8, 0) => V4::EchoRequest(Echo::parse(rest, body)),
            // Bytes that the specification leaves unused may be anything (RFC 4884 uses them).
            (3, code) => {
                V4::Unreachable { code, mtu: if code == 4 { u16::from_be_bytes([c, d]) } else { 0 }, quote: body }
            }
            (11, code) => V4::TimeExceeded { code, quote: body },
            (kind, code) => V4::Other(Other { kind, code, rest: [a, b, c, d], body }),
        })
    }

    /// Length of the message in bytes.
    pub fn len(&self) -> usize {
        HEADER + self.parts().2.len()
    }

    /// Never: every message has a header.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Writes the message at the beginning of `buf` and returns its length.
    pub fn emit(&self, buf: &mut [u8]) -> Result<usize> {
        let ([kind, code], rest, body) = self.parts();
        emit(buf, kind, code, rest, body, Sum::new())
    }

    /// Type and code, the four bytes behind the checksum, and what follows.
    fn parts(&self) -> ([u8; 2], [u8; 4], &'a [u8]) {
        match *self {
            V4::EchoReply(echo) => ([0, 0], echo.rest(), echo.data),
            V4::EchoRequest(echo) => ([8, 0], echo.rest(), echo.data),
            V4::Unreachable { code, mtu, quote } => ([3, code], u32::from(mtu).to_be_bytes(), quote),
            V4::TimeExceeded { code, quote } => ([11, code], [0; 4], quote),
            V4::Other(other) => ([other.kind, other.code], other.rest, other.body),
        }
    }
}

impl<'a> V6<'a> {
    /// Reads a message that fills `bytes` and came in a packet with these addresses and hop limit.
    /// Neighbour discovery that breaks a rule of RFC 4861 §7.1 is `Malformed`.
    pub fn parse(bytes: &'a [u8], source: Addr, destination: Addr, hop_limit: u8) -> Result<V6<'a>> {
        let (header, body) = bytes.split_first_chunk::<HEADER>().ok_or(Error::Truncated)?;
        let length = u32::try_from(bytes.len()).map_err(|_| Error::Length)?;
        if Sum::new().pseudo_header(source, destination, IP_PROTOCOL_V6, length).bytes(bytes).finish() != 0 {
            return Err(Error::Checksum);
        }
        let rest = field::<REST, 4, _>(header);
        Ok(match (header[0], header[1]) {
            (128, 0) => V6::EchoRequest(Echo::parse(rest, body)),
            (129, 0) => V6::EchoReply(Echo::parse(rest, body)),
            (1, code) => V6::Unreachable { code, quote: body },
            (2, 0) => V6::TooBig { mtu: u32::from_be_bytes(rest), quote: body },
            (3, code) => V6::TimeExceeded { code, quote: body },
            (135 | 136, code) if code != 0 || hop_limit != NEIGHBOUR_HOP_LIMIT => return Err(Error::Malformed),
            (135, _) => neighbour::solicitation(bytes, source, destination)?,
            (136, _) => neighbour::advertisement(bytes, rest[0], destination)?,
            (kind, code) => V6::Other(Other { kind, code, rest, body }),
        })
    }

    /// Length of the message in bytes.
    pub fn len(&self) -> usize {
        match self {
            V6::Solicitation { source_mac: mac, .. } | V6::Advertisement { target_mac: mac, .. } => {
                NEIGHBOUR + if mac.is_some() { OPTION } else { 0 }
            }
            _ => HEADER + self.parts().2.len(),
        }
    }

    /// Never: every message has a header.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Writes the message at the beginning of `buf`, for a packet with these addresses, and returns its length.
    pub fn emit(&self, buf: &mut [u8], source: Addr, destination: Addr) -> Result<usize> {
        let ([kind, code], rest, body) = self.parts();
        let length = u32::try_from(self.len()).map_err(|_| Error::Length)?;
        let sum = Sum::new().pseudo_header(source, destination, IP_PROTOCOL_V6, length);
        let mut scratch = [0; NEIGHBOUR - HEADER + OPTION];
        let body = match *self {
            V6::Solicitation { target, source_mac } => {
                neighbour::emit(&mut scratch, target, neighbour::OPTION_SOURCE, source_mac)
            }
            V6::Advertisement { target, target_mac, .. } => {
                neighbour::emit(&mut scratch, target, neighbour::OPTION_TARGET, target_mac)
            }
            _ => body,
        };
        emit(buf, kind, code, rest, body, sum)
    }

    /// Type and code, the four bytes behind the checksum, and what follows (empty in neighbour discovery).
    fn parts(&self) -> ([u8; 2], [u8; 4], &'a [u8]) {
        match *self {
            V6::EchoRequest(echo) => ([128, 0], echo.rest(), echo.data),
            V6::EchoReply(echo) => ([129, 0], echo.rest(), echo.data),
            V6::Unreachable { code, quote } => ([1, code], [0; 4], quote),
            V6::TooBig { mtu, quote } => ([2, 0], mtu.to_be_bytes(), quote),
            V6::TimeExceeded { code, quote } => ([3, code], [0; 4], quote),
            V6::Solicitation { .. } => ([135, 0], [0; 4], &[]),
            V6::Advertisement { router, solicited, overrides, .. } => {
                ([136, 0], [neighbour::flags(router, solicited, overrides), 0, 0, 0], &[])
            }
            V6::Other(other) => ([other.kind, other.code], other.rest, other.body),
        }
    }
}

fn emit(buf: &mut [u8], kind: u8, code: u8, rest: [u8; 4], body: &[u8], sum: Sum) -> Result<usize> {
    let buf = buf.get_mut(..HEADER + body.len()).ok_or(Error::Truncated)?;
    let (header, tail) = buf.split_first_chunk_mut::<HEADER>().ok_or(Error::Truncated)?;
    header[0] = kind;
    header[1] = code;
    put::<CHECKSUM, _, _>(header, [0; 2]);
    put::<REST, _, _>(header, rest);
    tail.copy_from_slice(body);
    let sum = sum.bytes(header).bytes(tail).finish();
    put::<CHECKSUM, _, _>(header, sum.to_be_bytes());
    Ok(HEADER + body.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> Addr {
        "fe80::1".parse().unwrap()
    }

    fn there() -> Addr {
        "fe80::2".parse().unwrap()
    }

    fn bytes_of(message: V6<'_>, source: Addr, destination: Addr) -> Vec<u8> {
        let mut bytes = vec![0xff; message.len()];
        assert_eq!(message.emit(&mut bytes, source, destination), Ok(bytes.len()));
        bytes
    }

    #[test]
    fn an_echo_round_trips_in_both_families() {
        let echo = Echo { identifier: 7, sequence: 8, data: b"odd" };
        let mut bytes = [0; 11];
        V4::EchoRequest(echo).emit(&mut bytes).unwrap();
        assert_eq!(V4::parse(&bytes), Ok(V4::EchoRequest(echo)));
        bytes[9] ^= 1;
        assert_eq!(V4::parse(&bytes), Err(Error::Checksum));
        let bytes = bytes_of(V6::EchoReply(echo), here(), there());
        assert_eq!(V6::parse(&bytes, here(), there(), 1), Ok(V6::EchoReply(echo)));
        assert_eq!(V6::parse(&bytes, here(), solicited_node(here()), 1), Err(Error::Checksum));
    }

    #[test]
    fn an_error_quotes_the_packet() {
        let error = V4::Unreachable { code: 4, mtu: 1400, quote: &[0x45; 28] };
        let mut bytes = [0; 36];
        assert_eq!(error.emit(&mut bytes), Ok(36));
        assert_eq!(V4::parse(&bytes), Ok(error));
        let error = V6::TimeExceeded { code: 0, quote: &[0x60; 48] };
        assert_eq!(V6::parse(&bytes_of(error, here(), there()), here(), there(), 64), Ok(error));
    }

    #[test]
    fn discovery_is_only_believed_from_the_link() {
        let question = V6::Solicitation { target: there(), source_mac: Some(Mac([2; 6])) };
        let group = solicited_node(there());
        let bytes = bytes_of(question, here(), group);
        assert_eq!(V6::parse(&bytes, here(), group, 255), Ok(question));
        assert_eq!(V6::parse(&bytes, here(), group, 254), Err(Error::Malformed));
        let answer = V6::Advertisement {
            target: there(),
            target_mac: Some(Mac([3; 6])),
            router: true,
            solicited: true,
            overrides: false,
        };
        let bytes = bytes_of(answer, there(), here());
        assert_eq!(V6::parse(&bytes, there(), here(), 255), Ok(answer));
        // An answer to a question does not go to a group.
        let bytes = bytes_of(answer, there(), group);
        assert_eq!(V6::parse(&bytes, there(), group, 255), Err(Error::Malformed));
    }

    #[test]
    fn a_node_without_address_asks_the_group_and_gives_no_mac() {
        let (nobody, group) = (Addr::UNSPECIFIED, solicited_node(there()));
        let probe = V6::Solicitation { target: there(), source_mac: None };
        assert_eq!(V6::parse(&bytes_of(probe, nobody, group), nobody, group, 255), Ok(probe));
        assert_eq!(V6::parse(&bytes_of(probe, nobody, here()), nobody, here(), 255), Err(Error::Malformed));
        let wrong = V6::Solicitation { target: there(), source_mac: Some(Mac([2; 6])) };
        assert_eq!(V6::parse(&bytes_of(wrong, nobody, group), nobody, group, 255), Err(Error::Malformed));
    }

    #[test]
    fn broken_neighbour_options_are_refused() {
        for (option, expected) in [
            (&[1, 0, 0, 0, 0, 0, 0, 0][..], Err(Error::Length)),
            (&[1, 2, 0, 0, 0, 0, 0, 0], Err(Error::Length)),
            (&[1], Err(Error::Length)),
            (&[14, 1, 9, 9, 9, 9, 9, 9, 1, 1, 2, 2, 2, 2, 2, 2], Ok(Some(Mac([2; 6])))),
            (&[2, 1, 9, 9, 9, 9, 9, 9], Ok(None)),
        ] {
            let body = [&there().0[..], option].concat();
            let raw = V6::Other(Other { kind: 135, code: 0, rest: [0; 4], body: &body });
            let bytes = bytes_of(raw, here(), there());
            let mac = V6::parse(&bytes, here(), there(), 255).map(|message| match message {
                V6::Solicitation { source_mac, .. } => source_mac,
                other => panic!("{other:?}"),
            });
            assert_eq!(mac, expected, "{option:?}");
        }
    }
}
