//! The demo on real network interfaces: a lab of three namespaces, with a node in each.

use super::{Crossings, Stage};
use crate::apps::cache::{Key, Origin};
use crate::apps::{App, Attached};
use crate::cli::attach::Seat;
use crate::lab::nodes::Daemon;
use crate::lab::{Guard, Lab, Topology};
use crate::manage::client::Control;
use crate::port::pcap;
use crate::wire::{Addr, Digest, anep, ethernet, fetch, ipv4, udp};
use anyhow::{Context as _, ensure};
use model::Ask;
use model::status::Status;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// For how long something that must come is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// Between two looks.
const LOOK: Duration = Duration::from_millis(1);

/// The lab and what runs in it; all of it goes when this goes.
pub(super) struct Native {
    seat: Seat,
    begin: Instant,
    loads: Vec<(String, f64)>,
    origin: Option<(Arc<AtomicBool>, JoinHandle<()>)>,
    captures: Vec<(String, PathBuf)>,
    daemons: Vec<Daemon>,
    lab: Guard,
}

impl Native {
    /// Three nodes in a line: in user space alone and with captures, or with a kernel half.
    pub(super) fn new(kernel: bool) -> anyhow::Result<Native> {
        let name = format!("demo{}{}", std::process::id(), if kernel { "k" } else { "" });
        let text = include_str!("../../../examples/line/topology.toml");
        let topology = Topology::parse(text, std::path::Path::new("examples/line/topology.toml"))?.renamed(&name)?;
        let lab = Lab::up(&topology)?.guarded();
        let capture = |node: &str, peer: &str| {
            crate::config::default_run_dir(&format!("{name}.{node}")).join(format!("to-{peer}.pcap"))
        };
        let adjust = |node: &str, config: &mut toml::Table| {
            for port in config.get_mut("port").and_then(toml::Value::as_array_mut).into_iter().flatten() {
                let interface = port["packet"].as_str().unwrap_or_default().to_owned();
                let file = capture(node, interface.trim_start_matches("to-"));
                let option = match kernel {
                    true => ("kernel".to_owned(), toml::Value::Boolean(true)),
                    false => ("pcap".to_owned(), toml::Value::String(file.display().to_string())),
                };
                port.as_table_mut().into_iter().for_each(|port| port.extend([option.clone()]));
            }
        };
        let daemons = lab.start_nodes(&std::env::current_exe()?, &adjust)?;
        let captures = [("a–r", "a"), ("r–b", "b")].map(|(link, peer)| (link.to_owned(), capture("r", peer))).to_vec();
        let seat = Seat::at(&crate::config::default_run_dir(&format!("{name}.a")), 0)?;
        Ok(Native { seat, begin: Instant::now(), loads: Vec::new(), origin: None, captures, daemons, lab })
    }

    /// What a node says of itself.
    pub(super) fn status(&self, node: &str) -> anyhow::Result<Status> {
        Ok(Control::connect(&self.dir(node))?.asked(&Ask::Status)?)
    }

    fn dir(&self, node: &str) -> PathBuf {
        crate::config::default_run_dir(&format!("{}.{node}", self.lab.topology().name))
    }
}

impl Stage for Native {
    fn seat(&mut self) -> &mut dyn Attached {
        &mut self.seat
    }

    fn add(&mut self, app: &App) -> anyhow::Result<Digest> {
        self.begin = Instant::now();
        let began = std::time::SystemTime::now();
        self.loads = vec![("".into(), began.duration_since(std::time::UNIX_EPOCH)?.as_secs_f64())];
        Ok(Control::connect(&self.dir("a"))?.add_code(&app.bundle()?)?)
    }

    fn far_end(&self) -> Addr {
        let node = self.lab.topology().node("b");
        node.and_then(|node| node.v4()).unwrap_or(Addr::UNSPECIFIED)
    }

    fn passive_ping(&mut self) -> anyhow::Result<Option<(f64, f64)>> {
        let to = self.far_end().to_string();
        let ping = ["-q", "-c", "20", "-i", "0.01", "-W", "2", &to];
        let output = self.lab.command("a", "ping")?.args(ping).output().context("cannot run ping")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let times = text.lines().find_map(|line| line.strip_prefix("rtt min/avg/max/mdev = "));
        let mut times = times.context("Linux's own ping got no answer")?.split('/').map(str::parse::<f64>);
        match (times.next(), times.next()) {
            (Some(Ok(least)), Some(Ok(mean))) => Ok(Some((least, mean))),
            _ => anyhow::bail!("ping wrote something else than expected: {text}"),
        }
    }

    fn loads(&mut self, code: Digest) -> anyhow::Result<Vec<(String, f64)>> {
        let began = self.loads.first().map_or(0.0, |(_, at)| *at);
        let mut loads = Vec::new();
        for node in ["a", "r", "b"] {
            if let Some(at) = self.ready(node, code)? {
                loads.push((node.to_owned(), (at - began.rem_euclid(86_400.0)) * 1e3));
            }
        }
        Ok(loads)
    }

    fn crossings(&mut self) -> anyhow::Result<Crossings> {
        // The nodes write their captures out a few times a second; what was sent before now is whole
        // once a capture has not changed over two such times.
        let mut before = None;
        let begin = Instant::now();
        loop {
            let now = self.read_captures()?;
            if before.as_ref() == Some(&now) && now.len() == self.captures.len() {
                return Ok(now);
            }
            ensure!(begin.elapsed() < PATIENCE, "the captures do not come to rest");
            before = Some(now);
            std::thread::sleep(Duration::from_millis(250));
        }
    }

    fn serve(&mut self, code: Digest, values: &[(Key, Vec<u8>)]) -> anyhow::Result<()> {
        let mut origin = Origin::new(code, Duration::from_secs(60), values.len());
        for (key, value) in values {
            ensure!(origin.set(*key, value.clone()), "the origin has no room");
        }
        let mut seat = Seat::at(&self.dir("b"), crate::apps::cache::ORIGIN_PORT)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) && origin.serve(&mut seat, Duration::from_millis(50)).is_ok() {}
        });
        self.origin = Some((stop, thread));
        Ok(())
    }

    fn name(&self, addr: Addr) -> String {
        let nodes = &self.lab.topology().nodes;
        let owner = nodes.iter().find(|node| node.all_addresses().any(|own| own == addr));
        owner.map_or_else(|| addr.to_string(), |node| node.name.clone())
    }
}

impl Native {
    /// When code was ready at a node, by its log, in seconds since midnight. A node writes its log when it has time for that.
    fn ready(&self, node: &str, code: Digest) -> anyhow::Result<Option<f64>> {
        let begin = Instant::now();
        loop {
            let log = std::fs::read_to_string(self.dir(node).join("node.log"))?;
            let ready = log
                .lines()
                .filter_map(|line| serde_json::from_str::<Value>(line).ok())
                .find(|line| line["fields"]["message"] == "code ready" && line["fields"]["code"] == code.short());
            let at = ready.as_ref().and_then(|line| line["timestamp"].as_str()).and_then(seconds);
            if at.is_some() || begin.elapsed() >= PATIENCE {
                return Ok(at);
            }
            std::thread::sleep(LOOK);
        }
    }

    fn read_captures(&self) -> anyhow::Result<Crossings> {
        let mut crossings = Crossings::new();
        for (link, path) in &self.captures {
            for packet in pcap::read(path).with_context(|| format!("cannot read {}", path.display()))? {
                if let Some((digest, part)) = code_part(&packet) {
                    let objects = crossings.entry(link.clone()).or_default();
                    *objects.entry(digest.short()).or_default().entry(part.to_string()).or_default() += 1;
                }
            }
        }
        Ok(crossings)
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.origin.take() {
            stop.store(true, Ordering::Relaxed);
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
        for daemon in &mut self.daemons {
            let told = Control::connect(&daemon.run_dir).and_then(|mut control| control.down(false));
            if told.is_ok() {
                let begin = Instant::now();
                while daemon.run_dir.join("control.sock").exists() && begin.elapsed() < PATIENCE {
                    std::thread::sleep(LOOK);
                }
            }
            let _ = daemon.kill();
            for (_, capture) in &self.captures {
                let _ = std::fs::remove_file(daemon.run_dir.join(capture.file_name().unwrap_or_default()));
            }
            for peer in ["a", "r", "b"] {
                let _ = std::fs::remove_file(daemon.run_dir.join(format!("to-{peer}.pcap")));
            }
        }
    }
}

/// The object and the number of a part of code in an Ethernet frame.
fn code_part(frame: &[u8]) -> Option<(Digest, u16)> {
    let frame = ethernet::FrameView::new_checked(frame).ok()?;
    let packet = ipv4::Packet::new_checked(frame.payload()).ok()?;
    let datagram = udp::Packet::new_checked(packet.payload()).ok()?;
    let anep = anep::Packet::new_checked(datagram.payload()).ok()?;
    match fetch::Message::parse(anep.payload()).ok()? {
        fetch::Message::Part { digest, part, .. } if anep.type_id() == anep::type_id::FETCH => Some((digest, part)),
        _ => None,
    }
}

/// Seconds since midnight of a log's timestamp.
fn seconds(timestamp: &str) -> Option<f64> {
    let time = timestamp.split_once('T')?.1.trim_end_matches('Z');
    let mut fields = time.split(':').map(str::parse::<f64>);
    let (hours, minutes, seconds) = (fields.next()?.ok()?, fields.next()?.ok()?, fields.next()?.ok()?);
    Some(hours * 3600.0 + minutes * 60.0 + seconds)
}
