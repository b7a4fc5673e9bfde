//! Flat graphs of random configurations, and what callers get of them.

mod common;

use click::check::{check, check_with};
use click::classes::{Item, Processing};
use common::generate::{Choices, source};
use common::{classes, essence, shown};
use proptest::prelude::*;

proptest! {
    #![proptest_config(common::cases(4000))]

    /// Most are wrong somewhere; those that are right are graphs that can be written and read.
    #[test]
    fn what_is_right_is_read_again_from_its_flat_text(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        let text = source(&mut Choices::new(&bytes));
        let classes = classes();
        let found = check(&text, &classes);
        prop_assert_eq!(found.graph.is_some(), found.diagnostics.is_empty());
        if let Some(graph) = found.graph {
            let flat = graph.graph.to_string();
            let again = check(&flat, &classes);
            let again = again.graph.unwrap_or_else(|| panic!("{text}\n{flat}\n{}", shown(&again.diagnostics, &flat)));
            prop_assert_eq!(essence(&again), essence(&graph), "{}\n{}", text, flat);
        }
    }

    /// Chains of agnostic elements between a source and a sink are what the ends are.
    #[test]
    fn what_can_do_either_takes_over_what_is_at_its_ends(count in 0usize..40, pull in any::<bool>(), both in any::<bool>()) {
        let (begin, end) = match (pull, both) {
            (false, false) => ("FromDevice(a)", "Discard"),
            (false, true) => ("FromDevice(a)", "Queue -> ToDevice(b)"),
            (true, false) => ("RatedSource", "ToDevice(b)"),
            (true, true) => ("FromDevice(a) -> Queue", "ToDevice(b)"),
        };
        let text = format!("{begin} -> {}{end};", "Null -> ".repeat(count));
        let graph = check(&text, &classes()).graph.expect("it is right");
        let expected = if pull { Processing::Pull } else { Processing::Push };
        let nulls = graph.graph.elements.iter().zip(&graph.ports).filter(|(element, _)| element.class == "Null");
        for (_, ports) in nulls {
            prop_assert!(ports.inputs.iter().chain(&ports.outputs).all(|port| port.processing == expected));
            prop_assert!(ports.inputs.iter().all(|port| port.item == Item::Packet));
        }
    }
}

#[test]
fn arguments_know_where_they_were_written_and_where_they_are_used() {
    let source = "elementclass Mark { $a, LIMIT $b | input -> Null($a, x$b, \"$a\") -> output }\n\
                  FromDevice(eth0) -> Mark(LIMIT 5k, wrong) -> Discard;";
    let graph = check(source, &classes()).graph.unwrap().graph;
    let null = graph.elements.iter().find(|element| element.class == "Null").unwrap();
    let seen: Vec<_> =
        null.arguments.iter().map(|it| (it.text.as_str(), it.span.text(source), it.used.text(source))).collect();
    assert_eq!(seen, [("wrong", "wrong", "$a"), ("x5k", "x$b", "x$b"), ("\"wrong\"", "\"$a\"", "\"$a\"")]);
    assert_eq!(null.span.text(source), "Null");
    assert_eq!(null.within.map(|within| within.text(source)), Some("Mark"));
    let told = shown(&[null.arguments[0].wrong("bad colour", "expected a number").hint("write 0 to 255")], source);
    let lines: Vec<&str> = told.lines().map(str::trim_end).collect();
    let expected = [
        "Error: bad colour",
        " --> x.click:2:36",
        "  |",
        "2 | FromDevice(eth0) -> Mark(LIMIT 5k, wrong) -> Discard;",
        "  |                                    ^^^^^ expected a number",
        "1 | elementclass Mark { $a, LIMIT $b | input -> Null($a, x$b, \"$a\") -> output }",
        "  |                                                  -- used here",
        "  = Help: write 0 to 255",
    ];
    assert_eq!(lines, expected);
    let device = &graph.elements[0];
    assert_eq!((device.arguments[0].span, device.arguments[0].span.text(source)), (device.arguments[0].used, "eth0"));
}

#[test]
fn variables_of_the_caller_go_before_those_of_the_text() {
    let source = "define($dev eth0, $limit 5); FromDevice($dev) -> Queue($limit) -> ToDevice($out)";
    let found = check_with(source, &classes(), &[("dev", "eth7"), ("out", "eth8")]).graph.unwrap();
    let arguments: Vec<_> = found.graph.elements.iter().map(|element| element.arguments[0].text.as_str()).collect();
    assert_eq!(arguments, ["eth7", "5", "eth8"]);
}

#[test]
fn requirements_and_provisions_are_the_callers_to_see() {
    let graph = check("require(analysis); provide(mine, package \"yours\");", &classes()).graph.unwrap().graph;
    let names = |list: &[click::arguments::Argument]| list.iter().map(|it| it.text.clone()).collect::<Vec<_>>();
    assert_eq!(
        (names(&graph.requirements), names(&graph.provisions)),
        (vec!["analysis".into()], vec!["mine".into(), "yours".into()])
    );
    // One that would mean something else without its quotes keeps them: what is written can be read.
    let graph = check("provide(4'provide(4'p);", &classes()).graph.unwrap().graph;
    assert_eq!(graph.to_string(), "provide(4'provide(4'p);\n");
    assert!(check(&graph.to_string(), &classes()).graph.is_some());
}
