//! A graph of a running node becomes another one of up to ten engines, chosen by chance, while packets pass it. How long each edit takes
//! from the request to the answer, and what packets notice.
//!
//! Each generation paints what it takes in with its own colour and looks for that colour where packets leave: one that has met engines of
//! two generations is counted as mixed. What was sent and has not come is lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use model::graphs::{Applied, Handler};
use model::{Ask, GraphWish};

use super::super::bowman::sets::Chance;
use super::super::burst::Slice;
use super::super::compile::Programs;
use super::super::gateway::Gateway;
use super::super::line::EGRESS;
use super::super::node::{NodeGateway, Up};
use super::super::place::Place;
use super::super::report::Report;
use super::super::series::{Key, Series, Target};
use super::super::{Error, Settings};
use super::{ROLE, key};

/// Engines between entry and exit, at most, and what they are.
pub(super) const ENGINES: u64 = 10;
pub(super) const CLASSES: [&str; 5] =
    ["Null", "Counter", "kept :: Counter", "CheckLength(3000)", "Print(x, ACTIVE false)"];

/// Edits of a round: thirty rounds have more than 10,000.
const EDITS: usize = 350;
const QUICK_EDITS: usize = 40;

/// Packets of a burst, and bursts between two looks whether all edits are done.
const BURST: u32 = 64;
const BURSTS: u32 = 32;

/// The port of what the graph takes.
const PORT: u16 = 7_000;

const PART: &str = "random edits under a flood";
const EDIT: &str = "an edit";

/// Targets: milliseconds, and packets.
pub(super) const MEDIAN_MS: f64 = 5.0;
pub(super) const LATE_MS: f64 = 30.0;

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

/// Measures it.
pub(super) fn run(settings: &Settings, report: &mut Report) -> Result<Series, Error> {
    let programs = Programs::ready()?;
    let mut place = Place::packet(&programs, settings.cpus())?;
    place.site.port = PORT;
    let take = format!("r0/ip/udp *:{PORT}");
    let graph = format!(
        "{ROLE}[[graph]]\nname = \"edited\"\nrole = \"graphs\"\ntake = [{take:?}]\ntext = '''{}'''\n",
        text(0, &[])
    );
    let gateway = NodeGateway::new("node", &[]).configured(&graph, "");
    let mut running = gateway.start(&place.site)?;
    let packet = place.site.dress(&[7; 100]);
    place.generator.load(BURST, &[packet])?;
    if !running.wait_until_warm(&mut place)? {
        return Err(running.silent("node"));
    }
    let mut up = Up::wait(&place.site.scratch.path().join("run"))?;
    let (mut series, mut chance, mut edits, mut sent) = (Series::default(), Chance::new(7), 0, 0);
    let each = if settings.quick { QUICK_EDITS } else { EDITS };
    settings.rounds(PART, |_| {
        let is_over = AtomicBool::new(false);
        let (times, slice) = std::thread::scope(|scope| {
            let editor = scope.spawn(|| {
                let times = (0..each).map(|at| edit(&mut up, (edits + at) as u8, &mut chance)).collect();
                is_over.store(true, Ordering::Relaxed);
                times
            });
            let mut sum = Slice::default();
            while !is_over.load(Ordering::Relaxed) {
                sum += place.generator.run(running.pid(), BURSTS)?.0;
            }
            let times: Result<Vec<f64>, Error> = editor.join().unwrap_or_else(|_| Err(Error::Node("no edits".into())));
            Ok::<_, Error>((times?, sum))
        })?;
        (edits, sent) = (edits + each, sent + slice.sent);
        let mut times = times;
        times.sort_by(f64::total_cmp);
        series.push(median(), times[times.len() / 2]);
        series.push(late(), times[(times.len() * 99 / 100).min(times.len() - 1)]);
        series.push(lost(), slice.sent.saturating_sub(slice.arrived) as f64);
        let read = Ask::ReadGraph { name: "edited".into(), handler: "mixed.count".into() };
        let counted: Handler = up.asked(&read)?;
        series.push(mixed(), counted.value.trim().parse().unwrap_or(f64::NAN));
        Ok(())
    })?;
    let targets = [
        Target::at_most("an edit under a flood, median, ms", series.values(&median()), MEDIAN_MS),
        Target::at_most("an edit under a flood, 99 of 100, ms", series.values(&late()), LATE_MS),
        Target::never_above(format!("{PART}: packets lost"), series.values(&lost()), 0.0),
        Target::never_above(format!("{PART}: packets mixed"), series.values(&mixed()), 0.0),
    ];
    report.targets.extend(targets.into_iter().flatten());
    report.note(format!("{PART}: {edits} edits while {sent} packets passed in bursts of {BURST}, by AF_PACKET."));
    Ok(series)
}

/// One edit: milliseconds until it holds.
fn edit(up: &mut Up, colour: u8, chance: &mut Chance) -> Result<f64, Error> {
    let between = chosen(chance, ENGINES);
    let wish = GraphWish {
        name: "edited".into(),
        text: text(colour, &between),
        role: None,
        take: None,
        base: None,
        place: None,
    };
    let begin = Instant::now();
    let _: Applied = up.asked(&Ask::ApplyGraph(wish))?;
    Ok(begin.elapsed().as_secs_f64() * 1e3)
}

/// So many engines at most.
pub(super) fn chosen(chance: &mut Chance, most: u64) -> Vec<&'static str> {
    let count = chance.below(most + 1);
    let mut between: Vec<&str> = (0..count).map(|_| CLASSES[chance.below(CLASSES.len() as u64) as usize]).collect();
    // A name stands for one engine.
    let mut named = false;
    between.retain(|class| !class.contains("::") || !core::mem::replace(&mut named, true));
    between
}

/// A router of one way, with these engines on it.
fn text(colour: u8, between: &[&str]) -> String {
    let between: String = between.iter().map(|engine| format!(" -> {engine}")).collect();
    format!(
        "FromDevice(r0) -> c :: Counter -> Paint({colour}){between} -> last :: CheckPaint({colour}) -> Strip(14) -> CheckIPHeader \
         -> DecIPTTL -> EtherEncap(0x800, {}, {}) -> q :: Queue(4096) -> ToDevice(r1); last [1] -> mixed :: Counter -> Discard;",
        EGRESS.mac, EGRESS.peer_mac
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_is_a_graph() {
        for between in [&[][..], &CLASSES] {
            assert!(anode::graph::load::load(&text(3, between), &[]).is_ok(), "{between:?}");
        }
    }
}
