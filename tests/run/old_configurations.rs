//! Older configurations still start: those of `tests/configurations/`, as written for commit c994750.
//!
//! Each is run by the program as it is. It must answer, keep the keys' meaning, and say once what default it leaves that has
//! changed since, a line each, at a start and in `anode node check`; a key that a file has set is not spoken of. Whoever takes a
//! key away sees this test fail.

use crate::wait;
use anode::sys::process::is_root;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// How a line begins that tells of a default.
const CHANGED: &str = "changed default: ";

struct Running {
    process: Child,
    folder: tempfile::TempDir,
}

impl Running {
    /// Runs a kept configuration; its words in capitals become paths.
    fn start(text: &str) -> Running {
        crate::gate::pass();
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        fs::write(at("hosts"), "10.0.0.2 n1\n").unwrap();
        fs::write(at("key"), "07".repeat(32) + "\n").unwrap();
        Command::new("chmod").args(["600", &at("key")]).status().unwrap();
        let mut text = text.to_owned();
        for (word, name) in [
            ("RUN_DIR", "run"),
            ("STORE", "store"),
            ("FILES", "files"),
            ("PCAP", "x.pcap"),
            ("HOSTS", "hosts"),
            ("KEY", "key"),
        ] {
            text = text.replace(&format!("\"{word}\""), &format!("{:?}", at(name)));
        }
        fs::write(at("node.toml"), text).unwrap();
        let process = Command::new(env!("CARGO_BIN_EXE_anode"))
            .args(["node", "run", &at("node.toml")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(at("log")).unwrap())
            .spawn()
            .unwrap();
        Running { process, folder }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// What it has said of defaults, in the order said.
    fn said(&self) -> Vec<String> {
        let log = self.log();
        let lines = log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let messages: Vec<_> = lines.filter_map(|line| Some(line["fields"]["message"].as_str()?.to_owned())).collect();
        changed(messages.iter().map(String::as_str))
    }

    /// The status, as soon as it answers.
    fn status(&self) -> serde_json::Value {
        let run = self.folder.path().join("run");
        wait::control(&run, Some(&self.process), || self.log()).status().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Those lines of these that tell of a default.
fn changed<'t>(lines: impl Iterator<Item = &'t str>) -> Vec<String> {
    lines.filter_map(|line| line.strip_prefix(CHANGED)).map(str::to_owned).collect()
}

/// How the lines begin that the kept configuration of this name leaves to be said, in their order.
fn begins(name: &str) -> Vec<&'static str> {
    let (scheduler, services, jail) = ("[cpu] scheduler", "[plan] restricted", "[jail]");
    let by_name: [(&str, &[&str]); 4] =
        [("r1", &[]), ("m", &[scheduler, jail]), ("n1", &[scheduler]), ("n0", &[scheduler])];
    let own = by_name.into_iter().find(|(found, _)| *found == name).expect("a configuration of a known name").1;
    let always = ["[entry] share", "[[port]] bound_max", services, "[compiler] cpu_ms"];
    let mut all = [own, &always].concat();
    if is_root() {
        all.push("[security] user");
    }
    // As they are said: by what the settings are about.
    let order =
        [scheduler, "[entry] share", "[[port]] bound_max", services, "[compiler] cpu_ms", jail, "[security] user"];
    all.sort_by_key(|begins| order.iter().position(|place| place == begins));
    all
}

fn kept() -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/configurations");
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn configurations_of_before_start_and_say_once_what_has_changed() {
    let kept = kept();
    assert!(kept.len() >= 4);
    for (path, text) in kept {
        let node = Running::start(&text);
        let status = node.status();
        let name = text.lines().find_map(|line| line.strip_prefix("name = ")).unwrap().trim_matches('"').to_owned();
        assert_eq!(status["node"], name.as_str(), "{}", path.display());
        let mut check = Command::new(env!("CARGO_BIN_EXE_anode"));
        check.args(["node", "check"]).arg(node.folder.path().join("node.toml"));
        let check = String::from_utf8(check.output().unwrap().stdout).unwrap();
        let (said, checked) = (node.said(), changed(check.lines()));
        assert_eq!(said, checked, "{}: a start says what check says\n{}", path.display(), node.log());
        let begins = begins(&name);
        let as_expected = said.iter().zip(&begins).all(|(line, begins)| line.starts_with(begins));
        assert!(said.len() == begins.len() && as_expected, "{}: {said:#?}, not {begins:?}", path.display());
        let count = said.len();
        println!("{}: {count} lines\n{}", path.display(), said.join("\n"));
        // What the file sets is not spoken of as a default.
        let sets = text.contains("\nscheduler = ");
        assert!(!sets || said.iter().all(|line| !line.contains("scheduler")), "{}: {said:?}", path.display());
    }
}
