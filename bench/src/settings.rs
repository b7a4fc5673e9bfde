//! Settings of a benchmark: its rounds, and the CPUs it uses.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::Error;
use super::place::Cpus;

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

    /// The same with so many rounds at most, since each takes long.
    pub(crate) fn at_most(&self, rounds: usize) -> Settings {
        Settings { round_count: self.round_count.min(rounds), ..self.clone() }
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

    /// Generator and gateway on two CPUs, whatever else is measured on one.
    pub(crate) fn apart(&self) -> Cpus {
        Settings { two_cpus: true, ..self.clone() }.cpus()
    }

    /// Whether there are two.
    pub(crate) fn two_cpus_there(&self) -> bool {
        let Cpus { generator, gateway } = self.apart();
        generator != gateway
    }

    /// Settings for tests: `rounds` rounds and no deadline.
    #[cfg(test)]
    pub(crate) fn quiet(rounds: usize) -> Settings {
        Settings { round_count: rounds, first_round: 0, quick: true, deadline: None, two_cpus: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
