//! `anode bench jail`: the time until the program of an execution environment runs in its jail, beside a plain process.
//!
//! A round starts some of each in turn, one at a time, and ends them. A jail is timed until its init process says that the program
//! runs; a plain process until fork and exec are done, which the standard library waits for as well.

use std::io;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::programs;
use super::series::{Key, Series, Target};
use super::{Error, Report, Settings};
use anode::sys::jail::{Group, Identity, Jail, Limits, Paths, Program, Starter};

/// Milliseconds that the start of a jailed environment may take.
const START_MS: f64 = 20.0;

/// Processes started in one round, of each kind.
const STARTED: usize = 20;

const START: &str = "start";
const BOTH: &str = "start and end";
const JAILED: &str = "jailed";
const PLAIN: &str = "plain process";

/// Runs the benchmark.
pub(crate) fn run(settings: &Settings, report: &mut Report) -> Result<(), Error> {
    let name = format!("bench-{}", std::process::id());
    let starter = Starter::new(programs::node()?, &name).map_err(Error::Node)?;
    let mut all = Series::default();
    let mut weaker = Vec::new();
    settings.rounds("starting jails", |_| {
        measure(&mut all, JAILED, || {
            let begin = Instant::now();
            let jailed = starter.start(&jail(), &[])?;
            let started = begin.elapsed();
            jailed.kill();
            jailed.wait();
            weaker = jailed.weaker;
            Ok(started)
        })?;
        measure(&mut all, PLAIN, || {
            let begin = Instant::now();
            let mut command = Command::new("sleep");
            command.arg("1000").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = command.spawn()?;
            let started = begin.elapsed();
            child.kill()?;
            child.wait()?;
            Ok(started)
        })?;
        Ok(())
    })?;
    let label = "start of a jailed environment, ms";
    report.targets.extend(Target::at_most(label, all.values(&key(JAILED, START)), START_MS));
    report.rows = all.rows(&[PLAIN]);
    let weaker: Vec<_> = weaker.iter().map(|part| part.name()).collect();
    report.note(match weaker.is_empty() {
        true => "All parts of the jail are there.".to_owned(),
        false => format!("Weaker on this host: {}.", weaker.join(", ")),
    });
    Ok(())
}

/// Starts and ends some processes: the mean of both, and of the start alone.
fn measure(all: &mut Series, variant: &str, mut one: impl FnMut() -> io::Result<Duration>) -> Result<(), Error> {
    let (begin, mut started) = (Instant::now(), Duration::ZERO);
    for _ in 0..STARTED {
        started += one().map_err(|error| Error::Node(error.to_string()))?;
    }
    let mean = |time: Duration| time.as_secs_f64() * 1e3 / STARTED as f64;
    all.push(key(variant, START), mean(started));
    all.push(key(variant, BOTH), mean(begin.elapsed()));
    Ok(())
}

fn key(variant: &str, metric: &'static str) -> Key {
    Key { variant: variant.into(), size: None, regime: "one at a time".into(), metric, unit: "ms" }
}

/// The jail of an environment in a role that says nothing.
fn jail() -> Jail {
    Jail {
        name: "bench".into(),
        program: Program::File(["sleep", "1000"].map(str::to_owned).to_vec()),
        variables: Vec::new(),
        keep: Vec::new(),
        identity: Identity::Own { first: 60_834, last: 61_183 },
        capabilities: Vec::new(),
        host_network: false,
        paths: Paths::of_environments(),
        seccomp: "ee".into(),
        group: Some(Group { memory_bytes: 73 << 20, tasks: 21, cpu_weight: 100, cpu_percent: 100 }),
        limits: Limits { data_bytes: Some(73 << 20), descriptors: Some(1024), ..Limits::default() },
        required: Vec::new(),
    }
}
