//! Signed PLAN packets in simulated networks: the signer's role decides which services they see and install, and which
//! packets count for nothing. Also services loaded as routing functions.

use crate::net::{Net, host, network, value};
use anode::apps::plan::Script;
use anode::core::reason::Reason;
use anode::ee::plan::signed;
use anode::frame::{PeerId, PortId};
use anode::sim::{Change, Line, SECOND};
use anode::topology::Ceiling;
use anode::trust::{Credential, PrincipalKey, Restrictions, Revocation, Role, Roles, Subject, Terms};
use anode::wire::Digest;
use plan::name::Name;
use plan::packet::{Header, Packet, slices};
use plan::value::{Chunk, Host, Value};
use std::sync::Arc;

/// What clocks on walls show in these networks at the beginning.
const UNIX: u64 = 1_800_000_000;

fn key(seed: u8) -> PrincipalKey {
    PrincipalKey::from_seed([seed; 32])
}

/// Two roles: operators see memory use and may install, guests see nothing that others do not. Key 1 is the root of both.
fn roles() -> Roles {
    let role = |name: &str, services: &[&str]| Role {
        name: name.into(),
        trusts: vec![key(1).id()],
        services: services.iter().map(|name| (*name).into()).collect(),
        ..Role::anyone(Default::default())
    };
    Roles::new(vec![role("guest", &[]), role("operator", &["memoryUse", "installServices"])]).unwrap()
}

fn grant(root: u8, to: u8, role: &str, checks: Restrictions) -> Credential {
    let terms = Terms { principal: key(to).id(), role: role.into(), checks };
    Credential::grant(&key(root), &terms).unwrap()
}

/// Node 0 injects, node 1 knows the roles.
fn pair() -> Net {
    let mut network = network(&[(0, 1)], Line::default());
    network.roles = Arc::new(roles());
    network.plan.restricted = vec![Name::new("memoryUse").unwrap()];
    network.unix_s = UNIX;
    Net::new(network, 1)
}

/// Has node 1 evaluate a chunk; what is printed.
fn send(net: &mut Net, chunk: Arc<Chunk>, bound: u32) -> String {
    let header = Header { destination: host(1), ..Header::injected(Host::default(), bound) };
    net.inject_packet(0, Packet { header, chunk });
    net.sim.run_for(SECOND);
    net.sim.take_printed().concat()
}

/// The network's time, in nanoseconds since 1970.
fn now(net: &Net) -> u64 {
    UNIX * SECOND + net.sim.now()
}

const LOOK: &str = "
fun tell(who : string, lines : int) : unit = print((who, lines))
fun look(home : host) : unit =
  OnRemote(|tell|(getPrincipal(), try length(memoryUse()) handle ServiceNotPresent => 0), home, 1, defaultRoute)";

fn look() -> Arc<Chunk> {
    Script::new("look", LOOK).unwrap().chunk("look", [value(0)]).unwrap()
}

fn refused(printed: &str) -> bool {
    printed.contains("raised Refused on 10.0.0.2")
}

#[test]
fn which_services_a_signed_packet_sees_depends_on_its_principals_role() {
    let mut net = pair();
    let none = Restrictions::default;
    for (signer, credential, expected) in [
        // A root acts in the first of its roles; others in what it has granted them.
        (1, None, Some(0)),
        (2, Some(grant(1, 2, "guest", none())), Some(0)),
        (3, Some(grant(1, 3, "operator", none())), Some(14)),
        (4, None, None),
        (4, Some(grant(1, 3, "operator", none())), None),
        (4, Some(grant(4, 4, "operator", none())), None),
        (4, Some(grant(1, 4, "nobody", none())), None),
        (4, Some(grant(1, 4, "operator", Restrictions { until: Some(UNIX - 1), ..none() })), None),
        (4, Some(grant(1, 4, "operator", Restrictions { nodes: vec!["n0".into()], ..none() })), None),
    ] {
        let chunk = signed(&key(signer), credential.as_ref(), now(&net), host(1), &look()).unwrap();
        let printed = send(&mut net, Arc::new(chunk), 4);
        match expected {
            Some(lines) => assert_eq!(printed, format!("(\"{}\", {lines})", key(signer).id()), "{signer}"),
            None => assert!(refused(&printed), "{signer}: {printed}"),
        }
    }
    assert_eq!(send(&mut net, look(), 4), "(\"anyone\", 0)");
    // Each has a domain of its own, in its role.
    let domains = net.sim.node(1).unwrap().domain_tree();
    for (signer, role) in [(1, "guest"), (2, "guest"), (3, "operator")] {
        let title = format!("plan {}", key(signer).id());
        let domain = domains.iter().find(|domain| domain.title == title).unwrap();
        assert_eq!(domain.role, role);
    }
    let counts = net.sim.node(1).unwrap().security();
    assert_eq!((counts.packets_granted, counts.packets_refused), (3, 6));
    net.audit();
}

#[test]
fn a_signed_packet_counts_once_here_and_for_a_while() {
    let mut net = pair();
    let credential = grant(1, 3, "operator", Restrictions::default());
    let by = |unix_ns: u64, to: usize, signer: u8, chunk: &Arc<Chunk>| {
        Arc::new(signed(&key(signer), Some(&credential), unix_ns, host(to), chunk).unwrap())
    };
    let good = by(now(&net), 1, 3, &look());
    let answer = format!("(\"{}\", 14)", key(3).id());
    assert_eq!(send(&mut net, good.clone(), 4), answer);
    assert!(refused(&send(&mut net, good.clone(), 4)), "replayed");
    let at = now(&net);
    assert!(refused(&send(&mut net, by(at, 0, 3, &look()), 4)), "for another host");
    assert!(refused(&send(&mut net, by(at - 61 * SECOND, 1, 3, &look()), 4)), "expired");
    assert!(refused(&send(&mut net, by(at + 63 * SECOND, 1, 3, &look()), 4)), "from the future");
    assert!(refused(&send(&mut net, by(at, 1, 4, &look()), 4)), "another's credential");
    // Forged: any byte of the arguments, or another chunk inside.
    let right = by(now(&net), 1, 3, &look());
    let arguments = right.arguments().to_vec();
    for changed in [0, 2, 3] {
        let mut arguments = arguments.clone();
        let Value::Blob(bytes) = &arguments[changed] else { panic!("{changed}") };
        let mut bytes = bytes.to_vec();
        bytes[5] ^= 1;
        arguments[changed] = Value::Blob(bytes.into());
        let forged = Arc::new(Chunk::new(right.callee().clone(), arguments).unwrap());
        assert!(refused(&send(&mut net, forged, 4)), "{changed}");
    }
    let mut other = arguments.clone();
    other[4] = Value::Chunk(Script::new("look", LOOK).unwrap().chunk("look", [value(1)]).unwrap());
    assert!(refused(&send(&mut net, Arc::new(Chunk::new(right.callee().clone(), other).unwrap()), 4)));
    let mut short = arguments.clone();
    short.pop();
    assert!(refused(&send(&mut net, Arc::new(Chunk::new(right.callee().clone(), short).unwrap()), 4)));
    assert_eq!(send(&mut net, right.clone(), 4), answer, "it still counts itself");
    // Who starts anew has forgotten the numbers, and takes none from before.
    net.sim.change(Change::Crash { node: 1 });
    net.sim.run_for(SECOND);
    net.sim.change(Change::Restart { node: 1, store_kept: true });
    assert!(refused(&send(&mut net, right, 4)), "from before the start");
    let fresh = by(now(&net), 1, 3, &look());
    assert_eq!(send(&mut net, fresh, 4), answer);
}

const KEEP: &str = "
fun arrived() : unit = ()
fun keep(name : string, to : host) : unit =
  (put(name, getSession(), 1, 300); RetransOnRemote(|arrived|(), to, 2, defaultRoute, 20, 5000))";

#[test]
fn with_a_principal_that_is_revoked_go_its_data_and_what_was_to_leave_for_it() {
    let mut net = pair();
    let credential = grant(1, 3, "operator", Restrictions::default());
    let keep = |name: &str| {
        let arguments = [Value::text(name.as_bytes().to_vec()), value(0)];
        Script::new("keep", KEEP).unwrap().chunk("keep", arguments).unwrap()
    };
    let header = || Header { destination: host(1), ..Header::injected(Host::default(), 100) };
    let chunk = Arc::new(signed(&key(3), Some(&credential), now(&net), host(1), &keep("mine")).unwrap());
    net.inject_packet(0, Packet { header: header(), chunk });
    net.inject_packet(0, Packet { header: header(), chunk: keep("nobody's") });
    // Before anything comes back: the copies that are to leave wait for their time.
    let cut = net.sim.now() + SECOND / 666;
    net.sim.change_at(cut, Change::Cut { link: 0 });
    net.sim.run_for(SECOND);
    let kept = |net: &Net| {
        let plan = net.sim.status(1).unwrap().plan.unwrap();
        (plan.resident, plan.jobs)
    };
    assert_eq!(kept(&net), (2, 2), "{:?}", net.sim.take_printed());
    let revocation = Revocation::sign(&key(3), Subject::Principal(key(3).id()), 5);
    assert_eq!(net.sim.revoke(1, &revocation).unwrap().domains, 1);
    assert_eq!(kept(&net), (1, 1), "what is nobody's stays");
    net.audit();
}

#[test]
fn a_credential_for_one_program_is_good_for_no_other() {
    let mut net = pair();
    let chunk = look();
    let code = Digest(slices(&chunk).unwrap()[0].digest.0);
    let for_it = |code| grant(1, 5, "operator", Restrictions { codes: vec![code], ..Restrictions::default() });
    for (credential, good) in [(for_it(code), true), (for_it(Digest([1; 32])), false)] {
        let chunk = signed(&key(5), Some(&credential), now(&net), host(1), &chunk).unwrap();
        assert_eq!(!refused(&send(&mut net, Arc::new(chunk), 4)), good);
    }
}

const INSTALL: &str = "
svc dice : int -> int
fun said(what : string) : unit = print(what)
fun say(home : host, what : string) : unit = OnRemote(|said|(what), home, 1, defaultRoute)
fun bring(home : host, modules : blob list) : unit =
  say(home, try (installServices(modules); \"installed\")
            handle E => if E = ServiceNotPresent then \"not seen\" else if E = BadService then \"bad\" else \"other\")
fun throw(home : host) : unit = say(home, if dice(6) < 6 then \"a throw\" else \"none\")";

/// A module that says it is `dice` of this type.
fn dice(kind: &str) -> Vec<u8> {
    format!(
        r#"(module (@custom "plan" "dice : {kind}") (import "anode" "an_random" (func $random (result i64)))
             (memory (export "memory") 1) (global (export "plan_buffer") i32 (i32.const 0))
             (func (export "service") (param i32) (result i32)
               (i64.store (i32.const 0) (i64.rem_u (call $random) (i64.load (i32.const 0))))
               (i32.const 8)))"#
    )
    .into_bytes()
}

#[test]
fn a_packet_installs_a_service_if_its_principals_role_has_that() {
    let script = Script::new("install", INSTALL).unwrap();
    let mut net = pair();
    let bring = |modules: &[&[u8]]| {
        let modules = Value::list(modules.iter().map(|module| Value::Blob((*module).into()))).unwrap();
        script.chunk("bring", [value(0), modules]).unwrap()
    };
    let good = dice("int -> int");
    let throw = || script.chunk("throw", [value(0)]).unwrap();
    let by = |net: &Net, signer: u8, role: &str, chunk: Arc<Chunk>| {
        let credential = grant(1, signer, role, Restrictions::default());
        Arc::new(signed(&key(signer), Some(&credential), now(net), host(1), &chunk).unwrap())
    };
    assert_eq!(send(&mut net, bring(&[&good]), 4), "not seen");
    let guest = by(&net, 2, "guest", bring(&[&good]));
    assert_eq!(send(&mut net, guest, 4), "not seen");
    assert!(send(&mut net, throw(), 4).contains("ServiceNotPresent"));
    let unnamed = String::from_utf8(good.clone()).unwrap().replace("\"plan\"", "\"name\"").into_bytes();
    for bad in [&b"garbage"[..], b"", &unnamed, &dice("int list -> int"), &dice("int")] {
        // The good one before it stays.
        let chunk = by(&net, 3, "operator", bring(&[bad]));
        assert_eq!(send(&mut net, chunk, 4), "bad");
    }
    let both = by(&net, 3, "operator", bring(&[&dice("int -> bool"), &good]));
    assert_eq!(send(&mut net, both, 4), "installed");
    assert_eq!(send(&mut net, throw(), 4), "a throw", "it is everybody's now");
    assert_eq!(net.sim.status(1).unwrap().plan.unwrap().services, ["dice"]);
    net.audit();
}

/// A routing function: the neighbour with this address, by the first interface, whatever the destination.
fn always(to: usize) -> Vec<u8> {
    let bytes = host(to).0;
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as i64;
    format!(
        "(module (memory (export \"memory\") 1) (global (export \"plan_buffer\") i32 (i32.const 0))
           (func (export \"service\") (param i32) (result i32)
             (i64.store (i32.const 0) (i64.const {}))
             (i64.store (i32.const 8) (i64.const {}))
             (i64.store (i32.const 16) (i64.const {}))
             (i32.const 24)))",
        word(0),
        word(8),
        0
    )
    .into_bytes()
}

const ROUTED: &str = "
svc mine : host -> host * dev
fun passed(by : host) : unit = print(by)
fun there(home : host) : unit = OnRemote(|passed|(getPrevious()), home, getRB(), defaultRoute)
fun go(home : host, to : host) : unit = OnRemote(|there|(home), to, getRB(), mine)";

#[test]
fn a_loaded_service_routes_packets_that_name_it() {
    // 0 ─ 1 ─ 2, and every link is its nodes' own interface: from 0 to 2 by 1.
    let mut net = Net::line(3, Line::default());
    let script = Script::new("routed", ROUTED).unwrap();
    let go = |net: &mut Net| {
        net.inject(0, script.chunk("go", [value(0), value(2)]).unwrap(), 9);
        net.sim.run_for(SECOND);
        net.sim.take_printed().concat()
    };
    assert!(go(&mut net).contains("raised ServiceNotPresent"));
    net.sim.load_service(0, "mine", "host -> host * dev", &always(1)).unwrap();
    assert!(go(&mut net).contains("raised ServiceNotPresent on 10.0.0.2"), "the node on the way has none");
    // Node 1 has node 0 on its first interface and node 2 on the second: the service says the second.
    let second =
        String::from_utf8(always(2)).unwrap().replace("(i32.const 16) (i64.const 0)", "(i32.const 16) (i64.const 1)");
    net.sim.load_service(1, "mine", "host -> host * dev", second.as_bytes()).unwrap();
    assert_eq!(go(&mut net), host(1).to_string());
    // It must name a neighbour, keep to its type, and end.
    let endless = b"(module (memory (export \"memory\") 1) (global (export \"plan_buffer\") i32 (i32.const 0))
        (func (export \"service\") (param i32) (result i32) (loop (br 0)) (i32.const 0)))";
    for (kind, module, why) in [
        ("host -> host * dev", always(2), "raised NoRoute on 10.0.0.1"),
        ("host -> host", always(1), "raised BadService on 10.0.0.1"),
        ("void -> host * dev", always(1), "raised BadService on 10.0.0.1"),
        ("host -> host * dev", endless.to_vec(), "raised BadService on 10.0.0.1"),
    ] {
        net.sim.load_service(0, "mine", kind, &module).unwrap();
        let printed = go(&mut net);
        assert!(printed.contains(why), "{kind}: {printed}");
    }
    net.audit();
}

#[test]
fn routing_functions_that_send_packets_in_circles_cost_them_their_bound() {
    let mut net = Net::line(3, Line::default());
    let script = Script::new("routed", ROUTED).unwrap();
    net.sim.load_service(0, "mine", "host -> host * dev", &always(1)).unwrap();
    net.sim.load_service(1, "mine", "host -> host * dev", &always(0)).unwrap();
    net.inject(0, script.chunk("go", [value(0), value(2)]).unwrap(), 50);
    net.sim.run_for(SECOND);
    assert!(net.sim.take_printed().concat().contains("raised NotEnoughRB"));
    let sums = net.audit();
    assert_eq!((sums.spent, sums.held, sums.unused), (50, 0, 0));
    let dropped: u64 = (0..2).map(|node| net.sim.status(node).unwrap().drops.of(Reason::Bound)).sum();
    assert_eq!(dropped, 1);
}

/// What is left of a bound at node 3 of a line whose nodes have these ceilings, of what a neighbour of node 1 sends.
fn arrives(chunk_of: impl Fn(&Net) -> Arc<Chunk>, roles: Roles) -> (String, u64) {
    let mut lines = network(&[(0, 1), (1, 2), (2, 3)], Line::default());
    (lines.roles, lines.unix_s) = (Arc::new(roles), UNIX);
    lines.ceiling = Ceiling { unsigned: 8, signed: 100 };
    let mut net = Net::new(lines, 1);
    let header = Header { destination: host(3), ..Header::injected(Host::default(), 5000) };
    let chunk = chunk_of(&net);
    net.inject_packet(0, Packet { header, chunk });
    net.sim.run_for(SECOND);
    net.audit();
    let clamped = net.sim.status(1).unwrap().ports.iter().map(|port| port.gauge.clamped).sum();
    (net.sim.take_printed().concat(), clamped)
}

#[test]
fn a_port_has_a_ceiling_for_signed_packets_on_their_way_as_for_those_that_arrive() {
    const LEFT: &str = "
fun tell(left : int) : unit = print(left)
fun main(home : host) : unit = OnRemote(|tell|(getRB()), home, 4, defaultRoute)";
    let chunk = || Script::new("left", LEFT).unwrap().chunk("main", [value(0)]).unwrap();
    let by = |signer: u8, credential: Option<Credential>, to: usize| {
        move |net: &Net| Arc::new(signed(&key(signer), credential.as_ref(), now(net), host(to), &chunk()).unwrap())
    };
    let operator = || Some(grant(1, 3, "operator", Restrictions::default()));
    assert_eq!(arrives(|_| chunk(), roles()).0, "6", "of eight, two hops on");
    assert_eq!(arrives(by(3, operator(), 3), roles()).0, "98", "of a hundred, and every node has judged it");
    let none = Roles::new(Vec::new()).unwrap();
    let (printed, clamped) = arrives(by(3, operator(), 3), none);
    assert!(printed.contains("raised Refused on 10.0.0.4") && clamped == 2, "{printed} {clamped}");
    for forged in [by(4, None, 3), by(3, operator(), 2), by(4, operator(), 3)] {
        let (printed, clamped) = arrives(forged, roles());
        assert!(printed.contains("raised Refused on 10.0.0.4"), "{printed}");
        assert_eq!(clamped, 2, "to what signed ones may have, and as it was none, to what others may");
    }
}

#[test]
fn what_a_signed_packet_does_is_at_the_expense_of_the_neighbour_that_brought_it() {
    let mut net = pair();
    let source = "fun burn(n : int, i : int) : int = n + i
        fun main(n : int list) : unit = (foldl(burn, 0, n); ())";
    let numbers = Value::list((0..3000).map(Value::Int)).unwrap();
    let chunk = Script::new("burn", source).unwrap().chunk("main", [numbers]).unwrap();
    let chunk = Arc::new(signed(&key(1), None, now(&net), host(1), &chunk).unwrap());
    assert_eq!(send(&mut net, chunk, 64), "");
    let node = net.sim.node(1).unwrap();
    assert_eq!(node.status().plan.unwrap().account.evaluated, 1);
    let used = node.entry_counts(PortId(0), PeerId(0)).worker_ns;
    assert!(used > 3 * 3000, "{used} steps");
}
