//! Lines to the journal of systemd, with fields: its native protocol, a datagram for each line.
//!
//! ```text
//! MESSAGE=the link is down ⏎ PRIORITY=6 ⏎ SYSLOG_IDENTIFIER=anode ⏎ TARGET=… ⏎ ANODE_PORT=eth0 ⏎
//! ```
//!
//! Standard error is a stream to the journal if `JOURNAL_STREAM` names it: then lines go to the socket beside it, with their fields apart.
//! A value of several lines has its length in front. What a datagram has no room for, or nobody takes, is counted as lines are
//! that find the queue full. Nobody waits.

use crate::clean;
use std::fmt::{self, Write as _};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use tracing::field::{Field, Visit};
use tracing::{Event, Level};

/// The socket of the journal.
const SOCKET: &str = "/run/systemd/journal/socket";

/// Bytes of the longest value.
const VALUE_MAX: usize = 4096;

/// A connection to the journal.
#[derive(Debug)]
pub struct Journald(OwnedFd);

impl Journald {
    /// To the journal of the system, if standard error is a stream to it.
    pub fn of_environment() -> Option<Journald> {
        let stream = std::env::var("JOURNAL_STREAM").ok()?;
        let (device, inode) = stream.split_once(':')?;
        let is = rustix::fs::fstat(io::stderr().as_fd()).ok()?;
        let same = device.parse() == Ok(is.st_dev) && inode.parse() == Ok(is.st_ino);
        if same { Journald::to(Path::new(SOCKET)).ok() } else { None }
    }

    /// To the journal behind this socket.
    pub fn to(path: &Path) -> io::Result<Journald> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(path)?;
        socket.set_nonblocking(true)?;
        Ok(Journald(socket.into()))
    }

    /// Sends an entry; false: nobody takes it.
    pub(super) fn send(&self, entry: &[u8]) -> bool {
        // Every thread may write, and a connected socket has it as one datagram.
        rustix::io::write(&self.0, entry).is_ok()
    }
}

/// An entry under way.
#[derive(Default)]
struct Entry {
    message: String,
    fields: Vec<u8>,
}

impl Entry {
    fn add(&mut self, name: &str, value: &str) {
        let value = value.get(..value.floor_char_boundary(VALUE_MAX)).unwrap_or_default();
        self.fields.extend_from_slice(name.as_bytes());
        if value.contains('\n') {
            self.fields.push(b'\n');
            self.fields.extend_from_slice(&(value.len() as u64).to_le_bytes());
        } else {
            self.fields.push(b'=');
        }
        self.fields.extend_from_slice(value.as_bytes());
        self.fields.push(b'\n');
    }
}

impl Visit for Entry {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = String::new();
        // Writing to a text does not fail.
        let _ = write!(text, "{value:?}");
        self.record_str(field, &text);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let value = clean::printed(value);
        if field.name() == "message" {
            self.message = value;
            return;
        }
        // Names are the program's own: letters, digits and underlines.
        let name = field.name().bytes().map(|byte| if byte.is_ascii_alphanumeric() { byte } else { b'_' });
        let name: String = name.map(|byte| char::from(byte.to_ascii_uppercase())).collect();
        self.add(&format!("ANODE_{name}"), &value);
    }
}

/// An event as an entry.
pub(super) fn entry(event: &Event<'_>) -> Vec<u8> {
    let meta = event.metadata();
    let priority = match *meta.level() {
        Level::ERROR => "3",
        Level::WARN => "4",
        Level::INFO => "6",
        _ => "7",
    };
    let mut entry = Entry::default();
    event.record(&mut entry);
    let message = std::mem::take(&mut entry.message);
    entry.add("MESSAGE", &message);
    entry.add("PRIORITY", priority);
    entry.add("SYSLOG_IDENTIFIER", "anode");
    entry.add("TARGET", meta.target());
    entry.fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Log;
    use tracing_subscriber::layer::SubscriberExt as _;

    #[test]
    fn a_line_is_a_datagram_with_its_fields_apart_and_nobody_waits_for_who_takes_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let journal = UnixDatagram::bind(&path).unwrap();
        let log = Log::default();
        let layer = log.journal(Journald::to(&path).unwrap());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::warn!(port = "e\u{1b}\n0=MESSAGE", frames = 7, "the link is down");
            (0..100_000).for_each(|number| tracing::info!(number, "more than anybody takes"));
        });
        let mut room = [0; 4096];
        let length = journal.recv(&mut room).unwrap();
        let mut wanted = b"ANODE_PORT\n".to_vec();
        let port = b"e\\u001b\n  0=MESSAGE";
        wanted.extend((port.len() as u64).to_le_bytes());
        wanted.extend(port);
        wanted.extend(b"\nANODE_FRAMES=7\nMESSAGE=the link is down\nPRIORITY=4\nSYSLOG_IDENTIFIER=anode\nTARGET=");
        assert!(room[..length].starts_with(&wanted), "{}", String::from_utf8_lossy(&room[..length]));
        assert!(log.overrun() > 0, "what was not taken is counted");
    }
}
