//! `anode bench desk`: how long the commands take that somebody waits for: a verdict on a program, a lab up and down.
//!
//! Each is a process of its own, timed from its start to its end, as a shell would have it; what it says is looked at, so
//! that a refusal is never taken for a fast answer. A lab is a ring of fifty active nodes, with plain links, with links
//! that have a delay, and with a node in each.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anode::sys::process::is_root;

use super::place::Scratch;
use super::programs;
use super::report::Report;
use super::series::{Key, Series, Target};
use super::{Error, Settings};

/// Milliseconds that a verdict may take, and seconds that a lab may take to come up and to go.
const VERDICT_MS: f64 = 200.0;
const UP_S: f64 = 10.0;
const DOWN_S: f64 = 5.0;

/// Nodes of the lab.
const NODES: usize = 50;
/// Times that a program is checked in one round; the round's figure is their mean.
const CHECKED: u32 = 3;
const QUICK_CHECKED: u32 = 1;
/// Rounds take half a minute each.
const ROUNDS: usize = 10;

/// The programs: the smallest and the largest application.
const SOURCES: [(&str, &str); 2] =
    [("ping.c", include_str!("../../apps/ping.c")), ("multicast.c", include_str!("../../apps/multicast.c"))];

/// Ways to check: the kernel's verifier is asked, or not; and what must be said then.
const ASKED: &str = "with the kernel's verdict";
const CHECKS: [(&str, &[&str], &str); 2] =
    [(ASKED, &[], "its verifier goes through"), ("own checks", &["--no-verifier"], "its verifier was not asked")];

/// Labs: links, whether nodes run, and whether there is time for it in a minute.
const LABS: [(&str, &str, bool, bool); 3] = [
    ("plain links", "", false, true),
    ("links with a delay", "delay_ms = 1", false, true),
    ("plain links, a node in each", "", true, false),
];
const UP: &str = "up";
const DOWN: &str = "down";

/// Runs the benchmark.
pub(crate) fn run(settings: &Settings, report: &mut Report) -> Result<(), Error> {
    if !is_root() {
        report.note("SKIPPED: the kernel's verifier and labs need root.");
        return Ok(());
    }
    let settings = &settings.at_most(ROUNDS);
    let (scratch, node) = (Scratch::new()?, programs::node()?);
    let mut all = checks(settings, &node, scratch.path())?;
    all.extend(labs(settings, &node, scratch.path())?);
    for (file, _) in SOURCES {
        let name = format!("anode code check {file}, {ASKED}, ms");
        report.targets.extend(Target::at_most(name, all.values(&check_key(file, ASKED)), VERDICT_MS));
    }
    for (lab, ..) in LABS {
        for (metric, limit) in [(UP, UP_S), (DOWN, DOWN_S)] {
            let name = format!("lab of {NODES} nodes, {lab}, {metric}, s");
            report.targets.extend(Target::at_most(name, all.values(&lab_key(lab, metric)), limit));
        }
    }
    report.rows = all.rows(&[CHECKS[1].0, LABS[0].0]);
    if settings.quick {
        report.note("Quick: no lab with a node in each.");
    }
    Ok(())
}

fn check_key(file: &str, variant: &str) -> Key {
    let regime = format!("code check {file}");
    Key { variant: variant.into(), size: None, regime, metric: "time from start to end", unit: "ms" }
}

fn lab_key(variant: &str, metric: &'static str) -> Key {
    Key { variant: variant.into(), size: None, regime: format!("lab of {NODES} nodes"), metric, unit: "s" }
}

fn checks(settings: &Settings, node: &Path, folder: &Path) -> Result<Series, Error> {
    let mut series = Series::default();
    for (file, text) in SOURCES {
        let path = folder.join(file);
        std::fs::write(&path, text).map_err(|cause| Error::Write { path, cause })?;
    }
    let times = if settings.quick { QUICK_CHECKED } else { CHECKED };
    settings.rounds("checking programs", |_| {
        for (file, _) in SOURCES {
            for (variant, more, verdict) in CHECKS {
                let mut spent = 0.0;
                for _ in 0..times {
                    let mut command = Command::new(node);
                    command.args(["code", "check"]).args(more).arg(file).current_dir(folder);
                    spent += timed(&mut command, verdict)?;
                }
                series.push(check_key(file, variant), spent * 1e3 / f64::from(times));
            }
        }
        Ok(())
    })?;
    Ok(series)
}

fn labs(settings: &Settings, node: &Path, folder: &Path) -> Result<Series, Error> {
    let mut series = Series::default();
    let name = format!("bench{}", std::process::id());
    let _ends = Ending::of(node, &name)?;
    settings.rounds("labs", |_| {
        for (variant, link, nodes, quick) in LABS {
            if settings.quick && !quick {
                continue;
            }
            let file = write(folder, &name, link)?;
            let mut up = Command::new(node);
            up.args(["lab", "up"]).arg(&file).args(nodes.then_some("--nodes"));
            series.push(lab_key(variant, UP), timed(&mut up, &format!("{NODES} links are up"))?);
            let mut down = Command::new(node);
            down.args(["lab", "down", &name]);
            series.push(lab_key(variant, DOWN), timed(&mut down, "nodes removed")?);
        }
        Ok(())
    })?;
    Ok(series)
}

/// The lab's file: a ring.
fn write(folder: &Path, name: &str, link: &str) -> Result<PathBuf, Error> {
    let nodes = (0..NODES).map(|number| format!("nodes.n{number}.active = true\n"));
    let links = (0..NODES).map(|number| {
        let next = (number + 1) % NODES;
        format!("[[links]]\nends = [\"n{number}\", \"n{next}\"]\n{link}\n")
    });
    let text: String =
        std::iter::once(format!("name = \"{name}\"\naddresses = \"auto\"\n")).chain(nodes).chain(links).collect();
    let path = folder.join("ring.toml");
    std::fs::write(&path, text).map_err(|cause| Error::Write { path: path.clone(), cause })?;
    Ok(path)
}

/// Runs a command to its end; gives the seconds, if it has said what it should.
fn timed(command: &mut Command, words: &str) -> Result<f64, Error> {
    let start = |cause| Error::Start { program: "anode".into(), cause };
    let begin = Instant::now();
    let output = command.stdin(Stdio::null()).output().map_err(start)?;
    let took = begin.elapsed().as_secs_f64();
    let said = String::from_utf8_lossy(&output.stdout);
    if output.status.success() && said.contains(words) {
        return Ok(took);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(Error::Node(format!("{command:?} has not said '{words}': {said}{errors}")))
}

/// Takes a lab down that is still up when this is dropped, or when this process is killed.
struct Ending {
    janitor: Child,
}

const JANITOR: &str = r#"trap "" INT TERM HUP; read -r _; exec "$1" lab down "$2" >/dev/null 2>&1"#;

impl Ending {
    fn of(node: &Path, lab: &str) -> Result<Ending, Error> {
        let mut shell = Command::new("sh");
        shell.args(["-c", JANITOR, "sh"]).arg(node).arg(lab).stdin(Stdio::piped()).stdout(Stdio::null());
        let janitor = shell.spawn().map_err(|cause| Error::Start { program: "sh".into(), cause })?;
        Ok(Ending { janitor })
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        drop(self.janitor.stdin.take());
        let _ = self.janitor.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lab_is_a_ring_that_can_be_built() {
        let folder = tempfile::tempdir().unwrap();
        for (_, link, ..) in LABS {
            let ring = anode::lab::Topology::load(write(folder.path(), "bench1", link).unwrap()).unwrap();
            assert_eq!((ring.nodes.len(), ring.links()), (NODES, NODES));
            assert!(ring.nodes.iter().all(|node| node.active && node.interfaces.len() == 2));
        }
    }

    #[test]
    fn what_is_refused_or_says_something_else_is_no_figure() {
        assert!(timed(Command::new("echo").arg("fine"), "fine").unwrap() > 0.0);
        for (program, words) in [("false", ""), ("true", "fine")] {
            let why = timed(&mut Command::new(program), words).unwrap_err().to_string();
            assert!(why.contains(program), "{why}");
        }
    }
}
