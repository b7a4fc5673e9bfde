//! A worker with an order of ports and real sockets, which had frames before it looks.

use super::*;
use crate::config::Plan;
use crate::config::input::InputSpec;
use crate::core::ledger::Unaccounted;
use crate::manage::extensions::Policies;
use crate::manage::ports::OpenPort;
use crate::manage::worker::Parts;
use crate::manage::worker::anew::tests::{parts, port};
use crate::manage::worker::input::tests::spec;
use crate::port::udp::Overlay;
use crate::port::{BeforeStack, Opening};
use crate::schedule::discipline::{NoExtensions, OrderKind};
use crate::wire::anep;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU8, Ordering};

/// A worker with two overlay ports, and where they listen: each test has addresses of its own.
fn worker(order: Option<InputSpec>) -> (Worker, [SocketAddr; 2]) {
    static TESTS: AtomicU8 = AtomicU8::new(1);
    let [.., high, low] = std::process::id().to_be_bytes();
    let own = TESTS.fetch_add(1, Ordering::Relaxed);
    let (ports, ..) = parts(vec![port("left"), port("right")]);
    let mut worker = Worker::new(Parts { input: made(order), ..ports }).unwrap();
    let at = [4001, 4002].map(|port| SocketAddr::from(([127, own.wrapping_add(high), low, 1], port)));
    for (id, listen) in (0..).zip(at) {
        let opening = Opening::Udp(Overlay { listen, peers: Vec::new() });
        let plan = Plan { opening, pcap: None, sorting: None };
        let (ports, _) =
            OpenPort::open(PortId(id), plan, BeforeStack::default(), (1452, 1, &Policies::default())).unwrap();
        worker.take_ports(ports.into_iter()).unwrap();
    }
    (worker, at)
}

fn made(order: Option<InputSpec>) -> Option<Box<Input>> {
    order.map(|spec| Box::new(Input::new(spec, &NoExtensions).unwrap()))
}

/// Sends capsules that are too short, which a worker drops itself.
fn send(to: SocketAddr, count: usize) {
    let mut bytes = [0; anep::HEADER + 4];
    anep::emit_basic(&mut bytes, anep::type_id::CAPSULE, 4).unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..count {
        sender.send_to(&bytes, to).unwrap();
    }
}

/// What the poll tells of is served, and then ports in their order, once.
fn round(worker: &mut Worker) -> bool {
    let mut ready = Vec::new();
    worker.poll.wait(0, &mut ready).unwrap();
    for event in ready.iter().filter(|event| event.token >= PORTS) {
        assert!(!worker.serve_port((event.token - PORTS) as usize, event).unwrap());
    }
    worker.take_in_order().unwrap()
}

/// Batches and frames of both ports.
fn had(worker: &Worker) -> [(u64, u64); 2] {
    let counts = |at| worker.input.as_ref().unwrap().counts(at).unwrap();
    [0, 1].map(|at| (counts(at).batches, counts(at).frames))
}

#[test]
fn a_port_that_gets_frames_in_the_middle_of_a_round_is_served_behind_the_batch_in_hand() {
    let (mut worker, [low, high]) = worker(Some(spec(OrderKind::Priority, &[(100, 0), (100, 1)])));
    send(low, 120);
    let mut ready = Vec::new();
    worker.poll.wait(0, &mut ready).unwrap();
    for event in &ready {
        worker.serve_port((event.token - PORTS) as usize, event).unwrap();
    }
    // The poll has said nothing of these.
    send(high, 100);
    assert!(worker.take_in_order().unwrap());
    // Four batches for the one port that was ready: the first is the lower port's, and all others are not. A socket is asked for 1,
    // 8, and 32 frames first, and for 64 then.
    assert_eq!(had(&worker), [(1, 1), (3, 41)]);
    while round(&mut worker) {}
    assert_eq!(had(&worker).map(|(_, frames)| frames), [120, 100]);
    let node = &worker.driver.node;
    assert_eq!(node.balance().received, 220);
    assert_eq!(node.unaccounted(&worker.driver.out.frames), Unaccounted::default());
}

#[test]
fn full_sockets_are_emptied_by_priority_or_by_weight_and_each_frame_is_counted_once() {
    let frames = 250;
    for order in [OrderKind::Priority, OrderKind::Wfq, OrderKind::Drr] {
        let (mut worker, [low, high]) = worker(Some(spec(order.clone(), &[(100, 0), (300, 1)])));
        send(low, frames);
        send(high, frames);
        round(&mut worker);
        if order == OrderKind::Priority {
            // Of 1, 8, 32, 64, 64, 64 and 17 frames; the last of eight batches of a round for two ports is the other's.
            assert_eq!(had(&worker), [(1, 1), (7, 250)]);
        }
        while round(&mut worker) {
            let [(_, low), (_, high)] = had(&worker);
            let differ = high as f64 / 3.0 - low as f64;
            // A turn of 64 frames and a batch of each, in parts of the lower one's weight.
            assert!(order == OrderKind::Priority || high == frames as u64 || differ.abs() <= 64.0 + 64.0 + 64.0 / 3.0);
        }
        assert_eq!(had(&worker).map(|(_, frames)| frames), [frames as u64; 2]);
        let node = &worker.driver.node;
        assert_eq!((node.balance().received, worker.input.as_ref().unwrap().waiting()), (2 * frames as u64, 0));
        assert_eq!(node.unaccounted(&worker.driver.out.frames), Unaccounted::default());
    }
}

#[test]
fn an_order_that_begins_ends_or_changes_loses_no_frame() {
    let (mut worker, [left, right]) = worker(None);
    let all = 240;
    (0..2).for_each(|_| [left, right].into_iter().for_each(|to| send(to, all / 2)));
    let orders = [OrderKind::Drr, OrderKind::Wfq, OrderKind::Priority];
    let orders = orders.map(|order| Some(spec(order, &[(100, 0), (200, 1)])));
    let mut ready = Vec::new();
    for order in orders.into_iter().chain([None]) {
        worker.set_input(made(order));
        worker.poll.wait(0, &mut ready).unwrap();
        for event in &ready {
            worker.serve_port((event.token - PORTS) as usize, event).unwrap();
        }
        // In the middle of what waits.
        worker.take_each_in_order(2).unwrap();
    }
    worker.set_input(None);
    for at in 0..2 {
        while worker.take_batches(at).unwrap() {}
    }
    assert_eq!(worker.driver.node.balance().received, 2 * all as u64);
    assert_eq!(worker.driver.node.unaccounted(&worker.driver.out.frames), Unaccounted::default());
}
