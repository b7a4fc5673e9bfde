//! All protocols that are taught, and whether new ones fit to them. Example: one more protocol behind UDP, at a port at which another one
//! is, is refused.
//!
//! Either all protocols of a text are taught or none. They may stand in any order; none is behind itself.

use super::protocol::{PROTOCOLS_MAX, Protocol, ProtocolId};
use super::token::{Mistake, nearest, shown};
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// What is taught.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Protocols {
    known: Vec<Option<Arc<Protocol>>>,
    /// What is behind which protocol at which value, in order.
    inside: Vec<(ProtocolId, u64, ProtocolId)>,
}

/// The protocols that every classifier knows, in their own language.
pub const STANDARD: &str = include_str!("standard.protocols");

impl Protocols {
    /// Those that ship with the program: `standard.protocols`.
    pub fn standard() -> Protocols {
        let mut protocols = Protocols::default();
        let taught = protocols.teach(STANDARD);
        debug_assert!(taught.is_ok(), "{taught:?}");
        protocols
    }

    /// Teaches all protocols of a text, or none. Gives their names.
    pub fn teach(&mut self, text: &str) -> Result<Vec<String>, Mistake> {
        let read = super::definition::read(text)?;
        self.check(&read)?;
        let names = read.iter().map(|(_, protocol)| protocol.name.clone()).collect();
        for (_, protocol) in read {
            let free = self.known.iter().position(Option::is_none);
            let protocol = Some(Arc::new(protocol));
            match free {
                Some(at) => self.known[at] = protocol,
                None => self.known.push(protocol),
            }
        }
        self.order();
        Ok(names)
    }

    /// Forgets a protocol, unless others follow it.
    pub fn unteach(&mut self, name: &str) -> Result<(), String> {
        let id = self.id(name).ok_or_else(|| self.unknown(name))?;
        let above: Vec<_> =
            self.all().filter(|(_, other)| other.follows.iter().any(|(below, _)| below == name)).collect();
        if !above.is_empty() {
            let names: Vec<_> = above.iter().map(|(_, protocol)| &*protocol.name).collect();
            return Err(format!("{} follows {name}: forget it first", names.join(", ")));
        }
        self.known[id] = None;
        self.order();
        Ok(())
    }

    fn order(&mut self) {
        let ids: HashMap<&str, ProtocolId> = self.all().map(|(id, protocol)| (&*protocol.name, id)).collect();
        let mut inside: Vec<_> = Vec::new();
        for (id, protocol) in self.all() {
            let follows = protocol.follows.iter().filter_map(|(below, value)| Some((*ids.get(&**below)?, *value, id)));
            inside.extend(follows);
        }
        inside.sort_unstable();
        self.inside = inside;
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = (ProtocolId, &Arc<Protocol>)> {
        self.known.iter().enumerate().filter_map(|(id, protocol)| Some((id, protocol.as_ref()?)))
    }

    /// A protocol by its number.
    pub fn one(&self, id: ProtocolId) -> Option<&Arc<Protocol>> {
        self.known.get(id)?.as_ref()
    }

    /// A protocol's number.
    pub fn id(&self, name: &str) -> Option<ProtocolId> {
        self.all().find(|(_, protocol)| protocol.name == name).map(|(id, _)| id)
    }

    /// Nothing is called this: what is near.
    pub fn unknown(&self, name: &str) -> String {
        let near = nearest(name, self.all().map(|(_, protocol)| &*protocol.name));
        let known: Vec<_> = self.all().map(|(_, protocol)| &*protocol.name).collect();
        let known = if near.is_empty() { format!("; known are {}", known.join(", ")) } else { near };
        format!("no protocol '{}' is taught{known}", shown(name))
    }

    /// Which protocol is behind another one at a value.
    #[inline]
    pub fn inside(&self, outer: ProtocolId, value: u64) -> Option<ProtocolId> {
        let at = self.inside.partition_point(|(known, at, _)| (*known, *at) < (outer, value));
        self.inside.get(at).filter(|(known, at, _)| (*known, *at) == (outer, value)).map(|(.., inner)| *inner)
    }

    /// The shortest way from one protocol to another, both included.
    pub fn way(&self, from: ProtocolId, to: ProtocolId) -> Option<Vec<ProtocolId>> {
        // Of each protocol that is reached the one before it.
        let (mut before, mut reached) = (HashMap::from([(from, from)]), vec![from]);
        let mut next = 0;
        while let Some(outer) = reached.get(next).copied().filter(|_| !before.contains_key(&to)) {
            let begin = self.inside.partition_point(|(known, ..)| *known < outer);
            for (_, _, inner) in self.inside[begin..].iter().take_while(|(known, ..)| *known == outer) {
                if let Entry::Vacant(place) = before.entry(*inner) {
                    place.insert(outer);
                    reached.push(*inner);
                }
            }
            next += 1;
        }
        let mut way = vec![to];
        while way.last() != Some(&from) {
            way.push(*before.get(way.last()?)?);
        }
        way.reverse();
        Some(way)
    }

    /// New protocols beside each other and beside those that are taught.
    fn check(&self, new: &[(usize, Protocol)]) -> Result<(), Mistake> {
        if self.all().count() + new.len() > PROTOCOLS_MAX {
            return Err(Mistake::at(0, format!("at most {PROTOCOLS_MAX} protocols can be taught")));
        }
        let named = |name: &str| new.iter().map(|(_, protocol)| protocol).find(|protocol| protocol.name == name);
        let old = |name: &str| self.id(name).and_then(|id| self.one(id)).map(|protocol| &**protocol);
        // Who follows which protocol at which value.
        let mut taken: HashMap<(&str, u64), &str> = HashMap::new();
        for (_, protocol) in self.all() {
            taken.extend(protocol.follows.iter().map(|(below, value)| ((&**below, *value), &*protocol.name)));
        }
        for (number, (at, protocol)) in new.iter().enumerate() {
            let name = &*protocol.name;
            if old(name).is_some() || new[..number].iter().any(|(_, other)| other.name == name) {
                return Err(Mistake::at(
                    *at,
                    format!("{name} is taught already: forget it first, or choose another name"),
                ));
            }
            for (below, value) in &protocol.follows {
                let Some(outer) = named(below).or_else(|| old(below)) else {
                    let mut all = self.clone();
                    all.known.extend(new.iter().map(|(_, protocol)| Some(Arc::new(protocol.clone()))));
                    return Err(Mistake::at(*at, format!("{name} follows '{below}', but {}", all.unknown(below))));
                };
                let Some(next) = &outer.next else {
                    return Err(Mistake::at(
                        *at,
                        format!("{name} follows {below}, which has no field that says what is next"),
                    ));
                };
                if !next.bits.holds(*value) {
                    let field = &outer.fields[next.field].name;
                    return Err(Mistake::at(
                        *at,
                        format!("{name} follows {below} at {value}, which {field} cannot be"),
                    ));
                }
                let other = taken.insert((&**below, *value), name).filter(|other| *other != name);
                if let Some(other) = other {
                    let what = format!("{name} and {other} contradict: both follow {below} at {value}");
                    return Err(Mistake::at(*at, what));
                }
            }
        }
        circles(new)
    }
}

/// No protocol is behind itself: a header would be read for ever.
fn circles(new: &[(usize, Protocol)]) -> Result<(), Mistake> {
    // What was taught before follows nothing that is new.
    let below = |protocol: &Protocol| -> Vec<String> {
        let names: BTreeSet<_> = protocol.follows.iter().map(|(below, _)| below.clone()).collect();
        names.into_iter().collect()
    };
    let lower: HashMap<&str, Vec<String>> =
        new.iter().map(|(_, protocol)| (&*protocol.name, below(protocol))).collect();
    for (at, protocol) in new {
        let mut chain = vec![&*protocol.name];
        let mut ways: Vec<(usize, &str)> = lower[&*protocol.name].iter().map(|below| (1, &**below)).collect();
        let mut seen = BTreeSet::new();
        while let Some((depth, below)) = ways.pop() {
            chain.truncate(depth);
            chain.push(below);
            if below == protocol.name {
                chain.reverse();
                return Err(Mistake::at(*at, format!("{below} would be behind itself: {}", chain.join(" > "))));
            }
            if seen.insert(below) {
                ways.extend(lower.get(below).into_iter().flatten().map(|below| (depth + 1, &**below)));
            }
        }
    }
    Ok(())
}
