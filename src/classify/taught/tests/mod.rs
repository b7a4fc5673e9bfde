//! The classifier against a look at each rule, for sets of rules like those of access lists, and at random; its languages; changes while
//! packets pass.

mod changes;
mod languages;
mod oracle;
#[path = "../../../../bench/src/bowman/sets.rs"]
mod sets;

use super::classifier::{Classifier, MatchMode, RuleNumber};
use super::language::Language;
use super::pattern::{HostNames, NoNames};
use super::protocols::Protocols;
use super::text::Vocabulary;
use super::token::Mistake;

/// A classifier of Ethernet frames that knows so many flows.
fn classifier(mode: MatchMode, flows: usize) -> Classifier<()> {
    Classifier::new(Protocols::standard(), "ethernet", mode, flows, 0x5eed).unwrap()
}

/// Adds a rule in either language.
fn add(classifier: &mut Classifier<()>, order: u32, text: &str) -> Result<RuleNumber, String> {
    add_with(classifier, order, text, &mut NoNames)
}

fn add_with(
    classifier: &mut Classifier<()>,
    order: u32,
    text: &str,
    names: &mut dyn HostNames,
) -> Result<RuleNumber, String> {
    let mut known = Vocabulary { protocols: classifier.protocols(), root: classifier.root(), names };
    let read = Language::of(text).read(text, &mut known);
    let wanted = read.map_err(|Mistake { at, what }| format!("{at}: {what}"))?;
    classifier.add(&wanted, order, ())
}
