//! The state of a namespace: links, addresses, our routes and permanent neighbours, read from the JSON of iproute2.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::labfile::topology::{Neighbour, Route};
use crate::labfile::{Cidr, Mac};
use crate::wire::{Addr, Prefix};

/// The kernel's number for the origin of the lab's routes, so that they are told from the routes
/// of users and routing daemons, which a lab leaves alone.
pub(super) const ROUTE_PROTOCOL: u8 = 107;

/// The state of one namespace.
#[derive(Debug, Default)]
pub(super) struct Observed {
    pub(super) links: BTreeMap<String, Link>,
    pub(super) addresses: BTreeSet<(String, Cidr)>,
    pub(super) routes: BTreeSet<Route>,
    pub(super) neighbours: BTreeSet<Neighbour>,
    /// Whether an address still waits for the detection of duplicates.
    pub(super) tentative: bool,
}

/// An interface as it is.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) index: u32,
    pub(super) peer_index: Option<u32>,
    pub(super) kind: String,
    pub(super) mac: Option<Mac>,
    pub(super) alias: String,
    pub(super) enabled: bool,
    pub(super) running: bool,
    pub(super) mtu: u32,
    pub(super) master: Option<String>,
}

/// The questions whose answers [`parse`] understands, as lines of `ip -json -details -batch`.
pub(super) fn questions() -> Vec<String> {
    let routes = format!("route show table all proto {ROUTE_PROTOCOL}");
    vec!["address show".into(), routes, "neighbour show nud permanent".into()]
}

/// Any object in the answers; which keys it has tells what it is.
#[derive(Deserialize)]
struct Answer {
    ifname: Option<String>,
    #[serde(default)]
    ifindex: u32,
    link_index: Option<u32>,
    address: Option<String>,
    #[serde(default)]
    ifalias: String,
    #[serde(default)]
    flags: Vec<String>,
    #[serde(default)]
    operstate: String,
    #[serde(default)]
    mtu: u32,
    master: Option<String>,
    #[serde(default)]
    linkinfo: LinkInfo,
    #[serde(default)]
    addr_info: Vec<AddrInfo>,
    dst: Option<String>,
    gateway: Option<Addr>,
    pref: Option<String>,
    dev: Option<String>,
    lladdr: Option<Mac>,
}

#[derive(Default, Deserialize)]
struct LinkInfo {
    #[serde(default)]
    info_kind: String,
}

#[derive(Deserialize)]
struct AddrInfo {
    local: Option<Addr>,
    prefixlen: Option<u8>,
    #[serde(default)]
    tentative: bool,
}

/// Reads the answers to [`questions`]: several JSON arrays one after another.
pub(super) fn parse(text: &[u8]) -> serde_json::Result<Observed> {
    let mut observed = Observed::default();
    for answers in serde_json::Deserializer::from_slice(text).into_iter::<Vec<Answer>>() {
        for answer in answers? {
            match (answer.ifname.clone(), answer.dst.clone(), answer.dev.clone()) {
                (Some(name), _, _) => observed.link(name, answer),
                (None, Some(dst), Some(dev)) => observed.entry(&dst, dev, &answer),
                _ => {}
            }
        }
    }
    Ok(observed)
}

impl Observed {
    fn link(&mut self, name: String, answer: Answer) {
        for info in &answer.addr_info {
            let (Some(addr), Some(bits)) = (info.local, info.prefixlen) else { continue };
            self.tentative |= info.tentative;
            let length = if addr.is_v4() { bits.saturating_add(96) } else { bits };
            let kernels_own = name == "lo" && is_loopback(addr);
            if !kernels_own {
                self.addresses.insert((name.clone(), Cidr { addr, prefix: Prefix::new(addr, length) }));
            }
        }
        let link = Link {
            index: answer.ifindex,
            peer_index: answer.link_index,
            kind: answer.linkinfo.info_kind,
            mac: answer.address.and_then(|text| text.parse().ok()),
            alias: answer.ifalias,
            enabled: answer.flags.iter().any(|flag| flag == "UP"),
            running: answer.operstate == "UP",
            mtu: answer.mtu,
            master: answer.master,
        };
        self.links.insert(name, link);
    }

    fn entry(&mut self, dst: &str, interface: String, answer: &Answer) {
        if let Some(mac) = answer.lladdr {
            let neighbour = dst.parse().map(|addr| Neighbour { addr, mac, interface });
            self.neighbours.extend(neighbour);
            return;
        }
        let v6 = answer.gateway.map_or(answer.pref.is_some(), |gateway| !gateway.is_v4());
        let text = match dst {
            "default" if v6 => "::/0",
            "default" => "0.0.0.0/0",
            other => other,
        };
        let route = text.parse().map(|to| Route { to, via: answer.gateway, interface });
        self.routes.extend(route);
    }
}

fn is_loopback(addr: Addr) -> bool {
    addr.ip().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answers_of_iproute2_are_understood() {
        let text = br#"[{"ifindex":1,"ifname":"lo","flags":["LOOPBACK","UP"],"mtu":65536,"qdisc":"noqueue","operstate":"UNKNOWN",
            "address":"00:00:00:00:00:00","ifalias":"anode lab x","addr_info":[
              {"family":"inet","local":"127.0.0.1","prefixlen":8,"scope":"host"},{"family":"inet","local":"10.0.0.1","prefixlen":32},
              {"family":"inet6","local":"::1","prefixlen":128}]},
            {"ifindex":2,"link_index":3,"ifname":"to-b","flags":["UP"],"mtu":1400,"qdisc":"tbf",
             "operstate":"UP","address":"02:61:6e:00:01:01",
             "linkinfo":{"info_kind":"veth"},"addr_info":[{"local":"fd00::1","prefixlen":64,"tentative":true}]}]
            [{"type":"unicast","dst":"10.2.0.0/24","gateway":"10.1.1.2","dev":"to-b","flags":[]},
             {"dst":"10.0.0.2","gateway":"10.1.1.2","dev":"to-b"},
             {"dst":"default","gateway":"fd00::2","dev":"to-b","pref":"medium"},{"dst":"default","dev":"to-b"}]
            []
            [{"dst":"10.1.1.2","dev":"to-b","lladdr":"02:61:6e:00:02:01","state":["PERMANENT"]}]"#;
        let observed = parse(text).unwrap();
        assert_eq!(observed.links["lo"].alias, "anode lab x");
        let link = &observed.links["to-b"];
        assert_eq!((link.index, link.peer_index, link.mtu, link.running), (2, Some(3), 1400, true));
        assert_eq!(link.kind, "veth");
        let addresses: Vec<String> = observed.addresses.iter().map(|(dev, cidr)| format!("{cidr} {dev}")).collect();
        assert_eq!(addresses, ["10.0.0.1/32 lo", "fd00::1/64 to-b"]);
        let routes: Vec<String> = observed.routes.iter().map(|route| route.to.to_string()).collect();
        assert_eq!(routes, ["::/0", "0.0.0.0/0", "10.0.0.2/32", "10.2.0.0/24"]);
        assert_eq!(observed.neighbours.len(), 1);
        assert!(observed.tentative);
    }
}
