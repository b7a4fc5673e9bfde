//! TCP streams: channels that listen, and streams, whose bytes come and go by a local socket that the node has given.
//!
//! The node is asked when one begins and when one has ended; all in between is the system's. Whoever waits does so here, and
//! holds nothing meanwhile; closing wakes it.

use super::file::domain_of;
use super::{code, object, put, text};
use crate::arrival::Arrival;
use crate::crew::CEnds;
use crate::error::Error;
use crate::message::{Answer, Call};
use crate::objects::{self, Object, Place, Socket, StreamChan};
use crate::session::Session;
use core::ffi::{c_char, c_int, c_void};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Until when a call waits: so many milliseconds, or for ever (-1).
struct Until(Option<Instant>);

impl Until {
    fn of(milliseconds: i64) -> Result<Until, Error> {
        match milliseconds {
            -1 => Ok(Until(None)),
            0.. => Ok(Until(Instant::now().checked_add(Duration::from_millis(milliseconds as u64)))),
            _ => Err(Error::Invalid),
        }
    }

    /// Waits for a descriptor. `Again`: the time is over.
    fn wait(&self, fd: BorrowedFd<'_>, flags: PollFlags) -> Result<(), Error> {
        loop {
            let left = self.0.map(|at| at.saturating_duration_since(Instant::now()));
            let time = left
                .map(|left| Timespec { tv_sec: left.as_secs().min(86_400) as i64, tv_nsec: left.subsec_nanos() as _ });
            match poll(&mut [PollFd::from_borrowed_fd(fd, flags)], time.as_ref()) {
                Ok(0) if left == Some(Duration::ZERO) => return Err(Error::Again),
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(_) => return Err(Error::Io),
            }
        }
    }
}

/// Asks for something with a socket: the node's name of it, and the socket.
fn ask(session: &Session, call: &Call) -> Result<(u32, OwnedFd), Error> {
    let (answer, descriptor) = session.call_for(call)?;
    let Answer::Object { name } = answer else { return Err(Error::Ended) };
    descriptor.map(|fd| (name, fd)).ok_or(Error::Ended)
}

/// Opens a channel that listens.
///
/// # Safety
/// `addrspec` is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_streamListen(
    mem: *mut c_void,
    domain: *mut c_void,
    addrspec: *const c_char,
) -> *mut c_void {
    let listen = || {
        let (place, domain) = (Place::of(mem)?, domain_of(domain)?);
        // SAFETY: the caller's promise.
        let address = unsafe { text(addrspec) }?;
        let session = domain.session.clone();
        let (_, fd) = ask(&session, &Call::StreamListen { domain: domain.name, address })?;
        objects::add(
            place,
            Object::StreamChan(Arc::new(StreamChan(Socket { session, domain: domain.name, name: 0, fd }))),
        )
    };
    object(listen())
}

/// Begins a stream.
///
/// # Safety
/// `addrspec` is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_streamConnect(
    mem: *mut c_void,
    domain: *mut c_void,
    addrspec: *const c_char,
) -> *mut c_void {
    let connect = || {
        let (place, domain) = (Place::of(mem)?, domain_of(domain)?);
        // SAFETY: the caller's promise.
        let address = unsafe { text(addrspec) }?;
        let session = domain.session.clone();
        let (name, fd) = ask(&session, &Call::StreamConnect { domain: domain.name, address })?;
        objects::add(place, Object::Stream(Arc::new(Socket { session, domain: domain.name, name, fd })))
    };
    object(connect())
}

/// Waits for a stream that somebody has begun.
///
/// # Safety
/// `ends` is NULL or leads to memory for both.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_streamAccept(
    mem: *mut c_void,
    chan: *mut c_void,
    milliseconds: i64,
    ends: *mut CEnds,
) -> *mut c_void {
    let accept = || {
        let (place, StreamChan(chan)) = (Place::of(mem)?, &*objects::find::<StreamChan>(chan)?);
        let until = Until::of(milliseconds)?;
        let (arrival, fd) = loop {
            let mut message = [0; Arrival::BYTES];
            match crate::seqpacket::receive_now(&chan.fd, &mut message) {
                Ok((0, _)) => return Err(if chan.session.has_ended() { Error::Ended } else { Error::Stale }),
                Ok((length, fds)) => {
                    let arrival = Arrival::decode(&message[..length]).ok_or(Error::Ended)?;
                    break (arrival, fds.into_iter().next().ok_or(Error::Full)?);
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    until.wait(chan.fd.as_fd(), PollFlags::IN)?
                }
                Err(_) => return Err(Error::Stale),
            }
        };
        if !ends.is_null() {
            // SAFETY: the caller's promise.
            unsafe { put(ends, CEnds::of(arrival.source, arrival.destination)) }?;
        }
        let (session, domain, name) = (chan.session.clone(), chan.domain, arrival.stream);
        objects::add(place, Object::Stream(Arc::new(Socket { session, domain, name, fd })))
    };
    object(accept())
}

/// Why a stream has no more, if it did not end as it should.
fn why(stream: &Socket) -> Result<(), Error> {
    stream.session.call(&Call::StreamWhy { stream: stream.name }).map(drop)
}

/// Reads what there is; waits if there is nothing.
///
/// # Safety
/// `into` leads to `bytes` bytes, `done` to memory for a number; or they are NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_streamRead(
    stream: *mut c_void,
    into: *mut c_void,
    bytes: usize,
    milliseconds: i64,
    done: *mut usize,
) -> c_int {
    let read = || {
        let stream = objects::find::<Socket>(stream)?;
        // SAFETY: the caller's promise.
        unsafe { put(done, 0) }?;
        if into.is_null() || bytes == 0 {
            return Err(Error::Invalid);
        }
        let until = Until::of(milliseconds)?;
        // SAFETY: the caller's promise: so many bytes are there, and nobody else uses them during the call.
        let into = unsafe { core::slice::from_raw_parts_mut(into.cast::<u8>(), bytes) };
        loop {
            match recv(&stream.fd, &mut *into, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return why(&stream),
                // SAFETY: as above.
                Ok((got, _)) => return unsafe { put(done, got) },
                Err(Errno::AGAIN) => until.wait(stream.fd.as_fd(), PollFlags::IN)?,
                Err(Errno::INTR) => {}
                Err(_) => return why(&stream).and(Err(Error::Io)),
            }
        }
    };
    code(read())
}

/// Writes all of it, unless the time is over before.
///
/// # Safety
/// `from` leads to `bytes` bytes, `done` to memory for a number; or they are NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_streamWrite(
    stream: *mut c_void,
    from: *const c_void,
    bytes: usize,
    milliseconds: i64,
    done: *mut usize,
) -> c_int {
    let write = || {
        let stream = objects::find::<Socket>(stream)?;
        // SAFETY: the caller's promise.
        unsafe { put(done, 0) }?;
        if from.is_null() {
            return Err(Error::Invalid);
        }
        let until = Until::of(milliseconds)?;
        // SAFETY: the caller's promise: so many bytes are there.
        let from = unsafe { core::slice::from_raw_parts(from.cast::<u8>(), bytes) };
        let mut sent = 0;
        while sent < bytes {
            match send(&stream.fd, &from[sent..], SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(more) => sent += more,
                Err(Errno::AGAIN) => until.wait(stream.fd.as_fd(), PollFlags::OUT)?,
                Err(Errno::INTR) => {}
                Err(_) => return why(&stream).and(Err(Error::Io)),
            }
            // SAFETY: as above.
            unsafe { put(done, sent) }?;
        }
        Ok(())
    };
    code(write())
}

/// Says that no more is written.
#[unsafe(no_mangle)]
pub extern "C" fn an_streamFinish(stream: *mut c_void) -> c_int {
    let finish = || {
        let stream = objects::find::<Socket>(stream)?;
        shutdown(&stream.fd, Shutdown::Write).map_err(|_| Error::Io)
    };
    code(finish())
}

/// Closes a stream: who waits for it is woken.
#[unsafe(no_mangle)]
pub extern "C" fn an_streamClose(stream: *mut c_void) -> c_int {
    let close = || {
        let stream = objects::remove::<Socket>(stream)?;
        // One whose other end has gone is shut already.
        let _ = shutdown(&stream.fd, Shutdown::Both);
        Ok(())
    };
    code(close())
}

/// Closes a channel that listens; its streams stay.
#[unsafe(no_mangle)]
pub extern "C" fn an_streamChanDestroy(chan: *mut c_void) -> c_int {
    let close = || {
        let chan = objects::remove::<StreamChan>(chan)?;
        let _ = shutdown(&chan.0.fd, Shutdown::Both);
        Ok(())
    };
    code(close())
}
