//! What the kernel has counted of a generation of a graph goes to its engines: they know the sum of both halves.

use super::look_up::{EngineTable, GraphTable};
use super::plan::Fusion;
use crate::graph::table::Graph;
use std::sync::Arc;

/// The words of a program, to be read while packets pass.
pub trait GraphWords: Send + Sync + core::fmt::Debug {
    /// All, over all CPUs.
    fn read(&self) -> Vec<u64>;
}

/// The part of a generation that is in the kernel.
#[derive(Clone, Debug)]
pub struct FusedPart {
    /// What runs there.
    pub fusion: Fusion,
    words: Arc<dyn GraphWords>,
    /// What it looks up, if it does.
    table: Option<Arc<dyn GraphTable>>,
    /// What the engines know of it.
    seen: Vec<u64>,
}

impl FusedPart {
    /// One that has counted nothing yet.
    pub fn new(fusion: Fusion, words: Arc<dyn GraphWords>, table: Option<Arc<dyn GraphTable>>) -> FusedPart {
        FusedPart { fusion, words, table, seen: Vec::new() }
    }

    /// What it looks up, if it does.
    pub(super) fn table(&self) -> Option<&dyn GraphTable> {
        self.table.as_deref()
    }

    /// The part of the table of an engine that is there.
    pub(crate) fn table_of(&self, engine: u16) -> Option<EngineTable> {
        let table = self.table.as_ref()?;
        // They are in order.
        self.fusion.engines.binary_search(&engine).ok()?;
        Some(EngineTable { table: table.clone(), engine })
    }

    /// Tells the engines of `own`, the graph that it was made of, what has come since; those of the same names and classes in `next`
    /// instead, if they have gone on there.
    pub fn settle(&mut self, own: &mut Graph, mut next: Option<&mut Graph>) {
        let mut now = self.words.read();
        // They could not be read: what was seen stays seen, and the next time has it all.
        if now.len() < usize::from(self.fusion.links.count) {
            return;
        }
        now.truncate(self.fusion.links.count.into());
        self.seen.resize(now.len(), 0);
        let more: Vec<u64> = now.iter().zip(&self.seen).map(|(now, seen)| now.saturating_sub(*seen)).collect();
        self.seen = now;
        for at in self.fusion.engines.iter().map(|at| usize::from(*at)) {
            let (links, words) = self.fusion.links.parts(at, &more);
            if links.iter().chain(words).all(|word| *word == 0) {
                continue;
            }
            let Some(placed) = own.engines.get_mut(at) else { continue };
            let heir = next.as_mut().and_then(|next| {
                let heir = next.find(&placed.name).and_then(|heir| next.engines.get_mut(usize::from(heir)));
                heir.filter(|heir| heir.class.is(&placed.class))
            });
            heir.unwrap_or(placed).add_kernel(links, words);
        }
    }
}
