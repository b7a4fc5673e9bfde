//! The formatter: canonical, stable, and nothing but layout changes.

mod common;

use click::format::{WIDTH, format};
use click::syntax::lexer::lex;
use common::formatted;
use common::generate::{Choices, source};
use proptest::prelude::*;

#[test]
fn layout_is_canonical() {
    let cases = [
        ("a::FromDevice( eth0 )->Discard", "a :: FromDevice(eth0) -> Discard;\n"),
        ("a,b::Queue a[0]->[1]b", "a, b :: Queue;\na [0] -> [1] b;\n"),
        ("a->b;;\n\n\n\nc->d ; e", "a -> b;\n\nc -> d;\ne;\n"),
        ("a\n->b->\nc", "a\n    -> b\n    -> c;\n"),
        ("elementclass A{input->B->output}a->A", "elementclass A { input -> B -> output }\na -> A;\n"),
        (
            "elementclass A{$a,K $b|\ninput->B($a)||...}",
            "elementclass A { $a, K $b |\n    input -> B($a);\n|| ...\n}\n",
        ),
        ("a->{->B->}->c", "a -> { -> B -> } -> c;\n"),
        ("a->{\n[1]->B}->c", "a -> {\n    [1] -> B;\n} -> c;\n"),
        ("a [0,1]=>( [0]->B;[1]->C )=>[0-]d", "a [0, 1] => ( [0] -> B; [1] -> C ) => [0-] d;\n"),
        ("define( $a 1,$b 2 )require(x)", "define($a 1, $b 2);\nrequire(x);\n"),
        ("connectiontunnel a->b,c->d", "connectiontunnel a -> b, c -> d;\n"),
        ("c :: C(a,\n b)", "c :: C(\n    a,\n    b);\n"),
        ("elementclass A B", "elementclass A B;\n"),
        (
            "a->B(1)\n@remote( c )[1]->d::{->E->}@remote(f)",
            "a -> B(1) @remote(c) [1] -> d :: { -> E -> } @remote(f);\n",
        ),
        ("", ""),
        ("{}", "{ };\n"),
    ];
    for (text, expected) in cases {
        assert_eq!(formatted(text), expected, "{text}");
    }
}

#[test]
fn comments_stay_where_they_are() {
    let cases = [
        ("// top\n\na->b // why\n// c\nc->d", "// top\n\na -> b; // why\n// c\nc -> d;\n"),
        ("a /* x */ -> b", "a /* x */ -> b;\n"),
        ("a -> // x\nb;", "a\n    -> // x\n    b;\n"),
        ("a // x\n-> b;", "a // x\n    -> b;\n"),
        ("c::{ // in\ninput->output\n// end\n}", "c :: { // in\n    input -> output;\n    // end\n};\n"),
        ("# 1 \"f\"\na->b\n# 2 \"f\"\n->c", "# 1 \"f\"\na -> b\n# 2 \"f\"\n    -> c;\n"),
        ("a; /* last */", "a; /* last */\n"),
        ("/* only */", "/* only */\n"),
        ("a\n/* x */ /* y */\nb", "a;\n/* x */ /* y */\nb;\n"),
    ];
    for (text, expected) in cases {
        assert_eq!(formatted(text), expected, "{text}");
    }
}

#[test]
fn what_does_not_fit_is_broken() {
    let chain: Vec<_> = (0..30).map(|n| format!("element{n}")).collect();
    let text = formatted(&chain.join(" -> "));
    assert!(text.lines().count() > 2 && text.lines().all(|line| line.len() <= WIDTH), "{text}");
}

#[test]
fn what_cannot_be_parsed_is_not_formatted() {
    assert_eq!(format("a -> ").unwrap_err().len(), 1);
}

/// The text with comments behind some of its tokens.
fn commented(text: &str, comments: &[(u16, usize)]) -> String {
    const COMMENTS: &[&str] = &[
        " /* c */ ",
        "\n/* c */\n",
        " // c\n",
        "\n// c\n",
        "/* a\n b */",
        "\n\n// c\n\n",
        " /* a */ /* b */\n",
        "\n",
        "\n# 5 \"f\"\n",
    ];
    let ends: Vec<_> = lex(text).tokens.iter().map(|spanned| spanned.span.end as usize).collect();
    let mut places: Vec<_> = comments.iter().map(|(at, kind)| (ends[usize::from(*at) % ends.len()], *kind)).collect();
    places.sort();
    let (mut with, mut last) = (String::new(), 0);
    for (at, kind) in places {
        // What follows a name and a slash would be another name.
        with += &text[last..at];
        with += COMMENTS[kind];
        last = at;
    }
    with + &text[last..]
}

proptest! {
    #![proptest_config(common::cases(2000))]

    #[test]
    fn any_configuration_with_comments_anywhere_is_stable(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        comments in proptest::collection::vec((any::<u16>(), 0usize..9), 0..6),
    ) {
        let text = source(&mut Choices::new(&bytes));
        let with = commented(&text, &comments);
        prop_assume!(click::syntax::parse(&with).diagnostics.is_empty());
        formatted(&with);
    }
}
