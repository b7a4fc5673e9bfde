//! All that `anode node check` knows, for programs.

use super::{Seen, keys, seen};
use crate::broker::sandbox::Expected;
use crate::cli::told;
use crate::config::NodeFile;
use crate::ee::plan::Config;
use crate::ee::plan::config::Principal as Known;
use crate::manage::Planned;
use crate::node::NodeConfig;
use crate::schedule::Share;
use crate::topology;
use anyhow::Result;
use core::iter::zip;
use model::meaning::{Compiler, Cpu, Entry, Input, InputPart, Meaning, Neighbour, Plan, Port, Principal, Role, Route};

/// What a configuration means, with its sandbox, the defaults that have changed, and notes.
pub(in super::super) fn meaning(
    file: &NodeFile,
    planned: &Planned,
    (sandbox, changed_defaults, notes): (&Expected, Vec<String>, Vec<String>),
) -> Result<Meaning> {
    let Planned { config, environments, plan, .. } = planned;
    let route = |(to, next): (crate::wire::Prefix, topology::NextHop)| Route {
        to: to.to_string(),
        via: next.via.to_string(),
        port: next.port.0,
    };
    Ok(Meaning {
        node: config.name.clone(),
        run_dir: file.run_dir().display().to_string(),
        ports: seen(file, planned).map(port).collect::<Result<_>>()?,
        neighbours: config.neighbours.iter().map(|of| neighbour(planned, of)).collect(),
        routes: config.routes.next_hops().map(route).collect(),
        environments: environments.iter().map(|environment| environment.name.clone()).collect(),
        roles: roles(config)?,
        sizes: told(&config.sizes)?,
        entry: told::<Entry>(&file.entry)?,
        cpu: cpu(file, planned),
        input: input(file, planned)?,
        compiler: told::<Compiler>(&file.compiler)?,
        plan: of_plan(file, plan),
        sandbox: told(sandbox)?,
        changed_defaults,
        notes,
    })
}

fn port(of: Seen<'_>) -> Result<Port> {
    let Seen { file, port, demands, plan, bytes_per_second, chosen, .. } = of;
    Ok(Port {
        name: port.name.clone(),
        link: port.link.to_string(),
        addresses: port.addresses.iter().map(|(addr, _)| addr.to_string()).collect(),
        mtu: port.mtu as u64,
        kernel: told(&file.kernel)?,
        chosen,
        xdp: file.xdp,
        bound_max: port.ceiling.unsigned,
        signed_bound_max: port.ceiling.signed,
        plan_bound_max: plan,
        demands: demands.names().map(str::to_owned).collect(),
        bytes_per_second,
    })
}

fn neighbour(planned: &Planned, of: &topology::Neighbour) -> Neighbour {
    let port = planned.config.ports.get(usize::from(of.port.0)).map(|port| port.name.clone());
    let keys = keys(planned, of).map(|key| format!("{:08x}", key.id)).collect();
    Neighbour { addr: of.addr.to_string(), port, keys }
}

fn roles(config: &NodeConfig) -> Result<Vec<Role>> {
    config.roles.iter().map(|role| told(&**role)).collect()
}

fn cpu(file: &NodeFile, planned: &Planned) -> Cpu {
    let cpu = &file.cpu;
    Cpu {
        workers: planned.room().workers(cpu).into(),
        scheduler: cpu.scheduler.unwrap_or_default().name().into(),
        share: cpu.share,
        realtime: cpu.realtime,
        priority: cpu.priority,
        affinity: cpu.affinity.iter().map(|cpu| *cpu as u64).collect(),
    }
}

fn input(file: &NodeFile, planned: &Planned) -> Result<Option<Input>> {
    let Some(spec) = file.input()? else { return Ok(None) };
    let heeds = spec.extension().is_none();
    let part = |(share, port): (&Share, &topology::Port)| InputPart {
        port: port.name.clone(),
        weight: heeds.then_some(share.weight),
        priority: heeds.then_some(share.priority),
    };
    let ports = zip(&spec.shares, &planned.config.ports).map(part).collect();
    Ok(Some(Input { order: spec.order.name().into(), ports }))
}

fn of_plan(file: &NodeFile, plan: &Config) -> Plan {
    let names = |all: &[plan::name::Name]| all.iter().map(|name| name.as_str().to_owned()).collect();
    let principal =
        |one: &Known| Principal { name: one.name.to_string(), role: one.role.clone(), services: names(&one.services) };
    Plan {
        enabled: plan.enabled,
        bound_max: plan.bound_max,
        restricted: names(&plan.restricted),
        open: file.plan.open.clone(),
        principals: plan.principals.iter().map(principal).collect(),
    }
}
