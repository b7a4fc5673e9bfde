//! `anode schema`: what the JSON is made of that commands print.

use clap::builder::{PossibleValue, PossibleValuesParser};
use model::schema::{ALL, Described};
use std::process::ExitCode;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Of what: a name, or the words of a command; without it the names are listed, with the commands that print each with --json
    #[arg(value_parser = PossibleValuesParser::new(known()), hide_possible_values = true)]
    name: Option<String>,
}

/// All names, and the words of commands: shells offer the names alone.
fn known() -> impl Iterator<Item = PossibleValue> {
    let names = ALL.iter().map(|described| PossibleValue::new(described.name));
    let commands = ALL.iter().flat_map(|described| described.commands).filter(|command| command.contains(' '));
    names.chain(commands.map(|command| PossibleValue::new(*command).hide(true)))
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    for Described { name, commands, schema } in ALL {
        match &args.name {
            None => crate::say!("{name:14} {}", commands.join(", ")),
            Some(wanted) if wanted == name || commands.contains(&wanted.as_str()) => {
                crate::say!("{}", serde_json::to_string_pretty(&schema())?)
            }
            Some(_) => {}
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, CommandFactory as _};

    fn with_json(command: &Command, before: &str, found: &mut Vec<String>) {
        for inner in command.get_subcommands() {
            let name = format!("{before} {}", inner.get_name());
            if inner.get_arguments().any(|argument| argument.get_long() == Some("json")) {
                found.push(name.trim().to_owned());
            }
            with_json(inner, &name, found);
        }
    }

    #[test]
    fn every_command_that_prints_json_has_a_schema_and_every_schema_a_command() {
        let mut found = Vec::new();
        with_json(&super::super::Cli::command(), "", &mut found);
        assert!(found.len() > 50, "{found:?}");
        let described: Vec<_> = ALL.iter().flat_map(|described| described.commands).collect();
        for command in &found {
            let is_of = |of: &&&str| {
                of.strip_prefix(command.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
            };
            assert!(described.iter().any(is_of), "{command}");
        }
        // A report is always JSON.
        found.push("node report".into());
        for of in described {
            assert!(found.iter().any(|command| of.starts_with(command.as_str())), "{of}");
        }
    }
}
