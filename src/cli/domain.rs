//! `anode domain`: the domains of a running node, their possessions, and how to end one.

use crate::clean;
use crate::manage::client::{Control, run_dir};
use anyhow::{Context as _, bail};
use clap::Subcommand;
use serde_json::{Value, json};
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
            let all = domains(&mut Control::connect(&run_dir(&node))?)?;
            if json {
                crate::say!("{}", serde_json::to_string_pretty(&all)?)
            } else {
                crate::say!("{}", describe(&clean::tree(all)))
            }
        }
        Verb::Show { node, domain, json } => {
            let all = domains(&mut Control::connect(&run_dir(&node))?)?;
            let found = find(&all, &domain)?;
            if json {
                crate::say!("{}", serde_json::to_string_pretty(found)?)
            } else {
                crate::say!("{}", describe_one(&clean::tree(found.clone())))
            }
        }
        Verb::Move { node, domain, worker, json } => {
            let mut control = Control::connect(&run_dir(&node))?;
            let found = find(&domains(&mut control)?, &domain)?.clone();
            let moved = control.ask(&json!({"do": "move-domain", "domain": found["id"], "worker": worker}))?;
            if json {
                crate::say!("{moved}");
            } else {
                let (title, from) = (clean::line(word(&found, "title")), number(&moved, "from"));
                if from == u64::from(worker) {
                    crate::say!("{title} is at worker {worker} already");
                } else {
                    crate::say!("{title} moved from worker {from} to worker {worker}");
                }
            }
        }
        Verb::Kill { node, domain, json } => {
            let mut control = Control::connect(&run_dir(&node))?;
            let id = find(&domains(&mut control)?, &domain)?["id"].clone();
            let freed = control.ask(&json!({"do": "kill-domain", "domain": id}))?;
            if json {
                crate::say!("{freed}");
            } else {
                let number = |what: &str| freed[what].as_u64().unwrap_or(0);
                crate::say!(
                    "ended {} domains; freed {} channels, {} events, {} codes, {} B of memory, {} open files",
                    number("domains"),
                    number("channels"),
                    number("events"),
                    number("codes"),
                    number("bytes"),
                    number("files")
                );
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn domains(control: &mut Control) -> anyhow::Result<Value> {
    Ok(control.ask(&json!({"do": "domains"}))?)
}

/// The domain of this number or title.
fn find<'a>(all: &'a Value, wanted: &str) -> anyhow::Result<&'a Value> {
    let list = all["domains"].as_array().context("the node gave no list of domains")?;
    let number = wanted.parse::<u64>().ok();
    if let Some(found) = list.iter().find(|domain| number.is_some() && domain["id"].as_u64() == number) {
        return Ok(found);
    }
    let titled: Vec<_> = list.iter().filter(|domain| domain["title"] == wanted).collect();
    match titled[..] {
        [found] => Ok(found),
        [] => bail!("there is no domain {wanted}: see anode domain ls"),
        _ => bail!("{} domains are called {wanted}: say which by its number", titled.len()),
    }
}

fn describe(all: &Value) -> String {
    let list = |key: &str| all[key].as_array().cloned().unwrap_or_default();
    let are_several = list("domains").iter().any(|domain| domain["worker"].is_u64());
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
    let mut depth: HashMap<u64, usize> = HashMap::new();
    for domain in list("domains") {
        let usage = &domain["usage"];
        let above = domain["parent"].as_u64().and_then(|parent| depth.get(&parent));
        let own = above.map_or(0, |above| above + 1);
        depth.insert(number(&domain, "id"), own);
        let dropped: u64 =
            usage["drops"].as_object().into_iter().flatten().filter_map(|(_, count)| count.as_u64()).sum();
        let _ = writeln!(
            text,
            "{:>10}  {:28} {:12} {:>12} {:>14} {:>10} {:>12} {:>10} {:>8} {:>12}{}",
            number(&domain, "id"),
            format!("{}{}", "  ".repeat(own), word(&domain, "title")),
            word(&domain, "role"),
            number(usage, "packets"),
            number(usage, "bytes"),
            number(usage, "cpu_ns") / 1_000_000,
            number(&domain, "memory_bytes"),
            dropped,
            number(&domain, "channels"),
            domain["kernel"]["packets"].as_u64().map_or("-".into(), |packets| packets.to_string()),
            worker(domain["worker"].as_u64().map_or("all".into(), |worker| worker.to_string())),
        );
    }
    describe_rest(&mut text, all);
    text
}

/// The environments, the name spaces and the security module.
fn describe_rest(text: &mut String, all: &Value) {
    let list = |key: &str| all[key].as_array().cloned().unwrap_or_default();
    for environment in list("environments") {
        let pid = environment["pid"].as_u64().map(|pid| format!(", process {pid}")).unwrap_or_default();
        let ended = environment["ended"].as_str().map(|how| format!(", ended last: {how}")).unwrap_or_default();
        let lacks: Vec<_> = environment["weaker"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let weaker = if lacks.is_empty() { String::new() } else { format!("; weaker here: {}", lacks.join(", ")) };
        let _ = writeln!(
            text,
            "environment {} is {}{pid}: started {} times, failed {} times{ended}{weaker}",
            word(&environment, "name"),
            word(&environment, "state"),
            number(&environment, "starts"),
            number(&environment, "failures"),
        );
    }
    for space in list("files") {
        let (used, quota) = (&space["used"], &space["quota"]);
        let _ = writeln!(
            text,
            "files of {}: {} of {} files, {} of {} B, {} open",
            word(&space, "holder"),
            number(used, "files"),
            number(quota, "files"),
            number(used, "bytes"),
            number(quota, "bytes"),
            number(&space, "open"),
        );
    }
    let decided = &all["security"];
    let _ = writeln!(
        text,
        "security module: {} codes and {} domains granted, {} and {} refused",
        number(decided, "code_granted"),
        number(decided, "domains_granted"),
        number(decided, "code_refused"),
        number(decided, "domains_refused"),
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

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or(0)
}

fn word<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or("?")
}
