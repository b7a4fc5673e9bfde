//! Connections to the control socket: who is let in, for how long, and the conversation of requests and answers, a line each.

use super::answers::refusal;
use super::handle::Handle;
use super::places::{Place, Places};
use super::{next, watch};
use crate::clean;
use crate::log::Asker;
use crate::manage::apply::wish::who_is;
use crate::manage::lines::{Times, read_line};
use crate::manage::worker::Order;
use crate::sys::threads::{self, Duty};
use model::{Ask, PROTOCOL, Request};
use serde::Deserialize as _;
use std::io::{self, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of the longest request: a bundle in hexadecimal, and some.
const REQUEST_MAX: usize = 1 << 20;

/// Connections served at the same time.
const CONNECTIONS_MAX: usize = 32;

/// For how long a connection may ask nothing, or not take its answer.
const IDLE: Duration = Duration::from_secs(60);

/// For how long a request may be on its way that has begun.
const LINE: Duration = Duration::from_secs(5);

/// Pause when no connection can be taken: the process has no descriptors left.
const PAUSE: Duration = Duration::from_millis(100);
/// Serves a control socket from threads of its own.
pub fn serve(socket: OwnedFd, handle: Handle) -> io::Result<()> {
    let places = Places::new(CONNECTIONS_MAX, handle.connections.control.clone());
    serve_within(UnixListener::from(socket), handle, places, Times { idle: IDLE, line: LINE })
}

fn serve_within(listener: UnixListener, handle: Handle, places: Places, times: Times) -> io::Result<()> {
    threads::start("anode-control", Duty::Control, move || {
        let mut failing = false;
        loop {
            match listener.accept() {
                Ok((connection, _)) => {
                    failing = false;
                    let connection = Arc::new(connection);
                    if !is_operator(&connection) {
                        refuse(&connection, "control of the node is its own user's and root's");
                    } else if let Some(place) = places.take(&connection) {
                        start(place, handle.clone(), times);
                    } else {
                        refuse(&connection, "too many control connections");
                    }
                }
                Err(error) => {
                    if !std::mem::replace(&mut failing, true) {
                        tracing::warn!(%error, "no control connection can be taken for now");
                    }
                    // What waits would be ready again at once, so nothing is waited for but time.
                    std::thread::sleep(PAUSE);
                }
            }
        }
    })?;
    Ok(())
}

/// Serves a connection from a thread of its own, as long as that holds its place.
fn start(place: Place, handle: Handle, times: Times) {
    let served = threads::start("anode-control", Duty::Control, move || {
        let written = place.stream.set_write_timeout(Some(times.idle));
        // A connection that breaks concerns only its other end.
        let ended = written.and_then(|()| converse(&place, &handle, times));
        if ended.is_err_and(|error| error.kind() == io::ErrorKind::TimedOut) {
            place.was_silent();
        }
    });
    if let Err(error) = served {
        tracing::warn!(%error, "no thread for a control connection");
    }
}

/// Whether the other end is the node's own user or root, who alone can open the socket: its mode says so, and this does.
fn is_operator(connection: &UnixStream) -> bool {
    let peer = rustix::net::sockopt::socket_peercred(connection);
    peer.is_ok_and(|peer| peer.uid.is_root() || peer.uid == rustix::process::geteuid())
}

/// Who is at the other end. Of one that has gone meanwhile nothing is known but that he might.
fn asker(connection: &UnixStream) -> Asker {
    let peer = rustix::net::sockopt::socket_peercred(connection);
    peer.map_or((u32::MAX, 0), |peer| (peer.uid.as_raw(), peer.pid.as_raw_nonzero().get()))
}

pub(super) fn refuse(connection: &UnixStream, why: &str) {
    let _ = say(connection, refusal(why.to_owned()));
}

/// One answer, one clean line, one write.
pub(super) fn say(mut connection: &UnixStream, answer: String) -> io::Result<()> {
    let mut line = clean::line_of(answer);
    line.push('\n');
    connection.write_all(line.as_bytes())
}

/// What is asked; an error says what is wrong with the request, or that it is of another version of the protocol.
fn asked(line: &[u8]) -> Result<Ask, String> {
    let why = |error: serde_json::Error| format!("request not understood: {error}");
    let mut request: serde_json::Value = serde_json::from_slice(line).map_err(why)?;
    let Request { protocol } = Request::deserialize(&request).map_err(why)?;
    if protocol != PROTOCOL {
        return Err(format!(
            "the request is of version {protocol} of the control protocol, and this node speaks version {PROTOCOL} \
             (anode {}): ask with a program of that version",
            env!("CARGO_PKG_VERSION")
        ));
    }
    request.as_object_mut().and_then(|fields| fields.remove(Request::PROTOCOL));
    Ask::deserialize(request).map_err(why)
}

fn converse(place: &Place, handle: &Handle, times: Times) -> io::Result<()> {
    let connection = &*place.stream;
    let mut reader = BufReader::new(connection);
    let mut next = next::Next::default();
    let who = asker(connection);
    loop {
        let mut line = Vec::new();
        if !read_line(&mut reader, &mut line, REQUEST_MAX, times)? {
            return Ok(());
        }
        if line.last() != Some(&b'\n') {
            refuse(connection, "the request is too long, or its line does not end");
            return Ok(());
        }
        if !place.works() {
            return Ok(());
        }
        let ask = asked(&line);
        let stops = matches!(ask, Ok(Ask::Down { .. }));
        if let Ok(Ask::Watch { one_in }) = ask {
            return watch::serve(place, handle, one_in);
        }
        let answer = match ask {
            Ok(Ask::Next { of, within_ms }) => {
                match next.await_change(place, of, within_ms, || handle.answer(of.into())) {
                    Some(answer) => answer,
                    None => return Ok(()),
                }
            }
            Ok(ask) => handle.answer_to((who, &who_is(connection)), ask),
            Err(why) => refusal(why),
        };
        // It may not take its answer, so that another has its place.
        let told = if place.waits() { say(connection, answer) } else { Ok(()) };
        if stops {
            // Behind the answer: the process may be gone before another line is written.
            let _ = handle.order(Order::Stop);
        }
        told?;
        if !place.stays() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests;
