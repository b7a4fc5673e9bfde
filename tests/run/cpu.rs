//! The CPU use of a node as a real process under load: its share holds, and real-time mode works or names its missing
//! part.

use crate::wait;
use anode::manage::client::Control;
use serde_json::Value;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const ANODE: &str = env!("CARGO_BIN_EXE_anode");

struct Node {
    folder: tempfile::TempDir,
    child: Child,
    port: u16,
}

impl Node {
    /// A node with one overlay port and these lines of `[cpu]`.
    fn start(cpu: &str) -> Node {
        crate::gate::pass();
        let folder = tempfile::tempdir().unwrap();
        let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let config = format!(
            "name = \"n\"\nrun_dir = {:?}\n[[port]]\nudp = \"127.0.0.1:{port}\"\naddress = [\"10.0.0.1/24\"]\n[cpu]\n{cpu}\n",
            folder.path().join("run"),
        );
        let file = folder.path().join("n.toml");
        std::fs::write(&file, config).unwrap();
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let child = Command::new(ANODE).args(["node", "run"]).arg(&file).stdout(Stdio::null()).stderr(log).spawn();
        Node { folder, child: child.unwrap(), port }
    }

    fn run_dir(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    fn control(&self) -> Control {
        wait::control(&self.run_dir(), Some(&self.child), || self.log())
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// A field of a file of the process in `/proc`.
    fn proc(&self, file: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{file}", self.child.id())).unwrap()
    }

    /// How often the worker, which is the first thread, has left the CPU by itself.
    fn worker_sleeps(&self) -> u64 {
        let all = self.proc(&format!("task/{}/status", self.child.id()));
        let count = all.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        count.unwrap().trim().parse().unwrap()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn number(status: &Value, key: &str) -> u64 {
    status["cpu"][key].as_u64().unwrap()
}

#[test]
fn a_node_under_load_that_has_a_share_of_the_cpu_rests_again_and_again() {
    let node = Node::start("scheduler = \"wfq\"\nshare = 0.02");
    node.control();
    let stop = Arc::new(AtomicBool::new(false));
    let (flag, port) = (stop.clone(), node.port);
    let flood = std::thread::spawn(move || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        while !flag.load(Ordering::Relaxed) {
            // A full queue is what this is about.
            let _ = socket.send_to(&[0; 64], ("127.0.0.1", port));
        }
    });
    let rests = |least: u64| {
        let enough = |status: &Value| number(status, "rests") >= least;
        wait::told(&node.run_dir(), "status", |status| Some(status).filter(enough))
    };
    let begin = node.worker_sleeps();
    let before = number(&rests(1), "rests");
    let status = rests(before + 10);
    let (count, slept) = (number(&status, "rests") - before, node.worker_sleeps() - begin);
    stop.store(true, Ordering::Relaxed);
    flood.join().unwrap();
    assert!(slept >= count, "{count} rests, and the kernel knows of {slept}");
    assert!(number(&status, "rested_ms") > 0, "{status}");
    assert_eq!(status["cpu"]["scheduler"], "wfq");
    assert!(status["cpu"]["share"].as_f64().unwrap() < 0.03);
}

#[test]
fn a_real_time_node_is_one_or_says_what_is_missing() {
    let mut node = Node::start("realtime = true\npriority = 3\nshare = 0.5\naffinity = [0]");
    if !anode::sys::process::is_root() {
        wait::ended(&mut node.child);
        assert!(node.log().contains("CAP_IPC_LOCK") || node.log().contains("CAP_SYS_NICE"), "{}", node.log());
        return;
    }
    let mut control = node.control();
    let ping = || {
        let dir = node.folder.path().join("run");
        let mut command = Command::new(ANODE);
        let done =
            command.args(["ping", "-c", "3", "-i", "0.01", "--node"]).arg(&dir).arg("10.0.0.1").output().unwrap();
        assert!(done.status.success(), "{}{}", String::from_utf8_lossy(&done.stderr), node.log());
    };
    ping();
    let stat = node.proc(&format!("task/{}/stat", node.child.id()));
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    // Fields 40 and 41 of proc(5), counted from the third: real-time priority, and SCHED_FIFO.
    assert_eq!((fields[37], fields[38]), ("3", "1"), "{stat}");
    let locked = node.proc("status").lines().find(|line| line.starts_with("VmLck")).unwrap().to_owned();
    assert!(!locked.contains(" 0 kB"), "{locked}");
    // The worker's stack is locked as it grows, which the node has no right to have done any more: it has grown.
    let status = node.proc("status");
    let stack: u64 =
        status.lines().find_map(|line| line.strip_prefix("VmStk:")?.split_whitespace().next()?.parse().ok()).unwrap();
    assert!(stack >= 4 << 10, "{stack} kB");
    // Memory of code that goes is given back, which locked memory could not be.
    let status = control.status().unwrap();
    let code = status["codes"][0]["name"].as_str().unwrap().parse().unwrap();
    control.remove_code(&code).unwrap();
    ping();
    assert!(node.proc(&format!("task/{}/status", node.child.id())).contains("Cpus_allowed_list:\t0\n"));
}
