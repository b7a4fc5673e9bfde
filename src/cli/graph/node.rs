//! Graphs of a running node: what there is, what engines say, and another graph in the place of one.

use super::{Variables, draw, load, read as read_text};
use crate::clean;
use crate::cli::say_json;
use crate::manage::client::{Control, run_dir};
use anyhow::{Context as _, Result};
use model::graphs::{Applied, Edit, Engine, Graph, Handler, Part, Shown, Wire};
use model::{Ask, GraphWish};
use std::path::Path;

/// Prints all graphs of a node.
pub(super) fn list(node: &str, json: bool) -> Result<bool> {
    let graphs: Vec<Graph> = Control::connect(&run_dir(node))?.asked(&Ask::Graphs)?;
    if json {
        say_json(&graphs)?;
        return Ok(true);
    }
    crate::say!(
        "{:20} {:>10} {:>10} {:>7} {:7} {:>12} {:>12} {:>12} {:>10} takes",
        "graph",
        "domain",
        "generation",
        "engines",
        "place",
        "came",
        "left",
        "dropped",
        "held"
    );
    for Graph { name, domain, generation, engines, place, take, came, left, dropped, held, waits, .. } in graphs {
        let (name, take) = (clean::line(&name), clean::line(&take.join(", ")));
        if let Some(waits) = waits.filter(|_| generation == 0) {
            crate::say!("{name:20} {}", clean::line(&waits));
            continue;
        }
        crate::say!(
            "{name:20} {domain:>10} {generation:>10} {engines:>7} {place:7} {came:>12} {left:>12} {dropped:>12} {held:>10} {take}"
        );
    }
    Ok(true)
}

pub(super) fn shown(node: &str, name: &str) -> Result<Shown> {
    Ok(Control::connect(&run_dir(node))?.asked(&Ask::Graph { name: name.to_owned() })?)
}

/// A part at another node: how it is, what went between, and what has become of packets there.
fn show_part(part: &Part) {
    let Part { node, generation, marshal, answers, lost, sent, back, came, left, dropped, held } = part;
    let how = match lost {
        Some(why) => format!("does not run, and is offered again: {}", clean::line(why)),
        None if *answers => "runs".to_owned(),
        None => "does not answer".to_owned(),
    };
    let node = marshal.as_ref().map_or(node.clone(), |by| format!("{node}, {by}"));
    crate::say!("a part @remote({}), generation {generation}, {how}", clean::line(&node));
    crate::say!("  sent {sent}, back {back}; there: in {came}, out {left}, dropped {dropped}, held {held}");
}

/// Prints what has become of the packets of a graph.
fn show_traffic(graph: &Graph) {
    let Graph { came, begun, left, used, dropped, held, blanked, kernel_packets, edited, drops, .. } = graph;
    crate::say!("in {came}, begun {begun}, out {left}, used {used}, dropped {dropped}, held {held}");
    if !drops.is_empty() {
        let drops: Vec<_> =
            drops.iter().map(|(reason, packets)| format!("{} {packets}", clean::line(reason))).collect();
        crate::say!("dropped by its domain: {}", drops.join(", "));
    }
    if *kernel_packets > 0 {
        crate::say!("in the kernel {kernel_packets} of those that came in");
    }
    if *blanked > 0 {
        crate::say!("locked fields were blanked {blanked} times at the way to other places");
    }
    if *edited > 0 {
        crate::say!("changed {edited} times by programs of its role");
    }
}

/// Prints a graph with its engines, connections and counts.
pub(super) fn show(node: &str, name: &str, json: bool) -> Result<bool> {
    let shown = shown(node, name)?;
    if json {
        say_json(&shown)?;
        return Ok(true);
    }
    let Shown { graph, engines, wires, said, .. } = shown;
    let Graph { name, domain, role, generation, older, take, place, why, parts, owner, waits, edits, .. } = &graph;
    if let Some(waits) = waits.as_ref().filter(|_| *generation == 0) {
        crate::say!("{}: role {}, {}", clean::line(name), clean::line(role), clean::line(waits));
        take.iter().for_each(|take| crate::say!("is to take {}", clean::line(take)));
        return Ok(true);
    }
    crate::say!("{}: generation {generation}, domain {domain}, role {}", clean::line(name), clean::line(role));
    crate::say!("runs @{place}{}", why.as_ref().map_or(String::new(), |why| format!(", {}", not_there(place, why))));
    if let Some(owner) = owner {
        crate::say!("is a part of a graph of {}", clean::line(owner));
    }
    if let Some(waits) = waits {
        crate::say!("the next one {}", clean::line(waits));
    }
    parts.iter().for_each(show_part);
    if *older > 0 {
        crate::say!("{older} generations before still hold packets");
    }
    take.iter().for_each(|take| crate::say!("takes {}", clean::line(take)));
    show_traffic(&graph);
    edits.iter().for_each(show_edit);
    for Engine { name, class, place, asked, held } in &engines {
        let place = if asked.is_some() { format!("{place} as asked") } else { place.clone() };
        let held = if *held > 0 { format!("  holds {held}") } else { String::new() };
        crate::say!("{} :: {}  @{place}{held}", clean::line(name), clean::line(class));
    }
    for Wire { from, output, to, input, pushes, packets } in &wires {
        let how = if *pushes { "pushed" } else { "pulled" };
        crate::say!("{} [{output}] -> [{input}] {}  {packets} {how}", clean::line(from), clean::line(to));
    }
    said.iter().for_each(|line| crate::say!("> {}", clean::line(line)));
    Ok(true)
}

/// Prints an edit that code of capsules may wish for.
fn show_edit(edit: &Edit) {
    let Edit { number, name, stands, done, refused, why } = edit;
    let stands = if *stands { ", stands" } else { "" };
    let refused = if *refused > 0 { format!(", could not be {refused} times") } else { String::new() };
    crate::say!("edit {number} ({}) for capsules: done {done} times{refused}{stands}", clean::line(name));
    why.iter().for_each(|why| crate::say!("  {}", clean::lines(why)));
}

/// Prints what an engine says of itself.
pub(super) fn read(node: &str, name: &str, handler: &str, json: bool) -> Result<bool> {
    let ask = Ask::ReadGraph { name: name.to_owned(), handler: handler.to_owned() };
    let read: Handler = Control::connect(&run_dir(node))?.asked(&ask)?;
    if json {
        say_json(&read)?;
    } else {
        crate::say!("{}", clean::lines(&read.value));
    }
    Ok(true)
}

/// Writes to an engine.
pub(super) fn write(node: &str, name: &str, what: &str) -> Result<bool> {
    let (handler, value) = what.split_once('=').with_context(|| format!("{what}: ENGINE.HANDLER=VALUE"))?;
    let (name, handler, value) = (name.to_owned(), handler.to_owned(), value.to_owned());
    let _: Handler = Control::connect(&run_dir(node))?.asked(&Ask::WriteGraph { name, handler, value })?;
    Ok(true)
}

/// What is applied, and where.
#[derive(clap::Args)]
pub(super) struct ApplyArgs {
    /// The node's name, or its run directory
    node: String,
    /// The graph's name
    graph: String,
    /// The file with its text; `-` is standard input
    file: std::path::PathBuf,
    /// The role of a new graph's domain: one with channels and bandwidth
    #[arg(long)]
    role: Option<String>,
    /// Which packets it takes, in the place of those it took: protocol and address, e.g. 'eth0/ip 10.0.2.0/24'
    #[arg(long)]
    take: Vec<String>,
    /// Where it runs: in the kernel, in user space, or in the kernel if it can and may
    #[arg(long, value_parser = ["auto", "kernel", "user"])]
    place: Option<String>,
    /// The generation that you have looked at, 0 for none: another one is not replaced
    #[arg(long, value_name = "GENERATION")]
    base: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The text of a file, if it is a graph.
fn checked(node: &str, file: &Path) -> Result<Option<String>> {
    let text = read_text(file)?;
    Ok(load(file, &text, &Variables::default(), &super::show::of_node(node))?.map(|_| text))
}

/// Runs a text in the place of a graph of a node.
pub(super) fn apply(arguments: ApplyArgs) -> Result<bool> {
    let ApplyArgs { node, graph: name, file, role, take, place, base, json } = arguments;
    let Some(text) = checked(&node, &file)? else { return Ok(false) };
    let take = (!take.is_empty()).then_some(take);
    let wish = GraphWish { name, text, role, take, base, place };
    said(Control::connect(&run_dir(&node))?.asked(&Ask::ApplyGraph(wish))?, json)
}

/// Says what runs now.
pub(super) fn said(applied: Applied, json: bool) -> Result<bool> {
    if json {
        say_json(&applied)?;
        return Ok(true);
    }
    let Applied { name, generation, kept, place, why, .. } = applied;
    crate::say!("{} runs in generation {generation}, @{place}; {kept} engines go on as they were", clean::line(&name));
    if let Some(why) = why {
        crate::say!("{}", not_there(&place, &why));
    }
    Ok(true)
}

/// Why a graph of this place is not in the kernel, or not all of it.
fn not_there(place: &str, why: &str) -> String {
    let what = if place == "kernel" { "some packets go up to user space" } else { "not in the kernel" };
    format!("{what}: {}", clean::line(why))
}

/// Prints how a text differs from a graph of a node.
pub(super) fn diff(node: &str, name: &str, file: &Path) -> Result<bool> {
    let Some(text) = checked(node, file)? else { return Ok(false) };
    let (shown, classes) = (shown(node, name)?, super::show::of_node(node));
    let (was, is) = (super::show::flat(&shown.text, &classes), super::show::flat(&text, &classes));
    let (was, is) = (was.unwrap_or_default(), is.unwrap_or_default());
    for line in was.iter().filter(|line| !is.contains(line)) {
        crate::say!("- {}", clean::line(line));
    }
    for line in is.iter().filter(|line| !was.contains(line)) {
        crate::say!("+ {}", clean::line(line));
    }
    crate::say!("to generation {}: anode graph apply --base {0}", shown.graph.generation);
    Ok(true)
}

/// What is drawn, and how often it is asked.
#[derive(clap::Args)]
pub(super) struct DrawArgs {
    /// The node's name, or its run directory
    node: String,
    /// The graph's name
    graph: String,
    /// Seconds between the two looks that rates are of; 0: what has gone over connections so far
    #[arg(long, default_value_t = 1.0, value_parser = seconds)]
    seconds: f64,
    /// Write it as SVG into a file
    #[arg(long, value_name = "FILE")]
    svg: Option<std::path::PathBuf>,
}

/// How a graph is followed.
#[derive(clap::Args)]
pub(super) struct TopArgs {
    /// The node's name, or its run directory
    node: String,
    /// The graph's name
    graph: String,
    /// Seconds between two looks
    #[arg(long, default_value_t = 1.0, value_parser = seconds)]
    seconds: f64,
    /// End after so many; by default it goes on until it is ended
    #[arg(long)]
    rounds: Option<u64>,
}

fn seconds(text: &str) -> Result<f64, String> {
    let read = text.parse().ok().filter(|seconds| (0.0..=3600.0).contains(seconds));
    read.ok_or_else(|| "seconds, from 0 to 3600".into())
}

fn rest(seconds: f64) {
    std::thread::sleep(std::time::Duration::from_secs_f64(seconds));
}

/// Draws a graph with rates.
pub(super) fn draw(arguments: &DrawArgs) -> Result<bool> {
    let DrawArgs { node, graph, seconds, svg } = arguments;
    let before = if *seconds > 0.0 { Some(shown(node, graph)?) } else { None };
    rest(*seconds);
    let now = shown(node, graph)?;
    match svg {
        Some(file) => {
            let text = draw::svg(&now, before.as_ref());
            crate::cli::replace(file, text.as_bytes()).with_context(|| file.display().to_string())?;
        }
        None => draw::lines(&now, before.as_ref()).iter().for_each(|line| crate::say!("{line}")),
    }
    Ok(true)
}

/// Draws it again and again.
pub(super) fn top(arguments: &TopArgs) -> Result<bool> {
    let TopArgs { node, graph, seconds, rounds } = arguments;
    let (mut before, mut round) = (shown(node, graph)?, 0);
    while rounds.is_none_or(|rounds| round < rounds) {
        rest(seconds.max(0.1));
        let now = shown(node, graph)?;
        let Graph { name, generation, came, left, dropped, held, .. } = &now.graph;
        crate::say!("{} {generation}: in {came}, out {left}, dropped {dropped}, held {held}", clean::line(name));
        draw::lines(&now, Some(&before)).iter().for_each(|line| crate::say!("  {line}"));
        (before, round) = (now, round + 1);
    }
    Ok(true)
}
