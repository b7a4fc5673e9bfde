//! The demo's last part: the same line of nodes with a kernel half, in which capsules in transit never leave the
//! kernel.

use super::native::Native;
use super::{Stage, ping_once};
use crate::apps::{PING, ping};
use crate::wire::Digest;
use anyhow::{Context as _, ensure};
use model::demo::DemoKernel;
use std::time::{Duration, Instant};

/// Capsules whose round trips are compared: the kernel half times one of 256 that it runs.
const CAPSULES: u32 = 500;

/// For how long the kernel half may take to get the code.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a kernel half has done for a code: capsules sent on, and nanoseconds.
#[derive(Default)]
struct Usage {
    forwarded: u64,
    time_ns: u64,
}

/// Tells it; without a kernel half here it says why, and that is all. `passive` and `warm` are milliseconds of Linux's own ping
/// and of a capsule that ran in user space at every hop.
pub(super) fn tell(passive: Option<f64>, warm: f64, say: &dyn Fn(&str)) -> anyhow::Result<DemoKernel> {
    say("\n5. The same line with a kernel half: capsules on their way through r never leave the kernel.");
    let mut stage = match Native::new(true) {
        Ok(stage) => stage,
        Err(error) => {
            say(&format!("     not here: {error:#}"));
            return Ok(DemoKernel::Missing { missing: format!("{error:#}") });
        }
    };
    let (code, to) = (stage.add(&PING)?, stage.far_end());
    let taken = await_kernel(&mut stage, code)?;
    say(&format!(
        "     r's kernel half runs the code {:.0} ms after the first capsule named it",
        taken.as_secs_f64() * 1e3
    ));
    let before = usage(&stage, code)?;
    let options =
        ping::Options { count: CAPSULES, interval: Duration::from_millis(1), token: 3, ..ping::Options::default() };
    let summary = ping::run(stage.seat(), code, to, &options, &mut |_| {})?;
    ensure!(summary.received == CAPSULES, "{} of {CAPSULES} capsules came back", summary.received);
    let after = usage(&stage, code)?;
    // Each passes r on its way there and back.
    let (passed, packets) = (2 * u64::from(CAPSULES), after.forwarded - before.forwarded);
    let each = (after.time_ns - before.time_ns) as f64 / packets.max(1) as f64;
    let ms = summary.rtt.median_ns as f64 / 1e6;
    let workers = stage.status("a")?.workers.len().max(1);
    say(&format!(
        "     what runs where: at r in the kernel, on the processor that a frame comes to; at the ends in user space, by {workers} \
         worker{}, one for each receive queue",
        if workers == 1 { "" } else { "s" }
    ));
    say(&format!("     {packets} of {passed} capsules at r were forwarded in the kernel, in about {each:.0} ns each"));
    say(&format!(
        "     capsule, kernel half {ms:8.3}        4     {:.2} of a capsule in user space at every hop",
        ms / warm
    ));
    if let Some(passive) = passive {
        say(&format!(
            "     {:.2} of Linux's own ping, though the ends answer in user space; `anode bench overhead` compares the routers alone",
            ms / passive
        ));
    }
    Ok(DemoKernel::Passed { capsules: passed, in_kernel: packets, ns_each: each, warm_ms: ms })
}

/// Sends capsules until one has passed r in the kernel, there and back.
fn await_kernel(stage: &mut Native, code: Digest) -> anyhow::Result<Duration> {
    let (begin, to) = (Instant::now(), stage.far_end());
    loop {
        let before = usage(stage, code)?.forwarded;
        ping_once(stage, code, to, 1)?;
        if usage(stage, code)?.forwarded == before + 2 {
            return Ok(begin.elapsed());
        }
        ensure!(begin.elapsed() < PATIENCE, "r's kernel half does not take the code");
    }
}

/// What the kernel half of r has done for a code so far.
fn usage(stage: &Native, code: Digest) -> anyhow::Result<Usage> {
    let status = stage.status("r")?;
    let kernel = status.kernel.context("r has no kernel half")?;
    let name = code.to_string();
    let known = kernel.codes.iter().find(|known| known.name == name);
    Ok(known.map(|known| Usage { forwarded: known.usage.forwarded, time_ns: known.usage.time_ns }).unwrap_or_default())
}
