//! Revocations through a network: what a key takes back ends everywhere, under loss, duplication and partition, and
//! nothing else does.

use crate::guests::*;
use crate::peers::{self, Heard, Peer};
use anode::code::bundle::{Bundle, Kind};
use anode::core::reason::Reason;
use anode::node::status::CodeStatus;
use anode::sim::{Change, Line, Network, SECOND, Shape, Simulation};
use anode::trust::{
    Credential, CredentialSet, PrincipalKey, Rank, Restrictions, Revocation, Role, Roles, Subject, Terms,
};
use anode::wire::{Digest, anep, fetch};
use std::sync::Arc;

fn key(number: u32) -> PrincipalKey {
    let mut seed = [0; 32];
    seed[..4].copy_from_slice(&number.to_be_bytes());
    PrincipalKey::from_seed(seed)
}

fn root() -> PrincipalKey {
    key(1)
}

fn author() -> PrincipalKey {
    key(2)
}

/// Nodes in a line that trust the root, but for the second, which trusts nobody and only carries.
fn simulation(nodes: usize, line: Line) -> Simulation {
    let mut network = Network::new(Shape::Line { nodes }, line, 0).unwrap();
    let operator = Role { name: "operator".into(), trusts: vec![root().id()], ..Role::anyone(Default::default()) };
    network.roles = Arc::new(Roles::new(vec![operator]).unwrap());
    network.own_roles.insert(1, Arc::default());
    let mut sim = crate::net::simulation(network, seed(1)).unwrap();
    (0..nodes).for_each(|node| sim.open(node, 1));
    sim
}

/// Code of the author's, in the role that the root grants.
fn granted() -> (Bundle, Credential) {
    granted_of(module("", "i32.const 1"))
}

fn granted_of(wasm: Vec<u8>) -> (Bundle, Credential) {
    let mut bundle = Bundle::build("forward", 0, &[(Kind::Wasm, wasm.into())], Some(&author())).unwrap();
    let terms = Terms { principal: author().id(), role: "operator".into(), checks: Restrictions::default() };
    let credential = Credential::grant(&root(), &terms).unwrap();
    let bound = credential.bind(&bundle.name()).unwrap();
    let set = CredentialSet { code: bundle.name(), credentials: vec![bound] };
    bundle.add_credentials(set.encode().into()).unwrap();
    (bundle, credential)
}

/// Sends until one has arrived; then every node knows the code.
fn spread(sim: &mut Simulation, code: &Bundle) {
    let (to, before) = (sim.address(sim.nodes() - 1), sim.totals().delivered);
    for _ in 0..50 {
        sim.inject(0, header(code.name(), to, 20), b"").unwrap();
        sim.run_for(5 * SECOND);
    }
    assert!(sim.totals().delivered > before, "{}", sim.report());
}

fn said(sim: &Simulation, node: usize, code: &Bundle) -> Option<CodeStatus> {
    let codes = sim.status(node).unwrap().codes;
    codes.into_iter().find(|known| known.name == code.name().to_string())
}

fn knows(sim: &Simulation, node: usize, revocation: &Revocation) -> Option<Rank> {
    sim.revocations(node).iter().find(|(known, _)| known == revocation).map(|(_, rank)| *rank)
}

/// Runs until all these nodes know, and says how long that took.
fn until_known(sim: &mut Simulation, nodes: &[usize], revocation: &Revocation) -> u64 {
    let begin = sim.now();
    while !nodes.iter().all(|node| knows(sim, *node, revocation).is_some()) {
        assert!(sim.now() < begin + 600 * SECOND, "seed {}: {}", sim.seed(), sim.report());
        sim.run_for(SECOND / 10);
    }
    sim.now() - begin
}

#[test]
fn each_subject_ends_by_each_key_what_that_key_has_issued_and_at_every_node() {
    let (code, credential) = granted();
    let (token, name) = (Subject::Token(credential.revocation_id().unwrap()), Subject::Code(code.name()));
    let (author_id, root_id) = (Subject::Principal(author().id()), Subject::Principal(root().id()));
    // By whom, what, and what is left: the rights of anyone, nothing, or all of them.
    for (signer, subject, left) in [
        (root(), token, Some("anyone")),
        (author(), token, Some("anyone")),
        (root(), author_id, Some("anyone")),
        (author(), author_id, None),
        (root(), root_id, Some("anyone")),
        (root(), name, Some("anyone")),
        (author(), name, None),
        (key(9), token, Some("operator")),
        (key(9), author_id, Some("operator")),
        (key(9), name, Some("operator")),
        (author(), root_id, Some("operator")),
    ] {
        let mut sim = simulation(4, Line::default());
        sim.add_code(0, &code);
        spread(&mut sim, &code);
        let roles = |sim: &Simulation| [2, 3].map(|node| said(sim, node, &code).unwrap().role);
        assert_eq!(roles(&sim), [Some("operator".into()), Some("operator".into())]);
        // Told to a neighbour by who is none of the operators: only the key counts.
        let revocation = Revocation::sign(&signer, subject, 5);
        let frame = peers::anep(anep::type_id::REVOCATION, &revocation.wire().unwrap().bytes());
        sim.put_frame(0, 0, &frame);
        sim.run_for(SECOND);
        for node in [1, 2, 3] {
            assert!(knows(&sim, node, &revocation).is_some(), "{subject:?}: node {node}");
        }
        let now = |sim: &Simulation, node| said(sim, node, &code).filter(|code| code.state == "ready");
        let still = now(&sim, 3).is_some();
        assert_eq!(still, left == Some("operator"), "{subject:?} by {:?}", signer.id());
        let before = sim.totals().delivered;
        sim.inject(3, header(code.name(), sim.address(2), 20), b"").unwrap();
        sim.run_for(5 * SECOND);
        let role = now(&sim, 3).and_then(|code| code.role);
        assert_eq!(role.as_deref(), left, "{subject:?} by {:?}", signer.id());
        assert_eq!(sim.totals().delivered - before, u64::from(left.is_some()), "{subject:?}");
        if left != Some("operator") {
            let code = said(&sim, 3, &code).unwrap();
            let why = code.why.or(code.credential_refused).unwrap_or_default();
            assert!(why.contains("was revoked by ed25519:"), "{why}");
        }
    }
}

/// Code of the author's that goes on at a node where it has never been, and nowhere twice: it counts in soft state.
fn counts() -> (Bundle, Credential) {
    let imports = r#"(import "anode" "an_state_add" (func $add (param i64 i64 i32) (result i64)))"#;
    let body = "(i64.eq (call $add (i64.const 7) (i64.const 1) (i32.const 300000)) (i64.const 1))";
    granted_of(module(imports, body))
}

#[test]
fn with_code_that_is_revoked_goes_its_state_and_it_begins_anew() {
    let (code, credential) = counts();
    // Between nodes that trust the root: at the second the code is anyone's, and goes on being that.
    let mut sim = simulation(4, Line::default());
    sim.add_code(0, &code);
    spread(&mut sim, &code);
    let entries =
        |sim: &Simulation| said(sim, 3, &code).and_then(|code| code.usage).map(|usage| usage.counts.state_entries);
    let arrives = |sim: &mut Simulation| {
        let before = sim.totals().delivered;
        sim.inject(2, header(code.name(), sim.address(3), 20), b"").unwrap();
        sim.run_for(5 * SECOND);
        sim.totals().delivered > before
    };
    assert_eq!((entries(&sim), arrives(&mut sim)), (Some(1), false), "it remembers");
    let token = Subject::Token(credential.revocation_id().unwrap());
    let revocation = Revocation::sign(&root(), token, 5);
    sim.put_frame(0, 0, &peers::anep(anep::type_id::REVOCATION, &revocation.wire().unwrap().bytes()));
    sim.run_for(SECOND);
    let states: u32 = sim.node(3).unwrap().domain_tree().iter().map(|domain| domain.usage.counts.state_entries).sum();
    assert_eq!((entries(&sim), states), (None, 0), "neither the code nor an entry of anybody's");
    assert!(
        arrives(&mut sim) && !arrives(&mut sim),
        "as anyone's it finds nothing of what it had kept, and begins anew"
    );
    assert_eq!(entries(&sim), Some(1));
}

#[test]
fn it_arrives_under_loss_and_duplication_and_over_a_partition_and_survives_restarts() {
    let line = Line { loss: 0.3, duplicate: 0.3, reorder: 0.2, ..Line::default() };
    let mut sim = simulation(5, line);
    let first = Revocation::sign(&root(), Subject::Code(Digest([1; 32])), 5);
    sim.revoke(0, &first).unwrap();
    until_known(&mut sim, &[1, 2, 3, 4], &first);
    sim.change(Change::Cut { link: 2 });
    let second = Revocation::sign(&root(), Subject::Code(Digest([2; 32])), 6);
    sim.revoke(0, &second).unwrap();
    until_known(&mut sim, &[1, 2], &second);
    sim.run_for(30 * SECOND);
    assert_eq!([3, 4].map(|node| knows(&sim, node, &second)), [None, None]);
    for node in [2, 3] {
        sim.change(Change::Crash { node });
        sim.change(Change::Restart { node, store_kept: true });
    }
    assert_eq!(knows(&sim, 2, &second), Some(Rank::Root), "remembered");
    sim.change(Change::Mend { link: 2 });
    until_known(&mut sim, &[3, 4], &second);
    assert_eq!(knows(&sim, 1, &second), Some(Rank::Stranger), "who trusts nobody carries it all the same");
}

#[test]
fn news_are_passed_on_once() {
    let mut sim = simulation(4, Line::default());
    let revocation = Revocation::sign(&root(), Subject::Code(Digest([1; 32])), 5);
    let ended = sim.revoke(1, &revocation).unwrap();
    assert_eq!((ended.told, ended.codes), (2, 0));
    sim.run_for(SECOND);
    let told = |sim: &Simulation, node: usize| sim.status(node).unwrap().revocations;
    assert_eq!([0, 1, 2, 3].map(|node| told(&sim, node).told), [0, 2, 1, 0]);
    // The same again, from anywhere: nobody passes it on.
    let frame = peers::anep(anep::type_id::REVOCATION, &revocation.wire().unwrap().bytes());
    (0..5).for_each(|_| sim.put_frame(1, 1, &frame));
    sim.run_for(SECOND);
    assert_eq!([0, 1, 2, 3].map(|node| told(&sim, node).told), [0, 2, 1, 0]);
    assert_eq!((told(&sim, 2).news, told(&sim, 2).repeated), (1, 5));
}

#[test]
fn forgers_and_floods_end_nothing_and_displace_nothing() {
    let mut sim = simulation(4, Line::default());
    let (code, _) = granted();
    sim.add_code(1, &code);
    let word = Revocation::sign(&root(), Subject::Code(Digest([1; 32])), 5);
    sim.revoke(3, &word).unwrap();
    sim.run_for(SECOND);
    let quiet = |_: fetch::Message<'_>| Vec::new();
    sim.replace(0, Box::new(Peer { heard: Heard::default(), answer: quiet }));
    sim.inject(1, header(code.name(), sim.address(3), 20), b"").unwrap();
    sim.run_for(5 * SECOND);
    // Somebody else's name under it; a signature of something else; bits bent; too long, too short.
    let right = Revocation::sign(&author(), Subject::Code(code.name()), 5).wire().unwrap();
    let mut forged: Vec<Vec<u8>> = vec![
        Revocation::sign(&key(9), Subject::Code(code.name()), 5)
            .wire()
            .map(|r| anode::wire::revocation::Repr { signer: author().id().0, ..r }.bytes().to_vec())
            .unwrap(),
        anode::wire::revocation::Repr { unix_s: 6, ..right }.bytes().to_vec(),
    ];
    forged.push([&right.bytes()[..], &[0]].concat());
    forged.push(right.bytes()[..139].to_vec());
    for bytes in &forged {
        sim.put_frame(0, 0, &peers::anep(anep::type_id::REVOCATION, bytes));
    }
    sim.run_for(SECOND);
    let drops = |sim: &Simulation, reason| sim.status(1).unwrap().drops.of(reason);
    assert_eq!((drops(&sim, Reason::RevocationForged), drops(&sim, Reason::MalformedRevocation)), (2, 2));
    // A flood of keys that cost nothing, each with words of its own.
    for number in 0..4000 {
        let word = Revocation::sign(&key(1000 + number), Subject::Code(Digest::of(&number.to_be_bytes())), 5);
        sim.put_frame(0, 0, &peers::anep(anep::type_id::REVOCATION, &word.wire().unwrap().bytes()));
        sim.run_for(SECOND / 16);
    }
    assert!(drops(&sim, Reason::RevocationRate) > 1000);
    for node in [1, 2, 3] {
        assert!(sim.revocations(node).len() <= 1024 + 512, "bounded");
        let ready = said(&sim, node, &code).unwrap();
        assert_eq!(ready.state, "ready", "nothing has ended");
    }
    assert_eq!([2, 3].map(|node| knows(&sim, node, &word)), [Some(Rank::Root), Some(Rank::Operator)]);
    // And the next word of a root's still comes through, beside the flood.
    let next = Revocation::sign(&author(), Subject::Code(code.name()), 7);
    sim.revoke(3, &next).unwrap();
    until_known(&mut sim, &[1, 2], &next);
    sim.run_for(SECOND);
    assert_eq!(said(&sim, 1, &code).unwrap().state, "refused");
}

#[test]
fn words_of_more_keys_than_a_table_holds_are_told_once_and_then_it_is_quiet() {
    const KEYS: u64 = 4000;
    // Links lose some, so each node remembers others.
    let mut sim = simulation(4, Line { loss: 0.3, ..Line::default() });
    sim.replace(0, Box::new(Peer { heard: Heard::default(), answer: |_: fetch::Message<'_>| Vec::new() }));
    for number in 0..KEYS as u32 {
        let word = Revocation::sign(&key(1000 + number), Subject::Code(Digest::of(&number.to_be_bytes())), 5);
        sim.put_frame(0, 0, &peers::anep(anep::type_id::REVOCATION, &word.wire().unwrap().bytes()));
        sim.run_for(SECOND / 8);
    }
    // Each table has been told to each neighbour some times more.
    sim.run_for(300 * SECOND);
    let counts = |sim: &Simulation| [1, 2, 3].map(|node| sim.node(node).unwrap().revocations());
    let before = counts(&sim);
    sim.run_for(120 * SECOND);
    for (node, (before, after)) in before.iter().zip(counts(&sim)).enumerate() {
        assert!(before.news <= KEYS && before.news > KEYS / 4, "{before:?}");
        // What links have lost may still come, each word once.
        let late = after.news - before.news;
        assert!(late <= 20 && after.news <= KEYS, "node {}: nothing goes round: {before:?}, {after:?}", node + 1);
        // What it knows to each neighbour once in ten seconds, and such news.
        let sweeps = 12 * after.known as u64 * if node == 2 { 1 } else { 2 };
        assert!(after.told - before.told <= sweeps + 2 * late + 1, "{before:?}, {after:?}");
    }
}

#[test]
fn an_operators_word_counts_at_his_node_alone() {
    let mut sim = simulation(4, Line::default());
    let code = forward();
    sim.add_code(0, &code);
    spread(&mut sim, &code);
    let word = Revocation::by_operator(Subject::Code(code.name()), 5);
    let ended = sim.revoke(3, &word).unwrap();
    assert_eq!((ended.codes, ended.told), (1, 0));
    let before = sim.totals().delivered;
    sim.inject(0, header(code.name(), sim.address(3), 20), b"").unwrap();
    sim.run_for(SECOND);
    assert_eq!(sim.totals().delivered, before);
    assert_eq!(said(&sim, 3, &code).unwrap().why.unwrap(), format!("{word}"));
    assert_eq!(said(&sim, 2, &code).unwrap().state, "ready");
}

#[test]
fn who_proves_what_it_sends_is_heard_beside_a_flood_in_its_name() {
    let mut network = Network::new(Shape::Line { nodes: 3 }, Line::default(), 0).unwrap();
    let operator = Role { name: "operator".into(), trusts: vec![root().id()], ..Role::anyone(Default::default()) };
    (network.roles, network.secret) = (Arc::new(Roles::new(vec![operator]).unwrap()), Some([7; 32]));
    let mut sim = crate::net::simulation(network, seed(1)).unwrap();
    // Words of keys that cost nothing, in the neighbour's name, without a proof: more than all strangers of the port may tell.
    for number in 0..200 {
        let word = Revocation::sign(&key(1000 + number), Subject::Code(Digest::of(&number.to_be_bytes())), 5);
        sim.put_frame(0, 0, &peers::anep(anep::type_id::REVOCATION, &word.wire().unwrap().bytes()));
    }
    sim.run_for(SECOND / 100);
    assert!(sim.status(1).unwrap().drops.of(Reason::RevocationRate) > 100);
    let word = Revocation::sign(&root(), Subject::Code(Digest([1; 32])), 5);
    sim.revoke(0, &word).unwrap();
    sim.run_for(SECOND / 20);
    assert_eq!(knows(&sim, 1, &word), Some(Rank::Root));
}
