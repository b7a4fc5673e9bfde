//! Services for hosts, links and next hops, such as `thisHost` and `getHostByName`.

use super::super::evaluate::{At, raise};
use super::super::flows::MeasuredFlow;
use super::super::names::Known;
use super::super::outbox::Deed;
use super::super::work;
use super::super::{Next, route};
use super::{Given, bad_host, host, list, not_found, refused, tuple, wrong};
use crate::frame::PortId;
use crate::wire::Addr;
use plan::eval::{Fault, State, spend};
use plan::name::Name;
use plan::value::Value;

pub fn this_host(at: &mut At<'_>, given: &[Value], _: &mut State<'_>) -> Given {
    let [] = given else { return wrong("thisHost") };
    let own: Vec<Value> =
        at.env.topology().ports.iter().flat_map(|port| &port.addresses).map(|(addr, _)| host(*addr)).collect();
    list(own)
}

pub fn this_host_is(at: &mut At<'_>, given: &[Value], _: &mut State<'_>) -> Given {
    let [Value::Host(is)] = given else { return wrong("thisHostIs") };
    Ok(Value::Bool(at.env.topology().is_own(Addr(is.0))))
}

pub fn by_name(at: &mut At<'_>, given: &[Value], state: &mut State<'_>) -> Given {
    let [Value::Text(name)] = given else { return wrong("getHostByName") };
    match at.state.names.look_up(at.env.now(), name) {
        Known::Host(addr) => Ok(host(addr)),
        Known::Nobody => Err(bad_host()),
        // The question leaves the node, so it costs what a packet does.
        Known::NotYet if state.bound == 0 => Err(raise(Name::NOT_ENOUGH_RB)),
        Known::NotYet => {
            at.state.names.wanted = std::str::from_utf8(name).ok().map(Into::into);
            Err(Fault::Wait.into())
        }
    }
}

pub fn neighbours(at: &mut At<'_>, given: &[Value], state: &mut State<'_>) -> Given {
    let [] = given else { return wrong("getNeighbors") };
    spend(&mut state.steps, at.env.topology().neighbours.len() as u32)?;
    let known = at.env.topology().neighbours.iter();
    let pairs: Result<Vec<Value>, _> =
        known.map(|known| tuple([host(known.addr), Value::Dev(known.port.0.into())])).collect();
    list(pairs?)
}

pub fn devices(at: &mut At<'_>, given: &[Value], _: &mut State<'_>) -> Given {
    let [] = given else { return wrong("getDevices") };
    list((0..at.env.topology().ports.len() as u32).map(Value::Dev).collect::<Vec<_>>())
}

/// The port with the number of a device.
fn port<'a>(at: &'a At<'_>, dev: u32) -> Option<&'a crate::topology::Port> {
    at.env.topology().port(PortId(u16::try_from(dev).ok()?))
}

pub fn host_on(at: &mut At<'_>, given: &[Value], _: &mut State<'_>) -> Given {
    let [Value::Dev(dev)] = given else { return wrong("getHostOn") };
    let addresses = port(at, *dev).and_then(|port| port.addresses.first());
    addresses.map(|(addr, _)| host(*addr)).ok_or_else(not_found)
}

pub fn mtu(at: &mut At<'_>, given: &[Value], _: &mut State<'_>) -> Given {
    let [Value::Dev(dev)] = given else { return wrong("getMTU") };
    port(at, *dev).map(|port| Value::Int(port.mtu as i64)).ok_or_else(not_found)
}

fn way(at: &mut At<'_>, routing: &'static str, name: &Name, given: &[Value], state: &mut State<'_>) -> Given {
    let [Value::Host(to)] = given else { return wrong(routing) };
    let to = Addr(to.0);
    let flow = (state.header.session, state.header.flow);
    if at.env.topology().is_own(to) {
        return Err(raise(const { Name::known("NoRoute") }));
    }
    let Next { port, via, .. } = at.find(name, flow, to, &mut state.steps)?;
    tuple([host(via), Value::Dev(port.0.into())])
}

pub fn default_route(at: &mut At<'_>, given: &[Value], state: &mut State<'_>) -> Given {
    way(at, "defaultRoute", const { &Name::known("defaultRoute") }, given, state)
}

pub fn rip(at: &mut At<'_>, given: &[Value], state: &mut State<'_>) -> Given {
    way(at, "RIP", const { &Name::known("RIP") }, given, state)
}

pub fn flow_route(at: &mut At<'_>, given: &[Value], state: &mut State<'_>) -> Given {
    way(at, "flowRoute", const { &Name::known("flowRoute") }, given, state)
}

pub fn set_flow(at: &mut At<'_>, given: &[Value], state: &mut State<'_>) -> Given {
    let [Value::Int(flow), Value::Host(next), Value::Dev(dev), Value::Int(seconds)] = given else {
        return wrong("setFlow");
    };
    let number = u32::try_from(*flow).map_err(|_| refused())?;
    spend(&mut state.steps, work::looking(at.env.topology().neighbours.len()))?;
    if route::neighbour(at.env.topology(), Addr(next.0), Some(*dev)).is_none() {
        return Err(raise(const { Name::known("NotNeighbor") }));
    }
    let way = MeasuredFlow::new(at.env.now(), *next, *dev, *seconds);
    let kept = at.outbox.deed(Deed::Flow((state.header.session, number), way, at.holder()));
    if kept { Ok(Value::Unit) } else { Err(refused()) }
}

/// Destinations of the table that are told, at most.
const TABLE_MAX: usize = 1024;

pub fn route_table(at: &mut At<'_>, given: &[Value], state: &mut State<'_>) -> Given {
    let [] = given else { return wrong("getRouteTable") };
    let learned = at.state.rip.as_ref().map_or(0, |rip| rip.heard_of());
    let told = at.env.topology().routes().len();
    spend(&mut state.steps, work::looking(told + learned) + (told + learned).min(TABLE_MAX) as u32)?;
    let line = |to: Addr, via: Addr, dev: PortId, metric: i64| {
        tuple([host(to), host(via), Value::Dev(dev.0.into()), Value::Int(metric)])
    };
    let mut lines = Vec::new();
    if let Some(rip) = &at.state.rip {
        for (to, entry) in rip.routes().take(TABLE_MAX) {
            lines.push(line(to, entry.by.addr, entry.by.port, entry.metric.into())?);
        }
    }
    let routes = at.env.topology().routes();
    for (prefix, next) in routes.next_hops().filter(|(prefix, _)| prefix.length == 128).take(TABLE_MAX - lines.len()) {
        let via = if next.via.is_unspecified() { prefix.addr } else { next.via };
        lines.push(line(prefix.addr, via, next.port, 0)?);
    }
    list(lines)
}
