//! A port's frames in the order of its discipline: each is found a class by rules, and waits there until its turn.
//!
//! ```text
//! frame ─▶ rules (taught classifier) ─▶ class ─▶ discipline ─▶ the port's send queue ─▶ socket
//!               of none: the last class            rate, order     a batch at most
//! ```
//!
//! The send queue behind it is kept short, so that what waits does so where the order is made. Where a rate is below that of
//! the link, nothing waits behind it at all.

use super::queue::SendQueue;
use crate::classify::taught::classifier::{Classifier, MatchMode};
use crate::classify::taught::language::Language;
use crate::classify::taught::pattern::{NoNames, Wanted};
use crate::classify::taught::protocols::Protocols;
use crate::classify::taught::text::Vocabulary;
use crate::core::reason::Reason;
use crate::frame::Frame;
use crate::schedule::discipline::{
    ClassCounts, Discipline, DisciplineSpec, Leaving, MakesPolicies, NoRoom, PolicyCounts,
};

/// Flows that a port's classifier knows.
const FLOWS: usize = 4_096;

/// Frames that wait in the send queue of a port whose order is made before it.
const BEHIND_MAX: usize = 32;

/// What a port sorts by.
#[derive(Clone, Debug)]
pub struct SortingSpec {
    /// Its classes.
    pub spec: DisciplineSpec,
    /// Definitions of protocols, beside those that are always known.
    pub protocols: Option<String>,
    /// What its frames begin with.
    pub root: &'static str,
    /// Rules and pcap filters in their order, each with the place of its class.
    pub rules: Vec<(String, usize)>,
}

impl SortingSpec {
    /// What is taught.
    fn taught(&self) -> Result<Protocols, String> {
        let mut protocols = Protocols::standard();
        if let Some(text) = &self.protocols {
            protocols.teach(text).map_err(|mistake| mistake.show("protocols", text))?;
        }
        Ok(protocols)
    }

    /// Reads a rule of a class.
    fn read(&self, rule: &str, class: usize, protocols: &Protocols) -> Result<Wanted, String> {
        let root = protocols.id(self.root).ok_or_else(|| protocols.unknown(self.root))?;
        // Nobody is asked for addresses while ports are opened.
        let mut known = Vocabulary { protocols, root, names: &mut NoNames };
        let wanted = Language::of(rule).read(rule, &mut known);
        wanted.map_err(|mistake| format!("class {}: {}", self.spec.classes[class].name, mistake.show("rule", rule)))
    }

    /// Whose a frame is; or what cannot be put together.
    pub fn classifier(&self, seed: u64) -> Result<Classifier<usize>, String> {
        let protocols = self.taught()?;
        let mut rules = Classifier::new(protocols.clone(), self.root, MatchMode::First, FLOWS, seed)?;
        for (order, (rule, class)) in (0..).zip(&self.rules) {
            let wanted = self.read(rule, *class, &protocols)?;
            rules.add(&wanted, order, *class).map_err(|why| format!("rule '{rule}': {why}"))?;
        }
        rules.settle();
        Ok(rules)
    }
}

/// The classes of a port and what waits in them.
#[derive(Debug)]
pub struct Sorting {
    rules: Classifier<usize>,
    /// The class of what no rule holds for.
    rest: usize,
    discipline: Discipline<Frame>,
    names: Vec<String>,
    /// Where policies of extensions are: at which class, or at the port itself.
    brought: Vec<Option<usize>>,
    /// When the next frame may leave; it is not asked for before.
    due: u64,
}

impl Sorting {
    /// Empty classes; `seed`: nobody's who sends packets.
    pub fn new(sorting: &SortingSpec, seed: u64, policies: &dyn MakesPolicies) -> Result<Sorting, String> {
        let (spec, rules) = (&sorting.spec, sorting.classifier(seed)?);
        let discipline = Discipline::new(spec, seed, policies)?;
        let brought = spec.brought().map(|(class, ..)| class.and_then(|name| spec.place(name))).collect();
        let rest = spec.queues().last().ok_or_else(|| "no class has a queue".to_owned())?;
        let names = spec.classes.iter().map(|class| class.name.clone()).collect();
        Ok(Sorting { rules, rest, discipline, names, brought, due: u64::MAX })
    }

    /// A frame waits in its class; it is given back with the reason if it may not.
    #[inline]
    pub fn push(&mut self, frame: Frame, now: u64) -> Result<(), (Frame, Reason)> {
        let found = self.rules.find(frame.bytes()).first().copied();
        let class = found.and_then(|rule| self.rules.owner(rule)).copied().unwrap_or(self.rest);
        let bytes = frame.len();
        self.discipline.put(class, frame, bytes, now).map_err(|(frame, why)| {
            let reason = match why {
                NoRoom::Full => Reason::QueueFull,
                NoRoom::Early => Reason::EarlyDrop,
            };
            (frame, reason)
        })?;
        // Whoever was to wait for a rate may be behind another class now.
        self.due = 0;
        Ok(())
    }

    /// Frames whose turn it is go on into the send queue, which has few.
    #[inline]
    pub fn feed(&mut self, queue: &mut SendQueue, now: u64) {
        if now < self.due {
            return;
        }
        while queue.len() < BEHIND_MAX {
            match self.discipline.next(now) {
                Leaving::Packet(frame) => {
                    // There is room for it.
                    let _ = queue.push(frame);
                }
                Leaving::At(time) => {
                    self.due = time;
                    return;
                }
                Leaving::Nothing => {
                    self.due = u64::MAX;
                    return;
                }
            }
        }
        self.due = 0;
    }

    /// When a frame may leave that waits for its rate.
    #[inline]
    pub fn due(&self) -> u64 {
        self.due
    }

    /// Frames and bytes that wait.
    pub fn waiting(&self) -> (u32, u64) {
        (self.discipline.packets() as u32, self.discipline.bytes())
    }

    /// Takes all frames that wait.
    pub fn drain(&mut self) -> Vec<Frame> {
        self.due = u64::MAX;
        self.discipline.drain()
    }

    /// The names of classes with queues, and what each has done.
    pub fn counts(&self) -> impl Iterator<Item = (&str, ClassCounts)> {
        self.names.iter().enumerate().filter_map(|(at, name)| Some((&name[..], self.discipline.counts(at)?)))
    }

    /// Policies of extensions, each with the name of its class, or none where it is the port's own.
    pub fn policies(&self) -> impl Iterator<Item = (&str, PolicyCounts)> {
        self.brought.iter().filter_map(|class| {
            let name = class.and_then(|class| self.names.get(class)).map_or("", String::as_str);
            Some((name, self.discipline.policy_counts(*class)?))
        })
    }
}
