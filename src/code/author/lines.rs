//! Source lines of a program, from the compiler: the line information of BTF for bpf, DWARF for wasm.
//!
//! It comes from another compilation of the same source with `-g`, so that debugging cannot change the code or its
//! name. If that has not made the same code, there are no lines. Names of files are relative to the source's directory,
//! or to the compiler's place for headers. Of other names the last part stays, so that a table says nothing of the
//! author's machine.

use super::Error;
use super::names::Names;
use super::program::{Converted, convert};
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object as _, ObjectSection as _};
use std::path::PathBuf;
use wasmparser::{Parser, Payload};

/// Places in a program, each with file and line.
pub(super) type Places = Vec<(u32, String, u32)>;

/// A line of an object file for bpf: section, byte in it, file, line.
struct Line {
    section: String,
    offset: u32,
    file: String,
    line: u32,
}

/// The lines of the instructions of `code`, which `object` has too, with debugging information.
pub(super) fn bpf(object: &[u8], code: &Converted, names: &Names) -> Option<Places> {
    let same = convert(object).ok().filter(|other| other.program == code.program)?;
    let place = |line: Line| {
        let base = same.places.iter().find(|(section, _)| *section == line.section)?.1;
        Some((base as u32 + line.offset / 8, names.short(&line.file), line.line))
    };
    Some(btf(object)?.into_iter().filter_map(place).collect())
}

/// The line at a byte of a section of an object file for bpf.
pub(super) fn at(object: &[u8], section: &str, offset: u64, names: &Names) -> Option<String> {
    let lines = btf(object)?.into_iter().filter(|line| line.section == section && u64::from(line.offset) <= offset);
    let found = lines.max_by_key(|line| line.offset)?;
    Some(format!("{}:{}", names.short(&found.file), found.line))
}

/// The line information of BTF: sections `.BTF.ext` and, for strings, `.BTF` (the kernel's Documentation/bpf/btf.rst).
fn btf(object: &[u8]) -> Option<Vec<Line>> {
    const RECORD: usize = 16;
    let file = ElfFile64::<LittleEndian>::parse(object).ok()?;
    let data = |name| file.section_by_name(name)?.data().ok();
    let (types, more) = (data(".BTF")?, data(".BTF.ext")?);
    let strings = word(types, 4)? as usize + word(types, 16)? as usize;
    let text = |at: u32| {
        let bytes = types.get(strings.checked_add(at as usize)?..)?;
        let end = bytes.iter().position(|byte| *byte == 0)?;
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    };
    let begin = word(more, 4)? as usize + word(more, 16)? as usize;
    let mut rest = more.get(begin..begin.checked_add(word(more, 20)? as usize)?)?;
    let size = (word(rest, 0)? as usize).max(RECORD);
    rest = &rest[4..];
    let mut lines = Vec::new();
    while let (Some(section), Some(count)) = (word(rest, 0), word(rest, 4)) {
        let section = text(section)?;
        let records = rest.get(8..)?.get(..size.checked_mul(count as usize)?)?;
        for record in records.chunks_exact(size) {
            let (offset, file, line) = (word(record, 0)?, text(word(record, 4)?)?, word(record, 12)? >> 10);
            lines.push(Line { section: section.clone(), offset, file, line });
        }
        rest = &rest[8 + records.len()..];
    }
    Some(lines)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word))
}

/// The lines of the code in `module`, by what `traced` says, a module of the same code with debugging information.
pub(super) fn wasm(traced: &[u8], module: &[u8], names: &Names) -> Option<Places> {
    let (code, begin) = (code(traced)?, code(module)?.0);
    let same = traced.get(code.0..code.1)? == module.get(begin..begin + (code.1 - code.0))?;
    if !same {
        return None;
    }
    let section = |id: gimli::SectionId| {
        let bytes = custom(traced, id.name()).unwrap_or_default();
        Ok::<_, gimli::Error>(gimli::EndianSlice::new(bytes, gimli::LittleEndian))
    };
    let dwarf = gimli::Dwarf::load(section).ok()?;
    let (mut places, mut units) = (Places::new(), dwarf.units());
    while let Ok(Some(header)) = units.next() {
        let Ok(unit) = dwarf.unit(header) else { continue };
        let Some(program) = unit.line_program.clone() else { continue };
        let mut rows = program.rows();
        while let Ok(Some((header, row))) = rows.next_row() {
            // What the linker has thrown away has addresses beyond the code.
            let Some(at) = usize::try_from(row.address()).ok().filter(|at| (1..code.1 - code.0).contains(at)) else {
                continue;
            };
            let file = row.file(header).and_then(|file| name_of(&dwarf, &unit, header, file)).unwrap_or_default();
            let line = row.line().and_then(|line| u32::try_from(line.get()).ok()).unwrap_or(0);
            places.push(((begin + at) as u32, names.short(&file), line));
        }
    }
    Some(places)
}

/// Where a variable of this name is declared, by a module with debugging information.
pub(super) fn declared(traced: &[u8], wanted: &str, names: &Names) -> Option<String> {
    let section = |id: gimli::SectionId| {
        let bytes = custom(traced, id.name()).unwrap_or_default();
        Ok::<_, gimli::Error>(gimli::EndianSlice::new(bytes, gimli::LittleEndian))
    };
    let dwarf = gimli::Dwarf::load(section).ok()?;
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        let Ok(unit) = dwarf.unit(header) else { continue };
        let mut entries = unit.entries();
        while let Ok(Some(entry)) = entries.next_dfs() {
            let text = |value| dwarf.attr_string(&unit, value).ok().map(|text| text.to_string_lossy().into_owned());
            let of = |what| entry.attr_value(what);
            let named = entry.tag() == gimli::DW_TAG_variable
                && of(gimli::DW_AT_name).and_then(text).as_deref() == Some(wanted);
            let (true, Some(line)) = (named, of(gimli::DW_AT_decl_line).and_then(|line| line.udata_value())) else {
                continue;
            };
            let file = of(gimli::DW_AT_decl_file).and_then(|file| file.udata_value());
            let header = unit.line_program.as_ref().map(|program| program.header());
            let file = header.zip(file).and_then(|(header, file)| name_of(&dwarf, &unit, header, header.file(file)?));
            return Some(format!(
                "{}:{line}",
                file.map_or_else(|| names.source().to_owned(), |file| names.short(&file))
            ));
        }
    }
    None
}

type Slice<'a> = gimli::EndianSlice<'a, gimli::LittleEndian>;

/// The path of a file in a line program.
fn name_of(
    dwarf: &gimli::Dwarf<Slice<'_>>,
    unit: &gimli::Unit<Slice<'_>>,
    header: &gimli::LineProgramHeader<Slice<'_>>,
    file: &gimli::FileEntry<Slice<'_>>,
) -> Option<String> {
    let text = |value| dwarf.attr_string(unit, value).ok().map(|text| text.to_string_lossy().into_owned());
    let mut path = PathBuf::new();
    if let Some(directory) = unit.comp_dir {
        path.push(directory.to_string_lossy().as_ref());
    }
    if let Some(directory) = file.directory(header).and_then(text) {
        path.push(directory);
    }
    path.push(text(file.path_name())?);
    Some(path.to_string_lossy().into_owned())
}

/// Where the code section's content lies in a module.
fn code(module: &[u8]) -> Option<(usize, usize)> {
    Parser::new(0).parse_all(module).find_map(|payload| match payload {
        Ok(Payload::CodeSectionStart { range, .. }) => Some((range.start, range.end)),
        _ => None,
    })
}

fn custom<'a>(module: &'a [u8], name: &str) -> Option<&'a [u8]> {
    Parser::new(0).parse_all(module).find_map(|payload| match payload {
        Ok(Payload::CustomSection(section)) if section.name() == name => Some(section.data()),
        _ => None,
    })
}

impl Error {
    /// The same, said to be about a line of the source.
    pub(super) fn at(self, source: Option<String>) -> Error {
        match source {
            Some(source) => Error::At { source, error: Box::new(self) },
            None => self,
        }
    }
}
