//! A graph with a part at another node, both running: packets pass both, versions replace each other under load, and the other node
//! vanishes and comes again.

use crate::running::{ANODE, Adjust, PATIENCE, Running};
use serde_json::Value;
use std::fs;
use std::net::UdpSocket;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// A host, two nodes, and a host.
const LINE: &str = r#"
name = "t"
nodes.h = {}
nodes.a.active = true
nodes.b.active = true
nodes.k = {}
[[links]]
ends = ["h", "a"]
prefixes = ["10.0.1.0/24"]
[[links]]
ends = ["a", "b"]
prefixes = ["10.0.2.0/24"]
[[links]]
ends = ["b", "k"]
prefixes = ["10.0.3.0/24"]
"#;

/// Nobody else is busy, and each of two neighbours may have the whole worker.
const ROLE: &str = "[[role]]\nname = \"graphs\"\n[role.grants]\nchannels = 16\nbandwidth = 1_000_000_000\n\
                    memory_bytes = 67_108_864\ngraph_parts = 1\n\
                    [role.graphs]\ndevices = [\"to-k\"]\n\
                    [entry]\nshare = 1.0\nburst_ms = 1000\n";

/// What the graph takes: datagrams from h to k.
pub const TO_K: &str = "10.0.3.2:7000";

/// Datagrams that are on their way at a time.
const BURST: u32 = 32;

/// How often the graph becomes another one, at least, and bursts meanwhile.
const EDITS: u32 = 12;
const BURSTS: u32 = 60;

pub struct Line {
    pub net: Running,
    folder: tempfile::TempDir,
    /// The link addresses of b's port to k, and of k.
    macs: [String; 2],
}

impl Line {
    pub fn new(name: &str) -> Option<Line> {
        Line::with(name, &|_, _| {})
    }

    /// With more in the nodes' configurations.
    pub fn with(name: &str, more: Adjust<'_>) -> Option<Line> {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("link.key");
        let made = Command::new(ANODE).args(["cred", "secret"]).arg(&key).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let adjust = |node: &str, config: &mut toml::Table| {
            config.extend(ROLE.parse::<toml::Table>().unwrap());
            // b grants a parts of its graphs, and a grants b none.
            let (port, other, grants) =
                if node == "a" { ("to-b", "10.0.2.2", "") } else { ("to-a", "10.0.2.1", ", graphs = \"graphs\"") };
            let neighbour = format!("neighbours = [{{ address = \"{other}\", keys = [{key:?}]{grants} }}]");
            let ports = config["port"].as_array_mut().unwrap().iter_mut().filter_map(toml::Value::as_table_mut);
            ports
                .filter(|known| known["packet"].as_str() == Some(port))
                .for_each(|known| known.extend(neighbour.parse::<toml::Table>().unwrap()));
            more(node, config);
        };
        let net = Running::up_with(name, LINE, &adjust)?;
        let mac = |node: &str, interface: &str| {
            let said = net.shell(node, &format!("ip -o link show dev {interface}"));
            let mut words = said.split_ascii_whitespace().skip_while(|word| *word != "link/ether");
            words.nth(1).unwrap().to_owned()
        };
        let macs = [mac("b", "to-k"), mac("k", "to-b")];
        Some(Line { net, folder, macs })
    }

    pub fn socket(&self, node: &str, at: &str) -> UdpSocket {
        let socket = self.net.lab.enter(node, || UdpSocket::bind(at).unwrap()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    }

    fn command(&self, node: &str, verb: &str, words: &[&str]) -> Command {
        let mut command = Command::new(ANODE);
        command.args(["graph", verb]).arg(self.net.dir(node)).args(words).stdin(Stdio::null());
        command
    }

    pub fn said(&self, node: &str, verb: &str, words: &[&str]) -> String {
        let Output { status, stdout, stderr } = self.command(node, verb, words).output().unwrap();
        assert!(status.success(), "{verb} {words:?}: {}", String::from_utf8_lossy(&stderr));
        String::from_utf8(stdout).unwrap()
    }

    pub fn refused(&self, node: &str, words: &[&str]) -> String {
        let Output { status, stderr, .. } = self.command(node, "apply", words).output().unwrap();
        assert!(!status.success(), "{words:?}");
        String::from_utf8(stderr).unwrap()
    }

    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// Packets are painted at a, pass b and leave there; their copies come back. What meets another version is counted as mixed.
    pub fn version(&self, paint: u8) -> String {
        let [own, next] = &self.macs;
        let text = format!(
            "FromDevice(to-h) -> c :: Counter -> Paint({paint}) -> Strip(14) -> CheckIPHeader -> DecIPTTL
             -> p :: CheckPaint({paint}) AT -> far :: Counter AT -> t :: Tee AT
             -> EtherEncap(0x800, {own}, {next}) AT -> Queue(4096) AT -> ToDevice(to-k) AT;
             t [1] -> q :: CheckPaint({paint}) -> back :: Counter -> Discard;
             p [1] -> mixed :: Counter AT -> Discard AT; q [1] -> mixed2 :: Counter -> Discard;"
        );
        text.replace("AT", "@remote(10.0.2.2)")
    }

    fn apply(&self, paint: u8) {
        let file = self.file("version.click", &self.version(paint));
        self.said("a", "apply", &["fw", &file]);
    }

    pub fn graph(&self, node: &str, name: &str) -> Value {
        let shown: Value = serde_json::from_str(&self.said(node, "show", &[name, "--json"])).unwrap();
        shown["graph"].clone()
    }

    pub fn count(&self, node: &str, name: &str, engine: &str) -> u64 {
        self.said(node, "read", &[name, &format!("{engine}.count")]).trim().parse().unwrap()
    }

    /// Waits until a says that its part runs, and that packets passed it.
    fn until_it_runs(&self, came: u32) -> Value {
        self.net.until("a", || {
            let part = self.graph("a", "fw")["parts"][0].clone();
            let runs = part["answers"] == true && part["lost"].is_null() && part["came"] == came;
            runs.then_some(part)
        })
    }

    /// Packets pass while versions replace each other; how many did.
    fn edited(&self, from: &UdpSocket, to: &UdpSocket) -> u32 {
        let (is_over, edited) = (AtomicBool::new(false), AtomicU32::new(0));
        std::thread::scope(|scope| {
            let editor = scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    self.apply(edited.fetch_add(1, Ordering::Relaxed) as u8 + 2);
                }
            });
            let _ends = Over(&is_over);
            let (mut buffer, mut burst) = ([0; 64], 0);
            while burst < BURSTS || edited.load(Ordering::Relaxed) < EDITS && !editor.is_finished() {
                for number in burst * BURST..(burst + 1) * BURST {
                    from.send_to(&number.to_be_bytes(), TO_K).unwrap();
                }
                for number in burst * BURST..(burst + 1) * BURST {
                    let length = to.recv(&mut buffer).unwrap();
                    assert_eq!(buffer[..length], number.to_be_bytes(), "in their order, each once");
                }
                burst += 1;
            }
            is_over.store(true, Ordering::Relaxed);
            editor.join().unwrap();
            println!("{edited:?} versions while {} packets passed", burst * BURST);
            burst * BURST
        })
    }
}

fn number(of: &Value, key: &str) -> u64 {
    of[key].as_u64().unwrap_or_else(|| panic!("{key}: {of}"))
}

/// Says that it is over, also where a packet is missing.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A process that ends with the test.
pub struct Ends(pub Child);

impl Drop for Ends {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Nobody has a part where no role is for it, nor at who is no neighbour, nor a second one where one is granted.
fn who_may_not(line: &Line) {
    let part = |node: &str| line.file("other.click", &format!("Idle -> Counter @remote({node}) -> Discard;"));
    for (node, at, why) in [
        ("b", "10.0.2.1", "10.0.2.1 refuses its part: it runs no parts of graphs of 10.0.2.2"),
        ("a", "10.0.3.2", "10.0.3.2 is no neighbour of this node; there are: 10.0.2.2"),
        ("a", "10.0.2.2", "grants 1 (grants.graph_parts)"),
    ] {
        let said = line.refused(node, &["other", &part(at), "--role", "graphs"]);
        assert!(said.contains(why), "{said}");
    }
    assert!(!line.said("a", "ls", &[]).contains("other") && !line.said("b", "ls", &[]).contains("other"));
}

#[test]
fn a_part_at_another_node_has_its_packets_becomes_another_one_under_load_and_comes_again_after_a_crash() {
    let Some(mut line) = Line::new("parts") else { return };
    let (from, to) = (line.socket("h", "10.0.1.1:4000"), line.socket("k", TO_K));
    let file = line.file("first.click", &line.version(1));
    let take = "to-h/ip/udp *:7000";
    line.said("a", "apply", &["fw", &file, "--role", "graphs", "--take", take]);
    who_may_not(&line);
    line.net.control("a").ask(&model::Ask::Channels).unwrap();
    let passed = line.edited(&from, &to);
    let part = line.until_it_runs(passed);
    let passed = u64::from(passed);
    assert_eq!(["sent", "back", "dropped", "held"].map(|key| number(&part, key)), [passed, passed, 0, 0], "{part}");
    let (here, there) = (line.graph("a", "fw"), line.graph("b", "fw@10.0.2.1"));
    // What has come back is discarded.
    assert_eq!(["came", "left", "dropped"].map(|key| number(&here, key)), [2 * passed, passed, passed], "{here}");
    assert_eq!(["came", "left", "dropped"].map(|key| number(&there, key)), [passed, 2 * passed, 0], "{there}");
    assert_eq!(there["owner"], "10.0.2.1");
    for (node, name, engine, count) in [
        ("a", "fw", "c", passed),
        ("b", "fw@10.0.2.1", "far", passed),
        ("a", "fw", "back", passed),
        ("b", "fw@10.0.2.1", "mixed", 0),
        ("a", "fw", "mixed2", 0),
    ] {
        assert_eq!(line.count(node, name, engine), count, "{engine}");
    }
    let said = line.said("a", "show", &["fw"]);
    assert!(said.contains("a part @remote(10.0.2.2), generation ") && said.contains(", runs\n"), "{said}");
    assert!(line.said("b", "show", &["fw@10.0.2.1"]).contains("is a part of a graph of 10.0.2.1"));
    vanishes(&mut line, &from, &to);
    line.net.status("a");
}

/// The other node is killed while it is asked for the next version: the one that runs stays, and has its part again when it is back.
fn vanishes(line: &mut Line, from: &UdpSocket, to: &UdpSocket) {
    let generation = line.graph("a", "fw")["generation"].clone();
    let file = line.file("next.click", &line.version(200));
    let pid = line.net.daemon("b").pid().to_string();
    assert!(Command::new("kill").args(["-STOP", &pid]).status().unwrap().success());
    let mut asked = line.command("a", "apply", &["fw", &file]);
    let asked = asked.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    line.net.kill("b");
    let Output { status, stderr, .. } = asked.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&stderr).into_owned();
    assert!(!status.success() && said.contains("10.0.2.2 does not answer: nothing has changed"), "{said}");
    assert_eq!(line.graph("a", "fw")["generation"], generation);
    let _again = Ends(line.net.start_again("b"));
    line.until_it_runs(0);
    from.send_to(b"again", TO_K).unwrap();
    let mut buffer = [0; 64];
    assert_eq!(to.recv(&mut buffer).unwrap(), 5);
    line.until_it_runs(1);
    line.said("a", "apply", &["fw", &file]);
    from.send_to(b"on", TO_K).unwrap();
    assert_eq!(to.recv(&mut buffer).unwrap(), 2);
    assert_eq!(line.count("b", "fw@10.0.2.1", "far"), 2, "the counter goes on");
    let log = line.net.log("a");
    assert!(log.contains("a part of a graph runs no more") && log.contains("a part of a graph runs again"), "{log}");
}
