//! Code before and after its use: compile time, the first capsule over a cold hop, the memory of an idle node,
//! revocations.

use std::time::Duration;

use super::super::compile::Programs;
use super::super::guests::{MODULE, generated};
use super::super::micro::{COST, Micro};
use super::super::report::Report;
use super::super::series::{Key, Series, Target};
use super::super::{Error, Settings};
use super::process::{Process, cross, make_ready};
use anode::code::bundle::Kind;
use anode::code::run::Tier;
use anode::code::run::wasm::{Backstop, Compiler};

/// Codes that the idle node has ready.
const CODES: u32 = 100;
/// Target for them, in MiB of resident memory.
const RSS_MIB: f64 = 64.0;
/// Target for the load time of a module, in nanoseconds.
const LOAD_NS: f64 = 5e6;
/// Codes that cross the cold hop in a round; the round's figure is their median.
const CROSSINGS: u32 = 15;

/// Target for the end of running code that is revoked, in microseconds: it has ended, and its node remembers that over restarts.
const REVOKED_US: f64 = 10_000.0;

const LOADING: &str = "loading";
const COMPILE: &str = "check and compile 2 kB of wasm";
const COLD: &str = "first capsule over a cold hop";
const WARM: &str = "later capsule over the same hop";

/// Runs all four.
pub(super) fn run(settings: &Settings, programs: &Programs) -> Result<Series, Error> {
    let mut series = compile(settings)?;
    series.extend(cold_hop(settings, programs)?);
    series.extend(memory(settings, programs)?);
    series.extend(revocation(settings, programs)?);
    Ok(series)
}

/// States the targets.
pub(super) fn judge(series: &Series, report: &mut Report) {
    let compile = series.values(&compile_key());
    report.targets.extend(Target::at_most(format!("load time of {MODULE} bytes of wasm, ns"), compile, LOAD_NS));
    let memory = series.values(&memory_key());
    report.targets.extend(Target::at_most(format!("idle node with {CODES} codes ready, MiB"), memory, RSS_MIB));
    let revoked = series.values(&revoked_key());
    report.targets.extend(Target::at_most("running code that is revoked has ended, µs", revoked, REVOKED_US));
}

fn compile_key() -> Key {
    Key { variant: COMPILE.into(), size: None, regime: LOADING.into(), metric: COST, unit: "ns" }
}

fn memory_key() -> Key {
    let variant = format!("idle node, {CODES} codes ready");
    Key { variant, size: None, regime: "memory".into(), metric: "resident memory (VmRSS)", unit: "MiB" }
}

fn revoked_key() -> Key {
    let metric = "time from the operator's word to the answer";
    Key { variant: "running code is revoked".into(), size: None, regime: "ending".into(), metric, unit: "µs" }
}

/// What the loader does between the arrival of a representation and the first capsule.
fn compile(settings: &Settings) -> Result<Series, Error> {
    let bundle = generated(0)?;
    let wasm = bundle.representation(Kind::Wasm).ok_or_else(|| Error::Guest("no wasm".into()))?;
    let compiler = Compiler::new(Backstop::Ticker).map_err(|error| Error::Node(format!("no compiler: {error:#}")))?;
    compiler.compile(wasm, 0, Tier::Fast).map_err(|error| Error::Guest(error.to_string()))?;
    Micro::new(LOADING, None).variant(COMPILE, || compiler.compile(wasm, 0, Tier::Fast)).run(settings)
}

/// Two nodes: code that only the first one has is asked for, sent in parts, checked, compiled and run, while the capsule waits.
fn cold_hop(settings: &Settings, programs: &Programs) -> Result<Series, Error> {
    let mut series = Series::default();
    settings.rounds(COLD, |round| {
        let [mut near, far] = Process::pair(programs)?;
        let (mut from, mut to) = (near.attach()?, far.attach()?);
        let (mut first, mut later) = (Vec::new(), Vec::new());
        for number in 0..CROSSINGS {
            let bundle = generated(1000 + round as u32 * CROSSINGS + number)?;
            near.add(&bundle)?;
            make_ready(&mut from, &bundle)?;
            first.push(cross(&from, &mut to, &bundle)?);
            later.push(cross(&from, &mut to, &bundle)?);
        }
        for (variant, times) in [(COLD, first), (WARM, later)] {
            let metric = "time from application to application";
            let key = Key { variant: variant.into(), size: None, regime: LOADING.into(), metric, unit: "µs" };
            series.push(key, median(times).as_secs_f64() * 1e6);
        }
        Ok(())
    })?;
    Ok(series)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn memory(settings: &Settings, programs: &Programs) -> Result<Series, Error> {
    let mut series = Series::default();
    settings.rounds("memory", |_| {
        let [mut node, _other] = Process::pair(programs)?;
        let mut own = node.attach()?;
        for number in 0..CODES {
            let bundle = generated(number)?;
            node.add(&bundle)?;
            make_ready(&mut own, &bundle)?;
        }
        series.push(memory_key(), node.resident_mib()?);
        Ok(())
    })?;
    Ok(series)
}

/// Code that has run is revoked at a node with a store on disk. The longest time of a round is its figure.
fn revocation(settings: &Settings, programs: &Programs) -> Result<Series, Error> {
    let mut series = Series::default();
    settings.rounds("revocations", |round| {
        let mut node = Process::with_store(programs)?;
        let mut own = node.attach()?;
        let mut longest = Duration::ZERO;
        for number in 0..CROSSINGS {
            let bundle = generated(100_000 + round as u32 * CROSSINGS + number)?;
            node.add(&bundle)?;
            make_ready(&mut own, &bundle)?;
            longest = longest.max(node.revoke(&bundle)?);
        }
        series.push(revoked_key(), longest.as_secs_f64() * 1e6);
        Ok(())
    })?;
    Ok(series)
}
