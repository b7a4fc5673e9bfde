//! The end of what runs in a lab, and of what it leaves in files.

use std::io;
use std::time::Duration;

use super::error::Error;
use crate::config::default_run_dir;
use crate::kernel::Pins;
use crate::sys::netns::Namespace;
use crate::sys::process;

/// How long the processes of a lab may take to end on their own.
const GRACE: Duration = Duration::from_secs(2);

/// Removes what a node of the lab has left in its run directory; it has ended, perhaps without taking its kernel half along.
pub(super) fn forget_node(name: &str) -> Result<(), Error> {
    let dir = default_run_dir(name);
    let swept = if dir.exists() { Pins::sweep(&dir).map(drop) } else { Ok(()) };
    match swept.and_then(|()| std::fs::remove_dir_all(&dir)) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(Error::System {
            what: format!("removing {}, the run directory of a node of the lab", dir.display()),
            source,
        }),
        _ => Ok(()),
    }
}

/// Ends what runs in the namespaces, except ourselves and whoever started us.
pub(super) fn end_processes(places: &[Namespace]) -> Result<Vec<i32>, Error> {
    let failed = |source| Error::System { what: "ending the lab's processes".into(), source };
    let spared = process::ancestry();
    let mut pids = Vec::new();
    for place in places {
        pids.extend(place.processes().map_err(failed)?);
    }
    pids.retain(|pid| !spared.contains(pid));
    let still = |pid| places.iter().any(|place| place.holds(pid));
    process::terminate(&pids, GRACE, still).map_err(failed)?;
    Ok(pids)
}
