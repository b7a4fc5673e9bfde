//! `anode node`: run a node in the foreground, and ask a running one.

mod apply;
mod check;
mod events;
mod health;
mod loader;
mod log;
mod metrics;
mod report;
mod route;
mod service;
mod watch;
mod words;

use crate::broker::remains;
use crate::clean;
use crate::config::part::Part;
use crate::core::reason::Reason;
use crate::manage::client::{Control, run_dir};
use crate::schedule::Policy;
use crate::sys::jail;
use clap::Subcommand;
use serde_json::Value;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// For how long a node may take to end.
const END: Duration = Duration::from_secs(5);

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run the node of a configuration file in the foreground
    Run {
        /// The configuration, in TOML (docs/node.md)
        config: PathBuf,
        /// Have all that needs a privilege done by the helper that listens there
        #[arg(long, value_name = "SOCKET")]
        helper: Option<PathBuf>,
    },
    /// Be the helper of a node: all that it does by a privilege, in a service of its own
    Helper {
        /// The configuration of the node, in TOML
        config: PathBuf,
        /// Only mount where pins of a kernel half are kept, for a helper that has mounts of its own
        #[arg(long)]
        mount: bool,
    },
    /// Say what a configuration means here, and what is wrong with it
    Check {
        /// The configuration, in TOML
        config: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print all counters of a running node
    Status {
        /// The node's name, or its run directory
        node: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print what changes in the counters of a running node, every second, until interrupted
    Watch {
        /// The node's name, or its run directory
        node: String,
        /// Seconds between two looks
        #[arg(long, default_value_t = 1.0)]
        interval: f64,
        /// Looks before it ends; 0 for no end
        #[arg(long, default_value_t = 0)]
        count: u64,
        /// Print JSON, one object a line
        #[arg(long)]
        json: bool,
    },
    /// Print the counters of a running node as text for Prometheus
    Metrics(metrics::Args),
    /// Say whether all is well with a running node: exit status 0 healthy, 1 degraded, 2 not reachable
    Health {
        /// The node's name, or its run directory
        node: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print what was done to a running node, by whom, and what has changed in it
    Events(events::Args),
    /// Write all that is of interest when something went wrong into one file, without keys
    Report(report::Args),
    /// Print what mobile code has logged lately at a running node, and where it trapped
    Log(log::Args),
    /// Print where packets to an address go from a running node
    Route(route::Args),
    /// Apply another configuration to a running node: what differs is shown, then done as a whole or not at all
    Apply(apply::ApplyArgs),
    /// Let a configuration stay that was applied with --confirm-within
    Confirm {
        /// The node's name, or its run directory
        node: String,
    },
    /// List the configurations that ran, the last one at the end
    History {
        /// The node's name, or its run directory
        node: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Go back to a configuration that ran before: the one before this, or that of a number
    Rollback {
        /// The node's name, or its run directory
        node: String,
        /// Its number in the history
        number: Option<u64>,
        #[command(flatten)]
        manner: apply::Manner,
    },
    /// Stop a running node
    Down {
        /// The node's name, or its run directory
        node: String,
        /// Let the kernel half work on: the next `anode node run` takes it over, and no packet is lost
        #[arg(long)]
        keep_kernel: bool,
    },
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.verb {
        Verb::Run { config, helper } => service::run(&config, helper.as_deref())?,
        Verb::Helper { config, mount } => service::help(&config, mount)?,
        Verb::Check { config, json } => check::check(&config, json)?,
        Verb::Status { node, json } => {
            let status = Control::connect(&run_dir(&node))?.status()?;
            if json {
                crate::say!("{}", serde_json::to_string_pretty(&status)?)
            } else {
                crate::say!("{}", describe(&clean::tree(status)))
            }
        }
        Verb::Watch { node, interval, count, json } => watch::watch(&node, interval, count, json)?,
        Verb::Metrics(args) => metrics::print(&args)?,
        Verb::Health { node, json } => return health::print(&node, json),
        Verb::Events(args) => events::print(&args)?,
        Verb::Report(args) => report::write(&args)?,
        Verb::Log(args) => log::print(&args)?,
        Verb::Route(args) => route::print(&args)?,
        Verb::Apply(args) => args.run()?,
        Verb::Confirm { node } => apply::confirm(&node)?,
        Verb::History { node, json } => apply::history(&node, json)?,
        Verb::Rollback { node, number, manner } => apply::rollback(&node, number, &manner)?,
        Verb::Down { node, keep_kernel } => down(&node, keep_kernel)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn down(node: &str, keep_kernel: bool) -> anyhow::Result<()> {
    let dir = run_dir(node);
    let mut control = match Control::connect(&dir) {
        // It has died, and something of it has not.
        Err(_) if !keep_kernel && remains::clear(&dir, false)? => return Ok(()),
        connected => connected?,
    };
    control.down(keep_kernel)?;
    // The node takes its sockets away as the last thing it does.
    let gone = || (!dir.join("control.sock").exists()).then_some(());
    let still = || format!("the node was told to stop but its sockets are still in {}", dir.display());
    crate::sys::watch::until(&dir, None, END, gone).map_err(|missed| anyhow::anyhow!("{}: {missed}", still()))?;
    if !keep_kernel {
        remains::clear(&dir, true)?;
    }
    Ok(())
}

/// Who the node is, and what of its sandbox is weaker than it could be.
fn describe_sandbox(text: &mut String, sandbox: &Value) {
    let Some(user) = sandbox["user"].as_str() else { return };
    let standing = &sandbox["standing"];
    let _ = writeln!(
        text,
        "  sandbox user {user}, capabilities {:x}, system calls {}",
        standing["capabilities"].as_u64().unwrap_or(0),
        if standing["seccomp"] == true { "filtered" } else { "not filtered" }
    );
    for part in sandbox["weaker"].as_array().into_iter().flatten() {
        if let Ok(part) = serde_json::from_value::<Part>(part.clone()) {
            let _ = writeln!(text, "  sandbox weaker: {}", part.lack());
        }
    }
    for part in sandbox["jails_weaker"].as_array().into_iter().flatten() {
        if let Ok(part) = serde_json::from_value::<jail::Part>(part.clone()) {
            let _ = writeln!(text, "  jails weaker: {}", part.lack());
        }
    }
}

/// What the worker has of a CPU, if that is not simply all it wants.
fn describe_cpu(text: &mut String, cpu: &Value) {
    let (share, rests) = (cpu["share"].as_f64().unwrap_or(1.0), cpu["rests"].as_u64().unwrap_or(0));
    let realtime = if cpu["realtime"] == true { ", real-time" } else { "" };
    let usual = Policy::default().name();
    let scheduler = cpu["scheduler"].as_str().unwrap_or(usual);
    if share < 1.0 || scheduler != usual || !realtime.is_empty() {
        let rested = cpu["rested_ms"].as_u64().unwrap_or(0);
        let _ = writeln!(text, "  cpu {scheduler}, {share} of one{realtime}; rested {rests} times, {rested} ms");
    }
    let number = |tree: &Value, key: &str| tree[key].as_u64().unwrap_or(0);
    if number(cpu, "gaps") > 0 {
        let (gaps, longest) = (number(cpu, "gaps"), number(cpu, "longest_gap_us"));
        let _ = writeln!(
            text,
            "  cpu: it had work and did not run for 1 ms or more {gaps} times, for {longest} µs at most"
        );
    }
    let processes = &cpu["processes"];
    if number(processes, "of_one_process") > 0 {
        let (one, all) = (number(processes, "of_one_process"), number(processes, "kept"));
        let _ = writeln!(
            text,
            "  cpu: of {one} of {all} environments in processes the first process alone is charged, since it has no control group"
        );
    }
    let failed: u64 = ["unread", "jumped", "unweighed"].iter().map(|key| number(processes, key)).sum();
    if failed > 0 {
        let _ =
            writeln!(text, "  cpu: {failed} times what a process used could not be read, or its weight not be written");
    }
}

fn describe_port(text: &mut String, port: &Value) {
    let number = |key: &str| port[key].as_u64().unwrap_or(0);
    let addresses: Vec<_> = port["addresses"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let _ = writeln!(
        text,
        "  port {:12} in {:>10} frames {:>12} B   out {:>10} frames {:>12} B   {}",
        port["name"].as_str().unwrap_or("?"),
        number("received"),
        number("received_bytes"),
        number("sent"),
        number("sent_bytes"),
        addresses.join(", ")
    );
    let demands: Vec<_> = port["demands"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let demands = if demands.is_empty() { String::new() } else { format!("; demands {}", demands.join(", ")) };
    let _ = writeln!(text, "    bound {}, signed {}{demands}", number("bound_max"), number("signed_bound_max"));
    describe_strangers(text, &port["strangers"]);
    if number("clamped") > 0 {
        let _ = writeln!(
            text,
            "    {} resource bounds were cut: to its bound_max, or signed ones to its signed_bound_max",
            number("clamped")
        );
    }
    if number("unknown_keys") > 0 {
        let _ = writeln!(text, "    {} packets with the proof of a key that it does not know", number("unknown_keys"));
    }
}

/// The counter tree for people, with one line of help for every reason that happened.
fn describe(status: &Value) -> String {
    let mut text = format!("node {}\n", status["node"].as_str().unwrap_or("?"));
    let items = |key: &str| status[key].as_array().cloned().unwrap_or_default();
    let number = |value: &Value, key: &str| value[key].as_u64().unwrap_or(0);
    // Of a node of before nothing is known of this.
    if let Some(version) = status["versions"]["anode"].as_str() {
        let _ = writeln!(text, "  anode {version}, up for {} s", number(status, "uptime_s"));
    }
    for port in items("ports") {
        describe_port(&mut text, &port);
    }
    describe_cpu(&mut text, &status["cpu"]);
    words::parts(&mut text, &items("links"), &items("workers"));
    describe_sandbox(&mut text, &status["sandbox"]);
    for code in items("codes") {
        // What both halves have run; soft state is the user half's account.
        let (usage, kept) = (&code["total"], &code["usage"]);
        let _ = writeln!(
            text,
            "  code {:12} {:8} {:.8}…  {} packets, {} forwarded, {} delivered, {} children, {} steps, {} state entries{}",
            code["title"].as_str().unwrap_or("?"),
            code["state"].as_str().unwrap_or("?"),
            code["name"].as_str().unwrap_or("?"),
            number(usage, "packets"),
            number(usage, "forwarded"),
            number(usage, "delivered"),
            number(usage, "children"),
            number(usage, "steps"),
            number(kept, "state_entries"),
            code["why"].as_str().map(|why| format!(": {why}")).unwrap_or_default()
        );
        if let Some(role) = code["role"].as_str() {
            let principal = code["principal"].as_str().unwrap_or("nobody");
            let refused = code["credential_refused"].as_str().map(|why| format!("; credential refused: {why}"));
            let kind = code["representation"].as_str().unwrap_or("?");
            let tier = code["tier"]
                .as_str()
                .map(|tier| format!(" ({})", if tier == "fast" { "compiled at once" } else { tier }))
                .unwrap_or_default();
            let refused = refused.unwrap_or_default();
            let revoked = if code["signer_revoked"] == true { ", who was revoked" } else { "" };
            let _ = writeln!(text, "    {kind}{tier} in the role {role}, signed by {principal}{revoked}{refused}");
        }
        if code["trap"].is_object() {
            let _ = writeln!(text, "    it trapped last with {}", log::trap_in_words(&code["trap"]));
        }
    }
    describe_rules(&mut text, &status["rules"]);
    describe_kernel(&mut text, &status["kernel"], &items("codes"));
    items("xdp").iter().for_each(|port| describe_sockets(&mut text, port));
    loader::describe(&mut text, &status["loader"]);
    describe_fetch(&mut text, &status["fetch"]);
    for neighbour in items("neighbours") {
        describe_neighbour(&mut text, &neighbour, &items("ports"));
    }
    words::balance(&mut text, status);
    for (name, count) in status["drops"].as_object().into_iter().flatten() {
        // Others are names that reasons had before.
        if let Some(reason) = Reason::ALL.iter().find(|reason| reason.name() == name) {
            let _ = writeln!(text, "  drop {name:20} {:>8}   {}", count.as_u64().unwrap_or(0), reason.help());
        }
    }
    words::kernel_drops(&mut text, &status["kernel"]);
    text
}

/// Code on its way.
fn describe_fetch(text: &mut String, fetch: &Value) {
    let number = |key: &str| fetch[key].as_u64().unwrap_or(0);
    let _ = writeln!(
        text,
        "  fetch {} codes on their way, {} queued, {} capsules wait, {} B of code in memory, {} codes gave way",
        number("codes"),
        number("queued"),
        number("capsules"),
        number("object_bytes"),
        number("displaced")
    );
}

/// A neighbour, whose port is among these.
fn describe_neighbour(text: &mut String, neighbour: &Value, ports: &[Value]) {
    let texts = |list: &Value| {
        let texts = list.as_array().into_iter().flatten().filter_map(Value::as_str);
        texts.map(str::to_owned).collect::<Vec<_>>()
    };
    let field = |key: &str| neighbour[key].as_str().unwrap_or("?");
    let port = ports.iter().find(|port| port["name"] == neighbour["port"]);
    let demanded = port.is_some_and(|port| texts(&port["demands"]).iter().any(|demand| demand == "mac"));
    let keys = words::keys(&texts(&neighbour["keys"]), demanded);
    let used = describe_used(&neighbour["entry"]);
    let _ = writeln!(text, "  neighbour {} behind {}{keys}{used}", field("addr"), field("port"));
}

/// What those behind a port have used that have no bucket of their own, if something of theirs was refused.
fn describe_strangers(text: &mut String, entry: &Value) {
    if entry["refused"].as_u64() > Some(0) {
        let _ = writeln!(text, "    all behind it without a bucket of their own{}", describe_used(entry));
    }
}

/// What a neighbour has used of the worker; nothing if that is not counted for it alone.
fn describe_used(entry: &Value) -> String {
    match (entry["worker_ns"].as_u64(), entry["refused"].as_u64()) {
        (Some(time), Some(refused)) => {
            format!(": {} ms of the worker, {refused} frames refused since the start", time / 1_000_000)
        }
        _ => String::new(),
    }
}

/// By which way the frames of a port come that was to have AF_XDP sockets.
fn describe_sockets(text: &mut String, port: &Value) {
    if let Some(why) = port["why"].as_str() {
        let _ = writeln!(text, "  port {} through AF_PACKET, not AF_XDP: {why}", port["port"]);
        return;
    }
    let polled = match port["busy_poll_us"].as_u64() {
        None | Some(0) => String::new(),
        Some(time) => format!(", polled for {time} µs"),
    };
    let _ = writeln!(
        text,
        "  port {} by AF_XDP sockets in {} mode at {} of {} queues{polled}: {} frames, {} held for order, {} up the stack",
        port["port"],
        port["mode"].as_str().unwrap_or("?"),
        port["sockets"],
        port["queues"],
        port["to_socket"],
        port["held"],
        port["to_stack"]
    );
}

/// Rules of policy routing beside those that every host has.
fn describe_rules(text: &mut String, rules: &Value) {
    let number = |key: &str| rules[key].as_u64().unwrap_or(0);
    if number("obeyed") > 0 {
        let _ = writeln!(text, "  {} rules of policy routing: the kernel is asked for each way", number("obeyed"));
    }
    if number("not_obeyed") > 0 {
        let _ =
            writeln!(text, "  {} rules for marked packets not obeyed: nothing here is marked", number("not_obeyed"));
    }
}

/// What runs in the kernel half, and what does not and why.
fn describe_kernel(text: &mut String, kernel: &Value, codes: &[Value]) {
    let list = |key: &str| kernel[key].as_array().cloned().unwrap_or_default();
    let number = |value: &Value, key: &str| value[key].as_u64().unwrap_or(0);
    for port in list("ports") {
        let why = port["why"].as_str().map(|why| format!(": {why}")).unwrap_or_default();
        let _ = writeln!(
            text,
            "  kernel half at port {} in the {}{why}{}",
            port["port"],
            port["mode"].as_str().unwrap_or("?"),
            if port["redirected"] == 0 { words::NOT_REDIRECTED } else { "" }
        );
    }
    for port in list("ports").iter().filter(|port| port["behind"].is_string()) {
        let (name, port) = (port["behind"].as_str().unwrap_or("?"), &port["port"]);
        let _ = writeln!(
            text,
            "  kernel half at port {port} before the XDP program {name}, which has what is not the node's"
        );
    }
    for port in list("refused") {
        let _ = writeln!(text, "  no kernel half at port {}: {}", port["port"], port["why"].as_str().unwrap_or("?"));
    }
    for code in list("codes") {
        let usage = &code["usage"];
        let _ = writeln!(
            text,
            "  kernel half {:.8}…  {} packets, {} forwarded, {} children, {} passed up, {} over budget, {} µs",
            code["name"].as_str().unwrap_or("?"),
            usage["packets"],
            usage["forwarded"],
            usage["children"],
            usage["passed_up"],
            usage["dropped_over_budget"],
            number(usage, "time_ns") / 1000
        );
    }
    for code in codes.iter().filter(|code| code["kernel"].as_str().is_some_and(|kernel| kernel != "running")) {
        let field = |key: &str| code[key].as_str().unwrap_or("?").to_owned();
        let _ = writeln!(text, "  kernel half without {}: {}", field("title"), field("kernel"));
    }
}
