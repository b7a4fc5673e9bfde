//! `anode classify`: what a frame is to taught protocols and rules, and whether definitions and rules are right.
//!
//! A file of rules has one in each line, in the paper's syntax if it begins with `[`, else as a pcap filter; `#` begins a comment.
//! docs/classifier.md has the languages.

mod frames;
mod node;

use crate::classify::fixed;
use crate::classify::taught::classifier;
use crate::classify::taught::classifier::{Classifier, MatchMode, RuleNumber};
use crate::classify::taught::language::Language;
use crate::classify::taught::pattern::HostNames;
use crate::classify::taught::protocols::Protocols;
use crate::classify::taught::text::Vocabulary;
use crate::classify::taught::token::{Mistake, TEXT_MAX};
use crate::classify::taught::trace::{Trace, TracedRule};
use crate::cli::say_json;
use crate::manage::explain;
use anyhow::Context;
use clap::{Subcommand, ValueEnum};
use model::programs::{Cases, Frame, Rule, Taught};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Mistakes that are shown.
const SHOWN_MAX: usize = 20;
/// Bytes of one rule's line.
const LINE_MAX: u64 = 1 << 16;

/// The arguments behind `anode classify`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Show a frame's headers, and why each rule holds for it or not
    Explain {
        /// The frame in hexadecimal, or a file: a capture (pcap, pcapng), or text in hexadecimal
        frame: String,
        /// Which frame of a capture, from 1
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
        number: u32,
        /// Say what a running node would do with it: the node's name, or its run directory
        #[arg(long, conflicts_with_all = ["rules", "protocols", "from", "mode"])]
        node: Option<String>,
        /// The node's port that it comes in by; without it the first one that is a link
        #[arg(long, requires = "node")]
        port: Option<String>,
        #[command(flatten)]
        given: Given,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Say what is wrong with definitions and rules
    Check {
        #[command(flatten)]
        given: Given,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(clap::Args)]
struct Given {
    /// Rules, one in each line
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Definitions of protocols, beside those that are always known
    #[arg(long, value_name = "FILE")]
    protocols: Option<PathBuf>,
    /// What frames begin with
    #[arg(long, value_name = "PROTOCOL", default_value = "ethernet")]
    from: String,
    /// Which of the rules that hold are wanted
    #[arg(long, value_enum, default_value_t = Wanted::First)]
    mode: Wanted,
}

#[derive(Clone, Copy, ValueEnum)]
enum Wanted {
    /// The first one
    First,
    /// All
    All,
    /// Those whose fields are worth most together
    Best,
}

/// The addresses of hosts as this machine knows them, each asked for once.
#[derive(Default)]
struct Resolver(HashMap<String, Vec<IpAddr>>);

impl HostNames for Resolver {
    fn addresses(&mut self, name: &str) -> Vec<IpAddr> {
        let ask = || {
            let found = (name, 0).to_socket_addrs().map(|found| found.map(|addr| addr.ip()).collect::<Vec<_>>());
            let mut found = found.unwrap_or_default();
            found.sort_unstable();
            found.dedup();
            found
        };
        self.0.entry(name.to_owned()).or_insert_with(ask).clone()
    }
}

/// A rule's line and text.
struct Line {
    number: usize,
    text: String,
    /// Whether the fixed fields of a node's both halves say the same.
    is_fixed: bool,
}

/// Runs `anode classify VERB`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.verb {
        Verb::Explain { frame, number, node, port, given, json } => {
            let bytes = frames::read(&frame, number)?;
            if let Some(node) = node {
                return node::explain(&node, &bytes, port, json);
            }
            let Some(classifier) = given.load()? else { return Ok(ExitCode::FAILURE) };
            let name = given.rules.as_deref().map_or(String::new(), |path| path.display().to_string());
            let trace = classifier.explain(&bytes);
            if json {
                say_json(&described(&classifier, &trace))?;
            } else {
                show(&classifier, &trace, &name);
            }
            Ok(ExitCode::SUCCESS)
        }
        Verb::Check { given, json } => {
            let Some(mut classifier) = given.load()? else { return Ok(ExitCode::FAILURE) };
            let rules = classifier.owners().count();
            classifier.settle();
            let (settled, over) = classifier.sizes();
            let taught: Vec<_> = classifier.protocols().all().map(|(_, protocol)| protocol.name.clone()).collect();
            let fixed = classifier.owners().filter(|(_, line)| line.is_fixed).count();
            if json {
                let cases = Cases { settled: settled as u64, tuples: over as u64 };
                let all = Taught { protocols: taught, rules: rules as u64, cases, fixed: fixed as u64 };
                say_json(&all)?;
                return Ok(ExitCode::SUCCESS);
            }
            crate::say!("{} protocols: {}", taught.len(), taught.join(", "));
            crate::say!("{rules} rules are right: {settled} cases in maps and trees, {over} in tuple space");
            crate::say!("{fixed} of them say what the fixed fields of both halves can say");
            Ok(ExitCode::SUCCESS)
        }
    }
}

impl Given {
    /// Reads both files; nothing if mistakes were shown.
    fn load(&self) -> anyhow::Result<Option<Classifier<Line>>> {
        let mut protocols = Protocols::standard();
        if let Some(path) = &self.protocols {
            let text = definitions(path)?;
            if let Err(mistake) = protocols.teach(&text) {
                crate::say_err!("{}", mistake.show(&path.display().to_string(), &text));
                return Ok(None);
            }
        }
        let mode = match self.mode {
            Wanted::First => MatchMode::First,
            Wanted::All => MatchMode::All,
            Wanted::Best => MatchMode::Best,
        };
        // Each frame is looked at once, so no flow need be known.
        let mut classifier = Classifier::new(protocols, &self.from, mode, 0, 0).map_err(anyhow::Error::msg)?;
        match &self.rules {
            Some(path) => Ok(add_all(&mut classifier, path)?.then_some(classifier)),
            None => Ok(Some(classifier)),
        }
    }
}

fn definitions(path: &Path) -> anyhow::Result<String> {
    let name = || path.display().to_string();
    let mut bytes = Vec::new();
    File::open(path).with_context(name)?.take(TEXT_MAX as u64 + 1).read_to_end(&mut bytes).with_context(name)?;
    String::from_utf8(bytes).map_err(|_| anyhow::anyhow!("{}: this is no text", name()))
}

/// Adds the rules of a file: whether all are right. What is wrong with others is shown.
fn add_all(classifier: &mut Classifier<Line>, path: &Path) -> anyhow::Result<bool> {
    let name = path.display().to_string();
    let mut reader = BufReader::new(File::open(path).with_context(|| name.clone())?);
    let (mut resolver, mut wrong) = (Resolver::default(), 0);
    for number in 1.. {
        let mut bytes = Vec::new();
        if reader.by_ref().take(LINE_MAX).read_until(b'\n', &mut bytes).with_context(|| name.clone())? == 0 {
            break;
        }
        anyhow::ensure!((bytes.len() as u64) < LINE_MAX, "{name}:{number}: a rule has fewer than {LINE_MAX} bytes");
        let line = String::from_utf8(bytes).map_err(|_| anyhow::anyhow!("{name}:{number}: this is no text"))?;
        let text = line.split('#').next().unwrap_or("").trim_end();
        if text.trim().is_empty() {
            continue;
        }
        let Err(Mistake { at, what }) = add(classifier, number, text, &mut resolver) else { continue };
        wrong += 1;
        if wrong <= SHOWN_MAX {
            let begin = "\n".repeat(number - 1);
            let mistake = Mistake { at: begin.len() + at, what };
            crate::say_err!("{}", mistake.show(&name, &format!("{begin}{text}")));
        }
        anyhow::ensure!(wrong < classifier::ENTRIES_MAX, "{name}: too many mistakes");
    }
    if wrong > SHOWN_MAX {
        crate::say_err!("{name}: and {} more mistakes", wrong - SHOWN_MAX);
    }
    Ok(wrong == 0)
}

fn add(
    classifier: &mut Classifier<Line>,
    number: usize,
    text: &str,
    names: &mut Resolver,
) -> Result<RuleNumber, Mistake> {
    let mut known = Vocabulary { protocols: classifier.protocols(), root: classifier.root(), names };
    let wanted = Language::of(text).read(text, &mut known)?;
    let order = u32::try_from(number).unwrap_or(u32::MAX);
    let cases = wanted.cases(classifier.root()).unwrap_or_default();
    let around = |case| fixed::around(classifier.protocols(), case);
    let is_fixed = cases.iter().all(|case| around(case).is_some_and(|fixed| fixed.is_same));
    let line = Line { number, text: text.trim().to_owned(), is_fixed };
    let begin = text.len() - text.trim_start().len();
    classifier.add(&wanted, order, line).map_err(|what| Mistake::at(begin, what))
}

/// What a frame is: its headers, and all rules by their lines.
fn described(classifier: &Classifier<Line>, trace: &Trace) -> Frame {
    let line = |number: RuleNumber| classifier.owner(number).map_or(0, |line| line.number as u64);
    let rule = |rule: &TracedRule| {
        let (channel, domain, text) = Default::default();
        Rule { line: line(rule.number), holds: rule.holds, why: rule.why.clone(), channel, domain, text }
    };
    Frame {
        headers: trace.headers.iter().map(explain::header).collect(),
        stop: trace.stop.clone(),
        rules: trace.rules.iter().map(rule).collect(),
        answer: trace.answer.iter().map(|number| line(*number)).collect(),
        whose: None,
        program: None,
        channels: None,
    }
}

/// Prints what a frame is.
fn show(classifier: &Classifier<Line>, trace: &Trace, name: &str) {
    for header in &trace.headers {
        crate::say!("{}, bytes {} to {}", header.name, header.start, header.inner);
        let fields: Vec<_> = header.fields.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        crate::say!("  {}", fields.join(", "));
    }
    crate::say!("no more headers: {}", trace.stop);
    let place = |number: RuleNumber| classifier.owner(number).map_or((0, ""), |line| (line.number, &*line.text));
    let (holding, others): (Vec<_>, Vec<_>) = trace.rules.iter().partition(|rule| rule.holds);
    for rule in holding {
        let (line, text) = place(rule.number);
        crate::say!("{name}:{line}: holds, {}: {text}", rule.why);
    }
    for rule in others.iter().take(SHOWN_MAX) {
        let (line, text) = place(rule.number);
        crate::say!("{name}:{line}: does not hold, {}: {text}", rule.why);
    }
    if others.len() > SHOWN_MAX {
        crate::say!("{} more rules do not hold", others.len() - SHOWN_MAX);
    }
    if trace.rules.is_empty() {
        return;
    }
    let answer: Vec<_> = trace.answer.iter().map(|number| format!("{name}:{}", place(*number).0)).collect();
    let which = match classifier.mode() {
        MatchMode::First => "the first",
        MatchMode::All => "all",
        MatchMode::Best => "the best",
    };
    crate::say!("{which}: {}", if answer.is_empty() { "none".to_owned() } else { answer.join(" ") });
}
