//! From a linker's module to the wasm representation: the same program in the least form.
//!
//! Custom sections go; the memory gets pages of one byte and exactly the size that stack and data
//! need, so that resetting an instance is cheap; only the entry, the arena, the memory and the
//! mutable globals stay exported; globals that the linker made for exports alone go.

use super::Error;
use crate::code::check::{ARENA_CONTEXT, ARENA_WINDOW, MEMORY_MAX};
use wasm_encoder::{Encode as _, ExportKind, ExportSection, MemorySection, MemoryType, Module, RawSection};
use wasmparser::{
    BinaryReaderError, ConstExpr, ExternalKind, KnownCustom, Linking, Operator, Parser, Payload, SymbolInfo,
};

impl From<BinaryReaderError> for Error {
    fn from(error: BinaryReaderError) -> Error {
        Error::Module { cause: error.to_string() }
    }
}

/// Payload bytes in the window, from the size of `an_arena` in an object file for wasm32.
pub(super) fn window(object: &[u8]) -> Result<u32, Error> {
    for payload in Parser::new(0).parse_all(object) {
        let Payload::CustomSection(custom) = payload? else { continue };
        let KnownCustom::Linking(linking) = custom.as_known() else { continue };
        for subsection in linking.subsections() {
            let Linking::SymbolTable(symbols) = subsection? else { continue };
            for symbol in symbols {
                if let SymbolInfo::Data { name: "an_arena", symbol: Some(arena), .. } = symbol? {
                    return Ok(arena.size.saturating_sub(ARENA_CONTEXT + ARENA_WINDOW));
                }
            }
        }
    }
    Err(Error::Module { cause: "there is no an_arena; begin the program with AN_CAPSULE(name, payload type)".into() })
}

/// The functions that an object file for wasm32 calls and nobody has: not its own, and no call of the header.
pub(super) fn undefined(object: &[u8]) -> Result<Option<String>, Error> {
    for payload in Parser::new(0).parse_all(object) {
        let Payload::ImportSection(imports) = payload? else { continue };
        for import in imports.into_imports() {
            let import = import?;
            if import.module == "env" && matches!(import.ty, wasmparser::TypeRef::Func(_)) {
                return Ok(Some(import.name.to_owned()));
            }
        }
    }
    Ok(None)
}

/// The variables in the static memory of an object file for wasm32 that code may change.
pub(super) fn variables(object: &[u8]) -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    for payload in Parser::new(0).parse_all(object) {
        let Payload::CustomSection(custom) = payload? else { continue };
        let KnownCustom::Linking(linking) = custom.as_known() else { continue };
        let (mut names, mut symbols) = (Vec::new(), Vec::new());
        for subsection in linking.subsections() {
            match subsection? {
                Linking::SegmentInfo(segments) => {
                    for segment in segments {
                        names.push(segment?.name);
                    }
                }
                Linking::SymbolTable(table) => {
                    for symbol in table {
                        if let SymbolInfo::Data { name, symbol: Some(place), .. } = symbol? {
                            symbols.push((name, place.index as usize));
                        }
                    }
                }
                _ => {}
            }
        }
        let changes =
            |at: usize| names.get(at).is_some_and(|name| name.starts_with(".bss") || name.starts_with(".data."));
        let kept = symbols.into_iter().filter(|(name, at)| *name != "an_arena" && changes(*at));
        found.extend(kept.map(|(name, _)| name.to_owned()));
    }
    Ok(found)
}

/// What has to be known of a module before it is written again.
#[derive(Default)]
struct Survey {
    memory: Option<wasmparser::MemoryType>,
    globals: Vec<(bool, Option<i32>)>,
    exports: Vec<(String, ExternalKind, u32)>,
    /// One above the highest global that code or initialisers use.
    globals_used: u32,
}

/// Writes the module again in the form of a representation. It may still be refused by the check.
pub(super) fn normalise(bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let survey = Survey::of(bytes)?;
    let exports = survey.kept_exports();
    let globals = survey.kept_globals(&exports);
    let mut module = Module::new();
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload?;
        match &payload {
            Payload::CustomSection(_) => {}
            Payload::MemorySection(_) => {
                module.section(&survey.memory_section()?);
            }
            Payload::GlobalSection(reader) => {
                let mut data = Vec::new();
                globals.encode(&mut data);
                let starts = reader.clone().into_iter_with_offsets().map(|item| item.map(|(start, _)| start));
                let starts = starts.chain([Ok(reader.range().end)]).collect::<Result<Vec<_>, _>>()?;
                data.extend_from_slice(&bytes[starts[0]..starts[globals as usize]]);
                if globals > 0 {
                    module.section(&RawSection { id: 6, data: &data });
                }
            }
            Payload::ExportSection(_) => {
                module.section(&section(&exports));
            }
            _ => {
                if let Some((id, range)) = payload.as_section() {
                    module.section(&RawSection { id, data: &bytes[range] });
                }
            }
        }
    }
    Ok(module.finish())
}

impl Survey {
    fn of(bytes: &[u8]) -> Result<Survey, Error> {
        let mut survey = Survey::default();
        for payload in Parser::new(0).parse_all(bytes) {
            match payload? {
                Payload::MemorySection(reader) => survey.memory = reader.into_iter().next().transpose()?,
                Payload::GlobalSection(reader) => {
                    for global in reader {
                        let global = global?;
                        let value = survey.expression(&global.init_expr)?;
                        survey.globals.push((global.ty.mutable, value));
                    }
                }
                Payload::ExportSection(reader) => {
                    for export in reader {
                        let export = export?;
                        survey.exports.push((export.name.into(), export.kind, export.index));
                    }
                }
                Payload::ElementSection(reader) => {
                    for element in reader {
                        if let wasmparser::ElementKind::Active { offset_expr, .. } = element?.kind {
                            survey.expression(&offset_expr)?;
                        }
                    }
                }
                Payload::DataSection(reader) => {
                    for data in reader {
                        if let wasmparser::DataKind::Active { offset_expr, .. } = data?.kind {
                            survey.expression(&offset_expr)?;
                        }
                    }
                }
                Payload::CodeSectionEntry(body) => {
                    let mut operators = body.get_operators_reader()?;
                    while !operators.eof() {
                        survey.operator(&operators.read()?);
                    }
                }
                _ => {}
            }
        }
        Ok(survey)
    }

    fn operator(&mut self, operator: &Operator<'_>) {
        if let Operator::GlobalGet { global_index } | Operator::GlobalSet { global_index } = operator {
            self.globals_used = self.globals_used.max(global_index.saturating_add(1));
        }
    }

    /// Notes the globals of an initialiser; its value if it is one i32 constant.
    fn expression(&mut self, expression: &ConstExpr<'_>) -> Result<Option<i32>, Error> {
        let mut value = None;
        for operator in expression.get_operators_reader() {
            let operator = operator?;
            if let Operator::I32Const { value: constant } = operator {
                value = Some(constant);
            }
            self.operator(&operator);
        }
        Ok(value)
    }

    /// The interface's exports and all mutable globals, those under a new name that have none.
    fn kept_exports(&self) -> Vec<(String, ExternalKind, u32)> {
        let mutable = |index: u32| self.globals.get(index as usize).is_some_and(|(mutable, _)| *mutable);
        let keep = |(name, kind, index): &&(String, ExternalKind, u32)| match kind {
            ExternalKind::Memory => name == "memory",
            ExternalKind::Func => name == "capsule",
            ExternalKind::Global => name == "an_arena" || mutable(*index),
            _ => false,
        };
        let mut kept: Vec<_> = self.exports.iter().filter(keep).cloned().collect();
        for index in (0..self.globals.len() as u32).filter(|index| mutable(*index)) {
            if !kept.iter().any(|(_, kind, at)| *kind == ExternalKind::Global && *at == index) {
                kept.push((format!("__global_{index}"), ExternalKind::Global, index));
            }
        }
        kept
    }

    /// How many globals stay: those behind the last one that is used or exported go.
    fn kept_globals(&self, exports: &[(String, ExternalKind, u32)]) -> u32 {
        let exported = exports.iter().filter(|(_, kind, _)| *kind == ExternalKind::Global);
        let last = exported.map(|(_, _, index)| index.saturating_add(1)).max().unwrap_or(0);
        last.max(self.globals_used).min(self.globals.len() as u32)
    }

    /// A memory that cannot grow, with just the bytes below the heap if the linker says where that
    /// begins, else as large as the module asks for.
    fn memory_section(&self) -> Result<MemorySection, Error> {
        let memory = self.memory.ok_or_else(|| Error::Module { cause: "it has no memory".into() })?;
        let page = 1u64.checked_shl(memory.page_size_log2.unwrap_or(16)).unwrap_or(u64::MAX);
        let heap = self.exports.iter().find(|(name, kind, _)| name == "__heap_base" && *kind == ExternalKind::Global);
        let heap = heap.and_then(|(_, _, index)| self.globals.get(*index as usize)?.1);
        let bytes = match heap {
            Some(heap) => u64::from(heap as u32),
            None => memory.initial.saturating_mul(page),
        };
        if bytes > MEMORY_MAX {
            let cause = format!(
                "stack and data need {bytes} bytes, {MEMORY_MAX} are allowed; link with: -z stack-size=1024 --export=__heap_base"
            );
            return Err(Error::Module { cause });
        }
        let mut section = MemorySection::new();
        section.memory(MemoryType {
            minimum: bytes,
            maximum: Some(bytes),
            memory64: memory.memory64,
            shared: memory.shared,
            page_size_log2: Some(0),
        });
        Ok(section)
    }
}

fn section(exports: &[(String, ExternalKind, u32)]) -> ExportSection {
    let mut section = ExportSection::new();
    for (name, kind, index) in exports {
        let kind = match kind {
            ExternalKind::Memory => ExportKind::Memory,
            ExternalKind::Global => ExportKind::Global,
            _ => ExportKind::Func,
        };
        section.export(name, kind, *index);
    }
    section
}
