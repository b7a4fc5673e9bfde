//! `anode node ls`: the nodes of this machine, and how they are. Example: two that run, and one that was killed and whose kernel half
//! works on.

use crate::clean;
use crate::cli::attach;
use crate::manage::client::run_places;
use model::Ask;
use model::health::{Health, Known, State};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// For how long they may take to answer, all together.
const PATIENCE: Duration = Duration::from_secs(2);

/// Prints a line of each.
pub(super) fn print(json: bool) -> anyhow::Result<()> {
    let all = known();
    if json {
        crate::say!("{}", serde_json::to_string_pretty(&all)?);
        return Ok(());
    }
    if all.is_empty() {
        let places: Vec<_> = run_places().iter().map(|place| place.display().to_string()).collect();
        crate::say!("no node runs below {}", places.join(" or "));
    }
    for Known { node, run_dir, state, said } in &all {
        let (node, dir) = (clean::shown(node).to_string(), clean::shown(run_dir));
        crate::say!("{node:16} {:11} {dir} {}", super::health::word(*state), clean::shown(said));
    }
    Ok(())
}

/// All of them, by their run directories.
fn known() -> Vec<Known> {
    let end = Instant::now() + PATIENCE;
    let ask = |dir| attach::ask_apart(dir, |control| control.asked::<Health>(&Ask::Health));
    let asked: Vec<_> = attach::running().into_iter().map(|dir| (dir.clone(), ask(dir))).collect();
    let running = asked.into_iter().map(|(dir, answer)| {
        let health = answer.recv_timeout(end.saturating_duration_since(Instant::now()));
        let (state, said) = match health {
            Ok(Ok(health)) => (health.state, worst(&health)),
            Ok(Err(why)) => (State::Unreachable, why.to_string()),
            Err(_) => (State::Unreachable, format!("it has not answered within {} s", PATIENCE.as_secs())),
        };
        of(&dir, state, said)
    });
    let mut all: Vec<_> = running
        .chain(left().iter().map(|dir| {
            let name = name_of(dir);
            let said = format!(
                "does not run, and its kernel half works on: anode node run takes it over, anode node down {name} away"
            );
            of(dir, State::Unreachable, said)
        }))
        .collect();
    all.sort_by(|one, other| one.run_dir.cmp(&other.run_dir));
    all
}

fn of(dir: &Path, state: State, said: String) -> Known {
    Known { node: name_of(dir), run_dir: dir.display().to_string(), state, said }
}

fn name_of(dir: &Path) -> String {
    dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// What the checks say that are as the worst one is; nothing of a node that is healthy.
fn worst(health: &Health) -> String {
    let bad = health.checks.iter().filter(|check| check.state != State::Healthy);
    bad.map(|check| format!("{}: {}", check.name, check.said)).collect::<Vec<_>>().join("; ")
}

/// Run directories of nodes that do not run and have left a kernel half.
fn left() -> Vec<PathBuf> {
    let has_pins = |dir: &Path| std::fs::read_dir(dir.join("bpf")).is_ok_and(|mut pins| pins.next().is_some());
    attach::run_dirs().into_iter().filter(|dir| !attach::runs(dir) && has_pins(dir)).collect()
}
