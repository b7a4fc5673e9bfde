//! The check of wasm representations: one pass over the module.
//!
//! First the rules of capsules, which name what an author can change, then wasmparser's validator
//! for all that WebAssembly itself demands. After it a module can be compiled, instantiated
//! (every segment lies inside) and reset to its beginning: memory and table keep their sizes, and
//! each mutable global is exported so that the node can restore it.

use super::{Refusal, SYMBOLS, Symbol, Type, symbol};
use crate::code::bundle::{REPRESENTATION_MAX, WINDOW_MAX};
use wasmparser::{
    BinaryReaderError, ConstExpr, DataKind, Element, ElementItems, ElementKind, Export, ExternalKind, FuncType,
    FuncValidatorAllocations, FunctionBody, GlobalType, MemoryType, Operator, Parser, Payload, TableType, TypeRef,
    ValType, ValidPayload, Validator, WasmFeatures,
};

/// Bytes of the context at the beginning of the arena.
pub const ARENA_CONTEXT: u32 = 64;
/// Bytes of the window before its payload: source and destination.
pub const ARENA_WINDOW: u32 = 32;
/// The most bytes of memory.
pub const MEMORY_MAX: u64 = 65536;

/// More than any program needs; less than makes a compiler slow.
const FUNCTIONS_MAX: u64 = 1024;
const TYPES_MAX: u64 = 1024;
const VALUES_MAX: u64 = 32;
const LOCALS_MAX: u64 = 1024;
const GLOBALS_MAX: u64 = 64;
const TABLE_MAX: u64 = 1024;
const SEGMENTS_MAX: u64 = 256;

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
}

/// A mutable global that the module exports.
#[derive(Clone, Debug, PartialEq)]
pub struct MutableGlobal {
    /// The name of the export.
    pub name: String,
    /// The value before the first packet, and so before every packet.
    pub initial: Value,
}

/// A value of a global.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
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
            function.validate(&body)?;
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

fn limit(what: &'static str, found: u64, limit: u64) -> Result<(), Refusal> {
    if found > limit { Err(Refusal::Limit { what, found, limit }) } else { Ok(()) }
}

/// What has been read of a module so far.
#[derive(Default)]
struct Module {
    types: Vec<FuncType>,
    imports: Vec<&'static Symbol>,
    functions: Vec<u32>,
    table: Option<u32>,
    memory: Option<MemoryType>,
    globals: Vec<(GlobalType, Option<Value>)>,
    exports: Vec<(String, ExternalKind, u32)>,
    data: Vec<(u32, usize)>,
    elements: Vec<(u32, u32)>,
    bulk_memory: bool,
}

impl Module {
    fn section(&mut self, payload: &Payload<'_>) -> Result<(), Refusal> {
        match payload {
            Payload::TypeSection(reader) => {
                limit("types", u64::from(reader.count()), TYPES_MAX)?;
                for kind in reader.clone().into_iter_err_on_gc_types() {
                    let kind = kind?;
                    limit("parameters", kind.params().len() as u64, VALUES_MAX)?;
                    limit("results", kind.results().len() as u64, VALUES_MAX)?;
                    self.types.push(kind);
                }
            }
            Payload::ImportSection(reader) => {
                limit("imports", u64::from(reader.count()), SYMBOLS.len() as u64)?;
                for import in reader.clone().into_imports() {
                    let import = import?;
                    self.import(import.module, import.name, import.ty)?;
                }
            }
            Payload::FunctionSection(reader) => {
                limit("functions", u64::from(reader.count()), FUNCTIONS_MAX)?;
                self.functions = reader.clone().into_iter().collect::<Result<_, _>>()?;
            }
            Payload::TableSection(reader) => {
                limit("tables", u64::from(reader.count()), 1)?;
                for table in reader.clone() {
                    self.table(table?.ty)?;
                }
            }
            Payload::MemorySection(reader) => {
                limit("memories", u64::from(reader.count()), 1)?;
                for memory in reader.clone() {
                    self.memory = Some(memory?);
                }
            }
            Payload::GlobalSection(reader) => {
                limit("globals", u64::from(reader.count()), GLOBALS_MAX)?;
                for global in reader.clone() {
                    let global = global?;
                    self.globals.push((global.ty, constant(&global.init_expr)));
                }
            }
            Payload::ExportSection(reader) => {
                limit("exports", u64::from(reader.count()), GLOBALS_MAX + 3)?;
                for export in reader.clone() {
                    let Export { name, kind, index } = export?;
                    self.exports.push((name.into(), kind, index));
                }
            }
            Payload::StartSection { .. } => {
                let remedy = "build with --no-entry and without constructors";
                return Err(Refusal::Forbidden { what: "a start function", remedy });
            }
            Payload::ElementSection(reader) => {
                limit("element segments", u64::from(reader.count()), SEGMENTS_MAX)?;
                for element in reader.clone() {
                    self.element(element?)?;
                }
            }
            Payload::DataSection(reader) => {
                limit("data segments", u64::from(reader.count()), SEGMENTS_MAX)?;
                for data in reader.clone() {
                    let data = data?;
                    let DataKind::Active { memory_index: 0, offset_expr } = data.kind else { return Err(passive()) };
                    self.data.push((self.offset(&offset_expr, self.data.len())?, data.data.len()));
                }
            }
            Payload::CodeSectionEntry(body) => self.body(body)?,
            Payload::TagSection(_) => {
                let remedy = "compile without exceptions";
                return Err(Refusal::Forbidden { what: "exception tags", remedy });
            }
            // Custom sections mean nothing here, and the validator refuses what is unknown.
            _ => {}
        }
        Ok(())
    }

    fn import(&mut self, module: &str, name: &str, kind: TypeRef) -> Result<(), Refusal> {
        let unknown = || Refusal::Import { name: format!("{module}.{name}").chars().take(80).collect() };
        let TypeRef::Func(index) = kind else { return Err(unknown()) };
        if module != "anode" {
            return Err(unknown());
        }
        let symbol = symbol(name).ok_or_else(unknown)?;
        let found = self.types.get(index as usize);
        let wide = |kind: &Type| match kind {
            Type::I32 => ValType::I32,
            Type::I64 => ValType::I64,
        };
        let same = found.is_some_and(|found| {
            found.params().iter().copied().eq(symbol.arguments.iter().map(wide))
                && found.results() == [wide(&symbol.result)]
        });
        if !same {
            let (found, expected) = (found.map(describe).unwrap_or_default(), symbol.to_string());
            return Err(Refusal::Signature { name: name.into(), found, expected });
        }
        self.imports.push(symbol);
        Ok(())
    }

    fn table(&mut self, table: TableType) -> Result<(), Refusal> {
        limit("table elements", table.initial, TABLE_MAX)?;
        if table.table64 || table.shared || !table.element_type.is_func_ref() {
            let remedy = "only one table of functions, for indirect calls";
            return Err(Refusal::Forbidden { what: "a table of another kind", remedy });
        }
        self.table = u32::try_from(table.initial).ok();
        Ok(())
    }

    fn element(&mut self, element: Element<'_>) -> Result<(), Refusal> {
        let ElementKind::Active { table_index: None | Some(0), offset_expr } = element.kind else {
            return Err(passive());
        };
        let offset = self.offset(&offset_expr, self.elements.len())?;
        let count = match element.items {
            ElementItems::Functions(items) => items.count(),
            ElementItems::Expressions(_, items) => items.count(),
        };
        self.elements.push((offset, count));
        Ok(())
    }

    fn offset(&self, expression: &ConstExpr<'_>, index: usize) -> Result<u32, Refusal> {
        match constant(expression) {
            Some(Value::I32(offset)) => Ok(offset as u32),
            _ => Err(Refusal::Segment { index: index as u32, cause: "has no constant offset" }),
        }
    }

    fn body(&mut self, body: &FunctionBody<'_>) -> Result<(), Refusal> {
        let mut locals = 0;
        for group in body.get_locals_reader()? {
            locals += u64::from(group?.0);
            limit("locals in a function", locals, LOCALS_MAX)?;
        }
        let mut operators = body.get_operators_reader()?;
        while !operators.eof() {
            let (operator, offset) = operators.read_with_offset()?;
            if let Some(name) = forbidden(&operator) {
                return Err(Refusal::Instruction { name, offset });
            }
            self.bulk_memory |= matches!(operator, Operator::MemoryCopy { .. } | Operator::MemoryFill { .. });
        }
        Ok(())
    }

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
            Some((GlobalType { content_type: ValType::I32, mutable: false, .. }, Some(Value::I32(address)))) => {
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

fn passive() -> Refusal {
    Refusal::Forbidden {
        what: "a passive or declared segment",
        remedy: "compile without threads and bulk initialisation",
    }
}

/// Whatever would change the size of memory or table, the table itself, or segments.
fn forbidden(operator: &Operator<'_>) -> Option<&'static str> {
    Some(match operator {
        Operator::MemoryGrow { .. } => "memory.grow",
        Operator::MemoryInit { .. } => "memory.init",
        Operator::DataDrop { .. } => "data.drop",
        Operator::ElemDrop { .. } => "elem.drop",
        Operator::TableSet { .. } => "table.set",
        Operator::TableGrow { .. } => "table.grow",
        Operator::TableFill { .. } => "table.fill",
        Operator::TableCopy { .. } => "table.copy",
        Operator::TableInit { .. } => "table.init",
        _ => return None,
    })
}

/// The value of an initialiser that is one constant.
fn constant(expression: &ConstExpr<'_>) -> Option<Value> {
    let mut operators = expression.get_operators_reader();
    let value = match operators.read().ok()? {
        Operator::I32Const { value } => Value::I32(value),
        Operator::I64Const { value } => Value::I64(value),
        Operator::F32Const { value } => Value::F32(value.bits()),
        Operator::F64Const { value } => Value::F64(value.bits()),
        _ => return None,
    };
    matches!(operators.read(), Ok(Operator::End)).then_some(value)
}

fn describe(kind: &FuncType) -> String {
    let list = |types: &[ValType]| types.iter().map(ValType::to_string).collect::<Vec<_>>().join(", ");
    format!("({}) -> ({})", list(kind.params()), list(kind.results()))
}
