//! `anode node log`: what mobile code has written, and where it trapped; with `--follow` as it comes, and what the node
//! itself writes.

use super::has_ended;
use crate::clean;
use crate::code::bundle::Bundle;
use crate::code::run::traps::Places;
use crate::manage::client::{ClientError, Control, run_dir};
use anyhow::Context as _;
use model::log::{Journal, Line, OwnLine, Written};
use model::status::Trap;
use model::{Ask, Subject};
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
    fn complete(&self, line: &mut Line) {
        let Some((_, places)) = self.0.iter().find(|(name, _)| *name == line.code) else { return };
        let Some(trap) = &mut line.trap else { return };
        if let (Some(function), Some(byte)) = (trap.function, trap.byte) {
            let (name, source) = places.find(function, byte);
            (trap.name, trap.source) = (name.map(str::to_owned), source);
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
    let mut lines: Vec<Line> = control.asked(&Ask::Log)?;
    lines.iter_mut().for_each(|line| known.complete(line));
    if args.json {
        crate::say!("{}", serde_json::to_value(&lines)?);
        return Ok(());
    }
    lines.iter().for_each(say);
    if lines.is_empty() {
        crate::say_err!(
            "mobile code has logged nothing; lines of the node itself: anode node log {} --follow",
            args.node
        );
    }
    Ok(())
}

/// Prints what comes, until the node ends or somebody interrupts this.
fn follow(control: &mut Control, known: &Known, args: &Args) -> anyhow::Result<()> {
    end_when_interrupted()?;
    let mut told = Told::default();
    loop {
        let journal = match control.asked_next::<Journal>(Subject::Journal) {
            Ok(journal) => journal,
            // Another connection needed the place: this one begins anew, and knows what it has printed.
            Err(ClientError::Broken(_)) => match Control::connect(&run_dir(&args.node)) {
                Ok(anew) => {
                    *control = anew;
                    continue;
                }
                Err(ClientError::NotRunning(..)) => return has_ended(args.json),
                Err(error) => return Err(error.into()),
            },
            Err(ClientError::Refused(_)) => return has_ended(args.json),
            Err(error) => return Err(error.into()),
        };
        for (mut line, missed) in told.news(journal) {
            if let Written::Code(line) = &mut line {
                known.complete(line);
            }
            print_line(&line, missed, args)?;
        }
    }
}

/// What was printed: of which process, and the last numbers of the node's lines and of the codes'.
#[derive(Default)]
struct Told {
    process: Option<u32>,
    own: Option<u64>,
    code: Option<u64>,
}

impl Told {
    /// The lines of a journal that were not printed yet, each with how many before it are missing.
    fn news(&mut self, Journal { process, code, node }: Journal) -> Vec<(Written, u64)> {
        if self.process != Some(process) {
            // A node that was started again counts anew.
            *self = Told { process: Some(process), own: None, code: None };
        }
        let mut news = Vec::new();
        for line in node {
            if let Some(missed) = missed(&mut self.own, line.number) {
                news.push((Written::Own(line), missed));
            }
        }
        for line in code {
            if let Some(missed) = missed(&mut self.code, line.number.unwrap_or(0)) {
                news.push((Written::Code(line), missed));
            }
        }
        news
    }
}

/// How many were missed before a line of this number; nothing: it is none behind the last one.
fn missed(last: &mut Option<u64>, number: u64) -> Option<u64> {
    let missed = match *last {
        Some(last) => number.checked_sub(last)?.checked_sub(1)?,
        None => 0,
    };
    *last = Some(number);
    Some(missed)
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

/// One line of the journal, if it is grave enough; before it how many were overwritten unread.
fn print_line(line: &Written, missed: u64, args: &Args) -> anyhow::Result<()> {
    if missed > 0 && !args.json {
        crate::say!("{missed} lines came too fast to be read");
    }
    let level = match line {
        Written::Own(line) => Some(line.level.as_str()),
        Written::Code(line) => line.level.as_deref(),
    };
    if Level::of(level) > args.level {
        return Ok(());
    }
    match line {
        _ if args.json => crate::say!("{}", serde_json::to_value(line)?),
        Written::Own(OwnLine { level, text, .. }) => crate::say!("{level:5} {}", clean::shown(text)),
        Written::Code(line) => say(line),
    }
    Ok(())
}

fn say(line: &Line) {
    let text = match &line.trap {
        None => format!("tag {}  value {}", line.tag, line.value),
        Some(trap) => format!("trap: {}", trap_in_words(trap)),
    };
    let at = line.at as f64 / 1e9;
    crate::say!("{at:.6} s  code {:.8}  {}", clean::shown(&line.code), clean::shown(&text));
}

/// Where code has trapped: with the line of the source, if that is known.
pub(super) fn trap_in_words(trap: &Trap) -> String {
    let Trap { kind, function, byte, name, source } = trap;
    let number = |of: &Option<u32>| of.map_or("?".to_owned(), |number| number.to_string());
    let place = match (source, name) {
        (Some(source), Some(name)) => format!("in {name} at {source}"),
        (Some(source), None) => format!("in function {} at {source}", number(function)),
        _ if function.is_none() => "at an unknown place".to_owned(),
        _ => format!(
            "in function {} at its byte {}; anode node log NODE --code FILE.anb says the line",
            number(function),
            number(byte)
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
        let mut news = |process: u32, numbers: &[u64]| -> Vec<(u64, u64)> {
            let line = |number: &u64| OwnLine { number: *number, ..OwnLine::default() };
            let journal = Journal { process, node: numbers.iter().map(line).collect(), code: Vec::new() };
            let number = |line: &Written| match line {
                Written::Own(line) => line.number,
                Written::Code(_) => unreachable!("none was there"),
            };
            told.news(journal).iter().map(|(line, missed)| (number(line), *missed)).collect()
        };
        assert_eq!(news(1, &[3, 4]), [(3, 0), (4, 0)]);
        assert_eq!(news(1, &[3, 4, 7, 8]), [(7, 2), (8, 0)]);
        assert_eq!(news(1, &[7, 8]), []);
        assert_eq!(news(2, &[0, 1]), [(0, 0), (1, 0)], "another process");
    }
}
