//! From source text to code: the whole front end in one call.

use crate::code::{CODE_MAX, Code, DEFINITIONS_MAX};
use crate::diagnostic::Diagnostic;
use crate::resolve;
use crate::source::Sources;
use crate::span::Span;
use crate::syntax::ast::{DefinitionKind, Expr, ExprKind};
use crate::syntax::{self, Parsed};
use crate::types;
use crate::warn;

/// What is known of a program.
#[derive(Debug)]
pub struct Checked {
    /// Its code, if nothing is wrong.
    pub code: Option<Code>,
    /// Name and type of every function and value at the top, in order; empty if something is wrong.
    pub types: Vec<(String, String)>,
    /// Everything that is wrong.
    pub diagnostics: Vec<Diagnostic>,
    /// What is right and does not happen as it is written.
    pub warnings: Vec<Diagnostic>,
}

/// Checks a program.
pub fn check(source: &str) -> Checked {
    check_parsed(syntax::parse(source))
}

/// Checks a program of any files. Each is read by itself, so that none closes what another one left open.
pub fn check_sources(sources: &Sources) -> Checked {
    check_parsed(parse_sources(sources))
}

/// Checks a program whose last file is a first call, behind its head: `fun first'() = ` and a call, of which a chunk is
/// made and nothing evaluated but its arguments.
pub fn check_first_call(sources: &Sources) -> Checked {
    let mut parsed = parse_sources(sources);
    let last = sources.parts().last().unwrap_or_default();
    let inside = |span: Span| span.start as usize >= last.start;
    let wrong = |span| {
        let what = Diagnostic::new(span, "this is no call", "expected one call of a function");
        what.hint(
            "a first call is a function's name and its arguments, such as ping(hd thisHost(), getHostByName(\"far\"))",
        )
    };
    let said = parsed.diagnostics.iter().any(|diagnostic| inside(diagnostic.span));
    let own: Vec<Span> = parsed.program.definitions.iter().map(|it| it.span).filter(|span| inside(*span)).collect();
    let body = match parsed.program.definitions.last_mut().map(|definition| &mut definition.kind) {
        Some(DefinitionKind::Fun { body, .. }) => Some(body),
        _ => None,
    };
    match (own.as_slice(), body) {
        _ if said => {}
        ([_], Some(body)) => {
            let body = inner(body);
            match std::mem::replace(&mut body.kind, ExprKind::Error) {
                ExprKind::Call(name, arguments) => body.kind = ExprKind::Chunk(name, arguments),
                _ => parsed.diagnostics.push(wrong(body.span)),
            }
        }
        (spans, _) => parsed.diagnostics.push(wrong(spans.last().copied().unwrap_or(Span::NOWHERE))),
    }
    check_parsed(parsed)
}

/// What stands in parentheses.
fn inner(expr: &mut Expr) -> &mut Expr {
    match expr {
        Expr { kind: ExprKind::Paren(within), .. } => inner(within),
        other => other,
    }
}

fn parse_sources(sources: &Sources) -> Parsed {
    let mut parts = sources.parts().map(|part| syntax::parse_part(sources.text(), part));
    let mut all = parts.next().unwrap_or_else(|| syntax::parse(""));
    for part in parts {
        all.program.definitions.extend(part.program.definitions);
        all.diagnostics.extend(part.diagnostics);
        all.tokens.extend(part.tokens);
        all.comments.extend(part.comments);
    }
    all
}

/// Checks a program that has been parsed.
pub fn check_parsed(parsed: Parsed) -> Checked {
    let Parsed { program, mut diagnostics, .. } = parsed;
    let resolved = resolve::resolve(&program, &mut diagnostics);
    let mut types = Vec::new();
    if resolved.definitions.len() <= DEFINITIONS_MAX {
        let inferred = types::infer(&resolved, &mut diagnostics);
        let named = resolved.definitions.iter().zip(&resolved.notes).zip(inferred.types);
        let named = named.filter(|((_, note), _)| note.top);
        types = named.map(|((definition, _), kind)| (definition.name.to_string(), kind)).collect();
    }
    let mut code = None;
    if diagnostics.is_empty() {
        let whole = program.definitions.last().map_or(Span::NOWHERE, |definition| definition.span);
        match Code::new(resolved.definitions) {
            Ok(found) if found.write().len() <= CODE_MAX => code = Some(found),
            Ok(_) => {
                let label = format!("a code has at most {CODE_MAX} bytes");
                diagnostics.push(Diagnostic::new(whole, "the program is too large", label));
            }
            Err(error) => diagnostics.push(Diagnostic::new(whole, error.to_string(), "up to here at the latest")),
        }
    }
    if code.is_none() {
        types.clear();
    }
    let warnings = if diagnostics.is_empty() { warn::warnings(&program) } else { Vec::new() };
    Checked { code, types, diagnostics, warnings }
}
