//! Roles that change while a node runs: what acts in one has its new limits from the next packet on, keeps its soft state
//! where it can, and goes where its role does not let it run any more.

use crate::node_bench::{Bench, header, module, packet};
use anode::code::bundle::{Bundle, Kind};
use anode::core::reason::Reason;
use anode::node::Effect;
use anode::node::policy::Amendment;
use anode::trust::limits::Limits;
use anode::trust::{Kinds, PrincipalKey, Role, Roles};
use anode::wire::Digest;
use std::sync::Arc;

/// Forwards the first packet of a key only, and counts for a second: what it forwards shows whether its state is there.
const COUNTS: &str = "(i64.eq (call $add (i64.const 1) (i64.const 1) (i32.const 1000)) (i64.const 1))";
const ADD: &str = "(import \"anode\" \"an_state_add\" (func $add (param i64 i64 i32) (result i64)))";

/// What anyone may, changed by this.
fn anyone(change: impl FnOnce(&mut Role)) -> Role {
    let mut role = Role::anyone(Limits::default());
    change(&mut role);
    role
}

/// These roles are in force from now on, for all who judge too.
fn renew(bench: &mut Bench, roles: Vec<Role>) {
    let roles = Arc::new(Roles::new(roles).unwrap());
    if bench.supply.judge.is_some() {
        bench.supply.judge = Some(("bench".into(), (*roles).clone()));
    }
    let amendment = Amendment { roles: Some(roles), ..Amendment::default() };
    bench.driver.turn(bench.now, |node, turn| node.amend(turn, amendment));
    bench.settle();
}

fn send(bench: &mut Bench, code: Digest) {
    bench.receive(0, &packet(&header(code), b"x"));
}

#[test]
fn a_changed_limit_holds_from_the_next_packet_on_and_soft_state_stays() {
    let mut bench = Bench::new();
    let code = bench.add(0, &module(ADD, "", COUNTS));
    send(&mut bench, code);
    assert_eq!(bench.outcome(), (1, 0, vec![]));
    let before = bench.driver.node.status().codes[0].domain;
    renew(&mut bench, vec![anyone(|role| role.limits.packets_per_second = 10)]);
    let status = bench.driver.node.status();
    assert_eq!(status.codes[0].limits.unwrap().packets_per_second, 10);
    assert_eq!((status.codes[0].domain, status.codes[0].usage.clone().unwrap().state_entries), (before, 1));
    // A tenth of a second's packets are there at once, and this code knows its key.
    (0..3).for_each(|_| send(&mut bench, code));
    assert_eq!(bench.outcome(), (1, 0, vec![(Reason::Code, 1), (Reason::Budget, 2)]));
    renew(&mut bench, vec![anyone(|role| role.limits.steps_per_packet = 1)]);
    bench.now += 2_000_000;
    send(&mut bench, code);
    assert_eq!(bench.driver.node.drops().of(Reason::Fuel), 1);
}

#[test]
fn what_a_load_was_judged_by_is_judged_anew_when_it_becomes_less() {
    for (change, runs) in [
        ((|role| role.limits.memory_bytes += 0) as fn(&mut Role), true),
        (|role| role.limits.memory_bytes = 1, false),
        (|role| role.symbols = vec!["an_now".to_owned()].try_into().unwrap(), false),
        (|role| role.representations = Kinds::NONE, false),
        (|role| role.grants.weight = 7, true),
    ] {
        let mut bench = Bench::new();
        let code = bench.add(0, &module(ADD, "", COUNTS));
        send(&mut bench, code);
        let others = bench.driver.node.drops().total();
        renew(&mut bench, vec![anyone(change)]);
        assert_eq!(bench.driver.node.status().codes.len(), usize::from(runs), "it is out of service, not refused");
        send(&mut bench, code);
        let status = bench.driver.node.status();
        assert_eq!(status.codes[0].state == "ready", runs, "{:?}", status.codes[0].why);
        assert_eq!(bench.driver.node.drops().total() - others, 1, "known to its state, or refused");
        // What was refused is asked again when roles change.
        renew(&mut bench, Vec::new());
        send(&mut bench, code);
        assert_eq!(bench.driver.node.status().codes[0].state, "ready");
    }
}

/// A role that a key may act in.
fn trusting(name: &str, key: &PrincipalKey, packets_per_second: u64) -> Role {
    let limits = Limits { packets_per_second, ..Limits::default() };
    Role { name: name.into(), trusts: vec![key.id()], ..Role::anyone(limits) }
}

#[test]
fn signed_code_is_judged_anew_when_somebody_else_is_trusted_and_goes_with_its_role() {
    let key = PrincipalKey::from_seed([3; 32]);
    let mut bench = Bench::new();
    bench.supply.judge = Some(("bench".into(), Roles::default()));
    renew(&mut bench, vec![trusting("one", &key, 1000)]);
    let wasm = wat::parse_str(module(ADD, "", COUNTS)).unwrap();
    let bundle = Bundle::build("case", 0, &[(Kind::Wasm, wasm.into())], Some(&key)).unwrap();
    bench.supply.add(&bundle);
    let role = |bench: &mut Bench| {
        bench.receive(0, &packet(&capsule_of(bundle.name()), b"x"));
        until_ready(bench);
        bench.driver.node.status().codes[0].role.clone().unwrap()
    };
    assert_eq!(role(&mut bench), "one");
    let before = bench.driver.node.status().codes[0].domain;
    renew(&mut bench, vec![trusting("one", &key, 500)]);
    assert_eq!((role(&mut bench).as_str(), bench.driver.node.status().codes[0].domain), ("one", before));
    // Another role has the key too, and comes first.
    renew(&mut bench, vec![trusting("two", &key, 500), trusting("one", &key, 500)]);
    assert_eq!(role(&mut bench), "two");
    renew(&mut bench, vec![trusting("three", &key, 500)]);
    assert_eq!(role(&mut bench), "three");
    renew(&mut bench, Vec::new());
    assert_eq!(role(&mut bench), "anyone");
}

/// Until nobody has had the credentials of a code that is on its way.
fn until_ready(bench: &mut Bench) {
    for _ in 0..100 {
        if bench.driver.node.status().codes.iter().any(|code| code.role.is_some()) {
            return;
        }
        bench.next_timer();
        bench.settle();
    }
}

fn capsule_of(code: Digest) -> anode::wire::capsule::Header {
    anode::wire::capsule::Header { bound: 40, ..header(code) }
}

#[test]
fn code_that_was_judged_by_roles_of_before_is_judged_by_those_that_are_in_force() {
    let key = PrincipalKey::from_seed([3; 32]);
    let mut bench = Bench::new();
    let one = Roles::new(vec![trusting("one", &key, 1000)]).unwrap();
    bench.supply.judge = Some(("bench".into(), one));
    renew(&mut bench, vec![trusting("one", &key, 1000)]);
    let wasm = wat::parse_str(module(ADD, "", COUNTS)).unwrap();
    let bundle = Bundle::build("case", 0, &[(Kind::Wasm, wasm.into())], Some(&key)).unwrap();
    bench.supply.add(&bundle);
    bench.take(0, anode::frame::PeerId(0), &packet(&capsule_of(bundle.name()), b"x"));
    let mut late = Vec::new();
    let now = Arc::new(Roles::new(vec![trusting("one", &key, 5)]).unwrap());
    // It is judged, and roles change before the answer is there.
    let mut amendment = Some(Amendment { roles: Some(now.clone()), ..Amendment::default() });
    let before = bench.supply.judge.clone().unwrap().1;
    bench.supply.judge = Some(("bench".into(), (*now).clone()));
    while late.is_empty() {
        bench.next_timer();
        bench.settle_with(|driven, effect| match effect {
            Effect::Authorise(claim, _) if amendment.is_some() => {
                let answer = before.authorise("bench", 0, &claim).map_err(|error| error.to_string());
                driven.node.amend(&mut driven.turn, amendment.take().unwrap());
                driven.node.authorised(&mut driven.turn, claim.code, answer);
                late.push(claim.code);
                None
            }
            other => Some(other),
        });
    }
    until_ready(&mut bench);
    assert_eq!(late, [bundle.name()]);
    let status = bench.driver.node.status();
    assert_eq!((status.codes[0].role.as_deref(), status.codes[0].limits.unwrap().packets_per_second), (Some("one"), 5));
}
