//! Codes that arrive together: each is fetched, compiled and linked in its turn, at every node on the way, and none is forgotten.

#[path = "running/mod.rs"]
mod running;

use anode::code::author;
use anode::code::bundle::{Bundle, Kind};
use anode::manage::client::ClientError;
use anode::wire::{Addr, capsule};
use running::{LINE, Running, in_kernel};
use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

/// Codes that arrive together.
const CODES: usize = 1000;

/// An application port of node b.
const PORT: u16 = 7;

/// For how long all of them may take, on a busy machine.
const LONG: Duration = Duration::from_secs(60);

/// So many codes that go on, each under a name of its own.
fn codes() -> Vec<Bundle> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guests/forward.c");
    let one = author::build(&source, &author::Options::default()).unwrap();
    let parts = [Kind::Wasm, Kind::Bpf].map(|kind| (kind, one.representation(kind).unwrap().clone()));
    (0..CODES)
        .map(|number| Bundle::build(&format!("code-{number}"), one.manifest().window(), &parts, None).unwrap())
        .collect()
}

#[test]
fn a_thousand_codes_that_arrive_together_all_get_there() {
    let adjust = |node: &str, config: &mut toml::Table| {
        if node == "r" {
            in_kernel(node, config);
        }
    };
    let Some(net) = Running::up_with("together", LINE, &adjust) else { return };
    let codes = codes();
    let mut control = net.control("a");
    for code in &codes {
        control.add_code(code).unwrap();
    }
    let (app, mut far) = (net.attach("a", 0), net.attach("b", PORT));
    let (source, destination) = (app.address(), "10.0.2.2".parse::<Addr>().unwrap());
    let begin = Instant::now();
    for code in &codes {
        let previous = Addr::UNSPECIFIED;
        let header = capsule::Header { app_port: PORT, bound: 16, code: code.name(), previous, source, destination };
        app.send(&header, &[0; 16]).unwrap();
    }
    let mut came = HashSet::new();
    while came.len() < CODES {
        match far.receive(Duration::from_secs(1)) {
            Ok(Some((header, _))) => assert!(came.insert(header.code), "{} came twice", header.code),
            Ok(None) => {}
            Err(ClientError::Refused(why)) => panic!("{why}"),
            Err(error) => panic!("{error}"),
        }
        assert!(begin.elapsed() < LONG, "{} of {CODES}: {}\n{}", came.len(), brief(&net, "a"), brief(&net, "r"));
    }
    println!("{CODES} codes came after {:?}", begin.elapsed());
    // The kernel half has each of them: linking is paced, so that takes longer.
    let linked = || {
        let status = net.status("r");
        let codes = status["codes"].as_array().unwrap();
        let others: Vec<_> = codes.iter().filter(|code| code["kernel"] != "running").collect();
        (codes.len() - others.len(), others.first().map(|code| code.to_string()).unwrap_or_default())
    };
    while linked().0 < CODES {
        assert!(begin.elapsed() < LONG, "{:?} of {CODES} are linked: {}", linked(), brief(&net, "r"));
        std::thread::yield_now();
    }
    println!("{CODES} codes are linked after {:?}", begin.elapsed());
    for node in ["a", "r", "b"] {
        let status = net.status(node);
        // Answers to requests that were made again in the meantime are no packets of anybody's.
        let drops = status["drops"].as_object().unwrap().keys().filter(|reason| *reason != "fetch-spoofed");
        assert_eq!(drops.count(), 0, "{node}: {}", brief(&net, node));
    }
}

fn brief(net: &Running, node: &str) -> String {
    let status = net.status(node);
    format!("drops {}, fetch {}, codes {}", status["drops"], status["fetch"], status["codes"].as_array().unwrap().len())
}
