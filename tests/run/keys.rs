//! Keys at running nodes. A revocation by `anode cred revoke` acts at once, at neighbours too, and over restarts; ports
//! that demand proofs and signatures let nothing else in.

use crate::wait::{self, PATIENCE};
use anode::code::bundle::{Bundle, Kind};
use anode::manage::client::{Attachment, Control};
use anode::trust::{Credential, CredentialSet, PrincipalKey};
use anode::wire::{Addr, capsule};
use serde_json::Value;
use std::fs::File;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

const ANODE: &str = env!("CARGO_BIN_EXE_anode");

/// Two nodes, neighbours of each other, in a folder that has keys.
pub struct Pair {
    folder: tempfile::TempDir,
    ports: Vec<u16>,
    /// What stands behind the neighbour's address, and at the port, in each one's file.
    pub more: [(String, String); 2],
    nodes: [Option<Child>; 2],
}

impl Pair {
    pub fn new() -> Pair {
        crate::gate::pass();
        let sockets: Vec<_> = (0..2).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
        let ports = sockets.iter().map(|socket| socket.local_addr().unwrap().port()).collect();
        let pair = Pair { folder: tempfile::tempdir().unwrap(), ports, more: Default::default(), nodes: [None, None] };
        for name in ["root.key", "author.key"] {
            pair.anode(&["cred", "new", name]);
        }
        pair.anode(&["cred", "secret", "link.key"]);
        pair.anode(&["cred", "secret", "other.key"]);
        pair
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn dir(&self, at: usize) -> PathBuf {
        self.path(&format!("n{at}"))
    }

    fn addr(at: usize) -> Addr {
        Addr::v4([10, 0, 0, at as u8 + 1])
    }

    fn start(&mut self, at: usize) {
        self.start_with(at, |_| {});
    }

    /// The same by a command that is changed before.
    pub fn start_with(&mut self, at: usize, change: impl FnOnce(&mut Command)) {
        let other = 1 - at;
        let (neighbour, port) = &self.more[at];
        let config = format!(
            "name = \"n{at}\"\nrun_dir = {:?}\nstore = {:?}\n[[port]]\nudp = \"127.0.0.1:{}\"\naddress = [\"{}/24\"]\n{port}\n\
             neighbours = [{{ address = \"{}\", at = \"127.0.0.1:{}\" {neighbour} }}]\n\
             [[role]]\nname = \"guest\"\ntrusts = [\"{}\"]\n",
            self.dir(at),
            self.path(&format!("store{at}")),
            self.ports[at],
            Pair::addr(at),
            Pair::addr(other),
            self.ports[other],
            self.key("root.key").id()
        );
        let file = self.path(&format!("n{at}.toml"));
        std::fs::write(&file, config).unwrap();
        self.anode(&["node", "check", file.to_str().unwrap()]);
        let log = File::create(self.path(&format!("log{at}"))).unwrap();
        let mut command = Command::new(ANODE);
        command.args(["node", "run"]).arg(&file).stderr(log);
        change(&mut command);
        self.nodes[at] = Some(command.spawn().unwrap());
        wait::control(&self.dir(at), self.nodes[at].as_ref(), || self.log(at));
    }

    pub fn kill(&mut self, at: usize) {
        let mut child = self.nodes[at].take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn key(&self, name: &str) -> PrincipalKey {
        PrincipalKey::load(&self.path(name)).unwrap()
    }

    /// Runs a command that must work; what it prints.
    fn anode(&self, arguments: &[&str]) -> String {
        let output = Command::new(ANODE).args(arguments).current_dir(self.folder.path()).output().unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(output.status.success(), "{arguments:?}: {said}");
        said
    }

    fn status(&self, at: usize) -> Value {
        Control::connect(&self.dir(at)).unwrap().status().unwrap()
    }

    fn code(&self, at: usize, bundle: &Bundle) -> Value {
        let status = self.status(at);
        let codes = status["codes"].as_array().unwrap();
        codes.iter().find(|code| code["name"] == bundle.name().to_string()).cloned().unwrap_or(Value::Null)
    }

    /// Lines of a node's log that have this.
    fn logged(&self, at: usize, part: &str) -> usize {
        self.log(at).lines().filter(|line| line.contains(part)).count()
    }

    /// Waits until so many are written, which is a moment after they were said.
    fn await_logged(&self, at: usize, part: &str, count: usize) {
        let enough = |log: &str| Some(log.matches(part).count()).filter(|there| *there >= count);
        assert_eq!(wait::text(&self.path(&format!("log{at}")), self.nodes[at].as_ref(), enough), count, "{part}");
    }

    fn log(&self, at: usize) -> String {
        std::fs::read_to_string(self.path(&format!("log{at}"))).unwrap()
    }

    /// Waits until something is so of which a node's status may tell.
    pub fn until<T>(&self, at: usize, mut look: impl FnMut() -> Option<T>) -> T {
        let _beside = Beside(self, 1 - at);
        wait::told(&self.dir(at), "status", |_| look())
    }

    pub fn dropped(&self, at: usize, reason: &str) -> u64 {
        self.status(at)["drops"][reason].as_u64().unwrap_or(0)
    }

    /// Sends a capsule from the one node to an application of the other; whether it comes.
    pub fn send(&self, from: usize, bundle: &Bundle, comes: bool) -> bool {
        let seat = Attachment::attach(&self.dir(from), 0).unwrap();
        let mut sink = Attachment::attach(&self.dir(1 - from), 0).unwrap();
        let unknown = Addr::UNSPECIFIED;
        let header = capsule::Header {
            app_port: sink.port(),
            bound: 9,
            code: bundle.name(),
            previous: unknown,
            source: unknown,
            destination: Pair::addr(1 - from),
        };
        seat.send(&header, &[0; 16]).unwrap();
        !comes || sink.receive(PATIENCE).unwrap().is_some()
    }
}

/// Who waits in vain for one node wants to know what the other has done.
struct Beside<'a>(&'a Pair, usize);

impl Drop for Beside<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Beside(pair, other) = *self;
            let status = Control::connect(&pair.dir(other)).and_then(|mut control| control.status());
            eprintln!("beside it: {status:?}\n{}", pair.log(other));
        }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for child in self.nodes.iter_mut().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Code that goes to its destination; `number` makes it another one.
pub fn forward(number: u32, key: Option<&PrincipalKey>) -> Bundle {
    let text = format!(
        r#"(module (memory (export "memory") 1024 1024 (pagesize 1)) (global (export "an_arena") i32 (i32.const 0))
            (data (i32.const 600) "{number}")
            (func (export "capsule") (param i32 i32) (result i32) i32.const 1))"#
    );
    let wasm = wat::parse_str(text).unwrap();
    Bundle::build("forward", 0, &[(Kind::Wasm, wasm.into())], key).unwrap()
}

/// With a credential of the root's.
fn granted(pair: &Pair, number: u32, file: &Path) -> Bundle {
    let mut bundle = forward(number, Some(&pair.key("author.key")));
    let credential: Credential = std::fs::read_to_string(file).unwrap().parse().unwrap();
    let credentials = vec![credential.bind(&bundle.name()).unwrap()];
    bundle.add_credentials(CredentialSet { code: bundle.name(), credentials }.encode().into()).unwrap();
    bundle
}

/// Each `anode capsule send` adds its code first.
#[test]
fn code_that_is_added_again_with_the_credentials_that_it_has_runs_on() {
    let mut pair = Pair::new();
    (0..2).for_each(|at| pair.start(at));
    let author = pair.key("author.key").id().to_string();
    for name in ["one.cred", "two.cred"] {
        pair.anode(&["cred", "grant", "--root", "root.key", "--to", &author, "--role", "guest", "-o", name]);
    }
    let one = granted(&pair, 1, &pair.path("one.cred"));
    for _ in 0..5 {
        Control::connect(&pair.dir(0)).unwrap().add_code(&one).unwrap();
        assert!(pair.send(0, &one, true));
    }
    let code = pair.code(0, &one);
    assert_eq!(
        (&code["role"], &code["usage"]["packets"]),
        (&"guest".into(), &5.into()),
        "it keeps its account: {code}"
    );
    pair.await_logged(0, "code ready", 1);
    // Another credential may give it more.
    let other = granted(&pair, 1, &pair.path("two.cred"));
    Control::connect(&pair.dir(0)).unwrap().add_code(&other).unwrap();
    assert!(pair.send(0, &other, true));
    assert_eq!(pair.code(0, &one)["usage"]["packets"], 1);
    pair.await_logged(0, "code ready", 2);
}

#[test]
fn what_is_revoked_ends_here_before_the_answer_and_at_neighbours_soon_and_stays_so() {
    let mut pair = Pair::new();
    (0..2).for_each(|at| pair.start(at));
    let author = pair.key("author.key").id().to_string();
    for name in ["one.cred", "two.cred"] {
        pair.anode(&["cred", "grant", "--root", "root.key", "--to", &author, "--role", "guest", "-o", name]);
    }
    let (one, two) = (granted(&pair, 1, &pair.path("one.cred")), granted(&pair, 2, &pair.path("two.cred")));
    let plain = forward(3, None);
    for bundle in [&one, &two, &plain] {
        Control::connect(&pair.dir(0)).unwrap().add_code(bundle).unwrap();
        assert!(pair.send(0, bundle, true));
    }
    assert_eq!(pair.code(0, &one)["role"], "guest");
    let node = &pair.dir(0).to_str().unwrap().to_owned();
    // The one credential: the other one's code runs on.
    let said = pair.anode(&["cred", "revoke", "--token", "one.cred", "--key", "root.key", "--node", node, "--json"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&said["codes"], &said["told"], &said["remembered"]), (&1.into(), &1.into(), &true.into()));
    assert_eq!(pair.code(0, &one), Value::Null, "gone when the command is");
    assert_eq!(pair.code(0, &two)["role"], "guest");
    pair.until(1, || pair.code(1, &one).is_null().then_some(()));
    assert!(pair.send(0, &one, true), "as anyone's it still may");
    for at in [0, 1] {
        let code = pair.code(at, &one);
        assert_eq!(code["role"], "anyone");
        assert!(code["credential_refused"].as_str().unwrap().contains("was revoked by ed25519:"), "{code}");
    }
    // The author himself, by his own key; nobody's code by the operator, who needs none.
    pair.anode(&["cred", "revoke", "--principal", &author, "--key", "author.key", "--node", node]);
    assert_eq!(
        (pair.code(0, &two)["state"].as_str(), pair.code(0, &one)["state"].as_str()),
        (Some("refused"), Some("refused"))
    );
    pair.until(1, || (pair.code(1, &two)["state"] == "refused").then_some(()));
    let name = plain.name().to_string();
    pair.anode(&["cred", "revoke", "--code", &name, "--node", node]);
    assert_eq!(pair.code(0, &plain)["state"], "refused");
    assert_eq!(pair.code(1, &plain)["state"], "ready", "an operator's word counts at his node");
    // Killed and started again, both remember.
    for at in [0, 1] {
        pair.kill(at);
        pair.start(at);
    }
    for bundle in [&two, &plain] {
        pair.send(0, bundle, false);
        let code = pair.until(0, || Some(pair.code(0, bundle)).filter(|code| code["state"] == "refused"));
        assert!(code["why"].as_str().unwrap().contains("was revoked by"), "{code}");
    }
    pair.until(1, || (pair.status(1)["revocations"]["known"] == 2).then_some(()));
    // What is wrong is said.
    for (arguments, part) in [
        (&["cred", "revoke", "--node", node][..], "--token"),
        (&["cred", "revoke", "--code", &name, "--principal", &author, "--node", node][..], "cannot be used with"),
    ] {
        let output = Command::new(ANODE).args(arguments).current_dir(pair.folder.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(part), "{said}");
    }
    let mut control = Control::connect(&pair.dir(0)).unwrap();
    for ask in [
        serde_json::json!({"do": "revoke", "message": "00"}),
        serde_json::json!({"do": "revoke", "message": "01030000".to_owned() + &"00".repeat(136)}),
        serde_json::json!({"do": "revoke", "what": "code", "name": "x"}),
        serde_json::json!({"do": "revoke", "what": "world", "name": name}),
    ] {
        assert!(control.ask(&ask).is_err(), "{ask}");
    }
}

#[test]
fn what_is_revoked_shows_in_the_store_and_who_has_issued_nothing_is_told_so() {
    let mut pair = Pair::new();
    (0..2).for_each(|at| pair.start(at));
    let author = pair.key("author.key").id().to_string();
    let (two, plain, other) = (forward(2, Some(&pair.key("author.key"))), forward(3, None), forward(4, None));
    let node = pair.dir(0);
    let node = node.to_str().unwrap();
    let revoke = |what: [&str; 2], key: &[&str]| {
        pair.anode(&[&["cred", "revoke", what[0], what[1], "--node", node][..], key].concat())
    };
    revoke(["--principal", &author], &["--key", "author.key"]);
    revoke(["--code", &plain.name().to_string()], &[]);
    let listed = pair.anode(&["cred", "revoked", node]);
    for part in [
        format!("principal {author} by {author}, and by the operator, 20"),
        format!("code {} by the operator, 20", plain.name()),
    ] {
        assert!(listed.contains(&part), "{part}: {listed}");
    }
    // By files alone it is seen too.
    std::fs::write(pair.path("two.anb"), two.write()).unwrap();
    std::fs::write(pair.path("plain.anb"), plain.write()).unwrap();
    let store = pair.path("store0");
    let store = store.to_str().unwrap();
    assert!(pair.anode(&["cred", "revoked", store]).contains("line 2: code "), "{store}");
    for file in ["two.anb", "plain.anb"] {
        let said = pair.anode(&["code", "check", "--no-lint", file, "--node", "n0.toml"]);
        assert!(said.contains("was revoked by") && said.contains("2 known"), "{said}");
        let add =
            Command::new(ANODE).args(["code", "add", file, "--store", store]).current_dir(pair.folder.path()).output();
        let said = String::from_utf8(add.unwrap().stderr).unwrap();
        assert!(said.contains("was revoked by") && said.contains("nodes with this store refuse it"), "{said}");
    }
    // Who has issued nothing of it is told that others will not obey.
    Control::connect(&pair.dir(0)).unwrap().add_code(&other).unwrap();
    assert!(pair.send(0, &other, true));
    let said =
        pair.anode(&["cred", "revoke", "--code", &other.name().to_string(), "--key", "author.key", "--node", node]);
    assert!(said.contains("has neither signed nor issued this; neighbours will ignore it"), "{said}");
    let why = pair.code(0, &other)["why"].as_str().unwrap().to_owned();
    assert!(why.ends_with("was revoked by this node's operator"), "{why}");
    assert_eq!(pair.code(1, &other)["state"], "ready");
    let said = pair.anode(&[
        "cred",
        "revoke",
        "--code",
        &forward(5, None).name().to_string(),
        "--key",
        "author.key",
        "--node",
        node,
    ]);
    assert!(said.contains("nothing here shows that"), "{said}");
}

#[test]
fn a_port_that_demands_proofs_and_signatures_lets_nothing_else_in() {
    let mut pair = Pair::new();
    let keys = |pair: &Pair, name: &str| format!(", keys = [{:?}]", pair.path(name));
    pair.more[0] = (keys(&pair, "link.key"), String::new());
    pair.more[1] = (keys(&pair, "link.key"), "demand = [\"mac\", \"signed-code\", \"signed-plan\"]".into());
    pair.start(0);
    pair.start(1);
    let check = pair.anode(&["node", "check", "n1.toml"]);
    assert!(
        check.contains("demands mac, signed-code, signed-plan") && check.contains("proves what it sends; key "),
        "{check}"
    );
    let number = |name: &str| std::fs::read_to_string(pair.path(name)).unwrap().split(' ').nth(1).unwrap().to_owned();
    let numbers = [number("link.key"), number("other.key")];
    assert!(check.contains(&format!("key {}", numbers[0])), "{check}");
    let shown = pair.anode(&["node", "status", pair.dir(1).to_str().unwrap()]);
    for part in [
        "bound 4096, signed 4096; demands mac, signed-code, signed-plan",
        &format!("proves what it sends; key {}", numbers[0]),
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let (signed, unsigned) = (forward(1, Some(&pair.key("author.key"))), forward(2, None));
    for bundle in [&signed, &unsigned] {
        Control::connect(&pair.dir(0)).unwrap().add_code(bundle).unwrap();
    }
    assert!(pair.send(0, &signed, true));
    pair.send(0, &unsigned, false);
    pair.until(1, || (pair.dropped(1, "unsigned") == 1).then_some(()));
    assert_eq!(pair.code(1, &unsigned), Value::Null, "nothing was prepared for it");
    std::fs::write(pair.path("hello.plan"), "fun hello() : unit = print(\"here\")\n").unwrap();
    let to = Pair::addr(1).to_string();
    let node = pair.dir(0);
    let mut inject = Command::new(ANODE);
    inject
        .args(["plan", "inject", "hello.plan", "9", "hello()", "--eval-dest", &to, "--replies", "0", "--node"])
        .arg(node);
    inject.current_dir(pair.folder.path());
    assert!(inject.output().unwrap().status.success());
    pair.until(1, || (pair.dropped(1, "unsigned") == 2).then_some(()));
    inject.args(["--sign", "root.key"]);
    assert!(inject.output().unwrap().status.success());
    pair.until(1, || (pair.status(1)["plan"]["evaluated"].as_u64() >= Some(1)).then_some(()));
    assert_eq!(pair.dropped(1, "unsigned"), 2);
    // Another key, then none.
    pair.kill(0);
    pair.more[0] = (keys(&pair, "other.key"), String::new());
    pair.start(0);
    pair.send(0, &signed, false);
    pair.until(1, || (pair.dropped(1, "unauthenticated") >= 1).then_some(()));
    let unknown = format!("neighbour 10.0.0.1: key {} is not one of port", numbers[1]);
    pair.until(1, || (pair.logged(1, &unknown) == 1).then_some(()));
    let before = pair.dropped(1, "unauthenticated");
    pair.kill(0);
    pair.more[0] = Default::default();
    pair.start(0);
    pair.send(0, &signed, false);
    pair.until(1, || (pair.dropped(1, "unauthenticated") > before).then_some(()));
    assert_eq!(pair.logged(1, &unknown), 1, "once a source");
    pair.until(1, || (pair.logged(1, "what it sends has no proof, which port") == 1).then_some(()));
    assert_eq!(pair.dropped(1, "mac-forged") + pair.dropped(1, "mac-replayed"), 0);
}

#[test]
fn an_unknown_key_where_none_is_demanded_is_nobodys_and_is_counted_and_said() {
    let mut pair = Pair::new();
    let keys = |pair: &Pair, name: &str| format!(", keys = [{:?}]", pair.path(name));
    pair.more[0] = (keys(&pair, "other.key"), String::new());
    pair.more[1] = (keys(&pair, "link.key"), String::new());
    (0..2).for_each(|at| pair.start(at));
    let code = forward(1, None);
    Control::connect(&pair.dir(0)).unwrap().add_code(&code).unwrap();
    assert!(pair.send(0, &code, true));
    pair.await_logged(1, "neighbour 10.0.0.1: key ", 1);
    assert!(pair.status(1)["ports"][0]["unknown_keys"].as_u64() > Some(0));
    let shown = pair.anode(&["node", "status", pair.dir(1).to_str().unwrap()]);
    assert!(
        shown.contains("may prove what it sends (not demanded); key ") && shown.contains("does not know"),
        "{shown}"
    );
}

#[test]
fn a_revoked_key_or_token_is_no_signature_where_one_is_demanded() {
    let mut pair = Pair::new();
    pair.more[1].1 = "demand = [\"signed-code\", \"signed-plan\"]".into();
    (0..2).for_each(|at| pair.start(at));
    let author = pair.key("author.key").id().to_string();
    pair.anode(&["cred", "grant", "--root", "root.key", "--to", &author, "--role", "guest", "-o", "one.cred"]);
    let (bare, with) = (forward(1, Some(&pair.key("author.key"))), granted(&pair, 2, &pair.path("one.cred")));
    for bundle in [&bare, &with] {
        Control::connect(&pair.dir(0)).unwrap().add_code(bundle).unwrap();
        assert!(pair.send(0, bundle, true), "any key will do");
    }
    let there = pair.dir(1);
    let there = there.to_str().unwrap().to_owned();
    let said = pair.anode(&["cred", "revoke", "--token", "one.cred", "--key", "root.key", "--node", &there]);
    assert!(!said.contains("note:"), "{said}");
    pair.until(0, || (pair.status(0)["revocations"]["known"] == 1).then_some(()));
    pair.send(0, &with, false);
    pair.until(1, || (pair.dropped(1, "unsigned") == 1).then_some(()));
    assert!(pair.send(0, &bare, true), "his other code is signed all the same");
    std::fs::write(pair.path("hello.plan"), "fun hello() : unit = print(\"here\")\n").unwrap();
    let (to, node) = (Pair::addr(1).to_string(), pair.dir(0));
    let folder = pair.folder.path().to_owned();
    let inject = |key: &str| {
        let mut inject = Command::new(ANODE);
        inject.args([
            "plan",
            "inject",
            "hello.plan",
            "9",
            "hello()",
            "--eval-dest",
            &to,
            "--replies",
            "0",
            "--sign",
            key,
        ]);
        assert!(inject.arg("--node").arg(&node).current_dir(&folder).output().unwrap().status.success());
    };
    inject("author.key");
    let refused = || Control::connect(&pair.dir(1)).unwrap().ask(&serde_json::json!({"do": "domains"})).unwrap();
    pair.until(0, || (refused()["security"]["packets_refused"] == 1).then_some(()));
    // The root's word as neighbours have it, who would let his code run for anyone.
    let said = pair.anode(&["cred", "revoke", "--principal", &author, "--key", "root.key", "--node", &there]);
    assert!(!said.contains("note:"), "{said}");
    let words = std::fs::read_to_string(pair.path("store1/revoked")).unwrap().replace("operator ", "key ");
    for at in [0, 1] {
        pair.kill(at);
        std::fs::write(pair.path(&format!("store{at}/revoked")), &words).unwrap();
        pair.start(at);
        assert_eq!(pair.status(at)["revocations"]["known"], 2);
    }
    pair.send(0, &bare, false);
    pair.until(1, || (pair.dropped(1, "unsigned") == 1).then_some(()));
    assert_eq!(
        (&pair.code(0, &bare)["role"], &pair.code(0, &bare)["signer_revoked"]),
        (&"anyone".into(), &true.into())
    );
    inject("author.key");
    pair.until(1, || (pair.dropped(1, "unsigned") == 2).then_some(()));
    inject("root.key");
    pair.until(1, || (pair.status(1)["plan"]["evaluated"].as_u64() >= Some(1)).then_some(()));
}
