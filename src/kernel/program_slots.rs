//! Program slots: places in a map of programs, by which the ingress jumps to the programs of channels. Nobody pins the
//! map.
//!
//! It empties itself when its last holder in user space goes. So its programs end with this process, however that ends,
//! while the ingress outlives it. The kernel patches a jump to an empty slot out of the ingress.
//!
//! The programs are loaded when they are needed first. A thread of its own fills and empties the slots: the verifier
//! takes its time, and so does the kernel, which waits until no packet is on its way through an emptied slot. Until
//! they are filled the user half does all.

use super::own;
use crate::contract;
use crate::sys::bpf::{Map, MapKind, MapShape, Program};
use crate::sys::threads::{self, Duty};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

/// How many there are.
pub const PROGRAM_SLOTS: usize = contract::PROGRAM_SLOTS as usize;

/// The map.
pub(super) const LAYOUT: (&str, MapShape) =
    ("anode_slots", MapShape { kind: MapKind::Programs, key: 4, value: 4, entries: PROGRAM_SLOTS as u32 });

/// The way from the ingress to programs that end with this process: `program_slots_map`.
#[derive(Debug)]
pub struct ProgramSlots {
    map: Map,
    state: Mutex<State>,
    settled: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Whether they are to be open, and whether they are.
    wanted: bool,
    open: bool,
    /// Whether a thread sees to it.
    working: bool,
}

/// What loads the programs.
type Load = Box<dyn Fn() -> io::Result<[Program; PROGRAM_SLOTS]> + Send + Sync>;

/// Programs that are loaded when they are needed first.
pub(super) struct Programs {
    load: Load,
    loaded: OnceLock<[Program; PROGRAM_SLOTS]>,
}

impl Programs {
    pub(super) fn new(load: Load) -> Programs {
        Programs { load, loaded: OnceLock::new() }
    }

    fn get(&self) -> io::Result<&[Program; PROGRAM_SLOTS]> {
        if self.loaded.get().is_none() {
            let loaded = (self.load)()?;
            // Nobody else loads them: one thread at a time sees to the slots.
            let _ = self.loaded.set(loaded);
        }
        self.loaded.get().ok_or_else(|| io::Error::other("they are not there"))
    }
}

impl ProgramSlots {
    /// Empty ones.
    pub(super) fn new() -> io::Result<ProgramSlots> {
        let map = own::map(LAYOUT.0, LAYOUT.1)?;
        Ok(ProgramSlots { map, state: Mutex::default(), settled: Condvar::new() })
    }

    /// Fills them with these programs, or empties them, by and by.
    pub(super) fn set(self: &Arc<ProgramSlots>, wanted: bool, programs: &Arc<Programs>) {
        let mut state = self.state();
        state.wanted = wanted;
        if state.working || state.open == wanted {
            return;
        }
        let (slots, programs) = (self.clone(), programs.clone());
        let work = move || slots.work(&programs);
        match threads::start("anode-slots", Duty::Worker, work) {
            Ok(_) => state.working = true,
            Err(error) => tracing::warn!(%error, "the kernel's programs for channels stay as they are"),
        }
    }

    /// Waits until they are as they are to be.
    pub fn settle(&self) {
        let mut state = self.state();
        while state.working {
            state = self.settled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn work(&self, programs: &Programs) {
        let mut state = self.state();
        while state.wanted != state.open {
            let wanted = state.wanted;
            drop(state);
            if let Err(error) = self.turn(wanted, programs) {
                tracing::warn!(%error, "channels are in user space alone");
            }
            state = self.state();
            state.open = wanted;
        }
        state.working = false;
        self.settled.notify_all();
    }

    fn turn(&self, open: bool, programs: &Programs) -> io::Result<()> {
        if !open {
            // Not there: it was never opened.
            (0..PROGRAM_SLOTS as u32).for_each(|number| drop(self.map.remove(&number.to_ne_bytes())));
            return Ok(());
        }
        // What the first one jumps to comes first.
        for (number, program) in programs.get()?.iter().enumerate().rev() {
            self.map.set(&(number as u32).to_ne_bytes(), &program.as_fd().as_raw_fd().to_ne_bytes())?;
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // What it holds is right between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsFd for ProgramSlots {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}
