//! The wasm run-time: wasmtime, pooled, with fuel for every step and epochs as the backstop.
//!
//! Code is compiled once per representation, off the data path, into a [`Compiled`]; a worker makes that an instance
//! and runs packets through it. An instance is used again and again. So after each packet its memory gets its first
//! contents back and its globals their first values: a packet cannot see earlier ones. Memories are a few hundred bytes
//! (one-byte wasm pages), so this costs about as much as one cache miss.

#![allow(unsafe_code)]

use super::calls;
use super::guarded::{self, Guarded};
use super::lent::Lent;
use super::scope::{RunPacket, Scope};
use super::{Outcome, Tier, Verdict, engine, traps};
use crate::abi::CONTEXT;
use crate::code::check::{self, WasmFacts};
use crate::code::compiler::{Failure, Job, Lane, Purpose};
use crate::core::reason::Reason;
use crate::trust::Role;
use crate::wire::{Addr, Digest, capsule};
use core::fmt;
use core::ops::Range;
use core::ptr::NonNull;
use std::sync::Arc;
use wasmtime::{
    Engine, Global, InstanceAllocationStrategy, InstancePre, Linker, Memory, Module, Mutability,
    PoolingAllocationConfig, Store, TypedFunc, Val,
};

/// Steps charged for a failure, since raising one costs the node far more than the steps before it.
const TRAP_STEPS: u64 = 5_000;

/// Epoch ticks after which running code is stopped: the ticker's period times this is the longest a
/// packet can hold the worker, whatever its fuel says.
const EPOCHS_MAX: u64 = 2;

/// Instances one process can have at the same time, over all its runtimes.
const INSTANCES_MAX: u32 = 1024;

/// Whether a clock watches running code beside its fuel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backstop {
    /// A ticker calls [`Compiler::tick`] every few milliseconds.
    Ticker,
    /// Fuel alone: for simulations, where the same seed must give the same run.
    FuelOnly,
}

/// Why code cannot be used.
#[derive(Debug)]
pub enum CompileError {
    /// It breaks a rule of `docs/bundle.md`.
    Refused(check::Refusal),
    /// The compiler does not take it.
    Compiler(wasmtime::Error),
    /// The compiler in a jail does not take it, or there is none.
    Jailed(Failure),
    /// It is no wasm and cannot be loaded.
    Native(String),
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompileError::Refused(refusal) => write!(f, "{refusal}"),
            CompileError::Compiler(error) => write!(f, "the wasm compiler refuses the module: {error:#}"),
            CompileError::Jailed(failure) => write!(f, "{failure}"),
            CompileError::Native(why) => f.write_str(why),
        }
    }
}

impl core::error::Error for CompileError {}

/// Compiles representations; cheap to clone, and used from any thread.
#[derive(Clone)]
pub struct Compiler {
    /// Code that is to be ready soon, and code that cannot be rewritten for the other.
    pooled: Home,
    /// Optimised code, whose memories end where nothing is mapped.
    guarded: Home,
    ticked: bool,
}

/// Where compiled code runs: an engine, and the calls that code gets there.
#[derive(Clone)]
struct Home {
    engine: Engine,
    linker: Arc<Linker<Guest>>,
}

impl Home {
    fn new(config: &wasmtime::Config) -> wasmtime::Result<Home> {
        let engine = Engine::new(config)?;
        let mut linker = Linker::new(&engine);
        calls::link(&mut linker)?;
        Ok(Home { engine, linker: Arc::new(linker) })
    }
}

/// A compiled representation, linked to the calls it needs.
#[derive(Clone)]
pub struct Compiled {
    name: Digest,
    window: usize,
    tier: Tier,
    ticked: bool,
    sets_globals: bool,
    writes: bool,
    /// The calls it imports.
    symbols: Arc<[&'static str]>,
    memory_bytes: u32,
    pre: InstancePre<Guest>,
}

/// What a call finds of the packet it belongs to.
#[derive(Default)]
pub(super) struct Guest {
    pub(super) memory: Option<Memory>,
    pub(super) window: Range<usize>,
}

impl Compiler {
    /// A compiler with an engine of its own.
    pub fn new(backstop: Backstop) -> wasmtime::Result<Compiler> {
        let ticked = backstop == Backstop::Ticker;
        let mut pool = PoolingAllocationConfig::default();
        pool.total_core_instances(INSTANCES_MAX).total_memories(INSTANCES_MAX).total_tables(INSTANCES_MAX);
        pool.max_memory_size(check::MEMORY_MAX as usize).max_memories_per_module(1).max_tables_per_module(1);
        pool.linear_memory_keep_resident(check::MEMORY_MAX as usize).table_keep_resident(4096);
        let mut config = engine::capsule(ticked, Tier::Fast);
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
        let mut optimising = engine::capsule(ticked, Tier::Optimised);
        optimising.with_host_memory(Guarded::new(INSTANCES_MAX));
        Ok(Compiler { pooled: Home::new(&config)?, guarded: Home::new(&optimising)?, ticked })
    }

    /// Checks and compiles a representation whose window shows `window` bytes of payload, in this process: for simulations, tests and
    /// authors. A node has strangers' code compiled elsewhere ([`Compiler::compile_in`]).
    pub fn compile(&self, wasm: &[u8], window: u32, tier: Tier) -> Result<Compiled, CompileError> {
        let optimiser = &self.guarded.engine;
        self.compile_by(wasm, window, tier, |module| match tier {
            Tier::Fast => self.pooled.engine.precompile_module(module).map_err(CompileError::Compiler),
            Tier::Optimised => optimiser.precompile_module(module).map_err(CompileError::Compiler),
        })
    }

    /// The same by a compiler in a jail.
    pub fn compile_in(&self, lane: &mut Lane, wasm: &[u8], window: u32, tier: Tier) -> Result<Compiled, CompileError> {
        self.compile_by(wasm, window, tier, |module| {
            let job = Job { purpose: Purpose::Capsule(tier), module };
            lane.compile(&job).map(|output| output.artifact).map_err(CompileError::Jailed)
        })
    }

    fn compile_by(
        &self,
        wasm: &[u8],
        window: u32,
        tier: Tier,
        compiled: impl FnOnce(&[u8]) -> Result<Vec<u8>, CompileError>,
    ) -> Result<Compiled, CompileError> {
        let facts = check::wasm(wasm, window).map_err(CompileError::Refused)?;
        let rewritten = if tier == Tier::Optimised { guarded::rewritten(wasm, &facts) } else { None };
        let home = if rewritten.is_some() { &self.guarded } else { &self.pooled };
        let artifact = compiled(rewritten.as_deref().unwrap_or(wasm))?;
        // SAFETY: what must be trusted is that these bytes are what wasmtime's compiler makes of a valid module, for they become machine
        // code of this process. They come from it in this process, and nobody has had them since; or from a process that was forked for
        // these bytes of wasm alone, from a server that had looked at no module, and whose output nobody could write when it was
        // read. So a module can falsify nobody's code but its own, and only by a fault of the compiler: then it has what native code
        // has, wherever the compiler is.
        let module = unsafe { Module::deserialize(&home.engine, artifact) }.map_err(CompileError::Compiler)?;
        self.link(wasm, window, tier, &facts, (home, &module))
    }

    fn link(
        &self,
        wasm: &[u8],
        window: u32,
        tier: Tier,
        facts: &WasmFacts,
        (home, module): (&Home, &Module),
    ) -> Result<Compiled, CompileError> {
        let pre = home.linker.instantiate_pre(module).map_err(CompileError::Compiler)?;
        Ok(Compiled {
            name: Digest::of(wasm),
            window: window as usize,
            tier,
            ticked: self.ticked,
            sets_globals: facts.sets_globals,
            writes: facts.sets_globals || facts.writes_memory,
            symbols: facts.imports.iter().map(|symbol| symbol.name).collect(),
            memory_bytes: facts.memory_bytes,
            pre,
        })
    }

    /// One tick of the backstop.
    pub fn tick(&self) {
        self.pooled.engine.increment_epoch();
        self.guarded.engine.increment_epoch();
    }
}

impl Compiled {
    /// The digest of the representation.
    pub fn name(&self) -> Digest {
        self.name
    }

    /// Payload bytes in its window.
    pub fn window(&self) -> usize {
        self.window
    }

    /// With how much effort it was compiled.
    pub fn tier(&self) -> Tier {
        self.tier
    }

    /// Whether a role includes the calls it imports and the memory it needs.
    pub fn suits(&self, role: &Role) -> Result<(), String> {
        role.check_symbols(self.symbols.iter().copied()).map_err(|error| format!("wasm: {error}"))?;
        let most = role.limits.memory_bytes;
        if self.memory_bytes > most {
            let (needs, name) = (self.memory_bytes, &role.name);
            return Err(format!("wasm: it needs {needs} bytes of memory, the role {name} has {most}"));
        }
        Ok(())
    }

    /// Makes it ready to run, or nothing if the process has no room for another instance.
    pub(super) fn instantiate(&self) -> Option<Instance> {
        let mut store = Store::new(self.pre.module().engine(), Guest::default());
        // Constant expressions and segments run now; they take no fuel worth bounding.
        store.set_fuel(u64::MAX).ok()?;
        if self.ticked {
            store.set_epoch_deadline(u64::MAX / 2);
        }
        let instance = self.pre.instantiate(&mut store).ok()?;
        let entry = instance.get_typed_func::<(u32, u32), i32>(&mut store, "capsule").ok()?;
        let memory = instance.get_memory(&mut store, "memory")?;
        let arena = instance.get_global(&mut store, "an_arena")?.get(&mut store).i32()? as u32 as usize;
        let exported: Vec<Global> = instance.exports(&mut store).filter_map(|export| export.into_global()).collect();
        let mut globals = Vec::new();
        for global in exported {
            if self.sets_globals && global.ty(&store).mutability() == Mutability::Var {
                globals.push((global, global.get(&mut store)));
            }
        }
        let image: Box<[u8]> = memory.data(&store).into();
        let window_at = arena.checked_add(CONTEXT)?;
        let window = window_at..window_at.checked_add(capsule::HEADER - capsule::LOCKED + self.window)?;
        if window.end > image.len() {
            return None;
        }
        *store.data_mut() = Guest { memory: Some(memory), window: window.clone() };
        let memory = FixedMemory::of(memory, self.memory_bytes as usize, &store)?;
        let (writes, ticked) = (self.writes, self.ticked);
        Some(Instance { store, entry, memory, globals, image, arena, window, writes, ticked })
    }
}

/// The memory of an instance, found once: it never moves and never changes its size.
struct FixedMemory {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the bytes belong to the store beside which this is kept, in an `Instance`; a store may go from thread to thread.
unsafe impl Send for FixedMemory {}

impl FixedMemory {
    fn of(memory: Memory, bytes: usize, store: &Store<Guest>) -> Option<FixedMemory> {
        // The check has refused every module whose memory can grow; wasmtime moves memories only then.
        let fixed = memory.data_size(store) == bytes;
        let start = NonNull::new(memory.data_ptr(store))?;
        fixed.then_some(FixedMemory { start, length: bytes })
    }

    /// The bytes, between two calls of the code.
    #[inline]
    fn bytes<'a>(&'a mut self, _store: &'a mut Store<Guest>) -> &'a mut [u8] {
        // SAFETY: `of` took pointer and length from a memory of this store that can neither grow nor move; the store lives,
        // and nobody else reads or writes through it, as long as it is borrowed for the slice.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

/// Code ready for packets.
pub(super) struct Instance {
    store: Store<Guest>,
    entry: TypedFunc<(u32, u32), i32>,
    memory: FixedMemory,
    globals: Vec<(Global, Val)>,
    image: Box<[u8]>,
    arena: usize,
    window: Range<usize>,
    /// Whether it can change its memory or a global at all.
    writes: bool,
    ticked: bool,
}

impl Instance {
    /// Runs the code on the packet of `scope`.
    #[inline(always)]
    pub(super) fn run(&mut self, scope: &mut Scope<'_>, steps: u64) -> Outcome {
        if !place(self.memory.bytes(&mut self.store), self.arena, &self.window, scope.packet) {
            return Outcome { verdict: Err(Reason::Window), steps: 0 };
        }
        let fuelled = self.store.set_fuel(steps).is_ok();
        debug_assert!(fuelled);
        if self.ticked {
            self.store.set_epoch_deadline(EPOCHS_MAX);
        }
        let arguments = (self.arena as u32, self.window.start as u32);
        let lent = Lent::new(scope, &mut []);
        let returned = self.entry.call(&mut self.store, arguments);
        drop(lent);
        let taken = steps - self.store.get_fuel().unwrap_or(0).min(steps);
        let (verdict, taken) = match returned {
            Ok(code) => (Verdict::from_code(code), taken),
            Err(error) => {
                traps::note(scope, &error);
                // When the stack ends depends on how much of it the tier's code takes; the steps charged must not.
                let taken = if traps::is_stack(&error) { steps } else { taken };
                (Err(traps::reason(&error)), taken + TRAP_STEPS)
            }
        };
        if self.writes {
            let memory = self.memory.bytes(&mut self.store);
            if matches!(verdict, Ok(Verdict::Forward | Verdict::Deliver(_))) {
                let end = capsule::LOCKED + self.window.len();
                scope.packet.frame.bytes_mut()[capsule::LOCKED..end].copy_from_slice(&memory[self.window.clone()]);
            }
            self.reset();
        }
        Outcome { verdict, steps: taken }
    }

    /// Gives memory and globals their first contents back: nothing of a packet stays. (Code that writes to neither sees
    /// context and window of its packet and first contents beside them without that.)
    #[inline]
    fn reset(&mut self) {
        self.memory.bytes(&mut self.store).copy_from_slice(&self.image);
        for (global, first) in &self.globals {
            let restored = global.set(&mut self.store, *first);
            debug_assert!(restored.is_ok());
        }
    }
}

/// Puts context and window where the code expects them.
#[inline]
fn place(memory: &mut [u8], arena: usize, window: &Range<usize>, packet: &RunPacket) -> bool {
    let source = packet.window();
    if source.len() != window.len() {
        return false;
    }
    let context = memory.get_mut(arena..).and_then(|arena| arena.first_chunk_mut());
    let Some(context) = context else { return false };
    packet.write_context(context);
    memory[window.clone()].copy_from_slice(source);
    true
}

const _: () = assert!(capsule::HEADER - capsule::LOCKED == 2 * size_of::<Addr>());
