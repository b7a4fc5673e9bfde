//! Messages between the node and its broker: one request, one answer, a few hundred bytes each. Example: "the AF_XDP
//! socket of eth1, queue 0".
//!
//! A message is one JSON value of a closed type; descriptors go beside it. One thing in it comes from a network: the
//! address of a next hop ([`Request::Neighbour`]), 16 bytes, which the kernel looks up at an interface of the node. All
//! else names interfaces, places in the kernel, and this project's programs and maps. Reading is total
//! (`fuzz/fuzz_targets/broker.rs`), and the result is still checked against the configuration (`allowed`).

use crate::contract::plan::{KernelPlan, PLAN_BYTES};
use crate::wire::Addr;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Bytes of the longest request but one.
pub const REQUEST_MAX: usize = 2 << 10;

/// Bytes of the longest request, which has a graph in it.
pub const LONGEST_REQUEST: usize = PLAN_BYTES + REQUEST_MAX;

/// Bytes of the longest answer.
pub const ANSWER_MAX: usize = 64 << 10;

/// Bytes of the longest name of a map, a program or a pin.
pub const NAME_MAX: usize = 96;

/// Bytes of the longest name of who has given a configuration.
pub const WHO_MAX: usize = 200;

/// Names in one answer.
pub const NAMES_MAX: usize = 256;

/// Bytes of the reason of a refusal: the verifier's last words are the longest.
pub const WHY_MAX: usize = 4 << 10;

/// What the node asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// A packet socket on an interface, with its ring. Descriptor: its filter, if there is one.
    Packet {
        /// The interface's index.
        interface: u32,
        /// The Ethernet type of its frames; 3: any.
        kind: u16,
        /// Bytes of the longest frame.
        longest: u32,
        /// Bytes of the ring, a power of two; 0: the smallest.
        ring: u32,
        /// Whether it shares the frames with another one, the last descriptor: each has those of its receive queues.
        beside: bool,
    },
    /// An AF_XDP socket that is bound to nothing yet, whose driver is polled for so many microseconds.
    Xdp {
        /// 0: not at all.
        busy_poll_us: u32,
    },
    /// Makes shared memory that of the frames of an AF_XDP socket. Descriptors: the socket, the memory.
    Frames {
        /// Bytes of one frame.
        chunk: u32,
        /// Bytes of all.
        bytes: u64,
    },
    /// A socket for the neighbour advertisements that come in by an interface.
    Discovery {
        /// Its index.
        interface: u32,
    },
    /// A UDP socket of an overlay port.
    Udp {
        /// Where it listens.
        at: SocketAddr,
        /// Whether it shares the datagrams with others of this node: each has those of its neighbours.
        shared: bool,
    },
    /// A TCP socket that listens: for PLAN ports, or for streams of environments.
    Tcp {
        /// Where.
        at: SocketAddr,
    },
    /// A TCP socket that is being connected, for a stream of an environment, or to a host of `[http]`.
    Connect {
        /// Whereto.
        at: SocketAddr,
    },
    /// A socket that listens in the node's run directory.
    Listen {
        /// Which.
        socket: LocalSocket,
    },
    /// A map.
    Map {
        /// As this project calls it.
        name: String,
        /// Its shape, which must be that of a map of this name.
        shape: Shape,
    },
    /// A program of this project's. Descriptors: its maps, in its order.
    Program {
        /// As this project calls it.
        name: String,
    },
    /// The program of a graph. Descriptors: its maps, in its order.
    Graph {
        /// What it does; its ports are interfaces.
        plan: KernelPlan,
    },
    /// Puts a program before an interface. Descriptors: the program; a map of programs, if one that stands there by netlink may be
    /// jumped to by it.
    Attach {
        /// The interface's index.
        interface: u32,
        /// Where.
        place: Place,
    },
    /// Something with names in the BPF file system of the run directory.
    Pins(PinRequest),
    /// Has the kernel look for the link address of a next hop.
    Neighbour {
        /// The interface's index.
        interface: u32,
        /// The next hop.
        addr: Addr,
    },
    /// Turns a setting of an interface off, or on again where it was turned off.
    Set {
        /// Its name, as ethtool(8) calls it.
        setting: String,
        /// That of the interface.
        interface: String,
        /// Whether it is turned on again.
        on: bool,
    },
    /// Makes a thread of the node's a real-time one, with the priority of the configuration.
    Realtime {
        /// Its number.
        thread: i32,
        /// Among real-time threads.
        priority: u8,
    },
    /// A process that confines itself and serves the node: the other end of its socket.
    Helper {
        /// Which.
        kind: Helper,
    },
    /// Starts an environment of the configuration, in a jail: its process, the way to its jail, what it says, its connection.
    Start {
        /// Its name.
        environment: String,
    },
    /// Takes away what there still is of an environment's jail that has ended.
    Clear {
        /// The process that was started.
        process: u32,
    },
    /// The node runs: what was set up stays as it would without a broker.
    Runs,
    /// A configuration that an operator has given: with the keys of its neighbours, in a file without a name.
    Offer(Wanted),
    /// The node has the configuration that was offered under this number; what it asks for is checked against that.
    Hold {
        /// Its number.
        number: u64,
        /// What of it needs a restart is left out.
        partly: bool,
    },
    /// The node makes itself ready for the configuration that was offered under this number: until it is settled, the node
    /// may have what either has. Its interfaces are the node's, or it is refused.
    Reach {
        /// Its number.
        number: u64,
        /// What of it needs a restart is left out.
        partly: bool,
    },
    /// The node has no more than the configuration that it has: other interfaces are not its own any more.
    Settle,
    /// The configurations that ran, in a file without a name.
    History,
}

/// The name of the broker's own socket in a run directory.
pub const OPERATOR_SOCKET: &str = "operator.sock";

/// A configuration that the node asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Wanted {
    /// The one that an operator has given under this number.
    Given(u64),
    /// One that ran, for this one.
    Again {
        /// Its number.
        number: u64,
        /// Who wants that.
        who: String,
        /// Nobody has confirmed the one behind it.
        #[serde(default)]
        returns: bool,
    },
    /// What the file says now that the node was started with.
    Source {
        /// Who wants that.
        who: String,
    },
}

/// A way to the broker. Requests of one are served one after the other; none waits for those of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Sockets, programs, maps, settings: each takes moments.
    Ports,
    /// Processes that serve the node, which have to be started.
    Helpers,
    /// Processes of environments, which may take as long as whoever wrote them likes.
    Environments,
}

impl Lane {
    /// All of them.
    pub const ALL: [Lane; 3] = [Lane::Ports, Lane::Helpers, Lane::Environments];
}

/// Further ways for requests about ports, beside the first: the kernel lets whoever opens a socket wait for all CPUs, and many wait as
/// long as one does.
pub const MORE: usize = 7;

/// All ways: the lanes in their order, then those.
pub const WAYS: usize = Lane::ALL.len() + MORE;

/// The sockets in a node's run directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LocalSocket {
    /// Of applications.
    Apps,
    /// Of whoever looks after the node.
    Control,
    /// Of environments in processes.
    Nodeos,
}

impl LocalSocket {
    /// All of them.
    pub const ALL: [LocalSocket; 3] = [LocalSocket::Apps, LocalSocket::Control, LocalSocket::Nodeos];

    /// The name of its socket.
    pub fn name(self) -> &'static str {
        match self {
            LocalSocket::Apps => "apps.sock",
            LocalSocket::Control => "control.sock",
            LocalSocket::Nodeos => "nodeos.sock",
        }
    }
}

/// Processes that confine themselves and serve the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Helper {
    /// What has mobile code verified.
    Loader,
    /// The same for code that a role trusts.
    TrustedLoader,
    /// What compiles wasm.
    Compiler,
    /// What fetches code by HTTP.
    Fetcher,
}

impl Helper {
    /// All of them.
    pub const ALL: [Helper; 4] = [Helper::Loader, Helper::TrustedLoader, Helper::Compiler, Helper::Fetcher];
}

/// What a map is made of: numbers of linux/bpf.h, and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// `enum bpf_map_type`.
    pub kind: u32,
    /// Bytes of a key.
    pub key: u32,
    /// Bytes of a value.
    pub value: u32,
    /// Entries.
    pub entries: u32,
}

/// Where a program stands before an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// XDP, in the driver.
    Driver,
    /// XDP, in the stack.
    Stack,
    /// tcx, at what comes in.
    Ingress,
    /// The tracepoint of redirects that the kernel refuses, of all interfaces.
    Refusals,
}

/// What is done with pins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum PinRequest {
    /// Whether the file system is there.
    IsOpen,
    /// Mounts the file system, if it is not there yet.
    Open,
    /// The names in it, or in the folder of a set, behind this one: some of them, in order.
    Names {
        /// The set.
        set: Option<u32>,
        /// The last one known.
        behind: Option<String>,
    },
    /// Makes the folder of a set.
    Make {
        /// The set.
        set: u32,
    },
    /// Keeps an object by a name, in the place of one that had it. Descriptor: the object.
    Keep(Pin),
    /// The object by a name.
    Fetch(Pin),
    /// Lets the object by a name go, if there is one.
    Forget(Pin),
    /// Lets a set go with all it holds.
    Remove {
        /// The set.
        set: u32,
    },
    /// Puts back what was found at an interface, or at all.
    GiveBack {
        /// The interface's index.
        interface: Option<u32>,
    },
    /// Takes the file system away.
    Close,
}

/// A name in the BPF file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    /// The set in whose folder it is; none: it is beside the sets.
    pub set: Option<u32>,
    /// Letters, digits, '-', '_' and '.', which it does not begin with.
    pub name: String,
}

/// What the broker says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Answer {
    /// It is done; descriptors, if any were asked for, are beside this.
    Done,
    /// It is done, and was so or not.
    Was(bool),
    /// Names.
    Names(Vec<String>),
    /// The jail of an environment; its process, the way to it, what it says and its connection are beside this.
    Jail(Jail),
    /// It could not be done, or may not be.
    Failed {
        /// The system's number of the error, if it has one.
        errno: Option<i32>,
        /// The same for people.
        why: String,
    },
}

/// A jail that runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jail {
    /// The number of its process.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// What was not to be had of it on this host.
    pub weaker: Vec<String>,
    /// Its control groups.
    pub groups: Vec<String>,
    /// Whether the files with its weights, if they are beside this, are of version 2.
    pub unified: bool,
}

impl Request {
    /// Reads a request; nothing: it is none.
    pub fn decode(message: &[u8]) -> Option<Request> {
        let request = serde_json::from_slice(message).ok().filter(|_| message.len() <= LONGEST_REQUEST)?;
        if message.len() > REQUEST_MAX && !matches!(request, Request::Graph { .. }) {
            return None;
        }
        let names_are_good = match &request {
            Request::Map { name, .. } | Request::Program { name } => is_name(name),
            Request::Graph { plan } => plan.is_sound(),
            Request::Start { environment } => environment.len() <= NAME_MAX,
            Request::Set { setting, interface, .. } => is_name(setting) && interface.len() <= NAME_MAX,
            Request::Pins(PinRequest::Keep(pin) | PinRequest::Fetch(pin) | PinRequest::Forget(pin)) => {
                is_name(&pin.name)
            }
            Request::Pins(PinRequest::Names { behind: Some(name), .. }) => is_name(name),
            Request::Offer(Wanted::Again { who, .. } | Wanted::Source { who }) => who.len() <= WHO_MAX,
            _ => true,
        };
        names_are_good.then_some(request)
    }

    /// The way that it takes.
    pub fn lane(&self) -> Lane {
        match self {
            Request::Helper { .. } => Lane::Helpers,
            Request::Start { .. } | Request::Clear { .. } => Lane::Environments,
            _ => Lane::Ports,
        }
    }

    /// The message.
    pub fn encode(&self) -> Vec<u8> {
        // Types of this shape can always be written.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

impl Answer {
    /// Reads an answer; nothing: it is none.
    pub fn decode(message: &[u8]) -> Option<Answer> {
        serde_json::from_slice(message).ok().filter(|_| message.len() <= ANSWER_MAX)
    }

    /// The message.
    pub fn encode(&self) -> Vec<u8> {
        // As above.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// That something failed.
    pub fn failed(error: &std::io::Error) -> Answer {
        let mut why = error.to_string();
        let end = (0..=WHY_MAX.min(why.len())).rev().find(|at| why.is_char_boundary(*at)).unwrap_or(0);
        why.truncate(end);
        Answer::Failed { errno: error.raw_os_error().or_else(|| number_of(error.kind())), why }
    }

    /// The error of an answer that is one.
    pub fn error(errno: Option<i32>, why: String) -> std::io::Error {
        match errno.map(std::io::Error::from_raw_os_error) {
            Some(plain) if plain.to_string() == why => plain,
            Some(plain) => std::io::Error::new(plain.kind(), why),
            None => std::io::Error::other(why),
        }
    }
}

/// The number of an error whose own words have taken its place.
fn number_of(kind: std::io::ErrorKind) -> Option<i32> {
    // EPERM, ENOENT, EACCES, EBUSY, EEXIST, EADDRINUSE.
    let known = [1, 2, 13, 16, 17, 98];
    known.into_iter().find(|number| std::io::Error::from_raw_os_error(*number).kind() == kind)
}

/// Whether a name can be that of a map, a program or a pin: it leads nowhere else in any file system.
pub fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !name.is_empty() && !name.starts_with('.') && name.len() <= NAME_MAX && name.bytes().all(plain)
}
