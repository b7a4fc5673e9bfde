//! Routes that change while a node runs: what it says of random destinations is what the kernel says, in both halves.
//!
//! `ANODE_ROUTES` says how many routes there are, `ANODE_CHANGES` how many of them change, `ANODE_SECONDS` for how long a thousand change
//! each second, and `SEED` which.

mod brought;
mod interfaces;

use crate::pace::Pace;
use crate::running::{ANODE, Running, in_kernel};
use anode::sys::netlink;
use anode::wire::{Addr, Prefix};
use model::ways::Lead;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use rand_core::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::Value;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Two ways from r to b, and a third to somebody who is no port of r.
const WAYS: &str = r#"
name = "t"
nodes.a = {}
nodes.r.active = true
nodes.b = {}
[[links]]
ends = ["a", "r"]
prefixes = ["10.0.1.0/24", "fd00:0:1::/64"]
[[links]]
ends = ["r", "b"]
prefixes = ["10.0.2.0/24", "fd00:0:2::/64"]
[[links]]
ends = ["r", "b"]
prefixes = ["10.0.3.0/24", "fd00:0:3::/64"]
"#;

/// Where random routes lead: by a port, by the other, on the link, along both, nowhere, and by what is no port.
const LEAD: [[&str; 2]; 6] = [
    ["via 10.0.2.2", "via fd00:0:2::2"],
    ["via 10.0.3.2", "via fd00:0:3::2"],
    ["dev to-b-2", "dev to-b-2"],
    ["via 10.0.1.1", "via fd00:0:1::1"],
    ["blackhole", "unreachable"],
    ["via 10.0.7.2", "via fd00:0:7::2"],
];

/// Random numbers from a seed.
struct Chance(Xoshiro256PlusPlus);

impl Chance {
    fn new(seed: u64) -> Chance {
        Chance(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    fn bits(&mut self) -> u32 {
        self.0.next_u32()
    }

    fn below(&mut self, limit: usize) -> usize {
        ((u64::from(self.bits()) * limit as u64) >> 32) as usize
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// Destinations that are compared at once: as many as one question may have.
const COMPARED: usize = 256;

fn number(variable: &str, otherwise: usize) -> usize {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Blocks within 172.16.0.0/12 and fd01::/16, which may lie in each other; one of five is of IPv6.
fn block(dice: &mut Chance, wide: bool) -> Prefix {
    let bits = dice.bits();
    if dice.below(5) == 0 && !wide {
        let addr = Addr([&[0xfd, 1, bits as u8 & 3], &bits.to_be_bytes()[..], &[0; 9]].concat().try_into().unwrap());
        return Prefix::new(addr, 24 + dice.below(41) as u8);
    }
    // Of many each has its own.
    let length = if wide { 24 } else { 16 + dice.below(17) as u8 };
    let first = if wide { 0x1000_0000 | bits & 0x3fff_ffff } else { 0xac10_0000 | bits & 0x000f_ffff };
    Prefix::new(Addr::v4(first.to_be_bytes()), 96 + length)
}

/// A line for `ip -batch` that changes the routes to a block.
fn change(dice: &mut Chance, to: Prefix, verbs: &[&str]) -> String {
    // Of IPv6 routes with one metric the kernel may take any.
    let verb = match *dice.pick(verbs) {
        "append" | "prepend" if !to.is_v4() => "replace",
        verb => verb,
    };
    let [v4, v6] = *dice.pick(&LEAD);
    let lead = if to.is_v4() { v4 } else { v6 };
    let metric = *dice.pick(&[10, 10, 20]);
    let (kind, way) = if lead.contains(' ') { ("", lead) } else { (lead, "") };
    match verb {
        "del" => format!("route del {to}\n"),
        verb => format!("route {verb} {kind} {to} {way} metric {metric}\n"),
    }
}

/// An `ip` that carries out the lines it is written, in a node's namespace, whatever becomes of each: some routes are there already,
/// others are not.
fn carrier(net: &Running) -> Child {
    let mut command = net.lab.command("r", "ip").unwrap();
    command.args(["-force", "-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

fn carry_out(net: &Running, lines: &str) {
    let mut process = carrier(net);
    process.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    process.wait().unwrap();
}

/// The ways that the kernel of a namespace has to an address: interface and next router of each.
fn fib(to: Addr) -> Vec<netlink::Hop> {
    let mut socket = Socket::new(NETLINK_ROUTE).unwrap();
    socket.bind_auto().unwrap();
    socket.connect(&SocketAddr::new(0, 0)).unwrap();
    let (family, addr) = to.bytes_v4().map_or((10u8, to.0.to_vec()), |four| (2, four.to_vec()));
    let (bits, length) = (addr.len() as u8 * 8, 32 + addr.len() as u32);
    // RTM_GETROUTE, NLM_F_REQUEST; and of the route itself, not of a cached one: RTM_F_FIB_MATCH.
    let mut request = [length.to_ne_bytes(), [26, 0, 1, 0], [1, 0, 0, 0], [0; 4]].concat();
    request.extend([family, bits, 0, 0, 0, 0, 0, 0]);
    request.extend(0x2000u32.to_ne_bytes());
    request.extend([addr.len() as u8 + 4, 0, 1, 0]);
    request.extend(addr);
    socket.send(&request, 0).unwrap();
    let mut found = Vec::new();
    let answer = socket.recv_from_full().unwrap().0;
    netlink::each_route(&answer, |news| {
        if let netlink::RouteNews::Main(_, route, _) = news {
            found = match route.hops {
                netlink::Hops::Nowhere => Vec::new(),
                netlink::Hops::One(hop) => vec![hop],
                netlink::Hops::Several(hops) => hops.iter().filter(|hop| hop.up).copied().collect(),
            };
        }
    });
    found
}

/// Interfaces of r by their numbers, and which of them are ports.
fn interfaces(net: &Running) -> HashMap<u32, String> {
    let all = net.lab.enter("r", || netlink::interfaces().unwrap()).unwrap();
    all.into_iter().filter(|found| found.name.starts_with("to-")).map(|found| (found.index, found.name)).collect()
}

/// What of these destinations the node, or code in its kernel half, says otherwise than the kernel.
fn disagreements(net: &Running, names: &HashMap<u32, String>, to: &[Addr]) -> Vec<String> {
    let asked = to.to_vec();
    let kernel: Vec<_> = net.lab.enter("r", move || asked.iter().map(|to| fib(*to)).collect()).unwrap();
    let ways = net.control("r").ways(to).unwrap();
    let mut wrong = Vec::new();
    for ((to, kernel), way) in to.iter().zip(kernel).zip(&ways) {
        // Of several any may be taken; what is no port is none for the node.
        let via = |hop: netlink::Hop| (hop.via != Addr::UNSPECIFIED).then(|| hop.via.to_string());
        let hops = kernel.into_iter().filter_map(|hop| Some((names.get(&hop.interface)?.clone(), via(hop))));
        let hops: Vec<_> = hops.collect();
        let is_right = |lead: &Lead| match &lead.port {
            Some(port) => hops.contains(&(port.clone(), lead.via.clone())),
            None => hops.is_empty(),
        };
        if !is_right(&way.leads) || !way.kernel.as_ref().is_some_and(is_right) {
            wrong.push(format!("{to}: the kernel {hops:?}, the node {way:?}"));
        }
    }
    wrong
}

/// Waits until both halves say of random destinations what the kernel says.
fn agree(net: &Running, dice: &mut Chance, blocks: &[Prefix]) {
    let names = interfaces(net);
    let mut inside = || {
        let block = *dice.pick(blocks);
        let host = u128::from(dice.0.next_u64()) & (u128::MAX >> u32::from(block.length).min(127));
        Addr((u128::from_be_bytes(block.addr.0) | host).to_be_bytes())
    };
    let to: Vec<Addr> = (0..COMPARED).map(|_| inside()).collect();
    let mut last = Vec::new();
    net.until("r", || {
        let wrong = disagreements(net, &names, &to);
        if wrong != last {
            println!("not yet: {} of {COMPARED}: {:?}", wrong.len(), wrong.first());
            last = wrong;
        }
        last.is_empty().then_some(())
    });
}

fn up(name: &str) -> Option<Running> {
    let net = Running::up_with(name, WAYS, &in_kernel)?;
    // Somebody beside the node's ports.
    net.shell("r", "ip link add aside type veth peer name other; ip link set aside up; ip link set other up");
    net.shell("r", "ip addr add 10.0.7.1/24 dev aside; ip addr add fd00:0:7::1/64 dev aside nodad");
    net.shell("r", "sysctl -qw net.ipv6.route.max_size=2147483647");
    Some(net)
}

#[test]
fn both_halves_say_what_the_kernel_says_while_routes_change() {
    let Some(net) = up("routes") else { return };
    let (routes, changes) = (number("ANODE_ROUTES", 20_000), number("ANODE_CHANGES", 2_000));
    let seed = number("SEED", 7) as u64;
    println!("SEED={seed} ANODE_ROUTES={routes} ANODE_CHANGES={changes}");
    let mut dice = Chance::new(seed);
    let many = routes > 100_000;
    let blocks: Vec<Prefix> = (0..routes).map(|_| block(&mut dice, many)).collect();
    let lines = |dice: &mut Chance, count: usize, verbs: &[&str]| {
        (0..count).fold(String::new(), |mut text, at| {
            // The first time each, then any.
            let to = if count == blocks.len() { blocks[at] } else { *dice.pick(&blocks) };
            let _ = write!(text, "{}", change(dice, to, verbs));
            text
        })
    };
    let all = lines(&mut dice, blocks.len(), &["add"]);
    carry_out(&net, &all);
    agree(&net, &mut dice, &blocks);
    println!("all routes: {}", net.status("r")["followed"]);
    for round in 0..4 {
        let some = lines(&mut dice, changes / 4, &["add", "append", "prepend", "replace", "replace", "del", "del"]);
        carry_out(&net, &some);
        agree(&net, &mut dice, &blocks);
        println!("round {round}: {}", net.status("r")["followed"]);
    }
    // Of these the kernel tells no route by route.
    net.shell("r", "ip link set to-b-2 down");
    agree(&net, &mut dice, &blocks);
    net.shell("r", "ip link set to-b-2 up");
    agree(&net, &mut dice, &blocks);
    assert!(net.status("r")["followed"]["changes"].as_u64().unwrap() >= changes as u64 / 4);
}

/// Changes in a second.
const A_SECOND: u32 = 1000;

/// Ticks of the processor that the node has used, of which a second has a hundred.
fn ticks(net: &Running) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", net.daemon("r").pid())).unwrap();
    let fields: Vec<u64> =
        text.rsplit(')').next().unwrap().split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
    fields[11] + fields[12]
}

/// One change beside the others; gives how many of these came until both halves had obeyed it.
fn obeyed(net: &Running, pace: &Pace, marks: &mut Child, number: u32) -> u32 {
    let (to, via) = ("198.18.0.1".parse().unwrap(), ["10.0.2.2", "10.0.3.2"][number as usize % 2]);
    let before = pace.sent();
    writeln!(marks.stdin.as_mut().unwrap(), "route replace 198.18.0.0/24 via {via}").unwrap();
    let leads = |lead: &Lead| lead.via.as_deref() == Some(via);
    let mut control = net.control("r");
    while !control.ways(&[to]).unwrap().iter().all(|way| leads(&way.leads) && way.kernel.as_ref().is_some_and(leads)) {
        assert!(pace.sent() - before < 100 * A_SECOND, "a change is not obeyed");
        pace.await_more(1);
    }
    pace.sent() - before
}

#[test]
fn both_halves_say_what_the_kernel_says_beside_a_thousand_changes_a_second() {
    let Some(net) = up("paced") else { return };
    let (routes, seconds) = (number("ANODE_ROUTES", 20_000), number("ANODE_SECONDS", 2) as u32);
    let mut dice = Chance::new(number("SEED", 7) as u64);
    let blocks: Vec<Prefix> = (0..routes as u32)
        .map(|number| Prefix::new(Addr::v4((0x1000_0000 + (number << 8)).to_be_bytes()), 120))
        .collect();
    carry_out(&net, &blocks.iter().map(|to| format!("route add {to} via 10.0.2.2\n")).collect::<String>());
    agree(&net, &mut dice, &blocks);
    // While all of them came at once the kernel may have had more to tell than it keeps.
    let told = |of: &Value, what: &str| of[what].as_u64().unwrap();
    let before = net.status("r")["followed"].clone();
    // These change, the others stay.
    let (changing, still) = blocks.split_at(routes / 2);
    let (names, mut marks, mut changes) = (interfaces(&net), carrier(&net), carrier(&net));
    let (pace, mut input) = (Pace::by_the_clock(Duration::from_millis(1)), changes.stdin.take().unwrap());
    let (used, mut waits) = (ticks(&net), Vec::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pace.run(|number| {
                let to = changing[number.wrapping_mul(7919) as usize % changing.len()];
                let _ = writeln!(input, "route replace {to} via {}", ["10.0.2.2", "10.0.3.2"][number as usize / 7 % 2]);
            });
        });
        let _stops = pace.stops_with_this();
        // The first one waits for `ip` itself, which begins.
        obeyed(&net, &pace, &mut marks, 1);
        while pace.sent() < seconds * A_SECOND {
            waits.push(obeyed(&net, &pace, &mut marks, waits.len() as u32));
            let to: Vec<Addr> = (0..COMPARED).map(|_| dice.pick(still).addr).collect();
            let wrong = disagreements(&net, &names, &to);
            assert!(wrong.is_empty(), "of what stays: {wrong:?}");
        }
        pace.stop();
    });
    let (used, sent) = (ticks(&net) - used, pace.sent());
    drop(input);
    for mut process in [marks, changes] {
        drop(process.stdin.take());
        process.wait().unwrap();
    }
    agree(&net, &mut dice, &blocks);
    waits.sort_unstable();
    let (middle, last) = (waits[waits.len() / 2], waits[waits.len() - 1]);
    let late = waits.iter().filter(|wait| **wait > 100).count();
    let followed = net.status("r")["followed"].clone();
    println!(
        "{routes} routes, {sent} changes at 1,000 a second: {used} ticks of 10 ms of the node, asked meanwhile; obeyed within {middle} \
         ms, at most {last}, {late} later than 100, of {}; {followed}",
        waits.len()
    );
    let more = |what: &str| told(&followed, what) - told(&before, what);
    // A route that is replaced by what it is already is no change: of those that are met first, half.
    assert!(more("changes") >= u64::from(sent) / 3, "{before} {followed}");
    // What the kernel did not keep was read anew: that is a busy machine, and nothing is lost by it.
    assert_eq!(told(&followed, "untold"), 0, "{before} {followed}");
}

#[test]
fn routes_by_objects_of_next_hops_and_along_several_ways_are_followed() {
    let Some(net) = up("objects") else { return };
    let mut dice = Chance::new(1);
    let blocks: Vec<Prefix> = ["172.16.0.0/16", "172.16.1.0/24", "fd01::/32"].map(|text| text.parse().unwrap()).into();
    for step in [
        "ip nexthop add id 1 via 10.0.2.2 dev to-b",
        "ip route add 172.16.0.0/16 nhid 1; ip route add 172.16.1.0/24 nhid 1 metric 5",
        "ip nexthop replace id 1 via 10.0.3.2 dev to-b-2",
        "ip route add 172.16.1.0/24 via 10.0.1.1 metric 9",
        // Both routes by it go, and nobody says so.
        "ip nexthop del id 1",
        "ip route add 172.16.0.0/16 nexthop via 10.0.3.2 dev to-b-2 nexthop via 10.0.2.2 dev to-b",
        "ip route replace 172.16.0.0/16 nexthop via 10.0.2.2 dev to-b nexthop via 10.0.3.2 dev to-b-2",
        "ip route del 172.16.0.0/16",
        "ip -6 route add fd01::/32 via fd00:0:2::2 metric 5; ip -6 route append fd01::/32 via fd00:0:3::2 metric 5",
        "ip -6 route del fd01::/32 via fd00:0:2::2 metric 5",
        "ip -6 route replace fd01::/32 via fd00:0:1::1 metric 5; ip -6 route add unreachable fd01::/32 metric 4",
        "ip -6 route del unreachable fd01::/32 metric 4",
        // No route of IPv6 leads to an address of IPv4.
        "ip -6 route add default via fd00:0:2::2; ip route flush table main root 172.16.0.0/12",
    ] {
        net.shell("r", step);
        println!("{step}");
        agree(&net, &mut dice, &blocks);
    }
    let mut command = net.lab.command("r", ANODE).unwrap();
    command.args(["node", "route"]).arg(net.dir("r")).args(["172.16.1.1", "10.0.2.2", "10.0.2.1", "--json"]);
    let told: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    assert_eq!((&told[0]["port"], &told[1]["port"], &told[2]["here"]), (&Value::Null, &"to-b".into(), &true.into()));
    let many: Vec<Addr> = (0..257).map(|_| "10.0.2.2".parse().unwrap()).collect();
    let refused = net.control("r").ways(&many).unwrap_err().to_string();
    assert!(refused.contains("at most 256"), "{refused}");
}

/// The kernel takes nothing more for the table of the kernel half: what changes then is counted, told again, and no health.
#[test]
fn routes_that_the_kernel_half_does_not_take_are_counted_and_told_again() {
    let Some(net) = up("frozen") else { return };
    let health = || -> Value {
        let mut command = net.lab.command("r", ANODE).unwrap();
        command.args(["node", "health", "--json"]).arg(net.dir("r"));
        serde_json::from_slice(&command.output().unwrap().stdout).unwrap()
    };
    let check = |health: &Value, name: &str| {
        let found = health["checks"].as_array().unwrap().iter().find(|check| check["name"] == name).unwrap();
        (found["state"].as_str().unwrap().to_owned(), found["value"].as_u64().unwrap())
    };
    let before = health();
    assert_eq!(check(&before, "routes-untold"), ("healthy".into(), 0), "{before}");
    assert_eq!(check(&before, "routes-followed").0, "healthy", "{before}");
    let map = net.dir("r").join("bpf/set-1/routes_map");
    let frozen = Command::new("python3").args(["-c", FREEZE]).arg(&map).status().unwrap();
    assert!(frozen.success());
    net.shell("r", "ip route add 192.0.2.0/24 via 10.0.2.2");
    let status = net.await_status("r", |status| status["followed"]["told_again"].as_u64() > Some(0));
    let followed = &status["followed"];
    assert_eq!(followed["untold"], 1, "{followed}");
    assert!(followed["untold_ever"].as_u64() > Some(1), "once as it came, and once told again: {followed}");
    let after = health();
    assert_eq!(check(&after, "routes-untold"), ("degraded".into(), 1), "{after}");
    assert!(net.log("r").contains("the kernel half is not told of new routes"), "{}", net.log("r"));
}

/// Freezes the map that is pinned at a path: BPF_OBJ_GET, then BPF_MAP_FREEZE of bpf(2).
const FREEZE: &str = "
import ctypes, platform, struct, sys
call = {'x86_64': 321, 'aarch64': 280}[platform.machine()]
libc = ctypes.CDLL(None, use_errno=True)
path = ctypes.create_string_buffer(sys.argv[1].encode())
get = ctypes.create_string_buffer(struct.pack('=QII', ctypes.addressof(path), 0, 0), 16)
freeze = ctypes.create_string_buffer(struct.pack('=I', libc.syscall(call, 7, get, 16)), 4)
sys.exit(ctypes.get_errno() if libc.syscall(call, 22, freeze, 4) else 0)
";
