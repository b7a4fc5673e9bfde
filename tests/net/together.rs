//! Codes that arrive together: each is fetched, compiled and linked in its turn, at every node on the way, and none is
//! forgotten. Invented names of neighbours and codes beside them change nothing.

use crate::running::{LINE, Running, guest, in_kernel};
use crate::wait::Patience;
use anode::code::bundle::{Bundle, Kind};
use anode::manage::client::{Attachment, ClientError};
use anode::wire::{Addr, Digest, anep, capsule};
use std::collections::HashSet;
use std::net::UdpSocket;
use std::time::Duration;

/// Codes that arrive together.
const CODES: usize = 1000;

/// An application port of node b.
const PORT: u16 = 7;

/// So many codes that go on, each under a name of its own.
fn codes(count: usize) -> Vec<Bundle> {
    let one = guest("forward");
    let parts = [Kind::Wasm, Kind::Bpf].map(|kind| (kind, one.representation(kind).unwrap().clone()));
    (0..count)
        .map(|number| Bundle::build(&format!("code-{number}"), one.manifest().window(), &parts, None).unwrap())
        .collect()
}

/// Codes that node a has, and an application there that sends capsules with them to one of node b.
struct Exchange {
    codes: Vec<Bundle>,
    app: Attachment,
    far: Attachment,
    destination: Addr,
}

impl Exchange {
    fn new(net: &Running, count: usize) -> Exchange {
        let codes = codes(count);
        let mut control = net.control("a");
        for code in &codes {
            control.add_code(code).unwrap();
        }
        let (app, far) = (net.attach("a", 0), net.attach("b", PORT));
        Exchange { codes, app, far, destination: "10.0.2.2".parse().unwrap() }
    }

    fn send(&self, code: &Bundle) {
        let header = header(code.name(), Addr::UNSPECIFIED, self.app.address(), self.destination);
        self.app.send(&header, &[0; 16]).unwrap();
    }
}

#[test]
fn a_thousand_codes_that_arrive_together_all_get_there() {
    let adjust = |node: &str, config: &mut toml::Table| {
        if node == "r" {
            in_kernel(node, config);
        }
    };
    let Some(net) = Running::up_with("together", LINE, &adjust) else { return };
    let mut exchange = Exchange::new(&net, CODES);
    let patience = Patience::new();
    exchange.codes.iter().for_each(|code| exchange.send(code));
    let mut came = HashSet::new();
    while came.len() < CODES {
        match exchange.far.receive(Duration::from_secs(1)) {
            Ok(Some((header, _))) => assert!(came.insert(header.code), "{} came twice", header.code),
            Ok(None) => {}
            Err(ClientError::Refused(why)) => panic!("{why}"),
            Err(error) => panic!("{error}"),
        }
        patience.left(|| format!("{} of {CODES}: {}\n{}", came.len(), brief(&net, "a"), brief(&net, "r")));
    }
    // The kernel half has each of them: linking is paced, so that takes longer.
    net.await_status("r", |status| {
        let codes = status["codes"].as_array().unwrap();
        codes.iter().filter(|code| code["kernel"] == "running").count() >= CODES
    });
    for node in ["a", "r", "b"] {
        let status = net.status(node);
        // Answers to requests that were made again in the meantime are no packets of anybody's.
        // Nor are questions for code that a busy machine leaves no time for: they are asked again.
        let repeated = ["fetch-spoofed", "entry-share"];
        let drops = status["drops"].as_object().unwrap().keys().filter(|reason| !repeated.contains(&reason.as_str()));
        assert_eq!(drops.count(), 0, "{node}: {}", brief(&net, node));
    }
}

/// A neighbour, and a stranger on another link whose names are as many as its addresses: 65,000.
const FORGED: &str = r#"
name = "t"
nodes.f = {}
nodes.a.active = true
nodes.r.active = true
nodes.b.active = true
[[links]]
ends = ["f", "r"]
prefixes = ["10.3.0.0/16"]
[[links]]
ends = ["a", "r"]
prefixes = ["10.0.1.0/24"]
[[links]]
ends = ["r", "b"]
prefixes = ["10.0.2.0/24"]
"#;

#[test]
fn who_makes_up_neighbours_and_codes_takes_no_place_of_another_port() {
    let Some(net) = Running::up("forger", FORGED) else { return };
    let mut exchange = Exchange::new(&net, 200);
    let (codes, destination) = (exchange.codes.clone(), exchange.destination);
    let forger = net.lab.enter("f", || UdpSocket::bind(("0.0.0.0", 3322)).unwrap()).unwrap();
    // Who has answered once may be asked whatever others claim.
    let (first, rest) = codes.split_first().unwrap();
    let (mut came, mut again) = (HashSet::new(), 0);
    let mut take = |exchange: &mut Exchange, at_least: usize| {
        let patience = Patience::new();
        while came.len() < at_least {
            match exchange.far.receive(Duration::from_secs(1)) {
                Ok(Some((header, _))) => _ = came.insert(header.code),
                // A machine that is busy with something else loses frames in sockets, which is nobody's attack.
                _ if came.len() as u64 + missed(&net) >= at_least as u64 => break,
                // It may leave the node no time for some either: those are sent again.
                _ => {
                    let missing = exchange.codes[..at_least].iter().filter(|code| !came.contains(&code.name()));
                    again += missing.inspect(|code| exchange.send(code)).count();
                }
            }
            patience.left(|| format!("{} of {}: {}", came.len(), codes.len(), brief(&net, "r")));
        }
    };
    exchange.send(first);
    take(&mut exchange, 1);
    // Each forged capsule is of another neighbour, and of another code. What was sent before fills all places when the next good one comes.
    let mut forged = 0u16;
    let mut forge = |count: usize| {
        for _ in 0..count {
            forged += 1;
            let [high, low] = forged.to_be_bytes();
            let previous = Addr::v4([10, 3, high, low]);
            let mut bytes = vec![0; anep::HEADER + capsule::HEADER];
            anep::emit_basic(&mut bytes, anep::type_id::CAPSULE, capsule::HEADER).unwrap();
            let header = header(Digest::of(&forged.to_be_bytes()), previous, previous, destination);
            header.emit(&mut bytes[anep::HEADER..]).unwrap();
            forger.send_to(&bytes, ("10.0.2.2", 3322)).unwrap();
        }
    };
    forge(4000);
    for code in rest {
        forge(100);
        exchange.send(code);
    }
    take(&mut exchange, codes.len());
    assert!(again <= codes.len() / 10, "{again} of {} capsules were sent again", codes.len());
    let drops = net.status("r")["drops"].clone();
    let refused = ["entry-share", "look-up-rate", "fetch-full", "fetch-timeout", "fetch-unpaid"]
        .map(|reason| drops[reason].as_u64());
    assert!(refused.iter().flatten().sum::<u64>() > 1000, "the forger has come in: {drops}");
}

/// A capsule for node b.
fn header(code: Digest, previous: Addr, source: Addr, destination: Addr) -> capsule::Header {
    capsule::Header { app_port: PORT, bound: 64, code, previous, source, destination }
}

fn brief(net: &Running, node: &str) -> String {
    let status = net.status(node);
    let codes = status["codes"].as_array().unwrap().len();
    format!("drops {}, fetch {}, codes {codes}, ports {}", status["drops"], status["fetch"], status["ports"])
}

/// Frames that the sockets of the two nodes on the way had no room for.
fn missed(net: &Running) -> u64 {
    let of = |node| {
        net.status(node)["ports"].as_array().unwrap().iter().filter_map(|port| port["missed"].as_u64()).sum::<u64>()
    };
    of("a") + of("r")
}
