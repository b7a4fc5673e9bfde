//! `anode node health`: whether all is well with a node, for people, scripts and probes.

use crate::clean;
use crate::manage::client::{Control, run_dir};
use model::Ask;
use model::health::{Health, State};
use std::process::ExitCode;

/// The node did not answer.
const NOT_REACHABLE: u8 = 2;

/// Prints each check, and says how the node is by the exit status.
pub(super) fn print(node: &str, json: bool) -> anyhow::Result<ExitCode> {
    let asked = Control::connect(&run_dir(node)).and_then(|mut control| control.asked::<Health>(&Ask::Health));
    let health = match asked {
        Ok(health) => health,
        Err(why) => {
            if json {
                let (node, not_reachable) = (node.to_owned(), Some(why.to_string()));
                let health = Health { node, state: State::Unreachable, checks: Vec::new(), not_reachable };
                crate::say!("{}", serde_json::to_string_pretty(&health)?);
            }
            crate::say_err!("anode: {why}");
            return Ok(ExitCode::from(NOT_REACHABLE));
        }
    };
    if json {
        crate::say!("{}", serde_json::to_string_pretty(&health)?);
    } else {
        crate::say!("node {} is {}", clean::shown(&health.node), word(health.state));
        for check in &health.checks {
            let (name, said) = (clean::shown(&check.name), clean::shown(&check.said));
            crate::say!("  {:8} {name:15} {:>6} of {:>5} at most: {said}", word(check.state), check.value, check.most);
        }
    }
    Ok(if health.state == State::Healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// How a node is, in a word.
pub(super) fn word(state: State) -> &'static str {
    match state {
        State::Healthy => "healthy",
        State::Degraded => "degraded",
        State::Unreachable => "unreachable",
    }
}
