//! The exits of graphs: where a packet goes, and which headers it gets for that.
//!
//! [`depart`] and [`route`] put everything in front of a packet but what only the node knows (link addresses, proofs of
//! neighbours), and say by which way it leaves ([`Departure`]). Headers of channels with one receiver are kept from one
//! packet to the next ([`super::head`]).

use crate::classify::rule::{Layer, Rule};
use crate::contract;
use crate::core::reason::Reason;
use crate::frame::{Envelope, Frame, Link, PeerId, PortId};
use crate::nodeos::interface::{Destination, Error};
use crate::topology::{NextHop, Port, Topology};
use crate::wire::ethernet::{self, Mac};
use crate::wire::{Addr, ipv4, ipv6, udp};

/// Hops that a packet of a channel may go.
const HOPS: u8 = contract::HOPS as u8;

/// Where an outgoing channel sends, and as whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The port; without one, that of the route.
    pub port: Option<PortId>,
    /// The protocol that the node puts around what is sent.
    pub layer: Layer,
    /// Ethernet's type, IP's protocol or ANEP's type.
    pub kind: Option<u16>,
    /// The sender's address, if not the port's own.
    pub source: Option<Addr>,
    /// The sender's UDP port.
    pub source_port: u16,
    /// The receiver, if it is always the same.
    pub destination: Option<Addr>,
    /// The receiver's UDP port, if it is always the same.
    pub destination_port: Option<u16>,
}

impl Target {
    /// What an outgoing channel's filter says: its addresses are one each, or open.
    pub fn of(filter: &Rule) -> Result<Target, Error> {
        let one = |prefix: &crate::wire::Prefix| match prefix.length {
            0 => Ok(None),
            128 => Ok(Some(prefix.addr)),
            _ => Err(Error::Invalid),
        };
        let (source, destination) = (one(&filter.source)?, one(&filter.destination)?);
        let needs_kind = matches!(filter.layer, Layer::Ip | Layer::Anep);
        let wrong = !filter.key.is_empty()
            || needs_kind && filter.kind.is_none()
            || filter.layer == Layer::Link && filter.port.is_none()
            || filter.layer == Layer::Udp && filter.source_port.is_none();
        if wrong {
            return Err(Error::Invalid);
        }
        Ok(Target {
            port: filter.port,
            layer: filter.layer,
            kind: filter.kind,
            source,
            source_port: filter.source_port.unwrap_or(0),
            destination,
            destination_port: filter.destination_port,
        })
    }
}

/// The checksum of a datagram between other ends: what was damaged on its way stays so. Zero: it has none.
#[derive(Clone, Copy, Debug)]
pub struct Carried {
    /// It.
    pub checksum: u16,
    /// The ends that it is of.
    pub ends: [(Addr, u16); 2],
}

/// By which way a packet leaves whose headers are complete as far as the way says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// By a port, as it is.
    Link(PortId),
    /// As an IP packet, by a port with this link address, to a node on that link.
    Ip(PortId, Mac, Addr),
    /// As the payload of an ANEP packet of this type, to a next hop, from one address to another.
    Anep(u16, (NextHop, PeerId), [Addr; 2]),
}

/// Puts the headers of an outgoing channel around a payload.
pub fn depart(
    topology: &mut Topology,
    frame: &mut Frame,
    target: &Target,
    to: Destination,
    carried: Option<Carried>,
) -> Result<Departure, Reason> {
    frame.envelope = Envelope { hop_limit: HOPS, ..Envelope::FRESH };
    if target.layer == Layer::Link {
        return depart_by_link(topology, frame, target);
    }
    let to = to.unwrap_or((Addr::UNSPECIFIED, 0));
    let destination = target.destination.unwrap_or(to.0);
    let next = next_of(topology, target.port, destination).ok_or(Reason::NoRoute)?;
    let port = topology.port(next.0.port).ok_or(Reason::NoPort)?;
    let source = target.source.filter(|addr| !addr.is_unspecified()).unwrap_or(port.address_towards(destination));
    let kind = target.kind.unwrap_or(0);
    let ends = (source, destination);
    match target.layer {
        Layer::Anep => return Ok(Departure::Anep(kind, next, [source, destination])),
        Layer::Udp => {
            let ports = (target.source_port, target.destination_port.unwrap_or(to.1));
            if !put_datagram(frame, [(source, ports.0), (destination, ports.1)], carried) {
                return Err(Reason::TooBig);
            }
            put_ip(frame, port, ends, udp::IP_PROTOCOL)?;
        }
        _ => put_ip(frame, port, ends, kind as u8)?,
    }
    match port.link {
        Link::Overlay => Err(Reason::NotCarried),
        Link::Ethernet { mac, .. } => Ok(Departure::Ip(next.0.port, mac, via(next.0, destination))),
    }
}

fn depart_by_link(topology: &Topology, frame: &Frame, target: &Target) -> Result<Departure, Reason> {
    let (id, port) = target.port.and_then(|id| Some((id, topology.port(id)?))).ok_or(Reason::NoPort)?;
    if port.link == Link::Overlay {
        return Err(Reason::NotCarried);
    }
    match ethernet::FrameView::new_checked(frame.bytes()) {
        Err(_) => Err(Reason::MalformedOutgoing),
        Ok(header) if frame.len() > header.header_len() + port.mtu => Err(Reason::TooBig),
        Ok(_) => Ok(Departure::Link(id)),
    }
}

/// Does to an IP packet what a router does: its headers stay but for the time to live. Its destination is that of the frame's ends.
pub fn route(topology: &mut Topology, frame: &mut Frame, target: &Target) -> Result<Departure, Reason> {
    let (destination, _) = frame.ends.destination.ok_or(Reason::MalformedPacket)?;
    let left = if destination.is_v4() {
        ipv4::PacketMut::new_checked(frame.bytes_mut()).ok().and_then(|mut packet| packet.decrement_ttl())
    } else {
        ipv6::PacketMut::new_checked(frame.bytes_mut()).ok().and_then(|mut packet| packet.decrement_hop_limit())
    };
    if left.is_none_or(|left| left == 0) {
        return Err(Reason::TimeToLive);
    }
    // An address of the channel's own is the next hop.
    let towards = target.destination.unwrap_or(destination);
    let (next, _) = next_of(topology, target.port, towards).ok_or(Reason::NoRoute)?;
    match topology.port(next.port).map(|port| (port.link, port.mtu)) {
        Some((Link::Ethernet { .. }, mtu)) if frame.len() > mtu => Err(Reason::TooBig),
        Some((Link::Ethernet { mac, .. }, _)) => Ok(Departure::Ip(next.port, mac, via(next, towards))),
        Some((Link::Overlay, _)) => Err(Reason::NotCarried),
        None => Err(Reason::NoPort),
    }
}

/// The next hop to an address, by this port if one is given.
pub fn next_of(topology: &mut Topology, port: Option<PortId>, to: Addr) -> Option<(NextHop, PeerId)> {
    if to.is_unspecified() {
        return None;
    }
    if let Some(id) = port
        && topology.port(id).is_some_and(|port| port.on_link(to))
    {
        let next = NextHop { port: id, via: to };
        return Some((next, topology.peer(next, to)));
    }
    let way = *topology.way(to);
    let next = way.next.filter(|next| port.is_none_or(|port| port == next.port))?;
    Some((next, way.peer))
}

/// Whose link address a packet to `destination` gets.
pub fn via(next: NextHop, destination: Addr) -> Addr {
    if next.via.is_unspecified() { destination } else { next.via }
}

/// A UDP header in front, with a checksum of its own or the one that the payload had.
fn put_datagram(frame: &mut Frame, ends: [(Addr, u16); 2], carried: Option<Carried>) -> bool {
    let ([source, destination], ports) = (ends.map(|(addr, _)| addr), (ends[0].1, ends[1].1));
    let carried = carried.filter(|carried| carried.checksum != 0 || destination.is_v4());
    if !put_udp(frame, (source, destination), ports, carried.is_none()) {
        return false;
    }
    if let Some(carried) = carried.filter(|carried| carried.checksum != 0)
        && let Ok(mut datagram) = udp::PacketMut::new_checked(frame.bytes_mut())
    {
        datagram.carry_checksum(carried.checksum, carried.ends, ends);
    }
    true
}

/// A UDP header in front, with a checksum or without one.
pub fn put_udp(frame: &mut Frame, ends: (Addr, Addr), ports: (u16, u16), summed: bool) -> bool {
    let header = udp::Repr { source_port: ports.0, destination_port: ports.1, payload_len: frame.len() };
    if frame.prepend(udp::HEADER).is_none_or(|room| header.emit(room).is_err()) {
        return false;
    }
    if summed && let Ok(mut datagram) = udp::PacketMut::new_checked(frame.bytes_mut()) {
        datagram.fill_checksum(ends.0, ends.1);
    }
    true
}

/// An IP header in front, with what the frame's envelope says; the packet must fit the port.
pub fn put_ip(frame: &mut Frame, port: &Port, (source, destination): (Addr, Addr), protocol: u8) -> Result<(), Reason> {
    let Envelope { hop_limit, service, .. } = frame.envelope;
    let payload = frame.len();
    let headed = match (source.bytes_v4(), destination.bytes_v4()) {
        (Some(from), Some(to)) => {
            let mut header = ipv4::Repr::new(from, to, protocol, hop_limit, payload);
            header.tos = service;
            frame.prepend(header.header_len()).is_some_and(|room| header.emit(room).is_ok())
        }
        (None, None) => {
            let mut header = ipv6::Repr::new(source, destination, protocol, hop_limit, payload);
            header.traffic_class = service;
            frame.prepend(ipv6::HEADER).is_some_and(|room| header.emit(room).is_ok())
        }
        // One packet cannot have addresses of both families.
        _ => return Err(Reason::FamilyMismatch),
    };
    if headed && frame.len() <= port.mtu { Ok(()) } else { Err(Reason::TooBig) }
}
