//! Nodes in labs: names, addresses of their own, clocks, and what becomes of them when the file changes.

use crate::labs::{able, name};
use anode::lab::Lab;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

const ANODE: &str = env!("CARGO_BIN_EXE_anode");

/// A lab file in a folder; its lab goes when this does.
struct Written {
    lab: String,
    folder: TempDir,
}

impl Drop for Written {
    fn drop(&mut self) {
        let _ = Lab::down(&self.lab);
    }
}

impl Written {
    fn new(test: &str) -> Written {
        Written { lab: name(test), folder: tempfile::tempdir().unwrap() }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("lab.toml")
    }

    /// `anode lab up --nodes` of a file with this text below its name.
    fn up(&self, text: &str) -> Output {
        std::fs::write(self.file(), format!("name = \"{}\"\naddresses = \"auto\"\n{text}", self.lab)).unwrap();
        anode(&["lab", "up", "--nodes", self.file().to_str().unwrap()])
    }

    fn node(&self, node: &str) -> String {
        format!("{}.{node}", self.lab)
    }
}

fn anode(arguments: &[&str]) -> Output {
    Command::new(ANODE).args(arguments).env_remove("XDG_RUNTIME_DIR").output().unwrap()
}

/// What a command printed that succeeded.
fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// The node in the middle has a kernel half at one of its ports, and an address of its own.
const LINE: &str = r#"
    [nodes.a]
    active = true
    [nodes.gate-of-the-west]
    active = true
    addresses = ["10.7.7.7/32"]
    anode.port = [{ packet = "to-a", kernel = true }, { packet = "to-b" }]
    [nodes.b]
    active = true
    [[links]]
    ends = ["a", "gate-of-the-west"]
    [[links]]
    ends = ["gate-of-the-west", "b"]
"#;

/// Names are those of the lab, also where interfaces have no room for them, and an address on the loopback interface is the node's own.
#[test]
fn nodes_answer_by_name_and_at_every_address() {
    if !able() {
        return;
    }
    let written = Written::new("names");
    said(&written.up(LINE));
    let a = written.node("a");
    let text = said(&anode(&["ping", "b", "--count", "1", "--timeout", "20", "--node", &a]));
    assert!(text.contains("ping 10.128.1.2 from 10.128.0.1") && text.contains("1 received"), "{text}");
    // The first address of this one is on its loopback interface.
    let arguments =
        ["ping", "gate-of-the-west", "--count", "40", "--interval", "0.05", "--timeout", "20", "--node", &a];
    let text = said(&anode(&arguments));
    assert!(text.contains("from 10.7.7.7: seq 0, 1 + 1 hops") && text.contains("40 received"), "{text}");
    // One more comes while the node runs.
    let lab = Lab::open(&written.lab).unwrap();
    let added = lab.command("b", "ip").unwrap().args(["address", "add", "10.8.8.8/32", "dev", "lo"]).status().unwrap();
    let routed =
        lab.command("a", "ip").unwrap().args(["route", "add", "10.8.8.8", "via", "10.128.0.2"]).status().unwrap();
    let gate = lab.command("gate-of-the-west", "ip").unwrap();
    let onwards = { gate }.args(["route", "add", "10.8.8.8", "via", "10.128.1.2"]).status().unwrap();
    assert!(added.success() && routed.success() && onwards.success());
    let text =
        said(&anode(&["ping", "10.8.8.8", "--count", "20", "--interval", "0.2", "--timeout", "20", "--node", &a]));
    assert!(text.contains("from 10.8.8.8: seq"), "{text}");
    let nobody = anode(&["ping", "nobody.invalid", "--node", &a]);
    let why = String::from_utf8_lossy(&nobody.stderr).into_owned();
    assert!(nobody.status.code() == Some(1) && why.contains("nobody is called 'nobody.invalid'"), "{why}");
}

/// A capsule that writes down the clock of each node.
const STAMPS: &str = "#include <anode/capsule.h>
struct stamps { be32 turned; be32 count; be64 at[4]; };
AN_CAPSULE(stamps, struct stamps)
{
    u32 count = an_be32(w->payload.count);
    AN_EACH(i, 4, 4) if (i == count) w->payload.at[i] = an_be64(an_now());
    w->payload.count = an_be32(count + 1);
    if (!(ctx->flags & AN_HERE)) return an_forward();
    if (w->payload.turned.network) return an_deliver();
    w->payload.turned = an_be32(1u);
    w->destination = w->source;
    w->source = ctx->here;
    return an_forward();
}
";

/// The nodes of a host have one clock: a packet is later at each node than at the one before, in whatever order they were started.
#[test]
fn clocks_of_a_labs_nodes_can_be_compared() {
    if !able() {
        return;
    }
    let written = Written::new("clocks");
    // The kernel half of the node in the middle reads the same one.
    let kernel = "anode.port = [{ packet = \"to-a\", kernel = true }, { packet = \"to-b\", kernel = true }]\n";
    let line = format!(
        "[nodes.a]\nactive = true\n[nodes.m]\nactive = true\n{kernel}[nodes.b]\nactive = true\n\
         [[links]]\nends = [\"a\", \"m\"]\n[[links]]\nends = [\"m\", \"b\"]\n"
    );
    said(&written.up(&line));
    let source = written.folder.path().join("stamps.c");
    std::fs::write(&source, STAMPS).unwrap();
    let bundle = written.folder.path().join("stamps.anb");
    said(&anode(&["code", "build", source.to_str().unwrap(), "--output", bundle.to_str().unwrap()]));
    let send = || {
        let arguments = ["capsule", "send", bundle.to_str().unwrap(), "b", "--timeout", "20", "--json", "--node"];
        let text = said(&anode(&[&arguments[..], &[&written.node("a")]].concat()));
        let answer: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        let payload = hex::decode(answer["payload"].as_str().unwrap()).unwrap();
        let stamps: Vec<u64> =
            payload[8..].chunks(8).map(|bytes| u64::from_be_bytes(bytes.try_into().unwrap())).collect();
        assert!(stamps.is_sorted() && stamps[0] > 0 && stamps[0] < stamps[3], "a, m, b, m: {stamps:?}");
    };
    send();
    for _ in 0..10 {
        send();
    }
}

/// What a second `up` cannot do under a node that runs is refused with the setting, and nothing is changed; what it can do is done.
#[test]
fn a_changed_file_is_applied_or_refused_as_a_whole() {
    if !able() {
        return;
    }
    let written = Written::new("apply");
    said(&written.up(LINE));
    let longer = format!("{LINE}[nodes.c]\nactive = true\n[[links]]\nends = [\"b\", \"c\"]\n");
    let refused = written.up(&longer);
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    let b = written.node("b");
    assert_eq!(refused.status.code(), Some(1));
    assert!(why.contains("nothing was changed") && why.contains(&format!("{b}: port: anode node down {b}")), "{why}");
    assert!(!why.contains(&written.node("a")), "{why}");
    assert_eq!(Lab::open(&written.lab).unwrap().topology().nodes.len(), 3, "as before");
    // With its end it is as the file says; the others have run on, and know the new name.
    said(&anode(&["node", "down", &b]));
    let text = said(&written.up(&longer));
    assert!(
        text.contains(&format!("node {b} runs")) && text.contains(&format!("node {} runs", written.node("c"))),
        "{text}"
    );
    assert!(!text.contains(&format!("node {} runs", written.node("a"))), "{text}");
    let text = said(&anode(&["ping", "c", "--count", "1", "--timeout", "20", "--node", &written.node("a")]));
    assert!(text.contains("1 received"), "{text}");
    // A node that goes takes its process with it.
    let lab = Lab::open(&written.lab).unwrap();
    let place = lab.namespace("c").unwrap();
    assert!(!place.processes().unwrap().is_empty());
    said(&anode(&["node", "down", &b]));
    said(&written.up(LINE));
    assert!(place.processes().unwrap().is_empty(), "nobody is there any more");
    assert!(!Path::new(&format!("/run/anode/{}", written.node("c"))).exists());
    let idle = written.up(&LINE.replacen("active = true", "active = false", 1));
    let why = String::from_utf8_lossy(&idle.stderr).into_owned();
    assert!(why.contains(&format!("{}: is not active any more", written.node("a"))), "{why}");
}

/// A node that is killed leaves what it had in the kernel, for the next process; the lab that goes takes it along.
#[test]
fn a_lab_goes_whose_nodes_were_killed() {
    if !able() {
        return;
    }
    let written = Written::new("killed");
    said(&written.up(LINE));
    let run_dir = PathBuf::from("/run/anode").join(written.node("gate-of-the-west"));
    assert!(
        anode::sys::bpf::is_mounted(&run_dir.join("bpf")),
        "the kernel half of the node in the middle is pinned there"
    );
    let place = Lab::open(&written.lab).unwrap().namespace("gate-of-the-west").unwrap();
    for process in place.processes().unwrap() {
        let process = rustix::process::Pid::from_raw(process).unwrap();
        // It may end with another one.
        let _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
    }
    said(&anode(&["lab", "down", &written.lab]));
    assert!(!run_dir.exists());
}
