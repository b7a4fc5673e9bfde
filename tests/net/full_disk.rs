//! A store on a full disk: one log line, and the node works on from memory. A capture file there is given up.

use crate::running::{LINE, Running};
use crate::wait;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A small file system, unmounted with the test.
struct Small(tempfile::TempDir);

impl Small {
    fn mount() -> Small {
        crate::gate::pass();
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new("mount");
        let done = command.args(["-t", "tmpfs", "-o", "size=256k,mode=755", "small"]).arg(dir.path()).status();
        assert!(done.unwrap().success());
        Small(dir)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Leaves no page free.
    fn fill(&self) {
        let full = fs::write(self.path().join("ballast"), vec![0; 1 << 20]);
        assert_eq!(full.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
        while fs::write(self.path().join("rest"), [0; 1]).is_ok()
            && fs::metadata(self.path().join("rest")).unwrap().len() > 0
        {
            fs::rename(self.path().join("rest"), self.path().join("more")).unwrap();
        }
    }

    /// Objects in the store.
    fn objects(&self) -> usize {
        let folders = fs::read_dir(self.path().join("objects")).into_iter().flatten().flatten();
        folders.map(|folder| fs::read_dir(folder.path()).unwrap().count()).sum()
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

fn on_disk(net: &Running, node: &str, path: &str) -> usize {
    net.log(node).lines().filter(|line| line.contains(path)).count()
}

#[test]
fn a_node_with_a_full_disk_works_on_from_memory_and_writes_when_there_is_room() {
    if !anode::sys::process::is_root() {
        assert!(std::env::var_os("CI").is_none(), "mounts need root, and continuous integration must run this");
        println!("SKIPPED: mounts need root");
        return;
    }
    let small = Small::mount();
    let path = small.path().join("store");
    fs::create_dir(&path).unwrap();
    let adjust = |node: &str, config: &mut toml::Table| {
        if node != "a" {
            config.insert("store".into(), small.path().display().to_string().into());
        }
    };
    let Some(mut net) = Running::build("fulldisk", LINE) else { return };
    // The directories of a store are there; nothing else has room.
    for name in ["objects", "new", "pins"] {
        fs::create_dir(small.path().join(name)).unwrap();
    }
    fs::write(small.path().join("lock"), "").unwrap();
    small.fill();
    net.start(&adjust);
    // Fetched hop by hop, of three applications; and added by hand at r.
    assert_eq!(net.ping("a", "10.0.2.2", 3)["summary"]["received"], 3);
    for app in anode::apps::APPS {
        net.control("r").add_code(&app.bundle().unwrap()).unwrap();
    }
    assert_eq!(net.ping("a", "10.0.2.2", 3)["summary"]["received"], 3);
    assert_eq!(small.objects(), 0);
    let says = |words: &str| wait::text(&net.daemon("r").log, None, |log| log.contains(words).then_some(()));
    says("the disk is tried again");
    assert_eq!(on_disk(&net, "r", "the disk is tried again"), 1, "once, not for each object");
    for name in ["ballast", "rest", "more"] {
        let _ = fs::remove_file(small.path().join(name));
    }
    says("the disk takes code again");
    assert!(small.objects() > 0);
}

#[test]
fn a_node_starts_with_a_full_disk() {
    if !anode::sys::process::is_root() {
        println!("SKIPPED: mounts need root");
        return;
    }
    let small = Small::mount();
    small.fill();
    let adjust = |_: &str, config: &mut toml::Table| {
        config.insert("store".into(), small.path().join("store").display().to_string().into());
    };
    let Some(net) = Running::up_with("fullstart", LINE, &adjust) else { return };
    assert_eq!(net.ping("a", "10.0.2.2", 3)["summary"]["received"], 3);
    assert!(net.log("r").contains("code is kept in memory only"));
}

#[test]
fn a_capture_file_on_a_full_disk_is_given_up_and_the_node_tells_nobody_any_more() {
    if !anode::sys::process::is_root() {
        println!("SKIPPED: mounts need root");
        return;
    }
    let small = Small::mount();
    let adjust = |node: &str, config: &mut toml::Table| {
        if node == "r" {
            let file = small.path().join("r.pcapng").display().to_string();
            config["port"].as_array_mut().unwrap()[0].as_table_mut().unwrap().insert("pcap".into(), file.into());
        }
    };
    let Some(net) = Running::up_with("fullpcap", LINE, &adjust) else { return };
    let writes = |process: &i32| {
        let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        let mut names = threads.filter_map(|thread| fs::read_to_string(thread.path().join("comm")).ok());
        names.any(|name| name.starts_with("anode-capture"))
    };
    let is_written = || net.lab.namespace("r").unwrap().processes().unwrap().iter().any(writes);
    assert!(is_written());
    small.fill();
    assert_eq!(net.ping("a", "10.0.2.2", 3)["summary"]["received"], 3);
    wait::text(&net.daemon("r").log, None, |log| log.contains("capture file given up").then_some(()));
    // Who wrote it has nothing to do any more.
    wait::unannounced("the end of a thread is told to nobody", || {
        if is_written() { Err("it goes on".into()) } else { Ok(()) }
    });
    assert_eq!(net.status("r")["unaccounted"], 0);
}
