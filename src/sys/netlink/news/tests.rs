//! Messages of the kernel about routes, written by somebody else's code and read by ours.

use super::*;
use netlink_packet_core::{NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteMessage, RouteNextHop, RouteNextHopFlags, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use proptest::prelude::*;

/// A route to 192.0.2.0/24 with these attributes, as the kernel writes it.
fn written(flags: u16, change: impl FnOnce(&mut RouteMessage)) -> Vec<u8> {
    let mut route = RouteMessage::default();
    route.header.address_family = AddressFamily::Inet;
    route.header.destination_prefix_length = 24;
    route.header.table = MAIN as u8;
    route.header.kind = RouteType::Unicast;
    route.attributes = vec![RouteAttribute::Destination(RouteAddress::Inet([192, 0, 2, 0].into()))];
    change(&mut route);
    let payload = NetlinkPayload::from(RouteNetlinkMessage::NewRoute(route));
    let mut message = NetlinkMessage::new(NetlinkHeader::default(), payload);
    message.header.flags = flags;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

/// One with these attributes more.
fn with(attributes: Vec<RouteAttribute>) -> impl FnOnce(&mut RouteMessage) {
    |route| route.attributes.extend(attributes)
}

fn gateway(last: u8) -> RouteAttribute {
    RouteAttribute::Gateway(RouteAddress::Inet([10, 0, 0, last].into()))
}

fn heard(datagram: &[u8]) -> Vec<RouteNews> {
    let mut all = Vec::new();
    messages(datagram, |message| take_message(message, &mut |news| all.push(news)));
    all
}

/// The ways that a route has.
fn hops_of(datagram: &[u8]) -> Hops {
    match &heard(datagram)[..] {
        [RouteNews::Main(to, route, _)] if to.to_string() == "192.0.2.0/24" => route.hops.clone(),
        other => panic!("{other:?}"),
    }
}

fn hop(last: u8, interface: u32, up: bool) -> Hop {
    let via = if last == 0 { Addr::UNSPECIFIED } else { Addr::v4([10, 0, 0, last]) };
    Hop { via, interface, up }
}

#[test]
fn a_route_is_read_with_metric_and_way() {
    let attributes = vec![gateway(1), RouteAttribute::Oif(3), RouteAttribute::Priority(20)];
    let route = KernelRoute { metric: 20, object: 0, hops: Hops::One(hop(1, 3, true)) };
    let to: Prefix = "192.0.2.0/24".parse().unwrap();
    for (flags, change) in [(0x400, Change::Put), (0x100, Change::Replaced), (0x800, Change::Appended)] {
        assert_eq!(heard(&written(flags, with(attributes.clone()))), [RouteNews::Main(to, route.clone(), change)]);
    }
    assert_eq!(hops_of(&written(0, with(vec![RouteAttribute::Oif(3)]))), Hops::One(hop(0, 3, true)), "on the link");
    let mut removed = written(0, with(attributes));
    removed[4..6].copy_from_slice(&REMOVED_ROUTE.to_ne_bytes());
    assert_eq!(heard(&removed), [RouteNews::Main(to, route, Change::Removed)]);
}

#[test]
fn several_ways_are_read_with_their_links() {
    let several = |last: u8, flags: RouteNextHopFlags| {
        let mut hop = RouteNextHop::default();
        (hop.flags, hop.interface_index, hop.attributes) = (flags, u32::from(last), vec![gateway(last)]);
        hop
    };
    let (down, dead, up) = (RouteNextHopFlags::Linkdown, RouteNextHopFlags::Dead, RouteNextHopFlags::empty());
    let all = vec![several(1, down), several(2, dead), several(3, up)];
    let expected = [hop(1, 1, false), hop(2, 2, false), hop(3, 3, true)];
    assert_eq!(hops_of(&written(0, with(vec![RouteAttribute::MultiPath(all)]))), Hops::Several(expected.into()));
}

#[test]
fn what_leads_where_the_node_does_not_send_leads_nowhere() {
    for kind in [RouteType::BlackHole, RouteType::Unreachable, RouteType::Prohibit, RouteType::Throw] {
        let bytes = written(0, |route| route.header.kind = kind);
        assert_eq!(hops_of(&bytes), Hops::Nowhere, "{kind:?}");
    }
    assert_eq!(hops_of(&written(0, with(vec![gateway(1)]))), Hops::Nowhere, "by no interface");
}

#[test]
fn routes_that_decide_nothing_here_are_passed_over() {
    let way = || vec![gateway(1), RouteAttribute::Oif(3)];
    let table = |route: &mut RouteMessage| route.attributes.push(RouteAttribute::Table(100));
    assert_eq!(heard(&written(0, table)), [RouteNews::Elsewhere]);
    let change = |change: fn(&mut RouteMessage)| {
        written(0, move |route| {
            route.attributes.extend(way());
            change(route);
        })
    };
    assert_eq!(heard(&change(|route| route.header.tos = 4)), []);
    assert_eq!(heard(&change(|route| route.header.source_prefix_length = 24)), []);
    assert_eq!(heard(&change(|route| route.header.address_family = AddressFamily::Bridge)), []);
}

#[test]
fn a_message_that_is_cut_costs_no_other() {
    let good = written(0, with(vec![gateway(1), RouteAttribute::Oif(3)]));
    let datagram: Vec<u8> = [&good[..], &good, &good[..good.len() - 4]].concat();
    assert_eq!(heard(&datagram).len(), 2);
    (0..datagram.len()).for_each(|length| drop(heard(&datagram[..length])));
}

#[test]
fn an_object_of_next_hops_is_known_by_its_number() {
    let mut bytes = [0u8; 32];
    bytes[0] = 32;
    bytes[4..6].copy_from_slice(&REMOVED_NEXT_HOP.to_ne_bytes());
    bytes[24..32].copy_from_slice(&[8, 0, 1, 0, 7, 0, 0, 0]);
    assert_eq!(heard(&bytes), [RouteNews::Object(7)]);
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_harm(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        bent in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        heard(&bytes);
        let mut hop = RouteNextHop::default();
        hop.attributes = vec![gateway(2)];
        let mut good = written(0, with(vec![gateway(1), RouteAttribute::MultiPath(vec![hop]), RouteAttribute::Oif(3)]));
        for (at, byte) in bent {
            let at = at.index(good.len());
            good[at] = byte;
        }
        heard(&good);
    }
}
