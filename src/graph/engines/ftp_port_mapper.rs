//! Connections that FTP announces (RFC 959 §4.1.2): a client says `PORT 10,0,0,2,78,52`, and the server connects to it there. Behind a
//! translator that is another place, which is said to the server instead, and opened for it.

use super::ip_rewriter::{IpRewriter, Pattern};
use crate::frame::Frame;
use crate::graph::arguments::{Arguments, Ip4, words_of};
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::packet::{self, FlowEnds};
use crate::graph::partner::Partner;
use crate::wire::ipv4;
use click::arguments::Argument;

/// `FTPPortMapper`.
pub const CLASS: EngineClass = EngineClass {
    name: "FTPPortMapper",
    doc: "Gives FTP's PORT commands the place that their connections have behind a rewriter. FTPPortMapper(CONTROL, DATA, \
          PATTERN FOUT ROUT): CONTROL is the rewriter that these packets come to next, DATA that of the connections. A \
          client opens its own ports from 1024 on. Handlers: mapped, refused",
    make: Make::element("1/1", make),
};

/// The port from which servers connect (RFC 959 §3.2).
const DATA: u16 = 20;

/// Ports below are those of services: no connection of FTP's comes there.
const FIRST: u16 = 1024;

/// Bytes of a TCP header, at least.
const TCP_HEADER: usize = 20;

/// Bytes of a command, at most: `PORT 255,255,255,255,255,255` and its end.
const COMMAND_MAX: usize = 32;

/// The class of rewriters of connections, also by its other names.
const REWRITERS: &[&str] = &["IPRewriter"];

fn make(args: &mut Arguments<'_>) -> Option<Box<dyn Engine>> {
    let [control, data, pattern] = args.rest()[..] else {
        args.say_all(format!("'{}' has three arguments", args.name), "CONTROL, DATA, PATTERN FOUT ROUT");
        return None;
    };
    let rewriter = |args: &mut Arguments<'_>, argument: &Argument| args.other(argument, &argument.text, REWRITERS);
    let (control, data) = (rewriter(args, control), rewriter(args, data));
    let read = Pattern::read(&words_of(pattern), args.names);
    let read = read.map_err(|why| args.say(pattern, why, "as 192.0.2.1 1024-65535 - - 0 1"));
    Some(Box::new(FtpPortMapper { control: control?, data: data?, pattern: read.ok()?, mapped: 0, refused: 0 }))
}

struct FtpPortMapper {
    control: Partner,
    data: Partner,
    pattern: Pattern,
    mapped: u64,
    refused: u64,
}

/// A command, as it stands in a packet.
struct Command {
    ends: FlowEnds,
    /// The number of its first byte.
    number: u32,
    /// Where it begins, and how long it is without its end.
    at: usize,
    length: usize,
    /// Where the client waits.
    place: (Ip4, u16),
}

impl Engine for FtpPortMapper {
    fn push(&mut self, _: u16, mut frame: Frame, cx: &mut GraphCx<'_>) -> Pushed {
        if let Some(command) = Command::of(packet::from_ip(&frame)) {
            let count = if self.map(&mut frame, &command, cx).is_some() { &mut self.mapped } else { &mut self.refused };
            *count += 1;
        }
        Pushed::To(0, frame)
    }

    fn take_state(&mut self, before: &mut dyn Engine) {
        if let Some(before) = before.as_any().and_then(|before| before.downcast_mut::<FtpPortMapper>()) {
            (self.mapped, self.refused) = (before.mapped, before.refused);
            self.pattern.go_on(&before.pattern);
        }
    }

    fn as_any(&mut self) -> Option<&mut dyn core::any::Any> {
        Some(self)
    }

    fn read(&self, handler: &str) -> Option<String> {
        match handler {
            "mapped" => Some(self.mapped.to_string()),
            "refused" => Some(self.refused.to_string()),
            _ => None,
        }
    }
}

impl FtpPortMapper {
    /// Says the other place; nothing if there is none, or the client has none there itself: the packet stays as it was.
    fn map(&mut self, frame: &mut Frame, command: &Command, cx: &mut GraphCx<'_>) -> Option<()> {
        let (Command { ends, place, at, length, number }, now) = (command, cx.now);
        let is_own = place.0 == ends.source.0 && place.1 >= FIRST;
        let data = FlowEnds { source: *place, destination: (ends.destination.0, DATA), ..*ends };
        let is_paid = !cx.scratch.no_room;
        // Who has not seen the connection could not say how much longer it has become.
        if !is_own || !cx.other::<IpRewriter>(&mut self.control)?.knows(ends, now) {
            return None;
        }
        let becomes = cx.other::<IpRewriter>(&mut self.data)?.open(&mut self.pattern, data, is_paid, now)?;
        let (Ip4([a, b, c, d]), port) = becomes.source;
        let text = format!("PORT {a},{b},{c},{d},{},{}", port >> 8, port & 0xff);
        replace(frame, *at, *length, text.as_bytes())?;
        let longer = (text.len() as u32).wrapping_sub(*length as u32);
        if longer != 0 {
            cx.other::<IpRewriter>(&mut self.control)?.lengthen(ends, number.wrapping_add(*length as u32), longer, now);
        }
        Some(())
    }
}

/// Puts other bytes in the place of some of a TCP segment.
fn replace(frame: &mut Frame, at: usize, length: usize, text: &[u8]) -> Option<()> {
    let begin = frame.len() - packet::from_ip(frame).len();
    let mut bytes = packet::from_ip(frame).to_vec();
    bytes.splice(at..at + length, text.iter().copied());
    let total = u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]);
    let total = u16::try_from(usize::from(total) + text.len() - length).ok()?;
    packet::change_word(&mut bytes, 2, total.to_be_bytes());
    packet::sum_transport(&mut bytes, packet::protocol::TCP);
    let longer = (begin + bytes.len()).saturating_sub(frame.len());
    if longer > 0 {
        frame.append(longer)?;
    }
    frame.truncate(begin + bytes.len());
    packet::from_ip_mut(frame).copy_from_slice(&bytes);
    Some(())
}

impl Command {
    /// The command with which a segment begins.
    fn of(bytes: &[u8]) -> Option<Command> {
        let ends = FlowEnds::of(bytes).filter(|ends| ends.protocol == packet::protocol::TCP)?;
        let packet = ipv4::Packet::new_checked(bytes).ok().filter(|packet| !packet.is_fragment())?;
        let (header, total) = (packet.header_len(), packet.total_len());
        let offset = usize::from(bytes.get(header + 12)? >> 4) * 4;
        let at = header + Some(offset).filter(|offset| *offset >= TCP_HEADER)?;
        let number = u32::from_be_bytes(bytes.get(header + 4..header + 8)?.try_into().ok()?);
        let said = bytes.get(at..total)?;
        let line = said.get(..said.iter().take(COMMAND_MAX).position(|byte| *byte == b'\r')?)?;
        let numbers = line.get(5..).filter(|_| line[..5].eq_ignore_ascii_case(b"PORT "))?;
        let numbers: Result<Vec<u8>, _> = core::str::from_utf8(numbers).ok()?.split(',').map(str::parse).collect();
        let [a, b, c, d, high, low] = numbers.ok()?[..] else { return None };
        // What is damaged stays so.
        let sum =
            packet::transport_sum(packet.payload(), (packet.source(), packet.destination()), packet::protocol::TCP);
        Some(()).filter(|()| sum.finish() == 0)?;
        let place = (Ip4([a, b, c, d]), u16::from_be_bytes([high, low]));
        Some(Command { ends, number, at, length: line.len(), place })
    }
}
