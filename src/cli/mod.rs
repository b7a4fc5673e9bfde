//! The command line: `anode NOUN VERB`. One file per noun, one line here.

use std::process::ExitCode;

/// Runs the command line of this process.
pub fn run() -> ExitCode {
    ExitCode::SUCCESS
}
