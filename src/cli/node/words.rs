//! Words shared by `anode node check` and `anode node status`, and rows of the kernel half's counters.

use serde_json::Value;
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
pub(super) fn kernel_drops(text: &mut String, kernel: &Value) {
    let of_codes = |key: &str| {
        let codes = kernel["codes"].as_array().into_iter().flatten();
        codes.filter_map(|code| code["usage"][key].as_u64()).sum::<u64>()
    };
    let of_ports = |key: &str| kernel["counts"][key].as_u64().unwrap_or(0);
    for (reason, drops, help) in [
        (
            "entry-share",
            of_ports("dropped_over_share"),
            "capsules of a port want more of a CPU than their share ([entry]); kernel.counts.dropped_over_share",
        ),
        (
            "forged",
            of_ports("dropped_forged"),
            "frames from a wire pretended to come from the kernel half; kernel.counts.dropped_forged",
        ),
        (
            "unraised",
            of_ports("dropped_unraised"),
            "frames of capsules had no room for what the user half is told; kernel.counts.dropped_unraised",
        ),
        (
            "budget",
            of_codes("dropped_over_budget"),
            "the domain of the code is over its budget; dropped_over_budget of each code",
        ),
        ("code", of_codes("dropped_by_code"), "the capsule's code decided to drop it; dropped_by_code of each code"),
        (
            "verdict",
            of_codes("dropped_for_verdict"),
            "the capsule's code returned a verdict that does not exist; dropped_for_verdict of each code",
        ),
    ] {
        if drops > 0 {
            let _ = writeln!(text, "  drop in the kernel half: {reason:12} {drops:>8}   {help}");
        }
    }
}

/// One of several workers: its load, gaps and queue.
fn worker(text: &mut String, worker: &Value) {
    let number = |tree: &Value, key: &str| tree[key].as_u64().unwrap_or(0);
    let cpu = &worker["cpu"];
    let _ = write!(
        text,
        "  worker {:2} load {:5.1} %, {} packets wait, {} frames received; {} gaps of 1 ms or more, {} µs at most",
        number(worker, "worker"),
        number(cpu, "load_permille") as f64 / 10.0,
        number(worker, "waiting"),
        number(&worker["balance"], "received"),
        number(cpu, "gaps"),
        number(cpu, "longest_gap_us")
    );
    let panics = number(cpu, "panics");
    let _ = if panics > 0 { writeln!(text, "; began anew after {panics} panics") } else { writeln!(text) };
}

/// What became of all frames, and the row that says whether any was lost without a counter.
pub(super) fn balance(text: &mut String, status: &Value) {
    let number = |key: &str| status["balance"][key].as_u64().unwrap_or(0);
    let _ = writeln!(
        text,
        "  frames {} received, {} made here: {} sent, {} delivered, {} used, {} not ours, {} dropped, {} held",
        number("received"),
        number("made"),
        number("sent"),
        number("delivered"),
        number("used"),
        number("not_ours"),
        number("dropped"),
        number("held")
    );
    let lost = status["unaccounted"].as_i64().unwrap_or(0);
    let said = if lost == 0 { "" } else { "   frames that no counter knows: a bug, please report it" };
    let _ = writeln!(text, "  unaccounted {lost}{said}");
    let parts = status["unaccounted_by"].as_object().into_iter().flatten();
    for (part, lost) in parts.filter(|(_, lost)| lost.as_u64() != Some(0)) {
        let _ = writeln!(text, "    of {part} {lost}");
    }
}

/// The interfaces of ports, as far as there is something to say, and the workers.
pub(super) fn parts(text: &mut String, links: &[Value], workers: &[Value]) {
    links.iter().for_each(|of_port| link(text, of_port));
    workers.iter().for_each(|one| worker(text, one));
}

/// The interface of a port, if the port waits for it or it has gone before.
fn link(text: &mut String, link: &Value) {
    let number = |key: &str| link[key].as_u64().unwrap_or(0);
    let interface = link["interface"].as_str().unwrap_or("?");
    let told = match link["state"].as_str() {
        Some("away") => "waits: its interface is not there".to_owned(),
        Some("held") => format!("waits: its interface has come {} times, too often for now", number("came")),
        _ if number("went") > 0 => format!("is there; it has gone {} times", number("went")),
        _ => return,
    };
    let _ = writeln!(text, "  interface {interface} of port {} {told}", number("port"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_cannot_be_accounted_for_is_a_row() {
        let (mut text, mut wrong) = (String::new(), String::new());
        balance(&mut text, &json!({"balance": {"received": 3, "sent": 3}, "unaccounted": 0}));
        assert!(text.contains("3 received") && text.ends_with("unaccounted 0\n"), "{text}");
        balance(&mut wrong, &json!({"balance": {"received": 4, "sent": 3}, "unaccounted": -1}));
        assert!(wrong.contains("unaccounted -1   frames that no counter knows"), "{wrong}");
        let parts = json!({"unaccounted": 3, "unaccounted_by": {"node": 1, "ports": 0, "domains": 2}});
        let mut by = String::new();
        balance(&mut by, &parts);
        assert!(by.ends_with("    of domains 2\n    of node 1\n") && !by.contains("of ports"), "{by}");
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
        let usage = json!({"dropped_over_budget": 2, "dropped_by_code": 1, "dropped_for_verdict": 0});
        let codes = [json!({"name": "a", "usage": usage.clone()}), json!({"name": "b", "usage": usage})];
        let mut text = String::new();
        kernel_drops(&mut text, &json!({"codes": codes, "counts": {"dropped_over_share": 7, "dropped_forged": 0}}));
        let rows: Vec<_> = text.lines().map(|row| row.split_whitespace().collect::<Vec<_>>()[5..7].join(" ")).collect();
        assert_eq!(rows, ["entry-share 7", "budget 4", "code 2"]);
        text.clear();
        kernel_drops(&mut text, &Value::Null);
        assert_eq!(text, "");
    }
}
