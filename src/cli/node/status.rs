//! `anode node status` for people: the counter tree as rows, with one line of help for every reason that happened.

use super::{loader, log, words};
use crate::clean;
use crate::config::part::Part;
use crate::core::reason::Reason;
use crate::manage::client::{Control, run_dir};
use crate::schedule::Policy;
use crate::sys::jail;
use model::kernel::{Kernel, Socket};
use model::status::{
    Code, Cpu, Entry, Fetch, Neighbour, Port, PortClass, PortInput, PortPolicy, Rules, Sandbox, Status,
};
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::Error as WordError;
use std::fmt::Write as _;

/// Prints all counters of a node; as JSON they are as it has said them.
pub(super) fn print(node: &str, json: bool) -> anyhow::Result<()> {
    let status = Control::connect(&run_dir(node))?.status()?;
    if json {
        crate::say!("{}", serde_json::to_string_pretty(&status)?);
    } else {
        crate::say!("{}", describe(&serde_json::from_value(clean::tree(status))?));
    }
    Ok(())
}

/// The counter tree for people.
fn describe(status: &Status) -> String {
    let mut text = format!("node {}\n", status.node);
    // Of a node of before nothing is known of this.
    if !status.versions.anode.is_empty() {
        let _ = writeln!(text, "  anode {}, up for {} s", status.versions.anode, status.uptime_s);
    }
    status.configuration.iter().for_each(|standing| words::configuration(&mut text, &status.node, standing));
    status.ports.iter().for_each(|port| describe_port(&mut text, port));
    if let Some(cpu) = &status.cpu {
        describe_cpu(&mut text, cpu);
    }
    words::parts(&mut text, status);
    if let Some(sandbox) = &status.sandbox {
        describe_sandbox(&mut text, sandbox);
    }
    status.codes.iter().for_each(|code| describe_code(&mut text, code));
    describe_rules(&mut text, &status.rules.unwrap_or_default());
    if let Some(kernel) = &status.kernel {
        describe_kernel(&mut text, kernel, &status.ports);
    }
    for code in &status.codes {
        if let Some(kernel) = code.kernel.as_ref().filter(|kernel| *kernel != "running") {
            let _ = writeln!(text, "  kernel half without {}: {kernel}", code.title);
        }
    }
    status.xdp.iter().flatten().for_each(|port| describe_sockets(&mut text, port, &status.ports));
    loader::describe(&mut text, &status.loader);
    describe_fetch(&mut text, &status.fetch);
    status.neighbours.iter().for_each(|neighbour| describe_neighbour(&mut text, neighbour, &status.ports));
    words::balance(&mut text, status);
    for (name, count) in &status.drops.drops {
        // Others are names that reasons had before.
        if let Some(reason) = Reason::ALL.iter().find(|reason| reason.name() == name) {
            let _ = writeln!(text, "  drop {name:20} {count:>8}   {}", reason.help());
        }
    }
    if let Some(kernel) = &status.kernel {
        words::kernel_drops(&mut text, kernel);
    }
    text
}

/// A part of the protocol that is a word of a list; nothing: another version's.
fn word_of<'a, T: Deserialize<'a>>(word: &'a str) -> Option<T> {
    T::deserialize(IntoDeserializer::<WordError>::into_deserializer(word)).ok()
}

/// Who the node is, and what of its sandbox is weaker than it could be.
fn describe_sandbox(text: &mut String, sandbox: &Sandbox) {
    let (user, standing) = (&sandbox.user, sandbox.standing);
    let filtered = if standing.seccomp { "filtered" } else { "not filtered" };
    let _ = writeln!(text, "  sandbox user {user}, capabilities {:x}, system calls {filtered}", standing.capabilities);
    for part in sandbox.weaker.iter().filter_map(|word| word_of::<Part>(word)) {
        let _ = writeln!(text, "  sandbox weaker: {}", part.lack());
    }
    for part in sandbox.jails_weaker.iter().filter_map(|word| word_of::<jail::Part>(word)) {
        let _ = writeln!(text, "  jails weaker: {}", part.lack());
    }
}

/// What the worker has of a CPU, if that is not simply all it wants.
fn describe_cpu(text: &mut String, cpu: &Cpu) {
    let Cpu { scheduler, share, rests, rested_ms, gaps, longest_gap_us, processes, .. } = cpu;
    let realtime = if cpu.realtime { ", real-time" } else { "" };
    if *share < 1.0 || scheduler != Policy::default().name() || cpu.realtime {
        let _ = writeln!(text, "  cpu {scheduler}, {share} of one{realtime}; rested {rests} times, {rested_ms} ms");
    }
    if *gaps > 0 {
        let _ = writeln!(
            text,
            "  cpu: it had work and did not run for 1 ms or more {gaps} times, for {longest_gap_us} µs at most"
        );
    }
    let (one, all) = (processes.of_one_process, processes.kept);
    if one > 0 {
        let _ = writeln!(
            text,
            "  cpu: of {one} of {all} environments in processes the first process alone is charged, since it has no control group"
        );
    }
    let failed = processes.unread + processes.jumped + processes.unweighed;
    if failed > 0 {
        let _ =
            writeln!(text, "  cpu: {failed} times what a process used could not be read, or its weight not be written");
    }
}

fn describe_port(text: &mut String, port: &Port) {
    let Port { name, received, received_bytes, sent, sent_bytes, bound_max, signed_bound_max, .. } = port;
    let addresses = port.addresses.join(", ");
    let _ = writeln!(
        text,
        "  port {name:12} in {received:>10} frames {received_bytes:>12} B   out {sent:>10} frames {sent_bytes:>12} B   {addresses}"
    );
    let demands = port.demands.join(", ");
    let demands = if demands.is_empty() { demands } else { format!("; demands {demands}") };
    let _ = writeln!(text, "    bound {bound_max}, signed {signed_bound_max}{demands}");
    if let Some(PortInput { weight, priority, batches, frames, failed }) = port.input {
        let failed = if failed > 0 { format!(", {failed} turns because the order failed") } else { String::new() };
        let parts = weight.zip(priority).map(|(weight, priority)| format!("weight {weight}, priority {priority}"));
        let parts = parts.unwrap_or_else(|| "as an extension says".into());
        let _ = writeln!(text, "    input: {parts}; {frames} frames in {batches} batches{failed}");
    }
    for PortClass { name, sent, sent_bytes, full, early, waiting } in &port.classes {
        let _ = writeln!(
            text,
            "    class {name:10} out {sent:>10} frames {sent_bytes:>12} B   waiting {waiting}   dropped: full {full}, early {early}"
        );
    }
    for PortPolicy { class, name, calls, failed, fuel } in &port.policies {
        let of = class.as_ref().map_or_else(|| "the port".to_owned(), |class| format!("class {class}"));
        let _ = writeln!(text, "    {name} of {of}: {calls} calls, failed {failed}, fuel {fuel}");
    }
    // What those behind it have used that have no bucket of their own, if something of theirs was refused.
    if port.strangers.refused > 0 {
        let _ = writeln!(text, "    all behind it without a bucket of their own{}", used(&port.strangers));
    }
    if port.clamped > 0 {
        let _ = writeln!(
            text,
            "    {} resource bounds were cut: to its bound_max, or signed ones to its signed_bound_max",
            port.clamped
        );
    }
    if port.unknown_keys > 0 {
        let _ = writeln!(text, "    {} packets with the proof of a key that it does not know", port.unknown_keys);
    }
}

/// A code: what both halves have run; soft state is the user half's account.
fn describe_code(text: &mut String, code: &Code) {
    let (total, usage) = (code.total.clone().unwrap_or_default(), code.usage.clone().unwrap_or_default());
    let _ = writeln!(
        text,
        "  code {:12} {:8} {:.8}…  {} packets, {} forwarded, {} delivered, {} children, {} steps, {} state entries{}",
        code.title,
        code.state,
        code.name,
        total.packets,
        total.forwarded,
        total.delivered,
        total.children,
        total.steps,
        usage.state_entries,
        code.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default()
    );
    if let Some(role) = &code.role {
        let principal = code.principal.as_deref().unwrap_or("nobody");
        let kind = code.representation.as_deref().unwrap_or("?");
        let tier = match code.tier.as_deref() {
            Some("fast") => " (compiled at once)".to_owned(),
            Some(tier) => format!(" ({tier})"),
            None => String::new(),
        };
        let refused = code.credential_refused.as_ref().map(|why| format!("; credential refused: {why}"));
        let refused = refused.unwrap_or_default();
        let revoked = if code.signer_revoked { ", who was revoked" } else { "" };
        let _ = writeln!(text, "    {kind}{tier} in the role {role}, signed by {principal}{revoked}{refused}");
    }
    if let Some(trap) = &code.trap {
        let _ = writeln!(text, "    it trapped last with {}", log::trap_in_words(trap));
    }
}

/// Code on its way.
fn describe_fetch(text: &mut String, fetch: &Fetch) {
    let Fetch { codes, queued, capsules, object_bytes, displaced } = fetch;
    let _ = writeln!(
        text,
        "  fetch {codes} codes on their way, {queued} queued, {capsules} capsules wait, {object_bytes} B of code in memory, \
         {displaced} codes gave way"
    );
}

/// A neighbour, whose port is among these.
fn describe_neighbour(text: &mut String, neighbour: &Neighbour, ports: &[Port]) {
    let port = ports.iter().find(|port| port.name == neighbour.port);
    let demanded = port.is_some_and(|port| port.demands.iter().any(|demand| demand == "mac"));
    let keys = words::keys(&neighbour.keys, demanded);
    let used = neighbour.entry.as_ref().map(used).unwrap_or_default();
    let _ = writeln!(text, "  neighbour {} behind {}{keys}{used}", neighbour.addr, neighbour.port);
}

/// What a neighbour has used of the worker.
fn used(entry: &Entry) -> String {
    format!(": {} ms of the worker, {} frames refused since the start", entry.worker_ns / 1_000_000, entry.refused)
}

/// By which way the frames of a port come that was to have AF_XDP sockets.
fn describe_sockets(text: &mut String, port: &Socket, ports: &[Port]) {
    let number = words::port_of(ports, port.port);
    let Socket { mode, sockets, queues, to_socket, held, to_stack, .. } = port;
    if let Some(why) = &port.why {
        let _ = writeln!(text, "  port {number} through AF_PACKET, not AF_XDP: {why}");
        return;
    }
    let polled = match port.busy_poll_us {
        0 => String::new(),
        time => format!(", polled for {time} µs"),
    };
    let _ = writeln!(
        text,
        "  port {number} by AF_XDP sockets in {mode} mode at {sockets} of {queues} queues{polled}: {to_socket} frames, \
         {held} held for order, {to_stack} up the stack"
    );
}

/// Rules of policy routing beside those that every host has.
fn describe_rules(text: &mut String, rules: &Rules) {
    let Rules { obeyed, not_obeyed } = rules;
    if *obeyed > 0 {
        let _ = writeln!(text, "  {obeyed} rules of policy routing: the kernel is asked for each way");
    }
    if *not_obeyed > 0 {
        let _ = writeln!(text, "  {not_obeyed} rules for marked packets not obeyed: nothing here is marked");
    }
}

/// What runs in the kernel half.
fn describe_kernel(text: &mut String, kernel: &Kernel, ports: &[Port]) {
    let named = |number: u32| words::port_of(ports, number.into());
    for port in &kernel.ports {
        let why = port.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        let not = if port.redirected == 0 { words::NOT_REDIRECTED } else { "" };
        let _ = writeln!(text, "  kernel half at port {} in the {}{why}{not}", named(port.port), port.mode);
    }
    for port in &kernel.ports {
        if let Some(name) = &port.behind {
            let _ = writeln!(
                text,
                "  kernel half at port {} before the XDP program {name}, which has what is not the node's",
                named(port.port)
            );
        }
    }
    for port in &kernel.refused {
        let _ = writeln!(text, "  no kernel half at port {}: {}", named(port.port), port.why);
    }
    for code in &kernel.codes {
        let usage = &code.usage;
        let _ = writeln!(
            text,
            "  kernel half {:.8}…  {} packets, {} forwarded, {} children, {} passed up, {} over budget, {} µs",
            code.name,
            usage.packets,
            usage.forwarded,
            usage.children,
            usage.passed_up,
            usage.dropped_over_budget,
            usage.time_ns / 1000
        );
    }
}
