//! The formatter: canonical, stable, and nothing but layout changes.

mod common;

use common::generate::{Choices, source::source};
use plan::format::{WIDTH, format};
use plan::syntax::{lexer::lex, parse};
use proptest::prelude::*;

/// Formats, and checks what must hold for every program.
fn formatted(text: &str) -> String {
    let once = format(text).unwrap_or_else(|wrong| panic!("{wrong:?}\n{text}"));
    assert_eq!(format(&once).as_deref(), Ok(&once[..]), "formatting again changes it\n{text}");
    let words = |text: &str| {
        let lexed = lex(text);
        let tokens: Vec<_> = lexed.tokens.iter().map(|spanned| spanned.span.text(text).to_owned()).collect();
        let comments: Vec<_> =
            lexed.comments.iter().map(|comment| (comment.before, comment.span.text(text).to_owned())).collect();
        (tokens, comments)
    };
    assert_eq!(words(&once), words(text), "tokens or comments changed\n{once}");
    let shape = |text: &str| {
        // Spans differ; the rest of the tree must not.
        let tree = format!("{:?}", parse(text).program);
        let mut shape = String::new();
        let mut rest = &tree[..];
        while let Some(at) = rest.find("span: Span {") {
            shape += &rest[..at];
            rest = &rest[at + rest[at..].find('}').unwrap_or(0)..];
        }
        shape + rest
    };
    assert_eq!(shape(&once), shape(text));
    assert!(once.ends_with('\n') && !once.ends_with("\n\n") && !once.contains(" \n"), "{once:?}");
    once
}

#[test]
fn layout_is_canonical() {
    let cases = [
        ("fun f(x:int):int=x+1", "fun f(x : int) : int = x + 1\n"),
        ("val a=1 val b=2\n\n\nval c=[1;2]", "val a = 1\nval b = 2\n\nval c = [1; 2]\n"),
        ("exception E fun f()=raise E val x = 1", "exception E\n\nfun f() = raise E\n\nval x = 1\n"),
        (
            "svc s:(int,'a list)->void->host*dev fun f()=()",
            "svc s : (int, 'a list) -> void -> host * dev\n\nfun f() = ()\n",
        ),
        ("fun f(t)=(#2 t;~ 1;hd(t);not  t)", "fun f(t) = (#2 t; ~1; hd (t); not t)\n"),
        ("fun f()=|g|(1 ,2)\nfun g(a,b)=foldl( f,a , b)", "fun f() = |g|(1, 2)\n\nfun g(a, b) = foldl(f, a, b)\n"),
        (
            "fun f(x)=let val y=try x handle E=>1 in if y then 1 else if x then 2 else 3 end",
            "fun f(x) = let val y = try x handle E => 1 in if y then 1 else if x then 2 else 3 end\n",
        ),
        ("(* c *) fun f() = 1 (* d *)", "(* c *) fun f() = 1 (* d *)\n"),
        (
            "(* c *)\n\nfun f() = 1\n(* d *)\nfun g() = 2\n\n(* e *)",
            "(* c *)\n\nfun f() = 1\n\n(* d *)\nfun g() = 2\n\n(* e *)\n",
        ),
        ("fun f() = (a(); (* why *)\n b())", "fun f() =\n  (\n    a(); (* why *)\n    b()\n  )\n"),
        ("fun f() = g( (* x *) 1, 2 (* y *) )", "fun f() = g((* x *) 1, 2 (* y *))\n"),
    ];
    for (text, expected) in cases {
        assert_eq!(formatted(text), expected, "{text}");
    }
}

#[test]
fn what_does_not_fit_is_broken() {
    let long = "fun f(x) = if thisHostIs(x) and getRB() > 1000000 then OnRemote(|f|(x), x, getRB(), defaultRoute) else print(\"nothing\")";
    let expected = "fun f(x) =
  if thisHostIs(x) and getRB() > 1000000 then
    OnRemote(|f|(x), x, getRB(), defaultRoute)
  else
    print(\"nothing\")
";
    assert_eq!(formatted(long), expected);
    let sum: Vec<_> = (0..40).map(|n| format!("number{n}")).collect();
    let text = formatted(&format!("fun f() = {}", sum.join(" + ")));
    assert!(text.lines().all(|line| line.len() <= WIDTH), "{text}");
}

#[test]
fn the_shipped_programs_are_formatted() {
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../apps/plan")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(formatted(&text), text, "{}", path.display());
    }
}

#[test]
fn what_cannot_be_parsed_is_not_formatted() {
    assert_eq!(format("fun f( = 1").unwrap_err().len(), 1);
}

proptest! {
    #![proptest_config(common::cases(1500))]

    #[test]
    fn any_program_with_comments_anywhere_is_stable(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        comments in proptest::collection::vec((any::<u16>(), 0usize..9), 0..6),
    ) {
        let text = source(&mut Choices::new(&bytes));
        let ends: Vec<_> = lex(&text).tokens.iter().map(|spanned| spanned.span.end as usize).collect();
        let mut places: Vec<_> = comments.iter().map(|(at, kind)| (ends[usize::from(*at) % ends.len()], *kind)).collect();
        places.sort();
        let (mut with, mut last) = (String::new(), 0);
        for (at, kind) in places {
            with += &text[last..at];
            with += [
                " (* c *) ", "\n(* c *)\n", " (* c *)\n", "\n(* c *) ", "(* a\n b *)", "\n\n(* c *)\n\n",
                " (* a *) (* b *)\n", "\n", " (* a *)\n(* b *) ",
            ][kind];
            last = at;
        }
        with += &text[last..];
        formatted(&with);
    }
}
