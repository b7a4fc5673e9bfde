//! `anode bench`: experiments beside plain baselines, in a form that others can repeat. A program of its own, executed
//! by `anode bench`.
//!
//! A benchmark is a line in `BENCHES` and a function that fills a `Report`. What all share is beside this file: rounds in which the
//! variants take turns (`settings`), series and targets (`series`), statistics (`stats`), places and C baselines for gateways
//! (`place`, `gateway`, `burst`, `bench/c`), calls in this process (`micro`), the result as JSON, markdown and plot (`report`), rounds of
//! two builds of anode in turn (`against`), and the node's program, which stands beside this one (`programs`).
//!
//! Ratios of variants measured in turns in one run are the product; absolute figures hold for one machine on one day. All traffic
//! stays on loopback or in own namespaces. The node links nothing of this. docs/bench.md has the reasons.
#![deny(unsafe_code)]

mod against;
mod bowman;
mod burst;
mod capsules;
mod capture;
mod children;
mod cli;
mod compile;
mod desk;
mod dialogue;
mod environment;
mod error;
mod flood;
mod fresh;
mod gateway;
mod graphs;
mod guests;
mod hostile;
mod jail;
mod line;
mod links;
mod method;
mod micro;
mod node;
mod nodeos;
mod operations;
mod overhead;
mod page;
mod paths;
mod place;
mod plain;
mod plan;
mod plot;
mod presence;
mod programs;
mod report;
mod schedule;
mod series;
mod settings;
mod stats;
mod tiers;
mod workers;

use std::process::ExitCode;

use error::Error;
use report::Report;
use series::Row;
use settings::Settings;

fn main() -> ExitCode {
    cli::run()
}

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
        definition: 2,
        run: method::run,
    },
    Bench {
        name: "capsules",
        help: "wasm capsules beside plain C gateways, one capsule taken apart, loading, memory, the simulator",
        definition: 2,
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
        definition: 2,
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
        definition: 2,
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
        name: "links",
        help: "the process that carries a lab's shaped links, beside plain C that forwards by rings",
        definition: 1,
        run: links::run,
    },
    Bench {
        name: "capture",
        help: "the kernel half under a flood while somebody captures, beside nobody",
        definition: 1,
        run: capture::run,
    },
    Bench {
        name: "desk",
        help: "what somebody waits for: the verdict on a program, a lab of fifty nodes up and down",
        definition: 1,
        run: desk::run,
    },
    Bench {
        name: "bowman",
        help: "packets classified by taught protocols and rules, beside a matcher that compares rules one by one",
        definition: 1,
        run: bowman::run,
    },
    Bench {
        name: "graphs",
        help: "graphs of engines: a hop, the IP path, another graph under a flood, the IP router beside Click's program",
        definition: 1,
        run: graphs::run,
    },
    Bench {
        name: "schedule",
        help: "queues between threads (Bowman's figure 8), shares and deadlines of domains, the cost of a decision",
        definition: 1,
        run: schedule::run,
    },
    Bench {
        name: "workers",
        help: "two workers of one node beside two nodes of one, without I/O; a packet handed over; memory of a worker",
        definition: 3,
        run: workers::run,
    },
    Bench {
        name: "operations",
        help: "what operators do with a running node, and what that costs packets: another configuration, and more",
        definition: 1,
        run: operations::run,
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
        definition: 2,
        run: plan::run,
    },
];

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
}
