//! `anode channel`: by which ways packets reach domains and leave them.

use crate::manage::client::{Control, run_dir};
use clap::Subcommand;
use serde_json::json;
use std::process::ExitCode;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Print all channels of a running node with what has gone through them
    Ls {
        /// The node's name, or its run directory
        node: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Verb::Ls { node, json } = args.verb;
    let channels = Control::connect(&run_dir(&node))?.ask(&json!({"do": "channels"}))?;
    if json {
        println!("{}", serde_json::to_string_pretty(&channels)?);
        return Ok(ExitCode::SUCCESS);
    }
    println!(
        "{:>10}  {:4} {:20} {:24} {:32} {:>12} {:>14} {:>10} {:>12}",
        "id", "kind", "domain", "protocol", "address", "packets", "bytes", "dropped", "in kernel"
    );
    for channel in channels.as_array().into_iter().flatten() {
        let number = |key: &str| channel[key].as_u64().unwrap_or(0);
        let word = |key: &str| channel[key].as_str().unwrap_or("?");
        println!(
            "{:>10}  {:4} {:20} {:24} {:32} {:>12} {:>14} {:>10} {:>12}",
            number("id"),
            word("kind"),
            word("title"),
            word("protocol"),
            word("address"),
            number("packets"),
            number("bytes"),
            number("dropped"),
            channel["in_kernel"].as_u64().map_or(String::new(), |packets| packets.to_string())
        );
    }
    Ok(ExitCode::SUCCESS)
}
