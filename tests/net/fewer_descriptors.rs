//! A node may have fewer descriptors than it waits for, for a while: it says so, its packets go on, and it recovers.

use crate::running::{ANODE, LINE, Running};
use crate::wait;
use model::Ask;
use serde_json::Value;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

const B: &str = "10.0.2.2";

/// The health of node r, and whether it is healthy by the exit status, as soon as it says so: as long as it has no descriptors it
/// takes no connection.
fn health(net: &Running) -> (Value, bool) {
    let patience = wait::Patience::new();
    loop {
        let output = Command::new(ANODE).args(["node", "health", "--json"]).arg(net.dir("r")).output().unwrap();
        if let Ok(said) = serde_json::from_slice(&output.stdout) {
            return (said, output.status.success());
        }
        patience.left(|| String::from_utf8_lossy(&output.stderr).into_owned());
    }
}

fn check<'a>(health: &'a Value, name: &str) -> &'a Value {
    health["checks"].as_array().unwrap().iter().find(|check| check["name"] == name).unwrap()
}

/// How many descriptors node r may have from now on; what it was is given back later. A process may set that for another one
/// of the same user.
fn limit(net: &Running, user: &[u32; 2], soft: &str) {
    let mut command = Command::new("prlimit");
    command.args(["--pid", &net.daemon("r").pid().to_string(), &format!("--nofile={soft}:")]);
    assert!(command.uid(user[0]).gid(user[1]).status().unwrap().success());
}

#[test]
fn a_node_with_fewer_descriptors_than_it_waits_for_says_so_passes_packets_and_recovers() {
    let Some(net) = Running::up("fewer", LINE) else { return };
    let passes = || net.anode("a", &["ping", "-c", "3", "-i", "0.02", "-t", "0.3", B])["summary"]["received"] == 3;
    let status = net.await_status("r", |_| passes());
    assert_eq!(check(&health(&net).0, "routes-followed")["state"], "healthy");
    let standing = &status["sandbox"]["standing"];
    let user = ["user", "group"].map(|of| standing[of].as_u64().unwrap() as u32);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", net.daemon("r").pid())).unwrap();
    let open = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let before = open.split_whitespace().nth(3).unwrap();
    let log = &net.daemon("r").log;
    let said = |word: &str| wait::text(log, None, |log| log.contains(word).then_some(()));
    // It can take no connection meanwhile, but answers by one that is there.
    let mut control = net.control("r");
    limit(&net, &user, "1");
    // Who follows interfaces and routes comes round by this change, and cannot wait again.
    net.shell("r", "ip route add 10.77.0.0/16 via 10.0.2.2");
    said("interfaces and routes are not followed");
    let meanwhile = control.asked::<Value>(&Ask::Health).unwrap();
    assert_eq!(check(&meanwhile, "routes-followed")["state"], "degraded", "{meanwhile}");
    // The worker came round to answer.
    said("ports are looked at once a millisecond");
    assert!(passes());
    limit(&net, &user, before);
    said("ports are waited for again");
    said("interfaces and routes are followed again");
    let (after, healthy) = health(&net);
    assert!(healthy && check(&after, "routes-followed")["state"] == "healthy", "{after}");
    // What has changed meanwhile is known.
    let routes = status["routes"].as_u64().unwrap();
    net.await_status("r", |status| status["routes"].as_u64().unwrap() > routes && passes());
}
