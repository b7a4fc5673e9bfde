//! `anode node check`: explains a configuration on this host.

mod kernel;
mod limits;

use crate::broker;
use crate::broker::sandbox;
use crate::code::bundle::Kind;
use crate::config::environments::{Environment, Program};
use crate::config::whole::check_end;
use crate::config::{NodeFile, RouteSource};
use crate::manage::{Planned, check_extensions};
use crate::port::Opening;
use crate::sys::jail;
use crate::sys::netlink;
use crate::trust::grants::Grants;
use crate::trust::graphs::GraphGrants;
use crate::trust::limits::OverBudget;
use crate::trust::{Role, Symbols};
use crate::wire::Addr;
use anyhow::Context as _;
use std::path::Path;

/// Says what a configuration means here, or why it cannot be run.
pub(super) fn check(path: &Path, json: bool) -> anyhow::Result<()> {
    let file = read(path)?;
    let named = || path.display().to_string();
    let planned = Planned::of(&file).with_context(named)?;
    file.check_workers(planned.room().workers(&file.cpu)).with_context(named)?;
    broker::prepare::check(&file).with_context(named)?;
    check_extensions(&file, &planned).with_context(named)?;
    let sandbox = sandbox::expected(&file).with_context(named)?;
    let (changed, mut remarks) = (file.changed_defaults(), file.remarks());
    remarks.extend(waiting(&file, &planned));
    remarks.extend(kernel::notes(&file, &planned));
    remarks.extend(planned.room().notes(&file.cpu));
    if json {
        let all = limits::meaning(&file, &planned, (&sandbox, changed, remarks))?;
        crate::say!("{}", serde_json::to_string_pretty(&all)?);
        return Ok(());
    }
    describe(&file, &planned, !sandbox.jails_weaker.contains(&jail::Part::User));
    describe_expected(&sandbox);
    changed.iter().for_each(|line| crate::say!("changed default: {line}"));
    remarks.iter().for_each(|line| crate::say!("note: {line}"));
    crate::say!("ok");
    Ok(())
}

/// What a hang-up or `anode node apply` would refuse as half written is refused here too.
fn read(path: &Path) -> anyhow::Result<NodeFile> {
    if std::fs::metadata(path).is_ok_and(|there| there.is_file() && there.len() == 0) {
        check_end(path, "")?;
    }
    let file = NodeFile::read(path)?;
    check_end(path, &file.text)?;
    Ok(file)
}

/// A note for each port whose interface is not there.
fn waiting(file: &NodeFile, planned: &Planned) -> Vec<String> {
    let away = |opening: &Opening| opening.interface().is_some_and(|interface| interface.index == 0);
    let names = || netlink::interfaces().unwrap_or_default().into_iter().map(|interface| interface.name);
    let known = || names().collect::<Vec<_>>().join(", ");
    let ports = file.ports.iter().zip(&planned.config.ports).zip(planned.openings());
    let waiting = ports.filter(|(_, opening)| away(opening)).filter_map(|((of_file, port), _)| {
        let interface = of_file.packet.as_ref()?;
        let name = &port.name;
        Some(format!(
            "port {name}: there is no interface {interface} here, and the port waits for it; there are {}",
            known()
        ))
    });
    waiting.collect()
}

/// Ports, neighbours, routes, roles, environments, which may have users of their own, and where things are kept.
fn describe(file: &NodeFile, planned: &Planned, own_users: bool) {
    let Planned { config, environments, .. } = planned;
    crate::say!("node {}, sockets in {}", config.name, file.run_dir().display());
    limits::ports(file, planned).iter().for_each(|line| crate::say!("  {line}"));
    let mut routes: Vec<_> = config.routes.next_hops().collect();
    routes.sort_by_key(|(to, _)| *to);
    for (to, next) in routes {
        let via = if next.via == Addr::UNSPECIFIED { "on the link".into() } else { format!("via {}", next.via) };
        crate::say!("  route {to} {via}, port {}", config.ports[usize::from(next.port.0)].name);
    }
    if file.routes == RouteSource::Kernel {
        crate::say!("  routes of the kernel, as they are at the time");
    }
    limits::tables(file, planned).iter().for_each(|line| crate::say!("  {line}"));
    config.roles.iter().for_each(|role| describe_role(role));
    environments.iter().cloned().for_each(|environment| describe_environment(environment, own_users));
    file.told_graphs().iter().for_each(|line| crate::say!("  {line}"));
    if let Some(path) = &file.files {
        crate::say!("  files of domains are kept in {}", path.display());
    }
    match &file.store {
        Some(path) => crate::say!("  code is kept in {}", path.display()),
        None => crate::say!("  code is kept in memory only (set store = \"DIR\" to keep it)"),
    }
}

/// What an environment is.
fn describe_environment(Environment { name, program, role, restart, worker }: Environment, own_users: bool) {
    let (what, words) = match program {
        Program::Process(process) => {
            let module = if process.module.is_some() { "a module, " } else { "" };
            (format!("{module}{}", describe_jail(&process, own_users)), process.command)
        }
        Program::Object(words) => ("in this process".into(), words),
    };
    let at = if worker == 0 { String::new() } else { format!(" at worker {worker}") };
    crate::say!("  environment {name} in the role {role}{at}, restarted {restart}, {what}: {}", words.join(" "));
}

/// What the process of an environment has.
fn describe_jail(process: &crate::config::environments::Process, own_users: bool) -> String {
    let (first, last) = process.users;
    let user = if own_users { format!("a user from {first} to {last}") } else { "the node's user".into() };
    let cpu = if process.cpu_percent == 0 { "all".into() } else { format!("{} %", process.cpu_percent) };
    format!(
        "{} B of its own, {} processes and threads, weight {} and {cpu} of a CPU, {user}",
        process.data_bytes, process.tasks, process.cpu_weight
    )
}

/// What a node would be confined by here.
fn describe_expected(sandbox: &sandbox::Expected) {
    crate::say!("  sandbox: user {}; no capability, now or ever", sandbox.user);
    crate::say!("  sandbox: broker {}", sandbox.broker);
    for part in &sandbox.parts {
        crate::say!("  sandbox: {}", part.words(sandbox.own_user));
    }
    for part in &sandbox.weaker {
        crate::say!("  sandbox weaker: {}", part.lack());
    }
    let jails: Vec<_> = sandbox.jails.iter().map(|part| part.name()).collect();
    crate::say!("  jails (compiler, loader, environments): seccomp {}", jails.join(" "));
    for part in &sandbox.jails_weaker {
        crate::say!("  jails weaker: {}", part.lack());
    }
}

/// What code in a role may.
fn describe_role(role: &Role) {
    let calls = match role.symbols {
        all if all == Symbols::default() => "all calls".to_owned(),
        some => format!("calls {}", some.names().collect::<Vec<_>>().join(" ")),
    };
    let form =
        if role.representations.has(Kind::Bpf) { format!("{:?} in the kernel, ", role.kernel) } else { String::new() };
    crate::say!("  role {}: {}, {}{calls}", role.name, role.representations, form.to_lowercase());
    let limits = &role.limits;
    crate::say!(
        "    {} steps, {} children a packet; {} packets, {} steps, {} µs in the kernel, {} log lines a second; {} \
         state entries of 64 B for {} ms; {} B of wasm memory; {} bpf instructions, {} verified",
        limits.steps_per_packet,
        limits.children_per_packet,
        limits.packets_per_second,
        limits.steps_per_second,
        limits.kernel_us_per_second,
        limits.logs_per_second,
        limits.state_entries,
        limits.keep_ms_max,
        limits.memory_bytes,
        limits.bpf_instructions,
        limits.verified_instructions
    );
    crate::say!("    {}", describe_grants(&role.grants));
    for (what, places) in [("listens at", &role.streams.listen), ("connects to", &role.streams.connect)] {
        if !places.is_empty() {
            let places: Vec<_> = places.iter().map(ToString::to_string).collect();
            let (most, begin) = (role.streams.streams, role.streams.per_second);
            crate::say!("    TCP streams: {what} {} ({most} at a time, {begin}/s)", places.join(", "));
        }
    }
    if !role.graphs.host.is_empty() {
        crate::say!("    has the host in its graphs by {}", role.graphs.host.join(", "));
    }
    if !role.graphs.locked.is_empty() {
        crate::say!("    other places than its graphs do not see {}", role.graphs.locked.join(", "));
    }
    if role.graphs.edits() {
        let GraphGrants { edits_per_second, engines, text_bytes, devices, named, .. } = &role.graphs;
        let devices = if devices.is_empty() { "no devices".into() } else { devices.join(", ") };
        crate::say!(
            "    changes graphs of its role: {edits_per_second}/s, {engines} engines, {text_bytes} bytes of text, {devices}"
        );
        for edit in named {
            crate::say!("      capsules may wish for edit {} ({}) of graph {}", edit.number, edit.name, edit.graph);
        }
    }
    if limits.over_budget == OverBudget::Remove {
        crate::say!("    removed for {} s when over budget for {} s", limits.removed_s, limits.over_budget_s);
    }
    if !role.services.is_empty() {
        crate::say!("    restricted PLAN services: {}", role.services.join(", "));
    }
    for root in &role.trusts {
        crate::say!("    granted by {root}");
    }
}

/// What a domain of a role gets besides its limits.
fn describe_grants(grants: &Grants) -> String {
    let deadline = match grants.deadline_us {
        0 => "no deadline".to_owned(),
        time => format!("deadline {time} µs"),
    };
    format!(
        "grants: weight {}, priority {}, {deadline}; {} B of memory, {} threads; {} channels, {} B/s, {} events, {} \
         domains; {} files, {} B; {} kernel programs, {} parts of graphs of a neighbour",
        grants.weight,
        grants.priority,
        grants.memory_bytes,
        grants.threads,
        grants.channels,
        grants.bandwidth,
        grants.events,
        grants.domains,
        grants.files,
        grants.file_bytes,
        grants.kernel_programs,
        grants.graph_parts
    )
}
