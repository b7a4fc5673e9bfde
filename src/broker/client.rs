//! The node's end of the broker's sockets: one request at a time on each lane, from any thread.

use super::here::{Home, carry_out};
use super::message::{ANSWER_MAX, Answer, Jail, Lane, Request, WAYS};
use crate::sys::seqpacket::SeqPacket;
use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// For how long an answer is waited for: the verifier may think about a program, and drivers set their queues up anew.
const PATIENCE: Duration = Duration::from_secs(60);

/// The ways to the broker, by their lanes. Privileges are the process's, so it has one broker.
static BROKER: OnceLock<[Mutex<SeqPacket>; WAYS]> = OnceLock::new();

/// Of what is the node's: its run directory, its user.
static LOCKS: OnceLock<Vec<File>> = OnceLock::new();

/// What was done for a request.
#[derive(Debug)]
pub struct Done {
    answer: Answer,
    descriptors: Vec<OwnedFd>,
}

impl Default for Done {
    fn default() -> Done {
        Done { answer: Answer::Done, descriptors: Vec::new() }
    }
}

impl Done {
    /// With an object.
    pub fn of(descriptor: OwnedFd) -> Done {
        Done { descriptors: vec![descriptor], ..Done::default() }
    }

    /// With an object, and what a program is called that stands behind it.
    pub fn of_named(descriptor: OwnedFd, name: String) -> Done {
        Done { answer: Answer::Names(vec![name]), descriptors: vec![descriptor] }
    }

    /// What a program is called that stands behind the object, if one does.
    pub fn behind(&self) -> Option<String> {
        match &self.answer {
            Answer::Names(names) => names.first().cloned(),
            _ => None,
        }
    }

    /// With names.
    pub fn of_names(names: Vec<String>) -> Done {
        Done { answer: Answer::Names(names), descriptors: Vec::new() }
    }

    /// With whether it was so.
    pub fn of_flag(flag: bool) -> Done {
        Done { answer: Answer::Was(flag), descriptors: Vec::new() }
    }

    /// With a jail, and the ways to it.
    pub fn of_jail(jail: Jail, descriptors: Vec<OwnedFd>) -> Done {
        Done { answer: Answer::Jail(jail), descriptors }
    }

    /// The object that was asked for.
    pub fn descriptor(self) -> io::Result<OwnedFd> {
        self.descriptors.into_iter().next().ok_or_else(incomplete)
    }

    /// Whether there is no object.
    pub fn is_without(&self) -> bool {
        self.descriptors.is_empty()
    }

    /// The jail that was asked for, the ways to it, and the files with its weights if there are some.
    pub fn jail(mut self) -> io::Result<(Jail, [OwnedFd; 4], Option<[OwnedFd; 2]>)> {
        let weights = self.descriptors.split_off(self.descriptors.len().min(4));
        match (self.answer, self.descriptors.try_into()) {
            (Answer::Jail(jail), Ok(descriptors)) => Ok((jail, descriptors, weights.try_into().ok())),
            _ => Err(incomplete()),
        }
    }

    /// The names that were asked for.
    pub fn names(self) -> io::Result<Vec<String>> {
        match self.answer {
            Answer::Names(names) => Ok(names),
            _ => Err(incomplete()),
        }
    }

    /// Whether it was so.
    pub fn was(&self) -> bool {
        self.answer == Answer::Was(true)
    }

    pub(super) fn parts(&self) -> (&Answer, &[OwnedFd]) {
        (&self.answer, &self.descriptors)
    }
}

fn incomplete() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the broker's answer has not what was asked for")
}

/// Whether this process has given its privileges away and has a broker.
pub fn is_there() -> bool {
    BROKER.get().is_some()
}

/// From now on the broker behind these sockets is asked, one for each lane; the locks are held as long as this process lives.
pub(super) fn set(sockets: [SeqPacket; WAYS], locks: Vec<File>) -> io::Result<()> {
    let set = BROKER.set(sockets.map(Mutex::new)).map_err(drop).and_then(|()| LOCKS.set(locks).map_err(drop));
    set.map_err(|()| io::Error::other("this process has a broker"))
}

/// Has something done by the broker, or does it where there is none, and waits for that: no thread that moves packets may.
pub fn ask(request: &Request, descriptors: &[BorrowedFd<'_>]) -> io::Result<Done> {
    ask_of(Home::default(), request, descriptors)
}

/// The same for what is done in a run directory, which is the broker's if there is one.
pub fn ask_at(run_dir: &Path, request: &Request, descriptors: &[BorrowedFd<'_>]) -> io::Result<Done> {
    ask_of(Home { run_dir: Some(run_dir), user: None }, request, descriptors)
}

fn ask_of(home: Home<'_>, request: &Request, descriptors: &[BorrowedFd<'_>]) -> io::Result<Done> {
    let Some(broker) = BROKER.get() else { return carry_out(request, descriptors, home) };
    let lane = request.lane();
    // One that nobody uses, if there is one.
    let more = broker[Lane::ALL.len()..].iter().filter(|_| lane == Lane::Ports);
    let free = std::iter::once(&broker[lane as usize]).chain(more).find_map(|way| way.try_lock().ok());
    let socket = free.unwrap_or_else(|| broker[lane as usize].lock().unwrap_or_else(PoisonError::into_inner));
    exchange(&socket, request, descriptors)
}

/// Sends a request and takes its answer.
pub(super) fn exchange(socket: &SeqPacket, request: &Request, descriptors: &[BorrowedFd<'_>]) -> io::Result<Done> {
    let gone = || io::Error::new(io::ErrorKind::BrokenPipe, "the broker of this node is gone; start the node anew");
    socket.send_with(&request.encode(), descriptors).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => gone(),
        _ => error,
    })?;
    if !socket.wait(PATIENCE)? {
        // What it says later would be taken for the answer to something else.
        socket.shutdown();
        return Err(io::Error::new(io::ErrorKind::TimedOut, "the broker of this node does not answer"));
    }
    let mut message = vec![0; ANSWER_MAX];
    let (length, descriptors) = socket.receive_with(&mut message)?;
    match Answer::decode(&message[..length]) {
        Some(Answer::Failed { errno, why }) => Err(Answer::error(errno, why)),
        Some(answer) => Ok(Done { answer, descriptors }),
        None if length == 0 => Err(gone()),
        None => Err(incomplete()),
    }
}
