//! The configuration file of a node, and its way into a node.
//!
//! One TOML file describes one node; `anode node check` explains it and `anode node run` runs it. Unknown keys are
//! refused, so a misspelt limit cannot be a missing limit. Double entries and more entries than the node's tables hold
//! are refused too.

mod bounds;
mod changed;
pub mod classify;
pub mod compiler;
pub mod cpu;
pub mod difference;
pub mod discipline;
mod edits;
pub mod entry;
pub mod environments;
pub mod extensions;
pub mod graphs;
pub mod guard;
pub mod half;
mod host;
pub mod http;
pub mod input;
pub mod jail;
mod lists;
pub mod part;
pub mod places;
pub mod plan;
mod ports;
mod remarks;
pub(crate) mod routes;
pub mod security;
pub mod whole;
mod written;

use crate::frame::{PeerId, PortId};
use crate::node::{NodeConfig, Sizes};
use crate::port::Opening;
use crate::port::sorted::SortingSpec;
use crate::sys::netlink::{self, Interface};
use crate::sys::process;
use crate::topology::{Neighbour, Port, Routes};
use crate::trust::{Role, Roles};
use crate::wire::{Addr, Prefix};
use cpu::CpuFile;
use half::KernelWish;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeFile {
    /// The node's name: 1 to 32 letters, digits, '-', '_' or '.'.
    pub name: String,
    /// Where its sockets are; by default below the user's run directory.
    pub run_dir: Option<PathBuf>,
    /// Where its code is kept; by default nowhere but in memory.
    pub store: Option<PathBuf>,
    /// Where files of domains are kept; without it they have none.
    pub files: Option<PathBuf>,
    /// Execution environments that it runs, in processes of their own.
    #[serde(default, rename = "ee")]
    pub environments: Vec<environments::EnvironmentFile>,
    /// The jails of environments.
    #[serde(default)]
    pub jail: jail::JailFile,
    /// Which routes it uses besides those of `route`.
    #[serde(default)]
    pub routes: RouteSource,
    /// What code may use, by whose it is; `anyone` is always among them.
    #[serde(default, rename = "role")]
    pub roles: Vec<Role>,
    /// Sizes of its tables.
    #[serde(default)]
    pub sizes: Sizes,
    /// How its AF_XDP sockets work.
    #[serde(default)]
    pub xdp: XdpFile,
    /// What it gets of a CPU.
    #[serde(default)]
    pub cpu: CpuFile,
    /// From which port it takes frames next.
    #[serde(default)]
    pub input: input::InputFile,
    /// How code is compiled.
    #[serde(default)]
    pub compiler: compiler::CompilerFile,
    /// What neighbours may use of it.
    #[serde(default)]
    pub entry: entry::EntryFile,
    /// Protocols that are taught, and whose packets are whose.
    #[serde(default)]
    pub classify: classify::ClassifyFile,
    /// Its extensions.
    #[serde(default, rename = "extension")]
    pub extensions: Vec<extensions::ExtensionFile>,
    /// From where extensions may fetch code.
    #[serde(default)]
    pub http: http::HttpFile,
    /// Its graphs.
    #[serde(default, rename = "graph")]
    pub graphs: Vec<crate::node::graphs::GraphSpec>,
    /// Its PLAN environment.
    #[serde(default)]
    pub plan: plan::PlanFile,
    /// Who it is, and what this host must have.
    #[serde(default)]
    pub security: security::SecurityFile,
    /// Its ports.
    #[serde(default, rename = "port")]
    pub ports: Vec<PortFile>,
    /// Its static routes.
    #[serde(default, rename = "route")]
    pub static_routes: Vec<RouteFile>,
    /// Which keys it has.
    #[serde(skip)]
    pub written: written::Written,
    /// Where it was read, if it was.
    #[serde(skip)]
    pub source: Option<PathBuf>,
    /// Its text as it was read: the file may be another one later, or none that can be read twice.
    #[serde(skip)]
    pub text: Arc<str>,
}

/// Where routes come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RouteSource {
    /// The file alone.
    #[default]
    Static,
    /// The kernel's main tables too, followed as they change.
    Kernel,
}

/// AF_XDP sockets, those of all ports alike.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct XdpFile {
    /// Who gets frames from the driver into memory.
    pub mode: XdpMode,
    /// For how long the driver is polled by the worker when a frame has come; 0: the worker sleeps.
    pub busy_poll_us: u32,
    /// Frames that can wait in a receive queue's socket, and in that which sends; a power of two.
    pub frames_per_queue: u32,
    /// Receive queues of an interface that get a socket, from the first; the others' frames come up the stack.
    pub queues_max: u32,
}

impl Default for XdpFile {
    fn default() -> XdpFile {
        XdpFile { mode: XdpMode::Auto, busy_poll_us: 0, frames_per_queue: 2048, queues_max: 64 }
    }
}

/// Who gets frames from the driver into memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum XdpMode {
    /// The drivers, if all can; else the kernel.
    #[default]
    Auto,
    /// The kernel, by copying.
    Copy,
    /// The drivers; a port whose driver cannot has no AF_XDP socket.
    ZeroCopy,
}

/// A port of the file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortFile {
    /// Its name; by default that of its interface, or `udp-` and the number of its UDP port.
    pub name: Option<String>,
    /// An overlay port listens here.
    pub udp: Option<SocketAddr>,
    /// A native port is this interface.
    pub packet: Option<String>,
    /// The node's addresses on an overlay port, each with its subnet's length.
    #[serde(default)]
    pub address: Vec<String>,
    /// Bytes of the largest packet.
    pub mtu: Option<usize>,
    /// The link's capacity, for `an_link_load`.
    #[serde(default)]
    pub bits_per_second: u64,
    /// Whether capsules of a native port run in the kernel when they may.
    #[serde(default)]
    pub kernel: KernelWish,
    /// Whether capsules of a native port come and go by AF_XDP sockets.
    #[serde(default)]
    pub xdp: bool,
    /// The most that a resource bound counts for that comes in by it, in frames: of PLAN packets, and of capsules whose
    /// code acts for `anyone`.
    #[serde(default, deserialize_with = "bounds::bound")]
    pub bound_max: Option<u32>,
    /// The same for capsules whose code acts in another role, and PLAN packets whose signer does.
    #[serde(default, deserialize_with = "bounds::bound")]
    pub signed_bound_max: Option<u32>,
    /// Write all its frames to this capture file.
    pub pcap: Option<PathBuf>,
    /// Which of the frames that wait to leave is next, and at which rate.
    pub discipline: Option<discipline::DisciplineFile>,
    /// What it has beside other ports where an order says of which the next frames are taken.
    pub input: Option<input::PortInput>,
    /// What says what waits on the link, and how busy it is, for `an_link_queue` and `an_link_load`.
    pub meter: Option<PortMeter>,
    /// What it demands of what comes in by it.
    #[serde(default, deserialize_with = "guard::demands")]
    pub demand: Vec<guard::Demand>,
    /// Whether it says hello and listens for it; by default an overlay port does.
    pub hello: Option<bool>,
    /// Milliseconds between two hellos, at least.
    pub hello_interval_ms: Option<u32>,
    /// Active nodes behind it.
    #[serde(default)]
    pub neighbours: Vec<NeighbourFile>,
}

/// A meter of a lab's link.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortMeter {
    /// The lab's file of meters.
    pub file: PathBuf,
    /// The meter's name there.
    pub name: String,
}

/// A neighbour of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NeighbourFile {
    /// Its address.
    pub address: Addr,
    /// Where its overlay port listens.
    pub at: Option<SocketAddr>,
    /// Files with secrets that it shares with this node; the first is used to send.
    #[serde(default)]
    pub keys: Vec<PathBuf>,
    /// The role in which parts of its graphs run here; without one it has none here.
    pub graphs: Option<String>,
}

/// A static route of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteFile {
    /// Where to.
    pub to: Prefix,
    /// The next hop, which must be on a subnet or a neighbour of a port.
    pub via: Addr,
}

/// What is wrong with a configuration, and what to do.
#[derive(Debug)]
pub struct ConfigError(String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

fn wrong<T>(why: impl Into<String>) -> Result<T, ConfigError> {
    Err(ConfigError(why.into()))
}

/// A port ready to be opened.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How.
    pub opening: Opening,
    /// Its capture file.
    pub pcap: Option<PathBuf>,
    /// What its frames are sorted by before they leave.
    pub sorting: Option<Arc<SortingSpec>>,
}

impl NodeFile {
    /// Whether the node has a kernel half, at whichever ports.
    pub fn has_half(&self) -> bool {
        let says = |wish| self.ports.iter().any(|port| port.kernel == wish);
        says(KernelWish::Yes) || says(KernelWish::Auto) && self.obeys_the_kernel()
    }

    /// Whether its routes are the kernel's alone.
    pub fn obeys_the_kernel(&self) -> bool {
        self.routes == RouteSource::Kernel && self.static_routes.is_empty()
    }
}

impl NodeFile {
    /// Reads the file at `path`.
    pub fn read(path: &Path) -> Result<NodeFile, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigError(format!("cannot read {}: {error}", path.display())))?;
        let named = |ConfigError(why)| ConfigError(format!("{}: {why}", path.display()));
        let mut file = NodeFile::parse(&text).map_err(named)?;
        file.source = std::path::absolute(path).ok();
        Ok(file)
    }

    /// Reads the file's text.
    pub fn parse(text: &str) -> Result<NodeFile, ConfigError> {
        let mut file: NodeFile =
            toml::from_str(text).map_err(|error| ConfigError(error.to_string().trim_end().into()))?;
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if file.name.is_empty() || file.name.len() > 32 || !file.name.chars().all(plain) || file.name.starts_with('.') {
            return wrong(format!(
                "name = '{}': a node's name is 1 to 32 letters, digits, '-', '_' or '.', and does not begin with '.'",
                file.name
            ));
        }
        if file.ports.is_empty() {
            return wrong(
                "no [[port]]: a node needs at least one, with udp = \"ADDRESS:PORT\" or packet = \"INTERFACE\"",
            );
        }
        file.ports.iter().try_for_each(PortFile::check_place)?;
        if !file.xdp.frames_per_queue.is_power_of_two() || !(64..=16_384).contains(&file.xdp.frames_per_queue) {
            return wrong(format!(
                "[xdp] frames_per_queue = {}: a power of two from 64 to 16384",
                file.xdp.frames_per_queue
            ));
        }
        file.written = written::Written::of(text);
        file.text = text.into();
        file.check_ingress()?;
        file.entry.limits().map_err(ConfigError)?;
        file.input()?;
        file.check_locked(&file.classify.classifying().map_err(ConfigError)?)?;
        let tables = file.cpu.check().and_then(|()| file.jail.check()).and_then(|()| file.security.check());
        tables.map_err(ConfigError)?;
        file.http.check().map_err(ConfigError)?;
        file.check_users()?;
        file.prepared_graphs(&file.offered_classes()?)?;
        if file.xdp.queues_max == 0 {
            return wrong("[xdp] queues_max = 0: a port with xdp = true needs at least one; leave xdp out instead");
        }
        Ok(file)
    }

    /// The directory of the node's sockets.
    pub fn run_dir(&self) -> PathBuf {
        self.run_dir.clone().unwrap_or_else(|| default_run_dir(&self.name))
    }

    /// The same with that written out. By default it depends on who asks, and a node becomes somebody else.
    pub fn placed(mut self) -> NodeFile {
        self.run_dir = Some(self.run_dir());
        self
    }

    /// The same for a node that runs with another one: its sockets stay where they are.
    pub fn placed_as(mut self, running: &NodeFile) -> NodeFile {
        self.run_dir = self.run_dir.or_else(|| running.run_dir.clone());
        self
    }

    /// The node and its ports, as the host's interfaces are now.
    pub fn plan(&self) -> Result<(NodeConfig, Vec<Plan>), ConfigError> {
        self.check_lists()?;
        let native = self.ports.iter().any(|port| port.packet.is_some()) || self.routes == RouteSource::Kernel;
        let interfaces = if native {
            netlink::interfaces()
                .map_err(|error| ConfigError(format!("cannot read the host's interfaces by netlink: {error}")))?
        } else {
            Vec::new()
        };
        let (mut ports, mut plans, mut neighbours) = (Vec::new(), Vec::new(), Vec::new());
        for (at, (file, title)) in self.ports.iter().zip(self.titles()).enumerate() {
            let id = PortId(at as u16);
            let (mut port, plan) = file.plan(&interfaces)?;
            port.name = title;
            for (at, neighbour) in file.neighbours.iter().enumerate() {
                let peer = if file.udp.is_some() { PeerId(at as u16) } else { PeerId::NONE };
                neighbours.push(Neighbour { addr: neighbour.address, port: id, peer });
            }
            ports.push(port);
            plans.push(plan);
        }
        let mut config = NodeConfig {
            name: self.name.clone(),
            ports,
            neighbours,
            routes: Arc::new(Routes::default()),
            roles: Arc::new(Roles::new(self.roles.clone()).map_err(ConfigError)?),
            sizes: self.sizes,
            seed: std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), &self.name),
            kernel: self.has_half(),
        };
        if config.kernel && !self.obeys_the_kernel() {
            return wrong(
                "kernel = true needs routes = \"kernel\" and no [[route]]: in the kernel half the kernel's routes are obeyed",
            );
        }
        config.routes = Arc::new(self.first_routes(&config)?);
        Ok((config, plans))
    }

    /// What each native port's interface is now, which is waited for if it is not there or no Ethernet; nothing of other ports.
    pub fn native_ports(&self, interfaces: &[Interface]) -> Vec<Option<(Port, Plan)>> {
        let now = |file: &PortFile| {
            let packet = file.packet.as_ref();
            packet.and_then(|_| file.plan(interfaces).or_else(|_| file.plan(&[])).ok())
        };
        self.ports.iter().map(now).collect()
    }
}

/// Where the sockets of a node of this name are unless its file says otherwise.
pub fn default_run_dir(name: &str) -> PathBuf {
    run_base().join("anode").join(name)
}

/// What the user who asks may write to: the session's run directory; without one root's is `/run`, and others' is in their home.
fn run_base() -> PathBuf {
    let of_variable = |name: &str| std::env::var_os(name).filter(|dir| !dir.is_empty()).map(PathBuf::from);
    if let Some(session) = of_variable("XDG_RUNTIME_DIR") {
        return session;
    }
    if process::is_root() {
        return "/run".into();
    }
    let session = PathBuf::from(format!("/run/user/{}", rustix::process::geteuid().as_raw()));
    let at_home = || of_variable("HOME").map(|home| home.join(".local/state"));
    if session.is_dir() { session } else { at_home().unwrap_or_else(|| "/run".into()) }
}

#[cfg(test)]
mod tests;
