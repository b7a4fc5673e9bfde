//! Writes one function as an object file (ELF, 64 bits, for bpf), without relocations, for other tools to read.

/// Bytes of the headers.
const HEADER: usize = 64;
const SECTION: usize = 64;

/// The machine's number, and the types of sections.
const BPF: u16 = 247;
const PROGBITS: u32 = 1;
const SYMTAB: u32 = 2;
const STRTAB: u32 = 3;

/// Writable is none of them; in memory and executable is the code.
const ALLOC_EXEC: u64 = 6;

/// A section: name, type, flags, content, link, info, size of an entry.
struct Part<'a>(&'a str, u32, u64, Vec<u8>, [u32; 2], u64);

/// The file: `code` in a section of this name, as a function `capsule`.
pub(super) fn object(section: &str, code: &[u8]) -> Vec<u8> {
    const NAME: &str = "capsule";
    let names = format!("\0{NAME}\0");
    // Name, global function, in section 1, at 0, with its size.
    let symbol =
        [1u32.to_le_bytes().to_vec(), vec![0x12, 0, 1, 0], vec![0; 8], (code.len() as u64).to_le_bytes().to_vec()];
    let symbols = [vec![0; 24], symbol.concat()].concat();
    let mut parts = vec![
        Part("", 0, 0, Vec::new(), [0, 0], 0),
        Part(section, PROGBITS, ALLOC_EXEC, code.to_vec(), [0, 0], 0),
        Part("license", PROGBITS, 2, b"GPL\0".to_vec(), [0, 0], 0),
        Part(".symtab", SYMTAB, 0, symbols, [4, 1], 24),
        Part(".strtab", STRTAB, 0, names.into_bytes(), [0, 0], 0),
        Part(".shstrtab", STRTAB, 0, Vec::new(), [0, 0], 0),
    ];
    let mut places = Vec::new();
    let mut strings = Vec::new();
    for part in &parts {
        places.push(strings.len() as u32);
        strings.extend_from_slice(part.0.as_bytes());
        strings.push(0);
    }
    if let Some(last) = parts.last_mut() {
        last.3 = strings;
    }
    let (mut body, mut headers) = (Vec::new(), Vec::new());
    for (Part(_, kind, flags, content, [link, info], entry), name) in parts.iter().zip(places) {
        body.resize(body.len().next_multiple_of(8), 0);
        let words = [name, *kind].map(u32::to_le_bytes).concat();
        let place = [*flags, 0, (HEADER + body.len()) as u64, content.len() as u64].map(u64::to_le_bytes).concat();
        let rest = [[*link, *info].map(u32::to_le_bytes).concat(), [8, *entry].map(u64::to_le_bytes).concat()].concat();
        headers.extend([words, place, rest].concat());
        body.extend_from_slice(content);
    }
    body.resize(body.len().next_multiple_of(8), 0);
    // Relocatable, for bpf, version 1.
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0];
    file.extend_from_slice(&BPF.to_le_bytes());
    file.extend_from_slice(&1u32.to_le_bytes());
    file.extend([0, 0, (HEADER + body.len()) as u64].map(u64::to_le_bytes).concat());
    file.extend_from_slice(&0u32.to_le_bytes());
    let sizes = [HEADER as u16, 0, 0, SECTION as u16, parts.len() as u16, parts.len() as u16 - 1];
    file.extend(sizes.map(u16::to_le_bytes).concat());
    [file, body, headers].concat()
}

#[cfg(test)]
mod tests {
    use object::{Object as _, ObjectSection as _, ObjectSymbol as _};

    #[test]
    fn others_find_the_function_in_the_file() {
        let file = super::object("xdp", &[0x95, 0, 0, 0, 0, 0, 0, 0]);
        let read = object::read::elf::ElfFile64::<object::LittleEndian>::parse(&file[..]).unwrap();
        let section = read.section_by_name("xdp").unwrap();
        assert_eq!(section.data().unwrap(), [0x95, 0, 0, 0, 0, 0, 0, 0]);
        let symbol = read.symbol_by_name("capsule").unwrap();
        assert_eq!((symbol.section_index(), symbol.size()), (Some(section.index()), 8));
        assert!(read.section_by_name("license").is_some());
    }
}
