//! What both worlds make of one file, and what is refused of it.

use super::*;

fn parse(text: &str) -> Result<Topology, Error> {
    Topology::parse(text, "t.toml")
}

fn refused(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

const LINE: &str = r#"
name = "line"
[nodes.a]
[nodes.r]
active = true
anode.workers = 1
[nodes.b]
addresses = ["10.0.0.3/32"]
[[links]]
ends = ["a", "r"]
prefixes = ["10.0.1.0/24", "fd00:0:1::/64"]
[[links]]
ends = ["r", { node = "b", interface = "up0", mac = "02:00:00:00:00:09", addresses = ["10.0.2.9/24", "10.0.3.9/24"] }]
prefixes = ["10.0.2.0/24", "fd00:0:2::/64"]
mtu = 1400
"#;

/// A file that was written for the simulator is a lab with the simulator's names and addresses.
#[test]
fn a_shape_is_a_lab_of_active_nodes_with_the_simulators_addresses() {
    let text = "duration_s = 2\nfamily = 'both'\n[topology]\nshape = 'line'\nnodes = 3\n[line]\nrate_mbit = 0\n[node]\nbound_max = 9\n\
        [nodes.n1]\nanode.sizes.codes = 7\n[[code]]\nname = 'ping'\n[[traffic]]\ncode = 'ping'\n";
    let lab = Topology::parse(text, "/x/my-line.toml").unwrap();
    assert_eq!(lab.name, "my_line");
    let network =
        crate::sim::Network::new(crate::sim::Shape::Line { nodes: 3 }, crate::sim::Line::default(), 0).unwrap();
    let network = crate::sim::Network { family: crate::sim::Family::Both, ..network };
    for (number, node) in lab.nodes.iter().enumerate() {
        assert_eq!(node.name, network.names[number]);
        assert!(node.active);
        let own: Vec<_> = node.addresses.iter().map(|cidr| cidr.addr).collect();
        assert_eq!(own, network.addresses(number).collect::<Vec<_>>());
        assert_eq!(crate::lab::nodes::configuration("x", node)["port"][0]["bound_max"].as_integer(), Some(9));
    }
    let middle = lab.node("n1").unwrap();
    let ends: Vec<_> = middle.interfaces.iter().flat_map(|end| &end.addresses).map(ToString::to_string).collect();
    assert_eq!(ends, ["172.16.0.2/30", "fd01::2/64", "172.16.0.5/30", "fd01:0:0:1::1/64"]);
    assert_eq!(middle.interfaces[0].quality.delay_ms, 1.0, "as in the simulator");
    assert_eq!(crate::lab::nodes::configuration("x", middle)["sizes"]["codes"].as_integer(), Some(7));
    assert!(lab.hosts().starts_with("10.0.0.1 n0\nfd00::1 n0\n"), "{}", lab.hosts());
    let random = "seed = 5\ntopology = { shape = 'random', nodes = 8, degree = 3 }\nname = 'r'";
    let ends = |topology: &Topology| topology.nodes.iter().map(|node| node.interfaces.len()).collect::<Vec<_>>();
    assert_eq!(ends(&parse(random).unwrap()), [3; 8]);
    let listed = "name = 'l'\n[topology]\nnodes = ['a', 'b']\n[[link]]\nbetween = ['b', 'a']\nloss = 0.5\n";
    let listed = parse(listed).unwrap();
    assert_eq!(listed.node("b").unwrap().interfaces[0].addresses[0].to_string(), "172.16.0.1/30", "the first end");
    assert_eq!(listed.node("b").unwrap().v4().unwrap().to_string(), "10.0.0.2");
}

#[test]
fn what_a_lab_cannot_do_is_refused_with_place_and_remedy() {
    let line = "topology = { shape = 'line', nodes = 3 }\n";
    for (more, cause) in [
        (
            "[[crash]]\nnode = 'n1'\nat_s = 1",
            "t.toml:2: a lab has no time at which a node crashes; leave it to `anode sim run`",
        ),
        ("[[partition]]\nat_s = 1", "t.toml:2: a lab has no time at which links are cut"),
        ("ethernet_share = 0.5", "t.toml:2: all links of a lab carry Ethernet; leave ethernet_share out"),
        ("[line]\ncarries = 'overlay'", "t.toml:2: all links of a lab carry Ethernet; leave carries out"),
        ("[node]\nprepare_ms = 5", "t.toml:2: prepare_ms and look_up_ms are times of the simulator"),
        ("[nodes.n1]\naddresses = ['10.1.1.1/32']", "t.toml:2: [topology] numbers its nodes"),
        ("[nodes.n9]", "t.toml:2: 'n9' is no node of [topology]"),
        ("[[link]]\nbetween = ['n0', 'n2']", "t.toml:2: a link beside those of a shape"),
        ("[line]\nprefixes = ['10.0.0.0/24']", "t.toml:2: [line] with ends or prefixes"),
    ] {
        let text = refused(&format!("{line}{more}\n"));
        assert!(text.contains(cause), "{text}\nshould contain\n{cause}");
    }
    let text = refused(&format!("{LINE}carries = 'ethernet'"));
    assert!(text.contains("t.toml:12: carries belongs to a file with [topology]"), "{text}");
    let unnamed = Topology::parse(line, "/x/§.toml").unwrap_err().to_string();
    assert!(unnamed.contains("§.toml:1: the file has no name, and '§' cannot name a lab; write name"), "{unnamed}");
}

/// Names of nodes may be longer than those of interfaces, which keep apart nevertheless.
#[test]
fn interfaces_to_nodes_with_long_names_are_distinct() {
    let text = "name = 'p'\nnodes.gate-of-the-west = {}\nnodes.gate-of-the-east = {}\nnodes.c = {}\n\
        links = [{ ends = ['c', 'gate-of-the-west'] }, { ends = ['c', 'gate-of-the-east'] }, \
        { ends = ['c', 'gate-of-the-east'] }]";
    let lab = parse(text).unwrap();
    let names: Vec<_> = lab.node("c").unwrap().interfaces.iter().map(|end| &*end.name).collect();
    assert!(names.iter().all(|name| name.len() == 15 && name.starts_with("to-gat")), "{names:?}");
    assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>().len(), 3, "{names:?}");
    assert!(names[2].ends_with("-2"), "{names:?}");
    let long = refused("name = 'experiments_2026'\n[nodes.gate-of-the-west]\nactive = true");
    assert!(long.contains("t.toml:2: 'experiments_2026.gate-of-the-west' is longer than a running node"), "{long}");
}

#[test]
fn configurations_name_nodes_where_addresses_are_asked_for() {
    let text = LINE.replace(
        "anode.workers = 1",
        "anode = { route = [{ to = \"b\", via = \"a\" }], port = [{ udp = \"0.0.0.0:3322\", neighbours = [{ address = \"b\", \
         at = \"b:3322\" }, { address = \"10.9.9.9\" }] }] }",
    );
    let line = parse(&text).unwrap();
    let config = line.node("r").unwrap().anode.clone().unwrap();
    let (route, near) = (&config["route"][0], &config["port"][0]["neighbours"]);
    assert_eq!([route["to"].as_str(), route["via"].as_str()], [Some("10.0.0.3/32"), Some("10.0.1.1")]);
    assert_eq!([near[0]["address"].as_str(), near[0]["at"].as_str()], [Some("10.0.2.9"), Some("10.0.2.9:3322")]);
    assert_eq!(near[1]["address"].as_str(), Some("10.9.9.9"));
    let wrong = refused(&text.replace("via = \"a\"", "via = \"q\""));
    assert!(wrong.contains("t.toml:4: 'r' names 'q' as via, which is neither an address nor a node"), "{wrong}");
}

#[test]
fn a_row_of_names_has_none_twice() {
    let text = refused("name = 'p'\n[topology]\nnodes = ['a', 'b', 'a']\n");
    assert!(text.contains("t.toml:2: 'a' is named twice; leave one of them out"), "{text}");
    assert!(refused("name = 'p'\n[topology]\nnodes = []\n").contains("0 nodes"));
}

/// What a file asks for is refused before anything of that size is made.
#[test]
fn networks_of_any_size_are_refused_at_once() {
    let shape = |keys: &str| refused(&format!("name = \"x\"\n[topology]\nshape = {keys}\n"));
    let wanted = "60000 nodes; give at most 1024, or run it by `anode sim`";
    assert!(shape("\"line\"\nnodes = 60000").contains(wanted), "{}", shape("\"line\"\nnodes = 60000"));
    let dense = shape("\"random\"\nnodes = 60000\ndegree = 59998");
    assert!(dense.contains("at most 1000000 links"), "{dense}");
}

/// `up` writes files there, as root, such as `hosts`.
#[test]
fn a_file_says_nothing_of_where_run_directories_are() {
    let said = refused("name = 'x'\n[nodes.a]\nactive = true\nanode.run_dir = '/etc'\n");
    assert!(said.contains("node 'a' has a run_dir in its anode section; leave it out: "), "{said}");
}
