//! The description of a jail, as a value: written by the starter, checked again by the maker. Nothing here calls the
//! system.

use super::paths::Paths;
use super::seccomp;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Words of a command, and environment variables, at most.
pub const WORDS_MAX: usize = 256;

/// The highest number at which a descriptor can be kept.
pub const DESCRIPTOR_MAX: u32 = 31;

/// What a process may be and do. Nothing that is not said here is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jail {
    /// Its name: 1 to 64 letters, digits, '-', '_' or '.'; its host name too.
    pub name: String,
    /// What is run.
    pub program: Program,
    /// Its environment variables.
    #[serde(default)]
    pub variables: Vec<(String, String)>,
    /// At which numbers the descriptors are that come along, in their order; of 0, 1 and 2 those that are not named are `/dev/null`.
    #[serde(default)]
    pub keep: Vec<u32>,
    /// Who it is.
    pub identity: Identity,
    /// Capabilities that it keeps.
    #[serde(default)]
    pub capabilities: Vec<Capability>,
    /// Whether it is in the host's network; else in one of its own, which has no interface that is up.
    #[serde(default)]
    pub host_network: bool,
    /// What it sees of the host's files: its root holds nothing else.
    #[serde(default)]
    pub paths: Paths,
    /// The list of system calls (`seccomp/*/NAME.json`) that it may make.
    pub seccomp: String,
    /// Its control groups.
    #[serde(default)]
    pub group: Option<Group>,
    /// Limits of the process.
    #[serde(default)]
    pub limits: Limits,
    /// What must not be weaker.
    #[serde(default)]
    pub required: Vec<Part>,
}

/// What is run in a jail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Program {
    /// A program in a file, and its arguments; without '/' it is found in `PATH`.
    File(Vec<String>),
    /// A function of this program, by its name; it makes itself ready, then has to call [`super::apply_seccomp`] itself.
    Own(String),
}

/// Who a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Identity {
    /// Whoever starts it.
    Starter,
    /// A user and group of its own that no other living jail on this host has: the first free number from `first` to `last`.
    Own {
        /// The lowest.
        first: u32,
        /// The highest.
        last: u32,
    },
    /// This user and group.
    Fixed {
        /// The user.
        uid: u32,
        /// The group.
        gid: u32,
    },
}

/// A capability that a jail may keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Capability {
    /// Loading programs into the kernel.
    Bpf,
    /// Those of the network.
    NetAdmin,
    /// Reading kernel memory by such programs.
    Perfmon,
}

/// Limits of a process (setrlimit(2)); nothing is no limit of ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Bytes of private memory that it may write to.
    pub data_bytes: Option<u64>,
    /// Bytes of addresses, shared memory included; for hosts that have no control group for memory.
    pub address_bytes: Option<u64>,
    /// Bytes of the longest file that it may write, those in memory included; for the same hosts.
    pub file_bytes: Option<u64>,
    /// Descriptors it may have.
    pub descriptors: Option<u64>,
    /// Processes and threads of its user; it counts only where the user is the jail's own.
    pub processes: Option<u64>,
    /// Seconds of the processor.
    pub cpu_seconds: Option<u64>,
}

/// The limits of a jail's control group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Bytes of memory of all its processes, shared memory and caches of files included; 0: no limit.
    pub memory_bytes: u64,
    /// Processes and threads at the same time; 0: no limit.
    pub tasks: u32,
    /// Its share of the processor beside others, 1 to 10,000; 100 is usual.
    pub cpu_weight: u32,
    /// Hundredths of one processor that it may use, at most; 0: no limit.
    pub cpu_percent: u32,
}

impl Group {
    pub(super) fn check(&self) -> Result<(), String> {
        match self.cpu_weight {
            1..=10_000 => Ok(()),
            weight => Err(format!("cpu_weight: {weight} is not from 1 to 10,000")),
        }
    }
}

/// A part of a jail that a host may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// A user of its own.
    User,
    /// Namespaces of mounts, processes, IPC, host name and network.
    Namespaces,
    /// Landlock.
    Landlock,
    /// A control group for memory.
    Memory,
    /// One for the number of processes.
    Processes,
    /// One for the processor.
    Cpu,
}

impl Part {
    /// All of them.
    pub const ALL: [Part; 6] = [Part::User, Part::Namespaces, Part::Landlock, Part::Memory, Part::Processes, Part::Cpu];

    /// Its name in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Part::User => "user",
            Part::Namespaces => "namespaces",
            Part::Landlock => "landlock",
            Part::Memory => "memory",
            Part::Processes => "processes",
            Part::Cpu => "cpu",
        }
    }

    /// What its lack means, for people.
    pub fn lack(self) -> &'static str {
        match self {
            Part::User => "no user of their own (needs root): they run as the node's user",
            Part::Namespaces => {
                "no namespaces (needs root or user namespaces): files, signals and sockets are guarded by Landlock and \
                 seccomp alone, and no Unix socket but the inherited one is to be had"
            }
            Part::Landlock => "no Landlock in this kernel: files are guarded by namespaces and their owners alone",
            Part::Memory => {
                "no control group for memory: shared memory is bounded by address space and the length of files, for each process"
            }
            Part::Processes => "no control group for processes: forks are bounded for the whole user alone",
            Part::Cpu => {
                "no control group for the processor: the scheduler's ordinary shares hold, and of an environment in \
                 processes the first one alone is charged for what it uses"
            }
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Jail {
    /// Says what in it means nothing. Whoever starts jails for others asks this first.
    pub fn check(&self) -> Result<(), String> {
        check_name(&self.name)?;
        let words = match &self.program {
            Program::File(words) => words.as_slice(),
            Program::Own(name) => std::slice::from_ref(name),
        };
        if words.first().is_none_or(String::is_empty) || words.len() > WORDS_MAX || self.variables.len() > WORDS_MAX {
            return Err(format!("a program, and at most {WORDS_MAX} words or variables"));
        }
        let variables = self.variables.iter().flat_map(|(name, value)| [name, value]);
        if words.iter().chain(variables).any(|word| word.contains('\0')) {
            return Err("a word or variable contains NUL".into());
        }
        let twice = (1..self.keep.len()).any(|at| self.keep[..at].contains(&self.keep[at]));
        if twice || self.keep.iter().any(|number| *number > DESCRIPTOR_MAX) {
            return Err(format!("descriptors are kept at different numbers up to {DESCRIPTOR_MAX}"));
        }
        match self.identity {
            Identity::Own { first, last } if first == 0 || first > last => {
                return Err(format!("users {first} to {last}: the first is at least 1 and at most the last"));
            }
            Identity::Fixed { uid, gid } if uid == 0 || gid == 0 => return Err("a jail is never root's".into()),
            _ => {}
        }
        self.paths.check()?;
        seccomp::check(&self.seccomp)?;
        self.group.as_ref().map_or(Ok(()), Group::check)
    }
}

/// Whether a name can be that of a jail or a control group.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > 64 || name.starts_with('.') || !name.chars().all(fits) {
        return Err(format!("{name:?}: 1 to 64 letters, digits, '-', '_' or '.', not beginning with '.'"));
    }
    Ok(())
}
