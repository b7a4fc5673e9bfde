//! `anode node`: run a node in the foreground, and ask a running one.
use clap::Subcommand;
use std::process::ExitCode;
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}
#[derive(Subcommand)]
enum Verb {
    /// x
    X,
}
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.verb {
        Verb::X => Ok(ExitCode::SUCCESS),
    }
}
