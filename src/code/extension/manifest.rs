//! What an extension says that it is: the custom section `anode.extension` of its module, in TOML.
//!
//! ```toml
//! name = "tenants"
//! about = "VXLAN, and which tenant has which of its networks"
//! needs = ["names.lookup : string -> host"]
//! protocols = "(protocol vxlan (follows udp 4789) (hdr_len 8) (field vni offset 4 length 3 flow))"
//! [[call]]
//! name = "tenant"
//! type = "int -> string"
//! about = "the tenant of a network"
//! service = true
//! ```
//!
//! Whoever offers an extension may be wrong or worse: everything has a bound, and nothing of it is compiled before it has been read whole.

use super::call_type::CallType;
use super::imports;
use crate::clean::shown;
use crate::code::bundle::{REPRESENTATION_MAX, leb128};
use click::classes::Class;
use core::fmt;
use serde::Deserialize;
use std::borrow::Cow;
use std::str::FromStr;
use wasmparser::{ExternalKind, Payload};

/// The custom section in which a manifest is.
pub const SECTION: &str = "anode.extension";

/// Calls of one extension, and calls of others that it needs.
pub const CALLS_MAX: usize = 64;
/// Classes of engines of one extension.
pub const ENGINES_MAX: usize = 16;
/// Bytes of a name.
pub const NAME_MAX: usize = 32;
/// Characters of a word for people.
const ABOUT_MAX: usize = 200;

/// A call of an extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// Its name, which is that of the module's function.
    pub name: String,
    /// Its type.
    pub kind: CallType,
    /// What it does, for people.
    pub about: String,
    /// Whether PLAN programs see it, too.
    pub service: bool,
    /// Whether an operator's call of it is made in the instances of PLAN's services, too.
    pub everywhere: bool,
}

/// A class of engines of an extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedEngine {
    /// Its name, which is that of the module's function for packets; in graphs it is EXTENSION/NAME.
    pub name: String,
    /// Its ports, in Click's codes.
    pub ports: String,
    /// Whether it gives no packets, but says from which input the next one is pulled.
    pub order: bool,
    /// The module's function for arguments, if it takes any.
    pub setup: Option<String>,
    /// What it does, for people.
    pub about: String,
}

/// A class of admissions of an extension: its function says of packets whether they may wait in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedAdmission {
    /// Its name, which is that of the module's function; in a port's discipline it is EXTENSION/NAME.
    pub name: String,
    /// The module's function for arguments, if it takes any.
    pub setup: Option<String>,
    /// What it does, for people.
    pub about: String,
}

/// Procedures of an extension that make bytes of a packet of a graph on its way to another node, and a packet of those bytes there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedMarshal {
    /// Its name; in graphs it is EXTENSION/NAME.
    pub name: String,
    /// The module's function that makes bytes of a packet.
    pub pack: String,
    /// The module's function that makes the packet of these bytes.
    pub unpack: String,
    /// What it does, for people.
    pub about: String,
}

/// A call of another extension that one needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// The other extension.
    pub extension: String,
    /// The call.
    pub call: String,
    /// The type that it must have.
    pub kind: CallType,
}

/// What an extension is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtensionManifest {
    /// Its name.
    pub name: String,
    /// What it is for, for people.
    pub about: String,
    /// What it needs of others.
    pub needs: Vec<Need>,
    /// Protocols that are taught while it is loaded, in the language of docs/classifier.md.
    pub protocols: String,
    /// Its calls.
    pub calls: Vec<Exported>,
    /// Its classes of engines.
    pub engines: Vec<ExportedEngine>,
    /// Its classes of admissions.
    pub admissions: Vec<ExportedAdmission>,
    /// Its procedures for packets between nodes.
    pub marshals: Vec<ExportedMarshal>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    name: String,
    #[serde(default)]
    about: String,
    #[serde(default)]
    needs: Vec<String>,
    #[serde(default)]
    protocols: String,
    #[serde(default, rename = "call")]
    calls: Vec<CallText>,
    #[serde(default, rename = "engine")]
    engines: Vec<EngineText>,
    #[serde(default, rename = "admission")]
    admissions: Vec<AdmissionText>,
    #[serde(default, rename = "marshal")]
    marshals: Vec<MarshalText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MarshalText {
    name: String,
    pack: String,
    unpack: String,
    #[serde(default)]
    about: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AdmissionText {
    name: String,
    setup: Option<String>,
    #[serde(default)]
    about: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EngineText {
    name: String,
    ports: String,
    #[serde(default)]
    order: bool,
    setup: Option<String>,
    #[serde(default)]
    about: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallText {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    about: String,
    #[serde(default)]
    service: bool,
    #[serde(default)]
    everywhere: bool,
}

impl ExtensionManifest {
    /// That of a module in its binary form.
    pub fn of(wasm: &[u8]) -> Result<ExtensionManifest, String> {
        let text = section(wasm, SECTION);
        text.ok_or_else(|| {
            format!("the module has no custom section '{SECTION}', which says what it is: anode extension pack")
        })?
        .parse()
    }

    /// Whether a module has what its manifest says: a memory, the global `buffer`, a function for each call, and imports of what it needs.
    pub fn is_of(&self, wasm: &[u8], buffer: &str) -> Result<(), String> {
        let mut wanted: Vec<_> = self.functions().map(|name| (ExternalKind::Func, name)).collect();
        wanted.extend([(ExternalKind::Memory, "memory"), (ExternalKind::Global, buffer)]);
        for payload in wasmparser::Parser::new(0).parse_all(wasm).map_while(Result::ok) {
            match payload {
                Payload::ImportSection(section) => {
                    section.into_imports().map_while(Result::ok).try_for_each(|import| self.imports(import))?;
                }
                Payload::ExportSection(section) => {
                    let exports: Vec<_> = section.into_iter().map_while(Result::ok).collect();
                    wanted.retain(|of| !exports.iter().any(|export| (export.kind, export.name) == *of));
                }
                _ => {}
            }
        }
        let Some((kind, name)) = first_wanted(&wanted) else { return Ok(()) };
        Err(format!("{}: the module exports no {kind} '{name}'", self.name))
    }

    fn imports(&self, import: wasmparser::Import<'_>) -> Result<(), String> {
        let (module, name) = (import.module, import.name);
        if self.needs.iter().any(|need| (&*need.extension, &*need.call) == (module, name)) {
            return Ok(());
        }
        let more = |why| format!("{}: {why}; of other extensions, the calls in 'needs'", self.name);
        imports::check(module, name).map_err(more)
    }

    /// The module's functions: of its calls, then of its classes of engines, then of its admissions, then those that marshal.
    pub fn functions(&self) -> impl Iterator<Item = &str> {
        let classes = self.classes().flat_map(|(name, setup)| [Some(name), setup]);
        let marshals = self.marshals.iter().flat_map(|marshal| [&*marshal.pack, &*marshal.unpack]);
        self.calls.iter().map(|call| &*call.name).chain(classes.flatten()).chain(marshals)
    }

    /// The numbers of the functions that make bytes of a packet, and a packet of bytes.
    pub fn marshal_functions(&self, at: usize) -> (usize, usize) {
        let (before, _) = self.engine_functions(self.engines.len() + self.admissions.len());
        (before + 2 * at, before + 2 * at + 1)
    }

    /// All that has functions for arguments: its classes of engines, then its admissions.
    fn classes(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        let engines = self.engines.iter().map(|engine| (&*engine.name, engine.setup.as_deref()));
        engines.chain(self.admissions.iter().map(|admission| (&*admission.name, admission.setup.as_deref())))
    }

    /// The numbers of the functions of a class of engines: for packets, and for arguments. Behind the engines are the admissions.
    pub fn engine_functions(&self, at: usize) -> (usize, Option<usize>) {
        let before = self.classes().take(at).map(|(_, setup)| 1 + usize::from(setup.is_some()));
        let push = self.calls.len() + before.sum::<usize>();
        (push, self.classes().nth(at).and_then(|(_, setup)| setup).map(|_| push + 1))
    }

    /// The number of a class of engines that is an order, as [`ExtensionManifest::engine_functions`] takes it; or what there is.
    pub fn order(&self, class: &str) -> Result<usize, String> {
        let at = self.engines.iter().position(|engine| engine.order && engine.name == class);
        let all = || self.engines.iter().filter(|engine| engine.order).map(|engine| &*engine.name).collect();
        at.ok_or_else(|| self.lacks("order", class, all()))
    }

    /// The same of an admission.
    pub fn admission(&self, class: &str) -> Result<usize, String> {
        let at = self.admissions.iter().position(|admission| admission.name == class);
        let all = || self.admissions.iter().map(|admission| &*admission.name).collect();
        at.map(|at| self.engines.len() + at).ok_or_else(|| self.lacks("admission", class, all()))
    }

    fn lacks(&self, what: &str, class: &str, all: Vec<&str>) -> String {
        let has = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
        format!("{} has no {what} {}; it has {has}", self.name, shown(class))
    }

    /// The number of a call.
    pub fn call(&self, name: &str) -> Option<usize> {
        self.calls.iter().position(|call| call.name == name)
    }
}

impl FromStr for ExtensionManifest {
    type Err = String;

    fn from_str(text: &str) -> Result<ExtensionManifest, String> {
        let Text { name, about, needs, protocols, calls, engines, admissions, marshals } =
            toml::from_str(text).map_err(|error| format!("the manifest: {}", error.to_string().trim_end()))?;
        let name = named("an extension's name", name)?;
        let needs: Vec<Need> = needs.iter().map(|need| need.parse()).collect::<Result<_, String>>()?;
        let calls: Vec<Exported> = calls.into_iter().map(CallText::read).collect::<Result<_, String>>()?;
        if needs.len() > CALLS_MAX || calls.len() > CALLS_MAX {
            return Err(format!("{name}: at most {CALLS_MAX} calls, and {CALLS_MAX} of others that it needs"));
        }
        if let Some(twice) =
            calls.iter().enumerate().find(|(at, call)| calls[..*at].iter().any(|it| it.name == call.name))
        {
            return Err(format!("{name} has two calls of the name {}", twice.1.name));
        }
        if let Some(own) = needs.iter().find(|need| need.extension == name) {
            return Err(format!("{name} needs its own call {}", own.call));
        }
        let engines = engines.into_iter().map(EngineText::read).collect::<Result<Vec<_>, String>>()?;
        let admissions = admissions.into_iter().map(AdmissionText::read).collect::<Result<Vec<_>, _>>()?;
        let marshals = marshals.into_iter().map(MarshalText::read).collect::<Result<Vec<_>, _>>()?;
        if [engines.len(), admissions.len(), marshals.len()].iter().any(|count| *count > ENGINES_MAX) {
            return Err(format!(
                "{name}: at most {ENGINES_MAX} classes of engines, {ENGINES_MAX} admissions, and {ENGINES_MAX} that marshal"
            ));
        }
        if !(engines.is_empty() && marshals.is_empty()) && name.contains('-') {
            return Err(format!("{name}: graphs name its engines {name}/CLASS, and no name there has a '-'"));
        }
        let about = plain(about)?;
        let manifest = ExtensionManifest { name, about, needs, protocols, calls, engines, admissions, marshals };
        let marshals = manifest.marshals.iter().map(|marshal| &*marshal.name);
        let names: Vec<_> = manifest.classes().map(|(name, _)| name).chain(marshals).collect();
        match names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
            Some((_, twice)) => {
                Err(format!("{} has two engines, admissions or procedures of the name {twice}", manifest.name))
            }
            None => Ok(manifest),
        }
    }
}

impl CallText {
    fn read(self) -> Result<Exported, String> {
        let name = named("a call's name", self.name)?;
        let kind = CallType::parse(&self.kind).map_err(|why| format!("the type of {name}: {why}"))?;
        Ok(Exported { name, kind, about: plain(self.about)?, service: self.service, everywhere: self.everywhere })
    }
}

impl EngineText {
    fn read(self) -> Result<ExportedEngine, String> {
        let name = named("a class's name", self.name)?;
        if name.contains('-') {
            return Err(format!("{name}: the name of a class of engines has no '-'"));
        }
        let wrong = |why| format!("{name}: its ports '{}': {why:?}; as 1/1 or 1/2", shown(&self.ports));
        Class::new(&self.ports).map_err(wrong)?;
        let setup = self.setup.map(|setup| named("a function's name", setup)).transpose()?;
        Ok(ExportedEngine { name, ports: self.ports, order: self.order, setup, about: plain(self.about)? })
    }
}

impl AdmissionText {
    fn read(self) -> Result<ExportedAdmission, String> {
        let name = named("an admission's name", self.name)?;
        let setup = self.setup.map(|setup| named("a function's name", setup)).transpose()?;
        Ok(ExportedAdmission { name, setup, about: plain(self.about)? })
    }
}

impl MarshalText {
    fn read(self) -> Result<ExportedMarshal, String> {
        let name = named("a procedure's name", self.name)?;
        if name.contains('-') {
            return Err(format!("{name}: the name of what marshals has no '-'"));
        }
        let [pack, unpack] = [self.pack, self.unpack].map(|function| named("a function's name", function));
        Ok(ExportedMarshal { name, pack: pack?, unpack: unpack?, about: plain(self.about)? })
    }
}

impl FromStr for Need {
    type Err = String;

    fn from_str(text: &str) -> Result<Need, String> {
        let wrong = || format!("'{}' is not what is needed: EXTENSION.CALL : TYPE", shown(text));
        let (call, kind) = text.split_once(':').ok_or_else(wrong)?;
        let (extension, call) = call.trim().split_once('.').ok_or_else(wrong)?;
        let kind = CallType::parse(kind).map_err(|why| format!("the type of {}: {why}", shown(call)))?;
        let extension = named("an extension's name", extension.into())?;
        Ok(Need { extension, call: named("a call's name", call.into())?, kind })
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{} : {}", self.extension, self.call, self.kind)
    }
}

/// What is wanted first, in words.
fn first_wanted<'a>(wanted: &[(ExternalKind, &'a str)]) -> Option<(&'static str, &'a str)> {
    let (kind, name) = wanted.first()?;
    let kind = match kind {
        ExternalKind::Memory => "memory",
        ExternalKind::Global => "global",
        _ => "function",
    };
    Some((kind, name))
}

/// A name: it begins with a letter, and goes on with letters, digits, `_` and `-`.
fn named(what: &str, name: String) -> Result<String, String> {
    let goes_on = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let is_name =
        name.len() <= NAME_MAX && name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(goes_on);
    // Modules import the node's own calls by this name.
    if is_name && name != "anode" {
        return Ok(name);
    }
    Err(format!(
        "'{}' is not {what}: a letter, then letters, digits, '_', '-', {NAME_MAX} at most; not 'anode'",
        shown(&name)
    ))
}

/// Words for people, in one line.
fn plain(about: String) -> Result<String, String> {
    let is_plain = about.chars().count() <= ABOUT_MAX && !about.chars().any(char::is_control);
    if is_plain { Ok(about) } else { Err(format!("'about' has at most {ABOUT_MAX} characters in one line")) }
}

/// With what a shared object begins.
const MAGIC: &[u8] = b"\x7fELF";

/// Whether these bytes are meant to be one.
pub fn is_native(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// A module in its binary form; it may be in its text form. A shared object is what it is.
pub fn binary(module: &[u8]) -> Result<Cow<'_, [u8]>, String> {
    if is_native(module) {
        return Ok(Cow::Borrowed(module));
    }
    let long = |length: usize| length > REPRESENTATION_MAX;
    let wasm =
        if long(module.len()) { None } else { Some(wat::parse_bytes(module).map_err(|error| error.to_string())?) };
    wasm.filter(|wasm| !long(wasm.len())).ok_or_else(|| format!("a module has at most {REPRESENTATION_MAX} bytes"))
}

/// The text of a custom section.
pub fn section(wasm: &[u8], name: &str) -> Option<String> {
    let sections = wasmparser::Parser::new(0).parse_all(wasm);
    let own = sections.map_while(Result::ok).find_map(|payload| match payload {
        Payload::CustomSection(section) if section.name() == name => Some(section.data()),
        _ => None,
    });
    String::from_utf8(own?.to_vec()).ok()
}

/// A module with a manifest; one that has one already is refused.
pub fn packed(wasm: &[u8], manifest: &str) -> Result<Vec<u8>, String> {
    if section(wasm, SECTION).is_some() {
        return Err(format!("the module has a custom section '{SECTION}' already"));
    }
    let mut packed = wasm.to_vec();
    // Id 0, then the length of what follows: the name with its length, and the text.
    let body_length = 1 + SECTION.len() + manifest.len();
    packed.push(0);
    leb128(&mut packed, body_length as u32);
    packed.push(SECTION.len() as u8);
    packed.extend_from_slice(SECTION.as_bytes());
    packed.extend_from_slice(manifest.as_bytes());
    if packed.len() > REPRESENTATION_MAX {
        return Err(format!(
            "with its manifest the module has {} bytes, and {REPRESENTATION_MAX} at most",
            packed.len()
        ));
    }
    Ok(packed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENANTS: &str = "name = 'tenants'\nabout = 'who is who'\nneeds = ['names.lookup : string -> host']\n\
        protocols = '(protocol x)'\n[[call]]\nname = 'tenant'\ntype = 'int -> string'\nservice = true";

    #[test]
    fn a_manifest_is_read_out_of_its_module() {
        let module = wat::parse_str("(module)").unwrap();
        assert!(ExtensionManifest::of(&module).unwrap_err().contains("anode extension pack"));
        let packed = packed(&module, TENANTS).unwrap();
        wasmparser::validate(&packed).unwrap();
        let manifest = ExtensionManifest::of(&packed).unwrap();
        assert_eq!((&*manifest.name, manifest.call("tenant"), manifest.call("x")), ("tenants", Some(0), None));
        assert_eq!(manifest.needs[0].to_string(), "names.lookup : string -> host");
        assert!(manifest.calls[0].service && manifest.protocols == "(protocol x)");
        assert!(super::packed(&packed, TENANTS).unwrap_err().contains("already"));
        assert!(super::packed(&module, &"#".repeat(REPRESENTATION_MAX)).unwrap_err().contains("65536 at most"));
    }

    #[test]
    fn a_module_has_what_its_manifest_says() {
        let all = "(memory (export \"memory\") 1) (global (export \"an_buffer\") i32 (i32.const 0))
                   (func (export \"tenant\") (param i32) (result i32) (i32.const 0))";
        let import = |of: &str| format!("(import {of} (func (param i32) (result i32)))");
        let manifest: ExtensionManifest = TENANTS.parse().unwrap();
        for (module, expected) in [
            (all.to_owned(), Ok(())),
            (import("\"names\" \"lookup\"") + all, Ok(())),
            (import("\"anode\" \"an_now\"") + all, Ok(())),
            (import("\"anode\" \"an_send\"") + all, Err("imports anode.an_send; there are anode.an_now")),
            (import("\"names\" \"add\"") + all, Err("imports names.add")),
            (all.replace("tenant", "tenants"), Err("exports no function 'tenant'")),
            (all.replace("\"memory\"", "\"m\""), Err("exports no memory 'memory'")),
            (all.replace("an_buffer", "buffer"), Err("exports no global 'an_buffer'")),
            ("(memory (export \"tenant\") 1)".into(), Err("exports no function 'tenant'")),
        ] {
            let wasm = wat::parse_str(format!("(module {module})")).unwrap();
            match (manifest.is_of(&wasm, "an_buffer"), expected) {
                (Ok(()), Ok(())) => {}
                (Err(said), Err(why)) => assert!(said.contains(why), "{module}: {said}"),
                (given, _) => panic!("{module}: {given:?}"),
            }
        }
    }

    #[test]
    fn functions_that_marshal_are_behind_all_others() {
        let text = "name = 'x'\n[[call]]\nname = 'c'\ntype = 'void -> int'\n[[engine]]\nname = 'E'\nports = '1/1'\nsetup = 's'\n\
                    [[admission]]\nname = 'A'\n[[marshal]]\nname = 'M'\npack = 'p'\nunpack = 'u'\n[[marshal]]\nname = 'N'\n\
                    pack = 'q'\nunpack = 'v'";
        let manifest: ExtensionManifest = text.parse().unwrap();
        let functions: Vec<_> = manifest.functions().collect();
        assert_eq!(functions, ["c", "E", "s", "A", "p", "u", "q", "v"]);
        assert_eq!([0, 1].map(|at| manifest.marshal_functions(at)), [(4, 5), (6, 7)]);
    }

    #[test]
    fn what_is_no_manifest_is_refused() {
        let call = |name: &str, kind: &str| format!("name = 'x'\n[[call]]\nname = '{name}'\ntype = '{kind}'");
        let engine = |name: &str, ports: &str| format!("name = 'x'\n[[engine]]\nname = '{name}'\nports = '{ports}'");
        let marshal = |name: &str, pack: &str, unpack: &str| {
            format!("name = 'x'\n[[marshal]]\nname = '{name}'\npack = '{pack}'\nunpack = '{unpack}'")
        };
        let many: String = (0..65).map(|at| format!("[[call]]\nname = 'c{at}'\ntype = 'void -> int'\n")).collect();
        for (text, why) in [
            ("".to_owned(), "missing field `name`"),
            ("name = 'x'\nneed = []".into(), "unknown field `need`"),
            ("name = '1x'".into(), "a letter, then"),
            ("name = 'anode'".into(), "not 'anode'"),
            ("name = 'a\\u0007'".replace('\'', "\""), "a letter, then"),
            (format!("name = '{}'", "x".repeat(33)), "32 at most"),
            ("name = 'x'\nabout = \"a\\nb\"".into(), "in one line"),
            ("name = 'x'\nneeds = ['y.z']".into(), "EXTENSION.CALL : TYPE"),
            ("name = 'x'\nneeds = ['y : void -> int']".into(), "EXTENSION.CALL : TYPE"),
            ("name = 'x'\nneeds = ['y.z : word -> int']".into(), "'word': types of calls are"),
            ("name = 'x'\nneeds = ['x.z : void -> int']".into(), "its own call z"),
            (call("f", "int"), "no function's type"),
            (call("f g", "void -> int"), "a letter, then"),
            (call("f", "void -> int") + "\n[[call]]\nname = 'f'\ntype = 'void -> int'", "two calls of the name f"),
            (format!("name = 'x'\n{many}"), "at most 64 calls"),
            (engine("F g", "1/1"), "a letter, then"),
            (engine("F-g", "1/1"), "has no '-'"),
            (engine("F", "1"), "its ports '1': "),
            (
                engine("F", "1/1") + "\n[[engine]]\nname = 'F'\nports = '1/2'",
                "two engines, admissions or procedures of the name F",
            ),
            (engine("F", "1/1") + "\n[[admission]]\nname = 'F'", "two engines, admissions or procedures of the name F"),
            (engine("F", "1/1").replace("'x'", "'x-y'"), "no name there has a '-'"),
            (marshal("F", "p", "u").replace("'x'", "'x-y'"), "no name there has a '-'"),
            (marshal("F-g", "p", "u"), "has no '-'"),
            (marshal("F", "p", "1"), "is not a function's name"),
            (
                marshal("F", "p", "u") + "\n[[engine]]\nname = 'F'\nports = '1/1'",
                "two engines, admissions or procedures of the name F",
            ),
            ("name = 'x'\n[[marshal]]\nname = 'F'\npack = 'p'".into(), "missing field `unpack`"),
            (
                "name = 'x'\n".to_owned() + &"[[marshal]]\nname = 'F'\npack = 'p'\nunpack = 'u'\n".repeat(17),
                "16 that marshal",
            ),
            ("name = 'x'\n".to_owned() + &"[[engine]]\nname = 'F'\nports = '1/1'\n".repeat(17), "at most 16 classes"),
        ] {
            let refused = text.parse::<ExtensionManifest>().unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }
}
