//! A restart of the user half loses nothing: codes are ready before ports open, and frames in sockets of a stopping
//! node go their way.

use crate::pace::Pace;
use crate::running::{self, ANODE, HOSTS, Running};
use crate::sender::{Sender, WARM, next_mark, receiver};
use crate::wait;
use crate::workers::{two_queues, with_workers};
use anode::manage::client::Control;
use anode::wire::Digest;
use serde_json::Value;
use std::collections::HashSet;
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Time between two capsules, by the clock, so that a thousand a second are sent.
const GAP: Duration = Duration::from_millis(1);

/// Restarts; more in a soak (`ANODE_RESTARTS`).
const RESTARTS: usize = 2;

/// Starts r again.
fn start(net: &Running) -> Child {
    let file = net.dir("r").join("node.toml");
    let mut command = net.lab.command("r", ANODE).unwrap();
    command.args(["node", "run"]).arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

/// A lab of two hosts around r.
fn hosts(name: &str) -> Option<Running> {
    Running::build(name, HOSTS)
}

/// Capsules that the code at r has run on.
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

/// Flows of the capsules, of which each comes to a queue.
const FLOWS: u32 = 16;

/// Restarts node r of a lab while a thousand capsules a second pass it, each of which must come to b, once.
fn restart_under_load(
    (name, build): (&str, impl Fn(&str) -> Option<Running>),
    adjust: running::Adjust<'_>,
    arguments: &[&str],
) {
    let store = tempfile::tempdir().unwrap();
    let with_store = |node: &str, config: &mut toml::Table| {
        adjust(node, config);
        config.insert("store".into(), store.path().display().to_string().into());
    };
    let Some(mut net) = build(name) else { return };
    net.start(&with_store);
    let ping = anode::apps::APPS.iter().find(|app| app.title == "ping").unwrap().bundle().unwrap();
    let code: Digest = net.control("r").add_code(&ping).unwrap();
    let (mut sender, far) = (Sender::new(&net, code, "10.0.2.2"), receiver(&net, "b", "10.0.2.2"));
    // Until the node, and what is beyond it, knows all it needs.
    net.await_status("r", |status| {
        sender.send(WARM);
        ran(status) >= 20
    });
    let pace = Pace::by_the_clock(GAP);
    let (seen, twice) = std::thread::scope(|scope| {
        let seen = scope.spawn(|| collect(&far, &pace));
        scope.spawn(|| {
            pace.run(|mark| {
                sender.set_port(4000 + (mark % FLOWS) as u16);
                sender.send(mark);
            });
        });
        let _stops = pace.stops_with_this();
        let mut nodes = Vec::new();
        let restarts = std::env::var("ANODE_RESTARTS").ok().and_then(|text| text.parse().ok());
        for _ in 0..restarts.unwrap_or(RESTARTS) {
            pace.await_more(100);
            let down = Command::new(ANODE).args(["node", "down"]).arg(net.dir("r")).args(arguments).status().unwrap();
            assert!(down.success());
            let node = start(&net);
            wait::control(net.dir("r"), Some(&node), String::new);
            nodes.push(node);
            let before = ran(&net.status("r"));
            net.await_status("r", |status| ran(status) >= before + 50);
        }
        pace.stop();
        let seen = seen.join().unwrap();
        drop(Control::connect(net.dir("r")).unwrap().down(false));
        nodes.iter_mut().for_each(|node| _ = wait::ended(node));
        seen
    });
    let sent = pace.sent();
    let missing: Vec<u32> = (0..sent).filter(|mark| !seen.contains(mark)).collect();
    println!("{name}: {sent} sent, {} lost, {twice} came twice", missing.len());
    assert!(
        missing.is_empty(),
        "{} of {sent} capsules are missing: {:?}",
        missing.len(),
        &missing[..missing.len().min(9)]
    );
    assert_eq!(twice, 0);
}

#[test]
fn a_restart_under_load_loses_nothing_without_the_kernel_half() {
    restart_under_load(("restart", hosts), &|_, _| {}, &[]);
}

#[test]
fn a_restart_under_load_loses_nothing_with_the_kernel_half() {
    restart_under_load(("restartk", hosts), &running::in_kernel, &["--keep-kernel"]);
}

#[test]
fn a_restart_under_load_loses_nothing_with_sockets() {
    restart_under_load(("restartx", hosts), &running::sockets(false), &[]);
}

#[test]
fn a_restart_under_load_loses_nothing_of_two_workers() {
    restart_under_load(("restartw", two_queues), &with_workers(2, |_, _| {}), &[]);
    restart_under_load(("restartwx", two_queues), &with_workers(2, running::sockets(false)), &[]);
}
