//! `anode bench links`: the process that carries a lab's shaped links, beside plain C that forwards by rings.
//!
//! ```text
//! burst s0 ──▶ r0 │anode lab carry, in r│ r1 ──▶ d0 burst
//! ```
//!
//! `anode lab carry` is started and told as `anode lab up` does it (`src/lab/links`), for one link whose ends are the two
//! interfaces of the place. The baseline is `bench/c/packetgw.c` there. Frames come by loss-free bursts, so the link's
//! queue never fills; a link that loses, doubles or holds back frames has no such bursts and is not measured.

use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use anode::lab::spec::{Answer, Spec, SpecEnd, SpecLink};
use anode::link::LinkQuality;

use super::capsules::PLAIN;
use super::compile::Programs;
use super::gateway::{GATEWAY_CPU, Gateway, Load, Running, compare};
use super::line::IP_UDP;
use super::node::PATIENCE;
use super::place::{Place, Site, Way};
use super::plain::PlainC;
use super::programs;
use super::report::Report;
use super::series::{Series, Target};
use super::{Error, Settings};

/// A link whose rate makes nobody wait for long, and one that frames travel on as well.
const RATED: &str = "link of 10 Gbit/s";
const DELAYED: &str = "link of 10 Gbit/s and 1 ms";

/// Target: gateway CPU per packet, link over plain C.
const RATIO: f64 = 1.3;

/// Packets a burst of the busy link.
const BUSY: u32 = 128;

/// Of packets that are alone there are fewer: each waits for the delay.
const LONE_PARTS: u32 = 16;

/// Runs the benchmark.
pub(crate) fn run(settings: &Settings, report: &mut Report) -> Result<(), Error> {
    let programs = Programs::ready()?;
    let cpus = settings.cpus();
    let plain = PlainC::new(&programs, PLAIN, 0);
    let quality = LinkQuality { rate_mbit: 10_000.0, ..LinkQuality::default() };
    let rated = Link { name: RATED, quality };
    let delayed = Link { name: DELAYED, quality: LinkQuality { delay_ms: 1.0, ..quality } };
    let gateways: [&dyn Gateway; 3] = [&plain, &rated, &delayed];
    let all = match compare(settings, "packet", &gateways, &loads(settings.quick), &|| Place::packet(&programs, cpus)) {
        Err(Error::NoNamespace) => {
            report.note(format!("SKIPPED: {}.", Error::NoNamespace));
            return Ok(());
        }
        measured => measured?,
    };
    judge(&all, report);
    report.rows = all.rows(&[PLAIN]);
    let class = programs.scheduling_class();
    report.note(format!("Generator and gateway ran under {class}; gateway CPU excludes generator and sink."));
    Ok(())
}

/// Three sizes in bursts, and the smallest in shorter ones and alone.
fn loads(quick: bool) -> Vec<Load> {
    let all: &[(u32, usize)] =
        if quick { &[(128, 128), (1, 128)] } else { &[(128, 128), (128, 512), (128, 1400), (16, 128), (1, 128)] };
    let load = |&(burst, ip_length): &(u32, usize)| {
        let parts = if burst == 1 { LONE_PARTS } else { 1 };
        Load { parts, ..Load::new(burst, vec![0x5a; ip_length - IP_UDP]) }
    };
    all.iter().map(load).collect()
}

/// A target for each link in every circumstance in which it is compared with a gateway that does not sleep either: shorter bursts are
/// over long before the delay is, and the CPU sleeps in between.
fn judge(series: &Series, report: &mut Report) {
    for key in series.keys().filter(|key| key.variant == PLAIN && key.metric == GATEWAY_CPU) {
        let is_busy = key.regime.ends_with(&format!("bursts of {BUSY}"));
        for link in [RATED, DELAYED].into_iter().filter(|link| is_busy || *link == RATED) {
            let name = format!("{}, {} B: {link} / {PLAIN}", key.regime, key.size.unwrap_or_default());
            report.targets.extend(Target::at_most(name, &series.ratios(key, link, PLAIN), RATIO));
        }
    }
}

/// A shaped link between the interfaces of a place.
struct Link {
    name: &'static str,
    quality: LinkQuality,
}

impl Gateway for Link {
    fn name(&self) -> &str {
        self.name
    }

    fn start(&self, site: &Site) -> Result<Running, Error> {
        let Way::Packet { ingress, egress } = &site.way else { return Err(Error::NoNamespace) };
        let dir = site.scratch.path().join("links");
        let socket = dir.join("links.sock");
        let failed = |cause| Error::Write { path: dir.clone(), cause };
        // That of the round before has ended.
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir(&dir).map_err(failed)?;
        let listener = UnixListener::bind(&socket).map_err(failed)?;
        let arguments: [OsString; 3] = ["lab".into(), "carry".into(), dir.clone().into()];
        let mut running = site.spawn_told(&programs::node()?, &arguments, OwnedFd::from(listener))?;
        let end = |interface: &str| SpecEnd { interface: interface.into(), meter: format!("bench {interface}") };
        let ends = [end(ingress.interface), end(egress.interface)];
        let link = SpecLink { number: 0, ends, quality: self.quality, mtu: 1500 };
        match tell(&socket, &Spec { seed: 1, links: vec![link] }) {
            Ok(Answer::Changes(1)) => Ok(running),
            Ok(answer) => Err(Error::Node(format!("links are not carried: {answer:?}"))),
            Err(_) => Err(running.silent(self.name)),
        }
    }

    /// Nothing of a frame is touched; its last four bytes are the generator's.
    fn check(&self, sent: &[u8], arrived: &[u8]) -> Result<(), String> {
        let end = sent.len().saturating_sub(4);
        match arrived.len() == sent.len() && arrived.get(..end) == sent.get(..end) {
            true => Ok(()),
            false => Err("the frame was changed on the way".into()),
        }
    }
}

/// Tells the process what its links are.
fn tell(socket: &Path, spec: &Spec) -> std::io::Result<Answer> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(&serde_json::to_vec(spec)?)?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(serde_json::from_str(&answer)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_that_was_changed_is_noticed() {
        let link = Link { name: RATED, quality: LinkQuality::default() };
        let mut stamped = [1; 60];
        stamped[56..].fill(2);
        assert!(link.check(&[1; 60], &stamped).is_ok(), "the last four bytes are the generator's");
        stamped[55] = 2;
        assert!(link.check(&[1; 60], &stamped).is_err());
        assert!(link.check(&[1; 60], &[1; 59]).is_err());
    }

    #[test]
    fn only_the_busy_link_that_delays_has_a_target() {
        let mut series = Series::default();
        for regime in ["packet, bursts of 128", "packet, bursts of 1"] {
            for variant in [PLAIN, RATED, DELAYED] {
                let key = super::super::series::Key {
                    variant: variant.into(),
                    size: Some(128),
                    regime: regime.into(),
                    metric: GATEWAY_CPU,
                    unit: "ns",
                };
                series.push(key, 1.0);
            }
        }
        let mut report = Report::new("links", 1);
        judge(&series, &mut report);
        let names: Vec<&str> = report.targets.iter().map(|target| target.name.as_str()).collect();
        assert_eq!(names.len(), 3, "{names:?}");
        assert!(names.iter().filter(|name| name.contains("1 ms")).all(|name| name.contains("128, ")), "{names:?}");
    }
}
