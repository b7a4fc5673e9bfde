//! Disciplines of real ports: what two floods have of a shaped port, whichever way its packets come in, and whoever makes its order; and
//! that orders of extensions, those that fail too, come and go under load without a packet lost.

use crate::apply::{apply, under_load};
use crate::build::{Linked, build};
use crate::pace::Pace;
use crate::running::{self, ANODE, HOSTS, Running};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

/// Of 8 Mbit/s three parts for datagrams to port 7000, one for those to 7001; those to 7002 before all others.
const ORDER: &str = r#"
order = "priority"
bits_per_second = 8_000_000
burst_bytes = 6_000
class = [
    { name = "voice", priority = 1, rules = ["[ip | udp (dport = 7002) | *]"] },
    { name = "floods", order = "wfq" },
    { name = "web", below = "floods", weight = 300, packets = 50, rules = ["udp dst port 7000"] },
    { name = "rest", below = "floods", weight = 100, packets = 50 },
]
"#;

/// Bytes of each datagram, and of its frame.
const PAYLOAD: usize = 1_000;

/// Datagrams of the floods that are counted.
const COUNTED: usize = 2_000;

/// An extension `bad` whose order traps.
const BAD: &str = r#"(module (memory (export "memory") 1) (global (export "an_buffer") i32 (i32.const 0))
  (func (export "Trap") (param i32) (result i32) unreachable)
  (@custom "anode.extension" "name = 'bad'\n[[engine]]\nname = 'Trap'\nports = '1-/1'\norder = true\n"))"#;

/// An extension of a configuration.
fn extension(name: &str, module: String) -> toml::Value {
    toml::Table::from_iter([("name".to_owned(), name.into()), ("module".to_owned(), module.into())]).into()
}

/// One that comes with anode.
fn shipped(name: &str) -> toml::Value {
    let file = format!("{}/apps/extensions/{name}.wat", env!("CARGO_MANIFEST_DIR"));
    extension(name, std::fs::read_to_string(file).unwrap())
}

/// The order of the port to b.
fn set_order(config: &mut toml::Table, order: &str) {
    for port in config["port"].as_array_mut().unwrap() {
        let port = port.as_table_mut().unwrap();
        if port["packet"].as_str() == Some("to-b") {
            port.insert("discipline".into(), toml::Value::Table(order.parse().unwrap()));
        }
    }
}

/// Who makes the order of the floods.
#[derive(Clone, Copy, PartialEq)]
enum Maker {
    Node,
    Extension,
    Native,
}

fn sorted(node: &str, config: &mut toml::Table, (kernel, maker): (bool, Maker)) {
    let role = "name = \"cut\"\ngrants = { channels = 4, bandwidth = 1_000_000_000 }".parse::<toml::Table>().unwrap();
    config.insert("role".into(), toml::Value::Array(vec![toml::Value::Table(role)]));
    if kernel {
        running::in_kernel(node, config);
    }
    if maker == Maker::Node {
        return set_order(config, ORDER);
    }
    if maker == Maker::Native {
        // Of the other class not all may wait for whom there is room.
        let admits = "weight = 100, packets = 50, admission = \"fair/Most(30)\"";
        let order = ORDER.replace("\"wfq\"", "\"fair/Shares(3, 1)\"").replace("weight = 100, packets = 50", admits);
        set_order(config, &order);
        let folder = tempfile::tempdir().unwrap();
        let object = std::fs::read(build("tests/nodeos/fair.c", folder.path(), &[], Linked::Here)).unwrap();
        config.insert("extension".into(), vec![extension("fair", hex::encode(object))].into());
        let lets_in = toml::Table::from_iter([("native_extensions".to_owned(), true.into())]);
        config.insert("security".into(), lets_in.into());
        return;
    }
    set_order(config, &ORDER.replace("\"wfq\"", "\"shares/Shares(3, 1)\""));
    config.insert("extension".into(), vec![shipped("shares")].into());
}

fn to_b(status: &Value) -> &Value {
    status["ports"].as_array().unwrap().iter().find(|port| port["name"] == "to-b").unwrap()
}

fn classes(status: &Value) -> BTreeMap<String, Value> {
    let classes = to_b(status)["classes"].as_array().unwrap().iter();
    classes.map(|class| (class["name"].as_str().unwrap().to_owned(), class.clone())).collect()
}

fn divided(name: &str, kernel: bool, maker: Maker) {
    let adjust = |node: &str, config: &mut toml::Table| sorted(node, config, (kernel, maker));
    let Some(net) = Running::up_with(name, HOSTS, &adjust) else { return };
    let mut cut = Command::new(ANODE);
    cut.args(["channel", "cut"]).arg(net.dir("r"));
    let done = cut.args(["if0/ip 10.0.1.0/24 -> 10.0.2.0/24 proto 17", "if1/ip * proto 17", "--role", "cut"]).output();
    let done = done.unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let at = |node: &str, address: &str| net.lab.enter(node, || UdpSocket::bind(address).unwrap()).unwrap();
    let sink = at("b", "10.0.2.2:7000");
    let others = [at("b", "10.0.2.2:7001"), at("b", "10.0.2.2:7002")];
    for socket in [&sink].into_iter().chain(&others) {
        socket.set_read_timeout(Some(running::PATIENCE)).unwrap();
    }
    let from = at("a", "10.0.1.1:4000");
    let pace = Pace::by_the_clock(Duration::from_micros(250));
    let mut had = [0usize; 2];
    std::thread::scope(|scope| {
        // 4,000 a second to each, which is four times what all may have; and few before all others.
        scope.spawn(|| {
            pace.run(|number| {
                for port in [7000, 7001] {
                    let _ = from.send_to(&[7; PAYLOAD], ("10.0.2.2", port));
                }
                if number % 400 == 0 {
                    let _ = from.send_to(&number.to_be_bytes(), ("10.0.2.2", 7002));
                }
            });
        });
        let mut buffer = [0; 2 * PAYLOAD];
        // What stood in no queue yet, because the channel was new.
        for _ in 0..100 {
            sink.recv(&mut buffer).unwrap();
        }
        others[0].set_nonblocking(true).unwrap();
        while others[0].recv(&mut buffer).is_ok() {}
        while had[0] < COUNTED {
            assert_eq!(sink.recv(&mut buffer).unwrap(), PAYLOAD);
            had[0] += 1;
            while others[0].recv(&mut buffer).is_ok() {
                had[1] += 1;
            }
        }
        pace.stop();
    });
    let ratio = had[0] as f64 / had[1] as f64;
    assert!((2.7..3.3).contains(&ratio), "{had:?}: {ratio}");
    let status = net.await_status("r", |status| classes(status).values().all(|class| class["waiting"] == 0));
    let classes = classes(&status);
    assert_eq!(classes.keys().map(String::as_str).collect::<Vec<_>>(), ["rest", "voice", "web"]);
    assert_eq!((&classes["voice"]["full"], &classes["voice"]["early"]), (&json!(0), &json!(0)));
    let dropped: u64 = classes.values().map(|class| class["full"].as_u64().unwrap()).sum();
    assert!(dropped > 0 && status["drops"]["queue-full"] == dropped, "{dropped}: {}", status["drops"]);
    // All that was before all others has come.
    others[1].set_nonblocking(true).unwrap();
    let mut buffer = [0; 16];
    let came = std::iter::from_fn(|| others[1].recv(&mut buffer).ok()).count();
    assert_eq!(came as u64, classes["voice"]["sent"].as_u64().unwrap());
    assert!(came >= 5, "{came}");
    match maker {
        Maker::Node => assert!(to_b(&status).get("policies").is_none()),
        Maker::Extension => brought_by("shares", &net, &status),
        Maker::Native => {
            brought_by("fair", &net, &status);
            admitted(&status);
        }
    }
}

/// Of the other class not all were let in that found room.
fn admitted(status: &Value) {
    let (policy, early) = (&to_b(status)["policies"][1], classes(status)["rest"]["early"].as_u64().unwrap());
    assert_eq!((&policy["name"], &policy["failed"]), (&json!("fair/Most(30)"), &json!(0)), "{policy}");
    assert!(early > 0 && status["drops"]["early-drop"] == early, "{early}: {}", status["drops"]);
}

/// The floods had the order of an extension, which stays as long as the configuration has it.
fn brought_by(extension: &str, net: &Running, status: &Value) {
    let policy = &to_b(status)["policies"][0];
    assert_eq!((&policy["name"], &policy["class"]), (&json!(format!("{extension}/Shares(3, 1)")), &json!("floods")));
    assert!(policy["calls"].as_u64().unwrap() >= COUNTED as u64 && policy["failed"] == 0, "{policy}");
    let mut unload = Command::new(ANODE);
    unload.args(["extension", "unload"]).arg(net.dir("r")).args([extension, "--cascade"]);
    let said = String::from_utf8(unload.output().unwrap().stderr).unwrap();
    assert!(said.contains(&format!("{extension} is an [[extension]] of the configuration")), "{said}");
}

#[test]
fn floods_share_a_shaped_port_by_weight_and_what_is_before_them_loses_nothing() {
    divided("disc", false, Maker::Node);
}

#[test]
fn the_kernel_half_overtakes_no_queue() {
    divided("disck", true, Maker::Node);
}

#[test]
fn floods_share_a_shaped_port_as_an_extension_says() {
    divided("discx", false, Maker::Extension);
}

#[test]
fn floods_share_a_shaped_port_as_a_shared_object_says() {
    divided("discn", false, Maker::Native);
}

#[test]
fn orders_of_extensions_come_and_go_under_load_and_fail_and_no_packet_is_lost() {
    let text = |order: &str| {
        let class = "class = [{ name = \"first\", rules = [\"udp dst port 9\"] }, { name = \"rest\" }]\n";
        format!("order = \"{order}\"\nbits_per_second = 80_000_000\n{class}")
    };
    let adjust = |_: &str, config: &mut toml::Table| set_order(config, &text("wfq"));
    let Some(net) = Running::up_with("discs", HOSTS, &adjust) else { return };
    let plain: toml::Table = std::fs::read_to_string(net.dir("r").join("node.toml")).unwrap().parse().unwrap();
    let path = net.dir("r").join("other.toml");
    let offered = |order: &str, extensions: &[toml::Value]| {
        let mut config = plain.clone();
        set_order(&mut config, &text(order));
        config.insert("extension".into(), extensions.to_vec().into());
        std::fs::write(&path, config.to_string()).unwrap();
        apply(&net, "r", &path, &[])
    };
    let bad = extension("bad", BAD.into());
    // Another module of the same name, with the same class.
    let shares = shipped("shares")["module"].as_str().unwrap().replace("(i64.const 16)", "(i64.const 8)");
    let other_shares = extension("shares", shares);
    let (_, after) = under_load("discs", &net, false, |pace| {
        for round in 0..3 {
            for (order, extensions) in [
                ("shares/Shares(3, 1)", &[shipped("shares")][..]),
                ("shares/Shares(3, 1)", std::slice::from_ref(&other_shares)),
                ("bad/Trap", std::slice::from_ref(&bad)),
                ("wfq", &[]),
                ("bad/Trap", &[shipped("shares"), bad.clone()]),
            ] {
                let (done, said) = offered(order, extensions);
                assert!(done && said.contains("applied as configuration"), "{round}, {order}: {said}");
                pace.await_more(50);
            }
            let (done, said) = offered("shares/Shares(3, 0)", &[shipped("shares")]);
            assert!(!done && said.contains("port to-b: shares/Shares(3, 0): refused"), "{said}");
            let (done, said) = offered("bad/Trap", &[shipped("shares")]);
            assert!(!done && said.contains("there is no [[extension]] bad in this configuration"), "{said}");
        }
    });
    let policy = &to_b(&after)["policies"][0];
    assert!(policy["calls"].as_u64() > Some(0) && policy["calls"] == policy["failed"], "{policy}");
    assert!(running::no_drops(&after), "{}", after["drops"]);
}
