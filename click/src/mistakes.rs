//! The mistakes that checking finds, each told once.

use crate::diagnostic::Diagnostic;
use crate::span::Span;
use crate::syntax::MISTAKES_MAX;
use std::collections::HashSet;

/// Mistakes, of which no place is blamed twice with the same words.
#[derive(Debug, Default)]
pub(crate) struct Mistakes {
    list: Vec<Diagnostic>,
    known: HashSet<(Span, String)>,
}

impl Mistakes {
    pub(crate) fn add(&mut self, diagnostic: Diagnostic) {
        if !self.is_full() && self.known.insert((diagnostic.span, diagnostic.message.clone())) {
            self.list.push(diagnostic);
        }
    }

    /// So many that no other one is told.
    pub(crate) fn is_full(&self) -> bool {
        self.list.len() >= MISTAKES_MAX
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn into_list(self) -> Vec<Diagnostic> {
        self.list
    }
}
