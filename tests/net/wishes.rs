//! Capsules wish that a graph becomes another one, which an operator has written for their role: while ordinary packets pass, from either
//! half.

use crate::apply::apply;
use crate::replumbed::flood;
use crate::running::{LINE, PATIENCE, Running, in_kernel};
use anode::code::author::{self, AuthorOptions};
use anode::manage::client::Attachment;
use anode::trust::PrincipalKey;
use anode::wire::{Addr, Digest, capsule};
use model::graphs::Applied;
use model::{Ask, GraphWish};
use serde_json::Value;
use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// What is said of a wish: no such edit, no more in this second, none at all for this role.
const ABSENT: i32 = -1;
const FULL: i32 = -3;
const DENIED: i32 = -5;

/// How often the graph becomes another one and is the first again, while packets pass.
const ROUNDS: u64 = 20;

/// The application port of capsules.
const PORT: u16 = 50;

fn key() -> PrincipalKey {
    PrincipalKey::from_seed([9; 32])
}

/// The configuration of the node between: the role, its edits, and the graph that they are of.
fn lines(per_second: u32) -> String {
    format!(
        "[entry]\nshare = 1.0\nburst_ms = 1000\n[[role]]\nname = \"corral\"\ntrusts = [\"{}\"]\n\
         [role.grants]\nchannels = 4\nbandwidth = 1_000_000_000\nmemory_bytes = 33_554_432\nkernel_programs = 4\n\
         [role.graphs]\nedits_per_second = {per_second}\nengines = 32\ntext_bytes = 8192\ndevices = [\"to-b\"]\n\
         [[role.graphs.edits]]\nnumber = 0\nname = \"around\"\ngraph = \"path\"\n\
         disconnect = \"a -> b\"\nconnect = \"a -> x :: Counter -> b\"\n\
         [[role.graphs.edits]]\nnumber = 1\nname = \"straight\"\ngraph = \"path\"\n\
         disconnect = \"a -> x -> b\"\nremove = \"x\"\nconnect = \"a -> b\"\n\
         [[role.graphs.edits]]\nnumber = 2\nname = \"reset\"\ngraph = \"path\"\nwrite = \"c.reset=\"\n\
         [[graph]]\nname = \"path\"\nrole = \"corral\"\ntake = [\"to-a/ip/udp *:7000\"]\n\
         text = \"FromDevice(to-a) -> c :: Counter -> a :: Null -> b :: Null -> Discard;\"\n",
        key().id()
    )
}

struct Stand {
    net: Running,
    code: Digest,
    from: Attachment,
    to: Attachment,
    a: UdpSocket,
    b: UdpSocket,
    _store: tempfile::TempDir,
}

impl Stand {
    fn new(name: &str, per_second: u32, kernel: bool) -> Option<Stand> {
        let store = tempfile::tempdir().unwrap();
        let adjust = |node: &str, config: &mut toml::Table| {
            if node == "r" {
                config.insert("store".into(), store.path().display().to_string().into());
                config.extend(lines(per_second).parse::<toml::Table>().unwrap());
                if kernel {
                    in_kernel(node, config);
                }
            }
        };
        let net = Running::up_with(name, LINE, &adjust)?;
        let mac = |node: &str, interface: &str| {
            let said = net.shell(node, &format!("ip -o link show dev {interface}"));
            let mut words = said.split_ascii_whitespace().skip_while(|word| *word != "link/ether");
            words.nth(1).unwrap().to_owned()
        };
        let (own, next) = (mac("r", "to-b"), mac("b", "to-r"));
        let text = format!(
            "FromDevice(to-a) -> c :: Counter -> a :: Null -> b :: Null -> Strip(14) -> CheckIPHeader -> DecIPTTL \
             -> EtherEncap(0x800, {own}, {next}) -> Queue(4096) -> ToDevice(to-b);"
        );
        let wish = GraphWish { name: "path".into(), text, role: None, take: None, base: None, place: None };
        let _: Applied = net.control("r").asked(&Ask::ApplyGraph(wish)).unwrap();
        let code = add(&net, Some(key()));
        let (from, to) = (net.attach("a", PORT), net.attach("b", PORT));
        let socket = |node: &str, at: &str| {
            let socket = net.lab.enter(node, || UdpSocket::bind(at).unwrap()).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            socket
        };
        let (a, b) = (socket("a", "10.0.1.1:4000"), socket("b", "10.0.2.2:7000"));
        // What is listed is open: the ports know of what the graph takes.
        net.control("r").ask(&Ask::Channels).unwrap();
        Some(Stand { net, code, from, to, a, b, _store: store })
    }

    /// A capsule wishes for an edit on its way; what was said.
    fn wish(&mut self, code: Digest, number: u32) -> i32 {
        let (here, there) = (Addr::v4([10, 0, 1, 1]), Addr::v4([10, 0, 2, 2]));
        let header =
            capsule::Header { app_port: PORT, bound: 8, code, previous: here, source: here, destination: there };
        self.from.send(&header, &[&number.to_be_bytes()[..], &[0; 4]].concat()).unwrap();
        let (_, payload) = self.to.receive(PATIENCE).unwrap().expect("the capsule comes");
        i32::from_be_bytes(payload[4..8].try_into().unwrap())
    }

    /// The graph, as operators see it.
    fn graph(&self) -> Value {
        let shown: Value = self.net.control("r").ask(&Ask::Graph { name: "path".into() }).unwrap();
        shown["graph"].clone()
    }

    /// How often an edit was done, and how often it could not be.
    fn edit(&self, number: usize) -> (u64, u64) {
        let edit = &self.graph()["edits"][number];
        (edit["done"].as_u64().unwrap(), edit["refused"].as_u64().unwrap())
    }

    /// Packets and capsules come until both the graph and the code are in the kernel.
    fn await_kernel(&mut self) {
        let (code, mut first) = (self.code, 0u32);
        while self.graph()["kernel_packets"] == 0 || self.net.status("r")["codes"][0]["kernel"] != "running" {
            assert!(first < 10_000, "{}", self.net.status("r")["codes"]);
            self.a.send_to(b"first", "10.0.2.2:7000").unwrap();
            assert_eq!(self.b.recv(&mut [0; 64]).unwrap(), 5);
            assert_eq!(self.wish(code, 9), ABSENT);
            first += 1;
        }
    }

    /// Capsules wish for an edit until it was done so often in all.
    fn wish_until(&mut self, number: u32, times: u64) {
        let code = self.code;
        while self.edit(number as usize).0 < times {
            let said = self.wish(code, number);
            assert!(matches!(said, 0 | FULL), "{said}");
            // One that is taken twice can be done once.
            crate::wait::told(self.net.dir("r"), "status", |_| {
                let edit = &self.graph()["edits"][number as usize];
                (edit["stands"] == false).then_some(())
            });
        }
    }
}

/// A bundle of the guest, signed or not, at all nodes.
fn add(net: &Running, key: Option<PrincipalKey>) -> Digest {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guests/wish.c");
    let bundle = author::build(&source, &AuthorOptions { key, ..AuthorOptions::default() }).unwrap();
    ["a", "r", "b"].map(|node| net.control(node).add_code(&bundle).unwrap())[0]
}

/// Capsules change the graph and change it back while ordinary packets pass.
fn replumb(mut stand: Stand, kernel: bool) {
    if kernel {
        stand.await_kernel();
    }
    let before = stand.graph()["came"].as_u64().unwrap();
    let is_over = AtomicBool::new(false);
    let (a, b) = (stand.a.try_clone().unwrap(), stand.b.try_clone().unwrap());
    let sent = std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUNDS {
                stand.wish_until(0, round);
                stand.wish_until(1, round);
            }
            is_over.store(true, Ordering::Relaxed);
        });
        flood((&a, &b), |_| is_over.load(Ordering::Relaxed))
    });
    let graph = stand.graph();
    let all = Value::from(before + u64::from(sent));
    assert_eq!((&graph["came"], &graph["left"], &graph["dropped"]), (&all, &all, &0.into()), "{graph}");
    assert_eq!(graph["edited"], 2 * ROUNDS, "{graph}");
    assert_eq!((stand.edit(0).0, stand.edit(1).0), (ROUNDS, ROUNDS), "{graph}");
    let status = stand.net.status("r");
    let wishes = &status["graph_wishes"];
    assert!(wishes["taken"].as_u64() >= Some(2 * ROUNDS), "{wishes}");
    if kernel {
        assert!(graph["kernel_packets"].as_u64() > Some(1000), "{graph}");
        let ran = &status["codes"][0];
        assert!(ran["total"]["packets"].as_u64() > ran["usage"]["packets"].as_u64(), "it ran in the kernel: {ran}");
    }
}

#[test]
fn a_capsule_changes_a_graph_and_no_ordinary_packet_is_lost_or_mixed() {
    let Some(stand) = Stand::new("wish", 1000, false) else { return };
    replumb(stand, false);
}

#[test]
fn a_capsule_that_runs_in_the_kernel_changes_a_graph_that_is_there_too() {
    let Some(stand) = Stand::new("kwish", 1000, true) else { return };
    replumb(stand, true);
}

#[test]
fn who_may_not_is_refused_and_what_cannot_be_done_leaves_the_graph_as_it_is() {
    let Some(mut stand) = Stand::new("nowish", 1000, false) else { return };
    let (code, strangers) = (stand.code, add(&stand.net, None));
    let generation = stand.graph()["generation"].clone();
    assert_eq!([0, 1, 7].map(|number| stand.wish(strangers, number)), [DENIED; 3]);
    assert_eq!([3, 64].map(|number| stand.wish(code, number)), [ABSENT; 2]);
    stand.net.await_status("r", |status| status["graph_wishes"]["refused"] == 5);
    let said = "code wishes for edits of graphs that its role does not have";
    assert_eq!(stand.net.log("r").matches(said).count(), 1, "{}", stand.net.log("r"));
    assert_eq!(stand.graph()["generation"], generation);
    // What is written there changes no generation.
    stand.a.send_to(b"one", "10.0.2.2:7000").unwrap();
    stand.b.recv(&mut [0; 64]).unwrap();
    stand.wish_until(2, 1);
    let read = Ask::ReadGraph { name: "path".into(), handler: "c.count".into() };
    assert_eq!(stand.net.control("r").ask(&read).unwrap()["value"], "0");
    // There is nothing to take back: it is said once, and counted each time.
    for times in 1..=3 {
        assert_eq!(stand.wish(code, 1), 0);
        crate::wait::told(stand.net.dir("r"), "status", |_| (stand.edit(1) == (0, times)).then_some(()));
    }
    let graph = stand.graph();
    assert_eq!(graph["generation"], generation, "{graph}");
    let why = graph["edits"][1]["why"].as_str().unwrap_or_default();
    assert!(why.contains("'x'"), "{graph}");
    assert_eq!(stand.net.log("r").matches("an edit that capsules wish for cannot be done").count(), 1);
    let calls = &stand.net.status("r")["graph_calls"];
    assert_eq!((&calls["done"], &calls["refused"]), (&1.into(), &3.into()), "{calls}");
    // Another configuration has other edits, from the next capsule on.
    let mut config: toml::Table = fs::read_to_string(stand.net.dir("r").join("node.toml")).unwrap().parse().unwrap();
    let edits = config["role"][0]["graphs"]["edits"].as_array_mut().unwrap();
    edits.retain(|edit| edit["name"].as_str() != Some("reset"));
    let path = stand.net.dir("r").join("other.toml");
    fs::write(&path, config.to_string()).unwrap();
    let (is_done, said) = apply(&stand.net, "r", &path, &[]);
    assert!(is_done && said.contains("role corral graphs.edits reset"), "{said}");
    assert_eq!((stand.wish(code, 2), stand.wish(code, 0)), (ABSENT, 0));
}

#[test]
fn wishes_have_the_rate_of_their_role() {
    let Some(mut stand) = Stand::new("ratewish", 1, false) else { return };
    let code = stand.code;
    assert_eq!(stand.wish(code, 2), 0);
    crate::wait::told(stand.net.dir("r"), "status", |_| (stand.edit(2).0 == 1).then_some(()));
    // What stands is taken as often as it is said, so whether one is refused is a matter of the moment (`halves wishes` has no moments).
    let said: Vec<i32> = (0..2000).map(|_| stand.wish(code, 2)).collect();
    assert!(said.iter().all(|said| matches!(*said, 0 | FULL)), "{said:?}");
    stand.wish_until(2, 3);
    assert!(stand.edit(2).0 < 100, "{}", stand.graph());
}

#[test]
fn what_was_wished_for_while_no_node_ran_is_not_done_under_another_number() {
    let Some(mut stand) = Stand::new("oldwish", 1000, true) else { return };
    let code = stand.code;
    stand.await_kernel();
    stand.net.kill("r");
    assert_eq!(stand.wish(code, 2), 0, "the kernel goes on by what it was told");
    let path = stand.net.dir("r").join("node.toml");
    let mut config: toml::Table = fs::read_to_string(&path).unwrap().parse().unwrap();
    let edits = config["role"][0]["graphs"]["edits"].as_array_mut().unwrap();
    for (edit, number) in edits.iter_mut().zip([2, 1, 0]) {
        edit.as_table_mut().unwrap().insert("number".into(), number.into());
    }
    fs::write(&path, config.to_string()).unwrap();
    let node = stand.net.start_again("r");
    stand.net.await_status("r", |status| status["codes"][0]["kernel"] == "running");
    // What stood would be begun before this, which is behind it.
    assert_eq!(stand.wish(code, 0), 0);
    let of = |stand: &Stand, name: &str| {
        let graph = stand.graph();
        let edit = graph["edits"].as_array().unwrap().iter().find(|edit| edit["name"] == name).unwrap().clone();
        (edit["stands"].as_bool().unwrap(), edit["done"].as_u64().unwrap(), edit["refused"].as_u64().unwrap())
    };
    crate::wait::told(stand.net.dir("r"), "status", |_| (of(&stand, "reset") == (false, 1, 0)).then_some(()));
    assert_eq!(of(&stand, "around"), (false, 0, 0));
    assert_eq!(stand.net.status("r")["graph_wishes"]["taken"], 1);
    crate::outlive::down(&stand.net, &[]);
    drop(node.wait_with_output());
}
