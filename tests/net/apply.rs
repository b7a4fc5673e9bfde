//! Other configurations under load: what has not changed loses no packet, in either half, and the books stay right.

use crate::pace::Pace;
use crate::running::{self, ANODE, HOSTS, Running};
use crate::sender::{Sender, WARM, next_mark, receiver};
use anode::wire::Digest;
use serde_json::Value;
use std::collections::HashSet;
use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Time between two capsules, by the clock, so that a thousand a second are sent.
const GAP: Duration = Duration::from_millis(1);

/// Configurations that are applied meanwhile.
const APPLIED: u64 = 10;

/// Capsules that the code at r has run on, in both halves.
fn ran(status: &Value) -> u64 {
    status["codes"][0]["total"]["packets"].as_u64().unwrap_or(0)
}

/// Marks that come, each once, until there are as many as were sent when sending has stopped, or none comes any more.
fn collect(far: &UdpSocket, pace: &Pace) -> (HashSet<u32>, usize) {
    let (mut seen, mut twice) = (HashSet::new(), 0);
    while !pace.has_ended() || seen.len() < pace.sent() as usize {
        match next_mark(far) {
            Some(WARM) => {}
            Some(mark) => twice += usize::from(!seen.insert(mark)),
            None => break,
        }
    }
    (seen, twice)
}

/// The configuration of r with other limits of the code that runs, a role that nobody has, another share and another order.
pub fn write(net: &Running, round: u64) -> std::path::PathBuf {
    let mut config: toml::Table = fs::read_to_string(net.dir("r").join("node.toml")).unwrap().parse().unwrap();
    let scheduler = if round.is_multiple_of(2) { "wfq" } else { "fifo" };
    let more = format!(
        "[cpu]\nscheduler = \"{scheduler}\"\n[entry]\nshare = 0.{}\n[[role]]\nname = \"anyone\"\n\
         limits = {{ packets_per_second = {}, steps_per_second = 1_000_000_000, kernel_us_per_second = 400_000 }}\n\
         [[role]]\nname = \"other-{round}\"\n",
        5 + round % 4,
        1_000_000 + round
    );
    let workers = config.get("cpu").and_then(|cpu| cpu.get("workers")).cloned();
    config.extend(more.parse::<toml::Table>().unwrap());
    if let (Some(workers), Some(toml::Value::Table(cpu))) = (workers, config.get_mut("cpu")) {
        cpu.insert("workers".into(), workers);
    }
    let path = net.dir("r").join("other.toml");
    fs::write(&path, config.to_string()).unwrap();
    path
}

/// What `anode node apply` says of a file of a node, with these words behind it.
pub fn apply(net: &Running, node: &str, path: &Path, words: &[&str]) -> (bool, String) {
    let mut command = Command::new(ANODE);
    command.args(["node", "apply"]).arg(path).arg("--node").arg(net.dir(node)).args(words).stdin(Stdio::null());
    let done = command.output().unwrap();
    (done.status.success(), String::from_utf8([done.stdout, done.stderr].concat()).unwrap())
}

/// Something is done while a thousand capsules a second pass node r, each of which must come to b, once. The status of r
/// before and after.
pub fn under_load(name: &str, net: &Running, in_kernel: bool, work: impl FnOnce(&Pace)) -> (Value, Value) {
    let ping = anode::apps::APPS.iter().find(|app| app.title == "ping").unwrap().bundle().unwrap();
    let code: Digest = net.control("r").add_code(&ping).unwrap();
    let (mut sender, far) = (Sender::new(net, code, "10.0.2.2"), receiver(net, "b", "10.0.2.2"));
    // Until the node, and what is beyond it, knows all it needs.
    let linked = |status: &Value| !in_kernel || status["codes"][0]["kernel"] == "running";
    net.await_status("r", |status| {
        sender.send(WARM);
        ran(status) >= 20 && linked(status)
    });
    let before = running::accounted(net.status("r"));
    let pace = Pace::by_the_clock(GAP);
    let (seen, twice) = std::thread::scope(|scope| {
        let seen = scope.spawn(|| collect(&far, &pace));
        scope.spawn(|| pace.run(|mark| sender.send(mark)));
        let stopped = pace.stops_with_this();
        work(&pace);
        pace.await_more(50);
        drop(stopped);
        seen.join().unwrap()
    });
    let sent = pace.sent();
    let missing: Vec<u32> = (0..sent).filter(|mark| !seen.contains(mark)).collect();
    let after = running::accounted(net.await_status("r", |status| ran(status) >= ran(&before) + u64::from(sent)));
    println!("{name}: {sent} sent, {} lost, {twice} came twice", missing.len());
    assert_eq!((missing.len(), twice), (0, 0));
    (before, after)
}

/// Applies configurations under load.
fn apply_under_load(name: &str, adjust: running::Adjust<'_>, in_kernel: bool) {
    let Some(net) = Running::up_with(name, HOSTS, adjust) else { return };
    let (before, after) = under_load(name, &net, in_kernel, |pace| {
        for round in 0..APPLIED {
            pace.await_more(50);
            let (done, said) = apply(&net, "r", &write(&net, round), &[]);
            assert!(done && said.contains("applied as configuration"), "{said}");
        }
    });
    assert_eq!(after["drops"], before["drops"]);
    assert_eq!(after["configuration"]["applied"], APPLIED);
    assert_eq!(after["codes"][0]["limits"]["packets_per_second"], 1_000_000 + APPLIED - 1);
    if in_kernel {
        let (was, is) = (&before["codes"][0], &after["codes"][0]);
        assert_eq!(
            (&is["kernel"], &is["domain"]),
            (&was["kernel"], &was["domain"]),
            "it is the same code, where it was"
        );
    }
}

#[test]
fn a_configuration_under_load_loses_nothing_in_the_user_half() {
    apply_under_load("apply", &|_, _| {}, false);
}

#[test]
fn a_configuration_under_load_loses_nothing_in_the_kernel_half() {
    apply_under_load("applyk", &running::in_kernel, true);
}

#[test]
fn a_configuration_under_load_loses_nothing_with_several_workers() {
    let workers = |_: &str, config: &mut toml::Table| {
        config.insert("cpu".into(), toml::Table::from_iter([("workers".to_owned(), 2.into())]).into());
    };
    apply_under_load("applyw", &workers, false);
}
