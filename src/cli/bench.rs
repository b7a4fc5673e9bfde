//! `anode bench NAME`: runs a benchmark, writes its result, prints the table.
//!
//! The exit status is 0 whether or not targets are met: a missed target is a result. 1 says that there is no result, 2 that there is no
//! such benchmark.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;

use crate::bench::{BENCHES, QUICK, ROUNDS, ROUNDS_MIN, Settings};

/// Arguments of `anode bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
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
    /// Folder for NAME.json, NAME.md and NAME.svg
    #[arg(long, value_name = "DIR", default_value = "bench-results")]
    out: PathBuf,
    /// Print the JSON in the place of the table
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Some(name) = &args.name else {
        print!("{}", list());
        return Ok(ExitCode::SUCCESS);
    };
    let Some(bench) = BENCHES.iter().find(|bench| bench.name == name) else {
        eprintln!("anode: there is no benchmark {name}; there are:\n{}", list());
        return Ok(ExitCode::from(2));
    };
    let report = bench.run(&args.settings()).with_context(|| format!("bench {name}"))?;
    let paths = report.write(&args.out)?;
    if args.json {
        print!("{}", report.json());
    } else {
        print!("{}", report.markdown());
        for path in paths {
            eprintln!("wrote {}", path.display());
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl Args {
    fn settings(&self) -> Settings {
        let usual = if self.quick { ROUNDS_MIN } else { ROUNDS };
        Settings {
            round_count: self.rounds.map_or(usual, usize::from),
            quick: self.quick,
            deadline: self.quick.then(|| Instant::now() + QUICK),
            two_cpus: self.two_cpus,
        }
    }
}

fn list() -> String {
    BENCHES.iter().map(|bench| format!("{:12} {}\n", bench.name, bench.help)).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Root {
        #[command(flatten)]
        args: Args,
    }

    fn settings(words: &[&str]) -> Settings {
        Root::try_parse_from(std::iter::once(&"bench").chain(words)).unwrap().args.settings()
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
        assert!(Root::try_parse_from(["bench", "method", "--rounds", "4"]).is_err());
        assert_eq!(settings(&["method", "--rounds", "7"]).round_count, 7);
    }

    #[test]
    fn every_benchmark_is_listed() {
        assert!(BENCHES.iter().all(|bench| list().contains(bench.name)));
    }
}
