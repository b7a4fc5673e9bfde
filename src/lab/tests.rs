//! Meanings of lab files, and refused ones.

use std::collections::BTreeMap;

use super::observe::Observed;
use super::*;

fn parse(text: &str) -> Result<Topology, Error> {
    Ok(Topology::parse(text, "t.toml")?)
}

fn refused(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

fn routes(topology: &Topology, node: &str) -> Vec<String> {
    let text = |r: &Route| format!("{} via {} {}", r.to, r.via.unwrap(), r.interface);
    topology.node(node).unwrap().routes.iter().map(text).collect()
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

#[test]
fn a_line_gets_names_numbers_and_routes() {
    let line = parse(LINE).unwrap();
    let kinds: Vec<_> = line.nodes.iter().map(|n| (n.name.as_str(), n.kind, n.active)).collect();
    assert_eq!(kinds, [("a", Kind::Host, false), ("b", Kind::Host, false), ("r", Kind::Router, true)]);
    let r = line.node("r").unwrap();
    assert_eq!(r.anode.as_ref().unwrap()["workers"].as_integer(), Some(1));
    assert_eq!(r.interfaces[1].name, "to-b");
    assert_eq!(r.interfaces[1].mac.to_string(), "02:61:6e:00:03:02");
    assert_eq!(r.interfaces[1].peer, ("b".to_owned(), "up0".to_owned()));
    assert_eq!(r.interfaces[1].addresses[1].to_string(), "fd00:0:2::1/64");
    assert_eq!(r.interfaces[1].mtu, 1400);
    let b = line.node("b").unwrap();
    assert_eq!(b.interfaces[0].mac.to_string(), "02:00:00:00:00:09");
    assert_eq!(b.v4().unwrap().to_string(), "10.0.0.3");
    assert_eq!(b.v6(), None);
    assert_eq!(
        routes(&line, "a"),
        ["10.0.2.0/24 via 10.0.1.2 to-r", "10.0.0.3/32 via 10.0.1.2 to-r", "fd00:0:2::/64 via fd00:0:1::2 to-r"]
    );
    assert_eq!(routes(&line, "r"), ["10.0.0.3/32 via 10.0.2.9 to-b"], "10.0.3.0/24 is a host's affair");
    assert_eq!(line.links(), 2);
}

#[test]
fn a_cheaper_detour_beats_a_direct_link_and_ties_go_to_earlier_links() {
    let diamond = |cost: u32| {
        parse(&format!(
            r#"
            name = "d"
            [nodes]
            s = {{}}
            x = {{}}
            y = {{}}
            t = {{ addresses = ["10.9.9.9/32"] }}
            [[links]]
            ends = ["s", "x"]
            prefixes = ["10.0.1.0/24"]
            cost = {cost}
            [[links]]
            ends = ["s", "y"]
            prefixes = ["10.0.2.0/24"]
            [[links]]
            ends = ["x", "t"]
            prefixes = ["10.0.3.0/24"]
            [[links]]
            ends = ["y", "t"]
            prefixes = ["10.0.4.0/24"]"#
        ))
        .unwrap()
    };
    assert!(routes(&diamond(1), "s").contains(&"10.9.9.9/32 via 10.0.1.2 to-x".to_owned()));
    assert!(routes(&diamond(3), "s").contains(&"10.9.9.9/32 via 10.0.2.2 to-y".to_owned()));
    assert!(routes(&diamond(5), "s").contains(&"10.0.3.0/24 via 10.0.2.2 to-y".to_owned()));
}

#[test]
fn hosts_are_not_passed_through() {
    let text = LINE.replace("active = true", "active = true\nkind = \"host\"");
    let line = parse(&text).unwrap();
    assert!(routes(&line, "a").is_empty());
}

const SWITCHED: &str = r#"
name = "s"
static_neighbours = true
[nodes]
sw = { kind = "switch", prefixes = ["10.0.0.0/24"] }
sx = { kind = "switch" }
a = {}
b = { addresses = ["10.7.7.7/32"] }
c = {}
[[links]]
ends = ["a", "sw"]
[[links]]
ends = ["sw", "b"]
[[links]]
ends = ["sx", "sw"]
[[links]]
ends = [{ node = "c", addresses = ["10.0.0.200/24"] }, "sx"]
"#;

#[test]
fn whoever_is_behind_a_switch_is_a_neighbour() {
    let lab = parse(SWITCHED).unwrap();
    let segments: Vec<usize> = lab.nodes.iter().flat_map(|n| n.interfaces.iter().map(|i| i.segment)).collect();
    assert!(segments.iter().all(|segment| *segment == 0), "{segments:?}");
    assert_eq!(lab.node("b").unwrap().interfaces[0].addresses[0].to_string(), "10.0.0.2/24");
    assert_eq!(routes(&lab, "a"), ["10.7.7.7/32 via 10.0.0.2 to-sw"]);
    let known: Vec<String> =
        lab.node("a").unwrap().neighbours.iter().map(|n| format!("{} {}", n.addr, n.mac)).collect();
    assert_eq!(known, ["10.0.0.2 02:61:6e:00:02:01", "10.0.0.200 02:61:6e:00:03:01"]);
    assert!(lab.node("sw").unwrap().routes.is_empty());
}

#[test]
fn links_that_are_not_routed_carry_only_their_own_block() {
    let text = SWITCHED.replace("ends = [\"sw\", \"b\"]", "ends = [\"sw\", \"b\"]\nrouted = false");
    assert!(routes(&parse(&text).unwrap(), "a").is_empty());
    let text = SWITCHED.replace("ends = [\"a\", \"sw\"]", "ends = [\"a\", \"sw\"]\nrouted = false");
    assert!(routes(&parse(&text).unwrap(), "a").is_empty());
}

#[test]
fn given_routes_and_neighbours_replace_computed_ones() {
    let text = LINE.replace(
        "[nodes.a]",
        r#"[nodes.a]
        routes = [{ to = "0.0.0.0/0", via = "10.0.1.2" }]
        neighbours = [{ address = "10.0.1.77", mac = "02:00:00:00:00:77" }]
        sysctls = { "net.ipv4.ip_default_ttl" = 7, "net.ipv4.ip_forward" = true }"#,
    );
    let line = parse(&text).unwrap();
    let a = line.node("a").unwrap();
    assert_eq!(routes(&line, "a"), ["0.0.0.0/0 via 10.0.1.2 to-r"]);
    assert_eq!(a.neighbours[0].interface, "to-r");
    let sysctls = plan::sysctls(a);
    assert_eq!(sysctls["net/ipv4/ip_default_ttl"], "7");
    assert_eq!(sysctls["net/ipv4/ip_forward"], "1");
}

#[test]
fn parallel_links_get_distinct_interfaces() {
    let text = "name = 'p'\nnodes.a = {}\nnodes.b = {}\nlinks = [{ ends = ['a', 'b'] }, { ends = ['a', 'b'] }]";
    let lab = parse(text).unwrap();
    let peers: Vec<_> = lab.nodes.iter().flat_map(|n| n.interfaces.iter().map(|i| (&*i.name, &*i.peer.1))).collect();
    assert_eq!(peers, [("to-b", "to-a"), ("to-b-2", "to-a-2"), ("to-a", "to-b"), ("to-a-2", "to-b-2")]);
}

#[test]
fn syntax_errors_name_file_line_and_key() {
    let text = refused("name = \"x\"\n[nodes.a]\ncolour = 1\n");
    assert!(text.contains("t.toml") && text.contains("line 3") && text.contains("unknown field `colour`"), "{text}");
    let text = refused(&LINE.replace("mtu = 1400", "delay = 3"));
    assert!(text.contains("unknown field `delay`") && text.contains("write delay_ms"), "{text}");
    let text = refused(&LINE.replace("ends = [\"a\", \"r\"]", "ends = [{ node = \"a\", colour = 1 }, \"r\"]"));
    assert!(text.contains("colour"), "{text}");
    assert!(refused(&LINE.replace("10.0.1.0/24", "10.0.1.0/33")).contains("10.0.1.0/33"));
}

#[test]
fn contradictions_name_line_cause_and_remedy() {
    let swap = |from: &str, to: &str| refused(&LINE.replace(from, to));
    for (text, cause) in [
        (swap("name = \"line\"", "name = \"my-line\""), "t.toml:2: 'my-line' cannot name a lab; use"),
        (swap("[nodes.a]", "[nodes.A]"), "t.toml:3: 'A' cannot name a node; use"),
        (
            swap("ends = [\"a\", \"r\"]", "ends = [\"a\", \"q\"]"),
            "t.toml:9: the link names 'q', which is no node; add [nodes.q]",
        ),
        (swap("ends = [\"a\", \"r\"]", "ends = [\"a\", \"a\"]"), "joins 'a' with itself"),
        (swap("mtu = 1400", "mtu = 1000"), "t.toml:12: mtu = 1000 is out of range; use 1280 to 65535"),
        (swap("mtu = 1400", "rate_mbit = 0"), "t.toml:12: rate_mbit = 0 would send nothing; leave it out"),
        (swap("mtu = 1400", "loss = 1.01"), "t.toml:12: loss = 1.01 is out of range; give a share from 0 to 1"),
        (swap("mtu = 1400", "duplicate = -1"), "duplicate = -1 is out of range; give a share"),
        (swap("mtu = 1400", "reorder = nan"), "reorder = NaN is out of range; give a share"),
        (swap("mtu = 1400", "rate_mbit = -5"), "rate_mbit = -5 is out of range; give Mbit/s"),
        (
            swap("mtu = 1400", "delay_ms = 1\njitter_ms = 2"),
            "jitter_ms = 2 is out of range; give milliseconds from 0 to delay_ms",
        ),
        (swap("mtu = 1400", "queue_bytes = 9000"), "queue_bytes = 9000 on a link without a rate"),
        (swap("mtu = 1400", "queue_packets = 9"), "queue_packets = 9 on a link without a rate"),
        (swap("mtu = 1400", "rate_mbit = 1\nqueue_packets = 0"), "queue_packets = 0 would send nothing"),
        (swap("mtu = 1400", "rate_mbit = 1\nqueue_bytes = 1000"), "queue_bytes = 1000 has no room for a frame"),
        (swap("mtu = 1400", "reorder_ms = 5"), "reorder_ms on a link that holds no frame back"),
        (swap("mtu = 1400", "rate_mbit = 10000\ndelay_ms = 1000"), "more than 67108864 bytes under way"),
        (swap("mtu = 1400", "mtu = 65536"), "mtu = 65536 is out of range; use 1280 to 65535"),
        (swap("mtu = 1400", "cost = 0"), "cost = 0"),
        (swap("active = true\n", ""), "t.toml:4: node 'r' has an anode section but is not active; write active = true"),
        (swap("10.0.2.9/24", "10.0.1.1/24"), "10.0.1.1 is given twice"),
        (swap("[\"10.0.1.0/24\", ", "[\"10.0.1.0/31\", "), "10.0.1.0/31 has no address number 2"),
        (swap("up0", "lo"), "'lo' cannot name an interface"),
        (swap("up0", "a-name-too-long-"), "cannot name an interface"),
        (swap("[nodes.a]", "[nodes.a]\nprefixes = [\"10.0.0.0/8\"]"), "has prefixes but is no switch"),
        (swap("[nodes.a]", "[nodes.a]\nsysctls = { \"kernel.panic\" = 1 }"), "'kernel.panic'"),
        (swap("[nodes.a]", "[nodes.a]\nsysctls = { \"net/../kernel/panic\" = 1 }"), "not a parameter"),
        (
            swap("[nodes.a]", "[nodes.a]\nroutes = [{ to = \"10.8.0.0/16\", via = \"10.7.0.1\" }]"),
            "no link of 'a' leads to 10.7.0.1",
        ),
        (
            swap("[nodes.a]", "[nodes.a]\nroutes = [{ to = \"10.8.0.0/16\", via = \"fd00:0:1::2\" }]"),
            "another address family",
        ),
        (swap("[nodes.a]", "[nodes.a]\nroutes = [{ to = \"10.8.0.0/16\" }]"), "leads nowhere"),
        (
            swap("active = true", "active = true\nkind = \"switch\""),
            "the switch 'r' has addresses, routes, neighbours or is active",
        ),
        (
            refused(
                &SWITCHED.replace("ends = [\"a\", \"sw\"]", "ends = [\"a\", \"sw\"]\nprefixes = [\"10.3.0.0/24\"]"),
            ),
            "give them to the switch",
        ),
    ] {
        assert!(text.contains(cause), "{text}\nshould contain\n{cause}");
    }
}

/// A ring has room for 64 frames, each in a slot of a power of two: 8 MiB for frames of 64 kB.
#[test]
fn links_whose_rings_need_too_much_memory_are_refused() {
    let lab = |links: usize, mtu: u32| {
        let link = format!("[[links]]\nends = [\"a\", \"b\"]\ndelay_ms = 1\nmtu = {mtu}\n");
        format!("name = \"l\"\nnodes.a = {{}}\nnodes.b = {{}}\n{}", link.repeat(links))
    };
    parse(&lab(64, 65535)).unwrap();
    let text = refused(&lab(65, 65535));
    assert!(text.contains("would need 1040 MiB of kernel memory; they may have 1024"), "{text}");
}

#[test]
fn an_empty_machine_needs_every_line_and_a_complete_one_none() {
    let line = parse(LINE).unwrap();
    let nothing = BTreeMap::new();
    let links = plan::links(&line, &nothing);
    assert_eq!(
        links,
        [
            "link add to-r netns an-line-a address 02:61:6e:00:01:01 mtu 1500 type veth peer name to-a netns an-line-r address \
             02:61:6e:00:03:01 mtu 1500",
            "link add up0 netns an-line-b address 02:00:00:00:00:09 mtu 1400 type veth peer name to-b netns an-line-r address \
             02:61:6e:00:03:02 mtu 1400"
        ]
    );
    let a = line.node("a").unwrap();
    let lines = plan::prepare(&line, a, &nothing);
    assert_eq!(lines, ["link set dev lo alias \"anode lab line\"", "link set dev lo up"]);
    let here = link_answer("to-r", 2, 2, "02:61:6e:00:01:01", "", "[]");
    let lines = plan::configure(&line, a, &here);
    assert_eq!(lines.first().unwrap(), "link set dev to-r alias \"anode lab line: r to-a\"");
    assert!(lines.contains(&"address replace fd00:0:1::1/64 dev to-r nodad".to_owned()));
    assert!(lines.contains(&"route replace 10.0.2.0/24 via 10.0.1.2 dev to-r proto 107".to_owned()));
}

#[test]
fn a_shaped_link_ends_in_a_namespace_of_its_own() {
    let text = "name = 'p'\nseed = 3\nnodes.a = {}\nnodes.b = {}\nnodes.c = {}\n\
        links = [{ ends = ['b', 'c'] }, { ends = ['b', 'a'], delay_ms = 2, mtu = 1400 }]";
    let lab = parse(text).unwrap();
    let wired = super::links::wired(&lab);
    assert_eq!(wired.nodes.iter().map(|node| &*node.name).collect::<Vec<_>>(), ["-links", "a", "b", "c"]);
    let lines = plan::links(&wired, &BTreeMap::new());
    let ends =
        |line: &String| line.split(' ').filter(|word| word.starts_with(['l', 't']) && word.contains('-')).count();
    assert!(lines.len() == 3 && lines.iter().all(|line| ends(line) == 2), "{lines:?}");
    assert!(
        lines[0].starts_with("link add l1-1 netns an-p--links") && lines[0].contains("peer name to-b netns an-p-a")
    );
    assert_eq!(plan::sysctls(&wired.nodes[0])["net/ipv6/conf/all/disable_ipv6"], "1");
    assert_eq!(plan::apart(&wired.nodes[0])[0], "link set dev l1-1 gro_max_size 1");
    let spec = super::links::spec::Spec::of(&lab);
    let [link] = &spec.links[..] else { panic!("{spec:?}") };
    let meters = [&*link.ends[0].meter, &*link.ends[1].meter];
    assert_eq!((spec.seed, link.number, link.mtu, meters), (3, 1, 1400, ["b to-a", "a to-b"]));
    // A lab without such links is built as it is written.
    let plain = parse(LINE).unwrap();
    assert_eq!(super::links::wired(&plain).nodes.len(), plain.nodes.len());
}

#[test]
fn links_without_addresses_are_numbered_where_the_file_says_so() {
    let text = "name = 'p'\naddresses = 'auto'\nnodes.a = {}\nnodes.b = {}\nnodes.s = { kind = 'switch' }\n\
        links = [{ ends = ['a', 'b'] }, { ends = ['a', 's'] }, { ends = ['s', 'b'] }, \
        { ends = ['a', 'b'], prefixes = ['10.1.0.0/24'] }]";
    let lab = parse(text).unwrap();
    let of = |node: &str| {
        let addresses = lab.node(node).unwrap().interfaces.iter().flat_map(|end| &end.addresses);
        addresses.map(ToString::to_string).collect::<Vec<_>>()
    };
    let a = ["10.128.0.1/24", "fd00:a::1/64", "10.128.1.1/24", "fd00:a:0:1::1/64", "10.1.0.1/24"];
    let b = ["10.128.0.2/24", "fd00:a::2/64", "10.128.1.2/24", "fd00:a:0:1::2/64", "10.1.0.2/24"];
    assert_eq!((of("a"), of("b")), (a.map(String::from).into(), b.map(String::from).into()));
    let taken = refused(&text.replace("10.1.0.0/24", "10.128.1.0/24"));
    assert!(taken.contains("10.128.1.0 meets the block that this link would have; give the link prefixes"), "{taken}");
    assert!(refused(&text.replace("'auto'", "'some'")).contains("auto"));
    assert!(parse(&text.replace("addresses = 'auto'\n", "")).unwrap().nodes[0].interfaces[0].addresses.is_empty());
}

#[test]
fn nodes_know_the_meters_of_their_links() {
    let text = "name = 'p'\nnodes.a = { active = true, anode = { port = [{ udp = '10.0.1.1:7000' }, { packet = 'to-c' }] } }\n\
        nodes.b = { active = true }\nnodes.c = {}\n\
        links = [{ ends = ['a', 'b'], prefixes = ['10.0.1.0/24'], rate_mbit = 2.5 }, { ends = ['a', 'c'] }]";
    let lab = parse(text).unwrap();
    let ports = |node: &str| nodes::configuration("p", lab.node(node).unwrap())["port"].as_array().unwrap().clone();
    let meter = |port: &toml::Value| Some(port.get("meter")?["name"].as_str()?.to_owned());
    assert_eq!(ports("a").iter().map(meter).collect::<Vec<_>>(), [Some("a to-b".into()), None]);
    assert_eq!(ports("b").iter().map(meter).collect::<Vec<_>>(), [Some("b to-a".into())]);
}

fn link_answer(name: &str, index: u32, peer: u32, mac: &str, alias: &str, addresses: &str) -> Observed {
    let text = format!(
        r#"[{{"ifindex":{index},"link_index":{peer},"ifname":"{name}","mtu":1500,"address":"{mac}","ifalias":"{alias}","flags":[],
            "linkinfo":{{"info_kind":"veth"}},"addr_info":{addresses}}}]"#
    );
    observe::parse(text.as_bytes()).unwrap()
}

#[test]
fn a_link_that_leads_elsewhere_is_replaced_and_foreign_ones_stay() {
    let lab = parse("name = 'p'\nnodes.a = {}\nnodes.b = {}\nlinks = [{ ends = ['a', 'b'] }]").unwrap();
    let (a, b) = ("02:61:6e:00:01:01", "02:61:6e:00:02:01");
    let at_b = || link_answer("to-a", 3, 2, b, "", "[]");
    let intact = BTreeMap::from([("a", link_answer("to-b", 2, 3, a, "anode lab p: b to-a", "[]")), ("b", at_b())]);
    assert!(plan::links(&lab, &intact).is_empty());
    assert!(plan::stale(&lab, &lab.nodes[0], &intact).is_empty());
    for wrong in [
        link_answer("to-b", 2, 4, a, "", "[]"),
        link_answer("to-b", 2, 3, a, "anode lab p: c to-a", "[]"),
        link_answer("to-b", 2, 3, "02:61:6e:00:09:09", "", "[]"),
    ] {
        let observed = BTreeMap::from([("a", wrong), ("b", at_b())]);
        assert_eq!(plan::stale(&lab, &lab.nodes[0], &observed), ["link del dev to-b"]);
        assert_eq!(plan::links(&lab, &observed).len(), 1);
    }
    let extra = |mac| BTreeMap::from([("a", link_answer("veth7", 2, 3, mac, "", "[]"))]);
    assert_eq!(plan::stale(&lab, &lab.nodes[0], &extra("02:61:6e:00:01:07")), ["link del dev veth7"]);
    assert!(plan::stale(&lab, &lab.nodes[0], &extra("02:00:00:00:00:07")).is_empty(), "made by somebody else");
}

#[test]
fn addresses_that_are_no_longer_wanted_go_but_link_local_ones_stay() {
    let lab = parse("name = 'p'\nnodes.a = {}\nnodes.b = {}\nlinks = [{ ends = ['a', 'b'] }]").unwrap();
    let addresses = r#"[{"local":"10.9.9.9","prefixlen":24},{"local":"fe80::1","prefixlen":64}]"#;
    let here = link_answer("to-b", 2, 3, "02:61:6e:00:01:01", "anode lab p: b to-a", addresses);
    let lines = plan::configure(&lab, &lab.nodes[0], &here);
    assert_eq!(lines, ["address del 10.9.9.9/24 dev to-b", "link set dev to-b up"]);
}

#[test]
fn a_lab_can_be_renamed_within_the_rules() {
    let line = parse(LINE).unwrap();
    assert_eq!(line.clone().renamed("t1").unwrap().namespace("a"), "an-t1-a");
    assert!(line.renamed("a-b").unwrap_err().to_string().contains("cannot name a lab"));
}

/// Names of labs come from files, and from the command line. This one leads out of the directory of records.
#[test]
fn a_name_that_no_lab_may_have_leads_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let (file, record) = (folder.path().join("lab.toml"), folder.path().join("x.json"));
    std::fs::write(&record, "{}").unwrap();
    let name = format!("../../..{}", folder.path().join("x").display());
    std::fs::write(&file, format!("name = {name:?}\n")).unwrap();
    assert_eq!(name_in(&file).unwrap(), name);
    for refused in [Lab::down(&name).map(drop), Lab::open(&name).map(drop)] {
        assert!(matches!(&refused, Err(Error::NoLab { .. })), "{refused:?}");
    }
    assert!(record.exists(), "it is no lab's");
}
