//! Texts of strangers: whatever they ask for, an answer comes, and names what is too much.

mod common;

use click::check;
use click::classes::Bounds;
use click::syntax::MISTAKES_MAX;
use common::{classes, shown};

/// The first message about a text.
fn wrong(source: &str) -> String {
    let found = check(source, &classes());
    assert!(found.graph.is_none() && found.diagnostics.len() <= MISTAKES_MAX + 1, "{}", found.diagnostics.len());
    assert!(!shown(&found.diagnostics, source).is_empty());
    found.diagnostics[0].message.clone()
}

fn told(source: &str, expected: &str) {
    let found = wrong(source);
    assert!(found.contains(expected), "expected {expected}, found {found}: {:.80}", source);
}

#[test]
fn form_is_bounded() {
    told(&" ".repeat(300_000), "too long");
    told(&"{".repeat(100_000), "too deep");
    told(&"(".repeat(100_000), "too deep");
    told(&"a -> { ".repeat(10_000), "too deep");
    told(&format!("{} :: Null", "a".repeat(2000)), "the name is too long");
    told(&format!("a [{}0] -> b", "0,".repeat(2000)), "too many ports");
    told(&"a [0-1023] -> b;".repeat(100), "too many ports");
    told(&format!("elementclass A {{ {}$z | }}", "$a, ".repeat(100)), "too many parameters");
    told(&format!("elementclass A {{ {} }}", "a || ".repeat(100)), "too many bodies");
}

#[test]
fn formatting_long_lines_ends() {
    for text in
        ["X(1), ".repeat(20_000) + "X(1)", "{-> X(1) -> } -> ".repeat(8_000) + "X", "a -> ".repeat(40_000) + "a"]
    {
        let once = click::format::format(&text).expect("the form is right");
        assert_eq!(click::format::format(&once).map(|again| again == once), Ok(true));
    }
}

#[test]
fn nesting_that_is_allowed_is_read() {
    let deep = format!("FromDevice(a) -> {} Null {} -> Discard", "{ -> ".repeat(32), "-> }".repeat(32));
    let found = check(&deep, &classes());
    assert!(found.graph.is_some(), "{}", shown(&found.diagnostics, &deep));
}

/// Classes of which each uses the one before twice.
fn doubling(count: usize, first: &str, body: impl Fn(usize) -> String) -> String {
    let classes: String = (1..count).map(|n| format!("elementclass A{n} {{ {} }}\n", body(n))).collect();
    format!("elementclass A0 {{ {first} }}\n{classes}RatedSource -> A{} -> Discard;", count - 1)
}

#[test]
fn expansion_is_bounded() {
    let twice = |n: usize| format!("input -> A{0} -> A{0} -> output", n - 1);
    told(&doubling(40, "input -> Null -> output", twice), "too large with all its compounds");
    told(&doubling(40, "input -> output", twice), "too large with all its compounds");
    told(
        &doubling(400, "input -> output", |n| format!("input -> A{} -> output", n - 1)),
        "the name is too long with all",
    );
    let text = |n: usize| format!("$x | input -> A{}($x$x$x$x) -> output", n - 1);
    told(
        &doubling(12, "$x | input -> Null($x) -> output", text).replace("-> A11 ->", "-> A11(0123456789) ->"),
        "too large",
    );
    let ways = format!("connectiontunnel a -> b;{}{}", "Idle -> a;".repeat(9000), "b -> Idle;".repeat(9000));
    told(&ways, "too");
}

#[test]
fn many_mistakes_are_told_up_to_a_number() {
    let unknown: String = (0..20_000).map(|n| format!("Qx{n};")).collect();
    assert_eq!(check(&unknown, &classes()).diagnostics.len(), MISTAKES_MAX);
    let strange = "%;".repeat(100_000);
    assert!(check(&strange, &classes()).diagnostics.len() <= MISTAKES_MAX);
    let names: String = (0..9_000).map(|n| format!("Null@{} :: Null;", n + 9_000)).collect();
    wrong(&(names + &"Null;".repeat(9_000)));
    wrong(&"(a)".repeat(60_000));
    wrong(&"define($a 1);".repeat(15_000));
    wrong(&"a -> ".repeat(50_000));
    wrong(&"X(".repeat(100_000));
    wrong(&"\"$".repeat(100_000));
}

#[test]
fn a_graph_as_large_as_can_be_is_checked() {
    let elements = Bounds::default().elements;
    let chain = format!("FromDevice(a) -> {} Discard;", "Null -> ".repeat(elements - 10));
    let graph = check(&chain, &classes()).graph.expect("it is right");
    assert_eq!((graph.graph.elements.len(), graph.graph.connections.len()), (elements - 8, elements - 9));
    let again = check(&graph.graph.to_string(), &classes());
    assert!(
        again.graph.is_none() && again.diagnostics[0].message.contains("too long"),
        "its text is longer than a text may be"
    );
}

#[test]
fn elements_with_very_many_ports_are_checked() {
    let lanes: String = (1..20).map(|n| format!("l{} [0-1023] => [0-1023] l{n} :: Lanes;\n", n - 1)).collect();
    let text = format!("i :: Idle; l0 :: Lanes; i [0-1023] => [0-1023] l0;\n{lanes}l19 [0-1023] -> Discard;");
    let graph = check(&text, &classes()).graph.expect("it is right");
    assert_eq!(graph.graph.connections.len(), 21 * 1024);
}
