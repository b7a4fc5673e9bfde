//! multicast in a tree with 8 leaves: every leaf gets every datum once, every link carries it once.

use super::net::{Attachment, Shared, attach, net};
use anode::apps::multicast::{Event, Group, Publisher, Subscriber};
use anode::apps::{Attached, MULTICAST};
use anode::core::reason::Reason;
use anode::wire::Digest;
use std::collections::BTreeMap;
use std::time::Duration;

/// A binary tree: 0 is the root, 7 to 14 are the leaves.
const TREE: &[(usize, usize)] = &[
    (0, 1),
    (0, 2),
    (1, 3),
    (1, 4),
    (2, 5),
    (2, 6),
    (3, 7),
    (3, 8),
    (4, 9),
    (4, 10),
    (5, 11),
    (5, 12),
    (6, 13),
    (6, 14),
];
const KEEP: Duration = Duration::from_secs(10);
const GROUP: Group = Group { root: anode::wire::Addr::v4([10, 0, 0, 1]), number: 0x1234_5678_9abc };
const DATA: u8 = 2;

struct Leaf {
    node: Attachment,
    subscriber: Subscriber,
}

impl Leaf {
    fn new(net: &Shared, code: Digest, at: usize) -> Leaf {
        Leaf { node: attach(net, at, 60), subscriber: Subscriber::new(code, GROUP, KEEP, 64) }
    }

    /// Numbers of the data that come in during `time`.
    fn data(&mut self, time: Duration) -> Vec<u32> {
        let end = self.node.now() + time;
        let mut numbers = Vec::new();
        loop {
            let left = end.saturating_sub(self.node.now());
            let Some(event) = self.subscriber.receive(&mut self.node, left).unwrap() else { break };
            if let Event::Datum { sequence, .. } = event {
                numbers.push(sequence);
            }
        }
        numbers
    }
}

fn tree() -> (Shared, Digest, Vec<Leaf>) {
    let net = net(TREE);
    let bundle = MULTICAST.bundle().unwrap();
    (0..15).for_each(|node| net.borrow_mut().add_code(node, &bundle));
    let mut leaves: Vec<Leaf> = (7..15).map(|at| Leaf::new(&net, bundle.name(), at)).collect();
    for leaf in &mut leaves {
        let joined = leaf.subscriber.receive(&mut leaf.node, Duration::from_millis(100)).unwrap();
        assert!(matches!(joined, Some(Event::Joined { .. })), "{joined:?}");
    }
    (net, bundle.name(), leaves)
}

#[test]
fn every_leaf_gets_every_datum_once_and_every_link_carries_it_once() {
    let (net, code, mut leaves) = tree();
    let mut root = attach(&net, 0, 61);
    let mut publisher = Publisher::new(code, GROUP, 1);
    for _ in 0..10 {
        publisher.publish(&mut root, b"datum", 64).unwrap();
    }
    for leaf in &mut leaves {
        assert_eq!(leaf.data(Duration::from_millis(100)), (0..10).collect::<Vec<_>>());
    }
    let net = net.borrow();
    let mut carried: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for frame in net.carried.iter().filter(|frame| frame.payload[0] == DATA) {
        *carried.entry((frame.from, frame.to)).or_default() += 1;
    }
    let expected: BTreeMap<_, _> = TREE.iter().map(|link| (*link, 10)).collect();
    assert_eq!(carried, expected);
}

#[test]
fn joins_merge_in_the_network() {
    let (net, _, _) = tree();
    let joins = |link| {
        let net = net.borrow();
        net.carried.iter().filter(|frame| frame.payload[0] == 1 && (frame.from, frame.to) == link).count()
    };
    assert_eq!((joins((1, 0)), joins((2, 0))), (1, 1), "the root hears of one subscriber per neighbour");
    assert_eq!((joins((3, 1)), joins((7, 3)), joins((8, 3))), (1, 1, 1));
}

#[test]
fn the_bound_is_split_evenly_over_branches() {
    let (net, code, _leaves) = tree();
    let mut root = attach(&net, 0, 61);
    Publisher::new(code, GROUP, 1).publish(&mut root, b"", 100).unwrap();
    net.borrow_mut().run(Duration::from_millis(100));
    let net = net.borrow();
    let bounds = |from| {
        let data = net.carried.iter().filter(|frame| frame.payload[0] == DATA && frame.from == from);
        data.map(|frame| frame.header.bound).collect::<Vec<_>>()
    };
    // Each link costs one of what its branch got: 100 = (49+1) + (49+1), 49 = (23+1) + (24+1).
    assert_eq!(bounds(0), [49, 49]);
    assert_eq!(bounds(1), [23, 24]);
    assert_eq!(bounds(3), [10, 11]);
    let spent: u32 =
        14 + net.carried.iter().filter(|f| f.payload[0] == DATA && f.to >= 7).map(|f| f.header.bound).sum::<u32>();
    assert_eq!(spent, 100, "nothing is made, nothing is lost");
}

#[test]
fn a_bound_too_small_reaches_some_and_the_rest_is_counted() {
    // 14 links need 14; an even split of 13 leaves one leaf out.
    let (net, code, mut leaves) = tree();
    let mut root = attach(&net, 0, 61);
    let mut publisher = Publisher::new(code, GROUP, 1);
    publisher.publish(&mut root, b"", 13).unwrap();
    let got: usize = leaves.iter_mut().map(|leaf| leaf.data(Duration::from_millis(50)).len()).sum();
    assert_eq!(got, 7);
    assert_eq!(net.borrow().drops(3, Reason::Bound), 1);
    assert_eq!(net.borrow().log(3), []);
    // With 6, nothing is left where the last branchings would be.
    publisher.publish(&mut root, b"", 6).unwrap();
    let got: usize = leaves.iter_mut().map(|leaf| leaf.data(Duration::from_millis(50)).len()).sum();
    assert_eq!(got, 0);
    assert_eq!(net.borrow().log(3), [(2, GROUP.number)], "the code says for which group it could not serve a branch");
}

#[test]
fn branches_end_with_their_keep_time_and_refreshes_prolong_them() {
    let (net, code, mut leaves) = tree();
    let mut root = attach(&net, 0, 61);
    let mut publisher = Publisher::new(code, GROUP, 1);
    // The first leaf keeps joining, the others are silent for two keep times.
    assert!(leaves[0].data(2 * KEEP).is_empty());
    net.borrow_mut().carried.clear();
    publisher.publish(&mut root, b"", 64).unwrap();
    assert_eq!(leaves[0].data(Duration::from_millis(100)), [0]);
    let carried = net.borrow().carried.iter().filter(|frame| frame.payload[0] == DATA).count();
    assert_eq!(carried, 3, "only the way to the first leaf is left");
    net.borrow_mut().run(2 * KEEP);
    net.borrow_mut().carried.clear();
    publisher.publish(&mut root, b"", 64).unwrap();
    net.borrow_mut().run(Duration::from_millis(100));
    assert!(net.borrow().carried.is_empty(), "nobody listens");
}

#[test]
fn who_leaves_gets_no_more_and_others_still_do() {
    let (net, code, mut leaves) = tree();
    let mut root = attach(&net, 0, 61);
    let mut publisher = Publisher::new(code, GROUP, 1);
    let Leaf { node, subscriber } = &mut leaves[0];
    subscriber.leave(node).unwrap();
    net.borrow_mut().run(Duration::from_millis(100));
    net.borrow_mut().carried.clear();
    publisher.publish(&mut root, b"", 64).unwrap();
    assert_eq!(leaves[1].data(Duration::from_millis(100)), [0]);
    let to_first = net.borrow().carried.iter().filter(|frame| frame.payload[0] == DATA && frame.to == 7).count();
    assert_eq!(to_first, 0);
}

#[test]
fn lost_joins_are_repaired_by_refreshes_and_duplicated_data_dropped() {
    let net = net(TREE);
    let bundle = MULTICAST.bundle().unwrap();
    (0..15).for_each(|node| net.borrow_mut().add_code(node, &bundle));
    // The first two joins are lost on their way to the root.
    let mut lost = 0;
    net.borrow_mut().loss = Some(Box::new(move |from, to, _, payload| {
        lost += u32::from((from, to) == (1, 0) && payload[0] == 1);
        (from, to) == (1, 0) && payload[0] == 1 && lost <= 2
    }));
    let mut leaf = Leaf::new(&net, bundle.name(), 7);
    leaf.data(KEEP);
    let mut root = attach(&net, 0, 61);
    Publisher::new(bundle.name(), GROUP, 1).publish(&mut root, b"", 64).unwrap();
    assert_eq!(leaf.data(Duration::from_millis(100)), [0]);
    // The same datum once more, by a publisher that counts from the beginning again.
    Publisher::new(bundle.name(), GROUP, 1).publish(&mut root, b"", 64).unwrap();
    assert!(leaf.data(Duration::from_millis(100)).is_empty());
    Publisher::new(bundle.name(), GROUP, 2).publish(&mut root, b"", 64).unwrap();
    assert_eq!(leaf.data(Duration::from_millis(100)), [0], "another stream is another datum");
}

#[test]
fn subscribers_inside_the_tree_and_at_the_root_get_data_too() {
    let (net, code, mut leaves) = tree();
    let mut inner: Vec<Leaf> = [0, 1, 3].map(|at| Leaf::new(&net, code, at)).into();
    inner.iter_mut().for_each(|leaf| assert!(leaf.data(Duration::from_millis(50)).is_empty()));
    let mut root = attach(&net, 0, 61);
    Publisher::new(code, GROUP, 1).publish(&mut root, b"x", 64).unwrap();
    for leaf in inner.iter_mut().chain(&mut leaves) {
        assert_eq!(leaf.data(Duration::from_millis(50)), [0]);
    }
}
