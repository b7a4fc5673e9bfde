//! Jails as values: valid ones, and refused ones.

use super::message::{ORDER_MAX, SAID_MAX, WHY_MAX};
use super::*;

fn jail() -> Jail {
    Jail {
        name: "one".into(),
        program: Program::File(vec!["true".into()]),
        variables: Vec::new(),
        keep: vec![2, 3],
        identity: Identity::Own { first: 60_834, last: 61_183 },
        capabilities: Vec::new(),
        host_network: false,
        paths: Paths::of_environments(),
        seccomp: "ee".into(),
        group: Some(Group { memory_bytes: 0, tasks: 0, cpu_weight: 100, cpu_percent: 0 }),
        limits: Limits::default(),
        required: Vec::new(),
    }
}

#[test]
fn a_jail_is_a_value_that_can_be_sent() {
    let there: Jail = serde_json::from_slice(&serde_json::to_vec(&jail()).unwrap()).unwrap();
    assert_eq!((there.check(), there), (Ok(()), jail()));
    assert!(serde_json::from_str::<Jail>("{\"name\": \"x\"}").is_err());
}

#[test]
fn what_means_nothing_is_refused_with_its_reason() {
    let own = |first, last| Identity::Own { first, last };
    for (bad, part) in [
        (Jail { name: "../x".into(), ..jail() }, "\"../x\""),
        (Jail { program: Program::File(vec![]), ..jail() }, "a program"),
        (Jail { program: Program::File(vec!["a\0b".into()]), ..jail() }, "NUL"),
        (Jail { keep: vec![3, 3], ..jail() }, "different numbers"),
        (Jail { keep: vec![DESCRIPTOR_MAX + 1], ..jail() }, "different numbers"),
        (Jail { identity: own(0, 5), ..jail() }, "users 0 to 5"),
        (Jail { identity: own(9, 5), ..jail() }, "users 9 to 5"),
        (Jail { identity: Identity::Fixed { uid: 0, gid: 1 }, ..jail() }, "never root's"),
        (Jail { seccomp: "none".into(), ..jail() }, "no list of system calls"),
        (Jail { paths: Paths { read: vec!["/a/../b".into()], ..Paths::default() }, ..jail() }, "without '..'"),
    ] {
        let why = bad.check().unwrap_err();
        assert!(why.contains(part), "{why:?} and not {part:?}");
    }
}

#[test]
fn orders_survive_the_way_and_have_an_end() {
    let order =
        Order { jail: jail(), namespaces: true, user_namespace: false, groups: vec!["/sys/fs/cgroup/x".into()] };
    let message = order.encode().unwrap();
    assert_eq!(Order::decode(&message).unwrap(), order);
    assert!((0..message.len()).all(|end| Order::decode(&message[..end]).is_err()));
    let strange = String::from_utf8(message).unwrap().replacen("\"namespaces\"", "\"more\":1,\"namespaces\"", 1);
    assert!(Order::decode(strange.as_bytes()).is_err());
    let long = Jail { variables: vec![("X".into(), "x".repeat(ORDER_MAX))], ..jail() };
    let why = Order { jail: long, ..order }.encode().unwrap_err().to_string();
    assert!(why.contains("more than 65536 bytes"), "{why}");
    assert!(Order::decode(&vec![b' '; ORDER_MAX + 1]).unwrap_err().to_string().contains("more than 65536 bytes"));
}

#[test]
fn what_is_said_survives_the_way_and_whys_have_an_end() {
    let runs = Said::Runs { weaker: Part::ALL.to_vec() };
    for said in [Said::Born { pid: 1, uid: 2, passed: vec![3] }, Said::Program, runs, Said::Ended(End::Signal(9))] {
        assert_eq!(Said::decode(&said.encode()).unwrap(), said);
    }
    // The most that becomes of a byte, and a letter that would be cut.
    for long in ["\u{7}".repeat(SAID_MAX), "x".to_owned() + &"\u{e9}".repeat(WHY_MAX)] {
        let said = Said::failed(None, &std::io::Error::other(long.clone()));
        let message = said.encode();
        assert!(message.len() <= SAID_MAX && Said::decode(&message).unwrap() == said);
        assert!(matches!(said, Said::Failed { why, .. } if long.starts_with(&why) && why.len() >= WHY_MAX - 1));
    }
    let why = Said::decode(&vec![b' '; SAID_MAX + 1]).unwrap_err().to_string();
    assert!(why.contains("more than 16384 bytes"), "{why}");
}

#[test]
fn each_part_has_a_name_of_its_own_and_says_what_its_lack_means() {
    for part in Part::ALL {
        assert_eq!(serde_json::to_value(part).unwrap(), part.name());
        assert!(part.lack().starts_with("no "));
    }
}
