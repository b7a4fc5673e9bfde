//! What the loader must not wait for: the kernel's verifier.
//!
//! One thread carries out what concerns the kernel half. Linking is paced, and gives way to all else: whoever makes the node
//! link much costs it a fifth of a CPU at most, after a burst.

use super::kernel::Messenger;
use super::loader::Loaded;
use crate::node::KernelOrder;
use crate::sys::poll::Waker;
use crate::wire::Digest;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Codes that can wait to be linked. Other orders are at most two for each code.
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
    waiting: Arc<AtomicUsize>,
}

impl Linker {
    /// Starts the thread; it ends with this value.
    pub fn start(messenger: Messenger, outbox: Sender<Loaded>, waker: Waker) -> std::io::Result<Linker> {
        let (orders, inbox) = channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let done = waiting.clone();
        std::thread::Builder::new()
            .name("anode-linker".into())
            .spawn(move || serve(&messenger, &inbox, &done, &outbox, &waker))?;
        Ok(Linker { orders, waiting })
    }

    /// Hands an order over. Gives the code back if it is one too many to be linked, with the reason.
    pub fn submit(&self, order: KernelOrder) -> Result<(), (Digest, String)> {
        if let KernelOrder::Link { code, .. } = &order
            && self.waiting.fetch_add(1, Ordering::Relaxed) >= LINKS_MAX
        {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err((*code, format!("{LINKS_MAX} codes wait to be linked already: it runs in the user half")));
        }
        // A thread that is gone leaves the user half alone, as if there were no kernel half.
        let _ = self.orders.send(order);
        Ok(())
    }
}

fn serve(
    messenger: &Messenger,
    inbox: &Receiver<KernelOrder>,
    waiting: &AtomicUsize,
    outbox: &Sender<Loaded>,
    waker: &Waker,
) {
    messenger.warm_up();
    let mut links: VecDeque<KernelOrder> = VecDeque::new();
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
            Ok(order @ KernelOrder::Link { .. }) => links.push_back(order),
            Ok(order) => {
                if let KernelOrder::Unlink(gone) = &order {
                    let before = links.len();
                    links.retain(|link| !matches!(link, KernelOrder::Link { code, .. } if code == gone));
                    waiting.fetch_sub(before - links.len(), Ordering::Relaxed);
                }
                messenger.carry_out(order);
            }
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                let Some(link) = links.pop_front() else { continue };
                waiting.fetch_sub(1, Ordering::Relaxed);
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
