//! `[[extension]]`: extensions that a node has from its start.
//!
//! The module stands in the configuration itself, as text or in hexadecimal: a running node opens no other files, and what an operator
//! applies is all that it has to be sent. What they need of each other is looked at when the file is read; they need nothing of those
//! that operators load later.

use super::plan::Routing;
use super::{ConfigError, NodeFile, wrong};
use crate::code::extension::compiled::Offered;
use crate::code::extension::manifest::{Exported, ExportedEngine, ExportedMarshal, ExtensionManifest, Need, binary};
use crate::code::extension::native::refused;
use crate::code::extension::registry::{Registry, fits};
use crate::node::graphs::{BroughtClass, BroughtClasses};
use crate::schedule::discipline::{OrderKind, PolicyName};
use crate::wire::Digest;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Bytes of all modules of a node's configuration, as of those that are loaded together.
pub const MODULES_MAX: usize = 400 << 10;

/// The type of a name service.
const HOST_OF_NAME: &str = "string -> host";

/// The type of a routing function.
const WAY_OF_HOST: &str = "host -> host * dev";

/// An extension of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtensionFile {
    /// Its name, which is that in its manifest.
    pub name: String,
    /// Its module with the manifest in it: in the text form of WebAssembly, or in hexadecimal digits.
    pub module: String,
}

impl ExtensionFile {
    /// The module's bytes, and what they are.
    fn offered(&self) -> Result<(Vec<u8>, Offered), String> {
        let given = hex::decode(self.module.trim()).unwrap_or_else(|_| self.module.clone().into_bytes());
        let module = binary(&given)?.into_owned();
        let offered = Offered::read(&module)?;
        let name = &offered.manifest.name;
        if *name == self.name { Ok((module, offered)) } else { Err(format!("its manifest calls it {name}")) }
    }
}

impl NodeFile {
    /// The extensions' modules, or what is wrong with them.
    pub fn extension_modules(&self) -> Result<Vec<Vec<u8>>, ConfigError> {
        self.offered_extensions().map(|(modules, _)| modules)
    }

    /// The classes of engines that they bring, as far as it can be known without compiling.
    pub fn offered_classes(&self) -> Result<BroughtClasses, ConfigError> {
        self.offered_extensions().map(|(_, manifests)| of_manifests(&manifests))
    }

    fn offered_extensions(&self) -> Result<(Vec<Vec<u8>>, Vec<ExtensionManifest>), ConfigError> {
        let (mut modules, mut manifests) = (Vec::new(), Vec::new());
        for extension in &self.extensions {
            let said = |why| ConfigError(format!("[[extension]] {}: {why}", extension.name.escape_debug()));
            let (module, offered) = extension.offered().map_err(said)?;
            if offered.is_native && !self.security.native_extensions {
                return wrong(format!("[[extension]]: {}", refused(&offered.manifest.name)));
            }
            manifests.push(offered.manifest);
            modules.push(module);
        }
        let length: usize = modules.iter().map(Vec::len).sum();
        if length > MODULES_MAX {
            return wrong(format!("[[extension]]: all modules have {length} bytes, and {MODULES_MAX} at most"));
        }
        let order = Registry::of_every_node(|_| Ok(())).and_then(|registry| registry.order(&manifests));
        order.map_err(|why| ConfigError(format!("[[extension]]: {why}")))?;
        self.check_name_service(&manifests)?;
        self.check_routing(&manifests)?;
        self.check_policies(&manifests)?;
        self.check_input(&manifests)?;
        Ok((modules, manifests))
    }

    /// Whoever is asked for hosts is there as long as the configuration is, and gives hosts.
    fn check_name_service(&self, manifests: &[ExtensionManifest]) -> Result<(), ConfigError> {
        let Some(service) = &self.classify.name_service else { return Ok(()) };
        let found = called(manifests, service, (HOST_OF_NAME, "a name service", "names.lookup"));
        let said = |why| ConfigError(format!("[classify] name_service = '{}': {why}", service.escape_debug()));
        found.map(drop).map_err(said)
    }

    /// So is whoever `defaultRoute` asks, and PLAN programs see it.
    fn check_routing(&self, manifests: &[ExtensionManifest]) -> Result<(), ConfigError> {
        let Routing::Extension(call) = &self.plan.routing else { return Ok(()) };
        let found = called(manifests, call, (WAY_OF_HOST, "a routing function", "routes.next"));
        let seen = |is: bool| if is { Ok(()) } else { Err("it is no service of PLAN's: service = true".to_owned()) };
        let said = |why| ConfigError(format!("[plan] routing = '{}': {why}", call.escape_debug()));
        found.map(|exported| exported.service).and_then(seen).map_err(said)
    }

    /// What ports' disciplines have of extensions is there as long as the configuration is.
    fn check_policies(&self, manifests: &[ExtensionManifest]) -> Result<(), ConfigError> {
        for port in &self.ports {
            let Some(sorting) = port.sorting()? else { continue };
            for (class, is_order, policy) in sorting.spec.brought() {
                has_policy(manifests, is_order, policy).map_err(|why| {
                    let class = class.map(|class| format!("class {class}: ")).unwrap_or_default();
                    let key = if is_order { "order" } else { "admission" };
                    ConfigError(format!(
                        "port {}: discipline: {class}{key} = \"{}\": {why}",
                        port.title(),
                        policy.text()
                    ))
                })?;
            }
        }
        Ok(())
    }

    /// So is whoever says from which port frames are taken in.
    fn check_input(&self, manifests: &[ExtensionManifest]) -> Result<(), ConfigError> {
        let Some(name) = self.input.order.as_ref().and_then(OrderKind::brought) else { return Ok(()) };
        let said = |why| ConfigError(format!("[input] order = \"{}\": {why}", name.text()));
        has_policy(manifests, true, name).map_err(said)
    }
}

/// Whether an extension of this configuration has such an order or admission.
fn has_policy(manifests: &[ExtensionManifest], is_order: bool, policy: &PolicyName) -> Result<(), String> {
    let manifest = manifests.iter().find(|manifest| manifest.name == policy.extension);
    let missing = || format!("there is no [[extension]] {} in this configuration", policy.extension);
    let manifest = manifest.ok_or_else(missing)?;
    let found = if is_order { manifest.order(&policy.class) } else { manifest.admission(&policy.class) };
    found.map(drop)
}

/// The call EXTENSION.CALL of this configuration, which has a type; what it is, and how one is written.
fn called<'a>(
    manifests: &'a [ExtensionManifest],
    call: &str,
    (kind, what, example): (&str, &str, &str),
) -> Result<&'a Exported, String> {
    let need = format!("{call} : {kind}").parse::<Need>();
    let need = need.map_err(|_| format!("it is written EXTENSION.CALL, as {example}"))?;
    let manifest = manifests.iter().find(|manifest| manifest.name == need.extension);
    let missing = || format!("there is no [[extension]] {} in this configuration", need.extension);
    let manifest = manifest.ok_or_else(missing)?;
    fits(manifest, &need).map_err(|why| format!("{why}; {what} is of type {kind}"))?;
    manifest.calls.iter().find(|exported| exported.name == need.call).ok_or_else(missing)
}

/// Classes of engines for texts that are only checked.
pub(crate) fn of_manifests(manifests: &[ExtensionManifest]) -> BroughtClasses {
    let of = |manifest: &ExtensionManifest, engine: &ExportedEngine| {
        Arc::new(BroughtClass::new(&manifest.name, (&engine.name, &engine.ports, engine.order, &engine.about), None))
    };
    // What a module comes to is known when it is loaded.
    let marshal = |manifest: &ExtensionManifest, marshal: &ExportedMarshal| {
        let class = BroughtClass::new(&manifest.name, (&marshal.name, "0/0", false, &marshal.about), None);
        Arc::new(class.that_marshals(Digest([0; 32])))
    };
    let classes = manifests.iter().flat_map(|manifest| {
        let engines = manifest.engines.iter().map(move |engine| of(manifest, engine));
        engines.chain(manifest.marshals.iter().map(move |it| marshal(manifest, it)))
    });
    BroughtClasses::new(classes.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(extensions: &str) -> Option<String> {
        let head = "name = \"a\"\n[[port]]\nudp = \"127.0.0.1:0\"\naddress = [\"10.0.0.1/24\"]\n";
        NodeFile::parse(&format!("{head}{extensions}")).err().map(|error| error.to_string())
    }

    /// An extension that needs these calls, as text.
    fn module(name: &str, needs: &str) -> String {
        format!(
            "(module (memory (export \"memory\") 1) (global (export \"an_buffer\") i32 (i32.const 0))
               (func (export \"f\") (param i32) (result i32) (i32.const 0))
               (@custom \"anode.extension\" \"name = '{name}'\\nneeds = [{needs}]\\n[[call]]\\nname = 'f'\\ntype = 'void -> int'\"))"
        )
    }

    fn table(name: &str, module: &str) -> String {
        format!("[[extension]]\nname = \"{name}\"\nmodule = \"\"\"\n{}\"\"\"\n", module.replace('\\', "\\\\"))
    }

    #[test]
    fn extensions_are_checked_when_the_file_is_read() {
        let of = |name: &str, needs: &str| table(name, &module(name, needs));
        let (plain, need) = (of("plain", ""), |name: &str, kind: &str| format!("'{name}.f : {kind}'"));
        let digits = table("plain", &hex::encode(wat::parse_str(module("plain", "")).unwrap()));
        for fine in [&plain, &digits, &format!("{}{plain}", of("other", &need("plain", "void -> int")))] {
            assert_eq!(refused(fine), None, "{fine}");
        }
        let service = |call: &str| format!("[classify]\nname_service = \"{call}\"\n");
        let order =
            |of: &str| format!("[port.discipline]\norder = \"{of}\"\n[[port.discipline.class]]\nname = \"a\"\n");
        let gate = |of: &str| order("wfq") + &format!("admission = \"{of}\"\n");
        let ring = of("a", &need("b", "void -> int")) + &of("b", &need("a", "void -> int"));
        let chain = of("a", &need("b", "void -> int")) + &of("b", &need("c", "void -> int"));
        for (extensions, why) in [
            (format!("{plain}{digits}"), "[[extension]]: two extensions are called plain"),
            (table("other", &module("plain", "")), "[[extension]] other: its manifest calls it plain"),
            (ring, "extensions need each other in a ring: a needs b needs a"),
            (chain, "a, which is needed: b needs c.f : void -> int: no extension 'c' is loaded"),
            (of("a", &need("plain", "void -> host")) + &plain, "plain.f is of type void -> int"),
            (table("plain", "(module)"), "[[extension]] plain: the module has no custom section"),
            (table("plain", "0061736d"), "[[extension]] plain: "),
            (table("plain", "(modul"), "[[extension]] plain: "),
            (plain.replace("module", "text"), "unknown field `text`"),
            (service("f") + &plain, "[classify] name_service = 'f': it is written EXTENSION.CALL"),
            (service("names.f") + &plain, "there is no [[extension]] names in this configuration"),
            (
                order("shares/Shares(3)") + &plain,
                "discipline: order = \"shares/Shares(3)\": there is no [[extension]] shares",
            ),
            (order("plain/F") + &plain, "order = \"plain/F\": plain has no order F; it has none"),
            (gate("plain/F") + &plain, "class a: admission = \"plain/F\": plain has no admission F; it has none"),
            ("[plan]\nrouting = \"rap\"\n".into(), "'rap' is no routing: routes, rip, both, or EXTENSION.CALL"),
            (
                "[plan]\nrouting = \"routes.next\"\n".into(),
                "[plan] routing = 'routes.next': there is no [[extension]] routes",
            ),
            (
                "[plan]\nrouting = \"plain.f\"\n".to_owned() + &plain,
                "plain.f is of type void -> int; a routing function is of type host -> host * dev",
            ),
            (service("plain.g") + &plain, "plain has no call g; it has f; a name service is of type string -> host"),
            (service("plain.f") + &plain, "plain.f is of type void -> int; a name service is of type string -> host"),
        ] {
            let said = refused(&extensions).unwrap_or_default();
            assert!(said.contains(why), "{said}, not {why}");
        }
    }
}
