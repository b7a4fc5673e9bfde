//! The burst generator and sink (`bench/c/burst.c`) as a value: loads a packet, warms a gateway up, measures slices.
//!
//! The generator is a process of its own in C, because it must spend little beside the gateway and needs system calls that this
//! module may not make. It speaks lines ([`super::dialogue`]). Each answer is checked; a generator that says something unexpected is an
//! error, never a figure.

use std::ffi::OsString;
use std::ops::AddAssign;
use std::path::Path;
use std::process::Command;

use super::Error;
use super::dialogue::Dialogue;

/// Milliseconds after which the rest of a burst counts as lost.
const LOSS_TIMEOUT_MS: u32 = 200;

/// A running generator.
#[derive(Debug)]
pub(crate) struct Generator {
    dialogue: Dialogue,
}

/// What one slice, or several added up, measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slice {
    /// Packets sent.
    pub(crate) sent: u64,
    /// Packets that came through the gateway.
    pub(crate) arrived: u64,
    /// Bursts that did not arrive whole in time.
    pub(crate) lost_bursts: u64,
    /// CPU time of the gateway's process, all threads, user and system, in nanoseconds.
    pub(crate) gateway_ns: u64,
    /// CPU time of generator and sink, in nanoseconds.
    pub(crate) own_ns: u64,
    /// Wall-clock time, in nanoseconds.
    pub(crate) wall_ns: u64,
}

impl Generator {
    /// Starts `program` by `launch`; returns it with the ports it named.
    pub(crate) fn start(
        launch: Command,
        program: &Path,
        arguments: &[OsString],
    ) -> Result<(Generator, Vec<u16>), Error> {
        let (dialogue, line) = Dialogue::start(launch, program, arguments)?;
        let Some(ports) = line.strip_prefix("ready") else { return Err(Error::Protocol(line)) };
        let ports = ports.split_whitespace().filter_map(|port| port.parse().ok()).collect();
        Ok((Generator { dialogue }, ports))
    }

    /// From now on bursts are `burst` copies of a packet, or of several of one length in turn.
    pub(crate) fn load(&mut self, burst: u32, packets: &[Vec<u8>]) -> Result<(), Error> {
        let mut command = format!("load {burst}");
        for packet in packets {
            match self.dialogue.ask(&format!("{command} {}", hex::encode(packet)))?.as_str() {
                "ok" => command = "also".into(),
                other => return Err(Error::Protocol(other.into())),
            }
        }
        Ok(())
    }

    /// The frames that are loaded are of so many flows in turn, which differ in their ports (`bench/c/burst.c`).
    pub(crate) fn flows(&mut self, count: u32) -> Result<(), Error> {
        match self.dialogue.ask(&format!("flows {count}"))?.as_str() {
            "ok" => Ok(()),
            other => Err(Error::Protocol(other.into())),
        }
    }

    /// Sends packets at a rate for so many milliseconds; whether all arrived, and could be sent so fast at all.
    pub(crate) fn pace(&mut self, packets_per_second: u32, ms: u32) -> Result<bool, Error> {
        let line = self.dialogue.ask(&format!("pace {packets_per_second} {ms}"))?;
        parse_pace(&line, ms).ok_or(Error::Protocol(line))
    }

    /// Sends bursts until `whole` in a row arrived; `false` if that took more than `limit_ms` milliseconds.
    pub(crate) fn warm(&mut self, whole: u32, limit_ms: u32) -> Result<bool, Error> {
        match self.dialogue.ask(&format!("warm {whole} {limit_ms}"))?.as_str() {
            "warm 1" => Ok(true),
            "warm 0" => Ok(false),
            other => Err(Error::Protocol(other.into())),
        }
    }

    /// Sends `bursts` bursts and measures; also returns the last packet as it arrived.
    pub(crate) fn run(&mut self, gateway: u32, bursts: u32) -> Result<(Slice, Vec<u8>), Error> {
        let line = self.dialogue.ask(&format!("run {gateway} {bursts} {LOSS_TIMEOUT_MS}"))?;
        parse_run(&line).ok_or(Error::Protocol(line))
    }
}

impl AddAssign for Slice {
    fn add_assign(&mut self, other: Slice) {
        self.sent += other.sent;
        self.arrived += other.arrived;
        self.lost_bursts += other.lost_bursts;
        self.gateway_ns += other.gateway_ns;
        self.own_ns += other.own_ns;
        self.wall_ns += other.wall_ns;
    }
}

fn parse_run(line: &str) -> Option<(Slice, Vec<u8>)> {
    let mut words = line.strip_prefix("run ")?.split(' ');
    let mut number = || words.next()?.parse().ok();
    let slice = Slice {
        sent: number()?,
        arrived: number()?,
        lost_bursts: number()?,
        gateway_ns: number()?,
        own_ns: number()?,
        wall_ns: number()?,
    };
    Some((slice, hex::decode(words.next()?).ok()?))
}

/// Whether all packets came, of a generator that took no more than a twentieth longer than it should.
fn parse_pace(line: &str, ms: u32) -> Option<bool> {
    let mut words = line.strip_prefix("pace ")?.split(' ').map(str::parse::<u64>);
    let (sent, arrived, took_ns) = (words.next()?.ok()?, words.next()?.ok()?, words.next()?.ok()?);
    Some(arrived >= sent && sent > 0 && took_ns <= u64::from(ms) * 1_050_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_kept_when_all_arrives_in_time() {
        assert_eq!(parse_pace("pace 10 10 100000000", 100), Some(true));
        assert_eq!(parse_pace("pace 10 9 100000000", 100), Some(false));
        assert_eq!(parse_pace("pace 10 10 200000000", 100), Some(false));
        assert_eq!(parse_pace("pace 10", 100), None);
    }

    #[test]
    fn a_run_line_is_read_whole_or_not_at_all() {
        let (slice, sample) = parse_run("run 256 255 1 1000 2000 3000 0aff").unwrap();
        let expected = Slice { sent: 256, arrived: 255, lost_bursts: 1, gateway_ns: 1000, own_ns: 2000, wall_ns: 3000 };
        assert_eq!((slice, sample), (expected, vec![0x0a, 0xff]));
        for bad in ["", "run 1 2 3", "run a 255 1 1000 2000 3000 00", "warm 1", "run 1 2 3 4 5 6 zz"] {
            assert_eq!(parse_run(bad), None, "{bad}");
        }
    }

    #[test]
    fn slices_add_up() {
        let one = Slice { sent: 1, arrived: 1, lost_bursts: 0, gateway_ns: 5, own_ns: 6, wall_ns: 7 };
        let mut sum = one;
        sum += one;
        assert_eq!(sum, Slice { sent: 2, arrived: 2, lost_bursts: 0, gateway_ns: 10, own_ns: 12, wall_ns: 14 });
    }
}
