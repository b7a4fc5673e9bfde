//! `[[port]]`: from a table of the configuration to a port of the node.

use super::half::KernelWish;
use super::input::InputSpec;
use super::{ConfigError, NodeFile, Plan, PortFile, PortMeter, wrong};
use crate::frame::Link;
use crate::link::meter::LinkMeter;
use crate::port::sorted::SortingSpec;
use crate::port::udp::Overlay;
use crate::port::{self, Opening};
use crate::sys::netlink::Interface;
use crate::topology::Port;
use crate::wire::ethernet::Mac;
use crate::wire::hello::INTERVAL_MAX;
use crate::wire::{Addr, Prefix, anep, fetch, proof};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Bytes of an overlay packet unless the port says otherwise: an Ethernet frame's worth behind
/// IPv6 and UDP headers.
const OVERLAY_MTU: usize = 1452;

/// That of an interface that is not there yet.
const ETHERNET_MTU: usize = 1500;

/// What a file may say of the largest packet, in bytes. A part of code has to fit in, and the packet in a datagram of UDP
/// over IPv4.
const MTUS: RangeInclusive<usize> = anep::HEADER + fetch::PART_HEADER + fetch::PART + proof::PROOF..=65_507;

/// Addresses of the host that are a node's beside those of its ports.
const HOST_ADDRESSES_MAX: usize = 64;

impl NodeFile {
    /// The meters of its ports' links, as far as they have some.
    pub fn meters(&self) -> Result<Vec<Option<LinkMeter>>, ConfigError> {
        let open = |port: &PortFile, PortMeter { file, name }: &PortMeter| {
            let named = |why| ConfigError(format!("port {}: meter of {}: {why}", port.title(), file.display()));
            LinkMeter::open(file, name).map_err(named)
        };
        self.ports.iter().map(|port| port.meter.as_ref().map(|meter| open(port, meter)).transpose()).collect()
    }
}

/// Milliseconds between two hellos unless the port says otherwise, and what it may say.
const HELLO_MS: u32 = 1000;
const HELLOS_MS: RangeInclusive<u32> = 100..=100 * INTERVAL_MAX as u32;

impl NodeFile {
    /// Which ports say hello: their places, and tenths of a second between two.
    pub fn hellos(&self) -> Result<Vec<(usize, u16)>, ConfigError> {
        let of = |(at, port): (usize, &PortFile)| port.hello().map(|interval| Some((at, interval?))).transpose();
        self.ports.iter().enumerate().filter_map(of).collect()
    }
}

impl NodeFile {
    /// From which port frames are taken next, if an order says so; or what cannot be.
    pub fn input(&self) -> Result<Option<InputSpec>, ConfigError> {
        let ports: Vec<_> = self.ports.iter().map(|port| (port.title(), port.input)).collect();
        self.input.spec(&ports).map_err(ConfigError)
    }
}

/// What a port is at.
const EITHER: &str = "a [[port]] has either udp = \"ADDRESS:PORT\" or packet = \"INTERFACE\"";

impl PortFile {
    /// Tenths of a second between two hellos, if it says any.
    fn hello(&self) -> Result<Option<u16>, ConfigError> {
        let interval = self.hello_interval_ms.unwrap_or(HELLO_MS);
        if !HELLOS_MS.contains(&interval) {
            let (least, most) = (HELLOS_MS.start(), HELLOS_MS.end());
            return wrong(format!("port {}: hello_interval_ms = {interval}: from {least} to {most}", self.title()));
        }
        let says = self.hello.unwrap_or(self.udp.is_some());
        Ok(says.then_some(interval.div_ceil(100) as u16))
    }

    /// Refuses one that is nowhere, or at two places.
    pub(super) fn check_place(&self) -> Result<(), ConfigError> {
        if self.udp.is_some() == self.packet.is_some() { wrong(EITHER) } else { Ok(()) }
    }

    /// Its name, as people are told it.
    pub(super) fn title(&self) -> String {
        let interface = self.name.as_ref().or(self.packet.as_ref()).cloned();
        let of_address = || self.udp.map(|listen| format!("udp-{}", listen.port()));
        interface.or_else(of_address).unwrap_or_default()
    }

    /// The port, as the host's interfaces are now.
    pub(super) fn plan(&self, interfaces: &[Interface]) -> Result<(Port, Plan), ConfigError> {
        match (&self.udp, &self.packet) {
            (Some(listen), None) => self.plan_udp(*listen),
            (None, Some(interface)) => self.plan_packet(interface, interfaces),
            _ => wrong(EITHER),
        }
    }

    /// What its frames are sorted by before they leave, if by anything.
    pub(super) fn sorting(&self) -> Result<Option<Arc<SortingSpec>>, ConfigError> {
        let Some(discipline) = &self.discipline else { return Ok(None) };
        let root = if self.udp.is_some() { "anep" } else { "ethernet" };
        let named = |why| ConfigError(format!("port {}: discipline: {why}", self.title()));
        discipline.sorting(root).map(|sorting| Some(Arc::new(sorting))).map_err(named)
    }

    /// Bytes of its largest packet; so many if the file does not say.
    fn mtu_or(&self, usual: usize) -> Result<usize, ConfigError> {
        match self.mtu {
            Some(mtu) if !MTUS.contains(&mtu) => wrong(format!(
                "port {}: mtu = {mtu}: from {}, so that a part of code fits in, to {}",
                self.title(),
                MTUS.start(),
                MTUS.end()
            )),
            written => Ok(written.unwrap_or(usual)),
        }
    }

    fn plan_udp(&self, listen: SocketAddr) -> Result<(Port, Plan), ConfigError> {
        let name = self.title();
        let mut addresses = Vec::new();
        for text in &self.address {
            let (addr, _) = text.split_once('/').unwrap_or((text, ""));
            let subnet = text.parse::<Prefix>().map_err(|why| ConfigError(format!("port {name}: {why}")))?;
            let addr = addr.parse().map_err(|_| ConfigError(format!("port {name}: '{addr}' is no address")))?;
            addresses.push((addr, subnet));
        }
        if addresses.is_empty() {
            return wrong(format!("port {name}: an overlay port needs address = [\"10.0.0.1/24\"], the node's own"));
        }
        if self.xdp {
            return wrong(format!("port {name}: xdp = true is for native ports (packet = \"INTERFACE\")"));
        }
        if self.kernel.may() {
            return wrong(format!("port {name}: kernel is for native ports (packet = \"INTERFACE\")"));
        }
        let mut peers = Vec::new();
        for neighbour in &self.neighbours {
            match neighbour.at {
                Some(at) => peers.push(at),
                None => {
                    return wrong(format!(
                        "port {name}: neighbour {} of an overlay port needs at = \"ADDRESS:PORT\"",
                        neighbour.address
                    ));
                }
            }
        }
        let port = Port {
            name,
            link: Link::Overlay,
            addresses,
            mtu: self.mtu_or(OVERLAY_MTU)?,
            bits_per_second: self.bits_per_second,
            ceiling: self.ceiling()?,
        };
        Ok((
            port,
            Plan {
                opening: Opening::Udp(Overlay { listen, peers }),
                pcap: self.pcap.clone(),
                sorting: self.sorting()?,
            },
        ))
    }

    fn plan_packet(&self, name: &str, interfaces: &[Interface]) -> Result<(Port, Plan), ConfigError> {
        let found = interfaces.iter().find(|interface| interface.name == name);
        if found.is_some_and(|interface| interface.mac.is_none()) {
            return wrong(format!("port packet = \"{name}\": not an Ethernet interface"));
        }
        // One that is not there waits: without a link address, and by the addresses of the host alone.
        let index = found.map_or(0, |interface| interface.index);
        let mac = found.and_then(|interface| interface.mac).unwrap_or(Mac([0; 6]));
        let own = found.map(|interface| &interface.addresses[..]).unwrap_or_default();
        if !self.address.is_empty() || self.neighbours.iter().any(|neighbour| neighbour.at.is_some()) {
            return wrong(format!(
                "port packet = \"{name}\": addresses are the interface's own; leave address and at out"
            ));
        }
        let port = Port {
            name: self.name.clone().unwrap_or_else(|| name.to_owned()),
            link: Link::Ethernet { mac, answers: false },
            addresses: own.iter().copied().chain(of_host(interfaces)).collect(),
            mtu: self.mtu_or(found.map_or(ETHERNET_MTU, |interface| interface.mtu))?,
            bits_per_second: self.bits_per_second,
            ceiling: self.ceiling()?,
        };
        let interface = port::NativeInterface { index, kernel: self.kernel == KernelWish::Yes, xdp: self.xdp };
        Ok((port, Plan { opening: Opening::Native(interface), pcap: self.pcap.clone(), sorting: self.sorting()? }))
    }
}

/// Addresses of the host itself: those of its interfaces that are no Ethernets, such as the loopback interface and tunnels. They are a
/// node's with native ports, at whichever of them a packet comes in. What nobody else can send to is left out.
fn of_host(interfaces: &[Interface]) -> impl Iterator<Item = (Addr, Prefix)> + '_ {
    let others = interfaces.iter().filter(|interface| interface.mac.is_none_or(|mac| mac.0 == [0; 6]));
    let all = others.flat_map(|interface| &interface.addresses).map(|(addr, _)| *addr);
    let seen = all.filter(|addr| !addr.is_link_local() && !addr.ip().is_loopback());
    seen.map(|addr| (addr, Prefix::host(addr))).take(HOST_ADDRESSES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::netlink::Carrier;

    #[test]
    fn what_no_ethernet_has_is_the_hosts() {
        let interface = |name: &str, mac: Option<[u8; 6]>, addresses: &[&str]| Interface {
            index: 1,
            name: name.into(),
            mac: mac.map(Mac),
            mtu: 1500,
            addresses: addresses
                .iter()
                .map(|text| (text.parse().unwrap(), Prefix::host(text.parse().unwrap())))
                .collect(),
            enabled: true,
            carrier: Carrier::default(),
        };
        let lo = interface("lo", Some([0; 6]), &["127.0.0.1", "::1", "10.0.0.1", "fd00::1"]);
        let tunnel = interface("tun0", None, &["10.9.9.9", "fe80::1"]);
        let other = interface("eth1", Some([2, 0, 0, 0, 0, 1]), &["10.0.1.1"]);
        let found =
            |interfaces: &[Interface]| of_host(interfaces).map(|(addr, _)| addr.to_string()).collect::<Vec<_>>();
        assert_eq!(found(&[lo, tunnel, other]), ["10.0.0.1", "fd00::1", "10.9.9.9"]);
        let many: Vec<String> = (0..100).map(|n| format!("10.0.1.{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(found(&[interface("lo", None, &many)]).len(), HOST_ADDRESSES_MAX);
    }
}
