//! The system's resolver, in a thread of its own: it may take as long as it likes.
//!
//! Names come from programs in packets; the node asks for each once, so a bounded queue is enough, and one that is full
//! means that there is no such host for now.

use super::loader::Loaded;
use crate::sys::poll::Waker;
use crate::sys::threads::{self, Duty};
use crate::wire::Addr;
use std::net::ToSocketAddrs;
use std::sync::mpsc::{Sender, SyncSender, TrySendError, sync_channel};

/// Names that can wait.
const NAMES_MAX: usize = 64;

/// The worker's end, in the loader's hands.
pub struct Resolver {
    names: SyncSender<Box<str>>,
}

impl Resolver {
    /// Starts the thread; it ends with its user.
    pub fn start(outbox: Sender<Loaded>, waker: Waker) -> std::io::Result<Resolver> {
        let (names, inbox) = sync_channel::<Box<str>>(NAMES_MAX);
        threads::start("anode-resolver", Duty::Resolver, move || {
            while let Ok(name) = inbox.recv() {
                let addr = address(&name);
                if outbox.send(Loaded::Resolved(name, addr)).is_err() {
                    return;
                }
                waker.wake();
            }
        })?;
        Ok(Resolver { names })
    }

    /// Takes a name on; gives it back if there are too many.
    pub fn submit(&self, name: Box<str>) -> Result<(), Box<str>> {
        match self.names.try_send(name) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(name) | TrySendError::Disconnected(name)) => Err(name),
        }
    }
}

/// The first address of a host.
pub fn address(name: &str) -> Option<Addr> {
    (name, 0).to_socket_addrs().ok()?.map(|found| Addr::from(found.ip())).next()
}
