//! The two languages in which rules over taught protocols are written. Example: `[ip (src = 10.0.0.0/8) | *]` and `src net 10.0.0.0/8`.

use super::pattern::Wanted;
use super::pcap;
use super::text::{self, Vocabulary};
use super::token::Mistake;

/// The language of a rule's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// That of the paper.
    Rule,
    /// pcap-filter(7).
    Pcap,
}

impl Language {
    /// That of a line in a file of rules: what begins with a bracket is a rule.
    pub fn of(line: &str) -> Language {
        if line.trim_start().starts_with('[') { Language::Rule } else { Language::Pcap }
    }

    /// Reads a rule.
    pub fn read(self, text: &str, known: &mut Vocabulary<'_>) -> Result<Wanted, Mistake> {
        match self {
            Language::Rule => text::rule(text, known),
            Language::Pcap => pcap::filter(text, known),
        }
    }
}
