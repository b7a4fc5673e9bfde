//! cache on a line: copies answer, the origin rests; expiry, updates, poison, loss.

use super::LINE;
use super::net::{Attachment, DELAY, Shared, addr, attach, net};
use anode::apps::CACHE;
use anode::apps::cache::{Answer, Client, Key, ORIGIN_PORT, Origin, Served};
use anode::apps::workload::Workload;
use anode::apps::{Attached, header};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

const KEEP: Duration = Duration::from_secs(60);

/// A line of three with the origin at the far end, and a client at the near one.
fn line(keep: Duration) -> (Shared, Rc<RefCell<Origin>>, Attachment, Client) {
    let net = net(LINE);
    let bundle = CACHE.bundle().unwrap();
    (0..3).for_each(|node| net.borrow_mut().add_code(node, &bundle));
    let origin = Rc::new(RefCell::new(Origin::new(bundle.name(), keep, 10_000)));
    let serving = origin.clone();
    net.borrow_mut().serve(2, ORIGIN_PORT, Box::new(move |header, bytes| serving.borrow_mut().answer(header, bytes)));
    let node = attach(&net, 0, 70);
    let client = Client::new(bundle.name(), addr(2), 1);
    (net, origin, node, client)
}

fn value(answer: Answer) -> (Vec<u8>, usize, bool) {
    match answer {
        Answer::Value { bytes, from, copy, .. } => (bytes, usize::from(from.0[15]) - 1, copy),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_first_node_on_the_path_that_holds_a_value_answers() {
    let (net, origin, mut node, mut client) = line(KEEP);
    let key = Key::of("a");
    assert_eq!(client.put(&mut node, key, b"one").unwrap(), Answer::Stored(1));
    assert_eq!(value(client.get(&mut node, key).unwrap()), (b"one".to_vec(), 2, false));
    let begin = node.now();
    assert_eq!(value(client.get(&mut node, key).unwrap()), (b"one".to_vec(), 0, true));
    assert_eq!(node.now(), begin, "the own node has a copy");
    // Somebody in the middle finds the copy there.
    let mut middle = attach(&net, 1, 70);
    assert_eq!(value(client.get(&mut middle, key).unwrap()), (b"one".to_vec(), 1, true));
    assert_eq!(origin.borrow().served(), Served { values: 1, absent: 0, stored: 1 });
}

#[test]
fn a_value_of_64_bytes_fits_and_unknown_keys_are_absent() {
    let (_net, origin, mut node, mut client) = line(KEEP);
    let long = [0xa5; 64];
    client.put(&mut node, Key::of("long"), &long).unwrap();
    client.put(&mut node, Key::of("empty"), b"").unwrap();
    for copy in [false, true] {
        let (bytes, _, found) = value(client.get(&mut node, Key::of("long")).unwrap());
        assert_eq!((bytes.as_slice(), found), (&long[..], copy));
        assert_eq!(value(client.get(&mut node, Key::of("empty")).unwrap()).0, b"");
        assert_eq!(client.get(&mut node, Key::of("none")).unwrap(), Answer::Absent);
    }
    assert_eq!(origin.borrow().served().absent, 2);
}

#[test]
fn copies_end_with_the_time_the_origin_allows() {
    let (net, origin, mut node, mut client) = line(Duration::from_secs(5));
    let key = Key::of("a");
    client.put(&mut node, key, b"one").unwrap();
    client.get(&mut node, key).unwrap();
    net.borrow_mut().run(Duration::from_secs(4));
    // A copy made from a copy ends when the first one does.
    assert!(value(client.get(&mut node, key).unwrap()).2);
    net.borrow_mut().run(Duration::from_millis(1100));
    assert!(!value(client.get(&mut node, key).unwrap()).2);
    assert_eq!(origin.borrow().served().values, 2);
}

#[test]
fn a_put_removes_the_copies_it_meets_and_fresh_passes_the_others_by() {
    let (net, _, mut node, mut client) = line(KEEP);
    let key = Key::of("a");
    client.put(&mut node, key, b"one").unwrap();
    client.get(&mut node, key).unwrap();
    client.put(&mut node, key, b"two").unwrap();
    assert_eq!(value(client.get(&mut node, key).unwrap()), (b"two".to_vec(), 2, false));
    // A writer in the middle does not meet the copy at the near end.
    let mut middle = attach(&net, 1, 71);
    let mut writer = client.clone();
    writer.put(&mut middle, key, b"three").unwrap();
    assert_eq!(value(client.get(&mut node, key).unwrap()).0, b"two");
    client.fresh = true;
    assert_eq!(value(client.get(&mut node, key).unwrap()).0, b"three");
}

#[test]
fn by_zipf_copies_answer_most_requests_and_relieve_the_origin() {
    let workload = Workload { keys: 200, requests: 1000, exponent: 0.9, seed: 7 };
    let (net, origin, mut node, mut client) = line(KEEP);
    assert_eq!(workload.fill(&mut node, &mut client).unwrap(), 200);
    client.fresh = true;
    let without = workload.run(&mut node, &mut client, &mut |_| {}).unwrap();
    let served = origin.borrow().served().values;
    assert_eq!((without.copies, without.origin, served), (0, 1000, 1000));
    assert_eq!(without.latency.min_ns, 4 * DELAY);
    client.fresh = false;
    let with = workload.run(&mut node, &mut client, &mut |_| {}).unwrap();
    let load = origin.borrow().served().values - served;
    assert!(with.hit_percent > 75.0, "{}", with.hit_percent);
    assert_eq!((with.lost, with.absent, with.copies + with.origin), (0, 0, 1000));
    assert_eq!(load, with.origin as u64);
    assert!(load * 4 < served, "{load} of {served}");
    assert!(with.latency.mean_ns * 3 < without.latency.mean_ns);
    assert!((0..3).all(|node| net.borrow().state_entries(node) <= 1024));
}

#[test]
fn more_values_than_a_node_can_hold_stay_within_its_quota() {
    let (net, _, mut node, mut client) = line(KEEP);
    let workload = Workload { keys: 2000, requests: 3000, exponent: 0.8, seed: 3 };
    workload.fill(&mut node, &mut client).unwrap();
    let outcome = workload.run(&mut node, &mut client, &mut |_| {}).unwrap();
    assert!(outcome.copies > 500 && outcome.lost == 0, "{outcome:?}");
    let held: Vec<_> = (0..3).map(|node| net.borrow().state_entries(node)).collect();
    assert!(held.iter().all(|held| (900..=1024).contains(held)), "{held:?}");
}

#[test]
fn nobody_behind_another_link_can_plant_a_copy() {
    let (net, _, mut node, mut client) = line(KEEP);
    let key = Key::of("a");
    client.put(&mut node, key, b"good").unwrap();
    // What an origin with another value would answer.
    let mut evil = Origin::new(client.code, KEEP, 1);
    evil.set(key, b"evil".to_vec());
    let mut get = vec![0; 120];
    get[0] = 1;
    get[24..40].copy_from_slice(&key.0);
    get[40..56].copy_from_slice(&addr(2).0);
    let (_, forged) = evil.answer(&header(&node, client.code, addr(2), 255), &get).unwrap();
    // Node 0 claims to be the origin and sends its value to node 1, past node 0 itself.
    let head = header(&node, client.code, addr(1), 255);
    node.send(&head, &forged).unwrap();
    net.borrow_mut().run(Duration::from_millis(100));
    assert_eq!(value(client.get(&mut node, key).unwrap()).0, b"good");
    let mut middle = attach(&net, 1, 72);
    assert_eq!(value(client.get(&mut middle, key).unwrap()).0, b"good");
}

#[test]
fn lost_capsules_are_asked_for_again() {
    let (net, _, mut node, mut client) = line(KEEP);
    client.put(&mut node, Key::of("a"), b"one").unwrap();
    let mut seen = 0;
    net.borrow_mut().loss = Some(Box::new(move |_, _, _, _| {
        seen += 1;
        seen <= 2
    }));
    assert_eq!(value(client.get(&mut node, Key::of("a")).unwrap()).0, b"one");
    net.borrow_mut().loss = Some(Box::new(|_, _, _, _| true));
    assert_eq!(client.get(&mut node, Key::of("b")).unwrap(), Answer::Lost);
}

#[test]
fn an_origin_that_is_not_there_gives_no_answer_and_a_count() {
    let (net, _, mut node, mut client) = line(KEEP);
    client.origin_port = 9;
    client.tries = 1;
    assert_eq!(client.get(&mut node, Key::of("a")).unwrap(), Answer::Lost);
    assert_eq!(net.borrow().drops(2, anode::core::reason::Reason::NoApplication), 1);
}
