//! TCP streams of a program, on the host's loopback: what its role names and nothing else, and what an operator sees of them.

use crate::apply::{apply, file};
use crate::build::{Linked, build};
use crate::single::Node;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

/// Ports of the loopback that nobody has.
fn free<const COUNT: usize>() -> [u16; COUNT] {
    let all = [(); COUNT].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    all.map(|listener| listener.local_addr().unwrap().port())
}

#[test]
fn a_program_has_the_streams_that_its_role_names_and_no_others() {
    let [granted, denied, silent] = free();
    let node = Node::start(&format!(
        "[[role]]\nname = \"ee\"\n[role.grants]\ndomains = 4\nbandwidth = 1_000_000_000\nmemory_bytes = 33_554_432\n\
         [role.streams]\nlisten = [\"127.0.0.1:{granted}\"]\nconnect = [\"127.0.0.1:{granted}\", \"127.0.0.1:{silent}\"]\n\
         streams = 5\nper_second = 50\n"
    ));
    let folder = tempfile::tempdir().unwrap();
    let program = build("tests/nodeos/streams.c", folder.path(), &["-O1", "-pthread"], Linked::Static);
    let mut command = Command::new(&program);
    command.env("ANODE_NODEOS", node.run_dir().join("nodeos.sock"));
    let output = command.args([granted, denied, silent].map(|port| port.to_string())).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.ends_with("ok\n"), "{said}\n{}", node.log());
    let streams = node.until(|| {
        let (done, said) = node.anode(&["node", "status", "--json"]);
        assert!(done, "{said}");
        let streams = serde_json::from_str::<serde_json::Value>(&said).unwrap()["streams"].clone();
        (streams["open"] == 0).then_some(streams)
    });
    let of = |name: &str| streams[name].as_u64().unwrap();
    // Two ways of three streams and one that nobody took; what was denied, twice listening and beyond the role's number.
    assert!(of("connected") == 5 && of("accepted") == 4 && of("refused") >= 7, "{streams}");
    assert!(of("bytes_in") > 1 << 17 && of("bytes_out") > 1 << 17, "{streams}");
}

/// The role of these tests, with more of its keys.
fn role(grants: &str, streams: &str) -> String {
    format!(
        "[[role]]\nname = \"ee\"\n[role.grants]\nthreads = 8\nmemory_bytes = 33_554_432\n{grants}\n[role.streams]\n{streams}\n"
    )
}

/// Starts a program of the node's, and waits for its first line.
fn begin(
    node: &Node,
    (source, first): (&str, &str),
    words: &[String],
) -> (Child, BufReader<std::process::ChildStdout>) {
    let folder = tempfile::tempdir().unwrap();
    let program = build(source, folder.path(), &["-O1", "-pthread"], Linked::Static);
    let mut command = Command::new(&program);
    command.env("ANODE_NODEOS", node.run_dir().join("nodeos.sock")).args(words).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (mut said, mut line) = (BufReader::new(child.stdout.take().unwrap()), String::new());
    said.read_line(&mut line).unwrap();
    assert_eq!(line.trim(), first, "{}", node.log());
    (child, said)
}

#[test]
fn streams_have_their_domains_bandwidth_and_begin_at_their_rate() {
    let [port] = free();
    let at = format!("127.0.0.1:{port}");
    let streams = format!("listen = [{at:?}]\nconnect = [{at:?}]\nstreams = 40\nper_second = 50");
    let node = Node::start(&role("bandwidth = 1_000_000", &streams));
    let words = [at, "1000000".into(), "50".into()];
    let (mut program, mut said) = begin(&node, ("tests/nodeos/paced.c", "bandwidth 1"), &words);
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "begun 1\n", "{}", node.log());
    assert!(program.wait().unwrap().success());
}

#[test]
fn streams_that_a_role_gives_no_more_end_and_their_program_is_told() {
    let [port] = free();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = server.local_addr().unwrap().to_string();
    let streams = |listen: &str| format!("listen = [{listen}]\nconnect = [\"127.0.0.1:1-{}\"]", u16::MAX);
    let grants = "bandwidth = 1_000_000";
    let at = format!("127.0.0.1:{port}");
    let node = Node::start(&role(grants, &streams(&format!("{at:?}"))));
    let serving = std::thread::spawn(move || {
        let mut served = server.accept().unwrap().0;
        served.write_all(b"x").unwrap();
        served
    });
    let (mut program, mut said) = begin(&node, ("tests/nodeos/withdrawn.c", "begun"), &[at.clone(), to.clone()]);
    let mut served = serving.join().unwrap();
    // The same in another way: nothing ends.
    let (done, text) = apply(&file(&node, "same.toml", &role(grants, &streams("\"*:*\""))), &[]);
    assert!(done, "{text}");
    assert_eq!(node.control().status().unwrap()["streams"]["open"], 2);
    let (done, text) = apply(&file(&node, "none.toml", &role(grants, "")), &[]);
    assert!(done, "{text}");
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "stream 1\nchannel 1\nagain 1\n", "{}", node.log());
    assert!(matches!(served.read(&mut [0]), Ok(0) | Err(_)));
    assert!(TcpStream::connect(&at).is_err(), "nobody listens");
    program.wait().unwrap();
    node.until(|| (node.control().status().unwrap()["streams"]["open"] == 0).then_some(()));
}
