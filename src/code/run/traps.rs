//! Traps of wasm code: under which reason the packet is dropped, and what the log says of it.
//!
//! A line names the kind of the trap, the function, and the byte in it. With the bundle at hand, [`Places`] make the
//! function's name and the line of the source of that: `anode node log --code`, and a node of the bundles that it was
//! given. The packet path writes three numbers and looks nothing up.

use super::scope::Scope;
use crate::code::bundle::{Bundle, Kind, Lines};
use crate::core::log;
use crate::core::reason::Reason;
use std::sync::Arc;
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
        Some(Trap::StackOverflow) => Reason::Stack,
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
pub(in crate::code) fn kind(error: &wasmtime::Error) -> &'static str {
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

/// Where the functions of a module begin, how they are called, and from which lines they were made.
#[derive(Default)]
pub struct Places {
    /// Functions that the module imports: they have the first numbers.
    imported: u32,
    /// Where each body begins, in bytes of the module.
    begins: Vec<usize>,
    /// Names of exported functions.
    names: Vec<(u32, String)>,
    lines: Option<Arc<Lines>>,
}

impl Places {
    /// Those of a bundle's module; none, if it has no module or one that cannot be read.
    pub fn of(bundle: &Bundle) -> Places {
        let mut places = Places { lines: bundle.shared_lines(), ..Places::default() };
        for payload in bundle.representation(Kind::Wasm).into_iter().flat_map(|module| Parser::new(0).parse_all(module))
        {
            match payload {
                Ok(Payload::ImportSection(imports)) => {
                    let all = imports.into_imports().flatten();
                    places.imported = all.filter(|import| matches!(import.ty, TypeRef::Func(_))).count() as u32;
                }
                Ok(Payload::ExportSection(exports)) => {
                    let functions = exports.into_iter().flatten().filter(|export| export.kind == ExternalKind::Func);
                    places.names = functions.map(|export| (export.index, export.name.to_owned())).collect();
                }
                Ok(Payload::CodeSectionEntry(body)) => places.begins.push(body.range().start),
                Ok(_) => {}
                Err(_) => return Places::default(),
            }
        }
        places
    }

    /// The name of a function, if it is exported, and the line of the source behind a byte of its body.
    pub fn find(&self, function: u32, at: u32) -> (Option<&str>, Option<String>) {
        let name = self.names.iter().find(|(of, _)| *of == function).map(|(_, name)| name.as_str());
        let begins = function.checked_sub(self.imported).and_then(|own| self.begins.get(own as usize));
        let place = begins.and_then(|begins| begins.checked_add(at as usize));
        (name, place.zip(self.lines.as_ref()).and_then(|(place, lines)| lines.find(Kind::Wasm, place)))
    }
}
