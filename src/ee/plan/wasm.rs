//! PLAN services as WebAssembly modules, loaded into a running node by its operator.
//!
//! A module exports its memory, a global `plan_buffer` (the address of [`BUFFER`] bytes), and a function `service`. The
//! function finds its arguments in the buffer and gets their length. It leaves its result there and returns the length,
//! or a negative number for an exception. The module keeps its memory from call to call: that is its purpose. It
//! imports nothing but `an_now` and `an_random`. Every call has its fuel; the operator answers for the rest.

use super::{Brought, LoadedService, ServiceFailure, ServiceSignature};
use crate::code::bundle::REPRESENTATION_MAX;
use crate::code::check;
use crate::code::compiler::{Failure, Lane};
use crate::code::run::{engine, jailed};
use wasmtime::{Caller, Engine, Linker, Memory, Module, Store, StoreLimits, StoreLimitsBuilder, TypedFunc};

/// Bytes of a module's buffer.
pub const BUFFER: usize = 4096;

/// Bytes of a module's memory.
const MEMORY_MAX: usize = 1 << 20;

/// The custom section in which a module says what it is.
const SECTION: &str = "plan";

/// Fuel of setting an instance up.
const START_FUEL: u64 = 1_000_000;

/// What a call finds of its node.
struct Host {
    now: u64,
    random: u64,
    limits: StoreLimits,
}

/// A service ready to be called.
pub struct WasmService {
    store: Store<Host>,
    entry: TypedFunc<u32, i32>,
    memory: Memory,
    buffer: usize,
}

impl WasmService {
    /// Compiles a module, or its text form, in this process: what an operator loads, and simulations. The error says what is wrong.
    pub fn load(module: &[u8]) -> Result<WasmService, String> {
        let wasm = binary(module)?;
        let compile = |engine: &Engine| Module::new(engine, &wasm).map_err(said);
        WasmService::instantiate(&wasm, compile)
    }

    /// The same of a module that says itself what it is, in a custom section `plan`: its name, a colon, and its type. It came in a
    /// packet; so a compiler in a jail compiles it, if there is one, and why that failed is left in its place.
    pub fn named(module: &[u8], jail: Option<(&mut Lane, &mut Option<Failure>)>) -> Result<Brought, String> {
        let wasm = binary(module)?;
        let text = section(&wasm).ok_or("the module has no custom section 'plan' with NAME : TYPE")?;
        let (name, kind) = text.split_once(':').ok_or_else(|| format!("'{text}' is not NAME : TYPE"))?;
        let signature = ServiceSignature::parse(kind.trim())?;
        let service = match jail {
            None => WasmService::load(&wasm)?,
            Some((lane, failure)) => WasmService::load_in(lane, &wasm, failure)?,
        };
        Ok(Brought { name: name.trim().into(), signature, service: Box::new(service) })
    }

    fn load_in(lane: &mut Lane, wasm: &[u8], failed: &mut Option<Failure>) -> Result<WasmService, String> {
        WasmService::instantiate(wasm, |engine| {
            let module = jailed::service(engine, lane, wasm).map_err(|failure| {
                let why = failure.to_string();
                *failed = Some(failure);
                why
            })?;
            module.map_err(said)
        })
    }

    fn instantiate(
        wasm: &[u8],
        compile: impl FnOnce(&Engine) -> Result<Module, String>,
    ) -> Result<WasmService, String> {
        check::bounds(wasm).map_err(|refusal| refusal.to_string())?;
        let engine = Engine::new(&engine::service()).map_err(said)?;
        let module = compile(&engine)?;
        WasmService::of(&engine, &module).map_err(said)
    }

    fn of(engine: &Engine, module: &Module) -> wasmtime::Result<WasmService> {
        let limits = StoreLimitsBuilder::new().memory_size(MEMORY_MAX).memories(1).tables(1).instances(1).build();
        let mut store = Store::new(engine, Host { now: 0, random: 0, limits });
        store.limiter(|host| &mut host.limits);
        store.set_fuel(START_FUEL)?;
        let mut linker = Linker::new(engine);
        linker.func_wrap("anode", "an_now", |caller: Caller<'_, Host>| caller.data().now)?;
        linker.func_wrap("anode", "an_random", |mut caller: Caller<'_, Host>| {
            // Of one random number for the call many (splitmix64).
            let host = caller.data_mut();
            host.random = host.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (host.random ^ host.random >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ mixed >> 31
        })?;
        let instance = linker.instantiate(&mut store, module)?;
        let wrong = wasmtime::Error::msg;
        let entry = instance.get_typed_func::<u32, i32>(&mut store, "service")?;
        let memory = instance.get_memory(&mut store, "memory").ok_or_else(|| wrong("it exports no memory"))?;
        let global = instance.get_global(&mut store, "plan_buffer");
        let global = global.ok_or_else(|| wrong("it exports no global plan_buffer"))?;
        let buffer = global.get(&mut store).i32().ok_or_else(|| wrong("its plan_buffer is no i32"))? as u32 as usize;
        if memory.data(&store).get(buffer..).is_none_or(|rest| rest.len() < BUFFER) {
            return Err(wrong("its buffer of 4096 bytes is not inside its memory"));
        }
        Ok(WasmService { store, entry, memory, buffer })
    }
}

/// A module in its binary form.
fn binary(module: &[u8]) -> Result<std::borrow::Cow<'_, [u8]>, String> {
    let long = |length: usize| length > REPRESENTATION_MAX;
    let wasm =
        if long(module.len()) { None } else { Some(wat::parse_bytes(module).map_err(|error| error.to_string())?) };
    wasm.filter(|wasm| !long(wasm.len())).ok_or_else(|| format!("a service has at most {REPRESENTATION_MAX} bytes"))
}

fn said(error: wasmtime::Error) -> String {
    format!("{error:#}")
}

/// What a module says that it is.
fn section(wasm: &[u8]) -> Option<String> {
    let sections = wasmparser::Parser::new(0).parse_all(wasm);
    let own = sections.map_while(Result::ok).find_map(|payload| match payload {
        wasmparser::Payload::CustomSection(section) if section.name() == SECTION => Some(section.data()),
        _ => None,
    });
    String::from_utf8(own?.to_vec()).ok()
}

impl LoadedService for WasmService {
    fn call(&mut self, now: u64, random: u64, steps: u64, exchange: &mut Vec<u8>) -> (Result<(), ServiceFailure>, u64) {
        let failed = |failure| (Err(failure), 0);
        (self.store.data_mut().now, self.store.data_mut().random) = (now, random);
        let room = self.memory.data_mut(&mut self.store).get_mut(self.buffer..self.buffer + BUFFER);
        let Some(room) = room.and_then(|room| room.get_mut(..exchange.len())) else {
            return failed(ServiceFailure::TooBig);
        };
        room.copy_from_slice(exchange);
        if self.store.set_fuel(steps).is_err() {
            return failed(ServiceFailure::Broken);
        }
        let returned = self.entry.call(&mut self.store, exchange.len() as u32);
        let taken = steps - self.store.get_fuel().unwrap_or(0).min(steps);
        exchange.clear();
        let result = match returned {
            Err(_) if taken == steps => Err(ServiceFailure::Steps),
            Err(_) => Err(ServiceFailure::Broken),
            Ok(code) => match usize::try_from(code) {
                Err(_) => Err(ServiceFailure::Raised(code)),
                Ok(length) if length > BUFFER => Err(ServiceFailure::Broken),
                Ok(length) => {
                    let memory = self.memory.data(&self.store);
                    exchange.extend_from_slice(memory.get(self.buffer..self.buffer + length).unwrap_or(&[]));
                    Ok(())
                }
            },
        };
        (result, taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(body: &str) -> Result<WasmService, String> {
        let head = "(import \"anode\" \"an_now\" (func $now (result i64)))
                    (memory (export \"memory\") 1) (global (export \"plan_buffer\") i32 (i32.const 64))";
        WasmService::load(format!("(module {head} {body})").as_bytes())
    }

    fn service(body: &str) -> Result<WasmService, String> {
        load(&format!("(func (export \"service\") (param i32) (result i32) {body})"))
    }

    fn call(service: &mut WasmService, input: &[u8], steps: u64) -> (Result<Vec<u8>, ServiceFailure>, u64) {
        let mut exchange = input.to_vec();
        let (result, taken) = service.call(7, 1, steps, &mut exchange);
        (result.map(|()| exchange), taken)
    }

    #[test]
    fn a_service_answers_and_remembers() {
        let counts = "(i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (i32.const 1)))
                      (i32.store (i32.const 64) (i32.load (i32.const 0))) (i32.const 4)";
        let mut counter = service(counts).unwrap();
        for number in 1..4u32 {
            let (answer, steps) = call(&mut counter, &[9; 8], 1000);
            assert_eq!(answer, Ok(number.to_le_bytes().to_vec()));
            assert!(steps > 0 && steps < 50);
        }
    }

    #[test]
    fn failures_are_told_apart_and_bounded() {
        let failure = |body: &str| call(&mut service(body).unwrap(), &[], 1000).0.unwrap_err();
        assert_eq!(failure("(loop (br 0)) unreachable"), ServiceFailure::Steps);
        assert_eq!(failure("unreachable"), ServiceFailure::Broken);
        assert_eq!(failure("(i32.const -3)"), ServiceFailure::Raised(-3));
        assert_eq!(failure("(i32.const 4097)"), ServiceFailure::Broken);
        let mut echo = service("(local.get 0)").unwrap();
        assert_eq!(call(&mut echo, &[5; BUFFER], 1000).0, Ok(vec![5; BUFFER]));
        assert_eq!(call(&mut echo, &[5; BUFFER + 1], 1000).0, Err(ServiceFailure::TooBig));
    }

    #[test]
    fn modules_that_are_no_services_are_refused() {
        for (body, why) in [
            ("", "service"),
            ("(func (export \"service\") (result i32) i32.const 0)", "service"),
            ("(import \"x\" \"y\" (func))", "import"),
            ("(start 1) (func (loop (br 0)))", "fuel"),
        ] {
            let refused = load(body).err().unwrap();
            assert!(refused.contains(why), "{body}: {refused}");
        }
        assert!(WasmService::load(b"(module)").is_err() && WasmService::load(b"\0asm").is_err());
        assert!(load("(func (export \"service\") (param i32) (result i32) (memory.grow (i32.const 100)))").is_ok());
    }
}
