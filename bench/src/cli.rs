//! The command line, of `anode bench NAME` and `anode-bench NAME`: runs a benchmark, writes its result, prints the table.
//!
//! With `--against BINARY` this build and another one run a round each in turn, in fresh processes (`--once`), and the
//! result is their ratio. The exit status is 0 whether or not targets are met: a missed target is a result. 1 says that
//! there is no result, 2 that there is no such benchmark.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;

use clap::Parser;

use crate::settings::{QUICK, ROUNDS, ROUNDS_MIN, Settings};
use crate::{BENCHES, Bench, against};

/// The noun that `anode` is called with. It may stand before the name here too, so that `--against` takes either program.
const NOUN: &str = "bench";

/// Experiments beside plain baselines
#[derive(Debug, Parser)]
#[command(name = "anode-bench", bin_name = "anode bench", version)]
struct Cli {
    #[command(flatten)]
    args: Args,
}

#[derive(Debug, clap::Args)]
struct Args {
    /// The benchmark; without it, all are listed
    name: Option<String>,
    /// Fewest rounds and circumstances: ends within a minute
    #[arg(long)]
    quick: bool,
    /// Rounds of each comparison [default: 30, with --quick 5]
    #[arg(long, value_parser = clap::value_parser!(u16).range(ROUNDS_MIN as i64..=1000))]
    rounds: Option<u16>,
    /// Generator and gateway on two CPUs in the place of one
    #[arg(long)]
    two_cpus: bool,
    /// Compare with another build of anode: one round of each in turn, in fresh processes, paired row by row
    #[arg(long, value_name = "BINARY", conflicts_with = "once")]
    against: Option<PathBuf>,
    /// Run this round alone and print it as JSON: what `--against` asks of both builds
    #[arg(long, value_name = "ROUND", hide = true, conflicts_with = "rounds")]
    once: Option<u16>,
    /// Folder for NAME.json, NAME.md and NAME.svg, or with --against for NAME-against.json and .md
    #[arg(long, value_name = "DIR", default_value = "bench-results")]
    out: PathBuf,
    /// Print the JSON in the place of the table
    #[arg(long)]
    json: bool,
}

/// Runs the command line of this process.
pub(crate) fn run() -> ExitCode {
    anode::clean::end_quietly_without_reader();
    execute(&Cli::parse_from(words(std::env::args_os())).args).unwrap_or_else(|error| {
        anode::say_err!("anode: {error:#}");
        ExitCode::FAILURE
    })
}

/// The words without the noun.
fn words(mut all: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let program = all.next();
    let mut rest = all.peekable();
    rest.next_if(|first| first == NOUN);
    program.into_iter().chain(rest).collect()
}

fn execute(args: &Args) -> anyhow::Result<ExitCode> {
    let Some(name) = &args.name else {
        anode::say!("{}", list());
        return Ok(ExitCode::SUCCESS);
    };
    let Some(bench) = Bench::of(name) else {
        anode::say_err!("anode: there is no benchmark {name}; there are:\n{}", list());
        return Ok(ExitCode::from(2));
    };
    let failed = || format!("bench {name}");
    if let Some(binary) = &args.against {
        let comparison = against::run(bench, &args.settings(), binary).with_context(failed)?;
        args.show(comparison.write(&args.out)?, &comparison.json(), &comparison.markdown());
        return Ok(ExitCode::SUCCESS);
    }
    let report = bench.run(&args.settings()).with_context(failed)?;
    if args.once.is_some() {
        anode::say!("{}", report.json());
        return Ok(ExitCode::SUCCESS);
    }
    args.show(report.write(&args.out)?, &report.json(), &report.markdown());
    Ok(ExitCode::SUCCESS)
}

impl Args {
    fn settings(&self) -> Settings {
        let usual = match (self.once, self.quick) {
            (Some(_), _) => 1,
            (None, true) => ROUNDS_MIN,
            (None, false) => ROUNDS,
        };
        // Rounds that are asked for are all done, and those of two builds: each is a pair, and there are no fewer than make an interval.
        let hurries = self.quick && self.against.is_none() && self.once.is_none() && self.rounds.is_none();
        Settings {
            round_count: self.rounds.map_or(usual, usize::from),
            first_round: self.once.map_or(0, usize::from),
            quick: self.quick,
            deadline: hurries.then(|| Instant::now() + QUICK),
            two_cpus: self.two_cpus,
        }
    }

    /// Prints the result, and where it was written.
    fn show(&self, paths: Vec<PathBuf>, json: &str, markdown: &str) {
        if self.json {
            anode::say!("{json}");
        } else {
            anode::say!("{markdown}");
            paths.iter().for_each(|path| anode::say_err!("wrote {}", path.display()));
        }
    }
}

fn list() -> String {
    BENCHES.iter().map(|bench| format!("{:12} {}\n", bench.name, bench.help)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(words: &[&str]) -> Settings {
        Cli::try_parse_from(std::iter::once(&"bench").chain(words)).unwrap().args.settings()
    }

    #[test]
    fn quick_means_fewer_rounds_and_a_deadline() {
        let quick = settings(&["method", "--quick"]);
        assert!(quick.quick && quick.deadline.is_some() && quick.round_count == ROUNDS_MIN);
        let full = settings(&["method"]);
        assert!(full.deadline.is_none() && full.round_count == ROUNDS);
    }

    #[test]
    fn fewer_than_five_rounds_are_wrong_usage() {
        assert!(Cli::try_parse_from(["bench", "method", "--rounds", "4"]).is_err());
        let seven = settings(&["method", "--quick", "--rounds", "7"]);
        assert_eq!((seven.round_count, seven.deadline), (7, None));
    }

    #[test]
    fn one_round_of_a_pair_has_its_number_and_no_deadline() {
        let once = settings(&["method", "--quick", "--once", "7"]);
        assert_eq!((once.round_count, once.first_round), (1, 7));
        assert!(once.quick && once.deadline.is_none());
        let pairs = settings(&["method", "--quick", "--against", "x"]);
        assert!(pairs.deadline.is_none() && pairs.round_count == ROUNDS_MIN);
        assert_eq!(settings(&["method", "--against", "x"]).round_count, ROUNDS);
        assert!(Cli::try_parse_from(["bench", "method", "--against", "x", "--rounds", "4"]).is_err());
    }

    #[test]
    fn the_noun_may_stand_before_the_name() {
        let given = |line: &str| words(line.split(' ').map(OsString::from));
        for line in ["anode bench method --quick", "anode-bench method --quick"] {
            assert_eq!(given(line)[1..], ["method", "--quick"], "{line}");
        }
        assert!(given("anode bench").len() == 1 && given("anode-bench").len() == 1);
    }

    #[test]
    fn every_benchmark_is_listed() {
        assert!(BENCHES.iter().all(|bench| list().contains(bench.name)));
    }
}
