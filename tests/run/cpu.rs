//! The CPU use of a node as a real process under load: its share holds, and real-time mode works or names its missing
//! part.

use anode::manage::client::Control;
use serde_json::Value;
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ANODE: &str = env!("CARGO_BIN_EXE_anode");

/// Longer than anything here takes: only a failure waits for it.
const PATIENCE: Duration = Duration::from_secs(60);

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

    fn control(&mut self) -> Control {
        let begin = Instant::now();
        loop {
            if let Ok(control) = Control::connect(&self.folder.path().join("run")) {
                return control;
            }
            assert!(begin.elapsed() < PATIENCE && self.child.try_wait().unwrap().is_none(), "{}", self.log());
            std::thread::yield_now();
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// A field of a file of the process in `/proc`.
    fn proc(&self, file: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{file}", self.child.id())).unwrap()
    }

    /// Nanoseconds of CPU time of the worker, which is the first thread.
    fn worker_cpu(&self) -> u64 {
        let all = self.proc(&format!("task/{}/schedstat", self.child.id()));
        all.split(' ').next().unwrap().parse().unwrap()
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
fn a_node_under_load_keeps_to_its_share_of_the_cpu() {
    let mut node = Node::start("scheduler = \"wfq\"\nshare = 0.02");
    let mut control = node.control();
    let stop = Arc::new(AtomicBool::new(false));
    let (flag, port) = (stop.clone(), node.port);
    let flood = std::thread::spawn(move || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        while !flag.load(Ordering::Relaxed) {
            // A full queue is what this is about.
            let _ = socket.send_to(&[0; 64], ("127.0.0.1", port));
        }
    });
    let begin = Instant::now();
    let mut status = control.status().unwrap();
    while number(&status, "rests") == 0 {
        assert!(begin.elapsed() < PATIENCE, "never rests: {status}");
        status = control.status().unwrap();
    }
    // Until it has rested for a second more: a load of 2 % of that is 20 ms.
    let (start, used) = (Instant::now(), node.worker_cpu());
    let rested = number(&status, "rested_ms");
    while number(&status, "rested_ms") < rested + 1000 {
        assert!(start.elapsed() < PATIENCE, "does not rest any more: {status}");
        std::thread::sleep(Duration::from_millis(50));
        status = control.status().unwrap();
    }
    let (took, used) = (start.elapsed().as_secs_f64(), (node.worker_cpu() - used) as f64 / 1e9);
    stop.store(true, Ordering::Relaxed);
    flood.join().unwrap();
    assert!(used <= 0.06 * took, "{used} s of CPU time in {took} s, three times its share or more");
    assert_eq!(status["cpu"]["scheduler"], "wfq");
    assert!(status["cpu"]["share"].as_f64().unwrap() < 0.03);
}

#[test]
fn a_real_time_node_is_one_or_says_what_is_missing() {
    let mut node = Node::start("realtime = true\npriority = 3\nshare = 0.5\naffinity = [0]");
    if !anode::sys::process::is_root() {
        let begin = Instant::now();
        while node.child.try_wait().unwrap().is_none() && begin.elapsed() < PATIENCE {
            std::thread::yield_now();
        }
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
    // Memory of code that goes is given back, which locked memory could not be.
    let status = control.status().unwrap();
    let code = status["codes"][0]["name"].as_str().unwrap().parse().unwrap();
    control.remove_code(&code).unwrap();
    ping();
    assert!(node.proc(&format!("task/{}/status", node.child.id())).contains("Cpus_allowed_list:\t0\n"));
}
