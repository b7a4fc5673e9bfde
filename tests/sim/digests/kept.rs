//! The committed digests: a line for each run, made so that a difference can be located.
//!
//! A line is `SCENARIO SEED events=N digest=H windows=… nodes=…`. The windows are 64 places along the run: the 16 low bits of the
//! digest of all events up to there. The first that differs says in which 64th of the run the difference begins. The nodes are
//! 32 bits each of the digests of their own events.

use super::recorder::Events;

const WINDOWS: usize = 64;
/// Events of this tree that a message shows.
const SHOWN: usize = 20;
const WIDTH: usize = 400;

const ABOUT: &str = "# Digests of simulated runs: see tests/sim/digests.rs. ANODE_BLESS=1 cargo test --release --test \
                     sim digests:: writes them again.\n";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    name: String,
    events: usize,
    digest: u64,
    windows: Vec<u16>,
    nodes: Vec<u32>,
}

pub struct Known(Vec<Line>);

impl Line {
    pub fn of(name: &str, events: &Events) -> Line {
        let chain = events.chain();
        Line {
            name: name.into(),
            events: chain.len(),
            digest: chain.last().copied().unwrap_or_default(),
            windows: (1..=WINDOWS).map(|window| low(&chain, end(window, chain.len()))).collect(),
            nodes: events.by_node().into_iter().map(|digest| digest as u32).collect(),
        }
    }

    fn text(&self) -> String {
        let windows: String = self.windows.iter().map(|window| format!("{window:04x}")).collect();
        let nodes: Vec<String> = self.nodes.iter().map(|node| format!("{node:08x}")).collect();
        let Line { name, events, digest, .. } = self;
        format!("{name} events={events} digest={digest:016x} windows={windows} nodes={}\n", nodes.join(","))
    }

    fn parse(text: &str) -> Option<Line> {
        let (name, rest) = text.split_once(" events=")?;
        let (events, rest) = rest.split_once(" digest=")?;
        let (digest, rest) = rest.split_once(" windows=")?;
        let (windows, nodes) = rest.split_once(" nodes=")?;
        let window = |at: usize| u16::from_str_radix(windows.get(4 * at..4 * at + 4)?, 16).ok();
        Some(Line {
            name: name.into(),
            events: events.parse().ok()?,
            digest: u64::from_str_radix(digest, 16).ok()?,
            windows: (0..WINDOWS).map(window).collect::<Option<_>>()?,
            nodes: nodes.split(',').map(|node| u32::from_str_radix(node, 16).ok()).collect::<Option<_>>()?,
        })
    }
}

/// How many events of a run are before the end of a window.
fn end(window: usize, events: usize) -> usize {
    events * window / WINDOWS
}

fn low(chain: &[u64], count: usize) -> u16 {
    count.checked_sub(1).and_then(|last| chain.get(last)).map_or(0, |digest| *digest as u16)
}

pub fn text(lines: &[Line]) -> String {
    ABOUT.to_owned() + &lines.iter().map(Line::text).collect::<String>()
}

pub fn parse(text: &str) -> Known {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    Known(lines.map(|line| Line::parse(line).unwrap_or_else(|| panic!("no line of digests: {line}"))).collect())
}

impl Known {
    /// What is different from what is known of a run, for people.
    pub fn difference(&self, now: &Line, events: &Events) -> Option<String> {
        let Some(then) = self.0.iter().find(|line| line.name == now.name) else {
            return Some(format!("{} is new: nothing is known of it", now.name));
        };
        if then == now {
            return None;
        }
        let chain = events.chain();
        // The windows are those of the run that is known; another one may be longer or shorter.
        let same = |window: &usize| low(&chain, end(*window, then.events)) == then.windows[window - 1];
        let first = (1..=WINDOWS).find(|window| !same(window)).unwrap_or(WINDOWS);
        let (from, to) = (end(first - 1, then.events), end(first, then.events));
        let nodes: Vec<String> = (0..then.nodes.len().max(now.nodes.len()))
            .filter(|at| then.nodes.get(*at) != now.nodes.get(*at))
            .map(|at| at.to_string())
            .collect();
        let shown: String =
            events.lines().iter().take(to).skip(from).take(SHOWN).map(|line| format!("    {line:.WIDTH$}\n")).collect();
        Some(format!(
            "scenario and seed {}: {} events, {} before. It begins between event {from} and {to}; nodes {} differ. There, now:\n{shown}",
            now.name,
            now.events,
            then.events,
            nodes.join(", ")
        ))
    }

    /// Runs that are known and are no more.
    pub fn gone(&self, lines: &[Line]) -> Vec<String> {
        let there = |known: &&Line| lines.iter().any(|line| line.name == known.name);
        self.0.iter().filter(|known| !there(known)).map(|known| known.name.clone()).collect()
    }
}
