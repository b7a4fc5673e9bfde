//! The invariants of every swarm.

use anode::ee::plan::Config;
use anode::node::Sizes;
use anode::sim::{Carries, Network, SECOND, Simulation, Tapped};
use anode::wire::{Addr, anep, capsule, fetch};
use std::cell::RefCell;
use std::rc::Rc;

/// Wrong frames that are remembered.
const WRONG_MAX: usize = 5;

pub struct Rules {
    sizes: Sizes,
    plan: Config,
    /// For each node the addresses it may call its own.
    addresses: Vec<Vec<Addr>>,
    /// For each port of each node whether it is an overlay's, and its MTU.
    ports: Vec<Vec<(bool, usize)>>,
    wrong: Rc<RefCell<Vec<String>>>,
}

impl Rules {
    pub fn of(network: &Network) -> Rules {
        let nodes = network.names.len();
        let mut ports = vec![Vec::new(); nodes];
        for link in &network.links {
            for end in [link.a, link.b] {
                ports[end].push((link.line.carries == Carries::Overlay, link.line.mtu));
            }
        }
        Rules {
            sizes: network.sizes,
            plan: network.plan.clone(),
            addresses: (0..nodes).map(|node| network.addresses(node).collect()).collect(),
            ports,
            wrong: Rc::default(),
        }
    }

    /// Looks at every frame that an honest node sends.
    pub fn watch(&self, sim: &mut Simulation, hostile: &[usize]) {
        let (wrong, ports, addresses) = (self.wrong.clone(), self.ports.clone(), self.addresses.clone());
        let hostile = hostile.to_vec();
        sim.tap(Box::new(move |frame: Tapped<'_>| {
            if !frame.leaves || hostile.contains(&frame.node) {
                return;
            }
            let port = ports[frame.node].get(usize::from(frame.port)).copied();
            let Err(why) = judge(&frame, port, &addresses[frame.node]) else { return };
            let mut wrong = wrong.borrow_mut();
            if wrong.len() < WRONG_MAX {
                wrong.push(format!("node {} at {}: {why}: {}", frame.node, frame.at, hex::encode(frame.bytes)));
            }
        }));
    }

    /// Nothing that an honest node sent was wrong.
    pub fn frames(&self, seed: u64) {
        let wrong = self.wrong.borrow();
        assert!(wrong.is_empty(), "SEED={seed}: honest nodes sent\n{}", wrong.join("\n"));
    }

    /// Every capsule is somewhere, or its end was counted once.
    pub fn books(&self, sim: &Simulation, seed: u64) {
        let totals = sim.totals();
        assert_eq!(totals.begun(), totals.ended() + sim.alive(), "SEED={seed} at {}: {}", sim.now(), sim.report());
    }

    /// No table is larger than it may be, and every bound of PLAN is accounted for.
    pub fn tables(&self, sim: &Simulation, seed: u64) {
        for node in (0..sim.nodes()).filter(|node| sim.is_up(*node)) {
            let status = sim.status(node).unwrap();
            let state: u64 = status
                .codes
                .iter()
                .filter_map(|code| code.usage.as_ref())
                .map(|usage| usage.state_entries as u64)
                .sum();
            let within = [
                ("codes", status.codes.len() as u64, self.sizes.codes as u64),
                ("objects", status.fetch.object_bytes as u64, self.sizes.object_bytes as u64),
                ("soft state", state, self.sizes.state_entries as u64),
            ];
            for (what, is, most) in within {
                assert!(is <= most, "SEED={seed} node {node}: {what}: {is} of {most}");
            }
            let Some(plan) = status.plan else { continue };
            assert!(
                plan.codes <= self.plan.codes && plan.code_bytes <= self.plan.code_bytes,
                "SEED={seed} node {node}: {plan:?}"
            );
            // One program may be larger than the room for all.
            assert!(plan.codes == 1 || plan.code_memory <= self.plan.code_memory, "SEED={seed} node {node}: {plan:?}");
            assert!(plan.resident_bytes <= 4 << 20 && plan.job_bytes <= 4 << 20, "SEED={seed} node {node}: {plan:?}");
            let account = plan.account;
            let came = account.injected + account.received;
            assert_eq!(
                came,
                account.sent + account.spent + account.unused + plan.held,
                "SEED={seed} node {node}: {plan:?}"
            );
        }
    }

    /// When nobody sends any more, everything ends: no capsule, no fetch, no waiting packet stays.
    pub fn nothing_stays(&self, sim: &mut Simulation, seed: u64) {
        let end = sim.now() + 200 * SECOND;
        assert!(sim.drain(end), "SEED={seed}: {:?} stay:\n{}", sim.in_flight(), sim.report());
        sim.run_for(200 * SECOND);
        self.books(sim, seed);
        self.tables(sim, seed);
        assert_eq!(sim.alive(), 0, "SEED={seed}");
        for node in (0..sim.nodes()).filter(|node| sim.is_up(*node)) {
            let status = sim.status(node).unwrap();
            let fetch = (status.fetch.codes, status.fetch.capsules);
            assert_eq!(fetch, (0, 0), "SEED={seed} node {node}: code is still on its way");
            let Some(plan) = status.plan else { continue };
            let stays = (plan.waiting, plan.jobs, plan.piece_bytes);
            assert_eq!(stays, (0, 0, 0), "SEED={seed} node {node}: {plan:?}");
        }
    }
}

/// Whether a frame may leave an honest node by a port.
fn judge(frame: &Tapped<'_>, port: Option<(bool, usize)>, own: &[Addr]) -> Result<(), String> {
    let Some((overlay, mtu)) = port else { return Err(format!("there is no port {}", frame.port)) };
    const LINK: usize = 18;
    if frame.bytes.len() > mtu + if overlay { 0 } else { LINK } {
        return Err(format!("{} bytes on a link of {mtu}", frame.bytes.len()));
    }
    if !overlay {
        return Ok(());
    }
    let packet = anep::Packet::new_checked(frame.bytes).map_err(|why| format!("no ANEP packet: {why:?}"))?;
    match packet.type_id() {
        anep::type_id::CAPSULE => {
            let header = capsule::Header::parse(packet.payload()).map_err(|why| format!("no capsule: {why:?}"))?;
            if !own.contains(&header.previous) {
                return Err(format!("sent in the name of {}", header.previous));
            }
            Ok(())
        }
        anep::type_id::FETCH => {
            fetch::Message::parse(packet.payload()).map(drop).map_err(|why| format!("no fetch message: {why:?}"))
        }
        _ => Ok(()),
    }
}

/// The rules about frames complain about bad ones.
pub fn notices_what_is_wrong() {
    let own = [Addr::v4([10, 0, 0, 1])];
    let judged = |bytes: &[u8], port| judge(&Tapped { at: 0, node: 0, port: 0, leaves: true, bytes }, port, &own);
    let capsule = |previous: Addr| {
        let code = anode::wire::Digest([1; 32]);
        let header = capsule::Header { app_port: 1, bound: 1, code, previous, source: own[0], destination: own[0] };
        let mut bytes = vec![0; anep::HEADER + capsule::HEADER];
        header.emit(&mut bytes[anep::HEADER..]).unwrap();
        anep::emit_basic(&mut bytes, anep::type_id::CAPSULE, capsule::HEADER).unwrap();
        bytes
    };
    assert_eq!(judged(&capsule(own[0]), Some((true, 1500))), Ok(()));
    assert!(judged(&capsule(Addr::v4([10, 0, 0, 2])), Some((true, 1500))).unwrap_err().contains("in the name of"));
    assert!(judged(&capsule(own[0]), Some((true, 90))).unwrap_err().contains("on a link of 90"));
    assert!(judged(&capsule(own[0])[..50], Some((true, 1500))).unwrap_err().contains("no ANEP packet"));
    assert!(judged(&[], None).unwrap_err().contains("no port"));
}
