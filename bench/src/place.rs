//! Places in which a gateway is measured: between two loopback sockets, or between two veth pairs in own namespaces.
//!
//! ```text
//! udp:     burst 127.0.0.1:A ──▶ 127.0.0.1:GATEWAY ──▶ 127.0.0.1:B burst
//! packet:  burst s0 ──▶ r0 │gateway in namespace r, ip_forward off│ r1 ──▶ d0 burst
//! ```
//!
//! A place owns the generator, which is also the sink ([`super::burst`]), and the site of the gateway with whatever must be taken down
//! afterwards. The namespaces are those of [`super::line`].

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::Error;
use super::burst::Generator;
use super::compile::Programs;
use super::gateway::Running;
use super::line::{ANEP_PORT, D_MAC, D0, EGRESS, INGRESS, IP_UDP, Line, S0, Side, frame};

/// CPUs on which generator and gateway run. On one CPU everything is serial, so batches form alike in every run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cpus {
    /// CPU of generator and sink.
    pub(crate) generator: usize,
    /// CPU of the gateway.
    pub(crate) gateway: usize,
}

/// What a gateway must know to stand in a place.
#[derive(Clone, Debug)]
pub(crate) enum Way {
    /// Datagrams come from `previous` to `listen` and must leave for `next`, or for the `other` next hop where there are two.
    Udp { listen: SocketAddr, previous: SocketAddr, next: SocketAddr, other: Option<SocketAddr> },
    /// Frames come in on one interface and must leave on the other.
    Packet { ingress: Side, egress: Side },
}

/// Where a gateway stands: the end of a place that it sees.
#[derive(Debug)]
pub(crate) struct Site {
    /// How packets come and go.
    pub(crate) way: Way,
    /// The UDP port that frames are for.
    pub(crate) port: u16,
    /// An empty folder for the gateway's files; removed with the site.
    pub(crate) scratch: Scratch,
    /// The namespaces, unless the way is loopback.
    pub(crate) line: Option<Line>,
    programs: Programs,
    cpus: Cpus,
}

/// A place: a site and the burst generator around it.
#[derive(Debug)]
pub(crate) struct Place {
    /// Generator and sink.
    pub(crate) generator: Generator,
    /// Where the gateway stands.
    pub(crate) site: Site,
}

impl Place {
    /// A place between loopback sockets; needs no privilege.
    pub(crate) fn udp(programs: &Programs, cpus: Cpus) -> Result<Place, Error> {
        Place::udp_with(programs, cpus, 1)
    }

    /// The same with two next hops.
    pub(crate) fn udp_with_two(programs: &Programs, cpus: Cpus) -> Result<Place, Error> {
        Place::udp_with(programs, cpus, 2)
    }

    fn udp_with(programs: &Programs, cpus: Cpus, hops: usize) -> Result<Place, Error> {
        let listen = free_port()?;
        let arguments = ["udp".into(), listen.to_string().into(), hops.to_string().into()];
        let (generator, ports) = Generator::start(launch(programs, cpus.generator, None), &programs.burst, &arguments)?;
        let [previous, next, ref other @ ..] = ports[..] else {
            return Err(Error::Protocol("burst named no ports".into()));
        };
        let at = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let way =
            Way::Udp { listen, previous: at(previous), next: at(next), other: other.first().map(|port| at(*port)) };
        Ok(Place { generator, site: Site::new(way, None, programs, cpus)? })
    }

    /// A place between two veth pairs in three new namespaces; needs root.
    pub(crate) fn packet(programs: &Programs, cpus: Cpus) -> Result<Place, Error> {
        let line = Line::new(programs)?;
        let arguments = ["packet".into(), line.s.netns(), S0.into(), line.d.netns(), D0.into(), D_MAC.into()];
        let mut launched = launch(programs, cpus.generator, None);
        if cpus.generator != cpus.gateway {
            launched.arg("-S");
        }
        let (generator, _) = Generator::start(launched, &programs.burst, &arguments)?;
        Ok(Place { generator, site: Site::packet(line, programs, cpus)? })
    }
}

impl Site {
    /// The router's place in a line of namespaces.
    pub(crate) fn packet(line: Line, programs: &Programs, cpus: Cpus) -> Result<Site, Error> {
        Site::new(Way::Packet { ingress: INGRESS, egress: EGRESS }, Some(line), programs, cpus)
    }

    /// Between loopback sockets.
    pub(crate) fn udp(way: Way, programs: &Programs, cpus: Cpus) -> Result<Site, Error> {
        Site::new(way, None, programs, cpus)
    }

    fn new(way: Way, line: Option<Line>, programs: &Programs, cpus: Cpus) -> Result<Site, Error> {
        Ok(Site { way, port: ANEP_PORT, scratch: Scratch::new()?, line, programs: programs.clone(), cpus })
    }

    /// Starts a gateway's program here: in the right namespace, on the right CPU, and bound to end with this process. What it
    /// prints goes to a file that errors quote.
    pub(crate) fn spawn(&self, program: &Path, arguments: &[OsString]) -> Result<Running, Error> {
        let netns = self.line.as_ref().map(|line| line.r.netns());
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        self.spawn_in(netns.as_deref(), &name, program, arguments)
    }

    /// The same outside, as an ordinary program, which shares its CPU with others; what it prints is kept under this name.
    pub(crate) fn spawn_ordinary(&self, name: &str, program: &Path, arguments: &[OsString]) -> Result<Running, Error> {
        self.start(launched(&self.programs, self.cpus.gateway, None, false), name, program, arguments)
    }

    /// The same, which is told by a descriptor in the place of its standard input.
    pub(crate) fn spawn_told(&self, program: &Path, arguments: &[OsString], input: OwnedFd) -> Result<Running, Error> {
        let netns = self.line.as_ref().map(|line| line.r.netns());
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let mut command = launch(&self.programs, self.cpus.gateway, netns.as_deref());
        command.stdin(input);
        self.start(command, &name, program, arguments)
    }

    /// The same in any namespace.
    pub(crate) fn spawn_in(
        &self,
        netns: Option<&OsStr>,
        name: &str,
        program: &Path,
        arguments: &[OsString],
    ) -> Result<Running, Error> {
        self.start(launch(&self.programs, self.cpus.gateway, netns), name, program, arguments)
    }

    fn start(
        &self,
        mut command: Command,
        name: &str,
        program: &Path,
        arguments: &[OsString],
    ) -> Result<Running, Error> {
        let log = self.scratch.path().join(format!("log-{name}"));
        let file = File::create(&log).map_err(|cause| Error::Write { path: log.clone(), cause })?;
        let copy = file.try_clone().map_err(|cause| Error::Write { path: log.clone(), cause })?;
        command.arg(program).args(arguments).stdout(file).stderr(copy);
        let child = command.spawn().map_err(|cause| Error::Start { program: program.into(), cause })?;
        Ok(Running::new(child, log))
    }

    /// Turns a UDP payload into what the generator of this place sends: itself, or a whole frame to the gateway.
    pub(crate) fn dress(&self, payload: &[u8]) -> Vec<u8> {
        match &self.way {
            Way::Udp { .. } => payload.to_vec(),
            Way::Packet { egress, .. } => frame(egress.peer, self.port, payload),
        }
    }
}

/// Bytes of the IP packet around a UDP payload.
pub(crate) fn ip_length(payload: &[u8]) -> u32 {
    payload.len() as u32 + IP_UDP as u32
}

/// `launch` with the arguments that put a program on a CPU and into a namespace.
pub(crate) fn launch(programs: &Programs, cpu: usize, netns: Option<&OsStr>) -> Command {
    launched(programs, cpu, netns, true)
}

/// The same in the class of real-time programs or of ordinary ones: what starts processes that compute for ever must not be the former.
fn launched(programs: &Programs, cpu: usize, netns: Option<&OsStr>, is_realtime: bool) -> Command {
    let mut command = Command::new(&programs.launch);
    command.stdin(Stdio::null());
    if is_realtime {
        command.arg("-s");
    }
    command.arg("-c").arg(cpu.to_string());
    if let Some(netns) = netns {
        command.arg("-n").arg(netns);
    }
    command
}

/// Ports below those that Linux gives to whoever names none: what was free stays free until it is used.
const PORTS: Range<u16> = 16_384..32_768;

/// A UDP port of 127.0.0.1 that nobody has, another one at each call.
pub(crate) fn free_port() -> Result<SocketAddr, Error> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let begin = std::process::id().wrapping_mul(97);
    for _ in PORTS {
        let place = begin.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % u32::from(PORTS.end - PORTS.start);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, PORTS.start + place as u16));
        if UdpSocket::bind(address).is_ok() {
            return Ok(address);
        }
    }
    Err(Error::Protocol("no free UDP port on 127.0.0.1".to_owned()))
}

/// A private folder. It goes when dropped, and also when this process is killed: a shell waits for its input to close and removes it.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    janitor: Child,
}

const JANITOR: &str = r#"trap "" INT TERM HUP; read -r _; rm -rf -- "$1""#;

impl Scratch {
    /// Makes a new one among the temporary files.
    pub(crate) fn new() -> Result<Scratch, Error> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("anode-bench.{}.{number}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&path).map_err(|cause| Error::Write { path: path.clone(), cause })?;
        let mut shell = Command::new("sh");
        shell.args(["-c", JANITOR, "sh"]).arg(&path).stdin(Stdio::piped()).stdout(Stdio::null());
        let janitor = shell.spawn().map_err(|cause| Error::Start { program: "sh".into(), cause })?;
        Ok(Scratch { path, janitor })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(self.janitor.stdin.take());
        let _ = self.janitor.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_folder_is_gone_afterwards() {
        let scratch = Scratch::new().unwrap();
        let path = scratch.path().to_owned();
        assert!(path.is_dir());
        drop(scratch);
        assert!(!path.exists());
    }
}
