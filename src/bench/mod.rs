//! `anode bench`: experiments beside plain baselines, in a form that others can repeat.
//!
//! A benchmark is a line in `BENCHES` and a function that fills a `Report`. What all share is here and below: rounds in which the
//! variants take turns (`Settings::rounds`), series and targets (`series`), statistics (`stats`), places and C baselines for gateways
//! (`place`, `gateway`, `burst`, `benches/c`), calls in this process (`micro`), the result as JSON, markdown and plot (`report`), and rounds of two builds of anode in turn (`against`).
//!
//! Ratios of variants measured in turns in one run are the product; absolute figures hold for one machine on one day. All traffic
//! stays on loopback or in own namespaces. Nothing of the packet path depends on this module. docs/bench.md has the reasons.

pub(crate) mod against;
mod burst;
mod capsules;
mod children;
mod compile;
mod dialogue;
mod environment;
mod flood;
mod gateway;
mod guests;
mod hostile;
mod jail;
mod line;
mod method;
mod micro;
mod node;
mod nodeos;
mod overhead;
mod paths;
mod place;
mod plan;
mod plot;
mod presence;
mod report;
mod schedule;
mod series;
mod stats;
mod tiers;

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use place::Cpus;
pub(crate) use report::Report;
use series::Row;

/// A benchmark.
pub(crate) struct Bench {
    /// Its name on the command line and of its files.
    pub(crate) name: &'static str,
    /// What it compares, in a line.
    pub(crate) help: &'static str,
    /// Raised whenever a row keeps its name and means something else: figures of different definitions are not compared.
    pub(crate) definition: u32,
    run: fn(&Settings, &mut Report) -> Result<(), Error>,
}

/// All benchmarks.
pub(crate) const BENCHES: &[Bench] = &[
    Bench {
        name: "method",
        help: "the way of measuring itself: equal gateways, and one with a known extra cost",
        definition: 1,
        run: method::run,
    },
    Bench {
        name: "capsules",
        help: "wasm capsules beside plain C gateways, one capsule taken apart, loading, memory, the simulator",
        definition: 1,
        run: capsules::run,
    },
    Bench {
        name: "tiers",
        help: "work in wasm, as compiled at once and as optimised when it is hot, beside native code; how long that takes",
        definition: 1,
        run: tiers::run,
    },
    Bench {
        name: "overhead",
        help: "forwarding on every rung: Linux, XDP by hand, the node's kernel half, wasm in user space",
        definition: 1,
        run: overhead::run,
    },
    Bench {
        name: "nodeos",
        help: "a packet through channels and domains without I/O, few and many of them; how long a domain takes to end",
        definition: 1,
        run: nodeos::run,
    },
    Bench {
        name: "paths",
        help: "ways through the NodeOS beside Linux and plain C: cut-through, an environment in the node, in a process",
        definition: 1,
        run: paths::run,
    },
    Bench {
        name: "presence",
        help: "what a node costs traffic that is not for it: forwarded packets, TCP streams through it and to it",
        definition: 1,
        run: presence::run,
    },
    Bench {
        name: "jail",
        help: "how long an execution environment takes to start in its jail, beside a plain process",
        definition: 1,
        run: jail::run,
    },
    Bench {
        name: "children",
        help: "several copies of a packet: by the user half over AF_XDP, by an XDP broadcast, by tcx clones",
        definition: 1,
        run: children::run,
    },
    Bench {
        name: "schedule",
        help: "queues between threads (Bowman's figure 8), shares and deadlines of domains, the cost of a decision",
        definition: 1,
        run: schedule::run,
    },
    Bench {
        name: "hostile",
        help: "what a neighbour has left of its fair share beside each attack: flood, loop, compile bomb, state, storm, environments",
        definition: 1,
        run: hostile::run,
    },
    Bench {
        name: "plan",
        help: "packets that are programs: the ping packet taken apart, the checker, routing beside plain C",
        definition: 1,
        run: plan::run,
    },
];

/// How long and where to measure.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Rounds of each comparison.
    pub(crate) round_count: usize,
    /// Number of the first: it decides who is first in a round, and what seeds and code names a round has.
    pub(crate) first_round: usize,
    /// Fewer circumstances.
    pub(crate) quick: bool,
    /// No comparison starts another round after this moment; each has at least [`ROUNDS_MIN`], or [`QUICK_ROUNDS_MIN`].
    pub(crate) deadline: Option<Instant>,
    /// Generator and gateway on two CPUs in the place of one.
    pub(crate) two_cpus: bool,
}

/// Rounds of a comparison unless the user says otherwise; enough pairs for an interval.
pub(crate) const ROUNDS: usize = 30;
/// The fewest rounds that make a result.
pub(crate) const ROUNDS_MIN: usize = 5;
/// After this time, `--quick` starts no round beyond the fewest, which are fewer then.
pub(crate) const QUICK: Duration = Duration::from_secs(20);
/// These.
pub(crate) const QUICK_ROUNDS_MIN: usize = 3;

/// Why a benchmark has no result.
#[derive(Debug)]
pub(crate) enum Error {
    /// There is no C compiler.
    NoCompiler { cc: OsString, cause: io::Error },
    /// A baseline did not compile.
    Compile { name: String, log: String },
    /// A file could not be written.
    Write { path: PathBuf, cause: io::Error },
    /// A program could not be started.
    Start { program: PathBuf, cause: io::Error },
    /// No namespace may be made.
    NoNamespace,
    /// Interfaces could not be set up.
    Interfaces(String),
    /// The generator said something unexpected.
    Protocol(String),
    /// A gateway forwards nothing, or not every packet.
    Silent { gateway: String, state: String, log: String },
    /// A gateway forwards something else.
    Wrong { gateway: String, what: String },
    /// A capsule to be measured cannot be built.
    Guest(String),
    /// The CPU clock of a process does not show what the kernel does in its context.
    HiddenTime,
    /// A node does not do what a benchmark asks.
    Node(String),
    /// Another build cannot be compared with.
    Against { binary: PathBuf, why: String },
}

impl Bench {
    /// The benchmark of this name.
    pub(crate) fn of(name: &str) -> Option<&'static Bench> {
        BENCHES.iter().find(|bench| bench.name == name)
    }

    /// Runs it and returns what it found out.
    pub(crate) fn run(&self, settings: &Settings) -> Result<Report, Error> {
        let mut report = Report::new(self.name, self.definition);
        (self.run)(settings, &mut report)?;
        let lossy = |row: &&Row| row.metric == gateway::SHARE && row.summary.min < 1.0;
        let losses: Vec<String> = report.rows.iter().filter(lossy).map(loss_note).collect();
        report.notes.extend(losses);
        Ok(report)
    }
}

fn loss_note(row: &Row) -> String {
    let share = row.summary.min * 100.0;
    format!(
        "{}, {}: only {share:.2} % arrived in the worst round; costs are per arrived packet.",
        row.regime, row.variant
    )
}

impl Settings {
    /// Calls `one` for each round, with the round's number, and shows the progress on a terminal.
    pub(crate) fn rounds(&self, what: &str, mut one: impl FnMut(usize) -> Result<(), Error>) -> Result<(), Error> {
        let bar =
            if io::stderr().is_terminal() { ProgressBar::new(self.round_count as u64) } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} round {pos}/{len}, {eta} left") {
            bar.set_style(style);
        }
        bar.set_message(what.to_owned());
        for round in 0..self.round_count {
            let fewest = if self.quick { QUICK_ROUNDS_MIN } else { ROUNDS_MIN };
            if round >= fewest && self.deadline.is_some_and(|deadline| Instant::now() > deadline) {
                break;
            }
            one(self.first_round + round)?;
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// The CPUs to use: the last this process may run on, and with `two_cpus` the one before for the generator.
    pub(crate) fn cpus(&self) -> Cpus {
        let allowed: Vec<usize> = rustix::thread::sched_getaffinity(None)
            .map(|set| (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
            .unwrap_or_default();
        let gateway = allowed.last().copied().unwrap_or(0);
        let other = allowed.iter().rev().nth(1).copied().unwrap_or(gateway);
        Cpus { generator: if self.two_cpus { other } else { gateway }, gateway }
    }

    /// Settings for tests: `rounds` rounds and no deadline.
    #[cfg(test)]
    pub(crate) fn quiet(rounds: usize) -> Settings {
        Settings { round_count: rounds, first_round: 0, quick: true, deadline: None, two_cpus: false }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::NoCompiler { cc, cause } => {
                write!(
                    f,
                    "the baselines are C and {} does not run ({cause}): install gcc and clang, or set CC",
                    cc.display()
                )
            }
            Error::Compile { name, log } => {
                write!(f, "benches/c/{name}.c does not compile; set CC to a C11 compiler:\n{log}")
            }
            Error::Write { path, cause } => {
                write!(
                    f,
                    "{} cannot be written ({cause}): choose another folder by --out, XDG_CACHE_HOME or TMPDIR",
                    path.display()
                )
            }
            Error::Start { program, cause } => {
                write!(f, "{} does not start ({cause}): is it installed?", program.display())
            }
            Error::NoNamespace => write!(f, "no network namespace can be made here: run as root"),
            Error::Interfaces(log) => write!(f, "the interfaces of the benchmark cannot be set up:\n{log}"),
            Error::Protocol(line) => write!(f, "the generator failed: {line}"),
            Error::Silent { gateway, state, log } => {
                write!(f, "{gateway} does not forward whole bursts ({state}); it printed:\n{log}")
            }
            Error::Wrong { gateway, what } => write!(f, "{gateway} forwards wrongly: {what}"),
            Error::Guest(why) => write!(f, "the benchmark's capsules cannot be built: {why}"),
            Error::HiddenTime => write!(
                f,
                "the kernel books the time of softirqs apart from processes, or others took the CPU: use a quiet machine \
                 and a kernel without CONFIG_IRQ_TIME_ACCOUNTING"
            ),
            Error::Node(why) => write!(f, "a node of the benchmark failed: {why}"),
            Error::Against { binary, why } => write!(f, "no round of {}: {why}", binary.display()),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_have_help() {
        for (i, bench) in BENCHES.iter().enumerate() {
            assert!(!bench.help.is_empty());
            assert!(BENCHES[..i].iter().all(|other| other.name != bench.name));
        }
    }

    #[test]
    fn after_the_deadline_there_are_still_the_fewest_rounds() {
        for (quick, fewest) in [(false, ROUNDS_MIN), (true, QUICK_ROUNDS_MIN)] {
            let settings = Settings { deadline: Some(Instant::now()), quick, ..Settings::quiet(30) };
            let mut count = 0;
            settings
                .rounds("x", |round| {
                    assert_eq!(round, count);
                    count += 1;
                    Ok(())
                })
                .unwrap();
            assert_eq!(count, fewest);
        }
    }

    #[test]
    fn a_round_of_a_fresh_process_has_its_number() {
        let mut seen = Vec::new();
        let settings = Settings { first_round: 7, ..Settings::quiet(1) };
        let rounds = settings.rounds("x", |round| {
            seen.push(round);
            Ok(())
        });
        assert!(rounds.is_ok());
        assert_eq!(seen, [7]);
    }

    #[test]
    fn an_error_ends_the_rounds() {
        let mut count = 0;
        let failed = Settings::quiet(9).rounds("x", |_| {
            count += 1;
            Err(Error::NoNamespace)
        });
        assert!(failed.is_err());
        assert_eq!(count, 1);
    }

    #[test]
    fn one_cpu_is_shared_unless_two_are_asked_for() {
        let cpus = Settings::quiet(1).cpus();
        assert_eq!(cpus.generator, cpus.gateway);
    }
}
