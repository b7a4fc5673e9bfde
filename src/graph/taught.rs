//! Rules of channels that fixed fields cannot say: of all that hold for a packet, whose it is. Example: of two rules over a protocol
//! behind UDP both hold, and in the mode `all` each channel gets the packet.
//!
//! Each worker knows all rules, in the order in which they came (`claims`), so that all refuse the same. Only the first asks them, as
//! frames that are no channel's by their fixed fields all come there: so it alone has classifiers with flows, one for each
//! port that packets come by. A rule whose protocols are taught no more keeps its place, and holds for nothing until they are again.

mod foreign;

use super::rules::Taker;
use crate::classify::filter::TaughtRule;
use crate::classify::foreign::ForeignFlow;
use crate::classify::rule::Layer;
use crate::classify::shapes::NoPlace;
use crate::classify::taught::classifier::{Classifier, MatchMode, RuleNumber};
use crate::classify::taught::pattern::Wanted;
use crate::classify::taught::protocols::Protocols;
use crate::classify::taught::trace::Trace;
use crate::classify::taught::words::RuleWords;
use crate::frame::PortId;
use crate::nodeos::interface::InChanId;
pub use foreign::Foreign;
use foreign::ForeignRules;
use std::sync::{Arc, LazyLock};

/// Rules of one node.
pub const RULES_MAX: usize = 1024;
/// Cases of all of them.
pub const CASES_MAX: usize = 4096;
/// Flows of one port that are known.
const FLOWS: usize = 4096;
/// Of the widened rules: foreign flows, once written down, come no more.
const WIDE_FLOWS: usize = 1024;

/// What the operator says of classifying.
#[derive(Clone, Debug)]
pub struct Classifying {
    /// Which of the rules that hold get a packet.
    pub mode: MatchMode,
    /// What is taught.
    pub protocols: Arc<Protocols>,
    /// Hosts and constants that rules may name.
    pub words: Arc<RuleWords>,
}

impl Classifying {
    /// These protocols are taught besides those that always are; the text's name is for what is wrong with it.
    pub fn taught(mode: MatchMode, name: &str, text: &str) -> Result<Classifying, String> {
        let standard = Classifying { mode, ..Classifying::default() };
        if text.is_empty() {
            return Ok(standard);
        }
        let mut protocols = (*standard.protocols).clone();
        protocols.teach(text).map_err(|mistake| mistake.show(name, text))?;
        Ok(Classifying { protocols: Arc::new(protocols), ..standard })
    }

    /// The same with what another text teaches.
    pub fn and(&self, name: &str, text: &str) -> Result<Classifying, String> {
        let mut protocols = (*self.protocols).clone();
        protocols.teach(text).map_err(|mistake| mistake.show(name, text))?;
        Ok(Classifying { protocols: Arc::new(protocols), ..self.clone() })
    }
}

impl Default for Classifying {
    fn default() -> Classifying {
        static STANDARD: LazyLock<Arc<Protocols>> = LazyLock::new(|| Arc::new(Protocols::standard()));
        Classifying { mode: MatchMode::First, protocols: STANDARD.clone(), words: Arc::default() }
    }
}

/// A rule in its place.
#[derive(Clone, Debug)]
struct Placed {
    rule: Arc<TaughtRule>,
    taker: Taker,
    order: u32,
    /// As it is looked for; nothing: its protocols are not taught now.
    wanted: Option<Wanted>,
    cases: usize,
}

/// The rules of a node.
#[derive(Debug)]
pub struct TaughtRules {
    classifying: Classifying,
    secret: u64,
    /// By the numbers that classifiers have as owners.
    rules: Vec<Option<Placed>>,
    count: usize,
    cases: usize,
    next: u32,
    /// All rules of all ports: what finds a place here finds one everywhere.
    all: Classifier<u32>,
    /// Those of each port that a packet has come by.
    ports: Vec<Option<Classifier<u32>>>,
    numbers: Vec<RuleNumber>,
    /// Of which flows none of the rules can ever hold.
    foreign: ForeignRules,
}

/// A classifier without rules.
fn empty(classifying: &Classifying, mode: MatchMode, flows: usize, secret: u64) -> Classifier<u32> {
    let new = |protocols| Classifier::new(protocols, "ethernet", mode, flows, secret);
    // Ethernet is taught from the start, and cannot be forgotten as long as anything follows it.
    new((*classifying.protocols).clone())
        .or_else(|_| new(Protocols::standard()))
        .unwrap_or_else(|why| unreachable!("{why}"))
}

impl TaughtRules {
    /// No rules yet. Without the secret nobody can choose flows that collide.
    pub fn with_secret(secret: u64) -> TaughtRules {
        let classifying = Classifying::default();
        let all = empty(&classifying, classifying.mode, 0, secret);
        let (rules, ports, numbers, foreign) = Default::default();
        TaughtRules { classifying, secret, rules, count: 0, cases: 0, next: 0, all, ports, numbers, foreign }
    }

    /// Whether there is no rule.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// What the operator says of them.
    pub fn classifying(&self) -> &Classifying {
        &self.classifying
    }

    /// Whether packets that fixed fields give to a channel are asked of too.
    #[inline]
    pub fn go_to_all(&self) -> bool {
        self.count > 0 && self.classifying.mode == MatchMode::All
    }

    /// A rule is a channel's. Of two that mean the same, the later one would never be the first.
    pub(super) fn add(&mut self, rule: &Arc<TaughtRule>, taker: Taker) -> Result<(), NoPlace> {
        let is_like = |placed: &Placed| placed.rule.is_like(rule);
        if self.classifying.mode == MatchMode::First && self.rules.iter().flatten().any(is_like) {
            return Err(NoPlace::Exists);
        }
        if self.count >= RULES_MAX {
            return Err(NoPlace::Full);
        }
        let (wanted, cases) = self.compile(rule);
        if self.cases + cases > CASES_MAX {
            return Err(NoPlace::Full);
        }
        let slot = self.rules.iter().position(Option::is_none).unwrap_or(self.rules.len());
        let order = self.next;
        if let Some(wanted) = &wanted {
            self.all.add(wanted, order, slot as u32).map_err(|_| NoPlace::Full)?;
            self.foreign.put_in(rule.port, wanted, slot as u32);
            for (port, classifier) in self.ports.iter_mut().enumerate() {
                if rule.port.is_none_or(|own| usize::from(own.0) == port) {
                    classifier.iter_mut().for_each(|it| place(it, wanted, order, slot as u32));
                }
            }
        }
        let placed = Some(Placed { rule: rule.clone(), taker, order, wanted, cases });
        match self.rules.get_mut(slot) {
            Some(free) => *free = placed,
            None => self.rules.push(placed),
        }
        (self.count, self.cases, self.next) = (self.count + 1, self.cases + cases, order.wrapping_add(1));
        Ok(())
    }

    /// The same, as one was there that another worker has added.
    fn compile(&self, rule: &TaughtRule) -> (Option<Wanted>, usize) {
        let wanted = rule.wanted(&self.classifying.protocols, &self.classifying.words).ok();
        let cases = wanted.as_ref().map(|wanted| wanted.cases(self.all.root()).map_or(0, |cases| cases.len()));
        (wanted, cases.unwrap_or(0))
    }

    /// A channel's rule is nobody's.
    pub(super) fn remove(&mut self, channel: InChanId) {
        let Some(slot) = self.slot(channel) else { return };
        let Some(placed) = self.rules.get_mut(slot).and_then(Option::take) else { return };
        (self.count, self.cases) = (self.count - 1, self.cases - placed.cases);
        self.take_out(slot);
        if self.count == 0 {
            // Nobody asks, and what ports have known is of no use.
            self.ports.clear();
            self.foreign.clear();
        }
    }

    /// Nobody looks for the rule in this place any more.
    fn take_out(&mut self, slot: usize) {
        self.foreign.take_out(slot as u32);
        for classifier in core::iter::once(&mut self.all).chain(self.ports.iter_mut().flatten()) {
            let number = classifier.owners().find(|(_, owner)| **owner == slot as u32).map(|(number, _)| number);
            if let Some(number) = number {
                classifier.remove(number);
            }
            classifier.settle();
        }
    }

    /// A channel is another worker's.
    pub(super) fn replace(&mut self, channel: InChanId, after: Taker) {
        if let Some(slot) = self.slot(channel) {
            self.rules[slot].iter_mut().for_each(|placed| placed.taker = after);
        }
    }

    /// Why the rule of a channel holds for nothing, if it does.
    pub fn idle(&self, channel: InChanId) -> Option<String> {
        self.why_idle(self.rules.get(self.slot(channel)?)?.as_ref()?)
    }

    fn why_idle(&self, placed: &Placed) -> Option<String> {
        if placed.wanted.is_some() {
            return None;
        }
        let Classifying { protocols, words, .. } = &self.classifying;
        let why = placed.rule.wanted(protocols, words).err();
        Some(why.map_or_else(|| format!("all rules have {CASES_MAX} cases already"), |why| why.to_string()))
    }

    /// The rules of a port that hold for nothing, each with the reason.
    pub fn all_idle(&self, port: PortId) -> Vec<(Taker, Arc<TaughtRule>, String)> {
        let of_port = self.rules.iter().flatten().filter(|placed| placed.rule.port.is_none_or(|own| own == port));
        of_port.filter_map(|placed| Some((placed.taker, placed.rule.clone(), self.why_idle(placed)?))).collect()
    }

    fn slot(&self, channel: InChanId) -> Option<usize> {
        self.rules.iter().position(|placed| placed.as_ref().is_some_and(|placed| placed.taker.channel == channel))
    }

    /// Whose a packet is, the first in order first, and what of it each is handed.
    pub fn find(&mut self, port: PortId, bytes: &[u8], found: &mut Vec<(Taker, Layer)>) {
        found.clear();
        self.numbers.clear();
        self.of_port(port);
        let Some(Some(classifier)) = self.ports.get_mut(usize::from(port.0)) else { return };
        self.numbers.extend_from_slice(classifier.find(bytes));
        let slots = self.numbers.iter().filter_map(|number| classifier.owner(*number));
        let placed = slots.filter_map(|slot| self.rules.get(*slot as usize)?.as_ref());
        found.extend(placed.map(|placed| (placed.taker, placed.rule.layer)));
    }

    /// Whether none of the rules can ever hold for the flow of a packet that none holds for. A flow that is found is written down.
    pub fn foreign(&mut self, port: PortId, bytes: &[u8], now: u64) -> Foreign {
        let Some(flow) = ForeignFlow::of(bytes) else { return Foreign::Unknown };
        if !self.foreign.has_share(port, now) {
            return Foreign::Refused;
        }
        if self.foreign.of(port).is_none() {
            self.begin_foreign(port);
        }
        let may_hold = self.foreign.of(port).is_none_or(|rules| !rules.find(bytes).is_empty());
        if may_hold {
            return Foreign::Unknown;
        }
        self.foreign.spend(port, now);
        Foreign::Flow(flow)
    }

    #[cold]
    fn begin_foreign(&mut self, port: PortId) {
        let of_port = |placed: &&Placed| placed.rule.port.is_none_or(|own| own == port);
        let rules = self.rules.iter().enumerate().filter_map(|(slot, placed)| {
            let placed = placed.as_ref().filter(of_port)?;
            Some((slot as u32, placed.wanted.as_ref()?))
        });
        self.foreign.begin(port, empty(&self.classifying, MatchMode::First, WIDE_FLOWS, self.secret), rules);
    }

    /// What a packet is, why each rule of its port holds or not, and the channels of those rules.
    pub fn explain(&mut self, port: PortId, bytes: &[u8]) -> (Trace, Vec<(RuleNumber, Taker, Arc<TaughtRule>)>) {
        self.of_port(port);
        let Some(Some(classifier)) = self.ports.get(usize::from(port.0)) else {
            return (self.all.explain(bytes), Vec::new());
        };
        let of = |(number, slot): (RuleNumber, &u32)| {
            let placed = self.rules.get(*slot as usize)?.as_ref()?;
            Some((number, placed.taker, placed.rule.clone()))
        };
        (classifier.explain(bytes), classifier.owners().filter_map(of).collect())
    }

    /// Makes the classifier of a port, when the first packet comes by it.
    #[inline]
    fn of_port(&mut self, port: PortId) {
        if self.count > 0 && !matches!(self.ports.get(usize::from(port.0)), Some(Some(_))) {
            self.begin_port(port);
        }
    }

    #[cold]
    fn begin_port(&mut self, port: PortId) {
        let mut classifier = empty(&self.classifying, self.classifying.mode, FLOWS, self.secret);
        for (slot, placed) in self.rules.iter().enumerate() {
            let Some(placed) = placed.as_ref().filter(|it| it.rule.port.is_none_or(|own| own == port)) else {
                continue;
            };
            if let Some(wanted) = &placed.wanted {
                place(&mut classifier, wanted, placed.order, slot as u32);
            }
        }
        let at = usize::from(port.0);
        if self.ports.len() <= at {
            self.ports.resize_with(at + 1, || None);
        }
        self.ports[at] = Some(classifier);
    }

    /// Words of rules mean something else from now on: those that say something else are looked for anew. Packets that these are not
    /// about keep their places among known flows.
    fn reword(&mut self, words: &Arc<RuleWords>) {
        self.classifying.words = words.clone();
        for slot in 0..self.rules.len() {
            let Some(rule) = self.rules[slot].as_ref().map(|placed| placed.rule.clone()) else { continue };
            let (wanted, cases) = self.compile(&rule);
            let Some(placed) = self.rules[slot].as_mut().filter(|placed| placed.wanted != wanted) else { continue };
            // A host may have more addresses by now than there is room for.
            let fits = self.cases - placed.cases + cases <= CASES_MAX;
            if !fits && placed.wanted.is_some() {
                let rule = &rule.text;
                tracing::warn!(
                    rule,
                    most = CASES_MAX,
                    "a rule holds for nothing: its host has more addresses than all rules together may have cases"
                );
            }
            let (wanted, cases) = if fits { (wanted, cases) } else { (None, 0) };
            self.cases = self.cases - placed.cases + cases;
            (placed.wanted, placed.cases) = (wanted, cases);
            self.take_out(slot);
            self.put_in(slot);
        }
    }

    /// The rule in this place is looked for.
    fn put_in(&mut self, slot: usize) {
        let Some(Placed { rule, wanted: Some(wanted), order, .. }) = self.rules.get(slot).and_then(Option::as_ref)
        else {
            return;
        };
        place(&mut self.all, wanted, *order, slot as u32);
        self.foreign.put_in(rule.port, wanted, slot as u32);
        for (port, classifier) in self.ports.iter_mut().enumerate() {
            if rule.port.is_none_or(|own| usize::from(own.0) == port) {
                classifier.iter_mut().for_each(|it| place(it, wanted, *order, slot as u32));
            }
        }
    }

    /// Other protocols are taught from now on, or another mode holds: all rules are read again.
    pub fn set(&mut self, classifying: Classifying) {
        let is_same = classifying.mode == self.classifying.mode && classifying.protocols == self.classifying.protocols;
        if is_same {
            return self.reword(&classifying.words);
        }
        self.classifying = classifying;
        self.all = empty(&self.classifying, self.classifying.mode, 0, self.secret);
        self.ports.clear();
        self.foreign.clear();
        self.cases = 0;
        for slot in 0..self.rules.len() {
            let Some(rule) = self.rules[slot].as_ref().map(|placed| placed.rule.clone()) else { continue };
            let (wanted, cases) = self.compile(&rule);
            self.cases += cases;
            if let Some(placed) = &mut self.rules[slot] {
                if let Some(wanted) = &wanted {
                    place(&mut self.all, wanted, placed.order, slot as u32);
                }
                (placed.wanted, placed.cases) = (wanted, cases);
            }
        }
    }

    /// The rules that could not be read with these protocols and words, each with the reason.
    pub fn unreadable(&self, classifying: &Classifying) -> Vec<(Taker, Arc<TaughtRule>, String)> {
        // Those that mean nothing already do not lose that.
        let placed = self.rules.iter().flatten().filter(|placed| placed.wanted.is_some());
        let wrong = placed.filter_map(|placed| {
            let why = placed.rule.check(&classifying.protocols, &classifying.words).err()?;
            Some((placed.taker, placed.rule.clone(), why.to_string()))
        });
        wrong.collect()
    }
}

/// A rule that had a place in the table of all has one here.
fn place(classifier: &mut Classifier<u32>, wanted: &Wanted, order: u32, slot: u32) {
    if let Err(why) = classifier.add(wanted, order, slot) {
        tracing::error!(why, "a rule finds no place at a port");
    }
    classifier.settle();
}

#[cfg(test)]
mod tests;
