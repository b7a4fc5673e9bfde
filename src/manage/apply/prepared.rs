//! A configuration that is ready to be taken over: all that can fail has been done, and nothing has changed yet.

use super::ports::Ports;
use super::{Handle, Keys, Parts, Peers};
use crate::config::cpu::CpuFile;
use crate::config::difference::{Change, Part};
use crate::config::environments::Environment;
use crate::config::{ConfigError, NodeFile, PortFile};
use crate::frame::PortId;
use crate::graph::class::{BroughtClass, BroughtClasses};
use crate::manage::crew;
use crate::manage::extensions::{Configured, Extensions, Loading, Policies, Taught, offer, withdraw};
use crate::manage::graphs::{self, RefusedGraph};
use crate::manage::worker::Order;
use crate::manage::worker::input::Input;
use crate::node::Classifying;
use crate::node::graphs::PreparedGraph;
use crate::node::policy::Amendment;
use crate::schedule::discipline::OrderKind;
use crate::topology::Ceiling;
use crate::trust::Roles;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, PoisonError};

/// What is going to be carried out.
pub(super) struct Prepared {
    /// What workers take over.
    pub amendment: Amendment,
    /// Of a CPU, for the workers.
    cpu: Option<CpuFile>,
    /// From which port each worker takes frames next, where that changes.
    input: Option<Vec<Option<Box<Input>>>>,
    /// What the kernel half may use.
    permille: Option<u32>,
    /// The environments, and the names of those whose table has changed.
    pub environments: Option<(Vec<Environment>, BTreeSet<String>)>,
    /// The graphs, and the names of those that are no more.
    pub graphs: Option<(Vec<PreparedGraph>, Vec<String>)>,
    /// The extensions that come and go, and those who keep them.
    extensions: Option<(Extensions, Loading)>,
    /// Which neighbour has which number then.
    peers: Option<Peers>,
    /// Ports that come or go, or are others.
    ports: Ports,
    /// The configuration, for whoever follows routes and ports, and whether there is something new of them.
    followed: (NodeFile, (bool, bool)),
}

impl Prepared {
    /// What these changes lead to; `keyed`: with demands and keys.
    pub fn of(
        parts: &Parts,
        file: &NodeFile,
        changes: &[Change],
        keys: &Keys,
        keyed: bool,
    ) -> Result<Prepared, String> {
        let said = |error: ConfigError| error.to_string();
        // A port that comes has its own of everything that is said of ports.
        let of_ports = [Part::Ports, Part::Guard, Part::Neighbours, Part::Hello, Part::Input];
        let is = |change: &Change, part| {
            change.part == Some(part) || change.part == Some(Part::Sockets) && of_ports.contains(&part)
        };
        let has = |part: Part| changes.iter().any(|change| is(change, part));
        let in_force = parts.roles.now();
        let roles = in_force.renewed(&Roles::new(file.roles.clone())?);
        let mut amendment = Amendment { rates: has(Part::Rates).then_some(file.sizes), ..Amendment::default() };
        amendment.entry = has(Part::Entry).then(|| file.entry.limits()).transpose()?;
        let permille = amendment.entry.as_ref().map(|limits| limits.permille);
        let extensions = has(Part::Extensions).then(|| renewed(parts, file)).transpose()?;
        let loading = extensions.as_ref().map(|(_, loading)| loading);
        let regraphed = has(Part::Graphs) || loading.is_some_and(Loading::ends_some);
        let classified = has(Part::Classify) || loading.is_some();
        amendment.classifying = classified.then(|| classifying_of(parts, file, loading)).transpose()?;
        let (is, was) = (&file.cpu, &parts.file.cpu);
        amendment.scheduler = (is.scheduler != was.scheduler).then(|| is.scheduler.unwrap_or_default());
        let weights = (is.capsules_weight, is.plan_weight);
        amendment.weights = (weights != (was.capsules_weight, was.plan_weight)).then_some(weights);
        if has(Part::Ports) || has(Part::Guard) {
            amendment.ports = limits_of(file).map_err(said)?;
        }
        let peers = has(Part::Neighbours).then(|| parts.peers.renewed(file));
        amendment.neighbours = peers.as_ref().map(|peers| peers.neighbours(file));
        let mut ports = Ports::of(parts, file, peers.as_ref().unwrap_or(&parts.peers), loading)?;
        amendment.placed = core::mem::take(&mut ports.placed);
        if (has(Part::Guard) || has(Part::Neighbours)) && keyed {
            let secret = |path: &Path| {
                keys.get(path).cloned().ok_or_else(|| format!("{}: its key was not given", path.display()))
            };
            let guard = file.guard_with(&ports.all, parts.clock.now(), secret).map_err(said)?;
            amendment.guard = Some(guard);
        }
        if has(Part::Hello) {
            let saying = file.hellos().map_err(said)?;
            let interval = |at: usize| saying.iter().find(|(port, _)| *port == at).map(|(_, interval)| *interval);
            amendment.hellos = (0..file.ports.len()).map(|at| (PortId(at as u16), interval(at))).collect();
        }
        let environments =
            (has(Part::Environments) || has(Part::Roles)).then(|| environments_of(parts, file, &roles, changes));
        let (routes, limits) = (has(Part::Routes) || has(Part::Neighbours), has(Part::Ports) || has(Part::Guard));
        if routes {
            let following = parts.following.lock().unwrap_or_else(PoisonError::into_inner);
            let neighbours = peers.as_ref().unwrap_or(&parts.peers).neighbours(file);
            following.check(file, neighbours, ports.all.clone()).map_err(|error| format!("{error:#}"))?;
        }
        amendment.roles = has(Part::Roles).then(|| Arc::new(roles));
        let input = inputs_of(parts, file, loading, has(Part::Input))?;
        Ok(Prepared {
            amendment,
            cpu: has(Part::Cpu).then(|| file.cpu.clone()),
            input,
            permille,
            environments: environments.transpose()?,
            graphs: regraphed.then(|| graphs_of(parts, file, loading)).transpose()?,
            extensions,
            peers,
            ports,
            followed: (file.clone(), (routes, limits)),
        })
    }

    /// The classes of engines that extensions bring then.
    pub fn classes(&self, parts: &Parts) -> BroughtClasses {
        classes_then(parts, self.extensions.as_ref().map(|(_, loading)| loading))
    }

    /// Carries it out; or says which graph cannot run, and then environments are as before, and all else is to be taken back. An error:
    /// the node is going down.
    pub fn carry_out(self, parts: &mut Parts) -> Result<Option<RefusedGraph>, String> {
        let Prepared { amendment, cpu, input, permille, environments, graphs, extensions, peers, ports, followed } =
            self;
        let (file, news) = followed;
        // Those who judge first: what a worker asks them from now on is answered by the new policy.
        if let Some(roles) = &amendment.roles {
            parts.roles.replace(roles.clone());
        }
        if let Some(guard) = &amendment.guard {
            parts.guard = guard.clone();
        }
        if let (Some(permille), Some(half)) = (permille, parts.handle.kernel_half())
            && let Err(error) = half.set_share(permille)
        {
            tracing::error!(%error, "the kernel half goes on with its old share");
        }
        // Nobody looks for interfaces while ports change.
        let following = parts.following.clone();
        let mut following = following.lock().unwrap_or_else(PoisonError::into_inner);
        following.leave(&ports.moves).map_err(|error| format!("{error:#}"))?;
        let still = parts.handle.homes().still();
        let teaches = amendment.classifying.is_some();
        parts.handle.with_each(move |node, turn| node.amend(turn, amendment.clone()))?;
        drop(still);
        if teaches {
            forgotten(&parts.handle);
        }
        if let Some((keeper, loading)) = extensions {
            put(&parts.handle, &keeper, loading)?;
        }
        // Of a port that comes the order knows before it is there.
        if let Some(input) = input {
            parts.handle.order_all(input.into_iter().map(Order::Input))?;
        }
        let moves = ports.place(&parts.handle, &file)?;
        if let Some(cpu) = cpu {
            parts.handle.order_each(|worker, workers| Order::Share(cpu.of_worker(worker, workers)))?;
        }
        if let Some(peers) = peers {
            for (port, places) in peers.places(&file) {
                parts.handle.order_each(|_, _| Order::Peers { port, peers: places.clone() })?;
            }
            parts.peers = peers;
        }
        let neighbours = parts.peers.neighbours(&file);
        if let Err(error) = following.renew(file, neighbours, news, &moves) {
            tracing::error!(%error, "routes and ports are what they were before this configuration");
        }
        drop(following);
        if let Some((all, gone)) = graphs
            && let Some(refused) = graphs::renew(&parts.handle, all, gone)?
        {
            return Ok(Some(refused));
        }
        if let Some((all, changed)) = environments {
            parts.management.renew(all, changed);
        }
        Ok(None)
    }
}

/// From which port each worker takes frames next, if that changes or its extension is another one.
fn inputs_of(
    parts: &Parts,
    file: &NodeFile,
    loading: Option<&Loading>,
    changes: bool,
) -> Result<Option<Vec<Option<Box<Input>>>>, String> {
    let brought = file.input.order.as_ref().and_then(OrderKind::brought);
    let gone = loading.map_or(&[][..], |loading| &loading.gone.0);
    if !changes && !brought.is_some_and(|name| gone.contains(&name.extension)) {
        return Ok(None);
    }
    let policies = policies_then(parts, loading)?;
    let of_one = |_| crew::input(file, &policies).map_err(|error| format!("{error:#}"));
    (0..parts.handle.workers()).map(of_one).collect::<Result<_, _>>().map(Some)
}

/// The orders and admissions that extensions bring when these are loaded.
pub(super) fn policies_then(parts: &Parts, loading: Option<&Loading>) -> Result<Policies, String> {
    match loading {
        Some(loading) => Ok(loading.policies.clone()),
        None => Ok(parts.handle.extensions()?.policies()),
    }
}

/// The environments that run then, and the names of those whose table has changed.
fn environments_of(
    parts: &Parts,
    file: &NodeFile,
    roles: &Roles,
    changes: &[Change],
) -> Result<(Vec<Environment>, BTreeSet<String>), String> {
    let of = |change: &&Change| change.part == Some(Part::Environments);
    let names = changes.iter().filter(of).filter_map(|change| change.place.get(1).cloned()).collect();
    let checked = file.check_workers(parts.handle.workers()).and_then(|()| file.environments(roles));
    Ok((checked.map_err(|error| error.to_string())?, names))
}

/// The graphs that run then, and the names of those that do not any more.
fn graphs_of(
    parts: &Parts,
    file: &NodeFile,
    loading: Option<&Loading>,
) -> Result<(Vec<PreparedGraph>, Vec<String>), String> {
    let goes = |name: &String| !file.graphs.iter().any(|graph| graph.name == *name);
    let gone = parts.file.graphs.iter().map(|graph| graph.name.clone()).filter(goes).collect();
    Ok((file.prepared_graphs(&classes_then(parts, loading)).map_err(|error| error.to_string())?, gone))
}

/// The classes of engines that extensions bring when these are loaded.
fn classes_then(parts: &Parts, loading: Option<&Loading>) -> BroughtClasses {
    loading.map_or_else(|| parts.handle.engine_classes(), |loading| loading.classes.clone())
}

/// Those of another configuration, ready to take the place of those of the one that runs, and who keeps them.
fn renewed(parts: &Parts, file: &NodeFile) -> Result<(Extensions, Loading), String> {
    let modules = file.extension_modules().map_err(|error| error.to_string())?;
    let runs = &parts.file.extensions;
    let all = file.extensions.iter().zip(modules);
    let all = all.map(|(extension, module)| (extension.name.clone(), module, runs.contains(extension))).collect();
    let gone = runs.iter().filter(|extension| !file.extensions.contains(extension));
    let gone = gone.map(|extension| extension.name.clone()).collect();
    let extensions = parts.handle.extensions()?.clone();
    let loading = extensions.renew(Configured { all, gone }).map_err(|why| format!("[[extension]]: {why}"))?;
    // Graphs of either configuration end, or are made anew.
    let own: Vec<_> = parts.file.graphs.iter().chain(&file.graphs).map(|graph| graph.name.clone()).collect();
    let leaving = loading.gone.0.clone();
    let others = parts.handle.with_node(move |node, _| node.graphs_with(&leaving, &own))?;
    if !others.is_empty() {
        return Err(format!("[[extension]]: {}", in_graphs(&loading.gone.0, &others)));
    }
    let new: Vec<String> = loading.services.iter().map(|service| service.name.clone()).collect();
    let gone = loading.gone.1.clone();
    let fits = parts.handle.with_node(move |node, _| node.services_fit(&gone, &new))?;
    fits.map_err(|why| format!("[[extension]]: {why}"))?;
    Ok((extensions, loading))
}

/// They have taken it; what they teach is taught.
fn put(handle: &Handle, extensions: &Extensions, mut loading: Loading) -> Result<(), String> {
    let (services, gone) = (core::mem::take(&mut loading.services), loading.gone.1.clone());
    let leaving = classes_of(extensions, &loading.gone.0);
    handle.with_node(move |node, _| {
        leaving.iter().for_each(|class| class.leave());
        withdraw(node, &gone);
        if let Err(why) = offer(node, services) {
            tracing::error!(why, "PLAN programs do not see services of extensions");
        }
    })?;
    extensions.put(loading)?;
    let classes = extensions.classes();
    handle.with_node(move |node, _| node.set_brought(classes))?;
    handle.hosts().iter().for_each(|hosts| hosts.ask_again());
    Ok(())
}

/// The classes of engines of these extensions.
pub(super) fn classes_of(extensions: &Extensions, names: &[String]) -> Vec<Arc<BroughtClass>> {
    extensions.classes().iter().filter(|class| names.contains(&class.extension)).cloned().collect()
}

/// Extensions that cannot go, since graphs have engines or procedures of them.
pub(super) fn in_graphs(extensions: &[String], graphs: &[String]) -> String {
    format!(
        "graphs have engines of {}, or are marshalled by these; apply others in their place, or end them (anode graph apply, \
         anode domain kill): {}",
        extensions.join(", "),
        graphs.join(", ")
    )
}

/// Protocols that are taught then, by the configuration and by extensions. All rules of channels must still mean something.
fn classifying_of(parts: &Parts, file: &NodeFile, loading: Option<&Loading>) -> Result<Classifying, String> {
    let classifying = match loading {
        Some(loading) => classifying(parts, file, &loading.taught)?,
        None => classifying(parts, file, &parts.handle.extensions()?.protocols()?)?,
    };
    all_readable(parts, &classifying).map_err(|why| format!("[classify]: {why}"))?;
    Ok(classifying)
}

/// What the configuration says of classifying, with protocols of extensions, and what is known of hosts.
pub(super) fn classifying(parts: &Parts, file: &NodeFile, taught: &[Taught]) -> Result<Classifying, String> {
    let mut classifying = taught_by(file, taught)?;
    if let Some(hosts) = parts.handle.hosts() {
        classifying.words = Arc::new(classifying.words.with_found(&hosts.found()));
    }
    Ok(classifying)
}

/// The same before anything is known of hosts.
pub(in crate::manage) fn taught_by(file: &NodeFile, taught: &[Taught]) -> Result<Classifying, String> {
    let own = file.classify.classifying()?;
    taught.iter().try_fold(own, |all, (name, text)| all.and(&format!("extension {name}, protocols"), text))
}

/// Waits until the kernel has forgotten which flows no rule of before could be about.
pub(super) fn forgotten(handle: &Handle) {
    if let Err(why) = handle.settle() {
        tracing::warn!(%why, "for a moment some packets are not copied to the node that rules may be about");
    }
}

/// Refuses what would leave rules of channels without a meaning.
pub(super) fn all_readable(parts: &Parts, classifying: &Classifying) -> Result<(), String> {
    let classifying = classifying.clone();
    let unreadable = parts.handle.with_node(move |node, _| node.unreadable(&classifying))?;
    match unreadable.split_first() {
        None => Ok(()),
        Some((first, others)) => Err(format!(
            "rules of channels would mean nothing any more; end these channels first: {first}{}",
            if others.is_empty() { String::new() } else { format!("\n(and {} more)", others.len()) }
        )),
    }
}

/// Ceilings and capacities of ports.
fn limits_of(file: &NodeFile) -> Result<Vec<(PortId, Ceiling, u64)>, ConfigError> {
    let limits = |(port, at): (&PortFile, u16)| Ok((PortId(at), port.ceiling()?, port.bits_per_second));
    file.ports.iter().zip(0..).map(limits).collect()
}
