//! Packets shared with clients in other languages: `tests/vectors/plan.json`.
//!
//! `ANODE_BLESS=1` writes the file again; look at the difference before committing it.

use anode::apps::plan::Script;
use plan::name::{Name, TABLE};
use plan::packet::{Header, Packet};
use plan::value::{Callee, Chunk, Host, Value};
use serde_json::{Value as Json, json};
use std::sync::Arc;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/plan.json");

fn describe(name: &str, chunk: Arc<Chunk>, header: Header) -> Json {
    let bytes = Packet { header: header.clone(), chunk }.bytes().unwrap();
    json!({
        "name": name, "bound": header.bound, "flow": header.flow, "routing": header.routing.as_str(),
        "destination": header.destination.to_string(), "bytes": hex::encode(bytes),
    })
}

fn call(service: &str, arguments: Vec<Value>) -> Arc<Chunk> {
    Arc::new(Chunk::new(Callee::Service(Name::new(service).unwrap()), arguments).unwrap())
}

/// A value of every type, as the Python client expects them.
fn values() -> Vec<Value> {
    let own = Name::new("Own").unwrap();
    vec![
        Value::Unit,
        Value::Bool(true),
        Value::Bool(false),
        Value::Char(255),
        Value::text(*b"text"),
        Value::Blob((*b"blob").into()),
        Value::tuple([Value::Int(1), Value::Unit]).unwrap(),
        Value::list([-1, 0, 1].map(Value::Int).into_iter()).unwrap(),
        Value::Host(Host::v4([10, 0, 0, 9])),
        Value::Host(Host([7; 16])),
        Value::Port(1 << 63),
        Value::Key([9; 16]),
        Value::Exn(own.clone()),
        Value::Exn(Name::NOT_ENOUGH_RB),
        Value::Dev(300),
        Value::Service(own),
        Value::Int(i64::MAX),
        Value::Int(i64::MIN),
        Value::Chunk(call("Own", vec![Value::text(vec![b'x'; 300])])),
    ]
}

fn vectors() -> Json {
    let header = Header::injected(Host::v4([10, 0, 0, 1]), 64);
    let routing = Name::new("ownRoute").unwrap();
    let other = Header { flow: 7, bound: u32::MAX, destination: Host([0xfd; 16]), routing, ..header.clone() };
    let source = "fun ping(n) : unit = OnRemote(|pong|(n, 1), getSource(), 1, defaultRoute)
                  fun pong(n, m) : unit = OnRemote(|ping|(n), getSource(), m, defaultRoute)";
    let script = Script::new("vector", source).unwrap();
    let inner = Value::Chunk(script.chunk("pong", [Value::Unit, Value::Int(2)]).unwrap());
    let both = script.chunk("ping", [Value::list([inner.clone(), inner].into_iter()).unwrap()]).unwrap();
    let list = Value::list(values().into_iter()).unwrap();
    json!({
        "about": "written by tests/sim/plans/vectors.rs with ANODE_BLESS=1; read there and by clients/python/test_anode_plan.py",
        "names": TABLE.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        "packets": [
            describe("every type", call("print", vec![list]), header.clone()),
            describe("codes, each once", both, other),
            describe("nothing", call("print", vec![]), Header { handler: Name::NONE, routing: Name::NONE, ..header }),
        ],
    })
}

#[test]
fn the_shared_packets_are_those_of_this_implementation() {
    let text = serde_json::to_string_pretty(&vectors()).unwrap() + "\n";
    if std::env::var_os("ANODE_BLESS").is_some() {
        std::fs::write(FILE, &text).unwrap();
    }
    let kept = std::fs::read_to_string(FILE).unwrap();
    assert_eq!(serde_json::from_str::<Json>(&kept).unwrap(), vectors());
}
