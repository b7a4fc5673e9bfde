//! Wishes of capsules' code for graphs become edits of them: beside the packets, by the way that operators have.
//!
//! ```text
//! an_graph_wish(3), in either half ─▶ a bit ─▶ here, each 10 ms: it stands ─▶ its role has a change left, and none under way
//!                                                    ▲                                        │
//!                                                    └── too many in this second ── plumber ◀─┘─▶ done, or refused: counted, and why
//! ```
//!
//! Which edits there are the operator has written for the role (`[role.graphs] edits`), and how often they are done is that role's rate of
//! changes, which counts for all its programs together. So what stands is at most one wish for each edit, however many packets wish for it.

use super::graphs::{GraphRefusal, RunningGraphs};
use super::output::{Effect, Turn};
use super::{Cx, Node};
use crate::clean;
use crate::core::domain::{Domain, DomainId, Domains};
use crate::nodeos::interface::Error;
use crate::trust::edits::NamedEdit;
use crate::trust::{Role, Roles};
use serde::Serialize;
use std::sync::Arc;

/// How often it is looked whether code wishes for something, in nanoseconds.
const LOOKED_AT: u64 = 10_000_000;

/// Between two lines of the log about wishes that were refused, in nanoseconds.
const SAID_EVERY: u64 = 60_000_000_000;

/// Bytes of why an edit was refused.
const WHY_MAX: usize = 1024;

/// An edit that code wishes for.
#[derive(Clone, Debug)]
pub struct WishedEdit {
    /// The role of the code, which is that of the graph.
    pub role: Arc<Role>,
    /// The edit's number there.
    pub number: u32,
    /// The code's domain, who pays.
    pub domain: DomainId,
}

impl WishedEdit {
    /// What the operator has written under this number.
    pub fn edit(&self) -> Option<&NamedEdit> {
        self.role.graphs.edit(self.number)
    }
}

/// What has become of wishes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WishCounts {
    /// Those that the node has taken on; more for the same edit before that are one.
    pub taken: u64,
    /// Those beyond the changes in a second that the role has.
    pub later: u64,
    /// Those for edits that the role does not have.
    pub refused: u64,
}

/// What has become of one edit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EditStatus {
    /// Its number in the role.
    pub number: u32,
    /// For people.
    pub name: String,
    /// Whether it is wished for and not done yet.
    pub stands: bool,
    /// How often it was done.
    pub done: u64,
    /// How often it could not be done.
    pub refused: u64,
    /// Why that was so the last time.
    pub why: String,
}

/// An edit that was wished for.
struct Wished {
    wish: WishedEdit,
    /// Among those that stand, the order in which they have come; nothing: it does not.
    stands: Option<u64>,
    /// Whether it is under way.
    is_begun: bool,
    /// Whether it is under way though its role has it no more: when it is over nothing is left of it.
    is_old: bool,
    done: u64,
    refused: u64,
    why: String,
}

impl Wished {
    fn new(wish: WishedEdit, stands: Option<u64>) -> Wished {
        Wished { wish, stands, is_begun: false, is_old: false, done: 0, refused: 0, why: String::new() }
    }

    fn is(&self, role: &str, number: u32) -> bool {
        !self.is_old && self.wish.number == number && self.wish.role.name == role
    }
}

/// All wishes.
pub(super) struct Wishing {
    /// Domains of codes whose roles have edits.
    seats: Vec<DomainId>,
    list: Vec<Wished>,
    stood: u64,
    counts: WishCounts,
    /// When they are looked at next.
    next: u64,
    next_line: u64,
}

impl Default for Wishing {
    fn default() -> Wishing {
        let (seats, list, counts) = Default::default();
        Wishing { seats, list, stood: 0, counts, next: u64::MAX, next_line: 0 }
    }
}

impl Wishing {
    /// When they are to be looked at.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// What has become of them.
    pub(super) fn counts(&self) -> WishCounts {
        self.counts
    }

    /// The code of a domain may wish for edits from now on.
    fn seat(&mut self, domain: DomainId, now: u64) {
        if !self.seats.contains(&domain) {
            self.seats.push(domain);
        }
        self.next = self.next.min(now.saturating_add(LOOKED_AT));
    }

    /// What code has wished for since the last time stands from now on.
    fn take(&mut self, domains: &Domains) {
        for at in (0..self.seats.len()).rev() {
            let Some(id) = self.seats.get(at).copied() else { continue };
            match domains.by_id(id) {
                Some(seat) => self.take_of(id, seat, domains),
                None => drop(self.seats.swap_remove(at)),
            }
        }
    }

    /// The same of one domain, in the role that it has.
    fn take_of(&mut self, id: DomainId, seat: &Domain, domains: &Domains) {
        let mut left = seat.wishes.take() & seat.role.graphs.wishes();
        while left != 0 {
            let number = left.trailing_zeros();
            left &= left - 1;
            self.stand(WishedEdit { role: seat.role.clone(), number, domain: id }, domains);
        }
    }

    /// A domain is about to have its role as that is now. What its code has wished for until then it has in the role before.
    fn settle(&mut self, id: DomainId, domains: &Domains, roles: &Roles) {
        let Some(seat) = domains.by_id(id).filter(|_| self.seats.contains(&id)) else { return };
        seat.wishes.tell(seat.role.graphs.wishes(), 0);
        self.take_of(id, seat, domains);
        self.renew(roles);
    }

    /// Who has wished first pays, unless that one has gone.
    fn stand(&mut self, wish: WishedEdit, domains: &Domains) {
        self.stood += 1;
        let stands = Some(self.stood);
        let Some(known) = self.list.iter_mut().find(|known| known.is(&wish.role.name, wish.number)) else {
            self.counts.taken += 1;
            return self.list.push(Wished::new(wish, stands));
        };
        self.counts.taken += u64::from(known.stands.is_none());
        if known.stands.is_none() || domains.by_id(known.wish.domain).is_none() {
            known.wish = wish;
        }
        known.stands = known.stands.or(stands);
    }

    /// These roles are in force: what stands for an edit that is another one, or has gone, is forgotten. What is under way is so when it is
    /// over.
    pub(super) fn renew(&mut self, roles: &Roles) {
        self.list.retain_mut(|known| {
            if known.is_old {
                return true;
            }
            let wish = &mut known.wish;
            let role = roles.iter().find(|role| role.name == wish.role.name && role.graphs.edits());
            let same = role.filter(|role| role.graphs.edit(wish.number) == wish.edit());
            match same {
                Some(role) => wish.role = role.clone(),
                None => (known.stands, known.is_old) = (None, true),
            }
            same.is_some() || known.is_begun
        });
    }

    /// What is to be done now: of each role one, the one that has stood longest, if the role has a change left.
    fn begin(&mut self, mut has_change: impl FnMut(&Role) -> bool) -> Vec<WishedEdit> {
        let mut standing: Vec<(u64, usize)> =
            self.list.iter().enumerate().filter_map(|(at, wished)| Some((wished.stands?, at))).collect();
        standing.sort_unstable();
        let mut begun = Vec::new();
        for (_, at) in standing {
            let Some(role) = self.list.get(at).map(|wished| wished.wish.role.clone()) else { continue };
            let is_busy = self.list.iter().any(|other| other.is_begun && other.wish.role.name == role.name);
            if !is_busy
                && has_change(&role)
                && let Some(wished) = self.list.get_mut(at)
            {
                (wished.stands, wished.is_begun) = (None, true);
                begun.push(wished.wish.clone());
            }
        }
        begun
    }

    /// Says which edits may be wished for: all of a role that has changes left, else those that stand.
    fn open(&self, domains: &Domains, mut has_change: impl FnMut(&Role) -> bool) {
        for seat in self.seats.iter().filter_map(|seat| domains.by_id(*seat)) {
            let edits = seat.role.graphs.wishes();
            let open = if has_change(&seat.role) { edits } else { self.standing(&seat.role) };
            seat.wishes.tell(edits, open & edits);
        }
    }

    fn standing(&self, role: &Role) -> u64 {
        let standing = self.list.iter().filter(|wished| wished.stands.is_some() && wished.wish.role.name == role.name);
        standing.fold(0, |all, wished| all | 1u64.checked_shl(wished.wish.number).unwrap_or(0))
    }

    /// What was under way is over; says why it was not done, if that has not been said of this edit.
    fn over(&mut self, wish: &WishedEdit, result: Result<(), GraphRefusal>) -> Option<String> {
        // Of a role one is under way.
        let at = self.list.iter().position(|known| known.is_begun && known.wish.role.name == wish.role.name)?;
        if self.list.get(at)?.is_old {
            self.list.swap_remove(at);
            return None;
        }
        let wished = self.list.get_mut(at)?;
        wished.is_begun = false;
        match result {
            Ok(()) => wished.done += 1,
            // Somebody else has changed the graph meanwhile, or there was no time.
            Err(GraphRefusal { error: Error::Again | Error::Changed, .. }) => {
                self.stood += 1;
                wished.stands = wished.stands.or(Some(self.stood));
            }
            Err(GraphRefusal { mut why, .. }) => {
                wished.refused += 1;
                why.truncate(why.floor_char_boundary(WHY_MAX));
                let is_first = wished.why.is_empty();
                wished.why = why;
                return is_first.then(|| wished.why.clone());
            }
        }
        None
    }

    /// Counts what the code of a domain was refused, in both halves: once a second, and when the domain has ended.
    pub(super) fn count(&mut self, now: u64, node: &str, id: DomainId, seat: &Domain) {
        let [refused, later] = seat.wishes.take_counts();
        (self.counts.refused, self.counts.later) = (self.counts.refused + refused, self.counts.later + later);
        if refused > 0 && now >= self.next_line {
            self.next_line = now + SAID_EVERY;
            tracing::warn!(
                event = "graph",
                node,
                domain = id.0,
                code = %clean::shown(&seat.title),
                role = seat.role.name,
                refused,
                "code wishes for edits of graphs that its role does not have ([role.graphs] edits)"
            );
        }
    }

    /// What has become of an edit of a role.
    pub(super) fn status(&self, role: &str, edit: &NamedEdit) -> EditStatus {
        let mut status = EditStatus { number: edit.number, name: edit.name.clone(), ..EditStatus::default() };
        if let Some(known) = self.list.iter().find(|known| known.is(role, edit.number)) {
            status.stands = known.stands.is_some() || known.is_begun;
            (status.done, status.refused, status.why) = (known.done, known.refused, known.why.clone());
        }
        status
    }
}

impl Cx {
    /// The code of a domain wishes in its role from now on, where it runs in the kernel too.
    pub(super) fn seat_wishes(&mut self, now: u64, domain: DomainId) {
        if self.is_further() {
            return;
        }
        let Some(seat) = self.core.domains.of(domain) else { return };
        let edits = seat.role.graphs.wishes();
        seat.wishes.here.get_or_insert_default();
        seat.wishes.tell(edits, edits);
        if edits != 0 {
            self.control.wishing.seat(domain, now);
        }
    }

    /// What code has wished for in a role as that was until now: before its domain has the role as it is.
    pub(super) fn settle_wishes(&mut self, domain: DomainId) {
        let Cx { core, control, .. } = self;
        control.wishing.settle(domain, &core.domains, &control.roles);
    }

    /// Counts what the code of a domain was refused, in both halves.
    pub(super) fn count_wishes(&mut self, now: u64, domain: DomainId) {
        if let Some(seat) = self.core.domains.by_id(domain) {
            self.control.wishing.count(now, &self.core.name, domain, seat);
        }
    }

    /// The same of one that has ended: those that workers have in common count here.
    pub(super) fn count_last_wishes(&mut self, now: u64, id: DomainId, domain: &Domain) {
        if !self.is_further() {
            self.control.wishing.count(now, &self.core.name, id, domain);
        }
    }
}

impl Node {
    /// Takes what code wishes for, and has of each role one edit done.
    pub(super) fn look_at_wishes(&mut self, turn: &mut Turn<'_>) {
        let Cx { core, control, .. } = &mut self.cx;
        let wishing = &mut control.wishing;
        if turn.now < wishing.next {
            return;
        }
        wishing.take(&core.domains);
        let mut graphs: Option<&mut RunningGraphs> = self.environments.get_mut();
        let mut has_change = |role: &Role| graphs.as_deref_mut().is_none_or(|graphs| graphs.has_change(turn.now, role));
        let begun = wishing.begin(&mut has_change);
        wishing.open(&core.domains, &mut has_change);
        let is_idle = wishing.seats.is_empty() && wishing.list.iter().all(|wished| wished.stands.is_none());
        wishing.next = if is_idle { u64::MAX } else { turn.now + LOOKED_AT };
        turn.out.effects.extend(begun.into_iter().map(|wish| Effect::GraphEdit(Box::new(wish))));
    }

    /// Whether an edit is still to be done: the code that has wished for it is there, and its role has this edit. If the role has changed
    /// otherwise, it is done by that, later.
    pub fn check_wished(&self, wish: &WishedEdit) -> Result<(), GraphRefusal> {
        let role = self.cx.core.domains.by_id(wish.domain).map(|domain| &domain.role);
        let has_it = |role: &&Arc<Role>| role.name == wish.role.name && role.graphs.edit(wish.number) == wish.edit();
        match role.filter(has_it) {
            Some(role) if *role == wish.role => Ok(()),
            Some(_) => Err(GraphRefusal::new(Error::Again, "the role has changed meanwhile".to_owned())),
            None => {
                let why = "the code that has wished for it has gone, or its role has no such edit any more";
                Err(GraphRefusal::new(Error::Denied, why.to_owned()))
            }
        }
    }

    /// The answer to [`Effect::GraphEdit`], which took so many nanoseconds.
    pub fn edited(&mut self, turn: &mut Turn<'_>, wish: &WishedEdit, result: Result<(), GraphRefusal>, took: u64) {
        if let Some(domain) = self.cx.core.domains.of(wish.domain) {
            domain.charge_steps(turn.now, took);
        }
        let Some(why) = self.cx.control.wishing.over(wish, result) else { return };
        let edit = wish.edit().map_or("", |edit| &*edit.name);
        tracing::warn!(
            event = "graph",
            node = self.cx.core.name,
            role = wish.role.name,
            edit,
            why = %clean::shown(&why),
            "an edit that capsules wish for cannot be done; further refusals are counted (anode graph show)"
        );
    }

    /// The same where there is no time for it.
    pub fn edited_in_vain(&mut self, turn: &mut Turn<'_>, wish: &WishedEdit, why: &str) {
        self.edited(turn, wish, Err(GraphRefusal::new(Error::Again, why.to_owned())), 0);
    }

    /// What has become of the edits of a graph that code may wish for.
    pub(super) fn edits_of(&self, graph: &str, role: &str) -> Vec<EditStatus> {
        let role = self.cx.control.roles.iter().find(|known| known.name == role);
        let edits = role.into_iter().flat_map(|role| role.graphs.named.iter().filter(|edit| edit.graph == graph));
        edits.map(|edit| self.cx.control.wishing.status(role.map_or("", |role| &role.name), edit)).collect()
    }
}

#[cfg(test)]
mod tests;
