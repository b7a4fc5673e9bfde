//! The starter's side of a jail: makes the control groups, starts the helper, and reads its reports.

use super::enter::ARGUMENT;
use super::groups::{Groups, Parent};
use super::message::{End, Order, SAID_MAX, Said};
use super::{Identity, Jail, Part, check_name};
use crate::sys::seqpacket::SeqPacket;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg, sockopt::set_socket_passcred};
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};
use rustix::thread::{CapabilitySet, capabilities};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a jail may take to be made, and to be gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes of addresses beyond its own memory where only addresses can be bounded: libraries, stacks, what allocators set aside.
const ADDRESS_BYTES: u64 = 1 << 30;

/// Descriptors of a jail that says nothing of them, as systems have it.
const DESCRIPTORS: u64 = 1024;

/// The most of one without a user of its own. The kernel counts descriptors that are being passed by user, and refuses
/// one more to whoever has a limit below that count: so such a jail leaves the others of its user theirs.
const DESCRIPTORS_SHARED: u64 = 256;

/// Who starts jails: a process that has the privilege, or one that does without.
#[derive(Debug)]
pub struct Starter {
    helper: PathBuf,
    /// The name of its control groups, made when the first jail needs them.
    name: String,
    parent: OnceLock<Parent>,
    /// Without privilege: whether user namespaces were refused.
    refused: AtomicBool,
}

/// A jail whose program runs. Whoever drops it ends it.
#[derive(Debug)]
pub struct Jailed {
    /// The number of the program's process on this host, or of its init process where that is not known.
    pub pid: u32,
    /// The user that it is.
    pub uid: u32,
    /// Its init process: can be read when everything in the jail has ended.
    pub process: OwnedFd,
    /// The way to its init process.
    pub control: SeqPacket,
    /// What was not to be had on this host.
    pub weaker: Vec<Part>,
    /// Its control groups, to be removed by the starter when it has ended.
    pub groups: Groups,
}

/// What went wrong, and for want of what.
struct Refusal {
    part: Option<Part>,
    error: io::Error,
}

impl<E: Into<io::Error>> From<E> for Refusal {
    fn from(error: E) -> Refusal {
        Refusal { part: None, error: error.into() }
    }
}

/// Whether this process can make namespaces and become others.
pub(super) fn is_privileged() -> bool {
    let needed = CapabilitySet::SYS_ADMIN | CapabilitySet::SETUID | CapabilitySet::SETGID;
    capabilities(None).is_ok_and(|held| held.effective.contains(needed))
}

impl Starter {
    /// Starts jails by `helper`, which is this program; `name` is that of its control groups.
    pub fn new(helper: PathBuf, name: &str) -> Result<Starter, String> {
        check_name(name)?;
        let (parent, refused) = (OnceLock::new(), AtomicBool::new(false));
        Ok(Starter { helper, name: name.to_owned(), parent, refused })
    }

    fn parent(&self) -> &Parent {
        self.parent.get_or_init(|| Parent::open(&self.name))
    }

    /// Starts a jail; of `descriptors` each is at the number that the jail says.
    pub fn start(&self, jail: &Jail, descriptors: &[BorrowedFd<'_>]) -> io::Result<Jailed> {
        jail.check().map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
        if descriptors.len() != jail.keep.len() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a jail keeps as many descriptors as it gets"));
        }
        let user_namespace = !is_privileged();
        let namespaces = !(user_namespace && self.refused.load(Ordering::Relaxed));
        let jailed = match self.attempt(jail, descriptors, namespaces, user_namespace) {
            Err(Refusal { part: Some(Part::Namespaces), error }) if !jail.required.contains(&Part::Namespaces) => {
                tracing::debug!(%error, "a jail without namespaces");
                self.refused.store(user_namespace, Ordering::Relaxed);
                self.attempt(jail, descriptors, false, user_namespace)
            }
            other => other,
        };
        jailed.map_err(|refusal| refusal.error)
    }

    /// One try; a jail that lacks what is required is ended again.
    fn attempt(
        &self,
        jail: &Jail,
        descriptors: &[BorrowedFd<'_>],
        namespaces: bool,
        user_namespace: bool,
    ) -> Result<Jailed, Refusal> {
        let mut jail = jail.clone();
        let own_user = jail.identity != Identity::Starter && !user_namespace;
        if !own_user {
            let most = jail.limits.descriptors.map_or(DESCRIPTORS_SHARED, |own| own.min(DESCRIPTORS_SHARED));
            jail.limits.descriptors = Some(most);
        }
        let mut weaker = if jail.group.is_some() { self.parent().lacks() } else { Vec::new() };
        if let (Some(data), true) = (jail.limits.data_bytes, weaker.contains(&Part::Memory)) {
            let addresses = *jail.limits.address_bytes.get_or_insert(data.saturating_add(ADDRESS_BYTES));
            // A file in memory need not be among the addresses of whoever writes it: all that can be open have no more than these.
            let descriptors = jail.limits.descriptors.unwrap_or(DESCRIPTORS);
            jail.limits.file_bytes.get_or_insert(addresses / descriptors.max(1));
        }
        if let Some(group) = jail.group.as_ref().filter(|group| group.tasks > 0) {
            jail.limits.processes = weaker.contains(&Part::Processes).then_some(group.tasks.into());
        }
        if own_user || namespaces {
            // The user, or the user in its namespace, has no other processes: so the limit of the process does as well.
            weaker.retain(|part| *part != Part::Processes);
        }
        let groups = match &jail.group {
            Some(group) => self.parent().add(&jail.name, group)?,
            None => Groups::default(),
        };
        let order = Order { namespaces, user_namespace, groups: groups.places.clone(), jail };
        let begun = begin(&self.helper, &order, descriptors).and_then(|mut jailed| {
            weaker.append(&mut jailed.weaker);
            weaker.sort_unstable();
            jailed.weaker = weaker;
            match jailed.weaker.iter().find(|part| order.jail.required.contains(part)) {
                None => Ok(jailed),
                Some(part) => {
                    let why = format!("required is what this host has not: {}", part.lack());
                    jailed.kill();
                    jailed.wait();
                    Err(io::Error::other(why).into())
                }
            }
        });
        match begun {
            Ok(jailed) => Ok(Jailed { groups, ..jailed }),
            Err(refusal) => {
                groups.remove();
                Err(refusal)
            }
        }
    }
}

/// Starts the helper with an order, and hears that the program runs.
fn begin(helper: &PathBuf, order: &Order, descriptors: &[BorrowedFd<'_>]) -> Result<Jailed, Refusal> {
    let (control, other) = SeqPacket::pair()?;
    // So that the kernel says which process a message is from.
    set_socket_passcred(&control, true)?;
    control.send_with(&order.encode()?, descriptors)?;
    let mut command = Command::new(helper);
    command.arg(ARGUMENT).env_clear().stdin(Stdio::from(other)).stdout(Stdio::null());
    let mut child = command.spawn()?;
    // It holds the other end.
    drop(command);
    let heard = hear(control);
    if heard.is_err() {
        // It may wait for what never comes, as a file that somebody has leased; one that has gone cannot be killed.
        let _ = child.kill();
    }
    // The helper has gone, or goes: it has nothing left to do.
    match child.wait() {
        // Where nobody waits for children the kernel does.
        Err(error) if error.raw_os_error() != Some(libc::ECHILD) => Err(error.into()),
        _ => heard,
    }
}

/// An init process: its number, its user, itself.
type Born = (u32, u32, OwnedFd);

/// Hears that the program runs. If it does not, nothing of the jail lives afterwards.
fn hear(control: SeqPacket) -> Result<Jailed, Refusal> {
    let mut born = None;
    match await_program(&control, &mut born) {
        Ok((pid, weaker)) => {
            let (first, uid, process) = born.ok_or_else(|| io::Error::other("a jail without a process"))?;
            let (pid, groups) = (pid.unwrap_or(first), Groups::default());
            Ok(Jailed { pid, uid, process, control, weaker, groups })
        }
        Err(refusal) => {
            drop(control);
            if let Some((_, _, process)) = born {
                // It ends by itself, unless it is what waits; one that has ended cannot be killed.
                let _ = pidfd_send_signal(&process, Signal::KILL);
                reap(&process);
            }
            Err(refusal)
        }
    }
}

/// Waits until the program runs: its number, if the kernel has said it, and what is weaker.
fn await_program(control: &SeqPacket, born: &mut Option<Born>) -> Result<(Option<u32>, Vec<Part>), Refusal> {
    let (mut program, mut message) = (None, vec![0; SAID_MAX + 1]);
    loop {
        if !control.wait(PATIENCE)? {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "a jail was not ready within 10 s").into());
        }
        let (said, process, sender) = receive(control, &mut message)?;
        match said {
            Said::Born { pid, uid, passed } => {
                passed.into_iter().for_each(super::identity::say_passed);
                *born = process.map(|process| (pid, uid, process));
            }
            Said::Program => program = sender,
            Said::Runs { weaker } => return Ok((program, weaker)),
            Said::Failed { part, why } => return Err(Refusal { part, error: io::Error::other(why) }),
            Said::Ended(end) => return Err(io::Error::other(format!("it ended at once: {end}")).into()),
        }
    }
}

/// A message, the descriptor that came with it, and who has sent it.
fn receive(control: &SeqPacket, message: &mut [u8]) -> io::Result<(Said, Option<OwnedFd>, Option<u32>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1), ScmCredentials(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let came = recvmsg(control, &mut [IoSliceMut::new(message)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let (mut descriptor, mut sender) = (None, None);
    for part in ancillary.drain() {
        match part {
            RecvAncillaryMessage::ScmRights(mut list) => descriptor = list.next(),
            RecvAncillaryMessage::ScmCredentials(who) => sender = u32::try_from(who.pid.as_raw_nonzero().get()).ok(),
            _ => {}
        }
    }
    if came.bytes == 0 {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the helper of a jail has gone without a word"));
    }
    Ok((Said::decode(&message[..came.bytes])?, descriptor, sender))
}

/// Waits for a process that ends, and lets its number go if it is our child.
fn reap(process: &OwnedFd) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let most = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
    // One that is no child of ours is somebody else's to wait for.
    let _ = poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&most));
    let _ = waitid(WaitId::PidFd(process.as_fd()), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
}

impl Jailed {
    /// Asks all in the jail to end (SIGTERM).
    pub fn ask(&self) {
        // One that has ended need not be asked.
        let _ = self.control.send(b"end");
    }

    /// Ends all in the jail at once.
    pub fn kill(&self) {
        // One that has ended has closed it.
        let _ = rustix::net::shutdown(&self.control, rustix::net::Shutdown::Write);
        // One that somebody has stopped would not hear it; one that has ended, or is the broker's, needs no signal.
        let _ = pidfd_send_signal(&self.process, Signal::CONT);
    }

    /// Waits until everything in the jail has ended, removes its control groups and says how the program has ended.
    pub fn wait(&self) -> End {
        let end = self.await_end();
        self.groups.remove();
        end
    }

    /// The same, and leaves its control groups to be read, and removed.
    pub fn await_end(&self) -> End {
        let mut end = End::Unknown;
        let mut message = vec![0; SAID_MAX + 1];
        loop {
            match receive(&self.control, &mut message) {
                Ok((Said::Ended(how), ..)) => end = how,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        reap(&self.process);
        end
    }
}
