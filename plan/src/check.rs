//! From source text to code: the whole front end in one call.

use crate::code::{CODE_MAX, Code, DEFINITIONS_MAX};
use crate::diagnostic::Diagnostic;
use crate::resolve;
use crate::span::Span;
use crate::syntax::{self, Parsed};
use crate::types;

/// What is known of a program.
#[derive(Debug)]
pub struct Checked {
    /// Its code, if nothing is wrong.
    pub code: Option<Code>,
    /// Name and type of every function and value at the top, in order; empty if something is wrong.
    pub types: Vec<(String, String)>,
    /// Everything that is wrong.
    pub diagnostics: Vec<Diagnostic>,
}

/// Checks a program.
pub fn check(source: &str) -> Checked {
    check_parsed(syntax::parse(source))
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
    Checked { code, types, diagnostics }
}
