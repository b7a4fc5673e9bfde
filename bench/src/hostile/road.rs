//! Generator, node and sink: one thread sends the innocent's packets in time, the attacker's as time is left, and counts what arrives.

use super::super::Error;
use super::super::compile::Programs;
use super::super::gateway::Running;
use super::super::node::{PATIENCE, Up};
use super::super::place::{Cpus, Site, Way, free_port};
use super::super::programs;
use super::attack::{Attack, Codes, packet};
use super::serve::Server;
use anode::sys::clock::thread_cpu;
use anode::sys::realtime;
use anode::wire::Addr;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// The neighbours, and the node on their sides.
const ATTACKER: [u8; 4] = [10, 0, 1, 2];
const INNOCENT: [u8; 4] = [10, 0, 2, 2];
const SINK: [u8; 4] = [10, 0, 3, 2];

/// For how long packets may still arrive when the last one has been sent.
const AFTER: Duration = Duration::from_millis(50);

/// How late a packet of the innocent may be sent.
const LATE: Duration = Duration::from_millis(2);

/// What passed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Passed {
    /// The innocent's packets that were due, and those that arrived.
    pub(super) sent: u64,
    pub(super) arrived: u64,
    /// The attacker's.
    pub(super) attacked: u64,
    pub(super) seconds: f64,
    /// CPU time of the generator.
    pub(super) cpu_seconds: f64,
}

impl Passed {
    /// Of what was due.
    pub(super) fn share(&self) -> f64 {
        self.arrived as f64 / self.sent.max(1) as f64
    }
}

/// A node and what is around it.
pub(super) struct Road {
    attacker: UdpSocket,
    innocent: UdpSocket,
    sink: UdpSocket,
    attack: Option<Attack>,
    attacks: Vec<Vec<u8>>,
    good: Vec<u8>,
    server: Server,
    cpu: usize,
    _node: Running,
    _site: Site,
}

impl Road {
    /// A fresh node, and who is next to it. It knows all codes but the bombs, and all have run.
    pub(super) fn start(attack: Option<Attack>, codes: &Codes, programs: &Programs, cpus: Cpus) -> Result<Road, Error> {
        let sockets = [(); 3].map(|()| socket());
        let [attacker, innocent, sink] = sockets;
        let (attacker, innocent, sink) = (attacker?, innocent?, sink?);
        let listens = [free_port()?, free_port()?, free_port()?];
        let way = Way::Udp { listen: listens[0], previous: local(&attacker)?, next: local(&sink)?, other: None };
        let site = Site::udp(way, programs, cpus)?;
        let (dir, config) = (site.scratch.path().join("run"), site.scratch.path().join("node.toml"));
        let peers = [local(&attacker)?, local(&innocent)?, local(&sink)?];
        let text = configuration(&dir, listens, peers, attack);
        std::fs::write(&config, text).map_err(|cause| Error::Write { path: config.clone(), cause })?;
        let mut node =
            site.spawn_ordinary("node", &programs::node()?, &["node".into(), "run".into(), config.into()])?;
        let mut up = Up::wait(&dir).map_err(|_| node.silent("node"))?;
        codes.known(attack).into_iter().try_for_each(|bundle| up.add(bundle))?;
        for (socket, to) in [&attacker, &innocent, &sink].into_iter().zip(listens) {
            socket.connect(to).map_err(|cause| Error::Protocol(cause.to_string()))?;
        }
        let (from, to) = (Addr::v4(ATTACKER), Addr::v4(SINK));
        let road = Road {
            attacks: attack.map(|attack| codes.of(attack, from, to)).unwrap_or_default(),
            good: packet(&codes.innocent, Addr::v4(INNOCENT), to),
            server: Server::new(&codes.bombs),
            attacker,
            innocent,
            sink,
            attack,
            cpu: cpus.generator,
            _node: node,
            _site: site,
        };
        road.warm()?;
        Ok(road)
    }

    /// Sends the innocent's packets, few, until they arrive.
    fn warm(&self) -> Result<(), Error> {
        let limit = Instant::now() + PATIENCE;
        while Instant::now() < limit {
            let _ = self.innocent.send(&self.good);
            std::thread::sleep(Duration::from_millis(2));
            if self.drain() > 0 {
                std::thread::sleep(AFTER);
                self.drain();
                return Ok(());
            }
        }
        Err(Error::Node("it does not forward the innocent's packets".into()))
    }

    /// Sends the innocent's packets at a rate for so long, beside the attack.
    pub(super) fn run(&self, rate: f64, length: Duration) -> Result<Passed, Error> {
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                realtime::pin(&[self.cpu]).map_err(|cause| Error::Protocol(cause.to_string()))?;
                Ok(self.generate(rate, length))
            });
            worker.join().unwrap_or_else(|_| Err(Error::Protocol("the generator has ended".into())))
        })
    }

    fn generate(&self, rate: f64, length: Duration) -> Passed {
        let (gap, attack_gap) = (1e9 / rate, 1e9 / self.attack.map_or(0.0, Attack::rate).max(1e-9));
        let (began, cpu) = (Instant::now(), thread_cpu());
        let (mut passed, mut attacked) = (Passed::default(), 0u64);
        let mut passes = 0u64;
        loop {
            let now = began.elapsed();
            if now >= length {
                break;
            }
            let due = (now.as_nanos() as f64 / gap) as u64;
            while passed.sent < due {
                // One that was not sent in time counts as sent, and does not arrive.
                if now.as_nanos() as f64 - passed.sent as f64 * gap < LATE.as_nanos() as f64 {
                    let _ = self.innocent.send(&self.good);
                }
                passed.sent += 1;
            }
            if !self.attacks.is_empty() && (attacked as f64) * attack_gap <= now.as_nanos() as f64 {
                let at = attacked as usize % self.attacks.len();
                let _ = self.attacker.send(&self.attacks[at]);
                attacked += 1;
            }
            passes += 1;
            if passes.is_multiple_of(16) {
                passed.arrived += self.drain();
            }
        }
        passed.seconds = began.elapsed().as_secs_f64();
        passed.cpu_seconds = (thread_cpu() - cpu) as f64 / 1e9;
        let end = Instant::now() + AFTER;
        while Instant::now() < end {
            passed.arrived += self.drain();
        }
        Passed { attacked, ..passed }
    }

    /// Takes what has come: the innocent's packets at the sink are counted, the attacker is asked for code.
    fn drain(&self) -> u64 {
        let mut bytes = [0; 2048];
        let mut count = 0;
        while let Ok(length) = self.sink.recv(&mut bytes) {
            // Not children of the attacker's: the code of the capsule says.
            count += u64::from(bytes.get(16..48) == self.good.get(16..48) && length == self.good.len());
        }
        while let Ok(length) = self.attacker.recv(&mut bytes) {
            self.server.answer(&bytes[..length], |answer| {
                let _ = self.attacker.send(answer);
            });
        }
        while self.innocent.recv(&mut bytes).is_ok() {}
        count
    }
}

fn socket() -> Result<UdpSocket, Error> {
    let made = || -> io::Result<UdpSocket> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    };
    made().map_err(|cause| Error::Protocol(format!("no UDP socket on 127.0.0.1: {cause}")))
}

fn local(socket: &UdpSocket) -> Result<SocketAddr, Error> {
    socket.local_addr().map_err(|cause| Error::Protocol(cause.to_string()))
}

/// A node with its own defaults, three ports with a neighbour each.
fn configuration(
    dir: &std::path::Path,
    listens: [SocketAddr; 3],
    peers: [SocketAddr; 3],
    attack: Option<Attack>,
) -> String {
    let mut text = format!("name = \"hostile\"\nrun_dir = {dir:?}\n");
    for (at, (listen, peer)) in (1..).zip(listens.into_iter().zip(peers)) {
        text += &format!(
            "[[port]]\nudp = \"{listen}\"\naddress = [\"10.0.{at}.1/24\"]\n\
             neighbours = [{{ address = \"10.0.{at}.2\", at = \"{peer}\" }}]\n"
        );
    }
    text + &attack.map_or(String::new(), Attack::configuration)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anode::config::NodeFile;

    #[test]
    fn the_configuration_is_one_and_the_sink_has_a_route() {
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        for attack in [None, Some(Attack::Burn)] {
            let text = configuration("/tmp/x".as_ref(), [1, 2, 3].map(at), [4, 5, 6].map(at), attack);
            let (config, _) = NodeFile::parse(&text).unwrap().plan().unwrap();
            assert_eq!(config.routes.next_hop(Addr::v4(SINK)).unwrap().via, Addr::v4(SINK));
        }
    }
}
