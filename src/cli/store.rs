//! `anode store`: the named stores of a node's domains, to be looked at.

use crate::clean;
use crate::cli::say_json;
use crate::manage::client::{Control, run_dir};
use clap::Subcommand;
use model::Ask;
use model::stores::{Key, Keys, Store, Value};
use std::process::ExitCode;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Print all stores of a running node, or the keys of one
    Ls {
        /// The node's name, or its run directory
        node: String,
        /// A store: HOLDER/NAME; its keys are printed
        store: Option<String>,
        /// Only keys that begin so; 0x… means bytes in hexadecimal digits
        #[arg(long, default_value = "", requires = "store")]
        prefix: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print what there is under a key
    Get {
        /// The node's name, or its run directory
        node: String,
        /// The store: HOLDER/NAME
        store: String,
        /// The key; 0x… means bytes in hexadecimal digits
        key: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// The holder and the name of a store.
fn parts(store: &str) -> anyhow::Result<(String, String)> {
    let parts = store.split_once('/').map(|(holder, name)| (holder.to_owned(), name.to_owned()));
    parts.ok_or_else(|| anyhow::anyhow!("{store}: a store is named HOLDER/NAME, as anode store ls lists them"))
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.verb {
        Verb::Ls { node, store: None, json, .. } => list(&node, json)?,
        Verb::Ls { node, store: Some(store), prefix, json } => keys(&node, &store, &prefix, json)?,
        Verb::Get { node, store, key, json } => {
            let (holder, name) = parts(&store)?;
            let value: Value = Control::connect(&run_dir(&node))?.asked(&Ask::StoreValue { holder, name, key })?;
            if json {
                say_json(&value)?;
            } else {
                crate::say!("{}", clean::line(&value.value));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(node: &str, json: bool) -> anyhow::Result<()> {
    let stores: Vec<Store> = Control::connect(&run_dir(node))?.asked(&Ask::Stores)?;
    if json {
        return say_json(&stores);
    }
    crate::say!(
        "{:40} {:>10} {:>10} {:>12} {:>12} {:>10} {:>8} shared with",
        "store",
        "domain",
        "keys",
        "bytes",
        "limit",
        "version",
        "kept"
    );
    for Store { holder, name, domain, keys, bytes, limit, version, persistent, shares, .. } in stores {
        let named = clean::line(&format!("{holder}/{name}"));
        let kept = if persistent { "yes" } else { "no" };
        let shares: Vec<_> = shares.iter().map(|(with, access)| format!("{with} ({access})")).collect();
        let shares = clean::line(&shares.join(", "));
        crate::say!("{named:40} {domain:>10} {keys:>10} {bytes:>12} {limit:>12} {version:>10} {kept:>8} {shares}");
    }
    Ok(())
}

fn keys(node: &str, store: &str, prefix: &str, json: bool) -> anyhow::Result<()> {
    let (holder, name) = parts(store)?;
    let mut control = Control::connect(&run_dir(node))?;
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let ask = Ask::StoreKeys { holder: holder.clone(), name: name.clone(), prefix: prefix.to_owned(), after };
        let Keys { keys, next } = control.asked(&ask)?;
        if json {
            all.extend(keys);
        } else {
            for Key { key, version, bytes, domain } in keys {
                let ends = domain.map(|domain| format!(" ends with domain {domain}")).unwrap_or_default();
                crate::say!("{:40} {bytes:>10} {version:>10}{ends}", clean::line(&key));
            }
        }
        if next.is_none() {
            break;
        }
        after = next;
    }
    if json { say_json(&all) } else { Ok(()) }
}
