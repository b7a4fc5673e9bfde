//! `anode ping`: round-trip times to a node, by capsule.

use super::attach::{Destination, Place, destination, ms, say_nothing_came, seconds, token};
use super::told;
use crate::apps::ping::Told;
use crate::apps::{Attached as _, PING, ping};
use crate::clean;
use model::apps::Pinged;
use std::process::ExitCode;
use std::time::Duration;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where to, an address or name
    #[arg(value_parser = destination)]
    to: Destination,
    #[command(flatten)]
    place: Place,
    /// Capsules to send
    #[arg(long, short, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    count: u32,
    /// Seconds from one to the next
    #[arg(long, short, default_value = "1", value_parser = seconds)]
    interval: Duration,
    /// Payload bytes
    #[arg(long, short, default_value_t = 64, value_parser = clap::value_parser!(u16).range(ping::SIZE_MIN as i64..=8192))]
    size: u16,
    /// Seconds after which an unanswered capsule counts as lost
    #[arg(long, short, default_value = "2", value_parser = seconds)]
    timeout: Duration,
    /// Links a capsule may pass, there and back together
    #[arg(long, default_value_t = 64)]
    bound: u32,
    /// Print JSON, when all is done
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let to = args.place.find(&args.to)?;
    let (mut node, code) = args.place.attach(&PING, 0)?;
    let options = ping::Options {
        count: args.count,
        interval: args.interval,
        size: args.size.into(),
        timeout: args.timeout,
        bound: args.bound,
        token: token(),
    };
    node.tell_ends()?;
    let own = node.address();
    if !args.json {
        crate::say!("ping {to} from {own}, {} bytes, code {}", args.size, code.short());
    }
    let (mut replies, mut refusals) = (Vec::new(), Vec::new());
    let summary = ping::run(&mut node, code, to, &options, &mut |told| match told {
        Told::Reply(reply) if args.json => replies.push(reply.clone()),
        Told::Refused(why) if args.json => refusals.push(why.clone()),
        Told::Reply(reply) => say(reply),
        Told::Refused(why) => crate::say!("not sent on by this node: {}", clean::shown(why)),
    })?;
    if args.json {
        let (from, to, code) = (own.to_string(), to.to_string(), code.to_string());
        let (replies, summary) = (told(&replies)?, told(&summary)?);
        let all = Pinged { from, to, code, replies, refusals, summary };
        crate::say!("{}", serde_json::to_string_pretty(&all)?);
    } else {
        let duplicates =
            if summary.duplicates > 0 { format!(", {} duplicates", summary.duplicates) } else { String::new() };
        crate::say!(
            "{} sent, {} received, {:.1} % lost{duplicates}",
            summary.sent,
            summary.received,
            summary.loss_percent
        );
        let rtt = &summary.rtt;
        if rtt.count > 0 {
            let times = [rtt.min_ns, rtt.median_ns, rtt.mean_ns, rtt.max_ns, rtt.deviation_ns].map(ms);
            crate::say!("round trip min/median/mean/max/deviation = {} ms", times.join("/"));
        } else if summary.refused < summary.sent {
            say_nothing_came(to);
        }
    }
    Ok(if summary.received > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn say(reply: &ping::Reply) {
    crate::say!(
        "{} bytes from {}: seq {}, {} + {} hops, {} ms{}",
        reply.bytes,
        reply.from,
        reply.sequence,
        reply.hops_there,
        reply.hops_back,
        ms(reply.rtt_ns),
        if reply.duplicate { " (duplicate)" } else { "" }
    );
}
