//! Diagnostics: a mistake in a program, its place, and a remedy.
//!
//! Lexer, parser and checker collect diagnostics and go on, so that one run shows every mistake.
//! [`render`] shows them with the line, a caret and a hint; the library ariadne does the drawing.

use crate::span::Span;
use ariadne::{Config, IndexType, Label, Report, ReportKind, Source};
use std::fmt;

/// One mistake in a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Where it is.
    pub span: Span,
    /// What is wrong, in one line.
    pub message: String,
    /// What stands beside the caret: what was expected and what was found.
    pub label: String,
    /// What to do, if that can be said.
    pub hint: Option<String>,
    /// Another place that matters, and why.
    pub other: Option<(Span, String)>,
}

impl Diagnostic {
    /// A mistake at a place.
    pub fn new(span: Span, message: impl Into<String>, label: impl Into<String>) -> Diagnostic {
        Diagnostic { span, message: message.into(), label: label.into(), hint: None, other: None }
    }

    /// Adds what to do.
    pub fn hint(mut self, hint: impl Into<String>) -> Diagnostic {
        self.hint = Some(hint.into());
        self
    }

    /// Adds another place that matters.
    pub fn other(mut self, span: Span, why: impl Into<String>) -> Diagnostic {
        self.other = Some((span, why.into()));
        self
    }

    /// Line and column of the beginning, both from 1; columns count characters.
    pub fn position(&self, source: &str) -> (usize, usize) {
        let start = (self.span.start as usize).min(source.len());
        let before = source.get(..start).unwrap_or(source);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |text| text.chars().count()) + 1;
        (line, column)
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.message, self.label)
    }
}

/// The diagnostics as text for people, in order of their places.
pub fn render(diagnostics: &[Diagnostic], name: &str, source: &str, colour: bool) -> String {
    let mut sorted: Vec<_> = diagnostics.iter().collect();
    sorted.sort_by_key(|diagnostic| (diagnostic.span.start, diagnostic.span.end));
    let mut text = Vec::new();
    for diagnostic in sorted {
        let range = |span: Span| {
            let end = (span.end as usize).min(source.len());
            (name.to_owned(), (span.start as usize).min(end)..end)
        };
        let config = Config::default().with_color(colour).with_index_type(IndexType::Byte);
        let mut report = Report::build(ReportKind::Error, range(diagnostic.span))
            .with_config(config)
            .with_message(&diagnostic.message)
            .with_label(Label::new(range(diagnostic.span)).with_message(&diagnostic.label));
        if let Some((span, why)) = &diagnostic.other {
            report = report.with_label(Label::new(range(*span)).with_message(why));
        }
        if let Some(hint) = &diagnostic.hint {
            report = report.with_help(hint);
        }
        let written = report.finish().write((name.to_owned(), Source::from(source)), &mut text);
        if written.is_err() {
            text.extend_from_slice(diagnostic.to_string().as_bytes());
            text.push(b'\n');
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}
