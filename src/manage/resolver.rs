//! The system's resolver, in threads of its own: it may take as long as it likes.
//!
//! ```text
//! name ─▶ hosts file ─▶ waits by ingress, in turns ─▶ one of a few places (`places`) ─▶ the system's resolver ─▶ answer
//!           └▶ answer                                     └ not within [`WITHIN`] ─▶ nobody of that name, for now
//! ```
//!
//! Names come from programs in packets; the node asks for each once. They wait by ingress and have turns ([`Turns`]),
//! so a neighbour whose names take long holds up its own; what finds no place in a full queue displaces one of whoever
//! has most, and counts as unknown for now. No neighbour has all places: names that no server answers keep one place
//! free for others. A look-up that is late keeps its place until the system gives it up, since nothing can end it; what
//! it finds then is told all the same.
//!
//! [`Turns`]: super::loader::turns::Turns

mod hosts;
mod places;

use super::loader::Loaded;
use crate::node::Cause;
use crate::sys::poll::Waker;
use crate::sys::threads::{self, Duty};
use crate::wire::Addr;
use hosts::Hosts;
use places::Names;
pub use places::NamesStatus;
use std::net::ToSocketAddrs;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Names that are looked up at the same time.
const PLACES: usize = 4;

/// Time in which a look-up is to be answered.
const WITHIN: Duration = Duration::from_secs(8);

/// Where a host's own names are.
const HOSTS: &str = "/etc/hosts";

/// How a name is looked up.
type LookUp = fn(&str) -> Option<Addr>;

/// What the threads share.
struct Shared {
    names: Mutex<Names>,
    /// Something has changed: a name waits, a place is free, or all is over.
    changed: Condvar,
    outbox: Sender<Loaded>,
    waker: Waker,
}

/// The worker's end, in the loader's hands.
pub struct Resolver {
    shared: Arc<Shared>,
    hosts: Hosts,
}

impl Resolver {
    /// Starts the threads; they end with their user.
    pub fn start(outbox: Sender<Loaded>, waker: Waker) -> std::io::Result<Resolver> {
        Resolver::start_with(outbox, waker, address)
    }

    fn start_with(outbox: Sender<Loaded>, waker: Waker, look_up: LookUp) -> std::io::Result<Resolver> {
        let (names, changed) = (Mutex::new(Names::new(PLACES)), Condvar::new());
        let resolver =
            Resolver { shared: Arc::new(Shared { names, changed, outbox, waker }), hosts: Hosts::new(HOSTS.into()) };
        for place in 0..PLACES {
            let shared = resolver.shared.clone();
            threads::start(&format!("anode-names-{place}"), Duty::Resolver, move || shared.serve(place, look_up))?;
        }
        let shared = resolver.shared.clone();
        threads::start("anode-names", Duty::Resolver, move || shared.watch())?;
        Ok(resolver)
    }

    /// Takes a name on; gives an answer that there is at once: to this name, or to one that there is no place for.
    pub fn submit(&mut self, cause: Cause, name: Box<str>) -> Option<Loaded> {
        if let Some(addr) = self.hosts.find(&name) {
            self.shared.names().counts.hosts += 1;
            return Some(Loaded::Resolved(name, Some(addr)));
        }
        let displaced = self.shared.names().push(cause, name);
        self.shared.changed.notify_all();
        displaced.map(|name| Loaded::Resolved(name, None))
    }

    /// What there is to say.
    pub fn status(&self) -> NamesStatus {
        self.shared.names().status()
    }
}

impl Drop for Resolver {
    fn drop(&mut self) {
        self.shared.names().over = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, name: Box<str>, addr: Option<Addr>) {
        // A worker that has gone wants no answers.
        let _ = self.outbox.send(Loaded::Resolved(name, addr));
        self.waker.wake();
    }

    /// Looks up one name after the other, in a place.
    fn serve(&self, place: usize, look_up: LookUp) {
        while let Some(name) = self.next(place) {
            let addr = look_up(&name);
            let is_late = self.names().done(place);
            // A place is free, and an ingress has one less.
            self.changed.notify_all();
            if !is_late || addr.is_some() {
                self.tell(name, addr);
            }
        }
    }

    /// The next name for a place; nothing: it is over.
    fn next(&self, place: usize) -> Option<Box<str>> {
        let mut names = self.names();
        while !names.over {
            if let Some(name) = names.take(place, Instant::now() + WITHIN) {
                // It has an end that has to be watched.
                self.changed.notify_all();
                return Some(name);
            }
            names = self.changed.wait(names).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }

    /// Says of names that are not answered in time that there is nobody, for now.
    fn watch(&self) {
        let mut names = self.names();
        while !names.over {
            let now = Instant::now();
            names.late(now).into_iter().for_each(|name| self.tell(name, None));
            names = match names.deadline() {
                Some(at) => {
                    let pause = at.saturating_duration_since(now);
                    self.changed.wait_timeout(names, pause).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(names).unwrap_or_else(PoisonError::into_inner),
            };
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
    use std::sync::mpsc::channel;

    /// Names that begin so are answered by nobody until the test is over.
    static SILENT: Mutex<()> = Mutex::new(());

    fn look_up(name: &str) -> Option<Addr> {
        if name.starts_with("silent") {
            drop(SILENT.lock());
            return None;
        }
        Some(Addr::v4([192, 0, 2, 1]))
    }

    #[test]
    fn names_that_nobody_answers_keep_no_others_waiting() {
        let held = SILENT.lock();
        let (outbox, answers) = channel();
        let mut resolver = Resolver::start_with(outbox, Waker::new().unwrap(), look_up).unwrap();
        let of = |peer| Cause { ingress: Ingress::Port(PortId(0), Payer(peer)), principal: None };
        for number in 0..6 {
            assert!(resolver.submit(of(0), format!("silent-{number}.invalid").into()).is_none());
        }
        for number in 0..3 {
            assert!(resolver.submit(of(1), format!("other-{number}.invalid").into()).is_none());
            let Ok(Loaded::Resolved(name, Some(_))) = answers.recv() else { panic!("{number}") };
            assert_eq!(*name, *format!("other-{number}.invalid"));
        }
        drop(held);
    }

    #[test]
    fn names_of_the_host_itself_wait_for_nobody() {
        let (outbox, _answers) = channel();
        let mut resolver = Resolver::start_with(outbox, Waker::new().unwrap(), look_up).unwrap();
        resolver.hosts = Hosts::of("192.0.2.7 silent-at-home");
        let answer = resolver.submit(Cause::default(), "silent-at-home".into());
        assert!(matches!(answer, Some(Loaded::Resolved(_, Some(addr))) if addr == Addr::v4([192, 0, 2, 7])));
        assert_eq!(resolver.status().hosts, 1);
    }
}
