//! Sets of nftables beside the classifier: what Linux takes to forward a packet that its rules must find among many. Example: 1,024
//! elements of two addresses with prefixes, a protocol and two ranges of ports, of which one is the packet's.
//!
//! A set of exact elements is a hash table in the kernel; one of intervals over several fields is a table for each field. The program
//! `nft` reads both. The figure is the whole packet's, so what a set costs is the difference to a set of one element.

use std::fmt::Write as _;
use std::process::{Command, Stdio};

use super::super::compile::Programs;
use super::super::flood::{Channel, Flood, Rhythm, Stream, Variant};
use super::super::report::Report;
use super::super::series::Series;
use super::super::{Error, Settings};
use super::{FEW, MANY, QUICK_MANY};

/// Variants.
const WITHOUT: &str = "Linux forwarding, no rules";
const ONE: &str = "nftables, exact, 1 element";
const EXACT_FEW: &str = "nftables, exact, 1,024 elements";
const EXACT_MANY: &str = "nftables, exact, many elements";
const RANGES_ONE: &str = "nftables, intervals, 1 element";
const RANGES_FEW: &str = "nftables, intervals, 1,024 elements";

/// What others are compared with.
pub(super) const BASELINES: &[&str] = &[WITHOUT];

/// Bytes of IP packets, and packets that enter together.
const SIZE: usize = 128;
const BURST: u32 = 64;

/// Measures them.
pub(super) fn run(settings: &Settings, report: &mut Report) -> Result<Series, Error> {
    if let Err(why) = version() {
        report.note(format!("SKIPPED nftables: {why}."));
        return Ok(Series::default());
    }
    let programs = Programs::ready()?;
    let kernel = programs.kernel()?;
    if let Err(error) = Channel::new(&programs, &kernel, settings.cpus(), Rhythm::Flood) {
        report.note(format!("SKIPPED nftables: {error}."));
        return Ok(Series::default());
    }
    let many = if settings.quick { QUICK_MANY } else { MANY };
    let filtered = |name, rules: String| Variant::linux(name).filtered(rules);
    let variants = vec![
        filtered(WITHOUT, String::new()),
        filtered(ONE, exact(1)),
        filtered(EXACT_FEW, exact(FEW)),
        filtered(EXACT_MANY, exact(many)),
        filtered(RANGES_ONE, intervals(1)),
        filtered(RANGES_FEW, intervals(FEW)),
    ];
    let stream = Stream::ordinary(SIZE, BURST).summed();
    let series = Flood { settings, programs: &programs, kernel: &kernel }.measure(variants, &[stream], &[], report)?;
    report.note(format!(
        "nftables: one rule in `forward` accepts what its set has, all else is dropped; \"many\" are {many} elements. Intervals of {MANY} \
         elements are left out: to load them takes minutes. Rules of which the first that holds is wanted are more than a set says."
    ));
    Ok(series)
}

/// Whether there is such a program here.
fn version() -> Result<(), String> {
    let done = Command::new("nft").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    match done {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("nft: {status}")),
        Err(error) => Err(format!("nft: {error}")),
    }
}

/// Networks of 24 bits, each with a number: the first is that of the next hop, where all packets go.
fn network(number: usize) -> String {
    let at = if number == 0 { 198 << 16 | 18 << 8 | 2 } else { (10 << 16) + number as u32 };
    format!("{}.{}.{}", at >> 16, at >> 8 & 0xff, at & 0xff)
}

/// Rules with a set of exact elements.
fn exact(elements: usize) -> String {
    let of = |number| format!("{}.1 . udp . 9", network(number));
    rules("type ipv4_addr . inet_proto . inet_service", "ip daddr . meta l4proto . th dport", elements, of)
}

/// Rules with a set of intervals over five fields, no two of which have a packet in common.
fn intervals(elements: usize) -> String {
    let of = |number: usize| {
        let (low, high) = (1 + number % 7, 2_000 + number % 1_000);
        format!("198.18.0.0/15 . {}.0/24 . udp . 0-65535 . {low}-{high}", network(number))
    };
    let kind = "type ipv4_addr . ipv4_addr . inet_proto . inet_service . inet_service; flags interval";
    rules(kind, "ip saddr . ip daddr . meta l4proto . th sport . th dport", elements, of)
}

fn rules(kind: &str, key: &str, elements: usize, of: impl Fn(usize) -> String) -> String {
    let mut text = format!("table ip known {{\n set wanted {{ {kind}; elements = {{\n");
    for number in 0..elements {
        let _ = writeln!(text, "{},", of(number));
    }
    text + &format!(
        "}} }}\n chain forward {{ type filter hook forward priority 0; policy drop; {key} @wanted accept; }}\n}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_of_networks_that_differ_and_the_first_is_where_packets_go() {
        let all: std::collections::HashSet<String> = (0..MANY).map(network).collect();
        assert_eq!((all.len(), network(0).as_str()), (MANY, "198.18.2"));
        assert!(exact(3).contains("198.18.2.1 . udp . 9,\n10.0.1.1 . udp . 9,\n10.0.2.1 . udp . 9,\n"));
        assert!(intervals(2).contains("198.18.0.0/15 . 10.0.1.0/24 . udp . 0-65535 . 2-2001,\n"));
    }

    #[test]
    fn nft_reads_the_rules() {
        if let Err(why) = version() {
            println!("SKIPPED: {why}");
            return;
        }
        for text in [exact(1), exact(3), intervals(1), intervals(3)] {
            // It is checked only: nothing of this machine is changed.
            let mut nft = Command::new("nft");
            let mut nft = nft.args(["-c", "-f", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            std::io::Write::write_all(&mut nft.stdin.take().unwrap(), text.as_bytes()).unwrap();
            let output = nft.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            let is_forbidden = said.contains("Operation not permitted");
            assert!(output.status.success() || is_forbidden, "{text}\n{said}");
        }
    }
}
