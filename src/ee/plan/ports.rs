//! PLAN ports: applications of this node, and connections to them.
//!
//! An application has a port of its own for answers; its number is random, so nobody can guess it. An application may
//! also listen at a number. A program on this node that opens a port to that number gets a connection, which is another
//! port; each holder has a share of these ([`Shares`]). A port can be used from this node and from nowhere else.

use super::holders::Holder;
use crate::frame::shares::Shares;
use plan::value::{Host, Value};
use std::collections::HashMap;

/// Connections at the same time.
const CONNECTIONS_MAX: usize = 1024;

/// Nanoseconds after which a connection that was not used is gone.
const IDLE: u64 = 300_000_000_000;

/// The first byte of messages to applications.
pub mod message {
    /// A text that was printed: port, text.
    pub const PRINTED: u8 = 0x91;
    /// A value that was delivered: port, and a packet whose chunk is `deliver` of the value.
    pub const DELIVERED: u8 = 0x92;
    /// A connection was opened: its port, from which host, to which number.
    pub const OPENED: u8 = 0x93;
    /// It was closed: its port.
    pub const CLOSED: u8 = 0x94;
}

/// What an application gets when it attaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Its port.
    pub port: u64,
    /// The session key of what it injects.
    pub session: [u8; 16],
}

struct Connection {
    application: u64,
    holder: Holder,
    until: u64,
}

/// The ports of one node.
pub struct Ports {
    /// What an application listens as, 0 for nothing.
    applications: HashMap<u64, (u32, [u8; 16])>,
    listening: HashMap<u32, u64>,
    connections: HashMap<u64, Connection>,
    shares: Shares<Holder>,
}

impl Default for Ports {
    fn default() -> Ports {
        let shares = Shares::new(CONNECTIONS_MAX as u64);
        Ports { applications: HashMap::new(), listening: HashMap::new(), connections: HashMap::new(), shares }
    }
}

impl Ports {
    /// An application attaches, to listen as `number` if that is not 0; none if another one does.
    pub fn attach(&mut self, number: u32, seat: Seat) -> Option<Seat> {
        if number != 0 {
            if self.listening.contains_key(&number) {
                return None;
            }
            self.listening.insert(number, seat.port);
        }
        self.applications.insert(seat.port, (number, seat.session));
        Some(seat)
    }

    /// An application is gone, and its connections with it.
    pub fn detach(&mut self, port: u64) {
        if let Some((number, _)) = self.applications.remove(&port) {
            self.listening.remove(&number);
        }
        self.retain(|connection| connection.application != port);
    }

    /// The session key of an application.
    pub fn session(&self, port: u64) -> Option<[u8; 16]> {
        self.applications.get(&port).map(|(_, session)| *session)
    }

    /// The application behind a port.
    pub fn application(&mut self, now: u64, port: u64) -> Option<u64> {
        if self.applications.contains_key(&port) {
            return Some(port);
        }
        let connection = self.connections.get_mut(&port).filter(|connection| connection.until > now)?;
        connection.until = now.saturating_add(IDLE);
        Some(connection.application)
    }

    /// The application that listens as a number, if this holder has room for a connection.
    pub fn listener(&self, number: i64, holder: Holder) -> Option<u64> {
        let room = self.shares.fits(holder, 1);
        u32::try_from(number).ok().filter(|_| room).and_then(|number| self.listening.get(&number).copied())
    }

    /// A connection begins.
    pub fn open(&mut self, now: u64, port: u64, application: u64, holder: Holder) {
        if self.shares.take(holder, 1) {
            let until = now.saturating_add(IDLE);
            let before = self.connections.insert(port, Connection { application, holder, until });
            before.into_iter().for_each(|before| self.shares.give(before.holder, 1));
        }
    }

    /// A connection ends; the application it was to.
    pub fn close(&mut self, port: u64) -> Option<u64> {
        let gone = self.connections.remove(&port)?;
        self.shares.give(gone.holder, 1);
        Some(gone.application)
    }

    /// Forgets connections that nobody uses.
    pub fn sweep(&mut self, now: u64) {
        self.retain(|connection| connection.until > now);
    }

    fn retain(&mut self, stays: impl Fn(&Connection) -> bool) {
        let Ports { connections, shares, .. } = self;
        connections.retain(|_, connection| {
            let stays = stays(connection);
            if !stays {
                shares.give(connection.holder, 1);
            }
            stays
        });
    }

    /// Applications and connections.
    pub fn size(&self) -> (usize, usize) {
        (self.applications.len(), self.connections.len())
    }
}

/// A message about a port.
fn about(kind: u8, port: u64) -> Vec<u8> {
    let mut message = vec![kind];
    message.extend_from_slice(&port.to_be_bytes());
    message
}

/// Word that a value was printed.
pub fn printed(port: u64, value: &Value) -> Vec<u8> {
    let mut message = about(message::PRINTED, port);
    match value {
        Value::Text(bytes) => message.extend_from_slice(bytes),
        other => message.extend_from_slice(other.to_string().as_bytes()),
    }
    message
}

/// Word that a value was delivered, before its bytes.
pub fn delivered(port: u64) -> Vec<u8> {
    about(message::DELIVERED, port)
}

/// Word that a connection was opened.
pub fn opened(port: u64, from: Host, number: u32) -> Vec<u8> {
    let mut message = about(message::OPENED, port);
    message.extend_from_slice(&from.0);
    message.extend_from_slice(&number.to_be_bytes());
    message
}

/// Word that a connection was closed.
pub fn closed(port: u64) -> Vec<u8> {
    about(message::CLOSED, port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_go_with_their_application_and_with_time() {
        let seat = |port| Seat { port, session: [0; 16] };
        let mut ports = Ports::default();
        assert!(ports.attach(7, seat(1)).is_some() && ports.attach(0, seat(2)).is_some());
        assert_eq!(ports.attach(7, seat(3)), None, "the number is taken");
        let listener = |ports: &Ports, number| ports.listener(number, Holder::HERE);
        assert_eq!([listener(&ports, 7), listener(&ports, 8), listener(&ports, -1)], [Some(1), None, None]);
        ports.open(0, 10, 1, Holder::HERE);
        ports.open(0, 11, 2, Holder::HERE);
        assert_eq!(ports.application(IDLE - 1, 10), Some(1));
        assert_eq!(ports.application(2 * IDLE - 2, 10), Some(1), "use keeps it");
        assert_eq!(ports.application(IDLE, 11), None);
        ports.detach(1);
        assert_eq!((ports.application(0, 10), listener(&ports, 7), ports.size()), (None, None, (1, 1)));
        assert_eq!((ports.close(11), ports.close(11)), (Some(2), None));
        assert_eq!(ports.shares.held(), 0);
    }

    #[test]
    fn who_opens_all_it_can_leaves_others_room_and_what_is_idle_comes_back() {
        let holder = |row| Holder::Behind(crate::frame::Payer(row));
        let mut ports = Ports::default();
        ports.attach(7, Seat { port: 1, session: [0; 16] });
        (2..10_000).for_each(|port| ports.open(0, port, 1, holder(0)));
        assert_eq!((ports.size().1, ports.listener(7, holder(0))), (CONNECTIONS_MAX / 2, None));
        assert_eq!(ports.listener(7, holder(1)), Some(1));
        ports.sweep(IDLE);
        assert_eq!((ports.size().1, ports.listener(7, holder(0))), (0, Some(1)));
    }
}
