//! Wrong configurations are refused, by a text that names the file, the key, and its possible values.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

/// A port with these settings, and a neighbour with these.
fn port(more: &str, neighbour: &str) -> String {
    format!(
        "[[port]]\nudp = \"127.0.0.1:0\"\naddress = [\"10.0.0.1/24\"]\n{more}\n\
         neighbours = [{{ address = \"10.0.0.2\", at = \"127.0.0.1:4002\"{neighbour} }}]\n"
    )
}

/// What `anode node check` says of a configuration, in lines without breaks; nothing if it is good.
fn said(file: &Path, text: &str) -> Option<String> {
    fs::write(file, format!("name = \"n\"\n{text}")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_anode")).args(["node", "check"]).arg(file).output().unwrap();
    (!output.status.success()).then(|| String::from_utf8(output.stderr).unwrap())
}

/// A configuration, and two things that what is said of it names: the key, and what may stand there.
type Case = (String, &'static str, &'static str);

/// A table, and a port that is good.
fn with(table: &str) -> String {
    format!("{table}\n{}", port("", ""))
}

fn ports(garbled: &Path, open: &Path) -> Vec<Case> {
    let keyed = |keys: &str| port("", &format!(", keys = {keys}"));
    vec![
        (port("bound_max = 0", ""), "bound_max", "from 1 to 4294967295"),
        (port("bound_max = -1", ""), "bound_max", "from 1 to 4294967295"),
        (port("bound_max = 4294967296", ""), "bound_max", "from 1 to 4294967295"),
        (port("bound_max = \"64\"", ""), "bound_max", "expected i64"),
        (port("mtu = 0", ""), "mtu = 0", "from 1112"),
        (port("mtu = 1111", ""), "mtu = 1111", "to 65507"),
        (port("mtu = 65508", ""), "mtu = 65508", "to 65507"),
        (port("mtu = -1", ""), "mtu", "expected usize"),
        (port("bound_max = 9\nsigned_bound_max = 8", ""), "signed_bound_max", "less than bound_max = 9"),
        (port("signed_bound_max = 0", ""), "signed_bound_max", "from 1 to 4294967295"),
        (port("demand = [\"macs\"]", ""), "demand", "`mac`, `signed-code`, `signed-plan`"),
        (port("demand = [\"mac\"]", ""), "demand", "keys = [\"FILE\"]"),
        (keyed("[\"/nonexistent\"]"), "keys", "/nonexistent"),
        (keyed(&format!("[{garbled:?}]")), "keys", "anode cred secret"),
        (keyed(&format!("[{open:?}]")), "keys", "chmod 600"),
        (keyed("[\"1\", \"2\", \"3\", \"4\", \"5\"]"), "keys", "at most 4"),
    ]
}

fn tables() -> Vec<Case> {
    vec![
        (with("[entry]\nshare = 0.0"), "share", "from 0.001 to 1"),
        (with("[entry]\nshare = 1.01"), "share", "from 0.001 to 1"),
        (with("[entry]\nshare = nan"), "share", "from 0.001 to 1"),
        (with("[entry]\nburst_ms = 0"), "burst_ms", "from 1 to 1000"),
        (with("[entry]\nburst_ms = 1001"), "burst_ms", "from 1 to 1000"),
        (with("[entry]\nbytes_per_second = 1"), "bytes_per_second", "0, or 1500 at least"),
        (with("[entry]\nbytes_per_second = -1"), "bytes_per_second", "expected u64"),
        (with("[entry]\nshares = 0.5"), "shares", "`share`, `burst_ms`, `bytes_per_second`"),
        (with("[security]\nuser = \"\""), "user", "the name of a user, or its number"),
        (with("[security]\nuser = -1"), "user", "the name of a user, or its number"),
        (with("[security]\nrequire = [\"prayer\"]"), "require", "`landlock`"),
        (with("[security]\nrequires = []"), "requires", "`user`, `require`, `native_extensions`"),
        (with("[compiler]\ncpu_ms = 0"), "cpu_ms", "from 1 to 3600000"),
        (with("[compiler]\ncpu_ms = 3600001"), "cpu_ms", "from 1 to 3600000"),
        (with("[compiler]\nwall_ms = 0"), "wall_ms", "from 1 to 3600000"),
        (with("[compiler]\nmemory_mib = 0"), "memory_mib", "from 1 to 16384"),
        (with("[compiler]\nmemory_mib = 16385"), "memory_mib", "from 1 to 16384"),
        (with("[compiler]\noutput_mib = 1025"), "output_mib", "from 1 to 1024"),
        (with("[compiler]\njobs = 0"), "jobs", "from 1 to 64"),
        (with("[compiler]\njobs = 65"), "jobs", "from 1 to 64"),
        (with("[compiler]\nthreads = 1"), "threads", "`jobs`"),
        (with("[sizes]\ncodes = 0"), "codes", "from 1 to 32768"),
        (with("[jail]\nusers = [100]"), "users", "the first and the last"),
        (with("run_dir = \"/proc/none\""), "run_dir", "/proc/none cannot be written"),
        (with("[plan]\nopen = [\"everything\"]"), "open", "bandwidthSend"),
        (with("[plan]\nopen = [\"a b\"]"), "open", "letters, digits"),
        (with("[plan]\nrestricted = [\"\"]"), "restricted", "letters, digits"),
        (
            with("[plan]\nopen = [\"bandwidthSend\"]\nrestricted = [\"bandwidthSend\"]"),
            "open and restricted",
            "leave one out",
        ),
        (with("[plan]\nbound_max = 0"), "bound_max", "from 1 to 4294967295"),
        (with("[plan]\nopened = []"), "opened", "`open`"),
        (with("[[plan.ingress]]\nport = \"x\"\nbound_max = 1"), "port = \"x\"", "no [[port]] has this name"),
        (with("[[plan.ingress]]\nport = \"x\"\nbound_max = -1"), "bound_max", "from 1 to 4294967295"),
    ]
}

#[test]
fn every_wrong_setting_is_refused_by_file_key_and_range() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wrong.toml");
    let key = |name: &str, mode: u32| {
        let path = folder.path().join(name);
        fs::write(&path, "no key\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    };
    assert_eq!(said(&path, &port("", "")), None, "the rest of the file is good");
    let mut cases = [ports(&key("garbled", 0o600), &key("open", 0o644)), tables()].concat();
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        // Only root can become somebody, so only root is told.
        cases.push((with("[security]\nuser = \"nosuchuser\""), "user", "useradd --system nosuchuser"));
    }
    let mut missing = Vec::new();
    for (text, key, range) in &cases {
        match said(&path, text) {
            None => missing.push(format!("{key}: let pass: {text}")),
            Some(why) => {
                let parts = [path.to_str().unwrap(), key, range];
                let lacks: Vec<_> = parts.into_iter().filter(|part| !why.contains(part)).collect();
                if !lacks.is_empty() {
                    missing.push(format!("{why:?} lacks {lacks:?}"));
                }
            }
        }
    }
    assert!(missing.is_empty(), "{} of {}:\n{}", missing.len(), cases.len(), missing.join("\n"));
}

#[test]
fn demands_and_keys_beside_the_kernel_half_are_refused_by_what_to_change() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wrong.toml");
    let text = "routes = \"kernel\"\n[[port]]\npacket = \"lo\"\nkernel = true\ndemand = [\"signed-code\"]\n";
    let why = said(&path, text).unwrap();
    for part in ["port lo", "kernel = true", "demand or keys", "set kernel = false"] {
        assert!(why.contains(part), "{why} lacks {part}");
    }
}
