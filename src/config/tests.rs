//! Configurations of nodes: what is read, and what is refused.

use super::*;

const LINE: &str = r#"
    name = "b"
    [[port]]
    udp = "127.0.0.1:4002"
    address = ["10.0.0.2/24"]
    neighbours = [
        { address = "10.0.0.1", at = "127.0.0.1:4001" },
        { address = "10.0.0.3", at = "127.0.0.1:4003" },
    ]
    [[route]]
    to = "10.9.0.0/16"
    via = "10.0.0.3"
"#;

#[test]
fn an_overlay_node_is_planned_from_its_file() {
    let (config, plans) = NodeFile::parse(LINE).unwrap().plan().unwrap();
    assert_eq!(config.neighbours.len(), 2);
    let next = config.routes.next_hop("10.9.1.1".parse().unwrap()).unwrap();
    assert_eq!(next.via.to_string(), "10.0.0.3");
    assert_eq!(config.routes.next_hop("10.0.0.9".parse().unwrap()), None, "nobody else is on an overlay");
    assert!(matches!(&plans[0].opening, Opening::Udp(overlay) if overlay.peers.len() == 2));
}

#[test]
fn a_static_route_without_its_next_hop_costs_no_other() {
    let file = NodeFile::parse(LINE).unwrap();
    let (mut config, _) = file.plan().unwrap();
    assert_eq!(file.fixed_routes_now(&config).1, 0);
    config.neighbours.retain(|neighbour| neighbour.addr.to_string() != "10.0.0.3");
    config.ports[0].addresses.clear();
    let (routes, gone) = file.fixed_routes_now(&config);
    assert_eq!((routes.next_hop("10.9.1.1".parse().unwrap()), gone), (None, 1));
    assert!(routes.next_hop("10.0.0.1".parse().unwrap()).is_some(), "the neighbours that are left");
}

#[test]
fn an_interface_that_is_not_there_is_waited_for() {
    let file = NodeFile::parse("name = \"a\"\n[[port]]\npacket = \"nosuch0\"").unwrap();
    let (config, plans) = file.plan().unwrap();
    assert_eq!((plans[0].opening.interface().unwrap().index, config.ports[0].mtu), (0, 1500));
    // Nor does a node stop for one that has become something else.
    let lo = crate::sys::netlink::interfaces().unwrap().into_iter().map(|found| Interface { mac: None, ..found });
    let lo: Vec<Interface> = lo.map(|found| Interface { name: "nosuch0".into(), ..found }).collect();
    let (_, plan) = file.native_ports(&lo).remove(0).unwrap();
    assert_eq!(plan.opening.interface().unwrap().index, 0);
}

#[test]
fn mistakes_are_refused_with_cause_and_remedy() {
    let refusal = |text: &str| match NodeFile::parse(text).and_then(|file| file.plan()) {
        Ok(_) => panic!("accepted: {text}"),
        Err(error) => error.to_string(),
    };
    assert!(refusal("name = \"a\"\nnme = 1").contains("unknown field `nme`"));
    let xdp = |lines: &str| refusal(&LINE.replacen("[[port]]", &format!("[xdp]\n{lines}\n[[port]]"), 1));
    assert!(xdp("busy_pol_us = 1").contains("unknown field `busy_pol_us`"));
    assert!(xdp("mode = \"fast\"").contains("`auto`, `copy`, `zero-copy`"));
    assert!(xdp("frames_per_queue = 100").contains("a power of two from 64 to 16384"));
    assert!(xdp("queues_max = 0").contains("leave xdp out"));
    assert!(refusal(&LINE.replacen("address", "xdp = true\naddress", 1)).contains("for native ports"));
    assert!(refusal("name = \"a\"").contains("at least one"));
    assert!(refusal("name = \"../a\"\n[[port]]\nudp=\"127.0.0.1:1\"").contains("a node's name is"));
    assert!(refusal("name = \"a\"\n[[port]]\nudp=\"127.0.0.1:1\"").contains("needs address"));
    assert!(refusal("name = \"a\"\n[[port]]\nname=\"x\"").contains("either udp"));
    assert!(refusal(&LINE.replace("via = \"10.0.0.3\"", "via = \"10.7.0.3\"")).contains("no port has this next hop"));
    assert!(refusal(&LINE.replace(", at = \"127.0.0.1:4003\"", "")).contains("needs at ="));
}

fn with_kernel(kernel: &str, more: &str) -> Result<NodeFile, String> {
    let text = format!("name = \"a\"\n{more}\n[[port]]\npacket = \"eth0\"\nkernel = {kernel}\n");
    NodeFile::parse(&text).map_err(|error| error.to_string())
}

#[test]
fn a_port_says_yes_no_or_auto_and_writes_it_so() {
    for (text, wish) in [("true", KernelWish::Yes), ("false", KernelWish::No), ("\"auto\"", KernelWish::Auto)] {
        let read = with_kernel(text, "").unwrap();
        assert_eq!(read.ports[0].kernel, wish);
        let again = NodeFile::parse(&toml::to_string(&read).unwrap()).unwrap();
        assert_eq!(again.ports[0].kernel, wish, "{text}");
    }
    for wrong in ["\"yes\"", "1"] {
        let why = with_kernel(wrong, "").unwrap_err();
        assert!(why.contains("true, false or \"auto\""), "{why}");
    }
}

#[test]
fn a_node_with_routes_of_its_own_has_no_kernel_half_by_choice() {
    let has = |kernel: &str, more: &str| with_kernel(kernel, more).unwrap().has_half();
    assert!(has("\"auto\"", "routes = \"kernel\"") && !has("\"auto\"", "") && !has("false", "routes = \"kernel\""));
}
