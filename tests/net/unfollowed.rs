//! Nobody follows interfaces and routes any more: the node says so, and its packets go on.

use crate::running::{ANODE, LINE, Running};
use crate::wait;
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
fn a_node_whose_interfaces_and_routes_nobody_follows_says_so_and_passes_packets() {
    let Some(net) = Running::up("unfollow", LINE) else { return };
    let passes = || net.anode("a", &["ping", "-c", "3", "-t", "0.3", B])["summary"]["received"] == 3;
    let status = net.await_status("r", |_| passes());
    assert_eq!(check(&health(&net).0, "routes-followed")["state"], "healthy");
    let standing = &status["sandbox"]["standing"];
    let user = ["user", "group"].map(|of| standing[of].as_u64().unwrap() as u32);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", net.daemon("r").pid())).unwrap();
    let open = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let before = open.split_whitespace().nth(3).unwrap();
    // With fewer than it waits for at once the thread that follows cannot wait.
    limit(&net, &user, "1");
    net.shell("r", "ip link set to-b mtu 1480");
    let log = &net.daemon("r").log;
    wait::text(log, None, |log| log.contains("interfaces and routes are followed no more").then_some(()));
    limit(&net, &user, before);
    let (said, healthy) = health(&net);
    let check = check(&said, "routes-followed");
    assert!(!healthy && check["state"] == "degraded", "{said}");
    assert!(said.to_string().contains("followed no more"), "{said}");
    assert!(passes(), "what it knows it goes on with");
}
