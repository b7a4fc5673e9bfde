//! A flood on a native port, and the books of the node behind it: every frame at its interface was sent on, or is
//! counted as dropped.

use crate::running::{HOSTS, Running};
use crate::sender::{Sender, WARM, receiver};
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

/// What a node says has become of frames: its code forwarded them, or they were dropped, those among them that it missed.
fn told(status: &Value) -> [u64; 2] {
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let drops = status["drops"].as_object().unwrap().values().map(number).sum();
    [number(&status["codes"][0]["total"]["forwarded"]), drops]
}

#[test]
fn of_a_flood_every_frame_is_forwarded_or_counted() {
    let Some(net) = Running::up("flooded", HOSTS) else { return };
    let ping = anode::apps::APPS.iter().find(|app| app.title == "ping").unwrap().bundle().unwrap();
    let code = net.control("r").add_code(&ping).unwrap();
    let (mut sender, _far) = (Sender::new(&net, code, "10.0.2.2"), receiver(&net, "b", "10.0.2.2"));
    // Until the node, and what is beyond it, knows all it needs.
    let mut warm = 0;
    net.await_status("r", |status| {
        sender.send(WARM);
        warm += 1;
        told(status)[0] >= 20
    });
    let before = told(&net.await_status("r", |status| told(status).iter().sum::<u64>() >= warm));
    let [link, _] = sent_by(&net, "a", "to-r");
    let mut taken = 0;
    while taken < FRAMES {
        taken += sender.burst();
    }
    let [left, refused] = sent_by(&net, "a", "to-r");
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
}
