//! The system's resolver, in a thread of its own: it may take as long as it likes.
//!
//! Names come from programs in packets; the node asks for each once. They wait by ingress and have turns ([`Turns`]), so a neighbour whose names
//! take long holds up its own; what finds no place in a full queue displaces one of whoever has most, and counts as unknown for now.

use super::loader::Loaded;
use super::loader::turns::Turns;
use crate::node::Cause;
use crate::sys::poll::Waker;
use crate::sys::threads::{self, Duty};
use crate::wire::Addr;
use std::net::ToSocketAddrs;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Names that can wait.
const NAMES_MAX: usize = 64;

/// The worker's end, in the loader's hands.
pub struct Resolver {
    names: Arc<Mutex<Turns<Box<str>>>>,
    /// Wakes the thread; it ends when this is gone.
    bell: SyncSender<()>,
}

impl Resolver {
    /// Starts the thread; it ends with its user.
    pub fn start(outbox: Sender<Loaded>, waker: Waker) -> std::io::Result<Resolver> {
        let (bell, rung) = sync_channel(1);
        let names = Arc::new(Mutex::new(Turns::new(NAMES_MAX)));
        let queue = names.clone();
        threads::start("anode-resolver", Duty::Resolver, move || serve(&queue, &rung, &outbox, &waker))?;
        Ok(Resolver { names, bell })
    }

    /// Takes a name on; gives back the one that there is no place for.
    pub fn submit(&self, cause: Cause, name: Box<str>) -> Option<Box<str>> {
        let displaced = self.names.lock().unwrap_or_else(PoisonError::into_inner).push(cause, name);
        match self.bell.try_send(()) {
            // It has been told already.
            Ok(()) | Err(TrySendError::Full(())) => displaced,
            Err(TrySendError::Disconnected(())) => next(&self.names).or(displaced),
        }
    }
}

fn next(names: &Mutex<Turns<Box<str>>>) -> Option<Box<str>> {
    let mut names = names.lock().unwrap_or_else(PoisonError::into_inner);
    names.next(|_| true).map(|(_, name)| name)
}

fn serve(names: &Mutex<Turns<Box<str>>>, rung: &Receiver<()>, outbox: &Sender<Loaded>, waker: &Waker) {
    while let Ok(()) = rung.recv() {
        while let Some(name) = next(names) {
            let addr = address(&name);
            if outbox.send(Loaded::Resolved(name, addr)).is_err() {
                return;
            }
            waker.wake();
        }
    }
}

/// The first address of a host.
pub fn address(name: &str) -> Option<Addr> {
    (name, 0).to_socket_addrs().ok()?.map(|found| Addr::from(found.ip())).next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Payer, PortId};
    use crate::node::Ingress;

    #[test]
    fn names_of_one_neighbour_displace_its_own_and_others_have_their_turn() {
        let (bell, _rung) = sync_channel(1);
        let resolver = Resolver { names: Arc::new(Mutex::new(Turns::new(NAMES_MAX))), bell };
        let of = |peer| Cause { ingress: Ingress::Port(PortId(0), Payer(peer)), principal: None };
        let flood = (0..500).filter_map(|number| resolver.submit(of(0), format!("flood-{number}").into()));
        assert_eq!(flood.count(), 500 - NAMES_MAX);
        let displaced = resolver.submit(of(1), "other".into()).unwrap();
        assert!(displaced.starts_with("flood"), "{displaced}");
        let turns: Vec<_> = (0..2).filter_map(|_| next(&resolver.names)).collect();
        assert!(turns.contains(&"other".into()), "{turns:?}");
    }
}
