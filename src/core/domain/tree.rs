//! The tree of domains. Example: an environment, its flows, and the channels of each: who ends the environment ends them all.

use super::name::{DomainId, HostId};
use super::payer::Domain;
use crate::core::kept::{Allowance, Books, Held};
use crate::core::owned::OwnedTable;
use crate::core::table::SharedPlaces;
use crate::trust::grants::DOMAINS_MAX;
use crate::trust::limits::Limits;

/// The depth of the tree of domains, at most.
pub const DEPTH_MAX: u16 = 16;

/// The domains of a node: a tree below one root, which is the node's own and never ends.
pub struct Domains {
    table: OwnedTable<DomainId, Domain>,
    root: DomainId,
}

impl Default for Domains {
    fn default() -> Domains {
        let mut table = OwnedTable::new(DOMAINS_MAX);
        let root = table.add(Domain::new("node".into(), Limits::default())).unwrap_or(DomainId(0));
        Domains { table, root }
    }
}

impl Domains {
    /// Gives no name from now on that another worker has given.
    pub fn share_names(&mut self, places: &SharedPlaces) {
        self.table.share(places);
    }

    /// Names that were given are nobody's any more.
    pub fn give_up_names(&mut self) {
        self.table.give_up();
    }

    /// Takes out a domain and all below it, each behind the one above it, for another worker. The root stays.
    pub fn send_off(&mut self, top: DomainId) -> Vec<(DomainId, Domain)> {
        let order = self.with_those_below(top);
        self.leave_parent(top, order.len());
        order.into_iter().filter_map(|id| Some((id, self.table.send_off(id)?))).collect()
    }

    /// Takes in what another worker has sent off. The first of them is below a domain that both have.
    pub fn take_in(&mut self, domains: Vec<(DomainId, Domain)>) {
        if let Some((top, parent)) = domains.first().and_then(|(top, domain)| Some((*top, domain.parent?))) {
            self.count_below(parent, domains.len() as i32);
            domains.into_iter().for_each(|(id, domain)| self.table.take_in(id, domain));
            self.enter_parent(top, parent);
        }
    }

    /// A domain is the last child of another.
    fn enter_parent(&mut self, id: DomainId, parent: DomainId) {
        let Some(above) = self.table.get_mut(parent) else { return };
        above.children.push(id);
        let place = above.children.len() as u32 - 1;
        self.set_place(id, place);
    }

    fn set_place(&mut self, id: DomainId, place: u32) {
        if let Some(domain) = self.table.get_mut(id) {
            domain.place = place;
        }
    }

    /// A domain is no child of another any more, with so many domains; the last child has its place.
    fn leave_parent(&mut self, id: DomainId, count: usize) {
        let Some((Some(parent), place)) = self.table.get(id).map(|domain| (domain.parent, domain.place)) else {
            return;
        };
        let Some(children) = self.table.get_mut(parent).map(|above| &mut above.children) else { return };
        if children.get(place as usize) == Some(&id) {
            children.swap_remove(place as usize);
            let moved = children.get(place as usize).copied();
            moved.into_iter().for_each(|moved| self.set_place(moved, place));
        }
        self.count_below(parent, -(count as i32));
    }

    /// Those that a host runs.
    pub fn of_host(&self, host: HostId) -> impl Iterator<Item = (DomainId, &Domain)> {
        self.table.of(host)
    }

    /// Another host runs a domain from now on.
    pub fn set_host(&mut self, id: DomainId, host: HostId) {
        self.table.give_to(id, |domain| domain.host = host);
    }

    /// The root.
    pub fn root(&self) -> DomainId {
        self.root
    }

    /// Adds a domain below another, or nothing when [`DOMAINS_MAX`] exist, the tree is too deep, or its parent has ended.
    pub fn create(&mut self, parent: DomainId, mut domain: Domain) -> Option<DomainId> {
        let above = self.table.get(parent)?;
        let (depth, environment) = (above.depth + 1, above.environment);
        if depth > DEPTH_MAX {
            return None;
        }
        (domain.parent, domain.depth, domain.environment) = (Some(parent), depth, environment);
        let id = self.table.add(domain).ok()?;
        self.enter_parent(id, parent);
        self.count_below(parent, 1);
        Some(id)
    }

    /// Whether the roles of a domain and of all above it let one more domain be created there.
    pub fn has_room(&self, parent: DomainId) -> bool {
        let mut at = Some(parent);
        for _ in 0..=DEPTH_MAX {
            match at.and_then(|id| self.table.get(id)) {
                Some(domain) if domain.below >= domain.role.grants.domains => return false,
                Some(domain) => at = domain.parent,
                None => break,
            }
        }
        true
    }

    /// Domains have been added below a domain and all above it, or have gone.
    fn count_below(&mut self, id: DomainId, change: i32) {
        let mut at = Some(id);
        while let Some(domain) = at.and_then(|id| self.table.get_mut(id)) {
            domain.below = domain.below.saturating_add_signed(change);
            at = domain.parent;
        }
    }

    /// The domain, unless it has ended.
    #[inline]
    pub fn of(&mut self, id: DomainId) -> Option<&mut Domain> {
        self.table.get_mut(id)
    }

    /// Asks for the memory of a domain of which a packet is next soon.
    #[inline]
    pub fn foresee(&self, id: DomainId) {
        self.table.foresee_first(id.index(), 3);
    }

    /// Asks for the rest of what is known of a domain whose memory has been asked for.
    pub fn foresee_rest(&self, id: DomainId) {
        if let Some(domain) = self.table.get(id) {
            domain.foresee_rest();
        }
    }

    /// The domain, to read.
    pub fn by_id(&self, id: DomainId) -> Option<&Domain> {
        self.table.get(id)
    }

    /// Whether a domain is another one or below it.
    pub fn is_within(&self, id: DomainId, top: DomainId) -> bool {
        let mut at = Some(id);
        for _ in 0..=DEPTH_MAX {
            match at {
                Some(id) if id == top => return self.table.get(id).is_some(),
                Some(id) => at = self.table.get(id).and_then(|domain| domain.parent),
                None => return false,
            }
        }
        false
    }

    /// A domain and all below it, each behind the one above it; of the root none.
    pub fn with_those_below(&self, id: DomainId) -> Vec<DomainId> {
        let mut order = Vec::new();
        let mut open = if id == self.root { Vec::new() } else { vec![id] };
        while let Some(id) = open.pop() {
            let Some(domain) = self.table.get(id) else { continue };
            open.extend(&domain.children);
            order.push(id);
        }
        order
    }

    /// Ends a domain and all below it, those below first, and gives their last accounts. The root stays.
    pub fn end(&mut self, id: DomainId) -> Vec<(DomainId, Domain)> {
        let order = self.with_those_below(id);
        self.leave_parent(id, order.len());
        order.into_iter().rev().filter_map(|id| Some((id, self.table.remove(id)?))).collect()
    }

    /// All living domains.
    pub fn iter(&self) -> impl Iterator<Item = (DomainId, &Domain)> {
        self.table.iter()
    }
}

impl Books for Domains {
    #[inline]
    fn quota(&mut self, owner: DomainId) -> Option<Allowance> {
        let domain = self.of(owner)?;
        let is_used_up = domain.counts.state_entries >= domain.limits.state_entries;
        Some(Allowance { is_used_up, keep_ms_max: domain.limits.keep_ms_max })
    }

    #[inline]
    fn note(&mut self, owner: DomainId, what: Held) {
        if let Some(domain) = self.of(owner) {
            domain.counts.note_state(what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trust::Role;
    use crate::trust::grants::Grants;
    use std::sync::Arc;

    #[test]
    fn who_ends_a_domain_ends_all_below_it_and_nothing_else() {
        let mut domains = Domains::default();
        let mut create = |parent, title: &str| {
            let parent = if parent == 0 { domains.root() } else { DomainId(parent) };
            domains.create(parent, Domain::new(title.into(), Limits::default())).unwrap()
        };
        let ee = create(0, "ee");
        let (flow, other) = (create(ee.0, "flow"), create(0, "other"));
        let below = create(flow.0, "below");
        assert!(domains.is_within(below, ee) && domains.is_within(ee, ee) && !domains.is_within(other, ee));
        let ended: Vec<_> = domains.end(ee).into_iter().map(|(_, domain)| domain.title.clone()).collect();
        assert_eq!(ended, ["below", "flow", "ee"]);
        assert!([ee, flow, below].iter().all(|id| domains.of(*id).is_none() && !domains.is_within(*id, *id)));
        assert_eq!(domains.by_id(domains.root()).unwrap().children(), [other]);
        let again = domains.create(domains.root(), Domain::new("again".into(), Limits::default())).unwrap();
        assert!(![ee, flow, below].contains(&again), "a place is used again, a name is not");
        assert!(domains.create(flow, Domain::new("orphan".into(), Limits::default())).is_none());
        assert!(domains.end(domains.root()).is_empty(), "the root stays");
    }

    #[test]
    fn a_role_bounds_how_many_are_below_however_deep() {
        let mut domains = Domains::default();
        let role = |number| {
            let grants = Grants { domains: number, ..Default::default() };
            Arc::new(Role { grants, ..Role::anyone(Limits::default()) })
        };
        let add = |domains: &mut Domains, parent, most| {
            domains.has_room(parent).then(|| domains.create(parent, Domain::in_role("d".into(), &role(most))).unwrap())
        };
        let root = domains.root();
        let ee = add(&mut domains, root, 3).unwrap();
        let (flow, other) = (add(&mut domains, ee, 5).unwrap(), add(&mut domains, ee, 0).unwrap());
        assert_eq!(add(&mut domains, other, 0), None, "its own role");
        let below = add(&mut domains, flow, 1).unwrap();
        assert_eq!((add(&mut domains, flow, 0), add(&mut domains, below, 0)), (None, None), "the role of one above");
        assert_eq!(domains.end(flow).len(), 2);
        assert!(add(&mut domains, ee, 0).is_some() && add(&mut domains, ee, 0).is_some());
        assert_eq!(add(&mut domains, ee, 0), None);
        domains.end(ee);
        assert_eq!(domains.by_id(root).unwrap().below, 0);
    }

    #[test]
    fn the_tree_has_a_depth() {
        let mut domains = Domains::default();
        let mut at = domains.root();
        for _ in 0..DEPTH_MAX {
            at = domains.create(at, Domain::new("d".into(), Limits::default())).unwrap();
        }
        assert!(domains.create(at, Domain::new("d".into(), Limits::default())).is_none());
    }
}
