//! `anode plan`: what authors of PLAN programs do before they send them.
//!
//! Checking shows every mistake of every file and the types of what is right; formatting puts source
//! text into its one form. Both work on files; no node has to run. `docs/plan.md` has the language.

use anyhow::{Context as _, Result};
use clap::Subcommand;
use plan::check::{Checked, check};
use plan::diagnostic::{Diagnostic, render};
use plan::format::format;
use serde_json::{Value, json};
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What follows `anode plan`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Check programs: their form, their names, their types.
    Check {
        /// The source files; `-` is standard input.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Print JSON: an array with an object for each file.
        #[arg(long)]
        json: bool,
    },
    /// Put programs into their canonical form, in place.
    Fmt {
        /// The source files; `-` is standard input, written to standard output.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Write nothing; name the files that are not in canonical form and fail if there are any.
        #[arg(long)]
        check: bool,
    },
}

/// Runs one verb.
pub(crate) fn run(arguments: Args) -> Result<ExitCode> {
    let good = match arguments.verb {
        Verb::Check { files, json } => check_files(&files, json)?,
        Verb::Fmt { files, check } => format_files(&files, check)?,
    };
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn is_input(file: &Path) -> bool {
    file.as_os_str() == "-"
}

fn read(file: &Path) -> Result<String> {
    let text = if is_input(file) { std::io::read_to_string(std::io::stdin()) } else { std::fs::read_to_string(file) };
    text.with_context(|| file.display().to_string())
}

fn complain(file: &Path, source: &str, diagnostics: &[Diagnostic]) {
    let colour = std::io::stderr().is_terminal();
    eprint!("{}", render(diagnostics, &file.display().to_string(), source, colour));
}

/// Whether all files are right.
fn check_files(files: &[PathBuf], json: bool) -> Result<bool> {
    let (mut good, mut values) = (true, Vec::new());
    for file in files {
        let source = read(file)?;
        let checked = check(&source);
        good &= checked.code.is_some();
        if json {
            values.push(describe(file, &source, &checked));
            continue;
        }
        complain(file, &source, &checked.diagnostics);
        for (name, kind) in &checked.types {
            println!("{}: {name} : {kind}", file.display());
        }
    }
    if json {
        println!("{}", Value::from(values));
    }
    Ok(good)
}

fn describe(file: &Path, source: &str, checked: &Checked) -> Value {
    let place = |span: plan::span::Span, text: &str| {
        let at = Diagnostic::new(span, "", "").position(source);
        json!({"line": at.0, "column": at.1, "start": span.start, "end": span.end, "text": text})
    };
    let diagnostic = |diagnostic: &Diagnostic| {
        let mut value = place(diagnostic.span, &diagnostic.label);
        value["message"] = json!(diagnostic.message);
        value["hint"] = json!(diagnostic.hint);
        value["other"] = json!(diagnostic.other.as_ref().map(|(span, why)| place(*span, why)));
        value
    };
    let definition = |(name, kind): &(String, String)| json!({"name": name, "type": kind});
    let octets = checked.code.as_ref().map(|code| code.write());
    json!({
        "file": file.display().to_string(),
        "definitions": checked.types.iter().map(definition).collect::<Value>(),
        "code_bytes": octets.as_ref().map(Vec::len),
        "code": octets.map(|octets| plan::program::Digest::of(&octets).to_string()),
        "diagnostics": checked.diagnostics.iter().map(diagnostic).collect::<Value>(),
    })
}

/// Whether every file could be formatted; with `check`, whether every file is.
fn format_files(files: &[PathBuf], check: bool) -> Result<bool> {
    let mut good = true;
    for file in files {
        let source = read(file)?;
        let formatted = match format(&source) {
            Ok(formatted) => formatted,
            Err(diagnostics) => {
                complain(file, &source, &diagnostics);
                good = false;
                continue;
            }
        };
        match (check, is_input(file)) {
            (true, _) if formatted != source => {
                println!("{}", file.display());
                good = false;
            }
            (true, _) => {}
            (false, true) => std::io::stdout().write_all(formatted.as_bytes())?,
            (false, false) if formatted == source => {}
            (false, false) => super::replace(file, formatted.as_bytes()).with_context(|| file.display().to_string())?,
        }
    }
    Ok(good)
}
