//! Parts of jails that this host lacks, found before there is a jail. Example: no control group for memory.

use super::{Parent, Part, start};
use crate::sys::{landlock, privileges};
use rustix::process::{WaitOptions, waitpid};

/// The parts that jails would lack here which the calling process starts; it must have one thread. Each jail says
/// itself what it has in the end.
pub fn lacks() -> Vec<Part> {
    let privileged = start::is_privileged();
    let namespaces = privileged || has_user_namespaces();
    let mut lacks = Parent::open(&format!("look-{}", std::process::id())).lacks();
    if namespaces {
        // The user, or the user in its namespace, has no other processes: the limit of a process does as well.
        lacks.retain(|part| *part != Part::Processes);
    }
    lacks.extend((!privileged).then_some(Part::User));
    lacks.extend((!namespaces).then_some(Part::Namespaces));
    lacks.extend((!landlock::is_there()).then_some(Part::Landlock));
    lacks.sort_unstable();
    lacks
}

/// Whether an ordinary user may make namespaces: a second process tries, since a try cannot be taken back.
fn has_user_namespaces() -> bool {
    match privileges::fork() {
        Ok(privileges::Forked::Child) => {
            // SAFETY: makes namespaces for this process, which has one thread and ends at once.
            let done = unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::CLONE_NEWPID) };
            // SAFETY: ends this copy without what the process it is a copy of has registered for its own end.
            unsafe { libc::_exit(i32::from(done != 0)) }
        }
        Ok(privileges::Forked::Parent(child)) => {
            let status = waitpid(rustix::process::Pid::from_raw(child), WaitOptions::empty());
            status.ok().flatten().is_some_and(|(_, status)| status.exit_status() == Some(0))
        }
        Err(_) => false,
    }
}
