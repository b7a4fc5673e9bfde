//! The kernel's receive work of an interface as a thread of its own, so that its CPU time can be read apart from the sender's.
//!
//! The switch is in sysfs, which shows the interfaces of the namespace in which it was mounted: it is mounted anew, in a mount
//! namespace that ends with the command. The kernel makes new threads when programs come and go, so they are looked for after each start.

use std::fs;

use super::super::Error;
use super::super::line::Line;

/// The threads of all interfaces called r0, ours and others'.
pub(super) fn threads() -> Vec<u32> {
    let is_one = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.starts_with(NAME));
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_one).collect()
}

/// Makes the router receive by threads; returns those that were not there `before`.
pub(super) fn make_threads(line: &Line, before: &[u32]) -> Result<Vec<u32>, Error> {
    line.r.run("unshare", &["-m", "sh", "-c", SWITCH], "")?;
    let new: Vec<u32> = threads().into_iter().filter(|thread| !before.contains(thread)).collect();
    if new.is_empty() { Err(Error::Interfaces("r0 has no NAPI thread".into())) } else { Ok(new) }
}

const NAME: &str = "napi/r0-";
const SWITCH: &str = "mount -t sysfs sysfs /sys && echo 1 >/sys/class/net/r0/threaded";
