//! The codes of the kernel half, from linking and verification to their removal.

use super::error::{CODE_MAX, LoadError};
use super::half::{KernelHalf, Pinned, State};
use super::loader::Wanted;
use super::maps::{CodeEntry, Maps};
use super::pins::state_of;
use super::slots::{Held, NoSlot, Stage, made_of};
use super::state::CodeState;
use crate::code::bundle::Program as Code;
use crate::code::link::{self, Constants};
use crate::contract::CHILDREN;
use crate::sys::bpf::Program;
use crate::trust::CodeForm;
use crate::trust::limits::Limits;
use crate::wire::Digest;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// Nanoseconds that an instruction takes at most, calls of the linker's included. No way through a program is longer than what the verifier
/// goes through.
const INSTRUCTION_NS: u32 = 50;

impl KernelHalf {
    /// Codes that run here since a process that has gone.
    pub fn adopted(&self) -> Vec<Digest> {
        let state = self.state();
        let adopted = state.slots.iter().filter(|held| matches!(held.stage, Stage::Adopted(_)));
        adopted.map(|held| held.entry.name).collect()
    }

    /// Codes that ran in the set whose place this one takes, and have not come here yet.
    pub fn inherited(&self) -> Vec<Digest> {
        self.state().inherited.keys().copied().collect()
    }

    /// Nanoseconds that one packet of a code can take here, by what the verifier has gone through.
    pub fn most_ns(&self, name: &Digest) -> Option<u32> {
        let slot = self.state().slots.of(name)?.entry.slot;
        self.maps.most_of(slot).ok()
    }

    /// Makes ready what the first code needs.
    pub fn warm_up(&self) -> io::Result<()> {
        self.loader.start()
    }

    /// Links and loads code in a form; it may use `limits`. Its capsules run here from [`KernelHalf::activate`] on.
    /// Gives its soft state.
    pub fn add_code(
        &self,
        name: &Digest,
        code: &Code,
        window: u32,
        form: CodeForm,
        limits: &Limits,
    ) -> Result<Arc<CodeState>, LoadError> {
        if sends(code) && limits.children_per_packet > CHILDREN {
            return Err(LoadError::TooManyChildren(limits.children_per_packet));
        }
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
                let mut state = self.state();
                state.slots.set(held);
                state.inherited.remove(name);
                Ok(kept)
            }
            Err(error) => {
                self.remove_code(name)?;
                Err(error)
            }
        }
    }

    /// Makes the program and the state of a code, unless it has just these.
    fn make(
        &self,
        held: Held,
        code: &Code,
        form: CodeForm,
        limits: &Limits,
    ) -> Result<(Held, Arc<CodeState>), LoadError> {
        // Until somebody says what its edits are, there are none: what was wished for here was another code's, or by numbers of another
        // process.
        self.accounts.slot(held.entry.slot).forget_wishes();
        let (entries, keep_ms) = (limits.state_entries, keep_ms(limits));
        let before = match &held.stage {
            Stage::Adopted(map) => CodeState::adopt(map.try_clone()?, entries, keep_ms).ok().map(Arc::new),
            _ => None,
        };
        let inherited = self.state().inherited_state(&held.entry.name)?;
        let inherited = inherited.and_then(|map| CodeState::adopt(map, entries, keep_ms).ok());
        let kept = match (&before, inherited) {
            (Some(kept), _) => kept.clone(),
            (None, Some(kept)) => Arc::new(kept),
            (None, None) => Arc::new(CodeState::create(entries, keep_ms)?),
        };
        let (slot, window) = (held.entry.slot, held.entry.window.into());
        let (sets, keep_ms, children) = (kept.sets(), kept.keep_ms(), limits.children_per_packet);
        let constants = Constants { slot, window, sets, keep_ms, children };
        let linked = link::link(&self.environment, code, constants)?;
        self.set_sender(&held.entry.name, sends(code))?;
        let entry = CodeEntry { made_of: made_of(&linked, form), ..held.entry };
        let spent = self.accounts.slot(entry.slot).user();
        let rates = rates(limits);
        // Of adopted code it is known from before.
        self.maps.set_budget(entry.slot, rates, spent, self.maps.most_of(entry.slot)?)?;
        if before.is_some() && entry == held.entry {
            let (verified, most) = (self.maps.most_of(entry.slot)? / INSTRUCTION_NS, limits.verified_instructions);
            if verified > most {
                return Err(LoadError::TooCostly(verified, most));
            }
            return Ok((Held { entry, stage: Stage::Runs }, kept));
        }
        let program = self.load(code, constants, &linked.maps, form, &kept)?;
        let (verified, most) = (program.info()?.verified, limits.verified_instructions);
        if verified > most {
            return Err(LoadError::TooCostly(verified, most));
        }
        self.maps.set_budget(entry.slot, rates, spent, verified.saturating_mul(INSTRUCTION_NS))?;
        if !matches!(held.stage, Stage::Adopted(_)) {
            self.maps.clear_usage(entry.slot)?;
        }
        if let Some(pinned) = &self.pinned {
            pinned.set.keep(&state_of(&entry.name), &*kept)?;
        }
        self.maps.set_program(entry.slot, &program)?;
        Ok((Held { entry, stage: Stage::Loaded }, kept))
    }

    /// Has the loader link code too and the kernel verify it: that of sandboxed code for somebody who may not read kernel memory.
    fn load(
        &self,
        code: &Code,
        constants: Constants,
        maps: &[String],
        form: CodeForm,
        state: &CodeState,
    ) -> io::Result<Program> {
        let map = |name: &String| if name == "state_map" { Ok(state.as_fd()) } else { self.maps.descriptor(name) };
        let maps = maps.iter().map(map).collect::<io::Result<Vec<BorrowedFd<'_>>>>()?;
        let wanted = Wanted { code: code.encode(), constants, maps };
        match form {
            CodeForm::Sandboxed => self.loader.load(&wanted),
            CodeForm::Trusted => self.trusted.load(&wanted),
        }
    }

    /// Lets the capsules of loaded code run here.
    pub fn activate(&self, name: &Digest) -> io::Result<()> {
        let mut state = self.state();
        let Some(Held { entry, stage: Stage::Loaded }) = state.slots.of(name).cloned() else { return Ok(()) };
        state.slots.set(Held { entry, stage: Stage::Runs });
        self.show(&state, &entry)
    }

    /// Code that is here has this budget from now on; its bucket begins full.
    pub fn set_limits(&self, name: &Digest, limits: &Limits) -> io::Result<()> {
        let state = self.state();
        let Some(held) = state.slots.of(name) else { return Ok(()) };
        let slot = held.entry.slot;
        self.maps.set_budget(slot, rates(limits), self.accounts.slot(slot).user(), self.maps.most_of(slot)?)
    }

    /// Takes code out: its capsules run in the user half, if there.
    pub fn remove_code(&self, name: &Digest) -> io::Result<()> {
        let mut state = self.state();
        state.inherited.remove(name);
        let Some(Held { entry, .. }) = state.slots.take(name) else { return Ok(()) };
        self.show(&state, &entry)?;
        self.maps.remove_program(entry.slot)?;
        if let Some(pinned) = &self.pinned {
            pinned.set.forget(&state_of(name))?;
        }
        state.slots.release(entry.slot);
        drop(state);
        self.set_sender(name, false)
    }

    /// Tells what is at the place of a code now, then that there is something behind those before it, or not any more.
    /// Known flows do not depend on codes.
    pub(super) fn show(&self, state: &State, entry: &CodeEntry) -> io::Result<()> {
        std::iter::once(entry.place).chain(entry.way()).try_for_each(|place| {
            let (code, passed) = state.slots.view(place);
            self.maps.set_code(place, code, passed)
        })
    }
}

/// For how long soft state is kept at most: the smallest map has some entries, which hold nothing of a role without any.
fn keep_ms(limits: &Limits) -> u32 {
    if limits.state_entries == 0 { 0 } else { limits.keep_ms_max }
}

/// What a budget gains a second: packets, nanoseconds.
fn rates(limits: &Limits) -> [u64; 2] {
    [limits.packets_per_second, limits.kernel_us_per_second.saturating_mul(1000)]
}

/// Whether code sends children.
fn sends(code: &Code) -> bool {
    code.symbols.iter().any(|symbol| symbol == "an_send")
}

/// The codes that a process before this one has left, each with its state; and those that have none and must go.
pub(super) fn adopt_codes(maps: &Maps, pinned: Option<&Pinned>) -> io::Result<(Vec<Held>, Vec<CodeEntry>)> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_without_entries_keeps_nothing_in_the_smallest_map() {
        let limits = Limits { keep_ms_max: 7, ..Limits::default() };
        assert_eq!((keep_ms(&limits), keep_ms(&Limits { state_entries: 0, ..limits })), (7, 0));
    }
}
