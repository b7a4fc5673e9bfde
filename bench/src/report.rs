//! The result of one benchmark as JSON, markdown and a plot, written to the output folder.
//!
//! A benchmark fills a [`Report`] with rows, targets and notes; [`Report::write`] leaves `NAME.json`, `NAME.md` and `NAME.svg`.
//! The JSON is the record and has everything; the other two are what people read of it ([`super::page`], [`super::plot`]).

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::environment::{Environment, command, commit};
use super::series::{Row, Sense, Target};
use super::{Error, page, plot};

/// Everything that a run of a benchmark found out.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Name of the benchmark.
    pub(crate) bench: String,
    /// Its definition ([`super::Bench::definition`]).
    pub(crate) definition: u32,
    /// Commit of the repository it ran in.
    pub(crate) commit: String,
    /// Command line.
    pub(crate) command: String,
    /// Machine and versions.
    pub(crate) environment: Environment,
    /// The measurements.
    pub(crate) rows: Vec<Row>,
    /// The promises.
    pub(crate) targets: Vec<Target>,
    /// What a reader must know to judge the figures, a sentence each.
    pub(crate) notes: Vec<String>,
    /// Pictures besides the plot of the rows, by name: `NAME-PICTURE.svg`.
    #[serde(skip)]
    pub(crate) figures: Vec<(String, String)>,
}

impl Report {
    /// An empty report with the environment filled in.
    pub(crate) fn new(bench: &str, definition: u32) -> Report {
        Report {
            bench: bench.into(),
            definition,
            commit: commit(),
            command: command(),
            environment: Environment::read(),
            rows: Vec::new(),
            targets: Vec::new(),
            notes: Vec::new(),
            figures: Vec::new(),
        }
    }

    /// Adds a sentence for the reader.
    pub(crate) fn note(&mut self, sentence: impl Into<String>) {
        self.notes.push(sentence.into());
    }

    /// The report as indented JSON.
    pub(crate) fn json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// The report as a markdown page.
    pub(crate) fn markdown(&self) -> String {
        let mut page = String::new();
        let e = &self.environment;
        let _ = writeln!(page, "# anode bench {}\n", self.bench);
        let _ = writeln!(page, "`{}` at {}, anode {}\n", self.command, self.commit, e.anode);
        let _ =
            writeln!(page, "Linux {}; {}, {} cores; load {}; {}; {}\n", e.kernel, e.cpu, e.cores, e.load, e.cc, e.ip);
        self.write_targets(&mut page);
        page.push_str(&page::tables(&self.rows));
        for note in &self.notes {
            let _ = writeln!(page, "- {note}");
        }
        page
    }

    /// Writes the three files into `folder`, which is made if it is absent, and returns their paths.
    pub(crate) fn write(&self, folder: &Path) -> Result<Vec<PathBuf>, Error> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |cause| Error::Write { path, cause }
        };
        fs::create_dir_all(folder).map_err(failed(folder))?;
        let files = [
            ("json", self.json()),
            ("md", self.markdown()),
            ("svg", plot::svg(&self.bench, &self.commit, &page::drawn(&self.rows))),
        ];
        let mut paths = Vec::new();
        for (extension, text) in files {
            let path = folder.join(format!("{}.{extension}", self.bench));
            fs::write(&path, text).map_err(failed(&path))?;
            paths.push(path);
        }
        for (name, picture) in &self.figures {
            let path = folder.join(format!("{}-{name}.svg", self.bench));
            fs::write(&path, picture).map_err(failed(&path))?;
            paths.push(path);
        }
        Ok(paths)
    }

    fn write_targets(&self, page: &mut String) {
        if self.targets.is_empty() {
            return;
        }
        page.push_str("| target | value | limit | met |\n|---|---|---|---|\n");
        for t in &self.targets {
            let sense = if t.sense == Sense::AtMost { "≤" } else { "≥" };
            let interval =
                t.interval_95.map_or(String::new(), |[low, high]| format!(" [{} … {}]", short(low), short(high)));
            let met = if t.met { "yes" } else { "**no**" };
            let _ =
                writeln!(page, "| {} | {}{interval} | {sense} {} | {met} |", t.name, short(t.value), short(t.limit));
        }
        page.push('\n');
    }
}

/// A number with three or four significant digits.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 || v == 0.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 => format!("{value:.3}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::{Key, Series};

    fn report() -> Report {
        let mut series = Series::default();
        for variant in ["c", "node"] {
            let key =
                Key { variant: variant.into(), size: Some(128), regime: "udp".into(), metric: "cost", unit: "ns" };
            for value in [100.0, 104.0, 102.0, 101.0, 103.0] {
                series.push(key.clone(), if variant == "c" { value } else { value + 1.0 });
            }
        }
        let mut report = Report::new("example", 1);
        report.rows = series.rows(&["c"]);
        report.targets.extend(Target::at_most("node / c", &[1.0; 5], 1.05));
        report.note("A sentence.");
        report
    }

    #[test]
    fn json_has_the_documented_shape() {
        let value: serde_json::Value = serde_json::from_str(&report().json()).unwrap();
        for field in ["bench", "definition", "commit", "command", "environment", "rows", "targets"] {
            assert!(!value[field].is_null(), "{field}");
        }
        for field in ["name", "value", "limit", "met"] {
            assert!(!value["targets"][0][field].is_null(), "{field}");
        }
    }

    #[test]
    fn markdown_shows_each_row_target_and_note() {
        let page = report().markdown();
        assert!(
            page.contains("**udp**: cost, ns") && page.contains("| node | 103 · **1.01**, 1.01 … 1.01 |"),
            "{page}"
        );
        assert!(page.contains("| node / c | 1.000 [1.000 … 1.000] | ≤ 1.050 | yes |"), "{page}");
        assert!(page.contains("- A sentence."));
    }

    #[test]
    fn three_files_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let paths = report().write(&folder.path().join("deep/er")).unwrap();
        let names: Vec<_> = paths.iter().map(|p| p.file_name().unwrap().to_str().unwrap().to_owned()).collect();
        assert_eq!(names, ["example.json", "example.md", "example.svg"]);
        assert!(paths.iter().all(|p| p.metadata().unwrap().len() > 100));
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named_in_the_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = report().write(&file.path().join("x")).unwrap_err().to_string();
        assert!(error.contains(file.path().to_str().unwrap()) && error.contains("--out"), "{error}");
    }
}
