//! A graph of a node with the host at one of its ports: only if its role says so.

use crate::apply::apply;
use crate::graphs::{GRAPH, Stand};
use std::fs;
use std::process::Output;

/// The pair: its one end is the port, its other one the host's.
const PAIR: &str = "ip link add host0 type veth peer name tap0 && ip address add 10.9.0.1/24 dev host0 && ip link set host0 up \
                    && ip link set tap0 up && ip neigh add 10.9.0.2 dev host0 \
                    lladdr $(ip -o link show dev tap0 | sed 's/.*ether \\([^ ]*\\).*/\\1/') \
                    && for f in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 > $f; done";

/// What the graph takes.
const TAKES: [&str; 4] = ["--take", "to-a/ip/udp *:7002", "--take", "tap0/ip/udp *:7003"];

/// The node's configuration has the port from now on, and its role the host there, or not.
fn configured(stand: &Stand, has_host: bool) {
    let config = fs::read_to_string(stand.net.dir("r").join("node.toml")).unwrap();
    let mut wanted: toml::Table = config.parse().unwrap();
    let port: toml::Table = "packet = \"tap0\"".parse().unwrap();
    wanted["port"].as_array_mut().unwrap().push(port.into());
    if has_host {
        let grants: toml::Table = "host = [\"tap0\"]".parse().unwrap();
        let role =
            wanted["role"].as_array_mut().unwrap().iter_mut().find(|role| role["name"].as_str() == Some("graphs"));
        role.unwrap().as_table_mut().unwrap().insert("graphs".into(), grants.into());
    }
    let (done, said) = apply(&stand.net, "r", stand.file("node.toml", &wanted.to_string()).as_ref(), &[]);
    assert!(done, "{said}");
}

#[test]
fn graphs_have_the_host_where_their_role_lets_them() {
    let Some(stand) = Stand::new("ghost", GRAPH) else { return };
    stand.net.shell("r", PAIR);
    let said = stand.net.shell("r", "ip -o link show dev host0");
    let mut words = said.split_ascii_whitespace().skip_while(|word| *word != "link/ether");
    let mac = words.nth(1).unwrap();
    let text = format!(
        "FromDevice(to-a) -> Strip(14) -> EtherEncap(0x800, 02:00:00:00:00:01, {mac}) -> Queue -> t :: ToHost(tap0);\n\
         FromHost(tap0, 10.9.0.1/24) -> c :: Counter -> Discard;\n"
    );
    let file = stand.file("host.click", &text);
    let apply = [&["new", &file, "--role", "graphs"][..], &TAKES].concat();
    configured(&stand, false);
    let Output { status, stderr, .. } = stand.graph("apply", &apply);
    let why = String::from_utf8_lossy(&stderr);
    assert!(!status.success() && why.contains("FromHost and ToHost of tap0 are not for the role graphs"), "{why}");
    configured(&stand, true);
    stand.said("apply", &apply);
    stand.net.control("r").ask(&model::Ask::Channels).unwrap();
    let (a, host) = (stand.socket("a", "10.0.1.1:4000"), stand.socket("r", "0.0.0.0:7002"));
    a.send_to(b"to the host", "10.0.1.2:7002").unwrap();
    assert_eq!(host.recv(&mut [0; 64]).unwrap(), 11);
    assert_eq!(stand.said("read", &["new", "t.count"]).trim(), "1");
    let own = stand.socket("r", "10.9.0.1:5000");
    own.send_to(b"from the host", "10.9.0.2:7003").unwrap();
    crate::wait::told(stand.net.dir("r"), "status", |_| {
        (stand.said("read", &["new", "c.count"]).trim() == "1").then_some(())
    });
    let shown = stand.said("show", &["new"]);
    assert!(shown.contains("in 2, begun 0, out 1, used 0, dropped 1, held 0"), "{shown}");
    stand.net.status("r");
}
