//! An overlay port of a node with several workers: each has a socket at the port's address, and the kernel divides peers among them.

use crate::single::Node;
use anode::code::bundle::{Bundle, Kind};
use anode::wire::{Addr, Digest, anep, capsule};
use serde_json::Value;
use std::net::{SocketAddr, UdpSocket};

/// Peers: that all come to one of two workers happens once in 2,147,483,648 runs.
const PEERS: usize = 32;

/// Capsules of each.
const EACH: u64 = 20;

/// Code that counts its packets under key 7, and ends there.
fn counts() -> Bundle {
    let text = "(module (import \"anode\" \"an_state_add\" (func $add (param i64 i64 i32) (result i64)))
        (memory (export \"memory\") 1024 1024 (pagesize 1)) (global (export \"an_arena\") i32 (i32.const 0))
        (func (export \"capsule\") (param i32 i32) (result i32)
            (drop (call $add (i64.const 7) (i64.const 1) (i32.const 60000))) (i32.const 0)))";
    Bundle::build("counts", 0, &[(Kind::Wasm, wat::parse_str(text).unwrap().into())], None).unwrap()
}

fn peer(at: usize) -> String {
    format!("10.9.8.{}", 100 + at)
}

/// A capsule to the node itself.
fn capsule(code: Digest, from: &str) -> Vec<u8> {
    let (from, to): (Addr, Addr) = (from.parse().unwrap(), "10.9.8.1".parse().unwrap());
    let header = capsule::Header { app_port: 5, bound: 8, code, previous: from, source: from, destination: to };
    let mut bytes = vec![0; anep::HEADER + capsule::HEADER];
    header.emit(&mut bytes[anep::HEADER..]).unwrap();
    anep::emit_basic(&mut bytes, anep::type_id::CAPSULE, capsule::HEADER).unwrap();
    bytes
}

#[test]
fn peers_of_an_overlay_port_are_divided_among_workers_and_each_stays_with_one() {
    let free: SocketAddr = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let sockets: Vec<UdpSocket> = (0..PEERS).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    let near = |(at, socket): (usize, &UdpSocket)| {
        format!("{{ address = \"{}\", at = \"{}\" }}", peer(at), socket.local_addr().unwrap())
    };
    let neighbours: Vec<String> = sockets.iter().enumerate().map(near).collect();
    let port =
        format!("[[port]]\nudp = \"{free}\"\naddress = [\"10.9.8.1/24\"]\nneighbours = [{}]\n", neighbours.join(", "));
    let node = Node::start(&format!("{port}[cpu]\nworkers = 2\n[entry]\nshare = 1.0\nburst_ms = 100\n"));
    let code = node.control().add_code(&counts()).unwrap();
    let packets = |status: &Value| status["codes"][0]["total"]["packets"].as_u64().unwrap_or(0);
    let received = |status: &Value| {
        let workers = status["workers"].as_array().unwrap_or_else(|| panic!("{status}"));
        workers.iter().map(|worker| worker["balance"]["received"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    let told = |there: &dyn Fn(&Value) -> bool| {
        crate::wait::told(&node.run_dir(), "status", |status| there(&status).then_some(status))
    };
    // The first brings the code to both.
    sockets[0].send_to(&capsule(code, &peer(0)), free).unwrap();
    told(&|status| packets(status) == 1);
    let mut sent = 1;
    let mut worker_of = Vec::new();
    for (at, socket) in sockets.iter().enumerate() {
        let before = received(&told(&|status| packets(status) == sent));
        (0..EACH).for_each(|_| assert!(socket.send_to(&capsule(code, &peer(at)), free).is_ok()));
        sent += EACH;
        let now = received(&told(&|status| packets(status) == sent));
        let more: Vec<u64> = now.iter().zip(&before).map(|(now, before)| now - before).collect();
        assert!(more.contains(&EACH) && more.contains(&0), "all of a peer's come to one worker: {more:?}");
        worker_of.push(more[1] == EACH);
    }
    assert!(worker_of.contains(&true) && worker_of.contains(&false), "{worker_of:?}");
    let status = told(&|status| packets(status) == sent);
    assert_eq!((&status["unaccounted"], &status["drops"]["code"]), (&0.into(), &sent.into()), "{status}");
    let (done, said) = node.anode(&["code", "state", &code.to_string(), "--json"]);
    let state: Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"));
    assert!(done);
    assert_eq!(state["entries"][0]["number"], sent, "both workers keep one state: {said}");
    node.down();
}
