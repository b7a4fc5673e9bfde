//! TCP streams of a program, on the host's loopback: what its role names and nothing else, and what an operator sees of them.

use crate::build::{Linked, build};
use crate::single::Node;
use std::net::TcpListener;
use std::process::Command;

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
