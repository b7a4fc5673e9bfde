//! Whether a file is a module that can be run, said before it is.
//!
//! It imports calls of `anode/nodeos.h` alone, as they are, and exports its memory, its table of functions, and main.

use crate::classify::taught::token::nearest;
use libanode::c::module::{Bound, CALLS, Call, REFUSED};
use wasmparser::{ExternalKind, FuncType, Parser, Payload, TypeRef, ValType, Validator, WasmFeatures};

/// Bytes of the longest module.
pub const MODULE_BYTES_MAX: usize = 16 << 20;

/// The module whose functions are the calls of the header.
pub(super) const IMPORTED: &str = "nodeos";

/// Names of main: with arguments as clang calls it, and as others may.
pub(super) const MAIN: [&str; 2] = ["__main_argc_argv", "main"];
/// The table of functions.
pub(super) const TABLE: &str = "__indirect_function_table";

/// What is read of a module.
#[derive(Default)]
struct Read {
    types: Vec<FuncType>,
    /// The types of its functions, imported ones first.
    functions: Vec<u32>,
    exports: Vec<(String, ExternalKind, u32)>,
}

/// Reads a file that can be run; the error begins with its path.
pub fn read(path: &str) -> Result<Vec<u8>, String> {
    let said = |why: &dyn core::fmt::Display| format!("{path}: {why}");
    let facts = std::fs::metadata(path).map_err(|error| said(&error))?;
    if !facts.is_file() || facts.len() > MODULE_BYTES_MAX as u64 {
        return Err(said(&format_args!("this is no file of at most {MODULE_BYTES_MAX} bytes")));
    }
    let bytes = std::fs::read(path).map_err(|error| said(&error))?;
    check(&bytes).map(|()| bytes).map_err(|why| said(&why))
}

/// Refuses what cannot be run, and says why.
pub fn check(bytes: &[u8]) -> Result<(), String> {
    if bytes.len() > MODULE_BYTES_MAX {
        return Err(format!("a module has at most {MODULE_BYTES_MAX} bytes, and this has {}", bytes.len()));
    }
    if !bytes.starts_with(b"\0asm") {
        return Err("this is no WebAssembly module; docs/nodeos.md shows how to build one".into());
    }
    let mut features = WasmFeatures::default();
    features.remove(WasmFeatures::RELAXED_SIMD | WasmFeatures::THREADS);
    let invalid = |error: wasmparser::BinaryReaderError| format!("at byte {}: {}", error.offset(), error.message());
    Validator::new_with_features(features).validate_all(bytes).map_err(invalid)?;
    let mut read = Read::default();
    for payload in Parser::new(0).parse_all(bytes) {
        read.take(payload.map_err(invalid)?).map_err(|why| why.unwrap_or_else(invalid))?;
    }
    read.is_complete()
}

/// Why a part is refused, or cannot be read.
type Refused = Result<String, wasmparser::BinaryReaderError>;

impl Read {
    fn take(&mut self, payload: Payload<'_>) -> Result<(), Refused> {
        match payload {
            Payload::TypeSection(types) => {
                for of in types.into_iter_err_on_gc_types() {
                    self.types.push(of.map_err(Err)?);
                }
            }
            Payload::ImportSection(imports) => {
                for import in imports.into_imports() {
                    let import = import.map_err(Err)?;
                    let TypeRef::Func(of) = import.ty else {
                        return Err(Ok(format!("it imports {}.{}, which is no function", import.module, import.name)));
                    };
                    self.functions.push(of);
                    self.imports(import.module, import.name, of).map_err(Ok)?;
                }
            }
            Payload::FunctionSection(functions) => {
                for of in functions {
                    self.functions.push(of.map_err(Err)?);
                }
            }
            Payload::ExportSection(exports) => {
                for export in exports {
                    let export = export.map_err(Err)?;
                    self.exports.push((export.name.to_owned(), export.kind, export.index));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether an imported function is a call of the header.
    fn imports(&self, module: &str, name: &str, of: u32) -> Result<(), String> {
        if module != IMPORTED {
            return Err(format!(
                "it imports {module}.{name}; a module has the calls of anode/nodeos.h (of the module {IMPORTED}), and of C's \
                 library what sdk/module has"
            ));
        }
        let call = find(name)?;
        let bound = Bound::of(call);
        let wide = |wide| if wide { ValType::I64 } else { ValType::I32 };
        let takes: Vec<_> = bound.takes().map(wide).collect();
        let gives: &[ValType] = if bound.gives() { &[ValType::I32] } else { &[] };
        match self.types.get(of as usize) {
            Some(of) if of.params() == takes && of.results() == gives => Ok(()),
            _ => Err(format!("it imports {name} with other values than anode/nodeos.h says")),
        }
    }

    fn is_complete(&self) -> Result<(), String> {
        let has = |wanted: &[&str], of: ExternalKind| {
            self.exports.iter().find(|(name, kind, _)| wanted.contains(&&**name) && *kind == of)
        };
        if has(&["memory"], ExternalKind::Memory).is_none() {
            return Err("it exports no memory".into());
        }
        if has(&[TABLE], ExternalKind::Table).is_none() {
            return Err("it exports no table of functions: link it with -Wl,--export-table".into());
        }
        let Some((name, _, at)) = has(&MAIN, ExternalKind::Func) else {
            return Err(format!("it exports no main: link it with -Wl,--export={}", MAIN[0]));
        };
        let of = self.functions.get(*at as usize).and_then(|of| self.types.get(*of as usize));
        match of {
            Some(of) if of.params() == [ValType::I32; 2] && of.results() == [ValType::I32] => Ok(()),
            _ => Err(format!("its {name} is not int main(int argc, char **argv)")),
        }
    }
}

/// The call of this name.
pub(super) fn find(name: &str) -> Result<&'static Call, String> {
    if let Some((_, why)) = REFUSED.iter().find(|(begins, _)| name.starts_with(begins)) {
        return Err(format!("it imports {name}, which modules have not: {why}"));
    }
    CALLS.iter().find(|call| call.name == name).ok_or_else(|| {
        let near = nearest(name, CALLS.iter().map(|call| call.name));
        format!("it imports {name}, and anode/nodeos.h has no such call{near}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"(memory (export "memory") 1) (table (export "__indirect_function_table") 1 funcref)
        (func (export "main") (param i32 i32) (result i32) i32.const 0)"#;

    #[test]
    fn what_is_wrong_with_a_module_is_said_before_it_runs() {
        let say = r#"(import "nodeos" "an_say" (func (param i32) (result i32)))"#;
        for (text, part) in [
            (format!("{say}{WHOLE}"), ""),
            (WHOLE.replace("memory\")", "m\")"), "exports no memory"),
            (WHOLE.replace("__indirect", "__other"), "link it with -Wl,--export-table"),
            (WHOLE.replace("\"main\"", "\"start\""), "exports no main: link it with -Wl,--export=__main_argc_argv"),
            (WHOLE.replace("(param i32 i32)", ""), "is not int main(int argc, char **argv)"),
            (say.replace("an_say", "an_sya"), "no such call; do you mean 'an_say'?"),
            (say.replace("an_say", "an_nothing_at_all"), "anode/nodeos.h has no such call"),
            (say.replace("an_say", "an_heapFree"), "a module's memory is its own; an_mempoolCharge()"),
            (say.replace("nodeos", "env"), "it imports env.an_say; a module has the calls of anode/nodeos.h"),
            (say.replace("(param i32)", "(param i64)"), "with other values than anode/nodeos.h says"),
            (say.replace("(result i32)", ""), "with other values than anode/nodeos.h says"),
            ("(import \"nodeos\" \"memory\" (memory 1))".into(), "nodeos.memory, which is no function"),
        ] {
            let module = wat::parse_str(format!("(module {text})")).unwrap();
            let why = check(&module).err().unwrap_or_default();
            assert!(why.contains(part) && why.is_empty() == part.is_empty(), "{text}: {why:?} and not {part:?}");
        }
        assert!(check(b"\x7fELF").unwrap_err().contains("no WebAssembly module"));
        assert!(check(b"\0asm\x01\0\0\0\x01\xff").unwrap_err().starts_with("at byte 1"));
        let long = [b"\0asm", &[0; MODULE_BYTES_MAX][..]].concat();
        assert!(check(&long).unwrap_err().contains("at most 16777216 bytes"));
    }
}
