//! Routes that extensions set: both halves go by them, and they end with whoever has set them.

use super::{Running, WAYS, in_kernel};
use crate::running::ANODE;
use model::ways::Way;
use std::process::{Command, Output};

/// An extension that comes with anode.
fn file(name: &str) -> String {
    format!("{}/apps/extensions/{name}.wat", env!("CARGO_MANIFEST_DIR"))
}

fn anode(words: &[&str]) -> Output {
    Command::new(ANODE).args(words).output().unwrap()
}

#[test]
fn routes_of_an_extension_are_those_of_both_halves_until_it_goes() {
    let Some(net) = Running::up_with("brought", WAYS, &in_kernel) else { return };
    let run = net.dir("r").display().to_string();
    let said = |words: &[&str]| {
        let output = anode(words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let refused = |words: &[&str]| {
        let output = anode(words);
        assert!(!output.status.success(), "{words:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let call = |words: &[&str]| said(&[&["node", "call", &run], words].concat());
    let leads = |to: &str, port: Option<&str>, via: Option<&str>| {
        net.until("r", || {
            let ways: Vec<Way> = net.control("r").ways(&[to.parse().unwrap()]).unwrap();
            let is = |lead: &model::ways::Lead| lead.port.as_deref() == port && lead.via.as_deref() == via;
            (is(&ways[0].leads) && ways[0].kernel.as_ref().is_some_and(is)).then_some(())
        });
    };
    let ports = net.status("r")["ports"].clone();
    let number = |name: &str| {
        let at = ports.as_array().unwrap().iter().position(|port| port["name"] == name);
        at.unwrap_or_else(|| panic!("{name}: {ports}")).to_string()
    };
    let (b, b2) = (number("to-b"), number("to-b-2"));
    net.shell("r", "ip route add 172.16.0.0/16 via 10.0.2.2");
    leads("172.16.1.1", Some("to-b"), Some("10.0.2.2"));
    said(&["extension", "load", &run, &file("routes")]);
    // The extension's comes before the kernel's, and of its own the longest.
    call(&["routes.add", "172.16.0.0", "16", "10.0.3.2", &b2]);
    leads("172.16.1.1", Some("to-b-2"), Some("10.0.3.2"));
    call(&["routes.add", "172.16.1.0", "24", "10.0.2.2", &b]);
    leads("172.16.1.1", Some("to-b"), Some("10.0.2.2"));
    leads("172.16.2.1", Some("to-b-2"), Some("10.0.3.2"));
    call(&["routes.add", "fd01::", "32", "fd00:0:3::2", &b2]);
    leads("fd01::1", Some("to-b-2"), Some("fd00:0:3::2"));
    assert_eq!(call(&["ways.next", "172.16.2.1"]), format!("(10.0.3.2, <dev {b2}>)"));
    for (wrong, why) in [
        (&["routes.add", "172.17.0.0", "16", "10.9.9.9", &b][..], "not an address that it takes"),
        (&["routes.add", "172.17.0.0", "16", "10.0.3.2", &b], "not an address that it takes"),
        (&["routes.add", "172.17.0.0", "16", "fd00:0:3::2", &b2], "not an address that it takes"),
        (&["routes.add", "172.17.0.0", "33", "10.0.3.2", &b2], "refused"),
        (&["ways.set", "172.17.0.0", "33", "10.0.3.2", &b2], "not found"),
        (&["ways.remove", "172.16.0.0", "16"], "not found"),
    ] {
        let said = refused(&[&["node", "call", &run], wrong].concat());
        assert!(said.contains(why), "{wrong:?}: {said}");
    }
    // Whoever is on the link is known by an answer to ARP, which a packet asks for.
    assert!(refused(&["node", "call", &run, "links.address", &b, "10.0.2.2"]).contains("not found"));
    net.ping("r", "10.0.2.2", 1);
    let link = net.shell("b", "ip -o link show dev to-r");
    let of_b = link.split_ascii_whitespace().skip_while(|word| *word != "link/ether").nth(1).unwrap();
    net.until("r", || {
        let asked = anode(&["node", "call", &run, "links.address", &b, "10.0.2.2"]);
        (asked.status.success() && String::from_utf8_lossy(&asked.stdout).contains(of_b)).then_some(())
    });
    call(&["routes.remove", "172.16.1.0", "24"]);
    leads("172.16.1.1", Some("to-b-2"), Some("10.0.3.2"));
    // An operator's own stays as long as the node.
    call(&["ways.set", "172.18.0.0", "16", "10.0.3.2", &b2]);
    said(&["extension", "unload", &run, "routes"]);
    leads("172.16.1.1", Some("to-b"), Some("10.0.2.2"));
    leads("fd01::1", None, None);
    leads("172.18.0.1", Some("to-b-2"), Some("10.0.3.2"));
    assert!(refused(&["extension", "unload", &run, "ways", "--cascade"]).contains("part of every node"));
}
