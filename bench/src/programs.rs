//! The two programs of a benchmark: `anode`, the measured node, and `anode-bench`, which measures it. They stand beside
//! each other.
//!
//! Both are of one build: what runs in this process is linked in, the rest is asked of the node beside. A node that is built anew while
//! it is measured is refused, as figures of two builds would stand under one name.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anode::sys::process;

use super::Error;

/// The node's program.
const NODE: &str = "anode";
/// This one.
const BENCH: &str = "anode-bench";

/// A file as it is now: its device and number there, and the time of its contents.
type Version = (u64, u64, i64, i64);

/// The node's program, as long as it is the one that it was when it was first asked for.
pub(crate) fn node() -> Result<PathBuf, Error> {
    static FIRST: OnceLock<Version> = OnceLock::new();
    let path = process::beside(NODE).map_err(|cause| Error::NoProgram { path: NODE.into(), cause })?;
    same(path, &FIRST)
}

fn same(path: PathBuf, first: &OnceLock<Version>) -> Result<PathBuf, Error> {
    let found = fs::metadata(&path).map_err(|cause| Error::NoProgram { path: path.clone(), cause })?;
    let now = (found.dev(), found.ino(), found.mtime(), found.mtime_nsec());
    if *first.get_or_init(|| now) == now { Ok(path) } else { Err(Error::Replaced(path)) }
}

/// The files of the build that a program belongs to: both programs if they stand beside each other, else the one.
pub(crate) fn build(program: &Path) -> Vec<PathBuf> {
    let pair = [NODE, BENCH].map(|name| program.with_file_name(name));
    if pair.iter().any(|path| path == program) && pair.iter().all(|path| path.is_file()) {
        pair.into()
    } else {
        vec![program.to_owned()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_was_replaced_or_is_missing_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NODE);
        let first = OnceLock::new();
        assert!(same(path.clone(), &first).unwrap_err().to_string().contains("cargo build"));
        fs::write(&path, "one build").unwrap();
        assert_eq!(same(path.clone(), &first).unwrap(), path);
        assert_eq!(same(path.clone(), &first).unwrap(), path);
        fs::write(folder.path().join("new"), "another build").unwrap();
        fs::rename(folder.path().join("new"), &path).unwrap();
        assert!(same(path, &first).unwrap_err().to_string().contains("replaced"));
    }

    #[test]
    fn two_programs_beside_each_other_are_a_build_whichever_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let [node, bench, other] = [NODE, BENCH, "other"].map(|name| folder.path().join(name));
        fs::write(&node, "").unwrap();
        assert_eq!(build(&node).len(), 1);
        fs::write(&bench, "").unwrap();
        fs::write(&other, "").unwrap();
        assert_eq!(build(&node), [node.clone(), bench.clone()]);
        assert_eq!(build(&bench), [node, bench]);
        assert_eq!(build(&other), [other]);
    }
}
