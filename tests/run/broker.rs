//! The node is not root: its rights when it runs, and the broker's refusals to an attacker who has taken the node over.

mod found;
mod others;
mod waiting;

use crate::build::{Linked, build};
use crate::single::{self, Node, anode, write_config};
use crate::wait;
use anode::broker::allowed::Allowed;
use anode::broker::message::{ANSWER_MAX, Jail, REQUEST_MAX, WAYS};
use anode::broker::{Answer, Helper, LocalSocket, Pin, PinRequest, Place, Request, Shape};
use anode::config::NodeFile;
use anode::sys::privileges::standing;
use anode::sys::process::is_root;
use anode::wire::Addr;
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Bytes of a set of soft state.
const STATE_SET: u32 = anode::contract::set::SIZE as u32;

fn packet(interface: u32) -> Request {
    Request::Packet { interface, kind: 3, longest: 1664, ring: 4 << 20, beside: false }
}

/// One of each kind.
fn requests() -> Vec<Request> {
    let pin = |set, name: &str| Pin { set, name: name.into() };
    let shape = Shape { kind: 2, key: 4, value: 4, entries: 1 };
    let addr = Addr::v4([10, 0, 0, 1]);
    vec![
        packet(2),
        Request::Xdp { busy_poll_us: 50 },
        Request::Frames { chunk: 2048, bytes: 8 << 20 },
        Request::Discovery { interface: 2 },
        Request::Udp { at: "127.0.0.1:4001".parse().unwrap(), shared: false },
        Request::Tcp { at: "[::1]:4002".parse().unwrap() },
        Request::Connect { at: "10.0.2.9:80".parse().unwrap() },
        Request::Listen { socket: LocalSocket::Control },
        Request::Map { name: "zero_map".into(), shape },
        Request::Program { name: "ingress".into() },
        Request::Attach { interface: 2, place: Place::Driver },
        Request::Pins(PinRequest::IsOpen),
        Request::Pins(PinRequest::Open),
        Request::Pins(PinRequest::Names { set: Some(1), behind: Some("a".into()) }),
        Request::Pins(PinRequest::Make { set: 1 }),
        Request::Pins(PinRequest::Keep(pin(Some(1), "ports_map"))),
        Request::Pins(PinRequest::Fetch(pin(None, "link-3-driver"))),
        Request::Pins(PinRequest::Forget(pin(None, "link-3-driver"))),
        Request::Pins(PinRequest::Remove { set: 1 }),
        Request::Pins(PinRequest::Close),
        Request::Neighbour { interface: 2, addr },
        Request::Set { setting: "gro".into(), interface: "eth2".into(), on: false },
        Request::Realtime { thread: 77, priority: 10 },
        Request::Helper { kind: Helper::TrustedLoader },
        Request::Start { environment: "f".into() },
        Request::Clear { process: 77 },
        Request::Runs,
    ]
}

#[test]
fn requests_and_answers_survive_the_way() {
    crate::gate::pass();
    for request in requests() {
        assert!(request.encode().len() <= REQUEST_MAX);
        assert_eq!(Request::decode(&request.encode()), Some(request));
    }
    let jail = Jail {
        pid: 77,
        uid: 60_900,
        weaker: vec!["memory".into()],
        groups: vec!["/sys/fs/cgroup/x".into()],
        unified: true,
    };
    let failed = Answer::failed(&std::io::Error::from_raw_os_error(16));
    let names = vec!["x".repeat(96); 256];
    for answer in [Answer::Done, Answer::Was(true), Answer::Jail(jail), Answer::Names(names), failed] {
        assert!(answer.encode().len() <= ANSWER_MAX);
        assert_eq!(Answer::decode(&answer.encode()), Some(answer));
    }
    let Answer::Failed { errno, why } = Answer::failed(&std::io::Error::from_raw_os_error(16)) else { panic!() };
    assert_eq!(Answer::error(errno, why).raw_os_error(), Some(16), "the system's own errors stay what they are");
    let long = std::io::Error::other("ä".repeat(100_000));
    assert!(Answer::failed(&long).encode().len() <= ANSWER_MAX);
}

#[test]
fn what_is_no_request_is_none() {
    crate::gate::pass();
    for bad in [
        r#""packets""#,
        r#"{"packet":{"interface":1,"kind":3,"longest":1664,"much":true,"more":1}}"#,
        r#"{"pins":{"keep":{"set":1,"name":"../ports_map"}}}"#,
        r#"{"pins":{"fetch":{"set":null,"name":"/etc/shadow"}}}"#,
        r#"{"pins":{"fetch":{"set":null,"name":""}}}"#,
        r#"{"pins":{"names":{"set":null,"behind":".."}}}"#,
        r#"{"pins":{"make":{"set":-1}}}"#,
        r#"{"map":{"name":"a/b","shape":{"kind":2,"key":4,"value":4,"entries":1}}}"#,
        r#"{"map":{"name":"zero_map","shape":{"kind":2,"key":4,"value":4}}}"#,
        r#"{"program":{"name":"ingress","bytes":"00"}}"#,
        r#"{"attach":{"interface":4294967296,"place":"driver"}}"#,
        r#"{"attach":{"interface":2,"place":"anywhere"}}"#,
        r#"{"listen":{"socket":"ssh.sock"}}"#,
        r#""runs" "runs""#,
        "",
    ] {
        assert_eq!(Request::decode(bad.as_bytes()), None, "{bad}");
    }
    let long = format!("\"runs\"{}", " ".repeat(REQUEST_MAX));
    assert_eq!(Request::decode(long.as_bytes()), None, "longer than any request is");
}

proptest! {
    #[test]
    fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
        for read in [Request::decode(&bytes).map(|it| it.encode()), Answer::decode(&bytes).map(|it| it.encode())] {
            prop_assert!(read.is_none_or(|again| !again.is_empty()));
        }
    }

    #[test]
    fn a_damaged_request_is_none_or_another(at in any::<proptest::sample::Index>(), place in any::<usize>(), byte in any::<u8>()) {
        let all = requests();
        let mut bytes = all[at.index(all.len())].encode();
        let place = place % bytes.len();
        bytes[place] = byte;
        if let Some(read) = Request::decode(&bytes) {
            prop_assert_eq!(Request::decode(&read.encode()), Some(read));
        }
    }
}

/// A node with an interface, a kernel half, an overlay port and an environment.
const NODE: &str = "name = \"a\"\nroutes = \"kernel\"\n[[port]]\npacket = \"eth7\"\nkernel = true\n\
    [[port]]\nudp = \"127.0.0.1:4001\"\naddress = [\"10.0.0.1/24\"]\n[[ee]]\nname = \"f\"\ncommand = [\"sh\"]\n\
    [[role]]\nname = \"s\"\n[role.streams]\nlisten = [\"10.0.0.1:8000\"]\nconnect = [\"10.0.2.0/24:80\"]\n";

#[test]
fn a_node_gets_what_its_configuration_has_and_no_more() {
    crate::gate::pass();
    let names = |index: u32| [(7, "eth7"), (2, "eth2")].into_iter().find(|it| it.0 == index).map(|it| it.1.to_owned());
    let checked = |file: &str, request: &Request| Allowed::by(&NodeFile::parse(file).unwrap()).check(request, names);
    let refused = |request: Request| checked(NODE, &request).expect_err(&format!("{request:?}"));
    let addr = Addr::v4([10, 0, 0, 1]);
    let state = Shape { kind: 2, key: 4, value: STATE_SET, entries: 64 };
    for interface in [2, 3] {
        let why = if interface == 2 { "eth2 is no interface of this node's" } else { "there is no interface 3" };
        for request in [
            packet(interface),
            Request::Attach { interface, place: Place::Driver },
            Request::Discovery { interface },
            Request::Neighbour { interface, addr },
        ] {
            assert!(refused(request.clone()).contains(why), "{request:?}");
        }
    }
    for (request, why) in [
        (Request::Udp { at: "127.0.0.1:53".parse().unwrap(), shared: false }, "no such overlay port"),
        (Request::Tcp { at: "127.0.0.1:80".parse().unwrap() }, "no such [plan] tcp"),
        (Request::Tcp { at: "10.0.0.1:8001".parse().unwrap() }, "nor [role.streams] listen"),
        (Request::Connect { at: "10.0.3.9:80".parse().unwrap() }, "no such [role.streams] connect"),
        (Request::Connect { at: "10.0.0.1:8000".parse().unwrap() }, "no such [role.streams] connect"),
        (Request::Start { environment: "g".into() }, "no such [[ee]]"),
        (Request::Set { setting: "gro".into(), interface: "eth2".into(), on: false }, "eth2 is no interface"),
        (Request::Xdp { busy_poll_us: 0 }, "no such AF_XDP socket"),
        (Request::Frames { chunk: 2048, bytes: 1 << 20 }, "no such AF_XDP socket"),
        (Request::Realtime { thread: 1, priority: 10 }, "no such real-time worker"),
        (Request::Helper { kind: Helper::TrustedLoader }, "no role that trusts"),
        (
            Request::Map { name: "zero_map".into(), shape: Shape { kind: 2, key: 4, value: 4, entries: 1 << 30 } },
            "no map 'zero_map' of this shape",
        ),
        (
            Request::Map { name: "state_map".into(), shape: Shape { entries: 1 << 20, ..state } },
            "no role with so much state",
        ),
        (
            Request::Map { name: "own_map".into(), shape: Shape { kind: 2, key: 4, value: 4, entries: 1 } },
            "no map 'own_map'",
        ),
    ] {
        let said = refused(request.clone());
        assert!(said.contains(why), "{request:?}: {said}");
    }
    for request in [
        packet(7),
        Request::Attach { interface: 7, place: Place::Ingress },
        Request::Udp { at: "127.0.0.1:4001".parse().unwrap(), shared: false },
        Request::Tcp { at: "10.0.0.1:8000".parse().unwrap() },
        Request::Connect { at: "10.0.2.9:80".parse().unwrap() },
        Request::Map { name: "zero_map".into(), shape: Shape { kind: 2, key: 4, value: 4, entries: 1 } },
        Request::Map { name: "state_map".into(), shape: state },
        Request::Helper { kind: Helper::Loader },
        Request::Start { environment: "f".into() },
        Request::Set { setting: "gro".into(), interface: "eth2".into(), on: true },
    ] {
        assert_eq!(checked(NODE, &request), Ok(()), "{request:?}");
    }
    let overlay = "name = \"a\"\n[[port]]\nudp = \"127.0.0.1:4001\"\naddress = [\"10.0.0.1/24\"]\n";
    for request in [packet(7), Request::Program { name: "ingress".into() }, Request::Helper { kind: Helper::Loader }] {
        assert!(checked(overlay, &request).is_err(), "{request:?}");
    }
}

#[test]
fn programs_stand_where_they_belong() {
    let allowed = Allowed::by(&NodeFile::parse(NODE).unwrap());
    for (program, place, may) in [
        (Some("ingress"), Place::Driver, true),
        (Some("guard"), Place::Ingress, true),
        (Some("egress"), Place::Driver, false),
        (Some("ingress"), Place::Ingress, false),
        (None, Place::Stack, false),
    ] {
        assert_eq!(allowed.check_program(program, place).is_ok(), may, "{program:?} {place:?}");
    }
}

/// The node's broker.
fn broker_of(node: &Node) -> Option<u32> {
    let all = fs::read_to_string(format!("/proc/{0}/task/{0}/children", node.process.id())).unwrap();
    all.split_whitespace().next().and_then(|pid| pid.parse().ok())
}

fn needs_root() -> bool {
    single::is_root("a node that is not root's has no privileges to give away")
}

/// Whoever has started it.
#[test]
fn every_thread_has_a_list_of_system_calls() {
    crate::gate::pass();
    let node = Node::start("");
    // The worker answers, so it is one.
    assert_eq!(node.control().status().unwrap()["sandbox"]["standing"]["seccomp"], true);
    let broker = broker_of(&node).unwrap();
    for (pid, least) in [(node.process.id(), 8), (broker, 3)] {
        let mut threads = 0;
        for task in fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
            let task = task.unwrap().path();
            let facts =
                standing(task.to_str().unwrap()).and_then(|is| Ok((is, fs::read_to_string(task.join("comm"))?)));
            let Ok((is, name)) = facts else {
                // Some are there for one question only.
                assert!(!task.exists(), "{facts:?}");
                continue;
            };
            assert!(is.seccomp && is.no_new_privileges, "{name}{is:?}");
            assert!(pid == broker || is.capabilities == 0, "{name}{is:?}");
            threads += 1;
        }
        assert!(threads >= least, "{threads} threads");
    }
}

#[test]
fn no_thread_of_a_node_has_a_privilege() {
    crate::gate::pass();
    if !needs_root() {
        return;
    }
    let node = Node::start("");
    let pid = node.process.id();
    let mut threads = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
        let task = task.unwrap().path();
        let read = |name: &str| fs::read_to_string(task.join(name));
        let facts = standing(task.to_str().unwrap()).and_then(|is| Ok((is, read("comm")?, read("status")?)));
        let Ok((is, name, text)) = facts else {
            // Some are there for one question only.
            assert!(!task.exists(), "{facts:?}");
            continue;
        };
        assert_ne!((is.user, is.group), (0, 0), "{name}{is:?}");
        assert_eq!((is.capabilities, is.bounding, is.no_new_privileges), (0, 0, true), "{name}{is:?}");
        assert!(text.lines().any(|line| line.trim_end() == "Groups:"), "{name}{text}");
        threads += 1;
    }
    assert!(threads > 4, "{threads} threads");
    let broker = standing(&format!("/proc/{}", broker_of(&node).unwrap())).unwrap();
    assert_eq!((broker.user, broker.no_new_privileges), (0, true));
    for lost in [16, 17, 19, 20, 22, 25, 30, 33, 34] {
        assert_eq!(broker.bounding & 1 << lost, 0, "capability {lost} is about the rest of the machine");
    }
    let own = standing(&format!("/proc/{pid}")).unwrap().user;
    let facts = |name: &str| fs::metadata(node.run_dir().join(name)).unwrap();
    assert_eq!((facts("").uid(), facts("").mode() & 0o777), (0, 0o755), "the node can change nothing there");
    let socket = facts("control.sock");
    assert_eq!((socket.uid(), socket.gid(), socket.mode() & 0o777), (own, own, 0o600));
    assert_eq!(fs::metadata(node.dir.path().join("store/objects")).unwrap().uid(), own);
}

#[test]
fn a_broker_ends_with_its_node_and_takes_its_sockets_away() {
    crate::gate::pass();
    let mut node = Node::start("");
    let broker = broker_of(&node).unwrap();
    node.process.kill().unwrap();
    node.process.wait().unwrap();
    wait::gone(broker);
    assert!(!node.run_dir().join("control.sock").exists());
}

/// As when memory has run out. Another would take its sockets away, and its pins.
#[test]
fn who_has_lost_its_broker_keeps_its_run_directory() {
    let node = Node::start("");
    let broker = broker_of(&node).unwrap();
    // A start needs it to the end.
    node.control().status().unwrap();
    assert!(Command::new("kill").args(["-KILL", &broker.to_string()]).status().unwrap().success());
    wait::gone(broker);
    let second = anode(&["node", "run"], &node.dir.path().join("node.toml")).output().unwrap();
    let why = String::from_utf8(second.stderr).unwrap();
    assert!(!second.status.success() && why.contains("a node is running with"), "{why}");
    assert!(std::os::unix::net::UnixStream::connect(node.run_dir().join("control.sock")).is_ok());
}

/// Its user is another then, who has another default, and may not look into root's home.
#[test]
fn roots_node_keeps_its_default_run_directory_when_it_becomes_somebody_else() {
    crate::gate::pass();
    if !single::is_root("only root's node becomes somebody else") {
        return;
    }
    let name = format!("home-{}", std::process::id());
    let run = Path::new("/run/anode").join(&name);
    for at_root in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let text = format!("name = \"{name}\"\n[[port]]\nudp = \"127.0.0.1:0\"\naddress = [\"10.9.9.1/24\"]\n");
        fs::write(dir.path().join("node.toml"), text).unwrap();
        let mut command = anode(&["node", "run"], &dir.path().join("node.toml"));
        command.env_clear().env("HOME", if at_root { Path::new("/") } else { dir.path() }).env("PATH", "/usr/bin:/bin");
        let log = fs::File::create(dir.path().join("log")).unwrap();
        let mut node = Node { process: command.stdout(Stdio::null()).stderr(log).spawn().unwrap(), dir };
        wait::control(&run, Some(&node.process), || node.log());
        let down = anode(&["node", "down"], &run).output().unwrap();
        assert!(down.status.success() && node.process.wait().unwrap().success(), "{}", node.log());
        assert!(node.log().contains(&format!("\"run_dir\":\"{}\"", run.display())), "{}", node.log());
    }
    fs::remove_dir_all(&run).unwrap();
}

#[test]
fn a_node_comes_back_to_what_it_has_kept() {
    crate::gate::pass();
    let mut dir = Node::start("").down();
    for _ in 0..2 {
        dir = Node::start_in(dir, "").down();
    }
    if is_root() {
        // As an older version would leave it, which was root.
        fs::create_dir_all(dir.path().join("store/objects/00")).unwrap();
        fs::write(dir.path().join("store/objects/00/x"), "x").unwrap();
        fs::write(dir.path().join("store/fall"), "fell").unwrap();
        let node = Node::start_in(dir, "");
        let own = standing(&format!("/proc/{}", node.process.id())).unwrap().user;
        for name in ["objects/00", "fall.before"] {
            assert_eq!(fs::metadata(node.dir.path().join("store").join(name)).unwrap().uid(), own, "{name}");
        }
    }
}

#[test]
fn whoever_has_taken_the_node_over_gains_nothing() {
    crate::gate::pass();
    if !needs_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let object = build("tests/run/broker/compromised.c", dir.path(), &["-O1"], Linked::Here);
    let attempts = [
        r#"{"packet":{"interface":1,"kind":3,"longest":1664,"much":true}}"#,
        r#"{"attach":{"interface":1,"place":"stack"}}"#,
        r#"{"udp":{"at":"0.0.0.0:53"}}"#,
        r#"{"start":{"environment":"other"}}"#,
        r#"{"clear":{"process":1}}"#,
        r#"{"realtime":{"thread":1,"priority":1}}"#,
        r#"{"helper":{"kind":"loader"}}"#,
        r#"{"pins":{"fetch":{"set":null,"name":"../../../etc/shadow"}}}"#,
        r#"{"program":{"name":"ingress"}}"#,
        "{",
    ];
    let mut words = vec![object.display().to_string()];
    words.extend(attempts.iter().map(|&text| text.to_owned()));
    let role = "[[role]]\nname = \"ee\"\nrepresentations = [\"native\"]\n";
    let ee = format!("[[ee]]\nname = \"evil\"\nrole = \"ee\"\nrestart = \"never\"\nlibrary = {words:?}\n");
    let node = Node::start(&format!("{role}{ee}"));
    let all = |log: &str| log.contains("SYSTEM end").then(|| log.to_owned());
    let log = wait::text(&node.dir.path().join("log"), Some(&node.process), all);
    assert!(log.contains("BROKER found"), "{log}");
    for (number, attempt) in (1..).zip(attempts) {
        let begin = format!("ATTEMPT {number}: ");
        let answers: Vec<_> = log.lines().filter_map(|line| line.strip_prefix(&begin)).collect();
        assert_eq!(answers.len(), WAYS, "{log}");
        for answer in answers {
            assert!(
                answer.starts_with(r#"{"failed":"#) && !answer.contains("WITH A DESCRIPTOR"),
                "{attempt}: {answer}"
            );
        }
    }
    for line in log.lines().filter(|line| line.starts_with("SYSTEM ") && *line != "SYSTEM end") {
        assert!(line.ends_with(": refused"), "{line}");
    }
    assert!(!Path::new("/tmp/anode-was-here").exists());
    assert!(broker_of(&node).is_some(), "it lives");
}

/// What a start says that must not be one.
fn refused(dir: &Path, more: &str) -> String {
    let file = write_config(dir, more);
    let Output { status, stderr, .. } = anode(&["node", "run"], &file).output().unwrap();
    assert!(!status.success(), "it started");
    String::from_utf8(stderr).unwrap()
}

#[test]
fn directories_that_others_can_change_are_refused() {
    crate::gate::pass();
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let fresh = || {
        let dir = tempfile::tempdir().unwrap();
        for name in ["run", "store", "files"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        dir
    };
    for (name, part) in
        [("run", "take the node's sockets away; chmod go-w"), ("store", "chmod go-w"), ("files", "chmod go-w")]
    {
        let dir = fresh();
        mode(&dir.path().join(name), 0o777);
        let why = refused(dir.path(), "");
        assert!(why.contains(part) && why.contains(name), "{why}");
    }
    let dir = fresh();
    std::os::unix::net::UnixListener::bind(dir.path().join("run/control.sock")).unwrap();
    mode(&dir.path().join("run/control.sock"), 0o666);
    let why = refused(dir.path(), "");
    assert!(why.contains("has mode 666: somebody has opened it") && why.contains("remove it"), "{why}");
    let dir = fresh();
    fs::write(dir.path().join("run/apps.sock"), "").unwrap();
    assert!(refused(dir.path(), "").contains("is no socket"));
    if is_root() {
        let why = refused(fresh().path(), "[security]\nuser = \"nobody-has-this-name\"\n");
        assert!(why.contains("useradd --system nobody-has-this-name"), "{why}");
        for name in ["run", "store"] {
            let dir = fresh();
            std::os::unix::fs::chown(dir.path().join(name), Some(12345), None).unwrap();
            let why = refused(dir.path(), "");
            assert!(why.contains("belongs to user 12345") && why.contains("chown it"), "{why}");
        }
    }
}

#[test]
fn ways_that_others_can_change_are_refused() {
    crate::gate::pass();
    if !needs_root() {
        return;
    }
    let refused_below = |owner: u32| {
        let dir = tempfile::tempdir().unwrap();
        let above = dir.path().join("home");
        fs::create_dir(&above).unwrap();
        std::os::unix::fs::chown(&above, Some(owner), None).unwrap();
        let more = |run: &Path, store: &Path| {
            format!(
                "name = \"m\"\nrun_dir = {run:?}\nstore = {store:?}\n\
                 [[port]]\nudp = \"127.0.0.1:0\"\naddress = [\"10.9.9.1/24\"]\n"
            )
        };
        let fits = (dir.path().join("run"), dir.path().join("store"));
        for (run, store) in [(above.join("below/run"), fits.1.clone()), (fits.0.clone(), above.join("below/store"))] {
            let file = dir.path().join("node.toml");
            fs::write(&file, more(&run, &store)).unwrap();
            let Output { status, stderr, .. } = anode(&["node", "run"], &file).output().unwrap();
            let why = String::from_utf8(stderr).unwrap();
            assert!(!status.success() && why.contains("belongs to user 12345, who could put something else"), "{why}");
            let checked = anode(&["node", "check"], &file).output().unwrap();
            assert!(!checked.status.success(), "what a start refuses a check does");
            assert!(!above.join("below").exists(), "nothing was made there");
        }
    };
    refused_below(12345);
}

#[test]
fn a_user_that_another_node_has_is_not_taken_with_a_store() {
    crate::gate::pass();
    if !needs_root() {
        return;
    }
    let user = |node: &Node| standing(&format!("/proc/{}", node.process.id())).unwrap().user;
    let one = Node::start("");
    if fs::read_to_string("/etc/passwd").unwrap().lines().any(|line| line.starts_with("anode:")) {
        println!("SKIPPED: somebody has made a user for all nodes");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("store/objects")).unwrap();
    for name in ["store/objects", "store"] {
        std::os::unix::fs::chown(dir.path().join(name), Some(user(&one)), None).unwrap();
    }
    let other = Node::start_in(dir, "");
    assert_ne!(user(&one), user(&other), "they share nothing");
    assert_eq!(fs::metadata(other.dir.path().join("store/objects")).unwrap().uid(), user(&other));
    // What it has become it is again, and whoever keeps files beside it is too.
    let (was, dir) = (user(&other), other.down());
    let again = Node::start_in(dir, "");
    assert_eq!(user(&again), was);
    let beside = tempfile::tempdir().unwrap();
    let shared = |name: &str| again.dir.path().join(name);
    let text = format!(
        "name = \"n\"\nrun_dir = {:?}\nstore = {:?}\n[[port]]\nudp = \"127.0.0.1:0\"\naddress = [\"10.9.8.1/24\"]\n",
        beside.path().join("run"),
        shared("store")
    );
    fs::write(beside.path().join("n.toml"), text).unwrap();
    let mut third = anode(&["node", "run"], &beside.path().join("n.toml")).spawn().unwrap();
    let control = beside.path().join("run/control.sock");
    wait::control(&beside.path().join("run"), Some(&third), String::new);
    assert_eq!(fs::metadata(&control).unwrap().uid(), was);
    third.kill().unwrap();
    third.wait().unwrap();
}
