//! Fair by default: a greedy neighbour takes nothing from the share of another, whatever it sends.
//!
//! A real node is driven as its worker drives it, in virtual time: taking a frame in and running code have known costs,
//! a port's socket holds so many frames, and what finds it full is lost. So every figure is the same in each run. Each
//! attack is tried with the node's defaults; on a node without shares at entry the neighbour that did nothing wrong
//! loses most of its packets.

mod worker;

use anode::core::reason::Reason;
use anode::frame::{PeerId, PortId};
use anode::node::entry::EntryLimits;
use anode::schedule::Policy;
use worker::{Code, From, INTAKE, LINK, Sender, Worker};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;

/// A neighbour that sends a packet each millisecond: 500 in half a second.
fn innocent(from: From) -> Sender {
    Sender::new(from, Code::Shared, false, MS)
}

/// What arrives of 500 packets of the innocent beside an attacker, with the node's own defaults.
fn beside(attacker: Sender, innocent: Sender) -> (u64, Worker) {
    let mut worker = Worker::new(Policy::default());
    let mut senders = [attacker, innocent];
    worker.work(&mut senders, SECOND / 2);
    (worker.sent_on(innocent.from), worker)
}

const FIRST: From = From { port: 0, peer: PeerId(0) };
const SECOND_PEER: From = From { port: 0, peer: PeerId(1) };
const OTHER_PORT: From = From { port: 1, peer: PeerId(0) };

#[test]
fn one_neighbours_endless_loop_leaves_another_its_share() {
    // Ten times what a worker can run: by the same code behind the same socket, and by another behind another one.
    for (code, other) in [(Code::Shared, SECOND_PEER), (Code::Own(0), OTHER_PORT)] {
        let (arrived, worker) = beside(Sender::new(FIRST, code, true, 2_000), innocent(other));
        assert!(arrived >= 485, "{code:?}, {other:?}: {arrived} of 500; {:?}", worker.driver.node.drops());
        let refused = worker.driver.node.entry_counts(PortId(0), PeerId(0)).refused;
        assert!(refused > 100_000, "the loop's neighbour is refused at entry: {refused}");
        assert_eq!(worker.driver.node.drops().of(Reason::EntryShare), refused, "and nobody else");
    }
}

#[test]
fn without_shares_the_same_loop_leaves_little() {
    // What it was before, so that the test above is known to see the attack.
    let mut worker = Worker::new(Policy::Fifo);
    worker.driver.node.set_entry(EntryLimits { permille: 1_000_000, burst_us: 1 << 30, ..EntryLimits::default() });
    worker.work(&mut [Sender::new(FIRST, Code::Shared, true, 2_000), innocent(SECOND_PEER)], SECOND / 4);
    assert!(worker.sent_on(SECOND_PEER) < 125, "{} of 250", worker.sent_on(SECOND_PEER));
}

#[test]
fn a_hundred_domains_of_one_neighbour_get_no_more_than_one() {
    let mut worker = Worker::new(Policy::default());
    let mut senders: Vec<_> = (0..100).map(|n| Sender::new(FIRST, Code::Own(n), true, 200_000)).collect();
    senders.push(innocent(SECOND_PEER));
    worker.work(&mut senders, SECOND / 4);
    assert!(worker.sent_on(SECOND_PEER) >= 243, "{}", worker.sent_on(SECOND_PEER));
    let used = worker.driver.node.entry_counts(PortId(0), PeerId(0)).worker_ns;
    assert!(used < SECOND / 4 * 60 / 100, "half of the worker, and a burst: {used}");
}

#[test]
fn a_flood_of_what_costs_nothing_pays_for_being_refused() {
    let (arrived, worker) = beside(Sender::new(FIRST, Code::Shared, false, 2 * INTAKE), innocent(SECOND_PEER));
    assert!(arrived >= 485, "{arrived} of 500; {:?}", worker.driver.node.drops());
}

#[test]
fn strangers_of_a_port_share_one_bucket_whatever_they_call_themselves() {
    let mut worker = Worker::new(Policy::default());
    // Each of their packets is of another neighbour on the link, and names code that loops.
    worker.work(&mut [Sender::new(LINK, Code::Shared, true, 2_000), innocent(SECOND_PEER)], SECOND / 4);
    let (arrived, strangers) = (worker.sent_on(SECOND_PEER), worker.driver.node.entry_counts(PortId(3), PeerId::NONE));
    assert!(arrived >= 243, "{arrived} of 250: {:?}", worker.driver.node.drops());
    assert_eq!(worker.driver.node.drops().of(Reason::Stranger), 0, "they are listened to");
    assert!(worker.driver.node.status().neighbours.len() > 100, "and taken for neighbours");
    assert!(strangers.refused > 50_000 && strangers.worker_ns < SECOND / 4 * 60 / 100, "{strangers:?}");
    // On an overlay there are none.
    let mut worker = Worker::new(Policy::default());
    let nobody = From { port: 0, peer: PeerId(77) };
    worker.work(&mut [Sender::new(nobody, Code::Shared, true, 2_000), innocent(SECOND_PEER)], SECOND / 4);
    assert!(worker.sent_on(SECOND_PEER) >= 243 && worker.driver.node.drops().of(Reason::Stranger) > 0);
}

#[test]
fn without_shares_strangers_of_a_link_take_of_others() {
    // So that the test above is known to see them: other ports and domains have turns of their own, so it is not all.
    let mut worker = Worker::new(Policy::default());
    worker.driver.node.set_entry(EntryLimits { permille: 1_000_000, burst_us: 1 << 30, ..EntryLimits::default() });
    worker.work(&mut [Sender::new(LINK, Code::Shared, true, 2_000), innocent(SECOND_PEER)], SECOND / 4);
    assert!(worker.sent_on(SECOND_PEER) < 235, "{} of 250", worker.sent_on(SECOND_PEER));
    assert_eq!(worker.driver.node.entry_counts(PortId(3), PeerId::NONE).refused, 0);
}

#[test]
fn who_is_alone_has_the_whole_worker_and_two_that_want_all_have_equal_parts() {
    let mut worker = Worker::new(Policy::default());
    worker.work(&mut [Sender::new(FIRST, Code::Own(0), true, 5_000)], SECOND / 4);
    let used = worker.driver.node.entry_counts(PortId(0), PeerId(0));
    assert!(used.refused == 0 && used.worker_ns > SECOND / 4 * 95 / 100, "{used:?}");

    let mut worker = Worker::new(Policy::default());
    let greedy = |from, code| Sender::new(from, Code::Own(code), true, 5_000);
    worker.work(&mut [greedy(FIRST, 0), greedy(OTHER_PORT, 1)], SECOND / 2);
    let used =
        [(0, 0), (1, 0)].map(|(port, peer)| worker.driver.node.entry_counts(PortId(port), PeerId(peer)).worker_ns);
    let (least, most) = (used[0].min(used[1]), used[0].max(used[1]));
    assert!(most * 100 <= least * 103, "{used:?}");
    assert!(least > SECOND / 2 * 45 / 100, "nothing is left idle that somebody wants: {used:?}");
}

#[test]
fn what_hogs_want_together_leaves_room_for_those_that_begin() {
    let mut worker = Worker::new(Policy::default());
    let hog = |from, code| Sender::new(from, Code::Own(code), true, 5_000);
    let mut senders = vec![hog(FIRST, 0), hog(SECOND_PEER, 1), innocent(OTHER_PORT)];
    worker.work(&mut senders, SECOND / 4);
    assert!(worker.sent_on(OTHER_PORT) >= 243, "{}", worker.sent_on(OTHER_PORT));
}

#[test]
fn bytes_have_a_bucket_of_their_own() {
    let mut worker = Worker::new(Policy::default());
    worker.driver.node.set_entry(EntryLimits { bytes_per_second: 1_000_000, ..EntryLimits::default() });
    let mut senders = [Sender::new(FIRST, Code::Shared, false, 20_000), innocent(SECOND_PEER)];
    worker.work(&mut senders, SECOND);
    let (bytes, length) = (worker.sent_on(FIRST) * worker.length(), worker.length());
    assert!((1_000_000..1_100_000 + 2 * length).contains(&bytes), "a second's worth and a tenth's burst: {bytes}");
    assert!(worker.sent_on(SECOND_PEER) >= 970);
}

#[test]
fn hot_code_that_nobody_can_compile_again_is_tried_less_and_less() {
    let mut worker = Worker::new(Policy::default());
    worker.work(&mut [Sender::new(FIRST, Code::Own(0), true, 5_000)], 3 * SECOND);
    // With thirty sweeps in that time: behind pauses of one, two, four, eight of them.
    assert!((2..=5).contains(&worker.tried), "{} times", worker.tried);
}

#[test]
fn capsules_of_a_neighbour_share_a_turn_while_nobody_else_waits() {
    let mut worker = Worker::new(Policy::default());
    let [own, other] = [0, 1].map(|code| Sender::new(FIRST, Code::Own(code), false, MS));
    assert_eq!(worker.turns_of(40, &[own]), [16, 16, 8]);
    // Domains have a packet each in turn, and the one that is left then is alone.
    assert_eq!(worker.turns_of(3, &[own, other]), [1, 1, 1, 1, 1, 1]);
    // What one neighbour's packets cost is not another's.
    let shared = [FIRST, SECOND_PEER, FIRST].map(|from| Sender::new(from, Code::Own(0), false, MS));
    assert_eq!(worker.turns_of(2, &shared), [2, 2, 2]);
    let loops = Sender::new(FIRST, Code::Own(0), true, MS);
    assert_eq!(worker.turns_of(3, &[loops]), [1, 1, 1], "and nobody waits for more than one endless loop");
}
