//! Parts of the sandbox of a node and of its jails: their names in configurations, their meaning, and the consequence
//! if one is missing.

use crate::sys::jail;
use serde::{Deserialize, Serialize};

/// A part of the sandbox that a host may lack: of the node's, of its jails (compiler, loader, environments), or of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// A user of the node's own.
    User,
    /// Landlock.
    Landlock,
    /// Lists of system calls.
    Seccomp,
    /// Namespaces of jails.
    Namespaces,
    /// Control groups of jails for memory.
    Memory,
    /// For the number of processes.
    Processes,
    /// For the processor.
    Cpu,
}

impl Part {
    /// Those of the node.
    pub const OF_NODE: [Part; 3] = [Part::User, Part::Landlock, Part::Seccomp];

    /// The same part of a jail, if jails have it on some hosts only.
    pub fn of_jails(self) -> Option<jail::Part> {
        jail::Part::ALL.into_iter().find(|part| part.name() == self.name())
    }

    /// What it means for the node, for people; `own`: its user is nobody else's.
    pub fn words(self, own: bool) -> &'static str {
        match self {
            Part::User if own => "a user that owns its store, files of domains and captures, and nothing else",
            Part::User => {
                "a user that owns its store, files of domains and captures; what else that user or its group may do to \
                 files and processes, the \
                 node may do too, as far as Landlock lets it"
            }
            Part::Landlock => {
                "Landlock: writes to its store and files of domains alone; reads the system's programs and libraries"
            }
            Part::Seccomp => "seccomp: a list of system calls for each kind of thread, and for the broker",
            Part::Namespaces | Part::Memory | Part::Processes | Part::Cpu => self.name(),
        }
    }

    /// What its lack means, for people.
    pub fn lack(self) -> &'static str {
        match self {
            Part::User => {
                "the node has no user of its own (needs root): to files and processes it is whoever started it, as far \
                 as Landlock and seccomp, \
                 where they are there, let it"
            }
            Part::Landlock => {
                "no Landlock in this kernel (5.13, CONFIG_SECURITY_LANDLOCK): files are protected by their owners alone"
            }
            Part::Seccomp => {
                "no filters of system calls in this kernel (CONFIG_SECCOMP_FILTER): threads can make all calls there are"
            }
            Part::Namespaces | Part::Memory | Part::Processes | Part::Cpu => {
                self.of_jails().map_or("", jail::Part::lack)
            }
        }
    }

    /// Its name in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Part::User => "user",
            Part::Landlock => "landlock",
            Part::Seccomp => "seccomp",
            Part::Namespaces => "namespaces",
            Part::Memory => "memory",
            Part::Processes => "processes",
            Part::Cpu => "cpu",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_user_that_somebody_has_made_nobody_says_that_it_has_nothing_else() {
        assert!(Part::User.words(true).ends_with("and nothing else"));
        assert!(Part::User.lack().contains("as far as Landlock"), "it is no promise that Landlock breaks");
        assert!(!Part::User.words(false).contains("nothing else") && Part::User.words(false).contains("its group"));
    }
}
