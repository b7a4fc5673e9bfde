//! The kernel half outlives its node: after any end of the process, capsules go on running, and the next process takes
//! over.

use crate::pace::{self, Pace};
use crate::running::{ANODE, Running, guest, in_kernel};
use crate::sender::{SILENCE, Sender, WARM, next_mark, receiver};
use crate::wait;
use anode::code::bundle::Bundle;
use anode::manage::client::Control;
use anode::sys::bpf::{self, Hook, Program};
use anode::wire::{Addr, Digest};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::HashSet;
use std::net::UdpSocket;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const LINE: &str = r#"
name = "t"
nodes.a = {}
nodes.b = {}
nodes.c = {}
nodes.r.active = true
[[links]]
ends = ["a", "r"]
prefixes = ["10.0.1.0/24"]
[[links]]
ends = ["r", "b"]
prefixes = ["10.0.2.0/24"]
[[links]]
ends = ["r", "c"]
prefixes = ["10.0.3.0/24"]
"#;

/// Time between two capsules.
const GAP: Duration = Duration::from_micros(200);

/// Node r with a store on disk and the code of ping in it, whose capsules run in the kernel half.
fn up(name: &str) -> Option<(Running, Digest, tempfile::TempDir)> {
    up_with(name, "")
}

/// The same, with more in its file.
pub fn up_with(name: &str, more: &str) -> Option<(Running, Digest, tempfile::TempDir)> {
    up_of(name, more, &ping(), &[0; 16])
}

/// The same, with other code and capsules with this payload.
fn up_of(name: &str, more: &str, bundle: &Bundle, payload: &[u8]) -> Option<(Running, Digest, tempfile::TempDir)> {
    let store = tempfile::tempdir().unwrap();
    let path = store.path().display().to_string();
    let adjust = |node: &str, config: &mut toml::Table| {
        in_kernel(node, config);
        config.insert("store".into(), path.clone().into());
        config.extend(more.parse::<toml::Table>().unwrap());
    };
    let net = Running::up_with(name, LINE, &adjust)?;
    let code = Control::connect(net.dir("r")).unwrap().add_code(bundle).unwrap();
    let mut sender = Sender::of(&net, code, "10.0.2.2", payload);
    net.await_status("r", |status| {
        sender.send(WARM);
        status["kernel"]["codes"][0]["usage"]["forwarded"].as_u64() > Some(10)
    });
    Some((net, code, store))
}

fn ping() -> Bundle {
    anode::apps::APPS.iter().find(|app| app.title == "ping").unwrap().bundle().unwrap()
}

pub fn kill(mut node: Child) {
    node.kill().unwrap();
    wait::ended(&mut node);
}

/// Whether something of ours stands at an interface of r, or is pinned.
pub fn traces(net: &Running) -> Vec<String> {
    let shown = net.lab.command("r", "ip").unwrap().args(["link", "show"]).output().unwrap().stdout;
    let text = String::from_utf8(shown).unwrap();
    let mut found: Vec<String> =
        text.lines().filter(|line| line.contains("xdp")).map(|line| line.trim().to_owned()).collect();
    found.extend(net.dir("r").join("bpf").exists().then(|| "pins".to_owned()));
    found
}

pub fn down(net: &Running, arguments: &[&str]) {
    let done = Command::new(ANODE).args(["node", "down"]).arg(net.dir("r")).args(arguments).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// Packets that the code of ping has run on in the kernel half.
fn packets(status: &serde_json::Value) -> u64 {
    status["kernel"]["codes"][0]["usage"]["packets"].as_u64().unwrap()
}

fn number_from(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Marks that come, each once, until there are as many as were sent when sending has stopped, or none comes any more.
fn collect(far: &UdpSocket, pace: &Pace) -> HashSet<u32> {
    let mut seen = HashSet::new();
    while !pace.has_ended() || seen.len() < pace.sent() as usize {
        match next_mark(far) {
            Some(WARM) => {}
            Some(mark) => assert!(seen.insert(mark), "capsule {mark} came twice"),
            None => break,
        }
    }
    seen
}

/// Kills a node at random instants while capsules run this code there, of which one each comes to all of these.
fn kill_again_and_again(name: &str, bundle: &Bundle, payload: &[u8], ends: &[(&str, &str)]) {
    let Some((mut net, code, _store)) = up_of(name, "", bundle, payload) else { return };
    let before = packets(&net.status("r"));
    let (kills, seed) = (number_from("ANODE_KILLS", 12), number_from("ANODE_SEED", 1));
    println!("{kills} kills, ANODE_SEED={seed}");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let far: Vec<UdpSocket> = ends.iter().map(|(node, addr)| receiver(&net, node, addr)).collect();
    let mut sender = Sender::of(&net, code, "10.0.2.2", payload);
    let pace = Pace::apart(GAP);
    let seen: Vec<HashSet<u32>> = std::thread::scope(|scope| {
        let seen: Vec<_> = far.iter().map(|far| scope.spawn(|| collect(far, &pace))).collect();
        scope.spawn(|| pace.run(|mark| sender.send(mark)));
        let _stops = pace.stops_with_this();
        net.kill("r");
        for _ in 0..kills {
            pace.await_more(random.next_u32() % 400);
            let node = net.spawn_again("r");
            pace.await_more(random.next_u32() % 400);
            kill(node);
        }
        pace.stop();
        seen.into_iter().map(|seen| seen.join().unwrap()).collect()
    });
    let sent = pace.sent();
    for ((node, _), seen) in ends.iter().zip(seen) {
        let missing: Vec<u32> = (0..sent).filter(|mark| !seen.contains(mark)).collect();
        assert!(missing.is_empty(), "{node}: {} of {sent} capsules are missing: {:?}…", missing.len(), missing.first());
    }
    let node = net.start_again("r");
    let after = packets(&net.status("r"));
    println!("{sent} capsules, none lost, {} run in the kernel half", after - before);
    assert_eq!(after - before, u64::from(sent) + 1, "the kernel half ran the code on each, and on the one behind all");
    kill(node);
    down(&net, &[]);
    assert_eq!(traces(&net), [""; 0], "what a killed node has left is taken away");
}

#[test]
fn no_capsule_is_lost_while_its_node_is_killed_again_and_again() {
    kill_again_and_again("kills", &ping(), &[0; 16], &[("b", "10.0.2.2")]);
}

#[test]
fn no_child_is_lost_while_its_node_is_killed_again_and_again() {
    let bundle = guest("sends");
    // Go on; one child of bound 2 for node c, no line, and the packet itself goes on to b.
    let mut payload = [&1u32.to_be_bytes()[..], &[1, 0, 0, 0], &[0; 24]].concat();
    payload.extend([2u32; 4].iter().flat_map(|bound| bound.to_be_bytes()));
    let addr = |text: &str| text.parse::<Addr>().unwrap().0;
    let addresses = [["10.0.3.2"; 4].as_slice(), &["10.0.1.1", "10.0.2.2"]].concat();
    payload.extend(addresses.into_iter().flat_map(addr));
    kill_again_and_again("killsc", &bundle, &payload, &[("b", "10.0.2.2"), ("c", "10.0.3.2")]);
}

#[test]
fn the_next_process_takes_over_what_the_last_one_left() {
    let Some((net, code, _store)) = up("adopt") else { return };
    let before = packets(&net.status("r"));
    down(&net, &["--keep-kernel"]);
    assert!(!traces(&net).is_empty(), "the kernel half works on");
    let (mut sender, far) = (Sender::new(&net, code, "10.0.2.2"), receiver(&net, "b", "10.0.2.2"));
    for mark in 0..50 {
        sender.send(mark);
        assert_eq!(next_mark(&far), Some(mark));
    }
    let node = net.start_again("r");
    let status = net.await_status("r", |status| status["codes"][0]["kernel"] == "running");
    assert_eq!(packets(&status), before + 50, "its counters go on: {status}");
    let [total, domain] = [&status["codes"][0]["total"], &status["domains"][0]["total"]];
    assert_eq!((&total["packets"], &total["forwarded"]), (&(before + 50).into(), &(before + 50).into()), "{status}");
    assert_eq!((domain, &status["domains"][0]["codes"][0]), (total, &status["codes"][0]["name"]), "{status}");
    assert_eq!(status["neighbours"][0]["addr"], "10.0.1.1", "known before any capsule came: {status}");
    assert_eq!(status["codes"][0]["usage"]["packets"], 0, "no capsule had to bring the code back: {status}");
    sender.send(50);
    assert_eq!(next_mark(&far), Some(50));
    down(&net, &[]);
    drop(node.wait_with_output());
    assert_eq!(traces(&net), [""; 0]);
}

/// Starts r again while capsules pass, each of which must arrive, until `there` holds.
fn start_under_way(net: &Running, code: Digest, there: impl Fn(&serde_json::Value) -> bool) -> Child {
    let far = receiver(net, "b", "10.0.2.2");
    let mut sender = Sender::new(net, code, "10.0.2.2");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stop = &stop;
        scope.spawn(move || {
            for mark in (0..).take_while(|_| !stop.load(Ordering::Relaxed)) {
                sender.send(mark);
                assert_eq!(next_mark(&far), Some(mark));
            }
        });
        let node = net.start_again("r");
        net.await_status("r", there);
        stop.store(true, Ordering::Relaxed);
        node
    })
}

#[test]
fn another_version_of_the_program_takes_the_place_of_the_old_one_without_a_loss() {
    let Some((net, code, _store)) = up("upgrade") else { return };
    let before = packets(&net.status("r"));
    down(&net, &["--keep-kernel"]);
    let pin = net.dir("r").join("bpf/set-1/ingress");
    std::fs::remove_file(&pin).unwrap();
    // r0 = XDP_PASS; exit
    let other = [0xb7, 0, 0, 0, 2, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0];
    bpf::pin(&Program::load(Hook::Xdp, "other", &other, &[], None).unwrap(), &pin).unwrap();
    let node = start_under_way(&net, code, |status| {
        status["codes"][0]["kernel"] == "running" && packets(status) > before + 1000
    });
    assert!(!net.dir("r").join("bpf/set-2").exists(), "the maps are still those of before");
    kill(node);
    down(&net, &[]);
    assert_eq!(traces(&net), [""; 0]);
}

#[test]
fn maps_that_this_program_cannot_use_give_way() {
    let Some((net, code, _store)) = up("renew") else { return };
    down(&net, &["--keep-kernel"]);
    let pins = net.dir("r").join("bpf");
    std::fs::remove_file(pins.join("set-1/neighbour_places_map")).unwrap();
    let node = net.start_again("r");
    let mut sender = Sender::new(&net, code, "10.0.2.2");
    net.await_status("r", |status| {
        sender.send(WARM);
        status["kernel"]["codes"][0]["usage"]["forwarded"].as_u64() > Some(10)
    });
    assert!(pins.join("set-2/ingress").exists() && !pins.join("set-1").exists(), "one set is left");
    kill(node);
    down(&net, &[]);
    assert_eq!(traces(&net), [""; 0]);
}

#[test]
fn what_would_go_up_is_linux_s_while_no_process_listens() {
    let Some((mut net, _, _store)) = up("unheard") else { return };
    let far = receiver(&net, "b", "10.0.2.2");
    far.set_nonblocking(true).unwrap();
    // Code that nobody has: such capsules are for the user half, where they wait for it.
    let sender = std::cell::RefCell::new(Sender::new(&net, Digest([9; 32]), "10.0.2.2"));
    let send = |mark: u32| (0..20).for_each(|_| sender.borrow_mut().send(mark));
    send(1);
    net.await_status("r", |status| {
        status["fetching"].as_array().is_some_and(|list| !list.is_empty()) || {
            send(1);
            status["drops"].as_object().is_some_and(|drops| !drops.is_empty())
        }
    });
    assert!(far.recv(&mut [0; 2048]).is_err(), "the node keeps them");
    net.kill("r");
    let arrived =
        pace::again(GAP, 50_000, || sender.borrow_mut().send(2), || next_mark(&far).filter(|mark| *mark == 2));
    assert!(arrived.is_some(), "Linux forwards them");
    let node = net.start_again("r");
    net.await_status("r", |status| {
        send(3);
        status["drops"].as_object().is_some_and(|drops| !drops.is_empty())
    });
    while next_mark(&far).is_some() {}
    send(4);
    net.await_status("r", |_| next_mark(&far).is_none());
    assert_ne!(next_mark(&far), Some(4), "the next process keeps them again");
    kill(node);
    down(&net, &[]);
    assert_eq!(traces(&net), [""; 0]);
}

#[test]
fn routes_that_change_while_no_process_looks_are_obeyed() {
    let Some((mut net, code, _store)) = up("reroute") else { return };
    let ip = |node: &str, arguments: &[&str]| {
        assert!(net.lab.command(node, "ip").unwrap().args(arguments).status().unwrap().success());
    };
    for (node, addr) in [("b", "10.9.0.1/32"), ("c", "10.9.0.1/32")] {
        ip(node, &["address", "add", addr, "dev", "lo"]);
    }
    ip("r", &["route", "add", "10.9.0.1", "via", "10.0.2.2"]);
    let (b, c) = (receiver(&net, "b", "10.9.0.1"), receiver(&net, "c", "10.9.0.1"));
    c.set_nonblocking(true).unwrap();
    let mut sender = Sender::new(&net, code, "10.9.0.1");
    sender.send(1);
    assert_eq!(next_mark(&b), Some(1));
    net.kill("r");
    sender.send(2);
    assert_eq!(next_mark(&b), Some(2), "nobody is there, and it goes on");
    assert!(
        net.lab
            .command("r", "ip")
            .unwrap()
            .args(["route", "replace", "10.9.0.1", "via", "10.0.3.2"])
            .status()
            .unwrap()
            .success()
    );
    let arrived = pace::again(GAP, 50_000, || sender.send(3), || next_mark(&c).filter(|mark| *mark == 3));
    assert!(arrived.is_some(), "the new route is taken");
    down(&net, &[]);
    assert_eq!(traces(&net), [""; 0]);
}

/// Not of a process that ends, but it needs the same: a flood of capsules through a node with a kernel half.
#[test]
fn code_that_floods_is_removed_from_a_running_node_and_comes_back() {
    let limits = r#"limits = { packets_per_second = 1000, over_budget = "remove", over_budget_s = 2, removed_s = 2 }"#;
    let role = format!("[[role]]\nname = \"anyone\"\n{limits}");
    let Some((net, code, _store)) = up_with("flood", &role) else { return };
    let mut sender = Sender::new(&net, code, "10.0.2.2");
    let status = net.await_status("r", |status| {
        (0..2000).for_each(|_| sender.send(WARM));
        status["drops"]["removed"].as_u64() > Some(100)
    });
    assert_eq!((&status["codes"][0]["state"], &status["kernel"]["codes"]), (&"refused".into(), &serde_json::json!([])));
    assert!(net.log("r").contains("stays over its budget"), "it is logged");
    net.await_status("r", |status| {
        sender.send(WARM);
        status["codes"][0]["kernel"] == "running"
    });
}

#[test]
fn code_that_is_revoked_while_the_kernel_runs_it_runs_no_more_and_is_not_taken_over() {
    let Some((mut net, code, _store)) = up("revoked") else { return };
    let far = receiver(&net, "b", "10.0.2.2");
    let mut sender = Sender::new(&net, code, "10.0.2.2");
    let pace = Pace::apart(GAP);
    let held = |net: &Running| net.status("r")["kernel"]["codes"].to_string().contains(&code.to_string());
    let last = std::thread::scope(|scope| {
        scope.spawn(|| pace.run(|mark| sender.send(mark)));
        let _stops = pace.stops_with_this();
        pace.await_more(300);
        let name = code.to_string();
        let mut revoke = Command::new(ANODE);
        let revoked = revoke.args(["cred", "revoke", "--code", &name, "--node"]).arg(net.dir("r")).output().unwrap();
        // The one that is on its way now was sent before.
        let last = pace.sent();
        assert!(revoked.status.success(), "{}", String::from_utf8_lossy(&revoked.stderr));
        assert!(!held(&net), "{}", net.status("r"));
        pace.await_more(300);
        pace.stop();
        last
    });
    far.set_read_timeout(Some(SILENCE)).unwrap();
    let seen: Vec<u32> = std::iter::from_fn(|| next_mark(&far)).collect();
    let beyond: Vec<_> = seen.iter().filter(|mark| **mark != WARM && **mark > last).collect();
    assert!(seen.len() > 200 && beyond.is_empty(), "{} came, of those sent afterwards {beyond:?}", seen.len());
    // Killed and started again, it neither finds the code in the kernel nor takes it from its store, whoever sends it.
    net.kill("r");
    let node = net.start_again("r");
    let mut sender = Sender::new(&net, code, "10.0.2.2");
    net.await_status("r", |status| {
        sender.send(0);
        status["codes"].as_array().is_some_and(|codes| codes.iter().any(|code| code["state"] == "refused"))
    });
    assert!(!held(&net) && next_mark(&far).is_none(), "{}", net.status("r"));
    kill(node);
    down(&net, &[]);
}
