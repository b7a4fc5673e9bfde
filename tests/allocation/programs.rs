//! What a program says that it takes is what it takes at most, whatever its code is: counted by the same allocator.

use super::HELD;
use plan::code::CODE_MAX;
use plan::name::Name;
use plan::program::{Program, ServiceId, Services};

struct Nothing;

impl Services for Nothing {
    fn service(&self, _: &Name) -> Option<ServiceId> {
        None
    }
}

/// Codes of one thing again and again, each as dense as it can be.
const SHAPES: &[(&str, &str)] = &[
    ("units", "()"),
    ("truth values", "true"),
    ("numbers", "7"),
    ("large numbers", "5000000000"),
    ("characters", "'x'"),
    ("empty strings", "\"\""),
    ("strings", "\"twelve bytes\""),
    ("empty lists", "[]"),
    ("lists", "[()]"),
    ("operators", "~ ~ ~ ~ ~ ~ ~ ~ ~ ~ 1"),
    ("conditions", "if true then 1 else 2"),
    ("handlers", "try 1 handle e => 2"),
    ("definitions", "let val a = 1 in a end"),
    ("calls of services", "time()"),
    ("chunks of services", "|time|()"),
    ("exceptions", "NoRoute"),
    ("exceptions with names", "E@"),
    ("services with names", "s@()"),
    ("pairs", "((), ())"),
    ("functions", ""),
];

/// As much as a code may have of an expression.
fn source(shape: &str) -> String {
    let mut source = (0..200).map(|at| format!("exception E{at} svc s{at} : void -> unit ")).collect::<String>();
    if shape.is_empty() {
        (0..126).for_each(|at| source += &format!("fun f{at}() = 1 "));
        return source;
    }
    for function in 0..60 {
        let rows = (0..18).map(|at| shape.replace('@', &((function * 18 + at) % 200).to_string()));
        source += &format!("fun f{function}() = ({}; 1) ", rows.collect::<Vec<_>>().join(";"));
    }
    source
}

#[test]
fn programs_take_no_more_memory_than_they_say() {
    for (what, shape) in SHAPES {
        let source = source(shape);
        let checked = plan::check(&source);
        let bytes = checked.code.unwrap_or_else(|| panic!("{what}: {:?}", checked.diagnostics)).write();
        let before = HELD.get();
        let Ok(program) = Program::read(&bytes, &Nothing) else {
            panic!("{what}: {} bytes of {CODE_MAX}", bytes.len());
        };
        (0..128).for_each(|function| drop(program.slice(function)));
        let (held, said) = ((HELD.get() - before) as usize + size_of::<Program>(), program.memory());
        println!("{what}: {} bytes of code, {held} bytes of {said}", bytes.len());
        assert!(held <= said, "{what}: {held} bytes, {said} at most");
        assert!(said <= 200 * bytes.len() + 40_000, "{what}: {said} of {} bytes", bytes.len());
    }
}
