//! Differences of configurations: what is shown, and what needs a restart.

use super::*;

const NODE: &str = "name = \"a\"\n[[port]]\nudp = \"127.0.0.1:4001\"\naddress = [\"10.0.0.1/24\"]\n\
                    neighbours = [{ address = \"10.0.0.2\", at = \"127.0.0.1:4002\" }]\n";

fn read(more: &str) -> NodeFile {
    NodeFile::parse(&format!("{NODE}{more}")).unwrap()
}

/// The changes between two ends of a file, as lines, those that need a restart with a mark.
fn lines(before: &str, after: &str) -> Vec<String> {
    let changes = between(&read(before), &read(after)).unwrap();
    changes.iter().map(|change| format!("{}{change}", if change.part.is_none() { "! " } else { "" })).collect()
}

#[test]
fn a_change_is_told_by_its_place_with_what_was_and_what_is() {
    for (before, after, told) in [
        ("", "", ""),
        ("", "[cpu]\nshare = 1.0", ""),
        ("", "[cpu]\nshare = 0.5", "cpu.share: 1.0 → 0.5"),
        ("", "[cpu]\nworkers = 2", "! cpu.workers: auto → 2"),
        ("", "[cpu]\nscheduler = \"fifo\"", "cpu.scheduler: none → fifo"),
        (
            "",
            "[[role]]\nname = \"anyone\"\nlimits = { packets_per_second = 9 }",
            "role anyone limits.packets_per_second: 5000000 → 9",
        ),
        ("", "[[role]]\nname = \"r\"", "+ role r"),
        ("[[role]]\nname = \"r\"", "", "- role r"),
        (
            "[[role]]\nname = \"r\"\n[[role]]\nname = \"s\"",
            "[[role]]\nname = \"s\"\n[[role]]\nname = \"r\"",
            "role order: [\"r\",\"s\"] → [\"s\",\"r\"]",
        ),
        ("", "[[route]]\nto = \"10.9.0.0/16\"\nvia = \"10.0.0.2\"", "+ route 10.9.0.0/16"),
        (
            "[[route]]\nto = \"10.9.0.0/16\"\nvia = \"10.0.0.2\"",
            "[[route]]\nto = \"10.9.0.0/16\"\nvia = \"10.0.0.3\"",
            "route 10.9.0.0/16 via: 10.0.0.2 → 10.0.0.3",
        ),
        ("", "[[ee]]\nname = \"e\"\ncommand = [\"sh\"]", "+ ee e"),
        ("", "[input]\norder = \"drr\"", "input.order: none → drr"),
        (
            "[input]\norder = \"drr\"\n[[port]]\npacket = \"eth1\"",
            "[input]\norder = \"wfq\"\n[[port]]\npacket = \"eth1\"\ninput = { weight = 3 }",
            "input.order: drr → wfq; port eth1 input: none → priority, weight",
        ),
        ("", "[sizes]\ncodes = 7", "! sizes.codes: 1024 → 7"),
        ("", "[[role]]\nname = \"r\"\nrepresentations = [\"native\"]", "! + role r"),
        ("", "[[port]]\nudp = \"127.0.0.1:4009\"\naddress = [\"10.0.9.1/24\"]", "+ port udp-4009"),
        ("[[port]]\npacket = \"eth1\"", "", "- port eth1"),
        ("[[port]]\npacket = \"eth1\"", "[[port]]\npacket = \"eth1\"\nxdp = true", "port eth1 xdp: false → true"),
        ("", "[[port]]\npacket = \"eth1\"\npcap = \"/tmp/x.pcap\"", "! + port eth1"),
        ("", "[[port]]\npacket = \"eth1\"\nkernel = true", "! + port eth1"),
        (
            "[[port]]\npacket = \"eth0\"\nkernel = true",
            "[[port]]\npacket = \"eth0\"\nkernel = true\n[[port]]\npacket = \"eth1\"\nkernel = true",
            "+ port eth1",
        ),
    ] {
        assert_eq!(lines(before, after).join("; "), told, "{before:?} to {after:?}");
    }
}

#[test]
fn an_object_in_another_directory_needs_a_restart() {
    let ee = |name: &str, rest: &str| format!("[[ee]]\nname = \"{name}\"\nrole = \"r\"\n{rest}\n");
    let role = "[[role]]\nname = \"r\"\nrepresentations = [\"native\"]\n";
    let all = |environments: &[String]| format!("{role}{}", environments.concat());
    let first = ee("e", "library = [\"/a/e.so\"]");
    for (before, after, told) in [
        (vec![], vec![first.clone()], "! + ee e"),
        (vec![first.clone()], vec![], "- ee e"),
        (vec![first.clone()], vec![first.clone(), ee("f", "library = [\"/a/f.so\"]")], "+ ee f"),
        (vec![first.clone()], vec![first.clone(), ee("f", "library = [\"/b/f.so\"]")], "! + ee f"),
        (vec![first.clone()], vec![first.clone(), ee("f", "command = [\"sh\"]")], "+ ee f"),
        (
            vec![ee("e", "command = [\"sh\"]")],
            vec![first],
            "! ee e command: [\"sh\"] → []; ! ee e library: [] → [\"/a/e.so\"]",
        ),
    ] {
        assert_eq!(lines(&all(&before), &all(&after)).join("; "), told, "{before:?} to {after:?}");
    }
}

#[test]
fn two_ports_of_one_name_cannot_be_told_apart() {
    let twice = "name = \"p\"\n[[port]]\nname = \"p\"\nudp = \"127.0.0.1:4009\"\naddress = [\"10.0.9.1/24\"]";
    let why = between(&read(""), &read(twice)).unwrap_err().to_string();
    assert!(why.contains("[[port]] name: p stands twice"), "{why}");
}

#[test]
fn what_needs_a_restart_stays_as_it_runs() {
    let port = "[[port]]\npacket = \"eth1\"\n";
    let (before, after) = (
        read("[sizes]\ncodes = 7\n[xdp]\nqueues_max = 3"),
        read(&format!("[cpu]\nshare = 0.5\nworkers = 2\n{port}pcap = \"/x\"\n{}", port.replace("eth1", "eth2"))),
    );
    let changes = between(&before, &after).unwrap();
    let left = without_restart(&before, &after, &changes).unwrap();
    let left = between(&before, &left).unwrap();
    let lines: Vec<_> = left.iter().map(ToString::to_string).collect();
    assert_eq!(lines, ["cpu.share: 1.0 → 0.5", "+ port eth2"]);
    let why = changes.iter().find(|change| change.to_string() == "+ port eth1").unwrap().why;
    assert_eq!(why, Some(NO_FILES));
}

#[test]
fn ports_stay_at_the_places_at_which_they_run() {
    let port = |at: u16| format!("[[port]]\nudp = \"127.0.0.1:{at}\"\naddress = [\"10.{}.0.1/24\"]\n", at - 4000);
    let file = |ports: &[u16]| {
        NodeFile::parse(&format!("name = \"a\"\n{}", ports.iter().map(|at| port(*at)).collect::<String>())).unwrap()
    };
    let (before, after) = (file(&[4001, 4002]), file(&[4002, 4001]));
    assert_eq!(between(&before, &after).unwrap(), []);
    assert_eq!(without_restart(&before, &after, &[]).unwrap().titles(), ["udp-4001", "udp-4002"]);
    // Without the first the second is still the second, and nothing differs from a file that has it alone.
    let less = file(&[4002]);
    let changes = between(&before, &less).unwrap();
    let left = without_restart(&before, &less, &changes).unwrap();
    assert_eq!((left.titles(), between(&left, &less).unwrap()), (vec!["".into(), "udp-4002".to_owned()], vec![]));
}
