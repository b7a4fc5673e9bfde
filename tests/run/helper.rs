//! A node and its helper as two services: the node has never had a privilege, and gets no broker but its own.

use crate::gate;
use crate::single::{ANODE, is_root, write_config};
use crate::wait;
use anode::manage::client::Control;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The user of the node, and one who is nobody here.
const USER: u32 = 12345;
const OTHER: u32 = 12346;

/// A socket at which a service says that it is ready.
pub struct Manager(UnixDatagram);

impl Manager {
    pub fn at(path: &Path) -> Manager {
        let socket = UnixDatagram::bind(path).unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o666)).unwrap();
        Manager(socket)
    }

    /// What the service says next.
    pub fn told(&self, log: &Path) -> String {
        let mut message = [0; 64];
        wait::readable(&self.0, || fs::read_to_string(log).unwrap_or_default());
        let length = self.0.recv(&mut message).unwrap();
        String::from_utf8_lossy(&message[..length]).into_owned()
    }
}

/// `anode` as a user without any privilege.
fn as_user(user: u32) -> Command {
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={user}"), format!("--regid={user}"), "--clear-groups".into()]);
    command.args(["--no-new-privs", "--inh-caps=-all", "--bounding-set=-all", ANODE]);
    command.stdin(Stdio::null());
    command
}

struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_node_without_a_privilege_gets_its_broker_from_its_helper_and_nobody_else_does() {
    if !is_root("a helper is root's") {
        return;
    }
    gate::pass();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let file = write_config(folder.path(), &format!("[security]\nuser = {USER}\nrequire = [\"user\", \"seccomp\"]\n"));
    let helper = Manager::at(&at("helper.ready"));
    let (helper_log, node_log) = (at("helper.log"), at("node.log"));
    let mut command = Command::new(ANODE);
    command.args(["node", "helper"]).arg(&file).env("NOTIFY_SOCKET", at("helper.ready")).stdin(Stdio::null());
    let mut served = Service(command.stderr(File::create(&helper_log).unwrap()).spawn().unwrap());
    assert_eq!(helper.told(&helper_log), "READY=1");
    let socket = at("run").join("helper.sock");
    // Somebody else cannot even ask.
    let run = |user: u32| {
        let mut command = as_user(user);
        command.args(["node", "run", "--helper"]).arg(&socket).arg(&file);
        command
    };
    let other = run(OTHER).output().unwrap();
    let said = String::from_utf8_lossy(&other.stderr).into_owned();
    if said.contains("failed to execute") {
        println!("SKIPPED: another user cannot reach this program");
        return;
    }
    assert!(!other.status.success() && said.contains("ermission denied"), "{said}");
    // Nor is root answered: the node would be no user's.
    let root = Command::new(ANODE).args(["node", "run", "--helper"]).arg(&socket).arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&root.stderr).into_owned();
    assert!(!root.status.success() && said.contains("the helper has ended, or serves another node"), "{said}");
    let node = Manager::at(&at("node.ready"));
    let log = File::create(&node_log).unwrap();
    let mut run = Service(run(USER).env("NOTIFY_SOCKET", at("node.ready")).stderr(log).spawn().unwrap());
    assert_eq!(node.told(&node_log), "READY=1");
    assert!(!socket.exists(), "a helper has one node");
    let status = Control::connect(&at("run")).unwrap().status().unwrap();
    let sandbox = &status["sandbox"];
    assert_eq!(sandbox["standing"]["user"], USER, "{sandbox}");
    assert_eq!((&sandbox["standing"]["capabilities"], &sandbox["standing"]["bounding"]), (&0.into(), &0.into()));
    assert_eq!((&sandbox["standing"]["seccomp"], &sandbox["weaker"]), (&true.into(), &serde_json::json!([])));
    // Code is compiled in a jail that the helper has started.
    let ping = Command::new(ANODE).args(["ping", "10.9.9.1", "--count", "1", "--node"]).arg(at("run")).output();
    let ping = ping.unwrap();
    assert!(ping.status.success(), "{}", String::from_utf8_lossy(&ping.stderr));
    assert!(Command::new(ANODE).args(["node", "down"]).arg(at("run")).status().unwrap().success());
    assert_eq!(node.told(&node_log), "STOPPING=1");
    let ended = (wait::ended(&mut run.0).success(), wait::ended(&mut served.0).success());
    assert_eq!(
        ended,
        (true, true),
        "{}{}",
        fs::read_to_string(node_log).unwrap(),
        fs::read_to_string(helper_log).unwrap()
    );
    assert!(!at("run/control.sock").exists());
}

/// A helper whose node dies ends too, and another pair takes the place.
#[test]
fn a_helper_ends_with_its_node_and_the_next_pair_takes_over() {
    if !is_root("a helper is root's") {
        return;
    }
    gate::pass();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let file = write_config(folder.path(), &format!("[security]\nuser = {USER}\n"));
    for turn in 0..2 {
        let ready = at(&format!("ready-{turn}"));
        let manager = Manager::at(&ready);
        let log = at("log");
        let mut command = Command::new(ANODE);
        command.args(["node", "helper"]).arg(&file).env("NOTIFY_SOCKET", &ready).stdin(Stdio::null());
        let mut helper = Service(command.stderr(File::create(&log).unwrap()).spawn().unwrap());
        assert_eq!(manager.told(&log), "READY=1");
        let mut command = as_user(USER);
        command.args(["node", "run", "--helper"]).arg(at("run/helper.sock")).arg(&file).env("NOTIFY_SOCKET", &ready);
        let mut node = Service(command.stderr(File::create(at("node.log")).unwrap()).spawn().unwrap());
        assert_eq!(manager.told(&at("node.log")), "READY=1");
        node.0.kill().unwrap();
        node.0.wait().unwrap();
        assert!(wait::ended(&mut helper.0).success());
    }
}
