//! A further worker that panics begins anew: another node at rest goes on with its ports, rings and counters
//! ([`crate::node::Node::go_on_from`]).
//!
//! Only the packets that it had are lost, under `worker-panic`. The first worker has the tables of the node, so its
//! panic ends the process, as a hang of any worker does ([`crate::manage::watchdog`]): the kernel half serves on.

use super::{Parts, Worker, crew};
use crate::code::run::Runtime;
use crate::frame::WorkerId;
use crate::graph::taught::Classifying;
use crate::manage::cpu::Cpu;
use crate::manage::watchdog;
use crate::node::entry::EntryLimits;
use crate::node::workers::Joint;
use crate::node::{Node, NodeConfig};
use crate::sys::clock::Clock;
use crate::sys::threads::WORKERS_MAX;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What the node of a worker is made of, also after a panic.
pub(super) struct Making {
    config: NodeConfig,
    entry: EntryLimits,
    classifying: Classifying,
    worker: WorkerId,
    joint: Option<Joint>,
    /// Nodes there were before.
    panics: u64,
}

impl Making {
    pub(super) fn of(parts: &Parts, worker: WorkerId) -> Making {
        let Parts { config, joint, entry, classifying, .. } = parts;
        let (config, joint, classifying) = (config.clone(), joint.clone(), classifying.clone());
        Making { config, entry: *entry, classifying, worker, joint, panics: 0 }
    }

    /// The worker's number.
    pub(super) fn worker(&self) -> u64 {
        self.worker.into()
    }

    /// A node at rest.
    pub(super) fn node(&self, cpu: &Cpu, clock: Clock) -> Node {
        let mut config = self.config.clone();
        // None has the random numbers of one before, nor of another worker.
        config.seed = config.seed.wrapping_add(self.panics * u64::from(WORKERS_MAX));
        let mut node = Node::new(config);
        node.set_scheduler(cpu.scheduler(), 0);
        node.set_entry(self.entry);
        node.set_classifying(self.classifying.clone());
        node.set_clock(Box::new(super::work_clock::thread_clock(clock, cpu.gaps())));
        self.joint.iter().for_each(|joint| node.set_worker(self.worker, joint.clone()));
        let (capsules, plan) = cpu.weights();
        node.set_weights(capsules, plan);
        node.set_heap(crate::sys::process::heap_seen);
        node
    }
}

impl Worker {
    /// Works until it is told to stop, and lets what its sockets hold go its way; begins anew whenever it panics. Only for a worker
    /// that is not the first.
    pub fn run_on(&mut self) -> io::Result<()> {
        let done = self.through_panics(Worker::run).and_then(|()| self.through_panics(Worker::drain));
        // Nobody need come round any more.
        self.cpu.rounds().rest();
        done
    }

    fn through_panics(&mut self, work: fn(&mut Worker) -> io::Result<()>) -> io::Result<()> {
        loop {
            // What a panic leaves half done is thrown away, but for counters.
            if let Ok(done) = catch_unwind(AssertUnwindSafe(|| work(self))) {
                return done;
            }
            if catch_unwind(AssertUnwindSafe(|| self.begin_anew())).is_err() {
                watchdog::end(self.making.worker, "has panicked, and cannot begin anew");
            }
        }
    }

    #[cold]
    fn begin_anew(&mut self) {
        self.making.panics += 1;
        let looked_at = self.driver.node.looked_at(&self.driver.out);
        // From a port, or what one other worker has handed over.
        let handed = self.around.links.iter_mut().find_map(crew::Link::was_taking);
        let taken = self.taking.take().or(handed).map_or(0, |frames| frames.wrapping_sub(looked_at));
        let taken = taken + self.batch.len() as u64;
        self.batch.drain(..).for_each(|frame| self.driver.out.pool.give(frame));
        let fresh = self.making.node(&self.cpu, self.clock);
        let before = std::mem::replace(&mut self.driver.node, fresh);
        self.driver.runtime = Runtime::default();
        // Domains of environments were that node's: their processes are told by the end of their connections.
        self.around.processes.give_up();
        self.input.iter_mut().for_each(|input| input.begin_anew());
        let now = self.read();
        self.driver.turn(now, |node, turn| node.go_on_from(turn, before, taken));
        self.cpu.count_panic();
        tracing::error!(worker = self.making.worker, "has panicked and begins anew: a bug, please report the panic");
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::config::cpu::CpuFile;
    use crate::core::ledger::Unaccounted;
    use crate::core::reason::Reason;
    use crate::frame::{self, Frame, PeerId, PortId};
    use crate::manage::worker::crew::{Way, between};
    use crate::manage::worker::{Command, Order, Seat};
    use crate::node::Sizes;
    use crate::node::entry::WorkClock;
    use crate::node::handing::{Handed, HandedAs};
    use crate::node::policy::Amendment;
    use crate::schedule::Policy;
    use crate::sys::poll::Waker;
    use crate::topology::{Ceiling, Port, Routes};
    use crate::wire::anep;
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    pub fn parts(ports: Vec<Port>) -> (Parts, Way, crate::manage::worker::crew::Link) {
        let ((to_first, _), (sender, orders)) = (channel(), channel());
        let first = Way { orders: to_first, waker: Waker::new().unwrap() };
        let way = Way { orders: sender, waker: Waker::new().unwrap() };
        let (further, first) = between((0, first), (1, way.clone()));
        let config = NodeConfig {
            name: "further".into(),
            ports,
            neighbours: vec![],
            routes: Arc::new(Routes::default()),
            roles: Arc::default(),
            sizes: Sizes::default(),
            seed: 1,
            kernel: false,
        };
        let parts = Parts {
            config,
            seat: Seat::Further(1),
            links: vec![first],
            joint: Some(Joint::new(2, 64)),
            busy_poll_us: 0,
            cpu: Cpu::new(&CpuFile::default()),
            input: None,
            entry: EntryLimits::default(),
            classifying: Classifying::default(),
            orders,
            waker: way.waker.clone(),
            clock: Clock::start(),
        };
        (parts, way, further)
    }

    pub fn port(name: &str) -> Port {
        Port {
            name: name.into(),
            link: frame::Link::Overlay,
            addresses: vec![],
            mtu: 1452,
            bits_per_second: 0,
            ceiling: Ceiling::default(),
        }
    }

    /// A clock that panics once, when it has been read so often: it goes on with the entrance, which it belongs to.
    struct Breaks(u32);

    impl WorkClock for Breaks {
        fn read(&mut self) -> u64 {
            self.0 = self.0.wrapping_sub(1);
            assert!(self.0 != u32::MAX, "as wanted");
            0
        }

        fn at(&mut self, _: u64) -> u64 {
            self.read()
        }

        fn rested(&mut self, _: u64) {}

        fn lost(&self) -> u64 {
            0
        }
    }

    #[test]
    fn a_panic_anywhere_within_what_another_worker_has_handed_over_loses_no_packet_uncounted() {
        let (parts, _way, mut first) = parts(vec![port("left")]);
        let mut worker = Worker::new(parts).unwrap();
        // A capsule that is too short, as it came in.
        let mut bytes = [0; anep::HEADER + 4];
        anep::emit_basic(&mut bytes, anep::type_id::CAPSULE, 4).unwrap();
        let kinds = [HandedAs::Frame, HandedAs::Capsule { native: false }, HandedAs::Deliver(5), HandedAs::Frame];
        let (mut handed, mut panics, mut in_hand) = (0, 0, 0);
        for reading in 0.. {
            // Without an order of packets, each is begun with where it is taken.
            worker.driver.node.set_scheduler(Policy::Fifo, 0);
            for (what, peer) in kinds.into_iter().zip(1..) {
                let mut frame = Frame::from_bytes(&bytes);
                (frame.port, frame.peer) = (PortId(0), PeerId(peer));
                assert!(first.hand(Handed { to: 1, what, frame }).is_ok());
                handed += 1;
            }
            worker.driver.node.set_clock(Box::new(Breaks(reading)));
            let take = |worker: &mut Worker| {
                while worker.take_handed() || worker.around.links.iter().any(|link| link.waiting() > 0) {}
                Ok(())
            };
            worker.through_panics(take).unwrap();
            first.take_back(drop);
            let (node, frames) = (&worker.driver.node, &worker.driver.out.frames);
            assert_eq!(node.unaccounted(frames), Unaccounted::default(), "reading {reading}");
            let balance = node.balance();
            // Those that the other worker has counted came off what it had handed over.
            assert_eq!(balance.received.wrapping_sub(balance.handed), handed, "reading {reading}");
            let lost = node.drops().of(Reason::WorkerPanic);
            assert!(lost <= in_hand + 1, "no more than the one in hand");
            in_hand = lost;
            if worker.making.panics == panics {
                break;
            }
            panics = worker.making.panics;
        }
        assert!(panics > 2 && in_hand > 0, "{panics} panics, {in_hand} packets in hand");
    }

    #[test]
    fn another_rate_reaches_a_worker_as_its_share() {
        let (parts, ..) = parts(vec![port("left")]);
        let mut worker = Worker::new(parts).unwrap();
        let sizes = Sizes { ingress_packets_per_second: 200, ..Sizes::default() };
        let amendment = Amendment { rates: Some(sizes), ..Amendment::default() };
        worker.driver.turn(1, |node, turn| node.amend(turn, amendment));
        for _ in 0..30 {
            let mut bytes = [0; anep::HEADER + 4];
            anep::emit_basic(&mut bytes, anep::type_id::CAPSULE, 4).unwrap();
            let mut frame = Frame::from_bytes(&bytes);
            (frame.port, frame.peer) = (PortId(0), PeerId::NONE);
            worker.driver.receive(1, frame);
        }
        // Of two workers each has a hundred a second, and a tenth of that at once.
        assert_eq!(worker.driver.node.drops().of(Reason::IngressRate), 20);
    }

    #[test]
    fn the_thread_of_a_worker_goes_on_after_each_panic_with_what_it_has_counted() {
        let (parts, way, _further) = parts(vec![port("left")]);
        let report = parts.cpu.report();
        let worker = std::thread::spawn(move || Worker::new(parts).unwrap().run_on());
        for panics in 1..=3u64 {
            // A capsule of a stranger's, which is dropped, and one that is in hand when the worker panics.
            let command: Command = Box::new(move |node, turn| {
                let mut frame = Frame::from_bytes(&[0; 3]);
                (frame.port, frame.peer) = (PortId(0), PeerId::NONE);
                node.count_drops(Reason::Missed, 2);
                node.receive(turn, frame);
                panic!("as wanted, for the {panics}. time");
            });
            way.order(Order::Do(command));
            let (reply, answer) = channel();
            way.order(Order::Do(Box::new(move |node, turn| {
                let drops = (node.drops().of(Reason::Missed), node.drops().of(Reason::WorkerPanic));
                let _ = reply.send((drops, node.unaccounted(&turn.out.frames)));
            })));
            assert_eq!(answer.recv().unwrap(), ((2 * panics, 0), Unaccounted::default()));
            assert_eq!(report.panics(), panics);
        }
        way.order(Order::Stop);
        worker.join().unwrap().unwrap();
    }
}
