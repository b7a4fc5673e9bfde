//! `up` and `down`: observe, plan, run the plan, until the lab equals its topology.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use super::ending::{end_processes, forget_node};
use super::error::Error;
use super::observe::Observed;
use super::state::{self, Owner, Record};
use super::{links, plan, tools};
use crate::labfile::topology::{self, Node, Topology};
use crate::sys::netns::{self, Namespace};
use crate::sys::process;

/// How long interfaces may take to come up; they need milliseconds.
const SETTLE_MAX: Duration = Duration::from_secs(10);

/// Makes the lab as the topology says; gives the number of changes that this took.
pub(super) fn up(topology: &Topology, program: &Path) -> Result<usize, Error> {
    if !process::is_root() {
        return Err(Error::NotRoot);
    }
    let _lock = state::lock()?;
    let lab = topology.name.as_str();
    let asked = topology;
    let topology = &links::wired(topology);
    let old = state::read(lab);
    let wanted: BTreeSet<String> = topology.nodes.iter().map(|node| topology.namespace(&node.name)).collect();
    let (superfluous, missing) = survey(lab, &wanted, old.as_ref())?;
    let announced = old.map(|record| record.namespaces).unwrap_or_default();
    let mut record = Record {
        lab: lab.to_owned(),
        path: std::path::absolute(&topology.path).unwrap_or_else(|_| topology.path.clone()),
        topology: topology.text.clone(),
        namespaces: wanted.union(&announced).cloned().collect(),
        complete: false,
    };
    state::write(&record)?;
    forget(lab, &superfluous)?;
    let removals = superfluous.iter().map(|name| format!("netns del {name}"));
    let lines: Vec<String> = removals.chain(missing.iter().map(|name| format!("netns add {name}"))).collect();
    let mut changes = run(None, &lines)?;
    let site = Site::open(topology)?;
    changes += site.connect()?;
    changes += site.configure()?;
    if let Some((_, place)) = site.places.iter().find(|(node, _)| node.name == links::PLACE) {
        changes += links::carry(asked, place, program)?;
    }
    site.settle()?;
    record.namespaces = wanted;
    record.complete = true;
    state::write(&record)?;
    Ok(changes)
}

/// The namespaces of the lab that must go and those that must come.
fn survey(lab: &str, wanted: &BTreeSet<String>, record: Option<&Record>) -> Result<(Vec<String>, Vec<String>), Error> {
    let (mut superfluous, mut missing) = (Vec::new(), Vec::new());
    for name in wanted.union(&candidates(lab)?) {
        match (state::owner(lab, name, record)?, wanted.contains(name)) {
            (Owner::Nobody, true) => missing.push(name.clone()),
            (Owner::Stub, true) => {
                superfluous.push(name.clone());
                missing.push(name.clone());
            }
            (Owner::Lab(..) | Owner::Stub, false) => superfluous.push(name.clone()),
            (Owner::Other, true) => return Err(Error::Foreign { namespace: name.clone() }),
            (Owner::Lab(..), true) | (Owner::Nobody | Owner::Other, false) => {}
        }
    }
    Ok((superfluous, missing))
}

/// All namespaces that are named as the lab's are.
pub(super) fn candidates(lab: &str) -> Result<BTreeSet<String>, Error> {
    let prefix = topology::namespace(lab, "");
    let names = netns::names().map_err(|source| Error::System { what: "listing namespaces".into(), source })?;
    Ok(names.into_iter().filter(|name| name.starts_with(&prefix)).collect())
}

fn run(namespace: Option<&Namespace>, lines: &[String]) -> Result<usize, Error> {
    if !lines.is_empty() {
        tools::ip(namespace, lines)?;
    }
    Ok(lines.len())
}

/// A topology whose namespaces exist.
struct Site<'a> {
    topology: &'a Topology,
    places: Vec<(&'a Node, Namespace)>,
}

impl<'a> Site<'a> {
    fn open(topology: &'a Topology) -> Result<Site<'a>, Error> {
        let mut places = Vec::new();
        for node in &topology.nodes {
            let name = topology.namespace(&node.name);
            let opened = Namespace::open(&name).and_then(|open| open.ok_or(io::ErrorKind::NotFound.into()));
            places.push((
                node,
                opened.map_err(|source| Error::System { what: format!("opening namespace {name}"), source })?,
            ));
        }
        Ok(Site { topology, places })
    }

    fn observe(&self) -> Result<BTreeMap<&'a str, Observed>, Error> {
        self.places.iter().map(|(node, place)| Ok((node.name.as_str(), tools::observe(place)?))).collect()
    }

    /// Marks the namespaces and joins them by links.
    fn connect(&self) -> Result<usize, Error> {
        let mut observed = self.observe()?;
        let mut changes = 0;
        for (node, place) in &self.places {
            changes += run(Some(place), &plan::prepare(self.topology, node, &observed))?;
            self.tune(node, place, false)?;
        }
        let mut stale = 0;
        for (node, place) in &self.places {
            // With one end the other goes too, so that a line may come too late.
            let lines = plan::stale(self.topology, node, &observed);
            stale += lines.len();
            if !lines.is_empty() {
                tools::ip_if_possible(place, &lines)?;
            }
        }
        if stale > 0 {
            observed = self.observe()?;
        }
        Ok(changes + stale + run(None, &plan::links(self.topology, &observed))?)
    }

    /// Everything within the namespaces.
    fn configure(&self) -> Result<usize, Error> {
        let observed = self.observe()?;
        let mut changes = 0;
        for (node, place) in &self.places {
            let Some(here) = observed.get(node.name.as_str()) else { continue };
            for interface in &node.interfaces {
                tools::offloads(place, &interface.name)?;
            }
            changes += run(Some(place), &plan::configure(self.topology, node, here))?;
            if node.name == links::PLACE {
                tools::ip(Some(place), &plan::apart(node))?;
            }
            changes += self.tune(node, place, true)?;
        }
        Ok(changes)
    }

    /// Sets the kernel parameters that differ. Before the links exist, their parameters cannot be set.
    fn tune(&self, node: &Node, place: &Namespace, linked: bool) -> Result<usize, Error> {
        let failed = |what: String| move |source| Error::System { what, source };
        let set = || {
            let mut changes = 0;
            for (key, value) in plan::sysctls(node) {
                let path = format!("/proc/sys/{key}");
                let current = match std::fs::read_to_string(&path) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound && !linked => continue,
                    other => other.map_err(failed(format!("sysctl {key} of node '{}'", node.name)))?,
                };
                if current.split_whitespace().ne(value.split_whitespace()) {
                    std::fs::write(&path, &value)
                        .map_err(failed(format!("sysctl {key} = {value} of node '{}'", node.name)))?;
                    changes += 1;
                }
            }
            Ok(changes)
        };
        place.enter(set).map_err(failed(format!("entering the namespace of '{}'", node.name)))?
    }

    /// Waits until every interface runs and every address serves: before that, packets are lost.
    fn settle(&self) -> Result<(), Error> {
        let end = Instant::now() + SETTLE_MAX;
        for (node, place) in &self.places {
            loop {
                let here = tools::observe(place)?;
                let running = |name: &String| here.links.get(name).is_some_and(|link| link.running);
                if !here.tentative && node.interfaces.iter().all(|interface| running(&interface.name)) {
                    break;
                }
                if Instant::now() > end {
                    let what = format!("waiting for the interfaces of '{}'", node.name);
                    return Err(Error::System { what, source: io::ErrorKind::TimedOut.into() });
                }
            }
        }
        Ok(())
    }
}

/// What `down` did.
#[derive(Debug, Default, serde::Serialize)]
pub struct Down {
    /// Namespaces that were removed.
    pub removed: Vec<String>,
    /// Namespaces named like the lab's that somebody else made: left alone.
    pub left: Vec<String>,
    /// Processes that were ended.
    pub ended: Vec<i32>,
}

impl Down {
    /// How many nodes were removed.
    pub fn nodes(&self) -> usize {
        let place = |name: &&String| name.strip_suffix(links::PLACE).is_none_or(|lab| !lab.ends_with('-'));
        self.removed.iter().filter(place).count()
    }
}

/// Removes the lab: processes, namespaces, run directories of its nodes, record.
pub(super) fn down(lab: &str) -> Result<Down, Error> {
    if !process::is_root() {
        return Err(Error::NotRoot);
    }
    let _lock = state::lock()?;
    let record = state::read(lab);
    let mut down = Down::default();
    let mut places = Vec::new();
    for name in candidates(lab)? {
        match state::owner(lab, &name, record.as_ref())? {
            Owner::Nobody => {}
            Owner::Other => down.left.push(name),
            Owner::Stub => down.removed.push(name),
            Owner::Lab(place) => {
                places.push(place);
                down.removed.push(name);
            }
        }
    }
    down.ended = end_processes(&places)?;
    let lines: Vec<String> = down.removed.iter().map(|name| format!("netns del {name}")).collect();
    run(None, &lines)?;
    // Also those whose namespaces somebody has removed before.
    let mut gone: BTreeSet<String> = record.into_iter().flat_map(|record| record.namespaces).collect();
    gone.extend(down.removed.iter().cloned());
    gone.retain(|name| !down.left.contains(name));
    forget_files(lab, gone.iter())?;
    state::remove(lab)?;
    Ok(down)
}

/// Ends what runs in namespaces that go, the process of shaped links among them, with what it has left in files.
fn forget(lab: &str, superfluous: &[String]) -> Result<(), Error> {
    let open = |name: &String| Namespace::open(name).ok().flatten();
    let places: Vec<Namespace> = superfluous.iter().filter_map(open).collect();
    end_processes(&places)?;
    forget_files(lab, superfluous.iter())
}

/// Removes what has been left in files by who was in these namespaces.
fn forget_files<'a>(lab: &str, places: impl Iterator<Item = &'a String>) -> Result<(), Error> {
    let prefix = topology::namespace(lab, "");
    for node in places.filter_map(|name| name.strip_prefix(&prefix)) {
        if node == links::PLACE { links::forget(lab) } else { forget_node(&format!("{lab}.{node}")) }?;
    }
    Ok(())
}
