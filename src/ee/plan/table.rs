//! The node's services: their numbers, and who sees which.
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

/// The services of one node.
pub(super) struct Table {
    /// For each name of the common table the service's number.
    by_core: Vec<Option<u32>>,
    /// For each service, whether it is restricted; then, by principal, whether that one sees it.
    restricted: Vec<Option<Vec<bool>>>,
    /// The services that were loaded, whose numbers are behind those of the node itself.
    loaded: Vec<Name>,
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
        let number = |(name, _): &(&str, _)| CORE.iter().position(|(known, _)| known == name).map(|at| at as u32);
        let seen = |name: &str| {
            let is = |listed: &Name| listed.as_str() == name;
            config.restricted.iter().any(is).then(|| {
                // The first is anyone.
                let own = config.principals.iter().map(|principal| principal.services.iter().any(is));
                std::iter::once(false).chain(own).collect()
            })
        };
        Table {
            by_core: TABLE.iter().map(number).collect(),
            restricted: CORE.iter().map(|(name, _)| seen(name)).collect(),
            loaded: Vec::new(),
        }
    }

    /// What a service does, if this principal sees it.
    #[inline]
    pub fn of(&self, service: ServiceId, principal: usize) -> Option<Service> {
        let at = service.0 as usize;
        if let Some(number) = at.checked_sub(CORE.len()) {
            return Some(Service::Loaded(number));
        }
        let seen = match self.restricted.get(at)? {
            None => true,
            Some(who) => who.get(principal).copied().unwrap_or(false),
        };
        CORE.get(at).filter(|_| seen).map(|(_, call)| Service::Core(*call))
    }

    /// These are the services that were loaded, by number.
    pub fn set_loaded(&mut self, names: impl Iterator<Item = Name>) {
        self.loaded = names.collect();
    }
}

impl Services for Table {
    #[inline]
    fn service(&self, name: &Name) -> Option<ServiceId> {
        if !self.loaded.is_empty()
            && let Some(at) = self.loaded.iter().position(|loaded| loaded == name)
        {
            return Some(ServiceId((CORE.len() + at) as u32));
        }
        let number = self.by_core.get(name.number()?).copied().flatten();
        number.map(ServiceId)
    }
}
