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

mod engines;
mod marshals;
mod orders;
mod policies;
mod services;
mod told;

use crate::code::extension::built_in::{Desk, FetchesCode, KnowsNetwork};
use crate::code::extension::call_type::CallType;
use crate::code::extension::compiled::{CompiledExtension, Instances, Offered};
use crate::code::extension::instance::SharedInstance;
use crate::code::extension::native::LoadsObjects;
use crate::code::extension::registry::Registry;
use crate::ee::plan::LoadedService;
use crate::ee::plan::wasm::WasmService;
use crate::graph::class::{BroughtClass, BroughtClasses};
use crate::node::Node;
use crate::sys::clock::Clock;
use crate::sys::shared_object::SharedObject;
use crate::sys::threads::{self, Duty};
use model::extensions::{Called, Extension};
pub use policies::Policies;
use services::{ServiceCall, Sides, Told};
use std::collections::VecDeque;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, PoisonError};
pub use told::described;
use told::{failure, listed};

/// Orders that can wait; whoever asks for more waits too.
const WAITING_MAX: usize = 4;
/// Fuel of an operator's call: about a tenth of a second.
const CALL_FUEL: u64 = 100_000_000;

/// What the thread is asked.
enum Order {
    Service(Vec<u8>, Sender<Result<WasmService, String>>),
    Prepare(Vec<Vec<u8>>, Sender<Result<Loading, String>>),
    Renew(Configured, Sender<Result<Loading, String>>),
    Put(Loading, Sender<()>),
    Leaving(String, bool, Sender<Result<Leaving, String>>),
    Take(Vec<String>, Sender<()>),
    Protocols(Sender<Vec<Taught>>),
    Classes(Sender<BroughtClasses>),
    Policies(Sender<Policies>),
    List(Sender<Vec<Extension>>),
    Call(String, Vec<String>, Sender<Result<Called, String>>),
}

/// Definitions of protocols, and whose they are.
pub type Taught = (String, String);

/// What a configuration says of extensions beside the one that runs.
#[derive(Default)]
pub struct Configured {
    /// All of its own: their names, their modules, and whether the one that runs says just so.
    pub all: Vec<(String, Vec<u8>, bool)>,
    /// Those of the one that runs that are no more, or are others.
    pub gone: Vec<String>,
}

/// A call that PLAN programs see.
pub struct Service {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: CallType,
    /// What does it: an instance of its own, with all that it needs.
    pub what: Box<dyn LoadedService>,
}

/// PLAN programs see these calls from now on, or none of them.
pub fn offer(node: &mut Node, services: Vec<Service>) -> Result<(), String> {
    if let Some(twice) = services.iter().find(|service| node.has_service(&service.name)) {
        return Err(format!("a service {} is loaded already: anode plan unload-service", twice.name));
    }
    let mut done = Vec::new();
    for Service { name, kind, what } in services {
        if let Err(why) = node.load_service(&name, kind, what) {
            withdraw(node, &done);
            return Err(format!("the service {name}: {why}"));
        }
        done.push(name);
    }
    Ok(())
}

/// They see these no more.
pub fn withdraw(node: &mut Node, services: &[String]) {
    for name in services {
        node.unload_service(name);
    }
}

/// Extensions that can be loaded.
pub struct Loading {
    all: Vec<(Arc<CompiledExtension>, Vec<Arc<BroughtClass>>)>,
    instances: Instances,
    /// What PLAN programs see of them.
    pub services: Vec<Service>,
    /// What has these services, and of which extension it is.
    sides: Vec<(String, Arc<Sides>)>,
    /// What all loaded extensions teach then.
    pub taught: Vec<Taught>,
    /// The classes of engines that there are then.
    pub classes: BroughtClasses,
    /// The orders and admissions of ports that there are then.
    pub policies: Policies,
    /// Those that are loaded no more then, and what PLAN programs saw of them.
    pub gone: (Vec<String>, Vec<String>),
}

impl Loading {
    /// Whether any are loaded no more then.
    pub fn ends_some(&self) -> bool {
        !self.gone.0.is_empty()
    }

    /// Their names, in the order in which they come.
    pub fn names(&self) -> Vec<String> {
        self.all.iter().map(|(extension, _)| extension.manifest.name.clone()).collect()
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
    /// Its classes of engines.
    classes: Vec<Arc<BroughtClass>>,
    /// The one that operators call.
    instance: SharedInstance,
    calls: u64,
    failed: u64,
    fuel: u64,
}

/// A way to the thread, which ends with the last of them.
#[derive(Clone)]
pub struct Extensions {
    orders: SyncSender<Order>,
    desk: Arc<Desk>,
}

impl Extensions {
    /// Starts the thread; `may_be_native`: whether extensions may be shared objects.
    pub fn start(clock: Clock, may_be_native: bool) -> io::Result<Extensions> {
        let (orders, inbox) = sync_channel(WAITING_MAX);
        let desk = Arc::<Desk>::default();
        let kept = desk.clone();
        let loads = if may_be_native { Some(loader()?) } else { None };
        let state = State::new(clock, kept, loads).map_err(io::Error::other)?;
        threads::start("anode-extensions", Duty::Compile, move || state.serve(&inbox))?;
        Ok(Extensions { orders, desk })
    }

    /// From now on calls of operators can have code fetched.
    pub fn fetch_by(&self, fetches: Arc<dyn FetchesCode>) {
        self.desk.fetch_by(fetches);
    }

    /// From now on they can ask for links and ways, and set routes.
    pub fn network_by(&self, knows: Arc<dyn KnowsNetwork>) {
        self.desk.ask(knows);
    }

    fn order<R>(&self, order: impl FnOnce(Sender<R>) -> Order) -> Result<R, String> {
        let gone = || "the thread of extensions has ended".to_owned();
        let (reply, answer) = channel();
        self.orders.send(order(reply)).map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())
    }

    /// Compiles a module as a service of PLAN, or says why it is none.
    pub fn service(&self, module: Vec<u8>) -> Result<WasmService, String> {
        self.order(|reply| Order::Service(module, reply))?
    }

    /// Makes modules ready to be loaded, all or none.
    pub fn prepare(&self, modules: Vec<Vec<u8>>) -> Result<Loading, String> {
        self.order(|reply| Order::Prepare(modules, reply))?
    }

    /// Makes those of another configuration ready, which take the place of those of the one that runs.
    pub fn renew(&self, configured: Configured) -> Result<Loading, String> {
        self.order(|reply| Order::Renew(configured, reply))?
    }

    /// They are loaded from now on.
    pub fn put(&self, loading: Loading) -> Result<(), String> {
        self.order(|reply| Order::Put(loading, reply))
    }

    /// What goes when this one goes; with `cascade` those, too, that need it.
    pub fn leaving(&self, name: String, cascade: bool) -> Result<Leaving, String> {
        self.order(|reply| Order::Leaving(name, cascade, reply))?
    }

    /// They are loaded no more.
    pub fn take(&self, names: Vec<String>) -> Result<(), String> {
        self.order(|reply| Order::Take(names, reply))
    }

    /// What all of them teach.
    pub fn protocols(&self) -> Result<Vec<Taught>, String> {
        self.order(Order::Protocols)
    }

    /// The classes of engines that all of them bring.
    pub fn classes(&self) -> BroughtClasses {
        // Nobody brings any when the thread has ended.
        self.order(Order::Classes).unwrap_or_default()
    }

    /// The orders and admissions of ports that all of them bring.
    pub fn policies(&self) -> Policies {
        // As with classes.
        self.order(Order::Policies).unwrap_or_default()
    }

    /// All, in the order in which they came.
    pub fn list(&self) -> Result<Vec<Extension>, String> {
        self.order(Order::List)
    }

    /// Calls EXTENSION.CALL for somebody.
    pub fn call(&self, call: String, arguments: Vec<String>) -> Result<Called, String> {
        self.order(|reply| Order::Call(call, arguments, reply))?
    }

    /// The address of a host that the name service EXTENSION.CALL knows.
    pub fn host(&self, call: &str, name: &str) -> Result<IpAddr, String> {
        let called = self.call(call.to_owned(), vec![name.to_owned()])?;
        called.value.parse().map_err(|_| format!("{call}: '{}' is no address", called.value))
    }
}

/// What the thread has.
struct State {
    clock: Clock,
    chance: RandomState,
    registry: Registry<Loaded>,
    instances: Instances,
    /// What has services of PLAN, and of which extension it is.
    sides: Vec<(String, Arc<Sides>)>,
    /// Who loads shared objects, if extensions may be some.
    loads: Option<LoadsObjects>,
}

/// A thread that loads shared objects for whoever asks: it has the calls that this takes (`operators`).
fn loader() -> io::Result<LoadsObjects> {
    let (orders, inbox) = sync_channel::<(Arc<[u8]>, Sender<io::Result<SharedObject>>)>(WAITING_MAX);
    threads::start("anode-native", Duty::Compile, move || {
        for (bytes, reply) in inbox {
            // Whoever asked may have gone away meanwhile.
            let _ = reply.send(SharedObject::open(&bytes));
        }
    })?;
    Ok(Arc::new(move |bytes| {
        let gone = || io::Error::other("the thread that loads shared objects has ended");
        let (reply, answer) = channel();
        orders.send((bytes.clone(), reply)).map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())?
    }))
}

impl State {
    fn new(clock: Clock, desk: Arc<Desk>, loads: Option<LoadsObjects>) -> Result<State, String> {
        let mut instances = Instances { desk: Some(desk), ..Instances::default() };
        let registry = Registry::of_every_node(|manifest| {
            let compiled = Arc::new(CompiledExtension::built_in(manifest)?);
            let instance = compiled.instance(&mut instances)?;
            Ok(Loaded { compiled, classes: Vec::new(), instance, calls: 0, failed: 0, fuel: 0 })
        })?;
        Ok(State { clock, chance: RandomState::new(), registry, instances, sides: Vec::new(), loads })
    }

    fn serve(mut self, inbox: &Receiver<Order>) {
        // Whoever asked may have gone away meanwhile.
        for order in inbox {
            match order {
                Order::Service(module, reply) => drop(reply.send(WasmService::load(&module))),
                Order::Prepare(modules, reply) => drop(reply.send(self.prepare(&modules, Vec::new()))),
                Order::Renew(configured, reply) => drop(reply.send(self.renew(configured))),
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
                Order::Classes(reply) => drop(reply.send(self.classes(&[], &[]))),
                Order::Policies(reply) => drop(reply.send(self.policies(&[], &[]))),
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

    /// What a configuration says is ready. Who needs what goes comes anew with it, and so has the memory that a module begins with.
    fn renew(&self, configured: Configured) -> Result<Loading, String> {
        let Configured { all, gone: left } = configured;
        let mut gone: Vec<String> = Vec::new();
        for name in left.iter().filter(|name| self.registry.get(name).is_some()) {
            gone.extend(
                self.registry.leaving(name)?.into_iter().filter(|leaving| !gone.contains(leaving)).collect::<Vec<_>>(),
            );
        }
        let is_known = |name: &String| left.contains(name) || all.iter().any(|(known, ..)| known == name);
        if let Some(loaded) = gone.iter().find(|name| !is_known(name)) {
            return Err(format!(
                "{loaded}, which an operator has loaded, needs {}: anode extension unload NODE {loaded}",
                left.join(" or ")
            ));
        }
        let comes = |(name, _, same): &(String, Vec<u8>, bool)| !same || gone.contains(name);
        let modules: Vec<_> = all.iter().filter(|of| comes(of)).map(|(_, module, _)| module.clone()).collect();
        self.prepare(&modules, gone)
    }

    fn prepare(&self, modules: &[Vec<u8>], gone: Vec<String>) -> Result<Loading, String> {
        let offered = modules.iter().map(|module| Offered::read(module)).collect::<Result<Vec<_>, _>>()?;
        let manifests: Vec<_> = offered.iter().map(|offered| offered.manifest.clone()).collect();
        let order = self.registry.without(&gone).order(&manifests)?;
        let mut offered: Vec<_> = offered.into_iter().map(Some).collect();
        let stays = |name: &String| !gone.contains(name);
        let mut loading = Loading {
            all: Vec::new(),
            instances: self.instances.without(&gone),
            services: Vec::new(),
            sides: Vec::new(),
            taught: self.taught(&gone),
            classes: BroughtClasses::default(),
            policies: Policies::default(),
            gone: (gone.clone(), self.services_of(&gone)),
        };
        for offered in order.into_iter().filter_map(|at| offered[at].take()) {
            let known = |name: &str| {
                let new = loading.all.iter().map(|(new, _)| new).find(|extension| extension.manifest.name == name);
                let old = || self.registry.get(name).filter(|(manifest, _)| stays(&manifest.name));
                new.or_else(|| Some(&old()?.1.compiled)).cloned()
            };
            let compiled = offered.compile(known, self.loads.as_ref())?;
            compiled.instance(&mut loading.instances)?;
            let classes = engines::classes(&compiled);
            loading.all.push((compiled, classes));
        }
        loading.classes = self.classes(&gone, &loading.all);
        loading.policies = self.policies(&gone, &loading.all);
        for (extension, _) in &loading.all {
            let (services, sides) = self.services(extension, &loading.services, &gone)?;
            loading.services.extend(services);
            loading.sides.extend(sides.into_iter().map(|sides| (extension.manifest.name.clone(), sides)));
            let manifest = &extension.manifest;
            if !manifest.protocols.is_empty() {
                loading.taught.push((manifest.name.clone(), manifest.protocols.clone()));
            }
        }
        Ok(loading)
    }

    /// What ports may have of those that stay, and of others that come.
    fn policies(&self, gone: &[String], new: &[(Arc<CompiledExtension>, Vec<Arc<BroughtClass>>)]) -> Policies {
        let stay = self.registry.iter().filter(|(manifest, _)| !gone.contains(&manifest.name));
        Policies::new(stay.map(|(_, loaded)| &loaded.compiled).chain(new.iter().map(|(new, _)| new)).cloned())
    }

    /// The classes of those that stay, and of others that come.
    fn classes(&self, gone: &[String], new: &[(Arc<CompiledExtension>, Vec<Arc<BroughtClass>>)]) -> BroughtClasses {
        let stay = self.registry.iter().filter(|(manifest, _)| !gone.contains(&manifest.name));
        let all = stay.flat_map(|(_, loaded)| &loaded.classes).chain(new.iter().flat_map(|(_, classes)| classes));
        BroughtClasses::new(all.cloned().collect())
    }

    /// What PLAN programs see of these.
    fn services_of(&self, names: &[String]) -> Vec<String> {
        let these = self.registry.iter().filter(|(manifest, _)| names.contains(&manifest.name));
        let services = these.flat_map(|(manifest, _)| &manifest.calls).filter(|call| call.service);
        services.map(|call| call.name.clone()).collect()
    }

    /// What PLAN programs see of an extension; `others` are those of extensions that come with it, and those in `gone` go.
    fn services(
        &self,
        extension: &CompiledExtension,
        others: &[Service],
        gone: &[String],
    ) -> Result<(Vec<Service>, Vec<Arc<Sides>>), String> {
        let calls = &extension.manifest.calls;
        let (mut services, mut all_sides) = (Vec::new(), Vec::new());
        for (at, call) in calls.iter().enumerate().filter(|(_, call)| call.service) {
            let stay = self.registry.iter().filter(|(manifest, _)| !gone.contains(&manifest.name));
            let mut all = stay.flat_map(|(manifest, _)| manifest.calls.iter().filter(|it| it.service));
            if all.any(|it| it.name == call.name) || others.iter().any(|other| other.name == call.name) {
                return Err(format!("{}: another extension has a service {}", extension.manifest.name, call.name));
            }
            let sides = Arc::new(Sides::new(extension)?);
            let what = Box::new(ServiceCall { sides: sides.clone(), at });
            all_sides.push(sides);
            services.push(Service { name: call.name.clone(), kind: call.kind.clone(), what });
        }
        Ok((services, all_sides))
    }

    fn put(&mut self, loading: Loading) {
        self.take(&loading.gone.0);
        self.instances = loading.instances;
        self.sides.extend(loading.sides);
        for (compiled, classes) in loading.all {
            let Some(instance) = self.instances.all.get(&compiled.manifest.name).cloned() else { continue };
            let manifest = compiled.manifest.clone();
            self.registry.put(manifest, Loaded { compiled, classes, instance, calls: 0, failed: 0, fuel: 0 });
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
        Ok(Leaving { services: self.services_of(&names), taught: self.taught(&names), names })
    }

    fn take(&mut self, names: &[String]) {
        self.sides.retain(|(extension, _)| !names.contains(extension));
        for name in names {
            self.registry.take(name);
            self.instances.all.remove(name);
        }
        if let Some(desk) = &self.instances.desk {
            desk.withdraw(names);
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
        let arguments = if manifest.calls[at].everywhere { Some(exchange.clone()) } else { None };
        let mut instance = loaded.instance.lock().unwrap_or_else(PoisonError::into_inner);
        let desk = self.instances.desk.clone().unwrap_or_default();
        desk.exchange(Some(VecDeque::new()));
        let (result, fuel) = instance.call(at, at_time, CALL_FUEL, &mut exchange);
        drop(instance);
        let answers = desk.exchange(None);
        if let Some(given) = &arguments {
            let told = Told { extension, at, at_time, given, fuel: CALL_FUEL, answers: &answers };
            self.sides.iter().for_each(|(_, sides)| sides.tell(&told));
        }
        (loaded.calls, loaded.fuel) = (loaded.calls + 1, loaded.fuel.saturating_add(fuel));
        let value = result
            .map_err(|why| failure(why, CALL_FUEL))
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

#[cfg(test)]
mod tests;
