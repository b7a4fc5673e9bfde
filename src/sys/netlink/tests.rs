//! Answers of the kernel, odd ones included, and their values.

use super::dump::Answer;
use super::*;
use netlink_packet_core::{NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteType};

#[test]
fn the_loopback_interface_is_found_with_its_address() {
    let all = interfaces().unwrap();
    let lo = all.iter().find(|interface| interface.name == "lo").unwrap();
    assert!(lo.index > 0 && lo.mtu > 1500);
    assert!(lo.addresses.iter().any(|(addr, _)| addr.to_string() == "127.0.0.1"));
    assert!(doing().unwrap().contains_key("lo"));
}

/// A route to 192.0.2.0/24 with these attributes, as the kernel writes it.
fn written(attributes: Vec<RouteAttribute>) -> Vec<u8> {
    let mut route = RouteMessage::default();
    route.header.address_family = AddressFamily::Inet;
    route.header.destination_prefix_length = 24;
    route.header.table = MAIN as u8;
    route.header.kind = RouteType::Unicast;
    route.attributes = vec![RouteAttribute::Destination(RouteAddress::Inet([192, 0, 2, 0].into()))];
    route.attributes.extend(attributes);
    let payload = NetlinkPayload::from(RouteNetlinkMessage::NewRoute(route));
    let mut message = NetlinkMessage::new(NetlinkHeader::default(), payload);
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

fn gateway(last: u8) -> RouteAttribute {
    RouteAttribute::Gateway(RouteAddress::Inet([10, 0, 0, last].into()))
}

/// The interface of each route of an answer.
fn found(answer: &Answer) -> Vec<u32> {
    let attributes = answer.found.iter().flat_map(|message| match message {
        RouteNetlinkMessage::NewRoute(message) => &message.attributes[..],
        _ => &[],
    });
    attributes
        .filter_map(|attribute| if let RouteAttribute::Oif(index) = attribute { Some(*index) } else { None })
        .collect()
}

#[test]
fn a_message_that_is_not_understood_costs_no_other() {
    let good = written(vec![gateway(1), RouteAttribute::Oif(3)]);
    let mut odd = good.clone();
    // The first attribute, a destination, is said to have no room for an address.
    odd[28] = 5;
    let cut = &good[..good.len() - 4];
    let datagram: Vec<u8> = [&odd[..], &good, &odd, &good, cut].concat();
    let mut answer = Answer::default();
    answer.take(&datagram).unwrap();
    assert_eq!((found(&answer), answer.skipped, answer.done), (vec![3; 2], 3, false));
    for length in 0..datagram.len() {
        Answer::default().take(&datagram[..length]).unwrap();
    }
}
