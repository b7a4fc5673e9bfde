//! Graphs with engines of extensions in a running node: they change packets, fail, and stay while a graph has them.

use crate::apply::apply;
use crate::flood::module;
use crate::graphs::{GRAPH, Stand, edited};
use model::extensions::Changed;
use model::wish::Wish;
use model::{Ask, GraphWish};

/// An extension `own` with engines that do nothing, count in memory, trap and loop.
pub const OWN: &str = r#"(module (memory (export "memory") 1) (global (export "an_buffer") i32 (i32.const 0))
  (func (export "Same") (param $length i32) (result i32)
    (i32.store (i32.const 8192) (i32.add (i32.load (i32.const 8192)) (i32.const 1)))
    (local.get $length))
  (func (export "Nth") (param $length i32) (result i32)
    (i32.store (i32.const 8192) (i32.add (i32.load (i32.const 8192)) (i32.const 1)))
    (i32.store8 (i32.const 58) (i32.load (i32.const 8192)))
    (local.get $length))
  (func (export "Trap") (param i32) (result i32) unreachable)
  (func (export "Loop") (param i32) (result i32) (loop $on (br $on)) (i32.const 0))
  (func (export "Lie") (param i32) (result i32) (i64.store (i32.const 8) (i64.const 4096)) (i32.const 16))
  (@custom "anode.extension" "name = 'own'\n"
    "[[engine]]\nname = 'Same'\nports = '1/1'\n[[engine]]\nname = 'Nth'\nports = '1/1'\n"
    "[[engine]]\nname = 'Trap'\nports = '1/1'\n[[engine]]\nname = 'Loop'\nports = '1/1'\n"
    "[[engine]]\nname = 'Lie'\nports = '1/1'\n"))"#;

fn configure(stand: &Stand, what: Wish) -> Result<Vec<String>, String> {
    let changed = stand.net.control("r").asked::<Changed>(&Ask::Configure { what });
    changed.map(|changed| changed.names).map_err(|error| error.to_string())
}

pub fn load(stand: &Stand, modules: Vec<String>) {
    configure(stand, Wish::Load { modules }).unwrap();
}

fn unload(stand: &Stand, name: &str) -> Result<Vec<String>, String> {
    configure(stand, Wish::Unload { name: name.into(), cascade: true })
}

/// Runs this graph for packets to UDP ports 7000 and 4789.
fn run(stand: &Stand, text: &str) -> Result<(), String> {
    let take = ["to-a/ip/udp *:7000", "to-a/ip/udp *:4789"].map(String::from).to_vec();
    let wish = GraphWish {
        name: "fw".into(),
        text: text.into(),
        role: None,
        take: Some(take),
        base: None,
        place: Some("user".into()),
    };
    stand.net.control("r").ask(&Ask::ApplyGraph(wish)).map(drop).map_err(|error| error.to_string())
}

/// A frame to b's port 7000 in VXLAN of this network.
fn wrapped(stand: &Stand, network: u8, said: u8) -> Vec<u8> {
    let mac = |text: &str| text.split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect::<Vec<_>>();
    let ip = [0x45, 0, 0, 29, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 1, 1, 10, 0, 2, 2];
    let sum = ip.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum::<u32>();
    let sum = !(((sum & 0xffff) + (sum >> 16)) as u16);
    let (before, behind) = (&ip[..10], &ip[12..]);
    let [own, next] = &stand.macs;
    [
        &[8, 0, 0, 0, 0, 0, network, 0][..],
        &mac(next),
        &mac(own),
        &[8, 0],
        before,
        &sum.to_be_bytes(),
        behind,
        &[0x0f, 0xa0, 0x1b, 0x58, 0, 9, 0, 0, said],
    ]
    .concat()
}

fn count(stand: &Stand, handler: &str) -> u64 {
    stand.said("read", &["fw", handler]).trim().parse().unwrap()
}

#[test]
fn engines_of_an_extension_take_packets_out_of_a_tunnel_and_stay_while_a_graph_has_them() {
    let Some(stand) = Stand::new("gext", GRAPH) else { return };
    let (a, b) = (stand.socket("a", "10.0.1.1:4000"), stand.socket("b", "10.0.2.2:7000"));
    let network = |number: &str| {
        format!(
            "FromDevice(to-a) -> n :: tunnels/Network({number}) -> d :: tunnels/Decap -> Queue(256) -> ToDevice(to-b);\n\
             n [1] -> other :: Counter -> Discard;\n"
        )
    };
    let refused = run(&stand, &network("7")).unwrap_err();
    assert!(refused.contains("tunnels/Network"), "no such class yet: {refused}");
    load(&stand, ["names", "tunnels"].map(module).to_vec());
    for (number, why) in [("x", "'n' cannot be made: refused"), ("16777216", "refused"), ("", "refused")] {
        let refused = run(&stand, &network(number)).unwrap_err();
        assert!(refused.contains(why) && refused.contains("fw:1:"), "{number}: {refused}");
    }
    run(&stand, &network("7")).unwrap();
    let pass = |numbers: std::ops::Range<u8>| {
        let mut buffer = [0; 64];
        for said in numbers {
            a.send_to(&wrapped(&stand, 8, said), "10.0.2.2:4789").unwrap();
            a.send_to(&wrapped(&stand, 7, said), "10.0.2.2:4789").unwrap();
            let (length, from) = b.recv_from(&mut buffer).unwrap();
            assert_eq!((&buffer[..length], from.to_string()), (&[said][..], "10.0.1.1:4000".into()));
        }
    };
    pass(0..20);
    assert_eq!((count(&stand, "other.count"), count(&stand, "d.calls"), count(&stand, "n.failed")), (20, 20, 0));
    assert!(stand.said("show", &["fw"]).contains("d :: tunnels/Decap"), "{}", stand.said("show", &["fw"]));
    for name in ["tunnels", "names"] {
        let refused = unload(&stand, name).unwrap_err();
        assert!(refused.contains("graphs have engines of") && refused.ends_with(": fw"), "{refused}");
    }
    pass(20..40);
    run(&stand, "FromDevice(to-a) -> Discard;").unwrap();
    assert_eq!(unload(&stand, "names").unwrap(), ["tunnels", "names"]);
    assert!(run(&stand, &network("7")).is_err());
    stand.net.status("r");
}

#[test]
fn engines_that_fail_lose_the_packet_that_they_fail_at_and_no_other() {
    let Some(stand) = Stand::new("gfail", GRAPH) else { return };
    let (a, b) = (stand.socket("a", "10.0.1.1:4000"), stand.socket("b", "10.0.2.2:7000"));
    load(&stand, vec![hex::encode(OWN)]);
    let [own, next] = &stand.macs;
    // Packets to port 4789 go through the engine that fails, and all others by it.
    let text = |class: &str| {
        format!(
            "FromDevice(to-a) -> c :: Classifier(36/12b5, -); c [0] -> bad :: own/{class} -> Discard;\n\
             c [1] -> good :: own/Same -> Strip(14) -> EtherEncap(0x800, {own}, {next}) -> Queue(256) -> ToDevice(to-b);\n"
        )
    };
    let mut failed = 0;
    for class in ["Trap", "Loop", "Lie"] {
        run(&stand, &text(class)).unwrap();
        let mut buffer = [0; 64];
        for number in 0..10u8 {
            a.send_to(&[number; 9], "10.0.2.2:4789").unwrap();
            a.send_to(&[number], "10.0.2.2:7000").unwrap();
            assert_eq!((b.recv(&mut buffer).unwrap(), buffer[0]), (1, number), "{class}");
            failed += 1;
        }
        let drops = |status: &serde_json::Value| status["drops"]["engine-failed"].as_u64().unwrap_or(0);
        stand.net.await_status("r", |status| drops(status) == failed);
        assert_eq!((count(&stand, "good.failed"), count(&stand, "bad.failed")), (0, 10));
    }
    stand.net.status("r");
}

#[test]
fn edits_with_engines_of_extensions_under_load_lose_and_mix_no_packet() {
    let Some(stand) = Stand::new("gextload", GRAPH) else { return };
    load(&stand, vec![hex::encode(OWN)]);
    edited(&stand, "user", ["own/Same", "kept :: own/Same", "Null", "own/Same"]);
}

#[test]
fn a_configuration_with_engines_of_an_extension_changes_both_at_once() {
    let Some(stand) = Stand::new("gextconf", GRAPH) else { return };
    let (a, b) = (stand.socket("a", "10.0.1.1:4000"), stand.socket("b", "10.0.2.2:7000"));
    let before: toml::Table = std::fs::read_to_string(stand.net.dir("r").join("node.toml")).unwrap().parse().unwrap();
    let [own, next] = &stand.macs;
    let with = |module: Option<&str>, between: &str, more: &str| {
        let mut table = before.clone();
        table["graph"][0]["text"] = format!(
            "FromDevice(to-a){between} -> Strip(14) -> CheckIPHeader -> SetUDPChecksum -> EtherEncap(0x800, {own}, {next}) \
             -> Queue(9) -> ToDevice(to-b);"
        )
        .into();
        let extension = module.map(|module| toml::toml! { name = "own" module = module }.into());
        table.insert("extension".into(), toml::Value::Array(extension.into_iter().collect()));
        let more: toml::Table = more.parse().unwrap();
        let graphs = table["graph"].as_array_mut().unwrap();
        graphs.extend(more.get("graph").into_iter().flat_map(|more| more.as_array().unwrap().clone()));
        apply(&stand.net, "r", stand.file("other.toml", &table.to_string()).as_ref(), &[])
    };
    // The engine says how many packets its memory has seen.
    let seen = || {
        let mut buffer = [0; 8];
        a.send_to(&[0], "10.0.2.2:7000").unwrap();
        assert_eq!(b.recv(&mut buffer).unwrap(), 1);
        buffer[0]
    };
    let (done, said) = with(None, " -> e :: own/Nth", "");
    assert!(!done && said.contains("own/Nth"), "{said}");
    let (done, said) = with(Some(OWN), " -> e :: own/Nth", "");
    assert!(done, "{said}");
    assert_eq!([seen(), seen()], [1, 2]);
    let (done, said) = with(Some(OWN), " -> Null -> e :: own/Nth", "");
    assert!(done, "{said}");
    assert_eq!(seen(), 3, "its memory goes on in the next generation");
    let other = OWN.replace("name = 'own'", "name = 'own'\\nabout = 'another one'");
    let (done, said) = with(Some(&other), " -> Null -> e :: own/Nth", "");
    assert!(done && said.contains("extension own module"), "{said}");
    assert_eq!(seen(), 1, "another module begins anew");
    let wrong =
        "[[graph]]\nname = \"wrong\"\nrole = \"graphs\"\nplace = \"kernel\"\ntext = \"TimedSource(1) -> Discard;\"\n";
    let (done, said) = with(Some(OWN), " -> e :: own/Nth", wrong);
    assert!(!done && said.contains("what ran before this configuration runs again"), "{said}");
    assert_eq!([seen(), seen()], [1, 2]);
    // A graph of the operator's keeps the extension where it is.
    let wish = || GraphWish {
        name: "op".into(),
        text: "TimedSource(60) -> own/Same -> Discard;".into(),
        role: Some("graphs".into()),
        take: None,
        base: None,
        place: None,
    };
    stand.net.control("r").ask(&Ask::ApplyGraph(wish())).unwrap();
    let (done, said) = with(None, "", "");
    assert!(!done && said.contains("graphs have engines of own") && said.contains(": op"), "{said}");
    assert_eq!(seen(), 3);
    let wish = GraphWish { text: "TimedSource(60) -> Discard;".into(), ..wish() };
    stand.net.control("r").ask(&Ask::ApplyGraph(wish)).unwrap();
    // Graphs of the configuration go with it, or come without it.
    let (done, said) = with(None, "", "");
    assert!(done && said.contains("- extension own"), "{said}");
    assert_eq!(seen(), 0, "the engine is gone");
    stand.net.status("r");
}
