//! Credentials that somebody keeps back: code gets its owner's role all the same, hops away, beside many who have none,
//! and where frames are lost and come twice.

use crate::guests::*;
use crate::peers::{self, Heard, Peer};
use anode::code::bundle::{Bundle, Kind};
use anode::sim::{Line, MS, Network, SECOND, Simulation};
use anode::trust::{Credential, CredentialSet, PrincipalKey, Restrictions, Role, Roles, Terms, object_name};
use anode::wire::{Digest, capsule, fetch};
use std::sync::Arc;

/// The owner's code, with what the root grants its author.
fn owned() -> (Roles, Bundle) {
    let [root, author] = [1, 2].map(|seed| PrincipalKey::from_seed([seed; 32]));
    let wasm = module("", "i32.const 1");
    let mut bundle = Bundle::build("owned", 0, &[(Kind::Wasm, wasm.into())], Some(&author)).unwrap();
    let terms = Terms { principal: author.id(), role: "operator".into(), checks: Restrictions::default() };
    let credential = Credential::grant(&root, &terms).unwrap().bind(&bundle.name()).unwrap();
    let set = CredentialSet { code: bundle.name(), credentials: vec![credential] };
    bundle.add_credentials(set.encode().into()).unwrap();
    let operator = Role { name: "operator".into(), trusts: vec![root.id()], ..Role::anyone(Default::default()) };
    (Roles::new(vec![operator]).unwrap(), bundle)
}

/// Links as they are not: a tenth of the frames is lost, a fifth comes twice, some are overtaken.
fn bad(delay_ms: f64) -> Line {
    Line { delay_ms, loss: 0.1, duplicate: 0.2, reorder: 0.2, ..Line::default() }
}

/// A network of this code's roles, in which these nodes are hostile: they have the code, and keep its credentials back.
fn simulation(mut network: Network, hostile: impl Iterator<Item = usize>, number: u64) -> (Simulation, Bundle) {
    let (roles, code) = owned();
    network.roles = Arc::new(roles);
    let mut sim = crate::net::simulation(network, number).unwrap();
    (0..sim.nodes()).for_each(|node| sim.open(node, 1));
    for node in hostile {
        let known = code.clone();
        let answer = move |message: fetch::Message<'_>| match message {
            fetch::Message::Request { nonce, digest, .. } if digest == CredentialSet::name_for(&known.name()) => {
                vec![peers::absent(nonce, digest)]
            }
            fetch::Message::Request { nonce, digest, missing, .. } => {
                let object = known.objects().find(|object| object_name(object) == digest).unwrap().to_vec();
                let wanted = (0..fetch::parts(object.len() as u32) as u16).filter(|part| missing >> part & 1 == 1);
                wanted.map(|part| peers::part(nonce, digest, part, &object)).collect()
            }
            _ => Vec::new(),
        };
        sim.replace(node, Box::new(Peer { heard: Heard::default(), answer }));
    }
    (sim, code)
}

/// A hostile node sends a capsule of the code.
fn attack(sim: &mut Simulation, from: usize, to: usize, code: Digest) {
    let here = sim.address(from);
    let header = capsule::Header { previous: here, source: here, ..header(code, sim.address(to), 64) };
    sim.put_frame(from, 0, &peers::capsule(&header));
}

fn role(sim: &Simulation, node: usize, code: &Bundle) -> Option<String> {
    let codes = sim.status(node).unwrap().codes;
    codes.into_iter().find(|known| known.name == code.name().to_string())?.role
}

/// Waits until a node has the code in this role, while `each` happens every second.
fn until(sim: &mut Simulation, code: &Bundle, (node, wanted): (usize, &str), mut each: impl FnMut(&mut Simulation)) {
    for _ in 0..180 {
        each(sim);
        sim.run_for(SECOND);
        if role(sim, node, code).as_deref() == Some(wanted) {
            return;
        }
    }
    panic!("node {node} has it as {:?} and not as {wanted}: {}", role(sim, node, code), sim.report());
}

/// Hostile 0 ─ 1 ─ 2 ─ 3 the owner: what 1 asks 2 for, that asks 3 for at the same time.
#[test]
fn one_packet_takes_the_owners_role_from_no_node_two_hops_away() {
    let number = seed(1);
    for (line, slow) in [(Line::default(), Line { delay_ms: 20.0, ..Line::default() }), (bad(1.0), bad(20.0))] {
        // The one between may trust nobody, and only carry what others judge.
        for carries in [false, true] {
            let mut network = Network::unlinked(4);
            network.link(0, 1, line).link(1, 2, line).link(2, 3, slow);
            if carries {
                network.own_roles.insert(2, Arc::default());
            }
            let (mut sim, code) = simulation(network, 0..1, number);
            until(&mut sim, &code, (2, "anyone"), |sim| attack(sim, 0, 2, code.name()));
            assert_eq!(role(&sim, 1, &code).as_deref(), Some("anyone"));
            sim.add_code(3, &code);
            let to = sim.address(1);
            until(&mut sim, &code, (1, "operator"), |sim| {
                sim.inject(3, header(code.name(), to, 64), b"").unwrap();
            });
            assert_eq!(role(&sim, 2, &code).as_deref(), Some(if carries { "anyone" } else { "operator" }));
        }
    }
}

#[test]
fn nor_do_many_neighbours_who_keep_its_credentials_back() {
    let number = seed(1);
    for (line, hostile) in [(Line::default(), 8), (bad(5.0), 8), (Line::default(), 70), (bad(5.0), 70)] {
        let owner = hostile + 1;
        let mut network = Network::unlinked(owner + 1);
        (1..=owner).for_each(|leaf| _ = network.link(0, leaf, line));
        let (mut sim, code) = simulation(network, 1..owner, number);
        until(&mut sim, &code, (0, "anyone"), |sim| attack(sim, 1, 0, code.name()));
        let to = sim.address(0);
        let all = |sim: &mut Simulation| {
            (1..owner).for_each(|from| attack(sim, from, 0, code.name()));
            sim.run_for(100 * MS);
        };
        (0..20).for_each(|_| all(&mut sim));
        sim.add_code(owner, &code);
        until(&mut sim, &code, (0, "operator"), |sim| {
            all(sim);
            sim.inject(owner, header(code.name(), to, 64), b"").unwrap();
        });
    }
}
