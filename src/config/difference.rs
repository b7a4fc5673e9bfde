//! The difference of two configurations: what an operator is shown, and what a running node can take over.
//!
//! ```text
//! what runs ──▶ tree, lists by name ─┐
//!                                    ├─▶ changes: each with its place, what was, what is ─▶ live, or needs a restart
//! a file ─────▶ tree, lists by name ─┘
//! ```
//!
//! Both are compared as values, with their defaults, so a key that is written out and one that is left out are alike.
//! What a change needs follows from its place, by one table (`PLACES`): what is not there needs a restart.

use super::environments::EnvironmentFile;
use super::{ConfigError, NodeFile, RouteFile, wrong};
use crate::trust::{ANYONE, Role};
use crate::wire::Prefix;
use model::wish;
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::Path;

/// Lists whose entries have a name: where they are, and the key that has it.
const NAMED: [(&[&str], &str); 9] = [
    (&["role"], "name"),
    (&["role", "*", "graphs", "edits"], "name"),
    (&["ee"], "name"),
    (&["graph"], "name"),
    (&["extension"], "name"),
    (&["port"], TITLE),
    (&["route"], "to"),
    (&["port", "*", "neighbours"], "address"),
    (&["plan", "principal"], "name"),
];

/// By what ports are told apart, which their tables do not have themselves.
const TITLE: &str = "title";

/// The part of a running node that carries a change out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Roles, and all that acts in one.
    Roles,
    /// Static routes.
    Routes,
    /// Shares of neighbours at the entrance.
    Entry,
    /// What ports may bring and neighbours ask for in a second.
    Rates,
    /// How the CPU is divided, and what the node gets of it.
    Cpu,
    /// What a port says of its link, and how far bounds reach that come in by it.
    Ports,
    /// What ports demand, and keys of neighbours.
    Guard,
    /// Hellos of ports.
    Hello,
    /// Active nodes behind ports.
    Neighbours,
    /// Ports themselves, and their sockets.
    Sockets,
    /// From which port frames are taken next.
    Input,
    /// Protocols that are taught.
    Classify,
    /// Environments.
    Environments,
    /// Graphs.
    Graphs,
    /// Extensions.
    Extensions,
}

/// What becomes of a change at a place, and the first that fits counts; `*` stands for any step.
const PLACES: [(&[&str], Part); 31] = [
    (&["role"], Part::Roles),
    (&["route"], Part::Routes),
    (&["entry"], Part::Entry),
    (&["classify"], Part::Classify),
    (&["sizes", "ingress_packets_per_second"], Part::Rates),
    (&["sizes", "fetch_bytes_per_second"], Part::Rates),
    (&["sizes", "look_ups_per_second"], Part::Rates),
    (&["cpu", "scheduler"], Part::Cpu),
    (&["cpu", "share"], Part::Cpu),
    (&["cpu", "capsules_weight"], Part::Cpu),
    (&["cpu", "plan_weight"], Part::Cpu),
    (&["input"], Part::Input),
    (&["port", "*", "input"], Part::Input),
    (&["port", "*", "bound_max"], Part::Ports),
    (&["port", "*", "signed_bound_max"], Part::Ports),
    (&["port", "*", "bits_per_second"], Part::Ports),
    (&["port", "*", "demand"], Part::Guard),
    (&["port", "*", "hello"], Part::Hello),
    (&["port", "*", "hello_interval_ms"], Part::Hello),
    (&["port", "*", "neighbours"], Part::Neighbours),
    (&["port", "*", "name"], Part::Sockets),
    (&["port", "*", "udp"], Part::Sockets),
    (&["port", "*", "packet"], Part::Sockets),
    (&["port", "*", "address"], Part::Sockets),
    (&["port", "*", "mtu"], Part::Sockets),
    (&["port", "*", "kernel"], Part::Sockets),
    (&["port", "*", "xdp"], Part::Sockets),
    (&["port", "*", "discipline"], Part::Sockets),
    (&["ee"], Part::Environments),
    (&["graph"], Part::Graphs),
    (&["extension"], Part::Extensions),
];

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Where: tables, names and keys from the outside in.
    pub place: Vec<String>,
    /// What was there; nothing: it is new.
    pub was: Option<Value>,
    /// What is there; nothing: it has gone.
    pub is: Option<Value>,
    /// Who carries it out; nothing: it needs a restart.
    pub part: Option<Part>,
    /// Why it needs one, where that is not what its table says.
    pub why: Option<&'static str>,
}

/// Why some changes of ports need a restart.
const NO_FILES: &str = "the node opens files of its own at its start, and can open no other ones later";
const NO_HALF: &str = "the kernel half comes with the first port that has it, and goes with the last one, at a start";

/// A line for people, as in `role anyone limits.packets_per_second: 5000000 → 1000`.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match (&self.was, &self.is) {
            (None, Some(_)) => "+ ",
            (Some(_), None) => "- ",
            _ => "",
        };
        write!(f, "{sign}{}", self.title())?;
        match (&self.was, &self.is) {
            (Some(was), Some(is)) => write!(f, ": {} → {}", Words(was), Words(is)),
            (None, Some(Value::Object(_))) | (_, None) => Ok(()),
            (None, Some(is)) => write!(f, ": {}", Words(is)),
        }
    }
}

impl Change {
    /// For programs.
    pub fn told(&self) -> wish::Change {
        wish::Change {
            is: self.is.clone().unwrap_or_default(),
            line: self.to_string(),
            needs_restart: self.part.is_none(),
            place: self.place.clone(),
            was: self.was.clone().unwrap_or_default(),
            why: self.why.map(str::to_owned),
        }
    }

    /// Its place for people: names behind their tables, then the key.
    fn title(&self) -> String {
        let mut text = String::new();
        for (at, step) in self.place.iter().enumerate() {
            let within = at > 0 && named_at(&self.place[..at]).is_none() && named_at(&self.place[..at - 1]).is_none();
            text += if at == 0 {
                ""
            } else if within {
                "."
            } else {
                " "
            };
            text += step;
        }
        text
    }
}

/// Bytes of a text that people are shown whole; of a longer one, as a module is, its beginning.
const SHOWN_MAX: usize = 1024;

/// A value for people.
struct Words<'a>(&'a Value);

impl fmt::Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Null => f.write_str("none"),
            Value::String(text) if text.len() > SHOWN_MAX => {
                let begin: String = text.chars().take(SHOWN_MAX / 16).collect();
                write!(f, "{begin}… ({} bytes)", text.len())
            }
            Value::String(text) => f.write_str(text),
            Value::Object(fields) => f.write_str(&fields.keys().cloned().collect::<Vec<_>>().join(", ")),
            other => write!(f, "{other}"),
        }
    }
}

/// All changes from one configuration to another.
pub fn between(before: &NodeFile, after: &NodeFile) -> Result<Vec<Change>, ConfigError> {
    let (was, is) = (by_names(&without_same(before, after))?, by_names(&without_same(after, before))?);
    let mut changes = Vec::new();
    compare(&mut Vec::new(), Some(&was), Some(&is), &mut changes);
    // Of several roles that trust a key the first one counts.
    let order = |file: &NodeFile, other: &NodeFile| {
        let known = |name: &str| other.roles.iter().any(|role| role.name == name);
        file.roles.iter().filter(|role| known(&role.name)).map(|role| role.name.clone()).collect::<Vec<_>>()
    };
    let (was, is) = (order(before, after), order(after, before));
    if was != is {
        let place = vec!["role".to_owned(), "order".to_owned()];
        let (was, is, part, why) = (Some(was.into()), Some(is.into()), Some(Part::Roles), None);
        changes.push(Change { place, was, is, part, why });
    }
    if before.lets_programs_in() != after.lets_programs_in() {
        // The lists of system calls are for good.
        let native = |change: &Change| change.place.first().is_some_and(|table| table == "role");
        let native = |change: &&mut Change| native(change) && mentions(change, "native");
        changes.iter_mut().filter(native).for_each(|change| change.part = None);
    }
    let out_of_reach = out_of_reach(before, after);
    let is_out_of_reach = |change: &&mut Change| match &change.place[..] {
        [table, name, ..] => table == "ee" && out_of_reach.contains(&name.as_str()),
        _ => false,
    };
    changes.iter_mut().filter(is_out_of_reach).for_each(|change| change.part = None);
    let other_half = before.has_half() != after.has_half();
    changes.iter_mut().filter(|change| change.place[0] == "port").for_each(|change| look_at_port(change, other_half));
    Ok(changes)
}

/// Who carries out a change of a port, and why nobody does; `other_half`: a kernel half comes or goes.
fn look_at_port(change: &mut Change, other_half: bool) {
    let says = |port: &Option<Value>, key: &str| {
        port.as_ref().and_then(|port| port.get(key)).is_some_and(|value| !value.is_null() && *value != false)
    };
    let files = ["pcap", "meter"];
    let (needs_files, has_half) = match &change.place[..] {
        [_, _] => {
            change.part = Some(Part::Sockets);
            let has_half = says(&change.was, "kernel") || says(&change.is, "kernel");
            (files.iter().any(|key| says(&change.is, key)), has_half)
        }
        [_, _, key, ..] => (files.contains(&key.as_str()), key == "kernel"),
        _ => return,
    };
    change.why = if needs_files { Some(NO_FILES) } else { (other_half && has_half).then_some(NO_HALF) };
    if change.why.is_some() {
        change.part = None;
    }
}

/// Environments whose object is in a directory that a running node cannot reach: it keeps those of its objects open from
/// the start, and sees nothing else of the host.
fn out_of_reach<'a>(before: &NodeFile, after: &'a NodeFile) -> Vec<&'a str> {
    fn above(environment: &EnvironmentFile) -> Option<&Path> {
        environment.library.first().and_then(|path| Path::new(path).parent())
    }
    let reached: HashSet<&Path> = before.environments.iter().filter_map(above).collect();
    let is_out = |environment: &&EnvironmentFile| above(environment).is_some_and(|above| !reached.contains(above));
    after.environments.iter().filter(is_out).map(|environment| environment.name.as_str()).collect()
}

/// A configuration without the roles and routes that another has just so: there may be thousands.
fn without_same(file: &NodeFile, other: &NodeFile) -> NodeFile {
    let roles: HashMap<&str, &Role> = other.roles.iter().map(|role| (role.name.as_str(), role)).collect();
    let routes: HashMap<Prefix, &RouteFile> = other.static_routes.iter().map(|route| (route.to, route)).collect();
    let mut left = file.clone();
    // Of `anyone` it counts whether it is written at all: without it there is another one.
    left.roles.retain(|role| role.name == ANYONE || roles.get(role.name.as_str()).is_none_or(|same| *same != role));
    left.static_routes.retain(|route| routes.get(&route.to).is_none_or(|same| *same != route));
    left
}

/// Whether a change has a word among its values.
fn mentions(change: &Change, word: &str) -> bool {
    fn has(value: &Value, word: &str) -> bool {
        match value {
            Value::String(text) => text == word,
            Value::Array(items) => items.iter().any(|item| has(item, word)),
            Value::Object(fields) => fields.values().any(|value| has(value, word)),
            _ => false,
        }
    }
    change.was.iter().chain(&change.is).any(|value| has(value, word))
}

/// A configuration as it runs when those changes are left out that need a restart. Ports are at their places in the node
/// that runs.
pub fn without_restart(before: &NodeFile, after: &NodeFile, changes: &[Change]) -> Result<NodeFile, ConfigError> {
    if changes.iter().all(|change| change.part.is_some()) {
        return after.clone().placed_over(before);
    }
    let (was, mut is) = (tree(before)?, tree(after)?);
    for change in changes.iter().filter(|change| change.part.is_none()) {
        let old = find(&was, &change.place).cloned();
        put(&mut is, &change.place, old);
    }
    if let Some(Value::Array(ports)) = is.get_mut("port") {
        ports.iter_mut().filter_map(Value::as_object_mut).for_each(|port| drop(port.remove(TITLE)));
    }
    strip(&mut is);
    let mut file: NodeFile = serde_json::from_value(is)
        .map_err(|error| ConfigError(format!("what is left is no configuration: {error}")))?;
    file.written = after.written.clone();
    file.source = after.source.clone();
    file.placed_over(before)
}

/// A configuration as a tree; ports have their titles.
fn tree(file: &NodeFile) -> Result<Value, ConfigError> {
    let mut tree = serde_json::to_value(file).map_err(|error| ConfigError(error.to_string()))?;
    let mut titles = file.titles();
    // A vacant place is nothing that a file says.
    let mut places = file.ports.iter().map(|port| !port.is_vacant());
    if let Some(ports) = tree["port"].as_array_mut() {
        ports.retain(|_| places.next().unwrap_or(true));
    }
    titles.retain(|title| !title.is_empty());
    let mut seen = titles.clone();
    seen.sort_unstable();
    if let Some(twice) = seen.windows(2).find(|pair| pair[0] == pair[1]) {
        return wrong(format!("[[port]] name: {} stands twice, and ports are told apart by their names", twice[0]));
    }
    for (port, title) in tree["port"].as_array_mut().into_iter().flatten().zip(titles) {
        port[TITLE] = title.into();
    }
    Ok(tree)
}

/// The same with lists as tables by name, and `anyone` among the roles.
fn by_names(file: &NodeFile) -> Result<Value, ConfigError> {
    let mut tree = tree(file)?;
    if let Some(roles) = tree["role"].as_array_mut().filter(|roles| !roles.iter().any(|role| role["name"] == ANYONE)) {
        let anyone = Role::anyone(Default::default());
        roles.insert(0, serde_json::to_value(anyone).map_err(|error| ConfigError(error.to_string()))?);
    }
    Ok(named(&mut Vec::new(), tree))
}

fn named(place: &mut Vec<String>, value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(key, value)| {
                place.push(key.clone());
                let value = named(place, value);
                place.pop();
                (key, value)
            });
            Value::Object(fields.collect())
        }
        Value::Array(items) => match named_at(place) {
            None => Value::Array(items),
            Some(key) => {
                let entry = |item: Value| {
                    let Value::Object(mut fields) = item else { return None };
                    let name = fields.remove(key)?.as_str()?.to_owned();
                    place.push(name.clone());
                    let rest = named(place, Value::Object(fields));
                    place.pop();
                    Some((name, rest))
                };
                Value::Object(items.into_iter().filter_map(entry).collect())
            }
        },
        other => other,
    }
}

/// Whether there is a list of named entries at a place, and the key with the name.
fn named_at(place: &[String]) -> Option<&'static str> {
    NAMED.iter().find(|(pattern, _)| pattern.len() == place.len() && fits(pattern, place)).map(|(_, key)| *key)
}

/// Whether a place is at or within that of a pattern.
fn fits(pattern: &[&str], place: &[String]) -> bool {
    place.len() >= pattern.len() && pattern.iter().zip(place).all(|(wanted, step)| *wanted == "*" || wanted == step)
}

fn compare(place: &mut Vec<String>, was: Option<&Value>, is: Option<&Value>, changes: &mut Vec<Change>) {
    match (was, is) {
        (Some(Value::Object(was)), Some(Value::Object(is))) => {
            let mut keys: Vec<&String> = was.keys().chain(is.keys().filter(|key| !was.contains_key(*key))).collect();
            keys.sort_unstable();
            for key in keys {
                place.push(key.clone());
                compare(place, was.get(key), is.get(key), changes);
                place.pop();
            }
        }
        (was, is) if was == is => {}
        (was, is) => changes.push(Change {
            place: place.clone(),
            was: was.cloned(),
            is: is.cloned(),
            part: PLACES.iter().find(|(pattern, _)| fits(pattern, place)).map(|(_, part)| *part),
            why: None,
        }),
    }
}

/// What is at a place of a tree with lists.
fn find<'a>(tree: &'a Value, place: &[String]) -> Option<&'a Value> {
    let mut at = tree;
    for (depth, step) in place.iter().enumerate() {
        at = match (at, named_at(&place[..depth])) {
            (Value::Array(items), Some(key)) => items.iter().find(|item| item[key] == **step)?,
            (Value::Object(fields), _) => fields.get(step)?,
            _ => return None,
        };
    }
    Some(at)
}

/// Puts something at a place of a tree with lists, or takes away what is there.
fn put(tree: &mut Value, place: &[String], value: Option<Value>) {
    let Some((last, way)) = place.split_last() else { return };
    let mut at = tree;
    for (depth, step) in way.iter().enumerate() {
        at = match (at, named_at(&way[..depth])) {
            (Value::Array(items), Some(key)) => match items.iter_mut().find(|item| item[key] == **step) {
                Some(found) => found,
                None => return,
            },
            (Value::Object(fields), _) => fields.entry(step.clone()).or_insert_with(|| Value::Object(Map::new())),
            _ => return,
        };
    }
    match (at, named_at(way)) {
        (Value::Array(items), Some(key)) => {
            items.retain(|item| item[key] != **last);
            items.extend(value);
        }
        (Value::Object(fields), _) => match value {
            Some(value) => drop(fields.insert(last.clone(), value)),
            None => drop(fields.remove(last)),
        },
        _ => {}
    }
}

/// Leaves out what is nothing: a file cannot say that.
fn strip(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
