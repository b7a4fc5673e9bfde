//! Meanings of programs: source in, value or exception out, by both evaluators.

mod common;

use common::{both, header, main, program};
use plan::eval::{Cause, Fault, Limits, Stop};
use plan::name::Name;
use plan::packet::Packet;
use plan::value::{Chunk, Value};
use std::sync::Arc;

/// What `main()` gives, as text: a value, an exception, a fault.
fn result(source: &str) -> String {
    match main(source).result {
        Ok(value) => value.to_string(),
        Err(Stop::Raise(name)) => format!("raises {name}"),
        Err(Stop::Fault(fault)) => fault.to_string(),
    }
}

#[test]
fn expressions_have_their_values() {
    let cases = [
        ("1 + 2 * 3 - 4 / 2 % 3", "5"),
        ("~7 / 2", "~3"),
        ("~7 % 2", "~1"),
        ("9223372036854775807 + 1", "~9223372036854775808"),
        ("1 / 0", "raises DivByZero"),
        ("1 << 63 >> 63", "~1"),
        ("1 << 64", "0"),
        ("~1 >> 1000", "~1"),
        ("1 << ~1", "0"),
        ("6 andi 3 ori 8 xori 1", "11"),
        ("noti 0", "~1"),
        ("1 + 1 andi 3", "2"),
        ("1 < 2 and 2 <= 2 or 1 / 0 = 1", "true"),
        ("false and 1 / 0 = 1", "false"),
        ("not true = false", "true"),
        ("(1, \"a\") = (1, \"a\")", "true"),
        ("[1; 2] <> [1; 2; 3]", "true"),
        ("1 :: 2 :: []", "[1;2]"),
        ("hd tl [1; 2]", "2"),
        ("hd []", "raises EmptyList"),
        ("tl []", "raises EmptyList"),
        ("#2 (1, 2, 3)", "2"),
        ("fst (1, 2) + snd (1, 2)", "3"),
        ("\"ab\" ^ \"c\" ^ implode [chr 100; 'e']", "abcde"),
        ("explode \"ab\"", "['a';'b']"),
        ("ord (hd (explode \"A\"))", "65"),
        ("chr 256", "raises BadChr"),
        ("length([1; 2; 3])", "3"),
        ("(print(1); 2)", "2"),
        ("if 1 = 2 then 3 else 4", "4"),
        ("let val x = 1 val y = x + 1 in x + y end", "3"),
        ("let fun add(x) = x + 10 in add(add(1)) end", "21"),
        ("let val k = 5 fun f(x) = x + k fun g(x) = f(x) + k in g(1) end", "11"),
        ("let val k = 2 fun f(s, x) = s * k + x in foldl(f, 0, [1; 2; 3]) end", "11"),
        ("let val k = 2 fun f(x, s) = s * k + x in foldr(f, [1; 2; 3], 0) end", "17"),
        ("let fun f(s, x) = x :: s in foldl(f, [], [1; 2; 3]) end", "[3;2;1]"),
        ("let fun f(x, s) = x :: s in foldr(f, [1; 2; 3], []) end", "[1;2;3]"),
        ("try hd [] handle EmptyList => 1", "1"),
        ("try hd [] handle DivByZero => 1", "raises EmptyList"),
        ("try 1 / 0 handle e => if e = DivByZero then 2 else 3", "2"),
        ("try (try 1 / 0 handle EmptyList => 1) handle DivByZero => 2", "2"),
        ("try (try raise Own handle e => raise e) handle Own => 7", "7"),
        ("1 + (try 1 + hd [] handle EmptyList => 5)", "6"),
        ("try getHostByName(\"x\") handle ServiceNotPresent => getSource()", "10.0.0.1"),
        ("raise Own", "raises Own"),
        ("eval(|twice|(21))", "42"),
        ("let val k = 3 fun f(x) = x * k in eval(|f|(4)) end", "12"),
        ("let fun f(n) = if n = 0 then 0 else 1 + eval(|f|(n - 1)) in f(5) end", "5"),
        ("let fun f(n) = eval(|f|(n + 1)) in f(0) end", "DepthLimit"),
        ("|twice|(1) = |twice|(1)", "true"),
        ("|twice|(1)", "<chunk:\ntwice[1]>"),
        ("limit + 0", "42"),
        ("getRB()", "10"),
        ("getRB = getRB", "true"),
        ("(getRB, 1)", "(getRB, 1)"),
        ("defaultRoute = RIP", "false"),
    ];
    for (expression, expected) in cases {
        let source = format!("exception Own svc twice : int -> int svc limit : int fun main() = {expression}");
        assert_eq!(result(&source), expected, "{expression}");
    }
}

#[test]
fn an_exception_ends_the_calls_it_passes() {
    // Were a call left open, the return of `main` would go on inside it; were its depth kept, 300 would be too deep.
    let source = "
        fun inner(x) = 1 + (2 + (3 / x))
        fun outer(x) = 10 + inner(x) + 20
        fun each(sum, x) = sum + (try outer(0) handle DivByZero => x) + (try eval(|outer|(0)) handle e => 1)
        fun number(list, x) = x :: list
        fun more(list, x) = foldl(number, list, [1; 1; 1; 1; 1; 1; 1; 1; 1; 1])
        fun main() = 1000 + foldl(each, 0, foldl(more, [], [1; 2; 3; 4; 5; 6; 7; 8; 9; 10; 11; 12; 13; 14; 15; 16; 17; 18; 19; 20;
          21; 22; 23; 24; 25; 26; 27; 28; 29; 30]))";
    assert_eq!(result(source), "1600");
    let source = "
        fun fail(x) = (print(x); hd [])
        fun catch(x) = (try fail(x) + 1 handle EmptyList => x) + 1
        fun twice(x) = (try catch(x) + fail(5) handle e => if e = EmptyList then 7 else 8) + 1
        fun main() = (try twice(1) handle e => 100) + catch(2)";
    assert_eq!(result(source), "11");
}

#[test]
fn values_are_evaluated_once_and_only_if_needed() {
    let source = "
        val unused = print(\"unused\")
        val one = (print(\"one\"); 1)
        val two = (print(\"two\"); one + one)
        fun main() = two + two";
    let seen = main(source);
    assert_eq!(seen.result, Ok(Value::Int(4)));
    assert_eq!(seen.log.len(), 2, "{:?}", seen.log);
    // An evaluation in place is an evaluation: it has its own.
    let source = "val one = (print(\"one\"); 1) fun f() = one fun main() = one + eval(|f|())";
    assert_eq!(main(source).log.len(), 2);
}

#[test]
fn the_bound_is_donated_and_never_grows() {
    let sends = |text: &str| {
        let seen = main(&format!("fun f() = () fun main() = {text}"));
        (seen.log.iter().filter(|line| line.starts_with("send")).count(), seen.bound, seen.result)
    };
    let not_enough = || Err(Stop::Raise(Name::NOT_ENOUGH_RB));
    let remote = |bound: &str| format!("OnRemote(|f|(), getSource(), {bound}, defaultRoute)");
    assert_eq!(sends(&remote("4")), (1, 6, Ok(Value::Unit)));
    assert_eq!(sends(&remote("getRB()")), (1, 0, Ok(Value::Unit)));
    assert_eq!(sends(&remote("11")), (0, 10, not_enough()));
    assert_eq!(sends(&remote("0")), (0, 10, not_enough()));
    assert_eq!(sends(&remote("~1")), (0, 10, not_enough()));
    assert_eq!(sends(&format!("({}; {})", remote("getRB()"), remote("1"))), (1, 0, not_enough()));
    assert_eq!(sends("RetransOnRemote(|f|(), getSource(), 3, RIP, 3, 10)"), (1, 1, Ok(Value::Unit)));
    assert_eq!(sends("RetransOnRemote(|f|(), getSource(), 3, RIP, 4, 10)"), (0, 10, not_enough()));
    assert_eq!(sends("OnNeighbor(|f|(), getSource(), 10)"), (1, 0, Ok(Value::Unit)));
    assert_eq!(sends("(abort(|f|()); getRB())"), (1, 0, Ok(Value::Int(0))));
    let handled = format!("try {} handle NotEnoughRB => print(1)", remote("99"));
    assert_eq!(sends(&handled), (0, 10, Ok(Value::Unit)));
}

#[test]
fn a_packet_that_the_node_refuses_costs_nothing() {
    let source = "fun f() = () fun main(h) = OnRemote(|f|(), h, 4, defaultRoute)";
    let chunk = Chunk::of(&program(source), "main", vec![Value::Host(Default::default())]).unwrap();
    let seen = both(&chunk, Limits::default(), 10);
    assert_eq!((seen.bound, seen.result), (10, Err(Stop::Raise(Name::new("NoRoute").unwrap()))));
}

#[test]
fn every_limit_stops_a_program() {
    let doubling = |count: usize| {
        let mut source = String::from("fun f0(x) = x + 1 ");
        for n in 1..count {
            source += &format!("fun f{n}(x) = f{0}(f{0}(x)) ", n - 1);
        }
        source + &format!("fun main() = f{}(0)", count - 1)
    };
    assert_eq!(result(&doubling(10)), "512");
    assert_eq!(result(&doubling(40)), "StepLimit");
    let twice = |body: &str| {
        let fourteen = "[1;2;3;4;5;6;7;8;9;10;11;12;13;14]";
        format!(
            "fun d(s, x) = s ^ s fun e(s, x) = {body} fun main() = foldl(e, foldl(d, \"0123456789abcdef\", {fourteen}), {fourteen})"
        )
    };
    assert_eq!(result(&twice("(s ^ s; s)")), "MemoryLimit");
    assert_eq!(result(&twice("s ^ s")), "ValueLimit");
    let pairs: String = (1..20).map(|n| format!("val v{n} = [v{0}; v{0}] ", n - 1)).collect();
    assert_eq!(result(&format!("fun main() = let val v0 = 1 {pairs} in v1 = v1 end")), "ValueLimit");
    let deep = format!("fun main() = {}1{}", "eval(|g|(".repeat(50), "))".repeat(50));
    assert_eq!(result(&format!("fun g(x) = x {deep}")), "1");
}

#[test]
fn nothing_exhausts_the_stack() {
    // As deep as the limits let it: calls within calls, each inside a deep expression.
    let mut source = String::from("fun f0(x) = x ");
    for n in 1..60 {
        let (open, close) = ("(1 + ".repeat(45), ")".repeat(45));
        source += &format!("fun f{n}(x) = {open}f{}(x){close} ", n - 1);
    }
    assert_eq!(result(&format!("{source} fun main() = f20(1)")), "901");
    assert_eq!(result(&format!("{source} fun main() = f59(1)")), "DepthLimit");
}

#[test]
fn a_report_carries_what_failed_where() {
    let program = program("fun main(x) = 1 / x");
    let chunk = Arc::new(Chunk::of(&program, "main", vec![Value::Int(0)]).unwrap());
    let packet = Packet { header: header(3), chunk };
    let cause = Cause::Exception(Name::DIV_BY_ZERO);
    let report = packet.report(&cause, common::THERE, 2).unwrap();
    assert!(report.header.report && report.header.destination == common::HERE && report.header.bound == 2);
    let described = plan::eval::outcome::describe(report.chunk.arguments()).unwrap();
    assert_eq!(described, "ERROR: <chunk:\nmain[0]> raised DivByZero on 10.0.0.2");
    assert!(report.report(&cause, common::THERE, 1).is_none(), "a report is not reported");
    let mut silent = packet.clone();
    silent.header.handler = Name::NONE;
    assert!(silent.report(&Cause::Fault(Fault::Steps), common::THERE, 1).is_none());
    let many = Value::list((0..5000).map(Value::Int)).unwrap();
    let heavy = Packet { chunk: Arc::new(Chunk::of(&program, "main", vec![many]).unwrap()), ..packet };
    let report = heavy.report(&cause, common::THERE, 1).unwrap();
    assert_eq!(report.chunk.arguments()[2].to_string(), "<chunk:\nmain[]>");
}
