//! A configuration that is ready to be taken over: all that can fail has been done, and nothing has changed yet.

use super::{Keys, Parts, Peers};
use crate::config::NodeFile;
use crate::config::cpu::CpuFile;
use crate::config::difference::{Change, Part};
use crate::config::environments::Environment;
use crate::frame::PortId;
use crate::manage::worker::Order;
use crate::node::policy::Amendment;
use crate::trust::Roles;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, PoisonError};

/// What is going to be carried out.
pub(super) struct Prepared {
    /// What workers take over.
    pub amendment: Amendment,
    /// Of a CPU, for the workers.
    cpu: Option<CpuFile>,
    /// What the kernel half may use.
    permille: Option<u32>,
    /// The environments, and the names of those whose table has changed.
    environments: Option<(Vec<Environment>, BTreeSet<String>)>,
    /// Which neighbour has which number then.
    peers: Option<Peers>,
    /// The configuration, for whoever follows routes and ports, and whether there is something new of them.
    followed: (NodeFile, (bool, bool)),
}

impl Prepared {
    /// What these changes lead to; `keyed`: with demands and keys.
    pub fn of(
        parts: &Parts,
        file: &NodeFile,
        changes: &[Change],
        keys: &Keys,
        keyed: bool,
    ) -> Result<Prepared, String> {
        let said = |error: crate::config::ConfigError| error.to_string();
        let has = |part: Part| changes.iter().any(|change| change.part == Some(part));
        let in_force = parts.roles.now();
        let roles = in_force.renewed(&Roles::new(file.roles.clone())?);
        let mut amendment = Amendment::default();
        let mut prepared_entry = None;
        if has(Part::Entry) {
            let limits = file.entry.limits()?;
            (amendment.entry, prepared_entry) = (Some(limits), Some(limits.permille));
        }
        amendment.rates = has(Part::Rates).then_some(file.sizes);
        let (is, was) = (&file.cpu, &parts.file.cpu);
        amendment.scheduler = (is.scheduler != was.scheduler).then(|| is.scheduler.unwrap_or_default());
        let weights = (is.capsules_weight, is.plan_weight);
        amendment.weights = (weights != (was.capsules_weight, was.plan_weight)).then_some(weights);
        if has(Part::Ports) || has(Part::Guard) {
            let limits = |(at, port): (usize, &crate::config::PortFile)| {
                Ok((PortId(at as u16), port.ceiling().map_err(said)?, port.bits_per_second))
            };
            amendment.ports = file.ports.iter().enumerate().map(limits).collect::<Result<_, String>>()?;
        }
        let peers = has(Part::Neighbours).then(|| parts.peers.renewed(file));
        amendment.neighbours = peers.as_ref().map(|peers| peers.neighbours(file));
        if (has(Part::Guard) || has(Part::Neighbours)) && keyed {
            let ports = parts.handle.with_node(|node, _| node.ports().to_vec())?;
            let secret = |path: &Path| {
                keys.get(path).cloned().ok_or_else(|| format!("{}: its key was not given", path.display()))
            };
            let guard = file.guard_with(&ports, parts.clock.now(), secret).map_err(said)?;
            amendment.guard = Some(guard);
        }
        if has(Part::Hello) {
            let saying = file.hellos().map_err(said)?;
            let interval = |at: usize| saying.iter().find(|(port, _)| *port == at).map(|(_, interval)| *interval);
            amendment.hellos = (0..file.ports.len()).map(|at| (PortId(at as u16), interval(at))).collect();
        }
        let environments = (has(Part::Environments) || has(Part::Roles)).then(|| {
            let of = |change: &&Change| change.part == Some(Part::Environments);
            let names = changes.iter().filter(of).filter_map(|change| change.place.get(1).cloned()).collect();
            Ok::<_, String>((file.environments(&roles).map_err(said)?, names))
        });
        let environments = environments.transpose()?;
        let (routes, ports) = (has(Part::Routes) || has(Part::Neighbours), has(Part::Ports) || has(Part::Guard));
        if routes {
            let following = parts.following.lock().unwrap_or_else(PoisonError::into_inner);
            let neighbours = peers.as_ref().unwrap_or(&parts.peers).neighbours(file);
            following.check(file, neighbours).map_err(|error| format!("{error:#}"))?;
        }
        amendment.roles = has(Part::Roles).then(|| Arc::new(roles));
        Ok(Prepared {
            amendment,
            cpu: has(Part::Cpu).then(|| file.cpu.clone()),
            permille: prepared_entry,
            environments,
            peers,
            followed: (file.clone(), (routes, ports)),
        })
    }

    /// Carries it out. An error: the node is going down.
    pub fn carry_out(self, parts: &mut Parts) -> Result<(), String> {
        let Prepared { amendment, cpu, permille, environments, peers, followed: (file, news) } = self;
        // Those who judge first: what a worker asks them from now on is answered by the new policy.
        if let Some(roles) = &amendment.roles {
            parts.roles.replace(roles.clone());
        }
        if let Some(guard) = &amendment.guard {
            parts.guard = guard.clone();
        }
        if let (Some(permille), Some(half)) = (permille, parts.handle.kernel_half())
            && let Err(error) = half.set_share(permille)
        {
            tracing::error!(%error, "the kernel half goes on with its old share");
        }
        let still = parts.handle.homes().still();
        parts.handle.with_each(move |node, turn| node.amend(turn, amendment.clone()))?;
        drop(still);
        if let Some(cpu) = cpu {
            parts.handle.order_each(|worker, workers| Order::Share(cpu.of_worker(worker, workers)))?;
        }
        if let Some(peers) = peers {
            for (port, places) in peers.places(&file) {
                parts.handle.order_each(|_, _| Order::Peers { port, peers: places.clone() })?;
            }
            parts.peers = peers;
        }
        let neighbours = parts.peers.neighbours(&file);
        let mut following = parts.following.lock().unwrap_or_else(PoisonError::into_inner);
        following.renew(file, neighbours, news).map_err(|error| format!("{error:#}"))?;
        drop(following);
        if let Some((all, changed)) = environments {
            parts.management.renew(all, changed);
        }
        Ok(())
    }
}
