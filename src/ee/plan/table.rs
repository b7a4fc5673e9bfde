//! The node's services: their numbers, and the principals that may use each.
//!
//! Core services have names that every node knows, so finding one is an access to an array. A restricted service
//! is there only for the principals that list it; for all others it is as if the node did not have it.

use super::config::Config;
use super::evaluate::At;
use super::services::CORE;
use plan::eval;
use plan::name::{Name, TABLE};
use plan::program::{ServiceId, Services};
use plan::value::Value;

/// A service of the node itself.
pub(super) type Call = fn(&mut At<'_>, &[Value], &mut eval::State<'_>) -> eval::Result<Value>;

/// Services that are restricted whatever the configuration says: what they do stays.
fn always() -> impl Iterator<Item = &'static str> {
    std::iter::once(super::services::INSTALL).chain(super::services::GRAPHS)
}

/// The services of one node.
pub(super) struct Table {
    /// For each name of the common table the service's number.
    by_core: Vec<Option<u32>>,
    /// Services of the node whose names are not in that table.
    others: Vec<(Name, u32)>,
    /// The names of those that not everybody sees.
    restricted: Vec<Name>,
    /// For each principal, which of those it sees; the first is anyone.
    seen: Vec<Vec<Name>>,
    /// For each service of the node itself, whether it is restricted.
    core_restricted: Vec<bool>,
    /// The services that were loaded, whose numbers are behind those of the node itself, and whether each is restricted.
    loaded: Vec<(Name, bool)>,
}

/// What a number stands for.
pub(super) enum Service {
    /// A service of the node itself.
    Core(Call),
    /// One that was loaded.
    Loaded(usize),
}

impl Table {
    pub fn new(config: &Config) -> Table {
        let place = |name: &str| CORE.iter().position(|(known, _)| *known == name).map(|at| at as u32);
        let own = CORE.iter().enumerate().filter_map(|(at, (name, _))| Some((Name::new(name)?, at as u32)));
        let always = always().filter_map(Name::new);
        let restricted: Vec<Name> = config.restricted.iter().cloned().chain(always).collect();
        let seen = config.principals.iter().map(|principal| principal.services.clone());
        Table {
            by_core: TABLE.iter().map(|(name, _)| place(name)).collect(),
            others: own.filter(|(name, _)| name.number().is_none()).collect(),
            core_restricted: CORE.iter().map(|(name, _)| restricted.iter().any(|it| it.as_str() == *name)).collect(),
            restricted,
            seen: std::iter::once(Vec::new()).chain(seen).collect(),
            loaded: Vec::new(),
        }
    }

    /// What a service does, if this principal sees it.
    #[inline]
    pub fn of(&self, service: ServiceId, principal: usize) -> Option<Service> {
        let at = service.0 as usize;
        if let Some(number) = at.checked_sub(CORE.len()) {
            let (name, restricted) = self.loaded.get(number)?;
            return (!restricted || self.sees(principal, name.as_str())).then_some(Service::Loaded(number));
        }
        let (name, call) = CORE.get(at)?;
        let seen = !*self.core_restricted.get(at)? || self.sees(principal, name);
        seen.then_some(Service::Core(*call))
    }

    fn sees(&self, principal: usize, name: &str) -> bool {
        self.seen.get(principal).is_some_and(|names| names.iter().any(|seen| seen.as_str() == name))
    }

    /// From now on this principal sees these of the restricted services.
    pub fn set_seen(&mut self, principal: usize, names: &[String]) {
        if self.seen.len() <= principal {
            self.seen.resize(principal + 1, Vec::new());
        }
        if let Some(seen) = self.seen.get_mut(principal) {
            *seen = names.iter().filter_map(|name| Name::new(name)).collect();
        }
    }

    /// These are the services that were loaded, by number.
    pub fn set_loaded(&mut self, names: impl Iterator<Item = Name>) {
        let restricted = &self.restricted;
        self.loaded = names.map(|name| (name.clone(), restricted.contains(&name))).collect();
    }
}

impl Services for Table {
    #[inline]
    fn service(&self, name: &Name) -> Option<ServiceId> {
        if !self.loaded.is_empty()
            && let Some(at) = self.loaded.iter().position(|(loaded, _)| loaded == name)
        {
            return Some(ServiceId((CORE.len() + at) as u32));
        }
        let number = match name.number() {
            Some(number) => self.by_core.get(number).copied().flatten(),
            None => self.others.iter().find(|(other, _)| other == name).map(|(_, number)| *number),
        };
        number.map(ServiceId)
    }
}
