//! Extensions are loaded and unloaded by the thread that applies configurations, so that both agree on the protocols that are taught.
//! Those of a configuration come and go with it, all that can fail before anything else of it has changed.
//!
//! ```text
//! modules ─▶ prepared: read, in order, compiled ─▶ protocols with the configuration's ─▶ services in the node ─▶ taught ─▶ there
//!                 └ all that can fail ─────────────────────────────────┘      └ one is refused: those before it go again
//! ```
//!
//! A worker learns protocols between two packets, so no packet is lost by that, and none finds half of them.

use super::Applying;
use super::applier::Answer;
use super::prepared::{all_readable, classes_of, classifying, forgotten, in_graphs};
use crate::config::extensions::MODULES_MAX;
use crate::manage::extensions::{Extensions, Leaving, offer, withdraw};
use crate::node::Classifying;
use crate::node::policy::Amendment;
use model::extensions::Changed;
use model::wish::Done;
use std::time::Duration;

impl Applying {
    /// Loads extensions, all or none.
    pub(super) fn load(&mut self, modules: &[String], who: &str) -> Answer {
        self.is_free()?;
        if modules.iter().map(|module| module.len() / 2).sum::<usize>() > MODULES_MAX {
            return Err(format!("at most {MODULES_MAX} bytes of modules at once"));
        }
        let modules = modules.iter().map(hex::decode).collect::<Result<Vec<_>, _>>();
        let extensions = self.parts.handle.extensions()?.clone();
        let mut loading = extensions.prepare(modules.map_err(|_| "a module is not in hexadecimal")?)?;
        let classifying = classifying(&self.parts, &self.parts.file, &loading.taught)?;
        all_readable(&self.parts, &classifying)?;
        let services = core::mem::take(&mut loading.services);
        let teaches = !loading.taught.is_empty();
        self.parts.handle.with_node(move |node, _| offer(node, services))??;
        if teaches {
            self.teach(classifying)?;
        }
        let names = loading.names();
        extensions.put(loading)?;
        self.bring(&extensions)?;
        tracing::info!(event = "code", who, names = names.join(", "), "extensions loaded");
        Ok(Done::Extensions(Changed { names }))
    }

    /// Unloads an extension; with `cascade` all that need it, and though rules name its protocols.
    pub(super) fn unload(&mut self, name: String, cascade: bool, who: &str) -> Answer {
        self.is_free()?;
        let extensions = self.parts.handle.extensions()?.clone();
        let before = extensions.protocols()?;
        let Leaving { names, services, taught } = extensions.leaving(name, cascade)?;
        let own = |name: &&String| self.parts.file.extensions.iter().any(|extension| extension.name == **name);
        if let Some(name) = names.iter().find(own) {
            return Err(format!(
                "{name} is an [[extension]] of the configuration: apply one without it (anode node apply)"
            ));
        }
        let taught = (taught != before).then_some(taught);
        let classifying = taught.map(|taught| classifying(&self.parts, &self.parts.file, &taught)).transpose()?;
        if let Some(classifying) = classifying.as_ref().filter(|_| !cascade) {
            all_readable(&self.parts, classifying)?;
        }
        self.retire(&extensions, &names)?;
        if let Some(classifying) = classifying {
            self.teach(classifying)?;
        }
        self.parts.handle.with_node(move |node, _| withdraw(node, &services))?;
        extensions.take(names.clone())?;
        self.bring(&extensions)?;
        tracing::info!(event = "code", who, names = names.join(", "), "extensions unloaded");
        Ok(Done::Extensions(Changed { names }))
    }

    /// Neighbours' parts have what extensions bring now.
    fn bring(&self, extensions: &Extensions) -> Result<(), String> {
        let classes = extensions.classes();
        self.parts.handle.with_node(move |node, _| node.set_brought(classes))
    }

    /// No graph begins with engines of these from now on; refused if one runs with any.
    fn retire(&self, extensions: &Extensions, names: &[String]) -> Result<(), String> {
        let (classes, of) = (classes_of(extensions, names), names.to_vec());
        let used = self.parts.handle.with_node(move |node, _| {
            let used = node.graphs_with(&of, &[]);
            if used.is_empty() {
                classes.iter().for_each(|class| class.leave());
            }
            used
        })?;
        if used.is_empty() { Ok(()) } else { Err(in_graphs(names, &used)) }
    }

    /// Rules mean what is known of hosts by now. Until when somebody is to look again.
    pub(super) fn follow_hosts(&self) -> Option<Duration> {
        let hosts = self.parts.handle.hosts()?;
        let classify = &self.parts.file.classify;
        hosts.follow(&classify.resolve, classify.name_service.as_ref());
        if hosts.take_news() {
            let taught = self.parts.handle.extensions().and_then(|extensions| extensions.protocols());
            let classifying = taught.and_then(|taught| classifying(&self.parts, &self.parts.file, &taught));
            if let Err(why) = classifying.and_then(|classifying| self.teach(classifying)) {
                tracing::warn!(why, "rules of channels do not know what hosts have been found");
            }
        }
        hosts.patience()
    }

    fn teach(&self, classifying: Classifying) -> Result<(), String> {
        let amendment = Amendment { classifying: Some(classifying), ..Amendment::default() };
        self.parts.handle.with_each(move |node, turn| node.amend(turn, amendment.clone()))?;
        forgotten(&self.parts.handle);
        Ok(())
    }
}
