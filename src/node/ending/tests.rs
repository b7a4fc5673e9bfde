//! What the end of domains looks at: what they have, however much others have.

use super::*;
use crate::core::table::looks;
use crate::driver::Driver;
use crate::frame::Link;
use crate::node::codes::Code;
use crate::node::{NodeConfig, Sizes};
use crate::nodeos::interface::{ChanSpec, DomainSpec, NodeOs};
use crate::topology::{Ceiling, Port, Routes};
use crate::trust::grants::Grants;
use crate::trust::limits::Limits;
use crate::trust::{Role, Roles};
use crate::wire::ethernet::Mac;
use crate::wire::{Addr, Digest, Prefix};
use std::sync::Arc;

/// Channels and codes of others.
const OTHERS: usize = 500;

fn driver() -> Driver {
    let port = Port {
        name: "p".into(),
        link: Link::Ethernet { mac: Mac([2, 0, 0, 0, 0, 1]), answers: false },
        addresses: vec![(Addr::v4([10, 0, 0, 1]), Prefix::new(Addr::v4([10, 0, 0, 0]), 120))],
        mtu: 1500,
        bits_per_second: 0,
        ceiling: Ceiling::default(),
    };
    Driver::new(Node::new(NodeConfig {
        name: "ending".into(),
        ports: vec![port],
        neighbours: Vec::new(),
        routes: Arc::new(Routes::default()),
        roles: Arc::new(Roles::default()),
        sizes: Sizes::default(),
        seed: 1,
        kernel: false,
    }))
}

/// A process with a domain, as many below it as are said, and channels of each.
fn process(driver: &mut Driver, below: usize, first_port: usize) -> (HostId, DomainId) {
    let grants =
        Grants { channels: 4096, bandwidth: u64::MAX, domains: 2000, memory_bytes: 1 << 30, ..Grants::default() };
    let role = Arc::new(Role { grants, ..Role::anyone(Limits::default()) });
    let (host, top) = driver.node.connect("process", &role).unwrap();
    driver.turn(0, |node, turn| {
        node.with_os(turn, top, |os| {
            for number in 0..below {
                let domain =
                    os.domain_create(top, &DomainSpec { title: "below".into(), ..DomainSpec::default() }).unwrap();
                let protocol = || "if0/ip/udp".to_owned();
                let from = ChanSpec {
                    protocol: protocol(),
                    address: format!("*:{}", first_port + number),
                    ..ChanSpec::default()
                };
                let to = ChanSpec { protocol: protocol(), address: "*:9 -> 10.0.0.2:9".into(), ..ChanSpec::default() };
                let (from, to) = (os.inchan_create(domain, &from).unwrap(), os.outchan_create(domain, &to).unwrap());
                if number % 2 == 0 {
                    os.cutchan_create(from, to).unwrap();
                }
            }
        })
    });
    (host, top)
}

/// Beside others' codes and channels, domains with two channels each end, so many.
fn looked_at(ending: usize, end: impl FnOnce(&mut Node, &mut Turn<'_>, HostId, DomainId) -> Ended) -> u64 {
    let mut driver = driver();
    process(&mut driver, OTHERS, 1000);
    let refused = |number: usize| {
        let code = Code::Refused { until: u64::MAX, why: String::new(), reason: Reason::Code };
        (Digest::of(&number.to_be_bytes()), code)
    };
    let asked = driver.node.ask(|capsules: &mut Capsules, _| {
        (0..OTHERS).map(refused).for_each(|(name, code)| drop(capsules.codes.enter(name, code, 0, None)));
    });
    assert!(asked.is_some());
    let before = driver.node.resources();
    let (host, top) = process(&mut driver, ending, 10_000);
    looks::take();
    let ended = driver.turn(0, |node, turn| end(node, turn, host, top));
    let looks = looks::take();
    assert_eq!((ended.domains, ended.channels), (ending + 1, 2 * ending));
    driver.node.ask(|hosts: &mut Hosts, _| hosts.remove(host));
    assert_eq!(driver.node.resources(), before, "and nothing of them is left");
    looks
}

#[test]
fn the_end_of_domains_looks_at_what_they_have_and_not_at_what_others_have() {
    for ending in [1, 10, 1000] {
        // Domains, pools, channels of three kinds: each a few times, and nothing of the others.
        let most = 12 * (ending as u64 + 1);
        assert!(ending > 10 || most < OTHERS as u64, "one look at each of the others' would be seen");
        let closed = looked_at(ending, |node, turn, host, _| node.disconnect(turn, host));
        assert!(closed < most, "{ending} of a connection that closes: {closed}");
        let ended = looked_at(ending, |node, turn, _, top| node.end_domain(turn, top, true));
        assert!(ended < most, "{ending} below one: {ended}");
    }
}
