//! The kernel half on hosts of several kinds: with policy routing, jumbo frames, links that change. Real nodes and
//! interfaces.

use crate::running::{self, ANODE, LINE, Running, in_kernel};
use anode::wire::{Addr, Digest, anep, capsule};
use serde_json::Value;
use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

const B: &str = "10.0.2.2";
const B6: &str = "fd00:0:2::2";

/// Packets that the kernel half of the node in the middle has sent on.
fn forwarded(net: &Running) -> u64 {
    let status = net.status("r");
    let codes = status["kernel"]["codes"].as_array().into_iter().flatten();
    codes.map(|code| code["usage"]["forwarded"].as_u64().unwrap()).sum()
}

/// Pings until the code runs in the kernel half of the node in the middle and its neighbours are known there: until it serves
/// both ways of all pings of one round.
fn warm_up(net: &Running, destinations: &[&str]) {
    for to in destinations {
        let warm = |_: &Value| {
            let before = forwarded(net);
            net.ping("a", to, 5);
            forwarded(net) == before + 10
        };
        net.await_status("r", warm);
    }
}

/// Pings of so many bytes all come back, whichever half serves them, and soon all are served by the kernel half on both ways:
/// what is known of a neighbour may just then be asked for again.
fn all_come_back_by_the_kernel(net: &Running, to: &str, size: &str) {
    let all = |_: &Value| {
        let before = forwarded(net);
        let pinged = net.anode("a", &["ping", "-c", "20", "-i", "0.005", "-s", size, to]);
        assert_eq!(pinged["summary"]["received"], 20, "{pinged}");
        forwarded(net) - before == 40
    };
    net.await_status("r", all);
}

/// Two ways from r to b: the first by the main tables, the second only by rules.
const TWO_WAYS: &str = r#"
name = "t"
nodes.a.active = true
nodes.r.active = true
nodes.b.active = true
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

/// The interfaces of b.
const FIRST: &str = "to-r";
const SECOND: &str = "to-r-2";

/// Packets that came to node b by each of its two interfaces while 20 pings from a went there; none if not all came back.
fn ways(net: &Running, to: &str) -> [u64; 2] {
    let received = || -> Vec<u64> {
        let links: Value = serde_json::from_str(&net.shell("b", "ip -j -s link show")).unwrap();
        let of = |name: &str| {
            let link = links.as_array().unwrap().iter().find(|link| link["ifname"] == name).unwrap();
            link["stats64"]["rx"]["packets"].as_u64().unwrap()
        };
        vec![of(FIRST), of(SECOND)]
    };
    let before = received();
    let pinged = net.anode("a", &["ping", "-c", "20", "-i", "0.005", to]);
    if pinged["summary"]["received"] != 20 {
        return [0; 2];
    }
    let after = received();
    [after[0] - before[0], after[1] - before[1]]
}

/// Rules that send what comes from a by the second way, in both families, by this condition.
fn rules_by(net: &Running, verb: &str, v4: &str, v6: &str) {
    net.shell(
        "r",
        &format!(
            "ip -4 rule {verb} pref 100 {v4} to 10.0.9.0/24 lookup 77; ip -6 rule {verb} pref 100 {v6} to fd00:0:9::/64 lookup 77"
        ),
    );
}

/// Waits until pings take this way alone, then says of more pings how many ran in the kernel half.
fn await_way(net: &Running, to: &str, second: bool) {
    let takes = |_: &Value| {
        let [first, other] = ways(net, to);
        // Some packets of address resolution may be among those of the other way.
        if second { other >= 20 && first < 20 } else { first >= 20 && other < 20 }
    };
    net.await_status("r", takes);
}

/// A lab where b has addresses behind both ways, with the rules' table filled and rules absent.
fn two_ways(name: &str, adjust: running::Adjust<'_>) -> Option<Running> {
    let mut net = Running::build(name, TWO_WAYS)?;
    net.shell("b", &format!("ip addr add 10.0.9.9/32 dev {SECOND}; ip addr add fd00:0:9::9/128 dev {SECOND} nodad"));
    net.shell(
        "r",
        "ip route add 10.0.9.0/24 via 10.0.2.2; ip route add fd00:0:9::/64 via fd00:0:2::2;
         ip route add 10.0.9.0/24 via 10.0.3.2 table 77; ip -6 route add fd00:0:9::/64 via fd00:0:3::2 table 77",
    );
    net.shell("a", "ip route add 10.0.9.0/24 via 10.0.1.2; ip route add fd00:0:9::/64 via fd00:0:1::2");
    net.start(adjust);
    Some(net)
}

/// Rules that come and go while capsules pass are obeyed.
fn rules_are_obeyed(net: &Running, in_the_kernel: bool) {
    let shown = |count: u64| move |status: &Value| status["rules"]["obeyed"] == count;
    for to in ["10.0.9.9", "fd00:0:9::9"] {
        await_way(net, to, false);
        for (v4, v6) in [
            ("from 10.0.1.1", "from fd00:0:1::1"),
            ("iif to-a", "iif to-a"),
            ("ipproto udp dport 3322", "ipproto udp dport 3322"),
        ] {
            rules_by(net, "add", v4, v6);
            net.await_status("r", shown(2));
            await_way(net, to, true);
            if in_the_kernel {
                let more = |_: &Value| {
                    let before = forwarded(net);
                    let [first, other] = ways(net, to);
                    other >= 20 && first < 20 && forwarded(net) - before == 40
                };
                net.await_status("r", more);
            }
            rules_by(net, "del", v4, v6);
            net.await_status("r", shown(0));
            await_way(net, to, false);
        }
        // Rules that hold for nothing of this.
        rules_by(net, "add", "from 10.0.77.0/24", "from fd00:0:77::/64");
        net.await_status("r", shown(2));
        await_way(net, to, false);
        rules_by(net, "del", "from 10.0.77.0/24", "from fd00:0:77::/64");
        net.await_status("r", shown(0));
    }
    // One that leads nowhere.
    net.shell("r", "ip rule add pref 100 from 10.0.1.1 to 10.0.9.0/24 blackhole");
    let drops = |status: &Value| status["drops"]["no-route"].as_u64().unwrap_or(0);
    net.await_status("r", |status| {
        let lost = net.anode("a", &["ping", "-c", "1", "-t", "0.2", "10.0.9.9"])["summary"]["received"] == 0;
        lost && drops(status) > 0
    });
    net.shell("r", "ip rule del pref 100");
    await_way(net, "10.0.9.9", false);
}

#[test]
fn rules_of_policy_routing_are_obeyed_by_the_kernel_half() {
    let Some(net) = two_ways("rules", &in_kernel) else { return };
    warm_up(&net, &["10.0.9.9", "fd00:0:9::9"]);
    rules_are_obeyed(&net, true);
}

#[test]
fn rules_of_policy_routing_are_obeyed_by_the_user_half() {
    let Some(net) = two_ways("rulesu", &|_, _| {}) else { return };
    rules_are_obeyed(&net, false);
}

#[test]
fn rules_for_marked_packets_are_shown() {
    let Some(net) = two_ways("rulesm", &in_kernel) else { return };
    net.shell(
        "r",
        "ip rule add pref 100 fwmark 7 lookup 77; ip rule add pref 101 not fwmark 7 to 10.0.9.0/24 lookup 77",
    );
    let shown = |status: &Value| status["rules"] == serde_json::json!({"obeyed": 1, "not_obeyed": 1});
    net.await_status("r", shown);
    await_way(&net, "10.0.9.9", true);
    let text = Command::new(ANODE).args(["node", "status"]).arg(net.dir("r")).output().unwrap().stdout;
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("1 rules for marked packets not obeyed"), "{text}");
    assert!(net.log("r").contains("rules for marked packets are not obeyed"));
    // Without the rule that every host has, the main tables say nothing.
    net.shell("r", "ip rule del pref 101; ip rule del pref 100; ip rule del pref 32766");
    net.await_status("r", |status| status["rules"]["obeyed"] == 1);
    let lost = |_: &Value| net.anode("a", &["ping", "-c", "1", "-t", "0.2", "10.0.9.9"])["summary"]["received"] == 0;
    net.await_status("r", lost);
    net.shell("r", "ip rule add pref 32766 lookup main");
    await_way(&net, "10.0.9.9", false);
}

#[test]
fn jumbo_frames_in_several_buffers_stay_in_the_kernel() {
    let Some(mut net) = Running::build("jumbo", LINE) else { return };
    for (node, interface) in [("a", "to-r"), ("r", "to-a"), ("r", "to-b"), ("b", "to-r")] {
        net.shell(node, &format!("ip link set {interface} mtu 9000"));
    }
    net.start(&in_kernel);
    warm_up(&net, &[B, B6]);
    for port in net.status("r")["kernel"]["ports"].as_array().unwrap() {
        assert_eq!(port["mode"], "driver", "{port}");
    }
    for size in ["64", "1400", "3000", "8000"] {
        all_come_back_by_the_kernel(&net, B, size);
    }
    all_come_back_by_the_kernel(&net, B6, "3000");
    // There is a sum over all of it, of which the kernel half sees the first part alone: the user half takes it.
    let before = forwarded(&net);
    assert_eq!(net.anode("a", &["ping", "-c", "20", "-i", "0.005", "-s", "8000", B6])["summary"]["received"], 20);
    assert_eq!(forwarded(&net), before);
}

#[test]
fn links_that_change_are_obeyed() {
    let Some(net) = Running::up_with("links", LINE, &in_kernel) else { return };
    warm_up(&net, &[B]);
    all_come_back_by_the_kernel(&net, B, "1200");
    net.shell("r", "ip link set to-b mtu 1300");
    let lost =
        |_: &Value| net.anode("a", &["ping", "-c", "1", "-t", "0.2", "-s", "1200", B])["summary"]["received"] == 0;
    net.await_status("r", lost);
    warm_up(&net, &[B]);
    all_come_back_by_the_kernel(&net, B, "64");
    net.shell("r", "ip link set to-b mtu 1500");
    let back =
        |_: &Value| net.anode("a", &["ping", "-c", "1", "-t", "0.2", "-s", "1200", B])["summary"]["received"] == 1;
    net.await_status("r", back);
    warm_up(&net, &[B]);
    all_come_back_by_the_kernel(&net, B, "1200");
    net.shell("r", "ip link set to-b down");
    net.await_status("r", lost);
    net.shell("r", "ip link set to-b up");
    // The kernel has forgotten link addresses there: the node has it find them again.
    net.await_status("r", back);
    warm_up(&net, &[B]);
    all_come_back_by_the_kernel(&net, B, "1200");
}

#[test]
fn link_addresses_that_somebody_has_set_stay() {
    let Some(mut net) = Running::build("set", LINE) else { return };
    let links: Value = serde_json::from_str(&net.shell("b", "ip -j link show to-r")).unwrap();
    let mac = links[0]["address"].as_str().unwrap();
    net.shell("r", &format!("for to in {B} {B6}; do ip neigh replace $to lladdr {mac} dev to-b nud permanent; done"));
    net.start(&in_kernel);
    warm_up(&net, &[B, B6]);
    let known = net.shell("r", "ip neigh show dev to-b nud permanent");
    assert!([B, B6].iter().all(|to| known.contains(to)), "{known}");
}

/// Deletes the link between r and b and makes it again.
pub fn make_link_again(net: &Running) {
    let b = net.lab.topology().namespace("b");
    net.shell(
        "r",
        &format!(
            "ip link del to-b; ip link add to-b type veth peer name to-r netns {b}
             ip addr add 10.0.2.1/24 dev to-b; ip addr add fd00:0:2::1/64 dev to-b nodad; ip link set to-b up
             ip -n {b} addr add 10.0.2.2/24 dev to-r; ip -n {b} addr add fd00:0:2::2/64 dev to-r nodad; ip -n {b} link set to-r up
             ip -n {b} route add 10.0.1.0/24 via 10.0.2.1; ip -n {b} route add fd00:0:1::/64 via fd00:0:2::1
             ethtool -K to-b gro on; ip netns exec {b} ethtool -K to-r gro on"
        ),
    );
}

/// Whether capsules pass again where an interface is another one.
fn interfaces_come_back(name: &str, adjust: running::Adjust<'_>, in_the_kernel: bool) {
    let Some(net) = Running::up_with(name, LINE, adjust) else { return };
    let all_pass = |_: &Value| {
        [B, B6]
            .iter()
            .all(|to| net.anode("a", &["ping", "-c", "3", "-i", "0.02", "-t", "0.3", to])["summary"]["received"] == 3)
    };
    for _ in 0..2 {
        net.await_status("r", all_pass);
        make_link_again(&net);
        net.await_status("r", all_pass);
        if in_the_kernel {
            warm_up(&net, &[B, B6]);
            all_come_back_by_the_kernel(&net, B, "64");
            assert!(net.shell("r", "ip link show to-b").contains("xdp"), "the ingress stands there again");
        }
    }
    assert!(net.log("r").contains("the interface of a port is there again"));
}

#[test]
fn an_interface_that_is_made_again_is_its_port_again() {
    interfaces_come_back("again", &|_, _| {}, false);
}

#[test]
fn an_interface_that_is_made_again_has_the_kernel_half_again() {
    interfaces_come_back("againk", &in_kernel, true);
}

#[test]
fn an_interface_that_is_made_again_has_its_sockets_again() {
    sockets_come_back("agains", false);
    sockets_come_back("againsk", true);
}

/// Frames come by AF_XDP sockets again where an interface is another one, or its link was down.
fn sockets_come_back(name: &str, in_the_kernel: bool) {
    let Some(net) = Running::up_with(name, LINE, &running::sockets(in_the_kernel)) else { return };
    let by_sockets = |status: &Value| status["xdp"][1]["to_socket"].as_u64().unwrap();
    let mut last = 0;
    for round in 0..3 {
        // The code of trace runs in the user half alone, so its capsules go up.
        let more = |status: &Value| {
            let mut trace = Command::new(ANODE);
            let done = trace.args(["trace", "10.0.2.1", "--json", "--node"]).arg(net.dir("b")).output().unwrap();
            done.status.success() && by_sockets(status) > last
        };
        let status = net.await_status("r", more);
        assert_ne!(status["xdp"][1]["mode"], "none", "{status}");
        match round {
            0 => make_link_again(&net),
            1 => drop(net.shell("r", "ip link set to-b down; ip link set to-b up")),
            _ => {}
        }
        last = if round == 0 { 0 } else { by_sockets(&net.status("r")) };
    }
    assert!(!net.log("r").contains("frames come through AF_PACKET"));
}

/// Puts a VLAN tag beside each IPv4 packet that leaves.
const TAGGING: &str = r#"
struct __sk_buff { unsigned len, pkt_type, mark, queue_mapping, protocol; };
static long (*vlan_push)(struct __sk_buff *, unsigned short protocol, unsigned short tag) = (void *)18;
__attribute__((section("classifier"), used)) int push(struct __sk_buff *skb)
{
    if (skb->protocol == __builtin_bswap16(0x0800))
        vlan_push(skb, __builtin_bswap16(0x8100), 5);
    return 0;
}
char terms[] __attribute__((section("license"), used)) = "GPL";
"#;

/// Whether the driver of an interface of r takes tags off frames.
fn takes_tags(net: &Running, interface: &str) -> bool {
    net.shell("r", &format!("ethtool -k {interface}")).contains("rx-vlan-offload: on")
}

/// Has all that leaves a carry a tag.
fn tag_what_leaves(net: &Running) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("push.c"), TAGGING).unwrap();
    let at = dir.path().display();
    net.shell(
        "a",
        &format!(
            "clang -O2 -target bpf -c {at}/push.c -o {at}/push.o
             tc qdisc add dev to-r clsact; tc filter add dev to-r egress bpf da obj {at}/push.o sec classifier"
        ),
    );
    dir
}

/// A capsule for this code, from a to b, as the payload of a datagram.
fn capsule_from_a(code: Digest) -> Vec<u8> {
    let [source, destination] = ["10.0.1.1", B].map(|addr| addr.parse::<Addr>().unwrap());
    let header = capsule::Header { app_port: 5, bound: 8, code, previous: source, source, destination };
    let mut bytes = vec![0; anep::HEADER + capsule::HEADER + 16];
    let inner = bytes.len() - anep::HEADER;
    anep::emit_basic(&mut bytes, anep::type_id::CAPSULE, inner).unwrap();
    header.emit(&mut bytes[anep::HEADER..]).unwrap();
    bytes
}

/// Neither half may take the packets of a VLAN for those of the interface: they would leave it without their tag.
fn packets_of_vlans_are_left_to_linux(name: &str, adjust: running::Adjust<'_>) {
    let Some(net) = Running::up_with(name, running::HOSTS, adjust) else { return };
    let ping = anode::apps::APPS.iter().find(|app| app.title == "ping").unwrap().bundle().unwrap();
    let bytes = capsule_from_a(net.control("r").add_code(&ping).unwrap());
    let open = |node: &str, addr: &str| net.lab.enter(node, || UdpSocket::bind((addr, 3322)).unwrap()).unwrap();
    let (from, far) = (open("a", "10.0.1.1"), open("b", B));
    far.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let taken = |status: &Value| status["codes"][0]["total"]["packets"].as_u64().unwrap_or(0);
    let send = || {
        from.send_to(&bytes, (B, 3322)).unwrap();
        far.recv(&mut [0; 256]).is_ok()
    };
    net.await_status("r", |status| send() && taken(status) > 0);
    assert!(!takes_tags(&net, "to-a") && !takes_tags(&net, "to-b"), "tags stay where programs see them");
    let _program = tag_what_leaves(&net);
    // What was on its way.
    while far.recv(&mut [0; 256]).is_ok() {}
    let before = taken(&net.status("r"));
    assert!(!send() && !send(), "Linux has no interface of that VLAN");
    assert_eq!(taken(&net.status("r")), before, "nobody else looks at it");
    net.shell("a", "tc qdisc del dev to-r clsact");
    net.await_status("r", |status| send() && taken(status) > before);
    let down = Command::new(ANODE).args(["node", "down"]).arg(net.dir("r")).status();
    assert!(down.unwrap().success());
    assert!(takes_tags(&net, "to-a") && takes_tags(&net, "to-b"), "drivers do as before");
}

#[test]
fn packets_of_vlans_are_left_to_linux_by_the_kernel_half() {
    packets_of_vlans_are_left_to_linux("vlans", &in_kernel);
}

#[test]
fn packets_of_vlans_are_left_to_linux_by_sockets() {
    packets_of_vlans_are_left_to_linux("vlansx", &running::sockets(false));
}
