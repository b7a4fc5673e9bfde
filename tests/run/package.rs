//! The package for Debian: installed in a root of its own, which is this host's with all changes in memory, then run from there as its
//! units run it, upgraded and purged. The units are looked at by systemd's own tools.
//!
//! The root has a mount and a network namespace, so the host notices nothing.

mod beside;

use crate::gate;
use crate::helper::Manager;
use crate::running::Running;
use crate::single::is_root;
use crate::wait;
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

const SOURCES: &str = env!("CARGO_MANIFEST_DIR");

/// Makes the root in a folder of memory, says so, and lives until its input ends.
const ROOT: &str = r#"set -eu
mount -t tmpfs -o mode=0755 package "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
for place in proc sys dev; do mount --rbind "/$place" "$1/root/$place"; done
mount -t tmpfs -o mode=0755 run "$1/root/run"
mount -t tmpfs -o mode=1777 tmp "$1/root/tmp"
mkdir "$1/root/tmp/shared"
mount --bind "$2" "$1/root/tmp/shared"
ip link set lo up
echo ready
cat
"#;

/// A root with a network of its own.
struct Root {
    holder: Child,
    memory: tempfile::TempDir,
    /// A folder of the host's, which is `/tmp/shared` inside.
    shared: tempfile::TempDir,
}

impl Root {
    fn make() -> Root {
        let mut command = Command::new("unshare");
        command.arg("--net");
        Root::within(command)
    }

    /// The same by a command that continues with what `unshare` takes, and in the network that it has.
    fn within(mut command: Command) -> Root {
        let (memory, shared) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(shared.path(), open).unwrap();
        command.args(["--mount", "--propagation", "private", "sh", "-c", ROOT, "sh"]);
        command.args([memory.path(), shared.path()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = command.spawn().unwrap();
        let mut said = String::new();
        BufReader::new(holder.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "ready\n");
        Root { holder, memory, shared }
    }

    /// A command inside, as it is there.
    fn command(&self, words: &[&str]) -> Command {
        self.command_with(&[], words)
    }

    /// The same behind other words, outside of the root but in its namespaces.
    fn command_with(&self, before: &[&str], words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--target={}", self.holder.id())).args(["--mount", "--net"]).args(before).arg("chroot");
        command.arg(self.memory.path().join("root")).args(words).stdin(Stdio::null());
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env_remove("XDG_RUNTIME_DIR").env_remove("NOTIFY_SOCKET");
        command.current_dir("/");
        command
    }

    /// Runs one to its end.
    #[track_caller]
    fn run(&self, words: &[&str]) -> String {
        let Output { status, stdout, stderr } = self.command(words).output().unwrap();
        let said = String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned();
        assert!(status.success(), "{words:?}: {status}\n{said}");
        said
    }

    /// What was written to the disk of the root, but for what dpkg and adduser note of their work.
    fn files(&self) -> BTreeSet<String> {
        let list = format!("cd {}/upper && find . -not -type c", self.memory.path().display());
        let target = format!("--target={}", self.holder.id());
        let found = Command::new("nsenter").args([&*target, "--mount", "sh", "-c", &list]).output().unwrap();
        let of_tools = ["./var/lib/dpkg", "./var/log", "./var/cache", "./etc/passwd", "./etc/group", "./etc/shadow"];
        let of_tools = of_tools.into_iter().chain(["./etc/gshadow", "./etc/subuid", "./etc/subgid", "./etc/.pwd.lock"]);
        let of_tools: Vec<_> = of_tools.collect();
        let text = String::from_utf8(found.stdout).unwrap();
        // A folder of the host's in which something was changed is one of the root's too.
        let is_hosts = |line: &str| Path::new("/").join(line).is_dir();
        let of_tools = |line: &str| of_tools.iter().any(|begin| line.starts_with(begin));
        let kept = text.lines().filter(|line| !of_tools(line) && !is_hosts(line));
        kept.map(str::to_owned).collect()
    }

    /// Starts a service that tells when it is ready, and waits for that.
    fn service(&self, name: &str, before: &[&str], words: &[&str]) -> Service {
        let manager = Manager::at(&self.shared.path().join(name));
        let log = self.shared.path().join(format!("{name}.log"));
        let mut command = self.command_with(before, words);
        command.env("NOTIFY_SOCKET", format!("/tmp/shared/{name}")).stderr(std::fs::File::create(&log).unwrap());
        let service = Service(command.spawn().unwrap());
        assert_eq!(manager.told(&log), "READY=1");
        service
    }

    /// Starts a node as its two units do, in the order that they have.
    fn start(&self, name: &str, turn: &str) -> [Service; 2] {
        let file = format!("/etc/anode/{name}.toml");
        self.run(&["/usr/bin/anode", "node", "helper", "--mount", &file]);
        // Mounts of its own, as ProtectSystem= gives them.
        let own = ["unshare", "--mount", "--propagation", "slave"];
        let helper = ["/usr/bin/anode", "node", "helper", &file];
        let helper = self.service(&format!("{name}-helper-{turn}"), &own, &helper);
        let socket = format!("/run/anode/{name}/helper.sock");
        let node = ["setpriv", "--reuid=anode", "--regid=anode", "--clear-groups", "--no-new-privs", "--inh-caps=-all"];
        let more = ["--bounding-set=-all", "/usr/bin/anode", "node", "run", "--helper", &socket, &file];
        let node = self.service(&format!("{name}-node-{turn}"), &[], &[&node[..], &more].concat());
        [node, helper]
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

struct Service(Child);

impl Service {
    fn end(mut self) {
        assert!(wait::ended(&mut self.0).success());
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Says why something is not looked at, which fails where it must be.
fn skipped(why: &str) {
    assert!(std::env::var_os("CI").is_none(), "{why}, and continuous integration must run this");
    println!("SKIPPED: {why}");
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// The package of the program that is tested: stripped and packed, not compiled again.
fn package() -> Option<&'static Path> {
    static MADE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let make = || {
        if !is_there("dpkg-deb") {
            skipped("dpkg-deb is not here");
            return None;
        }
        let made = Command::new("sh").arg("tools/package.sh").arg("deb").current_dir(SOURCES).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let entries = std::fs::read_dir(Path::new(SOURCES).join("target/package")).unwrap();
        entries.map(|entry| entry.unwrap().path()).find(|path| path.extension().is_some_and(|end| end == "deb"))
    };
    MADE.get_or_init(make).as_deref()
}

/// What the page for operators shows of this, block by block: its commands are run where the package is.
#[test]
fn the_commands_of_the_page_for_operators_install_upgrade_and_remove() {
    if !is_root("a package is installed by root") {
        return;
    }
    gate::pass();
    let Some(package) = package() else { return };
    let page = std::fs::read_to_string(Path::new(SOURCES).join("docs/operations.md")).unwrap();
    let blocks: Vec<_> = page.split("```sh package\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(blocks.len(), 3, "to install, to upgrade, to remove");
    let root = Root::make();
    std::fs::copy(package, root.shared.path().join(package.file_name().unwrap())).unwrap();
    root.run(&["dpkg", "--force-depends", "--purge", "anode"]);
    let before = root.files();
    for block in blocks {
        root.run(&["sh", "-euc", &format!("cd /tmp/shared\n{block}")]);
    }
    let left: Vec<_> = root.files().difference(&before).cloned().collect();
    assert_eq!(left, Vec::<String>::new());
}

#[test]
fn a_package_is_installed_run_upgraded_and_purged_and_leaves_nothing() {
    if !is_root("a package is installed by root") {
        return;
    }
    gate::pass();
    let Some(package) = package() else { return };
    let root = Root::make();
    root.run(&["dpkg", "--force-depends", "--purge", "anode"]);
    let before = root.files();
    std::fs::copy(package, root.shared.path().join("anode.deb")).unwrap();
    root.run(&["dpkg", "--install", "/tmp/shared/anode.deb"]);
    assert!(root.run(&["anode", "--version"]).contains(env!("CARGO_PKG_VERSION")));
    assert!(root.run(&["anode", "node", "check", "/etc/anode/local.toml"]).ends_with("ok\n"));
    let simulated = ["anode", "sim", "run", "/usr/share/doc/anode/examples/line/topology.toml", "--seed", "1"];
    root.run(&simulated);
    let told = root.run(&["anode", "demo"]);
    assert!(told.contains("namespace"), "{told}");
    // The node of the package, as its units start it.
    let running = root.start("local", "1");
    let ping = root.run(&["anode", "ping", "10.9.9.1", "--count", "1", "--node", "local"]);
    assert!(ping.contains("1 received"), "{ping}");
    // Reloading the unit applies what has changed in its file.
    let unit = std::fs::read_to_string(Path::new(SOURCES).join("packages/systemd/anode@.service")).unwrap();
    let reload = unit.lines().find_map(|line| line.strip_prefix("ExecReload=+")).unwrap().replace("%i", "local");
    root.run(&["sh", "-c", "printf '[[role]]\\nname = \"guests\"\\n' >> /etc/anode/local.toml"]);
    let told = root.run(&["sh", "-c", &reload]);
    assert!(told.contains("guests"), "{told}");
    assert!(
        !unit.contains("\nExecStop="),
        "it would be run after `anode node down` too, fail, and bring the node back"
    );
    root.run(&["anode", "node", "down", "local"]);
    running.into_iter().for_each(Service::end);
    // The kernel half of a node outlives its process and its helper's, as in an upgrade.
    root.run(&["ip", "link", "add", "west", "type", "veth", "peer", "name", "east"]);
    root.run(&["sh", "-c", "ip link set west up; ip link set east up; ip address add 10.9.8.1/24 dev west"]);
    let text = "name = \"kern\"\nroutes = \"kernel\"\nrun_dir = \"/run/anode/kern\"\nstore = \"/var/lib/anode/kern\"\n";
    let text = format!("{text}[[port]]\npacket = \"west\"\nkernel = true\n");
    std::fs::write(root.shared.path().join("kern.toml"), text).unwrap();
    root.run(&["cp", "/tmp/shared/kern.toml", "/etc/anode/kern.toml"]);
    let running = root.start("kern", "1");
    root.run(&["anode", "node", "down", "--keep-kernel", "kern"]);
    running.into_iter().for_each(Service::end);
    let pins = || root.run(&["sh", "-c", "ls /run/anode/kern/bpf 2>/dev/null || true"]);
    assert!(pins().contains("link-"), "the kernel half is there without anybody: {}", pins());
    // The conffile is the operator's: an upgrade keeps what was changed.
    root.run(&["sh", "-c", "echo '# mine' >> /etc/anode/local.toml"]);
    root.run(&["dpkg", "--install", "/tmp/shared/anode.deb"]);
    assert!(root.run(&["cat", "/etc/anode/local.toml"]).ends_with("# mine\n"));
    // As systemd stops it.
    let running = root.start("kern", "2");
    root.run(&["kill", "-TERM", &running[0].0.id().to_string()]);
    running.into_iter().for_each(Service::end);
    assert_eq!(pins(), "", "nothing is before the interface any more");
    // What a node has left that was killed with its helper goes with the package.
    drop(root.start("kern", "3"));
    let ingress = || root.run(&["ip", "link", "show", "west"]).contains("xdp");
    assert!(pins().contains("link-") && ingress());
    root.run(&["dpkg", "--remove", "anode"]);
    assert!(pins().is_empty() && !ingress());
    root.run(&["dpkg", "--purge", "anode"]);
    let left: Vec<_> = root.files().difference(&before).cloned().collect();
    assert_eq!(left, Vec::<String>::new());
    let run = root.run(&["sh", "-c", "ls /run | grep anode || true; getent passwd anode || true"]);
    assert_eq!(run, "");
}

/// A router of the package between two nodes.
const BETWEEN: &str = r#"
name = "t"
nodes.a.active = true
nodes.r = { kind = "router" }
nodes.b.active = true
[[links]]
ends = ["a", "r"]
prefixes = ["10.0.1.0/24"]
[[links]]
ends = ["r", "b"]
prefixes = ["10.0.2.0/24"]
"#;

/// What a script of the package has of systemd, where that is not process 1: it says which unit is to start, and waits until it has.
const SYSTEMCTL: &str = r#"#!/bin/sh
case "$1" in
list-units) echo "anode@kern.service loaded active running anode" ;;
restart)
    echo "$2" >/tmp/shared/wanted
    cat /tmp/shared/started
    ;;
esac
"#;

/// Capsules that the kernel half of the package's node has sent on.
fn forwarded(root: &Root) -> u64 {
    let status: serde_json::Value =
        serde_json::from_str(&root.run(&["anode", "node", "status", "kern", "--json"])).unwrap();
    let codes = status["kernel"]["codes"].as_array().into_iter().flatten();
    codes.map(|code| code["usage"]["forwarded"].as_u64().unwrap()).sum()
}

#[test]
fn an_upgrade_under_a_stream_keeps_the_kernel_half_and_loses_none_of_its_packets() {
    if !is_root("a package is installed by root") {
        return;
    }
    let Some(package) = package() else { return };
    let Some(net) = Running::up("package", BETWEEN) else { return };
    let root = Root::within(net.lab.command("r", "unshare").unwrap());
    let shared = |name: &str| root.shared.path().join(name);
    std::fs::copy(package, shared("anode.deb")).unwrap();
    root.run(&["dpkg", "--force-depends", "--purge", "anode"]);
    root.run(&["dpkg", "--install", "/tmp/shared/anode.deb"]);
    let ports = ["to-a", "to-b"].map(|name| format!("[[port]]\npacket = \"{name}\"\nkernel = true\n")).concat();
    let text = "name = \"kern\"\nroutes = \"kernel\"\nrun_dir = \"/run/anode/kern\"\nstore = \"/var/lib/anode/kern\"\n";
    std::fs::write(shared("kern.toml"), format!("{text}{ports}")).unwrap();
    root.run(&["cp", "/tmp/shared/kern.toml", "/etc/anode/kern.toml"]);
    let running = root.start("kern", "1");
    wait::unannounced("the node of a package is asked by its own program", || {
        let before = forwarded(&root);
        let pinged = net.ping("a", "10.0.2.2", 10);
        let now = forwarded(&root);
        if pinged["summary"]["received"] == 10 && now >= before + 20 { Ok(()) } else { Err(pinged.to_string()) }
    });
    let (before, done) = (forwarded(&root), AtomicBool::new(false));
    let (now, running) = std::thread::scope(|scope| {
        let stream = scope.spawn(|| {
            let mut received = 0;
            while !done.load(Ordering::Relaxed) {
                let pinged = net.ping("a", "10.0.2.2", 500);
                assert_eq!(pinged["summary"]["received"], 500, "{pinged}");
                received += 500;
            }
            received
        });
        // The stream ends whatever becomes of the upgrade.
        let running = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| upgrade(&root, running)));
        done.store(true, Ordering::Relaxed);
        let running = running.unwrap_or_else(|why| std::panic::resume_unwind(why));
        let received: u64 = stream.join().unwrap();
        assert!(forwarded(&root) >= before + 2 * received, "the kernel half has served all the time");
        (forwarded(&root), running)
    });
    assert!(now > before);
    root.run(&["anode", "node", "down", "kern"]);
    running.into_iter().for_each(Service::end);
}

/// Installs the package again while its node runs, as it is upgraded under systemd; gives the node that runs afterwards.
fn upgrade(root: &Root, before: [Service; 2]) -> [Service; 2] {
    use std::os::unix::fs::PermissionsExt as _;
    let tool = root.shared.path().join("bin/systemctl");
    std::fs::create_dir(tool.parent().unwrap()).unwrap();
    std::fs::write(&tool, SYSTEMCTL).unwrap();
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    root.run(&["mkfifo", "/tmp/shared/started"]);
    root.run(&["mkdir", "-p", "/run/systemd/system"]);
    let path = "PATH=/tmp/shared/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let mut installs = root.command(&["env", path, "dpkg", "--install", "/tmp/shared/anode.deb"]).spawn().unwrap();
    let wanted = root.shared.path().join("wanted");
    let unit = wait::path(&wanted, || std::fs::read_to_string(&wanted).ok().filter(|unit| unit.ends_with('\n')));
    assert_eq!(unit, "anode@kern.service\n");
    before.into_iter().for_each(Service::end);
    let running = root.start("kern", "2");
    std::fs::write(root.shared.path().join("started"), "").unwrap();
    assert!(wait::ended(&mut installs).success());
    root.run(&["rmdir", "/run/systemd/system"]);
    running
}

/// Levels of exposure: systemd counts what a service could do.
#[test]
fn units_are_as_hardened_as_they_can_be() {
    if !is_there("systemd-analyze") {
        return skipped("systemd-analyze is not here");
    }
    for (unit, most) in [("anode@.service", 3.0), ("anode-helper@.service", 5.0)] {
        let path = Path::new(SOURCES).join("packages/systemd").join(unit);
        let output = Command::new("systemd-analyze").args(["security", "--offline=yes"]).arg(&path).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let line = said.lines().find(|line| line.contains("Overall exposure level")).unwrap();
        let level = line.rsplit(": ").next().unwrap().split(' ').next().unwrap();
        assert!(level.parse::<f64>().unwrap() <= most, "{unit}: {line}");
    }
}

/// The calls in a group of systemd's, as `systemd-analyze` lists them.
fn group(name: &str) -> BTreeSet<String> {
    let output = Command::new("systemd-analyze").args(["syscall-filter", name]).output().unwrap();
    assert!(output.status.success(), "systemd has no group {name}");
    let text = String::from_utf8(output.stdout).unwrap();
    let words = text.lines().skip(1).map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    words.flat_map(expand).collect()
}

fn expand(word: &str) -> BTreeSet<String> {
    if word.starts_with('@') { group(word) } else { BTreeSet::from([word.to_owned()]) }
}

/// The calls that a unit lets through.
fn calls_of(unit: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(Path::new(SOURCES).join("packages/systemd").join(unit)).unwrap();
    let mut calls = group("@default");
    for list in text.lines().filter_map(|line| line.strip_prefix("SystemCallFilter=")) {
        let words = |list: &str| list.split(' ').flat_map(expand).collect::<BTreeSet<_>>();
        match list.strip_prefix('~') {
            Some(refused) => calls = calls.difference(&words(refused)).cloned().collect(),
            None => calls.extend(words(list)),
        }
    }
    calls
}

/// What the node's own lists of system calls let through, and what it needs to set them up, the units let through too: nothing else
/// would tell before a service has failed.
#[test]
fn units_let_every_call_through_that_the_lists_of_processes_have() {
    if !is_there("systemd-analyze") {
        return skipped("systemd-analyze is not here");
    }
    let (node, helper) = (calls_of("anode@.service"), calls_of("anode-helper@.service"));
    let lists = Path::new(SOURCES).join("src/sys/jail/seccomp/x86_64");
    let mut seen = 0;
    for entry in std::fs::read_dir(lists).unwrap() {
        let path = entry.unwrap().path();
        let list: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let filter = list["allow"]["filter"].as_array().unwrap();
        let calls = filter.iter().map(|rule| rule["syscall"].as_str().unwrap());
        let name = path.file_stem().unwrap().to_str().unwrap();
        let of_helper =
            ["broker", "compiler", "compile-job", "http", "http-job", "kernel-loader", "init", "ee", "ee-network"]
                .contains(&name);
        let unit = if of_helper { &helper } else { &node };
        let refused: Vec<_> = calls.filter(|call| !unit.contains(*call)).collect();
        assert!(refused.is_empty(), "{name}: {refused:?}");
        seen += 1;
    }
    assert!(seen > 10);
    for call in ["seccomp", "landlock_restrict_self", "capset", "prctl"] {
        assert!(node.contains(call) && helper.contains(call), "{call}");
    }
    for call in ["mount", "unshare", "setns", "pivot_root", "bpf", "setresuid"] {
        assert!(helper.contains(call), "{call}");
    }
    assert!(!node.contains("mount") && !node.contains("ptrace") && !helper.contains("init_module"));
}

/// lintian finds no mistake; its warnings are of style.
#[test]
fn lintian_finds_no_mistake_in_the_package() {
    let Some(package) = package() else { return };
    if !is_there("lintian") {
        return skipped("lintian is not here");
    }
    let output = Command::new("lintian").args(["--allow-root", "--fail-on", "error"]).arg(package).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
