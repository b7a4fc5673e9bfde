//! A reader of BTF: the fields of a C structure with their places, and the numbers of an enumeration.
//!
//! clang writes type information into section `.BTF` of an object file for bpf (the kernel's
//! Documentation/bpf/btf.rst): a list of numbered types, and names in a table of strings. Build scripts read files that
//! they have just compiled, so this is part of no program. An error ends the build with a line that explains it. Uses
//! the standard library only.

/// What the type information of an object file says.
pub(crate) struct Types {
    list: Vec<Type>,
}

/// A structure or union: its bytes, and its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Structure {
    pub(crate) name: String,
    pub(crate) size: usize,
    pub(crate) fields: Vec<LayoutField>,
}

/// A field, by the byte that it begins at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LayoutField {
    pub(crate) name: String,
    pub(crate) at: usize,
    pub(crate) size: usize,
}

/// A type, as far as the layout of structures depends on it.
enum Type {
    /// So many bytes.
    Plain(usize),
    /// A type under another name, or with a qualifier.
    Same(u32),
    /// So many of a type.
    Array(u32, usize),
    Structure {
        name: String,
        size: usize,
        members: Vec<Member>,
    },
    Enumeration(String, Vec<(String, u32)>),
    /// A variable of a type.
    Variable(String, u32),
    /// What has no size.
    Other,
}

struct Member {
    name: String,
    of: u32,
    bit: usize,
}

/// Kinds of types, as BTF numbers them.
mod kind {
    pub(super) const INT: u32 = 1;
    pub(super) const POINTER: u32 = 2;
    pub(super) const ARRAY: u32 = 3;
    pub(super) const STRUCT: u32 = 4;
    pub(super) const UNION: u32 = 5;
    pub(super) const ENUM: u32 = 6;
    pub(super) const TYPEDEF: u32 = 8;
    pub(super) const RESTRICT: u32 = 11;
    pub(super) const PROTOTYPE: u32 = 13;
    pub(super) const VARIABLE: u32 = 14;
    pub(super) const SECTION: u32 = 15;
    pub(super) const FLOAT: u32 = 16;
    pub(super) const TAG: u32 = 17;
    pub(super) const ENUM64: u32 = 19;
}

/// How deep types may be in each other.
const DEPTH: u32 = 64;

impl Types {
    /// Those of an object file.
    pub(crate) fn of(object: &[u8]) -> Result<Types, String> {
        let section = section(object, ".BTF").ok_or("the object file has no section .BTF")?;
        parse(section).ok_or_else(|| "the section .BTF is cut short, or of another form".into())
    }

    /// The structures of which there are variables with names that begin so.
    pub(crate) fn structures(&self, prefix: &str) -> Result<Vec<Structure>, String> {
        let mut found = Vec::new();
        for known in &self.list {
            let Type::Variable(name, of) = known else { continue };
            if name.starts_with(prefix) {
                found.push(self.structure(*of)?);
            }
        }
        Ok(found)
    }

    /// The numbers of an enumeration.
    pub(crate) fn numbers(&self, wanted: &str) -> Option<&[(String, u32)]> {
        self.list.iter().find_map(|known| match known {
            Type::Enumeration(name, numbers) if name == wanted => Some(&numbers[..]),
            _ => None,
        })
    }

    fn get(&self, number: u32) -> Option<&Type> {
        self.list.get(number.checked_sub(1)? as usize)
    }

    fn structure(&self, number: u32) -> Result<Structure, String> {
        let mut fields = Vec::new();
        match self.get(number) {
            Some(Type::Structure { name, size, members }) => {
                self.add(name, members, 0, DEPTH, &mut fields)?;
                Ok(Structure { name: name.clone(), size: *size, fields })
            }
            Some(Type::Same(of)) if *of < number => self.structure(*of),
            _ => Err(format!("type {number} is no structure")),
        }
    }

    /// The fields of a structure that begins at a byte; those of a member without a name are its own.
    fn add(
        &self,
        of: &str,
        members: &[Member],
        base: usize,
        depth: u32,
        to: &mut Vec<LayoutField>,
    ) -> Result<(), String> {
        for Member { name, of: number, bit } in members {
            if bit % 8 != 0 {
                return Err(format!("{of}.{name} does not begin at a byte"));
            }
            let at = base + bit / 8;
            match self.get(*number) {
                Some(Type::Structure { members, .. }) if name.is_empty() && depth > 0 => {
                    self.add(of, members, at, depth - 1, to)?;
                }
                _ => {
                    let size = self.size(*number, DEPTH).ok_or_else(|| format!("{of}.{name} has no size"))?;
                    to.push(LayoutField { name: name.clone(), at, size });
                }
            }
        }
        Ok(())
    }

    fn size(&self, number: u32, depth: u32) -> Option<usize> {
        let deeper = depth.checked_sub(1)?;
        match self.get(number)? {
            Type::Plain(size) | Type::Structure { size, .. } => Some(*size),
            Type::Enumeration(..) => Some(4),
            Type::Same(of) => self.size(*of, deeper),
            Type::Array(of, count) => self.size(*of, deeper)?.checked_mul(*count),
            Type::Variable(..) | Type::Other => None,
        }
    }
}

/// The types of a section.
fn parse(section: &[u8]) -> Option<Types> {
    const MAGIC: u32 = 0xeb9f;
    if word(section, 0)? & 0xffff != MAGIC {
        return None;
    }
    let header = word(section, 4)? as usize;
    let part = |at: usize| {
        let (offset, length) = (word(section, at)? as usize, word(section, at + 4)? as usize);
        section.get(header.checked_add(offset)?..)?.get(..length)
    };
    let (mut rest, strings) = (part(8)?, part(16)?);
    let mut list = Vec::new();
    while !rest.is_empty() {
        let (one, length) = read(rest, strings)?;
        list.push(one);
        rest = rest.get(length..)?;
    }
    Some(Types { list })
}

/// The first type, and its bytes.
fn read(bytes: &[u8], strings: &[u8]) -> Option<(Type, usize)> {
    const HEAD: usize = 12;
    let (name, info, size) = (text(strings, word(bytes, 0)?)?, word(bytes, 4)?, word(bytes, 8)?);
    let (kind, count, has_bit_fields) = (info >> 24 & 0x1f, (info & 0xffff) as usize, info >> 31 != 0);
    let rest = bytes.get(HEAD..)?;
    let (one, more) = match kind {
        kind::INT => (Type::Plain(size as usize), 4),
        kind::FLOAT => (Type::Plain(size as usize), 0),
        kind::POINTER => (Type::Plain(8), 0),
        kind::ARRAY => (Type::Array(word(rest, 0)?, word(rest, 8)? as usize), 12),
        // Fields of bits are none that both sides have.
        kind::STRUCT | kind::UNION if has_bit_fields => (Type::Other, 12 * count),
        kind::STRUCT | kind::UNION => {
            let member = |at: usize| {
                let name = text(strings, word(rest, 12 * at)?)?;
                Some(Member { name, of: word(rest, 12 * at + 4)?, bit: word(rest, 12 * at + 8)? as usize })
            };
            let members = (0..count).map(member).collect::<Option<_>>()?;
            (Type::Structure { name, size: size as usize, members }, 12 * count)
        }
        kind::ENUM => {
            let number = |at: usize| Some((text(strings, word(rest, 8 * at)?)?, word(rest, 8 * at + 4)?));
            (Type::Enumeration(name, (0..count).map(number).collect::<Option<_>>()?), 8 * count)
        }
        kind::VARIABLE => (Type::Variable(name, size), 4),
        kind::TAG => (Type::Other, 4),
        kind::PROTOTYPE => (Type::Other, 8 * count),
        kind::SECTION | kind::ENUM64 => (Type::Other, 12 * count),
        kind::TYPEDEF..=kind::RESTRICT => (Type::Same(size), 0),
        _ => (Type::Other, 0),
    };
    Some((one, HEAD + more))
}

/// A section of an object file (ELF, 64 bits, little endian).
fn section<'a>(object: &'a [u8], wanted: &str) -> Option<&'a [u8]> {
    let short = |at: usize| object.get(at..)?.first_chunk().map(|bytes| usize::from(u16::from_le_bytes(*bytes)));
    let long = |at: usize| object.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes) as usize);
    let (headers, size, count, names) = (long(0x28)?, short(0x3a)?, short(0x3c)?, short(0x3e)?);
    let header = |number: usize| headers.checked_add(size.checked_mul(number)?);
    let data = |at: usize| object.get(long(at + 0x18)?..)?.get(..long(at + 0x20)?);
    let names = data(header(names)?)?;
    let is_wanted = |at: &usize| word(object, *at).and_then(|name| text(names, name)).as_deref() == Some(wanted);
    (0..count).filter_map(header).find(is_wanted).and_then(data)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word))
}

/// The text at a place of a table of strings.
fn text(strings: &[u8], at: u32) -> Option<String> {
    let bytes = strings.get(at as usize..)?;
    let end = bytes.iter().position(|byte| *byte == 0)?;
    Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
}
