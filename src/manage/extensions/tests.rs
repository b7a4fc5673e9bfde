//! Extensions that need each other, trap, loop and lie, and what of them is refused. Modules stand here as text; nothing of a node is
//! there but the thread that keeps extensions.

use super::*;

const NAMES: &[u8] = include_bytes!("../../../apps/extensions/names.wat");
const TUNNELS: &[u8] = include_bytes!("../../../apps/extensions/tunnels.wat");
const SHARES: &[u8] = include_bytes!("../../../apps/extensions/shares.wat");

fn start() -> Extensions {
    Extensions::start(Clock::start(), false).unwrap()
}

fn load(extensions: &Extensions, modules: &[&[u8]]) -> Result<Vec<String>, String> {
    let loading = extensions.prepare(modules.iter().map(|module| module.to_vec()).collect())?;
    let names = loading.names();
    extensions.put(loading).map(|()| names)
}

fn call(extensions: &Extensions, call: &str, arguments: &[&str]) -> Result<String, String> {
    let arguments = arguments.iter().map(ToString::to_string).collect();
    extensions.call(call.into(), arguments).map(|called| called.value)
}

/// An extension with one function `f` of this body, and what it needs.
fn extension(name: &str, kind: &str, (imports, body): (&str, &str), more: &str) -> Vec<u8> {
    format!(
        "(module {imports} (memory (export \"memory\") 1) (global (export \"an_buffer\") i32 (i32.const 0))
           (func (export \"f\") (param i32) (result i32) {body})
           (@custom \"anode.extension\" \"name = '{name}'\\n{more}\\n[[call]]\\nname = 'f'\\ntype = '{kind}'\"))"
    )
    .into_bytes()
}

/// Those that not every node has.
fn loaded(extensions: &Extensions) -> Vec<Extension> {
    extensions.list().unwrap().into_iter().filter(|listed| !listed.built_in).collect()
}

#[test]
fn what_is_no_service_is_refused_and_the_thread_works_on() {
    let extensions = start();
    let body = "(memory (export \"memory\") 1) (global (export \"plan_buffer\") i32 (i32.const 64))
                (func (export \"service\") (param i32) (result i32) (i32.const 0))";
    assert!(extensions.service(b"no module".to_vec()).is_err());
    assert!(extensions.clone().service(format!("(module {body})").into_bytes()).is_ok());
}

#[test]
fn extensions_call_each_other_and_go_in_the_order_of_their_needs() {
    let extensions = start();
    assert!(load(&extensions, &[TUNNELS]).unwrap_err().contains("needs names.lookup : string -> host: no extension"));
    assert_eq!(load(&extensions, &[TUNNELS, NAMES]).unwrap(), ["names", "tunnels"]);
    assert_eq!(call(&extensions, "names.add", &["vtep.west", "10.0.0.9"]).unwrap(), "()");
    assert_eq!(call(&extensions, "names.add", &["www", "fd00::80"]).unwrap(), "()");
    assert_eq!(call(&extensions, "names.lookup", &["www"]).unwrap(), "fd00::80");
    assert_eq!(call(&extensions, "tunnels.end", &["west"]).unwrap(), "10.0.0.9");
    assert_eq!(call(&extensions, "tunnels.end", &["east"]).unwrap_err(), "tunnels.end: not found");
    assert_eq!(call(&extensions, "names.remove", &["vtep.west"]).unwrap(), "()");
    assert!(call(&extensions, "tunnels.end", &["west"]).is_err());
    assert_eq!(call(&extensions, "names.lookup", &["www"]).unwrap(), "fd00::80", "others stay");
    let listed = loaded(&extensions);
    assert_eq!((&*listed[1].name, listed[1].called, listed[1].failed), ("tunnels", 3, 2));
    let refused = extensions.leaving("names".into(), false).unwrap_err();
    assert_eq!(refused, "names is needed by tunnels: unload first what needs it, or all with --cascade");
    let leaving = extensions.leaving("names".into(), true).unwrap();
    assert_eq!(
        (leaving.names.clone(), leaving.services, leaving.taught),
        (vec!["tunnels".into(), "names".into()], vec!["end".into()], vec![])
    );
    extensions.take(leaving.names).unwrap();
    assert!(call(&extensions, "names.lookup", &["www"]).unwrap_err().contains("no extension 'names' is loaded"));
    load(&extensions, &[NAMES]).unwrap();
    assert_eq!(call(&extensions, "names.lookup", &["www"]).unwrap_err(), "names.lookup: not found", "it began anew");
}

#[test]
fn a_table_of_names_is_full_and_has_its_bounds() {
    let extensions = start();
    load(&extensions, &[NAMES]).unwrap();
    for number in 0..256 {
        call(&extensions, "names.add", &[&format!("host{number}"), "10.0.0.1"]).unwrap();
    }
    assert_eq!(call(&extensions, "names.add", &["one-more", "10.0.0.1"]).unwrap_err(), "names.add: refused");
    call(&extensions, "names.add", &["host7", "10.0.0.7"]).unwrap();
    call(&extensions, "names.remove", &["host9"]).unwrap();
    call(&extensions, "names.add", &[&"x".repeat(32), "10.0.0.8"]).unwrap();
    assert_eq!(call(&extensions, "names.lookup", &["host7"]).unwrap(), "10.0.0.7");
    assert_eq!(call(&extensions, "names.lookup", &[&"x".repeat(32)]).unwrap(), "10.0.0.8");
    assert_eq!(
        call(&extensions, "names.add", &[&"x".repeat(33), "10.0.0.8"]).unwrap_err(),
        "names.add: too big, or no room for more"
    );
}

#[test]
fn calls_that_trap_loop_or_lie_end_and_nobody_else_is_disturbed() {
    let extensions = start();
    let f = |name: &str, body: &str| extension(name, "void -> int", ("", body), "");
    let seven = "(i64.store (i32.const 0) (i64.const 7)) (i32.const 8)";
    let of = |name: &str| format!("(import \"{name}\" \"f\" (func $f (param i32) (result i32)))");
    let needs = |name: &str| format!("needs = ['{name}.f : void -> int']");
    let passes = |own: &str, other: &str, body: &str| extension(own, "void -> int", (&of(other), body), &needs(other));
    let all = [
        f("seven", seven),
        f("loops", "(loop (br 0)) unreachable"),
        f("traps", "unreachable"),
        f("lies", "(i32.const 4)"),
        f("far", "(i32.const 4097)"),
        f("says", "(i32.const -77)"),
        f("deep", "(i32.const 0) (call 0) drop unreachable"),
        passes("asks", "seven", "(call $f (i32.const 0))"),
        passes("asks-loop", "loops", "(call $f (i32.const 0))"),
        passes(
            "asks-trap",
            "traps",
            "(drop (call $f (i32.const 0))) (i64.store (i32.const 0) (i64.const -5)) (i32.const 8)",
        ),
        passes("asks-much", "seven", "(call $f (i32.const 4097))"),
        passes("asks-past", "seven", "(call $f (i32.const -1))"),
        passes("asks-ever", "seven", "(loop (drop (call $f (i32.const 0))) (br 0)) unreachable"),
    ];
    load(&extensions, &all.each_ref().map(|module| &module[..])).unwrap();
    for (name, expected) in [
        ("seven", Ok("7")),
        ("loops", Err("used up its fuel")),
        ("traps", Err("a trap")),
        ("lies", Err("not of the type void -> int")),
        ("far", Err("a trap")),
        ("says", Err("it says -77")),
        ("deep", Err("a trap")),
        ("asks", Ok("7")),
        ("asks-loop", Err("used up its fuel")),
        ("asks-trap", Ok("~5")),
        ("asks-much", Err("too big")),
        ("asks-past", Err("too big")),
        ("asks-ever", Err("used up its fuel")),
        ("seven", Ok("7")),
    ] {
        let given = call(&extensions, &format!("{name}.f"), &[]);
        match expected {
            Ok(value) => assert_eq!(given.as_deref(), Ok(value), "{name}"),
            Err(why) => assert!(given.as_ref().is_err_and(|said| said.contains(why)), "{name}: {given:?}"),
        }
    }
    for (named, why) in
        [("seven", "is named EXTENSION.CALL"), ("seven.g", "it has: f"), ("eight.f", "no extension 'eight'")]
    {
        assert!(call(&extensions, named, &[]).unwrap_err().contains(why), "{named}");
    }
    assert!(call(&extensions, "seven.f", &["1"]).unwrap_err().contains("1 arguments are given"));
}

#[test]
fn modules_that_are_no_extensions_are_refused_and_nothing_of_their_list_is_loaded() {
    let extensions = start();
    let fine = extension("fine", "void -> int", ("", "(i32.const 0)"), "");
    let f = |kind: &str, imports: &str, more: &str| extension("bad", kind, (imports, "(i32.const 0)"), more);
    let service = "[[call]]\\nname = 'g'\\ntype = 'void -> int'";
    for (module, why) in [
        (b"no module".to_vec(), "expected `(`"),
        (b"(module)".to_vec(), "no custom section 'anode.extension'"),
        (f("void", "", ""), "no function's type"),
        (f("void -> int", "(import \"env\" \"x\" (func))", ""), "imports env.x"),
        (f("void -> int", "(import \"fine\" \"f\" (func (param i32) (result i32)))", ""), "imports fine.f"),
        (f("void -> int", "", service), "exports no function 'g'"),
        (f("void -> int", "", "needs = ['fine.f : void -> host']"), "fine.f is of type void -> int"),
        (vec![b' '; 65_537], "at most 65536 bytes"),
    ] {
        let refused = load(&extensions, &[&fine, &module]).unwrap_err();
        assert!(refused.contains(why), "{why}: {refused}");
        assert!(loaded(&extensions).is_empty());
    }
    load(&extensions, &[&fine]).unwrap();
    assert!(load(&extensions, &[&fine]).unwrap_err().contains("loaded already"));
}

#[test]
fn classes_of_engines_are_those_of_all_that_are_loaded_and_their_engines_take_their_arguments() {
    let extensions = start();
    load(&extensions, &[TUNNELS, NAMES]).unwrap();
    let classes = extensions.classes();
    let names: Vec<_> = classes.iter().map(|class| (&*class.name, &*class.ports)).collect();
    assert_eq!(names, [("tunnels/Network", "1/1-2"), ("tunnels/Decap", "1/1")]);
    let engine = |class: &str, arguments: &str| classes.class(class).unwrap().engine(arguments).err();
    for (class, arguments, refused) in [
        ("tunnels/Network", "7", None),
        ("tunnels/Network", "16777215", None),
        ("tunnels/Network", "16777216", Some("refused")),
        ("tunnels/Network", "7, 8", Some("refused")),
        ("tunnels/Network", "", Some("refused")),
        ("tunnels/Decap", "", None),
        ("tunnels/Decap", "7", Some("it takes no arguments")),
    ] {
        assert_eq!(engine(class, arguments).as_deref(), refused, "{class}({arguments})");
    }
    let engine = classes.class("tunnels/Network").unwrap().engine("7").unwrap();
    assert_eq!(engine.keeps(), Some(2 << 16), "its memory, and that of names, which it needs");
    extensions.take(vec!["tunnels".into()]).unwrap();
    assert_eq!(extensions.classes().iter().count(), 0);
    load(&extensions, &[SHARES]).unwrap();
    let classes = extensions.classes();
    let refused = |arguments: &str| classes.class("shares/Shares").unwrap().engine(arguments).err();
    for fine in ["1", "3, 1", "10000, 1", &["7"; 64].join(", ")] {
        assert_eq!(refused(fine), None, "{fine}");
    }
    for wrong in ["", "none", "0", "3, 0", "10001", &["7"; 65].join(", ")] {
        assert_eq!(refused(wrong).as_deref(), Some("refused"), "{wrong}");
    }
}

/// Which inputs packets are pulled from, of the last of so many; both inputs have some as long as `far` says.
fn order(extensions: &Extensions, engine: &str, bytes: [usize; 2], count: usize) -> Vec<usize> {
    let source = |at: usize| {
        format!("InfiniteSource(LENGTH {}, LIMIT {count}) -> q{at} :: Queue({count}) -> [{at}] s;\n", bytes[at])
    };
    let text =
        format!("s :: {engine}; {}{}s -> RatedUnqueue(1000) -> Queue(1000) -> ToDevice(out);", source(0), source(1));
    let mut graph =
        crate::graph::load::load_with(&text, &[], &extensions.classes()).unwrap_or_else(|wrong| panic!("{wrong:?}"));
    let (mut pool, mut scratch) = (crate::frame::FramePool::new(2048, 16), crate::graph::scratch::Scratch::default());
    let mut now = 1_000_000_000;
    while scratch.out.len() < count {
        graph.work(now, &mut pool, &mut scratch);
        now += 1_000_000;
    }
    scratch.out.iter().take(count).map(|frame| usize::from(frame.len() != bytes[0])).collect()
}

#[test]
fn an_order_of_an_extension_gives_shares_of_bytes_and_one_that_fails_loses_no_packet() {
    let extensions = start();
    load(&extensions, &[SHARES]).unwrap();
    // Three parts of four, with packets of 100 and of 300 bytes: nine of ten packets.
    let pulled = order(&extensions, "shares/Shares(3, 1)", [100, 300], 400);
    let of_second = pulled.iter().filter(|input| **input == 1).count();
    assert!((39..=41).contains(&of_second), "{of_second}");
    let equal = order(&extensions, "shares/Shares(1, 1)", [100, 101], 400);
    assert!((198..=202).contains(&equal.iter().sum::<usize>()), "{equal:?}");
    for body in [
        "unreachable",
        "(loop (br 0)) unreachable",
        "(i32.const -1)",
        "(i32.const 0)",
        "(i64.store (i32.const 0) (i64.const 2)) (i32.const 8)",
    ] {
        let module = format!(
            "(module (memory (export \"memory\") 1) (global (export \"an_buffer\") i32 (i32.const 0))
               (func (export \"Bad\") (param i32) (result i32) {body})
               (@custom \"anode.extension\" \"name = 'bad'\\n[[engine]]\\nname = 'Bad'\\nports = '1-/1'\\norder = true\"))"
        );
        load(&extensions, &[module.as_bytes()]).unwrap();
        let pulled = order(&extensions, "bad/Bad", [100, 101], 100);
        assert_eq!(pulled, [0; 100], "{body}: the first input that has something");
        extensions.take(vec!["bad".into()]).unwrap();
    }
}
