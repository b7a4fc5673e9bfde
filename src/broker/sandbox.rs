//! The parts of a node's sandbox (user, capabilities, Landlock, seccomp), and those that this host lacks.

use super::prepare;
use crate::config::NodeFile;
use crate::config::part::Part;
use crate::sys::privileges::{self, Standing};
use crate::sys::{files_of_node, jail, landlock, threads};
use anyhow::{Result, bail};
use serde::Serialize;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

/// What a node is confined by.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Sandbox {
    /// Who it is, for people.
    pub user: String,
    /// What the kernel says of it.
    pub standing: Standing,
    /// What is weaker than it could be.
    pub weaker: Vec<Part>,
    /// What its jails lack.
    pub jails_weaker: Vec<jail::Part>,
}

/// What a node of a configuration would be confined by that is started by whoever asks this.
#[derive(Clone, Debug, Serialize)]
pub struct Expected {
    /// Who it would be, for people.
    pub user: String,
    /// Whether that user is nobody else's.
    pub own_user: bool,
    /// What its broker could do for it.
    pub broker: &'static str,
    /// What it would have.
    pub parts: Vec<Part>,
    /// What it would lack.
    pub weaker: Vec<Part>,
    /// What its jails would have, and what they would lack.
    pub jails: Vec<jail::Part>,
    /// See [`Expected::jails`].
    pub jails_weaker: Vec<jail::Part>,
}

/// What a configuration's node would have of a sandbox here; an error if it requires more.
pub fn expected(file: &NodeFile) -> Result<Expected> {
    let user = prepare::user_of(file)?;
    let mut weaker = Vec::new();
    weaker.extend(user.is_none().then_some(Part::User));
    weaker.extend((!landlock::is_there()).then_some(Part::Landlock));
    weaker.extend((!jail::has_seccomp()).then_some(Part::Seccomp));
    refuse_lack(file, &weaker)?;
    let jails_weaker = jails_lack(file)?;
    let jails = jail::Part::ALL.into_iter().filter(|part| !jails_weaker.contains(part)).collect();
    let parts = Part::OF_NODE.into_iter().filter(|part| !weaker.contains(part)).collect();
    let broker = match user {
        Some(_) => "root: sockets, programs and pins in the kernel, drivers' settings, processes of environments",
        None => "without privileges: overlay ports, processes of environments",
    };
    let own_user = user.as_ref().is_some_and(|user| user.own);
    let starter = || format!("{}, who starts it", rustix::process::geteuid().as_raw());
    let user = user.map_or_else(starter, |user| user.name);
    Ok(Expected { user, own_user, broker, parts, weaker, jails, jails_weaker })
}

/// What jails lack on this host which the calling process starts, that has one thread; an error if the configuration requires that.
fn jails_lack(file: &NodeFile) -> Result<Vec<jail::Part>> {
    let lacks = jail::lacks();
    match file.jails_require().into_iter().find(|part| lacks.contains(part)) {
        Some(lacking) => bail!("[security] require has \"{}\": jails have {}", lacking.name(), lacking.lack()),
        None => Ok(lacks),
    }
}

fn refuse_lack(file: &NodeFile, weaker: &[Part]) -> Result<()> {
    match file.security.require.iter().find(|part| weaker.contains(part)) {
        Some(lacking) => bail!("[security] require has \"{}\": {}", lacking.name(), lacking.lack()),
        None => Ok(()),
    }
}

/// That of this process.
static ENTERED: OnceLock<Sandbox> = OnceLock::new();

/// What this process is confined by, if it is.
pub fn entered() -> Option<Sandbox> {
    let mut sandbox = ENTERED.get()?.clone();
    if let Ok(standing) = privileges::standing("/proc/self") {
        // The worker's own list came later.
        sandbox.standing = standing;
    }
    Some(sandbox)
}

/// Confines the calling process, which must have one thread and no privileges, to what a node needs: of files, those
/// behind these descriptors to write to, and the system's to read. An error if this host lacks what the configuration
/// requires.
pub(super) fn enter(
    file: &NodeFile,
    [writes, reads]: &[Vec<OwnedFd>; 2],
    user: Option<String>,
    jails_weaker: Vec<jail::Part>,
) -> Result<()> {
    let mut weaker = Vec::new();
    let standing = privileges::standing("/proc/self")?;
    if user.is_none() || standing.user == 0 {
        weaker.push(Part::User);
    }
    if !files_of_node::hide_others(writes, reads)? {
        weaker.push(Part::Landlock);
    }
    if jail::has_seccomp() {
        threads::confine(file.lets_programs_in())?;
    } else {
        weaker.push(Part::Seccomp);
    }
    refuse_lack(file, &weaker)?;
    let user = user.unwrap_or_else(|| format!("{}, who started it", standing.user));
    for part in &weaker {
        tracing::warn!(part = part.name(), "{}", part.lack());
    }
    for part in &jails_weaker {
        tracing::warn!(part = part.name(), "jails of compiler, loader and environments: {}", part.lack());
    }
    // It is entered once.
    let _ = ENTERED.set(Sandbox { user, standing, weaker, jails_weaker });
    Ok(())
}
