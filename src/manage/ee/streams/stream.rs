//! One stream: a TCP socket, the local socket that leads to the program, and what is held between them.

use super::account::{Right, Seat};
use crate::nodeos::interface::Error;
use crate::sys::clock::Clock;
use crate::sys::tcp;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_send_buffer_size, socket_error};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, recv, send, shutdown, socketpair,
};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Bytes that wait in one direction of a stream.
const HELD: usize = 16 << 10;

/// Bytes that a stream takes from its domain: those, and as many again for what stands around them.
pub const STREAM_BYTES: u64 = 4 * HELD as u64;

/// Bytes that the kernel is asked to hold in one direction between the node and the program; it takes as many again for what is around
/// them. The list of a jail keeps programs from asking for more.
const PAIR_BYTES: usize = 64 << 10;

/// Bytes that the kernel holds for one stream at most, both ways at both sides. They are nobody's account: a role's `streams` bound them.
pub const KERNEL_BYTES: usize = 2 * (2 * tcp::BUFFER_BYTES + 2 * PAIR_BYTES);

const _: () = assert!(KERNEL_BYTES == 768 << 10, "docs/nodeos.md says so");

/// Times that one stream is served before others are.
const ROUNDS: usize = 16;

/// A stream.
pub struct Stream {
    /// Its place.
    pub seat: Seat,
    /// The network's side.
    pub tcp: Arc<OwnedFd>,
    /// The program's side.
    pub ours: Arc<OwnedFd>,
    connecting: bool,
    /// The program has closed its end.
    pub gone: bool,
    /// It waits until it may send more.
    paced: bool,
    outward: Way,
    inward: Way,
}

/// One direction.
struct Way {
    held: Box<[u8]>,
    from: usize,
    to: usize,
    /// Nothing more comes, and that was passed on.
    ended: bool,
    told: bool,
}

impl Way {
    fn new() -> Way {
        Way { held: vec![0; HELD].into_boxed_slice(), from: 0, to: 0, ended: false, told: false }
    }

    fn is_empty(&self) -> bool {
        self.from == self.to
    }

    /// Reads what there is, if nothing is held; whether anything came.
    fn fill(&mut self, source: &OwnedFd) -> Result<bool, Errno> {
        match recv(source, &mut *self.held, RecvFlags::DONTWAIT) {
            Ok((0, _)) => self.ended = true,
            Ok((bytes, _)) => (self.from, self.to) = (0, bytes),
            Err(Errno::AGAIN | Errno::INTR) => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// Writes what is held; how many bytes went.
    fn flush(&mut self, sink: &OwnedFd) -> Result<usize, Errno> {
        match send(sink, &self.held[self.from..self.to], SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(bytes) => {
                self.from += bytes;
                Ok(bytes)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Nobody takes what comes any more.
    fn give_up(&mut self, source: &OwnedFd) {
        (self.from, self.to, self.ended, self.told) = (0, 0, true, true);
        // It may have ended by itself.
        let _ = shutdown(source, Shutdown::Read);
    }

    /// Passes the end on.
    fn finish(&mut self, sink: &OwnedFd) {
        if self.ended && self.is_empty() && !self.told {
            self.told = true;
            // It may have ended by itself.
            let _ = shutdown(sink, Shutdown::Write);
        }
    }
}

/// What becomes of a stream that was looked at.
pub enum Then {
    /// There may be more.
    Stays,
    /// It has ended; why, if not as it should.
    Ends(Option<Error>),
}

impl Stream {
    /// One over a TCP socket that is connected, or about to be; the other end for the program.
    pub fn begin(
        seat: Seat,
        tcp: OwnedFd,
        shown: (String, Right),
        connecting: bool,
    ) -> Result<(Stream, OwnedFd), Error> {
        let pair = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
        let (ours, other) = pair.map_err(|_| Error::Full)?;
        for end in [&ours, &other] {
            set_socket_send_buffer_size(end, PAIR_BYTES).map_err(|_| Error::Full)?;
        }
        let (tcp, ours) = (Arc::new(tcp), Arc::new(ours));
        seat.show("stream", shown, [tcp.clone(), ours.clone()])?;
        let (outward, inward) = (Way::new(), Way::new());
        Ok((Stream { seat, tcp, ours, connecting, gone: false, paced: false, outward, inward }, other))
    }

    /// What is waited for: at the network's side, at the program's.
    pub fn waits_for(&mut self, clock: Clock, wake_at: &mut Option<u64>) -> (PollFlags, PollFlags) {
        let (mut tcp, mut ours) = (PollFlags::empty(), PollFlags::empty());
        self.paced = false;
        if self.connecting {
            return (PollFlags::OUT, ours);
        }
        if !self.outward.is_empty() {
            tcp |= PollFlags::OUT;
        } else if !self.outward.ended {
            match self.seat.account().sends_at(clock) {
                None => ours |= PollFlags::IN,
                Some(at) => {
                    self.paced = true;
                    *wake_at = Some(wake_at.map_or(at, |other| other.min(at)));
                }
            }
        }
        if !self.inward.is_empty() {
            ours |= PollFlags::OUT;
        } else if !self.inward.ended && !self.gone {
            tcp |= PollFlags::IN;
        }
        (tcp, ours)
    }

    /// Does what there is to be done; these of its sockets are ready.
    pub fn look(&mut self, [tcp, ours]: [PollFlags; 2], clock: Clock) -> Then {
        if let Some(why) = self.seat.cut() {
            return Then::Ends(Some(why));
        }
        let heard = !tcp.is_empty() || ours.contains(PollFlags::HUP) || !self.connecting && !ours.is_empty();
        if !heard && !self.paced {
            return Then::Stays;
        }
        if ours.contains(PollFlags::HUP) && !self.gone {
            // What the program has written is sent; what comes for it goes nowhere.
            self.gone = true;
            (self.inward.from, self.inward.to, self.inward.told) = (0, 0, true);
            if self.connecting {
                return Then::Ends(None);
            }
        }
        if self.connecting {
            match socket_error(&self.tcp) {
                Ok(Ok(())) => self.connecting = false,
                Ok(Err(error)) | Err(error) => return Then::Ends(Some(reason(error))),
            }
        }
        for _ in 0..ROUNDS {
            match self.turn(clock) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => return Then::Ends(Some(reason(error))),
            }
        }
        let is_over = self.outward.told && (self.inward.told || self.gone);
        if is_over { Then::Ends(None) } else { Then::Stays }
    }

    /// Hands over what is there, each way once; whether there may be more.
    fn turn(&mut self, clock: Clock) -> Result<bool, Errno> {
        let mut more = false;
        let account = self.seat.account().clone();
        if self.outward.is_empty() && !self.outward.ended && account.sends_at(clock).is_none() {
            more |= self.outward.fill(&self.ours)?;
        }
        if !self.outward.is_empty() {
            let sent = self.outward.flush(&self.tcp)?;
            account.sent(sent, clock);
            self.seat.count_bytes(sent, true);
            more |= sent > 0;
        }
        self.outward.finish(&self.tcp);
        if self.gone {
            return Ok(more);
        }
        if self.inward.is_empty() && !self.inward.ended {
            more |= self.inward.fill(&self.tcp)?;
        }
        if !self.inward.is_empty() {
            match self.inward.flush(&self.ours) {
                Ok(sent) => {
                    self.seat.count_bytes(sent, false);
                    more |= sent > 0;
                }
                // It reads no more, though it may still send: what comes is for nobody.
                Err(Errno::PIPE | Errno::CONNRESET) => {
                    self.inward.give_up(&self.tcp);
                    return Ok(more);
                }
                Err(error) => return Err(error),
            }
        }
        self.inward.finish(&self.ours);
        Ok(more)
    }
}

/// What a program is told of a stream that has broken.
pub fn reason(error: Errno) -> Error {
    match error {
        Errno::CONNREFUSED | Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::NETDOWN | Errno::ADDRNOTAVAIL => {
            Error::Unknown
        }
        Errno::ADDRINUSE => Error::Exists,
        Errno::ACCESS | Errno::PERM => Error::Denied,
        Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM => Error::Full,
        _ => Error::Io,
    }
}
