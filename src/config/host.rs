//! Demands of a configuration on this host, checked before the node runs. Example: an interface that does not exist.

use super::environments::EnvironmentFile;
use super::{ConfigError, NodeFile, wrong};
use crate::code::module;
use crate::sys::{privileges, process};
use rustix::thread::{CapabilitySet, capabilities};
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::ops::RangeInclusive;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The CPUs that are at work, as in `0-3,8`.
const ONLINE: &str = "/sys/devices/system/cpu/online";

/// Jails of every node: the compiler's and the loader's.
const JAILS: usize = 2;

impl NodeFile {
    /// Refuses what whoever asks cannot have on this host: CPUs and addresses that are not there, interfaces without
    /// the privilege, users that are somebody's. What a helper opens is not refused: it has the privilege.
    pub(crate) fn check_host(&self, helped: bool) -> Result<(), ConfigError> {
        self.check_cpus()?;
        self.check_addresses()?;
        if !helped {
            self.check_interfaces()?;
        }
        self.check_accounts()
    }

    /// Refuses addresses to listen at that are others'. Which number is free shows at a start only: a node that runs has its own.
    fn check_addresses(&self) -> Result<(), ConfigError> {
        let any = |at: SocketAddr| SocketAddr::new(at.ip(), 0);
        for (port, title) in self.ports.iter().zip(self.titles()) {
            if let Some(at) = port.udp {
                listens(&format!("port {title}: udp = {at}"), UdpSocket::bind(any(at)).map(drop))?;
            }
        }
        let tcp = self.plan.tcp.filter(|_| self.plan.enabled);
        tcp.map_or(Ok(()), |at| listens(&format!("[plan] tcp = {at}"), TcpListener::bind(any(at)).map(drop)))
    }

    /// Refuses native ports to whoever may open no socket of an interface.
    fn check_interfaces(&self) -> Result<(), ConfigError> {
        let Some((_, title)) = self.ports.iter().zip(self.titles()).find(|(port, _)| port.packet.is_some()) else {
            return Ok(());
        };
        match capabilities(None) {
            Ok(held) if !held.effective.contains(CapabilitySet::NET_RAW) => wrong(format!(
                "port {title}: packet: a socket of an interface needs CAP_NET_RAW, and what stands before it CAP_NET_ADMIN and CAP_BPF: \
                 start the node as root, or use udp ports"
            )),
            _ => Ok(()),
        }
    }

    /// Refuses too few users for the jails of root's node: those that are accounts are given to nobody.
    fn check_accounts(&self) -> Result<(), ConfigError> {
        let ((first, last), accounts) = (self.jail.users, privileges::accounts());
        let theirs = accounts.iter().filter(|uid| (first..=last).contains(uid)).count();
        let processes = self.environments.iter().filter(|environment| !environment.command.is_empty()).count();
        let (free, needed) = ((last - first) as usize + 1 - theirs, JAILS + processes);
        if !process::is_root() || free >= needed {
            return Ok(());
        }
        wrong(format!(
            "[jail] users = [{first}, {last}]: {theirs} of these are accounts of /etc/passwd; compiler, loader and \
             {processes} environments need \
             {needed} that are nobody's: leave the key out, or name others"
        ))
    }

    fn check_cpus(&self) -> Result<(), ConfigError> {
        let Ok(online) = std::fs::read_to_string(ONLINE) else { return Ok(()) };
        let ranges: Vec<_> = online.trim().split(',').filter_map(range).collect();
        let has = |cpu: &usize| ranges.iter().any(|range| range.contains(cpu));
        match self.cpu.affinity.iter().find(|cpu| !has(cpu)) {
            Some(cpu) if !ranges.is_empty() => {
                wrong(format!("[cpu] affinity: this host has no CPU {cpu}; there are {}", online.trim()))
            }
            _ => Ok(()),
        }
    }
}

/// What came of listening at an address with any number.
fn listens(key: &str, bound: io::Result<()>) -> Result<(), ConfigError> {
    match bound {
        Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {
            wrong(format!("{key}: this host has no such address; see: ip address"))
        }
        Err(error) => wrong(format!("{key}: {error}")),
        Ok(()) => Ok(()),
    }
}

/// `3` or `0-3`.
fn range(text: &str) -> Option<RangeInclusive<usize>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some(first.parse().ok()?..=last.parse().ok()?)
}

impl EnvironmentFile {
    /// What it names that is not there. The node runs without it, and tries again and again.
    pub(super) fn missing(&self) -> Vec<String> {
        let name = &self.name;
        let program = self.command.first().filter(|program| find(program).is_none());
        let program = program.map(|program| format!("ee {name}: command: there is no program {program} here"));
        let object = self.library.first().filter(|path| !Path::new(path).is_file());
        let object = object.map(|path| format!("ee {name}: library: there is no file {path}"));
        let module = self.module.first().and_then(|path| module::read(path).err());
        let module = module.map(|why| format!("ee {name}: module: {why}"));
        let reads = self.reads.iter().filter(|path| !path.exists());
        let reads =
            reads.map(|path| format!("ee {name}: reads: {} is not there, so it is not shown to it", path.display()));
        program.into_iter().chain(object).chain(module).chain(reads).collect()
    }
}

/// The file of a program, by its path or its name.
fn find(program: &str) -> Option<PathBuf> {
    let runs =
        |path: &PathBuf| path.metadata().is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0);
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(runs);
    }
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(program)).find(runs)
}
