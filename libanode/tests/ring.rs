//! The rings under every interleaving of the two sides' steps (loom), and against a hostile side.

use anode1::memory::{Geometry, Memory};
use anode1::ring::{Cells, Consumer, Entry, Nonsense, Place, Producer, words};
use core::sync::atomic::Ordering;
use loom::sync::atomic::AtomicU64;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use proptest::prelude::*;

#[derive(Clone)]
struct Words(Arc<Vec<AtomicU64>>);

impl Words {
    fn new(place: Place) -> Words {
        Words(Arc::new((0..words(place.capacity)).map(|_| AtomicU64::new(0)).collect()))
    }
}

impl Cells for Words {
    fn load(&self, at: usize, order: Ordering) -> u64 {
        self.0[at].load(order)
    }

    fn store(&self, at: usize, value: u64, order: Ordering) {
        self.0[at].store(value, order);
    }

    fn fence(&self, order: Ordering) {
        loom::sync::atomic::fence(order);
    }
}

/// What the kernel does for those who sleep at a word: compares it and sleeps in one step, or wakes them.
struct Futex(Mutex<()>, Condvar);

impl Futex {
    fn wait(&self, cells: &Words, at: usize) {
        let bed = self.0.lock().unwrap();
        if cells.load(at, Ordering::Relaxed) == 1 {
            drop(self.1.wait(bed).unwrap());
        }
    }

    fn wake(&self) {
        let _bed = self.0.lock().unwrap();
        self.1.notify_all();
    }
}

fn entry(number: u64) -> Entry {
    core::array::from_fn(|word| number << 8 | word as u64)
}

/// Has both sides move `count` entries through a ring in every order of their steps with at most so many preemptions.
fn in_every_order(capacity: usize, count: u64, preemptions: usize) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(move || {
        let place = Place { base: 0, capacity };
        let cells = Words::new(place);
        let futex = Arc::new(Futex(Mutex::new(()), Condvar::new()));
        let (mut consumer, shared) = (Consumer::new(cells.clone(), place), (cells.clone(), futex.clone()));
        let taker = thread::spawn(move || {
            let mut next = 0;
            while next < count {
                match consumer.pop() {
                    Ok(Some(found)) => {
                        assert_eq!(found, entry(next), "whole and in order");
                        next += 1;
                    }
                    Ok(None) => {
                        // A wake-up that is lost leaves everybody waiting, which the model reports.
                        if consumer.sleep().unwrap() {
                            shared.1.wait(&shared.0, place.sleeping());
                            consumer.awake();
                        }
                    }
                    Err(Nonsense) => panic!("both sides are honest"),
                }
            }
        });
        let mut producer = Producer::new(cells, place);
        for number in 0..count {
            while !producer.push(&entry(number)).unwrap() {
                thread::yield_now();
            }
            if producer.wakes() {
                futex.wake();
            }
        }
        taker.join().unwrap();
    });
}

#[test]
fn entries_arrive_whole_in_order_and_wake_who_sleeps() {
    in_every_order(2, 2, 3);
}

#[test]
fn a_full_ring_is_used_again() {
    in_every_order(1, 2, 2);
}

proptest! {
    /// Whatever the other side writes anywhere, ours neither fails nor takes or puts more than the ring holds between two looks.
    #[test]
    fn a_side_that_writes_nonsense_is_noticed_or_harmless(
        scribbles in prop::collection::vec((0usize..1200, any::<u64>(), any::<bool>(), 0u8..4), 1..200)
    ) {
        let geometry = Geometry { up: 4, down: 4, buffers_node: 4, buffers_process: 4, buffer_bytes: 128, threads: 4 };
        let (memory, _fd) = Memory::make(geometry).unwrap();
        let mut producer = Producer::new(memory.clone(), geometry.up());
        let mut consumer = Consumer::new(memory.clone(), geometry.down());
        for (at, value, small, act) in scribbles {
            let hot = [0, 16, 32, geometry.down().base, geometry.down().base + 16, geometry.down().base + 32];
            let at = if small { hot[at % hot.len()] } else { at };
            memory.store(at, if small { value % 8 } else { value }, Ordering::Relaxed);
            match act {
                0 => {
                    for _ in 0..=geometry.up {
                        if !matches!(producer.push(&entry(1)), Ok(true)) { break }
                    }
                    // It may be that the other side has said that it took some: then there is room.
                    prop_assert!(producer.put() - producer.taken() <= u64::from(geometry.up));
                }
                1 => {
                    let mut taken = 0;
                    while taken < 100 && matches!(consumer.pop(), Ok(Some(_))) { taken += 1 }
                    // What was known from the last look, and what this one has shown.
                    prop_assert!(taken <= 2 * geometry.down, "one look shows at most what the ring holds");
                }
                2 => { let _ = (producer.wakes(), consumer.sleep()); }
                _ => { let _ = producer.has_room(); }
            }
        }
    }
}
