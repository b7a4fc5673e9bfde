//! The dissector for Wireshark, by tshark, on captures of `clients/wireshark/captures`: what it says of each packet is kept beside them.
//!
//! `ANODE_BLESS=1` writes that anew. Packets that are cut short must not make it fail: tshark says *Lua Error* then.

use anode::port::pcap::{self, Beginning, Capture, Captured};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What tshark says of a capture file, in full; nothing: there is no tshark.
fn dissected(file: &Path, more: &[&str]) -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let script = format!("lua_script:{}", root.join("clients/wireshark/anode.lua").display());
    let mut command = Command::new("tshark");
    command.args(["-X", &script, "-n", "-r"]).arg(file).args(more);
    // Times and texts are the same everywhere, and no settings of a user count.
    command
        .env("TZ", "UTC")
        .env("LC_ALL", "C.UTF-8")
        .env("HOME", "/nonexistent")
        .env("XDG_CONFIG_HOME", "/nonexistent");
    let Ok(output) = command.output() else {
        assert!(std::env::var_os("CI").is_none(), "there is no tshark");
        println!("SKIPPED: there is no tshark");
        return None;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("Lua"), "{}: {said}", file.display());
    Some(String::from_utf8(output.stdout).unwrap())
}

/// The layers of ours.
const OURS: &[&str] = &["-O", "anep,anode.capsule,anode.fetch,anode.plan,anode.revocation,anode.hello", "-V"];

fn captures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/wireshark/captures");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = entries.filter(|path| path.extension().is_some_and(|ending| ending == "pcapng")).collect();
    found.sort();
    assert!(found.len() >= 2);
    found
}

#[test]
fn what_is_said_of_captures_is_kept() {
    for file in captures() {
        let Some(said) = dissected(&file, OURS) else { return };
        assert!(!said.contains("Lua Error"), "{said}");
        // What other dissectors say, in one line each, differs from version to version.
        let is_ours = |line: &str| ["  ", "Active Network", "anode "].iter().any(|ours| line.starts_with(ours));
        let ours = |line: &&str| is_ours(line) && !line.trim().is_empty();
        let ours: Vec<_> = said.lines().filter(ours).collect();
        let (ours, kept) = (ours.join("\n") + "\n", file.with_extension("txt"));
        if std::env::var_os("ANODE_BLESS").is_some() {
            std::fs::write(&kept, &ours).unwrap();
        }
        assert_eq!(ours, std::fs::read_to_string(&kept).unwrap(), "{}", file.display());
    }
}

#[test]
fn an_object_is_put_together_from_its_parts() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/wireshark/captures/overlay.pcapng");
    let fields = ["-T", "fields", "-e", "anode.fetch.object.length", "-e", "anode.fetch.object.frames"];
    let Some(said) = dissected(&file, &[&["-Y", "anode.fetch.object"][..], &fields].concat()) else { return };
    assert_eq!(said, "639\t3\n267\t5\n642\t9\n2455\t11, 12, 13\n");
}

/// Each packet of ours, cut after each of its first bytes, and with each of these bytes another one: with the lengths of IP and UDP as they
/// were, and as they are then.
#[test]
fn packets_that_are_cut_short_or_damaged_are_shown_as_far_as_they_go() {
    let folder = tempfile::tempdir().unwrap();
    for source in captures() {
        let name = source.file_name().unwrap();
        let file = folder.path().join(name);
        let packets = pcap::packets(&std::fs::read(&source).unwrap());
        // Those of the overlay begin with an IP header.
        let is_ip = packets[0].bytes[0] >> 4 == 4;
        let (beginning, at) = if is_ip { (Beginning::Ip, 28) } else { (Beginning::Ethernet, 42) };
        let mut capture = Capture::create(&file, &[("p".into(), beginning)]).unwrap();
        let mut write = |bytes: &[u8]| {
            let packet = Captured { interface: 0, at: 0, inward: None, bytes, comment: "" };
            capture.packet(&packet).unwrap();
        };
        for packet in &packets {
            let bytes = &packet.bytes;
            let last = bytes.len().min(at + 160);
            for cut in at.min(last)..last {
                write(&bytes[..cut]);
                write(&shortened(&bytes[..cut], at));
                for change in [0xff, 0x80, 1] {
                    let mut damaged = bytes.clone();
                    damaged[cut] ^= change;
                    write(&damaged);
                }
            }
        }
        capture.end(0, 0).unwrap();
        let Some(said) = dissected(&file, OURS) else { return };
        let errors: Vec<_> = said.lines().filter(|line| line.contains("Lua Error")).take(5).collect();
        assert!(errors.is_empty(), "{errors:#?}");
        assert!(said.contains("shorter than its header"), "something is cut short");
    }
}

/// An IPv4 packet whose lengths say how long it is; others as they are.
fn shortened(bytes: &[u8], payload: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let ip = payload - 28;
    if bytes.len() >= payload && bytes[ip] == 0x45 {
        let length = (bytes.len() - ip) as u16;
        bytes[ip + 2..ip + 4].copy_from_slice(&length.to_be_bytes());
        bytes[ip + 24..ip + 26].copy_from_slice(&(length - 20).to_be_bytes());
    }
    bytes
}
