//! `anode node down` leaves nothing, also of a node whose processes were all killed.

use crate::running::{ANODE, HOSTS, Running};
use crate::wait;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The kernel half before one port, sockets before the other, and a process in a jail.
fn adjust(_: &str, config: &mut toml::Table) {
    let ports = config["port"].as_array_mut().unwrap();
    for (port, key) in ports.iter_mut().zip(["kernel", "xdp"]) {
        port.as_table_mut().unwrap().insert(key.into(), toml::Value::Boolean(true));
    }
    let environment = "name = \"sleeper\"\ncommand = [\"sleep\", \"1000\"]\nrole = \"anyone\"";
    let environment = toml::Value::Table(environment.parse().unwrap());
    config.insert("ee".into(), toml::Value::Array(vec![environment]));
}

/// What there is of a node: in the kernel, in its run directory, mounted, among control groups.
fn remains(net: &Running, dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let shown = net.shell("r", "ip link show; tc filter show dev to-a ingress; ethtool -k to-a; ethtool -k to-b");
    let marks = |line: &&str| line.contains("xdp") || line.contains("bpf") || line.contains("rx-vlan-offload: off");
    found.extend(shown.lines().filter(marks).map(str::to_owned));
    let names = fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    found.extend(names.filter(|name| !["node.toml", "node.log", "hosts", "configurations"].contains(&name.as_str())));
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    found.extend(mounts.lines().filter(|line| line.contains(dir.to_str().unwrap())).map(str::to_owned));
    let groups = Command::new("find").args(["/sys/fs/cgroup", "-name", "anode-*"]).output().unwrap().stdout;
    let node = net.lab.topology().namespace("r");
    found.extend(String::from_utf8(groups).unwrap().lines().filter(|line| line.contains(&node)).map(str::to_owned));
    found
}

/// Takes a node down, from its network namespace or from another one.
fn down(net: &Running, dir: &Path, within: bool) -> bool {
    let mut command = if within { net.lab.command("r", ANODE).unwrap() } else { Command::new(ANODE) };
    command.args(["node", "down"]).arg(dir).output().unwrap().status.success()
}

#[test]
fn nothing_is_left_of_a_node_that_was_stopped_or_whose_processes_were_killed() {
    let Some(mut net) = Running::up_with("remains", HOSTS, &adjust) else { return };
    let dir = net.dir("r").to_owned();
    let nothing = |net: &Running| {
        wait::unannounced("the kernel lets go of what a process had by and by", || match remains(net, &dir) {
            left if left.is_empty() => Ok(()),
            left => Err(left.join("\n")),
        });
    };
    assert!(down(&net, &dir, true));
    nothing(&net);
    assert!(!down(&net, &dir, true), "there is nothing more to take away, and it says so");
    net.daemons.clear();
    for within in [true, false] {
        net.start(&adjust);
        wait::environment(&dir, "sleeper", |environment| environment["pid"].as_u64().is_some());
        let pid = net.daemons[0].pid();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        let all: Vec<String> = children.split_whitespace().map(str::to_owned).chain([pid.to_string()]).collect();
        assert!(Command::new("kill").arg("-KILL").args(&all).status().unwrap().success());
        net.kill("r");
        assert!(!remains(&net, &dir).is_empty(), "the kernel half works on");
        net.daemons.clear();
        assert!(down(&net, &dir, within));
        nothing(&net);
    }
}
