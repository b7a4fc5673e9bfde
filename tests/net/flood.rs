//! A flood on a native port, and the books of the node behind it: every frame at its interface was sent on, or is
//! counted as dropped.

use crate::apply::{apply, write};
use crate::running::{self, HOSTS, Running};
use crate::sender::{Sender, WARM, receiver};
use model::Ask;
use model::extensions::{Called, Changed};
use model::wish::Wish;
use serde_json::Value;

/// Frames of the flood.
const FRAMES: u64 = 100_000;

/// Packets that a host's stack sends of its own accord while the flood lasts, fewer than this.
const OWN: u64 = 16;

/// Packets that the interface of a link has sent, and frames that it could not send.
fn sent_by(net: &Running, node: &str, interface: &str) -> [u64; 2] {
    let said = net.shell(node, &format!("ip -s -j link show dev {interface}"));
    let said: Value = serde_json::from_str(&said).unwrap();
    ["packets", "dropped"].map(|what| said[0]["stats64"]["tx"][what].as_u64().unwrap())
}

/// What a flood loses by itself: more comes than the worker takes, or than its code may have of the CPU.
const BY_A_FLOOD: [&str; 6] = ["missed", "budget", "path-full", "queue-full", "not-sent", "entry-share"];

/// What a node says has become of frames: its code forwarded them, or they were dropped, those among them that it missed.
fn told(status: &Value) -> [u64; 2] {
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let drops = status["drops"].as_object().unwrap().values().map(number).sum();
    [number(&status["codes"][0]["total"]["forwarded"]), drops]
}

/// A flood through r while something is done: every frame of it is forwarded or counted. What has become of it, by the status.
fn flood(net: &Running, in_kernel: bool, meanwhile: impl FnOnce() + Send) -> Value {
    let ping = anode::apps::APPS.iter().find(|app| app.title == "ping").unwrap().bundle().unwrap();
    let code = net.control("r").add_code(&ping).unwrap();
    let (mut sender, _far) = (Sender::new(net, code, "10.0.2.2"), receiver(net, "b", "10.0.2.2"));
    // Until the node, and what is beyond it, knows all it needs.
    let mut warm = 0;
    net.await_status("r", |status| {
        sender.send(WARM);
        warm += 1;
        told(status)[0] >= 20 && (!in_kernel || status["codes"][0]["kernel"] == "running")
    });
    let before = told(&net.await_status("r", |status| told(status).iter().sum::<u64>() >= warm));
    let [link, _] = sent_by(net, "a", "to-r");
    let taken = std::thread::scope(|scope| {
        let others = scope.spawn(meanwhile);
        let mut taken = 0;
        while taken < FRAMES || !others.is_finished() {
            taken += sender.burst();
        }
        others.join().unwrap();
        taken
    });
    let [left, refused] = sent_by(net, "a", "to-r");
    // The host's stack may say something of its own meanwhile: who it is, by ARP and neighbour discovery.
    assert!(
        (taken..taken + OWN).contains(&(left - link)),
        "what the link has no room for is not taken: {}",
        left - link
    );
    let of_flood = |status: &Value| {
        let [forwarded, dropped] = told(status);
        [forwarded - before[0], dropped - before[1]]
    };
    let status = net.await_status("r", |status| of_flood(status).iter().sum::<u64>() >= taken);
    let [forwarded, dropped] = of_flood(&status);
    println!(
        "{taken} frames, {refused} more refused by the link: {forwarded} forwarded, {dropped} counted; {}",
        status["drops"]
    );
    assert_eq!(forwarded + dropped, taken, "{status}");
    running::accounted(status)
}

/// Ten configurations in the middle of a flood: what is lost of it is what a flood loses by itself.
fn flood_beside_configurations(name: &str, adjust: running::Adjust<'_>, in_kernel: bool) {
    let Some(net) = Running::up_with(name, HOSTS, adjust) else { return };
    let status = flood(&net, in_kernel, || {
        for round in 0..10 {
            let (done, said) = apply(&net, "r", &write(&net, round), &[]);
            assert!(done && said.contains("applied as configuration"), "{said}");
        }
    });
    assert_eq!(status["configuration"]["applied"], 10, "{status}");
    only_by_a_flood(&status);
}

/// What was lost is what a flood loses by itself.
fn only_by_a_flood(status: &Value) {
    let drops = status["drops"].as_object().unwrap();
    let others: Vec<_> = drops.iter().filter(|(why, _)| !BY_A_FLOOD.contains(&why.as_str())).collect();
    assert!(others.iter().all(|(_, count)| *count == 0), "{others:?}");
}

#[test]
fn of_a_flood_beside_configurations_nothing_is_lost_by_them_in_the_user_half() {
    flood_beside_configurations("applyf", &|_, _| {}, false);
}

#[test]
fn of_a_flood_beside_configurations_nothing_is_lost_by_them_in_the_kernel_half() {
    flood_beside_configurations("applyfk", &running::in_kernel, true);
}

/// The text of an extension that comes with anode, as a request has it.
pub fn module(name: &str) -> String {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("apps/extensions/{name}.wat"));
    hex::encode(std::fs::read(file).unwrap())
}

#[test]
fn of_a_flood_beside_extensions_that_come_and_go_nothing_is_lost_by_them() {
    let Some(net) = Running::up("floodext", HOSTS) else { return };
    let status = flood(&net, false, || {
        let mut control = net.control("r");
        for round in 0..10 {
            let modules = ["tunnels", "names"].map(module).to_vec();
            let loaded: Changed = control.asked(&Ask::Configure { what: Wish::Load { modules } }).unwrap();
            assert_eq!(loaded.names, ["names", "tunnels"]);
            let mut call = |call: &str, arguments: &[&str]| -> Called {
                let arguments = arguments.iter().map(ToString::to_string).collect();
                control.asked(&Ask::Call { call: call.into(), arguments }).unwrap()
            };
            let end = format!("10.0.0.{round}");
            call("names.add", &["vtep.west", &end]);
            assert_eq!(call("tunnels.end", &["west"]).value, end);
            let what = Wish::Unload { name: "names".into(), cascade: true };
            let unloaded: Changed = control.asked(&Ask::Configure { what }).unwrap();
            assert_eq!(unloaded.names, ["tunnels", "names"]);
        }
        // The same by configurations.
        for round in 0..6 {
            let path = write(&net, round);
            if round % 2 == 0 {
                let table = |name| format!("[[extension]]\nname = \"{name}\"\nmodule = \"{}\"\n", module(name));
                let text = std::fs::read_to_string(&path).unwrap() + &table("tunnels") + &table("names");
                std::fs::write(&path, text).unwrap();
            }
            let (done, said) = apply(&net, "r", &path, &[]);
            assert!(done && said.contains("extension tunnels\n"), "{said}");
        }
    });
    only_by_a_flood(&status);
}

#[test]
fn of_a_flood_every_frame_is_forwarded_or_counted() {
    let Some(net) = Running::up("flooded", HOSTS) else { return };
    flood(&net, false, || {});
}
