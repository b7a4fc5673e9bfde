//! A forked child for one piece of work on untrusted input, such as one module to compile.
//!
//! The child is a copy of a process with one thread, so it begins warm, and it ends with its work: nothing of one piece
//! reaches the next. First it gives up all that it does not need (limits, then a list of system calls), for good. The
//! kernel ends it, not a watcher: by its CPU time, by the wall clock, by a call that is not on the list.

mod ended;

pub use ended::{End, Ended};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use seccompiler::BpfProgram;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Bytes of a page.
const PAGE: u64 = 4096;

/// Bytes of addresses that any process can have.
const ADDRESSES: u64 = 1 << 56;

/// Time that a child has which holds the wall clock's signal back: then it is killed.
const HELD_BACK: Duration = Duration::from_millis(200);

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

/// What a process with one thread needs to have children.
pub struct Forker {
    filter: BpfProgram,
}

impl Forker {
    /// Prepares for children that have the system calls of `filter` and no others.
    pub fn new(filter: BpfProgram) -> Forker {
        Forker { filter }
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
            child => {
                let began = Instant::now();
                let mut ended = wait(child)?;
                if ended.end == End::Broken(libc::SIGKILL) && began.elapsed() >= bounds.wall + HELD_BACK {
                    ended.end = End::Broken(libc::SIGALRM);
                }
                Ok(ended)
            }
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
        setrlimit(Resource::As, most(size()? + bounds.memory))?;
        setrlimit(Resource::Fsize, most(bounds.file))?;
        setrlimit(Resource::Core, most(0))?;
        // Whole seconds: the backstop of the timer.
        let seconds = bounds.cpu.as_secs() + 2;
        let own = getrlimit(Resource::Cpu).maximum.unwrap_or(u64::MAX);
        setrlimit(Resource::Cpu, most(seconds.min(own)))?;
        posix_timer(libc::CLOCK_PROCESS_CPUTIME_ID, bounds.cpu, libc::SIGPROF)?;
        wall_timer(bounds.wall)?;
        // A signal that the child holds back ends nothing; this one nobody can.
        posix_timer(libc::CLOCK_MONOTONIC, bounds.wall + HELD_BACK, libc::SIGKILL)?;
        seccompiler::apply_filter(&self.filter).map_err(io::Error::other)
    }
}

/// Bytes of addresses that this process has. `/proc` says so too, but is not there in a jail: so this finds the lowest
/// limit under which there is room for one page more. The limit is what it was afterwards.
fn size() -> io::Result<u64> {
    let before = getrlimit(Resource::As);
    let (mut too_few, mut enough) = (0, before.current.unwrap_or(ADDRESSES) / PAGE);
    while enough - too_few > 1 {
        let pages = too_few + (enough - too_few) / 2;
        setrlimit(Resource::As, Rlimit { current: Some(pages * PAGE), maximum: before.maximum })?;
        // SAFETY: a new mapping, wherever the kernel has room, that nobody can read or write.
        match unsafe { mmap_anonymous(core::ptr::null_mut(), PAGE as usize, ProtFlags::empty(), MapFlags::PRIVATE) } {
            Ok(page) => {
                // SAFETY: the mapping just made, to which nothing refers.
                unsafe { munmap(page, PAGE as usize) }?;
                enough = pages;
            }
            Err(_) => too_few = pages,
        }
    }
    setrlimit(Resource::As, before)?;
    Ok(too_few * PAGE)
}

/// Has the kernel end this process by a signal when this clock has gone on by so much. Of the clocks of a process's
/// time that of POSIX timers is the one that is exact: others count whom a tick of the system finds at work, so that a
/// tenth more or less would decide on a busy machine.
fn posix_timer(clock: libc::clockid_t, time: Duration, signal: libc::c_int) -> io::Result<()> {
    // SAFETY: numbers and addresses, for which zeros are a value.
    let mut told: libc::sigevent = unsafe { core::mem::zeroed() };
    told.sigev_notify = libc::SIGEV_SIGNAL;
    told.sigev_signo = signal;
    let mut timer: libc::timer_t = core::ptr::null_mut();
    let never = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let end = libc::timespec { tv_sec: time.as_secs() as _, tv_nsec: time.subsec_nanos().max(1) as _ };
    let once = libc::itimerspec { it_interval: never, it_value: end };
    // SAFETY: the first call reads `told` and writes `timer`, the second reads `once`; all live for the calls, and the
    // timer is the one just made.
    let done = unsafe {
        match libc::timer_create(clock, &raw mut told, &raw mut timer) {
            0 => libc::timer_settime(timer, 0, &once, core::ptr::null_mut()),
            failed => failed,
        }
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Has the kernel end this process when so much time has passed.
fn wall_timer(time: Duration) -> io::Result<()> {
    timer(libc::ITIMER_REAL, time)
}

/// Has the kernel end this process when it has used about so much more time of the CPU, by one call, which each piece
/// of work may make anew.
pub fn end_after(cpu: Duration) -> io::Result<()> {
    timer(libc::ITIMER_PROF, cpu)
}

fn timer(which: libc::c_int, time: Duration) -> io::Result<()> {
    let value = libc::timeval { tv_sec: time.as_secs() as _, tv_usec: time.subsec_micros().max(1) as _ };
    let once = libc::itimerval { it_interval: libc::timeval { tv_sec: 0, tv_usec: 0 }, it_value: value };
    // SAFETY: `once` is read and nothing is written: the old value is not asked for.
    let done = unsafe { libc::setitimer(which as _, &once, core::ptr::null_mut()) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What no process can be nicer than (setpriority(2)).
const NICEST: i32 = 19;

/// Lets other threads have the CPU first: nicer by so much than now, for this process and its children. (Who was begun nicely may not
/// become less nice again.)
pub fn give_way(nicer: i32) -> io::Result<()> {
    // SAFETY: takes two numbers and touches no memory; 0 is this process, which exists: -1 is a value here.
    let now = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    // SAFETY: takes three numbers and touches no memory; 0 is this process.
    let done = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, (now + nicer).min(NICEST)) };
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd as _;

    #[test]
    fn how_a_child_ends_is_told_from_its_signal_or_status() {
        // Wait statuses as the kernel makes them: a signal below, an exit status above eight bits.
        for (status, expected) in [
            (0, End::Done),
            (1 << 8, End::Broken(-1)),
            (101 << 8, End::Broken(-101)),
            (libc::SIGPROF, End::Cpu),
            (libc::SIGXCPU, End::Cpu),
            (libc::SIGALRM, End::Wall),
            (libc::SIGXFSZ, End::File),
            (libc::SIGABRT, End::Memory),
            (libc::SIGKILL, End::Broken(9)),
            (libc::SIGSEGV, End::Broken(11)),
            (libc::SIGSYS, End::Broken(31)),
        ] {
            assert_eq!(end(status), expected, "{status}");
        }
    }

    #[test]
    fn who_was_begun_nicely_gets_nicer_still() {
        // Each thread has a priority of its own here.
        std::thread::spawn(|| {
            // SAFETY: takes two numbers and touches no memory.
            let now = || unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
            for expected in [(now() + 3).min(NICEST), (now() + 6).min(NICEST), NICEST, NICEST] {
                give_way(if expected == NICEST { NICEST } else { 3 }).unwrap();
                assert_eq!(now(), expected);
            }
        })
        .join()
        .unwrap();
    }

    /// How a child ends that does this, with so much time by the clock on the wall.
    fn end_of(wall: Duration, work: impl FnOnce()) -> String {
        let (mut said, mut saying) = std::io::pipe().unwrap();
        let nothing = std::fs::File::open("/dev/null").unwrap();
        // Lets all calls through.
        let all = seccompiler::sock_filter { code: 6, jt: 0, jf: 0, k: 0x7fff_0000 };
        let forker = Forker::new(vec![all]);
        let bounds = Bounds { cpu: Duration::from_secs(60), memory: 1 << 30, file: 1 << 20, wall };
        // SAFETY: the copy has one thread, and calls nothing that another may have locked but what it writes by; it ends without returning.
        let copy = unsafe { libc::fork() };
        if copy == 0 {
            let ended = forker.run(bounds, nothing.as_fd(), work).map(|ended| ended.end);
            let _ = std::io::Write::write_all(&mut saying, format!("{ended:?}").as_bytes());
            // SAFETY: ends this copy at once.
            unsafe { libc::_exit(0) }
        }
        drop(saying);
        let mut words = String::new();
        std::io::Read::read_to_string(&mut said, &mut words).unwrap();
        wait(copy).unwrap();
        words
    }

    #[test]
    fn a_child_that_is_killed_at_its_work_has_not_done_it() {
        // SAFETY: a signal to the process that calls this, which is the child.
        let die = || unsafe {
            libc::kill(libc::getpid(), libc::SIGKILL);
        };
        assert_eq!(end_of(Duration::from_secs(60), die), "Ok(Broken(9))");
    }

    #[test]
    fn a_child_that_waits_ends_by_the_clock_and_no_later_if_it_holds_the_signal_back() {
        // SAFETY: waits for a signal, for ever.
        let wait = || unsafe {
            libc::pause();
        };
        assert_eq!(end_of(Duration::from_millis(20), wait), "Ok(Wall)");
        // SAFETY: a set of signals on the stack, which the calls fill and read; then waits for ever.
        let held = || unsafe {
            let mut all = core::mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::sigprocmask(libc::SIG_BLOCK, &raw const all, core::ptr::null_mut());
            libc::pause();
        };
        assert_eq!(
            end_of(Duration::from_millis(20), held),
            "Ok(Broken(14))",
            "by a signal that is remembered of a module"
        );
    }

    #[test]
    fn a_process_finds_out_how_many_addresses_it_has() {
        // In a process of one thread, where nothing else is mapped meanwhile.
        let (mut said, mut saying) = std::io::pipe().unwrap();
        // SAFETY: the copy calls nothing that another thread may have locked but what it writes by, and ends without returning.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let before = getrlimit(Resource::As);
            let words = match (size(), std::fs::read_to_string("/proc/self/statm")) {
                (Ok(size), Ok(statm)) => format!("{size} {statm}"),
                other => format!("{other:?}"),
            };
            let same = getrlimit(Resource::As) == before;
            let _ = std::io::Write::write_all(&mut saying, format!("{same} {words}").as_bytes());
            // SAFETY: ends this copy at once.
            unsafe { libc::_exit(0) }
        }
        drop(saying);
        let mut words = String::new();
        std::io::Read::read_to_string(&mut said, &mut words).unwrap();
        wait(child).unwrap();
        let numbers: Vec<&str> = words.split_whitespace().collect();
        let number = |at: usize| numbers[at].parse::<u64>().unwrap_or_else(|_| panic!("{words}"));
        assert_eq!(numbers[0], "true", "{words}");
        assert!(number(1).abs_diff(number(2) * PAGE) <= 64 * PAGE, "{words}: what reading takes may be there or not");
    }
}
