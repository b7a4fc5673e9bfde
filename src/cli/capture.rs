//! `anode capture`: what enters and leaves a node, both halves and all ports, with what became of it.
//!
//! Without `-w` it prints a line for each packet. It ends after so many packets, by a signal, or with the node.

use crate::manage::client::{Control, Watched, run_dir};
use crate::port::pcap::{Beginning, Capture, Captured};
use crate::seen::filter::Filter;
use crate::seen::join::Seen;
use crate::seen::words::Naming as _;
use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The arguments behind `anode capture`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The node's name, or its run directory
    node: String,
    /// Words that all must hold: port=NAME, code=NAME, domain=NAME, host=ADDRESS, packet=IDENTITY, dropped
    filter: Vec<String>,
    /// Write a capture file (pcapng), which Wireshark opens; `-` is the standard output
    #[arg(short = 'w', long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// End after so many packets
    #[arg(short = 'c', long)]
    count: Option<u64>,
    /// Only one packet in so many that come in, and without the kernel half: for nodes under load
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    one_in: u32,
}

/// Where packets go.
enum Sink {
    Lines,
    File(Capture<Box<dyn Write>>),
}

impl Sink {
    fn open(path: Option<&Path>, watched: &Watched) -> anyhow::Result<Sink> {
        let Some(path) = path else { return Ok(Sink::Lines) };
        let to: Box<dyn Write> = match path == Path::new("-") {
            true => Box::new(BufWriter::new(io::stdout())),
            false => Box::new(BufWriter::new(File::create(path).with_context(|| path.display().to_string())?)),
        };
        let beginning = |ethernet| if ethernet { Beginning::Ethernet } else { Beginning::Ip };
        let ports: Vec<_> =
            watched.names.ports.iter().map(|port| (port.name.clone(), beginning(port.ethernet))).collect();
        Ok(Sink::File(Capture::begin(to, &ports)?))
    }

    fn take(&mut self, seen: &Seen, watched: &Watched) -> io::Result<()> {
        let names = &watched.names;
        let comment = names.comment(seen);
        let at = names.epoch.saturating_add(seen.at);
        match self {
            Sink::Lines => {
                let way = if seen.inward { "in" } else { "out" };
                let (seconds, rest) = (at / 1_000_000_000, at % 1_000_000_000);
                let (port, bytes) = (names.port(seen.port), seen.bytes.len());
                crate::say!("{seconds}.{rest:09} {port} {way} {bytes} bytes: {comment}");
                Ok(())
            }
            Sink::File(capture) => {
                let (interface, inward) = (u32::from(seen.port), Some(seen.inward));
                capture.packet(&Captured { interface, at, inward, bytes: &seen.bytes, comment: &comment })
            }
        }
    }
}

/// Runs `anode capture`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { node, filter, write, count, one_in } = args;
    let filter = Filter::parse(&filter).map_err(anyhow::Error::msg)?;
    let dir = run_dir(&node);
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    let mut watched = Control::connect(&dir)?.watch_one_in(one_in)?;
    if let Some(port) = filter.unknown_port(&watched.names) {
        let known: Vec<_> = watched.names.ports.iter().map(|port| &*port.name).collect();
        anyhow::bail!("port={port}: the node has no such port; it has {}", known.join(", "));
    }
    let mut sink = Sink::open(write.as_deref(), &watched)?;
    crate::say_err!("capturing at {}", watched.names.node);
    let (mut written, most) = (0, count.unwrap_or(u64::MAX));
    while written < most {
        let ends = stop.load(Ordering::Relaxed) || watched.is_over();
        match ends {
            true => watched.look_to_the_end()?,
            false => watched.look(|_| ())?,
        }
        while written < most
            && let Some(seen) = watched.next(ends)
        {
            watched.name(&dir, &seen);
            if filter.holds(&seen, &watched.names) {
                sink.take(&seen, &watched)?;
                written += 1;
            }
        }
        if let Sink::File(capture) = &mut sink {
            capture.flush()?;
        }
        if ends {
            break;
        }
    }
    let missed = watched.missed();
    if let Sink::File(capture) = &mut sink {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        capture.end(now.map_or(0, |since| since.as_nanos() as u64), missed)?;
    }
    crate::say_err!("{written} packets, {missed} missed");
    Ok(ExitCode::SUCCESS)
}
