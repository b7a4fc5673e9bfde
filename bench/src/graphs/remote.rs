//! A graph with a part at another node becomes another one of up to ten engines there, chosen by chance, while packets pass both parts.
//! How long each edit takes from the request to the answer, and what packets notice.
//!
//! ```text
//! RatedSource ─▶ paint ─▶ │ UDP │ ─▶ is it that paint? ─▶ engines ─▶ │ UDP │ ─▶ is it that paint? ─▶ counted
//!                 first node             second node                      first node
//! ```
//!
//! Two nodes on the loopback interface with a key in common. A packet that has met engines of two versions is counted as mixed, and
//! what was sent and has not come back is lost.

use std::time::{Duration, Instant};

use anode::trust::LinkSecret;
use model::graphs::{Applied, Handler, Shown};
use model::{Ask, GraphWish};

use super::super::bowman::sets::Chance;
use super::super::compile::Programs;
use super::super::gateway::Running;
use super::super::node::Up;
use super::super::place::{Cpus, Site, Way, free_port};
use super::super::programs;
use super::super::report::Report;
use super::super::series::{Key, Series, Target};
use super::super::{Error, Settings};
use super::edits::{ENGINES, LATE_MS, MEDIAN_MS, chosen};
use super::key;

/// Edits of a round.
const EDITS: usize = 200;
const QUICK_EDITS: usize = 30;

/// An edit begins so long after the one before: the other node reads about 128 texts of this length a second from one neighbour.
const APART: Duration = Duration::from_millis(10);

/// Packets that begin in a second.
const RATE: u32 = 10_000;

/// How long a packet may be on its way.
const PATIENCE: Duration = Duration::from_secs(2);

const PART: &str = "random edits with a part at another node";
const EDIT: &str = "an edit";

const ADDRESSES: [&str; 2] = ["10.8.0.1", "10.8.0.2"];

fn median() -> Key {
    key(PART, EDIT, "median of a round", "ms")
}

fn late() -> Key {
    key(PART, EDIT, "99 of 100 of a round take at most", "ms")
}

fn lost() -> Key {
    key(PART, "packets", "lost", "packets")
}

fn mixed() -> Key {
    key(PART, "packets", "met engines of two generations", "packets")
}

/// Two nodes.
struct Two {
    first: Up,
    _running: [Running; 2],
    _sites: [Site; 2],
}

impl Two {
    fn start(programs: &Programs, cpus: Cpus) -> Result<Two, Error> {
        let listen = [free_port()?, free_port()?];
        let way = Way::Udp { listen: listen[0], previous: listen[1], next: listen[1], other: None };
        let first = Site::udp(way.clone(), programs, cpus)?;
        let second = Site::udp(way, programs, Cpus { gateway: cpus.generator, ..cpus })?;
        let secret = LinkSecret::new().map_err(|error| Error::Node(error.to_string()))?;
        let key = first.scratch.path().join("link.key");
        secret.save(&key).map_err(|error| Error::Node(error.to_string()))?;
        let start = |site: &Site, at: usize| -> Result<(Running, Up), Error> {
            let [dir, config] = ["run", "node.toml"].map(|name| site.scratch.path().join(name));
            let other = 1 - at;
            let text = format!(
                "name = \"n{at}\"\nrun_dir = {dir:?}\n[[port]]\nudp = \"{}\"\nmtu = 1472\naddress = [\"{}/24\"]\n\
                 neighbours = [{{ address = \"{}\", at = \"{}\", keys = [{key:?}], graphs = \"parts\" }}]\n\
                 [[role]]\nname = \"parts\"\ngrants = {{ graph_parts = 1, bandwidth = 10_000_000_000, memory_bytes = 67_108_864 }}\n",
                listen[at], ADDRESSES[at], ADDRESSES[other], listen[other]
            );
            std::fs::write(&config, text).map_err(|cause| Error::Write { path: config.clone(), cause })?;
            let arguments = ["node".into(), "run".into(), config.into()];
            let mut node = site.spawn_in(None, "node", &programs::node()?, &arguments)?;
            let up = Up::wait(&dir).map_err(|_| node.silent("a node"))?;
            Ok((node, up))
        };
        let (far, _) = start(&second, 1)?;
        let (near, up) = start(&first, 0)?;
        Ok(Two { first: up, _running: [near, far], _sites: [first, second] })
    }

    /// One edit: milliseconds until it holds.
    fn edit(&mut self, colour: u8, between: &[&str]) -> Result<f64, Error> {
        let wish = GraphWish {
            name: "edited".into(),
            text: text(colour, between),
            role: Some("parts".into()),
            take: Some(Vec::new()),
            base: None,
            place: None,
        };
        let begin = Instant::now();
        let _: Applied = self.first.asked(&Ask::ApplyGraph(wish))?;
        Ok(begin.elapsed().as_secs_f64() * 1e3)
    }

    /// Packets that went to the part, and that came back, as soon as these are equal or no more come.
    fn passed(&mut self) -> Result<(u64, u64), Error> {
        let limit = Instant::now() + PATIENCE;
        loop {
            let shown: Shown = self.first.asked(&Ask::Graph { name: "edited".into() })?;
            let part = shown.graph.parts.first().ok_or_else(|| Error::Node("the graph has no part".into()))?;
            if part.sent == part.back || Instant::now() >= limit {
                return Ok((part.sent, part.back));
            }
        }
    }

    fn active(&mut self, word: &str) -> Result<(), Error> {
        let (name, handler, value) = ("edited".into(), "s.active".into(), word.into());
        let _: Handler = self.first.asked(&Ask::WriteGraph { name, handler, value })?;
        Ok(())
    }
}

/// Measures it.
pub(super) fn run(settings: &Settings, report: &mut Report) -> Result<Series, Error> {
    let programs = Programs::ready()?;
    let mut two = Two::start(&programs, settings.cpus())?;
    let (mut series, mut chance, mut edits) = (Series::default(), Chance::new(7), 0);
    let each = if settings.quick { QUICK_EDITS } else { EDITS };
    two.edit(0, &[])?;
    settings.rounds(PART, |_| {
        let before = two.passed()?;
        two.active("true")?;
        let mut times = Vec::with_capacity(each);
        for at in 0..each {
            let between = chosen(&mut chance, ENGINES);
            let next = Instant::now() + APART;
            times.push(two.edit((edits + at) as u8, &between)?);
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        two.active("false")?;
        edits += each;
        let after = two.passed()?;
        times.sort_by(f64::total_cmp);
        series.push(median(), times[times.len() / 2]);
        series.push(late(), times[(times.len() * 99 / 100).min(times.len() - 1)]);
        series.push(lost(), (after.0 - before.0).saturating_sub(after.1 - before.1) as f64);
        let read = Ask::ReadGraph { name: "edited".into(), handler: "mixed.count".into() };
        let counted: Handler = two.first.asked(&read)?;
        series.push(mixed(), counted.value.trim().parse().unwrap_or(f64::NAN));
        Ok(())
    })?;
    let targets = [
        Target::at_most("an edit with a part at another node, median, ms", series.values(&median()), MEDIAN_MS),
        Target::at_most("an edit with a part at another node, 99 of 100, ms", series.values(&late()), LATE_MS),
        Target::never_above(format!("{PART}: packets lost"), series.values(&lost()), 0.0),
        Target::never_above(format!("{PART}: packets mixed"), series.values(&mixed()), 0.0),
    ];
    report.targets.extend(targets.into_iter().flatten());
    let sent = two.passed()?.0;
    report.note(format!(
        "{PART}: {edits} edits while {sent} packets passed both nodes, by UDP on the loopback interface."
    ));
    Ok(series)
}

/// Packets that are painted, pass the other node with these engines there, and come back.
fn text(colour: u8, between: &[&str]) -> String {
    let at = format!("@remote({})", ADDRESSES[1]);
    let between: String = between.iter().map(|engine| format!(" -> {engine} {at}")).collect();
    format!(
        "s :: RatedSource(\"x\", RATE {RATE}) -> c :: Counter -> Paint({colour}) -> there :: CheckPaint({colour}) {at}{between} \
         -> back :: CheckPaint({colour}) -> Discard; there [1] -> mixed :: Counter; back [1] -> mixed; mixed -> Discard;"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_is_a_graph_with_a_part() {
        for between in [&[][..], &super::super::edits::CLASSES] {
            let loaded = anode::graph::load::load_parts(
                &text(3, between),
                Default::default(),
                &Default::default(),
                anode::graph::load::GRAPH_MAX,
            );
            assert_eq!(loaded.map(|(_, parts)| parts.len()).ok(), Some(1), "{between:?}");
        }
    }
}
