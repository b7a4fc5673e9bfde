//! The result of a comparison of two builds: rows paired by round, as JSON and as a markdown table.
//!
//! Rounds come from [`super::run`] one pair at a time. A row is known by variant, size, regime and metric. Its ratio is this
//! build's value over the other's in the same round, with the statistics of every other ratio ([`super::super::stats`]).

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::super::environment::{Environment, UNKNOWN, command, commit};
use super::super::programs;
use super::super::report::short;
use super::super::series::Ratio;
use super::super::stats::{Summary, interval_95, paired_ratios};
use super::super::{Bench, Error};
use crate::fresh::{OneRow, Round};

/// How far the control may be off before it is said, as a part of one.
const OFF: f64 = 0.02;

/// Rounds of two builds, paired.
#[derive(Debug, Serialize)]
pub(crate) struct Comparison {
    bench: &'static str,
    definition: u32,
    /// Commit of the repository in the current folder.
    commit: String,
    command: String,
    environment: Environment,
    /// This build.
    this: Identity,
    /// The one compared with.
    other: Identity,
    rows: Vec<PairedRow>,
    /// Rows that only this build has.
    only_this: Vec<String>,
    /// Rows that only the other one has.
    only_other: Vec<String>,
    notes: Vec<String>,
    #[serde(skip)]
    collected: Vec<Collected>,
}

/// Which program a build is.
#[derive(Debug, Serialize)]
struct Identity {
    /// SHA-256 of the program's files: a build knows no commit.
    sha256: String,
    /// Version, as it says itself.
    anode: String,
}

/// A row that both builds have.
#[derive(Debug, Serialize)]
struct PairedRow {
    variant: String,
    size: Option<u32>,
    regime: String,
    metric: String,
    unit: String,
    /// Whether no build changes it: its ratio is what this run can tell, and no more.
    control: bool,
    /// Rounds in which both have it.
    rounds: usize,
    this: Summary,
    other: Summary,
    /// This build over the other, round by round; none where the other has only zeros.
    ratio: Option<Ratio>,
}

/// A row while rounds come in.
#[derive(Debug)]
struct Collected {
    row: OneRow,
    this: Vec<f64>,
    other: Vec<f64>,
}

impl Comparison {
    /// Nothing yet; programs are known by the SHA-256 of their files.
    pub(super) fn new(bench: &Bench, this: String, other: String) -> Comparison {
        let identity = |sha256| Identity { sha256, anode: String::new() };
        Comparison {
            bench: bench.name,
            definition: bench.definition,
            commit: commit(),
            command: without_folders(&command()),
            environment: Environment::read(),
            this: identity(this),
            other: identity(other),
            rows: Vec::new(),
            only_this: Vec::new(),
            only_other: Vec::new(),
            notes: Vec::new(),
            collected: Vec::new(),
        }
    }

    /// Takes in a round of both; an error if a row means something else there.
    pub(super) fn add(&mut self, this: &Round, other: &Round) -> Result<(), String> {
        self.this.anode.clone_from(&this.environment.anode);
        self.other.anode.clone_from(&other.environment.anode);
        for note in this.notes.iter().chain(&other.notes) {
            if !self.notes.contains(note) {
                self.notes.push(note.clone());
            }
        }
        for row in &this.rows {
            match other.rows.iter().find(|there| row.name() == there.name()) {
                Some(there) if there.unit != row.unit => {
                    return Err(format!("{}: in {} there, in {} here", row.name(), there.unit, row.unit));
                }
                Some(there) => self.pair(row, there),
                None => remember(&mut self.only_this, row),
            }
        }
        let unknown = |there: &&OneRow| this.rows.iter().all(|row| row.name() != there.name());
        other.rows.iter().filter(unknown).for_each(|row| remember(&mut self.only_other, row));
        Ok(())
    }

    fn pair(&mut self, row: &OneRow, there: &OneRow) {
        let (Some(this), Some(other)) = (row.median, there.median) else { return };
        let at = self.collected.iter().position(|known| known.row.name() == row.name()).unwrap_or_else(|| {
            self.collected.push(Collected { row: row.clone(), this: Vec::new(), other: Vec::new() });
            self.collected.len() - 1
        });
        self.collected[at].this.push(this);
        self.collected[at].other.push(other);
    }

    /// Makes the rows of what was collected.
    pub(super) fn finish(&mut self) {
        self.rows = self.collected.iter().filter_map(Collected::row).collect();
        let off: Vec<String> = self.rows.iter().filter_map(PairedRow::off).collect();
        self.notes.extend(off);
        // What one build had in some rounds only is in the table.
        let known: Vec<String> = self.collected.iter().map(|known| known.row.name()).collect();
        self.only_this.retain(|name| !known.contains(name));
        self.only_other.retain(|name| !known.contains(name));
    }

    /// The comparison as indented JSON.
    pub(crate) fn json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// The comparison as a markdown page.
    pub(crate) fn markdown(&self) -> String {
        let mut page = String::new();
        let e = &self.environment;
        let _ = writeln!(page, "# anode bench {}: this build / another\n", self.bench);
        let at = if self.commit == UNKNOWN { String::new() } else { format!(" at {}", self.commit) };
        let _ = writeln!(page, "`{}`{at}\n", self.command);
        for (name, build) in [("This build", &self.this), ("The other", &self.other)] {
            let _ = writeln!(page, "{name}: anode {}, SHA-256 {:.16}.\n", build.anode, build.sha256);
        }
        let _ = writeln!(page, "Linux {}; {}, {} cores; load {}\n", e.kernel, e.cpu, e.cores, e.load);
        self.write_rows(&mut page);
        for (who, rows) in [("this build", &self.only_this), ("the other", &self.only_other)] {
            for row in rows {
                let _ = writeln!(page, "- Only {who} has: {row}");
            }
        }
        for note in &self.notes {
            let _ = writeln!(page, "- {note}");
        }
        page
    }

    fn write_rows(&self, page: &mut String) {
        page.push_str(
            "| regime | size | metric | variant | this | other | unit | rounds | this/other (min … median … max) | 95 % |\n",
        );
        page.push_str("|---|---|---|---|---|---|---|---|---|---|\n");
        for row in &self.rows {
            let size = row.size.map_or("–".into(), |size| size.to_string());
            let control = if row.control { " (control)" } else { "" };
            let _ = write!(page, "| {} | {size} | {} | {}{control} ", row.regime, row.metric, row.variant);
            let (this, other) = (short(row.this.median), short(row.other.median));
            let _ = write!(page, "| {this} | {other} | {} | {} ", row.unit, row.rounds);
            let (ratio, interval) = row.ratio.as_ref().map_or(("–".into(), "–".into()), ratio_text);
            let _ = writeln!(page, "| {ratio} | {interval} |");
        }
        page.push('\n');
    }

    /// Writes `NAME-against.json` and `NAME-against.md` into `folder`, and returns their paths.
    pub(crate) fn write(&self, folder: &Path) -> Result<Vec<PathBuf>, Error> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |cause| Error::Write { path, cause }
        };
        fs::create_dir_all(folder).map_err(failed(folder))?;
        let mut paths = Vec::new();
        for (extension, text) in [("json", self.json()), ("md", self.markdown())] {
            let path = folder.join(format!("{}-against.{extension}", self.bench));
            fs::write(&path, text).map_err(failed(&path))?;
            paths.push(path);
        }
        Ok(paths)
    }
}

/// Whether a variant is none of this project's: plain C, Linux by itself.
fn is_control(variant: &str) -> bool {
    let names = ["C echo", "ICMP", "no node between", "no program", "XDP_PASS"];
    names.contains(&variant) || variant.starts_with("plain C") || variant.starts_with("Linux ")
}

impl PairedRow {
    /// What to think of the run, if this is its control and not 1.
    fn off(&self) -> Option<String> {
        let ratio = self.ratio.as_ref().filter(|_| self.control)?;
        let (median, [low, high]) = (ratio.summary.median, ratio.interval_95?);
        let off = (median - 1.0).abs();
        let certain = low > 1.0 || high < 1.0;
        (certain && off > OFF).then(|| {
            format!(
                "WARNING: the control is off: {}, {}, {} is {median:.3}, though no build changes it; differences of \
                 {:.0} % say nothing here",
                self.variant,
                self.regime,
                self.metric,
                (off * 100.0).ceil()
            )
        })
    }
}

impl Collected {
    fn row(&self) -> Option<PairedRow> {
        let ratios = paired_ratios(&self.this, &self.other);
        let ratio = Summary::of(&ratios).map(|summary| Ratio { summary, interval_95: interval_95(&ratios) });
        Some(PairedRow {
            variant: self.row.variant.clone(),
            size: self.row.size,
            regime: self.row.regime.clone(),
            metric: self.row.metric.clone(),
            unit: self.row.unit.clone(),
            control: is_control(&self.row.variant),
            rounds: self.this.len(),
            this: Summary::of(&self.this)?,
            other: Summary::of(&self.other)?,
            ratio,
        })
    }
}

impl OneRow {
    /// What a row is known by.
    fn name(&self) -> String {
        let size = self.size.map_or("–".into(), |size| size.to_string());
        format!("{}, {size}, {}, {}", self.regime, self.metric, self.variant)
    }
}

fn remember(names: &mut Vec<String>, row: &OneRow) {
    let name = row.name();
    if !names.contains(&name) {
        names.push(name);
    }
}

fn ratio_text(ratio: &Ratio) -> (String, String) {
    let s = &ratio.summary;
    let interval = ratio.interval_95.map_or("–".into(), |[low, high]| format!("{low:.3} … {high:.3}"));
    (format!("{:.3} … **{:.3}** … {:.3}", s.min, s.median, s.max), interval)
}

/// A command line without the folders of its words: results are for others too.
fn without_folders(command: &str) -> String {
    let name = |word: &str| word.rsplit('/').next().unwrap_or_default().to_owned();
    command.split(' ').map(name).collect::<Vec<_>>().join(" ")
}

/// SHA-256 of the files of the build that a program belongs to, in hex.
pub(super) fn digest(program: &Path) -> Result<String, Error> {
    let mut hash = Sha256::new();
    for path in programs::build(program) {
        hash.update(fs::read(&path).map_err(|cause| Error::Start { program: path.clone(), cause })?);
    }
    Ok(hex::encode(hash.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_names_programs_and_no_folders() {
        let command = "anode bench plan --quick --against /home/somebody/before/anode --rounds 5";
        assert_eq!(without_folders(command), "anode bench plan --quick --against anode --rounds 5");
    }

    #[test]
    fn a_control_that_is_off_is_said_and_what_is_not_known_is_not() {
        let row = |variant: &str, this: f64| {
            let row = serde_json::json!({
                "variant": variant, "size": 64, "regime": "bursts", "metric": "time", "unit": "ns", "median": 1.0
            });
            let row: OneRow = serde_json::from_value(row).unwrap();
            Collected { row, this: vec![this; 30], other: vec![1.0; 30] }
        };
        for (variant, this, said) in [
            ("plain C", 1.08, true),
            ("Linux forwarding", 0.9, true),
            ("plain C", 1.01, false),
            ("wasm capsule", 1.5, false),
            ("native C code", 1.5, false),
        ] {
            let off = row(variant, this).row().unwrap().off();
            assert_eq!(off.is_some(), said, "{variant}: {off:?}");
        }
        let bench = super::super::super::BENCHES.iter().find(|bench| bench.name == "method").unwrap();
        let mut comparison = Comparison::new(bench, "a".into(), "b".into());
        comparison.commit = UNKNOWN.into();
        comparison.collected = vec![row("plain C", 1.08), row("wasm capsule", 1.0)];
        comparison.finish();
        let page = comparison.markdown();
        assert!(
            page.contains("| plain C (control) |") && page.contains("| wasm capsule |") && !page.contains("at unknown")
        );
        assert!(page.contains("- WARNING: the control is off: plain C, bursts, time is 1.080"), "{page}");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = digest("/nonexistent/anode".as_ref()).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/anode"), "{error}");
    }
}
