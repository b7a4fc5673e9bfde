//! Helper processes of the node, such as the compiler: functions of this program in jails, without a user of the host,
//! files or network.

use super::acts::{name_of, refused};
use super::allowed::Allowed;
use super::client::{Done, ask, is_there};
use super::configurations::Configurations;
use super::jails::jails_name;
use super::message::{Helper, Request};
use crate::code::{compiler, http};
use crate::config::NodeFile;
use crate::config::compiler::CompilerFile;
use crate::config::jail::JailFile;
use crate::kernel::loader;
use crate::sys::jail::{Capability, Group, Identity, Jail, Jailed, Limits, Part, Paths, Program, Starter};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Descriptors of a helper.
const DESCRIPTORS: u64 = 256;

/// Mebibytes of compilers that compile nothing, and of a job besides what it may use.
const COMPILER_MIB: u64 = 256;
const JOB_MIB: u64 = 16;

/// Mebibytes of memory of its own that a loader of kernel programs may have: a program is 4,096 instructions, and the
/// verifier's words a few mebibytes.
const LOADER_MIB: u64 = 256;

/// Processes of the compiler that are not jobs or their servers.
const COMPILER_TASKS: u32 = 8;

/// The jail of a helper that this process has started; it ends with this value.
#[derive(Debug)]
pub struct HelpersJail(Jailed);

impl Drop for HelpersJail {
    fn drop(&mut self) {
        self.0.kill();
        self.0.wait();
    }
}

/// Starts a helper that is `program`, or has it started: its jail, unless that is the broker's, and the node's end of
/// its socket. One of the broker's ends with its socket, or when another takes its place.
pub fn helper(kind: Helper, program: &Path) -> io::Result<(Option<HelpersJail>, OwnedFd)> {
    if is_there() {
        return Ok((None, ask(&Request::Helper { kind }, &[])?.descriptor()?));
    }
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    let name = format!("helper-{}-{}", std::process::id(), SERIAL.fetch_add(1, Ordering::Relaxed));
    let starter = Starter::new(program.to_owned(), &name).map_err(io::Error::other)?;
    // Without a broker nothing is a node's, and nobody has said what it may use.
    start(&jail(kind, JailFile::default().users, None), &starter).map(|(jail, socket)| (Some(jail), socket))
}

/// Those that live: one of each kind at most.
#[derive(Clone, Debug, Default)]
pub(super) struct LivingHelpers(Arc<Mutex<[Option<HelpersJail>; Helper::ALL.len()]>>);

impl LivingHelpers {
    /// Another takes the place of the one of a kind that there was.
    fn put(&self, kind: Helper, jail: Option<HelpersJail>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)[kind as usize] = jail;
    }

    /// Ends those that the configuration does not have any more.
    pub fn keep_allowed(&self, allowed: &Allowed) {
        for kind in Helper::ALL {
            if allowed.check(&Request::Helper { kind }, name_of).is_err() {
                self.put(kind, None);
            }
        }
    }
}

/// What the broker starts.
pub struct Helpers {
    all: Arc<Mutex<Configurations>>,
    run_dir: PathBuf,
    /// The users from which each has its own, and what the compiler may use.
    users: (u32, u32),
    compiler: CompilerFile,
    /// What their jails must not lack.
    required: Vec<Part>,
    /// What starts them, once there was one.
    starter: Option<Starter>,
    living: LivingHelpers,
}

impl Helpers {
    /// None yet, of the node that begins with this configuration.
    pub fn new(file: &NodeFile, all: Arc<Mutex<Configurations>>, run_dir: PathBuf) -> Helpers {
        let (users, compiler) = (file.jail.users, file.compiler);
        let required = file.jails_require();
        Helpers { all, run_dir, users, compiler, required, starter: None, living: LivingHelpers::default() }
    }

    /// Those that live.
    pub(super) fn living(&self) -> LivingHelpers {
        self.living.clone()
    }

    /// Does what is asked for, if it may be.
    pub fn carry_out(&mut self, request: &Request) -> io::Result<Done> {
        let allowed = self.all.lock().unwrap_or_else(PoisonError::into_inner).allowed().clone();
        allowed.check(request, name_of).map_err(refused)?;
        let Request::Helper { kind } = request else { return Err(io::ErrorKind::InvalidInput.into()) };
        // The one before is gone, or nobody's any more.
        self.living.put(*kind, None);
        let starter = match &mut self.starter {
            Some(starter) => starter,
            none => none.insert(starter(&self.run_dir)?),
        };
        let jail = Jail { required: self.required.clone(), ..jail(*kind, self.users, group_of(*kind, &self.compiler)) };
        let (jail, socket) = start(&jail, starter)?;
        self.living.put(*kind, Some(jail));
        Ok(Done::of(socket))
    }

    /// The node is gone.
    pub fn end(self) {
        Helper::ALL.into_iter().for_each(|kind| self.living.put(kind, None));
    }
}

/// Who starts helpers of a node: they have control groups beside those of its environments, and together no more of a
/// busy processor than one thread has.
fn starter(run_dir: &Path) -> io::Result<Starter> {
    let name = format!("{}-helpers", jails_name(run_dir)?);
    Starter::new("/proc/self/exe".into(), &name).map_err(io::Error::other)
}

/// What the compiler's processes may use together.
fn group_of(kind: Helper, file: &CompilerFile) -> Option<Group> {
    // What is loaded into the kernel is charged to whoever has loaded it, and stays when that is gone.
    (kind == Helper::Compiler).then(|| {
        let lanes = file.jobs as u64 + 1;
        let job = u64::from(file.memory_mib) + 2 * u64::from(file.output_mib) + JOB_MIB;
        Group {
            memory_bytes: (COMPILER_MIB + lanes * job) << 20,
            tasks: COMPILER_TASKS + 2 * lanes as u32,
            cpu_weight: 100,
            cpu_percent: 0,
        }
    })
}

/// Starts one.
fn start(jail: &Jail, starter: &Starter) -> io::Result<(HelpersJail, OwnedFd)> {
    let (socket, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let jailed = starter.start(jail, &[other.as_fd()])?;
    for part in &jailed.weaker {
        tracing::debug!(helper = jail.name, "its jail is weaker here: {}", part.lack());
    }
    Ok((HelpersJail(jailed), socket))
}

/// The function of this program that a helper is.
fn title(kind: Helper) -> &'static str {
    match kind {
        Helper::Loader => loader::ARGUMENT,
        Helper::TrustedLoader => loader::TRUSTED,
        Helper::Compiler => compiler::ARGUMENT,
        Helper::Fetcher => http::ARGUMENT,
    }
}

fn jail(kind: Helper, (first, last): (u32, u32), group: Option<Group>) -> Jail {
    let (seccomp, capabilities) = match kind {
        Helper::Loader => ("kernel-loader", vec![Capability::Bpf, Capability::NetAdmin]),
        Helper::TrustedLoader => ("kernel-loader", vec![Capability::Bpf, Capability::NetAdmin, Capability::Perfmon]),
        Helper::Compiler => ("compiler", Vec::new()),
        Helper::Fetcher => ("http", Vec::new()),
    };
    // The compiler's jobs have limits of their own, and its group.
    let data_bytes = (kind != Helper::Compiler).then_some(LOADER_MIB << 20);
    Jail {
        name: title(kind).into(),
        program: Program::Own(title(kind).into()),
        variables: Vec::new(),
        // It finds its socket there.
        keep: vec![0],
        identity: Identity::Own { first, last },
        capabilities,
        host_network: false,
        paths: Paths::default(),
        seccomp: seccomp.into(),
        group,
        limits: Limits { descriptors: Some(DESCRIPTORS), data_bytes, ..Limits::default() },
        required: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn helpers_have_jails_that_can_be_made_and_the_compiler_has_nothing() {
        for kind in Helper::ALL {
            let jail = jail(kind, (60_834, 61_183), group_of(kind, &CompilerFile::default()));
            assert_eq!(jail.check(), Ok(()));
            assert!(!jail.host_network && jail.paths == Paths::default());
            assert_eq!(jail.capabilities.is_empty(), matches!(kind, Helper::Compiler | Helper::Fetcher));
            assert_eq!(jail.capabilities.contains(&Capability::Perfmon), kind == Helper::TrustedLoader);
            assert_eq!(jail.group.is_some(), kind == Helper::Compiler);
            assert!(jail.group.is_some() || jail.limits.data_bytes.is_some(), "its memory has a bound");
        }
    }
}
