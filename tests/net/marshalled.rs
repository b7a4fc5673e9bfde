//! A graph with a part at another node, and an extension in C that marshals packets between the two.

use crate::build;
use crate::parts::{Line, TO_K};
use crate::running::ANODE;
use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;

/// Bytes of a datagram that repeat, and datagrams.
const BYTES: usize = 1200;
const DATAGRAMS: usize = 50;

/// Last bytes of a packet at which the module of the test traps, and gives bytes that are no packet.
const TRAPS: u8 = 0xee;
const MISLEADS: u8 = 0xed;

fn done(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Builds the extension with more in its function that packs; its file.
fn module(line: &Line, name: &str, more: &str) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("apps/extensions/codec.c");
    let text = fs::read_to_string(&source).unwrap();
    let begins = "int bytes = given(length), at = 0;";
    assert!(text.contains(begins));
    let changed = line.file(&format!("{name}.c"), &text.replacen(begins, &format!("{begins}{more}"), 1));
    let (plain, packed) = (line.file(&format!("{name}.plain"), ""), line.file(&format!("{name}.wasm"), ""));
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("sdk");
    let mut clang = Command::new("clang");
    clang.args([
        "--target=wasm32",
        "-O2",
        "-nostdlib",
        "-fno-builtin",
        "-Wl,--no-entry",
        "-Wl,--export=an_buffer",
        "-I",
    ]);
    done(clang.arg(sdk).args(["-o", &plain, &changed]));
    let manifest = source.with_extension("toml");
    done(Command::new(ANODE).args(["extension", "pack", &plain]).arg(manifest).args(["-o", &packed]));
    packed
}

fn load(line: &Line, node: &str, module: &str) {
    done(Command::new(ANODE).args(["extension", "load"]).arg(line.net.dir(node)).arg(module));
}

/// Bytes that have left a towards b.
fn sent(line: &Line) -> usize {
    let counts = line.net.shell("a", "sed -n 's/^ *to-b: *//p' /proc/net/dev");
    // Eight numbers are of what came in.
    counts.split_whitespace().nth(8).unwrap().parse().unwrap()
}

/// Datagrams come from one to the other as they were, and shorter on the way.
fn come_as_they_went(line: &Line, (from, to): (&UdpSocket, &UdpSocket)) {
    let before = sent(line);
    let mut buffer = [0; 2 * BYTES];
    for number in 0..DATAGRAMS {
        let payload = vec![number as u8; BYTES];
        from.send_to(&payload, TO_K).unwrap();
        let length = to.recv(&mut buffer).unwrap();
        assert_eq!(buffer[..length], payload);
    }
    let went = sent(line) - before;
    assert!(went < DATAGRAMS * BYTES / 2, "{went} bytes for {DATAGRAMS} datagrams of {BYTES}");
}

#[test]
fn packets_go_between_two_nodes_as_an_extension_of_both_marshals_them() {
    let Some(line) = Line::new("marshalled") else { return };
    let (from, to) = (line.socket("h", "10.0.1.1:4000"), line.socket("k", TO_K));
    let file = line.file("far.click", &line.version(1).replace("(10.0.2.2)", "(10.0.2.2, codec/PackBits)"));
    let words = ["fw", &file, "--role", "graphs", "--take", "to-h/ip/udp *:7000"];
    let refused = |why: &str| {
        let said = line.refused("a", &words);
        assert!(said.contains(why), "{said}");
    };
    refused("no extension that is loaded marshals packets as codec/PackBits; there is none");
    let fails = format!(
        " if (bytes > 0 && in[bytes - 1] == {TRAPS}) __builtin_trap();
          if (bytes > 0 && in[bytes - 1] == {MISLEADS}) {{ out[0] = 128; return give(1); }}"
    );
    let (own, other) = (module(&line, "codec", &fails), module(&line, "other", ""));
    let checked = done(Command::new(ANODE).args(["extension", "check", &own]));
    assert!(checked.contains("codec/PackBits (marshals packets)"), "{checked}");
    load(&line, "a", &own);
    refused("10.0.2.2 refuses its part: no extension that is loaded marshals packets as codec/PackBits; there is none");
    load(&line, "b", &other);
    refused("10.0.2.2 refuses its part: its extension codec is another one: of the module ");
    let unload = |node: &str| {
        Command::new(ANODE).args(["extension", "unload"]).arg(line.net.dir(node)).arg("codec").output().unwrap()
    };
    assert!(unload("b").status.success());
    load(&line, "b", &own);
    line.said("a", "apply", &words);
    assert!(line.said("a", "show", &["fw"]).contains("a part @remote(10.0.2.2, codec/PackBits), generation "));
    come_as_they_went(&line, (&from, &to));
    fails_at_some(&line, |last| from.send_to(&[1, 2, last], TO_K).map(drop).unwrap());
    from.send_to(b"on", TO_K).unwrap();
    assert_eq!(to.recv(&mut [0; 2 * BYTES]).unwrap(), 2);
    // Neither node lets go of what marshals.
    for node in ["a", "b"] {
        let said = unload(node);
        let why = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(!said.status.success() && why.contains("graphs have engines of codec"), "{why}");
    }
    line.net.status("a");
}

/// The same text is a shared object for nodes that take one.
#[test]
fn a_shared_object_marshals_packets_as_a_module_does() {
    let lets_in = |_: &str, config: &mut toml::Table| {
        let security = config.entry("security").or_insert_with(|| toml::Table::new().into());
        security.as_table_mut().unwrap().insert("native_extensions".into(), true.into());
    };
    let Some(line) = Line::with("marshalnat", &lets_in) else { return };
    let (from, to) = (line.socket("h", "10.0.1.1:4000"), line.socket("k", TO_K));
    let codec = Path::new(env!("CARGO_MANIFEST_DIR")).join("apps/extensions/codec.c");
    let manifest = fs::read_to_string(codec.with_extension("toml")).unwrap();
    let text = fs::read_to_string(codec).unwrap() + &format!("\nAN_EXTENSION({manifest:?})\n");
    let text = line.file("codec.c", &text);
    let object = build::build(&text, Path::new(&text).parent().unwrap(), &[], build::Linked::Here);
    for node in ["a", "b"] {
        load(&line, node, object.to_str().unwrap());
    }
    let file = line.file("far.click", &line.version(1).replace("(10.0.2.2)", "(10.0.2.2, codec/PackBits)"));
    line.said("a", "apply", &["fw", &file, "--role", "graphs", "--take", "to-h/ip/udp *:7000"]);
    come_as_they_went(&line, (&from, &to));
}

/// What cannot be packed is dropped at a, what is no packet at b; nothing else happens.
fn fails_at_some(line: &Line, send: impl Fn(u8)) {
    for (last, node) in [(TRAPS, "a"), (MISLEADS, "b")] {
        send(last);
        line.net.await_status(node, |status| status["drops"]["marshal-failed"] == 1);
    }
}
