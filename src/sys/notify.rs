//! What a service manager is told (sd_notify(3)): that a service is ready, or ends. Example: `READY=1` to the socket in `NOTIFY_SOCKET`.
//!
//! The connection is made before the process gives privileges away, and is used afterwards.

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// A connection to the service manager, if there is one.
#[derive(Debug, Default)]
pub struct Notifier(Option<UnixDatagram>);

impl Notifier {
    /// To the one that has started this process, if it wants to be told.
    pub fn of_environment() -> io::Result<Notifier> {
        let Some(place) = std::env::var_os("NOTIFY_SOCKET").filter(|place| !place.is_empty()) else {
            return Ok(Notifier::default());
        };
        // `@` stands for the zero byte of an abstract name.
        let address = match place.as_encoded_bytes().strip_prefix(b"@") {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(&place)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.connect_addr(&address)?;
        // Whoever does not read is not waited for.
        socket.set_nonblocking(true)?;
        Ok(Notifier(Some(socket)))
    }

    /// The service does its work from now on.
    pub fn ready(&self) {
        self.tell(b"READY=1");
    }

    /// The service ends.
    pub fn stopping(&self) {
        self.tell(b"STOPPING=1");
    }

    fn tell(&self, what: &[u8]) {
        if let Some(Err(error)) = self.0.as_ref().map(|socket| socket.send(what)) {
            tracing::warn!(%error, "the service manager could not be told");
        }
    }
}
