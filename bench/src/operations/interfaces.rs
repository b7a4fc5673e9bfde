//! Fifty interfaces: until a node serves all of them, until it has let go of them, and what it takes of memory meanwhile.
//!
//! The node stands in a network namespace of its own, and its links lead to nobody: by AF_PACKET alone, behind the kernel
//! half, and behind it with AF_XDP sockets.

use std::process::{Command, Stdio};
use std::time::Instant;

use super::key;
use super::routes::{await_that, ip, started};
use crate::place::Scratch;
use crate::report::Report;
use crate::series::{Key, Series, Target};
use crate::{Error, Settings, programs};
use anode::manage::client::Control;
use model::Ask;
use model::status::Status;

const INTERFACES: usize = 50;

/// Seconds of a start and of an end, and MiB of the node and its broker, all at most.
const START: f64 = 2.0;
const STOP: f64 = 1.0;
const MEMORY: f64 = 120.0;

/// What a port has beside its interface.
const VARIANTS: [(&str, &str); 3] = [
    ("node", ""),
    ("node, kernel half", "kernel = true\n"),
    ("node, kernel half and AF_XDP", "kernel = true\nxdp = true\n"),
];

/// A round takes ten seconds.
const ROUNDS: usize = 10;

fn measured(variant: &str, metric: &'static str, unit: &'static str) -> Key {
    key("50 interfaces", variant, metric, unit)
}

fn keys(variant: &str) -> [(Key, f64); 3] {
    [
        (measured(variant, "start until it answers", "s"), START),
        (measured(variant, "told to stop until it has ended", "s"), STOP),
        (measured(variant, "resident memory, broker included", "MiB"), MEMORY),
    ]
}

/// Measures it.
pub(super) fn run(settings: &Settings, report: &mut Report) -> Result<Series, Error> {
    let mut series = Series::default();
    if !anode::sys::process::is_root() {
        report.note("SKIPPED: interfaces need a network namespace, and that needs root.");
        return Ok(series);
    }
    let links = Links::new()?;
    let settings = &settings.at_most(ROUNDS);
    settings.rounds("interfaces", |_| {
        for (variant, line) in VARIANTS {
            let found = links.measure(line)?;
            keys(variant).into_iter().zip(found).for_each(|((key, _), value)| series.push(key, value));
        }
        Ok(())
    })?;
    for (key, most) in VARIANTS.into_iter().flat_map(|(variant, _)| keys(variant)) {
        let name = format!("50 interfaces, {}, {}, {}", key.variant, key.metric, key.unit);
        report.targets.extend(Target::at_most(name, series.values(&key), most));
    }
    Ok(series)
}

/// A network namespace with so many links.
struct Links(String);

impl Links {
    fn new() -> Result<Links, Error> {
        let name = format!("anode-links-{}", std::process::id());
        ip(&["netns", "add", &name])?;
        let links = Links(name);
        for number in 0..INTERFACES {
            let (own, other) = (format!("w{number}"), format!("x{number}"));
            links.ip(&["link", "add", &own, "type", "veth", "peer", "name", &other])?;
            links.ip(&["addr", "add", &format!("10.1.{number}.1/24"), "dev", &own])?;
            for end in [&own, &other] {
                links.ip(&["link", "set", end, "up"])?;
            }
        }
        Ok(links)
    }

    fn ip(&self, words: &[&str]) -> Result<(), Error> {
        ip(&[&["-n", &*self.0], words].concat())
    }

    /// Seconds of a start and of an end, and MiB between them.
    fn measure(&self, line: &str) -> Result<[f64; 3], Error> {
        let folder = Scratch::new()?;
        let (run, file) = (folder.path().join("run"), folder.path().join("node.toml"));
        let ports: String = (0..INTERFACES).map(|number| format!("[[port]]\npacket = \"w{number}\"\n{line}")).collect();
        let text = format!("name = \"links\"\nroutes = \"kernel\"\nrun_dir = {:?}\n{ports}", run.display().to_string());
        std::fs::write(&file, text).map_err(|cause| Error::Write { path: file.clone(), cause })?;
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0]).arg(programs::node()?).args(["node", "run"]).arg(&file);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let began = Instant::now();
        let mut process = command.spawn().map_err(started)?;
        let answers = || Ok(Control::connect(&run).and_then(|mut control| control.status()).is_ok());
        await_that("the node does not answer", answers)?;
        let start = began.elapsed().as_secs_f64();
        let mut control = Control::connect(&run).map_err(crate::node::failed)?;
        let status: Status = control.asked(&Ask::Status).map_err(crate::node::failed)?;
        let there = status.links.iter().filter(|link| link.state == "there").count();
        if there != INTERFACES {
            return Err(Error::Node(format!("{there} of {INTERFACES} interfaces are served")));
        }
        if let Some(sockets) = &status.xdp
            && sockets.iter().filter(|socket| socket.mode != "none").count() != INTERFACES
        {
            return Err(Error::Node(format!("not all interfaces have AF_XDP sockets: {sockets:?}")));
        }
        let memory = resident(process.id())?;
        let began = Instant::now();
        control.down(false).map_err(crate::node::failed)?;
        process.wait().map_err(started)?;
        Ok([start, began.elapsed().as_secs_f64(), memory])
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        // One that stays says so in the list of namespaces.
        let _ = ip(&["netns", "del", &self.0]);
    }
}

/// MiB of a process and of its first child, the broker.
fn resident(process: u32) -> Result<f64, Error> {
    let children = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).map_err(started)?;
    let mut kib = 0.0;
    for process in children.split_whitespace().take(1).map(str::to_owned).chain([process.to_string()]) {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).map_err(started)?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        kib += line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok()).unwrap_or(f64::NAN);
    }
    Ok(kib / 1024.0)
}
