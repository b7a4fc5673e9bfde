//! What a service manager is told (sd_notify(3)): that a service is ready, ends, or still comes round. Example: `READY=1` to the socket
//! in `NOTIFY_SOCKET`.
//!
//! The connection is made before the process gives privileges away, and is used afterwards, by any of its threads. That needs `write`
//! alone, which every list of system calls has; a library for it opens the socket for each message, which none of them has.

use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

/// A connection to the service manager, if there is one.
#[derive(Clone, Debug, Default)]
pub struct Notifier {
    socket: Option<Arc<OwnedFd>>,
    /// How often it wants to hear that the service still comes round.
    watchdog: Option<Duration>,
}

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
        let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
        // It is said to all processes of a service, and meant for one.
        let mine = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|time| mine && *time > 0).map(Duration::from_micros);
        Ok(Notifier { socket: Some(Arc::new(socket.into())), watchdog })
    }

    /// How often the service manager wants to hear that the service still comes round.
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// The service does its work from now on.
    pub fn ready(&self) {
        self.tell(b"READY=1");
    }

    /// The service takes over another configuration, and says [`Notifier::ready`] when that is done or refused.
    pub fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let since = now.tv_sec.unsigned_abs() * 1_000_000 + now.tv_nsec.unsigned_abs() / 1_000;
        self.tell(format!("RELOADING=1\nMONOTONIC_USEC={since}").as_bytes());
    }

    /// The service still comes round.
    pub fn comes_round(&self) {
        self.tell(b"WATCHDOG=1");
    }

    /// The service ends.
    pub fn stopping(&self) {
        self.tell(b"STOPPING=1");
    }

    fn tell(&self, what: &[u8]) {
        if let Some(Err(error)) = self.socket.as_ref().map(|socket| rustix::io::write(&**socket, what)) {
            tracing::warn!(%error, "the service manager could not be told");
        }
    }
}
