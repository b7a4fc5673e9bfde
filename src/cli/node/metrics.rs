//! `anode node metrics`: the counters of a node as text for Prometheus, to standard output or to a file for node_exporter.

use crate::manage::client::{Control, run_dir};
use anyhow::Context as _;
use model::Ask;
use model::status::Metrics;
use std::path::PathBuf;

/// What is to be printed, and where.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The node's name, or its run directory
    node: String,
    /// In the classic text format, not in that of OpenMetrics
    #[arg(long)]
    classic: bool,
    /// Write a file for node_exporter's textfile collector, whole or not at all, in the classic format
    #[arg(long, value_name = "PATH.prom", value_parser = textfile)]
    textfile: Option<PathBuf>,
}

/// The collector reads no file that is called otherwise.
fn textfile(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    let is_read = path.extension().is_some_and(|extension| extension == "prom");
    if is_read { Ok(path) } else { Err("node_exporter reads only files whose names end with .prom".into()) }
}

/// Prints them, or writes the file.
pub(super) fn print(args: &Args) -> anyhow::Result<()> {
    let classic = args.classic || args.textfile.is_some();
    let metrics: Metrics = Control::connect(&run_dir(&args.node))?.asked(&Ask::Metrics { classic })?;
    if metrics.left_out > 0 {
        crate::say_err!("{} series of {} found no place", metrics.left_out, metrics.left_out + metrics.series);
    }
    match &args.textfile {
        Some(path) => crate::cli::replace(path, metrics.text.as_bytes()).with_context(|| path.display().to_string())?,
        None => crate::say!("{}", metrics.text.trim_end()),
    }
    Ok(())
}
