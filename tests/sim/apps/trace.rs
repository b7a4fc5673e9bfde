//! trace on a line, a diamond and a long line; full tables, broken paths.

use super::net::{DELAY, Shared, addr, attach, net};
use super::{DIAMOND, LINE};
use anode::apps::{TRACE, trace};
use std::time::Duration;

fn traced(net: &Shared, to: usize, options: &trace::Options) -> trace::Trace {
    let bundle = TRACE.bundle().unwrap();
    net.borrow_mut().add_code(0, &bundle);
    let mut node = attach(net, 0, 50);
    trace::run(&mut node, bundle.name(), addr(to), options).unwrap()
}

fn names(hops: &[trace::Hop]) -> Vec<&str> {
    hops.iter().map(|hop| hop.name.as_str()).collect()
}

#[test]
fn the_table_has_every_node_on_both_ways_with_its_time() {
    for (links, far, path) in [(LINE, 2, ["n0", "n1", "n2"]), (DIAMOND, 3, ["n0", "n1", "n3"])] {
        let net = net(links);
        // Twice: the first run waits for code at each hop, which belongs to the time of that hop.
        traced(&net, far, &trace::Options { token: 1, ..trace::Options::default() });
        let bundle = TRACE.bundle().unwrap();
        let mut node = attach(&net, 0, 51);
        let options = trace::Options { token: 2, ..trace::Options::default() };
        let trace = trace::run(&mut node, bundle.name(), addr(far), &options).unwrap();
        assert!(trace.complete && !trace.full);
        assert_eq!(names(&trace.there), path);
        assert_eq!(names(&trace.back), ["n1", "n0"]);
        let rtts: Vec<_> = trace.there.iter().map(|hop| hop.rtt_ns).collect();
        assert_eq!(rtts, [Some(0), Some(2 * DELAY), Some(4 * DELAY)]);
        assert_eq!(trace.there[0].node, addr(0));
        assert_eq!(trace.rtt_ns, Some(4 * DELAY));
        assert_eq!(trace.there[0].queue_bytes, Some(0));
        assert!(trace.there[0].load_permille.is_some());
    }
}

#[test]
fn a_full_table_says_so_and_the_capsule_comes_back() {
    let links: Vec<_> = (0..9).map(|n| (n, n + 1)).collect();
    let net = net(&links);
    let trace = traced(&net, 9, &trace::Options { records: 5, ..trace::Options::default() });
    assert!(trace.complete && trace.full);
    assert_eq!(names(&trace.there), ["n0", "n1", "n2", "n3", "n4"]);
    assert!(trace.back.is_empty());
    let other = super::net::net(&links);
    let trace = traced(&other, 9, &trace::Options::default());
    assert!(trace.complete && !trace.full);
    assert_eq!((trace.there.len(), trace.back.len()), (10, 9));
    let rtts: Vec<_> = trace.there.iter().filter_map(|hop| hop.rtt_ns).collect();
    assert_eq!(rtts.len(), 10);
    assert!(rtts.is_sorted());
}

#[test]
fn reports_show_how_far_a_broken_path_goes() {
    let net = net(&[(0, 1), (1, 2), (2, 3), (3, 4)]);
    net.borrow_mut().loss = Some(Box::new(|from, to, _, _| (from, to) == (2, 3)));
    let options = trace::Options { timeout: Duration::from_millis(500), ..trace::Options::default() };
    let trace = traced(&net, 4, &options);
    assert!(!trace.complete);
    assert_eq!(names(&trace.there), ["n0", "n1", "n2"]);
    assert_eq!((trace.tries, trace.rtt_ns), (3, None));
}

#[test]
fn one_lost_capsule_costs_one_try() {
    let net = net(LINE);
    let mut lost = false;
    net.borrow_mut().loss = Some(Box::new(move |_, _, _, _| !std::mem::replace(&mut lost, true)));
    let trace = traced(&net, 2, &trace::Options::default());
    assert!(trace.complete);
    assert_eq!(trace.tries, 2);
}

#[test]
fn reports_are_paid_from_the_bound() {
    let reports = |bound| {
        let net = net(&[(0, 1), (1, 2), (2, 3), (3, 4)]);
        // Nodes that have the code need not have it paid.
        (1..5).for_each(|node| net.borrow_mut().add_code(node, &TRACE.bundle().unwrap()));
        traced(&net, 4, &trace::Options { bound, report_bound: 4, tries: 1, ..trace::Options::default() })
    };
    // Three nodes report with 4 each: 12, and 8 links there and back.
    assert!(reports(20).complete);
    let trace = reports(19);
    assert!(!trace.complete);
    assert_eq!(names(&trace.there), ["n0", "n1", "n2", "n3"]);
}
