//! The thread that follows interfaces and routes stands still, as one that waits for the kernel in vain: the health of the node
//! says so, and packets go on.

use crate::running::{ANODE, LINE, Running};
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

/// Traces a thread (ptrace(2): seize, interrupt), which stands still then, until its standard input ends.
const TRACER: &str = "
import ctypes, os, sys
trace, thread = ctypes.CDLL(None).ptrace, int(sys.argv[1])
assert trace(0x4206, thread, None, None) == 0 and trace(0x4207, thread, None, None) == 0
os.waitpid(thread, 0x40000000)
print('still', flush=True)
sys.stdin.read()
";

/// A thread that stands still as long as this is there.
struct Still(Child);

impl Still {
    fn of(thread: &str) -> Still {
        let mut command = Command::new("python3");
        command.args(["-c", TRACER, thread]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut tracer = Still(command.spawn().unwrap());
        let mut said = String::new();
        BufReader::new(tracer.0.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "still\n");
        tracer
    }
}

impl Drop for Still {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

/// The thread of a process that has this name.
fn thread(process: u32, name: &str) -> String {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let called = |path: &std::path::Path| fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == name);
    let found = threads.map(|thread| thread.unwrap().path()).find(|path| called(path)).unwrap();
    found.file_name().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn who_follows_routes_no_more_is_said_by_the_health_and_packets_go_on() {
    let Some(net) = Running::up("stuck", LINE) else { return };
    let passes =
        || net.anode("a", &["ping", "-c", "3", "-i", "0.02", "-t", "0.3", "10.0.2.2"])["summary"]["received"] == 3;
    let status = net.await_status("r", |_| passes());
    let health = || {
        let output = Command::new(ANODE).args(["node", "health", "--json"]).arg(net.dir("r")).output().unwrap();
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        let checks = said["checks"].as_array().unwrap();
        (output.status.code(), checks.iter().find(|check| check["name"] == "routes-followed").unwrap().clone())
    };
    assert_eq!(health().1["state"], "healthy");
    let still = Still::of(&thread(net.daemon("r").pid(), "anode-routes"));
    let (code, check) = health();
    assert_eq!((code, &check["state"]), (Some(1), &"degraded".into()), "{check}");
    assert!(check["said"].as_str().unwrap().contains("comes round no more"), "{check}");
    net.shell("r", "ip route add 10.78.0.0/16 via 10.0.2.2");
    assert!(passes());
    drop(still);
    // What has changed meanwhile is known.
    let routes = status["routes"].as_u64().unwrap();
    net.await_status("r", |status| status["routes"].as_u64().unwrap() > routes);
    assert_eq!(health().1["state"], "healthy");
}
