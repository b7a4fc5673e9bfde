//! Places of single engines: `@user` keeps one out of the program in the kernel, and `@kernel` is there or the graph is refused.

use super::{GraphPlace, GraphSpec, NOW, Pair, spec};
use crate::channels::{Ends, PLAIN, datagram};
use crate::place::Came;

/// Every other packet is for port 53.
const TEXT: &str = "FromDevice(r0) -> c :: Counter -> MarkIPHeader(14) -> i :: IPClassifier(udp dst port 53, -) -> a :: Counter A \
                    -> q :: Queue -> ToDevice(r1); i [1] -> two :: { input -> b :: Counter -> d :: Null D -> output } B -> q;";

/// The graph with these places of `a`, `two` and `two/d`.
fn text(a: &str, two: &str, d: &str) -> String {
    TEXT.replace(" A ", &format!(" {a} ")).replace(" B ", &format!(" {two} ")).replace(" D ", &format!(" {d} "))
}

/// Why a graph is refused; nothing: it runs.
fn why(pair: &mut Pair, graph: GraphSpec) -> String {
    let graph = graph.prepare().unwrap_or_else(|why| panic!("{why}"));
    pair.place.above.control(NOW, |node, turn| node.run_graph(turn, graph, None)).err().unwrap_or_default()
}

#[test]
fn engines_with_a_place_in_user_space_have_no_form_in_the_kernel() {
    let Some(mut pair) = Pair::new("FromDevice(r0) -> Discard;") else { return };
    let (plain, dns) = (datagram(PLAIN, b"plain"), datagram(Ends { ports: (4000, 53), ..PLAIN }, b"dns"));
    for (places, up, said) in [
        (("", "", ""), [false, false], None),
        (("@user", "", ""), [true, false], Some("a :: Counter: it is to be @user")),
        (("", "@user", ""), [false, true], Some("two/b :: Counter: it is to be @user")),
        // The nearest place counts.
        (("", "@user", "@auto"), [false, true], Some("two/b :: Counter: it is to be @user")),
        (("", "", "@user"), [false, true], Some("two/d :: Null: it is to be @user")),
        (("", "@auto", "@user"), [false, true], Some("two/d :: Null: it is to be @user")),
        (
            ("@user", "@user", "@user"),
            [true, true],
            Some("two/b :: Counter: it is to be @user; a :: Counter: it is to be @user"),
        ),
    ] {
        let text = text(places.0, places.1, places.2);
        let swapped = pair.apply_at(GraphPlace::Auto, &text).unwrap_or_else(|why| panic!("{text}: {why}"));
        assert_eq!(swapped.why.as_deref(), said, "{text}");
        for (bytes, up) in [&dns, &plain].into_iter().zip(up) {
            let before = pair.in_kernel;
            pair.pass(&text, bytes);
            assert_eq!(pair.in_kernel - before, u64::from(!up), "{text}");
        }
        for engine in ["c", "a", "two/b"] {
            pair.read(engine, "count");
        }
        pair.counts();
    }
    assert_eq!(pair.read("c", "count"), "14");
}

#[test]
fn engines_with_a_place_in_the_kernel_are_there_or_the_graph_is_refused() {
    let Some(mut pair) = Pair::new("FromDevice(r0) -> Queue -> ToDevice(r1);") else { return };
    let bytes = datagram(PLAIN, b"plain");
    for (role, text, cause) in [
        ("graphs", text("@kernel", "@user", ""), ""),
        (
            "graphs",
            text("@user", "@kernel", "@user"),
            "two/b :: Counter is to be @kernel, which cannot be: no packet that comes to two/b",
        ),
        (
            "graphs",
            text("@user", "@user", "@kernel"),
            "two/d :: Null stays there: two/b :: Counter: it is to be @user; a ::",
        ),
        (
            "graphs",
            "FromDevice(r0) -> t :: Tee @kernel -> Discard; t [1] -> Discard;".into(),
            "t :: Tee has no form there",
        ),
        (
            "graphs",
            "FromDevice(r0) -> Queue -> ToDevice(r1); RatedSource(RATE 1) -> c :: Counter @kernel -> Discard;".into(),
            "no packet of a device comes to c :: Counter",
        ),
        ("none", text("", "@kernel", ""), "the role none has grants.kernel_programs = 0"),
    ] {
        let mut graph = GraphSpec { role: role.into(), ..spec(GraphPlace::Auto, &text) };
        if role == "none" {
            (graph.name, graph.take) = ("other".into(), vec!["r0/ip/udp *:77".into()]);
        }
        let why = why(&mut pair, graph);
        assert!(why.contains(cause) && why.is_empty() == cause.is_empty(), "{text}: {why}");
        // What is refused leaves the one before.
        assert!(matches!(pair.place.kernel(&bytes), Came::Up(_)), "{text}");
    }
    let [_, shown] = pair.shown();
    let of = |name: &str| shown.engines.iter().find(|engine| engine.name == name).map(|it| (it.asked, it.in_kernel));
    assert_eq!(of("a"), Some((GraphPlace::Kernel, true)));
    assert_eq!(of("two/d"), Some((GraphPlace::User, false)));
    assert_eq!(of("c"), Some((GraphPlace::Auto, true)));
}

#[test]
fn places_that_are_none_in_the_place_of_the_whole_are_mistakes_of_the_text() {
    for (place, own, said) in [
        (GraphPlace::User, "@kernel", "'a' is to be @kernel, and the graph in user space"),
        (GraphPlace::Kernel, "@user", "'a' is to be @user, and the graph in the kernel with all engines"),
    ] {
        let why = spec(place, &text(own, "", "")).prepare().err().unwrap_or_default();
        assert!(why.contains(said) && why.contains("place = \"auto\"") && why.contains("^"), "{why}");
    }
    for (place, own) in [(GraphPlace::User, "@user"), (GraphPlace::Kernel, "@kernel"), (GraphPlace::Auto, "@auto")] {
        assert!(spec(place, &text(own, "", "")).prepare().is_ok());
    }
}
