//! Copies that leave a kernel half: each is seen while somebody captures, and nobody pays for that afterwards.

use super::{Client, capture, packets, place, told};
use crate::running::{self, HOSTS, Running};
use crate::sender::{Sender, WARM, receiver};
use crate::wait;
use anode::contract::PORTS;
use anode::sys::bpf::{self, Map, MapKind, MapShape};
use std::collections::BTreeMap;
use std::io::Read as _;

/// What tests/guests/sends.c is to do: a child to b and one back to a, and the packet itself goes on to b.
fn orders() -> Vec<u8> {
    let addr = |last: [u8; 4]| [&[0; 10][..], &[0xff, 0xff], &last].concat();
    let (a, b) = (addr([10, 0, 1, 1]), addr([10, 0, 2, 2]));
    let mut bytes = 1u32.to_be_bytes().to_vec();
    bytes.extend([2, 0, 0, 0]);
    bytes.resize(32, 0);
    (0..4).for_each(|_| bytes.extend(1u32.to_be_bytes()));
    [&b, &a, &b, &b, &a, &b].into_iter().for_each(|addr| bytes.extend(addr));
    bytes
}

/// Which program stands behind each way out, by interface: the numbers of the kernel's.
fn behind(net: &Running) -> BTreeMap<u32, u32> {
    let path = net.dir("r").join("bpf/set-1/transmit_map");
    let shape = MapShape { kind: MapKind::Devices, key: 4, value: 8, entries: PORTS };
    let map = Map::adopt(bpf::open(&path).unwrap(), shape).unwrap();
    let word = |value: &[u8], at: usize| u32::from_ne_bytes(*value[at..].first_chunk().unwrap());
    let mut value = [0; 8];
    let entry = |key: u32| {
        map.get(&key.to_ne_bytes(), &mut value).ok()?;
        Some((word(&value, 0), word(&value, 4)))
    };
    (0..PORTS).filter_map(entry).collect()
}

#[test]
fn each_copy_is_seen_and_the_egress_of_before_is_back() {
    let Some(net) = Running::up_with("seencopy", HOSTS, &running::in_kernel) else { return };
    let code = net.control("r").add_code(&running::guest("sends")).unwrap();
    let (mut sender, far) = (Sender::of(&net, code, "10.0.2.2", &orders()), receiver(&net, "b", "10.0.2.2"));
    let made = |status: &serde_json::Value| status["kernel"]["codes"][0]["usage"]["children"].as_u64().unwrap_or(0);
    net.await_status("r", |status| {
        sender.send(WARM);
        made(status) >= 20
    });
    let standing = behind(&net);
    assert!(standing.len() == 2 && standing.values().all(|program| *program > 0), "{standing:?}");
    let folder = tempfile::tempdir().unwrap();
    let client = capture(&net, "r", &place(&folder), &["code=sends", "host=10.0.1.1", "--count", "16"]);
    let meanwhile = behind(&net);
    assert!(meanwhile.iter().all(|(interface, program)| standing[interface] != *program), "{meanwhile:?}");
    let before = made(&net.status("r"));
    (0..4).for_each(|mark| sender.send(mark));
    assert_eq!(client.last(), "16 packets, 0 missed");
    assert_eq!(made(&net.status("r")), before + 8);
    let seen = packets(&place(&folder));
    for family in seen.chunks(4) {
        let (port, inward, comment) = told(&family[0]);
        assert_eq!((port, inward), ("to-a", Some(true)));
        assert!(comment.contains("code sends (") && comment.contains("forwarded as 3 copies"), "{comment}");
        let ways = family[1..].iter().map(|copy| {
            let (port, inward, comment) = told(copy);
            assert!(comment.contains("code sends (") && comment.contains("goes on, came in by to-a"), "{comment}");
            assert!(comment.contains("kernel half"), "{comment}");
            (port, inward, copy.bytes[30..34].to_vec())
        });
        let mut ways: Vec<_> = ways.collect();
        ways.sort();
        let [there, back] = [("to-b", Some(false), vec![10, 0, 2, 2]), ("to-a", Some(false), vec![10, 0, 1, 1])];
        assert_eq!(ways, [back, there.clone(), there]);
    }
    // What was shown is what came, byte by byte behind the headers.
    let shown: Vec<&[u8]> = seen.iter().filter(|seen| seen.interface == "to-b").map(|seen| &seen.bytes[42..]).collect();
    let (mut came, mut buffer) = (vec![], [0; 2048]);
    while came.len() < shown.len() {
        let length = far.recv(&mut buffer).unwrap();
        let is_warm = buffer[..length].ends_with(&WARM.to_be_bytes());
        came.extend((!is_warm).then(|| buffer[..length].to_vec()));
    }
    assert_eq!(came, shown);
    is_back(&net, &standing);
    // Its story has the copies.
    let dir = net.dir("r").to_str().unwrap();
    let mut client = Client::start(&["packet", "explain", "code=sends", "host=10.0.1.1", "--node", dir, "--wait", "2"]);
    sender.send(5);
    let mut says = client.child.stdout.take().unwrap();
    client.last();
    let mut story = String::new();
    says.read_to_string(&mut story).unwrap();
    assert!(story.contains("comes in by port 0"), "{story}");
    assert_eq!(story.matches("its code sends child ").count(), 3, "{story}");
    is_back(&net, &standing);
    running::accounted(net.status("r"));
}

/// Waits until the programs of before stand behind the ways out.
fn is_back(net: &Running, standing: &BTreeMap<u32, u32>) {
    wait::unannounced("the kernel tells nobody of a program behind an interface", || {
        let now = behind(net);
        (now == *standing).then_some(()).ok_or_else(|| format!("{now:?}, not {standing:?}"))
    });
}
