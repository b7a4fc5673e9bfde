//! Waiting for files and for ends of processes, by inotify(7) and pidfd_open(2): who waits is told, and does not look
//! again and again. Example: a node was started, and its control socket is to appear, unless the node ends before.

use super::process;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init};
use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::path::Path;
use std::time::{Duration, Instant};

/// Why something did not come.
#[derive(Debug)]
pub enum Missed {
    /// The process has ended.
    Ended,
    /// The time is over.
    Late,
    /// The kernel does not tell.
    Failed(io::Error),
}

impl fmt::Display for Missed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Missed::Ended => write!(f, "the process has ended"),
            Missed::Late => write!(f, "it takes too long"),
            Missed::Failed(error) => write!(f, "nobody tells of files: {error}"),
        }
    }
}

impl From<io::Error> for Missed {
    fn from(error: io::Error) -> Missed {
        Missed::Failed(error)
    }
}

/// A process, whose end can be waited for even if it is no child.
#[derive(Debug)]
pub struct Process(OwnedFd);

impl Process {
    /// The process with this number, as long as it has not been waited for; nothing: there is none.
    pub fn open(pid: u32) -> io::Result<Option<Process>> {
        let Ok(pid) = i32::try_from(pid) else { return Ok(None) };
        Ok(process::open(pid)?.map(Process))
    }

    /// Waits until it has ended, whether or not somebody has waited for it; false: the time is over.
    pub fn ends_within(&self, time: Duration) -> io::Result<bool> {
        wait(&mut [PollFd::new(&self.0, PollFlags::IN)], Instant::now() + time)
    }
}

/// Waits for one of these descriptors; false: the time is over.
fn wait(fds: &mut [PollFd<'_>], end: Instant) -> io::Result<bool> {
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match poll(fds, Some(&left)) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// What is told of a file or directory: any change of its contents, its names, its owners or its mode.
fn changes() -> WatchFlags {
    WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::MODIFY
        | WatchFlags::ATTRIB
        | WatchFlags::MOVE
        | WatchFlags::DELETE_SELF
        | WatchFlags::MOVE_SELF
}

/// Watches a path, or what is there of the way to it.
fn watch(inotify: &OwnedFd, path: &Path) -> io::Result<()> {
    let deepest = || path.ancestors().find(|at| at.exists()).unwrap_or(Path::new("/"));
    loop {
        let at = deepest();
        match add_watch(inotify, at, changes()) {
            // What was made before the watch was there is nobody told of.
            Ok(_) if at == deepest() => return Ok(()),
            Ok(_) | Err(rustix::io::Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Looks at once, and whenever something changes in a directory or a file, which need not be there yet, until there is
/// something, the process has ended, or the time is over.
pub fn until<T>(
    path: &Path,
    process: Option<&Process>,
    time: Duration,
    mut look: impl FnMut() -> Option<T>,
) -> Result<T, Missed> {
    let (end, mut ended) = (Instant::now() + time, false);
    let inotify = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).map_err(io::Error::from)?;
    loop {
        watch(&inotify, path)?;
        if let Some(found) = look() {
            return Ok(found);
        }
        // What it did before its end was looked at behind it.
        if ended {
            return Err(Missed::Ended);
        }
        let mut fds = vec![PollFd::new(&inotify, PollFlags::IN)];
        fds.extend(process.map(|process| PollFd::new(&process.0, PollFlags::IN)));
        if !wait(&mut fds, end)? {
            return Err(Missed::Late);
        }
        ended = fds.get(1).is_some_and(|fd| !fd.revents().is_empty());
        drain(&inotify);
    }
}

/// Takes what was told: the next look sees all of it.
fn drain(inotify: &OwnedFd) {
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut told = Reader::new(inotify, &mut buffer);
    while told.next().is_ok() {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_file_is_seen_when_it_comes_and_when_it_says_more() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a/b/file");
        let text = || std::fs::read_to_string(&file).ok();
        std::thread::scope(|scope| {
            let seen = scope.spawn(|| until(&file, None, LONG, || text().filter(|text| text.ends_with("all\n"))));
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, "not ").unwrap();
            std::fs::write(&file, "not all\n").unwrap();
            assert_eq!(seen.join().unwrap().unwrap(), "not all\n");
        });
        assert!(matches!(until(&file, None, Duration::ZERO, || None::<()>), Err(Missed::Late)));
    }

    #[test]
    fn the_end_of_a_process_ends_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let process = Process::open(child.id()).unwrap().unwrap();
        assert!(!process.ends_within(Duration::ZERO).unwrap());
        drop(child.stdin.take());
        assert!(matches!(until(folder.path(), Some(&process), LONG, || None::<()>), Err(Missed::Ended)));
        assert!(process.ends_within(LONG).unwrap());
        child.wait().unwrap();
    }
}
