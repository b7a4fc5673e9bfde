//! Rounds of a benchmark in fresh processes: `NAME --once ROUND` of this build or another one, which prints its report as JSON.
//! So the layout of one process in memory, which moves some figures by a half, is in one round only.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde::Deserialize;

use super::series::{Key, Series};
use super::{Bench, Error, Settings};

/// What one round of one build printed.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Round {
    pub(crate) bench: String,
    pub(crate) definition: u32,
    pub(crate) environment: Build,
    pub(crate) rows: Vec<OneRow>,
    pub(crate) notes: Vec<String>,
}

/// The build that printed it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Build {
    pub(crate) anode: String,
}

/// A row of one round.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct OneRow {
    pub(crate) variant: String,
    pub(crate) size: Option<u32>,
    pub(crate) regime: String,
    pub(crate) metric: String,
    pub(crate) unit: String,
    /// `None` for what JSON has no number for.
    pub(crate) median: Option<f64>,
}

/// A build and what it is asked for.
pub(crate) struct Turn {
    pub(crate) binary: PathBuf,
    pub(crate) arguments: Vec<String>,
}

impl Turn {
    /// This build, asked for a benchmark.
    pub(crate) fn of_this_build(bench: &Bench, settings: &Settings) -> Result<Turn, Error> {
        let own = std::env::current_exe().map_err(|cause| Error::Start { program: "/proc/self/exe".into(), cause })?;
        Ok(Turn::of(own, bench, settings))
    }

    /// Another one.
    pub(crate) fn of(binary: PathBuf, bench: &Bench, settings: &Settings) -> Turn {
        let mut arguments = vec!["bench".to_owned(), bench.name.to_owned()];
        arguments.extend(settings.quick.then(|| "--quick".to_owned()));
        arguments.extend(settings.two_cpus.then(|| "--two-cpus".to_owned()));
        Turn { binary, arguments }
    }

    /// One round in a fresh process.
    pub(crate) fn round(&self, number: usize) -> Result<Round, Error> {
        let mut command = Command::new(&self.binary);
        command.args(&self.arguments).args(["--once", &number.to_string()]).stdin(Stdio::null());
        let output = command.output().map_err(|cause| Error::Start { program: self.binary.clone(), cause })?;
        let refused = |why| Error::Against { binary: self.binary.clone(), why };
        if !output.status.success() {
            let log = String::from_utf8_lossy(&output.stderr);
            return Err(refused(format!("{}\n{}", output.status, log.trim_end())));
        }
        Round::parse(&output.stdout).map_err(refused)
    }
}

impl Round {
    pub(crate) fn parse(json: &[u8]) -> Result<Round, String> {
        serde_json::from_slice(json).map_err(|error| {
            format!("it prints no report of a round ({error}); is it a build of anode with `bench --once`?")
        })
    }

    pub(crate) fn belongs_to(&self, bench: &Bench) -> Result<(), String> {
        if self.bench != bench.name {
            return Err(format!("it measured {} in the place of {}", self.bench, bench.name));
        }
        if self.definition != bench.definition {
            return Err(format!(
                "its definition of {} is {}, here it is {}: the figures mean different things",
                bench.name, self.definition, bench.definition
            ));
        }
        Ok(())
    }
}

/// The rounds of a benchmark of this build, each in a fresh process.
pub(crate) fn rounds(bench: &Bench, settings: &Settings) -> Result<Series, Error> {
    let turn = Turn::of_this_build(bench, settings)?;
    let mut series = Series::default();
    settings.rounds(bench.name, |round| {
        let done = turn.round(round)?;
        done.belongs_to(bench).map_err(|why| Error::Against { binary: turn.binary.clone(), why })?;
        for OneRow { variant, size, regime, metric, unit, median } in done.rows {
            let known = series.keys().find(|key| key.metric == metric && key.unit == unit);
            // Names of a row, which are few: they are said once and stay.
            let (metric, unit) = match known {
                Some(key) => (key.metric, key.unit),
                None => (&*metric.leak(), &*unit.leak()),
            };
            median.into_iter().for_each(|value| {
                let (variant, regime) = (variant.clone(), regime.clone());
                series.push(Key { variant, size, regime, metric, unit }, value);
            });
        }
        Ok(())
    })?;
    Ok(series)
}
