//! Traps of wasm code: under which reason the packet is dropped, and what the log says of it.
//!
//! A line names the kind of the trap, the function, and the byte in it. With the bundle at hand, `anode node log --code`
//! makes the line of the source of that ([`source`]).

use super::scope::Scope;
use crate::code::bundle::{Bundle, Kind};
use crate::core::log;
use crate::core::reason::Reason;
use wasmparser::{ExternalKind, Parser, Payload, TypeRef};
use wasmtime::{Trap, WasmBacktrace};

/// Whether the code has used up the stack of its calls.
#[cold]
pub(super) fn is_stack(error: &wasmtime::Error) -> bool {
    matches!(error.downcast_ref::<Trap>(), Some(Trap::StackOverflow))
}

/// Why the packet is dropped.
#[cold]
pub(super) fn reason(error: &wasmtime::Error) -> Reason {
    match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel | Trap::Interrupt) => Reason::Fuel,
        _ => Reason::Trap,
    }
}

/// Writes into the log where the code of `scope` has ended.
#[cold]
pub(super) fn note(scope: &mut Scope<'_>, error: &wasmtime::Error) {
    let frame = error.downcast_ref::<WasmBacktrace>().and_then(|trace| trace.frames().first());
    let place = frame.and_then(|frame| Some((frame.func_index(), u32::try_from(frame.func_offset()?).ok()?)));
    scope.write_trap(log::Trap { kind: kind(error), place });
}

/// What happened, in words.
fn kind(error: &wasmtime::Error) -> &'static str {
    match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel | Trap::Interrupt) => "its steps are used up",
        Some(Trap::StackOverflow) => "its calls are too deep for the stack",
        Some(Trap::MemoryOutOfBounds | Trap::HeapMisaligned) => "an address outside its memory",
        Some(Trap::IntegerDivisionByZero) => "a division by zero",
        Some(Trap::IntegerOverflow) => "a quotient that is too large",
        Some(Trap::BadConversionToInteger) => "a number that is no integer",
        Some(Trap::UnreachableCodeReached) => "a place that was not to be reached",
        Some(Trap::TableOutOfBounds | Trap::IndirectCallToNull | Trap::BadSignature) => {
            "a call by an address of no such function"
        }
        Some(_) => "a trap",
        None => "a call that was given an address outside its memory",
    }
}

/// The name of a function of a module, if it is exported, and the line of the source behind a byte of its body.
pub fn source(bundle: &Bundle, function: u32, at: u32) -> (Option<String>, Option<String>) {
    let Some(module) = bundle.representation(Kind::Wasm) else { return (None, None) };
    let (mut imported, mut seen, mut name, mut begins) = (0, 0, None, None);
    for payload in Parser::new(0).parse_all(module) {
        match payload {
            Ok(Payload::ImportSection(imports)) => {
                let functions = imports.into_imports().flatten().filter(|import| matches!(import.ty, TypeRef::Func(_)));
                imported = functions.count() as u32;
            }
            Ok(Payload::ExportSection(exports)) => {
                let its =
                    exports.into_iter().flatten().find(|one| one.kind == ExternalKind::Func && one.index == function);
                name = its.map(|export| export.name.to_owned());
            }
            Ok(Payload::CodeSectionEntry(body)) => {
                if imported + seen == function {
                    begins = Some(body.range().start);
                }
                seen += 1;
            }
            Ok(_) => {}
            Err(_) => return (None, None),
        }
    }
    let place = begins.and_then(|begins| begins.checked_add(at as usize));
    (name, place.zip(bundle.lines()).and_then(|(place, lines)| lines.find(Kind::Wasm, place)))
}
