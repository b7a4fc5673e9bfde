//! Other ends for flows: network address translation (RFC 3022).

mod flows;
mod shift;

use crate::contract::plan::{FOUND_MAX, FusedKey, FusedNext, FusedStep};
use crate::frame::Frame;
use crate::graph::arguments::{ArgumentNames, Arguments, Ip4, Span64, words_of};
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::fused::{EngineTable, FusedAt, FusedBody, FusedLabel, NoForm};
use crate::graph::packet::{self, FlowEnds};
use crate::graph::pattern::FlowPattern;
use click::classes::nearest;
use flows::{Flow, Flows};

/// `IPRewriter`.
pub const CLASS: EngineClass = EngineClass {
    name: "IPRewriter",
    doc: "Gives TCP and UDP flows other addresses and ports, and their answers the first ones back. \
          IPRewriter(INPUT0, ...): drop, pass OUTPUT, keep FOUT ROUT, pattern SADDR SPORT DADDR DPORT FOUT \
          ROUT, or pattern NAME FOUT ROUT (IPRewriterPatterns). \
          MAPPING_CAPACITY flows; TCP_TIMEOUT, TCP_DONE_TIMEOUT and UDP_TIMEOUT in seconds: 86400, 240 and 300; \
          TCP_NODATA_TIMEOUT: 300, of connections that nobody answers. \
          Handlers: mappings, nmappings, kernel_mappings, kernel_refused, mapping_failures",
    make: Make::with("1-/1-", "h/h", "x/x", |args| make(args, false)),
};

/// Flows that one engine knows, at most.
const FLOWS_MAX: u32 = 1 << 16;

/// Seconds until a flow of nothing is forgotten.
const TCP_TIMEOUT: u64 = 86_400;
const UDP_TIMEOUT: u64 = 300;
const TCP_DONE: u64 = 240;
const TCP_NODATA: u64 = 300;

/// What is done for a flow that comes in.
#[derive(Clone, PartialEq)]
enum Input {
    Drop,
    Pass(u16),
    Keep(u16, u16),
    Pattern(Pattern),
}

/// What flows become, and where they leave.
#[derive(Clone, PartialEq)]
pub(super) struct Pattern {
    ends: FlowPattern,
    /// The next port to try.
    next: u16,
    outputs: (u16, u16),
}

/// The same of pings, whose flows have nothing else than a time until they are forgotten.
pub(super) fn make_of_pings(args: &mut Arguments<'_>) -> Option<Box<dyn Engine>> {
    make(args, true)
}

fn make(args: &mut Arguments<'_>, of_pings: bool) -> Option<Box<dyn Engine>> {
    let (capacity, tcp) = (args.key("MAPPING_CAPACITY", FLOWS_MAX)?, args.key("TCP_TIMEOUT", seconds(TCP_TIMEOUT))?);
    let other = if of_pings { "TIMEOUT" } else { "UDP_TIMEOUT" };
    let (udp, done) = (args.key(other, seconds(UDP_TIMEOUT))?, args.key("TCP_DONE_TIMEOUT", seconds(TCP_DONE))?);
    let unanswered = args.key("TCP_NODATA_TIMEOUT", seconds(TCP_NODATA))?;
    args.ignore(&[
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
            Ok(input) => {
                wrong |= input.outputs().into_iter().any(|output| !args.leads(argument, output));
                inputs.push(input);
            }
            Err(why) => {
                args.say(argument, why, "as pattern 192.0.2.1 1024-65535 - - 0 1");
                wrong = true;
            }
        }
    }
    if !wrong && inputs.len() != usize::from(args.ports.0) {
        args.say_all(format!("'{}' has {} inputs", args.name, args.ports.0), format!("{} are described", inputs.len()));
        wrong = true;
    }
    let flows = Flows::new([tcp.0, done.0, udp.0, unanswered.0], capacity.min(FLOWS_MAX) as usize);
    (!wrong).then(|| Box::new(IpRewriter { inputs, flows, of_pings, failures: 0 }) as Box<dyn Engine>)
}

fn seconds(count: u64) -> Span64 {
    Span64(count * 1_000_000_000)
}

impl Input {
    /// The same as it was before any flow.
    fn first(&self) -> Input {
        match self {
            Input::Pattern(pattern) => Input::Pattern(Pattern::of(pattern.ends.clone(), pattern.outputs)),
            other => other.clone(),
        }
    }

    /// The outputs that its packets leave by.
    fn outputs(&self) -> Vec<u16> {
        match self {
            Input::Drop => Vec::new(),
            Input::Pass(output) => vec![*output],
            Input::Keep(forward, back) | Input::Pattern(Pattern { outputs: (forward, back), .. }) => {
                vec![*forward, *back]
            }
        }
    }

    fn read(words: &[&str], names: &ArgumentNames) -> Result<Input, String> {
        match *words {
            ["drop" | "discard"] => Ok(Input::Drop),
            ["pass"] => Ok(Input::Pass(0)),
            ["pass" | "nochange", to] => Ok(Input::Pass(output(to)?)),
            ["keep", forward, back] => Ok(Input::Keep(output(forward)?, output(back)?)),
            ["pattern", ref rest @ ..] => Pattern::read(rest, names).map(Input::Pattern),
            _ => Err(format!("'{}' says nothing about flows: drop, pass, keep or pattern", words.join(" "))),
        }
    }
}

/// What gives flows other ends.
pub(super) struct IpRewriter {
    inputs: Vec<Input>,
    flows: Flows,
    /// Whether they are of pings.
    of_pings: bool,
    failures: u64,
}

impl Engine for IpRewriter {
    fn keeps(&self) -> Option<u64> {
        Some(self.flows.bytes())
    }

    fn push(&mut self, input: u16, mut frame: Frame, cx: &mut GraphCx<'_>) -> Pushed {
        let bytes = packet::from_ip(&frame);
        let (ends, is_request) = match self.of_pings {
            true => FlowEnds::of_ping(bytes).map_or((None, None), |(ends, is_request)| (Some(ends), Some(is_request))),
            false => (FlowEnds::of(bytes), None),
        };
        // Requests go where the first one went, and replies come back.
        let known = ends.and_then(|ends| self.flows.find(&ends, cx.now));
        let known = known.filter(|flow| is_request.is_none_or(|is_request| is_request == flow.is_first));
        let found = match (known, self.inputs.get(usize::from(input)), ends) {
            (Some(flow), ..) => Some(flow),
            (None, Some(Input::Pass(output)), _) => return Pushed::To(*output, frame),
            (None, Some(Input::Drop) | None, _) | (None, _, None) => None,
            (None, ..) if is_request == Some(false) => None,
            (None, Some(_), Some(ends)) => {
                let (is_paid, now) = (!cx.scratch.no_room, cx.now);
                self.begin((ends, is_paid, now), |it| it.make(input.into(), ends, now))
            }
        };
        let Some(flow) = found else { return Pushed::thrown(frame) };
        let (header, at) = (packet::ip(&frame).map_or(20, |ip| ip.header_len()), packet::ip_at(&frame));
        if flow.becomes.protocol == packet::protocol::TCP {
            let flags = frame.bytes().get(at + header + 13).copied().unwrap_or(0);
            if flags & 0x05 != 0 {
                self.flows.end(flow);
            } else if flags & 0x12 == 0x02 && flow.has_ended() {
                self.flows.anew(flow);
            }
        }
        flow.becomes.write(packet::from_ip_mut(&mut frame));
        // One that has begun anew is not, whatever it was.
        if let Some(ends) = ends.filter(|_| flow.is_shifted) {
            self.shift(packet::from_ip_mut(&mut frame), &ends, &flow);
        }
        frame.notes.next = flow.becomes.destination.0.0;
        Pushed::To(flow.output, frame)
    }

    fn read(&self, handler: &str) -> Option<String> {
        match handler {
            "nmappings" | "size" => Some(self.flows.len().to_string()),
            "kernel_refused" => Some(self.flows.unshown.to_string()),
            "kernel_mappings" => Some(self.flows.in_kernel().to_string()),
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
                let mut lines: Vec<_> = self.flows.all().map(line).collect();
                lines.sort();
                Some(lines.join("\n"))
            }
            _ => None,
        }
    }

    fn meet_table(&mut self, table: Option<EngineTable>) {
        self.flows.meet(table);
    }

    fn kernel(&self, _: u16, at: FusedAt, body: &mut FusedBody<'_>) -> Result<FusedLabel, NoForm> {
        at.plain_ip()?;
        if self.of_pings {
            return Err(NoForm::Class);
        }
        if usize::from(body.outputs()) > FOUND_MAX {
            return Err(NoForm::Because(format!("it has more than {FOUND_MAX} outputs")));
        }
        let behind = FusedAt { next: Some(FusedNext::Flow(4)), is_readdressed: true, ..at };
        let mut outputs = Vec::new();
        for output in 0..body.outputs() {
            let label = body.to(output, behind)?;
            outputs.push(body.steps(vec![FusedStep::Readdress], label)?);
        }
        body.look_up(FusedKey::Ends, &outputs, "flows begin and end in user space")
    }

    fn take_state(&mut self, before: &mut dyn Engine) {
        // Flows go on if they would become the same, and leave by the same outputs.
        if let Some(before) = before.as_any().and_then(|before| before.downcast_mut::<IpRewriter>())
            && self.inputs.iter().map(Input::first).eq(before.inputs.iter().map(Input::first))
        {
            self.flows.take(&mut before.flows);
            self.inputs.clone_from(&before.inputs);
        }
    }

    fn as_any(&mut self) -> Option<&mut dyn core::any::Any> {
        Some(self)
    }
}

impl IpRewriter {
    /// A packet of TCP says where it is in its flow, and what is asked for next.
    fn shift(&self, bytes: &mut [u8], ends: &FlowEnds, flow: &Flow) {
        let (said, asked) = (self.flows.shift_of(ends), self.flows.shift_of(&flow.becomes.reversed()));
        packet::renumber(bytes, |number| said.of(number), |number| asked.back(number));
    }

    /// Whether there is such a flow.
    pub(super) fn knows(&mut self, ends: &FlowEnds, now: u64) -> bool {
        !self.flows.is_free(ends, now)
    }

    /// Bytes of a flow from this number on are so many more behind here.
    pub(super) fn lengthen(&mut self, ends: &FlowEnds, from: u32, longer: u32, now: u64) {
        self.flows.shift(ends, from, longer, now);
    }

    /// What a flow becomes that somebody else has announced, by a pattern; it begins unless it is known. Nothing if there is no
    /// room for it.
    pub(super) fn open(&mut self, pattern: &mut Pattern, ends: FlowEnds, is_paid: bool, now: u64) -> Option<FlowEnds> {
        let known = self.flows.find(&ends, now);
        let flow = known.or_else(|| {
            self.begin((ends, is_paid, now), |it| {
                let becomes = pattern.free_in(&mut it.flows, ends, it.of_pings, now)?;
                Some((becomes, pattern.outputs))
            })
        });
        flow.map(|flow| flow.becomes)
    }

    /// The ends that a packet of a flow had before it had these.
    pub(super) fn before(&mut self, ends: &FlowEnds, now: u64) -> Option<FlowEnds> {
        self.flows.before(ends, now)
    }

    /// A new flow, with its answers; nothing if there is no room for it, or nothing that it could become.
    fn begin(
        &mut self,
        (ends, is_paid, now): (FlowEnds, bool, u64),
        make: impl FnOnce(&mut IpRewriter) -> Option<(FlowEnds, (u16, u16))>,
    ) -> Option<Flow> {
        let made = if self.flows.has_room(now, is_paid) { make(self) } else { None };
        let Some((becomes, outputs)) = made else {
            self.failures += 1;
            return None;
        };
        Some(self.flows.begin(ends, becomes, outputs, now))
    }

    fn make(&mut self, input: usize, ends: FlowEnds, now: u64) -> Option<(FlowEnds, (u16, u16))> {
        let (flows, of_pings) = (&mut self.flows, self.of_pings);
        match self.inputs.get_mut(input)? {
            Input::Keep(forward, back) => flows.is_free(&ends.reversed(), now).then_some((ends, (*forward, *back))),
            Input::Pattern(pattern) => pattern.free_in(flows, ends, of_pings, now).map(|it| (it, pattern.outputs)),
            Input::Drop | Input::Pass(_) => None,
        }
    }
}

/// Ports that are tried for one flow, at most.
const TRIES_MAX: u32 = 64;

/// An output in words.
fn output(word: &str) -> Result<u16, String> {
    word.parse().map_err(|_| format!("'{word}' is no output"))
}

/// The words of a pattern that has a name.
fn named<'a>(name: &str, names: &'a ArgumentNames) -> Result<Vec<&'a str>, String> {
    let known = names.patterns.get(name).ok_or_else(|| {
        let near = nearest(name, names.patterns.keys().map(String::as_str));
        let near = near.map_or(String::new(), |near| format!("; did you mean '{near}'?"));
        format!("'{name}' is no pattern of IPRewriterPatterns{near}")
    })?;
    Ok(known.iter().map(String::as_str).collect())
}

impl Pattern {
    /// One that no flow has been given anything of.
    fn of(ends: FlowPattern, outputs: (u16, u16)) -> Pattern {
        Pattern { next: ends.ports.map_or(0, |(first, _)| first), ends, outputs }
    }

    /// A pattern in words: the name of one or four words, and two outputs.
    pub(super) fn read(words: &[&str], names: &ArgumentNames) -> Result<Pattern, String> {
        let (ends, forward, back) = match *words {
            [ref ends @ .., forward, back] if ends.len() == 4 => (ends.to_vec(), forward, back),
            [name, forward, back] => (named(name, names)?, forward, back),
            _ => {
                return Err(format!(
                    "a pattern is SADDR SPORT DADDR DPORT FOUT ROUT, or NAME FOUT ROUT, not '{}'",
                    words.join(" ")
                ));
            }
        };
        Ok(Pattern::of(FlowPattern::read(&ends, names)?, (output(forward)?, output(back)?)))
    }

    /// The next port is that of the one before, if this one is the same.
    pub(super) fn go_on(&mut self, before: &Pattern) {
        if self.ends == before.ends {
            self.next = before.next;
        }
    }

    /// What a flow becomes, with a port that no other flow has.
    fn free_in(&mut self, flows: &mut Flows, ends: FlowEnds, of_pings: bool, now: u64) -> Option<FlowEnds> {
        let tries = self.ends.ports.map_or(1, |(first, last)| u32::from(last - first) + 1).min(TRIES_MAX);
        (0..tries).find_map(|_| Some(self.change(ends, of_pings)).filter(|it| flows.is_free(&it.reversed(), now)))
    }

    /// What a flow becomes, with the next port.
    fn change(&mut self, ends: FlowEnds, of_pings: bool) -> FlowEnds {
        let (from, to) = (ends.source, ends.destination);
        let port = match self.ends.ports {
            None => from.1,
            Some((first, last)) => {
                let port = self.next;
                self.next = if port >= last { first } else { port + 1 };
                port
            }
        };
        let source = (self.ends.source.unwrap_or(from.0), port);
        // A ping has one identifier, whatever is written for the other end.
        let at = if of_pings { port } else { self.ends.port.unwrap_or(to.1) };
        let destination = (self.ends.destination.unwrap_or(to.0), at);
        FlowEnds { source, destination, ..ends }
    }
}
