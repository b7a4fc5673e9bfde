//! Diagnostics: a mistake in a program, its place, and a remedy.
//!
//! Lexer, parser and checker collect diagnostics and go on, so that one run shows every mistake.
//! [`render`] shows them with the line, a caret and a hint:
//!
//! ```text
//! Error: unknown name 'prnt'
//!   --> f.plan:2:7
//!    |
//!  2 |   x + prnt(x)
//!    |       ^^^^ neither defined here nor known to every node
//!    = Help: did you mean 'print'?
//! ```

use crate::source::{Place, Sources};
use crate::span::Span;
use std::fmt::{self, Write as _};

/// Characters of a line that are shown: more are cut off on both sides of the place.
pub const SHOWN_MAX: usize = 96;

/// Characters of what is said of it: types and names can be long.
pub const SAID_MAX: usize = 240;

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

    /// Line and column of the beginning in a program of one file, both from 1; columns count characters.
    pub fn position(&self, source: &str) -> (usize, usize) {
        let sources = Sources::one("", source);
        let place = sources.place(self.span);
        (place.line, place.column)
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.message, self.label)
    }
}

/// What kind of diagnostics these are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The program is wrong.
    Error,
    /// It is right, and something of it does not happen as it is written.
    Warning,
}

/// The mistakes of a program of one file as text for people, in order of their places.
pub fn render(diagnostics: &[Diagnostic], name: &str, source: &str, colour: bool) -> String {
    render_all(diagnostics, &Sources::one(name, source), Severity::Error, colour)
}

/// The same of a program of any files.
pub fn render_all(diagnostics: &[Diagnostic], sources: &Sources, severity: Severity, colour: bool) -> String {
    let mut sorted: Vec<_> = diagnostics.iter().collect();
    sorted.sort_by_key(|diagnostic| (diagnostic.span.start, diagnostic.span.end));
    let mut text = String::new();
    for diagnostic in sorted {
        // Writing into a string does not fail.
        let _ = draw(&mut text, diagnostic, sources, severity, colour);
    }
    text
}

/// A text of at most so many characters.
fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// What is shown of a line, and the characters before the place and under it.
fn window(place: &Place<'_>, length: usize) -> (String, usize, usize) {
    let line: Vec<char> = place.text.chars().map(|c| if c == '\t' { ' ' } else { c }).collect();
    let at = place.column - 1;
    let marked = place.text[place.before..].get(..length).unwrap_or(&place.text[place.before..]).chars().count();
    let first = if line.len() > SHOWN_MAX { at.saturating_sub(SHOWN_MAX / 2) } else { 0 };
    let last = line.len().min(first + SHOWN_MAX);
    let (left, right) = (if first > 0 { "…" } else { "" }, if last < line.len() { "…" } else { "" });
    let shown: String = line.get(first..last).unwrap_or_default().iter().collect();
    let before = at - first + usize::from(first > 0);
    (format!("{left}{shown}{right}"), before, marked.min(last.saturating_sub(at)).max(1))
}

fn draw(
    text: &mut String,
    diagnostic: &Diagnostic,
    sources: &Sources,
    severity: Severity,
    colour: bool,
) -> fmt::Result {
    let paint = |code: &'static str| if colour { code } else { "" };
    let (kind, strong) = match severity {
        Severity::Error => ("Error", paint("\x1b[31;1m")),
        Severity::Warning => ("Warning", paint("\x1b[33;1m")),
    };
    let (faint, plain) = (paint("\x1b[34m"), paint("\x1b[0m"));
    let other = diagnostic.other.as_ref().map(|(span, why)| (*span, why.as_str()));
    let places = [Some((diagnostic.span, diagnostic.label.as_str())), other];
    let lines = places.iter().flatten().map(|(span, _)| sources.place(*span).line).max().unwrap_or(1);
    let width = lines.to_string().len();
    writeln!(text, "{strong}{kind}{plain}: {}", cut(&diagnostic.message, SAID_MAX))?;
    let mut last: Option<(String, usize)> = None;
    for (at, (span, said)) in places.into_iter().flatten().enumerate() {
        let place = sources.place(span);
        let here = (place.file.to_owned(), place.line);
        if at == 0 {
            writeln!(text, "{faint}{:width$}-->{plain} {}:{}:{}", "", place.file, place.line, place.column)?;
            writeln!(text, "{faint}{:width$} |{plain}", "")?;
        } else if last.as_ref().is_some_and(|(file, _)| *file != here.0) {
            writeln!(text, "{faint}{:width$}-->{plain} {}:{}:{}", "", place.file, place.line, place.column)?;
        }
        let (shown, before, marked) = window(&place, (span.end - span.start.min(span.end)) as usize);
        if last.as_ref() != Some(&here) || before + marked > SHOWN_MAX {
            writeln!(text, "{faint}{:width$} |{plain} {}", place.line, shown.trim_end())?;
        }
        let (strong, sign) = if at == 0 { (strong, "^") } else { (faint, "-") };
        let said = cut(said, SAID_MAX);
        writeln!(text, "{faint}{:width$} |{plain} {:before$}{strong}{} {said}{plain}", "", "", sign.repeat(marked))?;
        last = Some(here);
    }
    if let Some(hint) = &diagnostic.hint {
        writeln!(text, "{faint}{:width$} = {plain}Help: {}", "", cut(hint, SAID_MAX))?;
    }
    Ok(())
}
