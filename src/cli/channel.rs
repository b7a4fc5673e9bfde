//! `anode channel`: the channels of a node's domains.

use crate::clean;
use crate::cli::say_json;
use crate::manage::client::{Control, run_dir};
use clap::Subcommand;
use model::code::Made;
use model::domains::Channel;
use model::{Ask, Cut};
use std::process::ExitCode;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Print all channels of a running node with what has gone through them
    Ls {
        /// The node's name, or its run directory
        node: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Make a domain whose one channel cuts packets through, with nobody's code; anode domain kill ends it
    Cut {
        /// The node's name, or its run directory
        node: String,
        /// The incoming channel: protocol and address, e.g. 'if0/ip 10.0.2.0/24'
        from: String,
        /// The outgoing channel, e.g. 'if1/ip * proto 17'
        to: String,
        /// The role that the domain has: one with channels and bandwidth
        #[arg(long)]
        role: String,
        /// The domain's name
        #[arg(long, default_value = "cut-through")]
        title: String,
        /// Bytes a second, at most; 0: as many as the role grants
        #[arg(long, default_value_t = 0)]
        bandwidth: u64,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (node, json) = match args.verb {
        Verb::Ls { node, json } => (node, json),
        Verb::Cut { node, from, to, role, title, bandwidth, json } => {
            let end = |text: &str| {
                let (protocol, address) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
                [protocol.to_owned(), address.trim().to_owned()]
            };
            let (from, to) = (end(&from), end(&to));
            let wanted = Ask::Cut(Cut { title, role, from, to, bandwidth });
            let made: Made = Control::connect(&run_dir(&node))?.asked(&wanted)?;
            if json {
                say_json(&made)?;
            } else {
                crate::say!("domain {}", made.domain);
            }
            return Ok(ExitCode::SUCCESS);
        }
    };
    let channels = Control::connect(&run_dir(&node))?.ask(&Ask::Channels)?;
    if json {
        crate::say!("{}", serde_json::to_string_pretty(&channels)?);
        return Ok(ExitCode::SUCCESS);
    }
    crate::say!(
        "{:>10}  {:4} {:20} {:24} {:32} {:>12} {:>14} {:>10} {:>12}",
        "id",
        "kind",
        "domain",
        "protocol",
        "address",
        "packets",
        "bytes",
        "dropped",
        "in kernel"
    );
    let channels: Vec<Channel> = serde_json::from_value(clean::tree(channels))?;
    for Channel { id, kind, title, protocol, address, packets, bytes, dropped, in_kernel, idle, .. } in channels {
        let in_kernel = in_kernel.map_or(String::new(), |packets| packets.to_string());
        crate::say!(
            "{id:>10}  {kind:4} {title:20} {protocol:24} {address:32} {packets:>12} {bytes:>14} {dropped:>10} {in_kernel:>12}"
        );
        if let Some(why) = idle {
            crate::say!("{:>10}  its rule holds for nothing: {why}", "");
        }
    }
    Ok(ExitCode::SUCCESS)
}
