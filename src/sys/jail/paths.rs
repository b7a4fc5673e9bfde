//! The host's files inside a jail: lists in `paths/NAME.json`, and additions to them.

use serde::{Deserialize, Serialize};
use std::path::{Component, Path, PathBuf};

/// Paths of one kind.
const PATHS_MAX: usize = 256;

/// Files and directories of the host that a jail has, each at its own path. What is not there is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Paths {
    /// To read and to execute.
    pub read: Vec<PathBuf>,
    /// Devices, to read and to write.
    pub devices: Vec<PathBuf>,
    /// Whether it has a `/proc`: its own, in which nothing is but its own processes.
    pub processes: bool,
}

impl Paths {
    /// The paths of an execution environment: programs, libraries, and devices that hold nothing.
    pub fn of_environments() -> Paths {
        Paths::parse(include_str!("paths/ee.json")).unwrap_or_default()
    }

    fn parse(list: &str) -> Option<Paths> {
        serde_json::from_str(list).ok()
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let plain = |path: &Path| {
            path.is_absolute()
                && path.components().count() > 1
                && path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
        };
        for list in [&self.read, &self.devices] {
            if list.len() > PATHS_MAX {
                return Err(format!("{} paths, {PATHS_MAX} at most", list.len()));
            }
            if let Some(path) = list.iter().find(|path| !plain(path)) {
                return Err(format!("{}: not an absolute path without '..' below the root", path.display()));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_well_formed_and_hold_no_secret() {
        let paths = Paths::parse(include_str!("paths/ee.json")).unwrap();
        assert_eq!(paths.check(), Ok(()));
        for secret in ["/", "/etc", "/etc/shadow", "/proc", "/sys", "/run", "/var", "/root", "/home", "/tmp", "/dev"] {
            assert!(!paths.read.iter().any(|path| path == Path::new(secret)), "{secret}");
        }
    }

    #[test]
    fn paths_lead_nowhere_else() {
        for bad in ["/", "etc", "/a/../etc", ""] {
            let paths = Paths { read: vec![bad.into()], ..Paths::default() };
            assert!(paths.check().is_err(), "{bad:?}");
        }
    }
}
