//! A graph in a running node, between two hosts: it takes ordinary traffic from Linux, and becomes another one under load.

use crate::apply::apply;
use crate::held::{Held, OF_GRAPHS};
use crate::running::{ANODE, HOSTS, PATIENCE, Running, in_kernel};
use crate::seen::Client;
use model::graphs::Applied;
use model::{Ask, GraphEdit, GraphWish};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{ErrorKind, Read};
use std::net::UdpSocket;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

const ROLE: &str = "[[role]]\nname = \"graphs\"\n[role.grants]\nchannels = 16\nbandwidth = 1_000_000_000\n\
                    memory_bytes = 67_108_864\n";

/// Datagrams that are on their way at a time, and how often so many are sent while the graph becomes another one.
const BURST: u32 = 32;
const BURSTS: u32 = 300;

/// How often it does, at least.
const EDITS: u32 = 21;

pub struct Stand {
    pub net: Running,
    folder: tempfile::TempDir,
    /// The link addresses of r's port and of b.
    pub macs: [String; 2],
}

impl Stand {
    pub fn new(name: &str, graph: &str) -> Option<Stand> {
        Stand::with(name, graph, &|_, _| {})
    }

    /// The same, with configurations that are changed so besides.
    fn with(name: &str, graph: &str, more: &dyn Fn(&str, &mut toml::Table)) -> Option<Stand> {
        let lines = format!("{ROLE}{graph}");
        let adjust = |node: &str, config: &mut toml::Table| {
            config.extend(lines.parse::<toml::Table>().unwrap());
            more(node, config);
        };
        let net = Running::up_with(name, HOSTS, &adjust)?;
        let mac = |node: &str, interface: &str| {
            let said = net.shell(node, &format!("ip -o link show dev {interface}"));
            let mut words = said.split_ascii_whitespace().skip_while(|word| *word != "link/ether");
            words.nth(1).unwrap().to_owned()
        };
        let macs = [mac("r", "to-b"), mac("b", "to-r")];
        Some(Stand { net, folder: tempfile::tempdir().unwrap(), macs })
    }

    pub fn socket(&self, node: &str, at: &str) -> UdpSocket {
        let socket = self.net.lab.enter(node, || UdpSocket::bind(at).unwrap()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    }

    /// What is told of a packet that goes from one socket to the other, by a filter of packets.
    fn story(&self, filter: &str, (a, b): (&UdpSocket, &UdpSocket)) -> String {
        let dir = self.net.dir("r").to_str().unwrap();
        let mut client = Client::start(&["packet", "explain", filter, "--node", dir, "--wait", "2"]);
        let mut says = client.child.stdout.take().unwrap();
        a.send_to(b"one", "10.0.2.2:7000").unwrap();
        b.recv(&mut [0; 64]).unwrap();
        client.last();
        let mut story = String::new();
        says.read_to_string(&mut story).unwrap();
        story
    }

    /// What `anode graph VERB` does with the node and these words.
    pub fn graph(&self, verb: &str, words: &[&str]) -> Output {
        let mut command = Command::new(ANODE);
        command.args(["graph", verb]).arg(self.net.dir("r")).args(words).stdin(Stdio::null());
        command.output().unwrap()
    }

    pub fn said(&self, verb: &str, words: &[&str]) -> String {
        let Output { status, stdout, stderr } = self.graph(verb, words);
        assert!(status.success(), "{verb} {words:?}: {}", String::from_utf8_lossy(&stderr));
        String::from_utf8(stdout).unwrap()
    }

    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// A router of one way; `between` are engines that do nothing.
    pub fn router(&self, paint: u8, between: &str) -> String {
        let [own, next] = &self.macs;
        format!(
            "FromDevice(to-a) -> c :: Counter -> p :: Paint({paint}){between} -> last :: CheckPaint({paint}) -> Strip(14) \
             -> CheckIPHeader -> DecIPTTL -> EtherEncap(0x800, {own}, {next}) -> q :: Queue(4096) -> ToDevice(to-b);\n\
             last [1] -> mixed :: Counter -> Discard;\n"
        )
    }
}

pub const GRAPH: &str = "[[graph]]\nname = \"fw\"\nrole = \"graphs\"\ntake = [\"to-a/ip/udp *:7000\"]\n\
                     text = \"FromDevice(to-a) -> c :: Counter -> Discard;\"\n";

#[test]
fn a_graph_takes_ordinary_traffic_and_becomes_another_one_by_orders_and_by_configurations() {
    let Some(stand) = Stand::new("graph", GRAPH) else { return };
    let a = stand.socket("a", "10.0.1.1:4000");
    let (taken, linux) = (stand.socket("b", "10.0.2.2:7000"), stand.socket("b", "10.0.2.2:7001"));
    let mut buffer = [0; 64];
    // What is listed is open: the ports know of what the graph takes.
    stand.net.control("r").ask(&Ask::Channels).unwrap();
    for number in 0..10u8 {
        a.send_to(&[number], "10.0.2.2:7000").unwrap();
    }
    // What the graph does not take is Linux's, and behind the others.
    a.send_to(b"linux", "10.0.2.2:7001").unwrap();
    assert_eq!(linux.recv(&mut buffer).unwrap(), 5);
    crate::wait::told(stand.net.dir("r"), "status", |_| {
        (stand.said("read", &["fw", "c.count"]).trim() == "10").then_some(())
    });
    taken.set_nonblocking(true).unwrap();
    assert_eq!(taken.recv(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock, "the graph has dropped them all");
    taken.set_nonblocking(false).unwrap();
    let mut held = Held::default();
    let file = stand.file("router.click", &stand.router(1, ""));
    let difference = stand.said("diff", &["fw", &file]);
    assert!(
        difference.contains("+ q :: Queue(4096)  h/l") && difference.contains("- c [0] -> [0] Discard"),
        "{difference}"
    );
    let applied = held.check("graph-applied", &stand.graph("apply", &["fw", &file, "--base", "1", "--json"]).stdout);
    assert_eq!((&applied["generation"], &applied["kept"]), (&2.into(), &2.into()));
    a.send_to(b"through", "10.0.2.2:7000").unwrap();
    assert_eq!(taken.recv(&mut buffer).unwrap(), 7);
    let read = held.check("graph-handler", &stand.graph("read", &["fw", "c.count", "--json"]).stdout);
    assert_eq!(read["value"], "11", "the counter goes on");
    let listed = held.check("graphs", &stand.graph("ls", &["--json"]).stdout);
    assert_eq!((&listed[0]["came"], &listed[0]["left"], &listed[0]["dropped"]), (&11.into(), &1.into(), &10.into()));
    let shown = held.check("graph", &stand.graph("show", &["fw", "--json"]).stdout);
    assert_eq!(shown["graph"]["generation"], 2, "{shown}");
    assert!(stand.said("show", &["fw"]).contains("q [0] -> [0] ToDevice"), "{}", stand.said("show", &["fw"]));
    let drawn = stand.said("draw", &["fw", "--seconds", "0"]);
    assert!(drawn.contains("↓ 11 c :: Counter") && drawn.contains("⇣ 1 ToDevice"), "{drawn}");
    let svg = stand.folder.path().join("fw.svg");
    stand.said("draw", &["fw", "--seconds", "0.01", "--svg", svg.to_str().unwrap()]);
    assert!(fs::read_to_string(&svg).unwrap().contains("0/s</text>"));
    let followed = stand.said("top", &["fw", "--seconds", "0.1", "--rounds", "2"]);
    assert_eq!(followed.matches("fw 2: in 11, out 1, dropped 10, held 0").count(), 2, "{followed}");
    stand.said("write", &["fw", "c.reset="]);
    assert_eq!(stand.said("read", &["fw", "c.count"]).trim(), "0");
    refused(&stand);
    a.send_to(b"still", "10.0.2.2:7000").unwrap();
    assert_eq!(taken.recv(&mut buffer).unwrap(), 5);
    configured(&stand, (&a, &taken));
    assert_eq!(held.0, BTreeSet::from(OF_GRAPHS));
    stand.net.status("r");
}

/// What is wrong leaves what runs, and is said with its place.
fn refused(stand: &Stand) {
    let wrong = stand.file("wrong.click", "FromDevice(to-a) -> Quue(3) -> ToDevice(to-b);\n");
    let nowhere = stand.file("nowhere.click", "FromDevice(to-a) -> Queue -> ToDevice(to-c);\n");
    let router = stand.file("router.click", &stand.router(1, ""));
    let there = stand.file("there.click", &stand.router(1, "").replace("c :: Counter", "c :: Counter @kernel"));
    for (words, why) in [
        (&["fw", &wrong][..], "wrong.click:1:21"),
        (&["fw", &nowhere], "called to-c; there are: to-a, to-b"),
        (&["fw", &router, "--base", "1"], "it has generation 2 by now, and you have looked at 1"),
        (&["fw", &router, "--take", "to-b/ip *"], "has no FromDevice(to-b)"),
        (&["fw", &there], "c :: Counter is to be @kernel, which cannot be: no port of this node has a kernel half"),
        (&["fw", &there, "--place", "user"], "'c' is to be @kernel, and the graph in user space"),
        (&["new", &router], "--role, --take"),
    ] {
        let Output { status, stderr, .. } = stand.graph("apply", words);
        let said = String::from_utf8_lossy(&stderr);
        assert!(!status.success() && said.contains(why), "{words:?}: {said}");
    }
    let shown = stand.said("show", &["fw"]);
    assert!(shown.contains("fw: generation 2"), "{shown}");
}

/// A configuration without it leaves all to Linux, and one with it takes again.
fn configured(stand: &Stand, (a, b): (&UdpSocket, &UdpSocket)) {
    let path = stand.net.dir("r").join("node.toml");
    let with: toml::Table = fs::read_to_string(&path).unwrap().parse().unwrap();
    let mut without = with.clone();
    without.remove("graph");
    let other = stand.file("other.toml", &without.to_string());
    let (done, said) = apply(&stand.net, "r", other.as_ref(), &[]);
    assert!(done && said.contains("- graph fw"), "{said}");
    assert_eq!(stand.said("ls", &["--json"]).trim(), "[]");
    let mut buffer = [0; 64];
    a.send_to(b"by linux", "10.0.2.2:7000").unwrap();
    assert_eq!(b.recv(&mut buffer).unwrap(), 8);
    let mut again = with;
    again["graph"][0]["text"] = stand.router(3, "").into();
    let other = stand.file("other.toml", &again.to_string());
    let (done, said) = apply(&stand.net, "r", other.as_ref(), &[]);
    assert!(done && said.contains("+ graph fw"), "{said}");
    a.send_to(b"by the graph", "10.0.2.2:7000").unwrap();
    assert_eq!(b.recv(&mut buffer).unwrap(), 12);
    assert_eq!(stand.said("read", &["fw", "c.count"]).trim(), "1");
}

#[test]
fn a_configuration_with_a_graph_that_cannot_run_is_taken_back_as_a_whole() {
    let Some(stand) = Stand::new("gback", GRAPH) else { return };
    stand.net.control("r").ask(&Ask::Channels).unwrap();
    let (a, b) = (stand.socket("a", "10.0.1.1:4000"), stand.socket("b", "10.0.2.2:7000"));
    // An operator has changed it, and packets have passed: this is what must go on.
    let router = stand.file("router.click", &stand.router(1, ""));
    stand.said("apply", &["fw", &router]);
    let mut buffer = [0; 64];
    a.send_to(b"one", "10.0.2.2:7000").unwrap();
    assert_eq!(b.recv(&mut buffer).unwrap(), 3);
    let config = fs::read_to_string(stand.net.dir("r").join("node.toml")).unwrap();
    let other = "[[graph]]\nname = \"other\"\nrole = \"more\"\ntext = \"TimedSource(1) -> Discard;\"\n";
    let wrong =
        "[[graph]]\nname = \"wrong\"\nrole = \"graphs\"\nplace = \"kernel\"\ntext = \"TimedSource(1) -> Discard;\"\n";
    let module = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/apps/extensions/names.wat")).unwrap();
    let extension = format!("[[extension]]\nname = \"names\"\nmodule = '''\n{module}'''\n");
    let more: toml::Table = format!("[[role]]\nname = \"more\"\n{other}{wrong}{extension}").parse().unwrap();
    for (kept, count) in [(true, "2"), (false, "1")] {
        let mut wanted: toml::Table = config.parse().unwrap();
        for (key, all) in &more {
            let known = wanted.entry(key).or_insert_with(|| toml::Value::Array(Vec::new())).as_array_mut().unwrap();
            known.retain(|table| kept || key != "graph" || table["name"].as_str() != Some("fw"));
            known.extend(all.as_array().unwrap().iter().cloned());
        }
        let file = stand.file("wrong.toml", &wanted.to_string());
        let (done, said) = apply(&stand.net, "r", file.as_ref(), &[]);
        let why = "graph wrong: it cannot run in the kernel: no port of this node has a kernel half";
        assert!(
            !done && said.contains(why) && said.contains("what ran before this configuration runs again"),
            "{said}"
        );
        let listed: Value = serde_json::from_str(&stand.said("ls", &["--json"])).unwrap();
        assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
        a.send_to(b"on", "10.0.2.2:7000").unwrap();
        assert_eq!(b.recv(&mut buffer).unwrap(), 2);
        assert_eq!(stand.said("read", &["fw", "c.count"]).trim(), count, "it goes on, or begins anew if it was to end");
        let extensions =
            Command::new(ANODE).args(["extension", "ls", "--json"]).arg(stand.net.dir("r")).output().unwrap();
        let listed: Value = serde_json::from_slice(&extensions.stdout).unwrap();
        let loaded = listed.as_array().unwrap().iter().filter(|one| one["built_in"] == false);
        assert_eq!(loaded.count(), 0, "{listed}");
        // Its role came with that configuration, and went with it.
        let Output { stderr, .. } = stand.graph("apply", &["new", &router, "--role", "more", "--take", "to-a/ip *"]);
        assert!(String::from_utf8_lossy(&stderr).contains("more"), "{}", String::from_utf8_lossy(&stderr));
    }
    stand.net.status("r");
}

#[test]
fn the_story_of_a_packet_names_the_engines_that_it_met() {
    let Some(stand) = Stand::new("gstory", GRAPH) else { return };
    let copied = stand.router(7, " -> t :: Tee -> CheckLength(3000)") + "t [1] -> copies :: Counter -> Discard;\n";
    let copied = stand.file("copied.click", &copied);
    stand.said("apply", &["fw", &copied]);
    let (a, b) = (stand.socket("a", "10.0.1.1:4000"), stand.socket("b", "10.0.2.2:7000"));
    let story = stand.story("domain=fw", (&a, &b));
    let met = |line: &str| Some(line.split_once("meets engine ")?.1.strip_suffix(" of graph fw")?.to_owned());
    let met: Vec<String> = story.lines().filter_map(met).collect();
    let way = |names: &[&str]| {
        let mut rest = met.iter();
        names.iter().all(|name| rest.any(|met| met.starts_with(name)))
    };
    assert!(way(&["FromDevice@", "c", "p", "t", "last", "DecIPTTL@", "q", "ToDevice@"]), "{story}");
    assert!(way(&["t", "copies", "Discard@"]), "so does its copy: {story}");
    assert!(story.contains("goes on by port "), "{story}");
}

#[test]
fn the_story_of_a_packet_names_the_engines_that_it_met_in_the_kernel() {
    let Some(stand) = Stand::with("kstory", GRAPH, &in_kernel) else { return };
    let filtered = stand.router(7, " -> i :: IPClassifier(udp dst port 7000, -)") + "i [1] -> Discard;\n";
    let filtered = filtered.replace("Paint(7) -> i", "Paint(7) -> MarkIPHeader(14) -> i");
    let said = stand.said("apply", &["fw", &stand.file("filtered.click", &filtered)]);
    assert!(said.contains("@kernel"), "{said}");
    let (a, b) = (stand.socket("a", "10.0.1.1:4000"), stand.socket("b", "10.0.2.2:7000"));
    until_in_kernel(&stand, (&a, &b));
    let story = stand.story("host=10.0.2.2", (&a, &b));
    let met =
        |line: &str| Some(line.split_once("meets engine ")?.1.strip_suffix(" of graph fw in the kernel")?.to_owned());
    let met: Vec<String> = story.lines().filter_map(met).collect();
    let named = |name: &str| met.iter().any(|met| met.starts_with(name));
    let way = ["FromDevice@", "c", "p", "MarkIPHeader@", "i", "last", "DecIPTTL@", "q", "ToDevice@"];
    assert!(way.into_iter().all(named) && !named("mixed"), "{story}");
    assert!(story.contains("goes on by port "), "{story}");
}

#[test]
fn edits_under_load_lose_and_mix_no_packet() {
    let Some(stand) = Stand::new("edits", GRAPH) else { return };
    edited(&stand, "user", ["Null", "Counter", "x :: Counter", "CheckLength(3000)"]);
}

#[test]
fn a_graph_in_the_kernel_forwards_and_is_edited_under_load_without_loss_or_mixture() {
    let Some(stand) = Stand::with("kedits", GRAPH, &in_kernel) else { return };
    edited(&stand, "kernel", ["Null", "Counter", "x :: Counter", "CheckIPHeader(14)"]);
    let said = stand.said("show", &["fw"]);
    assert!(said.contains("runs @kernel") && said.contains("c :: Counter  @kernel"), "{said}");
    let graph = graph(&stand);
    let passed = graph["kernel_packets"].as_u64().unwrap_or(0);
    assert!(passed >= u64::from(BURST * BURSTS), "all but the first passed in the kernel: {graph}");
    let shaped = stand.router(1, "").replace("-> ToDevice", "-> s :: Shaper(100) -> ToDevice");
    let shaped = stand.file("shaped.click", &shaped);
    let Output { status, stderr, .. } = stand.graph("apply", &["fw", &shaped, "--place", "kernel"]);
    let said = String::from_utf8_lossy(&stderr).into_owned();
    assert!(!status.success() && said.contains("it cannot run in the kernel: s :: Shaper has no form there"), "{said}");
    let there = stand.router(1, "").replace("-> ToDevice", "-> s :: Shaper(100) @kernel -> ToDevice");
    let Output { status, stderr, .. } =
        stand.graph("apply", &["fw", &stand.file("there.click", &there), "--place", "auto"]);
    let said = String::from_utf8_lossy(&stderr).into_owned();
    assert!(!status.success() && said.contains("s :: Shaper is to be @kernel, which cannot be: "), "{said}");
    let said = stand.said("apply", &["fw", &shaped, "--place", "auto"]);
    let up = "some packets go up to user space: s :: Shaper has no form there";
    assert!(said.contains(", @kernel;") && said.contains(up), "{said}");
    let said = stand.said("show", &["fw"]);
    assert!(said.contains(up) && said.contains("s :: Shaper  @user"), "{said}");
    let came = stand.said("read", &["fw", "c.count"]);
    assert_eq!(came.trim(), graph["came"].to_string(), "the counter goes on");
}

fn graph(stand: &Stand) -> Value {
    let shown: Value = serde_json::from_str(&stand.said("show", &["fw", "--json"])).unwrap();
    shown["graph"].clone()
}

#[test]
fn connections_of_a_graph_come_and_go_in_one_step() {
    let Some(stand) = Stand::new("gconnect", GRAPH) else { return };
    let mut held = Held::default();
    let shown = held.check("graph", &stand.graph("show", &["fw", "--json"]).stdout);
    let names = shown["engines"].as_array().unwrap().iter().filter_map(|engine| engine["name"].as_str());
    let end = names.clone().find(|name| name.starts_with("Discard")).unwrap();
    let (direct, around) = (format!("c -> {end}"), format!("c -> more :: Counter @user -> {end}"));
    let applied = stand.graph("connect", &["fw", &around, "--disconnect", &direct, "--base", "1", "--json"]).stdout;
    let applied = held.check("graph-applied", &applied);
    assert_eq!((&applied["generation"], &applied["kept"]), (&2.into(), &3.into()));
    let a = stand.socket("a", "10.0.1.1:4000");
    stand.net.control("r").ask(&Ask::Channels).unwrap();
    a.send_to(b"one", "10.0.2.2:7000").unwrap();
    let counts = |engine: &str| stand.said("read", &["fw", &format!("{engine}.count")]).trim().to_owned();
    crate::wait::told(stand.net.dir("r"), "status", |_| (counts("more") == "1").then_some(()));
    let (said, drawn) = (stand.said("show", &["fw"]), stand.said("draw", &["fw", "--seconds", "0"]));
    assert!(
        said.contains("more :: Counter  @user as asked") && drawn.contains("more :: Counter @user"),
        "{said}{drawn}"
    );
    let shown = held.check("graph", &stand.graph("show", &["fw", "--json"]).stdout);
    assert!(shown["text"].as_str().unwrap().contains("more :: Counter @user ->"), "{shown}");
    // What would be wrong changes nothing.
    for (verb, words, why) in [
        ("connect", &["fw", &direct][..], "'c [0]' is connected twice"),
        ("connect", &["fw", "c -> moer"], "moer"),
        ("disconnect", &["fw", "c -> nobody"], "nobody"),
        ("disconnect", &["fw", &direct], "is no connection of the graph: that output leads to 'more' [0]"),
        ("disconnect", &["fw", "c -> more"], "output 0 of 'c' is not connected"),
        ("disconnect", &["fw", &around.replace(" :: Counter @user", ""), "--base", "1"], "generation"),
        ("connect", &["nobody", "a -> b"], "nobody"),
    ] {
        let Output { status, stderr, .. } = stand.graph(verb, words);
        let said = String::from_utf8_lossy(&stderr).into_owned();
        assert!(!status.success() && said.contains(why), "{verb} {words:?}: {said}");
    }
    assert_eq!(graph(&stand)["generation"], 2);
    let said =
        stand.said("disconnect", &["fw", &format!("c -> more -> {end}"), "--remove", "more", "--connect", &direct]);
    assert!(said.contains("fw runs in generation 3") && said.contains("3 engines go on"), "{said}");
    assert_eq!(counts("c"), "1", "the counter goes on");
    stand.net.status("r");
}

/// The kernel begins by and by, and until then packets take the other way; how many have passed then.
fn until_in_kernel(stand: &Stand, (a, b): (&UdpSocket, &UdpSocket)) -> u32 {
    let mut first = 0;
    while graph(stand)["kernel_packets"] == 0 {
        assert!(first < 10_000, "{}", graph(stand));
        a.send_to(b"first", "10.0.2.2:7000").unwrap();
        assert_eq!(b.recv(&mut [0; 64]).unwrap(), 5);
        first += 1;
    }
    first
}

/// A router becomes another one again and again while packets pass, at this place.
pub fn edited(stand: &Stand, place: &str, engines: [&str; 4]) {
    let apply = |paint: u8, between: &str| -> Applied {
        let wish = GraphWish {
            name: "fw".into(),
            text: stand.router(paint, between),
            role: None,
            take: None,
            base: None,
            place: Some(place.into()),
        };
        stand.net.control("r").asked(&Ask::ApplyGraph(wish)).unwrap()
    };
    let edit = |disconnect: [&str; 1], remove: &[&str], connect: [&str; 1]| {
        let [disconnect, remove, connect] =
            [&disconnect[..], remove, &connect[..]].map(|all| all.iter().map(|one| (*one).to_owned()).collect());
        let edit = GraphEdit { name: "fw".into(), disconnect, remove, connect, base: None };
        let _: Applied = stand.net.control("r").asked(&Ask::EditGraph(edit)).unwrap();
    };
    apply(0, "");
    let (a, b) = (stand.socket("a", "10.0.1.1:4000"), stand.socket("b", "10.0.2.2:7000"));
    let first = if place == "kernel" { until_in_kernel(stand, (&a, &b)) } else { 0 };
    let (is_over, edited) = (AtomicBool::new(false), AtomicU32::new(0));
    let bursts = std::thread::scope(|scope| {
        let editor = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let edits = edited.load(Ordering::Relaxed) + 1;
                let between = (0..edits % 10).map(|at| engines[(edits + at) as usize % engines.len()]);
                let mut between: Vec<_> = between.collect();
                // A name stands for one engine.
                between.sort_unstable();
                between.dedup_by(|one, other| one == other && one.contains("::"));
                apply(edits as u8, &between.iter().map(|engine| format!(" -> {engine}")).collect::<String>());
                if edits.is_multiple_of(3) {
                    edit(["c -> p"], &[], ["c -> more :: Counter -> p"]);
                    edit(["c -> more -> p"], &["more"], ["c -> p"]);
                }
                edited.store(edits, Ordering::Relaxed);
            }
        });
        let (mut buffer, mut burst) = ([0; 64], 0);
        while burst < BURSTS || edited.load(Ordering::Relaxed) < EDITS && !editor.is_finished() {
            for number in burst * BURST..(burst + 1) * BURST {
                a.send_to(&number.to_be_bytes(), "10.0.2.2:7000").unwrap();
            }
            for number in burst * BURST..(burst + 1) * BURST {
                let length = b.recv(&mut buffer).unwrap();
                assert_eq!(buffer[..length], number.to_be_bytes(), "in their order, each once");
            }
            burst += 1;
        }
        is_over.store(true, Ordering::Relaxed);
        editor.join().unwrap();
        burst
    });
    let graph = graph(stand);
    let sent = BURST * bursts + first;
    assert_eq!((&graph["came"], &graph["left"], &graph["dropped"]), (&sent.into(), &sent.into(), &0.into()), "{graph}");
    assert_eq!(stand.said("read", &["fw", "mixed.count"]).trim(), "0");
    println!("{edited:?} edits while {sent} packets passed");
    stand.net.status("r");
}
