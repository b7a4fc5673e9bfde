//! What is ready to be called: a module with its memory, or a shared object ([`super::native`]), and the buffer by which values go there
//! and back.
//!
//! A function finds its arguments in the buffer and gets their length. It leaves its result there and returns the length, or a negative
//! number for what it raises. Of the node it reaches what is in [`super::imports`], and of other modules the calls that it was linked with.
//! Each call has its fuel, what others do for it included. One that fails leaves the module as it was then, and it can be called again.

use super::built_in::{ASKING, CallOrigin, Desk, Work};
pub use super::given::BUFFER;
pub use super::given::CallFailure;
use super::given::{self, Buffer, FAILED, Host, PASSING, REFUSED, length_of};
use super::native::NativeInstance;
use std::sync::{Arc, Mutex, PoisonError};
use wasmtime::{Caller, Config, Engine, Linker, Module, Store, StoreLimitsBuilder, TypedFunc, bail};

/// Bytes of a module's memory.
const MEMORY_MAX: usize = 1 << 20;

/// Functions of a module's table.
const TABLE_MAX: usize = 1024;

/// Fuel of setting an instance up.
const START_FUEL: u64 = 1_000_000;

/// Bytes of stack of each module that is on the way of a call.
const STACK: usize = 128 << 10;

/// A call of another module: under which names the module imports it, and which it is there.
pub struct CallLink {
    /// The other one's name.
    pub extension: String,
    /// The call's name.
    pub call: String,
    /// The other one.
    pub instance: SharedInstance,
    /// The number of the call there.
    pub at: usize,
}

/// An instance that several modules call. None of them is called by it, so nobody waits for himself.
pub type SharedInstance = Arc<Mutex<Instance>>;

/// What a module exports: the global with the address of its buffer, and its functions.
pub struct Exports<'a> {
    /// The global's name.
    pub buffer: &'static str,
    /// The functions' names.
    pub calls: &'a [&'a str],
}

/// An extension that is ready to be called, or a service.
pub enum Instance {
    /// A module.
    Module(Box<ModuleInstance>),
    /// A shared object.
    Native(NativeInstance),
    /// What every node has.
    BuiltIn(BuiltInInstance),
}

/// An extension of every node, as one that needs it calls it, or as operators do.
pub struct BuiltInInstance {
    /// What its calls do.
    pub works: &'static [Work],
    /// The name of who calls.
    pub whose: String,
    /// Who works for it; nobody for packets.
    pub desk: Option<Arc<Desk>>,
}

/// A module that is ready.
pub struct ModuleInstance {
    store: Store<Host>,
    calls: Vec<TypedFunc<u32, i32>>,
    buffer: Buffer,
}

/// The configuration of the engine: that of services, with a stack for each of several modules that call each other.
pub fn config() -> Config {
    let mut config = crate::code::run::engine::service();
    config.max_wasm_stack(STACK);
    config
}

impl Instance {
    /// Sets a module up; the error says what is wrong with it.
    pub fn new(
        engine: &Engine,
        module: &Module,
        exports: &Exports<'_>,
        links: Vec<CallLink>,
    ) -> Result<Instance, String> {
        let made = ModuleInstance::of(engine, module, exports, links);
        made.map(|made| Instance::Module(Box::new(made))).map_err(|error| format!("{error:#}"))
    }

    /// Bytes of memory that are counted for it.
    pub fn bytes(&self) -> u64 {
        match self {
            Instance::Module(module) => module.bytes(),
            Instance::Native(native) => native.bytes(),
            Instance::BuiltIn(_) => 0,
        }
    }

    /// Calls a function: takes its arguments out of `exchange` and puts its result in; gives how much fuel that took.
    pub fn call(
        &mut self,
        at: usize,
        around: (u64, u64),
        fuel: u64,
        exchange: &mut Vec<u8>,
    ) -> (Result<(), CallFailure>, u64) {
        match self {
            Instance::Module(module) => module.call(at, around, fuel, exchange),
            Instance::Native(native) => native.call(at, around, fuel, exchange),
            Instance::BuiltIn(built_in) => built_in.call(at, fuel, exchange),
        }
    }
}

impl BuiltInInstance {
    /// Refuses at once where no operator's call is under way.
    fn call(&self, at: usize, fuel: u64, exchange: &mut Vec<u8>) -> (Result<(), CallFailure>, u64) {
        let Some(desk) = self.desk.as_ref().filter(|desk| desk.is_open()) else {
            return (Err(CallFailure::Raised(REFUSED)), 0);
        };
        if fuel < ASKING {
            return (Err(CallFailure::Fuel), fuel);
        }
        let Some(work) = self.works.get(at) else { return (Err(CallFailure::Broken), 0) };
        let origin = CallOrigin { whose: &self.whose, desk };
        let given = match desk.answer(|| work(&origin, exchange)) {
            Ok(result) if result.len() > BUFFER => Err(CallFailure::TooBig),
            Ok(result) => {
                *exchange = result;
                Ok(())
            }
            Err(code) => Err(CallFailure::Raised(code)),
        };
        (given, ASKING)
    }
}

impl ModuleInstance {
    fn of(
        engine: &Engine,
        module: &Module,
        exports: &Exports<'_>,
        links: Vec<CallLink>,
    ) -> wasmtime::Result<ModuleInstance> {
        let limits = StoreLimitsBuilder::new().memory_size(MEMORY_MAX).table_elements(TABLE_MAX).memories(1).tables(1);
        let limits = limits.instances(1).build();
        let mut store = Store::new(engine, Host::new(limits));
        store.limiter(|host| &mut host.limits);
        store.set_fuel(START_FUEL)?;
        let mut linker = Linker::new(engine);
        given::bind(&mut linker)?;
        for CallLink { extension, call, instance, at } in links {
            linker.func_wrap(&extension, &call, move |caller: Caller<'_, Host>, length: u32| {
                pass_on(caller, length, &instance, at)
            })?;
        }
        let instance = linker.instantiate(&mut store, module)?;
        let calls = exports.calls.iter().map(|name| instance.get_typed_func::<u32, i32>(&mut store, name));
        let calls = calls.collect::<wasmtime::Result<_>>()?;
        let Some(memory) = instance.get_memory(&mut store, "memory") else { bail!("it exports no memory") };
        let name = exports.buffer;
        let Some(global) = instance.get_global(&mut store, name) else { bail!("it exports no global {name}") };
        let Some(at) = global.get(&mut store).i32() else { bail!("its {name} is no i32") };
        let at = at as u32 as usize;
        if memory.data(&store).get(at..).is_none_or(|rest| rest.len() < BUFFER) {
            bail!("its buffer of {BUFFER} bytes is not inside its memory");
        }
        let buffer = Buffer { memory, at };
        store.data_mut().buffer = Some(buffer);
        Ok(ModuleInstance { store, calls, buffer })
    }

    fn bytes(&self) -> u64 {
        self.buffer.memory.data_size(&self.store) as u64
    }

    fn call(
        &mut self,
        at: usize,
        (now, random): (u64, u64),
        fuel: u64,
        exchange: &mut Vec<u8>,
    ) -> (Result<(), CallFailure>, u64) {
        let failed = |failure| (Err(failure), 0);
        (self.store.data_mut().now, self.store.data_mut().random) = (now, random);
        let Some(room) = self.buffer.memory.data_mut(&mut self.store).get_mut(self.buffer.at..) else {
            return failed(CallFailure::Broken);
        };
        let Some(room) = room.get_mut(..exchange.len()).filter(|room| room.len() <= BUFFER) else {
            return failed(CallFailure::TooBig);
        };
        room.copy_from_slice(exchange);
        let Some(call) = self.calls.get(at).filter(|_| self.store.set_fuel(fuel).is_ok()) else {
            return failed(CallFailure::Broken);
        };
        let returned = call.call(&mut self.store, exchange.len() as u32);
        let taken = fuel - self.store.get_fuel().unwrap_or(0).min(fuel);
        exchange.clear();
        let result = match returned {
            Err(_) if taken == fuel => Err(CallFailure::Fuel),
            Err(_) => Err(CallFailure::Broken),
            Ok(code) => length_of(code).map(|length| {
                let memory = self.buffer.memory.data(&self.store);
                exchange.extend_from_slice(memory.get(self.buffer.at..self.buffer.at + length).unwrap_or(&[]));
            }),
        };
        (result, taken)
    }
}

/// A call of another module, paid for by the caller: what is in his buffer goes to the other's, and the other's result into his.
fn pass_on(mut caller: Caller<'_, Host>, length: u32, other: &SharedInstance, at: usize) -> wasmtime::Result<i32> {
    let Some(Buffer { memory, at: start }) = caller.data().buffer else { bail!("a call before all is set up") };
    let length = length as usize;
    let Some(given) = memory.data(&caller).get(start..).and_then(|rest| rest.get(..length.min(BUFFER + 1))) else {
        bail!("arguments outside memory");
    };
    let mut exchange = given.to_vec();
    let fuel = caller.get_fuel()?.saturating_sub(PASSING + exchange.len() as u64);
    let now = caller.data().now;
    let chance = caller.data_mut().draw();
    let (result, taken) =
        other.lock().unwrap_or_else(PoisonError::into_inner).call(at, (now, chance), fuel, &mut exchange);
    caller.set_fuel(fuel - taken)?;
    Ok(match result {
        Ok(()) => {
            let room = memory.data_mut(&mut caller).get_mut(start..).and_then(|rest| rest.get_mut(..exchange.len()));
            room.map_or(FAILED, |room| {
                room.copy_from_slice(&exchange);
                exchange.len() as i32
            })
        }
        Err(CallFailure::Fuel) => bail!("all fuel is used up"),
        Err(failure) => failure.code(),
    })
}
