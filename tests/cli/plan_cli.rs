//! `anode plan`: exit status, output, and files that are left alone unless they should change; on a node of its own,
//! what comes back of a call.

use serde_json::Value;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

fn plan(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anode"));
    command.arg("plan").args(arguments).current_dir(folder).output().unwrap()
}

/// The same with something on standard input.
fn plan_with(folder: &Path, arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anode"));
    command.arg("plan").args(arguments).current_dir(folder);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A node alone, whose applications may have a bound of 100.
struct Alone {
    folder: tempfile::TempDir,
    child: Child,
}

impl Alone {
    fn start() -> Alone {
        let folder = tempfile::tempdir().unwrap();
        let free = || std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let config = format!(
            "name = \"alone\"\nrun_dir = {:?}\n[plan]\nbound_max = 100\n[[port]]\nudp = \"127.0.0.1:{}\"\naddress = [\"10.9.7.1/24\"]\n",
            folder.path().join("run"),
            free()
        );
        std::fs::write(folder.path().join("alone.toml"), config).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_anode"));
        command.args(["node", "run", "alone.toml"]).current_dir(folder.path());
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let node = Alone { folder, child };
        crate::wait::control(&node.run_dir(), Some(&node.child), String::new);
        node
    }

    fn run_dir(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).unwrap();
    }

    fn inject(&self, arguments: &[&str], input: &str) -> Output {
        let dir = self.run_dir().display().to_string();
        plan_with(self.folder.path(), &[&["inject"], arguments, &["--node", &dir]].concat(), input)
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for one reply, longer than any takes.
const ONE: [&str; 4] = ["--replies", "1", "--wait", "20"];

fn status(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn every_file_is_checked_and_every_mistake_shown() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("good.plan"), "fun f(x) = x + 1").unwrap();
    std::fs::write(folder.path().join("bad.plan"), "fun f(x) = x + fals\nfun g() = 1 +").unwrap();
    let good = plan(folder.path(), &["check", "good.plan"]);
    assert_eq!(status(&good), (Some(0), "good.plan: f : int -> int\n".into()));
    let both = plan(folder.path(), &["check", "bad.plan", "good.plan"]);
    assert_eq!(status(&both), (Some(1), "good.plan: f : int -> int\n".into()));
    let shown = String::from_utf8_lossy(&both.stderr);
    for part in ["bad.plan:1:16", "did you mean 'false'?", "bad.plan:2:14", "expected an expression"] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    assert_eq!(plan(folder.path(), &["check", "absent.plan"]).status.code(), Some(1));
    assert_eq!(plan(folder.path(), &["check"]).status.code(), Some(2));
}

#[test]
fn json_has_types_code_and_mistakes() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("good.plan"), "fun f(x) = x + 1").unwrap();
    std::fs::write(folder.path().join("bad.plan"), "fun f(x) =\n  prnt(x)").unwrap();
    let output = plan(folder.path(), &["check", "--json", "good.plan", "bad.plan"]);
    assert_eq!(output.status.code(), Some(1));
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value[0]["definitions"][0]["type"], "int -> int");
    assert_eq!(value[0]["code"].as_str().map(str::len), Some(64));
    assert_eq!(value[0]["diagnostics"].as_array().map(Vec::len), Some(0));
    let wrong = &value[1]["diagnostics"][0];
    assert_eq!((&wrong["line"], &wrong["column"]), (&Value::from(2), &Value::from(3)));
    assert_eq!(wrong["hint"], "did you mean 'print'?");
    assert!(value[1]["code"].is_null());
}

#[test]
fn formatting_changes_only_what_is_not_canonical_and_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("loose.plan"), "fun  f(x)=x").unwrap();
    std::fs::write(path("tidy.plan"), "fun f(x) = x\n").unwrap();
    std::fs::write(path("bad.plan"), "fun f(x = x").unwrap();
    let checked = plan(folder.path(), &["fmt", "--check", "loose.plan", "tidy.plan"]);
    assert_eq!(status(&checked), (Some(1), "loose.plan\n".into()));
    assert_eq!(std::fs::read_to_string(path("loose.plan")).unwrap(), "fun  f(x)=x");
    let written = plan(folder.path(), &["fmt", "bad.plan", "loose.plan", "tidy.plan"]);
    assert_eq!(written.status.code(), Some(1), "one could not be read");
    assert_eq!(std::fs::read_to_string(path("loose.plan")).unwrap(), "fun f(x) = x\n");
    assert_eq!(std::fs::read_to_string(path("bad.plan")).unwrap(), "fun f(x = x");
    assert_eq!(status(&plan(folder.path(), &["fmt", "--check", "loose.plan", "tidy.plan"])), (Some(0), String::new()));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3, "nothing else is left behind");
}

#[test]
fn what_is_printed_stands_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("p.plan"),
        "fun f() = (print(\"a\"); print(\"b\\n\"); print(\"c\"))\nfun g() = (f(); 7)",
    )
    .unwrap();
    assert_eq!(status(&plan(folder.path(), &["run", "p.plan", "f()"])), (Some(0), "ab\nc".into()));
    // A value stands on a line of its own.
    assert_eq!(status(&plan(folder.path(), &["run", "p.plan", "g()"])), (Some(0), "ab\nc\n7\n".into()));
    let node = Alone::start();
    node.write("p.plan", "fun f() = (print(\"a\"); print(\"b\\n\"); print(\"c\"))");
    let output = node.inject(&["p.plan", "1", "f()", "--replies", "3", "--wait", "20"], "");
    assert_eq!(status(&output), (Some(0), "ab\nc".into()), "{}", errors(&output));
}

#[test]
fn a_call_from_standard_input_ends_at_the_semicolon_that_stands_in_nothing() {
    let node = Alone::start();
    node.write("p.plan", "fun f(s : string, l : int list, c : char) = print((s, l, c))");
    let call = "f(\"a;b\", (* ; *)\n  [1; 2],\n  ';');\nf(\"not\", [], 'x');\n";
    let output = node.inject(&[&["p.plan", "1"][..], &ONE].concat(), call);
    assert_eq!(status(&output), (Some(0), "(\"a;b\", [1;2], ';')".into()), "{}", errors(&output));
    // Without one, it ends with the input.
    let output = node.inject(&[&["p.plan", "1"][..], &ONE].concat(), "f(\"x\", [], 'y')");
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
}

#[test]
fn a_program_of_several_files_has_its_mistakes_in_their_own_files() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    // No line feed at the end: the next file's first word stays a word.
    write("one.plan", "fun f(x : int) = x + 1");
    write("two.plan", "fun g() =\n  f(41)");
    assert_eq!(status(&plan(folder.path(), &["run", "one.plan,two.plan", "g()"])), (Some(0), "42\n".into()));
    let checked = plan(folder.path(), &["check", "one.plan,two.plan"]);
    let types = "one.plan,two.plan: f : int -> int\none.plan,two.plan: g : void -> int\n";
    assert_eq!(status(&checked), (Some(0), types.into()));
    assert_eq!(plan(folder.path(), &["check", "two.plan"]).status.code(), Some(1), "alone it has no f");
    // A mistake has the name and the line of its file, and what one leaves open is not closed by the next.
    write("open.plan", "fun h() = (1 +");
    write("wrong.plan", "(* here *)\n\nfun k() = f(\"x\")");
    for (files, places) in [
        ("one.plan,wrong.plan", &["wrong.plan:3:13"][..]),
        ("open.plan,two.plan", &["open.plan:1:15", "two.plan:2:3"]),
        ("one.plan,two.plan,one.plan", &["one.plan:1:5", "--> one.plan"]),
    ] {
        let output = plan(folder.path(), &["check", files]);
        let shown = errors(&output);
        assert_eq!(output.status.code(), Some(1), "{files}: {shown}");
        assert!(places.iter().all(|place| shown.contains(place)), "{files}:\n{shown}");
        let run = plan(folder.path(), &["run", files, "g()"]);
        assert!(run.status.code() == Some(1) && errors(&run).contains(places[0]), "{}", errors(&run));
    }
    // In JSON a place says its file too.
    let json: Value =
        serde_json::from_slice(&plan(folder.path(), &["check", "--json", "one.plan,wrong.plan"]).stdout).unwrap();
    let wrong = &json[0]["diagnostics"][0];
    assert_eq!((&wrong["file"], &wrong["line"]), (&Value::from("wrong.plan"), &Value::from(3)), "{json}");
}

#[test]
fn a_value_an_exception_and_silence_are_told_apart() {
    let node = Alone::start();
    node.write(
        "p.plan",
        "fun ok(n : int) = print(100 / n)\nfun quiet() = ()\nfun like() = print(\"ERROR: x raised Y on z\")",
    );
    let json = |output: &Output| -> Vec<Value> {
        let lines = String::from_utf8(output.stdout.clone()).unwrap();
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    for (call, code, outcome) in [("ok(4)", 0, "value"), ("ok(0)", 3, "exception"), ("like()", 0, "value")] {
        let output = node.inject(&[&["p.plan", "1", call][..], &ONE].concat(), "");
        assert_eq!(output.status.code(), Some(code), "{call}: {}", errors(&output));
        let output = node.inject(&[&["p.plan", "1", call, "--json"][..], &ONE].concat(), "");
        let said = json(&output);
        assert_eq!(said.last().unwrap()["outcome"], outcome, "{said:?}");
        if outcome == "exception" {
            assert_eq!(
                (&said[0]["exception"], &said[0]["host"]),
                (&"DivByZero".into(), &"10.9.7.1".into()),
                "{said:?}"
            );
        }
    }
    let silent = ["p.plan", "1", "quiet()", "--wait", "0"];
    assert_eq!(status(&node.inject(&silent, "")), (Some(4), String::new()));
    assert_eq!(json(&node.inject(&[&silent[..], &["--json"]].concat(), "")).last().unwrap()["outcome"], "silence");
    assert_eq!(node.inject(&["p.plan", "1", "quiet()", "--replies", "0"], "").status.code(), Some(0));
    // Evaluated here it is the same.
    let run = |arguments: &[&str]| plan(node.folder.path(), &[&["run", "p.plan"], arguments].concat());
    assert_eq!(run(&["ok(4)"]).status.code(), Some(0));
    assert_eq!(run(&["ok(0)"]).status.code(), Some(3));
    assert_eq!(json(&run(&["ok(0)", "--json"]))[0]["exception"], "DivByZero");
    assert_eq!(json(&run(&["ok(4)", "--json"]))[0]["printed"][0], "25");
    assert_eq!(run(&["ok("]).status.code(), Some(1));
}

#[test]
fn what_a_calls_arguments_do_happens_or_is_refused() {
    let node = Alone::start();
    node.write(
        "p.plan",
        "fun f(a, b) = print((a, b))\nfun send(h : host) = (OnRemote(|f|(1, 2), h, 1, defaultRoute); 3)",
    );
    let said = |call: &str, bound: &str| {
        let output = node.inject(&[&["p.plan", bound, call][..], &ONE].concat(), "");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned(), errors(&output))
    };
    let (code, printed, _) = said("f(getRB(), 1)", "9");
    assert_eq!((code, printed.as_str()), (Some(0), "(9, 1)"), "the bound that the packet has");
    let (code, printed, _) = said("f((print(\"here \"); 1), 2)", "9");
    assert_eq!((code, printed.as_str()), (Some(0), "here (1, 2)"));
    for sends in ["f(send(hd thisHost()), 1)", "f((abort(|f|(1, 2)); 1), 2)"] {
        let (code, printed, why) = said(sends, "9");
        assert_eq!((code, printed.as_str()), (Some(3), ""), "{sends}");
        assert!(why.contains("Refused"), "{why}");
    }
    // A bound that the node cuts is said, and what getRB gives is what the packet has then.
    let (code, printed, why) = said("f(getRB(), 1)", "5000");
    assert_eq!((code, printed.as_str()), (Some(0), "(100, 1)"));
    assert!(why.contains("the bound 5000 becomes 100") && why.contains("bound_max"), "{why}");
    assert!(!said("f(getRB(), 1)", "100").2.contains("becomes"));
}

#[test]
fn a_time_that_nodes_cut_is_said_where_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let source = "fun f(k : key) = put(\"a\", k, 1, 300)\nfun g(k : key) = put(\"a\", k, 1, 3600)\n\
                  fun h(to : host) = RetransOnRemote(|h|(to), to, 9, defaultRoute, 3, 5)\n\
                  fun i(n : int, to : host, by : dev) = setFlow(n, to, by, (301))\n";
    std::fs::write(folder.path().join("p.plan"), source).unwrap();
    let output = plan(folder.path(), &["check", "p.plan"]);
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    for part in ["p.plan:2:33", "300 seconds are taken", "p.plan:3:69", "10 milliseconds are taken", "p.plan:4:58"] {
        assert!(said.contains(part), "{part}\n{said}");
    }
    assert_eq!(said.matches("Warning: ").count(), 3, "{said}");
    let json: Value = serde_json::from_slice(&plan(folder.path(), &["check", "--json", "p.plan"]).stdout).unwrap();
    assert_eq!(json[0]["warnings"].as_array().map(Vec::len), Some(3));
    assert!(errors(&plan(folder.path(), &["run", "p.plan", "1"])).contains("300 seconds are taken"));
}
