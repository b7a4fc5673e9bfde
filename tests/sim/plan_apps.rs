//! The library of PLAN programs, each in a simulated network of a fitting shape.

use crate::net::{Net, app, host, lines, network, value};
use anode::apps::plan::Local;
use anode::core::reason::Reason;
use anode::ee::plan::config::Principal;
use anode::ee::plan::{Config, authenticator};
use anode::sim::{Change, Line, Network, SECOND, Shape};
use anode::topology::Ceiling;
use plan::name::Name;
use plan::packet::{Header, Packet};
use plan::value::{Callee, Chunk, Host, Value};
use std::sync::Arc;

/// Injects a packet for another node or in a flow.
fn inject(net: &mut Net, name: &str, call: &str, header: Header) -> Vec<String> {
    let mut local = Local { session: net.seats[0].session, ..Local::default() };
    local.hosts.extend((0..net.seats.len()).map(|node| (format!("n{node}"), host(node))));
    let chunk = app(name).first(call, &mut local).unwrap();
    net.inject_packet(0, Packet { header, chunk });
    net.sim.run_for(20 * SECOND);
    net.sim.take_printed()
}

/// A network of this shape, whose nodes let larger bounds in than they do by default.
fn open(shape: Shape, line: Line) -> Network {
    let mut lines = Network::new(shape, line, 0).unwrap();
    lines.ceiling = Ceiling::all(4096);
    lines
}

#[test]
fn every_program_of_the_library_is_right_and_formatted() {
    let mut count = 0;
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/apps/plan")).unwrap() {
        let path = entry.unwrap().path();
        let source = std::fs::read_to_string(&path).unwrap();
        app(path.file_stem().unwrap().to_str().unwrap());
        assert_eq!(plan::format::format(&source).unwrap(), source, "{}", path.display());
        count += 1;
    }
    assert!(count >= 15, "{count}");
}

#[test]
fn hello_and_path_mtu_on_a_line() {
    let mut lines = Network::unlinked(4);
    lines.ceiling = Ceiling::all(4096);
    for (at, mtu) in [1500, 1300, 1400].into_iter().enumerate() {
        lines.link(at, at + 1, Line { mtu, ..Line::default() });
    }
    let mut net = Net::new(lines, 1);
    let to = "(hd thisHost(), getHostByName(\"n3\"))";
    assert_eq!(net.call(0, &app("hello"), &format!("hello{to}"), 9), ["(\"Hello, world\", 10.0.0.4)"]);
    assert_eq!(net.call(0, &app("pathmtu"), &format!("pathMTU{to}"), 9), ["1300"]);
}

#[test]
fn a_load_is_carried_from_host_to_host() {
    let mut net = Net::line(5, Line::default());
    let call = "tour(hd thisHost(), [getHostByName(\"n3\"); getHostByName(\"n1\"); getHostByName(\"n4\")])";
    assert_eq!(net.call(0, &app("along"), call, 20), ["10.0.0.5"]);
}

#[test]
fn a_flow_takes_the_way_that_was_set_for_it() {
    // Short: 0 ─ 4; long: 0 ─ 1 ─ 2 ─ 3 ─ 4.
    let mut net = Net::with(&[(0, 4), (0, 1), (1, 2), (2, 3), (3, 4)], Line::default(), Config::default());
    let call = |way: &str| format!("setup(getHostByName(\"n0\"), [{way}], getHostByName(\"n4\"))");
    let hosts = |way: &[usize]| way.iter().map(|n| format!("getHostByName(\"n{n}\")")).collect::<Vec<_>>().join(";");
    let header = Header { flow: 7, ..Header::injected(Host::default(), 40) };
    let long = inject(&mut net, "flow", &call(&hosts(&[1, 2, 3, 4])), header.clone());
    assert_eq!(long, ["(10.0.0.4, 10.0.0.5)"], "the packet came by node 3");
    let short = inject(&mut net, "flow", &call(&hosts(&[4])), header);
    assert_eq!(short, ["(10.0.0.1, 10.0.0.5)"]);
}

#[test]
fn a_census_counts_every_node_of_a_grid_once() {
    let shape = Shape::Grid { width: 4, height: 3 };
    let mut net = Net::new(open(shape, Line::default()), 0);
    let links = net.sim.network().links.len();
    let chunk = app("census").chunk("census", [value(0)]).unwrap();
    net.inject(0, chunk, 4 * links as u32);
    net.sim.run_for(5 * SECOND);
    let printed = net.sim.take_printed();
    assert_eq!(printed.len(), 1, "{printed:?}");
    let mut degrees = [0; 12];
    for link in &net.sim.network().links {
        degrees[link.a] += 1;
        degrees[link.b] += 1;
    }
    for (node, degree) in degrees.iter().enumerate() {
        let line = format!("({}, {degree})", host(node));
        assert_eq!(printed[0].matches(&line).count(), 1, "{line} in {}", printed[0]);
    }
    net.audit();
}

#[test]
fn a_topology_is_what_the_grid_is() {
    let shape = Shape::Grid { width: 4, height: 3 };
    let mut net = Net::new(open(shape, Line::default()), 0);
    net.inject(0, app("topology").chunk("topology", [value(0)]).unwrap(), 8000);
    net.sim.run_for(5 * SECOND);
    let mut printed: Vec<String> = lines(net.sim.take_printed());
    printed.sort();
    let mut neighbours = vec![Vec::new(); 12];
    for link in &net.sim.network().links {
        neighbours[link.a].push(link.b);
        neighbours[link.b].push(link.a);
    }
    assert_eq!(printed.len(), neighbours.len(), "{printed:?}");
    for (node, neighbours) in neighbours.iter().enumerate() {
        let begin = format!("({}, [", host(node));
        let line = printed.iter().find(|line| line.starts_with(&begin)).unwrap();
        let mut said: Vec<&str> = line[begin.len()..].trim_end_matches("])").split(';').collect();
        let mut expected: Vec<String> = neighbours.iter().map(|neighbour| host(*neighbour).to_string()).collect();
        said.sort();
        expected.sort();
        assert_eq!(said, expected);
    }
    net.audit();
}

#[test]
fn a_search_finds_what_is_there_though_nodes_and_links_fail() {
    let shape = Shape::Ring { nodes: 8 };
    for broken in [None, Some(1), Some(6)] {
        let mut net = Net::new(open(shape, Line { loss: 0.02, ..Line::default() }), 6);
        let key = Value::Key([5; 16]);
        let leave = app("search").chunk("leave", [Value::text(*b"treasure"), key.clone()]).unwrap();
        net.inject(4, leave, 1);
        if let Some(node) = broken {
            net.sim.change(Change::Crash { node });
        }
        let search = app("search").chunk("search", [value(0), Value::text(*b"treasure"), key, Value::Int(0)]).unwrap();
        net.inject(0, search, 2000);
        net.sim.run_for(5 * SECOND);
        let printed = lines(net.sim.take_printed());
        // Home goes by the routes of the network, which may lead through the broken node; the search itself does not.
        let reached = net.sim.status(4).unwrap().plan.unwrap().account.evaluated;
        assert!(reached >= 2, "{broken:?}");
        if broken.is_none() {
            assert_eq!(printed, ["(10.0.0.5, 4)"]);
        }
    }
}

#[test]
fn errors_come_home() {
    let mut net = Net::line(3, Line::default());
    let mut go = |n: i64, bound| {
        let call = format!("go(hd thisHost(), getHostByName(\"n2\"), {n})");
        net.call(0, &app("errors"), &call, bound).concat()
    };
    assert_eq!(go(4, 9), "25");
    assert_eq!(go(13, 9), "(\"unlucky\", 10.0.0.3)");
    assert_eq!(go(0, 9), "ERROR: <chunk:\nwork[10.0.0.1;0]> raised DivByZero on 10.0.0.3");
    // Where nothing is left, nothing pays for a report.
    assert_eq!((go(4, 3), go(4, 1)), (String::new(), String::new()));
    assert_eq!(net.sim.status(1).unwrap().drops.of(Reason::Bound), 2);
}

#[test]
fn reliable_delivery_survives_bad_lines() {
    for seed in 0..5 {
        let mut net =
            Net::new(network(&[(0, 1), (1, 2)], Line { loss: 0.25, duplicate: 0.2, ..Line::default() }), seed);
        let chunk = app("reliable").chunk("send", [value(0), value(2)]).unwrap();
        net.inject(0, chunk, 1000);
        net.sim.run_for(10 * SECOND);
        assert_eq!(net.sim.take_printed(), ["10.0.0.3"], "seed {seed}");
        net.audit();
    }
}

/// 0 ─ 1 ─ 2 ─ 3: a carrier at 1, and the principal known at 3.
#[test]
fn a_sealed_letter_is_opened_where_it_is_for_and_once() {
    const KEY: [u8; 32] = [7; 32];
    let name = |text: &str| Name::new(text).unwrap();
    let operator =
        Principal { name: "operator".into(), key: KEY, role: "anyone".into(), services: vec![name("memoryUse")] };
    let mut lines = network(&[(0, 1), (1, 2), (2, 3)], Line::default());
    let last = Config { principals: vec![operator], restricted: vec![name("memoryUse")], ..Config::default() };
    lines.own_plan.insert(3, last);
    let mut net = Net::new(lines, 1);
    let look = app("sealed").chunk("look", [value(0)]).unwrap();
    let letter = |key: [u8; 32], number: i64| {
        let code = authenticator(&key, number, host(3), &look).unwrap();
        let who = Value::text(*b"operator");
        let arguments = [who, Value::Int(number), Value::Blob(code.into()), Value::Chunk(look.clone())];
        Arc::new(Chunk::new(Callee::Service(name("authEval")), arguments).unwrap())
    };
    let mut carry = |letter: Arc<Chunk>, to: usize| {
        let chunk = app("sealed").chunk("carry", [Value::Chunk(letter), value(to)]).unwrap();
        net.inject_packet(
            0,
            Packet { header: Header { destination: host(1), ..Header::injected(Host::default(), 9) }, chunk },
        );
        net.sim.run_for(SECOND);
        net.audit();
        net.sim.take_printed().concat()
    };
    assert!(carry(look.clone(), 3).ends_with("raised ServiceNotPresent on 10.0.0.4"), "without a seal");
    assert_eq!(carry(letter(KEY, 1), 3), "(\"operator\", 14)");
    for (why, letter, to) in
        [("twice", letter(KEY, 1), 3), ("elsewhere", letter(KEY, 2), 2), ("forged", letter([8; 32], 2), 3)]
    {
        let said = carry(letter, to);
        assert!(said.contains("authEval") && said.contains(" raised Refused on "), "{why}: {said}");
    }
    assert_eq!(carry(letter(KEY, 2), 3), "(\"operator\", 14)");
}

#[test]
fn fragments_are_put_together() {
    let mut net = Net::line(3, Line::default());
    let load = Value::text(vec![b'x'; 2000]);
    let chunk = app("fragments").chunk("carry", [value(0), value(2), load, Value::Int(300)]).unwrap();
    net.inject(0, chunk, 200);
    net.sim.run_for(SECOND);
    assert_eq!(net.sim.take_printed(), ["2000"]);
}

#[test]
fn bandwidth_is_what_a_slow_link_lets_through() {
    let mut lines = Network::unlinked(3);
    lines.link(0, 1, Line::default());
    lines.ceiling = Ceiling::all(500);
    lines.plan.restricted.clear();
    // 1 Mbit/s: of 200 packets of 1000 bytes in half a second about 100 pass in the time of its queue and a bit.
    lines.link(1, 2, Line { rate_mbit: 1.0, queue_bytes: 20_000, ..Line::default() });
    let mut net = Net::new(lines, 1);
    let call = "measure(hd thisHost(), getHostByName(\"n2\"), \"m\", 200, 1000, 400, 2)";
    assert_eq!(net.call(0, &app("bandwidth"), call, 500), Vec::<String>::new());
    let header = Header { destination: host(2), ..Header::injected(Host::default(), 9) };
    let printed = inject(&mut net, "bandwidth", "report(getHostByName(\"n0\"), \"m\")", header);
    let numbers: Vec<u32> =
        printed[0].trim_matches(['(', ')']).split(", ").map(|number| number.parse().unwrap()).collect();
    let rate = f64::from(numbers[1]) * 8.0 / f64::from(numbers[2]) / 1000.0;
    assert!(numbers[0] < 200 && (0.7..1.0).contains(&rate), "{printed:?}: {rate} Mbit/s");
}
