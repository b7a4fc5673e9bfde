//! Real-time scheduling of the calling thread, the CPUs it may run on, and memory that stays in RAM.

use rustix::process::{Pid, Resource, getrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;

/// Runs the calling thread under SCHED_FIFO at a priority from 1 to 99: before all ordinary threads, until it waits. What it starts
/// does not inherit that.
pub fn be_realtime(priority: u8) -> io::Result<()> {
    make_realtime(0, priority)
}

/// The same for any thread, by its number; 0 is the calling one. What it starts is ordinary.
pub fn make_realtime(thread: i32, priority: u8) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid value of this C structure of integers.
    let mut parameter: libc::sched_param = unsafe { core::mem::zeroed() };
    parameter.sched_priority = i32::from(priority);
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the parameter lives as long as the call, which only reads it.
    match unsafe { libc::sched_setscheduler(thread, policy, &raw const parameter) } {
        -1 => Err(explain(
            io::Error::last_os_error(),
            &format!(
                "real-time scheduling (SCHED_FIFO) needs CAP_SYS_NICE, or a limit for real-time priority (ulimit -r) of {priority}"
            ),
        )),
        _ => Ok(()),
    }
}

/// Runs the calling thread under ordinary time-sharing again.
pub fn be_ordinary() -> io::Result<()> {
    make_ordinary(0)
}

/// The same for any thread, by its number; 0 is the calling one. One that is not there is ordinary.
pub fn make_ordinary(thread: i32) -> io::Result<()> {
    // SAFETY: as above.
    let parameter: libc::sched_param = unsafe { core::mem::zeroed() };
    // SAFETY: as above.
    match unsafe { libc::sched_setscheduler(thread, libc::SCHED_OTHER, &raw const parameter) } {
        -1 => Err(io::Error::last_os_error()).or_else(|error| match error.raw_os_error() {
            Some(libc::ESRCH) => Ok(()),
            _ => Err(error),
        }),
        _ => Ok(()),
    }
}

/// The number of the calling thread.
pub fn this_thread() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// Whether the calling thread runs under SCHED_FIFO.
pub fn is_realtime() -> bool {
    // SAFETY: no argument is an address; 0 is the calling thread.
    unsafe { libc::sched_getscheduler(0) & !libc::SCHED_RESET_ON_FORK == libc::SCHED_FIFO }
}

/// These CPUs, as the kernel takes them.
fn set_of(cpus: &[usize]) -> io::Result<CpuSet> {
    let mut set = CpuSet::new();
    for cpu in cpus {
        if *cpu >= CpuSet::MAX_CPU {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("there is no CPU {cpu}")));
        }
        set.set(*cpu);
    }
    Ok(set)
}

/// Lets all threads that another process has now, and those they start, run on one CPU only.
pub fn pin_process(process: u32, cpu: usize) -> io::Result<()> {
    let set = set_of(&[cpu])?;
    for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let number = thread?.file_name().to_str().and_then(|name| name.parse().ok());
        // Nobody's number would mean the thread that calls.
        let thread = number.and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
        sched_setaffinity(Some(thread), &set)?;
    }
    Ok(())
}

/// Lets the calling thread run on these CPUs only.
pub fn pin(cpus: &[usize]) -> io::Result<()> {
    let set = set_of(cpus)?;
    sched_setaffinity(None, &set).map_err(|error| {
        let there: Vec<_> = allowed_cpus().iter().map(usize::to_string).collect();
        explain(error.into(), &format!("CPUs that this process may use: {}", there.join(" ")))
    })
}

/// The CPUs on which the calling thread may run.
pub fn allowed_cpus() -> Vec<usize> {
    let set = sched_getaffinity(None);
    set.map(|set| (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()).unwrap_or_default()
}

/// Keeps in RAM all memory that the process has now: program, libraries, stacks, heap. What comes later is not locked,
/// since wasm's memories are given back to the system page by page, which locked ones cannot be.
///
/// The first thread's stack is one that grows, and locked as it does: in a process that has lost the right to lock more since, the kernel
/// would refuse that by SIGSEGV. So it grows before.
pub fn lock_memory() -> io::Result<()> {
    if rustix::thread::gettid() == rustix::process::getpid() {
        let most = getrlimit(Resource::Stack).current.unwrap_or(STACK_MAX).min(STACK_MAX);
        let here = 0u8;
        touch_stack((&raw const here).addr(), most.saturating_sub(STACK_SPARE) as usize);
    }
    // SAFETY: the call takes no addresses and changes the contents of no memory.
    match unsafe { libc::mlockall(libc::MCL_CURRENT) } {
        -1 => Err(explain(
            io::Error::last_os_error(),
            "keeping memory in RAM needs CAP_IPC_LOCK, or a limit of locked memory (ulimit -l) that is large enough",
        )),
        _ => Ok(()),
    }
}

/// Bytes of stack that are touched, at most: what processes have as a rule.
const STACK_MAX: u64 = 8 << 20;

/// What of a stack is left alone: arguments and environment, and what has called.
const STACK_SPARE: u64 = 512 << 10;

/// Uses so many bytes of stack from an address on, a page at a time.
#[inline(never)]
fn touch_stack(from: usize, bytes: usize) {
    let room = std::hint::black_box([0u8; 4096]);
    if room.as_ptr().addr().abs_diff(from) < bytes {
        touch_stack(from, bytes);
    }
    // It is in use until then, so that nobody makes a loop of this.
    std::hint::black_box(&room);
}

fn explain(error: io::Error, remedy: &str) -> io::Error {
    io::Error::new(error.kind(), format!("{error}: {remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a thread of its own, which takes what it did along.
    fn apart<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> T {
        std::thread::spawn(what).join().unwrap()
    }

    #[test]
    fn a_thread_that_may_is_real_time_and_what_it_starts_is_not() {
        apart(|| match be_realtime(1) {
            Ok(()) => {
                assert!(is_realtime());
                assert!(!apart(is_realtime));
                be_ordinary().unwrap();
                assert!(!is_realtime());
            }
            Err(error) => {
                assert!(error.to_string().contains("CAP_SYS_NICE"), "{error}");
                assert!(!crate::sys::process::is_root() || std::env::var_os("CI").is_none(), "root may");
                println!("SKIPPED: {error}");
            }
        });
    }

    #[test]
    fn a_pinned_thread_stays_on_its_cpu_and_errors_name_those_there_are() {
        apart(|| {
            let first = allowed_cpus()[0];
            pin(&[first]).unwrap();
            assert_eq!(allowed_cpus(), [first]);
            assert!(pin(&[CpuSet::MAX_CPU]).unwrap_err().to_string().contains("no CPU"));
            assert!(pin(&[]).unwrap_err().to_string().contains(&first.to_string()));
        });
    }
}
