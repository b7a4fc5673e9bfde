//! Invariants of the classifier of taught protocols for any bytes: its three languages, and frames against what they say.

use crate::classify::taught::classifier::{Classifier, MatchMode};
use crate::classify::taught::language::Language;
use crate::classify::taught::pattern::{HostNames, NoNames};
use crate::classify::taught::protocols::Protocols;
use crate::classify::taught::text::Vocabulary;
use crate::classify::taught::token::Mistake;
use std::net::IpAddr;

/// Knows every name, so that fuzzed ones get further.
struct AllNames;

impl HostNames for AllNames {
    fn addresses(&mut self, _: &str) -> Vec<IpAddr> {
        vec![IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2])]
    }
}

/// Mistakes are of the text, and can be shown.
fn checked<T>(read: Result<T, Mistake>, text: &str) -> Option<T> {
    if let Err(mistake) = &read {
        assert!(mistake.at <= text.len() && !mistake.what.is_empty());
        assert!(mistake.show("fuzz", text).contains(&mistake.what));
    }
    read.ok()
}

/// Definitions, rules and a frame, with zeros between them: what is taught and added is searched as by each rule, known or not.
pub fn texts(bytes: &[u8]) {
    let mut parts = bytes.splitn(3, |byte| *byte == 0);
    let mut next = || parts.next().unwrap_or_default();
    let (definitions, rules, frame) = (next(), next(), next());
    for mode in [MatchMode::First, MatchMode::All, MatchMode::Best] {
        let mut classifier =
            Classifier::new(Protocols::standard(), "ethernet", mode, 8, 1).expect("ethernet is taught");
        let before = classifier.protocols().all().count();
        if let Ok(text) = core::str::from_utf8(definitions) {
            let taught = checked(classifier.teach(text), text).unwrap_or_default();
            assert_eq!(classifier.protocols().all().count(), before + taught.len());
        }
        let mut numbers = Vec::new();
        for (order, text) in core::str::from_utf8(rules).unwrap_or_default().lines().take(20).enumerate() {
            let names: &mut dyn HostNames = if order % 2 == 0 { &mut AllNames } else { &mut NoNames };
            let mut known = Vocabulary { protocols: classifier.protocols(), root: classifier.root(), names };
            let read = Language::of(text).read(text, &mut known);
            let Some(wanted) = checked(read, text) else { continue };
            match classifier.add(&wanted, order as u32, ()) {
                Ok(number) => numbers.push(number),
                Err(why) => assert!(!why.is_empty()),
            }
        }
        for _ in 0..2 {
            let each = classifier.find_by_each(frame);
            // Unknown, and known.
            assert_eq!(classifier.find(frame), each);
            assert_eq!(classifier.find(frame), each);
            let trace = classifier.explain(frame);
            assert!(trace.rules.len() == numbers.len() && trace.answer == each);
            classifier.settle();
        }
        for number in numbers {
            assert_eq!(classifier.remove(number), Some(()));
        }
        assert!(classifier.find(frame).is_empty() && classifier.sizes() == (0, 0));
    }
}
