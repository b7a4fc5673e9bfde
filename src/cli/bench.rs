//! `anode bench`: executes `anode-bench`, the program of the measurements, with the same arguments.
//!
//! So a node links nothing that only measures. The program stands beside this one, where a build leaves both.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::sys::process;

/// The program of the measurements.
const PROGRAM: &str = "anode-bench";

/// Arguments of `anode bench`: those of the other program, with its `--help`.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(super) struct Args {
    /// A benchmark and what it is told: `anode bench --help` says more
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Becomes the other program.
pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let path = process::beside(PROGRAM).unwrap_or_else(|_| PathBuf::from(PROGRAM));
    // What it says of itself are the words that were typed.
    let error = Command::new(&path).arg0("anode").arg("bench").args(args.words).exec();
    Err(refusal(&path, &error))
}

fn refusal(path: &Path, error: &std::io::Error) -> anyhow::Error {
    anyhow::anyhow!(
        "bench is the program {PROGRAM}, and {} cannot be executed ({error}): build it by `cargo build --release -p {PROGRAM}` and put it \
         beside anode",
        path.display()
    )
}
