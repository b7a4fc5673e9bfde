//! Round trips (figures 5.2 and 5.3, table 5.2): a question answered by the node, by plain C, and by the kernel.
//!
//! ```text
//! udp:     rtt 127.0.0.1:A ◀──▶ 127.0.0.1:B who answers
//! packet:  rtt s0 ◀──▶ r0 who answers
//! ```
//!
//! The question is a ping packet, evaluated where it arrives; its answer is the packet that the program sends. Plain C
//! gives back as many bytes over the same kind of socket. Both kinds of codes are asked: in the packet, and by digest,
//! as between nodes after their first packet. Who asks is on a CPU of its own, as a host of its own would be, or on
//! that of who answers; then a round trip is the work of both without the waking of a CPU.

use super::super::compile::Programs;
use super::super::dialogue::Dialogue;
use super::super::gateway::{Gateway, Running};
use super::super::line::{ANEP_PORT, EGRESS, INGRESS, Line, S0, frame};
use super::super::node::{NodeGateway, PATIENCE};
use super::super::place::{Cpus, Site, Way, free_port, launch};
use super::super::report::Report;
use super::super::series::{Key, Series, Target};
use super::super::stats::Summary;
use super::super::{Error, Settings};
use super::packets::{Ping, host};
use super::switch::{Mode, Switch};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;

pub(super) const ECHO: &str = "C echo";
const ICMP: &str = "ICMP";
const NODE: &str = "PLAN ping";
const WHOLE: &str = "PLAN ping, code in the packet";

/// A PLAN ping over a C echo.
const LIMIT: f64 = 1.10;

/// Questions in a slice, and slices in a round.
const PINGS: u32 = 500;
const SLICES: usize = 5;

/// Bytes before the payload in a frame.
const HEADERS: usize = 42;

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Echo,
    Kernel,
    Node { by_digest: bool },
    Switch(Mode),
}

impl Answer {
    fn name(self) -> &'static str {
        match self {
            Answer::Echo => ECHO,
            Answer::Kernel => ICMP,
            Answer::Node { by_digest: true } => NODE,
            Answer::Node { by_digest: false } => WHOLE,
            Answer::Switch(Mode::Upcalls) => "PLAN ping, upcalls",
            Answer::Switch(Mode::Queues) => "PLAN ping, queues between threads",
        }
    }
}

/// Whoever answers is ended when this is dropped.
#[derive(Default)]
struct Started {
    process: Option<Running>,
    _switch: Option<Switch>,
}

/// Who asks, and the site of who answers.
struct Stand {
    dialogue: Dialogue,
    site: Site,
    cpus: Cpus,
}

impl Stand {
    fn udp(programs: &Programs, cpus: Cpus) -> Result<Stand, Error> {
        let (listen, next) = (free_port()?, free_port()?);
        let arguments = ["udp".into(), listen.to_string().into()];
        let (dialogue, line) = Dialogue::start(launch(programs, cpus.generator, None), &programs.rtt, &arguments)?;
        let port: Option<u16> = line.strip_prefix("ready ").and_then(|port| port.parse().ok());
        let Some(port) = port else { return Err(Error::Protocol(line)) };
        let way = Way::Udp { listen, previous: SocketAddr::from((Ipv4Addr::LOCALHOST, port)), next, other: None };
        Ok(Stand { dialogue, site: Site::udp(way, programs, cpus)?, cpus })
    }

    fn packet(programs: &Programs, cpus: Cpus) -> Result<Stand, Error> {
        let line = Line::new(programs)?;
        let arguments = ["packet".into(), line.s.netns(), S0.into(), INGRESS.peer_mac.into()];
        match Dialogue::start(launch(programs, cpus.generator, None), &programs.rtt, &arguments)? {
            (dialogue, said) if said == "ready" => {
                Ok(Stand { dialogue, site: Site::packet(line, programs, cpus)?, cpus })
            }
            (_, said) => Err(Error::Protocol(said)),
        }
    }

    fn is_packet(&self) -> bool {
        matches!(self.site.way, Way::Packet { .. })
    }

    fn say(&mut self, word: &str, payload: &[u8]) -> Result<(), Error> {
        let bytes = if self.is_packet() { frame(EGRESS.address, ANEP_PORT, payload) } else { payload.to_vec() };
        self.say_raw(word, &bytes)
    }

    fn say_raw(&mut self, word: &str, bytes: &[u8]) -> Result<(), Error> {
        match self.dialogue.ask(&format!("{word} {}", hex::encode(bytes)))?.as_str() {
            "ok" | "not sent" => Ok(()),
            other => Err(Error::Protocol(other.into())),
        }
    }

    /// The median round trip in nanoseconds, and the last answer's payload; nothing if one was lost.
    fn ping(&mut self, count: u32) -> Result<Option<(u64, Vec<u8>)>, Error> {
        let line = self.dialogue.ask(&format!("ping {count}"))?;
        let wrong = || Error::Protocol(line.clone());
        let mut words = line.strip_prefix("ping ").ok_or_else(wrong)?.split(' ').skip(1);
        let (Some(lost), Some(median)) = (words.next(), words.next()) else { return Err(wrong()) };
        let median = median.parse().map_err(|_| wrong())?;
        let answer = hex::decode(words.next().unwrap_or_default()).unwrap_or_default();
        let start = if self.is_packet() { HEADERS.min(answer.len()) } else { 0 };
        Ok((lost == "0").then(|| (median, answer[start..].to_vec())))
    }

    fn start(&self, programs: &Programs, who: Answer) -> Result<Started, Error> {
        let process = match (who, &self.site.way) {
            (Answer::Kernel, _) => return Ok(Started::default()),
            (Answer::Node { .. }, _) => NodeGateway::new(NODE, &[]).forwards_plan().start(&self.site)?,
            (Answer::Switch(mode), way) => {
                let switch = Switch::start(mode, way, self.cpus.gateway)?;
                return Ok(Started { process: None, _switch: Some(switch) });
            }
            (Answer::Echo, Way::Udp { listen, .. }) => {
                self.site.spawn(&programs.echo, &["udp".into(), listen.to_string().into()])?
            }
            (Answer::Echo, Way::Packet { ingress, .. }) => {
                self.site.spawn(&programs.echo, &["packet".into(), ingress.interface.into()])?
            }
        };
        Ok(Started { process: Some(process), _switch: None })
    }

    /// Sets the question, and asks until it is answered rightly.
    fn warm(&mut self, who: Answer, started: &mut Started, ping: &Ping) -> Result<(), Error> {
        let (from, to) = (host(INGRESS.peer), host(EGRESS.address));
        let short = ping.question(from, to, true)?;
        let whole = ping.question(from, to, false)?;
        let limit = Instant::now() + PATIENCE;
        while Instant::now() < limit {
            match who {
                Answer::Kernel => self.say_raw("load", &icmp(short.len()))?,
                Answer::Echo => self.say("load", &short)?,
                Answer::Node { by_digest: false } => self.say("load", &whole)?,
                Answer::Node { by_digest: true } | Answer::Switch(_) => {
                    // The code comes once, and the answer's is told to be here.
                    self.say("tell", &whole)?;
                    self.say("tell", &ping.have()?)?;
                    self.say("load", &short)?;
                }
            }
            let Some((_, answer)) = self.ping(PINGS)? else {
                if started.process.as_mut().is_some_and(Running::has_ended) {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(5));
                continue;
            };
            let right = match who {
                Answer::Kernel => true,
                Answer::Echo => answer == short,
                // Nobody has told the node that the code of the answer is here.
                Answer::Node { by_digest: false } => Ping::is_answer(from, false, &answer),
                Answer::Node { by_digest: true } | Answer::Switch(_) => Ping::is_answer(from, true, &answer),
            };
            if right {
                return Ok(());
            }
        }
        let nothing = || Error::Silent { gateway: who.name().into(), state: "no right answer".into(), log: "".into() };
        Err(started.process.as_mut().map_or_else(nothing, |process| process.silent(who.name())))
    }
}

/// An echo request to the router, as long as a datagram with so much payload.
fn icmp(payload: usize) -> Vec<u8> {
    const PROTOCOL: usize = 23;
    let sum = |bytes: &[u8]| {
        let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
        let sum: u32 = words.sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        (!((folded & 0xffff) + (folded >> 16)) as u16).to_be_bytes()
    };
    let mut frame = frame(INGRESS.address, 0, &vec![0; payload]);
    frame[PROTOCOL] = 1;
    frame[24..26].fill(0);
    let checksum = sum(&frame[14..34]);
    frame[24..26].copy_from_slice(&checksum);
    frame[34..HEADERS].copy_from_slice(&[8, 0, 0, 0, 0, 1, 0, 1]);
    let checksum = sum(&frame[34..]);
    frame[36..38].copy_from_slice(&checksum);
    frame
}

/// Measures round trips over both kinds of ports.
pub(super) fn run(settings: &Settings, programs: &Programs, report: &mut Report) -> Result<Series, Error> {
    let mut all = Series::default();
    let one = settings.cpus();
    let two = Settings { two_cpus: true, ..settings.clone() }.cpus();
    let regimes = [(two, "a CPU for each end"), (one, "one CPU")];
    for (cpus, words) in regimes.into_iter().take(if settings.quick { 1 } else { 2 }) {
        let code = |by_digest| Answer::Node { by_digest };
        let switches = [Answer::Switch(Mode::Upcalls), Answer::Switch(Mode::Queues)];
        let udp = [&[Answer::Echo, code(true), code(false)][..], &switches[..]].concat();
        let packet = [Answer::Echo, Answer::Kernel, code(true), code(false)];
        for (place, who) in [("udp", &udp[..]), ("packet", &packet[..])] {
            let regime = format!("{place}, round trip, {words}");
            let make = || if place == "udp" { Stand::udp(programs, cpus) } else { Stand::packet(programs, cpus) };
            match compare(settings, programs, &regime, who, &make) {
                Ok(series) => {
                    let ratios = series.ratios(&key("", &regime), NODE, ECHO);
                    report.targets.extend(Target::at_most(format!("{regime}: {NODE} / {ECHO}"), &ratios, LIMIT));
                    all.extend(series);
                }
                Err(Error::NoNamespace) => report.note(format!("SKIPPED {regime}: {}.", Error::NoNamespace)),
                Err(error) => return Err(error),
            }
        }
    }
    Ok(all)
}

fn key(variant: &str, regime: &str) -> Key {
    Key { variant: variant.into(), size: None, regime: regime.into(), metric: "round trip", unit: "µs" }
}

fn compare(
    settings: &Settings,
    programs: &Programs,
    regime: &str,
    who: &[Answer],
    make: &dyn Fn() -> Result<Stand, Error>,
) -> Result<Series, Error> {
    let ping = Ping::new()?;
    let mut stands = who.iter().map(|_| make()).collect::<Result<Vec<Stand>, Error>>()?;
    let mut series = Series::default();
    settings.rounds(regime, |round| {
        stands.rotate_left(1);
        let mut started = Vec::new();
        for (who, stand) in who.iter().zip(&stands) {
            started.push(stand.start(programs, *who)?);
        }
        for ((who, stand), started) in who.iter().zip(&mut stands).zip(&mut started) {
            stand.warm(*who, started, &ping)?;
        }
        let mut times = vec![Vec::with_capacity(SLICES); who.len()];
        for slice in 0..SLICES {
            for step in 0..who.len() {
                let at = if (round + slice).is_multiple_of(2) { step } else { who.len() - 1 - step };
                // A slice in which something was lost has no figure.
                times[at].extend(stands[at].ping(PINGS)?.map(|(median, _)| median as f64 / 1000.0));
            }
        }
        for (who, times) in who.iter().zip(&times) {
            series.push(key(who.name(), regime), Summary::of(times).map_or(f64::NAN, |summary| summary.median));
        }
        Ok(())
    })?;
    Ok(series)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_request_is_as_long_as_a_datagram_and_has_right_checksums() {
        let request = icmp(101);
        assert_eq!(request.len(), HEADERS + 101);
        let sums_up = |bytes: &[u8]| {
            let words = bytes.chunks(2).map(|pair| u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0)));
            words.sum::<u64>() % 0xffff == 0
        };
        assert!(sums_up(&request[14..34]) && sums_up(&request[34..]));
    }

    /// The whole way over UDP: who asks is answered by plain C, by a node as it is, and by its parts.
    #[test]
    fn questions_are_answered_over_udp_without_and_with_queues() {
        let programs = Programs::ready().unwrap();
        let settings = Settings::quiet(1);
        let ping = Ping::new().unwrap();
        for who in [Answer::Echo, Answer::Switch(Mode::Upcalls), Answer::Switch(Mode::Queues)] {
            let mut stand = Stand::udp(&programs, settings.cpus()).unwrap();
            let mut started = stand.start(&programs, who).unwrap();
            stand.warm(who, &mut started, &ping).unwrap();
            assert!(stand.ping(10).unwrap().is_some_and(|(median, _)| median > 0), "{who:?}");
        }
    }
}
