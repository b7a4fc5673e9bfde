//! Run-times: prepared representations of code, called with a packet.
//!
//! A [`Runtime`] belongs to one worker. It holds prepared code in slots, runs it on the packet of a [`Scope`] and gives
//! the verdict. It keeps nothing of a packet: the same slot serves all nodes of a simulation. Preparing (compiling,
//! loading) happens elsewhere, in [`Prepare::carry_out`], off the data path.

mod calls;
pub mod engine;
mod guarded;
pub(crate) mod jailed;
mod lent;
pub mod native;
mod native_calls;
pub mod scope;
mod tier;
pub mod traps;
pub mod trusted;
pub mod wasm;

use crate::code::bundle::Kind;
use crate::code::compiler::Lane;
use crate::contract::{VERDICT_DELIVER, VERDICT_DROP, VERDICT_FORWARD};
use crate::core::reason::Reason;
use crate::frame::{Frame, Payer, PortId};
use crate::trust::{PrincipalId, Role};
use crate::wire::Digest;
use scope::Scope;
use std::collections::HashMap;
use std::sync::Arc;
pub use tier::Tier;
use wasm::{CompileError, Compiled, Compiler};

/// Code that a runtime keeps ready at the same time; beyond, the one unused for longest gives way.
pub const SLOTS_MAX: usize = 256;

/// What code says shall happen with its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It ends here.
    Drop,
    /// It goes on to its destination.
    Forward,
    /// It goes to the application at this port, or at the header's when `None`.
    Deliver(Option<u16>),
}

impl Verdict {
    /// Reads what the entry function returned.
    #[inline]
    pub fn from_code(code: i32) -> Result<Verdict, Reason> {
        match code as u32 {
            VERDICT_DROP => Ok(Verdict::Drop),
            VERDICT_FORWARD => Ok(Verdict::Forward),
            VERDICT_DELIVER => Ok(Verdict::Deliver(None)),
            code if code & 0xffff == VERDICT_DELIVER => Ok(Verdict::Deliver(Some((code >> 16) as u16))),
            _ => Err(Reason::Verdict),
        }
    }
}

/// What came of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The verdict, or why there is none.
    pub verdict: Result<Verdict, Reason>,
    /// Steps taken.
    pub steps: u64,
}

/// By which way work has come to the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ingress {
    /// By none: whoever operates the node wants it.
    #[default]
    Node,
    /// By none: the node asks again whether what runs still has its role.
    Review,
    /// By a port, from whom this one pays for: a neighbour that the port knows, or that has proved with its key to have
    /// sent it, is a payer of its own; all others there are one, since addresses can be forged.
    Port(PortId, Payer),
}

impl Ingress {
    /// That of a packet.
    pub fn of(frame: &Frame) -> Ingress {
        if frame.payer == Payer::NOBODY { Ingress::Node } else { Ingress::Port(frame.port, frame.payer) }
    }
}

/// Who causes work: whose turn it takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cause {
    /// The way it has come.
    pub ingress: Ingress,
    /// Who signed it, if that is verified and somebody vouches for him: keys cost nothing, and a thousand that somebody
    /// has invented are one.
    pub principal: Option<PrincipalId>,
}

/// A representation that is to be made ready to run.
pub struct Prepare {
    /// The code's name.
    pub code: Digest,
    /// For whom.
    pub cause: Cause,
    /// With how much effort.
    pub tier: Tier,
    /// Which representation.
    pub kind: Kind,
    /// Its bytes.
    pub bytes: Arc<[u8]>,
    /// Payload bytes in its window.
    pub window: u32,
}

/// A representation made ready to run.
#[derive(Clone)]
pub enum LoadedProgram {
    /// Compiled wasm.
    Wasm(Compiled),
    /// A loaded shared object.
    Native(native::NativeLibrary),
}

/// A program with what one worker needs to run it.
enum Instance {
    Wasm(wasm::Instance),
    Native(native::Instance),
}

impl Prepare {
    /// Makes the representation ready in this process; off the data path.
    pub fn carry_out(&self, compiler: &Compiler) -> Result<LoadedProgram, String> {
        self.carry_out_by(|| compiler.compile(&self.bytes, self.window, self.tier)).map_err(|error| error.to_string())
    }

    /// The same, with a compiler in a jail for wasm.
    pub fn carry_out_in(&self, compiler: &Compiler, lane: &mut Lane) -> Result<LoadedProgram, CompileError> {
        self.carry_out_by(|| compiler.compile_in(lane, &self.bytes, self.window, self.tier))
    }

    fn carry_out_by(
        &self,
        wasm: impl FnOnce() -> Result<Compiled, CompileError>,
    ) -> Result<LoadedProgram, CompileError> {
        match self.kind {
            Kind::Wasm => wasm().map(LoadedProgram::Wasm),
            Kind::Native => {
                let loaded = native::NativeLibrary::load(&self.bytes, self.window);
                loaded.map(LoadedProgram::Native).map_err(CompileError::Native)
            }
            Kind::Bpf => Err(CompileError::Native("the user half runs no bpf".into())),
        }
    }
}

impl LoadedProgram {
    /// Whether a role lets it run: calls and memory.
    pub fn suits(&self, role: &Role) -> Result<(), String> {
        match self {
            LoadedProgram::Wasm(compiled) => compiled.suits(role),
            LoadedProgram::Native(library) => library.suits(role),
        }
    }

    /// What stands for it: the same representation with the same window is prepared alike.
    fn key(&self) -> (Digest, usize) {
        match self {
            LoadedProgram::Wasm(compiled) => (compiled.name(), compiled.window()),
            LoadedProgram::Native(library) => (library.name(), library.window()),
        }
    }

    fn instantiate(&self) -> Option<Instance> {
        match self {
            LoadedProgram::Wasm(compiled) => compiled.instantiate().map(Instance::Wasm),
            LoadedProgram::Native(library) => Some(Instance::Native(library.instantiate())),
        }
    }
}

impl From<Compiled> for LoadedProgram {
    fn from(compiled: Compiled) -> LoadedProgram {
        LoadedProgram::Wasm(compiled)
    }
}

struct Slot {
    program: LoadedProgram,
    instance: Option<Instance>,
    used: u64,
    /// Nodes that have the code installed.
    holders: u32,
}

/// Code ready to run, for one worker.
#[derive(Default)]
pub struct Runtime {
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
    /// By representation and window: two manifests may list one module with different windows.
    by_name: HashMap<(Digest, usize), usize>,
    live: usize,
    clock: u64,
}

/// Prepared code in a [`Runtime`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotId(usize);

impl Runtime {
    /// Takes prepared code; the same representation with the same window always gets the same slot. To
    /// be given back by [`Runtime::release`].
    pub fn install(&mut self, program: impl Into<LoadedProgram>) -> SlotId {
        let program = program.into();
        let name = program.key();
        if let Some(&at) = self.by_name.get(&name) {
            if let Some(slot) = &mut self.slots[at] {
                slot.holders += 1;
            }
            return SlotId(at);
        }
        let slot = Some(Slot { program, instance: None, used: 0, holders: 1 });
        let at = match self.free.pop() {
            Some(at) => {
                self.slots[at] = slot;
                at
            }
            None => {
                self.slots.push(slot);
                self.slots.len() - 1
            }
        };
        self.by_name.insert(name, at);
        SlotId(at)
    }

    /// Lets the same representation run as it was compiled now, from the next packet on; false if it is another one.
    /// The instance there was goes: between two packets nobody uses it.
    pub fn replace(&mut self, id: SlotId, program: LoadedProgram) -> bool {
        let Some(Some(slot)) = self.slots.get_mut(id.0) else { return false };
        if slot.program.key() != program.key() {
            return false;
        }
        slot.program = program;
        self.live -= usize::from(slot.instance.take().is_some());
        true
    }

    /// Gives a slot back; the code goes when nobody holds it any more.
    pub fn release(&mut self, id: SlotId) {
        let Some(place) = self.slots.get_mut(id.0) else { return };
        let Some(slot) = place else { return };
        slot.holders -= 1;
        if slot.holders == 0 {
            self.live -= usize::from(slot.instance.is_some());
            self.by_name.remove(&slot.program.key());
            *place = None;
            self.free.push(id.0);
        }
    }

    /// Runs the code on the packet of `scope`, with at most `steps` steps. What comes of it stays in registers only if this is part of
    /// its caller: written to memory and read at another width, it is waited for.
    #[inline(always)]
    pub fn run(&mut self, id: SlotId, scope: &mut Scope<'_>, steps: u64) -> Outcome {
        self.clock += 1;
        if !matches!(self.slots.get(id.0), Some(Some(Slot { instance: Some(_), .. }))) {
            self.make_ready(id);
        }
        match self.slots.get_mut(id.0) {
            Some(Some(Slot { instance: Some(instance), used, .. })) => {
                *used = self.clock;
                match instance {
                    Instance::Wasm(instance) => instance.run(scope, steps),
                    Instance::Native(instance) => instance.run(scope),
                }
            }
            _ => Outcome { verdict: Err(Reason::CodeRefused), steps: 0 },
        }
    }

    /// Gives code an instance, if the process has room for one.
    #[cold]
    fn make_ready(&mut self, id: SlotId) {
        self.make_room();
        if let Some(Some(slot)) = self.slots.get_mut(id.0) {
            slot.instance = slot.program.instantiate();
            self.live += usize::from(slot.instance.is_some());
        }
    }

    /// Instances alive.
    pub fn live(&self) -> usize {
        self.live
    }

    fn make_room(&mut self) {
        if self.live < SLOTS_MAX {
            return;
        }
        let idle = self.slots.iter_mut().flatten().filter(|slot| slot.instance.is_some());
        if let Some(oldest) = idle.min_by_key(|slot| slot.used) {
            oldest.instance = None;
            self.live -= 1;
        }
    }
}
