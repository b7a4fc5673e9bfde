//! `anode bench tiers`: work in wasm from the fast and from the optimising compiler, beside native code.
//!
//! Pieces of work that real capsules do, one of them also with vectors in its source, are compiled from one C source
//! each (`bench/guests`), for wasm and natively by the same clang -O2, and run by the run-time on a packet that stays
//! ([`RunAlone`]): entry, window and reset are part of every variant. Then a node process gets capsules of one of them
//! until its status says that it is optimised: the time from the first capsule on is what it takes to find the code hot
//! and to compile it in its jail. Last, what the jail costs when code is loaded, and how long one neighbour's code
//! takes while another has the loader compile what costs most.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::capsules::micro::{RunAlone, compiler};
use super::capsules::process::Process;
use super::compile::Programs;
use super::guests::{compile, generated, header, packet};
use super::micro::{COST, Micro};
use super::node::{PATIENCE, failed};
use super::programs;
use super::report::Report;
use super::series::{Key, Series, Target};
use super::{Error, Settings};
use anode::code::author::AuthorOptions;
use anode::code::bundle::{Bundle, Kind};
use anode::code::compiler::Compilers;
use anode::code::run::{Cause, Ingress, Prepare, Tier};
use anode::code::store::Store;
use anode::frame::{Payer, PortId};
use anode::manage::client::Attachment;
use anode::manage::loader::{Compiling, Loaded, Loader, Policy};
use anode::manage::revoked::Revocations;
use anode::node::Effect;
use anode::sys::poll::{Poll, Waker};
use anode::wire::{Addr, Digest, anep, capsule};

/// Pieces of work: name, source, and the most that optimised wasm may take of native code's time.
const WORK: [(&str, &str, f64); 4] = [
    ("5/3 wavelet of 1,024 samples", include_str!("../guests/wavelet.c"), 1.4),
    ("64 updates of a count-min sketch", include_str!("../guests/sketch.c"), 2.1),
    ("700 bytes of 16-bit samples halved", include_str!("../guests/halve.c"), 1.6),
    ("700 bytes of 16-bit samples halved by eights", include_str!("../guests/halve_vectors.c"), 1.6),
];
const FAST: &str = "wasm, compiled at once";
const OPTIMISED: &str = "wasm, optimised";
const NATIVE: &str = "native, clang -O2";

/// From the first capsule of hot code until it runs optimised, at most.
const HOT_MS: f64 = 200.0;
const HOT: &str = "from the first capsule to optimised";

const JAIL: &str = "check and compile 2 kB of wasm";
const JAILED: &str = "in the jail";
const HERE: &str = "in this process";

const READY: &str = "2 kB of wasm of one neighbour ready";
const CALM: &str = "nobody else";
const BOMBED: &str = "beside another neighbour's compile bombs";
/// The second over the first, at most.
const BESIDE: f64 = 2.0;
/// Modules that cost nearly as much as the check lets pass, in a round.
const BOMBS: u32 = 6;

/// Bytes of payload: as many as the largest window.
const PAYLOAD: usize = 256;

/// Capsules between two looks at a node's status.
const BETWEEN_LOOKS: usize = 64;

/// Runs the benchmark.
pub(crate) fn run(settings: &Settings, report: &mut Report) -> Result<(), Error> {
    let mut all = Series::default();
    for (name, source, most) in WORK {
        let series = work(settings, name, source)?;
        let key =
            |variant: &str| Key { variant: variant.into(), size: None, regime: name.into(), metric: COST, unit: "ns" };
        let ratios = series.ratios(&key(OPTIMISED), OPTIMISED, NATIVE);
        report.targets.extend(Target::at_most(format!("{name}, hot wasm / native"), &ratios, most));
        all.extend(series);
    }
    let programs = Programs::ready()?;
    let (hot, key) = until_optimised(settings, &programs)?;
    report.targets.extend(Target::at_most(format!("{HOT}, ms"), hot.values(&key), HOT_MS));
    all.extend(hot);
    all.extend(jail(settings)?);
    let beside = beside(settings)?;
    let key =
        |variant: &str| Key { variant: variant.into(), size: None, regime: READY.into(), metric: "time", unit: "ms" };
    let ratios = beside.ratios(&key(BOMBED), BOMBED, CALM);
    report.targets.extend(Target::at_most("code of others ready beside compile bombs / calm", &ratios, BESIDE));
    all.extend(beside);
    report.rows = all.rows(&[NATIVE, HERE, CALM]);
    report.note("All variants include the entry into the code, its window and the reset of its memory behind it.");
    report.note(format!(
        "{HOT} includes finding it hot, which is done every 100 ms, and asking for the status over a socket."
    ));
    Ok(())
}

/// One piece of work in all variants.
fn work(settings: &Settings, name: &str, source: &str) -> Result<Series, Error> {
    let wasm = compile("work", source, &AuthorOptions { only: Some(Kind::Wasm), ..AuthorOptions::default() })?;
    let native = compile("work", source, &AuthorOptions { only: Some(Kind::Native), ..AuthorOptions::default() })?;
    let alone = |bundle: &Bundle, kind, tier| {
        let length = anep::HEADER + capsule::HEADER + PAYLOAD;
        let mut packet = packet(bundle, length);
        let payload = &mut packet[length - PAYLOAD..];
        // Keys that differ (a linear congruential generator): equal ones would wait for each other.
        let mut word = 1u32;
        for place in payload.as_chunks_mut().0 {
            word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *place = word.to_le_bytes();
        }
        RunAlone::new(bundle, (kind, tier), &packet).map(RefCell::new)
    };
    let fast = alone(&wasm, Kind::Wasm, Tier::Fast)?;
    let optimised = alone(&wasm, Kind::Wasm, Tier::Optimised)?;
    let native = alone(&native, Kind::Native, Tier::Fast)?;
    let steps = [fast.borrow_mut().run(), optimised.borrow_mut().run()];
    if steps[0] != steps[1] || steps[0] == 0 {
        return Err(Error::Guest(format!("{name} takes {steps:?} steps in the two tiers")));
    }
    Micro::new(name, None)
        .variant(FAST, || fast.borrow_mut().run())
        .variant(OPTIMISED, || optimised.borrow_mut().run())
        .variant(NATIVE, || native.borrow_mut().run())
        .run(settings)
}

/// A node is sent capsules of the last piece of work until it has optimised the code.
fn until_optimised(settings: &Settings, programs: &Programs) -> Result<(Series, Key), Error> {
    let mut series = Series::default();
    let key = Key { variant: HOT.into(), size: None, regime: "hot".into(), metric: "time", unit: "ms" };
    settings.rounds(HOT, |round| {
        let [mut near, far] = Process::pair(programs)?;
        // Every round another code.
        let source = format!("#define ROUND {round}\n{}", WORK[2].1);
        let title = format!("hot{round}");
        let bundle = compile(&title, &source, &AuthorOptions { only: Some(Kind::Wasm), ..AuthorOptions::default() })?;
        near.add(&bundle)?;
        let (from, to) = (near.attach()?, far.attach()?);
        let took = heat(&mut near, &from, to.address(), &bundle)?;
        series.push(key.clone(), took.as_secs_f64() * 1e3);
        Ok(())
    })?;
    Ok((series, key))
}

fn heat(node: &mut Process, from: &Attachment, to: Addr, bundle: &Bundle) -> Result<Duration, Error> {
    let header = capsule::Header { source: Addr::UNSPECIFIED, ..header(bundle, to) };
    let payload = [0; PAYLOAD];
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        for _ in 0..BETWEEN_LOOKS {
            from.send(&header, &payload).map_err(failed)?;
        }
        match node.tier(bundle)?.as_deref() {
            Some("optimised") => return Ok(began.elapsed()),
            Some(other) if other.contains("not optimised") => return Err(Error::Node(other.into())),
            _ => {}
        }
    }
    Err(Error::Node("its hot code is not optimised".into()))
}

/// What a process of its own costs when code is loaded.
fn jail(settings: &Settings) -> Result<Series, Error> {
    let bundle = generated(0)?;
    let wasm = bundle.representation(Kind::Wasm).ok_or_else(|| Error::Guest("no wasm".into()))?;
    let compiler = compiler()?;
    let mut lane = Compilers::new(programs::node()?, Default::default()).lane();
    compiler.compile_in(&mut lane, wasm, 0, Tier::Fast).map_err(|error| Error::Guest(error.to_string()))?;
    let mut series = Series::default();
    settings.rounds(JAIL, |_| {
        let key = |variant: &str| Key {
            variant: variant.into(),
            size: None,
            regime: JAIL.into(),
            metric: "time",
            unit: "ns",
        };
        let began = Instant::now();
        let here = compiler.compile(wasm, 0, Tier::Fast).is_ok();
        series.push(key(HERE), began.elapsed().as_nanos() as f64);
        let began = Instant::now();
        let jailed = compiler.compile_in(&mut lane, wasm, 0, Tier::Fast).is_ok();
        series.push(key(JAILED), began.elapsed().as_nanos() as f64);
        if here && jailed { Ok(()) } else { Err(Error::Guest("a module is not compiled any more".into())) }
    })?;
    Ok(series)
}

/// How long code of one neighbour takes, alone and beside another neighbour's that costs as much as it may.
fn beside(settings: &Settings) -> Result<Series, Error> {
    let mut place = Shop::open()?;
    let mut series = Series::default();
    settings.rounds(READY, |round| {
        let round = round as u32;
        let key = |variant: &str| Key {
            variant: variant.into(),
            size: None,
            regime: READY.into(),
            metric: "time",
            unit: "ms",
        };
        let module = |number: u32| {
            let wasm = generated(number)?.representation(Kind::Wasm).cloned();
            wasm.ok_or_else(|| Error::Guest("no wasm".into()))
        };
        let (one, other) = (module(2 * round)?, module(2 * round + 1)?);
        series.push(key(CALM), place.ready(2, one)?.as_secs_f64() * 1e3);
        for number in 0..BOMBS {
            place.submit(1, bomb(round * BOMBS + number)?)?;
        }
        series.push(key(BOMBED), place.ready(2, other)?.as_secs_f64() * 1e3);
        place.drain()
    })?;
    Ok(series)
}

/// A module that costs nearly as much as one may; every number another one.
fn bomb(number: u32) -> Result<Arc<[u8]>, Error> {
    let copies = "(memory.copy (local.get 0) (local.get 0) (local.get 0))".repeat(750);
    let text = format!(
        "(module (memory (export \"memory\") 1 1) (global (export \"an_arena\") i32 (i32.const 0))
         (func (param i32) {copies}) (func (export \"capsule\") (param i32 i32) (result i32) {copies} (i32.const {number})))"
    );
    wat::parse_str(text).map(Into::into).map_err(|error| Error::Guest(error.to_string()))
}

/// A loader as a node has it.
struct Shop {
    loader: Loader,
    poll: Poll,
    waker: Waker,
    /// Codes whose answers have not come.
    open: usize,
}

impl Shop {
    fn open() -> Result<Shop, Error> {
        let failed = |error: &dyn std::fmt::Display| Error::Node(format!("no loader: {error}"));
        let waker = Waker::new().map_err(|error| failed(&error))?;
        let poll = Poll::new().map_err(|error| failed(&error))?;
        poll.add(&waker, 0).map_err(|error| failed(&error))?;
        let jailed = Compilers::new(programs::node()?, Default::default());
        let compiling = Compiling { compiler: compiler()?, jailed, jobs: 2 };
        let revocations = Revocations::open(None, Default::default()).map_err(|error| failed(&error))?;
        let revocations = Arc::new(revocations);
        let policy = Policy { node: "bench".into(), roles: Default::default(), revocations };
        let store = Store::open(None, Default::default()).map_err(|error| failed(&error))?;
        let loader = Loader::start(store, compiling, policy, None, waker.clone()).map_err(|error| failed(&error))?;
        Ok(Shop { loader, poll, waker, open: 0 })
    }

    fn submit(&mut self, from: u16, wasm: Arc<[u8]>) -> Result<Digest, Error> {
        let cause = Cause { ingress: Ingress::Port(PortId(0), Payer(from)), principal: None };
        let code = Digest::of(&wasm);
        let prepare = Prepare { code, cause, tier: Tier::Fast, kind: Kind::Wasm, bytes: wasm, window: 0 };
        self.open += 1;
        self.loader
            .submit(Effect::Prepare(prepare))
            .map(|()| code)
            .map_err(|_| Error::Node("the loader is full".into()))
    }

    /// The next code that is ready.
    fn next(&mut self) -> Result<Digest, Error> {
        let mut ready = Vec::new();
        loop {
            match self.loader.result() {
                Some(Loaded::Prepared(code, result)) => {
                    self.open -= 1;
                    return result.map(|_| code).map_err(Error::Guest);
                }
                Some(_) => return Err(Error::Node("a module is not compiled".into())),
                None => {
                    self.poll.wait(u64::MAX, &mut ready).map_err(|error| Error::Node(error.to_string()))?;
                    self.waker.rest();
                }
            }
        }
    }

    /// How long code takes from its arrival until it is ready.
    fn ready(&mut self, from: u16, wasm: Arc<[u8]>) -> Result<Duration, Error> {
        let began = Instant::now();
        let code = self.submit(from, wasm)?;
        while self.next()? != code {}
        Ok(began.elapsed())
    }

    fn drain(&mut self) -> Result<(), Error> {
        while self.open > 0 {
            self.next()?;
        }
        Ok(())
    }
}
