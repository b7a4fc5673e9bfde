//! `anode lab`: networks of namespaces from lab files.

mod capture;

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Subcommand;
use model::labs::{Gone, Labs, Links, LogLine, Network, Up};

use super::{say_json, told};
use crate::lab::{self, Lab, Node, Topology};

/// The arguments behind `anode lab`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Make a lab, or repair it; what is there stays
    Up {
        /// The lab file
        file: PathBuf,
        /// Also run an anode node in every active node; `--node LAB.NODE` then finds it
        #[arg(long)]
        nodes: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a lab with all that runs in it
    Down {
        /// The lab file, or the lab's name
        lab: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the labs, or the nodes of one
    Ls {
        /// The lab file, or the lab's name
        lab: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Say what a lab file means, with all addresses and routes, and make nothing
    Check {
        /// The lab file
        file: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Make a lab file of the interface files of PLAN daemons of old, and print it
    Import {
        /// The interface files; a node is called as its file is, up to the first dot
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// The lab's name
        #[arg(long, default_value = "plan")]
        name: String,
        /// The hosts file: lines of an address and names
        #[arg(long, value_name = "FILE")]
        hosts: Option<PathBuf>,
        /// Write the hosts of the lab there: the old names and addresses, and what they are now
        #[arg(long, value_name = "FILE")]
        hosts_to: Option<PathBuf>,
    },
    /// Draw a lab
    Graph {
        /// The lab file, or the lab's name
        lab: String,
        /// A picture (SVG), not text
        #[arg(long)]
        svg: bool,
        /// Print JSON
        #[arg(long, conflicts_with = "svg")]
        json: bool,
    },
    /// Print what the nodes of a lab, and the process of its links, have written
    Logs {
        /// The lab file, or the lab's name
        lab: String,
        /// Only this node
        node: Option<String>,
        /// Only so many lines from the end of each
        #[arg(short = 'n', long)]
        lines: Option<usize>,
        /// Print JSON, one object a line
        #[arg(long)]
        json: bool,
    },
    /// Write the frames of a link that has a rate, a delay or the like into a capture file
    Capture {
        /// The lab file, or the lab's name
        lab: String,
        /// One end of the link: NODE/INTERFACE
        link: String,
        /// The file (pcapng)
        #[arg(short = 'w', long)]
        write: PathBuf,
        /// End after so many frames
        #[arg(short = 'c', long)]
        count: Option<u64>,
    },
    /// Say what has crossed the links of a lab that have a rate, a delay or the like, and what waits there
    Status {
        /// The lab file, or the lab's name
        lab: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Carry the shaped links of a lab that is told by standard input; `anode lab up` starts it
    #[command(hide = true)]
    Carry {
        /// Where its meters are
        dir: PathBuf,
    },
    /// Run a command in a node; the status is the command's
    Exec {
        /// The lab file, or the lab's name
        lab: String,
        /// The node
        node: String,
        /// The command and its arguments
        #[arg(last = true, required = true, num_args = 1..)]
        command: Vec<OsString>,
    },
}

fn import(files: &[PathBuf], name: &str, hosts: Option<&Path>, hosts_to: Option<&Path>) -> anyhow::Result<()> {
    let read = |path: &Path| std::fs::read_to_string(path).with_context(|| path.display().to_string());
    let source = |path: &PathBuf| {
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let node = file.split('.').next().unwrap_or_default().to_lowercase();
        read(path).map(|text| lab::import::Source { node, text })
    };
    let sources = files.iter().map(source).collect::<anyhow::Result<Vec<_>>>()?;
    let hosts = hosts.map(read).transpose()?.unwrap_or_default();
    let mut imported = lab::import::import(name, &sources, &hosts)?;
    // What it means is checked as that of every lab file.
    Topology::parse(&imported.topology, "the imported lab file")?;
    if let Some(path) = hosts_to {
        std::fs::write(path, imported.hosts).with_context(|| path.display().to_string())?;
        let path = path.canonicalize().with_context(|| path.display().to_string())?;
        let line = |node: &str| format!("nodes.{node}.anode.plan.hosts = {:?}", path.display().to_string());
        for node in sources.iter().map(|source| &source.node) {
            let active = format!("nodes.{node}.active = true\n");
            imported.topology = imported.topology.replacen(&active, &format!("{active}{}\n", line(node)), 1);
        }
        Topology::parse(&imported.topology, "the imported lab file")?;
    }
    crate::say!("{}", imported.topology);
    Ok(())
}

/// Runs `anode lab VERB`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.verb {
        Verb::Up { file, nodes, json } => up(&file, nodes, json)?,
        Verb::Down { lab, json } => down(&lab, json)?,
        Verb::Import { files, name, hosts, hosts_to } => {
            import(&files, &name, hosts.as_deref(), hosts_to.as_deref())?;
        }
        Verb::Ls { lab: None, json } => list(json)?,
        Verb::Ls { lab: Some(lab), json } => show(Lab::open(&name(&lab)?)?.topology(), json)?,
        Verb::Check { file, json } => {
            let topology = Topology::load(&file)?;
            let remarks = lab::check::configurations(&topology, &file)?;
            show(&topology, json)?;
            if !json {
                routes(&topology);
                remarks.iter().for_each(|line| crate::say!("note: {}", crate::clean::line(line)));
            }
        }
        Verb::Graph { lab, svg, json } => {
            let topology = if is_file(&lab) { Topology::load(&lab)? } else { Lab::open(&lab)?.topology().clone() };
            let drawn = match (svg, json) {
                (true, _) => lab::graph::svg(&topology),
                (_, true) => serde_json::to_string(&lab::graph::json(&topology).map_err(anyhow::Error::msg)?)?,
                _ => lab::graph::text(&topology),
            };
            crate::say!("{}", drawn.trim_end());
        }
        Verb::Logs { lab, node, lines, json } => logs(&name(&lab)?, node.as_deref(), lines, json)?,
        Verb::Capture { lab, link, write, count } => capture::capture(&Lab::open(&name(&lab)?)?, &link, &write, count)?,
        Verb::Status { lab, json } => status(&name(&lab)?, json)?,
        Verb::Carry { dir } => carry(&dir)?,
        Verb::Exec { lab, node, command } => exec(&name(&lab)?, &node, &command)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The lines of every log, each behind the name of who has written it.
fn logs(lab: &str, node: Option<&str>, lines: Option<usize>, json: bool) -> anyhow::Result<()> {
    let lab = Lab::open(lab)?;
    let logs = lab.logs();
    if let Some(node) = node {
        let known = || logs.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
        anyhow::ensure!(logs.iter().any(|(name, _)| name == node), "'{node}' writes no log; there are {}", known());
    }
    for (name, path) in logs.iter().filter(|(name, _)| node.is_none_or(|node| node == name)) {
        let text = match std::fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        let text = String::from_utf8_lossy(&text);
        let all: Vec<&str> = text.lines().collect();
        let first = lines.map_or(0, |lines| all.len().saturating_sub(lines));
        for line in all.iter().skip(first) {
            if json {
                say_json(&LogLine { of: name.clone(), line: (*line).to_owned() })?;
            } else {
                crate::say!("{name}: {line}");
            }
        }
    }
    Ok(())
}

fn status(lab: &str, json: bool) -> anyhow::Result<()> {
    let crossings = Lab::open(lab)?.crossings()?;
    if json {
        return say_json(&Links { lab: lab.into(), links: told(&crossings)? });
    }
    if crossings.is_empty() {
        crate::say!("{lab}: no link has a rate, a delay or the like; they are plain veth pairs");
    }
    for crossing in &crossings {
        let load = crossing.load_permille.map_or("-".into(), |load| format!("{}.{} %", load / 10, load % 10));
        crate::say!("{} -> {}: load {load}, {} bytes wait", crossing.from, crossing.to, crossing.queued_bytes);
        let counts = crossing.counts.iter().filter(|(name, count)| **count > 0 && **name != "left_at_ns");
        let counts: Vec<_> = counts.map(|(name, count)| format!("{name} {count}")).collect();
        crate::say!("  {}", if counts.is_empty() { "nothing yet".into() } else { counts.join(", ") });
    }
    Ok(())
}

fn carry(dir: &Path) -> anyhow::Result<()> {
    let listener = std::io::stdin().as_fd().try_clone_to_owned()?;
    Ok(lab::links::carrier::carry(listener.into(), dir)?)
}

/// A lab's name as given, or as its file says.
fn name(lab: &str) -> anyhow::Result<String> {
    if is_file(lab) { Ok(lab::name_in(lab)?) } else { Ok(lab.to_owned()) }
}

fn is_file(lab: &str) -> bool {
    lab.contains('/') || Path::new(lab).extension().is_some_and(|extension| extension == "toml")
}

fn up(file: &Path, run_nodes: bool, json: bool) -> anyhow::Result<()> {
    let topology = Topology::load(file)?;
    lab::check::configurations(&topology, file)?;
    let changed = lab::nodes::changed(&topology);
    if !changed.is_empty() {
        let one = |lab::nodes::Changed { node, settings }: &lab::nodes::Changed| {
            let name = format!("{}.{node}", topology.name);
            let what = if settings.is_empty() { "is not active any more".into() } else { settings.join(", ") };
            format!("\n  {name}: {what}: anode node down {name}")
        };
        let all: String = changed.iter().map(one).collect();
        anyhow::bail!(
            "nodes run with other settings than {} has; nothing was changed. End them, and `anode lab up --nodes` starts them anew:{all}",
            file.display()
        );
    }
    let lab = Lab::up(&topology)?;
    let started = if run_nodes { lab.start_nodes(&std::env::current_exe()?, &|_, _| {})? } else { Vec::new() };
    let started: Vec<_> = started.iter().map(|daemon| format!("{}.{}", topology.name, daemon.node)).collect();
    if json {
        let (changes, nodes) = (lab.changes() as u64, told(&topology.nodes)?);
        return say_json(&Up { lab: topology.name.clone(), changes, nodes, started });
    }
    let (nodes, links) = (topology.nodes.len(), topology.links());
    match lab.changes() {
        0 => crate::say!("{}: {nodes} nodes and {links} links were up already", topology.name),
        changes => crate::say!("{}: {nodes} nodes and {links} links are up ({changes} changes)", topology.name),
    }
    for node in &started {
        crate::say!("node {node} runs");
    }
    if topology.has_traffic {
        crate::say!("its [[traffic]] is not sent here; `anode sim run {}` does", file.display());
    }
    Ok(())
}

fn down(lab: &str, json: bool) -> anyhow::Result<()> {
    let name = name(lab)?;
    let known = is_file(lab) || lab::list()?.iter().any(|summary| summary.name == name);
    anyhow::ensure!(known, lab::Error::NoLab { name });
    let down = Lab::down(&name)?;
    if json {
        return say_json(&Gone { lab: name, down: told(&down)? });
    }
    match down.nodes() {
        0 => crate::say!("{name}: was not up"),
        nodes => crate::say!("{name}: {nodes} nodes removed"),
    }
    if !down.ended.is_empty() {
        crate::say!("{name}: {} processes ended", down.ended.len());
    }
    for namespace in &down.left {
        crate::say!("{name}: left namespace {namespace} alone, which `anode lab` did not make");
    }
    Ok(())
}

fn list(json: bool) -> anyhow::Result<()> {
    let labs = lab::list()?;
    if json {
        return say_json(&Labs { labs: told(&labs)? });
    }
    for lab in &labs {
        let status = serde_json::to_value(lab.status)?;
        let file = lab.file.as_deref().map_or("-".into(), |file| file.display().to_string());
        crate::say!(
            "{:<16} {:<10} {:>4} nodes  {file}",
            lab.name,
            status.as_str().unwrap_or_default(),
            lab.nodes.len()
        );
    }
    Ok(())
}

fn show(topology: &Topology, json: bool) -> anyhow::Result<()> {
    if json {
        return say_json(&Network { lab: topology.name.clone(), nodes: told(&topology.nodes)? });
    }
    for node in &topology.nodes {
        let active = if node.active { ", active" } else { "" };
        crate::say!("{} ({}{active}) {}", node.name, node.kind, join(&node.addresses));
        for interface in &node.interfaces {
            let (peer, peer_interface) = &interface.peer;
            crate::say!(
                "  {:<15} {}  {} -> {peer} {peer_interface}",
                interface.name,
                interface.mac,
                join(&interface.addresses)
            );
        }
    }
    Ok(())
}

fn join(addresses: &[lab::Cidr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

fn routes(topology: &Topology) {
    let line = |node: &Node, route: &lab::Route| {
        let via = route.via.map_or("on the link".to_owned(), |via| format!("via {via}"));
        crate::say!("{}: to {} {via} by {}", node.name, route.to, route.interface);
    };
    for node in &topology.nodes {
        node.routes.iter().for_each(|route| line(node, route));
    }
}

/// Becomes the command: so its status, its signals and its terminal are really its own.
fn exec(lab: &str, node: &str, command: &[OsString]) -> anyhow::Result<()> {
    let lab = Lab::open(lab)?;
    let (program, arguments) = command.split_first().context("no command given; write it behind --")?;
    let error = lab.command(node, program)?.args(arguments).exec();
    Err(error).with_context(|| format!("cannot run {} in node '{node}'", program.to_string_lossy()))
}
