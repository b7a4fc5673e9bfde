//! Another configuration for a running node: one changed limit of a thousand roles, from the command to its end, while
//! capsules pass.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::client::{Ends, Node};
use super::key;
use crate::place::Scratch;
use crate::report::Report;
use crate::series::{Key, Series, Target};
use crate::{Error, Settings, programs};

/// Roles of the configuration, beside `anyone`.
const ROLES: usize = 1000;

/// Milliseconds that an apply may take until it holds, and packets that it may lose.
const HOLDS_MS: f64 = 50.0;
const LOST: f64 = 0.0;

/// Between two capsules.
const GAP: Duration = Duration::from_micros(200);

/// Applies in one round.
const APPLIED: u64 = 20;
const QUICK_APPLIED: u64 = 5;

const PART: &str = "one changed limit of 1,000 roles";

fn holds() -> Key {
    key(PART, "anode node apply", "time from start to end", "ms")
}

fn lost() -> Key {
    key(PART, "anode node apply", "capsules lost by all of a round", "packets")
}

/// Measures it.
pub(super) fn run(settings: &Settings, report: &mut Report) -> Result<Series, Error> {
    let mut series = Series::default();
    let scratch = Scratch::new()?;
    let (ends, folder, file) = (Ends::new()?, scratch.path(), scratch.path().join("node.toml"));
    let ping = anode::apps::APPS.iter().find(|app| app.title == "ping").and_then(|app| app.bundle().ok());
    let bundle = ping.ok_or_else(|| Error::Guest("ping: no bundle of it".into()))?;
    let text = |limit: u64| ends.configuration(folder, &roles(limit));
    write(&file, &text(1_000_000))?;
    let texts: Vec<String> = (1..=2 * APPLIED).map(|more| text(1_000_000 + more)).collect();
    let node = Node::start(ends, &file, folder, &bundle)?;
    let times = if settings.quick { QUICK_APPLIED } else { APPLIED };
    let mut texts = texts.iter().cycle();
    settings.rounds("configurations", |_| {
        // Code and ways are known before anything is counted: what is lost meanwhile no apply has lost.
        let load = || {
            let load = node.load(bundle.name(), GAP)?;
            while load.came() < 100 {
                std::thread::sleep(GAP);
            }
            Ok::<_, Error>(load)
        };
        load()?.end();
        let load = load()?;
        let (mut spent, warm) = (0.0, load.came());
        for text in texts.by_ref().take(times as usize) {
            write(&file, text)?;
            let begin = Instant::now();
            apply(&file)?;
            spent += begin.elapsed().as_secs_f64() * 1e3;
        }
        let (sent, came) = load.end();
        assert!(came >= warm, "counters grow");
        series.push(holds(), spent / times as f64);
        series.push(lost(), sent.saturating_sub(came) as f64);
        Ok(())
    })?;
    let applied = node.up()?.status()?.configuration.map_or(0, |standing| standing.applied);
    report.note(format!("{applied} configurations were applied; unapplied ones would have failed the run."));
    let name = format!("anode node apply, {PART}, ms");
    report.targets.extend(Target::at_most(name, series.values(&holds()), HOLDS_MS));
    let name = format!("anode node apply, {PART}, capsules lost");
    report.targets.extend(Target::never_above(name, series.values(&lost()), LOST));
    Ok(series)
}

/// A thousand roles, of which one has another limit; and code of anyone is bounded by it too.
fn roles(limit: u64) -> String {
    let role = |number: usize| {
        let limit = if number == ROLES / 2 { limit } else { 1_000_000 };
        format!("[[role]]\nname = \"role-{number}\"\nlimits = {{ packets_per_second = {limit}, state_entries = 64 }}\n")
    };
    let anyone = format!("[[role]]\nname = \"anyone\"\nlimits = {{ packets_per_second = {limit} }}\n");
    (0..ROLES - 1).map(role).chain([anyone]).collect()
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(path, text).map_err(|cause| Error::Write { path: path.into(), cause })
}

fn apply(file: &Path) -> Result<(), Error> {
    let start = |cause| Error::Start { program: "anode".into(), cause };
    let mut command = Command::new(programs::node()?);
    let output = command.args(["node", "apply"]).arg(file).stdin(Stdio::null()).output().map_err(start)?;
    let said = String::from_utf8_lossy(&output.stdout);
    if output.status.success() && said.contains("applied as configuration") {
        return Ok(());
    }
    let why = format!("{said}{}", String::from_utf8_lossy(&output.stderr));
    Err(Error::Node(format!("anode node apply: {why}")))
}
