//! Every fuzz target by its name: a function of any bytes that asserts invariants.
//!
//! `fuzz_targets/` hands them to libFuzzer, one program each. `tests/unit/fuzzed.rs` runs them with the committed corpus and with
//! mutations of it, on the stable compiler and without a fuzzer. So this file is compiled twice: here against the parsers' sources,
//! there against the crate.

use crate::broker::{Answer, Request};
use crate::code::bundle::{Bundle, Insn, Kind, Lines, Manifest, Program};
use crate::code::check;
use crate::code::compiler::{Failure, Job, answer};
use crate::code::extension::call_type::CallType;
use crate::code::extension::manifest::{ExtensionManifest as Extension, packed};
use crate::code::extension::object::manifest_of;
use crate::code::extension::registry::Registry;
use crate::code::http;
use crate::code::link::{self, LinkError};
use crate::kernel::loader::{self, Wanted};
use crate::nodeos::store::journal;
use crate::port::pcap::{self, Beginning, Capture, Captured};
use crate::seen::join::Join;
use crate::seen::look::{Look, original};
use crate::seen::record::{Records, Told};
use crate::sys::jail::{self, Order, Said};
use crate::sys::netlink::{RouteNews, each_route};
use crate::trust::{Credential, CredentialSet, PrincipalId, PrincipalKey, Question, Restrictions, Terms};
use crate::wire::{Digest, Prefix};
use crate::{assembling, classifying, clicks, instructions, plans, programs, reading};
use std::sync::LazyLock;

#[path = "../../libanode/tests/hostile/harness.rs"]
mod harness;

/// A target: its name, and what it does with bytes.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const ALL: &[Target] = &[
    ("anep", reading::anep),
    ("arp", reading::arp),
    ("assembly", assembling::assembly),
    ("broker", broker),
    ("bundle", bundle),
    ("capsule", reading::capsule),
    ("check_bpf", check_bpf),
    ("check_wasm", check_wasm),
    ("checksum", reading::checksum),
    ("classifier", classifying::texts),
    ("click_source", click_source),
    ("compiler", compiler),
    ("control", control),
    ("credential", credential),
    ("ethernet", reading::ethernet),
    ("extension", extension),
    ("fetch", reading::fetch),
    ("revocation", reading::revocation),
    ("hello", reading::hello),
    ("part", reading::part),
    ("http", http),
    ("icmp", reading::icmp),
    ("ipv4", reading::ipv4),
    ("ipv6", reading::ipv6),
    ("jail", jail),
    ("lines", lines),
    ("link", link),
    ("loader", loader),
    ("manifest", manifest),
    ("netlink", netlink),
    ("nodeos_message", harness::message),
    ("nodeos_ring", harness::ring),
    ("plan_message", reading::plan_message),
    ("plan_packet", plan_packet),
    ("plan_source", plan_source),
    ("program", program),
    ("seen", seen),
    ("store_journal", store_journal),
    ("udp", reading::udp),
];

/// Runs a target.
pub fn run(name: &str, bytes: &[u8]) {
    let (_, target) = ALL.iter().find(|(known, _)| *known == name).expect("a target of the table");
    target(bytes);
}

/// The journal of a store: what is whole is written again to the same bytes.
fn store_journal(bytes: &[u8]) {
    let mut again = Vec::new();
    let read = journal::read(bytes, |version, entry| {
        journal::write(version, entry, &mut again);
        Ok(())
    });
    if let Ok(whole) = read {
        assert_eq!(again, &bytes[..whole]);
        assert_eq!(journal::read(&again, |_, _| Ok(())), Ok(whole));
    }
}

/// A request to the broker, or its answer: what is read is what is written again.
fn broker(bytes: &[u8]) {
    if let Some(request) = Request::decode(bytes) {
        assert_eq!(Request::decode(&request.encode()), Some(request));
    }
    if let Some(answer) = Answer::decode(bytes) {
        assert_eq!(Answer::decode(&answer.encode()), Some(answer));
    }
}

/// A request of the control socket: what is understood is written and understood again, and what it changes can be said.
fn control(bytes: &[u8]) {
    if let Ok(ask) = serde_json::from_slice::<model::Ask>(bytes) {
        let text = serde_json::to_string(&ask).expect("what was read can be written");
        assert_eq!(serde_json::from_str::<model::Ask>(&text).ok().as_ref(), Some(&ask));
        ask.change().into_iter().for_each(|(kind, what)| assert!(!kind.name().is_empty() && !what.is_empty()));
    }
}

/// The order to the helper that makes a jail, and what is said of the jail: what is read is what is written again, and an order
/// that passes its check is what the helper takes for granted.
fn jail(bytes: &[u8]) {
    if let Ok(order) = Order::decode(bytes) {
        let again = order.encode().expect("no longer than any order");
        assert_eq!(Order::decode(&again).ok().as_ref(), Some(&order));
        if order.jail.check().is_ok() {
            taken_for_granted(&order.jail);
        }
    }
    if let Ok(said) = Said::decode(bytes) {
        assert_eq!(Said::decode(&said.encode()).ok(), Some(said));
    }
}

/// A jail that may be made is not root's, has a program, and sees only what has a plain absolute path.
fn taken_for_granted(jail: &jail::Jail) {
    assert!(!jail.name.contains('/') && !jail.name.starts_with('.') && (1..=64).contains(&jail.name.len()));
    match jail.identity {
        jail::Identity::Starter => {}
        jail::Identity::Own { first, last } => assert!(0 < first && first <= last),
        jail::Identity::Fixed { uid, gid } => assert!(uid > 0 && gid > 0),
    }
    if let jail::Program::File(words) = &jail.program {
        assert!(!words[0].is_empty() && words.iter().all(|word| !word.contains('\0')));
    }
    assert!(jail.keep.iter().all(|number| *number <= jail::DESCRIPTOR_MAX));
    for path in jail.paths.read.iter().chain(&jail.paths.devices) {
        assert!(path.is_absolute() && path.iter().all(|part| part != ".."), "{}", path.display());
    }
}

/// An answer of a web server, what a child leaves, and a URL with a redirection from there.
fn http(bytes: &[u8]) {
    let mut rest = bytes;
    if let http::Answer::Body(body) = http::hear(&mut rest) {
        assert!(body.len() <= bytes.len() && bytes.windows(4).any(|four| four.contains(&b'\n')));
    }
    // Whatever a child leaves is one of three things.
    let _ = http::found(bytes.to_vec());
    let Ok(text) = core::str::from_utf8(bytes) else { return };
    let Ok(place) = http::HttpPlace::of(text) else { return };
    assert_eq!(http::HttpPlace::of(&place.to_string()), Ok(place.clone()), "one way to write it");
    if let Ok(there) = place.redirected(text) {
        assert_eq!(there, place);
    }
    assert!(place.redirected("/x").is_ok_and(|there| there.host == place.host));
}

/// A job of the compiler, its answer, and what its child has left: each has one encoding.
fn compiler(bytes: &[u8]) {
    if let Some((job, limits)) = Job::decode(bytes) {
        assert_eq!(job.encode(&limits), bytes);
    }
    if let Some(ended) = answer::decode(bytes) {
        assert_eq!(answer::encode(&ended), bytes);
    }
    let mut again = Vec::new();
    match answer::found(bytes.to_vec()) {
        Ok(code) => {
            answer::leave(Ok(&code), &mut again).expect("memory");
            assert_eq!(again, bytes);
        }
        Err(Failure::Refused(why)) => {
            // What is no text has more bytes when it is made one.
            assert!(why.len() <= 3 * answer::WORDS);
            answer::leave(Err(&why), &mut again).expect("memory");
            let same = core::str::from_utf8(&bytes[1..]).is_ok_and(|text| text.len() <= answer::WORDS);
            assert!(again == bytes || !same);
        }
        Err(other) => assert_eq!(other, Failure::Broken(0)),
    }
}

/// What the loader is asked for: it has one encoding, and whatever constants come with code that the scanner accepts, the linker puts them
/// where they belong. A refusal's words survive the way.
fn loader(bytes: &[u8]) {
    let words = loader::read_words(bytes);
    assert!(words.starts_with(&loader::read_words(loader::words(&words))));
    let Some(wanted) = Wanted::decode(bytes) else { return };
    assert_eq!(wanted.encode(), bytes);
    // Its code as it is, and as choices of instructions.
    for code in [wanted.code.clone(), programs::program(&wanted.code).encode()] {
        if check::bpf(&code).is_err() {
            continue;
        }
        let program = Program::parse(&code).expect("the scanner has read it");
        match link::link(&ENVIRONMENT, &program, wanted.constants) {
            Ok(linked) => instructions::only_calls_of_the_linker(&ENVIRONMENT, &program, &linked.code).expect("linked"),
            Err(error) => assert!(matches!(error, LinkError::NoCall(_)), "accepted, and {error}"),
        }
    }
}

/// Made once: it is the same for all programs.
static ENVIRONMENT: LazyLock<link::LinkEnvironment> = LazyLock::new(programs::environment);

/// A bundle file: what is read can be checked and written again.
fn bundle(bytes: &[u8]) {
    if let Ok(bundle) = Bundle::read(bytes) {
        assert_eq!(bundle.write(), bytes);
        let _ = check::check(&bundle);
    }
}

/// What the kernel tells of routes: prefixes are right ones.
fn netlink(bytes: &[u8]) {
    each_route(bytes, |news| {
        if let RouteNews::Main(to, ..) = news {
            assert_eq!(Prefix::new(to.addr, to.length), to);
        }
    });
}

/// A manifest: what is accepted is canonical.
fn manifest(bytes: &[u8]) {
    if let Ok(manifest) = Manifest::parse(bytes) {
        assert_eq!(manifest.encode(), bytes);
        let _ = manifest.principal();
    }
}

/// A line table: what is accepted is canonical, and every place of it has a line or none.
fn lines(bytes: &[u8]) {
    if let Ok(lines) = Lines::parse(bytes) {
        assert_eq!(lines.encode().as_deref(), Some(bytes));
        for at in [0, 1, 100, usize::MAX] {
            for kind in Kind::ALL {
                let _ = lines.find(kind, at);
            }
        }
    }
}

/// A bpf representation: what is accepted is canonical.
fn program(bytes: &[u8]) {
    if let Ok(program) = Program::parse(bytes) {
        assert_eq!(program.encode(), bytes);
    }
}

/// A wasm representation: the check gives facts that fit, or a refusal.
fn check_wasm(bytes: &[u8]) {
    let Some((window, module)) = bytes.split_first_chunk::<2>() else { return };
    let window = u32::from(u16::from_le_bytes(*window));
    if let Ok(facts) = check::wasm(module, window) {
        assert!(u64::from(facts.memory_bytes) <= check::MEMORY_MAX);
    }
}

/// The scanner never panics, and what it accepts passes a second opinion: as a whole representation, as the instructions of one
/// that names a symbol, and as choices of instructions.
fn check_bpf(bytes: &[u8]) {
    instructions::scanned(bytes);
    let code = bytes.as_chunks::<8>().0.iter().map(|bytes| Insn::decode(*bytes)).collect();
    instructions::scanned(&Program { symbols: vec!["an_now".into()], code }.encode());
    instructions::scanned(&programs::program(bytes).encode());
}

/// Programs that the scanner accepts to the linker: it makes all the calls there are.
fn link(bytes: &[u8]) {
    instructions::linked(&programs::environment(), &programs::program(bytes));
}

/// What is captured: a frame that came from anybody, records of a node that tell of frames, and a capture file. No record that is whole
/// is passed over, and what is written into a capture file is read from it.
fn seen(bytes: &[u8]) {
    let (frame, was_up) = original(bytes.to_vec());
    assert!(if was_up { frame.len() < bytes.len() } else { frame == bytes });
    for is_ethernet in [true, false] {
        let look = Look::at(is_ethernet, bytes);
        assert!(look.code.is_some() == look.bound.is_some() && (look.code.is_none() || look.kind.is_some()));
    }
    let (_, _) = (pcap::packets(bytes), pcap::statistics(bytes));
    let mut join = Join::new(vec![true, false]);
    let (mut records, mut frames) = (Records::of(bytes), 0);
    for record in records.by_ref() {
        frames += match &record.what {
            Told::Frame(..) => 1,
            Told::Kernel(kernel) => 1 + usize::from(!kernel.after.is_empty()),
            _ => 0,
        };
        join.take(&record);
    }
    assert!(records.rest().len() <= bytes.len());
    let interfaces = ["a", "b"].map(|name| (name.to_owned(), Beginning::Ethernet));
    let mut file = Vec::new();
    let mut capture = Capture::begin(&mut file, &interfaces).expect("memory");
    let (mut written, mut early) = (Vec::new(), join.next(false));
    while let Some(seen) = early.take().or_else(|| join.next(true)) {
        let interface = seen.port % 2;
        let comment = format!("{:?}", seen.story);
        let (at, inward) = (seen.at, Some(seen.inward));
        let packet = Captured { interface: interface.into(), at, inward, bytes: &seen.bytes, comment: &comment };
        capture.packet(&packet).expect("memory");
        written.push((interfaces[usize::from(interface)].0.clone(), at, inward, seen.bytes));
    }
    capture.end(0, 0).expect("memory");
    assert!(written.len() <= frames);
    let read =
        pcap::packets(&file).into_iter().map(|packet| (packet.interface, packet.at, packet.inward, packet.bytes));
    assert!(read.eq(written));
}

fn plan_packet(bytes: &[u8]) {
    plans::packet(bytes);
}

/// What an extension says that it is: what is read is written into a module and read again, and its types are what they are shown as.
fn extension(bytes: &[u8]) {
    const MODULE: &[u8] = b"\0asm\x01\0\0\0";
    drop(Extension::of(bytes));
    drop(manifest_of(bytes));
    let Ok(text) = core::str::from_utf8(bytes) else { return };
    let Ok(extension) = text.parse::<Extension>() else { return };
    if let Ok(module) = packed(MODULE, text) {
        assert_eq!(Extension::of(&module).as_ref(), Ok(&extension));
    }
    for call in &extension.calls {
        assert_eq!(CallType::parse(&call.kind.to_string()), Ok(call.kind.clone()));
        drop(call.kind.read(bytes));
    }
    let is_alone = extension.needs.is_empty();
    assert_eq!(Registry::<()>::default().order(&[extension]).is_ok(), is_alone);
}

/// A configuration in Click's language, and the inside of one.
fn click_source(bytes: &[u8]) {
    clicks::source(bytes);
    clicks::arguments(bytes);
}

fn plan_source(bytes: &[u8]) {
    plans::source(bytes);
}

const CODE: Digest = Digest([7; 32]);

/// A good set of credentials, so that mutations of it reach what stands behind signatures.
static GOOD: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let key = PrincipalKey::from_seed([1; 32]);
    let checks = Restrictions { until: Some(9), nodes: vec!["n".into()], ..Restrictions::default() };
    let terms = Terms { principal: key.id(), role: "r".into(), checks };
    let credentials = vec![Credential::grant(&key, &terms).expect("a grant")];
    CredentialSet { code: CODE, credentials }.encode()
});

/// A set of credentials, one credential's text, and a token that a good set is mutated into.
fn credential(bytes: &[u8]) {
    judge(bytes);
    let _ = core::str::from_utf8(bytes).map(|text| text.parse::<Credential>());
    // Each three bytes change one of the good set; what is left over follows behind it.
    let mut mutant = GOOD.clone();
    for change in bytes.chunks_exact(3) {
        let at = usize::from(u16::from_be_bytes([change[0], change[1]])) % mutant.len();
        mutant[at] ^= change[2];
    }
    judge(&mutant);
}

fn judge(bytes: &[u8]) {
    let Ok(set) = CredentialSet::parse(bytes) else { return };
    assert_eq!(set.encode(), bytes, "one encoding");
    for credential in &set.credentials {
        let _ = credential.describe();
        assert_eq!(credential.to_string().parse().as_ref(), Ok(credential));
        let Ok(verified) = credential.verify() else { continue };
        let principal = PrincipalId([1; 32]);
        let (title, node, representation) = ("t", "n", "wasm");
        let question = Question { principal, code: &CODE, title, node, representation, unix_s: 5 };
        assert!(verified.grants(&question, "r").is_err(), "nobody has granted anything to this key");
    }
}
