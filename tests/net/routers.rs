//! A router among routers: BIRD runs beside the node and at its neighbours, and tells the kernel what it learns by BGP. What it learns and
//! what it takes back both halves of the node obey.

use crate::running::{Running, in_kernel};
use model::ways::Lead;
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Two ways from r to far, each with a router before it. Hosts of far are behind both.
const DIAMOND: &str = r#"
name = "t"
nodes.a.active = true
nodes.r.active = true
nodes.x.active = true
nodes.y.active = true
nodes.far.active = true
[[links]]
ends = ["a", "r"]
prefixes = ["10.0.1.0/24", "fd00:0:1::/64"]
[[links]]
ends = ["r", "x"]
prefixes = ["10.0.2.0/24", "fd00:0:2::/64"]
[[links]]
ends = ["r", "y"]
prefixes = ["10.0.3.0/24", "fd00:0:3::/64"]
[[links]]
ends = ["x", "far"]
prefixes = ["10.0.4.0/24", "fd00:0:4::/64"]
[[links]]
ends = ["y", "far"]
prefixes = ["10.0.5.0/24", "fd00:0:5::/64"]
"#;

/// A BIRD in a namespace, with a folder for its configuration and socket.
struct Bird<'a> {
    net: &'a Running,
    node: &'static str,
    folder: tempfile::TempDir,
    process: Child,
}

impl Bird<'_> {
    fn start<'a>(net: &'a Running, node: &'static str, configuration: &str) -> Bird<'a> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("bird.conf");
        std::fs::write(&file, configuration).unwrap();
        let mut command = net.lab.command(node, "bird").unwrap();
        command.args(["-f", "-c"]).arg(&file).arg("-s").arg(folder.path().join("ctl"));
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let process = command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let bird = Bird { net, node, folder, process };
        crate::wait::path(&bird.socket(), || bird.socket().exists().then_some(()));
        bird
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("ctl")
    }

    /// Has it do something, as an operator does.
    fn order(&self, words: &str) {
        let mut command = self.net.lab.command(self.node, "birdc").unwrap();
        let output = command.arg("-s").arg(self.socket()).args(words.split(' ')).output().unwrap();
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stdout));
    }
}

impl Drop for Bird<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{}: {}", self.node, std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default());
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What r has, which is what the page for operators shows: sessions with both, and all that it learns goes to the kernel.
fn of_router() -> String {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/operations.md")).unwrap();
    let (_, block) = page.split_once("```text bird\n").unwrap();
    block.split_once("```").unwrap().0.to_owned()
}

/// What x and y have: they tell r the way to hosts of far.
fn of_neighbour(own: &str, peer: &str, number: u32, far: &str) -> String {
    format!(
        "router id {own}; protocol device {{}}
         protocol static hosts {{ ipv4; route 10.9.0.0/16 via {far}; }}
         protocol bgp up {{ local {own} as {number}; neighbor {peer} as 65000; connect delay time 1; connect retry time 1;
         ipv4 {{ import none; export where source = RTS_STATIC; }}; }}\n"
    )
}

/// Says why a test is skipped, which fails where it must run.
fn has_bird() -> bool {
    let is_there = Command::new("bird").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    assert!(is_there || std::env::var_os("CI").is_none(), "continuous integration needs BIRD (apt install bird2)");
    if !is_there {
        println!("SKIPPED: bird is not installed");
    }
    is_there
}

/// Packets that the kernel half of r has sent on.
fn forwarded(net: &Running) -> u64 {
    let status = net.status("r");
    let codes = status["kernel"]["codes"].as_array().into_iter().flatten();
    codes.map(|code| code["usage"]["forwarded"].as_u64().unwrap()).sum()
}

/// Waits until the user half of r, and code in its kernel half, lead to a host of far by this port, and capsules go that way by the
/// kernel half.
fn goes_by(net: &Running, port: Option<&str>, node: &str) {
    let asked = ["10.9.1.1".parse().unwrap()];
    net.until("r", || {
        let ways = net.control("r").ways(&asked).unwrap();
        let says = |lead: &Lead| lead.port.as_deref() == port;
        (says(&ways[0].leads) && ways[0].kernel.as_ref().is_some_and(says)).then_some(())
    });
    let Some(_) = port else {
        let pinged = net.anode("a", &["ping", "-c", "3", "-i", "0.005", "10.9.1.1"]);
        assert_eq!(pinged["summary"]["received"], 0, "{pinged}");
        return;
    };
    let passed = || {
        let link: Value = serde_json::from_str(&net.shell(node, "ip -j -s link show to-r")).unwrap();
        link[0]["stats64"]["rx"]["packets"].as_u64().unwrap()
    };
    net.await_status("r", |_| {
        let (before, through) = (forwarded(net), passed());
        let pinged = net.anode("a", &["ping", "-c", "10", "-i", "0.005", "10.9.1.1"]);
        pinged["summary"]["received"] == 10 && forwarded(net) >= before + 10 && passed() >= through + 10
    });
}

#[test]
fn what_bgp_learns_and_takes_back_both_halves_obey() {
    if !has_bird() {
        return;
    }
    let Some(net) = Running::up_with("routers", DIAMOND, &in_kernel) else { return };
    net.shell("far", "ip addr add 10.9.1.1/32 dev to-x");
    // By hand: these two tell r alone.
    net.shell("x", "ip route add 10.9.0.0/16 via 10.0.4.2");
    net.shell("y", "ip route add 10.9.0.0/16 via 10.0.5.2");
    net.shell("a", "ip route replace default via 10.0.1.2");
    let _r = Bird::start(&net, "r", &of_router());
    let x = Bird::start(&net, "x", &of_neighbour("10.0.2.2", "10.0.2.1", 65001, "10.0.4.2"));
    let y = Bird::start(&net, "y", &of_neighbour("10.0.3.2", "10.0.3.1", 65002, "10.0.5.2"));
    goes_by(&net, Some("to-x"), "x");
    // Taken back by the better one, so the other leads; then by nobody.
    x.order("disable hosts");
    goes_by(&net, Some("to-y"), "y");
    y.order("disable hosts");
    goes_by(&net, None, "y");
    x.order("enable hosts");
    goes_by(&net, Some("to-x"), "x");
    // The session ends with the daemon.
    drop(x);
    goes_by(&net, None, "x");
    assert!(net.status("r")["followed"]["changes"].as_u64().unwrap() >= 4);
}
