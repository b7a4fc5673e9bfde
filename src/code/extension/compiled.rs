//! Extensions that have been compiled, and instances that are made of them. Operators and other extensions call one together; PLAN has
//! one of its own for each service. An instance's state is its own.

use super::built_in::{Desk, Work, works_of};
use super::every_node::is_built_in;
use super::instance::{self, BuiltInInstance, CallLink, Exports, Instance, SharedInstance};
use super::manifest::{ExtensionManifest, binary, is_native};
use super::native::{self, CallsOther, LoadsObjects, NativeInstance};
use super::object::manifest_of;
use crate::code::check;
use crate::wire::Digest;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::{Arc, Mutex, PoisonError};
use wasmtime::{Engine, Module};

/// The global with the address of a module's buffer.
pub const BUFFER_NAME: &str = "an_buffer";

/// A module, and those that it calls.
pub struct CompiledExtension {
    /// What it is.
    pub manifest: ExtensionManifest,
    /// What its bytes come to.
    pub digest: Digest,
    code: Code,
    /// Those that it needs, once for each of its needs.
    needs: Vec<Arc<CompiledExtension>>,
}

/// What its instances are made of.
enum Code {
    Module(Engine, Module),
    Native(Arc<[u8]>, LoadsObjects),
    BuiltIn(&'static [Work]),
}

/// What is offered as an extension, as far as it can be read without compiling.
pub struct Offered {
    /// What it is.
    pub manifest: ExtensionManifest,
    /// Whether it is a shared object, which nothing bounds.
    pub is_native: bool,
    code: Vec<u8>,
}

impl Offered {
    /// Reads a module, its text form, or a shared object.
    pub fn read(module: &[u8]) -> Result<Offered, String> {
        let is_native = is_native(module);
        let (manifest, code) = if is_native {
            (manifest_of(module)?, module.to_vec())
        } else {
            let wasm = binary(module)?.into_owned();
            check::bounds(&wasm).map_err(|refusal| refusal.to_string())?;
            let manifest = ExtensionManifest::of(&wasm)?;
            manifest.is_of(&wasm, BUFFER_NAME)?;
            (manifest, wasm)
        };
        if is_built_in(&manifest.name) {
            return Err(format!("{}: every node has an extension of this name: give it another one", manifest.name));
        }
        Ok(Offered { manifest, is_native, code })
    }

    /// Compiles it; `known` are those that it may need, and `loads` loads shared objects, if somebody may.
    pub fn compile(
        self,
        known: impl Fn(&str) -> Option<Arc<CompiledExtension>>,
        loads: Option<&LoadsObjects>,
    ) -> Result<Arc<CompiledExtension>, String> {
        let Offered { manifest, is_native, code } = self;
        let said = |error: wasmtime::Error| format!("{}: {error:#}", manifest.name);
        let digest = Digest::of(&code);
        let code = if is_native {
            Code::Native(code.into(), loads.ok_or_else(|| native::refused(&manifest.name))?.clone())
        } else {
            let engine = Engine::new(&instance::config()).map_err(said)?;
            let module = Module::new(&engine, &code).map_err(said)?;
            Code::Module(engine, module)
        };
        let needs = manifest.needs.iter().map(|need| {
            known(&need.extension).ok_or_else(|| format!("{} needs {need}, which is not there", manifest.name))
        });
        let needs = needs.collect::<Result<_, _>>()?;
        Ok(Arc::new(CompiledExtension { digest, code, needs, manifest }))
    }
}

/// A call of another extension as a shared object makes it, with the name by which it asks for it.
fn calls_of(CallLink { extension, call, instance, at }: CallLink) -> Option<(CString, CallsOther)> {
    let name = CString::new(format!("{extension}.{call}")).ok()?;
    let calls = move |around: (u64, u64), fuel: u64, exchange: &mut Vec<u8>| {
        instance.lock().unwrap_or_else(PoisonError::into_inner).call(at, around, fuel, exchange)
    };
    Some((name, Box::new(calls)))
}

/// Instances that call each other, by name.
#[derive(Clone, Default)]
pub struct Instances {
    /// Those that are there. Of what is built in, each that needs it has one of its own, which knows for whom it works.
    pub all: BTreeMap<String, SharedInstance>,
    /// Who works for what is built in; nobody for packets.
    pub desk: Option<Arc<Desk>>,
}

impl Instances {
    /// The same without some.
    pub fn without(&self, names: &[String]) -> Instances {
        let stay = self.all.iter().filter(|(name, _)| !names.contains(name));
        Instances { all: stay.map(|(name, it)| (name.clone(), it.clone())).collect(), desk: self.desk.clone() }
    }
}

impl CompiledExtension {
    /// What every node has.
    pub fn built_in(manifest: &ExtensionManifest) -> Result<CompiledExtension, String> {
        let works = works_of(&manifest.name).ok_or_else(|| format!("no node has {} from its start", manifest.name))?;
        let (manifest, code) = (manifest.clone(), Code::BuiltIn(works));
        Ok(CompiledExtension { digest: Digest([0; 32]), code, needs: Vec::new(), manifest })
    }

    /// Whether every node has it.
    pub fn is_built_in(&self) -> bool {
        matches!(self.code, Code::BuiltIn(_))
    }

    /// Whether it is a shared object.
    pub fn is_native(&self) -> bool {
        matches!(self.code, Code::Native(..))
    }

    /// Whether operators' calls of it, or of what it needs, are made in all instances.
    pub fn hears(&self) -> bool {
        self.manifest.calls.iter().any(|call| call.everywhere) || self.needs.iter().any(|needed| needed.hears())
    }

    /// An instance among others; those that it needs are made if they are not there. At most `registry::CHAIN_MAX` stand on each other.
    pub fn instance(&self, instances: &mut Instances) -> Result<SharedInstance, String> {
        self.instance_for(&self.manifest.name, instances)
    }

    /// The same for an extension that calls it.
    fn instance_for(&self, whose: &str, instances: &mut Instances) -> Result<SharedInstance, String> {
        if let Some(known) = instances.all.get(&self.manifest.name) {
            return Ok(known.clone());
        }
        let links = self.links(instances)?;
        let made = self.made((whose, links), instances.desk.clone());
        let shared = Arc::new(Mutex::new(made.map_err(|why| format!("{}: {why}", self.manifest.name))?));
        if !self.is_built_in() {
            instances.all.insert(self.manifest.name.clone(), shared.clone());
        }
        Ok(shared)
    }

    /// What it calls of others, among these instances.
    fn links(&self, instances: &mut Instances) -> Result<Vec<CallLink>, String> {
        let mut links = Vec::new();
        for (need, other) in self.manifest.needs.iter().zip(&self.needs) {
            let at = other.manifest.call(&need.call).ok_or_else(|| format!("{need} is not there"))?;
            let link = CallLink {
                extension: need.extension.clone(),
                call: need.call.clone(),
                instance: other.instance_for(&self.manifest.name, instances)?,
                at,
            };
            if !links.iter().any(|known: &CallLink| (&known.extension, &known.call) == (&link.extension, &link.call)) {
                links.push(link);
            }
        }
        Ok(links)
    }

    /// One that is ready for whom it works, with what it calls, and who works for what is built in.
    fn made(&self, (whose, links): (&str, Vec<CallLink>), desk: Option<Arc<Desk>>) -> Result<Instance, String> {
        let calls: Vec<_> = self.manifest.functions().collect();
        match &self.code {
            Code::Module(engine, module) => {
                Instance::new(engine, module, &Exports { buffer: BUFFER_NAME, calls: &calls }, links)
            }
            Code::Native(bytes, loads) => {
                let object = loads(bytes).map_err(|error| format!("it cannot be loaded: {error}"))?;
                let links = links.into_iter().filter_map(calls_of).collect();
                NativeInstance::new((object, bytes.len()), &calls, links).map(Instance::Native)
            }
            Code::BuiltIn(works) => Ok(Instance::BuiltIn(BuiltInInstance { works, whose: whose.to_owned(), desk })),
        }
    }
}
