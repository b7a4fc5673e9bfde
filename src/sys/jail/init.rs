//! Process 1 of a jail: it makes the jail around itself, starts its program, and stays until that ends or the starter
//! is gone.

use super::enter::{Birth, HIGH};
use super::failure::{Failure, Lacking};
use super::message::{End, Said};
use super::program::{self, Child};
use super::{Identity, Part, Program, confine, root, seccomp};
use crate::sys::privileges;
use crate::sys::seqpacket::SeqPacket;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Where programs are looked for that are named without '/'.
const SEARCHED: &str = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

/// How readily programs are ended when memory runs out, beside other processes (proc(5), oom_score_adj).
const EAGER: u32 = 500;

/// Runs the jail and ends with it.
pub(super) fn run(mut birth: Birth) -> ! {
    let said = match settle(&mut birth) {
        Ok(end) => Said::Ended(end),
        Err(failure) => Said::failed(failure.part, &failure.error),
    };
    // A starter that is gone needs no answer.
    let _ = birth.control.send(&said.encode());
    if !birth.namespaces {
        // Else the kernel ends all that are left with process 1.
        let _ = rustix::process::kill_current_process_group(Signal::KILL);
    }
    std::process::exit(0)
}

/// Makes the jail, starts the program, and waits for its end.
fn settle(birth: &mut Birth) -> Result<End, Failure> {
    if let Some((uid, gid)) = birth.mapped {
        map_user(uid, gid).lacking(Part::Namespaces, "its user namespace")?;
    }
    let mut weaker = Vec::new();
    if birth.user.is_none() && birth.jail.identity != Identity::Starter {
        weaker.push(Part::User);
    }
    find_program(birth)?;
    let nothing = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, rustix::fs::Mode::empty());
    let nothing = rustix::io::fcntl_dupfd_cloexec(nothing.while_doing("/dev/null")?, HIGH).while_doing("/dev/null")?;
    let eager = File::options().write(true).open("/proc/self/oom_score_adj").ok();
    rustix::process::setpgid(None, None).while_doing("its process group")?;
    if birth.namespaces {
        rustix::system::sethostname(birth.jail.name.as_bytes()).lacking(Part::Namespaces, "its host name")?;
        root::enter(&birth.jail.paths).lacking(Part::Namespaces, "its root")?;
    } else {
        weaker.push(Part::Namespaces);
        // There is only the host's.
        birth.jail.paths.processes = false;
        rustix::process::chdir("/").while_doing("/")?;
    }
    become_user(birth).while_doing("becoming its user")?;
    let signals = block_signals().while_doing("its signals")?;
    // Of a jail that has no memory left the program is ended, or what it has started, and not this process, which tells of it.
    adjust(&eager, EAGER);
    let (pid, landlock) = start(birth, nothing)?;
    adjust(&eager, 0);
    if !landlock {
        weaker.push(Part::Landlock);
    }
    birth.control.send(&Said::Runs { weaker }.encode())?;
    let kept = [
        Some(birth.control.as_fd().as_raw_fd()),
        Some(signals.as_raw_fd()),
        birth.taken.as_ref().map(AsRawFd::as_raw_fd),
    ];
    close_but(kept.into_iter().flatten());
    seccomp::apply("init").while_doing("its own system calls")?;
    Ok(attend(&birth.control, &signals, pid))
}

/// Says how readily the kernel ends this process, and what it starts from then on, when memory runs out. Where it
/// cannot be said it stays as it is.
fn adjust(file: &Option<File>, readiness: u32) {
    if let Some(mut file) = file.as_ref() {
        let _ = file.write_all(readiness.to_string().as_bytes());
    }
}

/// Has the user of the outside here too, and nobody else.
fn map_user(uid: u32, gid: u32) -> io::Result<()> {
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))
}

/// Finds the program and lets the jail see it.
fn find_program(birth: &mut Birth) -> Result<(), Failure> {
    let Program::File(words) = &mut birth.jail.program else { return Ok(()) };
    let name = words[0].clone();
    let found = match name.starts_with('/') {
        true => Some(PathBuf::from(&name)).filter(|path| path.exists()),
        false => {
            let variables = birth.jail.variables.iter();
            let path = variables.clone().find(|(name, _)| name == "PATH").map_or(SEARCHED, |(_, path)| path);
            path.split(':')
                .map(|folder| Path::new(folder).join(&name))
                .find(|path| path.is_absolute() && path.is_file())
        }
    };
    let found = found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("{name}: no such program")))?;
    words[0] = found.to_string_lossy().into_owned();
    birth.jail.paths.read.push(found);
    Ok(())
}

/// Becomes its user, without capabilities but those that are kept; nobody else of that user may look into this process.
fn become_user(birth: &Birth) -> io::Result<()> {
    let user = birth.user.map(|(uid, gid)| privileges::Identity { uid, gid });
    privileges::become_user(user, confine::set_of(&birth.jail.capabilities))
}

/// A descriptor that can be read when a child has ended. That the jail is asked to end is for the program, which
/// unblocks it, not for this process.
fn block_signals() -> io::Result<OwnedFd> {
    // SAFETY: the set is initialised by sigemptyset(3) before it is read and lives for the calls, which touch no other
    // memory. No handler is installed: both signals stay blocked for as long as this process lives, so they wait and
    // are never delivered; SIGCHLD is read, SIGTERM is not.
    let descriptor = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGCHLD);
        libc::sigaddset(&mut set, libc::SIGTERM);
        libc::sigprocmask(libc::SIG_SETMASK, &set, std::ptr::null_mut());
        libc::sigdelset(&mut set, libc::SIGTERM);
        libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    match descriptor {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: signalfd(2) has given a new descriptor, which nobody else has.
        descriptor => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
    }
}

/// Starts the program: its number, and whether Landlock holds.
fn start(birth: &mut Birth, nothing: OwnedFd) -> Result<(Pid, bool), Failure> {
    let (said, saying) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).while_doing("a pipe")?;
    let saying = rustix::io::fcntl_dupfd_cloexec(saying, HIGH).while_doing("a pipe")?;
    let descriptors = std::mem::take(&mut birth.descriptors);
    // SAFETY: as fork(2) asks: this process has one thread, so no lock is held by another that would not exist in the copy.
    let pid = match unsafe { libc::fork() } {
        -1 => return Err(io::Error::last_os_error().into()),
        0 => program::begin(Child { birth, descriptors, nothing, saying }),
        pid => pid,
    };
    drop((saying, nothing, descriptors));
    // Until the program begins it says nothing, or what it lacks.
    let mut told = Vec::new();
    File::from(said).read_to_end(&mut told)?;
    let landlock = told.first() != Some(&program::NO_LANDLOCK);
    let why = if landlock { &told[..] } else { &told[1..] };
    match (why.is_empty(), Pid::from_raw(pid)) {
        (true, Some(pid)) => Ok((pid, landlock)),
        _ => Err(io::Error::other(String::from_utf8_lossy(why).into_owned()).into()),
    }
}

/// Closes what this process does not need any more.
fn close_but(kept: impl Iterator<Item = i32>) {
    let mut kept: Vec<u32> = kept.map(|number| number as u32).collect();
    kept.sort_unstable();
    let mut from = 3;
    for number in kept.into_iter().chain([u32::MAX]) {
        if from < number {
            // SAFETY: closing numbers touches no memory; of all descriptors only those in `kept` are used or dropped from here on, but for
            // standard input, output and error, which stay.
            unsafe { libc::syscall(libc::SYS_close_range, from, number - 1, 0) };
        }
        from = number.saturating_add(1);
    }
}

/// Waits for the end of the program, and passes on that it is to end; the end of the starter is its own.
fn attend(control: &SeqPacket, signals: &OwnedFd, program: Pid) -> End {
    loop {
        let mut fds = [PollFd::new(control, PollFlags::IN), PollFd::new(signals, PollFlags::IN)];
        if poll(&mut fds, None).is_err() {
            continue;
        }
        let (asked, ended) = (!fds[0].revents().is_empty(), !fds[1].revents().is_empty());
        if ended {
            // What has ended is asked for below; this is only to be read.
            let _ = rustix::io::read(signals, &mut [0u8; 128]);
            if let Some(end) = reap(program) {
                return end;
            }
        }
        if asked && !matches!(control.receive(&mut [0; 16]), Ok(1..)) {
            return End::Unknown;
        }
        if asked {
            // To all in the jail; this process does not hear it.
            let _ = rustix::process::kill_current_process_group(Signal::TERM);
        }
    }
}

/// Takes note of processes that have ended; how the program has, once it has.
fn reap(program: Pid) -> Option<End> {
    let of = |status: WaitStatus| match (status.exit_status(), status.terminating_signal()) {
        (Some(status), _) => End::Status(status),
        (None, Some(signal)) => End::Signal(signal),
        (None, None) => End::Unknown,
    };
    while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
        if pid == program {
            return Some(of(status));
        }
    }
    None
}
