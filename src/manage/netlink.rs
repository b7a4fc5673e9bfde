//! What the Linux kernel knows: interfaces, addresses, and the routes of its main tables.
//!
//! Read by netlink dumps (rtnetlink(7)), so it is right inside network namespaces too, where /sys
//! need not be. [`Watch`] says when something has changed; then everything is read anew.

use crate::wire::ethernet::Mac;
use crate::wire::{Addr, Prefix};
use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkMessage};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteType};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use std::io;

/// Table of routes that people and daemons set (`RT_TABLE_MAIN`).
const MAIN: u32 = 254;

/// Octets of one answer of the kernel.
const ANSWER: usize = 64 << 10;

/// Multicast groups that tell of changed links, addresses and routes (`RTNLGRP_*`): link, IPv4
/// address, IPv4 route, IPv6 address, IPv6 route.
const GROUPS: [u32; 5] = [1, 5, 7, 9, 11];

/// An interface of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its number.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its hardware address, if it is an Ethernet.
    pub mac: Option<Mac>,
    /// Octets of the largest IP packet.
    pub mtu: usize,
    /// Its addresses, with their subnets.
    pub addresses: Vec<(Addr, Prefix)>,
}

/// A route of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelRoute {
    /// Where to.
    pub to: Prefix,
    /// The next router; unspecified when the destination is on the link.
    pub via: Addr,
    /// The outgoing interface.
    pub interface: u32,
    /// Smaller ones win.
    pub metric: u32,
}

/// All interfaces.
pub fn interfaces() -> io::Result<Vec<Interface>> {
    let mut found: Vec<Interface> = Vec::new();
    for message in dump(RouteNetlinkMessage::GetLink(LinkMessage::default()))? {
        if let RouteNetlinkMessage::NewLink(link) = message {
            found.push(interface(link));
        }
    }
    for message in dump(RouteNetlinkMessage::GetAddress(AddressMessage::default()))? {
        let RouteNetlinkMessage::NewAddress(message) = message else { continue };
        let local = message.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Local(ip) => Some(*ip),
            _ => None,
        });
        let plain = message.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Address(ip) => Some(*ip),
            _ => None,
        });
        let owner = found.iter_mut().find(|interface| interface.index == message.header.index);
        if let (Some(ip), Some(owner)) = (local.or(plain), owner) {
            let addr = Addr::from(ip);
            owner.addresses.push((addr, Prefix::new(addr, length(addr, message.header.prefix_len))));
        }
    }
    Ok(found)
}

/// All unicast routes of the main tables, IPv4 and IPv6.
pub fn routes() -> io::Result<Vec<KernelRoute>> {
    let mut found = Vec::new();
    for family in [AddressFamily::Inet, AddressFamily::Inet6] {
        let mut request = RouteMessage::default();
        request.header.address_family = family;
        for message in dump(RouteNetlinkMessage::GetRoute(request))? {
            if let RouteNetlinkMessage::NewRoute(message) = message {
                found.extend(route(&message));
            }
        }
    }
    // Of several routes to one prefix the table keeps the first.
    found.sort_by_key(|route| route.metric);
    Ok(found)
}

/// Tells of changes.
pub struct Watch {
    socket: Socket,
}

impl Watch {
    /// Begins to listen.
    pub fn new() -> io::Result<Watch> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        for group in GROUPS {
            socket.add_membership(group)?;
        }
        Ok(Watch { socket })
    }

    /// Waits until something has changed.
    pub fn wait(&self) -> io::Result<()> {
        let mut buffer = vec![0; ANSWER];
        match self.socket.recv(&mut &mut buffer[..], 0) {
            Ok(_) => Ok(()),
            // More changes than the socket holds: a change all the same.
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn interface(link: LinkMessage) -> Interface {
    let mut interface =
        Interface { index: link.header.index, name: String::new(), mac: None, mtu: 1500, addresses: Vec::new() };
    for attribute in link.attributes {
        match attribute {
            LinkAttribute::IfName(name) => interface.name = name,
            LinkAttribute::Mtu(mtu) => interface.mtu = mtu as usize,
            LinkAttribute::Address(bytes) => interface.mac = <[u8; 6]>::try_from(bytes).ok().map(Mac),
            _ => {}
        }
    }
    interface
}

fn route(message: &RouteMessage) -> Option<KernelRoute> {
    let mut table = u32::from(message.header.table);
    let family = message.header.address_family;
    let any = if family == AddressFamily::Inet { Addr::v4([0; 4]) } else { Addr::UNSPECIFIED };
    let (mut to, mut via, mut interface, mut metric) = (any, Addr::UNSPECIFIED, None, 0);
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Table(number) => table = *number,
            RouteAttribute::Destination(addr) => to = address(addr)?,
            RouteAttribute::Gateway(addr) => via = address(addr)?,
            RouteAttribute::Oif(index) => interface = Some(*index),
            RouteAttribute::Priority(priority) => metric = *priority,
            _ => {}
        }
    }
    if table != MAIN || message.header.kind != RouteType::Unicast {
        return None;
    }
    let to = Prefix::new(to, length(any, message.header.destination_prefix_length));
    Some(KernelRoute { to, via, interface: interface?, metric })
}

/// A prefix length of 128 bits from one of the address's own family.
fn length(addr: Addr, bits: u8) -> u8 {
    if addr.is_v4() { 96 + bits.min(32) } else { bits }
}

fn address(addr: &RouteAddress) -> Option<Addr> {
    match addr {
        RouteAddress::Inet(v4) => Some(Addr::v4(v4.octets())),
        RouteAddress::Inet6(v6) => Some(Addr(v6.octets())),
        _ => None,
    }
}

/// Asks the kernel for all objects of one kind.
fn dump(request: RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut packet = NetlinkMessage::new(NetlinkHeader::default(), NetlinkPayload::from(request));
    packet.header.flags = NLM_F_DUMP | NLM_F_REQUEST;
    packet.header.sequence_number = 1;
    packet.finalize();
    let mut bytes = vec![0; packet.buffer_len()];
    packet.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    let (mut found, mut buffer) = (Vec::new(), vec![0; ANSWER]);
    loop {
        let got = socket.recv(&mut &mut buffer[..], 0)?;
        let mut rest = &buffer[..got];
        while !rest.is_empty() {
            let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
            let length = (message.header.length as usize).next_multiple_of(4).clamp(1, rest.len());
            match message.payload {
                NetlinkPayload::Done(_) => return Ok(found),
                NetlinkPayload::Error(error) => return Err(error.to_io()),
                NetlinkPayload::InnerMessage(inner) => found.push(inner),
                _ => {}
            }
            rest = &rest[length..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_found_with_its_address() {
        let all = interfaces().unwrap();
        let lo = all.iter().find(|interface| interface.name == "lo").unwrap();
        assert!(lo.index > 0 && lo.mtu > 1500);
        assert!(lo.addresses.iter().any(|(addr, _)| addr.to_string() == "127.0.0.1"));
        routes().unwrap();
    }
}
