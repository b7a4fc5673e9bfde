//! From clang's ELF object file to the bpf representation.
//!
//! Each function is a section of its own (`-ffunction-sections`). The entry comes first, then every reachable function,
//! in the order of discovery; others stay behind. Calls between functions become distances, calls of the interface
//! indices into the sorted symbols. Everything else with a relocation (variables, constants, maps, addresses of
//! functions) is refused by the name of the symbol and its section.

use super::Error;
use crate::abi;
use crate::code::bundle::{Insn, Program};
use object::read::elf::ElfFile64;
use object::{
    LittleEndian, Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget, SectionFlags, SectionIndex,
    SymbolKind, elf,
};
use std::collections::{BTreeSet, HashMap};

/// Section of the entry, as `capsule.h` names it.
const ENTRY: &str = "anode.capsule";
/// Section that holds the window's size.
const META: &str = "anode.meta";
const CALL: u8 = 0x85;

type Elf<'a> = ElfFile64<'a, LittleEndian>;
type Section<'a, 'f> = object::read::elf::ElfSection64<'a, 'f, LittleEndian>;

/// A converted object file.
pub(super) struct Converted {
    /// The program, in canonical form.
    pub(super) program: Program,
    /// Payload bytes in the window.
    pub(super) window: u32,
    /// Sections, and the instruction at which each begins.
    pub(super) places: Vec<(String, usize)>,
}

/// Why an object file is not converted, and the section and byte it is about, if it is about one.
pub(super) struct Broken {
    pub(super) error: Error,
    pub(super) at: Option<(String, u64)>,
}

impl<E: Into<Error>> From<E> for Broken {
    fn from(error: E) -> Broken {
        Broken { error: error.into(), at: None }
    }
}

/// Converts an ELF object file for bpf. Total: a broken file gives an error.
pub(super) fn convert(bytes: &[u8]) -> Result<Converted, Broken> {
    let file = Elf::parse(bytes)?;
    let window = window(&file)?;
    let entry = file.section_by_name(ENTRY).ok_or_else(|| broken("there is no entry"))?;
    let mut placed = Placed::default();
    placed.place(&entry)?;
    let mut next = 0;
    while let Some(&index) = placed.order.get(next) {
        placed.follow(&file, &file.section_by_index(index)?)?;
        next += 1;
    }
    let places =
        placed.order.iter().map(|index| Ok((file.section_by_index(*index)?.name()?.to_owned(), placed.base[index])));
    let places = places.collect::<Result<Vec<_>, object::Error>>()?;
    Ok(Converted { program: placed.finish(&file)?, window, places })
}

/// Functions placed so far, and the calls among them.
#[derive(Default)]
struct Placed {
    code: Vec<Insn>,
    order: Vec<SectionIndex>,
    base: HashMap<SectionIndex, usize>,
    calls: Vec<Call>,
}

/// A call to be patched.
struct Call {
    at: usize,
    to: Target,
}

enum Target {
    Function { section: SectionIndex, instruction: i64 },
    Symbol(String),
}

impl Placed {
    fn place(&mut self, section: &Section<'_, '_>) -> Result<(), Error> {
        let (chunks, rest) = section.data()?.as_chunks::<8>();
        if !rest.is_empty() {
            return Err(broken("a section of code is no whole number of instructions"));
        }
        self.base.insert(section.index(), self.code.len());
        self.order.push(section.index());
        self.code.extend(chunks.iter().map(|chunk| Insn::decode(*chunk)));
        Ok(())
    }

    /// Notes the section's calls, and places the functions that they reach.
    fn follow(&mut self, file: &Elf<'_>, section: &Section<'_, '_>) -> Result<(), Broken> {
        for (offset, relocation) in section.relocations() {
            let at = |error| Broken { error, at: section.name().ok().map(|name| (name.to_owned(), offset)) };
            let call = self.call(file, section, offset, relocation.target()).map_err(at)?;
            self.calls.push(call);
        }
        Ok(())
    }

    /// The call that a relocation at `offset` of a section is for.
    fn call(
        &mut self,
        file: &Elf<'_>,
        section: &Section<'_, '_>,
        offset: u64,
        target: RelocationTarget,
    ) -> Result<Call, Error> {
        let RelocationTarget::Symbol(index) = target else {
            return Err(broken("a relocation without symbol"));
        };
        let symbol = file.symbol_by_index(index)?;
        let name = name(file, &symbol);
        let at = self.base[&section.index()] + (offset / 8) as usize;
        if !offset.is_multiple_of(8) || offset >= section.size() {
            return Err(broken("a relocation outside its section"));
        }
        let place = symbol.section_index().and_then(|index| file.section_by_index(index).ok());
        if let Some(kept) = place.filter(|place| !is_code(place)) {
            let local = symbol.kind() == SymbolKind::Section;
            let address = if local { self.code[at].imm as u32 as u64 } else { symbol.address() };
            return Err(data(file, &kept, address)?);
        }
        if self.code[at].opcode != CALL {
            let section = section.name()?.into();
            return Err(Error::Relocation { symbol: name, section, offset });
        }
        let to = match symbol.section_index() {
            None if abi::symbol(&name).is_some() => Target::Symbol(name),
            None => return Err(Error::Undefined { symbol: name, section: section.name()?.into() }),
            Some(target) => {
                let local = symbol.kind() == SymbolKind::Section;
                let instruction = if local { i64::from(self.code[at].imm) + 1 } else { (symbol.address() / 8) as i64 };
                if !self.base.contains_key(&target) {
                    self.place(&file.section_by_index(target)?)?;
                }
                Target::Function { section: target, instruction }
            }
        };
        Ok(Call { at, to })
    }

    /// Patches the calls, now that every function has its place.
    fn finish(mut self, file: &Elf<'_>) -> Result<Program, Error> {
        let entry = file.symbols().find(|symbol| symbol.name() == Ok("capsule"));
        let first = self.order.first().copied();
        if !entry.is_some_and(|entry| entry.address() == 0 && entry.section_index() == first) {
            return Err(broken("its first function is not 'capsule'"));
        }
        let names: BTreeSet<&String> = self
            .calls
            .iter()
            .filter_map(|call| match &call.to {
                Target::Symbol(name) => Some(name),
                Target::Function { .. } => None,
            })
            .collect();
        let symbols: Vec<String> = names.into_iter().cloned().collect();
        for Call { at, to } in &self.calls {
            let (src, imm) = match to {
                Target::Symbol(name) => (14, symbols.iter().position(|symbol| symbol == name).unwrap_or(0) as i64),
                Target::Function { section, instruction } => {
                    (1, self.base[section] as i64 + instruction - *at as i64 - 1)
                }
            };
            let imm = i32::try_from(imm).map_err(|_| broken("a call over too great a distance"))?;
            self.code[*at] = Insn { opcode: CALL, dst: 0, src, off: 0, imm };
        }
        Ok(Program { symbols, code: self.code })
    }
}

/// Where a function of this name is called: section and byte.
pub(super) fn call_of(bytes: &[u8], wanted: &str) -> Option<(String, u64)> {
    let file = Elf::parse(bytes).ok()?;
    file.sections().filter(is_code).find_map(|section| {
        let calls = |target| match target {
            RelocationTarget::Symbol(index) => file.symbol_by_index(index).is_ok_and(|one| one.name() == Ok(wanted)),
            _ => false,
        };
        let (offset, _) = section.relocations().find(|(_, relocation)| calls(relocation.target()))?;
        Some((section.name().ok()?.to_owned(), offset))
    })
}

fn is_code(section: &Section<'_, '_>) -> bool {
    flags(section) & u64::from(elf::SHF_EXECINSTR) != 0
}

fn flags(section: &Section<'_, '_>) -> u64 {
    match section.flags() {
        SectionFlags::Elf { sh_flags } => sh_flags,
        _ => 0,
    }
}

pub(super) fn window(file: &Elf<'_>) -> Result<u32, Error> {
    let section = file.section_by_name(META).ok_or_else(|| broken("it does not say its window"))?;
    let bytes = section.data()?.first_chunk::<4>().ok_or_else(|| broken("it does not say its window"))?;
    Ok(u32::from_le_bytes(*bytes))
}

/// What is kept at an address of a section of data.
fn data(file: &Elf<'_>, section: &Section<'_, '_>, address: u64) -> Result<Error, Error> {
    let inside = |symbol: &object::read::elf::ElfSymbol64<'_, '_, LittleEndian>| {
        let begins = symbol.section_index() == Some(section.index()) && symbol.kind() != SymbolKind::Section;
        begins && (symbol.address()..symbol.address() + symbol.size().max(1)).contains(&address)
    };
    let symbol = file.symbols().find(inside).and_then(|symbol| symbol.name().ok()).filter(|name| !name.is_empty());
    let symbol = symbol.map_or_else(|| "a text or table".to_owned(), |name| format!("'{name}'"));
    let constant = flags(section) & u64::from(elf::SHF_WRITE) == 0;
    Ok(Error::Data { symbol, section: section.name()?.into(), constant })
}

/// A symbol's name; a section's own symbol bears the section's.
fn name(file: &Elf<'_>, symbol: &object::read::elf::ElfSymbol64<'_, '_, LittleEndian>) -> String {
    match symbol.name() {
        Ok(name) if !name.is_empty() => name.into(),
        _ => {
            let section = symbol.section_index().and_then(|index| file.section_by_index(index).ok());
            section.and_then(|section| section.name().ok().map(str::to_owned)).unwrap_or_default()
        }
    }
}

fn broken(cause: &str) -> Error {
    Error::Object { cause: cause.into() }
}

impl From<object::Error> for Error {
    fn from(error: object::Error) -> Error {
        Error::Object { cause: error.to_string() }
    }
}
