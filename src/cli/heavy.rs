//! `anode heavy`: send capsules that nodes count, and ask a node for its largest senders.

use super::attach::{Destination, Place, destination, seconds, token};
use super::{say_json, told};
use crate::apps::heavy::{query, send};
use crate::apps::{Attached as _, HEAVY};
use model::apps::{Heavy, HeavySent};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Capsules given to the node in one go, so that its socket is never overrun.
const BURST: u32 = 16;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Send capsules that every node on the way counts under this node's address
    Send {
        /// Where to
        #[arg(value_parser = destination)]
        to: Destination,
        #[command(flatten)]
        place: Place,
        /// How many
        #[arg(long, short, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
        count: u32,
        /// Capsules a second
        #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        rate: u32,
        /// Application port to deliver to; 0: count only
        #[arg(long, default_value_t = 0)]
        port: u16,
        /// Links a capsule may pass
        #[arg(long, default_value_t = 64)]
        bound: u32,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Ask a node for the 8 sources that sent most
    Top {
        /// The node
        #[arg(value_parser = destination)]
        of: Destination,
        #[command(flatten)]
        place: Place,
        /// Seconds one capsule is waited for
        #[arg(long, short, default_value = "1", value_parser = seconds)]
        timeout: Duration,
        /// Capsules sent until one is answered
        #[arg(long, default_value_t = 3)]
        tries: u32,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.verb {
        Verb::Send { to, place, count, rate, port, bound, json } => {
            let to = place.find(&to)?;
            let (mut node, code) = place.attach(&HEAVY, 0)?;
            // Capsules that wait for code on the way are few, so the code goes ahead of the crowd.
            if query(&mut node, code, to, token(), 3, Duration::from_secs(1))?.is_none() {
                anyhow::bail!("{to} does not answer; see where the way ends: anode trace {to}");
            }
            let begin = Instant::now();
            for sent in 0..count {
                if sent % BURST == 0 {
                    let due = begin + Duration::from_secs_f64(f64::from(sent) / f64::from(rate));
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                }
                send(&mut node, code, to, port, bound)?;
            }
            // A refusal comes behind what was refused.
            node.receive(Duration::from_millis(20))?;
            if json {
                say_json(&HeavySent { to: to.to_string(), sent: count })?;
            } else {
                crate::say!("{count} sent; see who sends most: anode heavy top {to}");
            }
            Ok(ExitCode::SUCCESS)
        }
        Verb::Top { of, place, timeout, tries, json } => {
            let of = place.find(&of)?;
            let (mut node, code) = place.attach(&HEAVY, 0)?;
            let Some(answer) = query(&mut node, code, of, token(), tries, timeout)? else {
                anyhow::bail!("{of} does not answer; see where the way ends: anode trace {of}");
            };
            if json {
                crate::say!("{}", serde_json::to_string_pretty(&told::<Heavy>(&answer)?)?);
                return Ok(ExitCode::SUCCESS);
            }
            crate::say!(
                "{} ({}) has counted {} capsules",
                answer.node,
                crate::clean::shown(&answer.name),
                answer.total
            );
            for entry in &answer.top {
                let share = entry.count as f64 * 100.0 / answer.total.max(1) as f64;
                crate::say!(
                    "  {:24} {:>10} to {:<10} {share:5.1} %",
                    entry.source.to_string(),
                    entry.at_least,
                    entry.count
                );
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}
