//! The helper that makes a jail: this program, started for that one purpose and then gone. It has one thread.

use super::failure::{Failure, Lacking};
use super::message::{ORDER_MAX, Order, Said};
use super::{Identity, Jail, Part, identity, init};
use crate::sys::realtime;
use crate::sys::seqpacket::SeqPacket;
use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The first argument by which this program knows that it is to make a jail.
pub const ARGUMENT: &str = "jail";

/// Runs a function of this program, by the name that it has in [`super::Program::Own`]. What it was given is at the
/// numbers that the jail says.
pub type Own = fn(&str) -> io::Result<()>;

/// Descriptors from here up are the jail's own until its program begins.
pub(super) const HIGH: i32 = 256;

/// Users that were passed over, in what the starter is told, at most.
const PASSED_MAX: usize = 16;

/// What the init process is made of.
pub(super) struct Birth {
    pub jail: Jail,
    pub control: SeqPacket,
    pub descriptors: Vec<OwnedFd>,
    pub namespaces: bool,
    /// User and group as they are outside, if a user namespace is around the others.
    pub mapped: Option<(u32, u32)>,
    pub user: Option<(u32, u32)>,
    /// Its lock says that the user is taken.
    pub taken: Option<File>,
    pub own: Own,
}

/// Makes the jail that comes over standard input. Returns only why not.
pub fn serve(own: Own) -> io::Result<Infallible> {
    let control = rustix::io::fcntl_dupfd_cloexec(std::io::stdin().as_fd(), HIGH)?;
    let control = SeqPacket::of(control);
    let Err(failure) = make(&control, own);
    // A starter that is gone needs no answer.
    let _ = control.send(&Said::failed(failure.part, &failure.error).encode());
    Err(failure.error)
}

fn make(control: &SeqPacket, own: Own) -> Result<Infallible, Failure> {
    // One byte more than any order has, so that what is cut off is none.
    let mut message = vec![0; ORDER_MAX + 1];
    let (length, descriptors) = control.receive_with(&mut message)?;
    let Order { jail, namespaces, user_namespace, groups } = Order::decode(&message[..length])?;
    jail.check().map_err(io::Error::other)?;
    if descriptors.len() != jail.keep.len() {
        return Err(io::Error::other("as many descriptors as numbers").into());
    }
    for group in &groups {
        // 0 is whoever writes it.
        let join = || std::fs::write(group.join("cgroup.procs"), "0");
        let joined = join().or_else(|error| {
            // A host may give groups no real-time: then whoever was started under that is an ordinary process in its jail.
            if error.kind() != io::ErrorKind::InvalidInput || !realtime::is_realtime() {
                return Err(error);
            }
            realtime::be_ordinary()?;
            join()
        });
        joined.while_doing(&format!("joining {}", group.display()))?;
    }
    let mut passed = Vec::new();
    let (user, taken) = match jail.identity {
        Identity::Starter => (None, None),
        Identity::Fixed { uid, gid } => (Some((uid, gid)), None),
        Identity::Own { first, last } if !user_namespace => {
            let (uid, file) = identity::take(first, last, &mut passed).while_doing("no user for the jail")?;
            (Some((uid, uid)), Some(file))
        }
        Identity::Own { .. } => (None, None),
    };
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let mut flags = libc::CLONE_PARENT;
    if namespaces {
        flags |= libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;
        flags |= if jail.host_network { 0 } else { libc::CLONE_NEWNET };
        flags |= if user_namespace { libc::CLONE_NEWUSER } else { 0 };
    }
    // Closed when this process ends: so the starter hears of the init process before it hears it.
    let (told, telling) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).while_doing("a pipe")?;
    let mapped = (namespaces && user_namespace).then_some((uid, gid));
    let Some((pid, process)) = clone(flags).lacking(Part::Namespaces, "making its namespaces")? else {
        drop(telling);
        let control = SeqPacket::of(control.as_fd().try_clone_to_owned()?);
        while rustix::io::read(&told, &mut [0u8; 1]) == Err(rustix::io::Errno::INTR) {}
        drop(told);
        init::run(Birth { jail, control, descriptors, namespaces, mapped, user, taken, own })
    };
    passed.truncate(PASSED_MAX);
    let born = Said::Born { pid, uid: user.map_or(uid, |(uid, _)| uid), passed };
    control.send_with(&born.encode(), &[process.as_fd()])?;
    std::process::exit(0)
}

/// Makes a process as clone3(2) does, of which this process's parent is the parent too: its number and pidfd, or nothing in the new one.
fn clone(flags: libc::c_int) -> io::Result<Option<(u32, OwnedFd)>> {
    let mut process: libc::c_int = -1;
    let arguments = libc::clone_args {
        flags: (flags | libc::CLONE_PIDFD) as u64,
        pidfd: (&raw mut process) as u64,
        child_tid: 0,
        parent_tid: 0,
        // None: with CLONE_PARENT it is that of the caller.
        exit_signal: 0,
        stack: 0,
        stack_size: 0,
        tls: 0,
        set_tid: 0,
        set_tid_size: 0,
        cgroup: 0,
    };
    // SAFETY: as fork(2): no memory is shared and the stack goes on where it is. This process has one thread, so no lock is held by
    // another that would not exist in the copy. The kernel writes the descriptor to `process`, which lives for the call.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &arguments, size_of_val(&arguments)) };
    match pid {
        0 => Ok(None),
        // SAFETY: with CLONE_PIDFD a call that succeeds has given a new descriptor, which nobody else has.
        1.. => Ok(Some((pid as u32, unsafe { OwnedFd::from_raw_fd(process) }))),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Puts descriptors to the numbers wanted and closes all others below [`HIGH`]; of 0, 1 and 2 what is not wanted is `nothing`.
pub(super) fn place(descriptors: Vec<OwnedFd>, numbers: &[u32], nothing: BorrowedFd<'_>) -> io::Result<()> {
    let standing: Vec<OwnedFd> =
        descriptors.iter().map(|one| rustix::io::fcntl_dupfd_cloexec(one, HIGH)).collect::<Result<_, _>>()?;
    drop(descriptors);
    let put = |from: BorrowedFd<'_>, to: u32| {
        // SAFETY: dup2(2) touches no memory. Whatever had the number is closed: up to HIGH nothing of ours is there any more, and what
        // the standard library believes to own there, standard input and the like, stays open.
        match unsafe { libc::dup2(from.as_raw_fd(), to as i32) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    };
    for number in (0..3).filter(|number| !numbers.contains(number)) {
        put(nothing, number)?;
    }
    for (from, to) in standing.iter().zip(numbers) {
        put(from.as_fd(), *to)?;
    }
    let mut from = 3;
    let mut numbers: Vec<u32> = numbers.iter().copied().filter(|number| *number >= 3).collect();
    numbers.sort_unstable();
    for number in numbers.into_iter().chain([HIGH as u32]) {
        if from < number {
            // SAFETY: closing numbers touches no memory; nothing below HIGH is ours but what was just put there.
            unsafe { libc::syscall(libc::SYS_close_range, from, number - 1, 0) };
        }
        from = number + 1;
    }
    Ok(())
}
