//! `anode demo`: the two-minute tour.
//!
//! Three nodes in a line. A capsule names code that only its sender has: the code travels hop by hop behind it and
//! stays. Then a cache in the network answers in the origin's place. As root this runs in network namespaces on real
//! packet sockets, beside Linux's own ping, and captures show the packets of each link; then once more with a kernel
//! half. Otherwise it runs in the simulator, and says so.

mod kernel;
mod native;
mod simulated;

use crate::apps::cache::{Answer, Client, Key};
use crate::apps::{App, Attached, CACHE, PING, ping};
use crate::wire::{Addr, Digest};
use anyhow::{Context as _, ensure};
use model::demo::{Crossings, Demo};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

/// Warm capsules whose round trips are compared.
const WARM: u32 = 20;

/// Requests to the cache.
const GETS: usize = 6;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Show it in the simulator, even as root
    #[arg(long)]
    simulated: bool,
    /// Print JSON, when all is done
    #[arg(long)]
    json: bool,
}

/// Where the story happens.
trait Stage {
    /// An application's seat at the first node.
    fn seat(&mut self) -> &mut dyn Attached;
    /// Gives the first node code.
    fn add(&mut self, app: &App) -> anyhow::Result<Digest>;
    /// The last node's address.
    fn far_end(&self) -> Addr;
    /// Round-trip times of the network's own ping in milliseconds, least and mean, if it has one.
    fn passive_ping(&mut self) -> anyhow::Result<Option<(f64, f64)>>;
    /// When each node got the code ready to run, in milliseconds since it was added.
    fn loads(&mut self, code: Digest) -> anyhow::Result<Vec<(String, f64)>>;
    /// Parts of code that have crossed the links so far.
    fn crossings(&mut self) -> anyhow::Result<Crossings>;
    /// Begins to serve values at the last node.
    fn serve(&mut self, code: Digest, values: &[(Key, Vec<u8>)]) -> anyhow::Result<()>;
    /// A node's name by its address.
    fn name(&self, addr: Addr) -> String;
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let say = |text: &str| {
        if !args.json {
            crate::say!("{text}");
        }
    };
    let root = crate::sys::process::is_root();
    let result = if root && !args.simulated {
        say("Three nodes, a — r — b, in network namespaces on this machine; capsules travel natively in IP.");
        let mut told = tell(&mut native::Native::new(false)?, &say)?;
        told.kernel = Some(kernel::tell(told.icmp_ms, told.warm_ms, &say)?);
        told
    } else {
        say(if root {
            "Three nodes, a — r — b, in the simulator."
        } else {
            "Not root: the same story in the simulator. As root it happens on real network interfaces."
        });
        tell(&mut simulated::Simulated::new()?, &say)?
    };
    if args.json {
        crate::say!("{}", serde_json::to_string_pretty(&result)?);
    }
    Ok(ExitCode::SUCCESS)
}

/// The story.
fn tell(stage: &mut dyn Stage, say: &dyn Fn(&str)) -> anyhow::Result<Demo> {
    let to = stage.far_end();
    let passive = stage.passive_ping()?;
    if let Some((least, mean)) = passive {
        say(&format!(
            "\n1. Linux pings {to}: {least:.3} ms at best, {mean:.3} ms on average. Nobody noticed the active nodes."
        ));
    }
    say("\n2. a sends one capsule. It names its code by hash; r and b have never seen it.");
    let code = stage.add(&PING)?;
    let cold = ping_once(stage, code, to, 1)?;
    let loads = stage.loads(code)?;
    for (node, at) in &loads {
        say(&format!("     +{at:7.3} ms  {node} has code {} checked, compiled and ready", code.short()));
    }
    ensure!(loads.len() == 3, "the code reached {} of 3 nodes", loads.len());
    say(&format!("     the capsule waited at each hop for its code and is back after {cold:.3} ms"));
    let first = stage.crossings()?;
    check_once(&first)?;
    for (link, objects) in &first {
        let parts: usize = objects.values().map(BTreeMap::len).sum();
        say(&format!("     capture of {link}: {} objects of code in {parts} parts, each exactly once", objects.len()));
    }

    say(&format!("\n3. {WARM} more capsules: the code is where it is needed."));
    let warm = ping_many(stage, code, to)?;
    let again = stage.crossings()?;
    ensure!(first == again, "code crossed a link again, though every node had it");
    say("     capture: no code crossed any link");

    say("\n4. A cache in the network. b holds a value; copies stay in the nodes an answer passes.");
    let cache = cache_story(stage, to, say)?;

    say("\n                          round trip ms   hops     what happened");
    if let Some((least, mean)) = passive {
        say(&format!("     ICMP by Linux        {mean:8.3}        4     forwarded (best {least:.3})"));
    }
    say(&format!("     capsule, cold        {cold:8.3}        4     code loaded at 3 nodes"));
    say(&format!("     capsule, warm        {warm:8.3}        4     code ran at every hop"));
    for (hops, from, ms) in &cache {
        say(&format!("     cache get            {ms:8.3}        {}     answered by {from}", 2 * hops));
    }
    let icmp_ms = passive.map(|(_, mean)| mean);
    Ok(Demo { icmp_ms, cold_ms: cold, warm_ms: warm, loads, crossings: first, cache, kernel: None })
}

fn ping_once(stage: &mut dyn Stage, code: Digest, to: Addr, token: u32) -> anyhow::Result<f64> {
    let options = ping::Options { count: 1, token, ..ping::Options::default() };
    let summary = ping::run(stage.seat(), code, to, &options, &mut |_| {})?;
    ensure!(summary.received == 1, "the first capsule did not come back");
    Ok(summary.rtt.median_ns as f64 / 1e6)
}

fn ping_many(stage: &mut dyn Stage, code: Digest, to: Addr) -> anyhow::Result<f64> {
    let options =
        ping::Options { count: WARM, interval: Duration::from_millis(10), token: 2, ..ping::Options::default() };
    let summary = ping::run(stage.seat(), code, to, &options, &mut |_| {})?;
    ensure!(summary.received == WARM, "{} of {WARM} capsules came back", summary.received);
    Ok(summary.rtt.median_ns as f64 / 1e6)
}

/// Asks for one value several times; gives hops, answerer and time of each answer.
fn cache_story(stage: &mut dyn Stage, origin: Addr, say: &dyn Fn(&str)) -> anyhow::Result<Vec<(u8, String, f64)>> {
    let code = stage.add(&CACHE)?;
    let key = Key::of("motd");
    stage.serve(code, &[(key, b"packets that think".to_vec())])?;
    let mut client = Client::new(code, origin, 1);
    let mut answers = Vec::new();
    for number in 0..GETS {
        let seat = stage.seat();
        let begin = seat.now();
        let answer = client.get(seat, key)?;
        let ms = (seat.now() - begin).as_secs_f64() * 1e3;
        let Answer::Value { bytes, from, copy, hops, .. } = answer else {
            anyhow::bail!("the cache gave {answer:?}");
        };
        ensure!(bytes == b"packets that think", "the cache gave another value");
        ensure!(number == 0 || copy, "the second answer came from the origin, not from a copy");
        let who = stage.name(from);
        if number < 2 {
            let whose = if copy { "a copy at" } else { "the origin," };
            say(&format!("     get {}: {ms:.3} ms, answered by {whose} {who}, {hops} hops away", number + 1));
        }
        answers.push((hops, who, ms));
    }
    // The first answer, and the best of those from copies.
    let copies = answers.split_off(1);
    let best = copies.into_iter().min_by(|a, b| a.2.total_cmp(&b.2)).context("no copy answered")?;
    answers.push(best);
    Ok(answers)
}

/// Every part of every object crossed every link exactly once.
fn check_once(crossings: &Crossings) -> anyhow::Result<()> {
    ensure!(crossings.len() == 2, "code crossed {} links of 2", crossings.len());
    for (link, objects) in crossings {
        for (object, parts) in objects {
            for (part, times) in parts {
                ensure!(*times == 1, "part {part} of {object} crossed {link} {times} times");
            }
        }
    }
    Ok(())
}
