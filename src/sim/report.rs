//! The result of a run: sent packets, their ends, and their cost.
//!
//! All of it is the same for the same seed; the machine's time is told apart, by the caller.

use super::Simulation;
use super::histogram::Summary;
use super::trace::Loss;
use crate::core::domain::Usage;
use crate::core::reason::Drops;
use std::collections::BTreeMap;
use std::fmt;

pub use model::simulated::{FetchTotals, Losses};

/// Counters of a whole simulation. At any time
/// `injected + children + doubled + forged = delivered + dropped.total() + lost.total() + alive`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Capsules that applications sent.
    pub injected: u64,
    /// Capsules that applications could not send.
    pub refused: u64,
    /// Capsules that code sent.
    pub children: u64,
    /// Capsules that a link doubled.
    pub doubled: u64,
    /// Capsules that something which is no node put on a link.
    pub forged: u64,
    /// Capsules that reached an application.
    pub delivered: u64,
    /// Capsules dropped by nodes; those under `code` were consumed by their own code.
    pub dropped: Drops,
    /// Capsules lost outside nodes.
    pub lost: Losses,
    /// Capsules that came to a node over a link.
    pub packet_hops: u64,
    /// Steps of wasm that all capsules took.
    pub steps: u64,
    /// Code-fetch messages.
    pub fetch: FetchTotals,
    /// Frames that were no capsules and were dropped by nodes.
    pub messages_dropped: Drops,
    /// Crashes of nodes.
    pub crashes: u64,
}

/// Counts a capsule that was lost outside nodes.
pub(super) fn lose(lost: &mut Losses, loss: Loss) {
    *match loss {
        Loss::Link => &mut lost.link,
        Loss::Cut => &mut lost.cut,
        Loss::Down => &mut lost.down,
        Loss::Crash => &mut lost.crash,
        Loss::Stranger => &mut lost.stranger,
    } += 1;
}

/// What one code did over all nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CodeTotals {
    /// For people.
    pub title: String,
    /// Nodes where it is ready.
    pub nodes: u64,
    /// What it used over all nodes, crashed ones included.
    pub usage: Usage,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Nodes in the network.
    pub nodes: usize,
    /// Links in the network.
    pub links: usize,
    /// Virtual time that has passed, in seconds.
    pub virtual_s: f64,
    /// Counters.
    pub totals: Totals,
    /// Capsules still in nodes or on links.
    pub alive: u64,
    /// Codes still on their way into some node.
    pub fetching: usize,
    /// Links crossed by a delivered capsule, on average.
    pub hops_mean: f64,
    /// Times from injection to delivery.
    pub latency: Summary,
    /// By code name.
    pub codes: BTreeMap<String, CodeTotals>,
}

impl CodeTotals {
    pub(super) fn add(&mut self, title: &str, usage: &Usage) {
        self.title = title.into();
        let sum = &mut self.usage;
        sum.packets += usage.packets;
        sum.bytes += usage.bytes;
        sum.steps += usage.steps;
        sum.forwarded += usage.forwarded;
        sum.delivered += usage.delivered;
        let (sum, counts) = (&mut sum.counts, &usage.counts);
        sum.children += counts.children;
        sum.state_entries += counts.state_entries;
        sum.state_refused += counts.state_refused;
        sum.state_failed += counts.state_failed;
        sum.state_displaced += counts.state_displaced;
        sum.logs_suppressed += counts.logs_suppressed;
        sum.drops.add(&counts.drops);
    }
}

impl Totals {
    /// Capsules that came into being.
    pub fn begun(&self) -> u64 {
        self.injected + self.children + self.doubled + self.forged
    }

    /// Capsules that have ended.
    pub fn ended(&self) -> u64 {
        self.delivered + self.dropped.total() + self.lost.total()
    }
}

impl Simulation {
    /// The result so far.
    pub fn report(&self) -> Report {
        let mut codes = self.world.past_codes.clone();
        let mut fetching = 0;
        for status in (0..self.nodes()).filter_map(|at| self.status(at)) {
            fetching += status.fetch.codes;
            for code in status.codes.iter().filter(|code| code.state == "ready") {
                let entry = codes.entry(code.name.clone()).or_default();
                entry.nodes += 1;
                if let Some(usage) = &code.usage {
                    entry.add(&code.title, usage);
                }
            }
        }
        Report {
            seed: self.seed(),
            nodes: self.nodes(),
            links: self.network().links.len(),
            virtual_s: self.now() as f64 / 1e9,
            totals: self.totals().clone(),
            alive: self.alive(),
            fetching,
            hops_mean: self.world.delivered_hops as f64 / self.totals().delivered.max(1) as f64,
            latency: self.latency().summary(),
            codes,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let totals = &self.totals;
        let share = |part: u64| 100.0 * part as f64 / totals.begun().max(1) as f64;
        writeln!(f, "seed {}: {} nodes, {} links, {:.3} s", self.seed, self.nodes, self.links, self.virtual_s)?;
        let mut row = |name: &str, count: u64| match count {
            0 => Ok(()),
            _ => writeln!(f, "  {name:<26}{count:>12}  {:>6.2} %", share(count)),
        };
        row("sent", totals.injected)?;
        row("refused at once", totals.refused)?;
        row("sent by code", totals.children)?;
        row("doubled by links", totals.doubled)?;
        row("forged", totals.forged)?;
        row("delivered", totals.delivered)?;
        for (reason, count) in totals.dropped.happened() {
            row(&format!("dropped: {}", reason.name()), count)?;
        }
        row("lost on links", totals.lost.link)?;
        row("lost on cut links", totals.lost.cut)?;
        row("lost before nodes down", totals.lost.down)?;
        row("lost in crashes", totals.lost.crash)?;
        row("lost into strangers", totals.lost.stranger)?;
        row("still under way", self.alive)?;
        writeln!(f, "packet-hops {}, {:.2} links for each delivery", totals.packet_hops, self.hops_mean)?;
        let Summary { min_us, median_us, p99_us, max_us, .. } = self.latency;
        writeln!(f, "latency us: min {min_us:.1}, median {median_us:.1}, p99 {p99_us:.1}, max {max_us:.1}")?;
        let fetch = &totals.fetch;
        writeln!(
            f,
            "code: {} loads, {} requests, {} parts, {} absent, {} bytes asked, {} answered",
            fetch.loads, fetch.requests, fetch.parts, fetch.absents, fetch.request_bytes, fetch.reply_bytes
        )?;
        for (reason, count) in totals.messages_dropped.happened() {
            writeln!(f, "  messages dropped: {:<20}{count:>10}", reason.name())?;
        }
        for (name, code) in &self.codes {
            let Usage { packets, steps, forwarded, delivered, counts, .. } = &code.usage;
            let children = counts.children;
            let each = *steps as f64 / (*packets).max(1) as f64;
            writeln!(
                f,
                "code {} {}: on {} nodes, {packets} runs of {each:.1} steps, {forwarded} forwarded, {delivered} \
                 delivered, {children} children",
                &name[..name.len().min(8)],
                code.title,
                code.nodes
            )?;
        }
        Ok(())
    }
}
