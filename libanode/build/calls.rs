//! Makes the binding of WebAssembly modules out of `sdk/anode/nodeos.h`: of each call which kinds of values it takes,
//! of each structure where its fields are there and here.
//!
//! So there is one list of calls, the header. A module's pointers have four bytes, the library's eight: what has none is the
//! same in both and is used where it is. A declaration that this does not understand ends the build with its text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What the header declares.
#[derive(Default)]
struct Header {
    objects: Vec<String>,
    functions: Vec<String>,
    /// Pointers to structures, by name, and the structures.
    pointers: BTreeMap<String, String>,
    structures: BTreeMap<String, Layout>,
}

/// A structure: its bytes in a module and here, how it is aligned, and its fields if it is not the same in both.
#[derive(Clone, Default)]
struct Layout {
    bytes: [usize; 2],
    align: [usize; 2],
    /// Their names, kinds and places.
    fields: Vec<(String, String, [usize; 2])>,
    plain: bool,
}

/// A value: its bytes in a module and here, how it is aligned, and its kind.
struct Value {
    bytes: [usize; 2],
    align: [usize; 2],
    kind: String,
    plain: bool,
}

/// The table of all calls, as Rust; and what C says of all structures if they are as is thought here, for modules and for this target.
pub fn table(text: &str) -> Result<(String, [String; 2]), String> {
    let statements = statements(text);
    let mut header = Header::default();
    let mut out = String::new();
    let mut calls = String::new();
    for statement in &statements {
        if let Some(rest) = statement.strip_prefix("typedef struct ").filter(|rest| !rest.contains('{')) {
            let name = rest.rsplit('*').next().unwrap_or_default();
            header.objects.push(name.to_owned());
        } else if statement.starts_with("typedef ") && statement.contains("(*an_") {
            let name = statement.split("(*").nth(1).and_then(|rest| rest.split(')').next()).unwrap_or_default();
            header.functions.push(name.to_owned());
        } else if statement.contains('{') && !statement.starts_with("enum") {
            header.structure(statement, &mut out)?;
        } else if statement.contains("an_") && statement.ends_with(')') && !statement.starts_with("typedef") {
            header.call(statement, &mut calls)?;
        }
    }
    let asserted = [0, 1].map(|side| header.assertions(side));
    let _ = write!(out, "/// All calls, in the order of the header.\npub static CALLS: &[Call] = &[\n{calls}];\n");
    Ok((out, asserted))
}

/// The declarations, without comments and lines of the preprocessor, each in one line with single spaces.
fn statements(text: &str) -> Vec<String> {
    let mut rest = text;
    let mut bare = String::new();
    while let Some((before, after)) = rest.split_once("/*") {
        bare += before;
        rest = after.split_once("*/").map_or("", |(_, behind)| behind);
    }
    bare += rest;
    // The braces around all of it are C++'s.
    let is_ours = |line: &&str| !line.trim_start().starts_with('#') && !line.starts_with("extern") && *line != "}";
    let words: Vec<_> = bare.lines().filter(is_ours).flat_map(str::split_whitespace).collect();
    let (mut all, mut one, mut depth) = (Vec::new(), String::new(), 0);
    for c in words.join(" ").chars() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        match c {
            ';' if depth <= 0 => all.push(core::mem::take(&mut one).trim().to_owned()),
            _ => one.push(c),
        }
    }
    all
}

impl Header {
    fn assertions(&self, side: usize) -> String {
        let mut out = "#include <anode/nodeos.h>\n".to_owned();
        for (name, layout) in &self.structures {
            let _ = writeln!(out, "_Static_assert(sizeof(struct {name}) == {}, \"\");", layout.bytes[side]);
            for (field, _, at) in &layout.fields {
                let place = format!("__builtin_offsetof(struct {name}, {field}) == {}", at[side]);
                let _ = writeln!(out, "_Static_assert({place}, \"{field}\");");
            }
        }
        out
    }

    /// A structure: its layout, and how its fields become ours.
    fn structure(&mut self, statement: &str, out: &mut String) -> Result<(), String> {
        let named = statement.trim_start_matches("typedef ").strip_prefix("struct ");
        let parts = named.and_then(|rest| Some((rest.split_once(" {")?, rest.rsplit_once('}')?.1)));
        let Some(((name, rest), behind)) = parts else { return Err(format!("not understood: {statement}")) };
        let body = rest.rsplit_once('}').map_or("", |(body, _)| body);
        let mut layout = Layout { align: [1, 1], plain: true, ..Layout::default() };
        for declaration in body.split(';').map(str::trim).filter(|declaration| !declaration.is_empty()) {
            let (first, more) = declaration.split_once(',').unwrap_or((declaration, ""));
            let at = first
                .rfind(|c: char| !(c.is_alphanumeric() || c == '_' || c == '[' || c == ']'))
                .map_or(0, |at| at + 1);
            let (of, first) = first.split_at(at);
            for field in core::iter::once(first).chain(more.split(',').filter(|more| !more.is_empty())) {
                let count = field.split_once('[').map_or(Ok(1), |(_, count)| count.trim_end_matches(']').parse());
                let count: usize = count.map_err(|_| format!("not understood: {declaration}"))?;
                let mut value = self.value(of.trim(), declaration)?;
                if of.contains("struct ") && of.trim().ends_with('*') {
                    // As many as the number before it says.
                    value.kind = value.kind.replace("Plain", "Counted");
                }
                layout.push(field.split('[').next().unwrap_or_default().trim(), value, count);
            }
        }
        layout.bytes = [0, 1].map(|side| layout.bytes[side].next_multiple_of(layout.align[side]));
        if !layout.plain {
            let _ = write!(
                out,
                "static {}: Structure = Structure {{ bytes: {:?}, fields: &[",
                name.to_uppercase(),
                layout.bytes
            );
            for (_, kind, [there, here]) in &layout.fields {
                let _ = write!(out, "Field {{ kind: {kind}, there: {there}, here: {here} }}, ");
            }
            let _ = writeln!(out, "] }};");
        }
        if let Some(pointer) = behind.trim().strip_prefix("const *") {
            self.pointers.insert(pointer.to_owned(), name.to_owned());
        }
        self.structures.insert(name.to_owned(), layout);
        Ok(())
    }

    /// A call: the kinds of what it takes and gives, and how it is made.
    fn call(&self, statement: &str, out: &mut String) -> Result<(), String> {
        let (head, parameters) = statement.trim_end_matches(')').split_once('(').ok_or(statement)?;
        let at = head.rfind(|c: char| !(c.is_alphanumeric() || c == '_')).map_or(0, |at| at + 1);
        let (result, name) = (head[..at].trim(), &head[at..]);
        let mut kinds = Vec::new();
        let mut passed = Vec::new();
        let all: Vec<_> =
            parameters.split(", ").filter(|parameter| *parameter != "void" && !parameter.is_empty()).collect();
        for (number, parameter) in all.iter().enumerate() {
            let at = parameter.rfind(|c: char| !(c.is_alphanumeric() || c == '_')).map_or(0, |at| at + 1);
            let of = parameter[..at].trim();
            let is_sized = all.get(number + 1).is_some_and(|next| next.starts_with("size_t "));
            let kind = match (of, &parameter[at..], is_sized) {
                ("void *", "mem", _) => "Kind::Place".into(),
                ("unsigned int *", _, true) => "Kind::Many(4)".into(),
                ("const void *" | "void *" | "char *", _, true) => "Kind::Many(1)".into(),
                _ => self.value(of, statement)?.kind,
            };
            passed.push(match self.functions.iter().any(|function| function == of) {
                true => format!("(a[{number}] != 0).then_some(entries::{of} as _)"),
                false => format!("a[{number}] as _"),
            });
            kinds.push(kind);
        }
        let gives = match result {
            "int" => ("Gives::Number", " as u32 as u64"),
            "size_t" => ("Gives::Number", " as u64"),
            "void" => ("Gives::Nothing", ""),
            "void *" | "const char *" => ("Gives::Address", " as u64"),
            "an_PacketBuffer_t" => ("Gives::Packet", " as u64"),
            object if self.objects.iter().any(|known| known == object) => ("Gives::Object", " as u64"),
            _ => return Err(format!("not understood: {statement}")),
        };
        let passed = passed.join(", ");
        let run = match result {
            "void" => format!("|_| {{ {name}({passed}); 0 }}"),
            // SAFETY: see `c::module`, which includes this; it says the same of all calls.
            _ => format!("|a| {{ let _ = a; unsafe {{ {name}({passed}){} }} }}", gives.1),
        };
        let kinds = kinds.join(", ");
        let _ = writeln!(out, "Call {{ name: \"{name}\", takes: &[{kinds}], gives: {}, run: {run} }},", gives.0);
        Ok(())
    }

    /// A value of this type.
    fn value(&self, of: &str, statement: &str) -> Result<Value, String> {
        let number = |bytes, kind: &str| Value { bytes: [bytes; 2], align: [bytes; 2], kind: kind.into(), plain: true };
        let pointer = |kind: &str| Value { bytes: [4, 8], align: [4, 8], kind: kind.into(), plain: false };
        let bare = of.trim_start_matches("const ").trim_end_matches('*').trim();
        let structure = bare.strip_prefix("struct ").and_then(|name| Some((name, self.structures.get(name)?)));
        Ok(match (of, structure) {
            ("int" | "unsigned int", _) => number(4, "Kind::Number"),
            ("uint64_t" | "int64_t", _) => number(8, "Kind::Long"),
            ("uint16_t", _) => number(2, "Kind::Number"),
            ("uint8_t", _) => number(1, "Kind::Number"),
            ("size_t", _) => Value { plain: false, ..pointer("Kind::Size") },
            ("size_t *", _) => pointer("Kind::Sizes"),
            ("uint64_t *" | "const uint64_t *", _) => pointer("Kind::Plain(8)"),
            ("unsigned int *", _) => pointer("Kind::Plain(4)"),
            ("const char *", _) => pointer("Kind::Text"),
            ("void *", _) => pointer("Kind::Argument"),
            ("an_PacketBuffer_t", _) => pointer("Kind::Packet"),
            ("an_PacketBuffer_t *", _) => pointer("Kind::Foreign"),
            (_, Some((_, layout))) if of.ends_with('*') && layout.plain => {
                pointer(&format!("Kind::Plain({})", layout.bytes[1]))
            }
            (_, Some((_, layout))) if !of.ends_with('*') && layout.plain => {
                Value { bytes: layout.bytes, align: layout.align, kind: "Kind::Number".into(), plain: true }
            }
            _ if self.functions.iter().any(|name| name == of) => {
                pointer(&format!("Kind::Function(|| entries::{of} as *const () as u64)"))
            }
            _ if self.objects.iter().any(|name| name == of) => pointer("Kind::Object"),
            _ => match self.pointers.get(of).and_then(|name| Some((name, self.structures.get(name)?))) {
                Some((_, layout)) if layout.plain => pointer(&format!("Kind::Plain({})", layout.bytes[1])),
                Some((name, _)) => pointer(&format!("Kind::Structure(&{})", name.to_uppercase())),
                None => return Err(format!("the type {of} is not understood in: {statement}")),
            },
        })
    }
}

impl Layout {
    fn push(&mut self, name: &str, value: Value, count: usize) {
        let at = [0, 1].map(|side| self.bytes[side].next_multiple_of(value.align[side]));
        self.bytes = [0, 1].map(|side| at[side] + count * value.bytes[side]);
        self.align = [0, 1].map(|side| self.align[side].max(value.align[side]));
        self.plain &= value.plain;
        self.fields.push((name.to_owned(), value.kind, at));
    }
}
