//! What chance does to the frames of a lab's links is what the model does with the same seed, frame by frame.
//!
//! Loss and doubling are counted in `links.rs`. Here are the times: who is held back, and by how much delays differ. The
//! links' own clock tells them; what else the machine does makes bounds wider, and breaks none.

use std::net::UdpSocket;

use anode::lab::{Crossing, Lab};
use anode::link::model::chance;
use anode::link::{Fate, LinkModel, LinkQuality};

use crate::links::{datagrams, until};
use crate::running::Running;
use crate::wait::{self, Patience};

/// How long each of so many frames takes on the first link's first direction, each of which comes at the beginning, in nanoseconds.
fn times(seed: u64, quality: &LinkQuality, frames: usize) -> Vec<u64> {
    let mut rng = chance(seed, 0, 0);
    // Each on a link of its own: jitter keeps the order, and so would have the earlier ones be in the way.
    let alone = LinkModel::new(quality);
    let time = |fate| if let Fate::Arrives(at) = fate { at } else { panic!("{fate:?}") };
    (0..frames).map(|_| time(alone.clone().carry(0, 100, &mut rng))).collect()
}

/// A link that holds a fifth of its frames back.
const HELD: &str = r#"
nodes.a.active = true
nodes.b.active = true
[[links]]
ends = ["a", "b"]
prefixes = ["10.0.1.0/24"]
reorder = 0.2
reorder_ms = 3600000
"#;

/// Frames that are held back stay for longer than the test may last; the others are there at once.
#[test]
fn those_frames_are_held_back_that_the_seed_says() {
    const FRAMES: usize = 60;
    const OTHERS: usize = 40;
    let long = wait::PATIENCE.as_nanos() as u64;
    let quality = LinkQuality { reorder: 0.2, reorder_ms: 3.6e6, ..LinkQuality::default() };
    // A seed that holds nobody back for a short time.
    let found = (0..1000).find_map(|seed| {
        let times = times(seed, &quality, FRAMES + OTHERS);
        times.iter().all(|time| *time == 0 || *time > long).then_some((seed, times))
    });
    let (seed, times) = found.unwrap();
    let free = |entered: u64| times[..entered as usize].iter().filter(|time| **time == 0).count() as u64;
    let text = format!("name = \"t\"\nseed = {seed}\n{HELD}");
    let Some(net) = Running::build("lheld", &text) else { return };
    let (here, _there) = datagrams(&net);
    for sent in (10..=FRAMES as u64).step_by(10) {
        (0..10).for_each(|_| assert_eq!(here.send(&[7; 100]).unwrap(), 100));
        until(&net.lab, "a", |Crossing { counts, .. }| {
            counts["entered"] >= sent && counts["left"] == free(counts["entered"])
        });
    }
    let counts = named(&net.lab, "a to-b").counts;
    assert!(counts["left"] < counts["entered"], "{counts:?}");
}

/// Two links, side by side: one whose delay differs, and one that tells the time.
const BESIDE: &str = r#"
name = "t"
seed = 7
nodes.a.active = true
nodes.b.active = true
[[links]]
ends = ["a", "b"]
prefixes = ["10.0.1.0/24"]
delay_ms = 100
jitter_ms = 90
[[links]]
ends = ["a", "b"]
prefixes = ["10.0.2.0/24"]
delay_ms = 0.001
"#;

/// The direction with this name.
fn named(lab: &Lab, from: &str) -> Crossing {
    lab.crossings().unwrap().into_iter().find(|crossing| crossing.from == from).unwrap()
}

/// What the links' clock shows, by datagrams over the link that tells it. With the second, what the first has changed is written down.
fn clock(net: &Running, (here, there): &(UdpSocket, UdpSocket)) -> u64 {
    for _ in 0..2 {
        here.send(b"what is the time").unwrap();
        there.recv(&mut [0; 16]).unwrap();
    }
    named(&net.lab, "a to-b-2").counts["left_at_ns"]
}

#[test]
fn every_frame_takes_the_time_that_the_seed_says() {
    const TRIED: usize = 8;
    let Some(net) = Running::build("ljitter", BESIDE) else { return };
    let telling = {
        let there = net.lab.enter("b", || UdpSocket::bind("10.0.2.2:9").unwrap()).unwrap();
        there.set_read_timeout(Some(wait::PATIENCE)).unwrap();
        let here = net.lab.enter("a", || UdpSocket::bind("10.0.2.1:0").unwrap()).unwrap();
        here.connect("10.0.2.2:9").unwrap();
        (here, there)
    };
    let (here, _there) = datagrams(&net);
    let at_rest = || until(&net.lab, "a", |Crossing { counts, .. }| counts["entered"] == counts["left"]);
    let (patience, mut tried) = (Patience::new(), 0);
    while tried < TRIED {
        let quality = at_rest().quality;
        let begin = clock(&net, &telling);
        let before = named(&net.lab, "a to-b").counts;
        here.send(&[7; 100]).unwrap();
        let entered = until(&net.lab, "a", |crossing| crossing.counts["entered"] > before["entered"]).counts["entered"];
        let end = clock(&net, &telling);
        at_rest();
        clock(&net, &telling);
        let after = named(&net.lab, "a to-b").counts;
        patience.left(|| format!("{tried} tried, {after:?}"));
        // Others have sent in between: the host's own neighbour discovery.
        if (before["entered"], after["entered"]) != (before["left"], entered) {
            continue;
        }
        let new = before["entered"] as usize..entered as usize;
        let latest = times(7, &quality, new.end)[new].iter().max().copied().unwrap();
        let left = after["left_at_ns"];
        assert!((begin + latest..=end + latest).contains(&left), "{begin} {end}: {latest}, left at {left}");
        assert!((10_000_000..=190_000_000).contains(&latest), "{latest}");
        tried += 1;
    }
}
