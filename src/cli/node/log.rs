//! `anode node log`: what mobile code has written, and where it trapped; with `--follow` as it comes, and what the node
//! itself writes.

use crate::clean;
use crate::code::bundle::Bundle;
use crate::code::run::traps::Places;
use crate::manage::client::{ClientError, Control, run_dir};
use anyhow::Context as _;
use model::Ask;
use serde_json::{Value, json};
use std::path::PathBuf;

/// What is to be printed, and how.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The node's name, or its run directory
    node: String,
    /// A bundle file: its traps are said with the line of the source. More than once for more
    #[arg(long, value_name = "FILE")]
    code: Vec<PathBuf>,
    /// Go on with what comes, the node's own lines among it, until interrupted or the node ends
    #[arg(long, short)]
    follow: bool,
    /// The least grave lines wanted: a trap is a warning, a line of code an info
    #[arg(long, value_enum, default_value_t = Level::Info, requires = "follow")]
    level: Level,
    /// Print JSON; with --follow one object a line
    #[arg(long)]
    json: bool,
    /// Have the node write what is as grave as this, or graver, from now on
    #[arg(long, value_enum, value_name = "LEVEL", conflicts_with_all = ["follow", "code"])]
    set_level: Option<Level>,
    /// Of one part of the program alone, by the beginning of its targets, such as anode::node
    #[arg(long, value_name = "TARGET", requires = "set_level")]
    part: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
enum Level {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Info => "info",
            Level::Debug => "debug",
            Level::Trace => "trace",
        }
    }

    fn of(text: Option<&str>) -> Level {
        text.and_then(|text| <Level as clap::ValueEnum>::from_str(text, true).ok()).unwrap_or(Level::Info)
    }
}

/// Places of bundles, by code.
struct Known(Vec<(String, Places)>);

impl Known {
    fn read(files: &[PathBuf]) -> anyhow::Result<Known> {
        let read = |path: &PathBuf| {
            let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
            let bundle = Bundle::read(&bytes).with_context(|| path.display().to_string())?;
            Ok((bundle.name().to_string(), Places::of(&bundle)))
        };
        files.iter().map(read).collect::<anyhow::Result<_>>().map(Known)
    }

    /// Adds the line of the source to one about a trap.
    fn complete(&self, line: &mut Value) {
        let places = self.0.iter().find(|(name, _)| line["code"] == name.as_str());
        let number = |name: &str| line["trap"][name].as_u64().and_then(|number| u32::try_from(number).ok());
        if let (Some((_, places)), Some(function), Some(byte)) = (places, number("function"), number("byte")) {
            let (name, source) = places.find(function, byte);
            line["trap"]["name"] = json!(name);
            line["trap"]["source"] = json!(source);
        }
    }
}

/// Prints the lines of a node; those about traps of these bundles with the line of the source.
pub(super) fn print(args: &Args) -> anyhow::Result<()> {
    let known = Known::read(&args.code)?;
    let mut control = Control::connect(&run_dir(&args.node))?;
    if let Some(level) = args.set_level {
        let ask = Ask::LogLevel { level: level.name().into(), target: args.part.clone() };
        let set: String = control.asked(&ask)?;
        crate::say!("the log of the node is at {set}");
        return Ok(());
    }
    if args.follow {
        return follow(&mut control, &known, args);
    }
    let mut lines = control.ask(&Ask::Log)?;
    lines.as_array_mut().into_iter().flatten().for_each(|line| known.complete(line));
    if args.json {
        crate::say!("{lines}");
        return Ok(());
    }
    lines.as_array().into_iter().flatten().for_each(say);
    Ok(())
}

/// Prints what comes, until the node ends or somebody interrupts this.
fn follow(control: &mut Control, known: &Known, args: &Args) -> anyhow::Result<()> {
    end_when_interrupted()?;
    let mut told = Told::default();
    loop {
        let journal = match control.next("journal") {
            Ok(journal) => journal,
            // Another connection needed the place: this one begins anew, and knows what it has printed.
            Err(ClientError::Broken(_)) => match Control::connect(&run_dir(&args.node)) {
                Ok(anew) => {
                    *control = anew;
                    continue;
                }
                Err(ClientError::NotRunning(..)) => return end(args),
                Err(error) => return Err(error.into()),
            },
            Err(ClientError::Refused(_)) => return end(args),
            Err(error) => return Err(error.into()),
        };
        for (mut line, missed) in told.news(journal) {
            known.complete(&mut line);
            print_line(&line, missed, args);
        }
    }
}

/// What was printed: of which process, and the last numbers of the node's lines and of the codes'.
#[derive(Default)]
struct Told {
    process: Value,
    last: [Option<u64>; 2],
}

impl Told {
    /// The lines of a journal that were not printed yet, each with how many before it are missing.
    fn news(&mut self, mut journal: Value) -> Vec<(Value, u64)> {
        let process = journal["process"].take();
        if process != self.process {
            // A node that was started again counts anew.
            *self = Told { process, last: [None, None] };
        }
        let mut news = Vec::new();
        for (which, last) in ["node", "code"].into_iter().zip(&mut self.last) {
            for line in journal[which].as_array_mut().into_iter().flatten() {
                let number = line["number"].as_u64().unwrap_or(0);
                if last.is_none_or(|last| number > last) {
                    news.push((line.take(), last.map_or(0, |last| number - last - 1)));
                    *last = Some(number);
                }
            }
        }
        news
    }
}

/// Ends the program in good order at the first signal that asks for it.
fn end_when_interrupted() -> anyhow::Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM])
        .context("cannot wait for signals")?;
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            std::process::exit(0);
        }
    });
    Ok(())
}

fn end(args: &Args) -> anyhow::Result<()> {
    if !args.json {
        crate::say!("the node has ended");
    }
    Ok(())
}

/// One line of the journal, if it is grave enough; before it how many were overwritten unread.
fn print_line(line: &Value, missed: u64, args: &Args) {
    if missed > 0 && !args.json {
        crate::say!("{missed} lines came too fast to be read");
    }
    if Level::of(line["level"].as_str()) > args.level {
        return;
    }
    if args.json {
        crate::say!("{line}");
    } else if let Some(text) = line["text"].as_str() {
        crate::say!("{:5} {}", line["level"].as_str().unwrap_or("?"), clean::shown(text));
    } else {
        say(line);
    }
}

fn say(line: &Value) {
    let (at, code) = (line["at"].as_u64().unwrap_or(0) as f64 / 1e9, line["code"].as_str().unwrap_or("?"));
    let text = match line.get("trap") {
        None => format!("tag {}  value {}", line["tag"], line["value"]),
        Some(trap) => format!("trap: {}", trap_in_words(trap)),
    };
    crate::say!("{at:.6} s  code {:.8}  {}", clean::shown(code), clean::shown(&text));
}

/// Where code has trapped: with the line of the source, if that is known.
pub(super) fn trap_in_words(trap: &Value) -> String {
    let kind = trap["kind"].as_str().unwrap_or("?");
    let place = match (trap["source"].as_str(), trap["name"].as_str()) {
        (Some(source), Some(name)) => format!("in {name} at {source}"),
        (Some(source), None) => format!("in function {} at {source}", trap["function"]),
        _ if trap["function"].is_null() => "at an unknown place".to_owned(),
        _ => format!(
            "in function {} at its byte {}; anode node log NODE --code FILE.anb says the line",
            trap["function"], trap["byte"]
        ),
    };
    format!("{kind}, {place}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_news_once_and_a_node_that_was_started_again_counts_anew() {
        let mut told = Told::default();
        let mut news = |process: u64, numbers: &[u64]| -> Vec<(u64, u64)> {
            let lines: Vec<_> = numbers.iter().map(|number| json!({"number": number})).collect();
            let news = told.news(json!({"process": process, "node": lines, "code": []}));
            news.iter().map(|(line, missed)| (line["number"].as_u64().unwrap(), *missed)).collect()
        };
        assert_eq!(news(1, &[3, 4]), [(3, 0), (4, 0)]);
        assert_eq!(news(1, &[3, 4, 7, 8]), [(7, 2), (8, 0)]);
        assert_eq!(news(1, &[7, 8]), []);
        assert_eq!(news(2, &[0, 1]), [(0, 0), (1, 0)], "another process");
    }
}
