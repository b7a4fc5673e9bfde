//! The linker's thread: it waits for the kernel's verifier, so that the loader need not.
//!
//! One thread carries out all work on the kernel half. Linking is paced and gives way to all else: much linking costs
//! the node a fifth of a CPU at most, after a burst. Codes wait in [`Turns`], by neighbour and there by principal, as
//! they do for the compiler. So much code of one costs that one time; without room its newest code stays in the user
//! half.

use super::kernel::Messenger;
use super::loader::Loaded;
use super::loader::turns::Turns;
use crate::node::KernelOrder;
use crate::sys::poll::Waker;
use crate::sys::threads::{self, Duty};
use crate::wire::Digest;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Codes that can wait to be linked, and as many that come while one is. Other orders are at most two for each code.
const LINKS_MAX: usize = 1024;

/// Time that linking may take before it is paced.
const BURST: Duration = Duration::from_secs(5);

/// Time between two looks at which neighbours the kernel half hears: some in that after which the node forgets one.
const LISTEN: Duration = Duration::from_secs(15);

/// Of how many parts of time linking takes one in the long run.
const PARTS: u32 = 5;

/// The way to the thread.
pub struct Linker {
    orders: Sender<KernelOrder>,
    /// Codes that the thread has not taken in yet.
    coming: Arc<AtomicUsize>,
}

impl Linker {
    /// Starts the thread; it ends with this value.
    pub fn start(messenger: Messenger, outbox: Sender<Loaded>, waker: Waker) -> std::io::Result<Linker> {
        let (orders, inbox) = channel();
        let coming = Arc::new(AtomicUsize::new(0));
        let taken = coming.clone();
        threads::start("anode-linker", Duty::Kernel, move || serve(&messenger, &inbox, &taken, &outbox, &waker))?;
        Ok(Linker { orders, coming })
    }

    /// Hands an order over. Gives the code back if it is one too many to be linked, with the reason.
    pub fn submit(&self, order: KernelOrder) -> Result<(), (Digest, String)> {
        if let KernelOrder::Link { code, .. } = &order
            && self.coming.fetch_add(1, Ordering::Relaxed) >= LINKS_MAX
        {
            self.coming.fetch_sub(1, Ordering::Relaxed);
            return Err((*code, too_many()));
        }
        // A thread that is gone leaves the user half alone, as if there were no kernel half.
        let _ = self.orders.send(order);
        Ok(())
    }
}

fn serve(
    messenger: &Messenger,
    inbox: &Receiver<KernelOrder>,
    coming: &AtomicUsize,
    outbox: &Sender<Loaded>,
    waker: &Waker,
) {
    messenger.warm_up();
    let mut links = Turns::new(LINKS_MAX);
    let mut pace = Pace { left: BURST, since: Instant::now(), rest: Duration::ZERO };
    let mut listened = Instant::now();
    loop {
        let listen = LISTEN.saturating_sub(listened.elapsed());
        if listen.is_zero() {
            listened = Instant::now();
            let heard = messenger.heard();
            if !heard.is_empty() {
                if outbox.send(Loaded::Heard(heard)).is_err() {
                    return;
                }
                waker.wake();
            }
            continue;
        }
        let wait = if links.is_empty() { listen } else { pace.rest.saturating_sub(pace.since.elapsed()) };
        match inbox.recv_timeout(wait) {
            Ok(order @ KernelOrder::Link { cause, .. }) => {
                coming.fetch_sub(1, Ordering::Relaxed);
                if let Some(KernelOrder::Link { code, .. }) = links.push(cause, order) {
                    if outbox.send(Loaded::Linked(code, Err(too_many()))).is_err() {
                        return;
                    }
                    waker.wake();
                }
            }
            Ok(order) => {
                if let KernelOrder::Unlink(gone) = &order {
                    links.remove(|link| is_of(link, gone));
                }
                messenger.carry_out(order);
            }
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                let Some((_, link)) = links.next(|_| true) else { continue };
                let told = pace.charge(|| messenger.carry_out(link));
                if let Some((code, result)) = told {
                    if outbox.send(Loaded::Linked(code, result)).is_err() {
                        return;
                    }
                    waker.wake();
                }
            }
        }
    }
}

fn too_many() -> String {
    format!("{LINKS_MAX} codes wait to be linked already: it runs in the user half")
}

/// Whether an order is to link this code.
fn is_of(order: &KernelOrder, name: &Digest) -> bool {
    matches!(order, KernelOrder::Link { code, .. } if code == name)
}

/// How much linking there may be.
struct Pace {
    /// Time that is left of the burst.
    left: Duration,
    /// When something was linked last.
    since: Instant,
    /// For how long nothing is, from then on.
    rest: Duration,
}

impl Pace {
    fn charge<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let done = work();
        let took = began.elapsed();
        self.left = (self.left + (began - self.since) / PARTS).min(BURST).saturating_sub(took);
        self.since = Instant::now();
        self.rest = if self.left.is_zero() { took * (PARTS - 1) } else { Duration::ZERO };
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Payer, PortId};
    use crate::node::{Cause, Ingress};
    use crate::trust::Role;

    fn name(peer: u16, number: u32) -> Digest {
        Digest::of(&[&peer.to_be_bytes()[..], &number.to_be_bytes()].concat())
    }

    fn push(links: &mut Turns<KernelOrder>, peer: u16, number: u32) -> Option<Digest> {
        let cause = Cause { ingress: Ingress::Port(PortId(0), Payer(peer)), principal: None };
        let (role, bpf) = (Arc::new(Role::anyone(Default::default())), Arc::from([0; 8]));
        let order = KernelOrder::Link { code: name(peer, number), bpf, window: 0, role, cause };
        links.push(cause, order).and_then(named)
    }

    fn named(order: KernelOrder) -> Option<Digest> {
        if let KernelOrder::Link { code, .. } = order { Some(code) } else { None }
    }

    #[test]
    fn who_has_much_linked_waits_behind_itself_and_takes_nobodys_place() {
        let mut links = Turns::new(100);
        (0..99).for_each(|number| assert_eq!(push(&mut links, 1, number), None));
        assert_eq!((push(&mut links, 2, 0), push(&mut links, 3, 0)), (None, Some(name(1, 98))));
        let mut next = || links.next(|_| true).and_then(|(_, order)| named(order)).unwrap();
        assert_eq!([next(), next(), next(), next()], [name(1, 0), name(2, 0), name(3, 0), name(1, 1)]);
        let mut remove = |number| links.remove(|order| is_of(order, &name(1, number)));
        assert_eq!((remove(50), remove(0)), (1, 0));
        let left = core::iter::from_fn(|| links.next(|_| true)).count();
        assert!(left == 95 && links.is_empty());
    }
}
