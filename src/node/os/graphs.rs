//! Who may change graphs: what a program's domain is to the graphs of its role. The rest is the first worker's
//! (`node/graphs/editing.rs`).

use super::Os;
use crate::node::graphs::GraphEditor;
use crate::nodeos::interface::{DomainId, Error};
use crate::trust::NODE;

impl Os<'_, '_> {
    /// What a domain may do to graphs. It acts in its role only where all domains above it do: so nobody comes to the graphs of others by
    /// making a domain in their role. `Denied`: they do not, or the role changes none.
    pub fn graph_editor(&self, domain: DomainId) -> Result<GraphEditor, Error> {
        self.may(domain)?;
        let domains = &self.cx.core.domains;
        let role = domains.by_id(domain).ok_or(Error::Stale)?.role.clone();
        let mut at = Some(domain);
        while let Some(above) = at.and_then(|at| domains.by_id(at)).filter(|above| above.role.name != NODE) {
            if above.role.name != role.name {
                return Err(Error::Denied);
            }
            at = above.parent();
        }
        if role.graphs.edits() { Ok(GraphEditor { role }) } else { Err(Error::Denied) }
    }
}
