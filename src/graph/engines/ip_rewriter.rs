//! Other ends for flows: network address translation (RFC 3022).

use crate::frame::Frame;
use crate::graph::arguments::{AddressNames, Arguments, FromArgument, Ip4, Span64, words_of};
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::packet::{self, FlowEnds};
use std::collections::HashMap;

/// `IPRewriter`.
pub const CLASS: EngineClass = EngineClass {
    name: "IPRewriter",
    doc: "Gives TCP and UDP flows other addresses and ports, and their answers the first ones back. \
          IPRewriter(INPUT0, ...): drop, pass OUTPUT, keep FOUT ROUT, or pattern SADDR SPORT DADDR DPORT FOUT \
          ROUT. Handlers: mappings, nmappings, mapping_failures",
    make: Make::with("1-/1-", "h/h", "x/x", make),
};

/// Flows that one engine knows, at most.
const FLOWS_MAX: u32 = 1 << 16;

/// Seconds until a flow of nothing is forgotten.
const TCP_TIMEOUT: u64 = 86_400;
const UDP_TIMEOUT: u64 = 300;
const TCP_DONE: u64 = 240;

/// What is done for a flow that comes in.
#[derive(Clone, PartialEq)]
enum Input {
    Drop,
    Pass(u16),
    Keep(u16, u16),
    Pattern(Pattern),
}

/// What flows become: nothing stays as it is.
#[derive(Clone, PartialEq)]
struct Pattern {
    source: Option<Ip4>,
    ports: Option<(u16, u16)>,
    destination: Option<Ip4>,
    port: Option<u16>,
    /// The next port to try.
    next: u16,
    outputs: (u16, u16),
}

fn make(args: &mut Arguments<'_>) -> Option<Box<dyn Engine>> {
    let (capacity, tcp) = (args.key("MAPPING_CAPACITY", FLOWS_MAX)?, args.key("TCP_TIMEOUT", seconds(TCP_TIMEOUT))?);
    let (udp, done) =
        (args.key("UDP_TIMEOUT", seconds(UDP_TIMEOUT))?, args.key("TCP_DONE_TIMEOUT", seconds(TCP_DONE))?);
    args.ignore(&[
        "TCP_NODATA_TIMEOUT",
        "TCP_GUARANTEE",
        "UDP_GUARANTEE",
        "GUARANTEE",
        "REAP_INTERVAL",
        "REAP_TCP",
        "REAP_TCP_DONE",
        "REAP_UDP",
        "UDP_STREAMING_TIMEOUT",
        "UDP_STREAM_TIMEOUT",
        "DST_ANNO",
        "REPLY_ANNO",
        "TIMEOUT",
    ]);
    let (mut inputs, mut wrong) = (Vec::new(), false);
    for argument in args.rest() {
        match Input::read(&words_of(argument), args.names) {
            Some(input) => inputs.push(input),
            None => {
                args.say(
                    argument,
                    format!("'{}' says nothing about flows", argument.text),
                    "as pattern 192.0.2.1 1024-65535 - - 0 1",
                );
                wrong = true;
            }
        }
    }
    if !wrong && inputs.len() != usize::from(args.ports.0) {
        args.say_all(format!("'{}' has {} inputs", args.name, args.ports.0), format!("{} are described", inputs.len()));
        wrong = true;
    }
    let timeouts = [tcp.0, done.0, udp.0];
    let capacity = capacity.min(FLOWS_MAX) as usize;
    (!wrong).then(|| {
        Box::new(IpRewriter { inputs, timeouts, capacity, flows: HashMap::new(), failures: 0, swept: 0 })
            as Box<dyn Engine>
    })
}

fn seconds(count: u64) -> Span64 {
    Span64(count * 1_000_000_000)
}

impl Input {
    /// The same as it was before any flow.
    fn first(&self) -> Input {
        match self {
            Input::Pattern(pattern) => {
                let next = pattern.ports.map_or(0, |(first, _)| first);
                Input::Pattern(Pattern { next, ..pattern.clone() })
            }
            other => other.clone(),
        }
    }

    fn read(words: &[&str], names: &AddressNames) -> Option<Input> {
        let either = |word: &str| (word != "-").then(|| Ip4::read(word, names));
        let address = |word: &str| match either(word) {
            None => Some(None),
            Some(read) => read.map(Some),
        };
        match *words {
            ["drop" | "discard"] => Some(Input::Drop),
            ["pass"] => Some(Input::Pass(0)),
            ["pass" | "nochange", output] => Some(Input::Pass(output.parse().ok()?)),
            ["keep", forward, back] => Some(Input::Keep(forward.parse().ok()?, back.parse().ok()?)),
            ["pattern", source, ports, destination, port, forward, back] => {
                let ports = match ports.trim_end_matches(['#', '?']) {
                    "-" => None,
                    ports => {
                        let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
                        let range: (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
                        Some(range).filter(|(first, last)| first <= last)?.into()
                    }
                };
                let port = if port == "-" { None } else { Some(port.parse().ok()?) };
                Some(Input::Pattern(Pattern {
                    source: address(source)?,
                    ports,
                    destination: address(destination)?,
                    port,
                    next: ports.map_or(0, |(first, _)| first),
                    outputs: (forward.parse().ok()?, back.parse().ok()?),
                }))
            }
            _ => None,
        }
    }
}

/// A flow in one direction.
#[derive(Clone, Copy)]
struct Flow {
    becomes: FlowEnds,
    output: u16,
    used: u64,
    /// Whether its connection is ending.
    ends: bool,
}

struct IpRewriter {
    inputs: Vec<Input>,
    /// Of TCP, of TCP that ends, of UDP.
    timeouts: [u64; 3],
    capacity: usize,
    /// Both directions of each.
    flows: HashMap<FlowEnds, Flow>,
    failures: u64,
    swept: u64,
}

/// Time between two sweeps because a table is full: a flood of new flows does not make each packet a sweep.
const SWEEP: u64 = 100_000_000;

impl Engine for IpRewriter {
    fn push(&mut self, input: u16, mut frame: Frame, cx: &mut GraphCx<'_>) -> Pushed {
        let ends = FlowEnds::of(packet::from_ip(&frame));
        let known = ends.and_then(|ends| self.flow(ends, cx.now));
        let found = match (known, self.inputs.get(usize::from(input)), ends) {
            (Some(flow), ..) => Some(flow),
            (None, Some(Input::Pass(output)), _) => return Pushed::To(*output, frame),
            (None, Some(Input::Drop) | None, _) | (None, _, None) => None,
            (None, Some(_), Some(ends)) => self.begin(usize::from(input), ends, cx.now),
        };
        let Some(flow) = found else { return Pushed::thrown(frame) };
        let (header, at) = (packet::ip(&frame).map_or(20, |ip| ip.header_len()), packet::ip_at(&frame));
        if flow.becomes.protocol == packet::protocol::TCP {
            let flags = frame.bytes().get(at + header + 13).copied().unwrap_or(0);
            if flags & 0x05 != 0 {
                self.end(flow);
            }
        }
        flow.becomes.write(packet::from_ip_mut(&mut frame));
        frame.notes.next = flow.becomes.destination.0.0;
        Pushed::To(flow.output, frame)
    }

    fn read(&self, handler: &str) -> Option<String> {
        match handler {
            "nmappings" | "size" => Some((self.flows.len() / 2).to_string()),
            "mapping_failures" => Some(self.failures.to_string()),
            "mappings" | "table" => {
                let end = |(address, port): (Ip4, u16)| format!("{address}:{port}");
                let line = |(from, flow): (&FlowEnds, &Flow)| {
                    let to = flow.becomes;
                    format!(
                        "{} {} > {} {} [{}]",
                        end(from.source),
                        end(from.destination),
                        end(to.source),
                        end(to.destination),
                        flow.output
                    )
                };
                let mut lines: Vec<_> = self.flows.iter().map(line).collect();
                lines.sort();
                Some(lines.join("\n"))
            }
            _ => None,
        }
    }

    fn take_state(&mut self, before: &mut dyn Engine) {
        // Flows go on if they would become the same, and leave by the same outputs.
        if let Some(before) = before.as_any().and_then(|before| before.downcast_mut::<IpRewriter>())
            && self.inputs.iter().map(Input::first).eq(before.inputs.iter().map(Input::first))
        {
            self.flows = core::mem::take(&mut before.flows);
            self.inputs.clone_from(&before.inputs);
        }
    }

    fn as_any(&mut self) -> Option<&mut dyn core::any::Any> {
        Some(self)
    }
}

impl IpRewriter {
    fn flow(&mut self, ends: FlowEnds, now: u64) -> Option<Flow> {
        let timeouts = self.timeouts;
        let flow = self.flows.get_mut(&ends).filter(|flow| flow.is_used(timeouts, now))?;
        flow.used = now;
        Some(*flow)
    }

    /// Both directions of a flow end soon.
    fn end(&mut self, flow: Flow) {
        let back = flow.becomes.reversed();
        let first = self.flows.get_mut(&back).map(|back| {
            back.ends = true;
            back.becomes.reversed()
        });
        if let Some(flow) = first.and_then(|first| self.flows.get_mut(&first)) {
            flow.ends = true;
        }
    }

    /// A new flow, with its answers; nothing if there is no room or no free port for it.
    fn begin(&mut self, input: usize, ends: FlowEnds, now: u64) -> Option<Flow> {
        if self.flows.len() / 2 >= self.capacity && self.swept + SWEEP <= now {
            self.swept = now;
            let timeouts = self.timeouts;
            self.flows.retain(|_, flow| flow.is_used(timeouts, now));
        }
        let made = if self.flows.len() / 2 >= self.capacity { None } else { self.make(input, ends, now) };
        let Some((becomes, (forward, back))) = made else {
            self.failures += 1;
            return None;
        };
        let flow = Flow { becomes, output: forward, used: now, ends: false };
        self.flows.insert(ends, flow);
        self.flows.insert(becomes.reversed(), Flow { becomes: ends.reversed(), output: back, ..flow });
        Some(flow)
    }

    fn make(&mut self, input: usize, ends: FlowEnds, now: u64) -> Option<(FlowEnds, (u16, u16))> {
        let (flows, timeouts) = (&self.flows, self.timeouts);
        let is_free =
            |becomes: FlowEnds| !flows.get(&becomes.reversed()).is_some_and(|flow| flow.is_used(timeouts, now));
        match self.inputs.get_mut(input)? {
            Input::Keep(forward, back) => is_free(ends).then_some((ends, (*forward, *back))),
            Input::Pattern(pattern) => {
                let tries = pattern.ports.map_or(1, |(first, last)| u32::from(last - first) + 1).min(TRIES_MAX);
                (0..tries)
                    .find_map(|_| Some(pattern.of(ends)).filter(|becomes| is_free(*becomes)))
                    .map(|it| (it, pattern.outputs))
            }
            Input::Drop | Input::Pass(_) => None,
        }
    }
}

/// Ports that are tried for one flow, at most.
const TRIES_MAX: u32 = 64;

impl Flow {
    fn is_used(&self, [tcp, done, udp]: [u64; 3], now: u64) -> bool {
        let timeout = match (self.becomes.protocol, self.ends) {
            (packet::protocol::TCP, true) => done,
            (packet::protocol::TCP, false) => tcp,
            _ => udp,
        };
        self.used + timeout > now
    }
}

impl Pattern {
    /// What a flow becomes, with the next port.
    fn of(&mut self, ends: FlowEnds) -> FlowEnds {
        let (from, to) = (ends.source, ends.destination);
        let port = match self.ports {
            None => from.1,
            Some((first, last)) => {
                let port = self.next;
                self.next = if port >= last { first } else { port + 1 };
                port
            }
        };
        let source = (self.source.unwrap_or(from.0), port);
        let destination = (self.destination.unwrap_or(to.0), self.port.unwrap_or(to.1));
        FlowEnds { source, destination, ..ends }
    }
}
