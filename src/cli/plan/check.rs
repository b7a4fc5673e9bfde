//! `anode plan check` and `fmt`: files alone, no node has to run.
//!
//! Checking shows every mistake of every file and the types of what is right; formatting puts source text into its one form.

use crate::clean;
use crate::cli::say_json;
use anyhow::{Context as _, Result};
use model::programs::{self, Definition, Place};
use plan::check::{Checked, check_sources};
use plan::diagnostic::{Diagnostic, Severity, render_all};
use plan::format::format;
use plan::source::Sources;
use plan::span::Span;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

fn is_input(file: &Path) -> bool {
    file.as_os_str() == "-"
}

pub(super) fn read(file: &Path) -> Result<String> {
    let text = if is_input(file) { std::io::read_to_string(std::io::stdin()) } else { std::fs::read_to_string(file) };
    text.with_context(|| file.display().to_string())
}

/// The texts of a program of these files.
pub(super) fn sources(files: &[PathBuf]) -> Result<Sources> {
    let mut sources = Sources::default();
    for file in files {
        sources.add(&file.display().to_string(), "", &read(file)?);
    }
    Ok(sources)
}

fn complain(sources: &Sources, diagnostics: &[Diagnostic], severity: Severity) {
    let colour = std::io::stderr().is_terminal();
    // Its colours are control characters, so what it shows of the file is cleaned before.
    let cleaned = sources.shown_as(clean::line, clean::blotted);
    let shown = render_all(diagnostics, &cleaned, severity, colour);
    let _ = std::io::stderr().write_all(shown.as_bytes());
}

/// The files of a program: `a.plan,b.plan` is one of two, unless a file has that very name.
fn program(argument: &Path) -> Vec<PathBuf> {
    match argument.to_str() {
        Some(text) if !is_input(argument) && !argument.exists() => text.split(',').map(PathBuf::from).collect(),
        _ => vec![argument.to_owned()],
    }
}

/// Whether all files are right.
pub(super) fn check_files(files: &[PathBuf], json: bool) -> Result<bool> {
    let (mut good, mut values) = (true, Vec::new());
    for file in files {
        let sources = sources(&program(file))?;
        let checked = check_sources(&sources);
        good &= checked.code.is_some();
        if json {
            values.push(describe(file, &sources, &checked));
            continue;
        }
        complain(&sources, &checked.diagnostics, Severity::Error);
        complain(&sources, &checked.warnings, Severity::Warning);
        for (name, kind) in &checked.types {
            crate::say!("{}: {name} : {kind}", file.display());
        }
    }
    if json {
        say_json(&values)?;
    }
    Ok(good)
}

fn describe(file: &Path, sources: &Sources, checked: &Checked) -> programs::Checked {
    let place = |span: Span, text: &str| {
        let (at, (_, start)) = (sources.place(span), sources.offset(span));
        let end = start as u64 + u64::from(span.end.saturating_sub(span.start));
        let (line, column) = (at.line as u64, at.column as u64);
        Place { file: at.file.to_string(), line, column, start: start as u64, end, text: text.into() }
    };
    let diagnostic = |diagnostic: &Diagnostic| programs::Diagnostic {
        place: place(diagnostic.span, &diagnostic.label),
        message: diagnostic.message.clone(),
        hint: diagnostic.hint.clone(),
        other: diagnostic.other.as_ref().map(|(span, why)| place(*span, why)),
    };
    let definition = |(name, kind): &(String, String)| Definition { name: name.clone(), kind: kind.clone() };
    let bytes = checked.code.as_ref().map(|code| code.write());
    programs::Checked {
        file: file.display().to_string(),
        definitions: checked.types.iter().map(definition).collect(),
        code_bytes: bytes.as_ref().map(|bytes| bytes.len() as u64),
        code: bytes.map(|bytes| plan::program::Digest::of(&bytes).to_string()),
        diagnostics: checked.diagnostics.iter().map(diagnostic).collect(),
        warnings: checked.warnings.iter().map(diagnostic).collect(),
    }
}

/// Whether every file could be formatted; with `check`, whether every file is.
pub(super) fn format_files(files: &[PathBuf], check: bool) -> Result<bool> {
    let mut good = true;
    for file in files {
        let source = read(file)?;
        let formatted = match format(&source) {
            Ok(formatted) => formatted,
            Err(diagnostics) => {
                let sources = Sources::one(&file.display().to_string(), &source);
                complain(&sources, &diagnostics, Severity::Error);
                good = false;
                continue;
            }
        };
        match (check, is_input(file)) {
            (true, _) if formatted != source => {
                crate::say!("{}", file.display());
                good = false;
            }
            (true, _) => {}
            (false, true) => std::io::stdout().write_all(formatted.as_bytes())?,
            (false, false) if formatted == source => {}
            (false, false) => {
                super::super::replace(file, formatted.as_bytes()).with_context(|| file.display().to_string())?
            }
        }
    }
    Ok(good)
}
