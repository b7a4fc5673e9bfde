//! Graphs under whatever comes: texts that somebody has bent, and frames of any bytes. Nothing panics, and no packet is lost uncounted.

use anode::frame::{Frame, FramePool, PortId};
use anode::graph::load::load;
use anode::graph::scratch::Scratch;
use anode::graph::table::Graph;
use anode::port::pcap;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/graphs")
}

fn with_end(folder: &Path, end: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = entries.filter(|path| path.extension().is_some_and(|it| it == end)).collect();
    found.sort();
    found
}

/// Takes frames through a graph, a millisecond apart, and looks what became of them all.
fn run(name: &Path, mut graph: Graph, frames: &[Vec<u8>]) {
    let (mut pool, mut scratch, mut now) = (FramePool::new(2048, 64), Scratch::default(), 1_000_000_000);
    let places = graph.places.all.len().max(1);
    for (at, bytes) in frames.iter().enumerate() {
        let mut frame = Frame::from_bytes(bytes);
        frame.port = PortId((at % places) as u16);
        graph.receive(frame, now, &mut pool, &mut scratch);
        graph.work(now, &mut pool, &mut scratch);
        now += 1_000_000;
    }
    let over = (scratch.out.len() + scratch.dropped.len()) as u64 + scratch.used + graph.empty(&mut pool);
    let lost: u64 = scratch.lost.iter().map(|(_, packets)| packets).sum();
    assert_eq!(frames.len() as u64 + scratch.begun, over + lost, "{}", name.display());
}

#[test]
fn frames_of_any_bytes_pass_every_graph_or_are_counted() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(17);
    let whole: Vec<_> =
        with_end(&folder().join("in"), "pcap").iter().flat_map(|path| pcap::read(path).unwrap()).collect();
    assert!(whole.len() > 40);
    for path in with_end(&folder(), "click") {
        let text = std::fs::read_to_string(&path).unwrap();
        let mut bend = || {
            let mut bytes = whole[rng.next_u32() as usize % whole.len()].clone();
            for _ in 0..rng.next_u32() % 4 {
                let at = rng.next_u32() as usize % bytes.len().max(1);
                match (rng.next_u32() % 3, bytes.get_mut(at)) {
                    (0, Some(byte)) => *byte = rng.next_u32() as u8,
                    (1, _) => bytes.truncate(at),
                    _ => bytes.extend([rng.next_u32() as u8; 3]),
                }
            }
            bytes
        };
        let frames: Vec<_> = (0..400).map(|_| bend()).collect();
        let graph = load(&text, &[]).unwrap_or_else(|_| panic!("{}", path.display()));
        run(&path, graph, &frames);
    }
}

#[test]
fn bent_texts_are_graphs_or_mistakes() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(23);
    let texts: Vec<_> =
        with_end(&folder(), "click").iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let (mut good, mut wrong) = (0, 0);
    for round in 0..1_500 {
        let mut words: Vec<_> = texts[round % texts.len()].split_inclusive(' ').collect();
        for _ in 0..1 + rng.next_u32() % 3 {
            let (from, to) = (rng.next_u32() as usize % words.len(), rng.next_u32() as usize % words.len());
            match rng.next_u32() % 3 {
                0 => words.swap(from, to),
                1 => words[to] = words[from],
                _ => drop(words.remove(to)),
            }
        }
        match load(&words.concat(), &[]) {
            Ok(graph) => {
                run(Path::new("bent"), graph, &[vec![0; 60], vec![0x45; 34]]);
                good += 1;
            }
            Err(mistakes) => {
                assert!(!mistakes.is_empty());
                wrong += 1;
            }
        }
    }
    assert!(good > 100 && wrong > 100, "{good} and {wrong}");
}
