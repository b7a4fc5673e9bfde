//! Packets of cut-through channels are seen, whatever kind of port they come and go by, and by whichever half they pass.

use super::{capture_at, packets, place, told};
use crate::channels::node::{Node, PORTS};
use anode::nodeos::interface::DomainId;

fn cut_both_ways(node: &Node, domain: DomainId) {
    node.cut(domain, ["if0/ip", "10.0.2.0/24"], ["if1/ip", "* proto 17"], 0);
    node.cut(domain, ["if1/ip", "10.0.1.0/24"], ["if0/ip", "* proto 17"], 0);
}

#[test]
fn a_cut_through_channel_is_seen_at_every_kind_of_port() {
    for (name, ports) in PORTS {
        let Some(node) = Node::start(&format!("seencut{name}"), ports) else { return };
        let (domain, _tells) = node.capitals();
        cut_both_ways(&node, domain);
        let (a, b) = (node.socket("a", "10.0.1.1:4000"), node.socket("b", "10.0.2.2:7000"));
        a.connect("10.0.2.2:7000").unwrap();
        let trip = || {
            a.send(b"there").unwrap();
            let (_, from) = b.recv_from(&mut [0; 16]).unwrap();
            b.send_to(b"back", from).unwrap();
            a.recv(&mut [0; 16]).unwrap();
        };
        let in_kernel = ports.contains("kernel");
        // Until a whole trip is by the half that it is to be by.
        node.until(|| {
            let before = node.cut_through();
            trip();
            let after = node.cut_through();
            (after.1 - before.1 == if in_kernel { 2 } else { 0 }).then_some(())
        });
        let folder = tempfile::tempdir().unwrap();
        let client = capture_at(node.dir.path(), &place(&folder), &["host=10.0.2.2", "--count", "4"]);
        trip();
        assert_eq!(client.last(), "4 packets, 0 missed", "{ports}");
        let seen = packets(&place(&folder));
        let ways: Vec<_> = seen.iter().map(|seen| (told(seen).0, told(seen).1)).collect();
        let (a, b) = ("to-a", "to-b");
        assert_eq!(ways, [(a, Some(true)), (b, Some(false)), (b, Some(true)), (a, Some(false))], "{seen:#?}");
        let half = if in_kernel { "kernel half" } else { "user half" };
        for packet in &seen {
            assert!(told(packet).2.contains(half), "{ports}: {}", packet.comment);
        }
        assert!(seen[0].bytes.ends_with(b"there") && seen[1].bytes.ends_with(b"there"), "{seen:#?}");
        assert!(seen[2].bytes.ends_with(b"back") && seen[3].bytes.ends_with(b"back"), "{seen:#?}");
    }
}
