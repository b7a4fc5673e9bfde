//! Named network namespaces: finding them, entering them on a thread, starting programs in them.
//!
//! A name is a file below `/run/netns` onto which a namespace is mounted, as iproute2 makes it.
//! Entering is a bare `setns` of the network namespace and of nothing else: unlike `ip netns exec`,
//! which also unshares the mounts and replaces `/sys`, so that eBPF objects pinned by the program
//! would be invisible to everybody else.
#![allow(unsafe_code)]

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

const DIRECTORY: &str = "/run/netns";
/// `NSFS_MAGIC` of linux/magic.h: the file system of mounted namespaces.
const NSFS_MAGIC: i64 = 0x6e73_6673;

/// The names of all named network namespaces of this machine, sorted. Names whose namespace was
/// never mounted (a crashed `ip netns add`) are among them.
pub fn names() -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(DIRECTORY) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry?.file_name().into_string());
    }
    names.sort();
    Ok(names)
}

/// An open network namespace: it exists as long as this value, even when its name is deleted.
#[derive(Clone, Debug)]
pub struct Namespace {
    file: Arc<OwnedFd>,
}

impl Namespace {
    /// Opens the namespace of that name; `None` if the name is only an empty file.
    pub fn open(name: &str) -> io::Result<Option<Namespace>> {
        let file = File::open(PathBuf::from(DIRECTORY).join(name))?;
        let mounted = rustix::fs::fstatfs(&file)?.f_type as i64 == NSFS_MAGIC;
        Ok(mounted.then(|| Namespace { file: Arc::new(file.into()) }))
    }

    /// The named namespace of that inode, which is its number among those that there are.
    pub fn numbered(inode: u64) -> io::Result<Option<Namespace>> {
        let is = |found: &Namespace| rustix::fs::fstat(&*found.file).is_ok_and(|of| of.st_ino == inode);
        // One that has gone meanwhile is none.
        Ok(names()?.iter().filter_map(|name| Namespace::open(name).ok().flatten()).find(is))
    }

    /// Runs `f` on a new thread inside the namespace and waits for it. Sockets opened there, and
    /// threads and programs started there, stay in the namespace. A panic in `f` goes on here.
    pub fn enter<T: Send>(&self, f: impl FnOnce() -> T + Send) -> io::Result<T> {
        let inside = || -> io::Result<T> {
            move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(f())
        };
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("netns".into()).spawn_scoped(scope, inside)?;
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// A command that will run inside the namespace; everything else it inherits as usual.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let file = Arc::clone(&self.file);
        let mut command = Command::new(program);
        let inside = move || {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(())
        };
        // SAFETY: between fork and exec the closure makes one system call on a descriptor that it
        // owns; it neither allocates nor takes a lock, and builds its error from an integer.
        unsafe { command.pre_exec(inside) };
        command
    }

    /// The processes whose main thread is in the namespace, without those we may not look at.
    pub fn processes(&self) -> io::Result<Vec<i32>> {
        let mut pids = Vec::new();
        for entry in fs::read_dir("/proc")? {
            pids.extend(entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()));
        }
        pids.retain(|pid| self.holds(*pid));
        Ok(pids)
    }

    /// Whether the main thread of that process is in the namespace.
    pub fn holds(&self, pid: i32) -> bool {
        let Ok(here) = rustix::fs::fstat(&*self.file) else { return false };
        fs::metadata(format!("/proc/{pid}/ns/net"))
            .is_ok_and(|there| (there.dev(), there.ino()) == (here.st_dev, here.st_ino))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_name_is_not_found() {
        assert_eq!(Namespace::open("an-no-such-namespace").unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn our_own_namespace_holds_this_process() {
        let Ok(file) = File::open("/proc/self/ns/net") else { return };
        let own = Namespace { file: Arc::new(file.into()) };
        assert!(own.processes().unwrap().contains(&(std::process::id() as i32)));
    }
}
