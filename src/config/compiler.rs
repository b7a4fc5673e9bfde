//! `[compiler]`: the hard limits of one job on strangers' code, and the number of jobs at a time.

use super::{ConfigError, wrong};
use crate::code::compiler::CompilerLimits;
use serde::{Deserialize, Serialize};

/// Jobs at a time, at most.
const JOBS_MAX: usize = 64;

/// Milliseconds of an hour: nobody waits longer for code.
const HOUR_MS: usize = 3_600_000;

/// The section `[compiler]` of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CompilerFile {
    /// Milliseconds of CPU time that one module may take.
    pub cpu_ms: u32,
    /// Mebibytes of memory that it may take, beyond those of the idle compiler.
    pub memory_mib: u32,
    /// Mebibytes of machine code that may come of it.
    pub output_mib: u32,
    /// Milliseconds by the clock after which it is given up.
    pub wall_ms: u32,
    /// Modules that are compiled at the same time, beside one that is optimised. With one no place is left for others
    /// while a neighbour has it.
    pub jobs: usize,
}

impl Default for CompilerFile {
    fn default() -> CompilerFile {
        let CompilerLimits { cpu_ms, memory_mib, output_mib, wall_ms } = CompilerLimits::default();
        CompilerFile { cpu_ms, memory_mib, output_mib, wall_ms, jobs: 2 }
    }
}

impl CompilerFile {
    /// The limits of a job.
    pub fn limits(&self) -> CompilerLimits {
        let CompilerFile { cpu_ms, memory_mib, output_mib, wall_ms, .. } = *self;
        CompilerLimits { cpu_ms, memory_mib, output_mib, wall_ms }
    }

    /// Refuses what could compile nothing, or is more than a node does.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let numbers = [
            ("cpu_ms", self.cpu_ms as usize, HOUR_MS),
            ("memory_mib", self.memory_mib as usize, 16 << 10),
            ("output_mib", self.output_mib as usize, 1 << 10),
            ("wall_ms", self.wall_ms as usize, HOUR_MS),
            ("jobs", self.jobs, JOBS_MAX),
        ];
        match numbers.iter().find(|(_, value, most)| !(1..=*most).contains(value)) {
            Some((name, value, most)) => wrong(format!("[compiler] {name} = {value}: from 1 to {most}")),
            None => Ok(()),
        }
    }
}
