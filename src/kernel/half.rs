//! The kernel half: XDP programs at the node's interfaces, and the programs of codes behind them.
//!
//! ```text
//! [ingress at every port] ─ codes_map ─▶ slot ─ programs_map ─▶ [runner + code + calls] ─▶ [act] ─▶ transmit_map
//! ```
//!
//! Everything here is control: packets never wait for it. What is attached goes with this value.

use super::error::{CODE_MAX, LoadError};
use super::loader::{self, Loader, Wanted};
use super::maps::{CodeEntry, KernelCounts, KernelUsage, Maps, OFFSETS, PORTS, PortEntry};
use super::pins::{Pins, Set, state_of};
use super::slots::{Held, NoSlot, Slots, Stage, made_of};
use super::state::CodeState;
use super::status::{CodeStatus, PortStatus, Status};
use super::{object, types};
use crate::code::bundle::Program as Code;
use crate::code::link::{self, Constants, Environment, Function, Linked};
use crate::nodeos::domain::Limits;
use crate::sys::bpf::{Hook, Link, Program, XdpMode};
use crate::topology::{NextHop, Routes};
use crate::trust::Form;
use crate::wire::{Addr, Digest, Prefix};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The compiled ingress, what acts on verdicts, and the runner with the calls of mobile code (`bpf/*.bpf.c`).
static ACT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/act.bpf.o"));
static INGRESS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/ingress.bpf.o"));
static RUNNER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/runner.bpf.o"));
static TRUSTED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/trusted.bpf.o"));

/// What mobile code is linked with for the kernel half.
pub fn environment() -> io::Result<Environment> {
    object::environment(RUNNER)
}

/// A port of the kernel half.
#[derive(Debug)]
pub struct Attached {
    /// What was told of it.
    pub port: PortEntry,
    /// How the program stands there.
    pub mode: XdpMode,
    /// Why not in the driver.
    pub why: Option<String>,
    _link: Link,
}

/// What a kernel half is opened with.
#[derive(Debug)]
pub struct Opening {
    /// The node's name, zero padded.
    pub name: [u8; 16],
    /// When its clock began, in nanoseconds of the system's monotonic clock, unless an older kernel half is taken over.
    pub origin: u64,
    /// This program, which is the loader too.
    pub program: PathBuf,
    /// Where it is pinned; nothing: it ends with this process.
    pub pins: Option<Pins>,
}

#[derive(Debug)]
struct State {
    ports: Vec<Attached>,
    slots: Slots,
    routes: HashMap<Prefix, Option<NextHop>>,
    generation: u64,
    /// When the node's clock began, in nanoseconds of the system's.
    origin: u64,
    /// Port and address of each neighbour, in the order of their numbers.
    neighbours: Vec<(u32, Addr)>,
    /// Neighbours that were told of, here or by a process that has gone.
    told: u32,
}

impl State {
    /// The interface of a port of the kernel half.
    fn interface(&self, port: u32) -> Option<u32> {
        self.ports.iter().find(|attached| attached.port.number == port).map(|attached| attached.port.interface)
    }
}

/// The kernel half of one node.
#[derive(Debug)]
pub struct KernelHalf {
    maps: Maps,
    ingress: Program,
    /// What stands around sandboxed code, and around trusted code.
    environments: [Environment; 2],
    loader: Loader,
    name: [u8; 16],
    pinned: Option<Pinned>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct Pinned {
    pins: Pins,
    set: Set,
}

impl KernelHalf {
    /// Loads what all codes share, or takes over what a process before this one has left.
    pub fn open(opening: Opening) -> io::Result<KernelHalf> {
        let Opening { name, origin, program, pins } = opening;
        let before = pins.as_ref().map(find).transpose()?.flatten();
        let (maps, set, older) = match before {
            Some((set, maps, ingress)) => (maps, Some(set), Some(ingress)),
            None => (Maps::create()?, pins.as_ref().map(Pins::create).transpose()?, None),
        };
        let (generation, origin, told) = match maps.node()? {
            (0, ..) => (0, origin, 0),
            before => before,
        };
        maps.set_act(&load(ACT, "act", &maps)?)?;
        let fresh = load(INGRESS, "ingress", &maps)?;
        let same = |older: &Program| Ok::<_, io::Error>(older.info()?.tag == fresh.info()?.tag);
        let ingress = match older {
            Some(older) if same(&older)? => older,
            _ => {
                if let Some(set) = &set {
                    set_up(set, &maps, &fresh)?;
                }
                fresh
            }
        };
        let pinned = pins.zip(set).map(|(pins, set)| Pinned { pins, set });
        let (held, lost) = adopt_codes(&maps, pinned.as_ref())?;
        let routes = maps.prefixes()?.into_iter().map(|to| (to, None)).collect();
        let state = State {
            ports: Vec::new(),
            slots: Slots::new(held),
            routes,
            generation,
            origin,
            neighbours: Vec::new(),
            told,
        };
        let environments = [object::environment(RUNNER)?, object::environment(TRUSTED)?];
        let loader = Loader::new(program);
        let half = KernelHalf { maps, ingress, environments, loader, name, pinned, state: Mutex::new(state) };
        lost.iter().try_for_each(|entry| half.show(&half.state(), entry))?;
        half.raise_generation()?;
        Ok(half)
    }

    /// When the node's clock began, in nanoseconds of the system's monotonic clock.
    pub fn origin(&self) -> u64 {
        self.state().origin
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // What it holds is right between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the ingress before an interface, in its driver or else in the stack, or takes over what stands there of a
    /// process before this one. Never takes another program's place.
    pub fn attach(&self, port: PortEntry) -> io::Result<XdpMode> {
        if port.interface >= PORTS {
            return Err(io::Error::other(format!(
                "interface index {} is beyond the {PORTS} that the kernel half knows",
                port.interface
            )));
        }
        self.maps.set_port(&port)?;
        let attached = match self.stand(port.interface) {
            Ok((link, mode, why)) => Attached { port, mode, why, _link: link },
            Err(error) => {
                self.maps.remove_port(port.interface)?;
                return Err(error);
            }
        };
        let mode = attached.mode;
        self.state().ports.push(attached);
        Ok(mode)
    }

    fn stand(&self, interface: u32) -> io::Result<(Link, XdpMode, Option<String>)> {
        let links = self.pinned.as_ref().map_or(Ok(Vec::new()), |pinned| pinned.pins.links())?;
        for pinned in links.into_iter().filter(|pinned| pinned.interface == interface) {
            match pinned.link.target()? {
                (at, program) if at == interface => {
                    if program != self.ingress.info()?.id {
                        pinned.link.update(&self.ingress)?;
                    }
                    return Ok((pinned.link, pinned.mode, None));
                }
                // Its interface has gone, and another has the number now.
                _ => pinned.remove()?,
            }
        }
        let (link, mode, why) = self.stand_anew(interface)?;
        if let Some(pinned) = &self.pinned {
            pinned.pins.keep_link(interface, mode, &link)?;
        }
        Ok((link, mode, why))
    }

    fn stand_anew(&self, interface: u32) -> io::Result<(Link, XdpMode, Option<String>)> {
        match self.ingress.attach_xdp(interface, XdpMode::Native) {
            Ok(link) => Ok((link, XdpMode::Native, None)),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST)) => Err(io::Error::new(
                error.kind(),
                "another XDP program stands at the interface and is left there; see: ip link show",
            )),
            Err(error) => {
                let why = format!("the driver takes no XDP program here: {error}");
                Ok((self.ingress.attach_xdp(interface, XdpMode::Generic)?, XdpMode::Generic, Some(why)))
            }
        }
    }

    /// All ports have been attached: what older processes left and nobody took over goes.
    pub fn settle(&self) -> io::Result<()> {
        let Some(Pinned { pins, set }) = &self.pinned else { return Ok(()) };
        let state = self.state();
        let stands = |interface| state.ports.iter().any(|attached| attached.port.interface == interface);
        for gone in pins.links()?.into_iter().filter(|link| !stands(link.interface)) {
            self.maps.remove_port(gone.interface)?;
            gone.remove()?;
        }
        pins.retain(set)
    }

    /// Takes everything out of the kernel that would outlive this process.
    pub fn take_down(&self) -> io::Result<()> {
        self.pinned.as_ref().map_or(Ok(()), |pinned| pinned.pins.remove())
    }

    /// Codes that run here since a process that has gone.
    pub fn adopted(&self) -> Vec<Digest> {
        let state = self.state();
        let adopted = state.slots.iter().filter(|held| matches!(held.stage, Stage::Adopted(_)));
        adopted.map(|held| held.entry.name).collect()
    }

    /// Neighbours that were known to a process that has gone, with the port each is behind. They count as told.
    pub fn adopted_neighbours(&self) -> io::Result<Vec<(u32, Addr)>> {
        let mut near = self.maps.near()?;
        near.sort_unstable_by_key(|(.., number)| *number);
        let mut state = self.state();
        for (addr, interface, _) in near {
            match state.ports.iter().find(|attached| attached.port.interface == interface) {
                Some(attached) => {
                    let known = (attached.port.number, addr);
                    state.neighbours.push(known);
                }
                None => self.maps.set_near(addr, interface, None)?,
            }
        }
        Ok(state.neighbours.clone())
    }

    /// Links and loads code in a form; it may use `limits`. Its capsules run here from [`KernelHalf::activate`] on.
    /// Gives its soft state.
    pub fn add_code(
        &self,
        name: &Digest,
        code: &Code,
        window: u32,
        form: Form,
        limits: &Limits,
    ) -> Result<Arc<CodeState>, LoadError> {
        if code.code.len() > CODE_MAX {
            return Err(LoadError::TooLong(code.code.len()));
        }
        let claimed = self.state().slots.claim(name, window as u16);
        let held = claimed.map_err(|why| match why {
            NoSlot::Taken => LoadError::Taken,
            NoSlot::Full => LoadError::Full,
        })?;
        let made = self.make(held, code, form, limits);
        match made {
            Ok((held, kept)) => {
                self.state().slots.set(held);
                Ok(kept)
            }
            Err(error) => {
                self.remove_code(name)?;
                Err(error)
            }
        }
    }

    /// Makes the programs and the state of a code, unless it has just these.
    fn make(&self, held: Held, code: &Code, form: Form, limits: &Limits) -> Result<(Held, Arc<CodeState>), LoadError> {
        let (entries, keep_ms) = (limits.state_entries, limits.keep_ms_max);
        let before = match &held.stage {
            Stage::Adopted(map) => CodeState::adopt(map.try_clone()?, entries, keep_ms).ok().map(Arc::new),
            _ => None,
        };
        let kept = match &before {
            Some(kept) => kept.clone(),
            None => Arc::new(CodeState::create(entries, keep_ms)?),
        };
        let linked = self.link(code, form, &held.entry, &kept)?;
        let entry = CodeEntry { made_of: made_of(&linked), ..held.entry };
        self.maps.set_budget(entry.slot, limits.packets_per_second, limits.steps_per_second)?;
        if before.is_some() && entry == held.entry {
            return Ok((Held { entry, stage: Stage::Runs }, kept));
        }
        let programs = self.load(&linked, form, entry.window.into(), &kept)?;
        for program in &programs {
            let (verified, most) = (program.info()?.verified, limits.verified_instructions);
            if verified > most {
                return Err(LoadError::TooCostly(verified, most));
            }
        }
        if !matches!(held.stage, Stage::Adopted(_)) {
            self.maps.clear_usage(entry.slot)?;
        }
        if let Some(pinned) = &self.pinned {
            pinned.set.keep(&state_of(&entry.name), &*kept)?;
        }
        self.maps.set_programs(entry.slot, &programs)?;
        Ok((Held { entry, stage: Stage::Loaded }, kept))
    }

    /// Links code: a program for each place of a capsule in a frame.
    fn link(&self, code: &Code, form: Form, entry: &CodeEntry, state: &CodeState) -> Result<Vec<Linked>, LoadError> {
        let (slot, window, sets, keep_ms) = (entry.slot, entry.window.into(), state.sets(), state.keep_ms());
        let constants = |offset| Constants { slot, window, offset, sets, keep_ms };
        let environment = &self.environments[form as usize];
        let link = |offset| link::link(environment, code, constants(offset));
        Ok(OFFSETS.into_iter().map(link).collect::<Result<Vec<_>, _>>()?)
    }

    /// Has the kernel verify linked programs: those of sandboxed code for somebody who may not read kernel memory.
    fn load(&self, linked: &[Linked], form: Form, window: u32, state: &CodeState) -> io::Result<Vec<Program>> {
        let load = |linked: &Linked| {
            let map = |name: &String| if name == "state_map" { Ok(state.as_fd()) } else { self.maps.descriptor(name) };
            let maps = linked.maps.iter().map(map).collect::<io::Result<Vec<BorrowedFd<'_>>>>()?;
            let (types, functions) = types::describe(linked, window);
            let wanted = Wanted { code: linked.bytes(), types, functions, maps };
            match form {
                Form::Sandboxed => self.loader.load(&wanted),
                Form::Trusted => loader::load(&wanted),
            }
        };
        linked.iter().map(load).collect()
    }

    /// Lets the capsules of loaded code run here.
    pub fn activate(&self, name: &Digest) -> io::Result<()> {
        let mut state = self.state();
        let Some(Held { entry, stage: Stage::Loaded }) = state.slots.of(name).cloned() else { return Ok(()) };
        state.slots.set(Held { entry, stage: Stage::Runs });
        self.show(&state, &entry)
    }

    /// Takes code out: its capsules run in the user half, if there.
    pub fn remove_code(&self, name: &Digest) -> io::Result<()> {
        let mut state = self.state();
        let Some(Held { entry, .. }) = state.slots.take(name) else { return Ok(()) };
        self.show(&state, &entry)?;
        self.maps.remove_programs(entry.slot)?;
        if let Some(pinned) = &self.pinned {
            pinned.set.forget(&state_of(name))?;
        }
        state.slots.release(entry.slot);
        Ok(())
    }

    /// Tells what is at the place of a code now, then that there is something behind those before it, or not any more.
    fn show(&self, state: &State, entry: &CodeEntry) -> io::Result<()> {
        std::iter::once(entry.place).chain(entry.way()).try_for_each(|place| {
            let (code, passed) = state.slots.view(place);
            self.maps.set_code(place, code, passed)
        })
    }

    /// Tells who the neighbours are, each with the port it is behind, in the order of their numbers.
    pub fn set_neighbours(&self, now: Vec<(u32, Addr)>) -> io::Result<()> {
        let mut state = self.state();
        let before = core::mem::take(&mut state.neighbours);
        // Those gone first: two neighbours may share a place.
        for (port, addr) in before.iter().filter(|known| !now.contains(known)) {
            self.set_near(&state, *port, *addr, None)?;
        }
        for (number, (port, addr)) in (0..).zip(&now) {
            self.maps.set_neighbour(number, *addr)?;
            self.set_near(&state, *port, *addr, Some(number))?;
        }
        for number in now.len() as u32..state.told {
            self.maps.set_neighbour(number, Addr::UNSPECIFIED)?;
        }
        state.told = now.len() as u32;
        state.neighbours = now;
        self.tell_node(&state)
    }

    fn set_near(&self, state: &State, port: u32, addr: Addr, number: Option<u32>) -> io::Result<()> {
        state.interface(port).map_or(Ok(()), |interface| self.maps.set_near(addr, interface, number))
    }

    /// Routes or link addresses have changed: everything found out so far is found out anew.
    pub fn raise_generation(&self) -> io::Result<()> {
        let mut state = self.state();
        state.generation += 1;
        self.tell_node(&state)
    }

    /// Sets the node's clock: it began at `origin`, in nanoseconds of the system's monotonic clock.
    pub fn set_origin(&self, origin: u64) -> io::Result<()> {
        let mut state = self.state();
        state.origin = origin;
        self.tell_node(&state)
    }

    fn tell_node(&self, state: &State) -> io::Result<()> {
        self.maps.set_node(state.generation, &self.name, state.origin, state.told)
    }

    /// Tells the routes of the node, for `an_route`, and its own addresses.
    pub fn set_routes(&self, routes: &Routes, own: impl Iterator<Item = Addr>) -> io::Result<()> {
        let own = own.map(|addr| (Prefix::host(addr), None));
        let now: HashMap<Prefix, Option<NextHop>> =
            routes.iter().map(|(to, next)| (to, Some(next))).chain(own).collect();
        let mut state = self.state();
        for gone in state.routes.keys().filter(|to| !now.contains_key(to)) {
            self.maps.remove_route(*gone)?;
        }
        for (to, next) in now.iter().filter(|(to, next)| state.routes.get(to) != Some(next)) {
            self.maps.set_route(*to, *next)?;
        }
        state.routes = now;
        drop(state);
        self.raise_generation()
    }

    /// The interface of a port, if it is one of the kernel half's.
    pub fn interface(&self, port: u32) -> Option<u32> {
        self.state().interface(port)
    }

    /// The maps that it shares with the node.
    pub(super) fn maps(&self) -> &Maps {
        &self.maps
    }

    /// Runs the ingress on a frame, as if it came in by `interface`: what it returns and leaves.
    pub fn test_run(&self, frame: &[u8], interface: u32) -> io::Result<(u32, Vec<u8>)> {
        self.ingress.test_run(frame, interface)
    }

    /// What became of the packets of a code here.
    pub fn usage(&self, name: &Digest) -> Option<KernelUsage> {
        let slot = self.state().slots.of(name)?.entry.slot;
        self.maps.usage(slot).ok()
    }

    /// Capsules at the ingress of all ports.
    pub fn counts(&self) -> KernelCounts {
        self.maps.counts().unwrap_or_default()
    }

    /// All that can be counted here.
    pub fn status(&self) -> Status {
        let state = self.state();
        let port = |at: &Attached| PortStatus { port: at.port.number, mode: at.mode.name(), why: at.why.clone() };
        let code = |held: &Held| CodeStatus {
            name: held.entry.name.to_string(),
            usage: self.maps.usage(held.entry.slot).unwrap_or_default(),
        };
        Status {
            ports: state.ports.iter().map(port).collect(),
            codes: state.slots.iter().map(code).collect(),
            counts: self.counts(),
            pinned: self.pinned.is_some(),
        }
    }
}

/// The newest set of maps that fits this program, with the ingress that uses it.
fn find(pins: &Pins) -> io::Result<Option<(Set, Maps, Program)>> {
    let fits = |set: Set| {
        let maps = Maps::adopt(|name| set.open(name)).ok()?;
        let ingress = Program::adopt(set.open("ingress").ok()?);
        Some((set, maps, ingress))
    };
    Ok(pins.sets()?.into_iter().find_map(fits))
}

/// Pins a set, the ingress last: it says that the set is whole.
fn set_up(set: &Set, maps: &Maps, ingress: &Program) -> io::Result<()> {
    maps.iter().try_for_each(|(name, map)| set.keep(name, map))?;
    set.keep("ingress", ingress)
}

/// The codes that a process before this one has left, each with its state; and those that have none and must go.
fn adopt_codes(maps: &Maps, pinned: Option<&Pinned>) -> io::Result<(Vec<Held>, Vec<CodeEntry>)> {
    let (mut held, mut lost) = (Vec::new(), Vec::new());
    let Some(Pinned { set, .. }) = pinned else { return Ok((held, lost)) };
    for entry in maps.codes()? {
        match set.open(&state_of(&entry.name)) {
            Ok(state) => held.push(Held { entry, stage: Stage::Adopted(Arc::new(state)) }),
            Err(_) => lost.push(entry),
        }
    }
    for name in set.states()?.filter(|name| !held.iter().any(|held| held.entry.name == *name)) {
        set.forget(&state_of(&name))?;
    }
    Ok((held, lost))
}

/// Loads a function of our own.
pub(super) fn load(file: &[u8], name: &str, maps: &Maps) -> io::Result<Program> {
    let function: Function = object::program(file, name)?;
    let linked = link::alone(&function).map_err(io::Error::other)?;
    let used = linked.maps.iter().map(|name| maps.descriptor(name)).collect::<io::Result<Vec<_>>>()?;
    Program::load(Hook::Xdp, &format!("anode_{name}"), &linked.bytes(), &used, None)
}
