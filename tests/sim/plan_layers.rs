//! The checksum layer of `apps/plan/checksum.plan`, on a way whose node in the middle damages what it passes on.

use crate::net::{Net, app, host, value};
use anode::apps::plan::Script;
use anode::sim::{Actor, Line, SECOND};
use plan::packet::{Header, Packet};
use plan::value::{Host, Value};

const LOAD: &[u8] = b"every byte of this";

/// Passes frames on, and changes one byte of the first long one in one direction.
struct Damager {
    at: usize,
    mask: u8,
    done: bool,
}

impl Actor for Damager {
    fn receive(&mut self, _: u64, port: usize, frame: &[u8], send: &mut Vec<(usize, Vec<u8>)>) {
        let mut frame = frame.to_vec();
        if port == 0 && !self.done && frame.len() > anode::wire::anep::HEADER + plan::packet::FIXED {
            self.done = true;
            if let Some(byte) = frame.get_mut(self.at) {
                *byte ^= self.mask;
            }
        }
        send.push((1 - port, frame));
    }
}

/// What is printed at home after a packet was damaged at this byte.
fn damaged(script: &Script, function: &str, at: usize, mask: u8) -> Vec<String> {
    let mut net = Net::line(3, Line::default());
    net.sim.replace(1, Box::new(Damager { at, mask, done: false }));
    let chunk = script.chunk(function, [value(0), value(2), Value::text(LOAD)]).unwrap();
    let header = Header { destination: host(0), ..Header::injected(Host::default(), 12) };
    net.inject_packet(0, Packet { header, chunk });
    net.sim.run_for(SECOND);
    net.sim.take_printed()
}

/// Texts at home that are neither what was sent nor a report, and how many say that something was damaged.
fn outcomes(script: &Script, function: &str) -> (usize, usize) {
    let (mut wrong, mut found) = (0, 0);
    for at in 0..700 {
        for mask in [0x01, 0x20] {
            for text in damaged(script, function, at, mask) {
                found += usize::from(text.contains("raised Damaged"));
                wrong += usize::from(text.as_bytes() != LOAD && !text.starts_with("ERROR: "));
            }
        }
    }
    (wrong, found)
}

#[test]
fn what_was_damaged_on_the_way_is_not_evaluated() {
    let script = app("checksum");
    assert_eq!(damaged(&script, "carry", usize::MAX, 0), [String::from_utf8_lossy(LOAD)]);
    let (wrong, found) = outcomes(&script, "carry");
    assert_eq!(wrong, 0, "no text arrived that nobody sent");
    assert!(found >= LOAD.len(), "{found}");
}

#[test]
fn without_the_layer_damage_arrives() {
    let source = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/apps/plan/checksum.plan")).unwrap();
    let bare = "fun bare(home : host, dest : host, load : string) : unit =
                  OnRemote(|got|(home, load), dest, getRB(), defaultRoute)";
    let script = Script::new("bare", &format!("{source}\n{bare}")).unwrap();
    let (wrong, found) = outcomes(&script, "bare");
    assert!(wrong >= LOAD.len(), "{wrong}");
    assert_eq!(found, 0);
}
