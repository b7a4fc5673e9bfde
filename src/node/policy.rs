//! Other roles for a running node: what acts in a role has its new limits from the next packet on.
//!
//! ```text
//! role, as it was ─▶ as it is ─▶ only numbers of the budget differ ─▶ domain, buckets, kernel half: in place
//!                        │        what a load was judged by differs ─▶ code goes, and is judged anew with the next capsule
//!                        └ gone ──▶ its code goes, its domains end
//! ```
//!
//! Code keeps its soft state as long as nothing of what was looked at when it was loaded has become less. Who trusts
//! whom decides which role signed code has; when that differs, all signed code is judged anew beside its packets. A
//! bucket keeps what is in it, up to its new burst, so that nothing is gained by a change.

use super::codes::{Code, Ready};
use super::ending::EndedBy;
use super::entry::EntryLimits;
use super::graphs::RunningGraphs;
use super::output::{Effect, KernelOrder, Turn};
use super::overrun::held_by_code;
use super::places::PortPlaced;
use super::proofs::Guard;
use super::trust::review;
use super::{Capsules, Cx, Node, Sizes, founding};
use crate::core::domain::DomainId;
use crate::frame::{PeerId, PortId};
use crate::graph::taught::Classifying;
use crate::schedule::Policy;
use crate::topology::{Ceiling, Neighbour};
use crate::trust::grants::Grants;
use crate::trust::{Role, Roles};
use crate::wire::Digest;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What has become of the roles of a node.
struct Renewal {
    /// By name, those that differ; nothing: it has gone.
    roles: HashMap<String, Option<Arc<Role>>>,
    /// Whether signed code may have another one now.
    judged: bool,
}

impl Renewal {
    fn of(before: &Roles, after: &Roles) -> Renewal {
        let by_name: HashMap<&str, &Arc<Role>> = after.iter().map(|role| (role.name.as_str(), role)).collect();
        let changed = before.iter().filter_map(|was| match by_name.get(was.name.as_str()) {
            Some(is) if *is == was => None,
            is => Some((was.name.clone(), is.map(|is| (*is).clone()))),
        });
        let trust = |roles: &Roles| -> Vec<_> {
            let trusting = roles.iter().filter(|role| !role.trusts.is_empty());
            trusting.map(|role| (role.name.clone(), role.trusts.clone())).collect()
        };
        Renewal { roles: changed.collect(), judged: trust(before) != trust(after) }
    }
}

/// What an operator changes of a running node; nothing of what stays as it is.
#[derive(Clone, Default)]
pub struct Amendment {
    /// The roles that are in force.
    pub roles: Option<Arc<Roles>>,
    /// What neighbours may use.
    pub entry: Option<EntryLimits>,
    /// How the CPU is divided among domains.
    pub scheduler: Option<Policy>,
    /// What capsules and PLAN have of it beside other environments.
    pub weights: Option<(u32, u32)>,
    /// What ports demand, and keys of neighbours.
    pub guard: Option<Guard>,
    /// Ports that have come or gone, or are others.
    pub placed: Vec<PortPlaced>,
    /// Ceilings and capacities of ports.
    pub ports: Vec<(PortId, Ceiling, u64)>,
    /// Active nodes that are configured, of all ports.
    pub neighbours: Option<Vec<Neighbour>>,
    /// What ports may bring, and neighbours ask for; tables stay as large as they are.
    pub rates: Option<Sizes>,
    /// Protocols that are taught, and which of the rules that hold get a packet.
    pub classifying: Option<Classifying>,
    /// Tenths of a second between hellos of ports; nothing: they say none.
    pub hellos: Vec<(PortId, Option<u16>)>,
}

impl Node {
    /// Takes over what an operator changes, between two packets: the next one finds all of it.
    pub fn amend(&mut self, turn: &mut Turn<'_>, amendment: Amendment) {
        let Amendment {
            roles,
            entry,
            scheduler,
            weights,
            guard,
            placed,
            ports,
            neighbours,
            rates,
            classifying,
            hellos,
        } = amendment;
        let locks = classifying.is_some() || roles.is_some();
        classifying.into_iter().for_each(|classifying| self.cx.teach(turn, classifying));
        let rebinds = !placed.is_empty();
        placed.into_iter().for_each(|placed| self.place_port(placed));
        if rebinds {
            self.rebind_graphs(turn);
        }
        if let Some(sizes) = rates {
            let whole = sizes.ingress_packets_per_second;
            self.cx.core.ingress.fill_with(|| founding::ingress_bucket(whole));
            self.cx.core.ingress_rate = whole;
            self.cx.divide_ingress();
            self.ask(|capsules: &mut Capsules, _| capsules.renew_rates(turn.now, &sizes));
        }
        if let Some(neighbours) = neighbours {
            self.configure_neighbours(&neighbours);
        }
        for (port, ceiling, rate) in ports {
            self.cx.core.topology.set_port_limits(port, ceiling, rate);
        }
        if let Some(guard) = guard {
            if self.cx.is_further() {
                self.leave_guard(&guard);
            } else {
                self.set_guard(turn.now, guard);
            }
        }
        if let Some(roles) = roles {
            self.set_roles(turn, roles);
        }
        if locks {
            self.ask(|graphs: &mut RunningGraphs, cx| graphs.lock_all(cx));
        }
        if let Some(entry) = entry {
            self.set_entry(entry);
        }
        if let Some((capsules, plan)) = weights {
            self.set_weights(capsules, plan);
            let own = [self.ask(|environment: &mut Capsules, _| environment.domain), self.plan_domain()];
            for domain in own.into_iter().flatten().filter(|domain| self.cx.has_path(*domain)).collect::<Vec<_>>() {
                self.cx.enter_path(domain, turn.now);
            }
        }
        if let Some(scheduler) = scheduler {
            self.set_scheduler(scheduler, turn.now);
        }
        // The first worker alone says them.
        let hellos = if self.cx.is_further() { Vec::new() } else { hellos };
        for (port, interval) in hellos {
            match interval {
                Some(interval) => self.say_hello(turn.now, port, interval),
                None => self.say_no_hello(port),
            }
        }
        self.cx.tell_topology(turn);
    }

    /// These neighbours are configured from now on; each peer of an overlay port has buckets of its own.
    fn configure_neighbours(&mut self, wanted: &[Neighbour]) {
        let core = &mut self.cx.core;
        core.topology.neighbours.configure(wanted);
        for (port, at) in core.topology.ports.iter().zip(0..) {
            let behind = wanted.iter().filter(|near| near.port == PortId(at) && near.peer != PeerId::NONE);
            let peers = behind.map(|near| near.peer.0 + 1).max().unwrap_or(0);
            self.cx.order.entry.make_room(PortId(at), peers, port.bits_per_second);
        }
    }

    /// These roles are in force from now on. Whoever judges code has them before.
    pub fn set_roles(&mut self, turn: &mut Turn<'_>, roles: Arc<Roles>) {
        let before = core::mem::replace(&mut self.cx.control.roles, roles);
        self.cx.control.roles_renewed = true;
        let renewal = Renewal::of(&before, &self.cx.control.roles);
        if renewal.roles.is_empty() && !renewal.judged {
            return;
        }
        self.ask(|capsules: &mut Capsules, cx| capsules.renew_roles(cx, turn, &renewal));
        let ended = self.cx.renew_domains(turn.now, &renewal);
        self.cx.control.wishing.renew(&self.cx.control.roles);
        for domain in ended {
            self.cx.fell(domain, EndedBy::Operator);
            self.end_domain(turn, domain, true);
        }
        self.cx.disown();
    }
}

impl Capsules {
    fn renew_rates(&mut self, now: u64, sizes: &Sizes) {
        self.serving.renew(now, sizes.fetch_bytes_per_second);
        let burst = sizes.look_ups_per_second.max(sizes.codes as u64);
        self.look_ups.renew(now, sizes.look_ups_per_second, burst);
    }

    fn renew_roles(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, renewal: &Renewal) {
        let names: Vec<Digest> = self.codes.ready().map(|(name, _)| *name).collect();
        // What others were refused for may be granted now.
        self.codes.forget_refused();
        for name in names {
            let Some(Code::Ready(ready)) = self.codes.of_mut(&name) else { continue };
            if renewal.judged && ready.claim.manifest.is_signed() {
                ready.is_doubtful = true;
                review(turn, ready, true);
            }
            if renewal.roles.contains_key(&ready.grant.role.name) {
                self.renew_code(cx, turn, &name);
            }
        }
    }

    /// Code that is ready acts in its role as that is now; or it goes, and is judged anew with the next capsule.
    pub(super) fn renew_code(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, name: &Digest) {
        let Some(Code::Ready(ready)) = self.codes.of_mut(name) else { return };
        let is = cx.control.roles.iter().find(|role| role.name == ready.grant.role.name).cloned();
        let shared = ready.bpf.is_some() || cx.control.workers.leads().is_some() || cx.is_further();
        let Some(is) = is.filter(|is| stays(&ready.grant.role, is, shared)) else {
            let role = &ready.grant.role.name;
            tracing::info!(event = "code", node = cx.core.name, code = %name.short(), role, "code is judged anew");
            self.withdraw(cx, turn, name);
            return;
        };
        cx.renew_code_domain(turn, name, ready, &is);
    }
}

/// Whether code that was loaded in a role can go on in it as it is now; `shared`: others keep its soft state too.
fn stays(was: &Role, is: &Role, shared: bool) -> bool {
    let (old, new) = (&was.limits, &is.limits);
    let loaded = was.representations == is.representations
        && was.kernel == is.kernel
        && was.keeps_out_of_kernel().is_some() == is.keeps_out_of_kernel().is_some()
        && was.symbols.names().all(|name| is.symbols.has(name))
        && new.memory_bytes >= old.memory_bytes
        && new.bpf_instructions >= old.bpf_instructions
        && new.verified_instructions >= old.verified_instructions;
    let kept = (old.state_entries, old.keep_ms_max, old.children_per_packet)
        == (new.state_entries, new.keep_ms_max, new.children_per_packet);
    loaded && (kept || !shared)
}

impl Cx {
    /// Whether a role is in force as it is. Until an operator changes roles, who judges code has the node's own.
    pub(super) fn has_role(&self, role: &Role) -> bool {
        !self.control.roles_renewed || self.control.roles.iter().any(|known| **known == *role)
    }

    fn renew_code_domain(&mut self, turn: &mut Turn<'_>, name: &Digest, ready: &mut Ready, role: &Arc<Role>) {
        self.settle_wishes(ready.domain);
        ready.grant.role = role.clone();
        ready.steps = role.limits.steps_per_packet;
        let besides = held_by_code(&role.limits, role.limits.state_entries);
        let memory_bytes = role.grants.memory_bytes.saturating_add(besides);
        self.renew_domain(turn.now, ready.domain, role, Grants { memory_bytes, ..role.grants });
        self.seat_wishes(turn.now, ready.domain);
        if ready.bpf.is_some() {
            self.tell_limits(turn, name, role);
        }
    }

    /// Tells the kernel half the budget of a code that it runs.
    pub(super) fn tell_limits(&self, turn: &mut Turn<'_>, code: &Digest, role: &Arc<Role>) {
        if self.control.mirror.on {
            turn.out.effects.push(Effect::Kernel(KernelOrder::Limit { code: *code, role: role.clone() }));
        }
    }

    /// Domains beside those of codes act in their roles as those are now. Gives those whose role has gone.
    fn renew_domains(&mut self, now: u64, renewal: &Renewal) -> Vec<DomainId> {
        let changed = |name: &str| renewal.roles.get(name);
        let all = self.core.domains.iter();
        let all: Vec<_> = all.filter_map(|(id, domain)| Some((id, changed(&domain.role.name)?.clone()))).collect();
        let mut ended = Vec::new();
        for (id, role) in all {
            match (role, self.core.domains.by_id(id)) {
                (Some(role), Some(domain)) if domain.role != role => {
                    // Whoever made it has chosen how many threads of the role's it has.
                    let threads = match domain.grants.threads == domain.role.grants.threads {
                        true => role.grants.threads,
                        false => domain.grants.threads.min(role.grants.threads),
                    };
                    self.renew_domain(now, id, &role, Grants { threads, ..role.grants });
                }
                (None, Some(_)) => ended.push(id),
                _ => {}
            }
        }
        // What is below one that ends does so with it.
        let gone: HashSet<DomainId> = ended.iter().copied().collect();
        let is_below = |id: &DomainId| {
            let above = self.core.domains.by_id(*id).and_then(|domain| domain.parent());
            above.is_some_and(|above| gone.contains(&above))
        };
        ended.retain(|id| !is_below(id));
        ended
    }

    /// A domain has these limits and grants from now on, in both halves.
    fn renew_domain(&mut self, now: u64, id: DomainId, role: &Arc<Role>, grants: Grants) {
        // Few domains have channels, and there may be many of both.
        let has_channels = self.core.domains.by_id(id).is_some_and(|domain| domain.channels > 0);
        let cuts = if has_channels { self.graphs.cuts_of(id) } else { Vec::new() };
        cuts.iter().for_each(|cut| self.graphs.end_cut(&mut self.core, *cut));
        let has_graph = has_channels && self.graphs.rest_doors(&mut self.core, |domain| domain == id);
        if has_graph || !cuts.is_empty() {
            self.graphs.share_no_more(&mut self.core, id, now);
        }
        let Some(domain) = self.core.domains.of(id) else { return };
        domain.renew(now, role, grants);
        if let Some(pool) = self.core.pools.of_domain(id).filter(|pool| self.core.pools.owner(*pool) == Some(id)) {
            self.core.pools.set_limit(pool, grants.memory_bytes);
        }
        if self.has_path(id) {
            self.enter_path(id, now);
        }
        cuts.into_iter().for_each(|cut| self.graphs.begin_cut(&mut self.core, cut));
        if has_graph {
            self.graphs.resume_doors(&mut self.core, |domain| domain == id);
        }
    }
}
