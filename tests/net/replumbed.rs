//! Programs change graphs of their role while ordinary packets pass: by `nodeos.h`, within what the role grants.

use crate::build::{Linked, build};
use crate::graphs::Stand;
use anode::manage::client::Control;
use model::graphs::Applied;
use model::{Ask, GraphWish};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::UdpSocket;
use std::process::{Child, ChildStdout, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

/// Roles with graphs: that of the program; one that has the same rights; and of those who may change none.
const ROLES: &str = "[[role]]\nname = \"corral\"\n\
     grants = { channels = 4, bandwidth = 1_000_000_000, memory_bytes = 33_554_432, domains = 4, threads = 4 }\n\
     graphs = { edits_per_second = 1000, engines = 32, text_bytes = 8192, devices = [\"to-b\"] }\n\
     [[role]]\nname = \"twin\"\ngrants = { memory_bytes = 16_777_216 }\n\
     graphs = { edits_per_second = 1000, engines = 32, text_bytes = 8192, devices = [\"to-b\"] }\n\
     [[role]]\nname = \"slow\"\n\
     grants = { channels = 1, bandwidth = 1_000_000, memory_bytes = 33_554_432, threads = 4 }\n\
     graphs = { edits_per_second = 1 }\n\
     [[graph]]\nname = \"theirs\"\nrole = \"graphs\"\ntext = \"TimedSource(1) -> Discard;\"\n\
     [[graph]]\nname = \"twins\"\nrole = \"twin\"\ntext = \"TimedSource(1) -> Discard;\"\n\
     [[graph]]\nname = \"slow\"\nrole = \"slow\"\ntext = \"TimedSource(1) -> Discard;\"\n";

/// The graph that it changes.
const GRAPH: &str = "[[graph]]\nname = \"fw\"\nrole = \"corral\"\ntake = [\"to-a/ip/udp *:7000\"]\n\
     text = \"FromDevice(to-a) -> c :: Counter -> a :: Null -> b :: Null -> d :: Null -> last :: Discard;\"\n";

/// Datagrams that are on their way at a time.
const BURST: u32 = 16;

/// How often the program changes the graph.
const EDITS: u32 = 100;

fn program(stand: &Stand, role: &str, graph: &str, text: &str, edits: u32) -> (Child, BufReader<ChildStdout>) {
    let program = build("tests/nodeos/graphs.c", stand.folder(), &["-O1"], Linked::Static);
    let mut command = stand.net.lab.command("r", program.to_str().unwrap()).unwrap();
    command.env("ANODE_NODEOS", stand.net.dir("r").join("nodeos.sock")).env_remove("LD_LIBRARY_PATH");
    command.args([role, graph, text, &edits.to_string()]).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    (child, out)
}

fn line(out: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    line.trim().to_owned()
}

/// Sends numbers until it is over, and expects each behind the one before; how many.
pub fn flood((a, b): (&UdpSocket, &UdpSocket), mut is_over: impl FnMut(u32) -> bool) -> u32 {
    let (mut sent, mut buffer) = (0u32, [0; 64]);
    while !is_over(sent) || sent < 1000 {
        for number in sent..sent + BURST {
            a.send_to(&number.to_be_bytes(), "10.0.2.2:7000").unwrap();
        }
        for number in sent..sent + BURST {
            let length = b.recv(&mut buffer).unwrap();
            assert_eq!(buffer[..length], number.to_be_bytes(), "in their order, each once");
        }
        sent += BURST;
    }
    sent
}

fn shown(stand: &Stand) -> Value {
    let shown: Value = serde_json::from_str(&stand.said("show", &["fw", "--json"])).unwrap();
    shown["graph"].clone()
}

#[test]
fn a_program_changes_a_graph_of_its_role_and_no_packet_is_lost_or_mixed() {
    let Some(stand) = Stand::new("plumb", &format!("{GRAPH}{ROLES}")) else { return };
    let (a, b) = (stand.socket("a", "10.0.1.1:4000"), stand.socket("b", "10.0.2.2:7000"));
    // What is listed is open: the ports know of what the graph takes.
    stand.net.control("r").ask(&Ask::Channels).unwrap();
    let (mut child, mut out) = program(&stand, "corral", "fw", &stand.router(9, " -> x :: Null"), EDITS);
    assert_eq!(line(&mut out), "ready");
    let is_over = AtomicBool::new(false);
    let sent = std::thread::scope(|scope| {
        scope.spawn(|| {
            let said = line(&mut out);
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(said, format!("{} 0", 2 + 2 * EDITS));
        });
        flood((&a, &b), |_| is_over.load(Ordering::Relaxed))
    });
    assert!(child.wait().unwrap().success());
    let graph = shown(&stand);
    assert_eq!((&graph["came"], &graph["left"], &graph["dropped"]), (&sent.into(), &sent.into(), &0.into()), "{graph}");
    assert_eq!(graph["edited"], 1 + 2 * EDITS, "{graph}");
    assert!(stand.said("show", &["fw"]).contains(&format!("changed {} times by programs", 1 + 2 * EDITS)));
    let status = stand.net.status("r");
    let calls = &status["graph_calls"];
    assert_eq!(calls["done"], 2 + 2 * EDITS, "what was written counts too: {calls}");
    assert!(calls["refused"].as_u64() > Some(10) && calls["later"].as_u64() >= Some(1), "{calls}");
}

/// How often two editors change a graph at once.
const ROUNDS: u32 = 100;

/// What an operator makes of the graph in a round.
fn whole(engine: &str) -> String {
    format!("FromDevice(to-a) -> c :: Counter -> {engine} :: Null -> last :: Discard;")
}

/// An operator gives another text, of this generation or of any.
fn applied(control: &mut Control, text: String, base: Option<u32>) -> Result<u32, String> {
    let wish = GraphWish { name: "fw".into(), text, role: None, take: None, base, place: None };
    let applied: Result<Applied, _> = control.asked(&Ask::ApplyGraph(wish));
    applied.map(|applied| applied.generation).map_err(|why| why.to_string())
}

/// The operator has looked at a generation, the program has not. Whoever is told that it is done has done it: each a generation of its own,
/// and the second on what the first has left.
#[test]
fn of_an_operator_and_a_program_at_once_nobodys_change_is_lost() {
    let Some(stand) = Stand::new("racers", &format!("{GRAPH}{ROLES}")) else { return };
    let program = build("tests/nodeos/racer.c", stand.folder(), &["-O1"], Linked::Static);
    let mut command = stand.net.lab.command("r", program.to_str().unwrap()).unwrap();
    command.env("ANODE_NODEOS", stand.net.dir("r").join("nodeos.sock")).env_remove("LD_LIBRARY_PATH");
    let mut child = command.args(["corral", "fw"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut to, mut out) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    assert_eq!(line(&mut out), "ready");
    let mut control = stand.net.control("r");
    let mut wins = [0; 3];
    for round in 0..ROUNDS {
        let base = applied(&mut control, whole("before"), None).unwrap();
        let start = Barrier::new(2);
        let (of_operator, of_program) = std::thread::scope(|scope| {
            let operator = scope.spawn(|| {
                start.wait();
                applied(&mut control, whole(&format!("operator{round}")), Some(base))
            });
            start.wait();
            writeln!(to, "{round}").unwrap();
            let said = line(&mut out);
            (operator.join().unwrap(), said)
        });
        let shown: Value = serde_json::from_str(&stand.said("show", &["fw", "--json"])).unwrap();
        let (generation, text) = (&shown["graph"]["generation"], shown["text"].as_str().unwrap());
        let has = (text.contains(&format!("operator{round} ")), text.contains(&format!("racer{round} ")));
        let of_both = format!("round {round}: {of_operator:?}, {of_program}: {text}");
        let (ends, won) = match (&of_operator, of_program.as_str()) {
            // The operator was first, before the program had read what there is, or after that.
            (Ok(first), said) if said == format!("done {}", first + 1) => ((true, true), 2),
            (Ok(_), "changed 0") => ((true, false), 0),
            (Err(why), said) if said == format!("done {}", base + 1) => {
                assert!(why.contains("and you have looked at"), "{of_both}");
                ((false, true), 1)
            }
            _ => panic!("{of_both}"),
        };
        assert_eq!((has, generation), (ends, &(base + 1 + u32::from(won == 2)).into()), "{of_both}");
        wins[won] += 1;
    }
    drop(to);
    assert!(child.wait().unwrap().success());
    println!(
        "of {ROUNDS} rounds the operator had {}, the program {}, both one after the other {}",
        wins[0], wins[1], wins[2]
    );
}
