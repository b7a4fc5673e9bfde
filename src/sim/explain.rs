//! The story of one packet, told from a history.
//!
//! It begins with the packet's origin (parents, or the packet that a link has doubled). While the packet waits for its
//! code it is the story of that code: requests, parts, losses. The history is read twice, so it may be larger than
//! memory.

use super::trace::{Carried, Entry, Loss, What};
use crate::clean;
use crate::core::reason::Reason;
use core::fmt;
use std::collections::{BTreeSet, HashMap};
use std::io::{self, BufRead};

/// Why there is no story.
#[derive(Debug)]
pub enum Error {
    /// The history cannot be read.
    Read(io::Error),
    /// A line is not one of a history.
    Line {
        /// Its number, from 1.
        number: usize,
        /// What is wrong with it.
        cause: serde_json::Error,
    },
    /// The history knows nothing of the packet.
    NoPacket {
        /// The packet.
        packet: u64,
        /// The first and last packet there are.
        known: Option<(u64, u64)>,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Read(error) => write!(f, "the history cannot be read: {error}"),
            Error::Line { number, cause } => {
                write!(f, "line {number} is none of a history: {cause}; write one with anode sim run --trace FILE")
            }
            Error::NoPacket { packet, known: Some((first, last)) } => {
                write!(f, "there is no packet {packet}; the first one is {first}, the last one {last}")
            }
            Error::NoPacket { packet, known: None } => {
                write!(f, "there is no packet {packet}, and no other: the history is empty")
            }
        }
    }
}

impl core::error::Error for Error {}

/// The entries that make up a packet's story, in the order of time. `open` opens the history, twice.
pub fn story<R: BufRead>(packet: u64, mut open: impl FnMut() -> io::Result<R>) -> Result<Vec<Entry>, Error> {
    let line = ancestry(packet, open().map_err(Error::Read)?)?;
    let mut story = Story { line, waiting: None, objects: BTreeSet::new(), told: Vec::new() };
    each(open().map_err(Error::Read)?, |entry| story.take(entry))?;
    Ok(story.told)
}

/// The packet and those it comes from, first the oldest, each with the entry that ends its part.
fn ancestry(packet: u64, history: impl BufRead) -> Result<Vec<u64>, Error> {
    let mut parents: HashMap<u64, u64> = HashMap::new();
    let (mut first, mut last, mut found) = (u64::MAX, 0, false);
    each(history, |entry| {
        match entry.what {
            What::Child { child } => drop(parents.insert(child, entry.packet)),
            What::Doubled { copy, .. } => drop(parents.insert(copy, entry.packet)),
            _ => {}
        }
        if entry.packet != 0 {
            first = first.min(entry.packet);
            last = last.max(entry.packet);
            found |= entry.packet == packet;
        }
    })?;
    if !found && !parents.contains_key(&packet) {
        return Err(Error::NoPacket { packet, known: (last > 0).then_some((first, last)) });
    }
    let mut line = vec![packet];
    while let Some(parent) = line.last().and_then(|youngest| parents.get(youngest)) {
        line.push(*parent);
    }
    line.reverse();
    Ok(line)
}

fn each(history: impl BufRead, mut take: impl FnMut(Entry)) -> Result<(), Error> {
    for (at, line) in history.lines().enumerate() {
        let line = line.map_err(Error::Read)?;
        take(serde_json::from_str(&line).map_err(|cause| Error::Line { number: at + 1, cause })?);
    }
    Ok(())
}

struct Story {
    /// The packets still to be told of; the first one is being told.
    line: Vec<u64>,
    /// Where the packet waits for its code.
    waiting: Option<String>,
    /// Objects its node has asked for meanwhile.
    objects: BTreeSet<String>,
    told: Vec<Entry>,
}

impl Story {
    fn take(&mut self, entry: Entry) {
        if entry.packet == 0 {
            if self.concerns(&entry) {
                self.told.push(entry);
            }
            return;
        }
        if self.line.first() != Some(&entry.packet) {
            return;
        }
        match &entry.what {
            What::Waiting { .. } => self.waiting = Some(entry.node.clone()),
            What::Ran { .. } | What::Dropped { .. } | What::Lost { .. } => self.waiting = None,
            What::Child { child: next } | What::Doubled { copy: next, .. } if self.line.get(1) == Some(next) => {
                self.line.remove(0);
            }
            _ => {}
        }
        self.told.push(entry);
    }

    /// Whether something that happened to no packet belongs to the wait for code.
    fn concerns(&mut self, entry: &Entry) -> bool {
        let Some(waiting) = &self.waiting else { return false };
        match &entry.what {
            What::Requested { object, .. } if entry.node == *waiting => {
                self.objects.insert(object.clone());
                true
            }
            What::Served { object, .. } => self.objects.contains(object),
            What::Lost { carries: Carried::Request, .. } => entry.node == *waiting,
            What::Lost { carries: Carried::Part | Carried::Absent, to, .. } => to == waiting,
            What::Arrived { .. } | What::Ready { .. } | What::Dropped { .. } | What::Crashed => entry.node == *waiting,
            _ => false,
        }
    }
}

/// Milliseconds with nanoseconds behind the point.
struct Ms(u64);

impl fmt::Display for Ms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

/// The story in words, a line for each entry.
pub fn words(story: &[Entry]) -> String {
    let start = story.first().map_or(0, |entry| entry.at);
    let mut text = String::new();
    for entry in story {
        let packet = if entry.packet == 0 { String::new() } else { format!("packet {}", entry.packet) };
        let since = Ms(entry.at - start);
        text.push_str(&format!("{since:>16} ms  {:<10} {packet:<18} {}\n", entry.node, sentence(entry)));
    }
    text
}

fn short(name: &str) -> &str {
    name.get(..8).unwrap_or(name)
}

fn sentence(entry: &Entry) -> String {
    match &entry.what {
        What::Injected { code, source, destination, bound, bytes } => {
            format!("is sent from {source} to {destination}: code {}, bound {bound}, {bytes} bytes", short(code))
        }
        What::Received { port } => format!("comes in by port {port}"),
        What::Waiting { code } => format!("waits for its code {}", short(code)),
        What::Requested { object, parts } => format!("asks for {parts} part(s) of object {}", short(object)),
        What::Served { object, parts } => format!("serves {parts} part(s) of object {}", short(object)),
        What::Arrived { object } => format!("has the whole object {}, and its digest is right", short(object)),
        What::Ready { code } => format!("can run code {} from now on", short(code)),
        What::Ran { steps } => format!("its code runs, {steps} steps"),
        What::Child { child } => format!("its code sends child {child}"),
        What::Forwarded { port, to } => format!("goes on by port {port} towards {to}"),
        What::Clamped { port, bound } => format!("its bound of {bound} is cut to the ceiling of port {port}"),
        What::Met { graph, engine, kernel } => {
            let there = if *kernel { " in the kernel" } else { "" };
            format!("meets engine {} of graph {}{there}", clean::shown(engine), clean::shown(graph))
        }
        What::Delivered { port } => format!("is delivered to application port {port}"),
        What::Dropped { reason } => match Reason::ALL.iter().find(|known| known.name() == reason) {
            Some(known) => format!("is dropped, {reason}: {}", known.help()),
            None => format!("is dropped, {reason}"),
        },
        What::Sent { to, bytes, arrives, .. } => {
            format!("is on the link to {to}, {bytes} bytes, there in {} ms", Ms(arrives.saturating_sub(entry.at)))
        }
        What::Doubled { copy, .. } => format!("is doubled by the link: the second one is packet {copy}"),
        What::Lost { carries, to, cause } => lost(*carries, to, *cause),
        What::Crashed => "crashes".into(),
        What::Restarted => "starts again".into(),
        What::Cut { to } => format!("its link to {to} is cut"),
        What::Mended { to } => format!("its link to {to} is mended"),
    }
}

fn lost(carries: Carried, to: &str, cause: Loss) -> String {
    let what = match carries {
        Carried::Capsule => "is lost",
        Carried::Request => "its request is lost",
        Carried::Part => "a part is lost",
        Carried::Absent => "its answer is lost",
        Carried::Address | Carried::Plan | Carried::Other => "a frame is lost",
    };
    match cause {
        Loss::Link => format!("{what} on the link to {to}"),
        Loss::Cut => format!("{what}: the link to {to} is cut"),
        Loss::Down => format!("{what}: {to} is down"),
        Loss::Crash => format!("{what}: {to} crashes and forgets it"),
        Loss::Stranger => format!("{what}: {to} is no node and keeps it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(at: u64, node: &str, packet: u64, what: What) -> Entry {
        Entry { at, node: node.into(), packet, what }
    }

    fn tell(packet: u64, history: &[Entry]) -> Result<Vec<u64>, Error> {
        let lines: Vec<String> = history.iter().map(|entry| serde_json::to_string(entry).unwrap()).collect();
        let text = lines.join("\n");
        Ok(story(packet, || Ok(text.as_bytes()))?.iter().map(|entry| entry.at).collect())
    }

    #[test]
    fn a_child_begins_with_its_parent_and_waits_with_its_node() {
        let code = String::from("c0de");
        let history = [
            entry(1, "a", 1, What::Received { port: 0 }),
            entry(2, "a", 1, What::Child { child: 9 }),
            entry(3, "a", 1, What::Forwarded { port: 0, to: "10.0.0.1".parse().unwrap() }),
            entry(4, "b", 9, What::Waiting { code: code.clone() }),
            entry(5, "b", 0, What::Requested { object: code.clone(), parts: 1 }),
            entry(6, "c", 0, What::Requested { object: code.clone(), parts: 1 }),
            entry(7, "a", 0, What::Served { object: code.clone(), parts: 1 }),
            entry(8, "b", 0, What::Ready { code }),
            entry(9, "b", 9, What::Ran { steps: 1 }),
            entry(10, "b", 0, What::Crashed),
        ];
        assert_eq!(tell(9, &history).unwrap(), [1, 2, 4, 5, 7, 8, 9]);
        assert_eq!(tell(1, &history).unwrap(), [1, 2, 3]);
    }

    #[test]
    fn an_unknown_packet_and_a_wrong_file_are_told_apart() {
        assert!(matches!(
            tell(2, &[entry(1, "a", 1, What::Received { port: 0 })]),
            Err(Error::NoPacket { packet: 2, known: Some((1, 1)) })
        ));
        assert!(matches!(story(1, || Ok(&b"{}\n"[..])), Err(Error::Line { number: 1, .. })));
    }
}
