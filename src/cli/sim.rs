//! `anode sim`: networks in virtual time from lab files.

mod result;

use super::attach::ms;
use crate::apps::APPS;
use crate::cli::say_json;
use crate::code::author;
use crate::code::bundle::Bundle;
use crate::sim::scenario::{CodeFile, Scenario};
use crate::sim::{Arrival, SECOND, Simulation, explain};
use anyhow::Context;
use clap::Subcommand;
use indicatif::{ProgressBar, ProgressStyle};
use model::simulated::{Machine, Simulated};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// Steps in which the progress bar moves.
const SLICES: u64 = 200;

/// The arguments behind `anode sim`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run what a lab file says; the same seed gives the same result
    Run {
        /// The lab file
        #[arg(value_name = "FILE")]
        scenario: PathBuf,
        /// Where chance begins; else as the file says, or chosen and printed
        #[arg(long)]
        seed: Option<u64>,
        /// Write the history of all packets here
        #[arg(long, value_name = "FILE")]
        trace: Option<PathBuf>,
        /// Also print the last capsules that were delivered, so many
        #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(..=1000))]
        show: u16,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Tell what became of a packet
    Explain {
        /// Its number in the history
        packet: u64,
        /// The history, written by run --trace
        #[arg(long, value_name = "FILE")]
        trace: PathBuf,
        /// Print JSON, an entry on each line
        #[arg(long)]
        json: bool,
    },
}

/// Runs `anode sim VERB`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.verb {
        Verb::Run { scenario, seed, trace, show, json } => {
            simulate(&scenario, seed, trace.as_deref(), show.into(), json)?;
        }
        Verb::Explain { packet, trace, json } => tell(packet, &trace, json)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn simulate(path: &Path, seed: Option<u64>, trace: Option<&Path>, show: usize, json: bool) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let scenario = Scenario::parse(&text, path)?;
    let seed = seed.or(scenario.seed).unwrap_or_else(chosen);
    if let Some(made_up) = scenario.made_up.as_ref().filter(|_| !json) {
        crate::say!("{made_up}");
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut simulation = scenario
        .simulation(seed, |code| load(folder, code).map_err(|error| format!("{error:#}")))
        .with_context(|| path.display().to_string())?;
    if let Some(trace) = trace {
        let file = File::create(trace).with_context(|| format!("cannot write {}", trace.display()))?;
        simulation.trace(Box::new(BufWriter::new(file)));
    }
    let start = Instant::now();
    if show > 0 {
        simulation.collect_all();
    }
    let last = pass(&mut simulation, &scenario, show);
    let wall_s = start.elapsed().as_secs_f64();
    simulation.finish_trace().context("the history could not be written; is the disk full?")?;
    let result = simulation.report();
    let machine = Machine { wall_s, packet_hops_per_second: result.totals.packet_hops as f64 / wall_s.max(1e-9) };
    if json {
        let output = Simulated { scenario: path.display().to_string(), result: result::told(&result), machine };
        crate::say!("{}", serde_json::to_string_pretty(&output)?);
    } else {
        let names = &simulation.network().names;
        last.iter().for_each(|arrival| show_arrival(names, arrival));
        crate::say!("{result}");
        let Machine { wall_s, packet_hops_per_second } = machine;
        crate::say!("this machine: {wall_s:.2} s, {packet_hops_per_second:.0} packet-hops/s");
    }
    Ok(())
}

/// A capsule as an application got it.
fn show_arrival(names: &[String], arrival: &Arrival) {
    let Arrival { node, header, payload, latency, .. } = arrival;
    let at = names.get(*node).map_or("?", String::as_str);
    let (from, bound) = (header.source, header.bound);
    crate::say!("{at}: from {from}, bound {bound} left, {} bytes, after {} ms", payload.len(), ms(*latency));
    super::capsule::show_bytes(payload);
}

/// Lets the scenario's time pass, with a bar on a terminal; gives the last capsules that were delivered.
fn pass(simulation: &mut Simulation, scenario: &Scenario, show: usize) -> VecDeque<Arrival> {
    let mut last = VecDeque::new();
    let mut keep = |arrivals: Vec<Arrival>| {
        last.extend(arrivals);
        last.drain(..last.len().saturating_sub(show));
    };
    let bar = ProgressBar::new(scenario.duration / 1_000_000);
    let style = ProgressStyle::with_template("{bar:40} {percent:>3} % {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    for slice in 1..=SLICES {
        simulation.run_until((u128::from(scenario.duration) * u128::from(slice) / u128::from(SLICES)) as u64);
        keep(simulation.take_arrivals());
        bar.set_position(simulation.now() / 1_000_000);
        bar.set_message(format!(
            "{:.1} s, {} delivered",
            simulation.now() as f64 / SECOND as f64,
            simulation.totals().delivered
        ));
    }
    bar.finish_and_clear();
    simulation.drain(scenario.duration.saturating_add(scenario.drain));
    keep(simulation.take_arrivals());
    last
}

/// The bundle behind a code of a lab file.
fn load(folder: &Path, code: &CodeFile) -> anyhow::Result<Bundle> {
    let Some(file) = &code.file else {
        let shipped = APPS.iter().find(|app| app.title == code.name);
        let names = || APPS.map(|app| app.title).join(", ");
        let app = shipped.with_context(|| format!("it has no file, and is not shipped: these are: {}", names()))?;
        return Ok(app.bundle()?);
    };
    let path = folder.join(file);
    if path.extension().is_some_and(|extension| extension == "anb") {
        let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        return Ok(Bundle::read(&bytes)?);
    }
    Ok(author::build(&path, &author::AuthorOptions { window: code.window, ..Default::default() })?)
}

/// A seed nobody chose: it is printed with the result, and gives the same one again.
fn chosen() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one("seed") >> 32
}

fn tell(packet: u64, trace: &Path, json: bool) -> anyhow::Result<()> {
    let open = || File::open(trace).map(BufReader::new);
    let story = explain::story(packet, open).with_context(|| trace.display().to_string())?;
    if json {
        for entry in &story {
            say_json(entry)?;
        }
    } else {
        crate::say!("{}", explain::words(&story));
    }
    Ok(())
}
