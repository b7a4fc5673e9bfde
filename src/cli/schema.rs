//! `anode schema`: what the JSON is made of that commands print of a node.

use clap::builder::PossibleValuesParser;
use model::schema::{ALL, Described};
use std::process::ExitCode;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Of what; without it the names are listed, with the commands that print each with --json
    #[arg(value_parser = PossibleValuesParser::new(ALL.iter().map(|described| described.name)), hide_possible_values = true)]
    name: Option<String>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    for Described { name, commands, schema } in ALL {
        match &args.name {
            None => crate::say!("{name:14} {}", commands.join(", ")),
            Some(wanted) if wanted == name => crate::say!("{}", serde_json::to_string_pretty(&schema())?),
            Some(_) => {}
        }
    }
    Ok(ExitCode::SUCCESS)
}
