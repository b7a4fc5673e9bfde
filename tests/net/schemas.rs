//! What commands print with `--json` is as `anode schema` says: those that send capsules, make labs, read files. What is said of a busy
//! node alone is held against its schemas in `tests/run`.

use crate::held::{Held, of_commands};
use crate::running::{ANODE, LINE, Running, guest};
use crate::wait;
use anode::code::bundle::{Bundle, Kind};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The far end.
const B: &str = "10.0.2.2";

/// A folder with files, and what was held so far.
struct Desk {
    folder: tempfile::TempDir,
    held: Held,
}

impl Desk {
    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// Whatever the exit status is, what a command prints is as the schema of this name says.
    #[track_caller]
    fn of(&mut self, name: &'static str, words: &[&str]) -> Value {
        let output = Command::new(ANODE).args(words).arg("--json").current_dir(self.folder.path()).output().unwrap();
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.stdout.is_empty(), "{words:?}: {why}");
        self.held.check(name, &output.stdout)
    }
}

fn of_the_repository(path: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path).display().to_string()
}

/// Code, the store, keys and credentials.
fn hold_code(desk: &mut Desk) {
    let (file, store) = (desk.path("ping.anb"), desk.path("store"));
    let (file, store) = (file.as_str(), store.as_str());
    let built = desk.of("bundle", &["code", "build", &of_the_repository("apps/ping.c"), "--output", file]);
    let checked = desk.of("bundle-checked", &["code", "check", file]);
    assert_eq!(checked["kernel_half"]["runs"], true, "{checked}");
    let wrong = Bundle::build("wrong", 0, &[(Kind::Wasm, b"no module".to_vec().into())], None).unwrap();
    let wrong = desk.write("wrong.anb", wrong.write());
    let refused = desk.of("bundle-checked", &["code", "check", &wrong]);
    assert_eq!(refused["checked"], false, "{refused}");
    desk.of("code", &["code", "add", file, "--store", store]);
    let listed = desk.of("store", &["code", "ls", "--store", store]);
    for entry in listed.as_array().unwrap() {
        desk.of("bundle-shown", &["code", "show", entry["name"].as_str().unwrap(), "--store", store]);
    }
    desk.of("code", &["code", "rm", built["name"].as_str().unwrap(), "--store", store]);
    desk.of("sdk-path", &["code", "sdk-path"]);
    let (key, secret, token) = (desk.path("key"), desk.path("secret"), desk.path("token"));
    let principal = desk.of("key", &["cred", "new", &key])["principal"].clone();
    desk.of("secret", &["cred", "secret", &secret]);
    let to = principal.as_str().unwrap();
    desk.of("credential", &["cred", "grant", "--root", &key, "--to", to, "--role", "guests", "--output", &token]);
    for file in [&key, &secret, &token] {
        desk.of("credential-file", &["cred", "inspect", file]);
    }
}

/// PLAN programs, rules, and a configuration.
fn hold_files(desk: &mut Desk) {
    let (right, wrong) = (
        desk.write("right.plan", "fun next(n : int) : int = n + 1\nfun hi() : unit = print(\"hi\")\n"),
        desk.write("wrong.plan", "fun next(n : int) : int = m + \"x\"\n"),
    );
    let checked = desk.of("plan-checked", &["plan", "check", &right, &wrong]);
    assert!(checked[1]["diagnostics"][0]["message"].is_string(), "{checked}");
    assert_eq!(desk.of("plan-ran", &["plan", "run", &right, "next(1)"])["value"], "2");
    assert_eq!(desk.of("plan-ran", &["plan", "run", &right, "1 / 0"])["outcome"], "exception");
    let rules = desk.write("rules", "udp port 7\ntcp\n");
    desk.of("rules", &["classify", "check", "--rules", &rules]);
    let frame = "0200000000010200000000020800 4500001c0000400040 1126cf0a0000010a000002 0007000700080000";
    let explained = desk.of("frame", &["classify", "explain", frame, "--rules", &rules]);
    assert!(explained["headers"].as_array().is_some_and(|headers| headers.len() > 1), "{explained}");
    let file = desk.write(
        "m.toml",
        "name = \"m\"\nrun_dir = \"run\"\n[[port]]\nname = \"west\"\nudp = \"127.0.0.1:0\"\naddress = [\"10.8.0.1/24\"]\n\
         neighbours = [{ address = \"10.8.0.2\", at = \"127.0.0.1:4002\" }]\n[[route]]\nto = \"10.9.0.0/16\"\nvia = \"10.8.0.2\"\n\
         [[role]]\nname = \"guests\"\n",
    );
    let meaning = desk.of("configuration", &["node", "check", &file]);
    assert_eq!(meaning["routes"][0]["via"], "10.8.0.2", "{meaning}");
    desk.of("demo", &["demo", "--simulated"]);
}

/// Simulations, and stories of theirs.
fn hold_simulations(desk: &mut Desk) {
    let (file, history) = (of_the_repository("examples/sim/trouble.toml"), desk.path("history"));
    let simulated = desk.of("simulated", &["sim", "run", &file, "--seed", "7", "--trace", &history]);
    let totals = &simulated["result"]["totals"];
    assert!(totals["delivered"].as_u64() > Some(0) && totals["lost"]["link"].as_u64() > Some(0), "{simulated}");
    let codes = simulated["result"]["codes"].as_object().unwrap();
    assert!(codes.values().any(|code| code["usage"]["packets"].as_u64() > Some(0)), "{simulated}");
    // A line of it for each kind of event that it has.
    let lines = fs::read_to_string(&history).unwrap();
    let kind = |line: &str| serde_json::from_str::<Value>(line).unwrap()["event"].as_str().unwrap().to_owned();
    let one_each: BTreeMap<String, &str> = lines.lines().map(|line| (kind(line), line)).collect();
    assert!(one_each.len() > 12, "{one_each:?}");
    one_each.values().for_each(|line| _ = desk.held.check("story-line", line.as_bytes()));
    let told = desk.of("story-line", &["sim", "explain", "1", "--trace", &history]);
    assert_eq!((&told["event"], &told["packet"]), (&json!("injected"), &json!(1)), "{told}");
}

/// The story of a ping over all nodes.
fn hold_story(desk: &mut Desk, net: &Running) {
    let mut command = Command::new(ANODE);
    command.args(["packet", "explain", "--json", "--lab", &net.lab.topology().name, &format!("host={B}")]);
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(process.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(line.starts_with("following at"), "{line}");
    net.ping("a", B, 1);
    desk.held.check("story-line", &all_of(process));
}

/// A lab of its own, with a link that has a delay.
fn hold_labs(desk: &mut Desk, of: &str) {
    let name = format!("sch{}", std::process::id());
    let text = format!(
        "name = \"{name}\"\nnodes.a.active = true\nnodes.b = {{}}\nnodes.a.anode.name = \"x\"\n[[links]]\nends = [\"a\", \"b\"]\n\
         prefixes = [\"10.0.1.0/24\"]\ndelay_ms = 1\n"
    );
    let file = desk.write("lab.toml", text);
    desk.of("lab-nodes", &["lab", "check", &file]);
    desk.of("lab-up", &["lab", "up", &file]);
    let links = desk.of("lab-links", &["lab", "status", &name]);
    let down = desk.of("lab-down", &["lab", "down", &name]);
    assert_eq!(
        (links["links"].as_array().map(Vec::len), down["down"]["left"][0].clone()),
        (Some(2), Value::Null),
        "{links} {down}"
    );
    desk.of("labs", &["lab", "ls"]);
    desk.of("lab-nodes", &["lab", "ls", of]);
    desk.of("lab-graph", &["lab", "graph", of]);
    desk.of("lab-log", &["lab", "logs", of]);
}

/// A command that waits for something at node b; how it begins is awaited by its application port there.
fn waiting(net: &Running, words: &[&str], port: u16) -> Child {
    let mut command = Command::new(ANODE);
    command.args(words).args(["--json", "--node"]).arg(net.dir("b")).stdout(Stdio::piped());
    let process = command.spawn().unwrap();
    if port > 0 {
        net.await_status("b", |status| status["applications"].as_array().unwrap().contains(&json!(port)));
    }
    process
}

fn all_of(mut process: Child) -> Vec<u8> {
    let mut text = Vec::new();
    process.stdout.take().unwrap().read_to_end(&mut text).unwrap();
    process.wait().unwrap();
    text
}

/// Capsules from a to b.
fn hold_capsules(desk: &mut Desk, net: &Running) {
    let a = net.dir("a").display().to_string();
    let at = ["--node", a.as_str()];
    let pinged = desk.of("ping", &[&["ping", B, "-c", "2", "-i", "0.01"], &at[..]].concat());
    assert_eq!(pinged["summary"]["received"], 2, "{pinged}");
    desk.of("trace", &[&["trace", B], &at[..]].concat());
    let served = waiting(net, &["cache", "serve", "--for", "20"], 3322);
    for words in [&["cache", "get", B, "none"][..], &["cache", "put", B, "key", "value"], &["cache", "get", B, "key"]] {
        desk.of("cache", &[words, &at[..]].concat());
    }
    desk.of("cache-compared", &[&["cache", "bench", B, "--requests", "20", "--keys", "4"], &at[..]].concat());
    desk.of("heavy-sent", &[&["heavy", "send", B, "--count", "3"], &at[..]].concat());
    desk.of("heavy", &[&["heavy", "top", B], &at[..]].concat());
    let listening = waiting(net, &["capsule", "listen", "7", "--count", "1"], 7);
    let forward = desk.write("forward.anb", guest("forward").write());
    let send = ["capsule", "send", &forward, B, "--app-port", "7", "--answers", "0", "--size", "16"];
    desk.of("capsule", &[&send[..], &at].concat());
    let arrived = desk.held.check("capsule", &all_of(listening));
    assert_eq!(arrived["app_port"], 7, "{arrived}");
    let mut listening = waiting(net, &["multicast", "listen", "10.0.1.1", "5", "--count", "1"], 0);
    let mut lines = BufReader::new(listening.stdout.take().unwrap());
    let mut text = String::new();
    lines.read_line(&mut text).unwrap();
    // What joins may still be on its way to the root, which drops what nobody listens to.
    let send = [&["multicast", "send", "5", "hello", "--root", "10.0.1.1"], &at[..]].concat();
    wait::ended_by(&mut listening, || drop(desk.of("multicast-sent", &send)));
    lines.read_to_string(&mut text).unwrap();
    desk.held.check("multicast", text.as_bytes());
    let program = desk.path("right.plan");
    let said = desk.of("plan-line", &[&["plan", "inject", &program, "5", "hi()", "--replies", "1"], &at[..]].concat());
    assert_eq!(said["reply"], "printed", "{said}");
    desk.held.check("cache-served", &all_of(served));
}

#[test]
fn what_commands_print_as_json_is_as_its_schema_says() {
    let Some(net) = Running::up("schemas", LINE) else { return };
    let mut desk = Desk { folder: tempfile::tempdir().unwrap(), held: Held::default() };
    hold_code(&mut desk);
    hold_files(&mut desk);
    hold_simulations(&mut desk);
    hold_story(&mut desk, &net);
    hold_labs(&mut desk, &net.lab.topology().name);
    hold_capsules(&mut desk, &net);
    desk.of("nodes", &["node", "ls"]);
    // A node says that too.
    desk.held.0.remove("code");
    assert_eq!(desk.held.0, of_commands(), "something was held against each schema");
}
