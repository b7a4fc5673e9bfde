//! `anode plan`: what authors of PLAN programs do, and how programs get into a network.
//!
//! `check` and `fmt` work on files, `run` evaluates here, `inject` has a node evaluate. `docs/plan.md` has the language.

mod check;
mod inject;

use anyhow::Result;
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
    /// Evaluate an expression here, without a node, and print its value.
    Run(inject::RunArgs),
    /// Have a node evaluate a call, and print what comes back.
    Inject(Box<inject::InjectArgs>),
}

/// Runs one verb.
pub(crate) fn run(arguments: Args) -> Result<ExitCode> {
    let good = match arguments.verb {
        Verb::Check { files, json } => check::check_files(&files, json)?,
        Verb::Fmt { files, check } => check::format_files(&files, check)?,
        Verb::Run(arguments) => inject::run(&arguments)?,
        Verb::Inject(arguments) => inject::inject(&arguments)?,
    };
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
