//! Links with a rate, a delay and the like carry all that nodes send, whichever half and whichever socket sends it.
//!
//! What crosses is counted by the process that carries the links, and its own clock says in which time; no test looks at another.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anode::lab::{Crossing, Error, Lab, Topology};
use anode::link::model::chance;
use anode::link::{Fate, LinkModel};
use anode::sys::netns::Namespace;
use anode::sys::watch::Process;
use anode::wire::{Addr, Digest, anep, capsule};
use serde_json::Value;

use crate::running::{self, Running};
use crate::wait::{self, Patience};

/// Two nodes, and a link between them that is like this.
fn pair(name: &str, link: &str) -> Option<Running> {
    let text = format!(
        "name = \"t\"\nseed = 7\nnodes.a.active = true\nnodes.b.active = true\n[[links]]\nends = [\"a\", \"b\"]\n\
         prefixes = [\"10.0.1.0/24\", \"fd00:0:1::/64\"]\n{link}\n"
    );
    Running::build(name, &text)
}

/// The direction that begins at a node.
fn crossing(lab: &Lab, from: &str) -> Crossing {
    let all = lab.crossings().unwrap();
    all.into_iter().find(|crossing| crossing.from.split(' ').next() == Some(from)).unwrap()
}

/// Looks at a direction until something is so.
pub fn until(lab: &Lab, from: &str, so: impl Fn(&Crossing) -> bool) -> Crossing {
    wait::unannounced("nodes read meters, nobody is told of them", || {
        let found = crossing(lab, from);
        if so(&found) { Ok(found) } else { Err(format!("{:?}", found.counts)) }
    })
}

/// Whether so many bytes leave by a direction whose queue is never empty at this rate, in bit/s by the clock of the links. Whoever sends
/// may wait for a CPU until the queue is empty, and then it is looked at again; it never goes any faster.
fn held_to(wanted: f64, lab: &Lab, from: &str, bytes: u64) {
    let patience = Patience::new();
    loop {
        // The queue must be there first.
        let begin = until(lab, from, |crossing| crossing.counts["queue_full"] > 0 || crossing.queued_bytes > 30_000);
        let begin = (begin.counts["left_bytes"], begin.counts["left_at_ns"]);
        let end = until(lab, from, |crossing| crossing.counts["left_bytes"] >= begin.0 + bytes);
        let rate = (end.counts["left_bytes"] - begin.0) as f64 * 8e9 / (end.counts["left_at_ns"] - begin.1) as f64;
        assert!(rate <= 1.03 * wanted, "{rate} of {wanted}");
        if rate >= 0.97 * wanted {
            return;
        }
        patience.left(|| format!("{rate} of {wanted}"));
    }
}

fn within(found: f64, wanted: f64, share: f64, what: &str) {
    assert!((found - wanted).abs() <= wanted * share, "{what}: {found} of {wanted}");
}

/// Does something without end while `look` looks.
fn while_doing<T>(act: impl Fn() + Sync, look: impl FnOnce() -> T) -> T {
    while_many(1, act, look)
}

/// The same by several threads.
fn while_many<T>(threads: usize, act: impl Fn() + Sync, look: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    act();
                }
            });
        }
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(look));
        stop.store(true, Ordering::Relaxed);
        found.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// A socket that sends from a to b, where one hears.
pub fn datagrams(net: &Running) -> (UdpSocket, UdpSocket) {
    let to: SocketAddr = "10.0.1.2:9".parse().unwrap();
    let there = net.lab.enter("b", || UdpSocket::bind(to).unwrap()).unwrap();
    let here = net.lab.enter("a", || UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
    here.connect(to).unwrap();
    (here, there)
}

#[test]
fn datagrams_are_held_to_the_rate() {
    let Some(net) = pair("ludp", "rate_mbit = 20") else { return };
    let (here, _there) = datagrams(&net);
    while_doing(|| drop(here.send(&[7; 1200])), || held_to(20e6, &net.lab, "a", 2_000_000));
    let counts = crossing(&net.lab, "a").counts;
    assert!(counts["queue_full"] > 0 && counts["too_big"] == 0 && counts["unfinished"] == 0, "{counts:?}");
}

#[test]
fn a_stream_is_held_to_the_rate_in_frames_of_the_mtu() {
    let Some(net) = pair("ltcp", "rate_mbit = 20\nmtu = 1400\nqueue_bytes = 100000") else { return };
    let listener = net.lab.enter("b", || TcpListener::bind("10.0.1.2:9").unwrap()).unwrap();
    let mut out = net.lab.enter("a", || TcpStream::connect("10.0.1.2:9").unwrap()).unwrap();
    let (mut inward, _) = listener.accept().unwrap();
    let end = out.try_clone().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || while out.write_all(&[7; 1 << 16]).is_ok() {});
        scope.spawn(move || while inward.read(&mut [0; 1 << 16]).is_ok_and(|bytes| bytes > 0) {});
        held_to(20e6, &net.lab, "a", 2_000_000);
        end.shutdown(Shutdown::Both).unwrap();
    });
    let counts = crossing(&net.lab, "a").counts;
    assert_eq!((counts["too_big"], counts["unfinished"]), (0, 0), "{counts:?}");
    assert!(counts["entered_bytes"] / counts["entered"] > 1000, "frames are whole: {counts:?}");
}

/// A node between two hosts, the link behind it is slow.
const BEHIND: &str = r#"
name = "t"
nodes.a = {}
nodes.r.active = true
nodes.b = {}
[[links]]
ends = ["a", "r"]
prefixes = ["10.0.1.0/24"]
[[links]]
ends = ["r", "b"]
prefixes = ["10.0.2.0/24"]
rate_mbit = 8
"#;

/// A capsule of 1,100 bytes from a to b.
fn capsule_from_a(code: Digest) -> Vec<u8> {
    let [source, destination] = ["10.0.1.1", "10.0.2.2"].map(|addr| addr.parse::<Addr>().unwrap());
    let header = capsule::Header { app_port: 5, bound: 8, code, previous: source, source, destination };
    let mut bytes = vec![0; 1100];
    let inner = bytes.len() - anep::HEADER;
    anep::emit_basic(&mut bytes, anep::type_id::CAPSULE, inner).unwrap();
    header.emit(&mut bytes[anep::HEADER..]).unwrap();
    bytes
}

/// A node that capsules pass, its ports like this, has them held to the rate behind it; its status then.
fn capsules(name: &str, adjust: running::Adjust<'_>) -> Option<Value> {
    let net = Running::up_with(name, BEHIND, adjust)?;
    let ping = anode::apps::APPS.iter().find(|app| app.title == "ping").unwrap().bundle().unwrap();
    let bytes = capsule_from_a(net.control("r").add_code(&ping).unwrap());
    let here = net.lab.enter("a", || UdpSocket::bind(("10.0.1.1", 3322)).unwrap()).unwrap();
    let act = || drop(here.send_to(&bytes, ("10.0.2.2", 3322)));
    Some(while_doing(act, || {
        held_to(8e6, &net.lab, "r", 1_000_000);
        net.status("r")
    }))
}

#[test]
fn capsules_of_packet_sockets_are_held_to_the_rate() {
    capsules("lpack", &|_, _| {});
}

#[test]
fn capsules_of_af_xdp_are_held_to_the_rate() {
    capsules("lxsk", &running::sockets(false));
}

#[test]
fn capsules_redirected_in_the_kernel_are_held_to_the_rate() {
    let Some(status) = capsules("lkern", &running::in_kernel) else { return };
    let codes = status["kernel"]["codes"].as_array().unwrap();
    let forwarded: u64 = codes.iter().map(|code| code["usage"]["forwarded"].as_u64().unwrap()).sum();
    assert!(forwarded > 500, "they went by the kernel half: {status}");
}

#[test]
fn capsules_of_an_overlay_are_held_to_the_rate() {
    let Some(mut net) = pair("lover", "rate_mbit = 8") else { return };
    let port = |own: u8, other: u8| {
        format!(
            "[[port]]\nudp = \"10.0.1.{own}:7000\"\naddress = [\"10.8.0.{own}/24\"]\nneighbours = [{{ address = \"10.8.0.{other}\", \
             at = \"10.0.1.{other}:7000\" }}]"
        )
    };
    net.start(&|node, config| {
        let text = if node == "a" { port(1, 2) } else { port(2, 1) };
        config.insert("port".into(), text.parse::<toml::Table>().unwrap()["port"].clone());
        config.remove("routes");
    });
    assert_eq!(net.ping("a", "10.8.0.2", 1)["summary"]["received"], 1);
    let act = || drop(net.anode("a", &["ping", "-c", "6000", "-i", "0.00001", "-t", "0.2", "-s", "1200", "10.8.0.2"]));
    // While one begins or ends, others send.
    while_many(3, act, || held_to(8e6, &net.lab, "a", 1_000_000));
}

/// The model says exactly which frames are lost, whatever they are.
#[test]
fn as_many_frames_are_lost_and_doubled_as_the_seed_says() {
    let Some(net) = pair("lloss", "loss = 0.2\nduplicate = 0.1") else { return };
    let (here, _there) = datagrams(&net);
    for burst in 1..=20 {
        (0..100).for_each(|_| assert_eq!(here.send(&[7; 100]).unwrap(), 100));
        // No ring is full, so none is missed.
        until(&net.lab, "a", |crossing| crossing.counts["entered"] >= 100 * burst);
    }
    let found = until(&net.lab, "a", |Crossing { counts, .. }| {
        counts["left"] + counts["lost"] == counts["entered"] + counts["doubled"]
    });
    let (mut model, mut rng) = (LinkModel::new(&found.quality), chance(7, 0, 0));
    let fates: Vec<_> = (0..found.counts["entered"]).map(|at| model.carry(at, 100, &mut rng)).collect();
    let count = |so: fn(&Fate) -> bool| fates.iter().filter(|fate| so(fate)).count() as u64;
    let wanted = (count(|fate| *fate == Fate::Lost), count(|fate| matches!(fate, Fate::Twice(..))));
    assert_eq!((found.counts["lost"], found.counts["doubled"]), wanted);
    within(wanted.0 as f64, 0.2 * fates.len() as f64, 0.15, "the share that is lost");
}

/// What travels is rate times delay (Little).
#[test]
fn frames_travel_for_the_delay() {
    let Some(net) = pair("ldelay", "rate_mbit = 20\ndelay_ms = 200") else { return };
    let (here, _there) = datagrams(&net);
    let frame = 1200 + 42;
    let travelling = |crossing: &Crossing| {
        let counts = &crossing.counts;
        let waits = u64::from(crossing.queued_bytes / frame);
        counts["entered"].saturating_sub(counts["queue_full"] + counts["left"] + waits)
    };
    let mut found = while_doing(
        || drop(here.send(&[7; 1200])),
        || {
            held_to(20e6, &net.lab, "a", 1_000_000);
            (0..101).map(|_| travelling(&crossing(&net.lab, "a"))).collect::<Vec<_>>()
        },
    );
    found.sort_unstable();
    within(found[50] as f64, 20e6 * 0.2 / 8.0 / f64::from(frame), 0.1, "frames that travel");
}

#[test]
fn code_is_told_what_waits_on_the_link_and_how_busy_it_is() {
    let Some(mut net) = pair("lmeter", "rate_mbit = 20") else { return };
    net.start(&|_, _| {});
    let code = net.control("a").add_code(&running::guest("meters")).unwrap();
    let mut app = net.attach("a", 7);
    let mut ask = || {
        let [source, destination] = ["10.0.1.1", "10.0.1.2"].map(|addr| addr.parse::<Addr>().unwrap());
        app.send(&capsule::Header { app_port: 7, bound: 8, code, previous: source, source, destination }, &[0; 8])
            .unwrap();
        let (_, payload) = app.receive(running::PATIENCE).unwrap().unwrap();
        [0, 4].map(|at| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap()))
    };
    assert_eq!(ask(), [0, 0], "nothing has been sent");
    let (here, _there) = datagrams(&net);
    let [load, queue] = while_doing(
        || drop(here.send(&[7; 1200])),
        || {
            until(&net.lab, "a", |crossing| crossing.load_permille == Some(1000));
            ask()
        },
    );
    assert_eq!(load, 1000);
    // The node's time is that of its turn, a little before: 40 ms of 20 Mbit/s are 100,000 bytes.
    assert!((200_000..=362_144).contains(&queue), "{queue} bytes wait");
}

/// Has a pair's link be like this.
fn again(net: &Running, link: &str) -> Lab {
    let text = format!(
        "name = \"{}\"\nseed = 7\nnodes.a.active = true\nnodes.b.active = true\n[[links]]\nends = [\"a\", \"b\"]\n\
         prefixes = [\"10.0.1.0/24\", \"fd00:0:1::/64\"]\n{link}\n",
        net.lab.topology().name
    );
    let topology = Topology::parse(&text, "test").unwrap();
    Lab::up_by(&topology, running::ANODE.as_ref()).unwrap()
}

/// A link of another mtu is opened anew.
#[test]
fn what_is_under_way_when_a_link_is_closed_is_counted() {
    let Some(net) = pair("lclose", "delay_ms = 3600000") else { return };
    let (here, _there) = datagrams(&net);
    (0..20).for_each(|_| assert_eq!(here.send(b"x").unwrap(), 1));
    let before = until(&net.lab, "a", |crossing| crossing.counts["entered"] > 0).counts;
    assert!(again(&net, "delay_ms = 3600000\nmtu = 1400").changes() > 0);
    let after = crossing(&net.lab, "a").counts;
    assert!(after["closed"] >= before["entered"] && after["closed"] <= after["entered"], "{after:?}");
    assert_eq!((before["closed"], after["left"]), (0, 0), "{after:?}");
}

#[test]
fn a_changed_link_is_changed_where_it_is() {
    let Some(net) = pair("lchange", "loss = 0.5") else { return };
    let up = |link: &str| again(&net, link);
    let place = Namespace::open(&net.lab.topology().namespace("-links")).unwrap().unwrap();
    let process = place.processes().unwrap();
    assert_eq!((process.len(), up("loss = 0.5").changes()), (1, 0));
    assert_eq!(up("loss = 1").changes(), 1);
    assert_eq!(place.processes().unwrap(), process);
    let (here, _there) = datagrams(&net);
    let before = crossing(&net.lab, "a").counts;
    (0..20).for_each(|_| assert_eq!(here.send(b"x").unwrap(), 1));
    let after = until(&net.lab, "a", |crossing| crossing.counts["entered"] > before["entered"]).counts;
    assert_eq!(after["left"], before["left"], "all are lost");
    // A process that has died is replaced; its meters go on.
    anode::sys::process::terminate(&process, std::time::Duration::ZERO, |_| true).unwrap();
    assert_eq!(up("loss = 1").changes(), 2, "a process, and its link");
    assert_eq!(crossing(&net.lab, "a").counts["left"], before["left"]);
    assert_ne!(place.processes().unwrap(), process);
    // It needs none without a shaped link.
    assert!(up("").changes() > 0 && place.processes().unwrap().is_empty());
}

/// The file has frames of both directions, in order, and as many as were asked for.
#[test]
fn a_link_can_be_listened_to() {
    let Some(net) = pair("lcap", "delay_ms = 1") else { return };
    let (name, folder) = (&net.lab.topology().name, tempfile::tempdir().unwrap());
    let file = folder.path().join("link.pcap");
    let (here, there) = datagrams(&net);
    let mut command = std::process::Command::new(running::ANODE);
    command.args(["lab", "capture", name, "b/to-a", "-c", "40", "-w"]).arg(&file);
    let listener = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let process = Process::open(listener.id()).unwrap().unwrap();
    while !process.ends_within(Duration::from_millis(1)).unwrap() {
        here.send(&[7; 100]).unwrap();
        there.send_to(&[8; 100], here.local_addr().unwrap()).unwrap();
    }
    let said = String::from_utf8(listener.wait_with_output().unwrap().stdout).unwrap();
    assert!(said.starts_with("40 frames in "), "{said}");
    let frames = anode::port::pcap::read(&file).unwrap();
    let of = |byte: u8| frames.iter().filter(|frame| frame.ends_with(&[byte; 100])).count();
    assert!(frames.len() == 40 && of(7) > 0 && of(8) > 0, "{} {} {}", frames.len(), of(7), of(8));
    for (link, why) in [("b/x", "no link ends at"), ("q", "no link ends at")] {
        let refused = net.lab.tap(link).unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
}

/// The process that carries links has no more rights than packet sockets need, and carries on when links change.
#[test]
fn the_process_of_links_has_given_its_rights_away() {
    let Some(net) = pair("lconf", "delay_ms = 1") else { return };
    let place = anode::sys::netns::Namespace::open(&net.lab.topology().namespace("-links")).unwrap().unwrap();
    let [process] = place.processes().unwrap()[..] else { panic!("one process") };
    let standing = anode::sys::privileges::standing(&format!("/proc/{process}")).unwrap();
    let (net_admin, net_raw) = (1 << 12, 1 << 13);
    assert_eq!((standing.capabilities, standing.no_new_privileges), (net_admin | net_raw, true));
    assert_eq!(standing.bounding & !(net_admin | net_raw), 0, "and nothing that it executes gets more");
}

/// Settings of a node that runs are refused before anything is changed.
#[test]
fn other_settings_of_a_running_node_are_refused() {
    let Some(mut net) = pair("lset", "delay_ms = 1") else { return };
    net.start(&|_, _| {});
    let (name, folder) = (&net.lab.topology().name, tempfile::tempdir().unwrap());
    let file = folder.path().join("t.toml");
    let up = |link: &str, more: &str| {
        let text = format!(
            "name = \"{name}\"\nseed = 7\nnodes.a.active = true\nnodes.b.active = true\n{more}\n[[links]]\n\
             ends = [\"a\", \"b\"]\nprefixes = [\"10.0.1.0/24\", \"fd00:0:1::/64\"]\n{link}\n"
        );
        std::fs::write(&file, text).unwrap();
        let output = std::process::Command::new(running::ANODE).args(["lab", "up"]).arg(&file).output().unwrap();
        (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    assert_eq!(up("delay_ms = 1", "").1, format!("{name}: 2 nodes and 1 links were up already\n"));
    assert_eq!(up("delay_ms = 2", "").1, format!("{name}: 2 nodes and 1 links are up (1 changes)\n"));
    let (code, said) = up("delay_ms = 3", "nodes.b.anode.compiler.memory_mib = 64");
    assert!(code == Some(1) && said.contains(&format!("anode node down {name}.b")), "{said}");
    assert_eq!(crossing(&net.lab, "a").quality.delay_ms, 1.0, "of the topology that this test has");
    assert_eq!(up("delay_ms = 2", "").1, format!("{name}: 2 nodes and 1 links were up already\n"));
}

#[test]
fn a_lab_ends_with_its_links() {
    let Some(net) = pair("lend", "delay_ms = 1") else { return };
    let place = Namespace::open(&net.lab.topology().namespace("-links")).unwrap().unwrap();
    assert_eq!(place.processes().unwrap().len(), 1);
    let name = net.lab.topology().name.clone();
    drop(net);
    assert!(place.processes().unwrap().is_empty());
    assert!(!std::path::Path::new(&format!("/run/anode/{name}.-links")).exists());
}

#[test]
fn a_process_that_cannot_start_is_named() {
    let Some(net) = pair("lnone", "") else { return };
    let text = net.lab.topology().name.clone();
    let text = format!(
        "name = \"{text}\"\nnodes.a.active = true\nnodes.b.active = true\n[[links]]\nends = [\"a\", \"b\"]\ndelay_ms = 1"
    );
    let topology = Topology::parse(&text, "test").unwrap();
    let refused = Lab::up_by(&topology, "/bin/false".as_ref()).unwrap_err();
    assert!(matches!(refused, Error::Links { .. }), "{refused}");
    assert!(refused.to_string().contains("cannot be carried"), "{refused}");
}
