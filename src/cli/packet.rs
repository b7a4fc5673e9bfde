//! `anode packet explain`: the story of one packet over several nodes, in the words of `anode sim explain`.
//!
//! A node numbers the packets that it has, so inside a node events are of a number. Between nodes a packet is known by what does
//! not change there ([`crate::seen::look`]): the frame that leaves one node and the one that comes in at the next have one identity.
//! So the story follows numbers through nodes and identities over links, whatever code writes into the packet, and adds nothing to it.

mod follow;
mod passed;

use crate::cli::say_json;
use crate::lab::Lab;
use crate::manage::client::{ClientError, Control, Watched, run_dir};
use crate::seen::filter::Filter;
use crate::sim::explain;
use crate::sim::trace::Entry;
use clap::Subcommand;
use follow::{History, Place, Wanted};
use model::Ask;
use model::programs::{Frame, ProgramWay};
use passed::{Met, Passed};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The arguments behind `anode packet`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Tell the story of the next packet that a filter holds for, over all given nodes
    Explain {
        /// Words that all must hold: port=NAME, code=NAME, domain=NAME, host=ADDRESS, packet=IDENTITY, dropped
        filter: Vec<String>,
        /// A node's name, or its run directory; more than once for more nodes
        #[arg(long, value_name = "NODE")]
        node: Vec<String>,
        /// All nodes of a lab
        #[arg(long)]
        lab: Option<String>,
        /// For how many seconds a packet is waited for, and then for the end of its story
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
        wait: u64,
        /// Print JSON, one event of the story a line
        #[arg(long)]
        json: bool,
    },
}

/// Runs `anode packet VERB`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Verb::Explain { filter, node, lab, wait, json } = args.verb;
    let filter = Filter::parse(&filter).map_err(anyhow::Error::msg)?;
    let mut nodes = node;
    if let Some(lab) = lab {
        let lab = Lab::open(&lab)?;
        let topology = lab.topology();
        let active = topology.nodes.iter().filter(|node| node.active);
        nodes.extend(active.map(|node| format!("{}.{}", topology.name, node.name)));
    }
    anyhow::ensure!(!nodes.is_empty(), "which nodes? Name them by --node NODE, or by --lab LAB");
    explain(&filter, &nodes, Duration::from_secs(wait), json)
}

/// What was on its way when the last node began to be watched has arrived by then: it would have no beginning.
const BEGINNING: Duration = Duration::from_millis(50);

/// A node that is watched.
struct Watching {
    dir: PathBuf,
    watched: Watched,
}

/// Those that can be; whoever has no right to, or does not run, is named.
fn open(nodes: &[String]) -> anyhow::Result<Vec<Watching>> {
    let mut open = Vec::new();
    for node in nodes {
        let dir = run_dir(node);
        match Control::connect(&dir).and_then(Control::watch) {
            Ok(watched) => open.push(Watching { dir, watched }),
            Err(error @ ClientError::NotRunning(..)) if nodes.len() > 1 => crate::say_err!("without {node}: {error}"),
            Err(error) => return Err(error.into()),
        }
    }
    anyhow::ensure!(!open.is_empty(), "none of these nodes can be watched");
    Ok(open)
}

/// The engines of a graph that a frame has met in the kernel: its node takes it through the program's plan again. Nothing if another frame
/// comes out of that than has left: the graph is another one by now, or none has had it.
fn met(at: &Watching, passed: &Passed) -> Option<Met> {
    let port = at.watched.names.ports.get(usize::from(passed.port))?.name.clone();
    let ask = Ask::Explain { frame: hex::encode(&passed.before), port: Some(port) };
    let explained: Frame = Control::connect(&at.dir).ok()?.asked(&ask).ok()?;
    let ProgramWay { graph, engines, end, leaves } = explained.program?;
    let is_it = match &passed.after {
        Some(after) => leaves == Some(hex::encode(after)),
        None => end == "dropped",
    };
    is_it.then_some((graph, engines))
}

/// Nodes say which engines the frames of a story have met in their kernel halves.
fn note_engines(history: &mut History, open: &[Watching], story: &[Entry]) {
    for passed in history.passed(story) {
        if let Some(met) = open.get(passed.node).and_then(|at| met(at, &passed)) {
            history.note(&passed, met);
        }
    }
}

/// Prints a story.
fn say(story: &[Entry], json: bool) -> anyhow::Result<()> {
    if json {
        return story.iter().try_for_each(say_json);
    }
    crate::say!("{}", explain::words(story).trim_end());
    Ok(())
}

fn explain(filter: &Filter, nodes: &[String], wait: Duration, json: bool) -> anyhow::Result<ExitCode> {
    let mut open = open(nodes)?;
    let place = |at: &Watching| Place {
        name: at.watched.names.node.clone(),
        origin: at.watched.names.origin,
        ethernet: at.watched.names.ports.iter().map(|port| port.ethernet).collect(),
    };
    let mut history = History::new(open.iter().map(place).collect());
    let names: Vec<_> = open.iter().map(|at| at.watched.names.node.clone()).collect();
    let watched_since = open.iter().map(|at| at.watched.names.origin + at.watched.names.now).max().unwrap_or(0);
    let begin = watched_since + BEGINNING.as_nanos() as u64;
    let mut said = Some(Instant::now() + BEGINNING);
    let (mut wanted, mut end, mut told) = (None, Instant::now() + wait, None);
    let mut again = Instant::now();
    while Instant::now() < end {
        if said.take_if(|when| Instant::now() >= *when).is_some() {
            crate::say_err!("following at {}", names.join(", "));
        }
        for (node, Watching { dir, watched }) in open.iter_mut().enumerate() {
            watched.look(|record| history.take(node, record))?;
            while let Some(seen) = watched.next(false) {
                watched.name(dir, &seen);
                let is_new = watched.names.origin + seen.at >= begin;
                if wanted.is_none() && is_new && seen.trace != 0 && filter.holds(&seen, &watched.names) {
                    wanted = Some(Wanted { node, at: seen.at, identity: seen.look.identity });
                    end = Instant::now() + wait;
                }
            }
        }
        if let Some(wanted) = wanted
            && Instant::now() >= again
        {
            let begun = Instant::now();
            told = history.story(wanted);
            if told.as_ref().is_some_and(|(_, has_ended)| *has_ended) {
                break;
            }
            // Nodes tell more meanwhile: a look at all records takes no more than a fifth of the time.
            again = Instant::now() + 4 * begun.elapsed();
        }
    }
    if told.as_ref().is_none_or(|(_, has_ended)| !has_ended) {
        told = wanted.and_then(|wanted| history.story(wanted));
    }
    let missed: u64 = open.iter().map(|at| at.watched.missed()).sum();
    if missed > 0 {
        crate::say_err!("{missed} records missed: the story may have gaps");
    }
    if let (Some((story, _)), Some(wanted)) = (&told, wanted) {
        note_engines(&mut history, &open, story);
        told = history.story(wanted).or(told);
    }
    let Some((story, has_ended)) = told else {
        anyhow::bail!("no packet that the filter holds for came in {} s", wait.as_secs());
    };
    say(&story, json)?;
    if !has_ended {
        crate::say_err!("what becomes of it was not seen within {} s", wait.as_secs());
    }
    Ok(ExitCode::SUCCESS)
}
