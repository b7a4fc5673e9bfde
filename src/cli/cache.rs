//! `anode cache`: be an origin, get and put values, measure the benefit of copies in the network.

use super::attach::{Destination, Place, destination, ms, seconds, token};
use super::{say_json, told};
use crate::apps::cache::{Answer, Client, Key, ORIGIN_PORT, Origin, VALUE_MAX};
use crate::apps::workload::{Outcome, Workload};
use crate::apps::{Attached as _, CACHE};
use crate::clean;
use crate::wire::Digest;
use indicatif::{ProgressBar, ProgressStyle};
use model::apps::{CacheAnswer, Compared};
use std::process::ExitCode;
use std::time::Duration;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

/// How an origin is asked.
#[derive(clap::Args)]
struct Asking {
    /// The origin's address
    #[arg(value_parser = destination)]
    origin: Destination,
    #[command(flatten)]
    place: Place,
    /// The origin's application port
    #[arg(long, default_value_t = ORIGIN_PORT)]
    port: u16,
    /// Seconds one capsule is waited for
    #[arg(long, short, default_value = "1", value_parser = seconds)]
    timeout: Duration,
    /// Capsules sent until one is answered
    #[arg(long, default_value_t = 3)]
    tries: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Be an origin: hold values, until interrupted
    Serve {
        #[command(flatten)]
        place: Place,
        /// The application port
        #[arg(long, default_value_t = ORIGIN_PORT)]
        port: u16,
        /// Seconds for which copies in the network may live
        #[arg(long, default_value = "60", value_parser = seconds)]
        keep: Duration,
        /// Values held at most
        #[arg(long, default_value_t = 100_000)]
        limit: usize,
        /// Seconds after which it ends; by default never
        #[arg(long = "for", value_name = "SECONDS", value_parser = seconds)]
        time: Option<Duration>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Ask for a value: the first node on the way that holds a copy answers
    Get {
        #[command(flatten)]
        asking: Asking,
        /// The key, any text
        key: String,
        /// Pass copies by and ask the origin itself
        #[arg(long)]
        fresh: bool,
    },
    /// Store a value at the origin
    Put {
        #[command(flatten)]
        asking: Asking,
        /// The key, any text
        key: String,
        /// The value, at most 64 bytes
        value: String,
    },
    /// Ask for keys by Zipf's law, with copies and without, and compare
    Bench {
        #[command(flatten)]
        asking: Asking,
        /// Different keys
        #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        keys: u32,
        /// Requests, each way
        #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
        requests: u32,
        /// Exponent of the law; 0: all keys alike
        #[arg(long, default_value_t = 0.9)]
        exponent: f64,
        /// Where random numbers start
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.verb {
        Verb::Serve { place, port, keep, limit, time, json } => serve(&place, port, keep, limit, time, json),
        Verb::Get { asking, key, fresh } => {
            let (mut node, code) = asking.place.attach(&CACHE, 0)?;
            let mut client = Client { fresh, ..asking.client(code)? };
            let begin = node.now();
            let answer = client.get(&mut node, Key::of(&key))?;
            asking.print(&answer, node.now() - begin)
        }
        Verb::Put { asking, key, value } => {
            anyhow::ensure!(value.len() <= VALUE_MAX, "the value has {} bytes, {VALUE_MAX} fit", value.len());
            let (mut node, code) = asking.place.attach(&CACHE, 0)?;
            let begin = node.now();
            let answer = asking.client(code)?.put(&mut node, Key::of(&key), value.as_bytes())?;
            asking.print(&answer, node.now() - begin)
        }
        Verb::Bench { asking, keys, requests, exponent, seed } => {
            anyhow::ensure!((0.0..=10.0).contains(&exponent), "--exponent is 0 to 10");
            bench(&asking, Workload { keys: keys as usize, requests: requests as usize, exponent, seed })
        }
    }
}

fn serve(
    place: &Place,
    port: u16,
    keep: Duration,
    limit: usize,
    time: Option<Duration>,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let (mut node, code) = place.attach(&CACHE, port)?;
    let mut origin = Origin::new(code, keep, limit);
    if !json {
        crate::say_err!("origin {} port {}: anode cache put {0} KEY VALUE", node.address(), node.port());
    }
    match time {
        Some(time) => origin.serve(&mut node, time)?,
        None => loop {
            origin.serve(&mut node, Duration::from_secs(3600))?;
        },
    }
    let served = origin.served();
    if json {
        say_json(&told::<model::apps::Served>(&served)?)?;
    } else {
        crate::say!("{} values given, {} keys not known, {} stored", served.values, served.absent, served.stored);
    }
    Ok(ExitCode::SUCCESS)
}

impl Asking {
    fn client(&self, code: Digest) -> anyhow::Result<Client> {
        let client = Client::new(code, self.place.find(&self.origin)?, token());
        Ok(Client { origin_port: self.port, timeout: self.timeout, tries: self.tries, ..client })
    }

    fn print(&self, answer: &Answer, time: Duration) -> anyhow::Result<ExitCode> {
        let took = ms(time.as_nanos() as u64);
        let (status, json, text) = match answer {
            Answer::Value { bytes, version, from, copy, hops } => {
                let value = String::from_utf8_lossy(bytes);
                let who = if *copy { "a copy at" } else { "the origin" };
                let text = format!(
                    "{}\n  from {who} {from}, {hops} hops away, version {version}, {took} ms",
                    clean::printed(&value)
                );
                let json = CacheAnswer::Value {
                    value: value.into_owned(),
                    version: *version,
                    from: from.to_string(),
                    copy: *copy,
                    hops: *hops,
                    time_ns: time.as_nanos() as u64,
                };
                (ExitCode::SUCCESS, json, text)
            }
            Answer::Stored(version) => (
                ExitCode::SUCCESS,
                CacheAnswer::Stored { stored: *version },
                format!("stored as version {version}, {took} ms"),
            ),
            Answer::Absent => (
                ExitCode::FAILURE,
                CacheAnswer::Absent { absent: true },
                "the origin has no such key, or no room for another".to_owned(),
            ),
            Answer::Lost => {
                let text = format!(
                    "no answer; does an origin run there? anode cache serve --port {}, and see: anode trace {}",
                    self.port, self.origin
                );
                (ExitCode::FAILURE, CacheAnswer::Lost { lost: true }, text)
            }
        };
        if self.json {
            say_json(&json)?;
        } else if status == ExitCode::SUCCESS {
            crate::say!("{text}");
        } else {
            crate::say_err!("anode: {text}");
        }
        Ok(status)
    }
}

fn bench(asking: &Asking, workload: Workload) -> anyhow::Result<ExitCode> {
    let (mut node, code) = asking.place.attach(&CACHE, 0)?;
    let mut client = asking.client(code)?;
    let stored = workload.fill(&mut node, &mut client)?;
    anyhow::ensure!(stored > 0, "the origin at {} takes no values: anode cache serve", asking.origin);
    // Hidden where there is no terminal.
    let bar = ProgressBar::new(2 * workload.requests as u64);
    bar.set_style(ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len}")?);
    bar.set_message("without copies");
    client.fresh = true;
    let without = workload.run(&mut node, &mut client, &mut |_| bar.inc(1))?;
    bar.set_message("with copies");
    client.fresh = false;
    let with = workload.run(&mut node, &mut client, &mut |_| bar.inc(1))?;
    bar.finish_and_clear();
    if asking.json {
        let (without, with) = (told(&without)?, told(&with)?);
        let all = Compared { workload: told(&workload)?, stored: stored as u64, without, with };
        crate::say!("{}", serde_json::to_string_pretty(&all)?);
    } else {
        crate::say!("{}", compare(&workload, &without, &with));
    }
    Ok(if with.lost + without.lost == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn compare(workload: &Workload, without: &Outcome, with: &Outcome) -> String {
    let Workload { keys, requests, exponent, seed } = workload;
    let mut text = format!("{requests} requests for {keys} keys, Zipf {exponent}, seed {seed}\n");
    text += &format!("{:24} {:>14} {:>14}\n", "", "no copies", "copies");
    let mut row = |name: &str, a: String, b: String| text += &format!("{name:24} {a:>14} {b:>14}\n");
    row("answered from copies", format!("{:.1} %", without.hit_percent), format!("{:.1} %", with.hit_percent));
    row("answered by the origin", without.origin.to_string(), with.origin.to_string());
    row("lost", without.lost.to_string(), with.lost.to_string());
    row("links on average", format!("{:.2}", without.mean_hops), format!("{:.2}", with.mean_hops));
    row("latency median", ms(without.latency.median_ns) + " ms", ms(with.latency.median_ns) + " ms");
    row("latency mean", ms(without.latency.mean_ns) + " ms", ms(with.latency.mean_ns) + " ms");
    row("latency 95 %", ms(without.latency.p95_ns) + " ms", ms(with.latency.p95_ns) + " ms");
    for (node, count) in &with.by_node {
        text += &format!("  {node} answered {count}\n");
    }
    text
}
