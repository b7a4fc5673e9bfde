//! What a configuration wants of this host that would otherwise be missed only when the node runs.

use super::environments::EnvironmentFile;
use super::{ConfigError, NodeFile, wrong};
use std::ops::RangeInclusive;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The CPUs that are at work, as in `0-3,8`.
const ONLINE: &str = "/sys/devices/system/cpu/online";

impl NodeFile {
    /// Refuses CPUs that this host does not have.
    pub(crate) fn check_host(&self) -> Result<(), ConfigError> {
        let Ok(online) = std::fs::read_to_string(ONLINE) else { return Ok(()) };
        let ranges: Vec<_> = online.trim().split(',').filter_map(range).collect();
        let has = |cpu: &usize| ranges.iter().any(|range| range.contains(cpu));
        match self.cpu.affinity.iter().find(|cpu| !has(cpu)) {
            Some(cpu) if !ranges.is_empty() => {
                wrong(format!("[cpu] affinity: this host has no CPU {cpu}; there are {}", online.trim()))
            }
            _ => Ok(()),
        }
    }
}

/// `3` or `0-3`.
fn range(text: &str) -> Option<RangeInclusive<usize>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some(first.parse().ok()?..=last.parse().ok()?)
}

impl EnvironmentFile {
    /// What it names that is not there. The node runs without it, and tries again and again.
    pub(super) fn missing(&self) -> Vec<String> {
        let name = &self.name;
        let program = self.command.first().filter(|program| find(program).is_none());
        let program = program.map(|program| format!("ee {name}: command: there is no program {program} here"));
        let object = self.library.first().filter(|path| !Path::new(path).is_file());
        let object = object.map(|path| format!("ee {name}: library: there is no file {path}"));
        let reads = self.reads.iter().filter(|path| !path.exists());
        let reads =
            reads.map(|path| format!("ee {name}: reads: {} is not there, so it is not shown to it", path.display()));
        program.into_iter().chain(object).chain(reads).collect()
    }
}

/// The file of a program, by its path or its name.
fn find(program: &str) -> Option<PathBuf> {
    let runs =
        |path: &PathBuf| path.metadata().is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0);
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(runs);
    }
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(program)).find(runs)
}
