//! Ordinary traffic beside a flood of capsules, on one CPU: with Linux alone as the forwarder of both, and with a
//! kernel half for the capsules.
//!
//! The flood ([`super::super::flood`]) enters the router on r0, and between its batches `pace` sends datagrams that are
//! no capsules by the same interface. Linux forwards those in each variant, and counts what it has forwarded in the
//! router's namespace; where it forwards the flood too, what of the flood reached the sink is taken off. All is on one
//! CPU, and all variants get the same.

use super::super::compile::{KernelPrograms, Programs};
use super::super::dialogue::Dialogue;
use super::super::flood::{Channel, NO_CAPSULES, Rhythm, Stream, Variant};
use super::super::line::{D_MAC, D0, S0, destination, frame};
use super::super::node::NodeGateway;
use super::super::place::launch;
use super::super::report::Report;
use super::super::series::{Key, Series, Target};
use super::super::{Error, Settings};
use anode::code::bundle::Bundle;

const REGIME: &str = "ordinary packets beside a flood of capsules, one CPU";
const LOST: &str = "share that got through";
pub(super) const LINUX: &str = "Linux forwards both";
const CHEAP: &str = "kernel half, cheap code";
const DEAR: &str = "kernel half, dear code";

/// Ordinary packets, in a second, and bytes of each.
const ORDINARY: u32 = 7_000;
const SIZE: usize = 300;

/// Bytes of a capsule's IP packet: behind its headers there is room for what the dear code looks at.
const CAPSULE: usize = 144;

/// Frames of the flood that are sent at once.
const FLOOD: u32 = 1 << 16;
const BATCH: u32 = 64;

/// What is left of plain Linux's share, at least.
const KEPT: f64 = 0.999;

/// Measures it; only root can.
pub(super) fn run(
    settings: &Settings,
    programs: &Programs,
    codes: [&Bundle; 2],
    report: &mut Report,
) -> Result<Series, Error> {
    let kernel = match programs.kernel() {
        Ok(kernel) => kernel,
        Err(error) => {
            report.note(format!("SKIPPED {REGIME}: {error}."));
            return Ok(Series::default());
        }
    };
    let settings = Settings { two_cpus: false, ..settings.clone() };
    if let Err(error) = Channel::new(programs, &kernel, settings.cpus(), Rhythm::Flood) {
        report.note(format!("SKIPPED {REGIME}: {error}."));
        return Ok(Series::default());
    }
    let [cheap, dear] = codes.map(std::slice::from_ref);
    let half =
        |name, codes| Variant::node(NodeGateway::new(name, codes).configured("routes = \"kernel\"", "kernel = true"));
    let variants = [(Variant::linux(LINUX), cheap), (half(CHEAP, cheap), cheap), (half(DEAR, dear), dear)];
    let mut series = Series::default();
    settings.rounds(REGIME, |_| {
        for (variant, codes) in &variants {
            let share = through(&settings, programs, &kernel, (variant, codes))?;
            series.push(key(variant.name), share);
        }
        Ok(())
    })?;
    for name in [CHEAP, DEAR] {
        let ratios = series.ratios(&key(name), name, LINUX);
        report.targets.extend(Target::at_least(format!("{REGIME}: {name} / {LINUX}"), &ratios, KEPT));
    }
    Ok(series)
}

fn key(variant: &str) -> Key {
    Key { variant: variant.into(), size: Some(SIZE as u32), regime: REGIME.into(), metric: LOST, unit: "of 1" }
}

/// The share of ordinary packets that got through one variant.
fn through(
    settings: &Settings,
    programs: &Programs,
    kernel: &KernelPrograms,
    (variant, codes): (&Variant<'_>, &[Bundle]),
) -> Result<f64, Error> {
    let cpus = settings.cpus();
    let mut channel = Channel::new(programs, kernel, cpus, Rhythm::Flood)?;
    let Some(line) = channel.site.line.as_ref() else { return Err(Error::NoNamespace) };
    let arguments = ["packet".into(), line.s.netns(), S0.into(), line.d.netns(), D0.into(), D_MAC.into()];
    let (mut pace, said) = Dialogue::start(launch(programs, cpus.generator, None), &programs.pace, &arguments)?;
    if said != "ready" {
        return Err(Error::Protocol(said));
    }
    let ordinary = frame(destination(0), NO_CAPSULES, &vec![0x5a; SIZE - super::super::line::IP_UDP]);
    pace.ask(&format!("load {}", hex::encode(ordinary)))?;
    let mut running = channel.with_router(|channel| variant.start(&channel.site))?;
    let sent = channel.load(&Stream::plain(CAPSULE, BATCH), codes)?;
    variant.warm(&mut channel, running.as_mut(), 1, &sent)?;
    let before = channel.forwarded_by_linux();
    let done = std::sync::atomic::AtomicBool::new(false);
    let arrived = std::thread::scope(|scope| {
        let flood = scope.spawn(|| {
            let mut arrived = 0;
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                arrived += channel.run(FLOOD, BATCH)?.0.arrived;
            }
            Ok::<u64, Error>(arrived)
        });
        let paced = pace.ask(&format!("run 0 {ORDINARY} {ORDINARY}"));
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        let arrived = flood.join().unwrap_or_else(|_| Err(Error::Protocol("the flood has ended".into())));
        paced.and(arrived)
    })?;
    let forwarded = channel.forwarded_by_linux() - before;
    // A node's kernel half has taken the flood before Linux sees it.
    let of_flood = if variant.is_node() { 0 } else { arrived };
    Ok(forwarded.saturating_sub(of_flood) as f64 / f64::from(ORDINARY))
}
