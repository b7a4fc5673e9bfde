//! Drawings of a graph that a node runs: for a terminal as lines, and as SVG. Connections have their rates, of packets a second, where the
//! graph was asked twice; else what has gone over them so far.
//!
//! A line begins with `↓` where packets are pushed, and with `⇣` where they are pulled. What has several outputs has each of them further
//! right, with its number.

use crate::clean;
use model::graphs::{Engine, Shown, Wire};
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

/// Sizes of a box and of the room for it, in pixels.
const BOX: (usize, usize) = (168, 40);
const ROOM: (usize, usize) = (260, 64);

/// Letters of a name in a box.
const LETTERS: usize = 24;

/// A graph with its engines by name.
struct Drawing<'a> {
    now: &'a Shown,
    before: Option<&'a Shown>,
    numbers: HashMap<&'a str, usize>,
}

impl<'a> Drawing<'a> {
    fn new(now: &'a Shown, before: Option<&'a Shown>) -> Drawing<'a> {
        let numbers = now.engines.iter().enumerate().map(|(at, engine)| (engine.name.as_str(), at)).collect();
        // Counts of another generation say nothing of this one.
        let before = before.filter(|before| before.graph.generation == now.graph.generation);
        Drawing { now, before, numbers }
    }

    fn number(&self, name: &str) -> usize {
        self.numbers.get(name).copied().unwrap_or(0)
    }

    /// What goes over a connection.
    fn rate(&self, wire: &Wire) -> String {
        let same = |other: &&Wire| {
            (&other.from, other.output, &other.to, other.input) == (&wire.from, wire.output, &wire.to, wire.input)
        };
        let before = self.before.and_then(|before| Some((before.at_ns, before.wires.iter().find(same)?.packets)));
        match before {
            Some((at_ns, packets)) if self.now.at_ns > at_ns => {
                let more = u128::from(wire.packets.saturating_sub(packets));
                format!("{}/s", more * 1_000_000_000 / u128::from(self.now.at_ns - at_ns))
            }
            _ => wire.packets.to_string(),
        }
    }

    fn behind(&self, engine: usize) -> Vec<&'a Wire> {
        let name = self.now.engines.get(engine).map_or("", |engine| engine.name.as_str());
        self.now.wires.iter().filter(|wire| wire.from == name).collect()
    }

    /// Engines before which there is nothing.
    fn beginnings(&self) -> impl Iterator<Item = usize> + '_ {
        let met: HashSet<&str> = self.now.wires.iter().map(|wire| wire.to.as_str()).collect();
        let engines = self.now.engines.iter().enumerate();
        engines.filter(move |(_, engine)| !met.contains(engine.name.as_str())).map(|(at, _)| at)
    }
}

fn title(Engine { name, class, asked, held, .. }: &Engine) -> String {
    let asked = asked.as_ref().map_or(String::new(), |asked| format!(" @{}", clean::line(asked)));
    let held = if *held > 0 { format!(", holds {held}") } else { String::new() };
    format!("{} :: {}{asked}{held}", clean::line(name), clean::line(class))
}

/// The lines for a terminal.
pub(super) fn lines(now: &Shown, before: Option<&Shown>) -> Vec<String> {
    let drawing = Drawing::new(now, before);
    let (mut lines, mut drawn) = (Vec::new(), HashSet::new());
    // Engines in circles have something before each.
    let all: Vec<usize> = drawing.beginnings().chain(0..now.engines.len()).collect();
    for first in all {
        let mut open = vec![(first, String::new(), 0)];
        while let Some((at, lead, depth)) = open.pop() {
            let is_new = drawn.insert(at);
            if !is_new && lead.is_empty() {
                continue;
            }
            let Some(engine) = now.engines.get(at) else { continue };
            let again = if is_new { "" } else { "  (above)" };
            lines.push(format!("{:1$}{lead}{2}{again}", "", depth * 4, title(engine)));
            if !is_new {
                continue;
            }
            let behind = drawing.behind(at);
            for wire in behind.iter().rev() {
                let arrow = if wire.pushes { '↓' } else { '⇣' };
                let output = if behind.len() > 1 { format!("[{}] ", wire.output) } else { String::new() };
                let lead = format!("{output}{arrow} {} ", drawing.rate(wire));
                open.push((drawing.number(&wire.to), lead, depth + usize::from(behind.len() > 1)));
            }
        }
    }
    lines
}

/// Which column each engine is in: behind all before it, but for circles.
fn columns(drawing: &Drawing<'_>) -> Vec<usize> {
    let engines = drawing.now.engines.len();
    let (mut column, mut before) = (vec![0; engines], vec![0usize; engines]);
    if engines == 0 {
        return column;
    }
    drawing.now.wires.iter().for_each(|wire| before[drawing.number(&wire.to)] += 1);
    let mut open: Vec<usize> = drawing.beginnings().collect();
    while let Some(at) = open.pop() {
        for wire in drawing.behind(at) {
            let to = drawing.number(&wire.to);
            column[to] = column[to].max(column[at] + 1);
            before[to] = before[to].saturating_sub(1);
            if before[to] == 0 {
                open.push(to);
            }
        }
    }
    column
}

/// Text in SVG.
fn escaped(text: &str) -> String {
    let short: String = text.chars().take(LETTERS).collect();
    clean::line(&short).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The same as SVG.
pub(super) fn svg(now: &Shown, before: Option<&Shown>) -> String {
    let drawing = Drawing::new(now, before);
    let columns = columns(&drawing);
    let mut used: HashMap<usize, usize> = HashMap::new();
    let places: Vec<(usize, usize)> = columns
        .iter()
        .map(|column| {
            let row = used.entry(*column).or_default();
            *row += 1;
            (8 + column * ROOM.0, 8 + (*row - 1) * ROOM.1)
        })
        .collect();
    let wide = 16 + (columns.iter().max().unwrap_or(&0) + 1) * ROOM.0;
    let high = 16 + used.values().max().unwrap_or(&1) * ROOM.1;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{wide}\" height=\"{high}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n"
    );
    for wire in &now.wires {
        let (from, to) = (drawing.number(&wire.from), drawing.number(&wire.to));
        let (Some(from), Some(to)) = (places.get(from), places.get(to)) else { continue };
        let (x1, y1, x2, y2) = (from.0 + BOX.0, from.1 + BOX.1 / 2, to.0, to.1 + BOX.1 / 2);
        let dashes = if wire.pushes { "" } else { " stroke-dasharray=\"4 3\"" };
        let _ = writeln!(text, "<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" stroke=\"black\"{dashes}/>");
        let (x, y) = ((x1 + x2) / 2, ((y1 + y2) / 2).saturating_sub(4));
        let _ = writeln!(text, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">{}</text>", drawing.rate(wire));
    }
    for (engine, (x, y)) in now.engines.iter().zip(&places) {
        let asked = engine.asked.as_ref().map_or(String::new(), |asked| format!(" @{asked}"));
        let (name, class) = (escaped(&engine.name), escaped(&format!("{}{asked}", engine.class)));
        let (left, first, second) = (x + 8, y + 16, y + 32);
        let (wide, high) = BOX;
        let _ = writeln!(
            text,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{wide}\" height=\"{high}\" fill=\"white\" stroke=\"black\"/>\n\
             <text x=\"{left}\" y=\"{first}\">{name}</text>\n<text x=\"{left}\" y=\"{second}\" fill=\"gray\">{class}</text>"
        );
    }
    text + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(packets: u64, at_ns: u64) -> Shown {
        let engine = |(name, class): (&str, &str)| Engine {
            name: name.into(),
            class: class.into(),
            place: "user".into(),
            asked: None,
            held: u64::from(name == "q") * 3,
        };
        let engines = [("in", "FromDevice"), ("t", "Tee"), ("q", "Queue"), ("out", "ToDevice"), ("<x>", "Discard")];
        let wire = |(from, output, to, pushes): (&str, u16, &str, bool)| Wire {
            from: from.into(),
            output,
            to: to.into(),
            input: 0,
            pushes,
            packets,
        };
        let wires = [("in", 0, "t", true), ("t", 0, "q", true), ("t", 1, "<x>", true), ("q", 0, "out", false)];
        let (engines, wires) = (engines.map(engine).to_vec(), wires.map(wire).to_vec());
        Shown { at_ns, engines, wires, ..Shown::default() }
    }

    #[test]
    fn lines_show_what_goes_where() {
        let expected = |count: &str| {
            [
                "in :: FromDevice".to_owned(),
                format!("↓ {count} t :: Tee"),
                format!("    [0] ↓ {count} q :: Queue, holds 3"),
                format!("    ⇣ {count} out :: ToDevice"),
                format!("    [1] ↓ {count} <x> :: Discard"),
            ]
        };
        let (before, now) = (shown(10, 1_000_000_000), shown(40, 1_500_000_000));
        assert_eq!(lines(&now, None), expected("40"));
        assert_eq!(lines(&now, Some(&before)), expected("60/s"));
        let mut other = before.clone();
        other.graph.generation = 7;
        assert_eq!(lines(&now, Some(&other)), expected("40"), "of another generation");
    }

    #[test]
    fn circles_are_drawn_once() {
        let mut now = shown(1, 1);
        now.wires.push(Wire { from: "<x>".into(), to: "in".into(), pushes: true, ..Wire::default() });
        let lines = lines(&now, None);
        assert!(lines.iter().any(|line| line.ends_with("in :: FromDevice  (above)")), "{lines:?}");
        assert!(svg(&now, None).ends_with("</svg>\n"));
    }

    #[test]
    fn names_are_no_marks_of_the_drawing() {
        let text = svg(&shown(1, 1), None);
        assert!(text.contains("&lt;x&gt;") && !text.contains("<x>"), "{text}");
        assert_eq!(text.matches("<rect").count(), 5);
        assert_eq!(text.matches("stroke-dasharray").count(), 1);
    }
}
