//! Undoing of a failed start: the host is left as it was.
//!
//! Pins and drivers' settings outlive a process. So a start that does not succeed removes what it has attached, and no
//! more. A kernel half from an earlier process stays for the next one. A killed start leaves its notes in the run
//! directory: the next start takes over, or `anode node down` removes all.

use super::management::Management;
use crate::broker;
use crate::kernel::{Pins, Setting, Settings};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Takes back what a start has attached, unless that is [`Undo::done`].
pub struct Undo {
    run_dir: PathBuf,
    settings: Arc<Settings>,
    /// What was changed before.
    changed: Vec<(Setting, String)>,
    /// Interfaces before which a kernel half stood; nothing: there was none.
    stood: Option<Vec<u32>>,
    /// What runs environments, once it does.
    pub management: Option<Arc<Management>>,
    done: bool,
}

impl Undo {
    /// Looks at what there is before a start.
    pub fn begin(run_dir: &Path, settings: Arc<Settings>) -> Result<Undo> {
        let stood = Pins::standing(run_dir).context("what a node before has left in the kernel cannot be read")?;
        let changed = settings.list().context("what a node before has changed cannot be read")?;
        Ok(Undo { run_dir: run_dir.to_owned(), settings, changed, stood, management: None, done: false })
    }

    /// Interfaces before which a kernel half stood.
    pub fn stood(&self) -> &[u32] {
        self.stood.as_deref().unwrap_or_default()
    }

    /// The start has succeeded.
    pub fn done(mut self) {
        self.done = true;
    }

    fn take_back(&self) -> std::io::Result<()> {
        if let Some(management) = &self.management {
            management.stop();
        }
        remove_sockets(&self.run_dir);
        match &self.stood {
            None => Pins::sweep(&self.run_dir).map(drop)?,
            Some(stood) => Pins::remove_links(&self.run_dir, |interface| !stood.contains(&interface))?,
        }
        let is_new = |setting, interface: &str| !self.changed.contains(&(setting, interface.to_owned()));
        self.settings.give_back(is_new).map(drop)
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        if !self.done
            && let Err(error) = self.take_back()
        {
            tracing::error!(%error, "a start that failed has left something: anode node down takes it away");
        }
    }
}

/// The sockets in a run directory go.
pub(super) fn remove_sockets(dir: &Path) {
    for socket in broker::LocalSocket::ALL {
        // Somebody may have cleaned up before us.
        let _ = std::fs::remove_file(dir.join(socket.name()));
    }
}
