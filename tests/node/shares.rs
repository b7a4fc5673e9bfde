//! Whose codes give way in a full table, and who is asked for what came without its credentials or its bpf representation.

use crate::node_bench::{Bench, FAR, LEFT, RIGHT, header, module, packet, request};
use anode::code::bundle::{Bundle, Kind};
use anode::core::reason::Reason;
use anode::frame::{Frame, PeerId, PortId};
use anode::node::{Effect, KernelOrder, Sizes};
use anode::trust::{Credential, CredentialSet, PrincipalKey, Restrictions, Role, Roles, Terms, object_name};
use anode::wire::{Addr, Digest, anep, capsule, fetch};
use serde_json::Value as Json;
use std::sync::Arc;

const SECOND: u64 = 1_000_000_000;

/// A capsule of code that comes from a neighbour.
fn from(previous: Addr, code: Digest) -> Vec<u8> {
    let destination = if previous == RIGHT { LEFT } else { FAR };
    packet(&capsule::Header { previous, source: previous, destination, ..header(code) }, b"payload of a few bytes")
}

/// Gives the bench a capsule of a neighbour's, and the time that its timers need.
fn give(bench: &mut Bench, previous: Addr, code: Digest) {
    bench.receive(if previous == RIGHT { 1 } else { 0 }, &from(previous, code));
}

fn status(bench: &Bench) -> Json {
    serde_json::to_value(bench.status()).unwrap()
}

/// What is known of a code: its state, and its role or why it is refused.
fn known(bench: &Bench, code: Digest) -> Option<(String, String)> {
    let known = bench.status().codes.into_iter().find(|known| known.name == code.to_string())?;
    Some((known.state.into(), known.role.or(known.why).unwrap_or_default()))
}

/// What a neighbour says that has these objects, if a frame asks it: by which port, for what, and its answer.
pub fn reply(frame: &Frame, has: impl Fn(u16, Digest) -> Option<Arc<[u8]>>) -> Option<(u16, Digest, Vec<u8>)> {
    let anep = anep::Packet::new_checked(frame.bytes()).unwrap();
    if anep.type_id() != anep::type_id::FETCH {
        return None;
    }
    let Ok(fetch::Message::Request { nonce, digest, .. }) = fetch::Message::parse(anep.payload()) else { return None };
    let object = has(frame.port.0, digest);
    let message = match &object {
        Some(bytes) => fetch::Message::Part { nonce, digest, part: 0, total: bytes.len() as u32, bytes },
        None => fetch::Message::Absent { nonce, digest },
    };
    let mut bytes = vec![0; anep::HEADER + message.len()];
    message.emit(&mut bytes[anep::HEADER..]).unwrap();
    anep::emit_basic(&mut bytes, anep::type_id::FETCH, message.len()).unwrap();
    Some((frame.port.0, digest, bytes))
}

/// Answers requests of the node until there are no more; gives what was asked, by port. `beside` happens when code is about to be compiled.
fn answer_beside(
    bench: &mut Bench,
    has: impl Fn(u16, Digest) -> Option<Arc<[u8]>>,
    beside: impl FnOnce(&mut Bench),
) -> Vec<(u16, Digest)> {
    let (mut asked, mut beside) = (Vec::new(), Some(beside));
    loop {
        let mut prepares = Vec::new();
        bench.settle_with(|_, effect| match effect {
            Effect::Prepare(prepare) => {
                prepares.push(prepare);
                None
            }
            other => Some(other),
        });
        let (frames, any) = (bench.driver.out.frames.drain(..).collect::<Vec<_>>(), !prepares.is_empty());
        for prepare in prepares {
            beside.take().into_iter().for_each(|beside| beside(bench));
            let program = prepare.carry_out(&bench.supply.compiler);
            bench.driver.turn(bench.now, |node, turn| node.prepared(turn, prepare.code, program));
        }
        let replies: Vec<_> = frames.iter().filter_map(|frame| reply(frame, &has)).collect();
        if replies.is_empty() && !any {
            return asked;
        }
        for (port, digest, bytes) in replies {
            asked.push((port, digest));
            bench.take(port, PeerId(0), &bytes);
        }
    }
}

fn answer(bench: &mut Bench, has: impl Fn(u16, Digest) -> Option<Arc<[u8]>>) -> Vec<(u16, Digest)> {
    answer_beside(bench, has, |_| {})
}

#[test]
fn a_neighbour_with_more_codes_than_the_table_holds_takes_no_others() {
    let mut bench = Bench::sized(Sizes { codes: 8, state_entries: 256, ..Sizes::default() });
    let code = |bench: &mut Bench, number: u32| {
        bench.add(0, &module("", "", &format!("(drop (i32.const {number})) i32.const 1")))
    };
    let honest: Vec<Digest> = (0..3).map(|number| code(&mut bench, number)).collect();
    honest.iter().for_each(|name| give(&mut bench, RIGHT, *name));
    let mut prepared = Vec::new();
    let mut hostile = Vec::new();
    for number in 100..200 {
        // The honest ones rest for long, one packet each, and his are all busy.
        bench.now += SECOND / 4;
        hostile.push(code(&mut bench, number));
        let busy: Vec<Digest> = hostile.iter().rev().take(8).copied().collect();
        for name in busy.into_iter().rev().chain(honest.iter().copied().filter(|_| number % 20 == 0)) {
            let previous = if honest.contains(&name) { RIGHT } else { LEFT };
            bench.take(if previous == RIGHT { 1 } else { 0 }, PeerId(0), &from(previous, name));
            bench.settle_with(|_, effect| {
                if let Effect::Prepare(prepare) = &effect {
                    prepared.push(prepare.code);
                }
                Some(effect)
            });
            if !honest.contains(&name) {
                // What he sends comes back by the other.
                bench.receive(1, &from(RIGHT, name));
            }
        }
        bench.driver.out.frames.clear();
    }
    assert!(!prepared.iter().any(|name| honest.contains(name)), "what others have is not compiled again");
    assert!(honest.iter().all(|name| known(&bench, *name).is_some_and(|(state, _)| state == "ready")));
    let status = status(&bench);
    let left = |who: &Json| who["displaced"].as_u64().unwrap_or_default();
    let of = |addr: Addr| {
        let all = status["neighbours"].as_array().unwrap();
        left(&all.iter().find(|near| near["addr"] == addr.to_string()).unwrap()["entry"])
    };
    assert!(of(LEFT) >= 90 && of(RIGHT) == 0, "{} {}", of(LEFT), of(RIGHT));
    assert!(status["fetch"]["displaced"].as_u64().unwrap() >= 90);
}

fn root() -> PrincipalKey {
    PrincipalKey::from_seed([1; 32])
}

fn author() -> PrincipalKey {
    PrincipalKey::from_seed([2; 32])
}

/// Code that its author has signed and a root vouches for: with calls that `anyone` may or may not have.
fn signed(number: u32) -> (Bundle, Arc<[u8]>) {
    let import = "(import \"anode\" \"an_now\" (func $now (result i64)))";
    let body = format!("(drop (call $now)) (drop (i32.const {number})) i32.const 1");
    let wasm = wat::parse_str(module(import, "", &body)).unwrap();
    let bundle = Bundle::build("signed", 0, &[(Kind::Wasm, wasm.into())], Some(&author())).unwrap();
    let terms = Terms { principal: author().id(), role: "operator".into(), checks: Restrictions::default() };
    let credential = Credential::grant(&root(), &terms).unwrap().bind(&bundle.name()).unwrap();
    let set = CredentialSet { code: bundle.name(), credentials: vec![credential] }.encode().into();
    (bundle, set)
}

/// A node where `anyone` has these calls.
fn judging(anyone: &[&str]) -> Bench {
    let mut bench = Bench::new();
    let symbols = anyone.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let anyone = Role { symbols: symbols.try_into().unwrap(), ..Role::anyone(Default::default()) };
    let operator = Role { name: "operator".into(), trusts: vec![root().id()], ..Role::anyone(Default::default()) };
    let roles = Roles::new(vec![anyone, operator]).unwrap();
    bench.supply.judge = Some(("bench".into(), roles.clone()));
    // Roles that a node does not have are no code's.
    bench.driver.turn(bench.now, |node, turn| node.set_roles(turn, Arc::new(roles)));
    bench
}

/// What neighbours have: the one on the right the credentials too.
fn right_has(bundle: &Bundle, set: &Arc<[u8]>) -> impl Fn(u16, Digest) -> Option<Arc<[u8]>> {
    let (objects, name, set): (Vec<Arc<[u8]>>, _, _) =
        (bundle.objects().cloned().collect(), CredentialSet::name_for(&bundle.name()), set.clone());
    move |port, digest| match digest == name {
        true => (port == 1).then(|| set.clone()),
        false => objects.iter().find(|object| object_name(object) == digest).cloned(),
    }
}

#[test]
fn who_brings_code_without_its_credentials_first_takes_no_role_from_it() {
    let (bundle, set) = signed(1);
    for (anyone, state) in [(&["an_now"][..], "ready"), (&[], "refused")] {
        let (mut bench, has, code) = (judging(anyone), right_has(&bundle, &set), bundle.name());
        give(&mut bench, LEFT, code);
        answer(&mut bench, &has);
        assert_eq!(known(&bench, code).unwrap().0, state);
        // More of his change nothing, and nobody is asked.
        (0..3).for_each(|_| give(&mut bench, LEFT, code));
        assert_eq!(answer(&mut bench, &has), []);
        give(&mut bench, RIGHT, code);
        let asked = answer(&mut bench, &has);
        assert!(asked.contains(&(1, CredentialSet::name_for(&code))), "{state}: {asked:?}");
        assert!(asked.iter().all(|(port, _)| *port == 1), "{state}: {asked:?}");
        give(&mut bench, RIGHT, code);
        answer(&mut bench, &has);
        assert_eq!(known(&bench, code), Some(("ready".into(), "operator".into())));
        assert!(status(&bench)["credentials"]["sought"].as_u64().unwrap() >= 1);
        // Who has a role is not asked about again.
        give(&mut bench, LEFT, code);
        assert_eq!(answer(&mut bench, &has), []);
    }
}

#[test]
fn credentials_that_do_not_count_keep_out_none_that_do() {
    let (bundle, set) = signed(4);
    let code = bundle.name();
    // Good in form, of a root that nobody here knows; the first bringer has them, and so has the store.
    let terms = Terms { principal: author().id(), role: "operator".into(), checks: Restrictions::default() };
    let foreign = Credential::grant(&PrincipalKey::from_seed([9; 32]), &terms).unwrap().bind(&code).unwrap();
    let foreign: Arc<[u8]> = CredentialSet { code, credentials: vec![foreign] }.encode().into();
    for (anyone, state) in [(&["an_now"][..], "ready"), (&[], "refused")] {
        let (mut bench, honest) = (judging(anyone), right_has(&bundle, &set));
        let has = |port, digest| match (port, digest == CredentialSet::name_for(&code)) {
            (0, true) => Some(foreign.clone()),
            _ => honest(port, digest),
        };
        for _ in 0..3 {
            give(&mut bench, LEFT, code);
            answer(&mut bench, has);
            assert_eq!(known(&bench, code).unwrap().0, state);
        }
        give(&mut bench, RIGHT, code);
        answer(&mut bench, has);
        give(&mut bench, RIGHT, code);
        answer(&mut bench, has);
        assert_eq!(known(&bench, code), Some(("ready".into(), "operator".into())), "{state}");
        // Those that count are kept in the place of the others.
        bench.driver.turn(bench.now, |node, turn| node.look_again(turn, &code, &foreign));
        give(&mut bench, LEFT, code);
        answer(&mut bench, has);
        assert_eq!(known(&bench, code), Some(("ready".into(), "operator".into())), "{state}");
    }
}

#[test]
fn code_that_is_added_again_with_the_same_credentials_stays_and_is_judged_again() {
    let (bundle, set) = signed(5);
    let (mut bench, has, code) = (judging(&["an_now"]), right_has(&bundle, &set), bundle.name());
    give(&mut bench, RIGHT, code);
    answer(&mut bench, &has);
    let operator = Some(("ready".into(), "operator".into()));
    assert_eq!(known(&bench, code), operator);
    for _ in 0..3 {
        let asked = bench.driver.turn(bench.now, |node, turn| {
            node.look_again(turn, &code, &set);
            turn.out.effects.len()
        });
        assert_eq!((known(&bench, code), asked), (operator.clone(), 1));
        assert_eq!((answer(&mut bench, &has), known(&bench, code)), (vec![], operator.clone()));
    }
    bench.driver.turn(bench.now, |node, turn| node.look_again(turn, &code, &set[1..]));
    assert_eq!(known(&bench, code), None, "by others it is found anew");
}

#[test]
fn who_waits_beside_the_first_bringer_is_asked_before_its_capsule_is_refused() {
    let (bundle, set) = signed(2);
    let (mut bench, has, code) = (judging(&[]), right_has(&bundle, &set), bundle.name());
    give(&mut bench, LEFT, code);
    answer_beside(&mut bench, &has, |bench| bench.take(1, PeerId(0), &from(RIGHT, code)));
    assert_eq!(known(&bench, code), Some(("ready".into(), "operator".into())));
    assert_eq!(bench.drops().of(Reason::CodeRefused), 1, "that of the first bringer");
}

#[test]
fn who_has_no_credentials_yet_is_asked_again_after_a_pause() {
    let (bundle, set) = signed(5);
    let (code, name) = (bundle.name(), CredentialSet::name_for(&bundle.name()));
    for (anyone, state) in [(&["an_now"][..], "ready"), (&[], "refused")] {
        let (mut bench, has) = (judging(anyone), right_has(&bundle, &set));
        let not_yet = |port, digest| if digest == name { None } else { has(port, digest) };
        for from in [LEFT, RIGHT] {
            give(&mut bench, from, code);
            answer(&mut bench, not_yet);
        }
        assert_eq!(known(&bench, code).unwrap().0, state);
        (0..3).for_each(|_| give(&mut bench, RIGHT, code));
        assert_eq!(answer(&mut bench, &has), [], "{state}: not at once");
        bench.now += SECOND;
        give(&mut bench, RIGHT, code);
        assert!(answer(&mut bench, &has).contains(&(1, name)), "{state}");
        give(&mut bench, RIGHT, code);
        answer(&mut bench, &has);
        assert_eq!(known(&bench, code), Some(("ready".into(), "operator".into())), "{state}");
    }
}

#[test]
fn the_question_to_one_does_not_end_that_to_another() {
    let (bundle, set) = signed(6);
    let (mut bench, has, code) = (judging(&["an_now"]), right_has(&bundle, &set), bundle.name());
    give(&mut bench, LEFT, code);
    answer(&mut bench, |port, digest| if port == 1 { None } else { has(port, digest) });
    bench.now += SECOND;
    give(&mut bench, RIGHT, code);
    let asked: Vec<_> = bench.driver.out.frames.drain(..).collect();
    // The first bringer asks to be asked before the other has answered.
    give(&mut bench, LEFT, code);
    assert!(bench.driver.out.frames.drain(..).any(|frame| reply(&frame, &has).is_some_and(|(port, ..)| port == 0)));
    let replies: Vec<_> = asked.iter().filter_map(|frame| reply(frame, &has)).collect();
    assert_eq!(replies.iter().map(|(port, ..)| *port).collect::<Vec<_>>(), [1]);
    replies.iter().for_each(|(port, _, bytes)| bench.take(*port, PeerId(0), bytes));
    bench.settle();
    give(&mut bench, LEFT, code);
    // The store has what counts, whoever is being asked.
    answer(&mut bench, |_, _| None);
    assert_eq!(known(&bench, code), Some(("ready".into(), "operator".into())));
}

#[test]
fn who_cannot_judge_credentials_that_come_later_keeps_them_for_others() {
    let (bundle, _) = signed(7);
    let code = bundle.name();
    let terms = Terms { principal: author().id(), role: "operator".into(), checks: Restrictions::default() };
    let foreign = Credential::grant(&PrincipalKey::from_seed([9; 32]), &terms).unwrap().bind(&code).unwrap();
    let set: Arc<[u8]> = CredentialSet { code, credentials: vec![foreign] }.encode().into();
    let (mut bench, has) = (judging(&["an_now"]), right_has(&bundle, &set));
    for from in [LEFT, RIGHT] {
        give(&mut bench, from, code);
        answer(&mut bench, &has);
    }
    assert_eq!(known(&bench, code), Some(("ready".into(), "anyone".into())));
    bench.receive(0, &request(CredentialSet::name_for(&code), LEFT));
    let served = bench.driver.out.frames.drain(..).any(|frame| {
        let anep = anep::Packet::new_checked(frame.bytes()).unwrap();
        matches!(fetch::Message::parse(anep.payload()), Ok(fetch::Message::Part { bytes, .. }) if *bytes == *set)
    });
    assert!(served);
}

#[test]
fn neighbours_are_asked_for_credentials_within_a_rate_and_less_and_less_often() {
    let mut bench = judging(&["an_now"]);
    let codes: Vec<_> = (0..100).map(|number| signed(100 + number).0).collect();
    for bundle in &codes {
        bench.supply.add(bundle);
        give(&mut bench, LEFT, bundle.name());
        answer(&mut bench, |_, _| None);
    }
    for bundle in &codes {
        (0..3).for_each(|_| give(&mut bench, RIGHT, bundle.name()));
    }
    let asked = answer(&mut bench, |_, _| None).len();
    assert!((1..100).contains(&asked), "{asked}");
    let counts = status(&bench)["credentials"].clone();
    assert_eq!(counts["sought"], asked, "{counts}");
    assert!(counts["unsought"].as_u64().unwrap() > 0, "{counts}");
    // Later those that were not, and each again after 1, 2, 4 … 60 s.
    let seconds = |bench: &mut Bench, seconds| {
        for _ in 0..seconds {
            bench.now += SECOND;
            codes.iter().for_each(|bundle| give(bench, RIGHT, bundle.name()));
            answer(bench, |_, _| None);
        }
        status(bench)["credentials"]["sought"].as_u64().unwrap()
    };
    let early = seconds(&mut bench, 200);
    assert!((400..=1000).contains(&early), "{early}");
    let late = seconds(&mut bench, 200) - early;
    assert!((200..=400).contains(&late), "{late}: each once a minute");
}

#[test]
fn code_with_a_wrong_signature_is_refused_whoever_brings_it() {
    let (bundle, set) = signed(3);
    let objects: Vec<Arc<[u8]>> = bundle.objects().cloned().collect();
    let mut manifest = String::from_utf8(objects[0].to_vec()).unwrap();
    manifest = manifest.replace("signed", "forged");
    let (code, manifest): (Digest, Arc<[u8]>) = (Digest::of(manifest.as_bytes()), manifest.into_bytes().into());
    let mut bench = judging(&["an_now"]);
    let honest = right_has(&bundle, &set);
    let has = |port, digest| if digest == code { Some(manifest.clone()) } else { honest(port, digest) };
    give(&mut bench, LEFT, code);
    answer(&mut bench, has);
    assert_eq!(known(&bench, code).unwrap().0, "refused");
    give(&mut bench, RIGHT, code);
    assert_eq!(answer(&mut bench, has), []);
}

#[test]
fn code_from_a_store_without_its_bpf_representation_gets_it_from_who_sends_its_capsules() {
    let mut bench = Bench::with_kernel();
    let wasm: Arc<[u8]> = wat::parse_str(module("", "", "i32.const 1")).unwrap().into();
    let bpf: Arc<[u8]> = b"what the linker would take".to_vec().into();
    let bundle = Bundle::build("both", 0, &[(Kind::Wasm, wasm), (Kind::Bpf, bpf.clone())], None).unwrap();
    bench.supply.add(&bundle);
    bench.supply.store.remove(&object_name(&bpf));
    bench.driver.turn(bench.now, |node, turn| node.take_over(turn, Vec::new(), vec![bundle.name()]));
    bench.settle();
    assert_eq!(known(&bench, bundle.name()).unwrap().0, "ready");
    give(&mut bench, LEFT, bundle.name());
    let frames: Vec<_> = bench.driver.out.frames.drain(..).collect();
    let replies: Vec<_> = frames.iter().filter_map(|frame| reply(frame, |_, _| Some(bpf.clone()))).collect();
    assert_eq!(replies.iter().map(|(port, digest, _)| (*port, *digest)).collect::<Vec<_>>(), [(0, object_name(&bpf))]);
    let mut linked = 0;
    for (port, _, bytes) in replies {
        bench.take(port, PeerId(0), &bytes);
        bench.settle_with(|_, effect| {
            linked += usize::from(matches!(&effect, Effect::Kernel(KernelOrder::Link { .. })));
            Some(effect)
        });
    }
    assert_eq!(linked, 1);
    bench.driver.out.frames.clear();
    (0..5).for_each(|_| give(&mut bench, LEFT, bundle.name()));
    assert!(bench.driver.out.frames.iter().all(|frame| frame.port == PortId(1)), "once");
}
