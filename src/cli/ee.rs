//! `anode ee`: the environments that a running node starts, and starting, stopping and restarting them.

use crate::clean;
use crate::manage::client::{Control, run_dir};
use crate::manage::management::Act;
use clap::Subcommand;
use model::Ask;
use model::domains::{Domains, Environment};
use std::process::ExitCode;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// List the environments of a running node, and how they stand
    Ls {
        /// The node's name, or its run directory
        node: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Start an environment that was stopped, or has ended
    Start(Named),
    /// Stop an environment until somebody starts it, or the node starts anew
    Stop(Named),
    /// Stop an environment and start it again
    Restart(Named),
}

/// One environment.
#[derive(clap::Args)]
struct Named {
    /// The node's name, or its run directory
    node: String,
    /// The environment's name
    name: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.verb {
        Verb::Ls { node, json } => {
            let domains: Domains = Control::connect(&run_dir(&node))?.asked(&Ask::Domains)?;
            if json {
                crate::say!("{}", serde_json::to_string_pretty(&serde_json::to_value(&domains.environments)?)?);
            } else {
                domains.environments.iter().for_each(print);
            }
        }
        Verb::Start(named) => act(&named, Act::Start)?,
        Verb::Stop(named) => act(&named, Act::Stop)?,
        Verb::Restart(named) => act(&named, Act::Restart)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn act(Named { node, name, json: as_json }: &Named, act: Act) -> anyhow::Result<()> {
    let ask = Ask::Environment { name: name.clone(), act };
    let status: Environment = Control::connect(&run_dir(node))?.asked(&ask)?;
    if *as_json {
        crate::say!("{}", serde_json::to_string_pretty(&serde_json::to_value(&status)?)?);
    } else {
        print(&status);
    }
    Ok(())
}

/// One environment, in a line.
fn print(of: &Environment) {
    let Environment { starts, failures, .. } = of;
    let [name, state, role] = [&of.name, &of.state, &of.role].map(|word| clean::shown(word).to_string());
    let pid = of.pid.map(|pid| format!(", process {pid}")).unwrap_or_default();
    let ended = of.ended.as_ref().map(|how| format!("; ended last: {}", clean::shown(how))).unwrap_or_default();
    crate::say!("{name:16} {state:8} in the role {role}{pid}, started {starts} times, failed {failures}{ended}");
}
