//! Programs compiled by the build, taken out of their object files.
//!
//! These files are our own, so whatever is wrong with one is a fault of the build.

use crate::code::bundle::Insn;
use crate::code::link::{Function, LinkEnvironment, Reference};
use object::read::elf::{ElfFile64, ElfSection64, ElfSymbol64};
use object::{LittleEndian, Object, ObjectSection, ObjectSymbol, RelocationTarget, SymbolKind};
use std::collections::VecDeque;
use std::io;

type Elf<'a> = ElfFile64<'a, LittleEndian>;

/// The function that mobile code takes the place of.
const CODE: &str = "capsule";

/// The end of the name of a map that is meant as a whole, and of one whose one value is meant.
const MAP: &str = "_map";
const VALUE: &str = "_value";

/// The functions of an object file: those of section `section`, or of all.
fn functions(file: &[u8]) -> io::Result<Vec<Function>> {
    let elf = Elf::parse(file).map_err(io::Error::other)?;
    let mut found = Vec::new();
    for symbol in elf.symbols().filter(|symbol| symbol.is_definition() && symbol.kind() == SymbolKind::Text) {
        let Some(section) = symbol.section_index().and_then(|index| elf.section_by_index(index).ok()) else { continue };
        found.push(function(&elf, &section, &symbol)?);
    }
    Ok(found)
}

fn function(
    elf: &Elf<'_>,
    section: &ElfSection64<'_, '_, LittleEndian>,
    symbol: &ElfSymbol64<'_, '_, LittleEndian>,
) -> io::Result<Function> {
    let broken = |what: &str| io::Error::other(format!("a program built into this binary is broken: {what}"));
    let name = symbol.name().map_err(io::Error::other)?.to_owned();
    let range = symbol.address() as usize..(symbol.address() + symbol.size()) as usize;
    let data = section.data().map_err(io::Error::other)?;
    let bytes = data.get(range.clone()).ok_or_else(|| broken("a function outside its section"))?;
    let code = bytes.as_chunks::<8>().0.iter().map(|chunk| Insn::decode(*chunk)).collect();
    let mut references = Vec::new();
    for (offset, relocation) in section.relocations() {
        if !range.contains(&(offset as usize)) {
            continue;
        }
        let RelocationTarget::Symbol(index) = relocation.target() else {
            return Err(broken("a relocation without a symbol"));
        };
        let target = elf.symbol_by_index(index).map_err(io::Error::other)?;
        let calls = target.kind() == SymbolKind::Text;
        let target = target.name().map_err(io::Error::other)?;
        let reference = match target.strip_suffix(VALUE) {
            _ if target == CODE => Reference::Code,
            _ if calls => Reference::Function(target.to_owned()),
            Some(stem) => Reference::Value(format!("{stem}{MAP}")),
            None => Reference::Map(target.to_owned()),
        };
        references.push(((offset as usize - range.start) / 8, reference));
    }
    Ok(Function { name, code, references })
}

/// The function called `name`, and behind it those that it calls, and those call.
pub fn program(file: &[u8], name: &str) -> io::Result<Vec<Function>> {
    let mut others = functions(file)?;
    let (mut found, mut wanted) = (Vec::<Function>::new(), VecDeque::from([name.to_owned()]));
    while let Some(name) = wanted.pop_front() {
        if found.iter().any(|function| function.name == name) {
            continue;
        }
        let at = others.iter().position(|function| function.name == name);
        let missing = || io::Error::other(format!("the program built into this binary has no function '{name}'"));
        let function = others.swap_remove(at.ok_or_else(missing)?);
        wanted.extend(function.references.iter().filter_map(|(_, reference)| match reference {
            Reference::Function(name) => Some(name.clone()),
            _ => None,
        }));
        found.push(function);
    }
    Ok(found)
}

/// What stands around mobile code: the two runners, and the calls, all of which are in the file of the second.
pub fn environment(runner: &[u8], sender: &[u8]) -> io::Result<LinkEnvironment> {
    let (sender, calls): (Vec<_>, Vec<_>) =
        functions(sender)?.into_iter().partition(|function| function.name == "sender");
    let sender = sender.into_iter().next().ok_or_else(|| io::Error::other("the sender is not in this binary"))?;
    let runner = functions(runner)?.into_iter().find(|function| function.name == "runner");
    let runner = runner.ok_or_else(|| io::Error::other("the runner is not in this binary"))?;
    Ok(LinkEnvironment { runner, sender, calls })
}
