//! Extensions of a running node, and PLAN services that its operator loads: compiled, kept and called in a thread of its own, since
//! control threads cannot make executable memory.
//!
//! ```text
//! applier ─▶ prepare ─▶ Loading ─▶ services into the node, protocols to all workers ─▶ put
//! control ─▶ list, call
//! ```
//!
//! Only the thread that applies configurations loads and unloads, so what was prepared still fits when it is put. A call is the
//! operator's and has its fuel: others wait for it, packets never.

use crate::code::extension::call_type::CallType;
use crate::code::extension::compiled::{CompiledExtension, Instances, Offered};
use crate::code::extension::instance::{CallFailure, SharedInstance};
use crate::code::extension::manifest::ExtensionManifest;
use crate::code::extension::registry::Registry;
use crate::ee::plan::LoadedService;
use crate::ee::plan::wasm::WasmService;
use crate::sys::clock::Clock;
use crate::sys::threads::{self, Duty};
use crate::wire::Digest;
use model::extensions::{Call, Called, Extension};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, PoisonError};

/// Orders that can wait; whoever asks for more waits too.
const WAITING_MAX: usize = 4;
/// Fuel of an operator's call: about a tenth of a second.
const CALL_FUEL: u64 = 100_000_000;

/// What the thread is asked.
enum Order {
    Service(Vec<u8>, Sender<Result<WasmService, String>>),
    Prepare(Vec<Vec<u8>>, Sender<Result<Loading, String>>),
    Put(Loading, Sender<()>),
    Leaving(String, bool, Sender<Result<Leaving, String>>),
    Take(Vec<String>, Sender<()>),
    Protocols(Sender<Vec<Taught>>),
    List(Sender<Vec<Extension>>),
    Call(String, Vec<String>, Sender<Result<Called, String>>),
}

/// Definitions of protocols, and whose they are.
pub type Taught = (String, String);

/// A call that PLAN programs see.
pub struct Service {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: CallType,
    /// What does it: an instance of its own, with all that it needs.
    pub what: Box<dyn LoadedService>,
}

/// Extensions that can be loaded.
pub struct Loading {
    all: Vec<Arc<CompiledExtension>>,
    instances: Instances,
    /// What PLAN programs see of them.
    pub services: Vec<Service>,
    /// What all loaded extensions teach then.
    pub taught: Vec<Taught>,
}

impl Loading {
    /// Their names, in the order in which they come.
    pub fn names(&self) -> Vec<String> {
        self.all.iter().map(|extension| extension.manifest.name.clone()).collect()
    }
}

/// Extensions that are to go.
#[derive(Debug, PartialEq, Eq)]
pub struct Leaving {
    /// They, each before those that it needs.
    pub names: Vec<String>,
    /// What PLAN programs saw of them.
    pub services: Vec<String>,
    /// What those that stay teach.
    pub taught: Vec<Taught>,
}

/// An extension that is loaded.
struct Loaded {
    compiled: Arc<CompiledExtension>,
    /// The one that operators call.
    instance: SharedInstance,
    calls: u64,
    failed: u64,
    fuel: u64,
}

/// A call as a service of PLAN.
struct ServiceCall {
    instance: SharedInstance,
    at: usize,
}

impl LoadedService for ServiceCall {
    fn call(&mut self, now: u64, random: u64, fuel: u64, exchange: &mut Vec<u8>) -> (Result<(), CallFailure>, u64) {
        // Nobody else has this instance, nor those that it calls: it is never waited for.
        let mut instance = self.instance.lock().unwrap_or_else(PoisonError::into_inner);
        instance.call(self.at, (now, random), fuel, exchange)
    }
}

/// A way to the thread, which ends with the last of them.
#[derive(Clone)]
pub struct Extensions(SyncSender<Order>);

impl Extensions {
    /// Starts the thread.
    pub fn start(clock: Clock) -> io::Result<Extensions> {
        let (orders, inbox) = sync_channel(WAITING_MAX);
        threads::start("anode-extensions", Duty::Compile, move || State::new(clock).serve(&inbox))?;
        Ok(Extensions(orders))
    }

    fn ask<R>(&self, order: impl FnOnce(Sender<R>) -> Order) -> Result<R, String> {
        let gone = || "the thread of extensions has ended".to_owned();
        let (reply, answer) = channel();
        self.0.send(order(reply)).map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())
    }

    /// Compiles a module as a service of PLAN, or says why it is none.
    pub fn service(&self, module: Vec<u8>) -> Result<WasmService, String> {
        self.ask(|reply| Order::Service(module, reply))?
    }

    /// Makes modules ready to be loaded, all or none.
    pub fn prepare(&self, modules: Vec<Vec<u8>>) -> Result<Loading, String> {
        self.ask(|reply| Order::Prepare(modules, reply))?
    }

    /// They are loaded from now on.
    pub fn put(&self, loading: Loading) -> Result<(), String> {
        self.ask(|reply| Order::Put(loading, reply))
    }

    /// What goes when this one goes; with `cascade` those, too, that need it.
    pub fn leaving(&self, name: String, cascade: bool) -> Result<Leaving, String> {
        self.ask(|reply| Order::Leaving(name, cascade, reply))?
    }

    /// They are loaded no more.
    pub fn take(&self, names: Vec<String>) -> Result<(), String> {
        self.ask(|reply| Order::Take(names, reply))
    }

    /// What all of them teach.
    pub fn protocols(&self) -> Result<Vec<Taught>, String> {
        self.ask(Order::Protocols)
    }

    /// All, in the order in which they came.
    pub fn list(&self) -> Result<Vec<Extension>, String> {
        self.ask(Order::List)
    }

    /// Calls EXTENSION.CALL for somebody.
    pub fn call(&self, call: String, arguments: Vec<String>) -> Result<Called, String> {
        self.ask(|reply| Order::Call(call, arguments, reply))?
    }
}

/// What the thread has.
struct State {
    clock: Clock,
    chance: RandomState,
    registry: Registry<Loaded>,
    instances: Instances,
}

impl State {
    fn new(clock: Clock) -> State {
        State { clock, chance: RandomState::new(), registry: Registry::default(), instances: Instances::new() }
    }

    fn serve(mut self, inbox: &Receiver<Order>) {
        // Whoever asked may have gone away meanwhile.
        for order in inbox {
            match order {
                Order::Service(module, reply) => drop(reply.send(WasmService::load(&module))),
                Order::Prepare(modules, reply) => drop(reply.send(self.prepare(&modules))),
                Order::Put(loading, reply) => {
                    self.put(loading);
                    let _ = reply.send(());
                }
                Order::Leaving(name, cascade, reply) => drop(reply.send(self.leaving(&name, cascade))),
                Order::Take(names, reply) => {
                    self.take(&names);
                    let _ = reply.send(());
                }
                Order::Protocols(reply) => drop(reply.send(self.taught(&[]))),
                Order::List(reply) => drop(reply.send(self.registry.iter().map(listed).collect())),
                Order::Call(call, arguments, reply) => drop(reply.send(self.call(&call, &arguments))),
            }
        }
    }

    /// What those teach that are not among these.
    fn taught(&self, without: &[String]) -> Vec<Taught> {
        let all = self.registry.iter().map(|(manifest, _)| manifest);
        let teaches = all.filter(|manifest| !manifest.protocols.is_empty() && !without.contains(&manifest.name));
        teaches.map(|manifest| (manifest.name.clone(), manifest.protocols.clone())).collect()
    }

    fn prepare(&self, modules: &[Vec<u8>]) -> Result<Loading, String> {
        let offered = modules.iter().map(|module| Offered::read(module)).collect::<Result<Vec<_>, _>>()?;
        let manifests: Vec<_> = offered.iter().map(|offered| offered.manifest.clone()).collect();
        let order = self.registry.order(&manifests)?;
        let mut offered: Vec<_> = offered.into_iter().map(Some).collect();
        let mut loading = Loading {
            all: Vec::new(),
            instances: self.instances.clone(),
            services: Vec::new(),
            taught: self.taught(&[]),
        };
        for offered in order.into_iter().filter_map(|at| offered[at].take()) {
            let known = |name: &str| {
                let new = loading.all.iter().find(|extension| extension.manifest.name == name);
                new.or_else(|| Some(&self.registry.get(name)?.1.compiled)).cloned()
            };
            let compiled = offered.compile(known)?;
            compiled.instance(&mut loading.instances)?;
            loading.all.push(compiled);
        }
        for extension in &loading.all {
            loading.services.extend(self.services(extension, &loading.services)?);
            let manifest = &extension.manifest;
            if !manifest.protocols.is_empty() {
                loading.taught.push((manifest.name.clone(), manifest.protocols.clone()));
            }
        }
        Ok(loading)
    }

    /// What PLAN programs see of an extension; `others` are those of extensions that come with it.
    fn services(&self, extension: &CompiledExtension, others: &[Service]) -> Result<Vec<Service>, String> {
        let calls = &extension.manifest.calls;
        let mut services = Vec::new();
        for (at, call) in calls.iter().enumerate().filter(|(_, call)| call.service) {
            let mut all = self.registry.iter().flat_map(|(manifest, _)| manifest.calls.iter().filter(|it| it.service));
            if all.any(|it| it.name == call.name) || others.iter().any(|other| other.name == call.name) {
                return Err(format!("{}: another extension has a service {}", extension.manifest.name, call.name));
            }
            let instance = extension.instance(&mut Instances::new())?;
            let what = Box::new(ServiceCall { instance, at });
            services.push(Service { name: call.name.clone(), kind: call.kind.clone(), what });
        }
        Ok(services)
    }

    fn put(&mut self, loading: Loading) {
        self.instances = loading.instances;
        for compiled in loading.all {
            let Some(instance) = self.instances.get(&compiled.manifest.name).cloned() else { continue };
            let manifest = compiled.manifest.clone();
            self.registry.put(manifest, Loaded { compiled, instance, calls: 0, failed: 0, fuel: 0 });
        }
    }

    fn leaving(&self, name: &str, cascade: bool) -> Result<Leaving, String> {
        let names = self.registry.leaving(name)?;
        if let [others @ .., _] = &names[..]
            && !others.is_empty()
            && !cascade
        {
            return Err(format!(
                "{} needed by {}: unload first what needs it, or all with --cascade",
                if others.len() == 1 { format!("{name} is") } else { format!("{name} is still") },
                others.join(", ")
            ));
        }
        let gone = self.registry.iter().filter(|(manifest, _)| names.contains(&manifest.name));
        let services = gone.flat_map(|(manifest, _)| &manifest.calls).filter(|call| call.service);
        let services = services.map(|call| call.name.clone()).collect();
        Ok(Leaving { services, taught: self.taught(&names), names })
    }

    fn take(&mut self, names: &[String]) {
        for name in names {
            self.registry.take(name);
            self.instances.remove(name);
        }
    }

    fn call(&mut self, call: &str, arguments: &[String]) -> Result<Called, String> {
        let (extension, name) = call.split_once('.').ok_or("a call is named EXTENSION.CALL")?;
        let unknown = self.registry.unknown(extension);
        let (manifest, loaded) = self.registry.get_mut(extension).ok_or(unknown)?;
        let calls = || manifest.calls.iter().map(|call| &*call.name).collect::<Vec<_>>().join(", ");
        let at = manifest.call(name);
        let at =
            at.ok_or_else(|| format!("{extension} has no call '{}'; it has: {}", crate::clean::shown(name), calls()))?;
        let kind = &manifest.calls[at].kind;
        let given = kind.arguments(arguments).map_err(|why| format!("{call}: {why}"))?;
        let mut exchange = Vec::new();
        kind.write(&given, &mut exchange).map_err(|unfit| format!("{call}: {unfit:?}"))?;
        let at_time = (self.clock.now(), self.chance.hash_one(loaded.calls));
        let mut instance = loaded.instance.lock().unwrap_or_else(PoisonError::into_inner);
        let (result, fuel) = instance.call(at, at_time, CALL_FUEL, &mut exchange);
        (loaded.calls, loaded.fuel) = (loaded.calls + 1, loaded.fuel.saturating_add(fuel));
        let value = result
            .map_err(failure)
            .and_then(|()| kind.read(&exchange).ok_or_else(|| format!("what it gave is not of the type {kind}")));
        match value {
            Ok(value) => Ok(Called { value: value.to_string(), fuel }),
            Err(why) => {
                loaded.failed += 1;
                Err(format!("{call}: {why}"))
            }
        }
    }
}

/// Why a call has no result, for people.
fn failure(failure: CallFailure) -> String {
    match failure {
        CallFailure::Raised(-1) => "not found".into(),
        CallFailure::Raised(-2) => "refused".into(),
        CallFailure::Raised(-3) => "not an address that it takes".into(),
        CallFailure::Raised(-4) | CallFailure::TooBig => "too big".into(),
        CallFailure::Raised(-5) => "a call of another extension has failed".into(),
        CallFailure::Raised(code) => format!("it says {code}"),
        CallFailure::Fuel => format!("it has used up its fuel of {CALL_FUEL}"),
        CallFailure::Broken => "it has failed: a trap".into(),
    }
}

fn listed((manifest, loaded): &(ExtensionManifest, Loaded)) -> Extension {
    let Loaded { compiled, calls, failed, fuel, .. } = loaded;
    Extension { called: *calls, failed: *failed, fuel: *fuel, ..described(manifest, &compiled.digest) }
}

/// What an extension is that nobody has called.
pub fn described(manifest: &ExtensionManifest, digest: &Digest) -> Extension {
    let calls = manifest.calls.iter().map(|call| Call {
        name: call.name.clone(),
        kind: call.kind.to_string(),
        about: call.about.clone(),
        service: call.service,
    });
    Extension {
        name: manifest.name.clone(),
        about: manifest.about.clone(),
        digest: digest.to_string(),
        needs: manifest.needs.iter().map(ToString::to_string).collect(),
        protocols: manifest.protocols.clone(),
        calls: calls.collect(),
        called: 0,
        failed: 0,
        fuel: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: &[u8] = include_bytes!("../../apps/extensions/names.wat");
    const TUNNELS: &[u8] = include_bytes!("../../apps/extensions/tunnels.wat");

    fn start() -> Extensions {
        Extensions::start(Clock::start()).unwrap()
    }

    fn load(extensions: &Extensions, modules: &[&[u8]]) -> Result<Vec<String>, String> {
        let loading = extensions.prepare(modules.iter().map(|module| module.to_vec()).collect())?;
        let names = loading.names();
        extensions.put(loading).map(|()| names)
    }

    fn call(extensions: &Extensions, call: &str, arguments: &[&str]) -> Result<String, String> {
        let arguments = arguments.iter().map(ToString::to_string).collect();
        extensions.call(call.into(), arguments).map(|called| called.value)
    }

    /// An extension with one function `f` of this body, and what it needs.
    fn extension(name: &str, kind: &str, (imports, body): (&str, &str), more: &str) -> Vec<u8> {
        format!(
            "(module {imports} (memory (export \"memory\") 1) (global (export \"an_buffer\") i32 (i32.const 0))
               (func (export \"f\") (param i32) (result i32) {body})
               (@custom \"anode.extension\" \"name = '{name}'\\n{more}\\n[[call]]\\nname = 'f'\\ntype = '{kind}'\"))"
        )
        .into_bytes()
    }

    #[test]
    fn what_is_no_service_is_refused_and_the_thread_works_on() {
        let extensions = start();
        let body = "(memory (export \"memory\") 1) (global (export \"plan_buffer\") i32 (i32.const 64))
                    (func (export \"service\") (param i32) (result i32) (i32.const 0))";
        assert!(extensions.service(b"no module".to_vec()).is_err());
        assert!(extensions.clone().service(format!("(module {body})").into_bytes()).is_ok());
    }

    #[test]
    fn extensions_call_each_other_and_go_in_the_order_of_their_needs() {
        let extensions = start();
        assert!(
            load(&extensions, &[TUNNELS]).unwrap_err().contains("needs names.lookup : string -> host: no extension")
        );
        assert_eq!(load(&extensions, &[TUNNELS, NAMES]).unwrap(), ["names", "tunnels"]);
        assert_eq!(call(&extensions, "names.add", &["vtep.west", "10.0.0.9"]).unwrap(), "()");
        assert_eq!(call(&extensions, "names.add", &["www", "fd00::80"]).unwrap(), "()");
        assert_eq!(call(&extensions, "names.lookup", &["www"]).unwrap(), "fd00::80");
        assert_eq!(call(&extensions, "tunnels.end", &["west"]).unwrap(), "10.0.0.9");
        assert_eq!(call(&extensions, "tunnels.end", &["east"]).unwrap_err(), "tunnels.end: not found");
        assert_eq!(call(&extensions, "names.remove", &["vtep.west"]).unwrap(), "()");
        assert!(call(&extensions, "tunnels.end", &["west"]).is_err());
        assert_eq!(call(&extensions, "names.lookup", &["www"]).unwrap(), "fd00::80", "others stay");
        let listed = extensions.list().unwrap();
        assert_eq!((&*listed[1].name, listed[1].called, listed[1].failed), ("tunnels", 3, 2));
        let refused = extensions.leaving("names".into(), false).unwrap_err();
        assert_eq!(refused, "names is needed by tunnels: unload first what needs it, or all with --cascade");
        let leaving = extensions.leaving("names".into(), true).unwrap();
        assert_eq!(
            (leaving.names.clone(), leaving.services, leaving.taught),
            (vec!["tunnels".into(), "names".into()], vec!["end".into()], vec![])
        );
        extensions.take(leaving.names).unwrap();
        assert!(call(&extensions, "names.lookup", &["www"]).unwrap_err().contains("no extension 'names' is loaded"));
        load(&extensions, &[NAMES]).unwrap();
        assert_eq!(
            call(&extensions, "names.lookup", &["www"]).unwrap_err(),
            "names.lookup: not found",
            "it began anew"
        );
    }

    #[test]
    fn a_table_of_names_is_full_and_has_its_bounds() {
        let extensions = start();
        load(&extensions, &[NAMES]).unwrap();
        for number in 0..256 {
            call(&extensions, "names.add", &[&format!("host{number}"), "10.0.0.1"]).unwrap();
        }
        assert_eq!(call(&extensions, "names.add", &["one-more", "10.0.0.1"]).unwrap_err(), "names.add: refused");
        call(&extensions, "names.add", &["host7", "10.0.0.7"]).unwrap();
        call(&extensions, "names.remove", &["host9"]).unwrap();
        call(&extensions, "names.add", &[&"x".repeat(32), "10.0.0.8"]).unwrap();
        assert_eq!(call(&extensions, "names.lookup", &["host7"]).unwrap(), "10.0.0.7");
        assert_eq!(call(&extensions, "names.lookup", &[&"x".repeat(32)]).unwrap(), "10.0.0.8");
        assert_eq!(call(&extensions, "names.add", &[&"x".repeat(33), "10.0.0.8"]).unwrap_err(), "names.add: too big");
    }

    #[test]
    fn calls_that_trap_loop_or_lie_end_and_nobody_else_is_disturbed() {
        let extensions = start();
        let f = |name: &str, body: &str| extension(name, "void -> int", ("", body), "");
        let seven = "(i64.store (i32.const 0) (i64.const 7)) (i32.const 8)";
        let of = |name: &str| format!("(import \"{name}\" \"f\" (func $f (param i32) (result i32)))");
        let needs = |name: &str| format!("needs = ['{name}.f : void -> int']");
        let passes =
            |own: &str, other: &str, body: &str| extension(own, "void -> int", (&of(other), body), &needs(other));
        let all = [
            f("seven", seven),
            f("loops", "(loop (br 0)) unreachable"),
            f("traps", "unreachable"),
            f("lies", "(i32.const 4)"),
            f("far", "(i32.const 4097)"),
            f("says", "(i32.const -77)"),
            f("deep", "(i32.const 0) (call 0) drop unreachable"),
            passes("asks", "seven", "(call $f (i32.const 0))"),
            passes("asks-loop", "loops", "(call $f (i32.const 0))"),
            passes(
                "asks-trap",
                "traps",
                "(drop (call $f (i32.const 0))) (i64.store (i32.const 0) (i64.const -5)) (i32.const 8)",
            ),
            passes("asks-much", "seven", "(call $f (i32.const 4097))"),
            passes("asks-past", "seven", "(call $f (i32.const -1))"),
            passes("asks-ever", "seven", "(loop (drop (call $f (i32.const 0))) (br 0)) unreachable"),
        ];
        load(&extensions, &all.each_ref().map(|module| &module[..])).unwrap();
        for (name, expected) in [
            ("seven", Ok("7")),
            ("loops", Err("used up its fuel")),
            ("traps", Err("a trap")),
            ("lies", Err("not of the type void -> int")),
            ("far", Err("a trap")),
            ("says", Err("it says -77")),
            ("deep", Err("a trap")),
            ("asks", Ok("7")),
            ("asks-loop", Err("used up its fuel")),
            ("asks-trap", Ok("~5")),
            ("asks-much", Err("too big")),
            ("asks-past", Err("too big")),
            ("asks-ever", Err("used up its fuel")),
            ("seven", Ok("7")),
        ] {
            let given = call(&extensions, &format!("{name}.f"), &[]);
            match expected {
                Ok(value) => assert_eq!(given.as_deref(), Ok(value), "{name}"),
                Err(why) => assert!(given.as_ref().is_err_and(|said| said.contains(why)), "{name}: {given:?}"),
            }
        }
        for (named, why) in
            [("seven", "is named EXTENSION.CALL"), ("seven.g", "it has: f"), ("eight.f", "no extension 'eight'")]
        {
            assert!(call(&extensions, named, &[]).unwrap_err().contains(why), "{named}");
        }
        assert!(call(&extensions, "seven.f", &["1"]).unwrap_err().contains("1 arguments are given"));
    }

    #[test]
    fn modules_that_are_no_extensions_are_refused_and_nothing_of_their_list_is_loaded() {
        let extensions = start();
        let fine = extension("fine", "void -> int", ("", "(i32.const 0)"), "");
        let f = |kind: &str, imports: &str, more: &str| extension("bad", kind, (imports, "(i32.const 0)"), more);
        let service = "[[call]]\\nname = 'g'\\ntype = 'void -> int'";
        for (module, why) in [
            (b"no module".to_vec(), "expected `(`"),
            (b"(module)".to_vec(), "no custom section 'anode.extension'"),
            (f("void", "", ""), "no function's type"),
            (f("void -> int", "(import \"env\" \"x\" (func))", ""), "imports env.x"),
            (f("void -> int", "(import \"fine\" \"f\" (func (param i32) (result i32)))", ""), "imports fine.f"),
            (f("void -> int", "", service), "exports no function 'g'"),
            (f("void -> int", "", "needs = ['fine.f : void -> host']"), "fine.f is of type void -> int"),
            (vec![b' '; 65_537], "at most 65536 bytes"),
        ] {
            let refused = load(&extensions, &[&fine, &module]).unwrap_err();
            assert!(refused.contains(why), "{why}: {refused}");
            assert!(extensions.list().unwrap().is_empty());
        }
        load(&extensions, &[&fine]).unwrap();
        assert!(load(&extensions, &[&fine]).unwrap_err().contains("loaded already"));
    }
}
