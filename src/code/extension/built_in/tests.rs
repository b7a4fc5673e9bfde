//! The calls of built-in extensions take all that was given or nothing, and reach whoever works for them.

use super::*;
use crate::code::extension::every_node::{is_built_in, manifests};
use crate::code::extension::instance::{BuiltInInstance, CallFailure, Instance};
use std::sync::Mutex;

/// Knows one neighbour, and takes down what it is told.
#[derive(Default)]
struct Echo(Mutex<Vec<String>>);

impl FetchesCode for Echo {
    fn begin(&self, url: &str, name: &str) -> u64 {
        (url.len() * 100 + name.len()) as u64
    }
    fn state(&self, number: u64) -> Option<String> {
        (number == 7).then(|| "seven".into())
    }
}

impl KnowsNetwork for Echo {
    fn neighbour(&self, at: usize) -> Option<(Addr, PortId)> {
        (at == 0).then(|| ("10.0.0.2".parse().unwrap(), PortId(1)))
    }
    fn link_address(&self, port: PortId, of: Addr) -> Option<Mac> {
        (self.neighbour(0) == Some((of, port))).then_some(Mac([2, 0, 0, 0, 0, 1]))
    }
    fn next_hop(&self, _: Addr) -> Option<(Addr, PortId)> {
        self.neighbour(0)
    }
    fn set_way(&self, whose: &str, to: Prefix, via: Addr, port: PortId) -> Result<(), i32> {
        self.0.lock().unwrap().push(format!("{whose}: {to} by {via} at {}", port.0));
        Ok(())
    }
    fn remove_way(&self, whose: &str, to: Prefix) -> Result<(), i32> {
        self.0.lock().unwrap().push(format!("{whose}: not {to}"));
        Ok(())
    }
    fn withdraw(&self, whose: &str) {
        self.0.lock().unwrap().push(format!("{whose}: none"));
    }
}

/// A call with arguments as people write them, and its result as they read it.
fn call(desk: &Desk, name: &str, given: &[&str]) -> Result<String, i32> {
    let (extension, call) = name.split_once('.').unwrap();
    let manifest = manifests().unwrap().into_iter().find(|manifest| manifest.name == extension).unwrap();
    let works = works_of(extension).unwrap();
    let at = manifest.call(call).unwrap();
    let kind = &manifest.calls[at].kind;
    let values = kind.arguments(&given.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()).unwrap();
    let mut bytes = Vec::new();
    kind.write(&values, &mut bytes).unwrap();
    let origin = CallOrigin { whose: "somebody", desk };
    for end in 0..bytes.len() {
        assert_eq!(works[at](&origin, &bytes[..end]), Err(NOT_FOUND), "{name} of {end} bytes");
    }
    let longer = [&bytes[..], &[0]].concat();
    assert_eq!(works[at](&origin, &longer), Err(NOT_FOUND), "{name} of more bytes");
    works[at](&origin, &bytes).map(|result| kind.read(&result).unwrap().to_string())
}

#[test]
fn what_every_node_has_is_said_as_of_others() {
    for manifest in manifests().unwrap() {
        assert_eq!(works_of(&manifest.name).map(<[_]>::len), Some(manifest.calls.len()), "{}", manifest.name);
        assert!(is_built_in(&manifest.name) && manifest.needs.is_empty());
    }
    assert!(!is_built_in("names"));
}

#[test]
fn calls_take_all_that_was_given_or_nothing() {
    let (echo, desk) = (Arc::new(Echo::default()), Arc::new(Desk::default()));
    let works = works_of("ways").unwrap();
    let mut of_packet = Instance::BuiltIn(BuiltInInstance { works, whose: "somebody".into(), desk: None });
    let (given, _) = of_packet.call(2, (0, 0), u64::MAX, &mut vec![0; 16]);
    assert_eq!(given, Err(CallFailure::Raised(REFUSED)), "a packet's instance asks nobody");
    assert_eq!(call(&desk, "code.state", &["7"]), Err(REFUSED), "nobody is there yet");
    desk.fetch_by(echo.clone());
    desk.ask(echo.clone());
    for (name, given, result) in [
        ("links.neighbour", &["0"][..], Ok("(10.0.0.2, <dev 1>)")),
        ("links.neighbour", &["1"], Err(NOT_FOUND)),
        ("links.neighbour", &["-1"], Err(NOT_FOUND)),
        ("links.address", &["1", "10.0.0.2"], Ok("02:00:00:00:00:01")),
        ("links.address", &["0", "10.0.0.2"], Err(NOT_FOUND)),
        ("ways.next", &["10.9.9.9"], Ok("(10.0.0.2, <dev 1>)")),
        ("ways.set", &["10.2.3.4", "16", "10.0.0.2", "1"], Ok("()")),
        ("ways.set", &["2001:db8::1", "32", "fe80::1", "0"], Ok("()")),
        ("ways.set", &["10.2.0.0", "33", "10.0.0.2", "1"], Err(NOT_FOUND)),
        ("ways.set", &["10.2.0.0", "16", "10.0.0.2", "65536"], Err(NOT_FOUND)),
        ("ways.set", &["10.2.0.0", "-1", "10.0.0.2", "1"], Err(NOT_FOUND)),
        ("ways.remove", &["10.2.0.0", "16"], Ok("()")),
        ("code.fetch", &["http://a/", "abc"], Ok("903")),
        ("code.state", &["7"], Ok("seven")),
        ("code.state", &["8"], Err(NOT_FOUND)),
    ] {
        let said = call(&desk, name, given);
        let plain = said.as_ref().map(|said| said.trim_matches('"')).map_err(|code| *code);
        assert_eq!(plain, result, "{name} {given:?}");
    }
    desk.withdraw(&["a".into(), "b".into()]);
    assert_eq!(
        *echo.0.lock().unwrap(),
        [
            "somebody: 10.2.0.0/16 by 10.0.0.2 at 1",
            "somebody: 2001:db8::/32 by fe80::1 at 0",
            "somebody: not 10.2.0.0/16",
            "a: none",
            "b: none",
        ]
    );
}

#[test]
fn who_hears_the_same_calls_has_the_same_answers_and_no_more() {
    let (desk, hears) = (Desk::default(), Desk::of_hearer());
    let said = [Ok(vec![1]), Err(NOT_FOUND), Ok(Vec::new())];
    assert!(!desk.is_open() && !hears.is_open());
    desk.exchange(Some(VecDeque::new()));
    for answer in said.clone() {
        assert_eq!(desk.answer(|| answer.clone()), answer);
    }
    hears.exchange(Some(desk.exchange(None)));
    assert!(!desk.is_open() && hears.is_open());
    for answer in said.into_iter().chain([Err(REFUSED), Err(REFUSED)]) {
        assert_eq!(hears.answer(|| unreachable!("nothing is done a second time")), answer);
    }
}
