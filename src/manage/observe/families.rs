//! The families of series in the text for Prometheus. `docs/metrics.md` has the same list.
//!
//! Units are bytes, seconds and shares of 1. Those of which there may be many come last, since series are bounded.

use super::metrics::Measure::{Counter, Gauge};
use super::metrics::Number::{Nanoseconds, Thousandths, Whole};
use super::metrics::{Counted, Family, Number};
use crate::core::reason::Reason;
use crate::manage::management::{EnvironmentStatus, State};
use model::status::{Balance, Code, Connected, Cpu, Foreign, Merged, Neighbour, Port, Status};

type Say<'a> = dyn FnMut(&[&str], Number) + 'a;

/// What became of frames, but for those that are held.
fn ends(of: &Balance) -> [(&'static str, u64); 7] {
    [
        ("received", of.received),
        ("made", of.made),
        ("sent", of.sent),
        ("delivered", of.delivered),
        ("used", of.used),
        ("not-ours", of.not_ours),
        ("dropped", of.dropped),
    ]
}

fn each_port(counted: &Counted<'_>, say: &mut Say<'_>, number: impl Fn(&Port) -> Option<Number>) {
    for port in &counted.status.ports {
        if let Some(number) = number(port) {
            say(&[&port.name], number);
        }
    }
}

fn each_code(counted: &Counted<'_>, say: &mut Say<'_>, number: impl Fn(&Code) -> Option<u64>) {
    for code in &counted.status.codes {
        if let Some(number) = number(code) {
            say(&[&code.name, &code.title], Whole(number));
        }
    }
}

fn each_neighbour(counted: &Counted<'_>, say: &mut Say<'_>, number: impl Fn(&Neighbour) -> Option<Number>) {
    for neighbour in &counted.status.neighbours {
        if let Some(number) = number(neighbour) {
            say(&[&neighbour.addr, &neighbour.port], number);
        }
    }
}

/// What each worker has of a CPU: of one alone, what is said of the node.
fn each_worker(counted: &Counted<'_>, say: &mut Say<'_>, number: impl Fn(&Cpu) -> Number) {
    let several = counted.status.workers.iter().filter_map(|worker| worker.cpu.as_ref());
    let alone = counted.status.cpu.iter().filter(|_| counted.status.workers.is_empty());
    for (at, cpu) in several.chain(alone).enumerate() {
        say(&[&at.to_string()], number(cpu));
    }
}

fn each_domain(
    counted: &Counted<'_>,
    say: &mut Say<'_>,
    number: impl Fn(&crate::node::domains::DomainStatus) -> Number,
) {
    for domain in counted.domains {
        say(&[&domain.id.to_string(), &domain.title, &domain.role], number(domain));
    }
}

fn each_queue(status: &Status, mut say: impl FnMut(&[&str], &model::loader::Queue)) {
    let loader = &status.loader;
    for (what, queues) in [
        ("store", &loader.look_ups),
        ("credentials", &loader.queues),
        ("compiler", &loader.compiler.queues),
        ("names", &loader.names.queues),
    ] {
        queues.iter().for_each(|queue| say(&[what, &queue.of], queue));
    }
}

fn each_socket(status: &Status, say: &mut Say<'_>, number: impl Fn(&Connected) -> u64) {
    let of = &status.connections;
    for (socket, counts) in [
        ("control", &of.control),
        ("applications", &of.applications),
        ("plan-tcp", &of.plan_tcp),
        ("environments", &of.environments),
    ] {
        say(&[socket], Whole(number(counts)));
    }
}

/// The environments of the configuration.
fn each_environment(counted: &Counted<'_>, say: &mut Say<'_>, number: impl Fn(&EnvironmentStatus) -> u64) {
    for environment in counted.environments {
        say(&[&environment.name, &environment.role], Whole(number(environment)));
    }
}

const ENVIRONMENT: &[&str] = &["environment", "role"];
const PORT: &[&str] = &["port"];
const CODE: &[&str] = &["code", "title"];
const DOMAIN: &[&str] = &["domain", "title", "role"];
const NEIGHBOUR: &[&str] = &["addr", "port"];
const WORKER: &[&str] = &["worker"];
const SOCKET: &[&str] = &["socket"];

/// A row.
macro_rules! family {
    ($name:literal, $measure:ident, $labels:expr, $help:literal, $series:expr) => {
        Family { name: $name, measure: $measure, help: $help, labels: $labels, series: $series }
    };
}

/// All of them.
pub const FAMILIES: &[Family] = &[
    family!("anode_build", Gauge, &["version", "kernel_maps"], "The program of the node; always 1.", |all, say| {
        let versions = &all.status.versions;
        say(&[&versions.anode, &versions.kernel_maps], Whole(1));
    }),
    family!("anode_uptime_seconds", Gauge, &[], "For how long the node's process has run.", |all, say| {
        say(&[], Whole(all.status.uptime_s));
    }),
    family!("anode_events_unkept_total", Counter, &[], "Events of which their cause had too many.", |_, say| {
        say(&[], Whole(crate::log::unkept()));
    }),
    family!(
        "anode_configuration_number",
        Gauge,
        &[],
        "The number of the configuration in force; 0: that of the start.",
        |all, say| {
            all.status.configuration.iter().for_each(|of| say(&[], Whole(of.number.unwrap_or(0))));
        }
    ),
    family!(
        "anode_configuration_unconfirmed",
        Gauge,
        &[],
        "Whether that one is taken back unless somebody confirms it.",
        |all, say| {
            all.status.configuration.iter().for_each(|of| say(&[], Whole(of.unconfirmed_ms.is_some().into())));
        }
    ),
    family!("anode_configurations_total", Counter, &["result"], "What became of configurations.", |all, say| {
        if let Some(of) = &all.status.configuration {
            let results = [("applied", of.applied), ("refused", of.refused), ("reverted", of.reverted)];
            results.into_iter().for_each(|(result, count)| say(&[result], Whole(count)));
        }
    }),
    family!("anode_environment_running", Gauge, ENVIRONMENT, "Whether an environment runs.", |all, say| {
        each_environment(all, say, |of| (of.state == State::Running).into());
    }),
    family!(
        "anode_environment_failed",
        Gauge,
        ENVIRONMENT,
        "Whether it does not run because it has failed.",
        |all, say| {
            each_environment(all, say, |of| of.lies().into());
        }
    ),
    family!("anode_environment_starts_total", Counter, ENVIRONMENT, "Times that it was started.", |all, say| {
        each_environment(all, say, |of| of.starts);
    }),
    family!("anode_environment_failures_total", Counter, ENVIRONMENT, "Times that it has failed.", |all, say| {
        each_environment(all, say, |of| of.failures);
    }),
    family!("anode_frames_total", Counter, &["end"], "What became of frames of the user half.", |all, say| {
        ends(&all.status.balance).into_iter().for_each(|(end, count)| say(&[end], Whole(count)));
    }),
    family!("anode_frames_held", Gauge, &[], "Packets that wait in the node.", |all, say| {
        say(&[], Whole(all.status.balance.held));
    }),
    family!("anode_frames_unaccounted", Gauge, &["part"], "Frames that no counter knows of; always 0.", |all, say| {
        all.status.unaccounted_by.parts().into_iter().for_each(|(part, count)| say(&[part], Whole(count)));
    }),
    family!(
        "anode_drops_total",
        Counter,
        &["reason"],
        "Packets dropped, by reason; docs/drops.md has them.",
        |all, say| {
            for reason in Reason::ALL {
                say(&[reason.name()], Whole(all.status.drops.drops.get(reason.name()).copied().unwrap_or(0)));
            }
        }
    ),
    family!("anode_neighbours", Gauge, &[], "Active nodes next to this one.", |all, say| {
        say(&[], Whole(all.status.neighbours.len() as u64));
    }),
    family!("anode_routes", Gauge, &[], "Routes in use.", |all, say| say(&[], Whole(all.status.routes))),
    family!("anode_applications", Gauge, &[], "Application ports open.", |all, say| {
        say(&[], Whole(all.status.applications.len() as u64));
    }),
    family!("anode_domains", Gauge, &[], "Domains.", |all, say| say(&[], Whole(all.domains.len() as u64))),
    family!("anode_codes", Gauge, &["state"], "Codes that the node knows, by state.", |all, say| {
        for state in ["ready", "coming", "refused"] {
            let count = all.status.codes.iter().filter(|code| code.state == state).count();
            say(&[state], Whole(count as u64));
        }
    }),
    family!("anode_fetch_codes", Gauge, &[], "Codes on their way.", |all, say| say(&[], Whole(all.status.fetch.codes))),
    family!("anode_fetch_waiting_capsules", Gauge, &[], "Capsules that wait for code on its way.", |all, say| {
        say(&[], Whole(all.status.fetch.capsules));
    }),
    family!("anode_fetch_object_bytes", Gauge, &[], "Code in memory.", |all, say| {
        say(&[], Whole(all.status.fetch.object_bytes));
    }),
    family!(
        "anode_fetch_displaced_total",
        Counter,
        &[],
        "Codes that gave way to others in the full table.",
        |all, say| {
            say(&[], Whole(all.status.fetch.displaced));
        }
    ),
    family!("anode_credentials_total", Counter, &["result"], "Credentials that came with code.", |all, say| {
        let of = &all.status.credentials;
        say(&["accepted"], Whole(of.accepted));
        say(&["refused"], Whole(of.refused));
    }),
    family!("anode_stores", Gauge, &[], "Named stores of domains.", |all, say| {
        say(&[], Whole(all.status.stores.stores));
    }),
    family!("anode_store_keys", Gauge, &[], "Keys in them.", |all, say| {
        say(&[], Whole(all.status.stores.keys));
    }),
    family!(
        "anode_store_registered_keys",
        Gauge,
        &[],
        "Those that end with the domain that has put them.",
        |all, say| {
            say(&[], Whole(all.status.stores.registered));
        }
    ),
    family!("anode_store_bytes", Gauge, &[], "Bytes that they hold.", |all, say| {
        say(&[], Whole(all.status.stores.bytes));
    }),
    family!("anode_store_changes_lost_total", Counter, &[], "Changes that a watch had no room for.", |all, say| {
        say(&[], Whole(all.status.stores.lost));
    }),
    family!("anode_store_refused_total", Counter, &[], "Calls that would have gone over a bound.", |all, say| {
        say(&[], Whole(all.status.stores.refused));
    }),
    family!("anode_modules_total", Counter, &["result"], "Modules that the compiler was given.", |all, say| {
        let of = &all.status.loader.compiler;
        say(&["compiled"], Whole(of.compiled));
        say(&["optimised"], Whole(of.optimised));
        say(&["failed"], Whole(of.failed));
    }),
    family!("anode_loader_waiting", Gauge, &["queue", "of"], "Jobs of the loader that wait.", |all, say| {
        each_queue(all.status, |labels, queue| say(labels, Whole(queue.waiting)));
    }),
    family!("anode_rule_hosts", Gauge, &["is"], "Hosts that rules of channels name.", |all, say| {
        let of = all.status.rule_hosts.unwrap_or_default();
        say(&["known"], Whole(of.hosts - of.unknown.min(of.hosts)));
        say(&["unknown"], Whole(of.unknown));
    }),
    family!("anode_rule_hosts_asked_total", Counter, &["result"], "Look-ups of hosts that rules name.", |all, say| {
        let of = all.status.rule_hosts.unwrap_or_default();
        say(&["resolved"], Whole(of.resolved));
        say(&["failed"], Whole(of.failed));
        say(&["changed"], Whole(of.changed));
    }),
    family!(
        "anode_loader_dropped_total",
        Counter,
        &["queue", "of"],
        "Jobs of the loader that found no place.",
        |all, say| {
            each_queue(all.status, |labels, queue| say(labels, Whole(queue.dropped)));
        }
    ),
    family!(
        "anode_streams",
        Gauge,
        &[],
        "TCP streams of environments, and channels that listen for some.",
        |all, say| {
            say(&[], Whole(all.status.streams.open));
        }
    ),
    family!("anode_streams_total", Counter, &["how"], "Those that have begun, or were refused.", |all, say| {
        let of = &all.status.streams;
        say(&["accepted"], Whole(of.accepted));
        say(&["connected"], Whole(of.connected));
        say(&["refused"], Whole(of.refused));
    }),
    family!(
        "anode_graph_calls_total",
        Counter,
        &["how"],
        "Changes of graphs that programs have asked for.",
        |all, say| {
            let of = &all.status.graph_calls;
            say(&["done"], Whole(of.done));
            say(&["later"], Whole(of.later));
            say(&["refused"], Whole(of.refused));
        }
    ),
    family!(
        "anode_graph_wishes_total",
        Counter,
        &["how"],
        "Edits of graphs that code of capsules has wished for.",
        |all, say| {
            let of = &all.status.graph_wishes;
            say(&["taken"], Whole(of.taken));
            say(&["later"], Whole(of.later));
            say(&["refused"], Whole(of.refused));
        }
    ),
    family!(
        "anode_stream_bytes_total",
        Counter,
        &["direction"],
        "Bytes that came, and were sent, by them.",
        |all, say| {
            say(&["in"], Whole(all.status.streams.bytes_in));
            say(&["out"], Whole(all.status.streams.bytes_out));
        }
    ),
    family!("anode_http_fetches_total", Counter, &["how"], "Code fetched by HTTP for extensions.", |all, say| {
        let of = &all.status.http;
        say(&["begun"], Whole(of.begun));
        say(&["stored"], Whole(of.stored));
        say(&["refused"], Whole(of.refused));
        say(&["failed"], Whole(of.failed));
        say(&["redirected"], Whole(of.redirected));
    }),
    family!("anode_http_bytes_total", Counter, &[], "Bytes of code that came by HTTP.", |all, say| {
        say(&[], Whole(all.status.http.bytes));
    }),
    family!("anode_connections_refused_total", Counter, SOCKET, "Connections that found no place.", |all, say| {
        each_socket(all.status, say, |of| of.refused);
    }),
    family!(
        "anode_connections_silent_total",
        Counter,
        SOCKET,
        "Connections closed since they said nothing.",
        |all, say| {
            each_socket(all.status, say, |of| of.silent);
        }
    ),
    family!(
        "anode_connections_displaced_total",
        Counter,
        SOCKET,
        "Connections that gave way to others.",
        |all, say| {
            each_socket(all.status, say, |of| of.displaced);
        }
    ),
    family!(
        "anode_worker_gaps_total",
        Counter,
        WORKER,
        "Times that a worker had work and did not run for 1 ms.",
        |all, say| {
            each_worker(all, say, |cpu| Whole(cpu.gaps));
        }
    ),
    family!("anode_worker_longest_gap_seconds", Gauge, WORKER, "The longest of these times.", |all, say| {
        each_worker(all, say, |cpu| Nanoseconds(cpu.longest_gap_us * 1000));
    }),
    family!(
        "anode_worker_longest_slice_seconds",
        Gauge,
        WORKER,
        "The longest copy of counters that packets waited for.",
        |all, say| {
            each_worker(all, say, |cpu| Nanoseconds(cpu.longest_slice_us * 1000));
        }
    ),
    family!(
        "anode_worker_rested_seconds_total",
        Counter,
        WORKER,
        "For how long a worker rested, its share used up.",
        |all, say| {
            each_worker(all, say, |cpu| Nanoseconds(cpu.rested_ms * 1_000_000));
        }
    ),
    family!(
        "anode_kernel_capsules_total",
        Counter,
        &["end"],
        "What became of capsules in the kernel half.",
        |all, say| {
            for (end, count) in all.status.kernel.iter().flat_map(|kernel| ends(&kernel.balance)) {
                say(&[end], Whole(count));
            }
        }
    ),
    family!(
        "anode_kernel_undelivered_total",
        Counter,
        &[],
        "Frames redirected in the kernel that did not arrive.",
        |all, say| {
            all.status.kernel.iter().for_each(|kernel| say(&[], Whole(kernel.undelivered)));
        }
    ),
    family!("anode_plan_packets_total", Counter, &["end"], "What became of PLAN packets.", |all, say| {
        if let Some(plan) = &all.status.plan {
            let ends = [("evaluated", plan.evaluated), ("failed", plan.failed), ("routed", plan.routed)];
            ends.into_iter().for_each(|(end, count)| say(&[end], Whole(count)));
        }
    }),
    family!("anode_plan_waiting", Gauge, &[], "PLAN packets that wait for codes or names.", |all, say| {
        all.status.plan.iter().for_each(|plan| say(&[], Whole(plan.waiting)));
    }),
    family!("anode_port_received_frames_total", Counter, PORT, "Frames that came in.", |all, say| {
        each_port(all, say, |port| Some(Whole(port.received)));
    }),
    family!("anode_port_received_bytes_total", Counter, PORT, "Bytes that came in.", |all, say| {
        each_port(all, say, |port| Some(Whole(port.received_bytes)));
    }),
    family!("anode_port_sent_frames_total", Counter, PORT, "Frames handed to the port.", |all, say| {
        each_port(all, say, |port| Some(Whole(port.sent)));
    }),
    family!("anode_port_sent_bytes_total", Counter, PORT, "Bytes handed to the port.", |all, say| {
        each_port(all, say, |port| Some(Whole(port.sent_bytes)));
    }),
    family!("anode_port_refused_frames_total", Counter, PORT, "Frames that the port did not take.", |all, say| {
        each_port(all, say, |port| Some(Whole(port.refused)));
    }),
    family!("anode_port_missed_frames_total", Counter, PORT, "Frames that were not taken in time.", |all, say| {
        each_port(all, say, |port| Some(Whole(port.missed)));
    }),
    family!("anode_port_input_batches_total", Counter, PORT, "Batches taken in by an order of input.", |all, say| {
        each_port(all, say, |port| port.input.as_ref().map(|input| Whole(input.batches)));
    }),
    family!("anode_port_input_frames_total", Counter, PORT, "Frames taken in by an order of input.", |all, say| {
        each_port(all, say, |port| port.input.as_ref().map(|input| Whole(input.frames)));
    }),
    family!(
        "anode_port_input_failed_total",
        Counter,
        PORT,
        "Turns given because an extension's order of input failed.",
        |all, say| {
            each_port(all, say, |port| port.input.as_ref().map(|input| Whole(input.failed)));
        }
    ),
    family!("anode_port_clamped_total", Counter, PORT, "Packets whose bound was cut to the port's.", |all, say| {
        each_port(all, say, |port| Some(Whole(port.clamped)));
    }),
    family!(
        "anode_port_strangers_refused_total",
        Counter,
        PORT,
        "Frames refused at entry, of whom has no bucket.",
        |all, say| {
            each_port(all, say, |port| Some(Whole(port.strangers.refused)));
        }
    ),
    family!("anode_port_queued_bytes", Gauge, PORT, "Bytes that wait to be sent.", |all, say| {
        each_port(all, say, |port| Some(Whole(port.queued_bytes.into())));
    }),
    family!("anode_port_load_ratio", Gauge, PORT, "Share of the port's capacity that is used.", |all, say| {
        each_port(all, say, |port| Some(Thousandths(port.load_permille.into())));
    }),
    family!(
        "anode_port_carrier",
        Gauge,
        PORT,
        "Whether the port's interface has a carrier; 0 while it waits for it.",
        |all, say| {
            each_port(all, say, |port| port.interface?.carrier.map(|is| Whole(is.into())));
        }
    ),
    family!(
        "anode_port_interface_dropped_total",
        Counter,
        &["port", "way"],
        "Frames that the interface has dropped.",
        |all, say| {
            for port in &all.status.ports {
                let Some(interface) = port.interface else { continue };
                say(&[&port.name, "in"], Whole(interface.dropped_in));
                say(&[&port.name, "out"], Whole(interface.dropped_out));
            }
        }
    ),
    family!(
        "anode_port_foreign_flows",
        Gauge,
        PORT,
        "Flows of which no rule can hold, so that their packets are not copied.",
        |all, say| {
            each_port(all, say, |port| Some(Whole(port.foreign?.flows)));
        }
    ),
    family!(
        "anode_port_foreign_events_total",
        Counter,
        &["port", "what"],
        "Such flows learned or evicted, packets whose flow was not asked about or not learned (refused), and packets spared.",
        |all, say| {
            for port in &all.status.ports {
                let Some(Foreign { learned, evicted, refused, spared, .. }) = port.foreign else { continue };
                let each = [("learned", learned), ("evicted", evicted), ("refused", refused), ("spared", spared)];
                each.into_iter().for_each(|(what, count)| say(&[&port.name, what], Whole(count)));
            }
        }
    ),
    family!(
        "anode_port_rule_shapes",
        Gauge,
        &["port", "what"],
        "Shapes of channels' rules, and masks that the kernel has for them, where these are fewer.",
        |all, say| {
            for port in &all.status.ports {
                let Some(Merged { shapes, masks }) = port.merged else { continue };
                [("shapes", shapes), ("masks", masks)]
                    .into_iter()
                    .for_each(|(what, count)| say(&[&port.name, what], Whole(count)));
            }
        }
    ),
    family!(
        "anode_neighbour_worker_seconds_total",
        Counter,
        NEIGHBOUR,
        "What a neighbour has used of the worker.",
        |all, say| {
            each_neighbour(all, say, |neighbour| neighbour.entry.map(|entry| Nanoseconds(entry.worker_ns)));
        }
    ),
    family!(
        "anode_neighbour_refused_frames_total",
        Counter,
        NEIGHBOUR,
        "Frames of a neighbour refused at entry.",
        |all, say| {
            each_neighbour(all, say, |neighbour| neighbour.entry.map(|entry| Whole(entry.refused)));
        }
    ),
    family!("anode_code_packets_total", Counter, CODE, "Packets of a code, in both halves.", |all, say| {
        each_code(all, say, |code| Some(code.total.as_ref()?.packets));
    }),
    family!("anode_code_forwarded_total", Counter, CODE, "Packets that a code has sent on.", |all, say| {
        each_code(all, say, |code| Some(code.total.as_ref()?.forwarded));
    }),
    family!("anode_code_delivered_total", Counter, CODE, "Packets that a code has delivered.", |all, say| {
        each_code(all, say, |code| Some(code.total.as_ref()?.delivered));
    }),
    family!("anode_code_steps_total", Counter, CODE, "Steps, and nanoseconds in the kernel, of a code.", |all, say| {
        each_code(all, say, |code| Some(code.total.as_ref()?.steps));
    }),
    family!("anode_code_state_entries", Gauge, CODE, "Entries of soft state that a code holds.", |all, say| {
        each_code(all, say, |code| Some(code.usage.as_ref()?.state_entries.into()));
    }),
    family!("anode_domain_packets_total", Counter, DOMAIN, "Packets of a domain in the user half.", |all, say| {
        each_domain(all, say, |domain| Whole(domain.usage.packets));
    }),
    family!("anode_domain_cpu_seconds_total", Counter, DOMAIN, "What a domain has used of the CPU.", |all, say| {
        each_domain(all, say, |domain| Nanoseconds(domain.usage.cpu_ns));
    }),
    family!("anode_domain_dropped_total", Counter, DOMAIN, "Packets of a domain that were dropped.", |all, say| {
        each_domain(all, say, |domain| Whole(domain.usage.counts.drops.total()));
    }),
    family!("anode_domain_memory_bytes", Gauge, DOMAIN, "Memory that a domain holds.", |all, say| {
        each_domain(all, say, |domain| Whole(domain.memory_bytes));
    }),
];
