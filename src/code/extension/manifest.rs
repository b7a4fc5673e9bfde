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

/// The node's own calls, which modules import from `anode`.
pub const OWN_CALLS: [&str; 4] = ["an_now", "an_random", "an_fetch", "an_fetch_state"];

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
        let is_own = module == "anode" && OWN_CALLS.contains(&name);
        if is_own || self.needs.iter().any(|need| (&*need.extension, &*need.call) == (module, name)) {
            return Ok(());
        }
        Err(format!(
            "{}: the module imports {}.{}; there are anode.{}, and the calls in 'needs'",
            self.name,
            shown(module),
            shown(name),
            OWN_CALLS.join(", anode.")
        ))
    }

    /// The module's functions: of its calls, then of its classes of engines.
    pub fn functions(&self) -> impl Iterator<Item = &str> {
        let engines = self.engines.iter().flat_map(|engine| [Some(&*engine.name), engine.setup.as_deref()]);
        self.calls.iter().map(|call| &*call.name).chain(engines.flatten())
    }

    /// The numbers of the functions of a class of engines: for packets, and for arguments.
    pub fn engine_functions(&self, at: usize) -> (usize, Option<usize>) {
        let before = self.engines.iter().take(at).map(|engine| 1 + usize::from(engine.setup.is_some()));
        let push = self.calls.len() + before.sum::<usize>();
        (push, self.engines.get(at).and_then(|engine| engine.setup.as_ref()).map(|_| push + 1))
    }

    /// The number of a call.
    pub fn call(&self, name: &str) -> Option<usize> {
        self.calls.iter().position(|call| call.name == name)
    }
}

impl FromStr for ExtensionManifest {
    type Err = String;

    fn from_str(text: &str) -> Result<ExtensionManifest, String> {
        let Text { name, about, needs, protocols, calls, engines } =
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
        if engines.len() > ENGINES_MAX {
            return Err(format!("{name}: at most {ENGINES_MAX} classes of engines"));
        }
        if !engines.is_empty() && name.contains('-') {
            return Err(format!("{name}: graphs name its engines {name}/CLASS, and no name there has a '-'"));
        }
        if let Some(twice) =
            engines.iter().enumerate().find(|(at, of)| engines[..*at].iter().any(|it| it.name == of.name))
        {
            return Err(format!("{name} has two classes of the name {}", twice.1.name));
        }
        Ok(ExtensionManifest { name, about: plain(about)?, needs, protocols, calls, engines })
    }
}

impl CallText {
    fn read(self) -> Result<Exported, String> {
        let name = named("a call's name", self.name)?;
        let kind = CallType::parse(&self.kind).map_err(|why| format!("the type of {name}: {why}"))?;
        Ok(Exported { name, kind, about: plain(self.about)?, service: self.service })
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

/// A module in its binary form; it may be in its text form.
pub fn binary(module: &[u8]) -> Result<Cow<'_, [u8]>, String> {
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
    fn what_is_no_manifest_is_refused() {
        let call = |name: &str, kind: &str| format!("name = 'x'\n[[call]]\nname = '{name}'\ntype = '{kind}'");
        let engine = |name: &str, ports: &str| format!("name = 'x'\n[[engine]]\nname = '{name}'\nports = '{ports}'");
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
            (engine("F", "1/1") + "\n[[engine]]\nname = 'F'\nports = '1/2'", "two classes of the name F"),
            (engine("F", "1/1").replace("'x'", "'x-y'"), "no name there has a '-'"),
            ("name = 'x'\n".to_owned() + &"[[engine]]\nname = 'F'\nports = '1/1'\n".repeat(17), "at most 16 classes"),
        ] {
            let refused = text.parse::<ExtensionManifest>().unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }
}
