//! Whether the kernel half stands before a port with `kernel = "auto"`, and why.
//!
//! ```text
//! link ─▶ a program costs it nothing ─────────────────▶ it stands there
//!      └▶ a veth, or joined segments come, or may: a program would make TCP slower
//!            └▶ traffic of the last seconds: more packets of the node's own than others' bytes fill? ─▶ it stands there
//! ```
//!
//! Any XDP program at one end of a veth takes TCP segmentation from the other end, and one in the stack takes joined
//! segments apart: streams that pass are several times slower then. Without segmentation veth still copies what its sender
//! keeps, as TCP does all data: two thirds of the speed remain. Short packets cost the same with a program and without
//! (`anode bench presence`), so others' packets count by their bytes. All ports that are left to traffic have it or have it
//! not, since the kernel half sends packets on only between ports that have it. What stands there stays until the opposite
//! has been so for some seconds, so it does not flap.

mod traffic;

use crate::config::NodeFile;
use crate::config::Plan;
use crate::config::half::KernelWish;
use crate::port::Opening;
use crate::sys::{ethtool, netdev};
use model::status::Chosen;
use std::collections::HashMap;
use std::time::Duration;
use traffic::Seen;
pub use traffic::{Counted, Together};

/// From one look at traffic to the next.
pub const LOOK: Duration = Duration::from_secs(2);

/// What a link says of a program before it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ground {
    /// There cannot be one.
    Against(&'static str),
    /// It costs the link nothing.
    For(&'static str),
    /// Traffic decides.
    Traffic(&'static str),
}

/// What is known of the link of a port, by which it is judged.
#[derive(Clone, Copy, Debug)]
struct Facts {
    /// One end of a pair of virtual interfaces.
    veth: bool,
    /// Its driver takes TCP data longer than a packet, as the other end's does then.
    long: bool,
    /// Its driver runs XDP programs.
    in_driver: bool,
    /// Joined segments have come by it.
    joined: bool,
}

impl Facts {
    fn ground(self) -> Ground {
        match self {
            Facts { joined: true, .. } => {
                Ground::Traffic("joined segments have come by it, and a program would have TCP come in single packets")
            }
            Facts { veth: true, long: true, .. } => Ground::Traffic(
                "a veth whose ends take long segments (tcp-segmentation-offload), and a program would take that from TCP",
            ),
            Facts { in_driver: false, .. } => {
                Ground::Traffic("its driver runs no XDP program, and one in the stack takes joined segments apart")
            }
            // veth has TCP's packets copied for a program, since their sender keeps them too.
            Facts { veth: true, .. } => {
                Ground::Traffic("a veth, which copies all that TCP sends before a program sees it")
            }
            _ => Ground::For("its driver runs XDP programs"),
        }
    }
}

/// What was chosen of a port.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Whether the kernel half is to stand there.
    pub with: bool,
    ground: Ground,
    facts: Facts,
    /// The interface that was judged; 0: none yet.
    pub interface: u32,
    counted: Option<Counted>,
    /// How often that has changed.
    pub changes: u64,
}

/// Whether drivers run XDP programs, by interface.
type Drivers = HashMap<u32, bool>;

impl Choice {
    /// Of a port whose interface nobody has seen yet.
    pub fn new() -> Choice {
        let facts = Facts { veth: false, long: false, in_driver: true, joined: false };
        let ground = Ground::Against("its interface is not there");
        Choice { with: false, ground, facts, interface: 0, counted: None, changes: 0 }
    }

    /// The link is looked at anew. Where traffic decides it is as at other such ports; at the first one what is stays.
    pub fn judge(&mut self, host: &Host<'_>, at: usize, interface: u32, together: &mut Together) {
        let Ok(name) = ethtool::name(interface) else { return };
        if self.interface != interface {
            self.interface = interface;
            self.facts.veth = ethtool::is_veth(&name);
            (self.facts.joined, self.counted) = (false, None);
        }
        self.facts.long = ethtool::takes_long(&name).unwrap_or(false);
        // A kernel that does not say is believed to have XDP in its drivers.
        self.facts.in_driver = host.drivers.get(&interface).copied().unwrap_or(true);
        self.ground = fixed(host, at).unwrap_or_else(|| self.facts.ground());
        self.with = match self.ground {
            Ground::Against(_) => false,
            Ground::For(_) => true,
            Ground::Traffic(_) => *together.with.get_or_insert(self.with),
        };
    }

    /// Packets since the last look: the node's own, and those of others where a program would slow them down.
    pub fn count(&mut self, now: Counted, mtu: usize) -> [u64; 2] {
        let Some(before) = self.counted.replace(now) else { return [0; 2] };
        let Seen { own, others, joined } = now.since(&before, mtu as u64);
        self.facts.joined |= joined;
        [own, if matches!(self.ground, Ground::Traffic(_)) { others } else { 0 }]
    }

    /// For people.
    pub fn why(&self, together: &Together) -> String {
        let (Ground::Against(why) | Ground::For(why) | Ground::Traffic(why)) = self.ground;
        match (&self.ground, together.last) {
            (Ground::Traffic(_), Some([own, others])) => format!(
                "{why}; in {} s {own} packets were the node's, and others' bytes would fill {others}",
                LOOK.as_secs()
            ),
            (Ground::Traffic(_), None) if together.was_left => {
                format!("{why}; a process before this one has left it there, and few packets have come so far")
            }
            (Ground::Traffic(_), None) => format!("{why}; few packets have come so far"),
            _ => why.to_owned(),
        }
    }

    pub fn told(&self, together: &Together) -> Chosen {
        Chosen { kernel: self.with, why: self.why(together), changes: self.changes }
    }
}

/// What links are judged by beside themselves.
pub struct Host<'a> {
    file: &'a NodeFile,
    /// Whether the node has a kernel half.
    half: bool,
    drivers: Drivers,
}

impl Host<'_> {
    /// Of a configuration, as drivers are now.
    pub fn now(file: &NodeFile, half: bool) -> Host<'_> {
        Host { file, half, drivers: netdev::in_driver().unwrap_or_default() }
    }
}

/// What decides before any link does.
fn fixed(&Host { file, half, .. }: &Host<'_>, at: usize) -> Option<Ground> {
    let port = file.ports.get(at)?;
    let keyed = port.neighbours.iter().any(|near| !near.keys.is_empty());
    if !file.obeys_the_kernel() {
        return Some(Ground::Against("it obeys the kernel's routes: routes = \"kernel\", and no [[route]]"));
    }
    if keyed || !port.demand.is_empty() {
        return Some(Ground::Against("it can neither check proofs nor make them, and the port has demand or keys"));
    }
    if !half {
        return Some(Ground::Against("the node was started without a kernel half, or could not load it: see the log"));
    }
    port.xdp.then_some(Ground::For("xdp = true: a program stands there anyway"))
}

/// What was chosen of the ports of a configuration, as links are now; nothing where the file itself says it.
pub struct Choices {
    all: Vec<Option<Choice>>,
    together: Together,
}

impl Choices {
    /// Before the start, of plans that have it then.
    pub fn of(file: &NodeFile, plans: &mut [Plan]) -> Choices {
        let mut together = Together::default();
        if file.ports.iter().all(|port| port.kernel != KernelWish::Auto) {
            return Choices { all: Vec::new(), together };
        }
        let host = Host::now(file, file.has_half());
        let choose = |(at, plan): (usize, &mut Plan)| {
            let auto = file.ports.get(at).is_some_and(|port| port.kernel == KernelWish::Auto);
            let mut choice = auto.then(Choice::new)?;
            choice.judge(&host, at, interface_of(plan), &mut together);
            put(plan, choice.with);
            Some(choice)
        };
        Choices { all: plans.iter_mut().enumerate().map(choose).collect(), together }
    }

    /// What a node before this one has left before these interfaces stays where traffic decides.
    pub fn go_on(&mut self, standing: &[u32], plans: &mut [Plan]) {
        let by_traffic = |choice: &Choice| matches!(choice.ground, Ground::Traffic(_));
        let stood = |choice: &Choice| by_traffic(choice) && standing.contains(&choice.interface);
        if !self.all.iter().flatten().any(stood) {
            return;
        }
        (self.together.with, self.together.was_left) = (Some(true), true);
        for (choice, plan) in self.all.iter_mut().zip(plans) {
            if let Some(choice) = choice.as_mut().filter(|choice| by_traffic(choice)) {
                choice.with = true;
                put(plan, true);
            }
        }
    }

    /// The node has no kernel half after all.
    pub fn give_up(&mut self, file: &NodeFile, plans: &mut [Plan]) {
        self.together = Together::default();
        let host = Host::now(file, false);
        for (at, (plan, choice)) in plans.iter_mut().zip(&mut self.all).enumerate() {
            if let Some(choice) = choice {
                choice.judge(&host, at, interface_of(plan), &mut self.together);
                put(plan, choice.with);
            }
        }
    }

    /// What was chosen of a port.
    pub fn at(&self, at: usize) -> Option<Chosen> {
        self.all.get(at)?.as_ref().map(|choice| choice.told(&self.together))
    }

    /// Gives that of a port away.
    pub fn take(&mut self, at: usize) -> Option<Choice> {
        self.all.get_mut(at)?.take()
    }

    /// What is so at all ports that traffic decides on.
    pub fn together(&self) -> Together {
        self.together
    }
}

/// The interface of a port, 0 if it has none.
fn interface_of(plan: &Plan) -> u32 {
    plan.opening.interface().map_or(0, |interface| interface.index)
}

/// Whether the kernel half is to stand before a port.
pub fn put(plan: &mut Plan, with: bool) {
    if let Opening::Native(native) = &mut plan.opening {
        native.kernel = with;
    }
}

/// Whether it is to, by its plan.
pub fn has(plan: &Plan) -> bool {
    plan.opening.interface().is_some_and(|native| native.kernel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_by_which_tcp_would_lose_is_left_to_traffic() {
        let facts = Facts { veth: true, long: true, in_driver: true, joined: false };
        assert!(matches!(facts.ground(), Ground::Traffic(_)));
        let short = Facts { long: false, ..facts };
        assert!(matches!(short.ground(), Ground::Traffic(why) if why.contains("copies")));
        let card = Facts { veth: false, ..facts };
        assert!(matches!(card.ground(), Ground::For(_)), "a card has its segments put together");
        assert!(matches!(Facts { joined: true, ..card }.ground(), Ground::Traffic(_)));
        assert!(matches!(Facts { in_driver: false, ..card }.ground(), Ground::Traffic(_)));
    }
}
