//! A graph over captures. Packets come in at the times when they were captured, and engines that wait do so in the same
//! time. So a run takes as long as the work does, and gives the same packets each time.

use super::{Variables, With, load, read};
use crate::frame::{FRAME, Frame, FramePool};
use crate::graph::edges::EdgeKind;
use crate::graph::scratch::Scratch;
use crate::graph::table::Graph;
use crate::port::pcap::{self, Beginning, Capture, Captured, Packet};
use anyhow::{Context as _, Result};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Read as _};
use std::path::{Component, Path, PathBuf};

/// Bytes of a capture that is read.
const CAPTURE_MAX: u64 = 1 << 30;

/// When a run without captures begins, in nanoseconds: any time but 0 would do.
const BEGIN: u64 = 1_000_000_000;

/// Turns one after the other in which no packet begins or ends, at most, where they take less of the packets' time than `TURN` each: in a
/// circle with a queue and without a delay packets would go round for ever.
const IDLE_MAX: u64 = 1 << 16;

/// Nanoseconds of the packets' time: less than the fastest sources and shapers wait.
const TURN: u64 = 16;

#[derive(clap::Args)]
pub(super) struct RunArgs {
    /// The file with the graph; `-` is standard input
    file: PathBuf,
    #[command(flatten)]
    variables: Variables,
    #[command(flatten)]
    with: With,
    /// Packets that a device, FromDump or the host of the graph gives: its name and a capture (pcap or pcapng)
    #[arg(long = "from", value_name = "NAME=CAPTURE")]
    from: Vec<String>,
    /// A folder, in which each device and ToDump leaves a capture (pcapng) of its name
    #[arg(long = "to", value_name = "FOLDER")]
    to: Option<PathBuf>,
    /// Seconds of the packets' time after the last packet
    #[arg(long = "for", value_name = "SECONDS", default_value_t = 1.0)]
    more: f64,
    /// End when so many packets have come in or begun
    #[arg(long, default_value_t = 1_000_000)]
    packets: u64,
    /// Write to a handler before the first packet, as `switch.switch=1`
    #[arg(long, value_name = "ENGINE.HANDLER=VALUE")]
    write: Vec<String>,
    /// Read a handler after the last packet, as `counter.count`
    #[arg(long, value_name = "ENGINE.HANDLER")]
    read: Vec<String>,
}

/// A graph that runs.
struct Runner {
    graph: Graph,
    pool: FramePool,
    scratch: Scratch,
    now: u64,
    came: u64,
    left: u64,
    dropped: u64,
    most: u64,
    idle: Idle,
    sinks: Sinks,
}

/// Turns since the last one in which a packet began or ended.
#[derive(Default)]
struct Idle {
    since: u64,
    turns: u64,
    /// Packets that had begun or ended by then.
    packets: u64,
}

/// Where packets go.
struct Sinks {
    folder: Option<PathBuf>,
    open: BTreeMap<u16, Capture<BufWriter<File>>>,
    counts: BTreeMap<u16, u64>,
}

/// Runs `anode graph run`.
pub(super) fn run(arguments: &RunArgs) -> Result<bool> {
    let (text, classes) = (read(&arguments.file)?, crate::cli::extension::classes(&arguments.with.extensions, true)?);
    let Some(mut graph) = load(&arguments.file, &text, &arguments.variables, &classes)? else {
        return Ok(false);
    };
    anyhow::ensure!((0.0..=1e6).contains(&arguments.more), "--for {}: from 0 to a million seconds", arguments.more);
    let packets = all_packets(&mut graph, arguments)?;
    for given in &arguments.write {
        let (handler, value) =
            given.split_once('=').with_context(|| format!("--write {given}: ENGINE.HANDLER=VALUE"))?;
        let (engine, handler) = split(&graph, handler)?;
        let is_read = graph.read(engine, handler).is_some();
        let none = || format!("{given}: {}", if is_read { "this handler is only read" } else { "no such handler" });
        let written = graph.write(engine, handler, value).with_context(none)?;
        written.map_err(|why| anyhow::anyhow!("{given}: {why}"))?;
    }
    for text in &arguments.read {
        let (engine, handler) = split(&graph, text)?;
        graph.read(engine, handler).with_context(|| format!("{text}: no such handler"))?;
    }
    let now = packets.first().map_or(BEGIN, |(packet, _)| packet.at);
    let sinks = Sinks { folder: arguments.to.clone(), open: BTreeMap::new(), counts: BTreeMap::new() };
    if let Some(folder) = &arguments.to {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let (pool, scratch) = (FramePool::new(FRAME, 256), Scratch::default());
    let (most, idle) = (arguments.packets, Idle::default());
    let mut runner = Runner { graph, pool, scratch, now, came: 0, left: 0, dropped: 0, most, idle, sinks };
    for (packet, port) in packets {
        runner.until(packet.at)?;
        runner.give(&packet, port)?;
    }
    let end = runner.now.saturating_add((arguments.more * 1e9) as u64);
    runner.until(end)?;
    runner.finish(&arguments.read)
}

/// An engine's number, and the name of one of its handlers.
fn split<'a>(graph: &Graph, text: &'a str) -> Result<(u16, &'a str)> {
    let (engine, handler) = text.rsplit_once('.').with_context(|| format!("{text}: ENGINE.HANDLER"))?;
    let number = graph.find(engine).with_context(|| format!("{engine}: there is no such engine"))?;
    Ok((number, handler))
}

/// What comes in, in the order of time, each with the number of its place.
fn all_packets(graph: &mut Graph, arguments: &RunArgs) -> Result<Vec<(Packet, u16)>> {
    let mut packets = Vec::new();
    let mut given: BTreeMap<&str, PathBuf> = BTreeMap::new();
    for text in &arguments.from {
        let (name, file) = text.split_once('=').with_context(|| format!("--from {text}: NAME=CAPTURE"))?;
        let known = graph.places.all.iter().any(|(_, known)| known == name);
        anyhow::ensure!(known, "--from {name}: the graph has no device and no dump of this name");
        given.insert(name, PathBuf::from(file));
    }
    for (port, (place, name)) in (0..).zip(&graph.places.all) {
        let beside = || beside(&arguments.file, name).filter(|_| *place == EdgeKind::Dump && graph.is_entrance(port));
        let Some(file) = given.get(name.as_str()).cloned().or_else(beside) else { continue };
        if !graph.is_entrance(port) {
            continue;
        }
        let mut bytes = Vec::new();
        let opened = File::open(&file).with_context(|| file.display().to_string())?;
        opened.take(CAPTURE_MAX).read_to_end(&mut bytes).with_context(|| file.display().to_string())?;
        let found = pcap::packets(&bytes);
        anyhow::ensure!(!found.is_empty(), "{}: no capture (pcap, pcapng), or an empty one", file.display());
        packets.extend(found.into_iter().map(|packet| (packet, port)));
    }
    packets.sort_by_key(|(packet, port)| (packet.at, *port));
    Ok(packets)
}

/// A file beside that of the graph, or below it: a graph of somebody else's reads no others.
fn beside(graph: &Path, name: &str) -> Option<PathBuf> {
    let path = Path::new(name);
    let is_below = path.components().all(|part| matches!(part, Component::Normal(_)));
    is_below.then(|| graph.parent().unwrap_or(Path::new("")).join(path))
}

impl Runner {
    /// Lets time pass: engines that wait for it have their turns.
    fn until(&mut self, end: u64) -> Result<()> {
        loop {
            while self.graph.work(self.now, &mut self.pool, &mut self.scratch) {
                self.take_out()?;
                self.end_circles()?;
            }
            self.take_out()?;
            self.end_circles()?;
            let next = self.graph.next_run(self.now).min(self.scratch.wake);
            if next > end {
                self.now = self.now.max(end);
                return Ok(());
            }
            self.now = next.max(self.now + 1);
        }
    }

    /// Fails where packets go round and none comes to its end.
    fn end_circles(&mut self) -> Result<()> {
        let packets = self.came + self.scratch.begun + self.scratch.used + self.left + self.dropped;
        if packets != self.idle.packets {
            self.idle = Idle { since: self.now, turns: 0, packets };
        }
        self.idle.turns += 1;
        if self.idle.turns.is_multiple_of(IDLE_MAX) {
            let time = self.now - self.idle.since;
            anyhow::ensure!(
                time >= self.idle.turns * TURN,
                "packets go round between queues: {IDLE_MAX} turns in {time} ns of their time, and none begins or ends; \
                 the circle needs something that takes time, as DelayUnqueue or RatedUnqueue, or a way out"
            );
            self.idle = Idle { since: self.now, turns: 0, packets };
        }
        Ok(())
    }

    fn give(&mut self, packet: &Packet, port: u16) -> Result<()> {
        let mut frame = self.pool.take();
        if packet.bytes.len() > frame.capacity() {
            frame = Frame::with_capacity(packet.bytes.len());
        }
        frame.fill(&packet.bytes);
        frame.port = crate::frame::PortId(port);
        self.came += 1;
        self.graph.receive(frame, self.now, &mut self.pool, &mut self.scratch);
        self.until(self.now)
    }

    /// What has left goes to its file.
    fn take_out(&mut self) -> Result<()> {
        for frame in self.scratch.out.drain(..) {
            self.left += 1;
            self.sinks.write(&self.graph, self.now, &frame)?;
            self.pool.give(frame);
        }
        self.dropped += self.scratch.dropped.len() as u64;
        self.scratch.dropped.drain(..).for_each(|(frame, _)| self.pool.give(frame));
        self.dropped += self.scratch.lost.drain(..).map(|(_, packets)| packets).sum::<u64>();
        self.scratch.said.drain(..).for_each(|line| crate::say!("{line}"));
        let most = self.most;
        anyhow::ensure!(
            self.came + self.scratch.begun <= most,
            "{most} packets have come in or begun: a source needs a LIMIT, a circle that copies packets a way out, or --packets more"
        );
        Ok(())
    }

    /// Says what became of all packets.
    fn finish(mut self, handlers: &[String]) -> Result<bool> {
        for text in handlers {
            let (engine, handler) = split(&self.graph, text)?;
            let value = self.graph.read(engine, handler).with_context(|| format!("{text}: no such handler"))?;
            crate::say!("{text}: {value}");
        }
        for (_, capture) in std::mem::take(&mut self.sinks.open) {
            let mut capture = capture;
            capture.end(self.now, 0)?;
        }
        for (port, count) in &self.sinks.counts {
            let name = self.graph.places.all.get(usize::from(*port)).map_or("", |(_, name)| name.as_str());
            crate::say!("{name}: {count} packets");
        }
        let (begun, used, held) = (self.scratch.begun, self.scratch.used, self.graph.empty(&mut self.pool));
        let Runner { came, left, dropped, .. } = self;
        crate::say!("in {came}, begun {begun}, out {left}, used {used}, dropped {dropped}, held {held}");
        if self.scratch.unsaid > 0 {
            crate::say!("{} lines were not shown", self.scratch.unsaid);
        }
        let unaccounted = (came + begun).wrapping_sub(left + used + dropped + held);
        anyhow::ensure!(
            unaccounted == 0,
            "{unaccounted} packets are unaccounted for: this is a mistake of this program"
        );
        Ok(true)
    }
}

impl Sinks {
    fn write(&mut self, graph: &Graph, now: u64, frame: &Frame) -> Result<()> {
        let port = frame.port.0;
        *self.counts.entry(port).or_default() += 1;
        let Some(folder) = &self.folder else { return Ok(()) };
        let capture = match self.open.entry(port) {
            std::collections::btree_map::Entry::Occupied(open) => open.into_mut(),
            std::collections::btree_map::Entry::Vacant(place) => {
                let (kind, name) = graph.places.all.get(usize::from(port)).context("a port without a name")?;
                let path = folder.join(file_name(*kind, name));
                let interfaces = [(name.clone(), Beginning::Ethernet)];
                place.insert(Capture::create(&path, &interfaces).with_context(|| path.display().to_string())?)
            }
        };
        capture.packet(&Captured { interface: 0, at: now, inward: None, bytes: frame.bytes(), comment: "" })?;
        Ok(())
    }
}

/// The file of a place: of its name only what is harmless in one.
fn file_name(kind: EdgeKind, name: &str) -> String {
    let plain: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' }).collect();
    let plain = plain.trim_start_matches('.');
    let plain = if plain.is_empty() && kind != EdgeKind::Host { "unnamed" } else { plain };
    match kind {
        // Nothing leads to other nodes here.
        EdgeKind::Device | EdgeKind::Remote => format!("{plain}.pcapng"),
        EdgeKind::Host => format!("host{}{plain}.pcapng", if plain.is_empty() { "" } else { "-" }),
        EdgeKind::Dump => {
            format!("{}.pcapng", plain.trim_end_matches(".pcapng").trim_end_matches(".pcap").trim_end_matches(".dump"))
        }
    }
}
