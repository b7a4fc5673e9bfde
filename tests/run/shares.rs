//! Processes of environments have their shares of the processor: what they use is charged to their domains, and their packets wait for it.

use crate::build::{Linked, build};
use crate::single::{Node, is_root};
use anode::wire::anep;
use serde_json::Value;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// A role whose environments have this weight; the node trusts objects in it.
fn role(weight: u32) -> String {
    format!(
        "[[role]]\nname = \"ee\"\nrepresentations = [\"native\"]\n[role.grants]\nweight = {weight}\nchannels = \
         40\ndomains = 40\nthreads = 2\n\
         memory_bytes = 33_554_432\n"
    )
}

/// An overlay node with these environments, and who sends it ANEP packets of these types without end.
struct Bed {
    node: Node,
    stop: Arc<AtomicBool>,
    sender: Option<JoinHandle<()>>,
}

impl Bed {
    fn start(environments: &str) -> Bed {
        let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(free).unwrap();
        let port = format!(
            "[[port]]\nudp = \"{free}\"\naddress = [\"10.8.0.1/24\"]\nneighbours = [{{ address = \"10.8.0.2\", at = \"{}\" }}]\n",
            socket.local_addr().unwrap()
        );
        let node = Node::start(&format!("{port}{}{environments}", role(100)));
        let stop = Arc::new(AtomicBool::new(false));
        Bed { node, stop: stop.clone(), sender: Some(std::thread::spawn(move || flood(&socket, &stop))) }
    }

    /// The usage of the domain of an environment.
    fn usage(&self, title: &str) -> Value {
        let all = self.node.domains();
        let domain = all["domains"].as_array().unwrap().iter().find(|domain| domain["title"] == title);
        // One that has not started yet has used nothing.
        domain.map_or(Value::Null, |domain| domain["usage"].clone())
    }

    /// What all three did so far.
    fn look(&self) -> [Look; 3] {
        ["process", "one", "other"].map(|title| {
            let usage = self.usage(title);
            let number = |value: &Value| value.as_u64().unwrap_or(0);
            // Those of one channel, or of all of the domain.
            let waited = number(&usage["drops"]["path-full"]) + number(&usage["drops"]["channel-queue-full"]);
            Look { cpu_ns: number(&usage["cpu_ns"]), packets: number(&usage["packets"]), waited }
        })
    }
}

/// What a domain did: how many of its packets were dropped since too many waited.
#[derive(Clone, Copy)]
struct Look {
    cpu_ns: u64,
    packets: u64,
    waited: u64,
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(Err(panic)) = self.sender.take().map(JoinHandle::join) {
            eprintln!("the sender: {panic:?}");
        }
    }
}

/// The first types of packets.
const TYPES: [u16; 3] = [3000, 3100, 3200];

fn flood(socket: &UdpSocket, stop: &AtomicBool) {
    let packet = |kind: u16| {
        let mut bytes = vec![0; anep::HEADER + 64];
        anep::emit_basic(&mut bytes, kind, 64).unwrap();
        bytes
    };
    let packets = TYPES.map(packet);
    while !stop.load(Ordering::Relaxed) {
        for packet in &packets {
            // Nobody there yet, or a full queue: that is what this is about.
            let _ = socket.send(packet);
        }
    }
}

fn ee(name: &str, kind: &str, words: &[&str]) -> String {
    format!("[[ee]]\nname = \"{name}\"\nrole = \"ee\"\nrestart = \"never\"\n{kind} = {words:?}\n")
}

#[test]
fn a_process_that_burns_cpu_time_is_charged_and_waits_for_its_share() {
    if !is_root("control groups of jails are root's") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let process = build("bench/c/burner.c", dir.path(), &["-O1"], Linked::Static);
    let object = build("bench/c/burner.c", dir.path(), &["-O1"], Linked::Here);
    let words = |program: &std::path::Path, kind: u16, cost: &str| {
        [program.to_str().unwrap(), "ee", "if1/anep", &kind.to_string(), cost].map(str::to_owned)
    };
    let ee = |name: &str, key: &str, words: [String; 5]| ee(name, key, &words.each_ref().map(String::as_str));
    let all = [
        ee("process", "command", words(&process, TYPES[0], "400")),
        ee("one", "library", words(&object, TYPES[1], "200")),
        ee("other", "library", words(&object, TYPES[2], "200")),
    ];
    let bed = Bed::start(&all.concat());
    // Only times count in which both others were sent twice what they could run: with less, nobody keeps anything from anybody.
    let (mut used, mut before) = ([0; 3], bed.look());
    bed.node.until(|| {
        let now = bed.look();
        let packets = |at: usize| now[at].packets - before[at].packets;
        if packets(1).min(packets(2)) < 2000 {
            return None;
        }
        let overloaded = |at: usize| 2 * (now[at].waited - before[at].waited) > packets(at);
        if overloaded(1) && overloaded(2) {
            used.iter_mut()
                .zip(now.iter().zip(&before))
                .for_each(|(used, (now, before))| *used += now.cpu_ns - before.cpu_ns);
        }
        before = now;
        (used.iter().sum::<u64>() > 1_500_000_000).then_some(())
    });
    let others = (used[1] + used[2]) / 2;
    // By itself it would have a CPU of its own, three times theirs. Another program on the worker's CPU takes from theirs alone.
    assert!(used[0] < others * 2, "it has no more than its share: {used:?}");
    let usage = bed.look();
    let seen = bed.usage("process");
    let packets = seen["packets"].as_u64().unwrap();
    assert!(usage[0].waited > 0, "its packets wait: {seen}");
    assert!(usage[0].cpu_ns > 400_000 * packets.min(500), "what the process used is in what its domain did: {seen}");
    let status = bed.node.control().status().unwrap();
    let known = &status["cpu"]["processes"];
    assert_eq!((known["kept"].as_u64(), known["unread"].as_u64()), (Some(1), Some(0)), "{known}");
    if bed.node.environment("process")["weaker"].as_array().is_none() {
        assert_eq!((&known["of_one_process"], &known["unweighed"]), (&0.into(), &0.into()), "{known}");
    }
}
