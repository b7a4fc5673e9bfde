//! The Linux kernel's interfaces, addresses and rules; its routes, of which there may be a million, have a file of their own.
//!
//! Read by netlink dumps (rtnetlink(7)), so it is right inside network namespaces too, where /sys need not be.
//! [`Watch`] reports a change; then everything is read anew. An unknown message is skipped: one odd address must not hide
//! all others.

mod dump;
mod links;
mod news;
mod routes;

use crate::wire::ethernet::Mac;
use crate::wire::{Addr, Prefix};
use dump::{ask, dump};
pub use links::{LinkNews, Watch};
use netlink_packet_core::{NLM_F_ACK, NLM_F_CREATE, NLM_F_REQUEST};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage, LinkXdp};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleFlags, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
pub use news::{Change, Hop, Hops, KernelRoute, RouteNews, each_route};
use news::{MAIN, length};
pub use routes::{RouteReader, RouteWatch};
use std::collections::HashMap;
use std::io;

/// Tables (`RT_TABLE_*`) and priorities of the rules that every host has: local, main, default; the last for IPv4 alone.
const USUAL: [(u32, u32); 3] = [(255, 0), (MAIN, 32766), (253, 32767)];

/// An interface of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its number.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its hardware address, if it is an Ethernet.
    pub mac: Option<Mac>,
    /// Bytes of the largest IP packet.
    pub mtu: usize,
    /// Its addresses, with their subnets.
    pub addresses: Vec<(Addr, Prefix)>,
    /// Whether somebody has set it up, with a carrier or without.
    pub enabled: bool,
    /// Whether frames can pass, and how often that has changed.
    pub carrier: Carrier,
}

/// The state of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carrier {
    /// Whether frames can pass.
    pub up: bool,
    /// How often that has changed.
    pub changes: u32,
}

/// Lets the kernel find out and keep the link address of a next hop, as if it sent there itself.
pub fn use_neighbour(interface: u32, addr: Addr) -> io::Result<()> {
    let mut message = NeighbourMessage::default();
    message.header.family = if addr.is_v4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    message.header.ifindex = interface;
    let to = match addr.bytes_v4() {
        Some(bytes) => NeighbourAddress::Inet(bytes.into()),
        None => NeighbourAddress::Inet6(addr.0.into()),
    };
    message.attributes.push(NeighbourAttribute::Destination(to));
    // One that somebody has set would be permanent no more: the kernel takes that from it when it is used so.
    let known = ask(RouteNetlinkMessage::GetNeighbour(message.clone()), NLM_F_REQUEST | NLM_F_ACK).unwrap_or_default();
    let is_set = |it: &RouteNetlinkMessage| {
        let RouteNetlinkMessage::NewNeighbour(it) = it else { return false };
        it.header.state == NeighbourState::Permanent
    };
    if known.iter().any(is_set) {
        return Ok(());
    }
    message.header.flags = NeighbourFlags::Use;
    ask(RouteNetlinkMessage::NewNeighbour(message), NLM_F_REQUEST | NLM_F_CREATE | NLM_F_ACK).map(drop)
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

/// Link addresses that the host knows: interface, address, and what it is there. Those that did not answer are not among them.
pub fn neighbours() -> io::Result<Vec<(u32, Addr, Mac)>> {
    let mut found = Vec::new();
    for message in dump(RouteNetlinkMessage::GetNeighbour(NeighbourMessage::default()))? {
        let RouteNetlinkMessage::NewNeighbour(message) = message else { continue };
        let answered = !matches!(
            message.header.state,
            NeighbourState::Incomplete | NeighbourState::Failed | NeighbourState::Noarp
        );
        let (mut addr, mut mac) = (None, None);
        for attribute in &message.attributes {
            match attribute {
                NeighbourAttribute::Destination(NeighbourAddress::Inet(v4)) => addr = Some(Addr::v4(v4.octets())),
                NeighbourAttribute::Destination(NeighbourAddress::Inet6(v6)) => addr = Some(Addr(v6.octets())),
                NeighbourAttribute::LinkLayerAddress(bytes) => mac = <[u8; 6]>::try_from(&bytes[..]).ok().map(Mac),
                _ => {}
            }
        }
        found.extend(addr.zip(mac).filter(|_| answered).map(|(addr, mac)| (message.header.ifindex, addr, mac)));
    }
    Ok(found)
}

/// How an interface is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doing {
    /// Its number.
    pub index: u32,
    /// Frames that have come in since it was made, whoever's they were, and their bytes.
    pub received: [u64; 2],
    /// Frames that it has dropped since it was made, whoever's they were, coming in.
    pub dropped_in: u64,
    /// And going out.
    pub dropped_out: u64,
    /// Whether it has a carrier, if it says so.
    pub carrier: Option<bool>,
    /// Whether an XDP program stands before it.
    pub xdp: bool,
}

/// How all interfaces are doing, by their names.
pub fn doing() -> io::Result<HashMap<String, Doing>> {
    let mut found = HashMap::new();
    for message in dump(RouteNetlinkMessage::GetLink(LinkMessage::default()))? {
        let RouteNetlinkMessage::NewLink(link) = message else { continue };
        let (mut name, mut lost, mut carrier, mut xdp, mut received) = (None, None, None, false, [0; 2]);
        let index = link.header.index;
        for attribute in link.attributes {
            match attribute {
                LinkAttribute::IfName(is) => name = Some(is),
                LinkAttribute::Xdp(of) => xdp = of.iter().any(|of| matches!(of, LinkXdp::ProgId(id) if *id != 0)),
                LinkAttribute::Carrier(is) => carrier = Some(is != 0),
                LinkAttribute::Stats64(of) => {
                    lost = Some([of.rx_dropped + of.rx_missed_errors, of.tx_dropped]);
                    received = [of.rx_packets, of.rx_bytes];
                }
                _ => {}
            }
        }
        let doing =
            lost.map(|[dropped_in, dropped_out]| Doing { index, received, dropped_in, dropped_out, carrier, xdp });
        found.extend(name.zip(doing));
    }
    Ok(found)
}

/// Rules of policy routing, IPv4 and IPv6, that make a host's other than every host's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Rules {
    /// Those beside what every host has, and those that every host has and this one has not.
    pub obeyed: usize,
    /// Those for marked packets alone: nobody has marked what the node takes before the Linux stack has seen it.
    pub not_obeyed: usize,
}

/// The rules that this host has.
pub fn rules() -> io::Result<Rules> {
    let mut rules = Rules::default();
    for (family, expected) in [(AddressFamily::Inet, 3), (AddressFamily::Inet6, 2)] {
        let mut request = RuleMessage::default();
        request.header.family = family;
        let mut usual = 0;
        for message in dump(RouteNetlinkMessage::GetRule(request))? {
            let RouteNetlinkMessage::NewRule(rule) = message else { continue };
            match () {
                () if is_usual(&rule) => usual += 1,
                () if is_for_marked(&rule) => rules.not_obeyed += 1,
                () => rules.obeyed += 1,
            }
        }
        rules.obeyed += usize::saturating_sub(expected, usual);
    }
    Ok(rules)
}

fn is_usual(rule: &RuleMessage) -> bool {
    let header = &rule.header;
    let (mut table, mut priority) = (u32::from(header.table), 0);
    let plain = rule.attributes.iter().all(|attribute| {
        match attribute {
            RuleAttribute::Table(number) => table = *number,
            RuleAttribute::Priority(number) => priority = *number,
            RuleAttribute::SuppressPrefixLen(length) => return *length == u32::MAX,
            RuleAttribute::Protocol(_) => {}
            _ => return false,
        }
        true
    });
    let matches_all = (header.src_len, header.dst_len, header.tos, header.action) == (0, 0, 0, RuleAction::ToTable);
    // Without conditions but turned round a rule holds for nothing.
    plain && matches_all && !header.flags.contains(RuleFlags::Invert) && USUAL.contains(&(table, priority))
}

fn is_for_marked(rule: &RuleMessage) -> bool {
    let marked = |attribute: &RuleAttribute| matches!(attribute, RuleAttribute::FwMark(mark) if *mark != 0);
    !rule.header.flags.contains(RuleFlags::Invert) && rule.attributes.iter().any(marked)
}

fn interface(link: LinkMessage) -> Interface {
    let up = link.header.flags.contains(LinkFlags::Up | LinkFlags::LowerUp);
    let mut interface = Interface {
        index: link.header.index,
        name: String::new(),
        mac: None,
        mtu: 1500,
        addresses: Vec::new(),
        enabled: link.header.flags.contains(LinkFlags::Up),
        carrier: Carrier { up, changes: 0 },
    };
    for attribute in link.attributes {
        match attribute {
            LinkAttribute::IfName(name) => interface.name = name,
            LinkAttribute::Mtu(mtu) => interface.mtu = mtu as usize,
            LinkAttribute::CarrierChanges(changes) => interface.carrier.changes = changes,
            LinkAttribute::Address(bytes) => interface.mac = <[u8; 6]>::try_from(bytes).ok().map(Mac),
            _ => {}
        }
    }
    interface
}

#[cfg(test)]
mod tests;
