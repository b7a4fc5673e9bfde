//! A start that fails, or is killed, leaves the host as it was.

use crate::running::{ANODE, HOSTS, Running};
use crate::{pace, wait};
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Kills at random instants of a start; more in a soak (`ANODE_KILLS`).
const KILLS: u32 = 4;

/// Within which a start is killed.
const LONGEST_START: Duration = Duration::from_millis(300);

/// Sockets before one port, the kernel half before the other.
fn adjust(_: &str, config: &mut toml::Table) {
    let ports = config["port"].as_array_mut().unwrap();
    for (at, port) in ports.iter_mut().enumerate() {
        let key = if at == 0 { "kernel" } else { "xdp" };
        port.as_table_mut().unwrap().insert(key.into(), toml::Value::Boolean(true));
    }
}

/// All that a start may change at r: programs and settings of interfaces, and what is kept in the run directory.
fn host(net: &Running, dir: &Path) -> String {
    let links =
        net.shell("r", "ip -d link show; for at in to-a to-b; do ethtool -k $at; done; nstat -z >/dev/null 2>&1; true");
    // The numbers of programs, and what counts.
    let lines = links.lines().map(str::trim).filter(|line| !line.starts_with("prog/"));
    let mut names: Vec<String> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| !["node.toml", "log", "codes", "lock"].contains(&name.as_str()));
    names.sort();
    format!("{}\n{names:?}", lines.collect::<Vec<_>>().join("\n"))
}

/// The kernel lets go of what a process had a moment after the process has ended.
const LATER: &str = "the kernel detaches programs of a process that has ended by and by, and tells nobody";

fn becomes(net: &Running, dir: &Path, expected: &str, what: &str) {
    wait::unannounced(LATER, || match host(net, dir) {
        now if now == expected => Ok(()),
        now => Err(format!("{what}: {now}\n\nin the place of\n\n{expected}")),
    });
}

/// The host as soon as no program of a node's stands there.
fn without_programs(net: &Running, dir: &Path) -> String {
    wait::unannounced(LATER, || Some(host(net, dir)).filter(|now| !now.contains("xdp")).ok_or_else(|| host(net, dir)))
}

fn run(net: &Running, file: &Path) -> Command {
    let mut command = net.lab.command("r", ANODE).unwrap();
    command.args(["node", "run"]).arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn down(net: &Running, arguments: &[&str]) -> bool {
    let mut command = net.lab.command("r", ANODE).unwrap();
    command.args(["node", "down"]).arg(net.dir("r")).args(arguments);
    command.output().unwrap().status.success()
}

#[test]
fn a_start_that_fails_leaves_the_host_as_it_was() {
    let Some(net) = Running::up_with("failed", HOSTS, &adjust) else { return };
    let dir = net.dir("r").to_owned();
    assert!(down(&net, &[]));
    let before = without_programs(&net, &dir);
    let (udp, tcp) = net
        .lab
        .enter("r", || (UdpSocket::bind("10.0.1.2:4001").unwrap(), TcpListener::bind("10.0.1.2:4002").unwrap()))
        .unwrap();
    let good = std::fs::read_to_string(dir.join("node.toml")).unwrap();
    let overlay = "\n[[port]]\nudp = \"10.0.1.2:4001\"\naddress = [\"10.8.0.1/24\"]\n";
    let plan = "\n[plan]\ntcp = \"10.0.1.2:4002\"\n";
    let environment = "\n[[ee]]\nname = \"none\"\nlibrary = [\"/nowhere/to/be/found.so\"]\nrole = \"anyone\"\n";
    for more in [overlay, plan, environment] {
        let file = dir.join("node.toml");
        std::fs::write(&file, format!("{good}{more}")).unwrap();
        let failed = run(&net, &file).output().unwrap();
        assert!(!failed.status.success(), "it cannot start with {more}");
        becomes(&net, &dir, &before, more);
        if more != plan {
            continue;
        }
        // What a process before has left stays for the next one.
        std::fs::write(&file, &good).unwrap();
        let mut node = run(&net, &file).spawn().unwrap();
        wait::control(&dir, Some(&node), String::new);
        assert!(down(&net, &["--keep-kernel"]));
        node.wait().unwrap();
        let kept = host(&net, &dir);
        assert!(kept.contains("xdp"));
        std::fs::write(&file, format!("{good}{more}")).unwrap();
        assert!(!run(&net, &file).output().unwrap().status.success());
        becomes(&net, &dir, &kept, more);
        assert!(down(&net, &[]));
        becomes(&net, &dir, &before, "the end");
    }
    drop((udp, tcp));
}

#[test]
fn what_a_start_that_was_killed_has_attached_is_undone_by_the_next_one_or_an_end() {
    let Some(net) = Running::up_with("killed", HOSTS, &adjust) else { return };
    let dir = net.dir("r").to_owned();
    assert!(down(&net, &[]));
    let before = without_programs(&net, &dir);
    let file = dir.join("node.toml");
    let seed = std::env::var("ANODE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    println!("ANODE_SEED={seed}");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let kills = std::env::var("ANODE_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(KILLS);
    for kill in 0..kills {
        let mut node = run(&net, &file).spawn().unwrap();
        pace::until_some_instant(&mut random, LONGEST_START);
        node.kill().unwrap();
        node.wait().unwrap();
        if kill % 2 == 0 {
            let mut next = run(&net, &file).spawn().unwrap();
            wait::control(&dir, Some(&next), String::new);
            assert!(down(&net, &[]));
            next.wait().unwrap();
        } else {
            // It says so if there is nothing to take away.
            down(&net, &[]);
            for left in ["apps.sock", "control.sock", "nodeos.sock"] {
                let _ = std::fs::remove_file(dir.join(left));
            }
        }
        becomes(&net, &dir, &before, &format!("kill {kill}"));
    }
}
