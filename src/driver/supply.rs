//! An outside in memory, for tests and benchmarks: a store of objects, a compiler in this thread, a judge. It answers
//! at once.

use super::outside::{Driven, Outside};
use crate::code::bundle::Bundle;
use crate::code::run::Tier;
use crate::code::run::wasm::Compiler;
use crate::frame::PortId;
use crate::node::Effect;
use crate::node::handing::Handed;
use crate::node::wishing::WishedEdit;
use crate::node::workers::WorkerOrder;
use crate::trust::{Roles, object_name};
use crate::wire::{Addr, Digest};
use std::collections::HashMap;
use std::sync::Arc;

/// What a node needs of the outside to load code.
pub struct Supply {
    /// The objects of its store.
    pub store: HashMap<Digest, Arc<[u8]>>,
    /// The compiler.
    pub compiler: Compiler,
    /// The name and the roles that claims are judged by; without them claims stay open.
    pub judge: Option<(String, Roles)>,
    /// What is told to the other workers of the node.
    pub orders: Vec<WorkerOrder>,
    /// Whom another worker has heard.
    pub heard: Vec<(PortId, Addr)>,
    /// Next hops whose link addresses another worker has known for long.
    pub old_links: Vec<(PortId, Addr)>,
    /// Edits of graphs that code wishes for: nobody here does them.
    pub edits: Vec<WishedEdit>,
    /// Packets handed to the first worker.
    pub handed: Vec<Handed>,
}

impl Supply {
    /// An empty store beside a compiler.
    pub fn new(compiler: Compiler) -> Supply {
        Supply {
            store: HashMap::new(),
            compiler,
            judge: None,
            orders: Vec::new(),
            heard: Vec::new(),
            old_links: Vec::new(),
            edits: Vec::new(),
            handed: Vec::new(),
        }
    }

    /// Puts a bundle into the store.
    pub fn add(&mut self, bundle: &Bundle) {
        self.store.extend(bundle.objects().map(|object| (object_name(object), object.clone())));
    }
}

impl Outside for Supply {
    fn hand(&mut self, _: &mut Driven<'_>, handed: Handed) {
        self.handed.push(handed);
    }

    fn effect(&mut self, driven: &mut Driven<'_>, effect: Effect) {
        let Driven { node, turn } = driven;
        match effect {
            Effect::LookUp(digest, _) => node.found(turn, digest, self.store.get(&digest).cloned()),
            Effect::Store(object) => drop(self.store.insert(object_name(&object), object)),
            Effect::Prepare(prepare) => {
                let program = prepare.carry_out(&self.compiler);
                match prepare.tier {
                    Tier::Fast => node.prepared(turn, prepare.code, program),
                    Tier::Optimised => node.optimised(turn, prepare.code, program),
                }
            }
            Effect::Authorise(claim, _) => {
                if let Some((name, roles)) = &self.judge {
                    let grant = roles.authorise(name, 0, &claim).map_err(|error| error.to_string());
                    node.authorised(turn, claim.code, grant);
                }
            }
            // Nobody's revocations count here; there is no kernel half, and no resolver.
            Effect::Revoke(..) => node.revocation_unjudged(),
            Effect::Workers(order) => self.orders.push(*order),
            Effect::Heard(list) => self.heard.extend(list),
            Effect::AskLink(port, addr) => self.old_links.push((port, addr)),
            Effect::Foreign(..) | Effect::NoneForeign => {}
            Effect::Kernel(_) | Effect::Channel { .. } | Effect::Plan(..) | Effect::EndStores(_) => {}
            Effect::GraphEdit(wish) => self.edits.push(*wish),
        }
    }
}
