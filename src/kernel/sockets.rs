//! The way from the driver to AF_XDP sockets: `bpf/sockets.h` from the node's side.
//!
//! With a kernel half, its own programs take frames there; without, a program for this alone stands at the interface. A
//! map says which socket a frame goes to. Memory shared with the programs ([`Tickets`]) says how many of these frames
//! the user half has finished, so nothing overtakes them.

use super::half::{self, KernelHalf};
use super::layout::RAISE;
use super::maps::{Maps, PortEntry};
use super::own;
use super::pins::Pins;
use super::program_slots::ProgramSlots;
use crate::contract::{self, PORTS, SOCKETS, punt_counts, punts};
use crate::sys::bpf::{Link, Program, XdpMode};
use crate::sys::mapping::SharedWords;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The compiled program (`bpf/sockets.bpf.c`), and the maps it needs.
pub(super) static PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sockets.bpf.o"));
const MAPS: [&str; 13] = [
    "stations_map",
    "found_map",
    "ports_map",
    "transmit_map",
    "sockets_map",
    "punts_map",
    "punt_counts_map",
    RAISE,
    "flows_map",
    "node_map",
    "zero_map",
    "routes_map",
    "next_hops_map",
];

/// Words of `struct punts`, and where tickets and what is done stand.
const PUNTS: usize = punts::SIZE / 8;
const TICKETS: usize = punts::TICKETS.word();
const DONE: usize = punts::DONE.word();

/// What became of frames at an interface that were for the user half: `struct punt_counts`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct PuntCounts {
    /// To the socket of their queue.
    pub to_socket: u64,
    /// Up the Linux stack, to the AF_PACKET socket: their queue has no AF_XDP socket.
    pub to_stack: u64,
    /// To the socket though their code runs in the kernel, to keep their flow in order.
    pub held: u64,
    /// Run in the kernel though their flow had something in the user half, because it had for too long.
    pub overtaking: u64,
    /// Dropped: they pretended to come from the program.
    pub forged: u64,
}

/// What takes frames of interfaces to AF_XDP sockets.
pub struct Steering {
    whose: Whose,
    words: Arc<SharedWords>,
}

enum Whose {
    Half(Arc<KernelHalf>),
    Own {
        maps: Maps,
        program_slots: Arc<ProgramSlots>,
        program: Program,
        links: Mutex<HashMap<u32, Standing>>,
        run_dir: Option<PathBuf>,
    },
}

/// A link, and whether another program stands behind it.
type Standing = (Link, bool);

impl Steering {
    /// That of the kernel half.
    pub fn of(half: Arc<KernelHalf>) -> io::Result<Steering> {
        Steering::make(Whose::Half(half))
    }

    /// One of its own, of the node with this run directory: there programs are kept that were found at its interfaces.
    pub fn alone(run_dir: Option<&Path>) -> io::Result<Steering> {
        let maps = Maps::create_some(&MAPS)?;
        let program_slots = Arc::new(ProgramSlots::new()?);
        let program = own::load("sockets", |name| match name {
            "program_slots_map" => Ok(program_slots.as_fd()),
            _ => maps.descriptor(name),
        })?;
        let run_dir = run_dir.map(Path::to_owned);
        Steering::make(Whose::Own { maps, program_slots, program, links: Mutex::default(), run_dir })
    }

    fn make(whose: Whose) -> io::Result<Steering> {
        let words = Arc::new(whose.maps().of("punts_map")?.words(SOCKETS)?);
        Ok(Steering { whose, words })
    }

    /// Puts the program before an interface, unless the kernel half stands there: in its driver, or else in the stack.
    /// Says how it stands there, if it is not the kernel half. One that stands there has what is not the node's, or is left there.
    pub fn attach(&self, port: &PortEntry) -> io::Result<Option<XdpMode>> {
        let Whose::Own { maps, program, links, run_dir, .. } = &self.whose else { return Ok(None) };
        if port.interface >= PORTS {
            return Err(io::Error::other(format!("interface index {} is beyond the {PORTS} known", port.interface)));
        }
        maps.set_port(port, false)?;
        maps.set_way_out(port.interface, None)?;
        let put = |mode| put(maps, program, port.interface, mode, run_dir.as_deref());
        let (link, mode) = match put(XdpMode::Native) {
            Ok(link) => (link, XdpMode::Native),
            Err(error) if own::is_taken(&error) || error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
            Err(_) => (put(XdpMode::Generic)?, XdpMode::Generic),
        };
        links.lock().unwrap_or_else(PoisonError::into_inner).insert(port.interface, link);
        Ok(Some(mode))
    }

    /// The node listens at all ports: what has no socket of its queue goes to it past the Linux stack's protocols, as long as this
    /// process lives.
    pub fn listen(&self) -> io::Result<()> {
        match &self.whose {
            Whose::Half(half) => half.listen(),
            Whose::Own { maps, .. } => half::listen(maps),
        }
    }

    /// The node listens no more: nothing goes to sockets, and what is the node's is the Linux stack's.
    pub fn stop_listening(&self, interfaces: impl Iterator<Item = u32>) -> io::Result<()> {
        for interface in interfaces {
            self.announce(interface, 0, 0)?;
        }
        self.whose.maps().clear_raise()
    }

    /// Says that the first `count` queues of an interface have sockets, numbered from `first`.
    pub fn announce(&self, interface: u32, first: u16, count: u16) -> io::Result<()> {
        let (map, key) = (self.whose.maps().of("ports_map")?, interface.to_ne_bytes());
        let mut value = [0; contract::port::SIZE];
        map.get(&key, &mut value)?;
        contract::port::SOCKETS.put(&mut value, count.to_ne_bytes());
        contract::port::FIRST_SOCKET.put(&mut value, first.to_ne_bytes());
        map.set(&key, &value)?;
        match &self.whose {
            Whose::Half(half) => half.raise_generation(),
            Whose::Own { .. } => Ok(()),
        }
    }

    /// The interface of a port has changed, or is another one than `before`. Says whether the program stands there.
    pub fn follow(&self, port: &PortEntry, before: u32) -> io::Result<bool> {
        let Whose::Own { maps, .. } = &self.whose else { return Ok(true) };
        if port.interface == before {
            return maps.change_port(port).map(|()| true);
        }
        self.leave(before)?;
        self.attach(port).map(|_| true)
    }

    /// An interface is gone, or was none.
    pub fn leave(&self, interface: u32) -> io::Result<()> {
        let Whose::Own { maps, links, run_dir, .. } = &self.whose else { return Ok(()) };
        match (links.lock().unwrap_or_else(PoisonError::into_inner).remove(&interface), run_dir) {
            (None, _) => return Ok(()),
            (Some((_, true)), Some(run_dir)) => Pins::open(run_dir)?.forget_steering(interface)?,
            _ => {}
        }
        maps.remove_port(interface)
    }

    /// Lets frames go to the socket with this number. The kernel takes it out when it is closed.
    pub fn connect(&self, number: u16, socket: &impl AsFd) -> io::Result<Tickets> {
        let (at, words) = (usize::from(number) * PUNTS, self.words.clone());
        // What an earlier socket had is gone with it.
        let start = words.load(at + TICKETS);
        words.store(at + DONE, start);
        let fd = socket.as_fd().as_raw_fd().to_ne_bytes();
        self.whose.maps().of("sockets_map")?.set(&u32::from(number).to_ne_bytes(), &fd)?;
        Ok(Tickets { words, at, start, told: start })
    }

    pub(super) fn maps(&self) -> &Maps {
        self.whose.maps()
    }

    /// The way from its program to channels.
    pub(super) fn program_slots(&self) -> &Arc<ProgramSlots> {
        match &self.whose {
            Whose::Half(half) => half.program_slots(),
            Whose::Own { program_slots, .. } => program_slots,
        }
    }

    /// Whether it is the kernel half's.
    pub fn is_of_half(&self) -> bool {
        matches!(self.whose, Whose::Half(_))
    }

    /// How many frames went to the socket with this number, or to another that had it before.
    pub fn tickets(&self, number: u16) -> u64 {
        self.words.load(usize::from(number) * PUNTS + TICKETS)
    }

    /// What became of frames of an interface that were for the user half.
    pub fn punted(&self, interface: u32) -> PuntCounts {
        let words =
            self.whose.maps().sums::<{ punt_counts::SIZE / 8 }>("punt_counts_map", interface).unwrap_or_default();
        PuntCounts {
            to_socket: punt_counts::TO_SOCKET.among(&words),
            to_stack: punt_counts::TO_STACK.among(&words),
            held: punt_counts::HELD.among(&words),
            overtaking: punt_counts::OVERTAKING.among(&words),
            forged: punt_counts::FORGED.among(&words),
        }
    }
}

/// Puts the program before an interface, and before one that stands there, with what outlives this process then: it must go on being
/// jumped to.
fn put(maps: &Maps, program: &Program, interface: u32, mode: XdpMode, run_dir: Option<&Path>) -> io::Result<Standing> {
    match (own::attach(program, interface, mode, None), run_dir) {
        (Err(error), Some(run_dir)) if own::is_taken(&error) => {
            let pins = Pins::open(run_dir)?;
            let (link, name) = own::attach_before(maps, Some(&pins), program, interface, mode)?;
            let kept = [("found", maps.of("found_map")?), ("stations", maps.of("stations_map")?)];
            pins.keep_steering(interface, mode, &link, kept)?;
            Ok((link, name.is_some()))
        }
        (done, _) => done.map(|(link, _)| (link, false)),
    }
}

impl Whose {
    fn maps(&self) -> &Maps {
        match self {
            Whose::Half(half) => half.maps(),
            Whose::Own { maps, .. } => maps,
        }
    }
}

/// How far the user half has come with the frames of one socket.
pub struct Tickets {
    words: Arc<SharedWords>,
    at: usize,
    /// Tickets given out before the socket was there.
    start: u64,
    told: u64,
}

impl Tickets {
    /// Nothing is left in the user half of the first `count` frames that went to the socket.
    #[inline]
    pub fn done(&mut self, count: u64) {
        let done = self.start + count;
        if done > self.told {
            self.told = done;
            self.words.store(self.at + DONE, done);
        }
    }
}
