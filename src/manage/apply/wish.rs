//! What operators ask of a node's configuration, by its control socket or by a signal.

use crate::sys::privileges;
use rustix::net::sockopt::socket_peercred;
use std::os::fd::AsFd;

pub use model::wish::{Done, Standing, Wish};

/// Who is told what has come of a wish.
pub type Reply = Box<dyn FnOnce(Result<Done, String>) + Send>;

/// Who fulfils wishes.
pub trait Fulfils: Send + Sync {
    /// Does what somebody wishes, and says what has come of it; while another is at it nothing is done.
    fn fulfil(&self, wish: Wish, who: &str) -> Result<Done, String>;

    /// The same for somebody who does not wait, and is told. An error: it is not begun, and nobody is.
    fn begin(&self, wish: Wish, who: &str, told: Reply) -> Result<(), String>;

    /// How the node's configuration stands, for the status.
    fn standing(&self) -> Standing;
}

/// Who is at the other end of a connection, for people.
pub fn who_is(connection: impl AsFd) -> String {
    let Ok(peer) = socket_peercred(connection) else { return "somebody".into() };
    let name = privileges::name_of_user(peer.uid.as_raw()).unwrap_or_else(|| peer.uid.as_raw().to_string());
    format!("{name}, process {}", peer.pid.as_raw_nonzero())
}
