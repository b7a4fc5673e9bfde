//! Ends processes that are not our children, by pidfd, so that a recycled number is never hit; and finds programs
//! beside this one.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, Signal};
use rustix::process::{getrlimit, pidfd_open, pidfd_send_signal, setrlimit};

/// Whether this process has the effective user id 0.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The file of this name beside this process's program, whether or not there is one. A program that was renamed has the
/// neighbours of its new place, one that was deleted those of its last.
pub fn beside(name: &str) -> io::Result<PathBuf> {
    // Of a deleted file the kernel says so behind its name, which is not looked at here.
    std::env::current_exe().map(|own| own.with_file_name(name))
}

/// Lets a signal pass by this process, but not by what it executes.
pub fn ignore(signal: i32) -> io::Result<()> {
    extern "C" fn nothing(_: libc::c_int) {}
    let handler: extern "C" fn(libc::c_int) = nothing;
    // SAFETY: the handler does nothing. Being one and not SIG_IGN, it is not inherited by what is executed.
    match unsafe { libc::signal(signal, handler as libc::sighandler_t) } {
        libc::SIG_ERR => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Puts an input that has nothing and is at its end in the place of this process's standard input.
pub fn end_input() -> io::Result<()> {
    // In a jail there is no /dev/null.
    let (nothing, _) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    // SAFETY: no value owns descriptor 0: `std::io::stdin` borrows it for each call. The copy of `nothing` in its place is nobody's either.
    match unsafe { libc::dup2(nothing.as_raw_fd(), 0) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Whether somebody has asked what the heap has since it was looked at, and what was seen then.
static HEAP_ASKED: AtomicBool = AtomicBool::new(false);
static HEAP_USED: AtomicUsize = AtomicUsize::new(0);
static HEAP_FREE: AtomicUsize = AtomicUsize::new(0);

/// Bytes of this process's heap that are in use, and those that it has from the kernel besides, as
/// [`HeapLooks`] have seen them; none before that.
pub fn heap_seen() -> Option<(usize, usize)> {
    HEAP_ASKED.store(true, Ordering::Relaxed);
    let used = HEAP_USED.load(Ordering::Relaxed);
    (used > 0).then(|| (used, HEAP_FREE.load(Ordering::Relaxed)))
}

/// Looks at the heap if somebody has asked what it has. That takes tens of milliseconds where a million routes came and
/// went, since the C library walks along all that is free; so there is a rest behind each look.
#[derive(Debug, Default)]
pub struct HeapLooks {
    not_before: Option<Instant>,
}

impl HeapLooks {
    /// After each look the next one is so many times what that took away.
    const REST: u32 = 1000;

    /// Looks, if it is time.
    pub fn look(&mut self) {
        let begun = Instant::now();
        if self.not_before.is_some_and(|time| begun < time) || !HEAP_ASKED.swap(false, Ordering::Relaxed) {
            return;
        }
        if let Some((used, free)) = heap() {
            HEAP_FREE.store(free, Ordering::Relaxed);
            HEAP_USED.store(used, Ordering::Relaxed);
        }
        self.not_before = Some(Instant::now() + begun.elapsed() * Self::REST);
    }
}

/// Both numbers now; none where the C library does not say.
fn heap() -> Option<(usize, usize)> {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: it takes nothing and gives numbers; it may be called at any time by any thread.
        let info = unsafe { libc::mallinfo2() };
        Some((info.uordblks + info.hblkhd, info.fordblks))
    }
    #[cfg(not(target_env = "gnu"))]
    None
}

/// What the calling thread is called in lists of processes.
pub fn set_name(name: &core::ffi::CStr) {
    // A name that is refused leaves the old one.
    let _ = rustix::thread::set_name(name);
}

/// The most descriptors that a process of the node's own has open, where the host permits as many.
const DESCRIPTORS_MAX: u64 = 1 << 16;

/// Lets this process have as many descriptors as the host permits it to have: many hosts begin with 1,024, and let whoever asks have more.
pub fn raise_descriptors() -> io::Result<()> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let most = maximum.unwrap_or(DESCRIPTORS_MAX).min(DESCRIPTORS_MAX);
    if current.is_none_or(|current| current >= most) {
        return Ok(());
    }
    Ok(setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum })?)
}

/// This process and its ancestors.
pub fn ancestry() -> Vec<i32> {
    let mut line = vec![std::process::id() as i32];
    while let Some(parent) = line.last().copied().and_then(parent_of).filter(|parent| *parent > 0) {
        line.push(parent);
    }
    line
}

fn parent_of(pid: i32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

/// Asks the processes of which `still` holds to end (SIGTERM), waits up to `grace` for all of them together, then
/// kills the rest. `still` is asked after the pidfd is open, so it speaks of the process that the signal will hit.
pub fn terminate(pids: &[i32], grace: Duration, still: impl Fn(i32) -> bool) -> io::Result<()> {
    let mut processes = Vec::new();
    for pid in pids {
        processes.extend(open(*pid)?.filter(|_| still(*pid)));
    }
    signal(&processes, Signal::TERM)?;
    if wait(&mut processes, grace)? {
        return Ok(());
    }
    signal(&processes, Signal::KILL)?;
    wait(&mut processes, grace)?;
    Ok(())
}

/// The process with this number, as long as it has not been waited for; nothing: there is none.
pub(super) fn open(pid: i32) -> io::Result<Option<OwnedFd>> {
    let Some(number) = Pid::from_raw(pid) else { return Ok(None) };
    match pidfd_open(number, PidfdFlags::empty()) {
        Ok(process) => Ok(Some(process)),
        Err(rustix::io::Errno::SRCH) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A process that we started, to be waited for in a [`super::poll::Poll`]: it can be read when the process has ended.
pub fn watch(pid: u32) -> io::Result<OwnedFd> {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(pidfd_open(number, PidfdFlags::empty())?)
}

/// Asks a group of processes to end, or kills it. The group's leader must be a child of ours that has not been waited for.
pub fn signal_group(leader: u32, kill: bool) -> io::Result<()> {
    let number = i32::try_from(leader).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    match rustix::process::kill_process_group(number, if kill { Signal::KILL } else { Signal::TERM }) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The leader of a process's group, unless the process is gone.
pub fn group_of(pid: u32) -> Option<u32> {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
    rustix::process::getpgid(Some(number)).ok().map(|group| group.as_raw_nonzero().get() as u32)
}

fn signal(processes: &[OwnedFd], signal: Signal) -> io::Result<()> {
    for process in processes {
        match pidfd_send_signal(process, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Drops the ended processes from the list; true when none is left.
fn wait(processes: &mut Vec<OwnedFd>, grace: Duration) -> io::Result<bool> {
    let end = Instant::now() + grace;
    while !processes.is_empty() {
        let left = end.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        let mut polls: Vec<PollFd<'_>> = processes.iter().map(|p| PollFd::new(p, PollFlags::IN)).collect();
        match poll(&mut polls, Some(&timeout)) {
            Ok(0) => return Ok(false),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ended: Vec<bool> = polls.iter().map(|p| p.revents().intersects(PollFlags::IN | PollFlags::HUP)).collect();
        let mut ended = ended.into_iter();
        processes.retain(|_| !ended.next().unwrap_or(false));
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_heap_is_looked_at_after_somebody_has_asked() {
        let mut looks = HeapLooks::default();
        looks.look();
        // Others may have asked in this process; whoever asks twice has had a look between.
        let _ = heap_seen();
        looks.not_before = None;
        looks.look();
        assert!(cfg!(not(target_env = "gnu")) || heap_seen().is_some_and(|(used, _)| used > 1 << 10));
        assert!(looks.not_before.is_some());
    }

    #[test]
    fn a_signal_does_not_end_a_wait_for_a_message() {
        use crate::sys::seqpacket::SeqPacket;
        ignore(libc::SIGUSR2).unwrap();
        let (own, other) = SeqPacket::pair().unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            // SAFETY: says which thread calls.
            tell.send(unsafe { libc::pthread_self() }).unwrap();
            own.wait(Duration::from_secs(60)).unwrap()
        });
        let waiting = told.recv().unwrap();
        for _ in 0..10_000 {
            // SAFETY: the thread has not been joined, so its name is its own; the signal's handler does nothing.
            unsafe { libc::pthread_kill(waiting, libc::SIGUSR2) };
            std::thread::yield_now();
        }
        SeqPacket::of(other).send(b"x").unwrap();
        assert!(thread.join().unwrap(), "the message, and not the time, has ended it");
    }

    #[test]
    fn a_process_that_ignores_the_request_is_killed() {
        let mut deaf = Command::new("sh");
        deaf.args(["-c", "trap '' TERM; echo; while :; do read x; done"]);
        let mut child = deaf.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().unwrap();
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0; 1]).unwrap();
        terminate(&[child.id() as i32], Duration::from_millis(50), |_| true).unwrap();
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn a_process_that_is_no_longer_meant_is_spared() {
        let mut child = Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        terminate(&[child.id() as i32], Duration::from_millis(50), |_| false).unwrap();
        assert!(child.wait().unwrap().success(), "it ends by the end of its input only");
    }

    #[test]
    fn a_process_gets_the_descriptors_that_the_host_permits() {
        raise_descriptors().unwrap();
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        assert!(current.is_none_or(|current| current >= maximum.unwrap_or(u64::MAX).min(DESCRIPTORS_MAX)));
    }

    #[test]
    fn our_ancestry_ends_at_the_first_process() {
        let line = ancestry();
        assert_eq!(line[0], std::process::id() as i32);
        assert!(line.len() >= 2);
    }
}
