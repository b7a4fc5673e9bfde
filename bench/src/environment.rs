//! The environment of a benchmark: kernel, CPU, cores, commit, versions. Read once at the start, printed with every
//! result.
//!
//! Unknown facts are reported as `unknown`, never guessed, and are no reason to stop.

use std::fs;
use std::process::Command;

use serde::Serialize;

/// The machine and the programs behind a result.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Environment {
    /// Kernel release and version.
    pub(crate) kernel: String,
    /// CPU model.
    pub(crate) cpu: String,
    /// CPUs that this process may use.
    pub(crate) cores: usize,
    /// Load averages (1, 5, 15 minutes) at the start: how quiet the machine was.
    pub(crate) load: String,
    /// Version of anode.
    pub(crate) anode: String,
    /// Version of the C compiler that built the baselines.
    pub(crate) cc: String,
    /// Version of iproute2.
    pub(crate) ip: String,
}

impl Environment {
    /// Asks the system.
    pub(crate) fn read() -> Environment {
        let proc = |file: &str| fs::read_to_string(file).unwrap_or_default().trim().to_owned();
        let cpuinfo = proc("/proc/cpuinfo");
        let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        let load = proc("/proc/loadavg");
        Environment {
            kernel: known(format!("{} {}", proc("/proc/sys/kernel/osrelease"), proc("/proc/sys/kernel/version"))),
            cpu: known(model.map(|(_, name)| name.to_owned()).unwrap_or_default()),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            load: known(load.split(' ').take(3).collect::<Vec<_>>().join(" ")),
            anode: env!("CARGO_PKG_VERSION").into(),
            cc: first_line(Command::new(super::compile::compiler()).arg("--version")),
            ip: first_line(Command::new("ip").arg("-V")),
        }
    }
}

/// The commit of the repository in the current folder, with `-dirty` if files differ from it.
pub(crate) fn commit() -> String {
    let head = first_line(Command::new("git").args(["rev-parse", "--short=12", "HEAD"]));
    let changed = first_line(Command::new("git").args(["status", "--porcelain", "--untracked-files=no"]));
    if head == UNKNOWN || changed == UNKNOWN { head } else { format!("{head}-dirty") }
}

/// The command line of this process; the program by its name only.
pub(crate) fn command() -> String {
    let mut words = std::env::args();
    let program = words.next().unwrap_or_default();
    let name = program.rsplit('/').next().unwrap_or_default().to_owned();
    std::iter::once(name).chain(words).collect::<Vec<_>>().join(" ")
}

pub(super) const UNKNOWN: &str = "unknown";

fn known(text: String) -> String {
    let text = text.trim();
    if text.is_empty() { UNKNOWN.into() } else { text.into() }
}

fn first_line(command: &mut Command) -> String {
    let Ok(output) = command.output() else { return UNKNOWN.into() };
    let text = if output.status.success() { String::from_utf8_lossy(&output.stdout) } else { "".into() };
    known(text.lines().next().unwrap_or_default().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_said_to_be_unknown() {
        assert_eq!(known("  ".into()), "unknown");
        assert_eq!(first_line(&mut Command::new("/nonexistent/program")), "unknown");
    }

    #[test]
    fn every_field_has_a_text() {
        let environment = Environment::read();
        assert!(!environment.kernel.is_empty() && !environment.cpu.is_empty() && environment.cores > 0);
    }
}
