//! VLAN tags stay in the frames that XDP programs see.
//!
//! A driver may take the tag off a frame and tell of it beside the frame (`rxvlan`). An XDP program does not see it then, and would take
//! a packet of a VLAN for one of the interface. So drivers are told to leave tags in frames as long as a program of the node's stands there.
//! A file in the run directory says at which interfaces, for whoever gives it back: a process that follows one that has died, or
//! `anode node down` in the same network namespace.

use crate::sys::ethtool;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The network namespace, then names of interfaces there, one in a line.
const FILE: &str = "rxvlan";

/// Has the driver of an interface leave tags in frames; says whether it did otherwise before.
pub fn leave(run_dir: &Path, interface: &str) -> io::Result<bool> {
    if !ethtool::takes_tags(interface)? {
        return Ok(false);
    }
    let mut list = changed(run_dir)?.unwrap_or_default();
    if !list.iter().any(|name| name == interface) {
        list.push(interface.to_owned());
        // First, since a process may die at any instant.
        fs::write(run_dir.join(FILE), format!("{}\n{}\n", namespace()?, list.join("\n")))?;
    }
    ethtool::take_tags(interface, false).map(|()| true)
}

/// Has drivers do again as they did before, whichever process it was that had them leave tags; says whether there was one.
pub fn give_back(run_dir: &Path) -> io::Result<bool> {
    let Some(list) = changed(run_dir)? else { return Ok(false) };
    for interface in &list {
        match ethtool::take_tags(interface, true) {
            // The interface has gone, and its setting with it.
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
            done => done?,
        }
    }
    fs::remove_file(run_dir.join(FILE))?;
    Ok(true)
}

/// The interfaces of this network namespace; nothing if there are none.
fn changed(run_dir: &Path) -> io::Result<Option<Vec<String>>> {
    let text = match fs::read_to_string(run_dir.join(FILE)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut lines = text.lines();
    let here = lines.next() == Some(&namespace()?.to_string());
    Ok(here.then(|| lines.map(str::to_owned).collect()))
}

fn namespace() -> io::Result<u64> {
    fs::metadata("/proc/thread-self/ns/net").map(|of| of.ino())
}
