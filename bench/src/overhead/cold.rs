//! The cost of unknown code: the first capsule over a hop, and the time until the kernel half runs it.
//!
//! ```text
//! s: node, has the code ──▶ s0 ── r0 │node, kernel half│ r1 ── d0 │d: witness
//! ```
//!
//! An application at s sends a capsule to d. The node in the middle asks the node at s for the code, checks and
//! compiles it, lets the capsule go on, and has the code linked for the kernel meanwhile. Then more capsules follow,
//! one after the other, until one has run there. Times begin when the application hands a capsule over, and end when
//! the kernel at d takes a frame in; what the same takes later, in the kernel half, is subtracted. How long linking
//! takes by itself is measured in this process, on a kernel half without interfaces.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::super::compile::{KernelPrograms, Programs};
use super::super::dialogue::Dialogue;
use super::super::flood::FORWARDING;
use super::super::gateway::{Gateway, Running};
use super::super::guests::{APP_PORT, INSTRUCTIONS, generated_both, header, with_role};
use super::super::line::{D_MAC, D0, EGRESS, INGRESS, Line, S0};
use super::super::node::{NodeGateway, PATIENCE, Up, failed};
use super::super::place::{Site, launch};
use super::super::programs;
use super::super::report::Report;
use super::super::series::{Key, Series, Target};
use super::super::stats::Summary;
use super::super::{Error, Settings};
use super::HALF;
use anode::code::bundle::{Bundle, Kind, Program};
use anode::code::check;
use anode::kernel::{KernelHalf, Opening};
use anode::manage::client::Attachment;
use anode::trust::CodeForm;
use anode::trust::limits::Limits;
use anode::wire::{Addr, capsule};

const REGIME: &str = "cold code, one hop";
const BEYOND: &str = "time beyond that of a later capsule";
const FIRST: &str = "first capsule arrives";
const SERVED: &str = "kernel half runs the code";
const LATER: &str = "later capsule, kernel half";
const LOADING: &str = "loading into the kernel";
const TIME: &str = "time";
const LOAD: &str = "scan, link, verify, let run";
const SCAN: &str = "scan alone";

/// Targets in milliseconds.
const COLD_MS: f64 = 15.0;
const LOAD_MS: f64 = 2.0;

/// Codes in a round; its figure is their median.
const CODES: u32 = 9;
const QUICK_CODES: u32 = 3;
const LOADS: u32 = 25;
/// Capsules that follow when the kernel half has the code.
const LATER_CAPSULES: usize = 9;
const WAIT_MS: u32 = 1000;

/// Measures both, and states the targets.
pub(super) fn run(
    settings: &Settings,
    programs: &Programs,
    kernel: &KernelPrograms,
    report: &mut Report,
) -> Result<Series, Error> {
    let mut series = loading(settings)?;
    settings.rounds(REGIME, |round| {
        let mut hop = Hop::new(programs, kernel, settings)?;
        let mut times: [Vec<f64>; 3] = Default::default();
        let codes = if settings.quick { QUICK_CODES } else { CODES };
        for number in 0..codes {
            let bundle = generated_both(round as u32 * codes + number)?;
            times.iter_mut().zip(hop.cross(&bundle)?).for_each(|(times, time)| times.push(time));
        }
        for ((variant, metric), times) in [(FIRST, BEYOND), (SERVED, BEYOND), (LATER, TIME)].into_iter().zip(&times) {
            series.push(key(REGIME, variant, metric), Summary::of(times).map_or(f64::NAN, |summary| summary.median));
        }
        Ok(())
    })?;
    for (variant, name) in [(FIRST, "until the first capsule arrives"), (SERVED, "until the kernel half runs the code")]
    {
        let values = series.values(&key(REGIME, variant, BEYOND));
        report.targets.extend(Target::at_most(format!("{REGIME}: {name}, beyond a later one, ms"), values, COLD_MS));
    }
    let values = series.values(&key(LOADING, LOAD, TIME));
    report.targets.extend(Target::at_most(format!("{LOADING}: {INSTRUCTIONS} instructions, ms"), values, LOAD_MS));
    Ok(series)
}

fn key(regime: &str, variant: &str, metric: &'static str) -> Key {
    Key { variant: variant.into(), size: None, regime: regime.into(), metric, unit: "ms" }
}

/// Loads code after code into a kernel half of this process.
fn loading(settings: &Settings) -> Result<Series, Error> {
    let broken = |error: &dyn std::fmt::Display| Error::Node(format!("loading into the kernel: {error}"));
    let opening = Opening { name: [0; 16], origin: 0, program: programs::node()?, pins: None };
    let half = KernelHalf::open(opening).map_err(|error| broken(&error))?;
    let mut series = Series::default();
    settings.rounds(LOADING, |round| {
        let (mut whole, mut scans) = (Vec::new(), Vec::new());
        for number in 0..LOADS {
            let bundle = generated_both(round as u32 * LOADS + number)?;
            let bytes = bundle.representation(Kind::Bpf).ok_or_else(|| Error::Guest("no bpf".into()))?;
            let began = Instant::now();
            check::bpf(bytes).map_err(|error| broken(&error))?;
            let code = Program::parse(bytes).map_err(|error| broken(&error))?;
            scans.push(began.elapsed().as_secs_f64() * 1e3);
            half.add_code(&bundle.name(), &code, 0, CodeForm::Sandboxed, &Limits::default())
                .map_err(|error| broken(&error))?;
            half.activate(&bundle.name()).map_err(|error| broken(&error))?;
            whole.push(began.elapsed().as_secs_f64() * 1e3);
            half.remove_code(&bundle.name()).map_err(|error| broken(&error))?;
        }
        for (variant, times) in [(LOAD, &whole), (SCAN, &scans)] {
            series.push(key(LOADING, variant, TIME), Summary::of(times).map_or(f64::NAN, |summary| summary.median));
        }
        Ok(())
    })?;
    Ok(series)
}

/// Two nodes and a witness.
struct Hop {
    near: Up,
    far: Up,
    application: Attachment,
    witness: Dialogue,
    // In the order in which they end.
    _nodes: [Running; 2],
    _site: Site,
}

impl Hop {
    fn new(programs: &Programs, kernel: &KernelPrograms, settings: &Settings) -> Result<Hop, Error> {
        let cpus = settings.cpus();
        let line = Line::new(programs)?;
        line.r.run("sh", &["-c", FORWARDING], "")?;
        let own =
            format!("addr add {}/24 dev {S0}\nroute add default via {} dev {S0}\n", INGRESS.peer, INGRESS.address);
        line.s.run("ip", &["-batch", "-"], &own)?;
        for (holder, interface) in [(&line.s, S0), (&line.d, D0)] {
            holder.run("ethtool", &["-K", interface, "gro", "on"], "")?;
        }
        let arguments = [line.d.netns(), D0.into(), D_MAC.into()];
        let (witness, said) = Dialogue::start(launch(programs, cpus.generator, None), &kernel.witness, &arguments)?;
        if said != "ready" {
            return Err(Error::Protocol(said));
        }
        let site = Site::packet(line, programs, cpus)?;
        let far_node = NodeGateway::new(HALF, &[]).configured(&with_role("sandboxed"), "kernel = true").start(&site)?;
        let far = Up::wait(&site.scratch.path().join("run"))?;
        let dir = site.scratch.path().join("near");
        let config = site.scratch.path().join("near.toml");
        let store = dir.join("store");
        let text = format!(
            "name = \"near\"\nrun_dir = {dir:?}\nstore = {store:?}\n{}\n[[port]]\npacket = \"{S0}\"\n",
            with_role("sandboxed")
        );
        std::fs::write(&config, text).map_err(|cause| Error::Write { path: config.clone(), cause })?;
        let netns = site.line.as_ref().map(|line| line.s.netns());
        let near_node =
            site.spawn_in(netns.as_deref(), "near", &programs::node()?, &["node".into(), "run".into(), config.into()])?;
        let near = Up::wait(&dir)?;
        let application = Attachment::attach(&dir, APP_PORT).map_err(failed)?;
        Ok(Hop { near, far, application, witness, _nodes: [near_node, far_node], _site: site })
    }

    /// Sends capsules of new code until the kernel half has it: milliseconds of the first, and until it ran there, both beyond a later
    /// one, and of that.
    fn cross(&mut self, bundle: &Bundle) -> Result<[f64; 3], Error> {
        self.near.add(bundle)?;
        self.send(bundle, self.application.address())?;
        match self.application.receive(PATIENCE) {
            Ok(Some(_)) => {}
            Ok(None) => return Err(Error::Node("code does not get ready where it is".into())),
            Err(error) => return Err(failed(error)),
        }
        let began = now();
        let first = self.pass(bundle)?;
        let limit = Instant::now() + PATIENCE;
        let mut before = began;
        while !self.far.runs_in_kernel(bundle)? {
            if Instant::now() > limit {
                return Err(Error::Node("the kernel half does not run the code".into()));
            }
            before = now();
            self.pass(bundle)?;
        }
        let served = before.saturating_sub(began).as_secs_f64() * 1e3;
        let later = (0..LATER_CAPSULES).map(|_| self.pass(bundle)).collect::<Result<Vec<f64>, Error>>()?;
        let later = Summary::of(&later).map_or(f64::NAN, |summary| summary.median);
        Ok([first - later, served, later])
    }

    /// Milliseconds that a capsule takes to the witness.
    fn pass(&mut self, bundle: &Bundle) -> Result<f64, Error> {
        let began = now();
        self.send(bundle, Addr::from(std::net::IpAddr::V4(EGRESS.peer)))?;
        let said = self.witness.ask(&format!("await {WAIT_MS}"))?;
        match said.strip_prefix("came ").and_then(|time| time.parse::<u64>().ok()) {
            None => Err(Error::Protocol(said)),
            Some(0) => Err(Error::Node(format!("a capsule did not arrive within {WAIT_MS} ms"))),
            Some(time) => Ok((time as f64 - began.as_nanos() as f64) / 1e6),
        }
    }

    fn send(&self, bundle: &Bundle, to: Addr) -> Result<(), Error> {
        let header = capsule::Header { source: Addr::UNSPECIFIED, ..header(bundle, to) };
        self.application.send(&header, &[]).map_err(failed)
    }
}

/// Time since 1970, which is the witness's clock too.
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
