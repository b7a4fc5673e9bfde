//! A running node with environments, who sends it packets, and what each environment used meanwhile.

use super::super::super::compile::{Programs, compiler};
use super::super::super::gateway::Running;
use super::super::super::node::{PATIENCE, Up};
use super::super::super::place::{Cpus, Site, Way, free_port};
use super::super::super::{Error, programs};
use super::member::{Environment, HERE, Kind, THERE};
use anode::schedule::Policy;
use anode::sys::realtime;
use model::Ask;
use model::domains::{Channel, Domain, Domains};
use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// What was used between two looks.
#[derive(Clone, Debug, Default)]
pub(super) struct Spent {
    /// Seconds of a CPU of each environment, by the account of its domain and all below it.
    pub(super) of_members: Vec<f64>,
    /// Packets that came for each, and those that were more than it could run.
    pub(super) packets: Vec<u64>,
    pub(super) overloaded: Vec<u64>,
    /// Seconds of the worker's thread and of the control groups.
    pub(super) total: f64,
    /// Deadlines that the first one missed.
    pub(super) missed: u64,
    /// Of the packets of the first one that were sent.
    pub(super) arrived: f64,
    pub(super) gaps: u64,
    pub(super) longest_gap_ms: f64,
}

impl Spent {
    /// Deadlines missed for which there is no gap: a gap may be the cause of one for each deadline that it lasts, and one more.
    pub(super) fn missed_beside_no_gap(&self) -> f64 {
        let within = self.gaps as f64 * (1.0 + self.longest_gap_ms / 2.0);
        (self.missed as f64 - within).max(0.0)
    }
}

/// A node that runs.
pub(super) struct Stand {
    members: Vec<Environment>,
    packets: Vec<Vec<Vec<u8>>>,
    socket: UdpSocket,
    cpus: Cpus,
    up: Up,
    node: Running,
    _site: Site,
}

/// What the node says.
struct Look {
    domains: Vec<Domain>,
    gaps: u64,
    longest_gap_us: u64,
    worker_ns: u64,
    groups_ns: u64,
}

impl Stand {
    /// Starts one, and waits until all its environments take packets.
    pub(super) fn start(members: &[Environment], policy: Policy, cpus: Cpus) -> Result<Stand, Error> {
        let protocol = |cause: std::io::Error| Error::Protocol(cause.to_string());
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(protocol)?;
        let (listen, own) = (free_port()?, socket.local_addr().map_err(protocol)?);
        let site = Site::udp(Way::Udp { listen, previous: own, next: own, other: None }, &Programs::ready()?, cpus)?;
        let (dir, config) = (site.scratch.path().join("run"), site.scratch.path().join("node.toml"));
        let object = build(site.scratch.path())?;
        let cpu: String = members.iter().map(Environment::cpu).collect();
        let program = programs::node()?;
        let tables: String = members.iter().enumerate().map(|(at, it)| it.tables(at, &object, &program)).collect();
        let [here, there] = [HERE, THERE].map(Ipv4Addr::from);
        let text = format!(
            "name = \"shares\"\nrun_dir = {dir:?}\n[cpu]\nscheduler = \"{}\"\naffinity = [{}]\n{cpu}[[port]]\nudp \
             = \"{listen}\"\naddress = [\"{here}/24\"]\n\
             neighbours = [{{ address = \"{there}\", at = \"{own}\" }}]\n[[role]]\nname \
             = \"anyone\"\n[role.limits]\npackets_per_second = 1_000_000\n\
             steps_per_packet = 1_000_000\nsteps_per_second = 1_000_000_000_000\n{tables}",
            policy.name(),
            cpus.gateway
        );
        std::fs::write(&config, text).map_err(|cause| Error::Write { path: config.clone(), cause })?;
        let mut node = site.spawn_ordinary("node", &program, &["node".into(), "run".into(), config.into()])?;
        let mut up = Up::wait(&dir).map_err(|_| node.silent("node"))?;
        let mut packets = Vec::new();
        for (at, member) in members.iter().enumerate() {
            let (own, bundle) = member.packets(at)?;
            bundle.iter().try_for_each(|bundle| up.add(bundle))?;
            packets.push(own);
        }
        socket.connect(listen).map_err(protocol)?;
        let mut stand = Stand { members: members.to_vec(), packets, socket, cpus, up, node, _site: site };
        stand.await_channels()?;
        Ok(stand)
    }

    /// Waits until environments have the channels that their packets are for.
    fn await_channels(&mut self) -> Result<(), Error> {
        let own = |member: &&Environment| matches!(member.kind, Kind::Object | Kind::Process);
        let places = self.members.iter().zip(&self.packets).filter(|(member, _)| own(member));
        let wanted: usize = places.map(|(_, packets)| packets.len()).sum();
        let limit = Instant::now() + PATIENCE;
        loop {
            let all: Vec<Channel> = self.up.asked(&Ask::Channels)?;
            let count = all.iter().filter(|channel| channel.address.starts_with("type 3")).count();
            if count >= wanted {
                return Ok(());
            }
            if Instant::now() > limit {
                let all: Domains = self.up.asked(&Ask::Domains)?;
                return Err(Error::Node(format!("{count} of {wanted} channels are there: {:?}", all.environments)));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sends each environment so many packets a second, and says what was used behind the warm time.
    pub(super) fn load(mut self, rates: &[u64], warm: Duration, length: Duration) -> Result<Spent, Error> {
        let (socket, packets, cpu) = (&self.socket, &self.packets, self.cpus.generator);
        let stop = std::sync::atomic::AtomicBool::new(false);
        let (members, up, node) = (&self.members, &mut self.up, &self.node);
        std::thread::scope(|scope| {
            let sender = scope.spawn(|| {
                // Where there is one CPU only nothing is measured.
                let _ = realtime::pin(&[cpu]);
                generate(socket, packets, rates, &stop)
            });
            let mut measure = || {
                std::thread::sleep(warm);
                let before = Look::of(up, node)?;
                let began = Instant::now();
                std::thread::sleep(length);
                let after = Look::of(up, node)?;
                let sent = began.elapsed().as_secs_f64() * rates.first().copied().unwrap_or(0) as f64;
                Ok(spent(members, &before, &after, sent))
            };
            let measured = measure();
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            sender.join().map_err(|_| Error::Protocol("the generator has ended".into()))?;
            measured
        })
    }
}

/// Sends packets at these rates until it is to stop.
fn generate(socket: &UdpSocket, packets: &[Vec<Vec<u8>>], rates: &[u64], stop: &std::sync::atomic::AtomicBool) {
    let (began, mut sent) = (Instant::now(), vec![0u64; rates.len()]);
    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
        let now = began.elapsed().as_micros() as u64;
        for ((packets, rate), sent) in packets.iter().zip(rates).zip(&mut sent) {
            while *sent < now * rate / 1_000_000 {
                // What finds no room is what an overload is about.
                let _ = socket.send(&packets[*sent as usize % packets.len()]);
                *sent += 1;
            }
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

impl Look {
    fn of(up: &mut Up, node: &Running) -> Result<Look, Error> {
        let Domains { domains, environments, .. } = up.asked(&Ask::Domains)?;
        let (gaps, longest_gap_us) = up.status()?.cpu.map_or((0, 0), |cpu| (cpu.gaps, cpu.longest_gap_us));
        let groups_ns = environments.iter().filter_map(|it| group_ns(it.pid?)).sum();
        Ok(Look { worker_ns: worker_ns(node.pid()), groups_ns, domains, gaps, longest_gap_us })
    }

    /// Adds a number of the domain of this title and of all below it.
    fn sum(&self, title: &str, number: impl Fn(&Domain) -> u64) -> u64 {
        let first = self.domains.iter().find(|domain| domain.title == title);
        let mut within: Vec<u32> = first.into_iter().map(|domain| domain.id).collect();
        let mut sum = 0;
        // Each is behind the one above it.
        for domain in &self.domains {
            if domain.parent.is_some_and(|parent| within.contains(&parent)) {
                within.push(domain.id);
            }
            if within.contains(&domain.id) {
                sum += number(domain);
            }
        }
        sum
    }
}

fn spent(members: &[Environment], before: &Look, after: &Look, sent: f64) -> Spent {
    let names: Vec<String> = members.iter().enumerate().map(|(at, member)| member.name(at)).collect();
    let of_all = |number: fn(&Domain) -> u64| -> Vec<u64> {
        names.iter().map(|name| after.sum(name, number).saturating_sub(before.sum(name, number))).collect()
    };
    let cpu = of_all(|domain| domain.usage.cpu_ns);
    let packets = of_all(|domain| domain.usage.packets);
    let dropped = |domain: &Domain, reason: &str| domain.usage.drops.drops.get(reason).copied().unwrap_or(0);
    let overloaded = names.iter().map(|name| {
        let reasons = ["path-full", "channel-queue-full", "process-full"];
        let number = |look: &Look| look.sum(name, |it| reasons.iter().map(|reason| dropped(it, reason)).sum());
        number(after).saturating_sub(number(before))
    });
    let used = |look: &Look| look.worker_ns + look.groups_ns;
    Spent {
        of_members: cpu.into_iter().map(|ns| ns as f64 / 1e9).collect(),
        overloaded: overloaded.collect(),
        total: (used(after) - used(before)) as f64 / 1e9,
        missed: of_all(|domain| domain.missed_deadlines)[0],
        arrived: packets[0] as f64 / sent.max(1.0),
        gaps: after.gaps - before.gaps,
        longest_gap_ms: after.longest_gap_us as f64 / 1e3,
        packets,
    }
}

/// CPU time of the first thread of a process, which is a node's worker.
fn worker_ns(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/schedstat")).unwrap_or_default();
    text.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// CPU time of the control group of a process, in the same way as its node reads it.
fn group_ns(pid: u32) -> Option<u64> {
    let own = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let places = own.lines().filter_map(|line| {
        let (names, path) = line.split_once(':')?.1.split_once(':')?;
        let root = if names.is_empty() { "/sys/fs/cgroup".into() } else { format!("/sys/fs/cgroup/{names}") };
        Some(PathBuf::from(format!("{root}{path}")))
    });
    let groups = anode::sys::jail::Groups { places: places.collect() };
    anode::sys::jail::Meter::of(&groups, pid).read().ok()
}

/// Builds the environments' program.
fn build(folder: &Path) -> Result<PathBuf, Error> {
    let object = folder.join("burner.so");
    let headers = folder.join("anode");
    std::fs::create_dir_all(&headers).map_err(|cause| Error::Write { path: headers.clone(), cause })?;
    let files = [
        (folder.join("burner.c"), include_str!("../../../c/burner.c")),
        (headers.join("nodeos.h"), include_str!("../../../../sdk/anode/nodeos.h")),
    ];
    for (path, text) in files {
        std::fs::write(&path, text).map_err(|cause| Error::Write { path, cause })?;
    }
    // Whoever the environment is, it may read there.
    std::fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .map_err(|cause| Error::Write { path: folder.to_owned(), cause })?;
    let cc = compiler();
    let mut command = Command::new(&cc);
    command.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-DHERE", "-shared", "-fPIC", "-I"]).arg(folder);
    let output = command.arg("-o").arg(&object).arg(folder.join("burner.c")).output();
    let output = output.map_err(|cause| Error::NoCompiler { cc, cause })?;
    let log = || String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(object) } else { Err(Error::Compile { name: "burner".into(), log: log() }) }
}
