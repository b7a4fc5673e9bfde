//! Routes that go with interfaces: of those of IPv4 the kernel tells nothing, and all are read again for no others.

use super::{Chance, agree, up};
use crate::running::Running;
use anode::wire::Prefix;

/// How often all routes were read.
fn reads(net: &Running) -> u64 {
    net.status("r")["followed"]["reads"].as_u64().unwrap()
}

#[test]
fn interfaces_that_no_route_leads_by_flap_and_nothing_is_read_again() {
    let Some(net) = up("flapping") else { return };
    let (mut dice, blocks) = (Chance::new(1), ["172.16.0.0/16".parse::<Prefix>().unwrap()]);
    net.shell("r", "ip link add guest type veth peer name tseug; ip link set guest up; ip link set tseug up");
    let mut flaps = 0;
    let mut flap = || {
        net.shell("r", "for at in 1 2 3 4; do ip link set guest down; ip link set guest up; done");
        net.shell("r", "ip link add later type veth peer name retal; ip link set later up; ip link del later");
        // What is told later than all of that has been heard of.
        flaps += 1;
        let via = ["10.0.2.2", "10.0.3.2"][flaps % 2];
        net.shell("r", &format!("ip route replace 172.16.0.0/16 via {via}"));
        agree(&net, &mut dice, &blocks);
    };
    flap();
    let before = reads(&net);
    (0..3).for_each(|_| flap());
    assert_eq!(reads(&net), before, "{}", net.status("r")["followed"]);
}

#[test]
fn routes_go_with_interfaces_without_a_carrier_and_with_those_that_are_deleted() {
    let Some(net) = up("going") else { return };
    let (mut dice, blocks) =
        (Chance::new(2), ["172.20.0.0/16", "172.21.0.0/16"].map(|it| it.parse::<Prefix>().unwrap()));
    net.shell("r", "ip route add 172.16.0.0/12 via 10.0.2.2");
    for step in [
        // Whose other end is down.
        "ip link add quiet type veth peer name teiuq; ip link set quiet up; ip route add 172.20.0.0/16 dev quiet",
        "ip link set quiet down",
        "ip link set quiet up; ip route add 172.21.0.0/16 dev quiet",
        "ip link del quiet",
        "ip link add quiet type veth peer name teiuq; ip link set quiet up; ip addr add 10.0.9.1/24 dev quiet",
        // By another interface, from an address that goes.
        "ip route add 172.20.0.0/16 via 10.0.3.2 src 10.0.9.1",
        "ip addr del 10.0.9.1/24 dev quiet",
    ] {
        net.shell("r", step);
        println!("{step}");
        agree(&net, &mut dice, &blocks);
    }
}
