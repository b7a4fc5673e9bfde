//! Credentials on the way: code that is fetched from hop to hop keeps them; a liar can take rights away at most.

use crate::guests::*;
use crate::peers::{self, Heard, Peer};
use anode::code::bundle::{Bundle, Kind};
use anode::core::reason::Reason;
use anode::node::status::CodeStatus;
use anode::sim::{Line, Network, SECOND, Shape, Simulation};
use anode::trust::limits::{Limits, OverBudget};
use anode::trust::{Credential, CredentialSet, PrincipalKey, Restrictions, Role, Roles, Terms, object_name};
use anode::wire::{Digest, capsule, fetch};
use std::sync::Arc;

/// Steps of [`busy`]: more than `anyone` has for a packet.
const STEPS: u64 = 100_000;

fn root() -> PrincipalKey {
    PrincipalKey::from_seed([1; 32])
}

fn author() -> PrincipalKey {
    PrincipalKey::from_seed([2; 32])
}

/// A role that the root grants.
fn operator() -> Role {
    let limits = Limits { steps_per_packet: STEPS, state_entries: 5, ..Limits::default() };
    Role { name: "operator".into(), trusts: vec![root().id()], ..Role::anyone(limits) }
}

fn simulation(nodes: usize, role: Role) -> Simulation {
    let mut network = Network::new(Shape::Line { nodes }, Line::default(), 0).unwrap();
    network.roles = Arc::new(Roles::new(vec![role]).unwrap());
    // The second node trusts nobody: it only carries what others judge.
    network.own_roles.insert(1, Arc::default());
    let mut sim = crate::net::simulation(network, seed(1)).unwrap();
    (0..nodes).for_each(|node| sim.open(node, 1));
    sim
}

fn signed(title: &str, wasm: Vec<u8>) -> Bundle {
    Bundle::build(title, 0, &[(Kind::Wasm, wasm.into())], Some(&author())).unwrap()
}

/// With what the root grants its author.
fn granted(mut bundle: Bundle, checks: Restrictions) -> Bundle {
    let terms = Terms { principal: author().id(), role: "operator".into(), checks };
    let credential = Credential::grant(&root(), &terms).unwrap().bind(&bundle.name()).unwrap();
    let set = CredentialSet { code: bundle.name(), credentials: vec![credential] };
    bundle.add_credentials(set.encode().into()).unwrap();
    bundle
}

fn plain() -> Bundle {
    signed("forward", module("", "i32.const 1"))
}

/// Takes half of [`STEPS`] at every hop.
fn busy() -> Bundle {
    let body = "(local $i i32)
        (loop $again (br_if $again (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 7000))))
        (i32.const 1)";
    signed("busy", module("", body))
}

/// Keeps ten entries at every hop.
fn keeping() -> Bundle {
    let imports = r#"(import "anode" "an_state_put" (func $put (param i64 i32 i32) (result i32)))"#;
    let body = "(local $i i64)
        (loop $again
            (drop (call $put (local.get $i) (i32.const 512) (i32.const 1000000)))
            (br_if $again (i64.lt_u (local.tee $i (i64.add (local.get $i) (i64.const 1))) (i64.const 10))))
        (i32.const 1)";
    signed("keeping", module(imports, body))
}

fn send(sim: &mut Simulation, code: &Bundle) {
    let to = sim.address(sim.nodes() - 1);
    sim.inject(0, header(code.name(), to, 64), b"").unwrap();
    assert!(sim.drain(sim.now() + 60 * SECOND), "{}", sim.report());
}

/// What a node says of a code.
fn said(sim: &Simulation, node: usize, code: Digest) -> CodeStatus {
    let codes = sim.status(node).unwrap().codes;
    codes.into_iter().find(|known| known.name == code.to_string()).unwrap()
}

fn role(sim: &Simulation, node: usize, code: &Bundle) -> Option<String> {
    said(sim, node, code.name()).role
}

#[test]
fn code_fetched_over_hops_keeps_its_credentials_even_past_a_node_that_cannot_judge_them() {
    let mut sim = simulation(4, operator());
    let code = granted(plain(), Restrictions::default());
    sim.add_code(0, &code);
    send(&mut sim, &code);
    assert_eq!(sim.totals().delivered, 1, "{}", sim.report());
    let roles: Vec<_> = (0..4).map(|node| role(&sim, node, &code).unwrap()).collect();
    assert_eq!(roles, ["operator", "anyone", "operator", "operator"]);
    let carrier = said(&sim, 1, code.name());
    assert!(carrier.credential_refused.unwrap().contains("trusted for no role here"));
    assert_eq!(carrier.principal, Some(author().id().to_string()));
    let counts = |node: usize| sim.status(node).unwrap().credentials;
    assert_eq!((counts(1).accepted, counts(1).refused), (0, 1));
    assert_eq!((counts(3).accepted, counts(3).refused), (1, 0));
}

#[test]
fn the_limits_of_the_role_reach_the_run_time() {
    let mut sim = simulation(4, operator());
    // Without its credentials the same code has the fuel and the room of anyone.
    for (code, delivered) in [(busy(), 0), (granted(busy(), Restrictions::default()), 0)] {
        sim.add_code(0, &code);
        send(&mut sim, &code);
        assert_eq!(sim.totals().delivered, delivered);
    }
    assert_eq!(sim.totals().dropped.of(Reason::Fuel), 2, "at the first node, then at the one that trusts nobody");
    let mut sim = simulation(4, operator());
    let code = granted(keeping(), Restrictions::default());
    sim.add_code(0, &code);
    send(&mut sim, &code);
    let entries = |node: usize| said(&sim, node, code.name()).usage.unwrap().state_entries;
    assert_eq!([0, 1, 2, 3].map(entries), [5, 10, 5, 5]);
    assert_eq!(sim.totals().delivered, 1);
}

#[test]
fn a_call_that_the_role_lacks_is_a_link_error_that_names_both() {
    let symbols = vec!["an_now".to_owned()].try_into().unwrap();
    let mut sim = simulation(2, Role { symbols, ..operator() });
    let code = granted(keeping(), Restrictions::default());
    sim.add_code(0, &code);
    send(&mut sim, &code);
    let why = said(&sim, 0, code.name()).why.unwrap();
    assert_eq!(why, "wasm: it calls an_state_put, which the role operator does not include");
    assert_eq!(sim.totals().dropped.of(Reason::CodeRefused), 1);
}

#[test]
fn memory_beyond_the_role_is_refused() {
    let mut role = operator();
    role.limits.memory_bytes = 512;
    let mut sim = simulation(2, role);
    let code = granted(plain(), Restrictions::default());
    sim.add_code(0, &code);
    send(&mut sim, &code);
    let why = said(&sim, 0, code.name()).why.unwrap();
    assert_eq!(why, "wasm: it needs 1024 bytes of memory, the role operator has 512");
}

#[test]
fn a_role_ends_with_its_credential_and_code_goes_on_as_anyone() {
    let mut sim = simulation(2, operator());
    let until = Some(sim.network().unix_s + 90);
    let code = granted(plain(), Restrictions { until, ..Restrictions::default() });
    sim.add_code(0, &code);
    send(&mut sim, &code);
    sim.run_for(70 * SECOND);
    send(&mut sim, &code);
    assert_eq!(role(&sim, 0, &code).as_deref(), Some("operator"), "looked at once, and still good");
    sim.run_for(120 * SECOND);
    send(&mut sim, &code);
    let now = said(&sim, 0, code.name());
    assert_eq!(now.role.as_deref(), Some("anyone"));
    assert!(now.credential_refused.unwrap().contains("check if time"));
    assert_eq!(sim.totals().delivered, 3);
}

/// A line whose first node is a peer that has `code`, and does with requests for its credentials what `lie` says.
fn with_liar(code: &Bundle, lie: fn(u32, Digest, Vec<u8>) -> Vec<Vec<u8>>) -> Simulation {
    let mut network = Network::new(Shape::Line { nodes: 3 }, Line::default(), 0).unwrap();
    network.roles = Arc::new(Roles::new(vec![operator()]).unwrap());
    let mut sim = crate::net::simulation(network, seed(1)).unwrap();
    sim.open(2, 1);
    let known = code.clone();
    let answer = move |message: fetch::Message<'_>| match message {
        fetch::Message::Request { nonce, digest, missing, .. } => {
            let object = known.objects().find(|object| object_name(object) == digest).unwrap().to_vec();
            if digest == CredentialSet::name_for(&known.name()) {
                return lie(nonce, digest, object);
            }
            let wanted = (0..fetch::parts(object.len() as u32) as u16).filter(|part| missing >> part & 1 == 1);
            wanted.map(|part| peers::part(nonce, digest, part, &object)).collect()
        }
        _ => Vec::new(),
    };
    sim.replace(0, Box::new(Peer { heard: Heard::default(), answer }));
    let here = sim.address(0);
    let header = capsule::Header { previous: here, source: here, ..header(code.name(), sim.address(2), 64) };
    sim.put_frame(0, 0, &peers::capsule(&header));
    assert!(sim.drain(sim.now() + 120 * SECOND), "{}", sim.report());
    sim
}

fn all_parts(nonce: u32, digest: Digest, object: &[u8]) -> Vec<Vec<u8>> {
    (0..fetch::parts(object.len() as u32) as u16).map(|part| peers::part(nonce, digest, part, object)).collect()
}

#[test]
fn credentials_that_are_taken_away_forged_or_oversized_leave_code_with_the_rights_of_anyone() {
    type Lie = fn(u32, Digest, Vec<u8>) -> Vec<Vec<u8>>;
    let cases: [(&str, Lie, Option<&str>); 7] = [
        ("honest", |nonce, digest, object| all_parts(nonce, digest, &object), None),
        ("stripped", |nonce, digest, _| vec![peers::absent(nonce, digest)], None),
        ("silent", |_, _, _| Vec::new(), None),
        (
            "mutated",
            |nonce, digest, mut object| {
                *object.last_mut().unwrap() ^= 1;
                all_parts(nonce, digest, &object)
            },
            Some("not a valid biscuit"),
        ),
        (
            "another root",
            |nonce, digest, mut object| {
                object[38..70].copy_from_slice(&author().id().0);
                all_parts(nonce, digest, &object)
            },
            Some("is trusted for no role here"),
        ),
        (
            "oversized",
            |nonce, digest, mut object| {
                object.resize(20_000, 0);
                all_parts(nonce, digest, &object)
            },
            Some("at most 2048 are allowed"),
        ),
        ("another object", |nonce, digest, _| all_parts(nonce, digest, b"ANC1 and no more, or less"), None),
    ];
    let code = granted(plain(), Restrictions::default());
    for (name, lie, why) in cases {
        let sim = with_liar(&code, lie);
        assert_eq!(sim.totals().delivered, 1, "{name}: {}", sim.report());
        for node in [1, 2] {
            let expected = if name == "honest" { "operator" } else { "anyone" };
            assert_eq!(role(&sim, node, &code).as_deref(), Some(expected), "{name}, node {node}");
        }
        let refused = said(&sim, 1, code.name()).credential_refused;
        assert_eq!(refused.is_some(), why.is_some(), "{name}: {refused:?}");
        assert!(why.is_none_or(|why| refused.as_ref().is_some_and(|text| text.contains(why))), "{name}: {refused:?}");
        assert_eq!(sim.status(1).unwrap().credentials.refused, u64::from(why.is_some()), "{name}");
    }
}

#[test]
fn code_that_stays_over_its_budget_is_removed_for_a_time_if_the_role_says_so() {
    let overrun = |over_budget| {
        let limits =
            Limits { packets_per_second: 10, over_budget, over_budget_s: 3, removed_s: 5, ..Limits::default() };
        let mut sim = simulation(2, Role::anyone(limits));
        let code = plain();
        sim.add_code(0, &code);
        send(&mut sim, &code);
        for _ in 0..40 {
            for _ in 0..20 {
                let to = sim.address(1);
                sim.inject(0, header(code.name(), to, 64), b"").unwrap();
            }
            sim.run_for(SECOND / 8);
        }
        let dropped = [Reason::Budget, Reason::Removed].map(|reason| sim.totals().dropped.of(reason));
        (sim, code, dropped)
    };
    let (sim, code, [budget, removed]) = overrun(OverBudget::Throttle);
    assert!(budget > 700 && removed == 0, "{budget}, {removed}");
    assert_eq!(said(&sim, 0, code.name()).state, "ready");
    let (mut sim, code, [budget, removed]) = overrun(OverBudget::Remove);
    assert!(budget > 300 && removed > 200, "{budget}, {removed}");
    assert!(said(&sim, 0, code.name()).why.unwrap().contains("stayed over its budget"));
    sim.run_for(5 * SECOND);
    let before = sim.totals().delivered;
    send(&mut sim, &code);
    assert_eq!(sim.totals().delivered, before + 1, "found anew when the time is over");
}
