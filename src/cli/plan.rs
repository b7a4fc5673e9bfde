//! `anode plan`: check and format PLAN programs, and inject them into a network.
//!
//! `check` and `fmt` work on files, `run` evaluates here, `inject` has a node evaluate. `docs/plan.md` has the
//! language.

mod check;
mod inject;
mod say;

use super::attach::Place;
use crate::manage::client::Control;
use anyhow::{Context as _, Result};
use clap::Subcommand;
use std::path::PathBuf;
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
        /// The source files, each a program; `a.plan,b.plan` is one of two files; `-` is standard input.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Print JSON: an array with an object for each program.
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
    /// Evaluate an expression here, without a node, and print its value.
    Run(inject::RunArgs),
    /// Have a node evaluate a call, and print what comes back.
    Inject(Box<inject::InjectArgs>),
    /// Make a WebAssembly module a service of a running node.
    LoadService {
        /// The service's name.
        name: String,
        /// Its type, such as '(int, host) -> int'.
        #[arg(value_name = "TYPE")]
        signature: String,
        /// The module, or its text form.
        module: PathBuf,
        #[command(flatten)]
        place: Place,
    },
    /// Take a service out of a running node that was loaded.
    UnloadService {
        /// The service's name.
        name: String,
        #[command(flatten)]
        place: Place,
    },
}

/// Runs one verb.
pub(crate) fn run(arguments: Args) -> Result<ExitCode> {
    let good = match arguments.verb {
        Verb::Check { files, json } => check::check_files(&files, json)?,
        Verb::Fmt { files, check } => check::format_files(&files, check)?,
        Verb::Run(arguments) => return Ok(inject::run(&arguments)?.status()),
        Verb::Inject(arguments) => return Ok(inject::inject(&arguments)?.status()),
        Verb::LoadService { name, signature, module, place } => {
            let module = std::fs::read(&module).with_context(|| module.display().to_string())?;
            Control::connect(&place.dir()?)?.load_service(&name, &signature, &module)?;
            true
        }
        Verb::UnloadService { name, place } => {
            Control::connect(&place.dir()?)?.unload_service(&name)?;
            true
        }
    };
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
