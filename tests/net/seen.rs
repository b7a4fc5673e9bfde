//! What enters and leaves a node, as `anode capture` and capture files show it, in both halves; the kernel half before and after; the story
//! of a packet over a line of nodes.

mod copies;
mod cut;
mod workers;

use crate::running::{self, ANODE, HOSTS, LINE, Running};
use crate::sender::{Sender, WARM, receiver};
use crate::wait;
use anode::port::pcap::{self, Packet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

/// A client that watches, once it does.
pub(crate) struct Client {
    pub(crate) child: Child,
    says: BufReader<ChildStderr>,
}

impl Client {
    pub(crate) fn start(command: &[&str]) -> Client {
        let mut client = Command::new(ANODE);
        client.args(command).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = client.spawn().unwrap();
        let mut says = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        says.read_line(&mut line).unwrap();
        assert!(line.starts_with("capturing at ") || line.starts_with("following at "), "{command:?}: {line}");
        Client { child, says }
    }

    /// Its last line, when it has ended well.
    pub(crate) fn last(mut self) -> String {
        let status = wait::ended(&mut self.child);
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.says, &mut rest).unwrap();
        assert!(status.success(), "{status}: {rest}");
        rest.lines().last().unwrap_or_default().to_owned()
    }

    fn interrupt(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn capture(net: &Running, node: &str, file: &Path, more: &[&str]) -> Client {
    capture_at(net.dir(node), file, more)
}

fn capture_at(dir: &Path, file: &Path, more: &[&str]) -> Client {
    Client::start(&[&["capture", dir.to_str().unwrap(), "-w", file.to_str().unwrap()], more].concat())
}

fn place(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("seen.pcapng")
}

fn packets(file: &Path) -> Vec<Packet> {
    pcap::packets(&std::fs::read(file).unwrap())
}

/// Where a frame was, and whether it came in; and its comment.
fn told(packet: &Packet) -> (&str, Option<bool>, &str) {
    (&packet.interface, packet.inward, &packet.comment)
}

/// What stands at an interface: name and tag of the program.
fn program(net: &Running, node: &str, interface: &str) -> String {
    let said = net.shell(node, &format!("ip -d link show dev {interface}"));
    let line = said.lines().find(|line| line.contains("prog/xdp")).unwrap_or_else(|| panic!("{said}"));
    let words: Vec<&str> = line.split_whitespace().collect();
    let after = |word: &str| words.iter().position(|known| *known == word).and_then(|at| words.get(at + 1));
    format!("{} {}", after("id").unwrap(), after("tag").unwrap_or(&""))
}

/// A ping through r, captured there: request and reply, each in and out.
fn a_ping_is_seen(net: &Running, half: &str) {
    let folder = tempfile::tempdir().unwrap();
    let client = capture(net, "r", &place(&folder), &["code=ping", "--count", "4"]);
    assert_eq!(net.ping("a", "10.0.2.2", 1)["summary"]["received"], 1);
    assert_eq!(client.last(), "4 packets, 0 missed");
    let seen = packets(&place(&folder));
    let ways: Vec<_> = seen.iter().map(|packet| (packet.interface.as_str(), packet.inward)).collect();
    let [there, back] = [("to-a", "to-b"), ("to-b", "to-a")];
    let way = |(from, to)| [(from, Some(true)), (to, Some(false))];
    assert_eq!(ways, [way(there), way(back)].concat(), "{seen:#?}");
    for (packet, out) in seen.iter().zip(["to-b", "", "to-a", ""]) {
        let (.., comment) = told(packet);
        let verdict =
            if packet.inward == Some(true) { format!("forwarded by {out}") } else { "goes on, came in".into() };
        for part in ["code ping (", &verdict, ", domain ", "(ping)", half] {
            assert!(comment.contains(part), "{part}: {comment}");
        }
    }
    assert!(seen.is_sorted_by_key(|packet| packet.at));
    assert_eq!(pcap::statistics(&std::fs::read(place(&folder)).unwrap()), [(2, 0), (2, 0)]);
    let identity = |at: usize| seen[at].comment.rsplit("packet ").next().unwrap().to_owned();
    assert_ne!(identity(0), identity(1), "the code has written into it, and a hop was spent");
}

#[test]
fn a_ping_is_seen_in_the_user_half() {
    let Some(net) = Running::up("seenuser", LINE) else { return };
    net.ping_warm("a", "10.0.2.2", 1);
    a_ping_is_seen(&net, "user half");
    let status = net.status("r");
    assert_eq!(status["unaccounted"], 0, "{status}");
}

#[test]
fn a_ping_is_seen_by_af_xdp() {
    let Some(net) = Running::up_with("seenxdp", LINE, &running::sockets(false)) else { return };
    net.ping_warm("a", "10.0.2.2", 1);
    a_ping_is_seen(&net, "user half");
}

#[test]
fn a_ping_is_seen_in_the_kernel_half_which_is_the_same_before_and_after() {
    let Some(net) = Running::up_with("seenkern", LINE, &running::in_kernel) else { return };
    net.ping_warm("a", "10.0.2.2", 5);
    net.await_status("r", |status| status["codes"][0]["kernel"].is_string());
    let runs = |net: &Running| net.status("r")["kernel"]["codes"][0]["usage"]["packets"].as_u64().unwrap_or(0);
    // Until its capsules pass by the kernel half alone.
    let mut before = runs(&net);
    wait::unannounced("capsules run in the kernel half", || {
        net.ping("a", "10.0.2.2", 1);
        let now = runs(&net);
        (now == std::mem::replace(&mut before, now) + 2).then_some(()).ok_or_else(|| net.status("r").to_string())
    });
    let standing = program(&net, "r", "to-a");
    a_ping_is_seen(&net, "kernel half");
    let again = || program(&net, "r", "to-a");
    wait::unannounced("the kernel tells nobody of a link's program", || {
        (again() == standing).then_some(()).ok_or_else(again)
    });
    // The client dies, and the node goes back by itself.
    let folder = tempfile::tempdir().unwrap();
    let mut client = capture(&net, "r", &place(&folder), &[]);
    assert_ne!(again(), standing, "another program stands there meanwhile");
    let counted = runs(&net);
    assert_eq!(net.ping("a", "10.0.2.2", 3)["summary"]["received"], 3);
    client.child.kill().unwrap();
    wait::unannounced("the kernel tells nobody of a link's program", || {
        (again() == standing).then_some(()).ok_or_else(again)
    });
    assert_eq!(net.ping("a", "10.0.2.2", 3)["summary"]["received"], 3);
    assert_eq!(runs(&net) - counted, 12, "counters go on");
    running::accounted(net.status("r"));
}

/// Frames that come from the link address of the port by which they leave.
#[test]
fn nobody_hides_from_a_capture_behind_a_link_address() {
    let Some(net) = Running::up_with("seenhide", HOSTS, &running::in_kernel) else { return };
    let ping = anode::apps::APPS.iter().find(|app| app.title == "ping").unwrap().bundle().unwrap();
    let code = net.control("r").add_code(&ping).unwrap();
    let (mut sender, _far) = (Sender::new(&net, code, "10.0.2.2"), receiver(&net, "b", "10.0.2.2"));
    let runs = |status: &serde_json::Value| status["kernel"]["codes"][0]["usage"]["packets"].as_u64().unwrap_or(0);
    net.await_status("r", |status| {
        sender.send(WARM);
        runs(status) >= 20
    });
    let shown = net.shell("r", "ip -br link show dev to-b");
    let address = shown.split_whitespace().find(|word| word.matches(':').count() == 5).unwrap();
    sender.pretend(address);
    let folder = tempfile::tempdir().unwrap();
    let client = capture(&net, "r", &place(&folder), &["code=ping"]);
    let before = runs(&net.status("r"));
    (0..8).for_each(|_| sender.send(WARM));
    net.await_status("r", |status| runs(status) >= before + 8);
    client.interrupt();
    assert_eq!(client.last(), "16 packets, 0 missed");
}

#[test]
fn what_is_dropped_is_seen_with_its_reason() {
    for (name, kernel) in [("seendrop", false), ("seendropk", true)] {
        let adjust: running::Adjust<'_> = if kernel { &running::in_kernel } else { &|_, _| () };
        let Some(net) = Running::up_with(name, LINE, adjust) else { return };
        net.ping_warm("a", "10.0.2.2", 1);
        let folder = tempfile::tempdir().unwrap();
        let client = capture(&net, "r", &place(&folder), &["dropped", "host=10.0.1.1", "--count", "1"]);
        // The link to r takes all that it may cause.
        let output = Command::new(ANODE)
            .args([
                "ping",
                "-c",
                "1",
                "-i",
                "0.005",
                "--bound",
                "1",
                "--node",
                net.dir("a").to_str().unwrap(),
                "10.0.2.2",
            ])
            .output()
            .unwrap();
        assert!(!output.status.success());
        assert_eq!(client.last(), "1 packets, 0 missed");
        let seen = packets(&place(&folder));
        let (port, inward, comment) = told(&seen[0]);
        assert_eq!((seen.len(), port, inward), (1, "to-a", Some(true)), "{seen:?}");
        assert!(comment.contains("dropped bound: ") && comment.contains("code ping ("), "{comment}");
    }
}

#[test]
fn capture_files_of_ports_say_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let adjust = |node: &str, config: &mut toml::Table| {
        if node == "r" {
            let file = place(&folder).display().to_string();
            config["port"].as_array_mut().unwrap()[0].as_table_mut().unwrap().insert("pcap".into(), file.into());
        }
    };
    let Some(net) = Running::up_with("seenfile", LINE, &adjust) else { return };
    net.ping_warm("a", "10.0.2.2", 1);
    let last = wait::path(&place(&folder), || {
        let seen = packets(&place(&folder));
        let of_ping: Vec<_> = seen.into_iter().filter(|packet| packet.comment.contains("code ping (")).collect();
        (of_ping.len() == 4).then_some(of_ping)
    });
    assert!(last.iter().all(|packet| packet.interface == "to-a"), "{last:?}");
    assert!(last.iter().any(|packet| packet.comment.contains("forwarded by to-b")), "{last:?}");
}

#[test]
fn a_flood_is_seen_or_missed_and_nothing_is_lost_by_that() {
    let Some(net) = Running::up("seenflood", HOSTS) else { return };
    let ping = anode::apps::APPS.iter().find(|app| app.title == "ping").unwrap().bundle().unwrap();
    let code = net.control("r").add_code(&ping).unwrap();
    let (mut sender, _far) = (Sender::new(&net, code, "10.0.2.2"), receiver(&net, "b", "10.0.2.2"));
    let forwarded = |status: &serde_json::Value| status["codes"][0]["total"]["forwarded"].as_u64().unwrap_or(0);
    let mut warm = 0;
    net.await_status("r", |status| {
        sender.send(WARM);
        warm += 1;
        forwarded(status) >= 20
    });
    let folder = tempfile::tempdir().unwrap();
    let client = capture(&net, "r", &place(&folder), &[]);
    // It reads nothing meanwhile, so that what is told has no room at some time.
    let pid = rustix::process::Pid::from_child(&client.child);
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    let mut taken = 0;
    // However many of them the node drops before they are told of, more is told than there is room for.
    net.await_status("r", |status| {
        (0..1000).for_each(|_| taken += sender.burst());
        forwarded(status) >= 40_000
    });
    let drops = |status: &serde_json::Value| -> u64 {
        status["drops"].as_object().unwrap().values().filter_map(serde_json::Value::as_u64).sum()
    };
    net.await_status("r", |status| forwarded(status) + drops(status) >= taken + warm);
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    client.interrupt();
    let last = client.last();
    let statistics = pcap::statistics(&std::fs::read(place(&folder)).unwrap());
    let (written, missed) = (statistics.iter().map(|of| of.0).sum::<u64>(), statistics[0].1);
    assert_eq!(last, format!("{written} packets, {missed} missed"));
    assert!(written > 0 && missed > 0, "{last}");
    let status = running::accounted(net.status("r"));
    assert_eq!(status["unaccounted"], 0, "{status}");
}

#[test]
fn a_packet_is_followed_over_a_line_and_back() {
    for (name, kernel) in [("seenstory", false), ("seenstoryk", true)] {
        let adjust: running::Adjust<'_> = if kernel { &running::in_kernel } else { &|_, _| () };
        let Some(net) = Running::up_with(name, LINE, adjust) else { return };
        net.ping_warm("a", "10.0.2.2", 5);
        let dirs = ["a", "r", "b"].map(|node| net.dir(node).to_str().unwrap().to_owned());
        let nodes: Vec<&str> = dirs.iter().flat_map(|dir| ["--node", dir]).collect();
        let client = Client::start(&[&["packet", "explain", "code=ping"][..], &nodes].concat());
        assert_eq!(net.ping("a", "10.0.2.2", 1)["summary"]["received"], 1);
        let mut client = client;
        let mut says = client.child.stdout.take().unwrap();
        client.last();
        let mut story = String::new();
        std::io::Read::read_to_string(&mut says, &mut story).unwrap();
        let lines: Vec<&str> = story.lines().collect();
        let places: Vec<&str> =
            lines.iter().filter_map(|line| line.split_whitespace().nth(2)?.rsplit('.').next()).collect();
        let mut ways = places.clone();
        ways.dedup();
        assert_eq!(ways, ["a", "r", "b", "r", "a"], "{story}");
        assert!(lines[0].contains("is sent from 10.0.1.1 to 10.0.2.2: code "), "{story}");
        assert!(lines.last().unwrap().contains("is delivered to application port "), "{story}");
        assert!(story.contains("goes on by port ") && story.contains(".b, "), "{story}");
    }
}

#[test]
fn wrong_words_and_ports_are_refused_by_name() {
    let Some(net) = Running::up("seenwrong", LINE) else { return };
    let dir = net.dir("r").to_str().unwrap();
    for (word, why) in [
        ("prot=x", "the filter does not know 'prot=x'; known are port=NAME"),
        ("port=west", "port=west: the node has no such port; it has to-a, to-b"),
    ] {
        let output = Command::new(ANODE).args(["capture", dir, word]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(why), "{said}");
    }
}
