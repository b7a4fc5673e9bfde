//! `anode trace`: every node on the way to a destination and back.

use super::attach::{Destination, Place, destination, ms, seconds, token};
use super::told;
use crate::apps::{TRACE, trace};
use crate::clean::shown;
use crate::wire::Addr;
use model::apps::Traced;
use std::process::ExitCode;
use std::time::Duration;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where to, an address or name
    #[arg(value_parser = destination)]
    to: Destination,
    #[command(flatten)]
    place: Place,
    /// Nodes the capsule can write down, both ways together; 24 make 1168 bytes of payload
    #[arg(long, short, default_value_t = 24, value_parser = clap::value_parser!(u16).range(1..=trace::RECORDS_MAX as i64))]
    records: u16,
    /// Capsules sent until one comes back
    #[arg(long, default_value_t = 3)]
    tries: u32,
    /// Seconds one is waited for
    #[arg(long, short, default_value = "2", value_parser = seconds)]
    timeout: Duration,
    /// Links the capsule may pass, with all reports
    #[arg(long, default_value_t = 1024)]
    bound: u32,
    /// Links a report may pass; 0: nodes send no reports, and a broken path shows nothing
    #[arg(long, default_value_t = 48)]
    report_bound: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let to = args.place.find(&args.to)?;
    let (mut node, code) = args.place.attach(&TRACE, 0)?;
    let options = trace::Options {
        records: args.records.into(),
        tries: args.tries,
        timeout: args.timeout,
        bound: args.bound,
        report_bound: args.report_bound,
        token: token(),
    };
    let found = trace::run(&mut node, code, to, &options)?;
    if args.json {
        let all = Traced { to: to.to_string(), code: code.to_string(), trace: told(&found)? };
        crate::say!("{}", serde_json::to_string_pretty(&all)?);
    } else {
        crate::say!("{}", describe(to, &found));
    }
    Ok(if found.complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn describe(to: Addr, found: &trace::Trace) -> String {
    let mut text = format!(" hop  {:24} {:16} {:>12}  {:>8}  {:>10}\n", "node", "name", "round trip", "link", "queue");
    for (number, hop) in found.there.iter().enumerate() {
        text += &line(&format!("{number:>4}"), hop);
    }
    for hop in &found.back {
        text += &line("back", hop);
    }
    if found.full {
        text += "there were more nodes than records: give it more with --records\n";
    }
    match found.rtt_ns {
        Some(rtt) => text += &format!("back from {to} after {} ms\n", ms(rtt)),
        None => match found.there.last() {
            Some(hop) => {
                text +=
                    &format!("{to} does not answer; the way is known as far as {} ({}): ", hop.node, shown(&hop.name));
                text += "see the drops there (anode node status)\n";
            }
            None => {
                text += &format!("{to} does not answer, nor does any node on the way: see the drops of this node\n")
            }
        },
    }
    text
}

fn line(label: &str, hop: &trace::Hop) -> String {
    let rtt = hop.rtt_ns.map_or("-".into(), |rtt| format!("{} ms", ms(rtt)));
    let load = hop.load_permille.map_or("-".into(), |load| format!("{:.1} %", f64::from(load) / 10.0));
    let queue = hop.queue_bytes.map_or("-".into(), |bytes| format!("{bytes} B"));
    format!("{label}  {:24} {:16} {rtt:>12}  {load:>8}  {queue:>10}\n", hop.node.to_string(), shown(&hop.name))
}
