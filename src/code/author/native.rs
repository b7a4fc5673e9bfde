//! From clang's object file to the native representation: a shared object without open symbols.
//!
//! The calls of the interface are undefined in the author's object file. For each one that is used a jump through
//! a table is put beside it, and a function by which the node fills the table; the linker leaves nothing
//! open. What would keep state from packet to packet (writable data) is refused.

use super::Error;
use super::program::window;
use crate::abi;
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object as _, ObjectSection as _, ObjectSymbol as _, SectionFlags, elf};
use std::fmt::Write as _;

/// What an object file for this processor needs.
pub(super) struct Needs {
    /// The calls, in the order of the table.
    pub(super) symbols: Vec<&'static str>,
    /// Payload bytes in the window.
    pub(super) window: u32,
}

/// Looks into the author's object file.
pub(super) fn needs(bytes: &[u8]) -> Result<Needs, Error> {
    let file = ElfFile64::<LittleEndian>::parse(bytes)?;
    for section in file.sections() {
        let SectionFlags::Elf { sh_flags } = section.flags() else { continue };
        let name = section.name()?;
        // What is constant but for addresses is written once, when it is loaded.
        let state = sh_flags & u64::from(elf::SHF_WRITE) != 0 && !name.starts_with(".data.rel.ro");
        if state && section.size() > 0 {
            let inside = file.symbols().find(|symbol| symbol.section_index() == Some(section.index()));
            let symbol = inside
                .and_then(|symbol| symbol.name().ok())
                .map_or_else(|| "a variable".to_owned(), |name| format!("'{name}'"));
            return Err(Error::Data { symbol, section: name.into(), constant: false });
        }
    }
    let mut symbols = Vec::new();
    for symbol in file.symbols().filter(|symbol| symbol.is_undefined()) {
        let name = symbol.name()?;
        match abi::symbol(name) {
            Some(known) => symbols.push(known.name),
            // The first entry of every symbol table has no name.
            None if name.is_empty() || name == "_GLOBAL_OFFSET_TABLE_" => {}
            None => return Err(Error::Undefined { symbol: name.into(), section: ".text".into() }),
        }
    }
    symbols.sort_unstable();
    symbols.dedup();
    Ok(Needs { symbols, window: window(&file)? })
}

/// The C source that goes with an object file: jumps, table, names.
pub(super) fn table(symbols: &[&str]) -> Result<String, Error> {
    let jump = |at: usize| match std::env::consts::ARCH {
        "x86_64" => Ok(format!("jmp *an_table+{}(%rip)", 8 * at)),
        "aarch64" => {
            Ok(format!("adrp x16, an_table\\n add x16, x16, :lo12:an_table\\n ldr x16, [x16, #{}]\\n br x16", 8 * at))
        }
        other => Err(Error::Object { cause: format!("native code for {other} is not built yet; leave --native out") }),
    };
    let count = symbols.len();
    let mut text = format!(
        "#define PUBLIC __attribute__((used, visibility(\"default\")))\n\
         __attribute__((used, visibility(\"hidden\"))) void *an_table[{}];\n\
         PUBLIC void an_init(void *const *calls)\n{{\n    for (int i = 0; i < {count}; i++)\n        an_table[i] = calls[i];\n}}\n",
        count.max(1)
    );
    let names: String = symbols.iter().map(|name| format!("{name}\\0")).collect();
    let _ = writeln!(text, "PUBLIC const char an_symbols[] = \"{names}\";");
    for (at, name) in symbols.iter().enumerate() {
        let _ = writeln!(
            text,
            "__asm__(\".text\\n.globl {name}\\n.hidden {name}\\n.type {name}, %function\\n{name}:\\n {}\\n\");",
            jump(at)?
        );
    }
    Ok(text)
}
