//! What the loader must not wait for: the kernel's verifier.
//!
//! One thread carries out what concerns the kernel half. Linking is paced, and gives way to all else: whoever makes the node
//! link much costs it a fifth of a CPU at most, after a burst. Codes wait in the line of whoever wants them, a principal or a neighbour,
//! and lines have turns: so much code of one costs that one time.

use super::kernel::Messenger;
use super::loader::Loaded;
use crate::node::{KernelOrder, Whose};
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
    let mut links = Lines::default();
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
            Ok(order @ KernelOrder::Link { .. }) => links.push(order),
            Ok(order) => {
                if let KernelOrder::Unlink(gone) = &order {
                    waiting.fetch_sub(links.remove(gone), Ordering::Relaxed);
                }
                messenger.carry_out(order);
            }
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                let Some(link) = links.pop() else { continue };
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

/// Codes that wait to be linked, in a line for each who wants some.
#[derive(Default)]
struct Lines(VecDeque<(Whose, VecDeque<KernelOrder>)>);

impl Lines {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn push(&mut self, order: KernelOrder) {
        let KernelOrder::Link { whose, .. } = &order else { return };
        match self.0.iter_mut().find(|(of, _)| of == whose) {
            Some((_, line)) => line.push_back(order),
            None => self.0.push_back((*whose, VecDeque::from([order]))),
        }
    }

    /// The next one: its line stands last then.
    fn pop(&mut self) -> Option<KernelOrder> {
        let (whose, mut line) = self.0.pop_front()?;
        let next = line.pop_front();
        if !line.is_empty() {
            self.0.push_back((whose, line));
        }
        next
    }

    /// Takes a code out; says how often it waited.
    fn remove(&mut self, gone: &Digest) -> usize {
        let mut count = 0;
        for (_, line) in &mut self.0 {
            let before = line.len();
            line.retain(|link| !matches!(link, KernelOrder::Link { code, .. } if code == gone));
            count += before - line.len();
        }
        self.0.retain(|(_, line)| !line.is_empty());
        count
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::fetch::Source;
    use crate::port::{PeerId, PortId};
    use crate::trust::Role;
    use crate::wire::Addr;

    #[test]
    fn who_has_much_linked_waits_behind_itself() {
        let name = |peer: u16, number: u32| Digest::of(&[&peer.to_be_bytes()[..], &number.to_be_bytes()].concat());
        let order = |peer: u16, number: u32| {
            let source = Source { port: PortId(0), peer: PeerId(peer), addr: Addr::UNSPECIFIED };
            let (role, bpf) = (Arc::new(Role::anyone(Default::default())), Arc::from([0; 8]));
            KernelOrder::Link { code: name(peer, number), bpf, window: 0, role, whose: (None, Some(source)) }
        };
        let mut lines = Lines::default();
        (0..100).for_each(|number| lines.push(order(1, number)));
        lines.push(order(2, 0));
        lines.push(order(3, 0));
        let mut next = || match lines.pop() {
            Some(KernelOrder::Link { code, .. }) => code,
            _ => panic!("nothing waits"),
        };
        assert_eq!([next(), next(), next(), next()], [name(1, 0), name(2, 0), name(3, 0), name(1, 1)]);
        assert_eq!((lines.remove(&name(1, 50)), lines.remove(&name(1, 0))), (1, 0));
        let left = core::iter::from_fn(|| lines.pop()).count();
        assert!(left == 97 && lines.is_empty());
    }
}
