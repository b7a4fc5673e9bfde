//! A classifier: taught protocols, rules with owners, and the rules that hold for a packet. Example: a thousand rules, of which the
//! first that holds is wanted.
//!
//! Teaching and changes of rules are control's, between packets; none of them stops packets or makes others' flows unknown. A change
//! is written in a log, and a known flow is confirmed by looking only at what was changed since ([`Classifier::answer`]).

mod rules;

use super::group::{Group, Look};
use super::known::KnownFlows;
use super::pattern::Case;
use super::protocol::ProtocolId;
use super::protocols::Protocols;
use super::token::Mistake;
use super::ways::{FlowKey, Reading, Ways};
use std::collections::VecDeque;

/// Cases of all rules.
pub const ENTRIES_MAX: usize = 1 << 20;
/// Changes of rules that are looked through for one flow; a flow that has missed more is classified again.
pub const CHANGES_MAX: usize = 128;

/// Which of the rules that hold are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MatchMode {
    /// The first in their order.
    #[default]
    First,
    /// All.
    All,
    /// Those whose fields are worth most together.
    Best,
}

/// A rule's number, as long as it is there.
pub type RuleNumber = u32;

/// A case of a rule, and where it is.
#[derive(Debug)]
struct PlacedCase {
    case: Case,
    way: u32,
    group: u32,
    entry: u32,
    fails: Vec<u32>,
}

#[derive(Debug)]
struct Ruled<T> {
    order: u32,
    owner: T,
    cases: Vec<PlacedCase>,
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Added(RuleNumber),
    Removed(RuleNumber),
}

/// What was read of a packet, for [`Classifier::answer`] a little later.
#[derive(Clone, Copy, Debug, Default)]
pub struct Glance {
    reading: Reading,
    key: FlowKey,
    hash: u64,
    /// Whether it begins as all packets do, and whether its flow can be known.
    is_packet: bool,
    has_key: bool,
}

/// Rules and flows of one place.
#[derive(Debug)]
pub struct Classifier<T> {
    protocols: Protocols,
    root: ProtocolId,
    mode: MatchMode,
    ways: Ways,
    groups: Vec<Option<Group>>,
    rules: Vec<Option<Ruled<T>>>,
    free: Vec<RuleNumber>,
    entries: usize,
    flows: KnownFlows,
    changes: VecDeque<Change>,
    /// How many changes there were, over which it may begin again.
    changed: u32,
    found: Vec<(u32, u64)>,
    rules_found: Vec<RuleNumber>,
}

impl<T> Classifier<T> {
    /// A classifier of packets that begin with the protocol `root`, which knows so many flows. `secret`: nobody's who sends packets.
    pub fn new(
        protocols: Protocols,
        root: &str,
        mode: MatchMode,
        flows: usize,
        secret: u64,
    ) -> Result<Classifier<T>, String> {
        let id = protocols.id(root).ok_or_else(|| protocols.unknown(root))?;
        let header = protocols.one(id).ok_or_else(|| protocols.unknown(root))?.clone();
        Ok(Classifier {
            root: id,
            mode,
            ways: Ways::new(id, header),
            protocols,
            groups: Vec::new(),
            rules: Vec::new(),
            free: Vec::new(),
            entries: 0,
            flows: KnownFlows::new(flows, secret),
            changes: VecDeque::with_capacity(CHANGES_MAX),
            changed: 0,
            found: Vec::new(),
            rules_found: Vec::new(),
        })
    }

    /// What is taught.
    pub fn protocols(&self) -> &Protocols {
        &self.protocols
    }

    /// What every packet begins with.
    pub fn root(&self) -> ProtocolId {
        self.root
    }

    /// Which rules are wanted.
    pub fn mode(&self) -> MatchMode {
        self.mode
    }

    /// Teaches all protocols of a text, or none.
    pub fn teach(&mut self, text: &str) -> Result<Vec<String>, Mistake> {
        self.protocols.teach(text)
    }

    /// Forgets a protocol that no rule and no other protocol needs.
    pub fn unteach(&mut self, name: &str) -> Result<(), String> {
        let id = self.protocols.id(name).ok_or_else(|| self.protocols.unknown(name))?;
        if id == self.root {
            return Err(format!("every packet begins with {name}: it cannot be forgotten"));
        }
        let names = |pattern: &super::pattern::Pattern| pattern.way.contains(&id);
        let uses = |case: &PlacedCase| names(&case.case.holds) || case.case.fails.iter().any(names);
        let rules = self.rules().filter(|(_, rule)| rule.cases.iter().any(uses)).count();
        if rules > 0 {
            return Err(format!("{rules} rules name {name}, or what is behind it: remove them first"));
        }
        self.protocols.unteach(name)
    }

    fn rules(&self) -> impl Iterator<Item = (RuleNumber, &Ruled<T>)> {
        self.rules.iter().enumerate().filter_map(|(at, rule)| Some((at as u32, rule.as_ref()?)))
    }

    /// The numbers of all rules and their owners.
    pub fn owners(&self) -> impl Iterator<Item = (RuleNumber, &T)> {
        self.rules().map(|(number, rule)| (number, &rule.owner))
    }

    /// Whose a rule is.
    pub fn owner(&self, number: RuleNumber) -> Option<&T> {
        self.rules.get(number as usize)?.as_ref().map(|rule| &rule.owner)
    }

    /// Its place among all, and its cases.
    pub fn cases(&self, number: RuleNumber) -> Option<(u32, impl Iterator<Item = &Case>)> {
        let rule = self.rules.get(number as usize)?.as_ref()?;
        Some((rule.order, rule.cases.iter().map(|case| &case.case)))
    }

    /// Makes trees where rules have become many: of time that is the number of rules', so not while somebody waits.
    pub fn settle(&mut self) {
        self.groups.iter_mut().flatten().for_each(Group::settle);
    }

    /// How many cases of rules are in trees, and how many in tuple space.
    pub fn sizes(&self) -> (usize, usize) {
        self.groups.iter().flatten().map(Group::sizes).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// Reads a packet's headers, for [`Classifier::answer`].
    #[inline]
    pub fn read(&self, bytes: &[u8], glance: &mut Glance) {
        *glance = Glance::default();
        glance.is_packet = self.ways.read(&self.protocols, bytes, &mut glance.reading);
        if glance.is_packet && !self.flows.is_off() {
            glance.has_key = self.ways.key(&glance.reading, bytes, &mut glance.key);
            glance.hash = self.flows.hash(&glance.key);
        }
    }

    /// Asks for the memory that the answer needs if the flow is known.
    #[inline]
    pub fn foresee(&self, glance: &Glance) {
        if glance.has_key {
            self.flows.foresee(glance.hash);
        }
    }

    /// The rules that hold, in their order, as the mode wants them.
    #[inline]
    pub fn find(&mut self, bytes: &[u8]) -> &[RuleNumber] {
        let mut glance = Glance::default();
        self.read(bytes, &mut glance);
        self.answer(&glance, bytes)
    }

    /// The same of a packet that has been read; the rules have not changed since.
    #[inline]
    pub fn answer(&mut self, glance: &Glance, bytes: &[u8]) -> &[RuleNumber] {
        if !glance.is_packet {
            return &[];
        }
        if glance.has_key
            && let Some(at) = self.flows.find(&glance.key, glance.hash)
            && (self.flows.as_of(at) == self.changed || self.confirm(at, &glance.reading, bytes))
        {
            return self.flows.answer(at);
        }
        self.look_up(glance, bytes)
    }

    /// Whether a packet's flow is known, with an answer that is still right.
    pub fn knows(&self, bytes: &[u8]) -> bool {
        let mut glance = Glance::default();
        self.read(bytes, &mut glance);
        let place = if glance.has_key { self.flows.find(&glance.key, glance.hash) } else { None };
        place.is_some_and(|at| self.is_right(at, &glance.reading, bytes))
    }

    /// No change since the answer was found matters to it.
    fn is_right(&self, at: usize, reading: &Reading, bytes: &[u8]) -> bool {
        let missed = self.changed.wrapping_sub(self.flows.as_of(at)) as usize;
        let answer = self.flows.answer(at);
        missed <= self.changes.len()
            && self.changes.iter().rev().take(missed).all(|change| match change {
                Change::Removed(rule) => !answer.contains(rule),
                Change::Added(rule) => self.changes_nothing(*rule, answer, reading, bytes),
            })
    }

    #[cold]
    fn confirm(&mut self, at: usize, reading: &Reading, bytes: &[u8]) -> bool {
        let is_right = self.is_right(at, reading, bytes);
        if is_right {
            self.flows.confirm(at, self.changed);
        }
        is_right
    }

    /// Whether a rule that was added leaves an answer as it is.
    fn changes_nothing(&self, number: RuleNumber, answer: &[RuleNumber], reading: &Reading, bytes: &[u8]) -> bool {
        let rule = |number: RuleNumber| self.rules.get(number as usize).and_then(Option::as_ref);
        let Some(new) = rule(number) else { return true };
        let is_earlier =
            |first: &RuleNumber| rule(*first).is_some_and(|rule| (rule.order, *first) < (new.order, number));
        if self.mode == MatchMode::First && answer.first().is_some_and(is_earlier) {
            return true;
        }
        let look = Look { ways: &self.ways, reading, bytes };
        !new.cases.iter().any(|case| {
            let group = self.groups[case.group as usize].as_ref();
            self.ways.is_on(reading, case.way, case.case.holds.ends)
                && group.is_some_and(|group| group.is_one(case.entry, &look))
        })
    }

    /// Looks the rules through, and writes the flow down.
    #[inline(never)]
    fn look_up(&mut self, glance: &Glance, bytes: &[u8]) -> &[RuleNumber] {
        let reading = &glance.reading;
        let look = Look { ways: &self.ways, reading, bytes };
        let groups = &self.ways.one(reading.way).groups[usize::from(reading.ended)];
        let groups = groups.iter().filter_map(|group| self.groups[*group as usize].as_ref());
        self.rules_found.clear();
        if self.mode == MatchMode::First {
            let mut best = u64::MAX;
            groups.for_each(|group| group.first(&look, &mut best));
            if best != u64::MAX {
                self.rules_found.push(best as u32);
            }
        } else {
            self.found.clear();
            groups.for_each(|group| group.all(&look, &mut self.found));
            wanted(self.mode, &mut self.found, &mut self.rules_found);
        }
        if glance.has_key {
            self.flows.learn(&glance.key, glance.hash, self.changed, &self.rules_found);
        }
        &self.rules_found
    }
}

/// Of cases that hold, with what they are worth and their rules' ranks, the rules that a mode wants.
pub(super) fn wanted(mode: MatchMode, found: &mut Vec<(u32, u64)>, rules: &mut Vec<RuleNumber>) {
    if mode == MatchMode::Best {
        let most = found.iter().map(|(cost, _)| *cost).max().unwrap_or(0);
        found.retain(|(cost, _)| *cost == most);
    }
    found.sort_unstable_by_key(|(_, rank)| *rank);
    found.dedup_by_key(|(_, rank)| *rank);
    if mode == MatchMode::First {
        found.truncate(1);
    }
    rules.extend(found.iter().map(|(_, rank)| *rank as u32));
}
