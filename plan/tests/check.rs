//! The checker's verdicts: source in, types or diagnostics out.

use plan::check;

/// The types of a program that is right.
fn types(source: &str) -> Vec<String> {
    let checked = check(source);
    let shown = plan::diagnostic::render(&checked.diagnostics, "test", source, false);
    assert!(checked.diagnostics.is_empty(), "{shown}");
    checked.types.into_iter().map(|(name, kind)| format!("{name} : {kind}")).collect()
}

/// The messages about a program that is wrong.
fn wrong(source: &str) -> Vec<String> {
    let checked = check(source);
    assert!(checked.code.is_none() && !checked.diagnostics.is_empty(), "accepted: {source}");
    checked.diagnostics.iter().map(|diagnostic| diagnostic.to_string()).collect()
}

const PING: &str = "
fun ping (src:host, dest:host) : unit =
  if (not thisHostIs(dest)) then
    OnRemote(|ping|(src,dest), dest, getRB(), defaultRoute)
  else
    OnRemote(|ack| (), src, getRB(), defaultRoute)

fun ack() : unit = print(\"Success\")
";

#[test]
fn the_published_ping_is_right() {
    assert_eq!(types(PING), ["ping : (host, host) -> unit", "ack : void -> unit"]);
}

#[test]
fn types_are_inferred_and_general() {
    let cases = [
        ("fun f(x) = x", "f : 'a -> 'a"),
        ("fun f(x, y) = (y, x)", "f : ('a, 'b) -> 'b * 'a"),
        ("fun f(x) = hd x + 1", "f : int list -> int"),
        ("fun f(a, b) = a :: b", "f : ('a, 'a list) -> 'a list"),
        ("fun f() = []", "f : void -> 'a list"),
        ("val v = (1, \"a\", 'c')", "v : int * string * char"),
        ("fun f(t : int * bool * string) = #3 t", "f : int * bool * string -> string"),
        ("fun f(p) = (fst p, snd p)", "f : 'a * 'b -> 'a * 'b"),
        ("fun f(c) = eval(c)", "f : 'a chunk -> 'a"),
        ("fun f(x) = let val g = x fun h(y) = (g, y) in (h(1), h(true)) end", "f : 'a -> ('a * int) * ('a * bool)"),
        ("fun f(e) = try raise e handle x => x", "f : exn -> exn"),
        ("fun f(x) = |print|(x)", "f : 'a -> unit chunk"),
        ("fun f(r) = OnRemote(|print|(1), hd thisHost(), 1, r)", "f : (host -> host * dev) -> unit"),
        ("fun f(x) = let val e = [] in (1 :: e, true :: e) end", "f : 'a -> int list * bool list"),
        ("svc bw : (host, int) -> int fun f(h) = bw(h, 1)", "f : host -> int"),
        ("svc limit : int fun f() = limit + 1", "f : void -> int"),
    ];
    for (source, expected) in cases {
        let found = types(source);
        assert_eq!(found.last().map(String::as_str), Some(expected), "{source}");
    }
}

#[test]
fn a_chunk_may_name_itself_and_later_functions() {
    types("fun f(n) = if n = 0 then () else (eval(|f|(n - 1)); eval(|g|(n))) fun g(n) = print(n + 1)");
    let all = types("fun a(x) = (OnNeighbor(|b|(x), hd thisHost(), 1); x + 0) fun b(y) = (eval(|a|(y)); ())");
    assert_eq!(all, ["a : int -> int", "b : int -> unit"]);
}

#[test]
fn what_is_wrong_is_said() {
    let cases = [
        ("fun f(x) = f(x)", "'f' calls itself: inside its own definition"),
        ("fun f() = g() fun g() = 1", "'g' is used before its definition: not defined yet"),
        ("fun f() = prnt(1)", "unknown name 'prnt': neither defined here nor known to every node"),
        ("fun f() = 1 + true", "the right side of '+' has the wrong type: expected int, found bool"),
        ("fun f(x) = x + 1 val v = f(\"a\")", "argument 1 of 'f' has the wrong type: expected int, found string"),
        ("fun f(x) = x val v = f(1, 2)", "'f' has another number of parameters: expected 1, found 2"),
        ("fun f() = if 1 then 2 else 3", "the condition has the wrong type: expected bool, found int"),
        ("fun f(x) = #2 x", "the length of the tuple is not known here: of which tuple?"),
        ("fun f() = #3 (1, 2)", "the tuple has no such place: expected at most #2, found #3"),
        ("fun f() = 1 fun f() = 2", "'f' is defined twice: the second definition"),
        ("fun f(x, x) = x", "two parameters are named 'x': the second"),
        ("fun g() = 1 fun f() = g", "the function 'g' is not a value: expected a value, found a function"),
        ("fun f(g) = g(1)", "'g' is not a function: expected a function or a service"),
        ("svc print : int -> int fun f() = 1", "the service 'print' has another type: declared as int -> int"),
        ("fun f(x) = (x, x) :: x", "the right side of '::' has the wrong type: expected ('a * 'a) list, found 'a"),
        ("fun f(x : int lst) = x", "unexpected name: expected ')', found a name"),
        ("fun f(x : itn) = x", "unknown type 'itn': not a type"),
        (
            "fun f() = OnRemote(1, hd thisHost(), 1, RIP)",
            "the chunk of OnRemote has the wrong type: expected 'a chunk, found int",
        ),
        ("fun f() = raise 1", "unexpected number: expected an exception, found a number"),
        ("fun f() = raise Nope", "unknown name 'Nope': neither defined here nor known to every node"),
        (
            "fun f() = foldl(print, 1, [2])",
            "the function of the fold has the wrong type: expected (int, int) -> int, found 'a -> unit",
        ),
        ("val v = w val w = 1", "'w' is used before its definition: not defined yet"),
        ("fun f() = a < b < c", "unexpected '<': expected 'and', 'or' or the end of the comparison, found '<'"),
        ("fun f() = let fun g() = g() in g() end", "'g' calls itself: inside its own definition"),
        ("", "unexpected end of the file: expected a definition, found the end of the file"),
    ];
    for (source, expected) in cases {
        let found = wrong(source);
        assert!(found.iter().any(|message| message == expected), "{source}\n{found:#?}");
    }
}

#[test]
fn one_run_shows_every_mistake() {
    let found = wrong(
        "fun a() = 1 +\nfun b(x : = 2\nfun c() = [1, 2]\nval d = (1; \nexception 3\nfun e() = nope()\nfun g() = 1 + true",
    );
    assert_eq!(found.len(), 7, "{found:#?}");
}

#[test]
fn nesting_and_growth_are_bounded() {
    let deep = |open: &str, close: &str| format!("fun f(x) = {}x{}", open.repeat(1500), close.repeat(1500));
    for source in [
        deep("(", ")"),
        deep("not ", ""),
        deep("[", "]"),
        deep("if ", ""),
        deep("1 + ", ""),
        deep("", " + 1"),
        deep("1 :: ", ""),
        deep("let val y = ", " in y end"),
        deep("", " :: []"),
        format!("svc s : {}int -> int", "(".repeat(1500)),
        format!("svc s : int{} -> int", " list".repeat(1500)),
        format!("fun f(x) = let {} in x end", "val y = 1 ".repeat(1500)),
        (0..1500).map(|n| format!("fun f{n}() = 1 ")).collect(),
    ] {
        let found = wrong(&source);
        let told = found.iter().any(|message| message.contains("too deep") || message.contains("too many"));
        assert!(told, "{found:?}");
    }
    for (source, expected) in [
        (format!("fun f({}) = 1", "x, ".repeat(40)), "too many parameters"),
        (format!("fun f() = [{}]", "1; ".repeat(300) + "1"), "too many expressions in a row"),
        (" ".repeat(70_000), "the program is too long"),
        (format!("fun f() = {}", "\"0123456789abcdef0123456789abcdef\" :: ".repeat(100) + "[]"), ""),
        (
            (0..110).map(|n| format!("fun f{n}() = [{}] ", "\"0123456789abcdef\"; ".repeat(9) + "\"\"")).collect(),
            "the program is too large",
        ),
    ] {
        let found = if expected.is_empty() { types(&source) } else { wrong(&source) };
        assert!(found.iter().any(|message| message.contains(expected)), "{expected}: {found:?}");
    }
    let mut doubling = String::from("val v0 = (1, 1) ");
    for n in 1..100 {
        doubling += &format!("val v{n} = (v{0}, v{0}) ", n - 1);
    }
    assert!(wrong(&doubling).iter().any(|message| message.contains("too large to check")));
    let mut nested = String::from("fun f0(x) = [x] ");
    for n in 1..40 {
        nested += &format!("fun f{n}(x) = f{0}(f{0}(x)) ", n - 1);
    }
    assert!(wrong(&nested).iter().any(|message| message.contains("too large to check")));
}

#[test]
fn a_diagnostic_has_its_line_a_caret_and_a_hint() {
    let source = "fun f(x) =\n  x + prnt(x)\n";
    let checked = check(source);
    let shown = plan::diagnostic::render(&checked.diagnostics, "f.plan", source, false);
    assert_eq!(checked.diagnostics[0].position(source), (2, 7));
    for part in ["Error: unknown name 'prnt'", "f.plan:2:7", "x + prnt(x)", "Help: did you mean 'print'?"] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
}

#[test]
fn an_open_bracket_is_pointed_at_and_nothing_follows_from_it() {
    let cases = [
        ("fun f(x) = (print(x)\nfun g() = f(1)", (1, 12)),
        ("fun f(x) = print(x\nfun g() = f(1)", (1, 17)),
        ("fun f(x) = [1; 2\nval y = f(1)", (1, 12)),
        ("fun f(x) = print([1; 2)", (1, 18)),
        ("fun f(x, y\nfun g() = 1", (1, 6)),
        ("fun f(h) = OnRemote(|f|(h, h, 1, defaultRoute)", (1, 20)),
        ("svc s : (int, int -> int fun f() = s(1, 2)", (1, 9)),
    ];
    for (source, place) in cases {
        let found = check(source).diagnostics;
        assert_eq!(found.len(), 1, "{source}: {found:#?}");
        assert_eq!(found[0].position(source), place, "{source}: {found:#?}");
        assert!(found[0].message.ends_with("is not closed") && found[0].hint.is_some(), "{source}: {found:#?}");
    }
    // What is here instead of the bracket is pointed at, and the bracket beside it.
    let found = check("fun f(x) = print(x x)").diagnostics;
    assert_eq!((found.len(), found[0].other.as_ref().map(|(span, _)| span.start)), (1, Some(16)), "{found:#?}");
}

#[test]
fn one_mistake_is_one_message() {
    let once = [
        "fun f() = prnt(1) + prnt(2) + prnt(3)",
        "fun f() = print(\"no end)\nfun g() = f()",
        "fun f() = (1; \"no end)\nfun g() = f()",
        "fun f() = { print(1); print(2) }",
        "fun f(a, b) = a == b",
        "fun f(a) = if a then 1\nfun g() = f(true)",
        "fun f() = let val x = 1 in x\nfun g() = f()",
        "fun f() = try 1 with X => 2\nfun g() = f()",
        "fun f() = |g(1)\nfun g(n) = n",
        "fun f() = foldl(g, 1)\nfun g(n, m) = n",
        "fun f() = (* no end \nfun g() = f()",
    ];
    for source in once {
        let found = wrong(source);
        assert_eq!(found.len(), 1, "{source}: {found:#?}");
    }
}

#[test]
fn a_long_line_is_cut_around_its_mistake() {
    let long = "x; ".repeat(100);
    let source = format!("fun f(x : int) = [{long}prnt(x); {long}1]");
    let shown = plan::diagnostic::render(&check(&source).diagnostics, "f.plan", &source, false);
    assert!(shown.lines().all(|line| line.chars().count() < 120), "{shown}");
    let lines: Vec<&str> = shown.lines().collect();
    let at = lines.iter().position(|line| line.contains("prnt(x)")).unwrap();
    let column = |line: &str, text: &str| line[..line.find(text).unwrap()].chars().count();
    assert_eq!(column(lines[at], "prnt"), column(lines[at + 1], "^^^^"), "{shown}");
    assert!(shown.contains("f.plan:1:319"), "{shown}");
    let name = "x".repeat(5000);
    let source = format!("fun f() = {name}");
    let shown = plan::diagnostic::render(&check(&source).diagnostics, "f.plan", &source, false);
    assert!(shown.lines().all(|line| line.chars().count() < 260), "{shown}");
}

#[test]
fn a_program_of_several_files_is_read_file_by_file() {
    let program = |files: &[(&str, &str)]| {
        let mut sources = plan::source::Sources::default();
        files.iter().for_each(|(name, text)| sources.add(name, "", text));
        let checked = plan::check_sources(&sources);
        let place = |it: &plan::diagnostic::Diagnostic| {
            let place = sources.place(it.span);
            format!("{}:{}:{} {}", place.file, place.line, place.column, it.message)
        };
        (checked.code.is_some(), checked.diagnostics.iter().map(place).collect::<Vec<_>>())
    };
    assert_eq!(program(&[("a", "fun f(x) = x"), ("b", "fun g() = f(1)")]), (true, vec![]));
    // Neither a comment, a string nor a bracket of one file goes on in the next.
    for (open, message) in [("(* c", "a:1:21 the comment does not end"), ("\"s", "a:1:21 the string does not end")] {
        let first = format!("fun f(x) = x val y = {open}");
        let found = program(&[("a", &first.replace("y = (*", "y (*")), ("b", "fun g() = f(1)")]).1;
        assert!(found.iter().all(|it| it.starts_with("a:")), "{found:?}");
        assert!(found.iter().any(|it| it.ends_with(message.split_once(' ').unwrap().1)), "{found:?}");
    }
    assert_eq!(program(&[("a", "fun f(x) = (x"), ("b", "fun g() = f(1)")]).1, ["a:1:12 the '(' is not closed"]);
    assert_eq!(program(&[("a", "fun f(x) = x"), ("b", "\n fun f(y) = y")]).1, ["b:2:6 'f' is defined twice"]);
    assert!(!program(&[("a", "fun f() = 1"), ("b", "(* nothing *)")]).0);
}
