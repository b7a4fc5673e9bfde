//! `anode domain`: the domains of a running node, their possessions, and how to end one.

use crate::clean;
use crate::cli::say_json;
use crate::manage::client::{Control, run_dir};
use anyhow::bail;
use clap::Subcommand;
use model::Ask;
use model::code::{Freed, Moved};
use model::domains::{Domain, Domains, Space};
use serde_json::Value;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::process::ExitCode;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Print the tree of domains with their counters, in both halves, and the environments that run in them
    Ls {
        /// The node's name, or its run directory
        node: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print all that is known of one domain
    Show {
        /// The node's name, or its run directory
        node: String,
        /// The domain: its number, or its title if no other has that
        domain: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Have another worker of the node run an environment: its first domain and all below it
    Move {
        /// The node's name, or its run directory
        node: String,
        /// The domain: its number, or its title if no other has that
        domain: String,
        /// The worker: 0 is the first
        worker: u16,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// End a domain and all below it, with all that they own
    Kill {
        /// The node's name, or its run directory
        node: String,
        /// The domain: its number, or its title if no other has that
        domain: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.verb {
        Verb::Ls { node, json } => {
            let all = Control::connect(&run_dir(&node))?.ask(&Ask::Domains)?;
            if json {
                crate::say!("{}", serde_json::to_string_pretty(&all)?)
            } else {
                crate::say!("{}", describe(&serde_json::from_value(clean::tree(all))?))
            }
        }
        Verb::Show { node, domain, json } => {
            let all = domains(&mut Control::connect(&run_dir(&node))?)?;
            let found = find(&all, &domain)?;
            if json {
                crate::say!("{}", serde_json::to_string_pretty(found)?)
            } else {
                crate::say!("{}", describe_one(&clean::tree(serde_json::to_value(found)?)))
            }
        }
        Verb::Move { node, domain, worker, json } => {
            let mut control = Control::connect(&run_dir(&node))?;
            let found = find(&domains(&mut control)?, &domain)?.clone();
            let moved: Moved = control.asked(&Ask::MoveDomain { domain: found.id, worker })?;
            if json {
                say_json(&moved)?;
            } else {
                let (title, from) = (clean::line(&found.title), moved.from);
                if from == worker {
                    crate::say!("{title} is at worker {worker} already");
                } else {
                    crate::say!("{title} moved from worker {from} to worker {worker}");
                }
            }
        }
        Verb::Kill { node, domain, json } => {
            let mut control = Control::connect(&run_dir(&node))?;
            let id = find(&domains(&mut control)?, &domain)?.id;
            let freed: Freed = control.asked(&Ask::KillDomain { domain: id })?;
            if json {
                say_json(&freed)?;
            } else {
                let Freed { domains, channels, codes, bytes, events, files } = freed;
                crate::say!(
                    "ended {domains} domains; freed {channels} channels, {events} events, {codes} codes, {bytes} B of memory, \
                     {files} open files"
                );
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn domains(control: &mut Control) -> anyhow::Result<Domains> {
    Ok(control.asked(&Ask::Domains)?)
}

/// The domain of this number or title.
fn find<'a>(all: &'a Domains, wanted: &str) -> anyhow::Result<&'a Domain> {
    let number = wanted.parse::<u32>().ok();
    if let Some(found) = all.domains.iter().find(|domain| number == Some(domain.id)) {
        return Ok(found);
    }
    let titled: Vec<_> = all.domains.iter().filter(|domain| domain.title == wanted).collect();
    match titled[..] {
        [found] => Ok(found),
        [] => bail!("there is no domain {wanted}: see anode domain ls"),
        _ => bail!("{} domains are called {wanted}: say which by its number", titled.len()),
    }
}

fn describe(all: &Domains) -> String {
    let are_several = all.domains.iter().any(|domain| domain.worker.is_some());
    let worker = |word: String| if are_several { format!(" {word:>6}") } else { String::new() };
    let mut text = format!(
        "{:>10}  {:28} {:12} {:>12} {:>14} {:>10} {:>12} {:>10} {:>8} {:>12}{}\n",
        "id",
        "domain",
        "role",
        "packets",
        "bytes",
        "cpu ms",
        "memory B",
        "dropped",
        "channels",
        "in kernel",
        worker("worker".into())
    );
    let mut depth: HashMap<u32, usize> = HashMap::new();
    for domain in &all.domains {
        let usage = &domain.usage;
        let above = domain.parent.and_then(|parent| depth.get(&parent));
        let own = above.map_or(0, |above| above + 1);
        depth.insert(domain.id, own);
        let _ = writeln!(
            text,
            "{:>10}  {:28} {:12} {:>12} {:>14} {:>10} {:>12} {:>10} {:>8} {:>12}{}",
            domain.id,
            format!("{}{}", "  ".repeat(own), domain.title),
            domain.role,
            usage.packets,
            usage.bytes,
            usage.cpu_ns / 1_000_000,
            domain.memory_bytes,
            usage.drops.drops.values().sum::<u64>(),
            domain.channels,
            domain.kernel.map_or("-".into(), |kernel| kernel.packets.to_string()),
            worker(domain.worker.map_or("all".into(), |worker| worker.to_string())),
        );
    }
    describe_rest(&mut text, all);
    text
}

/// The environments, the name spaces and the security module.
fn describe_rest(text: &mut String, all: &Domains) {
    for environment in &all.environments {
        let pid = environment.pid.map(|pid| format!(", process {pid}")).unwrap_or_default();
        let ended = environment.ended.as_ref().map(|how| format!(", ended last: {how}")).unwrap_or_default();
        let lacks = &environment.weaker;
        let weaker = if lacks.is_empty() { String::new() } else { format!("; weaker here: {}", lacks.join(", ")) };
        let _ = writeln!(
            text,
            "environment {} is {}{pid}: started {} times, failed {} times{ended}{weaker}",
            environment.name, environment.state, environment.starts, environment.failures,
        );
    }
    for Space { holder, quota, used, open, .. } in &all.files {
        let _ = writeln!(
            text,
            "files of {holder}: {} of {} files, {} of {} B, {open} open",
            used.files, quota.files, used.bytes, quota.bytes,
        );
    }
    let decided = &all.security;
    let _ = writeln!(
        text,
        "security module: {} codes and {} domains granted, {} and {} refused",
        decided.code_granted, decided.domains_granted, decided.code_refused, decided.domains_refused,
    );
}

/// Every number of a domain, one a line, with its path.
fn describe_one(domain: &Value) -> String {
    let mut text = String::new();
    flatten("", domain, &mut text);
    text
}

fn flatten(path: &str, value: &Value, text: &mut String) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                flatten(&if path.is_empty() { key.clone() } else { format!("{path}.{key}") }, value, text);
            }
        }
        Value::String(word) => {
            let _ = writeln!(text, "{path:32} {word}");
        }
        other => {
            let _ = writeln!(text, "{path:32} {other}");
        }
    }
}
