//! A graph that translates addresses: its flows begin in user space and go on in the kernel, and no packet tells the difference.

use super::{NOW, Pair};
use crate::channels::{Ends, PLAIN, datagram, packet};
use crate::place::{Came, FAR, LEFT, Place};
use anode::core::reason::Reason;
use anode::wire::Addr;

/// A translator: packets to its address are answers, all others come from inside.
const TRANSLATOR: &str = "FromDevice(r0) -> Strip(14) -> CheckIPHeader -> i :: IPClassifier(dst host 10.0.2.254, -); \
     i [1] -> c :: Counter -> DecIPTTL -> [0] nat :: IPRewriter(pattern 10.0.2.254 2000-2999 - - 0 1, drop); \
     i [0] -> d :: Counter -> DecIPTTL -> [1] nat; \
     nat [0] -> GetIPAddress(16) -> [0] out :: ARPQuerier(10.0.2.254, 02:00:00:00:00:01) -> Queue -> ToDevice(r1); \
     nat [1] -> [0] in :: ARPQuerier(10.0.1.254, 02:00:00:00:00:02) -> Queue -> ToDevice(r0); \
     Idle -> [1] out; Idle -> [1] in;";

/// A packet that goes back where this one came from.
fn answer(bytes: &[u8]) -> Vec<u8> {
    let mut back = bytes.to_vec();
    (26..30).for_each(|at| back.swap(at, at + 4));
    (34..36).for_each(|at| back.swap(at, at + 2));
    back
}

/// Packets of flows; the last ones of UDP are without a sum.
fn flows() -> Vec<Vec<u8>> {
    let udp = |port: u16, summed| {
        let ends = Ends { from: LEFT, to: FAR, ports: (port, 53), life: 9, summed };
        datagram(ends, format!("flow {port}").as_bytes())
    };
    let tcp = |port: u16| {
        let mut segment = [0; 30];
        (segment[0], segment[1]) = ((port >> 8) as u8, port as u8);
        (segment[3], segment[12], segment[13], segment[20], segment[16], segment[17]) = (80, 0x50, 0x10, 7, 1, 2);
        packet(PLAIN, 6, &segment)
    };
    let all = (4000..4040).map(|port| udp(port, true)).chain((5000..5020).map(tcp));
    all.chain((6000..6003).map(|port| udp(port, false))).collect()
}

impl Pair {
    fn write(&mut self, engine: &str, handler: &str, value: &str) {
        let Place { alone, above, .. } = &mut self.place;
        for user in [alone, above] {
            user.control(NOW, |node, turn| node.write_graph(turn.now, "g", (engine, handler), value)).unwrap();
        }
    }

    /// How many of these stay in the kernel, and what comes of all.
    fn pass_all(&mut self, what: &str, all: &[Vec<u8>]) -> (u64, Vec<Vec<u8>>) {
        let before = self.in_kernel;
        let sent = all.iter().map(|bytes| match self.pass(what, bytes) {
            Came::Sent(bytes) => bytes,
            other => panic!("{what}: {other:?}"),
        });
        let sent = sent.collect();
        (self.in_kernel - before, sent)
    }
}

#[test]
fn a_translator_passes_the_flows_that_it_knows_in_the_kernel() {
    let Some(mut pair) = Pair::new(TRANSLATOR) else { return };
    let why = "nat :: IPRewriter: flows begin and end in user space";
    assert!(pair.shown()[1].status.why.contains(why), "{}", pair.shown()[1].status.why);
    let [far, left] = [FAR, LEFT].map(|addr| addr.to_string());
    pair.write("out", "insert", &format!("{far} 02:00:00:00:00:0a"));
    pair.write("in", "insert", &format!("{left} 02:00:00:00:00:0b"));
    let flows = flows();
    let count = flows.len() as u64;
    // The first packet of a flow, then one that the kernel could have done, then those that it does.
    for (round, stay) in [0, 0, count, count].into_iter().enumerate() {
        let (stayed, sent) = pair.pass_all(&format!("round {round}"), &flows);
        assert_eq!(stayed, stay, "round {round}");
        assert!(sent.iter().all(|bytes| bytes[26..30] == [10, 0, 2, 254] && bytes[5] == 0x0a), "round {round}");
        let answers: Vec<_> = sent.iter().map(|bytes| answer(bytes)).collect();
        let (_, back) = pair.pass_all(&format!("answers {round}"), &answers);
        assert!(back.iter().zip(&flows).all(|(back, first)| back[30..38] == answer(first)[30..38]), "round {round}");
    }
    let known = |pair: &mut Pair| {
        let above = &mut pair.place.above;
        above.control(NOW, |node, _| node.read_graph("g", "nat", "kernel_mappings")).unwrap()
    };
    assert_eq!((known(&mut pair), pair.read("nat", "nmappings")), ((2 * count).to_string(), count.to_string()));
    pair.read("c", "count");
    pair.read("d", "byte_count");
    pair.counts();
    // Who has a station's address is another one now; what ends is user space's; and a new generation knows all that was known.
    pair.write("out", "insert", &format!("{far} 02:00:00:00:00:0c"));
    let (stayed, sent) = pair.pass_all("another station", &flows[..2]);
    assert!(stayed == 1 && sent.iter().all(|bytes| bytes[5] == 0x0c), "{sent:02x?}");
    let mut ends = flows[45].clone();
    ends[47] |= 1;
    assert_eq!(pair.pass_all("FIN", &[ends]).0, 0);
    assert_eq!(pair.apply(&TRANSLATOR.replace("c :: Counter ->", "c :: Counter -> Null ->")), Ok(2));
    assert_eq!(known(&mut pair), "0");
    for stay in [0, count - 1, count - 1] {
        assert_eq!(pair.pass_all("the next generation", &flows).0, stay, "all but the flow that ends");
    }
    // A packet with options, one of no flow, and an answer to nobody.
    pair.pass("ICMP", &packet(PLAIN, 1, &[8, 0, 0, 0, 0, 1, 0, 2]));
    let nobody = Ends { from: FAR, to: Addr::v4([10, 0, 2, 254]), ports: (53, 2999), life: 9, summed: true };
    assert_eq!(pair.pass("nobody", &datagram(nobody, b"?")), Came::DroppedFor(Reason::GraphDropped));
    pair.counts();
}
