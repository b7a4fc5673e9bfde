//! `anode multicast`: send to a group, and listen to one.

use super::attach::{Destination, Place, destination, seconds, token};
use super::{say_json, told};
use crate::apps::multicast::{Event, Group, Publisher, Subscriber};
use crate::apps::{Attached as _, MULTICAST};
use crate::clean;
use model::apps::{GroupLine, GroupSent, Joined};
use std::process::ExitCode;
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Send data from a node, the root, to everybody who listens to the group there
    Send {
        /// The group's number at this root
        group: u64,
        /// The data
        text: String,
        #[command(flatten)]
        place: Place,
        /// The root's address, as listeners spell it; by default the node's first one
        #[arg(long, value_parser = destination)]
        root: Option<Destination>,
        /// How often
        #[arg(long, short, default_value_t = 1)]
        count: u32,
        /// Seconds from one to the next
        #[arg(long, short, default_value = "1", value_parser = seconds)]
        interval: Duration,
        /// Links and branchings each datum may spend, split evenly where it branches
        #[arg(long, default_value_t = 4096)]
        bound: u32,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Join a group and print what is sent to it
    Listen {
        /// The root's address, as its sender spells it
        #[arg(value_parser = destination)]
        root: Destination,
        /// The group's number there
        group: u64,
        #[command(flatten)]
        place: Place,
        /// Seconds for which nodes remember the subscription; it is renewed four times in that time
        #[arg(long, default_value = "10", value_parser = seconds)]
        keep: Duration,
        /// Links the subscription may pass
        #[arg(long, default_value_t = 64)]
        bound: u32,
        /// Data after which it ends; 0: no end
        #[arg(long, short, default_value_t = 0)]
        count: u64,
        /// Seconds after which it ends; by default never
        #[arg(long, value_parser = seconds)]
        timeout: Option<Duration>,
        /// Print JSON, one object a line
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.verb {
        Verb::Send { group, text, place, root, count, interval, bound, json } => {
            let root = root.map(|root| place.find(&root)).transpose()?;
            let (mut node, code) = place.attach(&MULTICAST, 0)?;
            let group = Group { root: root.unwrap_or(node.address()), number: group };
            let stream = token();
            let mut publisher = Publisher::new(code, group, stream);
            let begin = Instant::now();
            for sequence in 0..count {
                let due = begin + interval * sequence;
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                publisher.publish(&mut node, text.as_bytes(), bound)?;
            }
            // A refusal comes behind what was refused.
            node.receive(Duration::from_millis(20))?;
            if json {
                let all = GroupSent { group: told(&group)?, stream, sent: count };
                say_json(&all)?;
            } else {
                crate::say!("{count} sent; listen: anode multicast listen {} {}", group.root, group.number);
            }
            Ok(ExitCode::SUCCESS)
        }
        Verb::Listen { root, group, place, keep, bound, count, timeout, json } => {
            let root = place.find(&root)?;
            let options = Listening { group: Group { root, number: group }, keep, bound, count, timeout, json };
            listen(&place, &options)
        }
    }
}

struct Listening {
    group: Group,
    keep: Duration,
    bound: u32,
    count: u64,
    timeout: Option<Duration>,
    json: bool,
}

fn listen(place: &Place, options: &Listening) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(options.keep >= Duration::from_secs(1), "--keep is at least one second");
    let (mut node, code) = place.attach(&MULTICAST, 0)?;
    let mut subscriber = Subscriber::new(code, options.group, options.keep, options.bound);
    let end = options.timeout.map(|timeout| node.now() + timeout);
    let mut data = 0;
    while options.count == 0 || data < options.count {
        let wait = end.map_or(Duration::from_secs(3600), |end| end.saturating_sub(node.now()));
        let event = subscriber.receive(&mut node, wait)?;
        match &event {
            Some(event) => print(event, options.json)?,
            None if end.is_some() => break,
            None => {}
        }
        data += u64::from(matches!(event, Some(Event::Datum { .. })));
    }
    subscriber.leave(&mut node)?;
    Ok(if data > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(event: &Event, json: bool) -> anyhow::Result<()> {
    match event {
        Event::Joined { at, hops } if json => {
            let joined = GroupLine::Joined { joined: Joined { at: at.to_string(), hops: *hops } };
            say_json(&joined)?;
        }
        Event::Joined { at, hops } => crate::say_err!("joined at {at}, {hops} hops away"),
        Event::Datum { stream, sequence, bytes } => {
            let text = String::from_utf8_lossy(bytes);
            if json {
                let datum = GroupLine::Datum { stream: *stream, sequence: *sequence, text: text.into_owned() };
                say_json(&datum)?;
            } else {
                crate::say!("{sequence}: {}", clean::printed(&text));
            }
        }
    }
    Ok(())
}
