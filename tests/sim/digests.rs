//! Digests of the simulator's runs, event by event: a change of behaviour shows itself, and its first event.
//!
//! Every scenario runs with several seeds. A recorder takes down each frame at the edge of a node (time, node, bytes), each line of
//! the history (verdicts, drops, deliveries), and each node's drop counters at the end. `tests/digests/simulator.txt` keeps a line
//! for each run. `tests/digests/packets.json` does the same for single packets: frame in, verdict, frames out, counters moved.
//!
//! A change that alters behaviour on purpose regenerates them and says in its commit which behaviour changed:
//!
//!     ANODE_BLESS=1 cargo test --release --test sim digests::
//!
//! The events themselves, to compare two trees by `diff`, go to a folder, a file for each run:
//!
//!     ANODE_EVENTS=/tmp/here cargo test --release --test sim digests::

mod channels;
mod kept;
mod packets;
mod recorder;
mod scenarios;

use kept::Line;
use recorder::Events;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/digests/simulator.txt");
/// Seeds of each scenario.
const SEEDS: [u64; 3] = [1, 2, 3];

/// A scenario: its name, and a run of it from a seed.
struct Scenario {
    name: &'static str,
    run: fn(u64) -> Events,
}

fn all() -> Vec<Scenario> {
    [scenarios::CAPSULES, scenarios::PLAN, channels::CHANNELS]
        .concat()
        .into_iter()
        .map(|(name, run)| Scenario { name, run })
        .collect()
}

#[test]
fn the_simulator_does_what_it_did() {
    let runs: Vec<(String, Events)> = all()
        .iter()
        .flat_map(|scenario| SEEDS.map(|seed| (format!("{} {seed}", scenario.name), (scenario.run)(seed))))
        .collect();
    if let Some(folder) = std::env::var_os("ANODE_EVENTS") {
        runs.iter().for_each(|(name, events)| events.write(folder.as_ref(), name));
    }
    let lines: Vec<Line> = runs.iter().map(|(name, events)| Line::of(name, events)).collect();
    if std::env::var_os("ANODE_BLESS").is_some() {
        std::fs::write(FILE, kept::text(&lines)).unwrap();
    }
    let known = kept::parse(&std::fs::read_to_string(FILE).unwrap());
    let differences: Vec<String> =
        runs.iter().zip(&lines).filter_map(|((_, events), line)| known.difference(line, events)).collect();
    let gone = known.gone(&lines);
    assert!(
        differences.is_empty() && gone.is_empty(),
        "{}{}\nTo see each event of both trees: ANODE_EVENTS=DIR in each, then diff.\n\
         If the change is meant: ANODE_BLESS=1 cargo test --release --test sim digests::, and say in the commit what changed.",
        differences.join("\n"),
        gone.iter().map(|name| format!("no longer run: {name}\n")).collect::<String>()
    );
}

#[test]
fn a_run_is_the_same_every_time_and_another_seed_is_another_run() {
    for scenario in all().iter().step_by(3) {
        let (once, again, other) = ((scenario.run)(1), (scenario.run)(1), (scenario.run)(2));
        assert_eq!(once.lines(), again.lines(), "{}", scenario.name);
        assert_ne!(once.chain(), other.chain(), "{}", scenario.name);
        assert!(once.lines().len() > 20, "{}: {} events", scenario.name, once.lines().len());
    }
}

#[test]
fn a_difference_is_told_with_its_place() {
    let run = |different: bool| {
        let events = Events::default();
        (0..1000).for_each(|at| events.push(at % 4, &format!("event {}", if different && at == 700 { 0 } else { at })));
        events
    };
    let known = kept::parse(&kept::text(&[Line::of("example 1", &run(false))]));
    assert_eq!(known.difference(&Line::of("example 1", &run(false)), &run(false)), None);
    let told = known.difference(&Line::of("example 1", &run(true)), &run(true)).unwrap();
    assert!(told.contains("example 1") && told.contains("nodes 0"), "{told}");
    assert!(told.contains("event 699") && !told.contains("event 500") && !told.contains("event 800"), "{told}");
    assert!(known.difference(&Line::of("another 1", &run(true)), &run(true)).unwrap().contains("is new"));
    assert_eq!(known.gone(&[]), ["example 1"]);
}
