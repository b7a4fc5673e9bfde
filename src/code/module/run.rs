//! Runs a module: its main function, and the functions that the library calls for it.

use super::check::{IMPORTED, MAIN, TABLE, find, read};
use super::watch::Watch;
use crate::code::run::traps;
use core::ptr::NonNull;
use libanode::c::module::{self, Bound, Fault, OWN_BYTES, Value};
use std::ffi::OsString;
use wasmtime::{
    AsContextMut as _, Caller, Config, Engine, FuncType, Linker, Memory, Module, OptLevel, Ref, Store, StoreLimits,
    StoreLimitsBuilder, Table, Trap, Val, ValType, WasmBacktrace,
};

/// The first argument by which this program knows that it is to run a module.
pub const ARGUMENT: &str = "module-as-process";

/// Bytes of a page of WebAssembly.
const PAGE: usize = 1 << 16;

/// Functions of a module's table.
const TABLE_MAX: usize = 1 << 16;

/// What no function waits for.
const FOREVER: u64 = u64::MAX / 2;

/// What belongs to a running module.
struct State {
    limits: StoreLimits,
    memory: Option<Memory>,
    table: Option<Table>,
    watch: Watch,
    /// Functions that are watched and run.
    watched: usize,
    /// Why one of its functions has failed.
    failure: Option<wasmtime::Error>,
}

/// A module that calls.
struct Calling<'a>(Caller<'a, State>);

/// Runs the module that the words behind [`ARGUMENT`] name: the milliseconds of a function, the bytes of its memory, its path, and
/// what its main function gets behind that. Gives its status.
pub fn run(words: impl Iterator<Item = OsString>) -> Result<i32, String> {
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let [milliseconds, memory, path, ..] = &words[..] else {
        return Err(format!("{ARGUMENT}: MILLISECONDS BYTES FILE, and what its main function gets"));
    };
    let number = |word: &str| word.parse::<u64>().map_err(|_| format!("{ARGUMENT}: '{word}' is no number"));
    let (milliseconds, memory) = (number(milliseconds)?, number(memory)?);
    let bytes = read(path)?;
    module::begin();
    let failed = |error: wasmtime::Error| format!("{path}: {}", in_words(&error, milliseconds));
    let (mut store, main) = set_up(&bytes, milliseconds, memory).map_err(failed)?;
    let (count, pointers) = hand_over(&mut store, &words[2..]).map_err(failed)?;
    let mut status = [Val::I32(0)];
    let done = main.call(&mut store, &[Val::I32(count), Val::I32(pointers)], &mut status);
    done.map(|()| status[0].i32().unwrap_or(0)).map_err(failed)
}

/// A module that is ready, and its main function.
fn set_up(bytes: &[u8], milliseconds: u64, memory: u64) -> wasmtime::Result<(Store<State>, wasmtime::Func)> {
    let mut config = Config::new();
    config.wasm_relaxed_simd(false).cranelift_nan_canonicalization(true).cranelift_opt_level(OptLevel::Speed);
    // Addresses that calls were given stay good when it grows.
    config.epoch_interruption(true).memory_init_cow(false).memory_may_move(false);
    let engine = Engine::new(&config)?;
    let module = Module::new(&engine, bytes)?;
    let most = usize::try_from(memory).unwrap_or(usize::MAX).saturating_add(OWN_BYTES).min(1 << 30);
    let limits =
        StoreLimitsBuilder::new().memory_size(most).table_elements(TABLE_MAX).memories(1).tables(1).instances(1);
    let watch = Watch::start(&engine, milliseconds)?;
    let state = State { limits: limits.build(), memory: None, table: None, watch, watched: 0, failure: None };
    let mut store = Store::new(&engine, state);
    store.limiter(|state| &mut state.limits);
    store.set_epoch_deadline(FOREVER);
    let instance = linked(&engine, &module)?.instantiate(&mut store, &module)?;
    store.data_mut().memory = instance.get_memory(&mut store, "memory");
    store.data_mut().table = instance.get_table(&mut store, TABLE);
    if let Some(begin) = instance.get_func(&mut store, "_initialize") {
        begin.call(&mut store, &[], &mut [])?;
    }
    let main = MAIN.iter().find_map(|name| instance.get_func(&mut store, name));
    Ok((store, main.ok_or_else(|| wasmtime::Error::msg("it exports no main"))?))
}

/// The calls that it imports.
fn linked(engine: &Engine, module: &Module) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    for import in module.imports() {
        let bound = Bound::of(find(import.name()).map_err(wasmtime::Error::msg)?);
        let takes = bound.takes().map(|wide| if wide { ValType::I64 } else { ValType::I32 });
        let gives = bound.gives().then_some(ValType::I32);
        let of = FuncType::new(engine, takes, gives);
        // Several imports of one call are one function.
        linker.allow_shadowing(true);
        linker
            .func_new(IMPORTED, import.name(), of, move |caller, given, result| call(&bound, caller, given, result))?;
    }
    Ok(linker)
}

/// Carries out a call.
fn call(bound: &Bound, caller: Caller<'_, State>, given: &[Val], result: &mut [Val]) -> wasmtime::Result<()> {
    if caller.data().memory.is_none() {
        return Err(wasmtime::Error::msg("a call before all is set up"));
    }
    let mut values = [0; 16];
    for (value, given) in values.iter_mut().zip(given) {
        *value = match given {
            Val::I64(given) => *given as u64,
            given => u64::from(given.i32().unwrap_or(0) as u32),
        };
    }
    let mut module = Calling(caller);
    match bound.carry_out(&mut module, &values[..given.len()]) {
        Ok(value) => {
            result.iter_mut().for_each(|result| *result = Val::I32(value as i32));
            Ok(())
        }
        Err(Fault::Address) => Err(wasmtime::Error::msg("a call that was given an address outside its memory")),
        Err(Fault::Failed) => {
            let failure = module.0.data_mut().failure.take();
            Err(failure
                .unwrap_or_else(|| wasmtime::Error::msg("there was no memory left for what a function is given")))
        }
    }
}

impl module::Module for Calling<'_> {
    fn memory(&mut self) -> (NonNull<u8>, usize) {
        match self.0.data().memory {
            Some(memory) => {
                (NonNull::new(memory.data_ptr(&self.0)).unwrap_or(NonNull::dangling()), memory.data_size(&self.0))
            }
            None => (NonNull::dangling(), 0),
        }
    }

    fn grow(&mut self, bytes: u32) -> Option<u32> {
        let memory = self.0.data().memory?;
        let pages = memory.grow(&mut self.0, (bytes as usize).div_ceil(PAGE) as u64).ok()?;
        u32::try_from(pages * PAGE as u64).ok()
    }

    fn call(&mut self, function: u32, values: &[Value], watched: bool) -> Option<u32> {
        let done = self.run(function, values, watched);
        done.map_err(|error| self.0.data_mut().failure = Some(error)).ok()
    }
}

impl Calling<'_> {
    fn run(&mut self, function: u32, values: &[Value], watched: bool) -> wasmtime::Result<u32> {
        let table = self.0.data().table.ok_or_else(|| wasmtime::Error::msg("it has no table"))?;
        let Some(Ref::Func(Some(function))) = table.get(&mut self.0, function.into()) else {
            return Err(wasmtime::Error::msg("a function that was named by an address of none"));
        };
        let mut given = [const { Val::I32(0) }; 8];
        for (given, value) in given.iter_mut().zip(values) {
            *given = match value {
                Value::I32(value) => Val::I32(*value as i32),
                Value::I64(value) => Val::I64(*value as i64),
            };
        }
        // Only a list of keys is asked for more.
        let results = function.ty(&self.0).results().len();
        let mut result = [const { Val::I32(0) }; 1];
        let result_of = result.get_mut(..results).ok_or_else(|| wasmtime::Error::msg("a function of another type"))?;
        if watched {
            self.watch();
        }
        let done = function.call(&mut self.0, &given[..values.len()], result_of);
        if watched {
            self.unwatch();
        }
        done.map(|()| result[0].i32().unwrap_or(0) as u32)
    }

    /// A function begins that may work for so long; what it has called in its turn has no more.
    fn watch(&mut self) {
        let state = self.0.data_mut();
        state.watched += 1;
        if state.watched == 1 {
            let ticks = state.watch.begin();
            self.0.as_context_mut().set_epoch_deadline(ticks);
        }
    }

    fn unwatch(&mut self) {
        let state = self.0.data_mut();
        state.watched -= 1;
        if state.watched == 0 {
            state.watch.end();
            self.0.as_context_mut().set_epoch_deadline(FOREVER);
        }
    }
}

/// Puts the words of main into new memory: how many, and where their addresses are.
fn hand_over(store: &mut Store<State>, words: &[String]) -> wasmtime::Result<(i32, i32)> {
    let memory = store.data().memory.ok_or_else(|| wasmtime::Error::msg("it has no memory"))?;
    let texts: usize = words.iter().map(|word| word.len() + 1).sum();
    let addresses = (words.len() + 1) * 4;
    let first = memory.grow(&mut *store, (addresses + texts).div_ceil(PAGE) as u64)? as usize * PAGE;
    let (mut at, mut text) = (first, first + addresses);
    for word in words {
        memory.write(&mut *store, at, &(text as u32).to_le_bytes())?;
        memory.write(&mut *store, text, word.as_bytes())?;
        (at, text) = (at + 4, text + word.len() + 1);
    }
    Ok((words.len() as i32, first as i32))
}

/// Why a module has failed, and in which of its functions.
fn in_words(error: &wasmtime::Error, milliseconds: u64) -> String {
    let why = match error.downcast_ref::<Trap>() {
        Some(Trap::Interrupt) => format!("a function has run for longer than {milliseconds} ms"),
        Some(_) => traps::kind(error).into(),
        None => error.root_cause().to_string(),
    };
    let Some(trace) = error.downcast_ref::<WasmBacktrace>() else { return why };
    let name = |frame: &wasmtime::FrameInfo| {
        frame.func_name().map_or_else(|| format!("function {}", frame.func_index()), str::to_owned)
    };
    let places: Vec<_> = trace.frames().iter().take(4).map(name).collect();
    if places.is_empty() { why } else { format!("{why}, in {}", places.join(" of ")) }
}
