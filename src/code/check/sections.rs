//! The sections of a wasm representation, read and checked one by one.
//!
//! Refusals here name what an author can change. The validator checks that the rest is valid WebAssembly, and
//! [`super::wasm`] what concerns several sections.

use super::Refusal;
use super::cost::Costs;
use super::wasm::GlobalValue;
use crate::abi::{SYMBOLS, Symbol, Type, symbol};
use wasmparser::{
    ConstExpr, Data, DataKind, Element, ElementItems, ElementKind, ExternalKind, FromReader, FuncType, FunctionBody,
    GlobalType, Import, MemoryType, Operator, Payload, SectionLimited, TableType, TypeRef, ValType,
};

/// More than any program needs; less than makes a compiler slow.
pub(super) const FUNCTIONS_MAX: u64 = 1024;
const TYPES_MAX: u64 = 1024;
const VALUES_MAX: u64 = 32;
pub(super) const LOCALS_MAX: u64 = 1024;
const GLOBALS_MAX: u64 = 64;
const TABLE_MAX: u64 = 1024;
const SEGMENTS_MAX: u64 = 256;

/// What has been read of a module so far.
#[derive(Default)]
pub(super) struct Module {
    pub(super) types: Vec<FuncType>,
    pub(super) imports: Vec<&'static Symbol>,
    pub(super) functions: Vec<u32>,
    pub(super) table: Option<u32>,
    pub(super) memory: Option<MemoryType>,
    pub(super) globals: Vec<(GlobalType, Option<GlobalValue>)>,
    pub(super) exports: Vec<(String, ExternalKind, u32)>,
    pub(super) data: Vec<(u32, usize)>,
    pub(super) elements: Vec<(u32, u32)>,
    pub(super) bulk_memory: bool,
    /// Whether any instruction asks how large the memory is.
    pub(super) reads_memory_size: bool,
    /// What it costs to compile.
    pub(super) costs: Costs,
    /// Whether any instruction changes a global.
    pub(super) sets_globals: bool,
    /// Whether any instruction changes the memory.
    pub(super) writes_memory: bool,
}

impl Module {
    /// Takes in one section, or refuses what is in it.
    pub(super) fn section(&mut self, payload: &Payload<'_>) -> Result<(), Refusal> {
        match payload {
            Payload::TypeSection(reader) => {
                limit("types", u64::from(reader.count()), TYPES_MAX)?;
                reader.clone().into_iter_err_on_gc_types().try_for_each(|kind| self.kind(kind?))
            }
            Payload::ImportSection(reader) => {
                limit("imports", u64::from(reader.count()), SYMBOLS.len() as u64)?;
                reader.clone().into_imports().try_for_each(|import| self.import(&import?))
            }
            Payload::FunctionSection(reader) => each("functions", reader, FUNCTIONS_MAX, |kind| {
                self.functions.push(kind);
                self.costs.function(kind);
                Ok(())
            }),
            Payload::TableSection(reader) => each("tables", reader, 1, |table| self.table(table.ty)),
            Payload::MemorySection(reader) => each("memories", reader, 1, |memory| {
                self.memory = Some(memory);
                Ok(())
            }),
            Payload::GlobalSection(reader) => each("globals", reader, GLOBALS_MAX, |global| {
                self.globals.push((global.ty, constant(&global.init_expr)));
                Ok(())
            }),
            Payload::ExportSection(reader) => each("exports", reader, GLOBALS_MAX + 3, |export| {
                self.exports.push((export.name.into(), export.kind, export.index));
                Ok(())
            }),
            Payload::StartSection { .. } => {
                let remedy = "build with --no-entry and without constructors";
                Err(Refusal::Forbidden { what: "a start function", remedy })
            }
            Payload::ElementSection(reader) => {
                each("element segments", reader, SEGMENTS_MAX, |element| self.element(element))
            }
            Payload::DataSection(reader) => each("data segments", reader, SEGMENTS_MAX, |data| self.data(&data)),
            Payload::CodeSectionEntry(body) => self.body(body),
            Payload::TagSection(_) => {
                Err(Refusal::Forbidden { what: "exception tags", remedy: "compile without exceptions" })
            }
            // Custom sections mean nothing here, and the validator refuses what is unknown.
            _ => Ok(()),
        }
    }

    fn kind(&mut self, kind: FuncType) -> Result<(), Refusal> {
        limit("parameters", kind.params().len() as u64, VALUES_MAX)?;
        limit("results", kind.results().len() as u64, VALUES_MAX)?;
        self.costs.kind(&kind);
        self.types.push(kind);
        Ok(())
    }

    fn data(&mut self, data: &Data<'_>) -> Result<(), Refusal> {
        let DataKind::Active { memory_index: 0, offset_expr } = &data.kind else { return Err(passive()) };
        self.data.push((self.offset(offset_expr, self.data.len())?, data.data.len()));
        Ok(())
    }

    fn import(&mut self, import: &Import<'_>) -> Result<(), Refusal> {
        let Import { module, name, ty: kind } = *import;
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
        self.costs.import(index);
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
            Some(GlobalValue::I32(offset)) => Ok(offset as u32),
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
            self.reads_memory_size |= matches!(operator, Operator::MemorySize { .. });
            self.sets_globals |= matches!(operator, Operator::GlobalSet { .. });
            self.writes_memory |= writes(&operator);
        }
        Ok(())
    }
}

pub(super) fn limit(what: &'static str, found: u64, limit: u64) -> Result<(), Refusal> {
    if found > limit { Err(Refusal::Limit { what, found, limit }) } else { Ok(()) }
}

/// Takes in the items of a section, of which there are at most `most`.
fn each<'a, T: FromReader<'a>>(
    what: &'static str,
    reader: &SectionLimited<'a, T>,
    most: u64,
    mut take: impl FnMut(T) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    limit(what, u64::from(reader.count()), most)?;
    reader.clone().into_iter().try_for_each(|item| take(item?))
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

/// Whatever changes the memory, of all instructions that [`super::wasm`] lets through.
fn writes(operator: &Operator<'_>) -> bool {
    use Operator::{
        F32Store, F64Store, I32Store, I32Store8, I32Store16, I64Store, I64Store8, I64Store16, I64Store32, MemoryCopy,
        MemoryFill, V128Store, V128Store8Lane, V128Store16Lane, V128Store32Lane, V128Store64Lane,
    };
    matches!(
        operator,
        I32Store { .. }
            | I64Store { .. }
            | F32Store { .. }
            | F64Store { .. }
            | I32Store8 { .. }
            | I32Store16 { .. }
            | I64Store8 { .. }
            | I64Store16 { .. }
            | I64Store32 { .. }
            | MemoryCopy { .. }
            | MemoryFill { .. }
            | V128Store { .. }
            | V128Store8Lane { .. }
            | V128Store16Lane { .. }
            | V128Store32Lane { .. }
            | V128Store64Lane { .. }
    )
}

/// The value of an initialiser that is one constant.
fn constant(expression: &ConstExpr<'_>) -> Option<GlobalValue> {
    let mut operators = expression.get_operators_reader();
    let value = match operators.read().ok()? {
        Operator::I32Const { value } => GlobalValue::I32(value),
        Operator::I64Const { value } => GlobalValue::I64(value),
        Operator::F32Const { value } => GlobalValue::F32(value.bits()),
        Operator::F64Const { value } => GlobalValue::F64(value.bits()),
        _ => return None,
    };
    matches!(operators.read(), Ok(Operator::End)).then_some(value)
}

pub(super) fn describe(kind: &FuncType) -> String {
    let list = |types: &[ValType]| types.iter().map(ValType::to_string).collect::<Vec<_>>().join(", ");
    format!("({}) -> ({})", list(kind.params()), list(kind.results()))
}
