//! What operators call everywhere, as PLAN's services see it: all of it in its order, and while they are asked without a pause.

use super::*;
use crate::code::extension::built_in::KnowsNetwork;
use crate::code::extension::given::NO_SUCH_HOST;
use crate::frame::PortId;
use crate::manage::extensions::{Extensions, Service};
use crate::sys::clock::Clock;
use crate::wire::ethernet::Mac;
use crate::wire::{Addr, Prefix};
use std::sync::atomic::AtomicBool;

const ROUTES: &[u8] = include_bytes!("../../../../apps/extensions/routes.wat");

/// Two numbers that are always the same in between calls, and a call that says whether they are: of `told`, and of who needs it.
const TOLD: &str = r#"(module (memory (export "memory") 1) (global (export "an_buffer") i32 (i32.const 0))
  (func (export "set") (param i32) (result i32) (local $n i32)
    (i64.store (i32.const 8192) (i64.load (i32.const 0)))
    (loop $on (local.set $n (i32.add (local.get $n) (i32.const 1))) (br_if $on (i32.lt_u (local.get $n) (i32.const 20000))))
    (i64.store (i32.const 8200) (i64.load (i32.const 0))) (i32.const 0))
  (func (export "seen") (param i32) (result i32)
    (if (i64.ne (i64.load (i32.const 8192)) (i64.load (i32.const 8200))) (then unreachable))
    (i64.store (i32.const 0) (i64.load (i32.const 8192))) (i32.const 8))
  (@custom "anode.extension" "name = 'told'\n[[call]]\nname = 'set'\ntype = 'int -> unit'\neverywhere = true\n[[call]]\nname = 'seen'\n"
    "type = 'void -> int'\nservice = true\n"))"#;
const NEEDY: &str = r#"(module (import "told" "seen" (func $seen (param i32) (result i32)))
  (memory (export "memory") 1) (global (export "an_buffer") i32 (i32.const 0))
  (func (export "far") (param i32) (result i32) (call $seen (i32.const 0)))
  (@custom "anode.extension" "name = 'needy'\nneeds = ['told.seen : void -> int']\n"
    "[[call]]\nname = 'far'\ntype = 'void -> int'\nservice = true\n"))"#;

fn load(modules: &[&[u8]]) -> (Extensions, Vec<Service>) {
    let extensions = Extensions::start(Clock::start(), false).unwrap();
    let mut loading = extensions.prepare(modules.iter().map(|module| module.to_vec()).collect()).unwrap();
    let services = core::mem::take(&mut loading.services);
    extensions.put(loading).unwrap();
    (extensions, services)
}

fn call(extensions: &Extensions, call: &str, arguments: &[&str]) -> Result<String, String> {
    let arguments = arguments.iter().map(ToString::to_string).collect();
    extensions.call(call.into(), arguments).map(|called| called.value)
}

/// What a service gives these bytes.
fn asked(service: &mut Service, given: &[u8]) -> Result<Vec<u8>, CallFailure> {
    let mut exchange = given.to_vec();
    let (result, fuel) = service.what.call(0, 0, 8_000, &mut exchange);
    assert!(fuel < 8_000, "as much as a packet has for its way");
    result.map(|()| exchange)
}

#[test]
fn what_operators_call_everywhere_is_seen_by_who_is_asked_all_the_time() {
    let (extensions, services) = load(&[NEEDY.as_bytes(), TOLD.as_bytes()]);
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = |mut service: Service| {
            let mut last = 0;
            while !ended.load(Ordering::Relaxed) {
                let seen = asked(&mut service, &[]).unwrap();
                let seen = u64::from_le_bytes(seen[..].try_into().unwrap());
                assert!(seen >= last, "{seen} after {last}");
                last = seen;
            }
            asked(&mut service, &[]).unwrap()
        };
        let watchers: Vec<_> = services.into_iter().map(|service| scope.spawn(move || watch(service))).collect();
        for number in 1..=200 {
            call(&extensions, "told.set", &[&number.to_string()]).unwrap();
        }
        assert_eq!(call(&extensions, "told.seen", &[]).unwrap(), "200");
        ended.store(true, Ordering::Relaxed);
        assert_eq!(watchers.len(), 2);
        for watcher in watchers {
            assert_eq!(watcher.join().unwrap(), 200u64.to_le_bytes());
        }
    });
}

/// A node in which all but port 9 lead somewhere.
struct AllButNine;

impl KnowsNetwork for AllButNine {
    fn neighbour(&self, _: usize) -> Option<(Addr, PortId)> {
        None
    }
    fn link_address(&self, _: PortId, _: Addr) -> Option<Mac> {
        None
    }
    fn next_hop(&self, _: Addr) -> Option<(Addr, PortId)> {
        None
    }
    fn set_way(&self, _: &str, _: Prefix, _: Addr, port: PortId) -> Result<(), i32> {
        if port == PortId(9) { Err(NO_SUCH_HOST) } else { Ok(()) }
    }
    fn remove_way(&self, _: &str, _: Prefix) -> Result<(), i32> {
        Ok(())
    }
    fn withdraw(&self, _: &str) {}
}

#[test]
fn routes_are_found_by_the_smallest_network() {
    let (extensions, mut services) = load(&[ROUTES]);
    // Without anybody who sets routes there is none here either.
    assert_eq!(
        call(&extensions, "routes.add", &["10.2.0.0", "16", "10.0.0.2", "0"]).unwrap_err(),
        "routes.add: refused"
    );
    extensions.network_by(Arc::new(AllButNine));
    let [service] = &mut services[..] else { panic!("next alone is a service") };
    let v4 = |d: [u8; 4]| std::net::Ipv4Addr::from(d).to_ipv6_mapped().octets();
    assert_eq!(asked(service, &v4([10, 2, 0, 1])), Err(CallFailure::Raised(-1)));
    for (route, via) in [
        (["10.2.0.0", "16"], ["10.0.0.2", "0"]),
        (["10.2.3.77", "24"], ["10.0.0.3", "1"]),
        (["10.2.3.4", "32"], ["10.0.0.4", "2"]),
        (["fd00::", "8"], ["fe80::5", "3"]),
        (["fd00:1::", "32"], ["fe80::6", "4"]),
    ] {
        call(&extensions, "routes.add", &[route, via].concat()).unwrap();
    }
    for (host, expected) in [
        ("10.2.200.1", Ok("(10.0.0.2, <dev 0>)")),
        ("10.2.3.5", Ok("(10.0.0.3, <dev 1>)")),
        ("10.2.3.4", Ok("(10.0.0.4, <dev 2>)")),
        ("fdff::1", Ok("(fe80::5, <dev 3>)")),
        ("fd00:1:ffff::1", Ok("(fe80::6, <dev 4>)")),
        ("10.3.0.1", Err(())),
        ("fe00::1", Err(())),
    ] {
        let found = call(&extensions, "routes.next", &[host]).map_err(drop);
        assert_eq!(found, expected.map(str::to_owned), "{host}");
    }
    call(&extensions, "routes.add", &["0.0.0.0", "0", "10.0.0.9", "5"]).unwrap();
    assert_eq!(call(&extensions, "routes.next", &["10.3.0.1"]).unwrap(), "(10.0.0.9, <dev 5>)");
    assert!(call(&extensions, "routes.next", &["fe00::1"]).is_err(), "that was one of IPv4");
    // What the node does not take PLAN does not see either.
    let why = call(&extensions, "routes.add", &["10.2.3.9", "32", "10.0.0.7", "9"]).unwrap_err();
    assert!(why.contains("no such host there"), "{why}");
    let found = asked(service, &v4([10, 2, 3, 9])).unwrap();
    assert_eq!(found, [&v4([10, 0, 0, 3])[..], &1u64.to_le_bytes()].concat(), "operators' routes are PLAN's");
    call(&extensions, "routes.add", &["10.2.3.0", "24", "10.0.0.8", "6"]).unwrap();
    call(&extensions, "routes.remove", &["10.2.3.4", "32"]).unwrap();
    assert_eq!(
        call(&extensions, "routes.next", &["10.2.3.4"]).unwrap(),
        "(10.0.0.8, <dev 6>)",
        "another takes its place"
    );
    for (wrong, why) in [
        (["10.0.0.0", "33", "10.0.0.2", "0"], "refused"),
        (["10.0.0.0", "-1", "10.0.0.2", "0"], "refused"),
        (["fd00::", "129", "10.0.0.2", "0"], "refused"),
    ] {
        assert!(call(&extensions, "routes.add", &wrong).unwrap_err().contains(why), "{wrong:?}");
    }
    assert!(call(&extensions, "routes.remove", &["10.9.0.0", "16"]).unwrap_err().contains("not found"));
    // As many as there is room for, and each is found within a packet's steps.
    let free = (0..128)
        .take_while(|at| call(&extensions, "routes.add", &[&format!("11.{at}.0.0"), "16", "10.0.0.2", "0"]).is_ok());
    assert_eq!(free.count(), 128 - 5);
    assert!(asked(service, &v4([11, 9, 1, 1])).is_ok() && asked(service, &v4([12, 0, 0, 1])).is_ok());
}

/// A call of PLAN's and an operator's that sets a route, and gives what the node has said; and how often it was called.
const SETS: &str = r#"(module (import "ways" "set" (func $set (param i32) (result i32)))
  (memory (export "memory") 1) (global (export "an_buffer") i32 (i32.const 0))
  (func $sets (param i32) (result i32)
    (memory.fill (i32.const 0) (i32.const 0) (i32.const 48))
    (i64.store (i32.const 40) (i64.load (i32.const 4096)))
    (i64.store (i32.const 0) (i64.extend_i32_s (call $set (i32.const 48)))) (i32.const 8))
  (func (export "tries") (param i32) (result i32) (call $sets (i32.const 0)))
  (func (export "sets") (param i32) (result i32)
    (i64.store (i32.const 4096) (i64.load (i32.const 0))) (call $sets (i32.const 0))
    (drop) (i64.store (i32.const 4104) (i64.load (i32.const 0))) (i32.const 8))
  (func (export "spins") (param i32) (result i32)
    (loop $on (i64.store (i32.const 4112) (i64.add (i64.load (i32.const 4112)) (i64.const 1)))
      (drop (call $sets (i32.const 0))) (br $on)) (i32.const 0))
  (func (export "heard") (param i32) (result i32)
    (i64.store (i32.const 0) (i64.load (i32.const 4104)))
    (i64.store (i32.const 8) (i64.load (i32.const 4112))) (i32.const 16))
  (@custom "anode.extension" "name = 'sets'\nneeds = ['ways.set : (host, int, host, dev) -> unit']\n"
    "[[call]]\nname = 'tries'\ntype = 'void -> int'\nservice = true\n"
    "[[call]]\nname = 'sets'\ntype = 'int -> int'\neverywhere = true\n"
    "[[call]]\nname = 'spins'\ntype = 'void -> int'\neverywhere = true\n"
    "[[call]]\nname = 'heard'\ntype = 'void -> int * int'\nservice = true\n"))"#;

#[test]
fn what_is_asked_of_the_node_is_refused_to_packets_and_heard_as_it_was_answered() {
    let (extensions, mut services) = load(&[SETS.as_bytes()]);
    extensions.network_by(Arc::new(AllButNine));
    let [tries, heard] = &mut services[..] else { panic!("two services") };
    let number = |bytes: &[u8], at: usize| i64::from_le_bytes(bytes[8 * at..8 * at + 8].try_into().unwrap());
    // With as little fuel as a packet has.
    assert_eq!(number(&asked(tries, &[]).unwrap(), 0), -2);
    assert_eq!(call(&extensions, "sets.tries", &[]).unwrap(), "0", "an operator's is done");
    for (port, said) in [("1", 0), ("9", -3), ("2", 0)] {
        assert_eq!(call(&extensions, "sets.sets", &[port]).unwrap(), said.to_string().replace('-', "~"));
        assert_eq!(number(&asked(heard, &[]).unwrap(), 0), said, "{port}: PLAN's instance has heard the same");
        assert_eq!(number(&asked(tries, &[]).unwrap(), 0), -2, "and sets nothing itself");
    }
    // Each asking has its price, and who hears it comes as far.
    let why = call(&extensions, "sets.spins", &[]).unwrap_err();
    assert!(why.contains("it has used up its fuel"), "{why}");
    let own = call(&extensions, "sets.heard", &[]).unwrap();
    let count = number(&asked(heard, &[]).unwrap(), 1);
    assert!((1_900..=2_000).contains(&count), "{count}");
    assert_eq!(own, format!("(0, {count})"));
}
