//! The node's routes beside the kernel's: those of the configuration, and the subnets of its links.

use super::{ConfigError, NodeFile, wrong};
use crate::frame::{Link, PortId};
use crate::node::NodeConfig;
use crate::topology::{Neighbour, NextHop, Port, RouteChange, Routes};
use crate::wire::{Addr, Prefix};

impl NodeFile {
    /// What no kernel knows: static routes, and neighbours on overlays.
    pub fn fixed_routes(&self, config: &NodeConfig) -> Result<Routes, ConfigError> {
        let mut all = self.given_routes(config)?;
        for (at, _) in config.ports.iter().enumerate().filter(|(_, port)| port.link == Link::Overlay) {
            all.extend(on_overlay(config, PortId(at as u16)));
        }
        Ok(Routes::new(all))
    }

    /// The same of those that lead somewhere now, and how many do not: the subnet of a port may have gone.
    pub fn fixed_routes_now(&self, config: &NodeConfig) -> (Routes, usize) {
        let here = |via| port_towards(config, via).is_some();
        let mut file = self.clone();
        file.static_routes.retain(|route| here(route.via));
        let gone = self.static_routes.len() - file.static_routes.len();
        (file.fixed_routes(config).unwrap_or_default(), gone)
    }

    fn given_routes(&self, config: &NodeConfig) -> Result<Vec<(Prefix, NextHop)>, ConfigError> {
        let mut all = Vec::new();
        for route in &self.static_routes {
            let Some(port) = port_towards(config, route.via) else {
                return wrong(format!(
                    "route to {} via {}: no port has this next hop in its subnet or as a neighbour",
                    route.to, route.via
                ));
            };
            all.push((route.to, NextHop { port, via: route.via }));
        }
        Ok(all)
    }

    /// The subnets of links, where the kernel says nothing else.
    pub fn link_routes(&self, config: &NodeConfig) -> Routes {
        let links = config.ports.iter().enumerate().filter(|(_, port)| port.link != Link::Overlay);
        Routes::new(links.flat_map(|(at, port)| {
            let hop = NextHop { port: PortId(at as u16), via: Addr::UNSPECIFIED };
            port.addresses.iter().map(move |(_, subnet)| (*subnet, hop))
        }))
    }

    /// The routes that a node begins with: all but the kernel's.
    pub(super) fn first_routes(&self, config: &NodeConfig) -> Result<Routes, ConfigError> {
        let mut routes = self.link_routes(config);
        for (to, leads) in self.fixed_routes(config)?.iter() {
            routes.change(RouteChange { to, now: Some(leads) });
        }
        Ok(routes)
    }
}

/// On an overlay there is nobody but the neighbours.
fn on_overlay(config: &NodeConfig, port: PortId) -> impl Iterator<Item = (Prefix, NextHop)> {
    let known = config.neighbours.iter().filter(move |neighbour| neighbour.port == port);
    known.map(move |near| (Prefix::host(near.addr), NextHop { port, via: near.addr }))
}

/// Whether packets for others can go by this next hop: it is in a subnet of its port, or a neighbour there.
pub(crate) fn is_behind(ports: &[Port], neighbours: &[Neighbour], NextHop { port, via }: NextHop) -> bool {
    let on_link = ports.get(usize::from(port.0)).is_some_and(|of| of.leads_to(via));
    on_link || neighbours.iter().any(|near| (near.port, near.addr) == (port, via))
}

/// The port behind which a next hop is.
fn port_towards(config: &NodeConfig, via: Addr) -> Option<PortId> {
    let neighbour = config.neighbours.iter().find(|neighbour| neighbour.addr == via).map(|neighbour| neighbour.port);
    neighbour.or_else(|| config.ports.iter().position(|port| port.on_link(via)).map(|at| PortId(at as u16)))
}
