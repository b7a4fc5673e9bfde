//! `[[ee]]`: execution environments of a node, with program, role and restarts.

use super::cpu::Workers;
use super::{ConfigError, NodeFile, wrong};
use crate::code::bundle::Kind;
use crate::code::module;
use crate::frame::WorkerId;
use crate::nodeos::file::check_holder;
use crate::sys::jail::Part;
use crate::trust::{ANYONE, Role, Roles};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// Environments in processes that one node starts.
pub const ENVIRONMENTS_MAX: usize = 64;

/// Words of one command.
pub const COMMAND_WORDS_MAX: usize = 64;

/// Processes and threads of every jail besides what it was granted: its init, who makes it, and the library's two.
const OWN_TASKS: u32 = 4;

/// Bytes of memory that every process gets for itself, and for each thread of its role.
const DATA_BYTES: u64 = 64 << 20;
/// See [`DATA_BYTES`]: the stack that threads usually have.
const THREAD_BYTES: u64 = 8 << 20;

/// When a process that has ended is started again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Restart {
    /// Whenever it ends.
    Always,
    /// When it fails: by a status other than 0, by a signal, or because its domain was ended by the node.
    #[default]
    OnFailure,
    /// Not.
    Never,
}

/// An environment to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    /// Its name, which is also that of its name space of files.
    pub name: String,
    /// What is run.
    pub program: Program,
    /// What its domain may use.
    pub role: String,
    /// When it is started again.
    pub restart: Restart,
    /// The worker that runs its packets.
    pub worker: WorkerId,
}

/// What an environment is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// A process of its own.
    Process(Process),
    /// A shared object in the node's process, with the words that its main function gets: its path is the first.
    Object(Vec<String>),
}

/// The path or the name of what is run.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Program::Process(Process { command: words, .. }) | Program::Object(words)) = self;
        f.write_str(words.first().map_or("nothing", String::as_str))
    }
}

/// As in the configuration.
impl fmt::Display for Restart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Restart::Always => "always",
            Restart::OnFailure => "on failure",
            Restart::Never => "never",
        })
    }
}

/// A program in a process of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// The program and its arguments, or a module and its.
    pub command: Vec<String>,
    /// What bounds it, if it is a module.
    pub module: Option<ModuleBounds>,
    /// What it may read besides the system's programs and libraries.
    pub reads: Vec<PathBuf>,
    /// Bytes that it may hold in its own memory.
    pub data_bytes: u64,
    /// Processes and threads that it may have.
    pub tasks: u32,
    /// Its share of the processor beside others.
    pub cpu_weight: u32,
    /// Hundredths of a processor that it may use; 0: no limit.
    pub cpu_percent: u32,
    /// From which users, first and last, it gets one of its own.
    pub users: (u32, u32),
    /// Whether it is in the host's network.
    pub host_network: bool,
    /// What of its jail must not be weaker.
    pub required: Vec<Part>,
}

/// What bounds a module besides its jail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModuleBounds {
    /// Milliseconds that a function may work.
    pub thread_ms: u32,
    /// Bytes of its memory.
    pub memory_bytes: u64,
}

/// An execution environment of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnvironmentFile {
    /// Its name: 1 to 32 letters, digits, '-', '_' or '.'. Its files are kept under it.
    pub name: String,
    /// The program and its arguments, in a process of its own.
    #[serde(default)]
    pub command: Vec<String>,
    /// A shared object instead, in the node's process, and its arguments: only in roles that have native code.
    #[serde(default)]
    pub library: Vec<String>,
    /// A WebAssembly module instead, and its arguments, run by this program in a process of its own: in roles that have wasm.
    #[serde(default)]
    pub module: Vec<String>,
    /// The role of its domain.
    #[serde(default = "anyone")]
    pub role: String,
    /// When it is started again.
    #[serde(default)]
    pub restart: Restart,
    /// What its process may read besides the system's programs and libraries, and the directory of its program.
    #[serde(default)]
    pub reads: Vec<PathBuf>,
    /// The worker that runs its packets: 0 is the first of those that `[cpu] workers` says.
    #[serde(default)]
    pub worker: WorkerId,
}

fn anyone() -> String {
    ANYONE.into()
}

impl NodeFile {
    /// Whether programs of the operator's may run in the node's process: native code, native extensions, and environments that are
    /// objects.
    pub fn lets_programs_in(&self) -> bool {
        let is_native = self.roles.iter().any(|role| role.representations.has(Kind::Native));
        is_native || self.security.native_extensions
    }

    /// The environments, as far as they make sense in these roles.
    pub fn environments(&self, roles: &Roles) -> Result<Vec<Environment>, ConfigError> {
        if let Workers::Count(workers) = self.cpu.workers {
            self.check_workers(workers)?;
        }
        self.environments
            .iter()
            .map(|environment| environment.plan(roles, self.jail.users, &self.jails_require()))
            .collect()
    }
}

impl NodeFile {
    /// Whether there are the workers that environments are to have.
    pub fn check_workers(&self, workers: WorkerId) -> Result<(), ConfigError> {
        self.environments.iter().try_for_each(|environment| environment.check_worker(workers))
    }
}

impl EnvironmentFile {
    /// Whether there is the worker that it is to have.
    fn check_worker(&self, workers: WorkerId) -> Result<(), ConfigError> {
        let (name, worker) = (&self.name, self.worker);
        if worker < workers {
            return Ok(());
        }
        let last = workers.saturating_sub(1);
        wrong(format!(
            "ee {name}: worker = {worker}: the node's last one is {last}; [cpu] workers = {} would do",
            worker + 1
        ))
    }

    fn plan(&self, roles: &Roles, users: (u32, u32), required: &[Part]) -> Result<Environment, ConfigError> {
        let name = &self.name;
        if check_holder(name).is_err() {
            return wrong(format!(
                "[[ee]] name = '{name}': 1 to 32 letters, digits, '-', '_' or '.', and does not begin with '.'"
            ));
        }
        let Some(role) = roles.iter().find(|role| role.name == self.role) else {
            return wrong(format!("ee {name}: role = \"{}\": no such [[role]]", self.role));
        };
        let program = match (self.module.is_empty(), self.library.is_empty()) {
            (false, _) => Program::Process(self.of_module(role, users, required)?),
            (true, false) => Program::Object(self.object(role)?),
            (true, true) => Program::Process(self.process(role, users, required)?),
        };
        let (role, restart, worker) = (self.role.clone(), self.restart, self.worker);
        Ok(Environment { name: name.clone(), program, role, restart, worker })
    }

    /// A shared object, if the role trusts it with the node.
    fn object(&self, role: &Role) -> Result<Vec<String>, ConfigError> {
        let name = &self.name;
        if !self.command.is_empty() || !self.reads.is_empty() {
            return wrong(format!("ee {name}: library: in the node's process there is neither command nor reads"));
        }
        if !self.library[0].starts_with('/') {
            return wrong(format!("ee {name}: library: '{}' is not absolute", self.library[0]));
        }
        if !role.representations.has(Kind::Native) {
            return wrong(format!(
                "ee {name}: library: the role {} does not include native code; it needs representations = [\"native\"]",
                role.name
            ));
        }
        check_words(name, "library", &self.library)?;
        Ok(self.library.clone())
    }

    /// A module, for a process of this program's that runs it.
    fn of_module(&self, role: &Role, users: (u32, u32), required: &[Part]) -> Result<Process, ConfigError> {
        let (name, path) = (&self.name, &self.module[0]);
        if !self.command.is_empty() || !self.library.is_empty() {
            return wrong(format!("ee {name}: module: an environment is one of command, library and module"));
        }
        if !self.reads.is_empty() {
            return wrong(format!(
                "ee {name}: module: a module reads no files but by an_fileOpen(), so there are no reads"
            ));
        }
        if !path.starts_with('/') {
            return wrong(format!("ee {name}: module: '{path}' is not absolute"));
        }
        if !role.representations.has(Kind::Wasm) {
            return wrong(format!(
                "ee {name}: module: the role {} does not include WebAssembly; it needs representations = [\"wasm\"]",
                role.name
            ));
        }
        check_words(name, "module", &self.module)?;
        let (thread_ms, memory_bytes) = (role.grants.thread_ms, role.grants.memory_bytes);
        Ok(Process {
            command: self.module.clone(),
            module: Some(ModuleBounds { thread_ms, memory_bytes }),
            reads: vec![path.into()],
            ..self.in_role(role, users, required)
        })
    }

    /// A program, for a process.
    fn process(&self, role: &Role, users: (u32, u32), required: &[Part]) -> Result<Process, ConfigError> {
        let name = &self.name;
        let Some(program) = self.command.first().filter(|program| !program.is_empty()) else {
            return wrong(format!(
                "ee {name}: command: the program and its arguments, as in [\"/usr/bin/program\", \"-v\"]"
            ));
        };
        if program.contains('/') && !program.starts_with('/') {
            return wrong(format!(
                "ee {name}: command: '{program}' is neither absolute nor a name to be found in PATH"
            ));
        }
        check_words(name, "command", &self.command)?;
        if let Some(path) = self.reads.iter().find(|path| !path.is_absolute()) {
            return wrong(format!("ee {name}: reads: {} is not absolute", path.display()));
        }
        Ok(Process { command: self.command.clone(), reads: self.reads.clone(), ..self.in_role(role, users, required) })
    }

    /// What a process has in its role.
    fn in_role(&self, role: &Role, users: (u32, u32), required: &[Part]) -> Process {
        let grants = &role.grants;
        Process {
            command: Vec::new(),
            module: None,
            reads: Vec::new(),
            data_bytes: data_bytes(role),
            tasks: grants.processes.saturating_add(grants.threads.into()).saturating_add(OWN_TASKS),
            cpu_weight: grants.weight,
            cpu_percent: grants.cpu_percent,
            users,
            host_network: grants.host_network,
            required: required.to_vec(),
        }
    }
}

impl Process {
    /// What is started: the program, or this one to run a module.
    pub fn words(&self) -> std::io::Result<Vec<String>> {
        let Some(ModuleBounds { thread_ms, memory_bytes }) = self.module else { return Ok(self.command.clone()) };
        let own = std::env::current_exe()?.to_string_lossy().into_owned();
        let before = [own, module::ARGUMENT.into(), thread_ms.to_string(), memory_bytes.to_string()];
        Ok(before.into_iter().chain(self.command.iter().cloned()).collect())
    }
}

fn check_words(name: &str, key: &str, words: &[String]) -> Result<(), ConfigError> {
    if words.len() > COMMAND_WORDS_MAX || words.iter().any(|word| word.contains('\0')) {
        return wrong(format!("ee {name}: {key}: at most {COMMAND_WORDS_MAX} words, without NUL"));
    }
    Ok(())
}

/// What a process in a role may hold in memory of its own.
fn data_bytes(role: &Role) -> u64 {
    DATA_BYTES.saturating_add(role.grants.memory_bytes).saturating_add(u64::from(role.grants.threads) * THREAD_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: &str =
        "name = \"a\"\n[[port]]\nudp = \"127.0.0.1:4001\"\naddress = [\"10.0.0.1/24\"]\n[[role]]\nname = \"ee\"\n";

    fn plan(rest: &str) -> Result<Vec<Environment>, ConfigError> {
        let file = NodeFile::parse(&format!("{NODE}[[ee]]\n{rest}"))?;
        let (config, _) = file.plan()?;
        file.environments(&config.roles)
    }

    #[test]
    fn an_environment_is_planned_from_its_table() {
        let all = plan("name = \"f\"\ncommand = [\"sh\", \"-c\", \"x\"]\nrole = \"ee\"\nrestart = \"always\"").unwrap();
        assert_eq!((all[0].role.as_str(), all[0].restart), ("ee", Restart::Always));
        let Program::Process(process) = &all[0].program else { panic!("{:?}", all[0]) };
        assert_eq!((process.command.len(), process.data_bytes), (3, (64 << 20) + (1 << 20) + (8 << 20)));
        assert_eq!(plan("name = \"f\"\ncommand = [\"x\"]").unwrap()[0].role, ANYONE);
        let module = plan("name = \"f\"\nmodule = [\"/x/f.wasm\", \"-v\"]\nrole = \"ee\"").unwrap();
        let Program::Process(process) = &module[0].program else { panic!("{:?}", module[0]) };
        assert_eq!(process.words().unwrap()[1..], ["module-as-process", "10000", "1048576", "/x/f.wasm", "-v"]);
        assert_eq!((process.reads.len(), module[0].program.to_string()), (1, "/x/f.wasm".to_owned()));
    }

    #[test]
    fn mistakes_are_refused_with_cause_and_remedy() {
        for (rest, part) in [
            ("name = \"../f\"\ncommand = [\"x\"]", "[[ee]] name = '../f'"),
            ("name = \"f\"\ncommand = []", "ee f: command: the program and its arguments"),
            ("name = \"f\"\ncommand = [\"./x\"]", "neither absolute nor a name"),
            ("name = \"f\"\ncommand = [\"x\"]\nrole = \"none\"", "no such [[role]]"),
            ("name = \"f\"\ncommand = [\"x\"]\nrole = \"node\"", "no such [[role]]"),
            ("name = \"f\"\ncommand = [\"x\"]\nreads = [\"here\"]", "here is not absolute"),
            ("name = \"f\"\ncommand = [\"x\"]\nrestart = \"often\"", "on-failure"),
            ("name = \"f\"\ncommand = [\"x\"]\n[[ee]]\nname = \"f\"\ncommand = [\"x\"]", "[[ee]] name: f stands twice"),
            ("name = \"f\"", "ee f: command: the program and its arguments"),
            ("name = \"f\"\ncommand = [\"x\"]\nworker = 2\n[cpu]\nworkers = 2", "[cpu] workers = 3 would do"),
            ("name = \"f\"\ncommand = [\"x\"]\nworker = -1", "worker"),
            ("name = \"f\"\nlibrary = [\"/f.so\"]\nrole = \"ee\"", "the role ee does not include native code"),
            ("name = \"f\"\nlibrary = [\"/f.so\"]", "the role anyone does not include native code"),
            ("name = \"f\"\nlibrary = [\"f.so\"]\nrole = \"ee\"", "'f.so' is not absolute"),
            ("name = \"f\"\nmodule = [\"f.wasm\"]\nrole = \"ee\"", "'f.wasm' is not absolute"),
            ("name = \"f\"\nmodule = [\"/f.wasm\"]\ncommand = [\"x\"]", "one of command, library and module"),
            ("name = \"f\"\nmodule = [\"/f.wasm\"]\nreads = [\"/x\"]", "so there are no reads"),
            (
                "name = \"f\"\nmodule = [\"/f.wasm\"]\nrole = \"b\"\n[[role]]\nname = \"b\"\nrepresentations = [\"bpf\"]",
                "the role b does not include WebAssembly",
            ),
            ("name = \"f\"\nlibrary = [\"/f.so\"]\ncommand = [\"x\"]", "neither command nor reads"),
        ] {
            let why = plan(rest).unwrap_err().to_string();
            assert!(why.contains(part), "{why:?} and not {part:?}");
        }
        let refused = NodeFile::parse(&NODE.replace("name = \"ee\"", "name = \"node\"")).unwrap().plan();
        assert!(refused.unwrap_err().to_string().contains("the node's own role"));
    }
}
