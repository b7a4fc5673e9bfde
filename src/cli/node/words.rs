//! Words shared by `anode node check` and `anode node status`, and rows of the kernel half's counters.

use model::kernel::{Kernel, KernelUsage};
use model::status::{Balance, Chosen, Cpu, Foreign, Link, Merged, Port, Status, Worker};
use model::wish::Standing;
use std::fmt::Write as _;

/// What is said of a neighbour with these keys, that to send with first; `demanded`: by its port.
pub(super) fn keys(numbers: &[String], demanded: bool) -> String {
    let proves = if demanded { "proves what it sends" } else { "may prove what it sends (not demanded)" };
    match numbers.split_first() {
        None => String::new(),
        Some((first, [])) => format!(", {proves}; key {first}"),
        Some((first, others)) => format!(", {proves}; keys {first} (sends), {}", others.join(", ")),
    }
}

/// What is said of a port of the kernel half to which nothing is redirected.
pub(super) const NOT_REDIRECTED: &str = "; redirects to it would not arrive: the user half sends; see the log, or at \
                                         the veth's other end: ethtool -K PEER gro on";

/// A row for each reason of drops in the kernel half that has happened, as for those of the user half.
pub(super) fn kernel_drops(text: &mut String, kernel: &Kernel) {
    let of_codes = |count: fn(&KernelUsage) -> u64| kernel.codes.iter().map(|code| count(&code.usage)).sum::<u64>();
    let counts = &kernel.counts;
    for (reason, drops, help) in [
        (
            "entry-share",
            counts.dropped_over_share,
            "capsules of a port want more of a CPU than their share ([entry]); kernel.counts.dropped_over_share",
        ),
        (
            "forged",
            counts.dropped_forged,
            "frames from a wire pretended to come from the kernel half; kernel.counts.dropped_forged",
        ),
        (
            "unraised",
            counts.dropped_unraised,
            "frames of capsules had no room for what the user half is told; kernel.counts.dropped_unraised",
        ),
        (
            "budget",
            of_codes(|usage| usage.dropped_over_budget),
            "the domain of the code is over its budget; dropped_over_budget of each code",
        ),
        (
            "code",
            of_codes(|usage| usage.dropped_by_code),
            "the capsule's code decided to drop it; dropped_by_code of each code",
        ),
        (
            "verdict",
            of_codes(|usage| usage.dropped_for_verdict),
            "the capsule's code returned a verdict that does not exist; dropped_for_verdict of each code",
        ),
    ] {
        if drops > 0 {
            let _ = writeln!(text, "  drop in the kernel half: {reason:12} {drops:>8}   {help}");
        }
    }
}

/// One of several workers: its load, gaps and queue.
fn worker(text: &mut String, worker: &Worker) {
    let Worker { worker, balance, waiting, cpu } = worker;
    // One that has not said anything of its CPU yet.
    let of = |number: fn(&Cpu) -> u64| cpu.as_ref().map_or(0, number);
    let _ = write!(
        text,
        "  worker {worker:2} load {:5.1} %, {waiting} packets wait, {} frames received; {} gaps of 1 ms or more, {} µs at most",
        of(|cpu| cpu.load_permille) as f64 / 10.0,
        balance.received,
        of(|cpu| cpu.gaps),
        of(|cpu| cpu.longest_gap_us)
    );
    let panics = of(|cpu| cpu.panics);
    let _ = if panics > 0 { writeln!(text, "; began anew after {panics} panics") } else { writeln!(text) };
}

/// What became of all frames, and the row that says whether any was lost without a counter.
pub(super) fn balance(text: &mut String, status: &Status) {
    let Balance { received, made, sent, delivered, used, not_ours, dropped, held, .. } = status.balance;
    let _ = writeln!(
        text,
        "  frames {received} received, {made} made here: {sent} sent, {delivered} delivered, {used} used, \
         {not_ours} not ours, {dropped} dropped, {held} held"
    );
    let lost = status.unaccounted;
    let said = if lost == 0 { "" } else { "   frames that no counter knows: a bug, please report it" };
    let _ = writeln!(text, "  unaccounted {lost}{said}");
    for (part, lost) in status.unaccounted_by.parts().into_iter().filter(|(_, lost)| *lost != 0) {
        let _ = writeln!(text, "    of {part} {lost}");
    }
}

/// What a port is called that has this number; of a node of before, its number.
pub(super) fn port_of(ports: &[Port], number: u64) -> String {
    let port = ports.iter().find(|port| port.number.is_some_and(|own| u64::from(own) == number));
    port.map_or_else(|| number.to_string(), |port| port.name.clone())
}

/// Which configuration runs, and whether it stays.
pub(super) fn configuration(text: &mut String, node: &str, standing: &Standing) {
    let who = standing.who.as_ref().map(|who| format!(", given by {who}")).unwrap_or_default();
    let which = standing.number.map_or_else(|| "that of the start".to_owned(), |number| format!("{number}{who}"));
    let _ = writeln!(text, "  configuration {which}");
    if let Some(ms) = standing.unconfirmed_ms {
        let number = standing.number.map(|number| format!(" {number}")).unwrap_or_default();
        let _ = writeln!(
            text,
            "    it waits to be confirmed, and is taken back in {} s: anode node confirm {}{number}",
            ms.div_ceil(1000),
            node
        );
    }
}

/// The interfaces of ports, as far as there is something to say, and the workers.
pub(super) fn parts(text: &mut String, status: &Status) {
    status.links.iter().for_each(|of_port| link(text, of_port, &status.ports));
    for port in &status.ports {
        if let Some(Foreign { flows, spared, .. }) = port.foreign {
            let _ = writeln!(
                text,
                "  port {} knows {flows} flows of which no rule can hold: {spared} packets not copied",
                port.name
            );
        }
    }
    for port in &status.ports {
        if let Some(Merged { shapes, masks }) = port.merged {
            let _ = writeln!(
                text,
                "  port {}: {shapes} shapes of channels' rules merged into {masks} masks of the kernel",
                port.name
            );
        }
    }
    status.workers.iter().for_each(|one| worker(text, one));
}

/// The interface of a port, if the port waits for it or it has gone before, and what was chosen of the kernel half there.
fn link(text: &mut String, link: &Link, ports: &[Port]) {
    let port = port_of(ports, link.port.into());
    let Link { interface, state, came, went, chosen, .. } = link;
    if let Some(Chosen { kernel, why, changes }) = chosen {
        let stands = if *kernel { "the kernel half" } else { "no kernel half" };
        let before = if *changes == 0 { String::new() } else { format!(", chosen anew {changes} times") };
        let _ = writeln!(text, "  {stands} at port {port} by choice{before}: {why}");
    }
    let told = match state.as_str() {
        "away" => "waits: its interface is not there".to_owned(),
        "held" => format!("waits: its interface has come {came} times, too often for now"),
        _ if *went > 0 => format!("is there; it has gone {went} times"),
        _ => return,
    };
    let _ = writeln!(text, "  interface {interface} of port {port} {told}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::kernel::{KernelCode, KernelCounts};
    use model::status::Unaccounted;

    #[test]
    fn what_cannot_be_accounted_for_is_a_row() {
        let status = |received, unaccounted, unaccounted_by| {
            let balance = Balance { received, sent: 3, ..Balance::default() };
            let mut text = String::new();
            super::balance(&mut text, &Status { balance, unaccounted, unaccounted_by, ..Status::default() });
            text
        };
        let text = status(3, 0, Unaccounted::default());
        assert!(text.contains("3 received") && text.ends_with("unaccounted 0\n"), "{text}");
        let by = status(4, 3, Unaccounted { node: 1, domains: 2, ..Unaccounted::default() });
        assert!(by.contains("unaccounted 3   frames that no counter knows"), "{by}");
        assert!(by.ends_with("    of domains 2\n    of node 1\n") && !by.contains("of ports"), "{by}");
    }

    #[test]
    fn ports_are_called_by_their_names_and_a_configuration_by_its_number() {
        let ports = [Port { name: "west".into(), number: Some(2), ..Port::default() }];
        assert_eq!((port_of(&ports, 2), port_of(&ports, 0)), ("west".into(), "0".into()));
        let said = |number, unconfirmed_ms| {
            let mut text = String::new();
            let who = Some("root".to_owned());
            configuration(&mut text, "r1", &Standing { number, who, unconfirmed_ms, ..Standing::default() });
            text
        };
        assert_eq!(said(None, None), "  configuration that of the start\n");
        assert_eq!(said(Some(5), None), "  configuration 5, given by root\n");
        assert!(said(Some(5), Some(1500)).ends_with("taken back in 2 s: anode node confirm r1 5\n"));
    }

    #[test]
    fn of_a_neighbour_whose_proofs_nobody_demands_nobody_says_that_it_proves_anything() {
        let numbers = ["1".to_owned(), "2".to_owned()];
        assert_eq!(keys(&[], true), "");
        assert_eq!(keys(&numbers[..1], true), ", proves what it sends; key 1");
        assert_eq!(keys(&numbers, false), ", may prove what it sends (not demanded); keys 1 (sends), 2");
    }

    #[test]
    fn drops_of_the_kernel_half_are_rows_too() {
        let usage = KernelUsage { dropped_over_budget: 2, dropped_by_code: 1, ..KernelUsage::default() };
        let code = |name: &str| KernelCode { name: name.into(), usage };
        let counts = KernelCounts { dropped_over_share: 7, ..KernelCounts::default() };
        let mut text = String::new();
        kernel_drops(&mut text, &Kernel { codes: vec![code("a"), code("b")], counts, ..Kernel::default() });
        let rows: Vec<_> = text.lines().map(|row| row.split_whitespace().collect::<Vec<_>>()[5..7].join(" ")).collect();
        assert_eq!(rows, ["entry-share 7", "budget 4", "code 2"]);
        text.clear();
        kernel_drops(&mut text, &Kernel::default());
        assert_eq!(text, "");
    }
}
