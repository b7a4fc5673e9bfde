//! The broker's own socket in the run directory: an operator gives the next configuration there.
//!
//! It is root's, or of whoever has started a node without privileges; the node itself is refused. One connection at a time
//! is served, for a few seconds at most: one request as a line of JSON, `{"text":…,"source":…}`, one answer. What is
//! given takes effect when the node is told its number ([`super::configurations`]).

use super::configurations::{Configurations, TEXT_MAX};
use super::message::OPERATOR_SOCKET;
use crate::sys::privileges;
use model::Answer;
use rustix::net::sockopt::socket_peercred;
use serde::{Deserialize, Serialize};
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// For how long an operator may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes of the longest request: a text of the longest, escaped.
const REQUEST_MAX: u64 = 4 * TEXT_MAX as u64;

/// Pause when no connection can be taken.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    text: String,
    source: String,
}

/// Serves operators from a thread of its own, to the end of this process.
pub(super) fn serve(listener: OwnedFd, all: Arc<Mutex<Configurations>>, node: i32) -> io::Result<()> {
    let listener = UnixListener::from(listener);
    Builder::new().name("broker-operator".into()).spawn(move || {
        loop {
            match listener.accept() {
                // What breaks concerns its other end only.
                Ok((connection, _)) => drop(answer(&connection, &all, node)),
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    })?;
    Ok(())
}

fn answer(mut connection: &UnixStream, all: &Mutex<Configurations>, node: i32) -> io::Result<()> {
    connection.set_write_timeout(Some(PATIENCE))?;
    let answer = match take(connection, all, node) {
        Ok(number) => Answer::Ok(number),
        Err(why) => Answer::Error(why),
    };
    connection.write_all(format!("{}\n", serde_json::to_string(&answer)?).as_bytes())
}

fn take(mut connection: &UnixStream, all: &Mutex<Configurations>, node: i32) -> Result<u64, String> {
    let who = operator(connection, node)?;
    let mut request = Vec::new();
    let end = Instant::now() + PATIENCE;
    let mut part = [0; 1 << 16];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err("the configuration does not come".into());
        }
        connection.set_read_timeout(Some(left)).map_err(|error| error.to_string())?;
        match connection.read(&mut part) {
            Ok(0) => break,
            Ok(count) => request.extend_from_slice(&part[..count]),
            Err(error) => return Err(format!("the configuration does not come: {error}")),
        }
        if request.len() as u64 > REQUEST_MAX {
            return Err(format!("a configuration has {TEXT_MAX} bytes at most"));
        }
    }
    let given: Given = serde_json::from_slice(&request).map_err(|error| format!("request not understood: {error}"))?;
    all.lock().unwrap_or_else(PoisonError::into_inner).give(given.text, &given.source, &who)
}

/// Who is at the other end, for people; an error if it is nobody who may give a configuration.
fn operator(connection: &UnixStream, node: i32) -> Result<String, String> {
    let peer = socket_peercred(connection).map_err(|error| error.to_string())?;
    // Where nobody has privileges the node has the same user. It can begin no other process.
    if peer.pid.as_raw_nonzero().get() == node {
        return Err("a node gives itself no configuration".into());
    }
    let user = peer.uid.as_raw();
    if user != 0 && peer.uid != rustix::process::geteuid() {
        return Err("a node gets its configuration from root, or from whoever has started it without privileges".into());
    }
    let name = privileges::name_of_user(user).unwrap_or_else(|| user.to_string());
    Ok(format!("{name}, process {}", peer.pid.as_raw_nonzero()))
}

/// Gives the node of a run directory a configuration; its number.
pub fn give(run_dir: &Path, text: &str, source: &str) -> Result<u64, String> {
    let path = run_dir.join(OPERATOR_SOCKET);
    let at = |error: io::Error| format!("{}: {error}", path.display());
    let mut connection = UnixStream::connect(&path).map_err(at)?;
    let request =
        serde_json::to_string(&Given { text: text.into(), source: source.into() }).map_err(|error| at(error.into()))?;
    connection.set_read_timeout(Some(2 * PATIENCE)).map_err(at)?;
    connection.write_all(request.as_bytes()).and_then(|()| connection.shutdown(Shutdown::Write)).map_err(at)?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).map_err(at)?;
    match serde_json::from_str(&answer).map_err(|error| at(error.into()))? {
        Answer::Ok(number) => Ok(number),
        Answer::Error(why) => Err(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_itself_is_no_operator_also_where_it_has_its_user() {
        let (one, _other) = UnixStream::pair().unwrap();
        let own = std::process::id() as i32;
        assert_eq!(operator(&one, own).unwrap_err(), "a node gives itself no configuration");
        assert!(operator(&one, own + 1).unwrap().ends_with(&format!("process {own}")));
    }
}
