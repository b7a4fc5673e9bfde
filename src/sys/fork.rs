//! A child of this process for one piece of work on input that nobody trusts.
//!
//! The child is a copy of a process with one thread, so it begins warm, and it ends with its work: nothing of one piece reaches the next.
//! Before it begins it gives up all that it does not need (limits, then a list of system calls), for good. It is ended by the
//! kernel, not by whoever watches: by its time of the CPU, by the wall clock, by a call that is not on the list.

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use seccompiler::BpfProgram;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Bytes of a page.
const PAGE: u64 = 4096;

/// What a child may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Time of the CPU.
    pub cpu: Duration,
    /// Bytes of memory beyond those of the process it is a copy of.
    pub memory: u64,
    /// Bytes of the longest file that it may write.
    pub file: u64,
    /// Time by the clock on the wall: a child that waits for something that never comes ends too.
    pub wall: Duration,
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With its work done.
    Done,
    /// It had its time of the CPU.
    Cpu,
    /// It wanted more memory.
    Memory,
    /// It wrote more than it may.
    File,
    /// It took too long.
    Wall,
    /// Something else went wrong: the signal, or the negative exit status.
    Broken(i32),
}

/// A child that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How.
    pub end: End,
    /// Microseconds of the CPU that it used.
    pub cpu_us: u64,
    /// Kibibytes of memory that it had at most, with what it shares with this process.
    pub peak_kib: u64,
}

/// What a process with one thread needs to have children.
pub struct Forker {
    /// `/proc/self/statm`, opened before the process gave files up: children must know how much memory they begin with.
    statm: OwnedFd,
    filter: BpfProgram,
}

impl Forker {
    /// Prepares for children that have the system calls of `filter` and no others.
    pub fn new(filter: BpfProgram) -> io::Result<Forker> {
        let statm =
            std::fs::File::open("/proc/thread-self/statm").or_else(|_| std::fs::File::open("/proc/self/statm"))?;
        Ok(Forker { statm: statm.into(), filter })
    }

    /// Has a child do `work` within `bounds`, and waits for its end. `give_up` is closed in the child before it begins.
    /// The calling process must have one thread.
    pub fn run(&self, bounds: Bounds, give_up: BorrowedFd<'_>, work: impl FnOnce()) -> io::Result<Ended> {
        // SAFETY: the process has one thread (the caller's promise, kept by `crate::code::compiler::serve`), so no lock can be held by a
        // thread that the child lacks; the child goes on in this function and never returns from it.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                let status = match self.confine(bounds, give_up) {
                    Ok(()) => {
                        work();
                        0
                    }
                    Err(_) => 1,
                };
                // SAFETY: ends this process at once, without what the process it is a copy of has registered for its own end.
                unsafe { libc::_exit(status) }
            }
            child => wait(child),
        }
    }

    /// Has a child do `serve`, without waiting for its end; it ends with this process. `give_up` is closed in the child
    /// before it begins. The calling process must have one thread.
    pub fn fork_off(&self, give_up: BorrowedFd<'_>, serve: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        // SAFETY: waits for nobody and writes nowhere: those that have ended are forgotten.
        while unsafe { libc::waitpid(-1, core::ptr::null_mut(), libc::WNOHANG) } > 0 {}
        // SAFETY: as in `run`.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                // SAFETY: as in `confine`.
                unsafe { libc::close(give_up.as_raw_fd()) };
                let ready = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
                let served = ready.map_err(io::Error::from).and_then(|()| serve());
                // SAFETY: as in `run`.
                unsafe { libc::_exit(i32::from(served.is_err())) }
            }
            _ => Ok(()),
        }
    }

    /// The child gives up what it does not need.
    fn confine(&self, bounds: Bounds, give_up: BorrowedFd<'_>) -> io::Result<()> {
        // SAFETY: the descriptor belongs to the parent's value, which this copy of it never uses or drops again.
        unsafe { libc::close(give_up.as_raw_fd()) };
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        let most = |most: u64| Rlimit { current: Some(most), maximum: Some(most) };
        setrlimit(Resource::As, most(self.size()? + bounds.memory))?;
        setrlimit(Resource::Fsize, most(bounds.file))?;
        setrlimit(Resource::Core, most(0))?;
        // Whole seconds: the backstop of the timer.
        let seconds = bounds.cpu.as_secs() + 2;
        let own = getrlimit(Resource::Cpu).maximum.unwrap_or(u64::MAX);
        setrlimit(Resource::Cpu, most(seconds.min(own)))?;
        timer(libc::ITIMER_PROF, bounds.cpu)?;
        timer(libc::ITIMER_REAL, bounds.wall)?;
        seccompiler::apply_filter(&self.filter).map_err(io::Error::other)
    }

    /// Bytes of address space that this process has; the child as much, as it begins.
    fn size(&self) -> io::Result<u64> {
        let mut text = [0; 128];
        let length = rustix::io::pread(self.statm.as_fd(), &mut text, 0)?;
        let pages = text[..length].split(|byte| *byte == b' ').next();
        let pages = pages.and_then(|pages| str::from_utf8(pages).ok()).and_then(|pages| pages.parse::<u64>().ok());
        pages.map(|pages| pages * PAGE).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

/// Has the kernel end this process when it has used so much time.
fn timer(which: libc::c_int, time: Duration) -> io::Result<()> {
    let value = libc::timeval { tv_sec: time.as_secs() as _, tv_usec: time.subsec_micros().max(1) as _ };
    let once = libc::itimerval { it_interval: libc::timeval { tv_sec: 0, tv_usec: 0 }, it_value: value };
    // SAFETY: `once` is read and nothing is written: the old value is not asked for.
    let done = unsafe { libc::setitimer(which as _, &once, core::ptr::null_mut()) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Lets other threads have the CPU first: nicer by so much, for this process and its children.
pub fn give_way(nicer: i32) -> io::Result<()> {
    // SAFETY: takes three numbers and touches no memory; 0 is this process.
    let done = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nicer) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn wait(child: libc::pid_t) -> io::Result<Ended> {
    let mut status = 0;
    // SAFETY: rusage is numbers, for which zeros are a value.
    let mut used: libc::rusage = unsafe { core::mem::zeroed() };
    loop {
        // SAFETY: the kernel writes to the two places it is given, which live here.
        let ended = unsafe { libc::wait4(child, &mut status, 0, &mut used) };
        if ended == child {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    let micros = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
    let cpu_us = micros(used.ru_utime) + micros(used.ru_stime);
    Ok(Ended { end: end(status), cpu_us, peak_kib: used.ru_maxrss as u64 })
}

fn end(status: libc::c_int) -> End {
    if !libc::WIFSIGNALED(status) {
        let exit = libc::WEXITSTATUS(status);
        return if exit == 0 { End::Done } else { End::Broken(-exit) };
    }
    match libc::WTERMSIG(status) {
        libc::SIGPROF | libc::SIGXCPU => End::Cpu,
        libc::SIGALRM => End::Wall,
        libc::SIGXFSZ => End::File,
        // The standard library aborts where memory is wanted and there is none; a panic does not get that far.
        libc::SIGABRT => End::Memory,
        signal => End::Broken(signal),
    }
}
