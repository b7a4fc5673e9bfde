//! A million routes of the kernel: until a node has read them, what it costs to follow a thousand changes a second, and until both
//! halves obey one of these.
//!
//! The node stands in a network namespace of its own, with a link to nobody. Changes come by `ip -batch`, as from a routing daemon.

use std::cell::RefCell;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use super::key;
use crate::place::Scratch;
use crate::report::Report;
use crate::series::{Key, Series, Target};
use crate::{Error, Settings, programs};
use anode::manage::client::Control;
use anode::wire::Addr;
use model::Ask;
use model::status::Status;

const ROUTES: u32 = 1_000_000;
const QUICK_ROUTES: u32 = 20_000;

/// Changes a second, for so long; and changes that are waited for, one by one.
const CHANGES: u32 = 1000;
const FOR: Duration = Duration::from_secs(5);
const OBEYED: u32 = 20;

/// Seconds to load, share of a core, and milliseconds until one change is obeyed, all at most.
const LOAD: f64 = 3.0;
const CPU: f64 = 0.1;
const OBEYED_MS: f64 = 100.0;

/// A round takes ten seconds.
const ROUNDS: usize = 10;

/// For how long a node may take, and between two looks at it.
const PATIENCE: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_millis(1);

/// Ticks of `/proc/PID/stat` in a second.
const TICKS: f64 = 100.0;

fn measured(metric: &'static str, unit: &'static str) -> Key {
    key("routes", "node, kernel half", metric, unit)
}

fn load() -> Key {
    measured("start to all routes in both halves", "s")
}

fn cpu() -> Key {
    measured("CPU at 1,000 changes a second", "cores")
}

fn obeyed() -> Key {
    measured("one change to obeyed in both halves, slowest of 20", "ms")
}

/// Measures it.
pub(super) fn run(settings: &Settings, report: &mut Report) -> Result<Series, Error> {
    let mut series = Series::default();
    if !anode::sys::process::is_root() {
        report.note("SKIPPED: routes need a network namespace, and that needs root.");
        return Ok(series);
    }
    let routes = if settings.quick { QUICK_ROUTES } else { ROUTES };
    let place = Namespace::new(routes)?;
    let settings = &settings.at_most(ROUNDS);
    settings.rounds("routes", |round| {
        let (node, took) = Node::start(&place, routes)?;
        series.push(load(), took.as_secs_f64());
        series.push(cpu(), node.follow(&place, routes, round as u32)?);
        let mut slowest = Duration::ZERO;
        for number in 0..OBEYED {
            slowest = slowest.max(node.obeys(&place, number)?);
        }
        series.push(obeyed(), slowest.as_secs_f64() * 1e3);
        Ok(())
    })?;
    report.note(format!("{routes} routes of 24 bits; the kernel's own work for `ip` is not in the node's CPU."));
    for (key, most) in [(load(), LOAD), (cpu(), CPU), (obeyed(), OBEYED_MS)] {
        let name = format!("{routes} routes, {}, {}", key.metric, key.unit);
        report.targets.extend(Target::at_most(name, series.values(&key), most));
    }
    Ok(series)
}

/// A network namespace with a link and many routes.
struct Namespace {
    name: String,
    /// Changes routes as it is told.
    changes: Option<(Child, RefCell<ChildStdin>)>,
}

impl Namespace {
    fn new(routes: u32) -> Result<Namespace, Error> {
        let name = format!("anode-routes-{}", std::process::id());
        ip(&["netns", "add", &name])?;
        let mut place = Namespace { name, changes: None };
        for words in [
            "link add w0 type veth peer name w1",
            "link set lo up",
            "link set w0 up",
            "link set w1 up",
            "addr add 10.0.1.1/24 dev w0",
        ] {
            ip(&[&["-n", &*place.name][..], &words.split(' ').collect::<Vec<_>>()].concat())?;
        }
        let mut process = place.batch()?;
        let mut input = process.stdin.take().ok_or_else(|| Error::Node("ip takes no commands".into()))?;
        let mut lines = String::new();
        for number in 0..routes {
            lines += &format!("route add {} via 10.0.1.2\n", block(number));
        }
        input.write_all(lines.as_bytes()).map_err(started)?;
        drop(input);
        process.wait().map_err(started)?;
        let mut process = place.batch()?;
        let input = process.stdin.take().ok_or_else(|| Error::Node("ip takes no commands".into()))?;
        place.changes = Some((process, RefCell::new(input)));
        Ok(place)
    }

    /// A process that carries out what it is written.
    fn batch(&self) -> Result<Child, Error> {
        let mut command = Command::new("ip");
        command.args(["-n", &self.name, "-force", "-batch", "-"]).stdin(Stdio::piped());
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(started)
    }

    /// Has a route lead to another router.
    fn change(&self, to: &str, via: u32) -> Result<(), Error> {
        let (_, input) = self.changes.as_ref().ok_or_else(|| Error::Node("nobody changes routes".into()))?;
        let line = format!("route replace {to} via 10.0.1.{via}\n");
        input.borrow_mut().write_all(line.as_bytes()).map_err(started)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Some((mut process, input)) = self.changes.take() {
            drop(input);
            let _ = process.wait();
        }
        let _ = ip(&["netns", "del", &self.name]);
    }
}

/// The node of the namespace, ended with this.
struct Node {
    process: Child,
    folder: Scratch,
}

impl Node {
    /// Starts it; gives for how long its routes were not all there.
    fn start(place: &Namespace, routes: u32) -> Result<(Node, Duration), Error> {
        let folder = Scratch::new()?;
        let (run, file) = (folder.path().join("run"), folder.path().join("node.toml"));
        let text = format!(
            "name = \"routes\"\nroutes = \"kernel\"\nrun_dir = {:?}\n[[port]]\npacket = \"w0\"\nkernel = true\n",
            run.display().to_string()
        );
        std::fs::write(&file, text).map_err(|cause| Error::Write { path: file.clone(), cause })?;
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &place.name]).arg(programs::node()?).args(["node", "run"]).arg(&file);
        let began = Instant::now();
        let process =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(started)?;
        let node = Node { process, folder };
        await_that("the node has not all routes", || {
            let Ok(status) =
                Control::connect(&node.run_dir()).and_then(|mut control| control.asked::<Status>(&Ask::Status))
            else {
                return Ok(false);
            };
            Ok(status.routes > u64::from(routes) && node.leads(&block_address(routes - 1), 2)?)
        })?;
        Ok((node, began.elapsed()))
    }

    fn run_dir(&self) -> std::path::PathBuf {
        Path::new(self.folder.path()).join("run")
    }

    /// Whether both halves lead to an address by this router.
    fn leads(&self, to: &Addr, via: u32) -> Result<bool, Error> {
        let mut control = Control::connect(&self.run_dir()).map_err(crate::node::failed)?;
        let ways = control.ways(&[*to]).map_err(crate::node::failed)?;
        let via = format!("10.0.1.{via}");
        let both = |own: &Option<String>, kernel: Option<&Option<String>>| {
            own.as_ref() == Some(&via) && kernel.is_some_and(|kernel| kernel.as_ref() == Some(&via))
        };
        Ok(ways.iter().all(|way| both(&way.leads.via, way.kernel.as_ref().map(|kernel| &kernel.via))))
    }

    /// Nanoseconds of CPU that its threads have used.
    fn used(&self) -> Result<f64, Error> {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).map_err(started)?;
        let fields: Vec<&str> = text.rsplit(')').next().unwrap_or("").split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
        Ok((ticks(11) + ticks(12)) / TICKS)
    }

    /// Cores that it uses while routes change.
    fn follow(&self, place: &Namespace, routes: u32, round: u32) -> Result<f64, Error> {
        let (before, began, mut done) = (self.used()?, Instant::now(), 0);
        while began.elapsed() < FOR {
            let due = (began.elapsed().as_secs_f64() * f64::from(CHANGES)) as u32;
            for number in done..due {
                // All over the table; the last stays as the next start looks for it. In each round by another router than in the one
                // before: a route that stays what it is changes nothing, and the kernel tells nobody.
                let to = number.wrapping_mul(7919) % (routes - 1);
                place.change(&block(to), 3 + (number + round) % 5)?;
            }
            done = due;
            std::thread::sleep(AGAIN);
        }
        Ok((self.used()? - before) / began.elapsed().as_secs_f64())
    }

    /// For how long a change is not obeyed.
    fn obeys(&self, place: &Namespace, number: u32) -> Result<Duration, Error> {
        let via = 10 + number % 200;
        let began = Instant::now();
        place.change(&block(0), via)?;
        await_that("a change is not obeyed", || self.leads(&block_address(0), via))?;
        Ok(began.elapsed())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Ok(mut control) = Control::connect(&self.run_dir()) {
            let _ = control.down(false);
        }
        let _ = self.process.wait();
    }
}

/// The block with this number, and its first host.
fn block(number: u32) -> String {
    format!("{}/24", std::net::Ipv4Addr::from(0x1400_0000 + (number << 8)))
}

fn block_address(number: u32) -> Addr {
    Addr::v4((0x1400_0001 + (number << 8)).to_be_bytes())
}

pub(super) fn await_that(what: &str, mut there: impl FnMut() -> Result<bool, Error>) -> Result<(), Error> {
    let began = Instant::now();
    while !there()? {
        if began.elapsed() > PATIENCE {
            return Err(Error::Node(format!("{what} within {PATIENCE:?}")));
        }
        std::thread::sleep(AGAIN);
    }
    Ok(())
}

pub(super) fn ip(words: &[&str]) -> Result<(), Error> {
    let output = Command::new("ip").args(words).output().map_err(started)?;
    let said = || Error::Node(format!("ip {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr)));
    if output.status.success() { Ok(()) } else { Err(said()) }
}

pub(super) fn started(cause: std::io::Error) -> Error {
    Error::Start { program: "ip".into(), cause }
}
