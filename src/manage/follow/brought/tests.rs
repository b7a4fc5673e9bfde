//! Which routes of extensions count, and that whoever follows routes learns of each change.

use super::*;
use crate::frame::{Link, PeerId, PortId};
use crate::topology::Ceiling;
use crate::wire::Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn addr(text: &str) -> Addr {
    text.parse().unwrap()
}

fn network(text: &str) -> Prefix {
    text.parse().unwrap()
}

fn next(port: u16, via: &str) -> NextHop {
    NextHop { port: PortId(port), via: addr(via) }
}

/// Two Ethernet ports with the same subnet, and an overlay with a neighbour.
fn there() -> (Vec<Port>, Vec<Neighbour>) {
    let port = |link, own: &str, subnet: &str| Port {
        name: own.into(),
        link,
        addresses: vec![(addr(own), network(subnet))],
        mtu: 1500,
        bits_per_second: 0,
        ceiling: Ceiling::default(),
    };
    let ethernet = |last| Link::Ethernet { mac: crate::wire::ethernet::Mac([2, 0, 0, 0, 0, last]), answers: true };
    let ports = vec![
        port(ethernet(1), "10.0.1.1", "10.0.1.0/24"),
        port(ethernet(2), "10.0.1.2", "10.0.1.0/24"),
        port(Link::Overlay, "10.0.2.1", "10.0.2.0/24"),
    ];
    let neighbours = vec![Neighbour { addr: addr("10.0.2.9"), port: PortId(2), peer: PeerId(0) }];
    (ports, neighbours)
}

#[test]
fn the_configurations_come_first_and_then_those_of_the_first_name() {
    let (brought, (ports, neighbours)) = (BroughtRoutes::default(), there());
    for (whose, to, hop) in [
        ("b", "10.5.0.0/16", next(0, "10.0.1.9")),
        ("a", "10.5.0.0/16", next(1, "10.0.1.9")),
        ("a", "10.6.0.0/16", next(2, "10.0.2.9")),
        ("a", "10.7.0.0/16", next(2, "10.0.2.8")),
        ("a", "10.8.0.0/16", next(0, "10.0.9.9")),
        ("a", "10.9.0.0/16", next(0, "10.0.1.9")),
    ] {
        brought.set(whose, network(to), hop).unwrap();
    }
    let fixed = || Routes::new([(network("10.9.0.0/16"), next(1, "10.0.1.5"))]);
    let leads = |to: &str| brought.behind(fixed(), (&ports, &neighbours)).get(network(to)).flatten();
    assert_eq!(leads("10.9.0.0/16"), Some(next(1, "10.0.1.5")), "the configuration's");
    assert_eq!(leads("10.5.0.0/16"), Some(next(1, "10.0.1.9")), "by the port that was said");
    assert_eq!(leads("10.6.0.0/16"), Some(next(2, "10.0.2.9")));
    assert_eq!((leads("10.7.0.0/16"), leads("10.8.0.0/16")), (None, None), "nobody is there");
    let mut other = ports.clone();
    other[1].addresses.clear();
    assert_eq!(
        brought.behind(fixed(), (&other, &neighbours)).get(network("10.5.0.0/16")).flatten(),
        Some(next(0, "10.0.1.9"))
    );
    assert_eq!(brought.remove("c", network("10.5.0.0/16")), Err(NOT_FOUND));
    brought.set("ways", network("10.5.0.0/16"), next(0, "10.0.1.7")).unwrap();
    assert_eq!(leads("10.5.0.0/16"), Some(next(0, "10.0.1.7")), "an operator's comes before");
    brought.remove("ways", network("10.5.0.0/16")).unwrap();
    brought.withdraw("a");
    assert_eq!(leads("10.5.0.0/16"), Some(next(0, "10.0.1.9")), "another one's stays");
    brought.remove("b", network("10.5.0.0/16")).unwrap();
    assert_eq!(leads("10.5.0.0/16"), None);
}

#[test]
fn all_extensions_together_have_so_many() {
    let brought = BroughtRoutes::default();
    let set = |whose: &str, at: usize| {
        let [.., third, fourth] = (at as u32).to_be_bytes();
        brought.set(whose, Prefix::host(Addr::v4([10, 1, third, fourth])), next(0, "10.0.1.9"))
    };
    for at in 0..BROUGHT_MAX {
        set(if at % 2 == 0 { "a" } else { "b" }, at).unwrap();
    }
    assert_eq!((set("c", 0), set("a", 0)), (Err(TOO_BIG), Ok(())));
    for at in 0..OPERATORS_MAX {
        set("ways", at).unwrap();
    }
    assert_eq!((set("ways", OPERATORS_MAX), set("ways", 0)), (Err(TOO_BIG), Ok(())));
    brought.withdraw("b");
    assert_eq!(set("c", 0), Ok(()));
}

#[test]
fn whoever_follows_is_told_of_each_change_also_when_he_stops() {
    let (brought, told) = (BroughtRoutes::default(), Arc::new(AtomicUsize::new(0)));
    let set = |at: u8| brought.set("a", Prefix::host(Addr::v4([10, 1, 0, at])), next(0, "10.0.1.9")).unwrap();
    // Before there is anybody.
    set(0);
    assert!(brought.take_news() && !brought.take_news());
    let count = told.clone();
    brought.wake_by(Waker::new().unwrap(), move || {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let told = || told.load(Ordering::Relaxed);
    (1..4).for_each(set);
    assert_eq!(told(), 1, "once until it is taken");
    assert!(brought.take_news());
    brought.watch(true);
    (4..8).for_each(set);
    assert_eq!(told(), 1, "whoever follows is woken");
    brought.watch(false);
    assert_eq!(told(), 2, "and has ended before he has told it");
    assert!(brought.take_news());
    brought.watch(false);
    assert_eq!(told(), 2);
}
