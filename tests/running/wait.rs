//! Waiting: a test is told of what it waits for, by a node, by the kernel or over a pipe. Example: `told` asks a node for its status,
//! and again for the next one that differs, until it reads as wanted.
//!
//! Nobody sleeps and looks again; what the kernel tells nobody of is the one exception (`unannounced`). Every wait ends with a failure
//! after `PATIENCE`, so that a test that cannot succeed ends. `tests/tidy/waits.rs` keeps clocks and sleep out of all other tests.
#![allow(dead_code, reason = "each test program uses its part")]

use anode::manage::client::{ClientError, Control};
use anode::sys::watch::{self, Missed, Process};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use serde_json::Value;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// How long something may take that is bound to happen: only a failure waits for it, however busy the machine is.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// The end of a wait.
pub struct Patience(Instant);

impl Patience {
    pub fn new() -> Patience {
        Patience(Instant::now() + PATIENCE)
    }

    /// What is left of it. If nothing is, the test fails, and says this.
    #[track_caller]
    pub fn left(&self, said: impl FnOnce() -> String) -> Duration {
        let left = self.0.saturating_duration_since(Instant::now());
        assert!(!left.is_zero(), "waited for too long: {}", said());
        left
    }
}

/// The process of a child, to be told of its end.
fn process(child: Option<&Child>) -> Option<Process> {
    child.and_then(|child| Process::open(child.id()).unwrap())
}

/// The control socket of a node with this run directory, once it listens; fails if the process ends before.
#[track_caller]
pub fn control(dir: &Path, node: Option<&Child>, log: impl FnOnce() -> String) -> Control {
    match watch::until(dir, process(node).as_ref(), PATIENCE, || Control::connect(dir).ok()) {
        Ok(control) => control,
        Err(why) => panic!("no node at {}: {why:?}\n{}", dir.display(), log()),
    }
}

/// What is found in the text of a file, as soon as it is there; fails if the process that writes it ends before.
#[track_caller]
pub fn text<T>(path: &Path, writer: Option<&Child>, mut look: impl FnMut(&str) -> Option<T>) -> T {
    let read = || std::fs::read_to_string(path).unwrap_or_default();
    match watch::until(path, process(writer).as_ref(), PATIENCE, || look(&read())) {
        Ok(found) => found,
        Err(why) => panic!("not there: {why:?}\n{}", read()),
    }
}

/// Waits until something is so in a directory or about a file in it.
#[track_caller]
pub fn path<T>(path: &Path, look: impl FnMut() -> Option<T>) -> T {
    watch::until(path, None, PATIENCE, look).unwrap_or_else(|why: Missed| panic!("{}: {why:?}", path.display()))
}

/// What is found in what a node says: in its `status`, `domains`, `channels` or `log`. Looks at it at once, and whenever it is another one.
#[track_caller]
pub fn told<T>(dir: &Path, of: &str, mut look: impl FnMut(Value) -> Option<T>) -> T {
    let (patience, mut last) = (Patience::new(), String::new());
    let mut node = control(dir, None, String::new);
    loop {
        match node.next(of) {
            Ok(told) => {
                last = told.to_string();
                if let Some(found) = look(told) {
                    return found;
                }
            }
            Err(ClientError::Refused(why)) => panic!("{why}"),
            // It has given way to others, or had said nothing for a minute.
            Err(_) => node = control(dir, None, || last.clone()),
        }
        patience.left(|| last.clone());
    }
}

/// Waits until a node has a channel of this kind.
#[track_caller]
pub fn channel(dir: &Path, kind: &str) {
    let is = |channel: &Value| channel["kind"] == kind;
    told(dir, "channels", |all| all.as_array().is_some_and(|all| all.iter().any(is)).then_some(()));
}

/// An environment in an answer about domains.
pub fn environment_in(domains: &Value, name: &str) -> Option<Value> {
    domains["environments"].as_array()?.iter().find(|environment| environment["name"] == name).cloned()
}

/// An environment of a node, as soon as `there` says yes to it.
#[track_caller]
pub fn environment(dir: &Path, name: &str, there: impl Fn(&Value) -> bool) -> Value {
    told(dir, "domains", |domains| environment_in(&domains, name).filter(&there))
}

/// How a child ends.
#[track_caller]
pub fn ended(child: &mut Child) -> ExitStatus {
    assert!(process(Some(child)).is_none_or(|process| process.ends_within(PATIENCE).unwrap()), "it goes on");
    child.wait().unwrap()
}

/// How a child ends for which something is done again, ten times a second, since the network may lose it or come too late.
#[track_caller]
pub fn ended_by(child: &mut Child, mut act: impl FnMut()) -> ExitStatus {
    let patience = Patience::new();
    let ends = |process: Process| process.ends_within(Duration::from_millis(100)).unwrap();
    loop {
        act();
        if process(Some(child)).is_none_or(ends) {
            return child.wait().unwrap();
        }
        patience.left(|| "it goes on".into());
    }
}

/// Waits until a process has ended, whoever started it and whether or not somebody has waited for it.
#[track_caller]
pub fn gone(pid: u32) {
    let process = Process::open(pid).unwrap();
    assert!(process.is_none_or(|process| process.ends_within(PATIENCE).unwrap()), "process {pid} goes on");
}

/// Waits until a descriptor can be read.
#[track_caller]
pub fn readable(fd: &impl AsFd, said: impl FnOnce() -> String) {
    let time = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
    let ready = poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&time)).unwrap();
    assert!(ready > 0, "nothing comes: {}", said());
}

/// Waits for something of which nobody is told, for this reason, by looking a hundred times a second.
#[track_caller]
pub fn unannounced<T>(why: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    let patience = Patience::new();
    loop {
        match look() {
            Ok(found) => return found,
            Err(seen) => patience.left(|| format!("{why}; now: {seen}")),
        };
        std::thread::sleep(Duration::from_millis(10));
    }
}
