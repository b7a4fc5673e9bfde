//! PLAN programs look at graphs of their role and change them: by signed packets, within what the role grants.

use crate::running::{ANODE, PATIENCE};
use crate::wait;
use anode::apps::plan::{Script, packet};
use anode::ee::plan::signed;
use anode::manage::client::Control;
use anode::manage::client::plan::{PlanPort, Told};
use anode::trust::PrincipalKey;
use plan::value::{Chunk, Host, Value};
use serde_json::Value as Json;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

/// Who may change the graph `path`, who the slow one, who has the services and no graphs, and who has nothing.
const PLUMBER: u8 = 1;
const SLOW: u8 = 2;
const BARE: u8 = 3;
const GUEST: u8 = 4;

/// What a graph is at first.
const TEXT: &str = "s :: TimedSource(1) -> c :: Counter -> d :: Discard;";

/// Each says what came of a call, or why it was refused.
const SOURCE: &str = r#"
svc graphEdit : (string, string, string, string, int) -> int
svc graphApply : (string, string, int) -> int
svc graphRead : (string, string) -> string
svc graphWrite : (string, string, string) -> unit
svc graphShow : string -> string * int
svc graphWhy : void -> string
fun edit(g : string, disconnect : string, remove : string, connect : string, base : int) : unit =
  try print(graphEdit(g, disconnect, remove, connect, base)) handle E => print((E, graphWhy()))
fun apply(g : string, text : string, base : int) : unit =
  try print(graphApply(g, text, base)) handle E => print((E, graphWhy()))
fun read(g : string, handler : string) : unit =
  try print(graphRead(g, handler)) handle E => print((E, graphWhy()))
fun write(g : string, handler : string, value : string) : unit =
  try print(graphWrite(g, handler, value)) handle E => print((E, graphWhy()))
fun show(g : string) : unit = try print(graphShow(g)) handle E => print((E, graphWhy()))
fun next(base : int, t : string) : int = graphApply("path", t, base)
fun chain(base : int, texts : string list) : unit =
  try print(foldl(next, base, texts)) handle E => print((E, graphWhy()))
fun count(sum : int, g : string) : int = (graphRead(g, "c.count"); sum + 1)
fun reads(graphs : string list) : unit =
  try print(foldl(count, 0, graphs)) handle E => print((E, graphWhy()))
fun dice(g : string) : unit =
  try print(graphApply(g, "", 2 + rand() andi 16777215)) handle E => print((E, graphWhy()))
fun twice(g : string) : unit =
  let val first = try graphEdit(g, "x -> y", "", "", 0) handle E => 0 in
    (graphRead(g, "c.count"); print((first, graphWhy())))
  end
"#;

fn key(seed: u8) -> PrincipalKey {
    PrincipalKey::from_seed([seed; 32])
}

/// A node with graphs, and a port at it.
struct Node {
    folder: tempfile::TempDir,
    child: Child,
    port: PlanPort,
    script: Script,
}

impl Node {
    fn start() -> Node {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("run");
        let role = |name: &str, who: u8, services: &str, more: &str| {
            format!("[[role]]\nname = \"{name}\"\ntrusts = [\"{}\"]\nservices = [{services}]\n{more}\n", key(who).id())
        };
        let all = "\"graphEdit\", \"graphApply\", \"graphRead\", \"graphWrite\", \"graphShow\"";
        let grants = "grants = { bandwidth = 1_000_000, memory_bytes = 16_777_216 }";
        let config = format!(
            "name = \"plumbed\"\nrun_dir = {dir:?}\n[[port]]\nname = \"wan\"\nudp = \"127.0.0.1:0\"\naddress = [\"10.9.1.1/24\"]\n\
             {}{}{}{}\
             [[graph]]\nname = \"path\"\nrole = \"plumber\"\ntext = {TEXT:?}\n\
             [[graph]]\nname = \"slow\"\nrole = \"slow\"\ntext = {TEXT:?}\n\
             [[graph]]\nname = \"bare\"\nrole = \"bare\"\ntext = {TEXT:?}\n",
            role(
                "plumber",
                PLUMBER,
                all,
                &format!("{grants}\ngraphs = {{ edits_per_second = 1000, engines = 8, text_bytes = 400 }}")
            ),
            role("slow", SLOW, all, &format!("{grants}\ngraphs = {{ edits_per_second = 1 }}")),
            role("bare", BARE, all, grants),
            role("guest", GUEST, "\"graphShow\"", "graphs = { edits_per_second = 10 }"),
        );
        let file = folder.path().join("node.toml");
        std::fs::write(&file, config).unwrap();
        let child = Command::new(ANODE).args(["node", "run"]).arg(&file).stderr(Stdio::null()).spawn().unwrap();
        wait::control(&dir, Some(&child), || "the node".into());
        let port = PlanPort::attach(&dir, 0).unwrap();
        Node { folder, child, port, script: Script::new("graphs", SOURCE).unwrap() }
    }

    fn dir(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    /// What a call in somebody's name prints.
    fn call(&mut self, who: Option<u8>, function: &str, arguments: &[Value]) -> String {
        let mut chunk = self.script.chunk(function, arguments).unwrap();
        if let Some(who) = who {
            chunk = by(who, &chunk);
        }
        self.port.inject(&packet(chunk, 4).bytes().unwrap()).unwrap();
        match self.port.receive(PATIENCE).unwrap() {
            Some(Told::Printed(text)) => text,
            other => panic!("{function}: {other:?}"),
        }
    }

    /// An edit of a graph, on any generation.
    fn edit(&mut self, who: u8, graph: &str, texts: [&str; 3], base: i64) -> String {
        let [disconnect, remove, connect] = texts.map(text);
        self.call(Some(who), "edit", &[text(graph), disconnect, remove, connect, Value::Int(base)])
    }

    fn show(&mut self) -> String {
        self.call(Some(PLUMBER), "show", &[text("path")])
    }

    /// The graph `path`, as operators see it.
    fn graph(&self) -> Json {
        let shown = Command::new(ANODE).args(["graph", "show", "--json"]).arg(self.dir()).arg("path").output().unwrap();
        let shown: Json = serde_json::from_slice(&shown.stdout).unwrap();
        shown["graph"].clone()
    }

    fn status(&self) -> Json {
        crate::running::accounted(Control::connect(&self.dir()).unwrap().status().unwrap())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(text: &str) -> Value {
    Value::text(text.as_bytes())
}

fn list(texts: &[&str]) -> Value {
    Value::list(texts.iter().map(|it| text(it))).unwrap()
}

fn by(who: u8, chunk: &Arc<Chunk>) -> Arc<Chunk> {
    let now = anode::sys::clock::unix_ns();
    Arc::new(signed(&key(who), None, now, Host::v4([10, 9, 1, 1]), chunk).unwrap())
}

#[test]
fn a_program_changes_a_graph_of_its_role_and_goes_on_with_what_came_of_it() {
    let mut node = Node::start();
    assert_eq!(node.edit(PLUMBER, "path", ["c -> d", "", "c -> n :: Null -> d"], 0), "2");
    assert!(node.show().contains("n :: Null"), "{}", node.show());
    assert_eq!(node.call(Some(PLUMBER), "read", &[text("path"), text("n.class")]), "Null");
    assert_eq!(node.call(Some(PLUMBER), "write", &[text("path"), text("c.reset"), text("")]), "()");
    assert_eq!(node.call(Some(PLUMBER), "apply", &[text("path"), text(TEXT), Value::Int(2)]), "3");
    // Four changes by one packet, which begins anew for each: none is done twice, and each is of the generation before.
    let texts = list(&[TEXT; 4]);
    assert_eq!(node.call(Some(PLUMBER), "chain", &[Value::Int(3), texts]), "7");
    assert_eq!(node.call(Some(PLUMBER), "reads", &[list(&["path"; 16])]), "16");
    let status = node.status();
    let calls = &status["graph_calls"];
    assert_eq!((&calls["done"], &calls["later"], &calls["refused"]), (&7.into(), &0.into(), &0.into()), "{calls}");
    assert_eq!(node.graph()["edited"], 6, "what is written is counted elsewhere");
}

#[test]
fn what_a_role_does_not_say_a_program_cannot_do_and_the_graph_stays() {
    let mut node = Node::start();
    let before = node.show();
    for who in [None, Some(GUEST)] {
        let said = node.call(who, "read", &[text("path"), text("c.count")]);
        assert!(said.starts_with("(ServiceNotPresent"), "{said}");
    }
    let refused = |said: String, exception: &str, why: &str| {
        assert!(said.starts_with(&format!("({exception}, ")) && said.contains(why), "{said}: {exception} {why}");
    };
    refused(node.call(Some(GUEST), "show", &[text("path")]), "NotFound", "no graph path runs in the role guest");
    refused(node.call(Some(BARE), "show", &[text("bare")]), "Refused", "[role.graphs] edits_per_second");
    refused(node.call(Some(PLUMBER), "show", &[text("bare")]), "NotFound", "no graph bare runs in the role plumber");
    let long = format!("c -> {}d", "Null -> ".repeat(6));
    for (texts, exception, why) in [
        (["c -> d", "", "c -> Nul -> d"], "BadGraph", "Nul"),
        (["c -> d", "", ""], "BadGraph", "path:"),
        (["d -> c", "", ""], "BadGraph", "is no connection of the graph"),
        (["c -> d", "", &long], "TooBig", "9 engines are more than the role plumber has, 8 (graphs.engines)"),
        (["c -> d", "d", "c -> Queue -> ToDevice(wan)"], "Refused", "leads to no device wan (graphs.devices)"),
    ] {
        refused(node.edit(PLUMBER, "path", texts, 0), exception, why);
    }
    refused(node.edit(PLUMBER, "path", ["c -> d", "", "c -> Null -> d"], 2), "Changed", "");
    refused(node.edit(PLUMBER, "path", ["", "", ""], -1), "BadGraph", "a base is the number of a generation");
    let longer = format!("{TEXT}{}", " ".repeat(400));
    refused(
        node.call(Some(PLUMBER), "apply", &[text("path"), text(&longer), Value::Int(0)]),
        "TooBig",
        "graphs.text_bytes",
    );
    refused(node.call(Some(PLUMBER), "read", &[text("path"), text("x.count")]), "BadGraph", "x");
    refused(node.call(Some(PLUMBER), "reads", &[list(&["path"; 17])]), "TooBig", "more calls about graphs");
    refused(node.call(Some(PLUMBER), "dice", &[text("path")]), "Refused", "something else before it waited");
    let said = node.call(Some(PLUMBER), "twice", &[text("path")]);
    assert!(said.starts_with("(0, ") && said.contains("x -> y"), "why is of the last refusal: {said}");
    assert_eq!(node.show(), before, "the graph is as it was");
    assert_eq!((node.graph()["generation"].clone(), node.graph()["edited"].clone()), (1.into(), 0.into()));
    let calls = &node.status()["graph_calls"];
    assert_eq!(
        (&calls["done"], &calls["later"], &calls["refused"]),
        (&0.into(), &0.into(), &8.into()),
        "{calls}: the text that is too long is refused before it is asked"
    );
}

#[test]
fn changes_of_a_role_have_a_rate() {
    let mut node = Node::start();
    let arguments = |base| [text("slow"), text(TEXT), Value::Int(base)];
    assert_eq!(node.call(Some(SLOW), "apply", &arguments(0)), "2");
    // A second may be over at any time; ten changes in a row take less than nine.
    let said: Vec<_> = (0..10).map(|_| node.call(Some(SLOW), "apply", &arguments(0))).collect();
    let later = said.iter().filter(|said| said.starts_with("(TooOften") && said.contains("1 times a second")).count();
    assert!(later > 0, "{said:?}");
    assert_eq!(node.status()["graph_calls"]["later"], later);
}
