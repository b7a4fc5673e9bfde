//! Which flows the kernel is told of as foreign: no rule over taught protocols can hold for them ([`crate::classify::foreign`]).
//!
//! Beside the rules of each port stands a classifier with those rules widened. A packet that no rule has held for is asked of there
//! too, as long as its port has a share left: so many flows in a second are written down at most, whatever comes by other ports.

use crate::classify::foreign::{ForeignFlow, widened};
use crate::classify::taught::classifier::Classifier;
use crate::classify::taught::pattern::Wanted;
use crate::frame::PortId;

/// Nanoseconds between flows of one port that are written down.
const EACH_NS: u64 = 1_000_000;
/// Flows that may come at once.
const AT_ONCE: u64 = 64;

/// A packet that no rule has held for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// No rule can hold for any packet of its flow.
    Flow(ForeignFlow),
    /// Nobody has asked, since too many have come by its port lately.
    Refused,
    /// Nothing is known of others of its flow.
    Unknown,
}

/// The widened rules of ports.
#[derive(Debug, Default)]
pub(super) struct ForeignRules {
    /// By port, once a packet has been asked of. Owners are the rules' places.
    ports: Vec<Option<Classifier<u32>>>,
    /// By port, when the share for what was written down has come back. It outlives the rules.
    back: Vec<u64>,
}

impl ForeignRules {
    /// Whether a port has a share left.
    pub fn has_share(&self, port: PortId, now: u64) -> bool {
        let back = self.back.get(usize::from(port.0)).copied().unwrap_or(0);
        back <= now.saturating_add(AT_ONCE * EACH_NS)
    }

    /// A flow of a port is written down.
    pub fn spend(&mut self, port: PortId, now: u64) {
        if let Some(back) = self.back.get_mut(usize::from(port.0)) {
            *back = (*back).max(now).saturating_add(EACH_NS);
        }
    }

    /// The rules of a port, unless nobody has asked yet.
    pub fn of(&mut self, port: PortId) -> Option<&mut Classifier<u32>> {
        self.ports.get_mut(usize::from(port.0))?.as_mut()
    }

    /// Those of a port are these.
    pub fn begin<'a>(
        &mut self,
        port: PortId,
        mut classifier: Classifier<u32>,
        rules: impl Iterator<Item = (u32, &'a Wanted)>,
    ) {
        let at = usize::from(port.0);
        if self.ports.len() <= at {
            self.ports.resize_with(at + 1, || None);
        }
        if self.back.len() <= at {
            self.back.resize(at + 1, 0);
        }
        rules.for_each(|(slot, wanted)| place(&mut classifier, wanted, slot));
        self.ports[at] = Some(classifier);
    }

    /// A rule has come.
    pub fn put_in(&mut self, port: Option<PortId>, wanted: &Wanted, slot: u32) {
        for (at, classifier) in self.ports.iter_mut().enumerate() {
            if port.is_none_or(|own| usize::from(own.0) == at) {
                classifier.iter_mut().for_each(|it| place(it, wanted, slot));
            }
        }
    }

    /// A rule has gone.
    pub fn take_out(&mut self, slot: u32) {
        for classifier in self.ports.iter_mut().flatten() {
            let number = classifier.owners().find(|(_, owner)| **owner == slot).map(|(number, _)| number);
            if let Some(number) = number {
                classifier.remove(number);
            }
            classifier.settle();
        }
    }

    /// All rules are others.
    pub fn clear(&mut self) {
        self.ports.clear();
    }
}

/// Where a rule finds no place, another one stands that holds for every packet.
fn place(classifier: &mut Classifier<u32>, wanted: &Wanted, slot: u32) {
    let wide = widened(classifier.protocols(), wanted, classifier.root());
    let is_placed = wide.is_some_and(|wide| classifier.add(&wide, slot, slot).is_ok());
    if !is_placed {
        let _ = classifier.add(&Wanted::All(Vec::new()), slot, slot);
    }
    classifier.settle();
}
