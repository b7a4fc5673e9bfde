//! The kernel half: XDP programs at the node's interfaces, and the programs of codes behind them.
//!
//! ```text
//! [ingress at every port] ─ codes_map ─▶ slot ─ programs_map ─▶ [runner + code + calls] ─▶ [act] ─▶ transmit_map
//! ```
//!
//! Everything here is control: packets never wait for it. What is attached goes with this value.

use super::maps::{KernelCounts, KernelUsage, Maps, OFFSETS, PROGRAMS, PortEntry, code_place};
use super::state::CodeState;
use super::{object, types};
use crate::code::bundle::Program as Code;
use crate::code::link::{Constants, Environment, Function, LinkError, Reference, link};
use crate::nodeos::domain::Limits;
use crate::sys::bpf::{Functions, Hook, Link, Program, Types, XdpMode};
use crate::sys::process::with_few_capabilities;
use crate::topology::{NextHop, Routes};
use crate::wire::{Addr, Digest, Prefix};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The compiled ingress, what acts on verdicts, and the runner with the calls of mobile code (`bpf/*.bpf.c`).
static ACT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/act.bpf.o"));
static INGRESS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/ingress.bpf.o"));
static RUNNER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/runner.bpf.o"));

/// Instructions of one code; the verifier's work grows with them.
const CODE_MAX: usize = 4096;

/// Why code does not run in the kernel.
#[derive(Debug)]
pub enum LoadError {
    /// It has so many instructions, and that is too many.
    TooLong(usize),
    /// It needs a call that is not there.
    Link(LinkError),
    /// Another code stands at its place.
    Taken,
    /// All slots are in use.
    Full,
    /// The kernel refuses it; the text is the verifier's.
    Refused(io::Error),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::TooLong(found) => {
                write!(f, "{found} instructions, and the kernel half takes {CODE_MAX}: the code runs in the user half")
            }
            LoadError::Link(error) => error.fmt(f),
            LoadError::Taken => f.write_str("another code has its place in the kernel half: it runs in the user half"),
            LoadError::Full => {
                write!(f, "the kernel half has its {} codes: the code runs in the user half", PROGRAMS - 1)
            }
            LoadError::Refused(error) => write!(f, "the kernel's verifier refuses it: {error}"),
        }
    }
}

impl std::error::Error for LoadError {}

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

#[derive(Debug, Default)]
struct State {
    ports: Vec<Attached>,
    /// Slot of each code, and the next free ones.
    codes: HashMap<Digest, u32>,
    free: Vec<u32>,
    places: HashMap<u32, Digest>,
    /// Codes that are loaded and do not run yet, with their window.
    waiting: HashMap<Digest, u32>,
    routes: HashMap<Prefix, Option<NextHop>>,
    generation: u64,
    /// Port and address of each neighbour, in the order of their numbers.
    neighbours: Vec<(u32, Addr)>,
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
    environment: Environment,
    name: [u8; 16],
    origin: u64,
    state: Mutex<State>,
}

impl KernelHalf {
    /// Loads what all codes share. `name` is the node's, zero padded; its clock began at `origin`
    /// (nanoseconds of the system's monotonic clock).
    pub fn new(name: [u8; 16], origin: u64) -> io::Result<KernelHalf> {
        let maps = Maps::create()?;
        let code = resolved(object::program(INGRESS, "ingress")?, &maps)?;
        let ingress = Program::load(Hook::Xdp, "anode_ingress", &code, None)?;
        let code = resolved(object::program(ACT, "act")?, &maps)?;
        maps.set_act(&Program::load(Hook::Xdp, "anode_act", &code, None)?)?;
        let environment = object::environment(RUNNER)?;
        let state = State { free: (1..PROGRAMS).rev().collect(), ..State::default() };
        let half = KernelHalf { maps, ingress, environment, name, origin, state: Mutex::new(state) };
        half.raise_generation()?;
        Ok(half)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // What it holds is right between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the ingress before an interface: in its driver, or else in the stack. Never takes another
    /// program's place.
    pub fn attach(&self, port: PortEntry) -> io::Result<XdpMode> {
        if port.interface >= super::maps::PORTS {
            return Err(io::Error::other(format!(
                "interface index {} is beyond the {} that the kernel half knows",
                port.interface,
                super::maps::PORTS
            )));
        }
        let (link, mode, why) = match self.ingress.attach_xdp(port.interface, XdpMode::Native) {
            Ok(link) => (link, XdpMode::Native, None),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST)) => {
                return Err(io::Error::new(
                    error.kind(),
                    "another XDP program stands at the interface and is left there; see: ip link show",
                ));
            }
            Err(error) => {
                let why = format!("the driver takes no XDP program here: {error}");
                (self.ingress.attach_xdp(port.interface, XdpMode::Generic)?, XdpMode::Generic, Some(why))
            }
        };
        self.maps.set_port(&port)?;
        self.state().ports.push(Attached { port, mode, why, _link: link });
        Ok(mode)
    }

    /// Links and loads code, which may use `limits`. Its capsules run here from [`KernelHalf::activate`] on.
    /// Gives its soft state.
    pub fn add_code(
        &self,
        name: &Digest,
        code: &Code,
        window: u32,
        limits: &Limits,
    ) -> Result<Arc<CodeState>, LoadError> {
        if code.code.len() > CODE_MAX {
            return Err(LoadError::TooLong(code.code.len()));
        }
        let slot = {
            let mut state = self.state();
            if state.places.contains_key(&code_place(name)) {
                return Err(LoadError::Taken);
            }
            state.free.pop().ok_or(LoadError::Full)?
        };
        let kept = CodeState::create(limits.state_entries, limits.keep_ms_max).map_err(LoadError::Refused);
        let loaded = kept.and_then(|kept| {
            let programs = self.load(code, slot, window, &kept)?;
            let set = self.maps.clear_usage(slot).and_then(|()| self.maps.set_programs(slot, &programs));
            set.map(|()| Arc::new(kept)).map_err(LoadError::Refused)
        });
        let mut state = self.state();
        match loaded {
            Ok(kept) => {
                state.codes.insert(*name, slot);
                state.waiting.insert(*name, window);
                state.places.insert(code_place(name), *name);
                Ok(kept)
            }
            Err(error) => {
                state.free.push(slot);
                Err(error)
            }
        }
    }

    /// Links code and has the kernel verify it: a program for each form of frame.
    fn load(&self, code: &Code, slot: u32, window: u32, state: &CodeState) -> Result<Vec<Program>, LoadError> {
        let own = |name: &str| (name == "state_map").then(|| state.descriptor());
        let map = |name: &str| own(name).or_else(|| self.maps.descriptor(name));
        let (sets, keep_ms) = (state.sets(), state.keep_ms());
        let constants = |offset| Constants { slot, window, offset, sets, keep_ms };
        let link = |offset| link(&self.environment, code, constants(offset), map);
        let linked = OFFSETS.into_iter().map(link).collect::<Result<Vec<_>, _>>().map_err(LoadError::Link)?;
        // Without the capabilities that would let it read kernel memory and leak addresses.
        let loaded = with_few_capabilities(|| {
            let mut programs = Vec::with_capacity(linked.len());
            for linked in &linked {
                let (types, list) = types::describe(linked, window);
                let (types, bytes) = (Types::load(&types)?, linked.bytes());
                let functions = Functions { types: &types, list: &list };
                programs.push(Program::load(Hook::Xdp, "anode_capsule", &bytes, Some(functions))?);
            }
            Ok(programs)
        });
        loaded.and_then(|loaded| loaded).map_err(LoadError::Refused)
    }

    /// Lets the capsules of loaded code run here.
    pub fn activate(&self, name: &Digest) -> io::Result<()> {
        let mut state = self.state();
        let (Some(slot), Some(window)) = (state.codes.get(name).copied(), state.waiting.remove(name)) else {
            return Ok(());
        };
        self.maps.set_code(name, slot, window)
    }

    /// Takes code out: its capsules run in the user half, if there.
    pub fn remove_code(&self, name: &Digest) -> io::Result<()> {
        let mut state = self.state();
        let Some(slot) = state.codes.remove(name) else { return Ok(()) };
        state.places.remove(&code_place(name));
        state.waiting.remove(name);
        self.maps.set_code(name, 0, 0)?;
        self.maps.remove_programs(slot)?;
        state.free.push(slot);
        Ok(())
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
        for number in now.len()..before.len() {
            self.maps.set_neighbour(number as u32, Addr::UNSPECIFIED)?;
        }
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

    fn tell_node(&self, state: &State) -> io::Result<()> {
        self.maps.set_node(state.generation, &self.name, self.origin, state.neighbours.len() as u32)
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
        let slot = *self.state().codes.get(name)?;
        self.maps.usage(slot).ok()
    }

    /// Capsules at the ingress of all ports.
    pub fn counts(&self) -> KernelCounts {
        self.maps.counts().unwrap_or_default()
    }

    /// All that can be counted here.
    pub fn status(&self) -> Status {
        let state = self.state();
        let port = |at: &Attached| PortStatus {
            port: at.port.number,
            mode: match at.mode {
                XdpMode::Native => "driver",
                XdpMode::Generic => "stack",
            },
            why: at.why.clone(),
        };
        let code = |(name, slot): (&Digest, &u32)| CodeStatus {
            name: name.to_string(),
            usage: self.maps.usage(*slot).unwrap_or_default(),
        };
        Status {
            ports: state.ports.iter().map(port).collect(),
            codes: state.codes.iter().map(code).collect(),
            counts: self.counts(),
        }
    }
}

/// The kernel half's part of a node's counters.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Status {
    /// Where it stands.
    pub ports: Vec<PortStatus>,
    /// The codes that run there.
    pub codes: Vec<CodeStatus>,
    /// Capsules at the ingress.
    pub counts: KernelCounts,
}

/// A port of the kernel half.
#[derive(Clone, Debug, serde::Serialize)]
pub struct PortStatus {
    /// Its number in the node.
    pub port: u32,
    /// In the driver, or in the stack.
    pub mode: &'static str,
    /// Why not in the driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A code of the kernel half.
#[derive(Clone, Debug, serde::Serialize)]
pub struct CodeStatus {
    /// Its name.
    pub name: String,
    /// What became of its packets here.
    pub usage: KernelUsage,
}

/// A function of our own with its maps put in, as the kernel takes it.
pub(super) fn resolved(mut function: Function, maps: &Maps) -> io::Result<Vec<u8>> {
    for (at, reference) in &function.references {
        let Reference::Map(name) = reference else { return Err(io::Error::other("the ingress calls mobile code")) };
        let fd = maps.descriptor(name).ok_or_else(|| io::Error::other(format!("no map {name}")))?;
        let insn = function.code.get_mut(*at).ok_or_else(|| io::Error::other("a reference outside the ingress"))?;
        insn.src = 1;
        insn.imm = fd;
    }
    Ok(function.code.iter().flat_map(|insn| insn.encode()).collect())
}
