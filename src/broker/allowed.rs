//! The requests that a node's configuration allows. Example: a socket on `eth1`, if a `[[port]]` names `eth1`.

use super::message::{Helper, PinRequest, Place, Request};
use crate::config::NodeFile;
use crate::kernel::{found, own};
use crate::sys::packet::{BLOCK_MIN, RING};
use crate::trust::CodeForm;
use crate::trust::limits::Limits;
use crate::trust::streams::StreamGrants;
use std::net::SocketAddr;

/// The first number of a port that asks for no privilege.
const FREE: u16 = 1024;

/// Bytes of memory for the frames of AF_XDP sockets, as `manage/sockets.rs` bounds it.
const FRAMES_MAX: u64 = 512 << 20;

/// Bytes of the longest frame: an IP packet, and what is around it.
const FRAME_MAX: u32 = 128 << 10;

/// What the configuration has.
#[derive(Clone, Debug, Default)]
pub struct Allowed {
    /// Interfaces of native ports, by name.
    interfaces: Vec<String>,
    /// Where overlay ports listen.
    udp: Vec<SocketAddr>,
    /// Where PLAN ports do.
    tcp: Option<SocketAddr>,
    /// Streams of roles.
    streams: Vec<StreamGrants>,
    /// Hosts from which code is fetched.
    http: Vec<SocketAddr>,
    /// Whether there is a kernel half.
    kernel: bool,
    /// Whether there are AF_XDP sockets, and for how long drivers are polled for them.
    xdp: Option<u32>,
    /// Whether a role trusts code in the kernel.
    trusted: bool,
    /// The priority of the worker among real-time threads.
    realtime: Option<u8>,
    /// Environments in processes.
    environments: Vec<String>,
    /// Entries of soft state that a role may have.
    state_entries: u32,
    /// Codes that the node may have.
    codes: usize,
}

/// Names that a set of maps has beside those of codes, or that are beside sets: maps, programs, links of interfaces.
const PINS: usize = 256;

impl Allowed {
    /// What a configuration has.
    pub fn by(file: &NodeFile) -> Allowed {
        let native = || file.ports.iter().filter(|port| port.packet.is_some());
        let roles = file.roles.iter().map(|role| role.limits.state_entries);
        let in_process = file.environments.iter().filter(|environment| environment.library.is_empty());
        Allowed {
            interfaces: native().filter_map(|port| port.packet.clone()).collect(),
            udp: file.ports.iter().filter_map(|port| port.udp).collect(),
            tcp: file.plan.tcp,
            streams: file.roles.iter().map(|role| role.streams.clone()).collect(),
            http: file.http.hosts.values().copied().collect(),
            kernel: file.has_half(),
            xdp: native().any(|port| port.xdp).then_some(file.xdp.busy_poll_us),
            trusted: file.roles.iter().any(|role| role.kernel == CodeForm::Trusted),
            realtime: file.cpu.realtime.then_some(file.cpu.priority),
            environments: in_process.map(|environment| environment.name.clone()).collect(),
            codes: file.sizes.codes,
            state_entries: roles.chain([Limits::default().state_entries]).max().unwrap_or(0),
        }
    }

    /// Whether an overlay port listens there. Where any number will do, further workers ask for the one that the first has got.
    fn has_udp(&self, at: &SocketAddr) -> bool {
        let any = SocketAddr::new(at.ip(), 0);
        self.udp.contains(at) || at.port() >= FREE && self.udp.contains(&any)
    }

    /// Says why a request is beyond the configuration; `name_of` knows the names of interfaces as they are now.
    pub fn check(&self, request: &Request, name_of: impl Fn(u32) -> Option<String>) -> Result<(), String> {
        let native = !self.interfaces.is_empty();
        let interface = |index: u32| match name_of(index) {
            Some(name) if self.interfaces.contains(&name) => Ok(()),
            Some(name) => Err(format!("{name} is no interface of this node's configuration")),
            None => Err(format!("there is no interface {index}")),
        };
        let only =
            |fits: bool, what: &str| if fits { Ok(()) } else { Err(format!("this node's configuration has {what}")) };
        match request {
            Request::Packet { interface: index, longest, ring, .. } => {
                interface(*index)?;
                let fits = *ring == 0 || ring.is_power_of_two() && (BLOCK_MIN..=RING).contains(&(*ring as usize));
                only(fits, "no ring of that size")?;
                only(*longest <= FRAME_MAX, "no frames of that length")
            }
            Request::Xdp { busy_poll_us } => only(self.xdp == Some(*busy_poll_us), "no such AF_XDP socket"),
            Request::Frames { chunk, bytes } => {
                let fits = chunk.is_power_of_two() && *chunk >= 2048 && *bytes <= FRAMES_MAX;
                only(self.xdp.is_some() && fits, "no such AF_XDP socket")
            }
            Request::Attach { place: Place::Refusals, .. } => only(self.kernel, "no kernel half"),
            // Turning on undoes what a file of root's says that this node or one before it has turned off, at whatever interface that was.
            Request::Set { on: true, .. } => Ok(()),
            Request::Set { interface, .. } if self.interfaces.contains(interface) => Ok(()),
            Request::Set { interface, .. } => Err(format!("{interface} is no interface of this node's configuration")),
            Request::Discovery { interface: index }
            | Request::Neighbour { interface: index, .. }
            | Request::Attach { interface: index, .. } => interface(*index),
            Request::Udp { at, .. } => only(self.has_udp(at), "no such overlay port"),
            Request::Tcp { at } => {
                let of_streams = self.streams.iter().any(|streams| streams.may_listen(at));
                only(of_streams || self.tcp == Some(*at), "no such [plan] tcp, nor [role.streams] listen")
            }
            Request::Connect { at } => {
                let of_streams = self.streams.iter().any(|streams| streams.may_connect(at));
                only(of_streams || self.http.contains(at), "no such [role.streams] connect, nor [http] hosts")
            }
            Request::Map { name, shape } => {
                let shape = own::shape_of(*shape);
                let known = shape.is_some_and(|shape| own::knows_map(name, shape));
                only(native, "no native port")?;
                let fits = shape.is_some_and(|shape| own::fits_state(name, shape, self.state_entries));
                only(!known || fits, "no role with so much state")?;
                if known { Ok(()) } else { Err(format!("there is no map '{name}' of this shape")) }
            }
            Request::Program { .. } => only(native, "no native port"),
            Request::Graph { plan } => {
                only(self.kernel, "no kernel half")?;
                let entries = plan.entries.iter().map(|(index, _)| index);
                entries.chain(&plan.exits).try_for_each(|index| interface(*index))
            }
            Request::Realtime { priority, .. } => only(self.realtime == Some(*priority), "no such real-time worker"),
            Request::Helper { kind } => self.check_helper(*kind, only),
            Request::Start { environment } => only(self.environments.contains(environment), "no such [[ee]]"),
            // What was found at interfaces is put back by these names, as root: the broker alone gives them, where `Attach` was allowed.
            Request::Pins(PinRequest::Keep(pin) | PinRequest::Forget(pin)) if found::keeps(&pin.name) => {
                Err(format!("{} is not the node's: it is kept for somebody else", pin.name))
            }
            // They concern what is the node's alone: its run directory, its processes.
            Request::Pins(_) | Request::Listen { .. } | Request::Clear { .. } | Request::Runs => Ok(()),
            // What is given to the node is an operator's.
            Request::Offer(_) | Request::Hold { .. } | Request::History => Ok(()),
            Request::Reach { .. } | Request::Settle => Ok(()),
        }
    }

    fn check_helper(&self, kind: Helper, only: impl Fn(bool, &str) -> Result<(), String>) -> Result<(), String> {
        match kind {
            Helper::Compiler => Ok(()),
            Helper::Fetcher => only(!self.http.is_empty(), "no [http] hosts"),
            Helper::Loader => only(self.kernel, "no kernel half"),
            Helper::TrustedLoader => {
                only(self.kernel, "no kernel half")?;
                only(self.trusted, "no role that trusts code in the kernel")
            }
        }
    }

    /// The most names in a folder of the BPF file system.
    pub(super) fn pins(&self) -> usize {
        self.codes + PINS
    }

    /// Says why a program, which was loaded under this name if it was loaded here, may not stand at a place.
    pub fn check_program(&self, name: Option<&str>, place: Place) -> Result<(), String> {
        match name {
            Some(name) if own::may_stand(name, place) => Ok(()),
            Some(name) => Err(format!("the program {name} is not for that place")),
            None => Err("only programs that were asked for by name stand before interfaces".into()),
        }
    }
}
