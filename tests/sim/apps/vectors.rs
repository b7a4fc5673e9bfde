//! Bytes shared with clients in other languages: `tests/vectors/capsule.json`.
//!
//! `ANODE_BLESS=1` writes the file again; look at the difference before committing it.

use anode::code::bundle::{Bundle, Kind};
use anode::wire::capsule::{HEADER, Header};
use anode::wire::{Addr, Digest};
use serde_json::{Value, json};
use std::sync::Arc;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/capsule.json");

fn capsule(name: &str, header: &Header, payload: &[u8]) -> Value {
    let mut bytes = vec![0; HEADER];
    header.emit(&mut bytes).unwrap();
    bytes.extend_from_slice(payload);
    json!({
        "name": name, "app_port": header.app_port, "bound": header.bound, "code": header.code.to_string(),
        "previous": header.previous, "source": header.source, "destination": header.destination,
        "payload": hex::encode(payload), "bytes": hex::encode(bytes),
    })
}

fn vectors() -> Value {
    let addr = |text: &str| text.parse::<Addr>().unwrap();
    let v4 = Header {
        app_port: 0xc001,
        bound: 64,
        code: Digest(core::array::from_fn(|at| at as u8)),
        previous: Addr::UNSPECIFIED,
        source: addr("10.0.0.1"),
        destination: addr("192.0.2.200"),
    };
    let v6 = Header {
        app_port: 1,
        bound: u32::MAX,
        code: Digest([0xff; 32]),
        previous: addr("fe80::1"),
        source: addr("2001:db8::1"),
        destination: addr("2001:db8:ffff::c000:2c8"),
    };
    let empty = Header { app_port: 0, bound: 0, code: Digest([0; 32]), previous: addr("10.0.0.9"), ..v4 };
    let module: Arc<[u8]> = Arc::from(&b"\0asm\x01\0\0\0"[..]);
    let bundle = Bundle::build("vector", 12, &[(Kind::Wasm, module)], None).unwrap();
    let mut attached = vec![0x81, 0xc0, 0x01];
    attached.extend_from_slice(&v4.source.0);
    json!({
        "about": "written by tests/sim/apps/vectors.rs with ANODE_BLESS=1; read there and by clients/python/test_anode.py",
        "capsules": [capsule("IPv4", &v4, b"hello"), capsule("IPv6", &v6, &[0, 1, 2]), capsule("empty", &empty, b"")],
        "attached": {"port": 0xc001, "address": v4.source, "bytes": hex::encode(attached)},
        "bundle": {"file": hex::encode(bundle.write()), "name": bundle.name().to_string()},
    })
}

#[test]
fn the_shared_bytes_are_those_of_this_implementation() {
    let text = serde_json::to_string_pretty(&vectors()).unwrap() + "\n";
    if std::env::var_os("ANODE_BLESS").is_some() {
        std::fs::write(FILE, &text).unwrap();
    }
    let kept = std::fs::read_to_string(FILE).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&kept).unwrap(), vectors());
}
