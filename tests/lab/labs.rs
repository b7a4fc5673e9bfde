//! Labs on this machine: namespaces, links and traffic. Needs root; without it every test says SKIPPED and passes, but
//! fails where the environment has `CI`.
//!
//! Each test has a lab name of its own, so that tests and other users of the machine do not meet.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use anode::lab::{self, Error, Lab, Status, Topology};
use anode::sys::netns;
use serde_json::Value;

const ANODE: &str = env!("CARGO_BIN_EXE_anode");

/// Whether namespaces can be made here; says so if not.
pub fn able() -> bool {
    crate::gate::pass();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    let effective = u64::from_str_radix(effective.trim(), 16).unwrap();
    let (net_admin, sys_admin) = (1 << 12, 1 << 21);
    let able = effective & net_admin != 0 && effective & sys_admin != 0 && anode::sys::process::is_root();
    if !able {
        // Past the test harness, which swallows what passing tests print.
        std::io::stderr().write_all(b"SKIPPED: network namespaces need root\n").unwrap();
        assert!(std::env::var_os("CI").is_none(), "tests with namespaces must run in CI");
    }
    able
}

/// A name for a lab that nobody else has.
pub fn name(test: &str) -> String {
    format!("t{}_{test}", std::process::id())
}

fn example(file: &str, lab: &str) -> Topology {
    Topology::load(format!("{}/examples/{file}/topology.toml", env!("CARGO_MANIFEST_DIR")))
        .unwrap()
        .renamed(lab)
        .unwrap()
}

/// Makes the lab, or repairs it.
fn made(topology: &Topology) -> Lab {
    Lab::up_by(topology, Path::new(ANODE)).unwrap()
}

/// Sends a datagram from one node to an address of another and back.
fn reaches(lab: &Lab, from: &str, to: &str, addr: IpAddr) -> bool {
    let any: SocketAddr = if addr.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }.parse().unwrap();
    let there = lab.enter(to, || UdpSocket::bind(any).unwrap()).unwrap();
    let here = lab.enter(from, || UdpSocket::bind(any).unwrap()).unwrap();
    for socket in [&here, &there] {
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    }
    let port = there.local_addr().unwrap().port();
    let mut buffer = [0; 16];
    let mut there_and_back = || -> std::io::Result<usize> {
        here.send_to(b"there", (addr, port))?;
        let (length, back) = there.recv_from(&mut buffer)?;
        there.send_to(&buffer[..length], back)?;
        here.recv(&mut buffer)
    };
    there_and_back().is_ok_and(|length| length == 5)
}

fn reaches_both(lab: &Lab, from: &str, to: &str) -> bool {
    let node = lab.topology().node(to).unwrap();
    reaches(lab, from, to, node.v4().unwrap().ip()) && reaches(lab, from, to, node.v6().unwrap().ip())
}

/// All that a lab determines of its nodes, without the numbers that the kernel gives; one line each.
fn fingerprint(lab: &Lab) -> BTreeSet<String> {
    let mut print = BTreeSet::new();
    for node in &lab.topology().nodes {
        let mut ask = |arguments: &[&str]| {
            let output = lab.command(&node.name, "ip").unwrap().args(arguments).output().unwrap();
            let mut answers: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
            for answer in &mut answers {
                let answer = answer.as_object_mut().unwrap();
                for key in ["ifindex", "link_index", "link_netnsid"] {
                    answer.remove(key);
                }
                if let Some(Value::Array(addresses)) = answer.get_mut("addr_info") {
                    addresses.sort_by_key(ToString::to_string);
                }
            }
            print.extend(answers.iter().map(|answer| format!("{} {answer}", node.name)));
        };
        ask(&["-json", "address", "show"]);
        ask(&["-json", "route", "show", "table", "all", "proto", "107"]);
        ask(&["-json", "neighbour", "show", "nud", "permanent"]);
    }
    print
}

fn assert_same(now: &BTreeSet<String>, before: &BTreeSet<String>, when: &str) {
    let differ: Vec<_> = now.symmetric_difference(before).collect();
    assert!(differ.is_empty(), "{when}: {differ:#?}");
}

/// Interfaces of our own namespace that a lab may have made.
fn stray_links() -> BTreeSet<String> {
    let links = Command::new("ip").args(["-oneline", "link", "show"]).output().unwrap().stdout;
    let links = String::from_utf8(links).unwrap();
    links.lines().filter(|line| line.contains("02:61:6e:") || line.contains("anode lab")).map(str::to_owned).collect()
}

fn nothing_left(lab: &str) {
    let prefix = format!("an-{lab}-");
    assert!(!netns::names().unwrap().iter().any(|name| name.starts_with(&prefix)), "a namespace of {lab} is left");
    assert_eq!(stray_links(), BTreeSet::new());
    assert!(!lab::list().unwrap().iter().any(|summary| summary.name == lab), "{lab} is still listed");
    assert!(!Path::new("/run/anode/lab").join(format!("{lab}.json")).exists());
}

/// What identifies the namespaces: whoever is rebuilt gets another number.
fn identities(topology: &Topology) -> Vec<u64> {
    let path = |node: &lab::Node| format!("/run/netns/{}", topology.namespace(&node.name));
    topology.nodes.iter().map(|node| std::fs::metadata(path(node)).unwrap().ino()).collect()
}

#[test]
fn the_readmes_of_the_examples_show_what_check_prints() {
    let root = env!("CARGO_MANIFEST_DIR");
    for example in ["line", "diamond"] {
        let file = format!("examples/{example}/topology.toml");
        let readme = std::fs::read_to_string(format!("{root}/examples/{example}/README.md")).unwrap();
        let (_, shown) = readme.split_once(&format!("$ anode lab check {file}\n")).unwrap();
        let (shown, _) = shown.split_once("```").unwrap();
        let output = Command::new(ANODE).current_dir(root).args(["lab", "check", &file]).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), shown, "{example}");
    }
}

#[test]
fn a_line_carries_both_families_and_leaves_nothing() {
    if !able() {
        return;
    }
    let lab = name("line");
    let topology = example("line", &lab);
    {
        let up = made(&topology).guarded();
        assert!(up.changes() > 0);
        assert!(reaches_both(&up, "a", "b"));
        let (print, identity) = (fingerprint(&up), identities(&topology));
        let again = made(&topology);
        assert_eq!(again.changes(), 0, "a second up changes nothing");
        assert_same(&fingerprint(&again), &print, "up again");
        assert_eq!(identities(&topology), identity);
        let summary = lab::list().unwrap().into_iter().find(|summary| summary.name == lab).unwrap();
        assert_eq!((summary.status, summary.nodes.len()), (Status::Up, 3));
        assert_eq!(stray_links(), BTreeSet::new());
    }
    nothing_left(&lab);
    assert_eq!(Lab::down(&lab).unwrap().removed.len(), 0, "a second down has nothing to do");
}

#[test]
fn every_interface_has_the_offloads_that_capsules_need() {
    if !able() {
        return;
    }
    let topology = example("line", &name("offload"));
    let up = made(&topology).guarded();
    for node in &topology.nodes {
        for interface in &node.interfaces {
            let output = up.command(&node.name, "ethtool").unwrap().args(["-k", &interface.name]).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(text.contains("tx-checksum-ip-generic: off"), "{text}");
            assert!(text.contains("generic-receive-offload: on"), "{text}");
        }
    }
}

#[test]
fn the_second_way_of_the_diamond_works_after_a_repair() {
    if !able() {
        return;
    }
    let topology = example("diamond", &name("diamond"));
    let up = made(&topology).guarded();
    for (from, to) in [("s", "t"), ("t", "s"), ("up", "down"), ("down", "up")] {
        assert!(reaches_both(&up, from, to), "{from} to {to}");
    }
    let print = fingerprint(&up);
    let identity = identities(&topology);
    let ip = |node: &str, arguments: &str| {
        assert!(up.command(node, "ip").unwrap().args(arguments.split(' ')).status().unwrap().success(), "{arguments}");
    };
    ip("s", "link del dev to-up");
    ip("t", "route flush proto 107");
    ip("t", "address flush dev to-down scope global");
    ip("down", "link set dev to-s down");
    ip("down", "address add 10.99.0.1/24 dev to-t");
    ip("up", "link set dev to-t mtu 1400");
    ip("up", "link set dev to-t address 02:61:6e:00:00:77");
    ip("up", "link add dev own type veth peer name own2");
    let repaired = made(&topology);
    assert!(repaired.changes() > 0);
    ip("up", "link del dev own");
    assert_same(&fingerprint(&repaired), &print, "repaired");
    assert_eq!(identities(&topology), identity, "the namespaces were kept");
    assert!(reaches_both(&repaired, "s", "t"));
    assert_eq!(made(&topology).changes(), 0);
}

#[test]
fn the_bluebox_is_reached_from_end_to_end_and_by_its_control() {
    if !able() {
        return;
    }
    let lab = name("blue");
    let topology = example("bluebox", &lab);
    assert_eq!((topology.nodes.len(), topology.links()), (14, 27));
    {
        let up = made(&topology).guarded();
        for (from, to) in [("tn1", "tn4"), ("tn2", "tn8"), ("tn5", "tn7"), ("tn9", "tn12")] {
            assert!(reaches_both(&up, from, to), "{from} to {to}");
        }
        for to in ["tn1", "tn12"] {
            let management = topology.node(to).unwrap().interface("to-netgear").unwrap();
            for cidr in &management.addresses {
                assert!(reaches(&up, "control", to, cidr.addr.ip()), "control to {}", cidr.addr);
            }
        }
        let crossings = up.crossings().unwrap();
        assert!(crossings.len() == 28 && crossings.iter().all(|crossing| crossing.quality.rate_mbit == 100.0));
        let crossed = |from: &str| crossings.iter().find(|crossing| crossing.from == from).unwrap().counts["left"];
        assert!(crossed("tn1 to-tn10") > 0 && crossed("tn10 to-tn1") > 0);
        assert_eq!(made(&topology).changes(), 0);
    }
    nothing_left(&lab);
}

#[test]
fn a_changed_topology_changes_only_what_differs() {
    if !able() {
        return;
    }
    let lab = name("change");
    let old = format!(
        r#"
        name = "{lab}"
        static_neighbours = true
        [nodes]
        a = {{ sysctls = {{ "net.ipv4.ip_default_ttl" = 9, "net.ipv4.conf.to-b.forwarding" = 1 }} }}
        b = {{ addresses = ["10.9.0.1/32"] }}
        gone = {{}}
        [[links]]
        ends = ["a", "b"]
        prefixes = ["10.0.1.0/24"]
        rate_mbit = 10
        [[links]]
        ends = ["b", "gone"]"#
    );
    let new = format!(
        r#"
        name = "{lab}"
        [nodes]
        a = {{ routes = [{{ to = "0.0.0.0/0", via = "10.0.7.2" }}, {{ to = "::/0", interface = "to-b" }}] }}
        b = {{ addresses = ["10.9.0.1/32"] }}
        new = {{}}
        [[links]]
        ends = ["a", "b"]
        prefixes = ["10.0.7.0/24", "fd00:7::/64"]
        mtu = 1400
        [[links]]
        ends = ["b", "new"]"#
    );
    let old = Topology::parse(&old, "old").unwrap();
    let new = Topology::parse(&new, "new").unwrap();
    let first = made(&old).guarded();
    assert!(reaches(&first, "a", "b", "10.9.0.1".parse().unwrap()));
    let ttl = || std::fs::read_to_string("/proc/sys/net/ipv4/ip_default_ttl").unwrap().trim().to_owned();
    assert_eq!(first.enter("a", ttl).unwrap(), "9");
    assert_eq!(fingerprint(&first).iter().filter(|entry| entry.contains("\"PERMANENT\"")).count(), 2);
    let kept = first.namespace("b").unwrap();
    let second = made(&new);
    let inode = std::fs::metadata(format!("/run/netns/{}", new.namespace("b"))).unwrap().ino();
    assert!(kept.processes().unwrap().is_empty() && identities(&new).contains(&inode));
    assert!(reaches_both(&second, "a", "b"));
    assert!(reaches(&second, "a", "b", "10.9.0.1".parse().unwrap()));
    assert!(!netns::names().unwrap().contains(&old.namespace("gone")));
    assert!(second.crossings().unwrap().is_empty(), "the limit went with its line");
    assert!(!netns::names().unwrap().contains(&old.namespace("-links")));
    assert!(!std::path::Path::new(&format!("/run/anode/{lab}.-links")).exists());
    assert_eq!(fingerprint(&second).iter().filter(|entry| entry.contains("\"PERMANENT\"")).count(), 0);
    assert_eq!(made(&new).changes(), 0);
}

/// A directory whose `ip` kills its caller at a chosen call, after a chosen part of its input.
struct Saboteur {
    directory: tempfile::TempDir,
}

impl Saboteur {
    fn new(lab: &str) -> Saboteur {
        let directory = tempfile::tempdir().unwrap();
        let topology = format!("{}/examples/line/topology.toml", env!("CARGO_MANIFEST_DIR"));
        let topology =
            std::fs::read_to_string(topology).unwrap().replace("name = \"line\"", &format!("name = \"{lab}\""));
        std::fs::write(directory.path().join("topology.toml"), topology).unwrap();
        let script = "#!/bin/sh\nread -r calls < \"$TRAP/calls\"\ncalls=$((calls + 1))\necho $calls > \"$TRAP/calls\"\n\
            PATH=${PATH#*:}\n\
            if [ $calls -eq $STOP ]; then head -n $LINES | ip \"$@\"; kill -KILL $PPID; exit 1; fi\nexec ip \"$@\"\n";
        let path = directory.path().join("ip");
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        Saboteur { directory }
    }

    fn topology(&self) -> std::path::PathBuf {
        self.directory.path().join("topology.toml")
    }

    /// Runs `anode lab VERB`, killed at that call of `ip`; false if it ended before.
    fn killed(&self, verb: &str, stop: u32, lines: u32) -> bool {
        let trap = self.directory.path();
        std::fs::write(trap.join("calls"), "0\n").unwrap();
        let path = format!("{}:{}:/usr/sbin:/sbin", trap.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new(ANODE);
        command.args(["lab", verb]).arg(self.topology());
        command.env("PATH", path).env("TRAP", trap).env("STOP", stop.to_string()).env("LINES", lines.to_string());
        let output = command.output().unwrap();
        match output.status.signal() {
            Some(9) => true,
            _ => {
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                false
            }
        }
    }
}

#[test]
fn up_killed_at_any_call_is_repaired_by_up() {
    if !able() {
        return;
    }
    let lab = name("kill_up");
    let saboteur = Saboteur::new(&lab);
    let topology = Topology::load(saboteur.topology()).unwrap();
    let print = {
        let up = made(&topology).guarded();
        fingerprint(&up)
    };
    for lines in [1, 1000] {
        let mut stop = 1;
        while saboteur.killed("up", stop, lines) {
            let listed = lab::list().unwrap().into_iter().find(|summary| summary.name == lab).unwrap();
            assert_eq!(listed.status, Status::Partial);
            let repaired = made(&topology).guarded();
            assert_same(&fingerprint(&repaired), &print, &format!("killed at call {stop} after {lines} lines"));
            assert_eq!(made(&topology).changes(), 0);
            drop(repaired);
            nothing_left(&lab);
            stop += 1;
        }
        assert!(stop > 10, "the trap must have sprung");
        Lab::down(&lab).unwrap();
    }
}

#[test]
fn up_killed_at_any_call_is_removed_by_down() {
    if !able() {
        return;
    }
    let lab = name("kill_down");
    let saboteur = Saboteur::new(&lab);
    let mut stop = 1;
    while saboteur.killed("up", stop, 1) {
        Lab::down(&lab).unwrap();
        nothing_left(&lab);
        stop += 1;
    }
    let mut stop = 1;
    while saboteur.killed("down", stop, 1) {
        made(&Topology::load(saboteur.topology()).unwrap());
        stop += 1;
    }
    assert!(stop > 3, "the trap must have sprung");
    nothing_left(&lab);
}

#[test]
fn a_lost_record_and_a_name_without_namespace_are_recovered() {
    if !able() {
        return;
    }
    let lab = name("lost");
    let topology = example("line", &lab);
    let record = Path::new("/run/anode/lab").join(format!("{lab}.json"));
    let up = made(&topology).guarded();
    std::fs::remove_file(&record).unwrap();
    let listed = lab::list().unwrap().into_iter().find(|summary| summary.name == lab).unwrap();
    assert_eq!(listed.status, Status::Unrecorded);
    assert_eq!(made(&topology).changes(), 0, "the namespaces are known by their marks");
    std::fs::remove_file(&record).unwrap();
    assert_eq!(Lab::down(&lab).unwrap().removed.len(), 3);
    nothing_left(&lab);
    // As a crash of `ip netns add` between making the file and mounting leaves it.
    made(&topology);
    assert!(Command::new("ip").args(["netns", "del", &topology.namespace("r")]).status().unwrap().success());
    std::fs::write(format!("/run/netns/{}", topology.namespace("r")), "").unwrap();
    let repaired = made(&topology);
    assert!(reaches_both(&repaired, "a", "b"));
    drop(up);
    nothing_left(&lab);
}

#[test]
fn what_others_made_is_left_alone() {
    if !able() {
        return;
    }
    let lab = name("other");
    let topology = example("line", &lab);
    let (foreign, unrelated) = (topology.namespace("r"), topology.namespace("zz"));
    let ip = |arguments: &[&str]| assert!(Command::new("ip").args(arguments).status().unwrap().success());
    ip(&["netns", "add", &foreign]);
    let error = Lab::up_by(&topology, Path::new(ANODE)).unwrap_err();
    assert!(matches!(&error, Error::Foreign { namespace } if *namespace == foreign), "{error}");
    assert_eq!(Lab::down(&lab).unwrap().left, std::slice::from_ref(&foreign));
    assert!(netns::names().unwrap().contains(&foreign));
    ip(&["netns", "del", &foreign]);
    ip(&["netns", "add", &unrelated]);
    let up = made(&topology);
    assert!(reaches_both(&up, "a", "b"));
    let down = Lab::down(&lab).unwrap();
    assert_eq!((down.removed.len(), down.left), (3, vec![unrelated.clone()]));
    ip(&["netns", "del", &unrelated]);
    nothing_left(&lab);
}

fn anode(arguments: &[&str]) -> Output {
    Command::new(ANODE).args(arguments).output().unwrap()
}

#[test]
fn commands_run_in_their_node_and_pass_their_status_on() {
    if !able() {
        return;
    }
    let lab = name("exec");
    let up = made(&example("line", &lab)).guarded();
    let exec = |script: &str| anode(&["lab", "exec", &lab, "a", "--", "sh", "-c", script]);
    assert_eq!(exec("exit 7").status.code(), Some(7));
    assert_eq!(exec("kill -TERM $$").status.signal(), Some(15));
    let seen = String::from_utf8(exec("ls /proc/self/ns/mnt -l; ip -o link").stdout).unwrap();
    let mounts = std::fs::read_link("/proc/self/ns/mnt").unwrap();
    assert!(seen.contains(mounts.to_str().unwrap()), "the mounts are ours, so pins below /sys stay visible");
    assert!(seen.contains("to-r"), "{seen}");
    for wrong in [["lab", "exec", &lab, "q", "--", "true"], ["lab", "exec", &lab, "a", "--", "no-such-command"]] {
        let output = anode(&wrong);
        assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(anode(&["lab", "exec", &lab, "a"]).status.code(), Some(2));
    assert_eq!(anode(&["lab", "exec", "nolab", "a", "--", "true"]).status.code(), Some(1));
    let nodes: Value = serde_json::from_slice(&anode(&["lab", "ls", &lab, "--json"]).stdout).unwrap();
    assert_eq!(nodes["nodes"].as_array().unwrap().len(), 3);
    drop(up);
    nothing_left(&lab);
}

#[test]
fn down_ends_what_runs_in_the_lab() {
    if !able() {
        return;
    }
    let lab = name("run");
    let up = made(&example("line", &lab));
    let mut daemon = up.command("r", "cat").unwrap().stdin(std::process::Stdio::piped()).spawn().unwrap();
    let run_dir = anode::config::default_run_dir(&format!("{lab}.r"));
    std::fs::create_dir_all(&run_dir).unwrap();
    std::fs::write(run_dir.join("lock"), "").unwrap();
    let down = Lab::down(&lab).unwrap();
    assert_eq!(down.ended, [daemon.id() as i32]);
    assert_eq!(daemon.wait().unwrap().signal(), Some(15));
    assert!(!run_dir.exists(), "what a killed node has left");
    nothing_left(&lab);
}

#[test]
fn without_root_the_answer_is_one_line_with_the_way_out() {
    if !able() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("anode");
    // By another process: a descriptor of our own could be open for writing in a child that another test starts just now.
    assert!(Command::new("cp").arg(ANODE).arg(&program).status().unwrap().success());
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(directory.path().join("t.toml"), "name = \"nobody\"\n[nodes.a]\n").unwrap();
    for verb in ["up", "down"] {
        let mut command = Command::new(&program);
        let output = command.args(["lab", verb, "./t.toml"]).current_dir(directory.path()).uid(65534).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(text, "anode: network namespaces need root; run as root, or use `anode sim` without it\n");
    }
}

/// What a shell is offered for the last of these words.
fn offered(words: &[&str]) -> Vec<String> {
    let mut command = Command::new(ANODE);
    command.env("ANODE_COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", words.len().to_string());
    let output = command.args(["--", "anode"]).args(words).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn a_shell_is_offered_the_labs_that_are_there_and_their_nodes() {
    if !able() {
        return;
    }
    let lab_name = name("offer");
    assert!(offered(&["lab", "down", &lab_name]).is_empty(), "it is not there yet");
    let lab = made(&example("line", &lab_name)).guarded();
    assert_eq!(offered(&["lab", "down", &lab_name[..lab_name.len() - 1]]), [lab_name.as_str()]);
    let nodes: Vec<_> = lab.topology().nodes.iter().map(|node| node.name.clone()).collect();
    let mut of_lab = offered(&["lab", "exec", &lab_name, ""]);
    of_lab.retain(|word| !word.starts_with('-'));
    assert!(!nodes.is_empty() && nodes.iter().all(|node| of_lab.contains(node)), "{of_lab:?} {nodes:?}");
}
