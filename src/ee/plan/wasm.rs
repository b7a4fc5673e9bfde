//! PLAN services as WebAssembly modules, loaded into a running node by its operator.
//!
//! A module exports its memory, a global `plan_buffer` (the address of a buffer), and a function `service`, which is called as the
//! functions of extensions are ([`Instance`]). It keeps its memory from call to call: that is its purpose. It imports what
//! [`imports`] has for services. Every call has its fuel; the operator answers for the rest.

use super::{Brought, LoadedService};
use crate::code::check;
use crate::code::compiler::{Failure, Lane};
use crate::code::extension::call_type::CallType;
use crate::code::extension::imports;
use crate::code::extension::instance::{CallFailure, Exports, Instance};
use crate::code::extension::manifest::{binary, section};
use crate::code::run::{engine, jailed};
use wasmtime::{Engine, Module};

/// The custom section in which a module says what it is.
const SECTION: &str = "plan";

/// What a service exports.
const EXPORTS: Exports<'_> = Exports { buffer: "plan_buffer", calls: &["service"] };

/// A service ready to be called.
pub struct WasmService(Instance);

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
        let text = section(&wasm, SECTION).ok_or("the module has no custom section 'plan' with NAME : TYPE")?;
        let (name, kind) = text.split_once(':').ok_or_else(|| format!("'{text}' is not NAME : TYPE"))?;
        let signature = CallType::parse(kind.trim())?;
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
        imports::check_all(wasm)?;
        let engine = Engine::new(&engine::service()).map_err(said)?;
        let module = compile(&engine)?;
        Instance::new(&engine, &module, &EXPORTS, Vec::new()).map(WasmService)
    }
}

fn said(error: wasmtime::Error) -> String {
    format!("{error:#}")
}

impl LoadedService for WasmService {
    fn call(&mut self, now: u64, random: u64, fuel: u64, exchange: &mut Vec<u8>) -> (Result<(), CallFailure>, u64) {
        self.0.call(0, (now, random), fuel, exchange)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::extension::instance::BUFFER;

    fn load(body: &str) -> Result<WasmService, String> {
        let head = "(import \"anode\" \"an_now\" (func $now (result i64)))
                    (memory (export \"memory\") 1) (global (export \"plan_buffer\") i32 (i32.const 64))";
        WasmService::load(format!("(module {head} {body})").as_bytes())
    }

    fn service(body: &str) -> Result<WasmService, String> {
        load(&format!("(func (export \"service\") (param i32) (result i32) {body})"))
    }

    fn call(service: &mut WasmService, input: &[u8], steps: u64) -> (Result<Vec<u8>, CallFailure>, u64) {
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
        assert_eq!(failure("(loop (br 0)) unreachable"), CallFailure::Fuel);
        assert_eq!(failure("unreachable"), CallFailure::Broken);
        assert_eq!(failure("(i32.const -3)"), CallFailure::Raised(-3));
        assert_eq!(failure("(i32.const 4097)"), CallFailure::Broken);
        let mut echo = service("(local.get 0)").unwrap();
        assert_eq!(call(&mut echo, &[5; BUFFER], 1000).0, Ok(vec![5; BUFFER]));
        assert_eq!(call(&mut echo, &[5; BUFFER + 1], 1000).0, Err(CallFailure::TooBig));
    }

    #[test]
    fn a_service_has_calls_of_the_header_that_end_at_once() {
        let imports = "(import \"nodeos\" \"an_timeNow\" (func $time (param i32 i32) (result i32)))
                       (import \"nodeos\" \"an_say\" (func $say (param i32) (result i32)))
                       (import \"nodeos\" \"an_error\" (func $error (result i32)))
                       (memory (export \"memory\") 1) (global (export \"plan_buffer\") i32 (i32.const 64))
                       (data (i32.const 8192) \"a line\")";
        let service = |body: &str| {
            let function = format!("(func (export \"service\") (param i32) (result i32) {body} (i32.const 8))");
            WasmService::load(format!("(module {imports} {function})").as_bytes()).unwrap()
        };
        let word = |service: &mut WasmService| {
            let answer = call(service, &[], 100_000).0?;
            Ok(u64::from_le_bytes(answer.try_into().unwrap()))
        };
        assert_eq!(word(&mut service("(drop (call $time (i32.const 0) (i32.const 64)))")), Ok(7), "of its own node");
        let other = "(drop (call $time (i32.const 5) (i32.const 64))) (i64.store (i32.const 64) (i64.extend_i32_u (call $error)))";
        assert_eq!(word(&mut service(other)), Ok(1), "AN_EINVAL: it has no other node");
        let outside = "(drop (call $time (i32.const 0) (i32.const 65535)))";
        assert_eq!(word(&mut service(outside)), Err(CallFailure::Broken));
        let mut says = service("(i64.store (i32.const 64) (i64.extend_i32_u (call $say (i32.const 8192))))");
        let said: Vec<_> = (0..10).map(|_| word(&mut says).unwrap()).collect();
        assert_eq!(said, [0, 0, 0, 0, 0, 0, 0, 0, 9, 9], "then AN_EAGAIN: the clock stands still");
        let mut long = service(
            "(memory.fill (i32.const 8192) (i32.const 65) (i32.const 2000))
            (i64.store (i32.const 64) (i64.extend_i32_u (call $say (i32.const 8192))))",
        );
        assert_eq!(word(&mut long), Ok(1), "AN_EINVAL");
        assert_eq!(call(&mut says, &[], 300).0, Err(CallFailure::Fuel), "a line costs fuel");
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
        let stores = b"(module (import \"nodeos\" \"an_storeGet\" (func)))";
        let refused = WasmService::load(stores).err().unwrap();
        assert!(refused.contains("imports nodeos.an_storeGet, which environments alone have"), "{refused}");
        assert!(WasmService::load(b"(module)").is_err() && WasmService::load(b"\0asm").is_err());
        assert!(load("(func (export \"service\") (param i32) (result i32) (memory.grow (i32.const 100)))").is_ok());
    }
}
