//! The start of a broker: the node forks it and gives its own privileges away, before it has any thread.

use super::acts::Acts;
use super::alone::Interfaces;
use super::configurations::Configurations;
use super::helpers::Helpers;
use super::jails::Jails;
use super::message::{OPERATOR_SOCKET, WAYS};
use super::prepare::{self, Ready};
use super::server::Lanes;
use super::{client, listen, sandbox, server};
use crate::config::NodeFile;
use crate::sys::jail;
use crate::sys::privileges::{self, Forked, Identity};
use crate::sys::seqpacket::SeqPacket;
use anyhow::{Context, Result};
use rustix::thread::CapabilitySet;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// What the broker keeps: what its requests need, and nothing that is about the rest of the machine.
const KEPT: CapabilitySet = CapabilitySet::NET_ADMIN
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::BPF)
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::SYS_ADMIN)
    .union(CapabilitySet::SYS_NICE)
    .union(CapabilitySet::SYS_RESOURCE)
    .union(CapabilitySet::IPC_LOCK)
    .union(CapabilitySet::SYS_CHROOT)
    .union(CapabilitySet::MKNOD)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETPCAP)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::CHOWN)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::DAC_OVERRIDE);

/// Makes the calling process, which must have one thread, a node without privileges; what it had of them, if anything, is its broker's.
pub fn begin(file: &NodeFile) -> Result<()> {
    let jails_weaker = sandbox::expected(file)?.jails_weaker;
    let Ready { run_dir, user, lock, interfaces, paths } = prepare::prepare(file)?;
    let (own, others) = lanes()?;
    let node = std::process::id() as i32;
    let identity = user.as_ref().map(|user| user.identity);
    let interfaces = Interfaces::of(file, interfaces)?;
    let lanes = lanes_of(file, run_dir, identity, (node, interfaces))?;
    if privileges::fork().context("the broker cannot be started")? == Forked::Child {
        drop((own, paths));
        be_broker(others, lanes, lock);
    }
    drop((others, lanes));
    // Both hold the locks: nobody takes the directories of the one that outlives the other.
    client::set(own, lock)?;
    privileges::become_user(identity, CapabilitySet::empty()).with_context(|| match &user {
        Some(user) => format!("the node cannot become user {}; see [security] user", user.name),
        None => "the node cannot give its privileges away".into(),
    })?;
    let reached = prepare::keep(paths)?;
    sandbox::enter(file, &reached, user.map(|user| user.name), jails_weaker).context("the node cannot be confined")
}

/// What a broker does for the node of a configuration, which is this process and becomes this user.
pub(super) fn lanes_of(
    file: &NodeFile,
    run_dir: PathBuf,
    user: Option<Identity>,
    (node, interfaces): (i32, Interfaces),
) -> Result<Lanes> {
    let kept =
        Configurations::new(file, &run_dir).with_context(|| format!("{} cannot be written", run_dir.display()))?;
    let all = Arc::new(Mutex::new(kept.with_interfaces(interfaces)));
    let operator = listen::listen_for_operator(&run_dir.join(OPERATOR_SOCKET))?;
    let helpers = Helpers::new(file, all.clone(), run_dir.clone());
    let living = helpers.living();
    Ok(Lanes {
        helpers,
        environments: Jails::new(all.clone(), run_dir.clone()),
        ports: Acts::new(all.clone(), run_dir, user, node).with_helpers(living),
        all,
        operator,
        node,
    })
}

/// The ends of the lanes: the node's, and the broker's.
pub(super) fn lanes() -> Result<([SeqPacket; WAYS], [SeqPacket; WAYS])> {
    let mut pairs = Vec::new();
    for _ in 0..WAYS {
        pairs.push(SeqPacket::pair()?);
    }
    let (own, others): (Vec<_>, Vec<_>) = pairs.into_iter().map(|(own, other)| (own, SeqPacket::of(other))).unzip();
    let all = |sockets: Vec<SeqPacket>| sockets.try_into().map_err(|_| anyhow::anyhow!("a socket for each lane"));
    Ok((all(own)?, all(others)?))
}

/// The broker's process, to its end.
pub(super) fn be_broker(sockets: [SeqPacket; WAYS], lanes: Lanes, lock: Vec<File>) -> ! {
    // It ends when the node does, and not before, whatever is told to the whole group or from a terminal.
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        let _ = crate::sys::process::ignore(signal);
    }
    crate::sys::process::set_name(c"anode-broker");
    let confined = privileges::keep_only(KEPT).and_then(|()| match jail::has_seccomp() {
        true => jail::apply_seccomp("broker"),
        false => Ok(()),
    });
    match confined {
        Ok(()) => {
            if let Err(error) = server::serve(sockets, lanes) {
                tracing::error!(%error, "the broker cannot serve");
            }
        }
        Err(error) => tracing::error!(%error, "the broker cannot give away what it does not need"),
    }
    // Only now may another node have the run directory.
    drop(lock);
    std::process::exit(0)
}
