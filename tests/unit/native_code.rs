//! Native code beside wasm: the same C source, the same frames, the same results, byte by byte.
//!
//! Each program of `apps/` and `tests/guests/` is built for both, put into two nodes that differ in nothing else, and
//! given the same packets. Frames, deliveries, drops, logs, and what the soft state makes of later packets must agree.
//! And: native code runs where the role of its signer says so, and nowhere else.

use anode::code::author::{self, AuthorOptions};
use anode::code::bundle::{Bundle, Kind, Manifest};
use anode::code::run::wasm::{Backstop, Compiler};
use anode::driver::{Driver, Supply};
use anode::frame::{Frame, Link, PeerId, PortId};
use anode::node::{Node, NodeConfig, Sizes};
use anode::topology::{Ceiling, Neighbour, NextHop, Port, Routes};
use anode::trust::{Kinds, PrincipalKey, Role, Roles};
use anode::wire::{Addr, Digest, Prefix, anep, capsule};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const HERE: Addr = Addr::v4([10, 0, 0, 2]);
const LEFT: Addr = Addr::v4([10, 0, 0, 1]);
const RIGHT: Addr = Addr::v4([10, 0, 0, 3]);
const FAR: Addr = Addr::v4([10, 0, 0, 9]);

fn author() -> PrincipalKey {
    PrincipalKey::from_seed([3; 32])
}

/// A role that runs these representations of what the author has signed.
fn role(kinds: &[Kind]) -> Role {
    let representations = kinds.iter().fold(Kinds::NONE, |all, kind| all.with(*kind));
    Role { name: "author".into(), trusts: vec![author().id()], representations, ..Role::anyone(Default::default()) }
}

struct Arm {
    driver: Driver,
    supply: Supply,
    now: u64,
}

impl Arm {
    fn new(role: Role, compiler: &Compiler) -> Arm {
        let port = |name: &str| Port {
            name: name.into(),
            link: Link::Overlay,
            addresses: vec![(HERE, Prefix::host(HERE))],
            mtu: 1452,
            bits_per_second: 1_000_000,
            ceiling: Ceiling::default(),
        };
        let neighbour = |addr, port| Neighbour { addr, port: PortId(port), peer: PeerId(0) };
        let hop = |to: Addr, port, via| (Prefix::host(to), NextHop { port: PortId(port), via });
        let routes = [hop(LEFT, 0, LEFT), hop(RIGHT, 1, RIGHT), hop(FAR, 1, RIGHT)];
        let roles = Roles::new(vec![role]).unwrap();
        let mut node = Node::new(NodeConfig {
            name: "arm".into(),
            ports: vec![port("left"), port("right")],
            neighbours: vec![neighbour(LEFT, 0), neighbour(RIGHT, 1)],
            routes: Arc::new(Routes::new(routes)),
            roles: Arc::new(roles.clone()),
            sizes: Sizes { state_entries: 256, ..Sizes::default() },
            seed: 7,
            kernel: false,
        });
        (1..50).for_each(|port| assert!(node.open(port)));
        let supply = Supply { judge: Some(("arm".into(), roles)), ..Supply::new(compiler.clone()) };
        Arm { driver: Driver::new(node), supply, now: 1 }
    }

    fn add(&mut self, bundle: &Bundle) {
        self.supply.add(bundle);
    }

    /// An application sends the first capsule: there is nobody who could be asked for credentials.
    fn inject(&mut self, code: Digest) {
        let mut bytes = packet(code, FAR, 9, &[0; 96]).split_off(anep::HEADER);
        bytes[capsule::SOURCE..capsule::SOURCE + 16].fill(0);
        self.driver.turn(self.now, |node, turn| node.inject(turn, Frame::from_bytes(&bytes))).unwrap();
        self.settle();
    }

    fn receive(&mut self, port: u16, bytes: &[u8]) {
        self.now += 1_000_000;
        let mut frame = Frame::from_bytes(bytes);
        (frame.port, frame.peer) = (PortId(port), PeerId(0));
        self.driver.receive(self.now, frame);
        self.settle();
    }

    fn settle(&mut self) {
        self.driver.answer(self.now, &mut self.supply);
    }

    /// All that came out since the last time, and what is counted; steps are nobody's to count in native code.
    fn outcome(&mut self) -> String {
        let frames = self.driver.out.frames.drain(..).map(|f| format!("{:?} {}", f.port, hex::encode(f.bytes())));
        let frames: Vec<_> = frames.collect();
        let deliveries =
            self.driver.out.deliveries.drain(..).map(|d| format!("{} {}", d.port, hex::encode(d.frame.bytes())));
        let deliveries: Vec<_> = deliveries.collect();
        let log: Vec<_> = self.driver.node.log().iter().map(|line| (line.at, line.tag, line.value)).collect();
        let usage = self
            .driver
            .node
            .status()
            .codes
            .iter()
            .map(|code| code.usage.clone().map(|u| (u.state_entries, u.children)))
            .collect::<Vec<_>>();
        let drops: Vec<_> = self.driver.node.drops().happened().collect();
        format!("{frames:?} {deliveries:?} {log:?} {usage:?} {drops:?}")
    }

    /// The representation in use and the role, or why the code is refused.
    fn said(&self) -> Result<(Kind, String), String> {
        let code = self.driver.node.status().codes.into_iter().next().unwrap();
        code.representation.zip(code.role).ok_or_else(|| code.why.unwrap())
    }
}

fn packet(code: Digest, destination: Addr, bound: u32, payload: &[u8]) -> Vec<u8> {
    let header = capsule::Header { app_port: 5, bound, code, previous: LEFT, source: LEFT, destination };
    let mut bytes = vec![0; anep::HEADER + capsule::HEADER];
    header.emit(&mut bytes[anep::HEADER..]).unwrap();
    bytes.extend(payload);
    let length = bytes.len() - anep::HEADER;
    anep::emit_basic(&mut bytes, anep::type_id::CAPSULE, length).unwrap();
    bytes
}

/// What capsules may carry: nothing, zeroes, counting bytes, small numbers where a program looks for kinds.
fn payloads() -> Vec<Vec<u8>> {
    let mut all = vec![vec![], vec![0; 64], (0..=255).collect(), vec![0xff; 600]];
    for kind in 0..6 {
        for place in [0, 1, 3] {
            let mut payload = vec![0; 96];
            payload[place] = kind;
            payload[8..24].copy_from_slice(&FAR.0);
            payload[24..40].copy_from_slice(&RIGHT.0);
            all.push(payload);
        }
    }
    all
}

fn sources() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = [root.join("apps"), root.join("tests/guests")];
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap()).map(|entry| entry.unwrap().path());
    let mut sources: Vec<_> = files.filter(|path| path.extension().is_some_and(|ending| ending == "c")).collect();
    sources.sort();
    sources
}

fn build(source: &Path) -> Bundle {
    let options =
        AuthorOptions { key: Some(author()), only: Some(Kind::Wasm), native: true, ..AuthorOptions::default() };
    author::build(source, &options).unwrap_or_else(|error| panic!("{}: {error}", source.display()))
}

#[test]
fn native_code_and_wasm_of_one_source_do_the_same() {
    let compiler = Compiler::new(Backstop::FuelOnly).unwrap();
    let mut compared = 0;
    for source in sources() {
        let title = source.file_name().unwrap().to_string_lossy().into_owned();
        // Programs that tests refuse, and those that run away or longer than wasm may: native code would not come back.
        if ["bad", "endless", "lasting"].iter().any(|begins| title.starts_with(begins)) {
            continue;
        }
        let bundle = build(&source);
        let mut arms = [Kind::Wasm, Kind::Native].map(|kind| Arm::new(role(&[kind]), &compiler));
        for arm in &mut arms {
            arm.add(&bundle);
            arm.inject(bundle.name());
        }
        let mut moved = false;
        for payload in payloads() {
            for (port, destination, bound) in [(0, FAR, 20), (1, HERE, 20), (0, LEFT, 1), (0, RIGHT, 0), (1, FAR, 3)] {
                let packet = packet(bundle.name(), destination, bound, &payload);
                let [wasm, native] = arms.each_mut().map(|arm| {
                    arm.receive(port, &packet);
                    arm.outcome()
                });
                assert_eq!(wasm, native, "{title}: {destination} bound {bound} payload {}", hex::encode(&payload));
                moved |= wasm.contains("PortId");
                compared += 1;
            }
        }
        let [wasm, native] = arms.each_ref().map(|arm| arm.said().unwrap());
        assert_eq!((wasm, native), ((Kind::Wasm, "author".into()), (Kind::Native, "author".into())), "{title}");
        println!("{title}: agrees{}", if moved { "" } else { ", and sends nothing on" });
    }
    assert!(compared > 500, "{compared}");
}

#[test]
fn native_code_runs_where_the_role_says_so_and_nowhere_else() {
    let compiler = Compiler::new(Backstop::FuelOnly).unwrap();
    let ping = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guests/ping.c");
    let both = build(&ping);
    let native: [(Kind, Arc<[u8]>); 1] = [(Kind::Native, both.representation(Kind::Native).unwrap().clone())];
    let window = both.manifest().window();
    let alone = Bundle::build("alone", window, &native, Some(&author())).unwrap();
    let unsigned = Bundle::build("unsigned", window, &native, None).unwrap();
    let text = String::from_utf8(both.manifest_bytes().to_vec()).unwrap();
    assert!(text.contains(&format!("\"anode.architecture\":\"{}\"", std::env::consts::ARCH)));
    let refusal = Err("no representation that the user half runs");
    let everything = || role(&[Kind::Wasm, Kind::Native]);
    let lacking = || Role { symbols: vec!["an_log".to_owned()].try_into().unwrap(), ..everything() };
    let forwarding = build(&Path::new(env!("CARGO_MANIFEST_DIR")).join("apps/cache.c"));
    let cases = [
        (&both, everything(), Ok(Kind::Native)),
        (&both, role(&[Kind::Wasm]), Ok(Kind::Wasm)),
        (&alone, everything(), Ok(Kind::Native)),
        (&alone, role(&[Kind::Wasm]), refusal),
        (&unsigned, everything(), refusal),
        (&forwarding, lacking(), Err("native: it calls an_")),
    ];
    for (bundle, role, expected) in cases {
        let mut arm = Arm::new(role, &compiler);
        arm.add(bundle);
        arm.inject(bundle.name());
        match (arm.said(), expected) {
            (Ok((kind, _)), Ok(expected)) => assert_eq!(kind, expected),
            (Err(why), Err(part)) => assert!(why.contains(part), "{why}"),
            (said, expected) => panic!("{said:?} and not {expected:?}"),
        }
    }
}

#[test]
fn native_code_of_another_processor_leaves_the_others_to_run() {
    let compiler = Compiler::new(Backstop::FuelOnly).unwrap();
    let both = build(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guests/ping.c"));
    let text = String::from_utf8(both.manifest_bytes().to_vec()).unwrap();
    let elsewhere = text
        .replace(&format!("\"anode.architecture\":\"{}\"", std::env::consts::ARCH), "\"anode.architecture\":\"vax\"");
    assert_ne!(text, elsewhere);
    let mut manifest = Manifest::parse(elsewhere.as_bytes()).unwrap();
    manifest.sign(&author());
    let mut bundle = Bundle::of_manifest(&manifest.encode()).unwrap();
    for kind in [Kind::Wasm, Kind::Native] {
        bundle.add(kind, both.representation(kind).unwrap().clone()).unwrap();
    }
    let mut arm = Arm::new(role(&[Kind::Wasm, Kind::Native]), &compiler);
    arm.add(&bundle);
    arm.inject(bundle.name());
    assert_eq!(arm.said().unwrap().0, Kind::Wasm);
}

#[test]
fn what_is_no_shared_object_of_the_interface_is_refused_with_a_reason() {
    let compiler = Compiler::new(Backstop::FuelOnly).unwrap();
    let good = build(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guests/ping.c"));
    let bytes = good.representation(Kind::Native).unwrap();
    let window = good.manifest().window();
    let mut cut = bytes.to_vec();
    cut.truncate(100);
    let cases = [
        (b"\0asm".to_vec(), window, "not a shared object"),
        (cut, window, "native: it cannot be loaded"),
        (bytes.to_vec(), window + 1, "its window shows"),
    ];
    for (bytes, window, part) in cases {
        let bundle = Bundle::build("bad", window, &[(Kind::Native, bytes.into())], Some(&author())).unwrap();
        let mut arm = Arm::new(role(&[Kind::Native]), &compiler);
        arm.add(&bundle);
        arm.inject(bundle.name());
        let why = arm.said().unwrap_err();
        assert!(why.contains(part), "{why:?} and not {part:?}");
    }
}

#[test]
fn state_of_the_program_itself_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("counter.c");
    let source = "#include <anode/capsule.h>\nstatic u32 counter;\nAN_CAPSULE(counter, struct an_nothing) { return \
                  ++counter & 1 ? an_drop() : an_forward(); }\n";
    std::fs::write(&path, source).unwrap();
    let options = AuthorOptions { only: Some(Kind::Native), ..AuthorOptions::default() };
    let refused = author::build(&path, &options).unwrap_err().to_string();
    assert!(refused.contains("counter"), "{refused}");
}

#[test]
fn a_trap_names_its_kind_its_function_and_the_line_of_the_source() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trap.c");
    let text = "#include <anode/capsule.h>\nstruct p { u8 n; };\n\
        static __attribute__((noinline)) u32 part(u32 n)\n{\n    u32 sum = (u32)an_now();\n    return 100 / n + sum;\n}\n\
        static __attribute__((noinline)) u32 deep(u32 n)\n{\n    volatile u32 kept = n;\n    \
        return kept ? deep(n - 1) + kept : 0;\n}\n\
        AN_CAPSULE(p, struct p)\n{\n    if (w->payload.n == 3)\n        __builtin_trap();\n    \
        w->payload.n = (u8)(w->payload.n == 2 ? deep(1000) : part(w->payload.n));\n    return an_forward();\n}\n";
    std::fs::write(&path, text).unwrap();
    let bundle = author::build(&path, &AuthorOptions { only: Some(Kind::Wasm), ..AuthorOptions::default() }).unwrap();
    let compiler = Compiler::new(Backstop::FuelOnly).unwrap();
    let mut arm = Arm::new(role(&[Kind::Wasm]), &compiler);
    arm.add(&bundle);
    let places = anode::code::run::traps::Places::of(&bundle);
    let line = |what: &str| text.lines().position(|line| line.contains(what)).unwrap() + 1;
    for (n, kind, what, is_entry) in [
        (0, "a division by zero", "100 / n", false),
        (3, "a place that was not to be reached", "__builtin_trap", true),
        // The stack in memory lies at its bottom: below it is an address outside.
        (2, "an address outside its memory", "kept", false),
    ] {
        arm.receive(0, &packet(bundle.name(), FAR, 9, &[n]));
        let trap = arm.driver.node.log().last().and_then(|line| line.trap).unwrap();
        let (function, byte) = trap.place.unwrap();
        let (name, source) = places.find(function, byte);
        assert_eq!((trap.kind, name), (kind, is_entry.then_some("capsule")), "payload {n}");
        let source = source.unwrap();
        let lines: Vec<_> = (0..3).map(|more| format!("trap.c:{}", line(what) + more)).collect();
        assert!(lines.contains(&source), "payload {n}: {source}, not one of {lines:?}");
    }
}
