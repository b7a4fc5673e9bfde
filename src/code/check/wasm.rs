//! The check of wasm representations: one pass over the module.
//!
//! First come the rules of capsules, whose refusals name what an author can change. Then wasmparser's validator checks
//! all that WebAssembly itself demands. After it a module can be compiled, instantiated (every segment lies inside) and
//! reset: memory and table keep their sizes, and each mutable global is exported so that the node can restore it.

use super::Refusal;
use super::sections::{Module, describe, limit};
use crate::abi::{ADDRESSES, CONTEXT, Symbol};
use crate::code::bundle::{REPRESENTATION_MAX, WINDOW_MAX};
use wasmparser::{
    BinaryReaderError, ExternalKind, FuncValidatorAllocations, GlobalType, Parser, ValType, ValidPayload, Validator,
    WasmFeatures,
};

/// Bytes of the context at the beginning of the arena.
pub const ARENA_CONTEXT: u32 = CONTEXT as u32;
/// Bytes of the window before its payload: source and destination.
pub const ARENA_WINDOW: u32 = ADDRESSES as u32;
/// The most bytes of memory.
pub const MEMORY_MAX: u64 = 65536;

/// What the check found out about a wasm representation.
#[derive(Clone, Debug, PartialEq)]
pub struct WasmFacts {
    /// Bytes of the representation.
    pub bytes: usize,
    /// Address of the arena: 64 bytes of context, then the window.
    pub arena: u32,
    /// Bytes of memory, all of it from the start to the end of the instance.
    pub memory_bytes: u32,
    /// Whether the memory has pages of one byte (the custom-page-sizes proposal).
    pub byte_pages: bool,
    /// The mutable globals: whoever uses an instance again restores them.
    pub mutable_globals: Vec<MutableGlobal>,
    /// The symbols imported, in the order of the module's function indices.
    pub imports: Vec<&'static Symbol>,
    /// Functions of its own.
    pub functions: u32,
    /// Elements of the table, 0 without one.
    pub table: u32,
    /// Whether it has memory.copy or memory.fill, whose cost depends on their operands.
    pub bulk_memory: bool,
    /// Whether it has memory.size.
    pub reads_memory_size: bool,
    /// Whether any instruction changes a global.
    pub sets_globals: bool,
    /// Whether any instruction, or any call it imports, changes its memory.
    pub writes_memory: bool,
}

/// A mutable global that the module exports.
#[derive(Clone, Debug, PartialEq)]
pub struct MutableGlobal {
    /// The name of the export.
    pub name: String,
    /// The value before the first packet, and so before every packet.
    pub initial: GlobalValue,
}

/// A value of a global.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GlobalValue {
    /// An i32.
    I32(i32),
    /// An i64.
    I64(i64),
    /// The bits of an f32.
    F32(u32),
    /// The bits of an f64.
    F64(u64),
}

/// Checks a wasm representation for a window of `window` payload bytes; total.
pub fn wasm(bytes: &[u8], window: u32) -> Result<WasmFacts, Refusal> {
    limit("bytes", bytes.len() as u64, REPRESENTATION_MAX as u64)?;
    limit("bytes of window", u64::from(window), u64::from(WINDOW_MAX))?;
    let mut module = Module::default();
    let mut validator = Validator::new_with_features(features());
    let mut allocations = FuncValidatorAllocations::default();
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload?;
        module.section(&payload)?;
        if let ValidPayload::Func(function, body) = validator.payload(&payload)? {
            let mut function = function.into_validator(allocations);
            module.costs.body(&mut function, &body)?;
            allocations = function.into_allocations();
        }
    }
    module.facts(bytes.len(), window)
}

/// Core WebAssembly 2.0 without reference types, and memories whose pages are single bytes.
fn features() -> WasmFeatures {
    WasmFeatures::WASM1
        | WasmFeatures::MUTABLE_GLOBAL
        | WasmFeatures::SATURATING_FLOAT_TO_INT
        | WasmFeatures::SIGN_EXTENSION
        | WasmFeatures::MULTI_VALUE
        | WasmFeatures::BULK_MEMORY
        | WasmFeatures::CALL_INDIRECT_OVERLONG
        | WasmFeatures::SIMD
        | WasmFeatures::CUSTOM_PAGE_SIZES
}

impl From<BinaryReaderError> for Refusal {
    fn from(error: BinaryReaderError) -> Refusal {
        Refusal::Invalid { cause: error.message().into(), offset: error.offset() }
    }
}

impl Module {
    /// The rules that concern several sections; the module is valid WebAssembly here.
    fn facts(self, bytes: usize, window: u32) -> Result<WasmFacts, Refusal> {
        let memory = self.memory_bytes()?;
        let arena = self.arena()?;
        self.entry()?;
        let mutable_globals = self.mutable_globals()?;
        self.superfluous()?;
        self.segments(memory)?;
        let needs = ARENA_CONTEXT + ARENA_WINDOW + window;
        if arena.checked_add(needs).is_none_or(|end| end > memory) {
            return Err(Refusal::Arena { address: arena, needs, memory });
        }
        let writes_memory = self.writes_memory || self.imports.iter().any(|symbol| symbol.writes());
        Ok(WasmFacts {
            bytes,
            arena,
            memory_bytes: memory,
            byte_pages: self.memory.is_some_and(|memory| memory.page_size_log2 == Some(0)),
            mutable_globals,
            imports: self.imports,
            functions: self.functions.len() as u32,
            table: self.table.unwrap_or(0),
            bulk_memory: self.bulk_memory,
            reads_memory_size: self.reads_memory_size,
            sets_globals: self.sets_globals,
            writes_memory,
        })
    }

    fn memory_bytes(&self) -> Result<u32, Refusal> {
        let Some(memory) = self.memory else {
            return Err(Refusal::Export {
                name: "memory".into(),
                expected: "must be the module's memory, there is none",
            });
        };
        if memory.maximum != Some(memory.initial) || memory.shared || memory.memory64 {
            let remedy = "its maximum must be its minimum; build with: anode code build";
            return Err(Refusal::Forbidden { what: "a memory that can grow, is shared or of 64 bits", remedy });
        }
        let page = 1u64.checked_shl(memory.page_size_log2.unwrap_or(16)).unwrap_or(u64::MAX);
        let bytes = memory.initial.saturating_mul(page);
        limit("bytes of memory", bytes, MEMORY_MAX)?;
        let exported = self.exports.iter().any(|(name, kind, _)| name == "memory" && *kind == ExternalKind::Memory);
        if !exported {
            return Err(Refusal::Export {
                name: "memory".into(),
                expected: "must be the module's memory, it is missing",
            });
        }
        Ok(bytes as u32)
    }

    fn export(&self, name: &str, wanted: ExternalKind) -> Option<usize> {
        let found = self.exports.iter().find(|(found, kind, _)| found == name && *kind == wanted);
        found.map(|(_, _, index)| *index as usize)
    }

    fn arena(&self) -> Result<u32, Refusal> {
        let global = self.export("an_arena", ExternalKind::Global).and_then(|index| self.globals.get(index));
        match global {
            Some((GlobalType { content_type: ValType::I32, mutable: false, .. }, Some(GlobalValue::I32(address)))) => {
                Ok(*address as u32)
            }
            _ => Err(Refusal::Export {
                name: "an_arena".into(),
                expected: "must be an immutable i32 global with a constant: the address for context and window",
            }),
        }
    }

    fn entry(&self) -> Result<(), Refusal> {
        let missing =
            Refusal::Export { name: "capsule".into(), expected: "must be the entry, a function of the module" };
        let index = self.export("capsule", ExternalKind::Func).ok_or(missing.clone())?;
        let own = index.checked_sub(self.imports.len()).and_then(|own| self.functions.get(own)).ok_or(missing)?;
        let found = self.types.get(*own as usize);
        let same = found
            .is_some_and(|found| found.params() == [ValType::I32, ValType::I32] && found.results() == [ValType::I32]);
        if same {
            return Ok(());
        }
        let found = found.map(describe).unwrap_or_default();
        Err(Refusal::Signature { name: "capsule".into(), found, expected: "capsule(i32, i32) -> i32".into() })
    }

    fn mutable_globals(&self) -> Result<Vec<MutableGlobal>, Refusal> {
        let mut found = Vec::new();
        for (index, (kind, value)) in self.globals.iter().enumerate() {
            if !kind.mutable {
                continue;
            }
            let fault = |cause| Refusal::Global { index: index as u32, cause };
            let initial = value.ok_or_else(|| fault("is mutable and does not begin with a plain number"))?;
            let exported =
                |(_, kind, at): &&(String, ExternalKind, u32)| *kind == ExternalKind::Global && *at as usize == index;
            let (name, _, _) =
                self.exports.iter().find(exported).ok_or_else(|| {
                    fault("is mutable and not exported, so it could carry state from packet to packet")
                })?;
            found.push(MutableGlobal { name: name.clone(), initial });
        }
        Ok(found)
    }

    /// Only the entry, the memory and globals are exported.
    fn superfluous(&self) -> Result<(), Refusal> {
        let known = |(name, kind, _): &&(String, ExternalKind, u32)| match kind {
            ExternalKind::Global => true,
            ExternalKind::Func => name == "capsule",
            ExternalKind::Memory => name == "memory",
            _ => false,
        };
        match self.exports.iter().find(|export| !known(export)) {
            Some((name, _, _)) => Err(Refusal::Export {
                name: name.chars().take(80).collect(),
                expected: "is neither memory, nor capsule, nor a global",
            }),
            None => Ok(()),
        }
    }

    fn segments(&self, memory: u32) -> Result<(), Refusal> {
        for (index, (offset, length)) in self.data.iter().enumerate() {
            if u64::from(*offset) + *length as u64 > u64::from(memory) {
                return Err(Refusal::Segment { index: index as u32, cause: "of data does not fit into the memory" });
            }
        }
        for (index, (offset, count)) in self.elements.iter().enumerate() {
            if u64::from(*offset) + u64::from(*count) > u64::from(self.table.unwrap_or(0)) {
                return Err(Refusal::Segment { index: index as u32, cause: "of elements does not fit into the table" });
            }
        }
        Ok(())
    }
}
