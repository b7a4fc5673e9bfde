//! The node's routes: those of the configuration, the kernel's, and the subnets of its links.

use super::{ConfigError, NodeFile, Plan, RouteSource, wrong};
use crate::frame::{Link, PortId};
use crate::node::NodeConfig;
use crate::sys::netlink;
use crate::topology::{NextHop, Routes};
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

    /// The routing table: static routes first, then the kernel's, then what is on the links.
    pub fn routes(&self, config: &NodeConfig, plans: &[Plan]) -> Result<Routes, ConfigError> {
        let mut all = self.given_routes(config)?;
        if self.routes == RouteSource::Kernel {
            let kernel = netlink::routes()
                .map_err(|error| ConfigError(format!("cannot read the kernel's routes by netlink: {error}")))?;
            let port = |interface: u32| {
                let known =
                    plans.iter().position(|plan| plan.opening.interface().is_some_and(|it| it.index == interface));
                known.map(|at| PortId(at as u16))
            };
            all.extend(
                kernel
                    .iter()
                    .filter_map(|route| Some((route.to, NextHop { port: port(route.interface)?, via: route.via }))),
            );
        }
        for (at, port) in config.ports.iter().enumerate() {
            let id = PortId(at as u16);
            match port.link {
                Link::Ethernet { .. } => {
                    let hop = NextHop { port: id, via: Addr::UNSPECIFIED };
                    all.extend(port.addresses.iter().map(|(_, subnet)| (*subnet, hop)));
                }
                Link::Overlay => all.extend(on_overlay(config, id)),
            }
        }
        Ok(Routes::new(all))
    }
}

/// On an overlay there is nobody but the neighbours.
fn on_overlay(config: &NodeConfig, port: PortId) -> impl Iterator<Item = (Prefix, NextHop)> {
    let known = config.neighbours.iter().filter(move |neighbour| neighbour.port == port);
    known.map(move |near| (Prefix::host(near.addr), NextHop { port, via: near.addr }))
}

/// The port behind which a next hop is.
fn port_towards(config: &NodeConfig, via: Addr) -> Option<PortId> {
    let neighbour = config.neighbours.iter().find(|neighbour| neighbour.addr == via).map(|neighbour| neighbour.port);
    neighbour.or_else(|| config.ports.iter().position(|port| port.on_link(via)).map(|at| PortId(at as u16)))
}
