//! What a running node says of itself over the control socket: in the words of its protocol, to many at once, and for Prometheus.

use crate::single::{ANODE, Node, anode, is_root, write_config};
use anode::log::HAPPENED_MAX;
use anode::manage::client::{ClientError, Control};
use model::domains::{Channel, Domains};
use model::events::{Event, Events, Kind};
use model::health::Health;
use model::log::Journal;
use model::status::{Metrics, Status};
use model::{Ask, Subject};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::{Child, Command, Stdio};

/// An answer is all in the words of the protocol: nothing of it is lost on the way through the types.
fn is_typed<T: DeserializeOwned + Serialize>(control: &mut Control, ask: &Ask) {
    let said: Value = control.asked(ask).unwrap();
    let typed: T = serde_json::from_value(said.clone()).unwrap_or_else(|error| panic!("{ask:?}: {error}\n{said:#}"));
    assert_eq!(serde_json::to_value(&typed).unwrap(), said, "{ask:?}");
}

#[test]
fn answers_are_in_the_words_of_the_protocol() {
    let node = Node::start("[plan]\n");
    let mut control = node.control();
    is_typed::<Status>(&mut control, &Ask::Status);
    is_typed::<Domains>(&mut control, &Ask::Domains);
    is_typed::<Vec<Channel>>(&mut control, &Ask::Channels);
    is_typed::<Journal>(&mut control, &Ask::Journal);
    let status: Status = control.asked(&Ask::Status).unwrap();
    let versions = &status.versions;
    assert_eq!((versions.control, versions.fetch, versions.plan), (model::PROTOCOL, 1, 1), "{versions:?}");
    assert!(
        versions.works_with.contains("same versions of capsules") && versions.kernel_maps.len() > 16,
        "{versions:?}"
    );
    node.down();
}

#[test]
fn who_speaks_another_version_is_told_so_and_nothing_is_done() {
    let node = Node::start("");
    let mut control = node.control();
    let refused = control.ask(&json!({"do": "down", "protocol": 7, "new_field": 1})).unwrap_err();
    let ClientError::Refused(why) = refused else { panic!("{refused}") };
    assert!(why.contains("is of version 7 of the control protocol, and this node speaks version 1 (anode "), "{why}");
    assert_eq!(control.ask(&json!({"do": "status", "protocol": 1})).unwrap()["node"], "m");
    let why = control.ask(&json!({"do": "status", "protocol": "new"})).unwrap_err().to_string();
    assert!(why.contains("not understood"), "{why}");
    node.down();
}

/// What this one says to a request, over a connection of its own; nothing: another needed its place.
fn ask_once(node: &Node, request: &[u8]) -> Option<String> {
    let mut connection = UnixStream::connect(node.run_dir().join("control.sock")).ok()?;
    connection.write_all(request).ok()?;
    let mut line = String::new();
    BufReader::new(connection).read_line(&mut line).ok().filter(|length| *length > 0)?;
    Some(line)
}

#[test]
fn a_hundred_who_ask_for_the_status_all_get_it_and_slow_readers_are_in_nobodys_way() {
    let node = Node::start("");
    // Each is owed more than a socket holds, and takes none of it.
    let deaf: Vec<_> = (0..8)
        .map(|_| {
            let mut connection = UnixStream::connect(node.run_dir().join("control.sock")).unwrap();
            connection.write_all("{\"do\":\"domains\"}\n".repeat(500).as_bytes()).unwrap();
            connection
        })
        .collect();
    std::thread::scope(|scope| {
        for _ in 0..100 {
            scope.spawn(|| {
                // Places are 32, so others may take this one's.
                let said = (0..100).find_map(|_| ask_once(&node, b"{\"do\":\"status\"}\n"));
                assert!(said.is_some_and(|said| said.starts_with("{\"ok\":{\"node\":\"m\"")), "not answered");
            });
        }
    });
    drop(deaf);
    let status: Status = node.control().asked(&Ask::Status).unwrap();
    assert_eq!(status.unaccounted, 0);
    node.down();
}

/// Whether a text is one that Prometheus' own program takes.
fn promtool(text: &str) -> bool {
    let child =
        Command::new("promtool").args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut child) = child else {
        assert!(std::env::var_os("CI").is_none(), "there is no promtool, and continuous integration must have one");
        println!("SKIPPED: there is no promtool");
        return false;
    };
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.is_empty(), "{said}\n{text}");
    true
}

#[test]
fn metrics_are_a_text_that_promtool_takes_and_files_of_it_are_whole() {
    let node = Node::start("[plan]\n");
    let mut control = node.control();
    let of = |control: &mut Control, classic| control.asked::<Metrics>(&Ask::Metrics { classic }).unwrap();
    let (classic, open) = (of(&mut control, true), of(&mut control, false));
    promtool(&classic.text);
    assert!(open.text.ends_with("# EOF\n") && open.left_out == 0 && open.series > 100, "{}", open.text);
    assert!(open.text.contains("anode_port_received_frames_total{node=\"m\",port="), "{}", open.text);
    let path = node.dir.path().join("anode.prom");
    std::fs::write(&path, "what was there before").unwrap();
    let (done, said) = node.anode(&["node", "metrics", "--textfile", path.to_str().unwrap()]);
    assert!(done && said.is_empty(), "{said}");
    let written = std::fs::read_to_string(&path).unwrap();
    assert!(written.starts_with("# HELP anode_build ") && !written.contains("# EOF"), "{written}");
    promtool(&written);
    let beside = std::fs::read_dir(node.dir.path()).unwrap().flatten();
    let beside: Vec<_> = beside.map(|entry| entry.file_name().into_string().unwrap()).collect();
    assert_eq!(beside.iter().filter(|name| name.starts_with("anode.prom")).count(), 1, "{beside:?}");
    let (done, said) = node.anode(&["node", "metrics", "--textfile", "/nonexistent/anode.prom"]);
    assert!(!done && said.contains("/nonexistent/anode.prom"), "{said}");
    node.down();
}

#[test]
fn who_waits_for_a_change_is_told_of_one() {
    let node = Node::start("");
    let mut control = node.control();
    let first: Status = control.asked_next(Subject::Status).unwrap();
    let next: Status = control.asked_next(Subject::Status).unwrap();
    assert_eq!((first.node, next.uptime_s >= first.uptime_s), (next.node, true));
    node.down();
}

#[test]
fn a_node_says_how_it_is_by_its_exit_status() {
    let node = Node::start("");
    let health: Health = node.control().asked(&Ask::Health).unwrap();
    let names: Vec<_> = health.checks.iter().map(|check| check.name.as_str()).collect();
    let first = ["worker-answers", "loader-answers", "worker-gap", "queues-full", "carrier", "environments"];
    let wanted = [&first[..], &["graphs", "kernel-half", "routes-followed", "routes-untold", "unaccounted"]].concat();
    assert_eq!((names.as_slice(), health.node.as_str()), (&wanted[..], "m"));
    let status = |words: &[&str]| {
        let output = anode(words, &node.run_dir()).output().unwrap();
        (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    // A busy machine may keep the worker from its work, and then that is said.
    let (code, said) = status(&["node", "health"]);
    let degraded = said.contains("degraded worker-gap") || said.contains("degraded worker-answers");
    assert!(code == Some(0) && said.starts_with("node m is healthy") || code == Some(1) && degraded, "{code:?} {said}");
    let dir = node.down();
    let output = anode(&["node", "health"], &dir.path().join("run")).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && said.contains("no node answers at"), "{said}");
}

#[test]
fn a_graph_that_cannot_run_at_the_start_is_listed_with_why_and_degrades_health() {
    let graph = |place: &str| {
        format!(
            "[[role]]\nname = \"graphs\"\ngrants = {{ channels = 4, bandwidth = 1_000_000, memory_bytes = 1_000_000 }}\n\
             [[graph]]\nname = \"own\"\nrole = \"graphs\"\n{place}text = \"RatedSource(RATE 1) -> c :: Counter -> Discard\"\n"
        )
    };
    let node = Node::start(&graph("place = \"kernel\"\n"));
    let (done, listed) = node.anode(&["graph", "ls"]);
    assert!(done && listed.lines().any(|line| line.starts_with("own ") && line.contains("does not run: ")), "{listed}");
    let health: Health = node.control().asked(&Ask::Health).unwrap();
    let check = health.checks.iter().find(|check| check.name == "graphs").unwrap();
    assert!(check.value == 1 && check.said.contains("own does not run: "), "{check:?}");
    // Another text under its name is meant instead.
    let apply = |place: &str| {
        let output = anode(&["node", "apply"], &write_config(node.dir.path(), &graph(place))).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (done, said) = apply("");
    assert!(done, "{said}");
    let (_, listed) = node.anode(&["graph", "ls"]);
    assert!(listed.contains("own ") && !listed.contains("does not run"), "{listed}");
    let (done, said) = apply("place = \"kernel\"\n");
    assert!(!done, "{said}");
    let health: Health = node.control().asked(&Ask::Health).unwrap();
    assert_eq!(health.checks.iter().find(|check| check.name == "graphs").unwrap().value, 0);
}

#[test]
fn a_change_is_an_event_with_who_asked_and_what_was_refused_is_one_too() {
    let node = Node::start("");
    let own = rustix::process::getuid().as_raw();
    let (done, said) = node.anode(&["node", "log", "--set-level", "debug", "--part", "anode::node"]);
    assert!(done && said.contains("the log of the node is at info,anode::node=debug"), "{said}");
    let (done, said) = node.anode(&["node", "log", "--set-level", "info", "--part", "Anode=x"]);
    assert!(!done && said.contains("is no part of the program"), "{said}");
    node.control().ask(&json!({"do": "kill-domain", "domain": 4_000_000})).unwrap_err();
    let events: Events = node.control().asked(&Ask::Events).unwrap();
    let found = |what: &str| {
        let event = events.events.iter().find(|event| event.what.contains(what));
        event.unwrap_or_else(|| panic!("{what}: {events:?}")).clone()
    };
    let level = found("the level of the log of anode::node is debug");
    assert!(level.kind == Kind::Node && level.who.is_some_and(|who| who.uid == own && who.pid > 0), "{level:?}");
    let killed = found("not done: domain 4000000 was ended");
    assert!(killed.refused.is_some_and(|why| why.contains("no domain 4000000")), "{events:?}");
    let (done, said) = node.anode(&["node", "events", "--kind", "session", "--json"]);
    let lines: Vec<Event> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(done && !lines.is_empty() && lines.iter().all(|event| event.kind == Kind::Session), "{said}");
    let (done, said) = node.anode(&["node", "events"]);
    assert!(done && said.contains(&format!("by user {own} in process")), "{said}");
    assert!(node.log().contains("not done: domain 4000000 was ended"), "{}", node.log());
    node.down();
}

/// A connection that has asked for events so often and reads nothing.
fn asking(node: &Node, times: usize) -> UnixStream {
    let mut connection = UnixStream::connect(node.run_dir().join("control.sock")).unwrap();
    // It may have had to give way already.
    let _ = connection.write_all("{\"do\":\"next\",\"of\":\"events\"}\n".repeat(times).as_bytes());
    connection
}

#[test]
fn readers_of_events_that_never_read_or_never_end_lose_some_which_is_counted_and_hurt_nobody() {
    let node = Node::start("");
    let mut control = node.control();
    let before: Events = control.asked(&Ask::Events).unwrap();
    // Some are owed more than a socket holds and take none of it; the others wait for events as long as they may.
    let deaf: Vec<_> = (0..8).map(|_| asking(&node, 400)).collect();
    let endless: Vec<_> = (0..40).map(|_| asking(&node, 2)).collect();
    let change = Ask::LogLevel { level: "info".into(), target: None };
    let times = HAPPENED_MAX + 100;
    for _ in 0..times {
        // This one's place is wanted too.
        while control.asked::<String>(&change).is_err() {
            control = node.control();
        }
    }
    let after: Events = node.control().asked(&Ask::Events).unwrap();
    assert_eq!((after.process, after.events.len()), (before.process, HAPPENED_MAX));
    let (last, first) = (before.events.last().map_or(0, |event| event.number + 1), after.events[0].number);
    assert!(first >= last + 100, "the gap says how many were lost: {last} {first}");
    assert!(after.events.windows(2).all(|pair| pair[1].number == pair[0].number + 1), "of those kept none is missing");
    let status: Status = node.control().asked(&Ask::Status).unwrap();
    let control = &status.connections.control;
    assert!(control.displaced >= 48 + 1 - 32, "{control:?}");
    assert_eq!((status.unaccounted, after.unkept), (0, 0));
    drop((deaf, endless));
    node.down();
}

#[test]
fn a_report_has_all_in_one_file() {
    let node = Node::start("");
    let file = node.dir.path().join("report.json");
    let (done, said) = node.anode(&["node", "report", "--output", file.to_str().unwrap()]);
    assert!(done, "{said}");
    let text = std::fs::read_to_string(&file).unwrap();
    let whole: Value = serde_json::from_str(&text).unwrap();
    for part in ["program", "system", "report", "status", "health", "domains", "events", "journal"] {
        assert!(!whole[part].is_null(), "{part}: {text}");
    }
    assert!(whole["report"]["configuration"].as_str().unwrap().contains("10.9.9.1"), "{text}");
    let store = node.dir.path().join("store");
    assert!(std::fs::create_dir_all(store.join("objects")).is_ok());
    let (done, said) = node.anode(&["node", "report", "--store", store.to_str().unwrap()]);
    assert!(done && said.contains("\"falls\": []"), "{said}");
    node.down();
}

/// A process that a failed test does not leave behind.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        // One that has ended in good order has been waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A node beside what a service manager hears of it.
struct Managed {
    dir: tempfile::TempDir,
    manager: UnixDatagram,
    process: Ends,
}

impl Managed {
    fn start(more: &str, variables: &[(&str, &str)]) -> Managed {
        crate::gate::pass();
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("notify");
        let manager = UnixDatagram::bind(&place).unwrap();
        manager.set_read_timeout(Some(crate::wait::PATIENCE)).unwrap();
        let file = write_config(dir.path(), more);
        let mut command = anode(&["node", "run"], &file);
        command.env("NOTIFY_SOCKET", &place).envs(variables.iter().copied()).stderr(Stdio::null());
        let process = Ends(command.spawn().unwrap());
        Managed { dir, manager, process }
    }

    /// The next message.
    fn told(&self) -> String {
        let mut room = [0; 256];
        let length = self.manager.recv(&mut room).unwrap();
        String::from_utf8_lossy(&room[..length]).into_owned()
    }

    /// Hears all up to this.
    fn hear(&self, wanted: &str) {
        while self.told() != wanted {}
    }

    fn down(mut self) {
        let run = self.dir.path().join("run");
        assert!(anode(&["node", "down"], &run).status().unwrap().success());
        self.hear("STOPPING=1");
        assert!(self.process.0.wait().unwrap().success());
    }
}

#[test]
fn a_node_that_comes_round_says_so_to_the_service_manager() {
    let managed = Managed::start("", &[("WATCHDOG_USEC", "300000")]);
    managed.hear("READY=1");
    managed.hear("WATCHDOG=1");
    managed.down();
}

/// As Type=notify-reload wants it: it says when it begins and when that is done, also where the file is refused.
#[test]
fn a_node_says_to_the_service_manager_that_it_reads_its_file_again_and_that_it_has() {
    let role = |packets: u64| format!("[[role]]\nname = \"guests\"\nlimits = {{ packets_per_second = {packets} }}\n");
    let managed = Managed::start(&role(1000), &[]);
    managed.hear("READY=1");
    let clock = || {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000
    };
    let mut control = Control::connect(&managed.dir.path().join("run")).unwrap();
    for (more, counts) in [(role(7), (1, 0)), ("[[role]]\nname = \"gues".to_owned(), (1, 1))] {
        write_config(managed.dir.path(), &more);
        let before = clock();
        assert!(Command::new("kill").args(["-HUP", &managed.process.0.id().to_string()]).status().unwrap().success());
        let said = managed.told();
        let time: u64 = said.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").expect(&said).parse().unwrap();
        assert!((before..=clock()).contains(&time), "{said}");
        assert_eq!(managed.told(), "READY=1");
        let standing = control.asked::<Status>(&Ask::Status).unwrap().configuration.unwrap();
        assert_eq!((standing.applied, standing.refused), counts, "it is done when it says so");
    }
    managed.down();
}

/// A journal in a place of its own: standard error is a stream to it, and beside that is its socket.
#[test]
fn lines_go_to_the_journal_with_their_fields_where_standard_error_is_a_stream_to_it() {
    if !is_root("mounts need root") {
        return;
    }
    crate::gate::pass();
    let dir = tempfile::tempdir().unwrap();
    let journal = UnixDatagram::bind(dir.path().join("socket")).unwrap();
    journal.set_read_timeout(Some(crate::wait::PATIENCE)).unwrap();
    let (_reader, stream) = UnixStream::pair().unwrap();
    let is = rustix::fs::fstat(&stream).unwrap();
    let file = write_config(dir.path(), "");
    let place = "mount -t tmpfs none /run && mkdir -p /run/systemd/journal && mount --bind \"$1\" /run/systemd/journal";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &format!("{place} && exec \"$2\" node run \"$3\""), "sh"]);
    command.arg(dir.path()).arg(ANODE).arg(&file).stdin(Stdio::null()).stdout(Stdio::null());
    command.env("JOURNAL_STREAM", format!("{}:{}", is.st_dev, is.st_ino)).stderr(OwnedFd::from(stream));
    let mut process = Ends(command.spawn().unwrap());
    let entry = |wanted: &str| loop {
        let mut room = [0; 8192];
        let length = journal.recv(&mut room).unwrap();
        let entry = String::from_utf8_lossy(&room[..length]).into_owned();
        if entry.contains(wanted) {
            return entry;
        }
    };
    let runs = entry("\nMESSAGE=node runs\n");
    for field in ["ANODE_NODE=m\n", "PRIORITY=6\n", "SYSLOG_IDENTIFIER=anode\n", "TARGET=anode::"] {
        assert!(runs.contains(field), "{field}: {runs}");
    }
    let run = dir.path().join("run");
    crate::wait::control(&run, Some(&process.0), String::new);
    Control::connect(&run).unwrap().asked::<String>(&Ask::LogLevel { level: "debug".into(), target: None }).unwrap();
    let asked = entry("the level of the log is debug");
    assert!(asked.contains("ANODE_UID=0\n") && asked.contains("ANODE_PID="), "{asked}");
    assert!(anode(&["node", "down"], &run).status().unwrap().success());
    assert!(process.0.wait().unwrap().success());
}

/// What a report has is what runs, and not what the node was started with.
#[test]
fn a_report_has_the_configuration_in_force_without_keys() {
    let role = |packets: u64| format!("[[role]]\nname = \"guests\"\nlimits = {{ packets_per_second = {packets} }}\n");
    let node = Node::start(&role(1000));
    let shown = || {
        let (done, said) = node.anode(&["node", "report"]);
        assert!(done, "{said}");
        let whole: Value = serde_json::from_str(&said).unwrap();
        whole["report"]["configuration"].as_str().unwrap().to_owned()
    };
    assert!(shown().contains("packets_per_second = 1000"), "{}", shown());
    let begin = std::fs::read_to_string(node.dir.path().join("node.toml")).unwrap();
    let next = node.dir.path().join("next.toml");
    let apply = |text: &str, words: &[&str]| {
        std::fs::write(&next, text).unwrap();
        assert!(anode(&["node", "apply"], &next).args(words).status().unwrap().success());
    };
    apply(&begin.replace("= 1000", "= 7"), &[]);
    assert!(shown().contains("packets_per_second = 7"), "{}", shown());
    // What needs a restart is not in force.
    apply(&(begin.replace("= 1000", "= 9") + "[sizes]\ncodes = 77\n"), &["--partly"]);
    let partly = shown();
    assert!(partly.contains("packets_per_second = 9") && !partly.contains("77"), "{partly}");
    assert!(node.anode(&["node", "rollback"]).0);
    assert!(shown().contains("packets_per_second = 7"), "{}", shown());
    node.down();
}
