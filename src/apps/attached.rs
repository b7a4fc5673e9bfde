//! The node of a host side, as a trait: send a capsule, receive one, ask the time.

use crate::wire::capsule::Header;
use crate::wire::{Addr, Digest};
use core::fmt;
use core::time::Duration;

/// A capsule that was delivered: header and payload.
pub type Received = (Header, Vec<u8>);

/// An application's place at a node: one application port. A real node's local socket is one, and
/// so is a node of a simulation, where waiting moves the virtual time.
pub trait Attached {
    /// The node's address.
    fn address(&self) -> Addr;

    /// The application port to which capsules for this application are addressed.
    fn port(&self) -> u16;

    /// Time since some moment of the past; never goes back.
    fn now(&self) -> Duration;

    /// Gives a capsule to the node. A source of all zeroes is replaced by the node's address.
    fn send(&mut self, header: &Header, payload: &[u8]) -> Result<(), Error>;

    /// The next capsule delivered to the port, or nothing if none comes in time.
    fn receive(&mut self, timeout: Duration) -> Result<Option<Received>, Error>;
}

/// The node could not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The node refuses the capsule or the port; its own words, with the remedy.
    Refused(String),
    /// The connection to the node is gone.
    Gone(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Refused(why) => write!(f, "the node refuses: {why}"),
            Error::Gone(why) => write!(f, "the node is gone ({why}); start it again: anode node run CONFIG.toml"),
        }
    }
}

impl core::error::Error for Error {}

/// The header of a new capsule of `code` from this application to `to`, with `bound` hops and
/// children to spend.
pub fn header(node: &dyn Attached, code: Digest, to: Addr, bound: u32) -> Header {
    let (previous, source) = (Addr::UNSPECIFIED, Addr::UNSPECIFIED);
    Header { app_port: node.port(), bound, code, previous, source, destination: to }
}

/// Waits until `deadline` for a capsule of `code` that `take` understands.
pub(super) fn receive_until<T>(
    node: &mut dyn Attached,
    code: Digest,
    deadline: Duration,
    mut take: impl FnMut(&Header, &[u8]) -> Option<T>,
) -> Result<Option<T>, Error> {
    loop {
        let left = deadline.saturating_sub(node.now());
        match node.receive(left)? {
            Some((header, payload)) if header.code == code => {
                if let Some(taken) = take(&header, &payload) {
                    return Ok(Some(taken));
                }
            }
            Some(_) => {}
            None => return Ok(None),
        }
    }
}
