//! This project's maps and programs in the kernel, by name: `ingress`, `guard`, `codes_map`.
//!
//! A request names one, with its maps. The holder of privileges ([`crate::broker`]) makes what is listed here and
//! nothing else. So a program in the kernel was compiled with this program, or is mobile code linked by the loader.

pub use super::found::is_taken;
use super::graph_table::TABLE_MAP;
use super::half::{ACT, EGRESS, FAMILY, INGRESS, LATER, LEARN, RAISE, SEEN, SEEN_OUT, WAY_TO_FOUND};
use super::layout::{ALLOWED, BUDGETS, CUT_LAYOUT, DEVICES, GRAPH_MAP, SEEN_MAPS, SETS_OF_LINKS, layout};
use super::maps::Maps;
use super::pins::Pins;
use super::{
    channels, filters, foreign, fuse, graphs, object, program_slots, redirects, routes, sockets, state, types,
};
use crate::broker::{self, Place, Request, Shape};
use crate::code::link::{self, LinkedProgram};
use crate::contract::plan::KernelPlan;
use crate::contract::{SENDS, allowance, budget, set};
use crate::sys::bpf::{Functions, Hook, Link, Map, MapKind, MapShape, Program, Types, XdpMode};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// A map of interfaces.
pub(super) const LINKS: &str = "devices";

/// Whether there is a map of this name and shape.
pub fn knows_map(name: &str, shape: MapShape) -> bool {
    let listed = |(known, its): (&str, MapShape)| known == name && its == shape;
    let layouts = layout().is_ok_and(|mut all| all.any(listed)) || CUT_LAYOUT.into_iter().any(listed);
    match name {
        LINKS => MapShape { entries: 1, ..shape } == MapShape { entries: 1, ..DEVICES } && shape.entries <= SENDS,
        state::NAME => state::is_shape(shape),
        _ => {
            let others = [program_slots::LAYOUT, redirects::LAYOUT, GRAPH_MAP, TABLE_MAP].into_iter().chain(SEEN_MAPS);
            layouts || filters::LAYOUT.into_iter().chain(foreign::LAYOUT).chain(others).any(listed)
        }
    }
}

/// Whether a map of this name is as large as soft state of so many entries, and no larger.
pub fn fits_state(name: &str, shape: MapShape, entries: u32) -> bool {
    name != state::NAME || shape.entries <= state::sets_for(entries)
}

/// Makes a map, or has it made.
pub(super) fn map(name: &str, shape: MapShape) -> io::Result<Map> {
    let size = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
    let (kind, key, value) = (shape.kind as u32, size(shape.key), size(shape.value));
    let wanted = Shape { kind, key, value, entries: shape.entries };
    let made = broker::ask(&Request::Map { name: name.into(), shape: wanted }, &[])?.descriptor()?;
    let map = Map::adopt(made, shape)?;
    Ok(if lock_of(name).is_some() { map.locked() } else { map })
}

/// Makes a map of ours.
pub fn make_map(name: &str, shape: MapShape) -> io::Result<Map> {
    if name == SETS_OF_LINKS {
        let inner = make_map(LINKS, MapShape { entries: 1, ..DEVICES })?;
        return Map::create_outer(name, shape, &inner);
    }
    let Some(size) = lock_of(name) else { return Map::create(name, shape) };
    let (types, of) = types::locked(size as u32);
    Map::create_locked(name, shape, &Types::load(&types)?, of)
}

// The kernel is told that the lock comes first.
const _: () = assert!(budget::LOCK.at() + allowance::LOCK.at() + set::LOCK.at() == 0);

/// Bytes of the values of a map that have a lock.
fn lock_of(name: &str) -> Option<usize> {
    [(BUDGETS, budget::SIZE), (ALLOWED, allowance::SIZE), (state::NAME, set::SIZE)]
        .into_iter()
        .find(|(known, _)| *known == name)
        .map(|(_, size)| size)
}

/// Where a program of ours stands, its file, and whether the verifier is told the types of its functions.
fn program(name: &str) -> Option<(Hook, &'static [u8], bool)> {
    Some(match name {
        "act" => (Hook::Xdp, ACT, true),
        "learn" => (Hook::Xdp, LEARN, true),
        "ingress" => (Hook::Xdp, INGRESS, true),
        "raise" => (Hook::Xdp, RAISE, true),
        "found" => (Hook::Xdp, WAY_TO_FOUND, true),
        "seen" => (Hook::Xdp, SEEN, true),
        "family" => (Hook::Xdp, FAMILY, true),
        "later" => (Hook::Xdp, LATER, true),
        "egress" => (Hook::XdpEgress, EGRESS, true),
        "seen_out" => (Hook::XdpEgress, SEEN_OUT, true),
        "sockets" => (Hook::Xdp, sockets::PROGRAM, true),
        "cut" | "look" => (Hook::Xdp, channels::CUT, true),
        "route" => (Hook::Xdp, routes::ROUTE, false),
        "filter" | "filter_plain" | "filter_channels" => (Hook::SocketFilter, filters::FILTER, false),
        "guard" | "guard_plain" | "guard_channels" => (Hook::TcIngress, filters::GUARD, false),
        "state" => (Hook::Syscall, state::PROGRAM, false),
        "refused" => (Hook::RawTracepoint, redirects::REFUSED, true),
        _ => return None,
    })
}

/// Whether a program of ours may stand at a place before an interface.
pub fn may_stand(name: &str, place: Place) -> bool {
    match place {
        Place::Driver | Place::Stack => matches!(name, "ingress" | "sockets"),
        Place::Ingress => matches!(name, "guard" | "guard_plain" | "guard_channels"),
        Place::Refusals => name == "refused",
    }
}

/// Whether a program of ours may stand anywhere.
pub fn has_place(name: &str) -> bool {
    [Place::Driver, Place::Stack, Place::Ingress, Place::Refusals].into_iter().any(|place| may_stand(name, place))
}

/// Loads a program of ours with maps that are found by their names, or has it loaded.
pub(super) fn load<'a>(name: &str, find: impl Fn(&str) -> io::Result<BorrowedFd<'a>>) -> io::Result<Program> {
    let (linked, ..) = linked(name)?;
    let maps = linked.maps.iter().map(|name| find(name)).collect::<io::Result<Vec<_>>>()?;
    let loaded = broker::ask(&Request::Program { name: name.into() }, &maps)?;
    Ok(Program::adopt(loaded.descriptor()?))
}

/// Loads a program of ours with its maps, in its order.
pub fn load_program(name: &str, maps: &[BorrowedFd<'_>]) -> io::Result<Program> {
    let (linked, hook, typed) = linked(name)?;
    if maps.len() != linked.maps.len() {
        return Err(io::Error::other(format!("{name} has {} maps, not {}", linked.maps.len(), maps.len())));
    }
    let title = format!("anode_{name}");
    if !typed {
        return Program::load(hook, &title, &linked.bytes(), maps, None);
    }
    // A function that jumps to a program must be known to return a number.
    let (types, list) = types::describe(&linked, 0);
    let functions = Functions { types: &Types::load(&types)?, list: &list };
    Program::load(hook, &title, &linked.bytes(), maps, Some(functions))
}

/// Loads the program of a graph whose ports are interfaces, with maps that are found by their names, or has it loaded.
pub(super) fn graph<'a>(plan: &KernelPlan, find: impl Fn(&str) -> io::Result<BorrowedFd<'a>>) -> io::Result<Program> {
    let linked = fused(plan)?;
    let maps = linked.maps.iter().map(|name| find(name)).collect::<io::Result<Vec<_>>>()?;
    let loaded = broker::ask(&Request::Graph { plan: plan.clone() }, &maps)?;
    Ok(Program::adopt(loaded.descriptor()?))
}

/// Loads the program of a graph with its maps, in its order.
pub fn load_graph(plan: &KernelPlan, maps: &[BorrowedFd<'_>]) -> io::Result<Program> {
    let linked = fused(plan)?;
    if maps.len() != linked.maps.len() {
        return Err(io::Error::other(format!("a graph has {} maps, not {}", linked.maps.len(), maps.len())));
    }
    let (types, list) = types::describe(&linked, 0);
    let functions = Functions { types: &Types::load(&types)?, list: &list };
    Program::load(Hook::Xdp, "anode_graph", &linked.bytes(), maps, Some(functions))
}

fn fused(plan: &KernelPlan) -> io::Result<LinkedProgram> {
    let runner = object::program(graphs::GRAPH, "graph")?.into_iter().next();
    fuse::fuse(runner.ok_or_else(|| io::Error::other("the program of graphs is not in this binary"))?, plan)
}

fn linked(name: &str) -> io::Result<(LinkedProgram, Hook, bool)> {
    let none = || io::Error::other(format!("no program '{name}' is built in"));
    let (hook, file, typed) = program(name).ok_or_else(none)?;
    Ok((link::alone(&object::program(file, name)?).map_err(io::Error::other)?, hook, typed))
}

/// Puts an XDP program before an interface, or has it put there; what another one is called that stands there, and is jumped to by
/// that map from now on. An error if it cannot be, or without a map.
pub(super) fn attach(
    program: &Program,
    interface: u32,
    mode: XdpMode,
    map: Option<&Map>,
) -> io::Result<(Link, Option<String>)> {
    let place = match mode {
        XdpMode::Native => Place::Driver,
        XdpMode::Generic => Place::Stack,
    };
    let with: Vec<BorrowedFd<'_>> = [program.as_fd()].into_iter().chain(map.map(AsFd::as_fd)).collect();
    let done = broker::ask(&Request::Attach { interface, place }, &with)?;
    let behind = done.behind();
    Ok((Link::adopt(done.descriptor()?), behind))
}

/// Puts a program before an interface, and before one that was attached there by netlink, which has what is not the node's from then
/// on; what that one is called.
pub(super) fn attach_before(
    maps: &Maps,
    pins: Option<&Pins>,
    program: &Program,
    interface: u32,
    mode: XdpMode,
) -> io::Result<(Link, Option<String>)> {
    match (attach(program, interface, mode, None), pins) {
        (Err(error), Some(pins)) if is_taken(&error) => {
            // What a process before this one has left there may be ours.
            pins.give_back(Some(interface))?;
            // The way is open before somebody is at its end.
            open_way_to_found(maps)?;
            let (link, name) = attach(program, interface, mode, Some(maps.of("found_map")?))?;
            if let Some(name) = &name {
                tracing::info!(interface, name, "the XDP program that stands there has what is not the node's");
            }
            Ok((link, name))
        }
        (Err(error), None) if is_taken(&error) => Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "another XDP program stands at the interface and is left there: there is no BPF file system to keep it in; see: ip link show",
        )),
        (done, _) => done,
    }
}

/// From now on what is not the node's goes to programs that were found, where there are some.
pub(super) fn open_way_to_found(maps: &Maps) -> io::Result<()> {
    maps.set_way_to_found(&load("found", |name| maps.descriptor(name))?)
}

/// Puts a program before an interface, or has it put there.
pub(super) fn attach_at(program: &Program, interface: u32, place: Place) -> io::Result<Link> {
    let done = broker::ask(&Request::Attach { interface, place }, &[program.as_fd()])?;
    Ok(Link::adopt(done.descriptor()?))
}

/// Puts a program before an interface.
pub fn attach_here(program: &Program, interface: u32, place: Place) -> io::Result<Link> {
    match place {
        Place::Driver => program.attach_xdp(interface, XdpMode::Native),
        Place::Stack => program.attach_xdp(interface, XdpMode::Generic),
        Place::Ingress => program.attach_ingress(interface),
        Place::Refusals => program.attach_tracepoint(c"xdp_redirect_err"),
    }
}

/// A shape as it was asked for.
pub fn shape_of(shape: Shape) -> Option<MapShape> {
    let kind = MapKind::of(shape.kind)?;
    Some(MapShape { kind, key: shape.key as usize, value: shape.value as usize, entries: shape.entries })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_loaded_for_each_code_has_no_place_and_what_is_attached_has() {
        assert!(["state", "route", "act", "nothing"].into_iter().all(|name| !has_place(name)));
        assert!(["ingress", "sockets", "guard", "refused"].into_iter().all(has_place));
    }
}
