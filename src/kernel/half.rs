//! The kernel half: XDP programs at the node's interfaces, and the programs of codes behind them.
//!
//! ```text
//! [ingress at every port] ─ codes_map ─▶ slot ─ programs_map ─▶ [runner + code + calls] ─▶ [ingress] ─▶ transmit_map
//! ```
//!
//! Everything here is control: packets never wait for it. What is attached stays while it is pinned, else it goes with this value.

mod standing;
mod ways;

use super::account::{Account, Accounts};
use super::codes::adopt_codes;
use super::copies::{self, Copies};
use super::layout::TRANSMIT;
use super::loader::Loader;
use super::maps::{KernelCounts, KernelUsage, Maps, PortEntry};
use super::object;
use super::own;
use super::pins::{PinnedLink, Pins, Set};
use super::program_slots::ProgramSlots;
use super::records::Records;
use super::redirects::Refused;
use super::slots::{Held, Slots};
use super::status::{CodeStatus, PortStatus, Status, Without};
use super::succession::{Beginning, set_up};
use super::told_routes::ToldRoutes;
use crate::code::link::LinkEnvironment;
use crate::contract::CEILINGS;
use crate::sys::bpf::{Link, Program, XdpMode};
use crate::wire::{Addr, Digest};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The compiled ingress, what looks closely for it, what acts on verdicts, the runner with the calls of mobile code,
/// and what sends frames up the Linux stack (`bpf/*.bpf.c`).
pub(super) static ACT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/act.bpf.o"));
pub(super) static LEARN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/learn.bpf.o"));
pub(super) static INGRESS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/ingress.bpf.o"));
/// Ingress and egress while somebody captures.
pub(super) static SEEN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/seen.bpf.o"));
pub(super) static SEEN_OUT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/seen_out.bpf.o"));
static RUNNER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/runner.bpf.o"));
pub(super) static RAISE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/raise.bpf.o"));
/// The runner of code that sends or logs, what acts for it, what comes before it, and what stands where copies leave.
static SENDER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sender.bpf.o"));
pub(super) static FAMILY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/family.bpf.o"));
pub(super) static LATER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/later.bpf.o"));
pub(super) static WAY_TO_FOUND: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/found.bpf.o"));
pub(super) static EGRESS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/egress.bpf.o"));

/// What mobile code is linked with for the kernel half.
pub fn environment() -> io::Result<LinkEnvironment> {
    object::environment(RUNNER, SENDER)
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
    /// The program that was found there, and has what is not the node's.
    pub behind: Option<String>,
    /// The interface's name, and redirected frames that its driver had no room for before.
    pub(super) name: String,
    pub(super) lost_before: u64,
    pub(super) link: Link,
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

/// What capsules of one port may use of a CPU unless the node says otherwise, in thousandths.
const SHARE_PERMILLE: u32 = 500;

#[derive(Debug)]
pub(super) struct State {
    pub(super) ports: Vec<Attached>,
    pub(super) slots: Slots,
    pub(super) copies: Copies,
    /// Whether rules of policy routing have a say.
    ruled: bool,
    /// What capsules of one port may use of a CPU, in thousandths.
    permille: u32,
    generation: u64,
    /// When the node's clock began, in nanoseconds of the system's.
    origin: u64,
    /// Port and address of each neighbour, in the order of their numbers.
    pub(super) neighbours: Vec<(u32, Addr)>,
    /// Neighbours that were told of, here or by a process that has gone.
    pub(super) told: u32,
    /// Codes that ran in a set of other shapes and have not come here yet, with their soft state.
    pub(super) inherited: HashMap<Digest, Option<OwnedFd>>,
    /// Whether this ingress stands wherever one did before ([`KernelHalf::settle`]).
    pub(super) settled: bool,
    /// What stands in the places of ingress and egress while somebody captures.
    pub(super) seen: Option<[Program; 2]>,
    /// Where an ingress of a process before this one stands that nobody has taken over yet.
    pub(super) standing: Vec<PinnedLink>,
    /// Programs that were found at interfaces, by what they are called.
    pub(super) found: HashMap<u32, String>,
    /// Ports that could not have it, and why.
    pub(super) refused: Vec<(u32, String)>,
}

/// What a process before this one has left of that.
struct Before {
    slots: Slots,
    copies: Copies,
    generation: u64,
    origin: u64,
    told: u32,
}

impl State {
    /// As it is before any port has a kernel half.
    fn beginning(before: Before, inherited: HashMap<Digest, Option<OwnedFd>>) -> State {
        let Before { slots, copies, generation, origin, told } = before;
        State {
            ports: Vec::new(),
            slots,
            copies,
            // The next look at the host says. Until then every way is asked for.
            ruled: true,
            permille: SHARE_PERMILLE,
            generation,
            origin,
            neighbours: Vec::new(),
            told,
            inherited,
            settled: false,
            seen: None,
            standing: Vec::new(),
            found: HashMap::new(),
            refused: Vec::new(),
        }
    }

    /// The interface of a port of the kernel half.
    pub(super) fn interface(&self, port: u32) -> Option<u32> {
        self.ports.iter().find(|attached| attached.port.number == port).map(|attached| attached.port.interface)
    }

    /// The soft state that a code had in the set whose place this one takes.
    pub(super) fn inherited_state(&self, code: &Digest) -> io::Result<Option<OwnedFd>> {
        self.inherited.get(code).and_then(Option::as_ref).map(OwnedFd::try_clone).transpose()
    }

    /// The interfaces of all ports.
    pub(super) fn interfaces(&self) -> impl Iterator<Item = u32> {
        self.ports.iter().map(|attached| attached.port.interface)
    }
}

/// Loads the programs that all codes share: the ingress and the egress, and those between, which are in a map of theirs then.
fn programs(maps: &Maps, program_slots: &ProgramSlots) -> io::Result<[Program; 2]> {
    let find = |name: &str| match name {
        "program_slots_map" => Ok(program_slots.as_fd()),
        _ => maps.descriptor(name),
    };
    let [learn, act, family, later] = ["learn", "act", "family", "later"].map(|name| own::load(name, find));
    maps.set_stations(&[learn?, act?, family?, later?])?;
    Ok([own::load("ingress", find)?, own::load("egress", find)?])
}

/// The kernel half of one node.
#[derive(Debug)]
pub struct KernelHalf {
    pub(super) maps: Maps,
    pub(super) accounts: Accounts,
    pub(super) program_slots: Arc<ProgramSlots>,
    records: Records,
    pub(super) ingress: Program,
    /// Behind the ways out while there is code that sends.
    pub(super) egress: Program,
    /// What stands around code.
    pub(super) environment: LinkEnvironment,
    pub(super) loader: Loader,
    /// The loader of code that a role trusts.
    pub(super) trusted: Loader,
    name: [u8; 16],
    pub(super) refused: Option<Refused>,
    pub(super) pinned: Option<Pinned>,
    state: Mutex<State>,
    /// What was told of routes, which takes longer than others can wait.
    routes: Mutex<ToldRoutes>,
}

#[derive(Debug)]
pub(super) struct Pinned {
    pub(super) pins: Pins,
    pub(super) set: Set,
}

impl KernelHalf {
    /// Loads what all codes share, or takes over what a process before this one has left.
    pub fn open(opening: Opening) -> io::Result<KernelHalf> {
        let Opening { name, origin, program, pins } = opening;
        let Beginning { maps, set, is_new, heritage } = Beginning::of(pins.as_ref())?;
        let (generation, origin, told) = match maps.node()? {
            Some(before) => before,
            None => (0, heritage.origin.unwrap_or(origin), 0),
        };
        let program_slots = Arc::new(ProgramSlots::new()?);
        let [ingress, egress] = programs(&maps, &program_slots)?;
        if let Some(set) = set.as_ref().filter(|_| is_new) {
            set_up(set, &maps)?;
        }
        let pinned = pins.zip(set).map(|(pins, set)| Pinned { pins, set });
        let (held, lost) = adopt_codes(&maps, pinned.as_ref())?;
        let sent = pinned.as_ref().is_some_and(|pinned| pinned.set.open(copies::PIN).is_ok());
        let copies = Copies::adopted(sent, held.iter().map(|held| held.entry.name));
        let routes = Mutex::new(ToldRoutes::beginning(maps.prefixes()?));
        let before = Before { slots: Slots::new(held), copies, generation, origin, told };
        let mut state = State::beginning(before, heritage.codes);
        state.found = adopt_found(&maps, pinned.as_ref())?;
        state.standing = pinned.as_ref().map_or(Ok(Vec::new()), |pinned| pinned.pins.links())?;
        let environment = environment()?;
        let (loader, trusted) = (Loader::new(program.clone(), false), Loader::new(program, true));
        let (accounts, records) = (Accounts::of(&maps)?, Records::of(&maps)?);
        let state = Mutex::new(state);
        let refused = Refused::count(maps.of(TRANSMIT)?)
            .inspect_err(|error| tracing::warn!(%error, "redirects that the kernel refuses are not counted"))
            .ok();
        let half = KernelHalf {
            maps,
            accounts,
            program_slots,
            records,
            ingress,
            egress,
            environment,
            loader,
            trusted,
            name,
            refused,
            pinned,
            state,
            routes,
        };
        half.forget_links(&mut half.state())?;
        lost.iter().try_for_each(|entry| half.show(&half.state(), entry))?;
        half.raise_generation()?;
        Ok(half)
    }

    /// When the node's clock began, in nanoseconds of the system's monotonic clock.
    pub fn origin(&self) -> u64 {
        self.state().origin
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // What it holds is right between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes everything out of the kernel that would outlive this process.
    pub fn take_down(&self) -> io::Result<()> {
        self.pinned.as_ref().map_or(Ok(()), |pinned| pinned.pins.remove())
    }

    /// Something has changed that cached flows and next hops depend on: everything found out so far is found out anew.
    pub fn raise_generation(&self) -> io::Result<()> {
        self.renew(&mut self.state())
    }

    pub(super) fn renew(&self, state: &mut State) -> io::Result<()> {
        state.generation += 1;
        self.tell_node(state)
    }

    /// Sets the node's clock: it began at `origin`, in nanoseconds of the system's monotonic clock.
    pub fn set_origin(&self, origin: u64) -> io::Result<()> {
        let mut state = self.state();
        state.origin = origin;
        self.tell_node(&state)
    }

    fn tell_node(&self, state: &State) -> io::Result<()> {
        let State { generation, origin, told, ruled, permille, .. } = *state;
        self.maps.set_node(generation, &self.name, origin, told, ruled, permille)
    }

    /// What capsules that come in by one port may use of a CPU, in thousandths; all of it if that is 1000.
    pub fn set_share(&self, permille: u32) -> io::Result<()> {
        let mut state = self.state();
        state.permille = if permille >= 1000 { 0 } else { permille };
        self.tell_node(&state)
    }

    /// Says whether rules of policy routing have a say in where packets go; else the main tables say it all.
    pub fn set_ruled(&self, ruled: bool) -> io::Result<()> {
        let mut state = self.state();
        if core::mem::replace(&mut state.ruled, ruled) == ruled { Ok(()) } else { self.renew(&mut state) }
    }

    /// The interface of a port, if it is one of the kernel half's.
    pub fn interface(&self, port: u32) -> Option<u32> {
        self.state().interface(port)
    }

    /// The maps that it shares with the node.
    pub(super) fn maps(&self) -> &Maps {
        &self.maps
    }

    /// Waits until packets of channels are looked for here, or not any more, as the channels want it.
    pub fn await_channels(&self) {
        self.program_slots.settle();
    }

    /// The way from its ingress to channels.
    pub(super) fn program_slots(&self) -> &Arc<ProgramSlots> {
        &self.program_slots
    }

    /// Runs the ingress on a frame, as if it came in by `interface`: what it returns and leaves.
    pub fn test_run(&self, frame: &[u8], interface: u32) -> io::Result<(u32, Vec<u8>)> {
        self.front(&self.state()).test_run(frame, interface)
    }

    /// The same, and the frame goes where that says: out by other interfaces, or on into the stack.
    pub fn live_run(&self, frame: &[u8], interface: u32) -> io::Result<()> {
        self.front(&self.state()).live_run(frame, interface)
    }

    /// What code has done here beside its verdict, of packets that go on in the user half.
    pub fn records(&self) -> Records {
        self.records.clone()
    }

    /// What became of the packets of a code here.
    pub fn usage(&self, name: &Digest) -> Option<KernelUsage> {
        let slot = self.state().slots.of(name)?.entry.slot;
        self.maps.usage(slot).ok()
    }

    /// Where both halves tell each other what the domain of a code spends.
    pub fn account(&self, name: &Digest) -> Option<Account> {
        let slot = self.state().slots.of(name)?.entry.slot;
        Some(self.accounts.slot(slot))
    }

    /// Capsules at the ingress of all ports.
    pub fn counts(&self) -> KernelCounts {
        self.counts_of(&self.state())
    }

    fn counts_of(&self, state: &State) -> KernelCounts {
        self.maps.counts(state.ports.iter().map(|attached| attached.port.interface)).unwrap_or_default()
    }

    /// Capsules that have ended here, at whichever port they came in, and what those of each port below `ports` were charged with.
    pub fn ended_here(&self, ports: u32) -> io::Result<(u64, Vec<u64>)> {
        let KernelCounts { redirected, made, dropped, .. } = self.counts();
        let ended = redirected.saturating_sub(made) + dropped;
        Ok((ended, self.maps.charged(0..ports.min(CEILINGS))?))
    }

    /// The node listens at all ports: from now on, and until this process ends, what does not go on here goes to it and not to the
    /// Linux stack.
    pub fn listen(&self) -> io::Result<()> {
        listen(&self.maps)
    }

    /// The node listens no more: what does not go on here is the Linux stack's.
    pub fn stop_listening(&self) -> io::Result<()> {
        self.maps.clear_raise()
    }

    /// The interfaces before which it was put, by name.
    pub fn interfaces(&self) -> Vec<String> {
        self.state().ports.iter().map(|at| at.name.clone()).collect()
    }

    /// All that can be counted here.
    pub fn status(&self) -> Status {
        let state = self.state();
        let port = |at: &Attached| PortStatus {
            port: at.port.number,
            mode: at.mode.name(),
            why: at.why.clone(),
            behind: at.behind.clone(),
            redirected: at.port.redirected.min(at.port.mtu),
        };
        let code = |held: &Held| CodeStatus {
            name: held.entry.name.to_string(),
            usage: self.maps.usage(held.entry.slot).unwrap_or_default(),
        };
        let (counts, undelivered) = (self.counts_of(&state), self.undelivered(&state));
        Status {
            ports: state.ports.iter().map(port).collect(),
            refused: state.refused.iter().map(|(port, why)| Without { port: *port, why: why.clone() }).collect(),
            codes: state.slots.iter().map(code).collect(),
            counts,
            balance: counts.balance(undelivered),
            undelivered,
            pinned: self.pinned.is_some(),
        }
    }
}

/// Programs that were found at interfaces by a process before this one: they are jumped to from the maps of this one too.
fn adopt_found(maps: &Maps, pinned: Option<&Pinned>) -> io::Result<HashMap<u32, String>> {
    let mut names = HashMap::new();
    for (interface, program) in pinned.map_or(Ok(Vec::new()), |pinned| pinned.pins.found())? {
        maps.set_found(interface, &program)?;
        names.insert(interface, program.name()?);
    }
    if !names.is_empty() {
        own::open_way_to_found(maps)?;
    }
    Ok(names)
}

/// Lets what is the node's go up the Linux stack past its protocols.
pub(super) fn listen(maps: &Maps) -> io::Result<()> {
    maps.set_raise(&own::load("raise", |name| maps.descriptor(name))?)
}
