//! What programs take and cost is in proportion to their code: memory, slices, and the steps of comparing chunks.

mod common;

use common::{HERE, Recorder, both, main, program};
use plan::eval::{Fault, Limits, Stop};
use plan::name::Name;
use plan::packet::{Header, Libraryless, Packet, pack, slices_of, unpack};
use plan::program::KEPT_SLICES;
use plan::value::{Callee, Chunk, Value};
use std::fmt::Write;
use std::sync::Arc;

/// Functions that each need a row of numbers, and a `main`.
fn source(functions: usize, main: &str) -> String {
    let row = (0..250).map(|at| (at % 63).to_string()).collect::<Vec<_>>().join(";");
    let mut source = format!("fun row() = [{row}]\n");
    for number in 0..functions {
        writeln!(source, "fun f{number}() = (row(); {number})").unwrap();
    }
    source + main
}

fn no_more(_: u32) -> Result<(), ()> {
    Err(())
}

#[test]
fn a_program_keeps_few_slices_and_makes_the_others_anew() {
    let program = program(&source(60, ""));
    let slices: Vec<_> = (1..=60).map(|function| program.slice(function).unwrap()).collect();
    let most = KEPT_SLICES * program.bytes().len();
    let chunk = |function| Chunk::new(Callee::Function(program.clone(), function), []).unwrap();
    let kept = (1..=60).filter(|function| chunk(*function).slice_work() == 0).count();
    assert!(kept > 0 && kept < 60 && kept * slices[0].bytes.len() <= most, "{kept} of {most}");
    for (function, slice) in (1..=60).zip(slices) {
        assert_eq!(program.slice(function), Some(slice));
    }
}

#[test]
fn who_cannot_pay_for_a_slice_has_none_made() {
    let program = program(&source(2, "fun main() = (f0(); f1())"));
    let chunk = |name: &str| Value::Chunk(Arc::new(Chunk::of(&program, name, []).unwrap()));
    assert_eq!(slices_of(&chunk("f0"), &mut no_more), Err(()));
    let mut paid = 0;
    let mut pay = |bytes| -> Result<(), ()> {
        paid += bytes;
        Ok(())
    };
    let f0 = chunk("f0");
    let length = slices_of(&f0, &mut pay).unwrap().unwrap()[0].bytes.len() as u32;
    assert!(paid + 3 >= length && paid < length + 50, "{paid} for {length}");
    assert!(slices_of(&f0, &mut no_more).is_ok(), "it is known now");
    let whole = chunk("main");
    let slices = slices_of(&whole, &mut no_more).unwrap().unwrap();
    assert!(Arc::ptr_eq(&slices[0].bytes, program.bytes()), "all of a code is no other one");
}

#[test]
fn values_are_packed_and_unpacked_with_their_codes_and_nothing_else_is_read() {
    let program = program(&source(2, ""));
    let chunk = |name: &str| Value::Chunk(Arc::new(Chunk::of(&program, name, []).unwrap()));
    let list = Value::list([chunk("f0"), chunk("f1"), chunk("f0")].into_iter()).unwrap();
    for value in [Value::Unit, Value::Int(-7), list] {
        let codes = slices_of(&value, &mut |_| Ok::<(), ()>(())).unwrap().unwrap();
        let mut bytes = pack(&value, &codes).unwrap();
        let node = Recorder::default();
        assert_eq!(unpack(&bytes, &mut Libraryless(&node)), Ok(value));
        (0..bytes.len()).for_each(|length| assert!(unpack(&bytes[..length], &mut Libraryless(&node)).is_err()));
        bytes.push(0);
        assert!(unpack(&bytes, &mut Libraryless(&node)).is_err());
    }
    let long = Value::list((0..40_000).map(|_| Value::Int(1 << 40))).unwrap();
    assert_eq!(pack(&long, &[]), None);
}

#[test]
fn comparing_chunks_of_different_codes_is_paid_by_their_length() {
    // Each comparison is of two functions that were not compared before.
    let pairs = (0..30).map(|at| format!("|f{at}|() = |f{}|()", at + 30)).collect::<Vec<_>>().join(";");
    let program = program(&source(60, &format!("fun main() = ({pairs})")));
    let chunk = Chunk::of(&program, "main", vec![]).unwrap();
    let limits = Limits { steps: 10_000, ..Limits::default() };
    assert_eq!(both(&chunk, limits, 1).result, Err(Stop::Fault(Fault::Steps)));
    let seen = main(&source(1, "fun main() = |f0|() = |f0|()"));
    assert_eq!(
        (seen.result, Limits::default().steps - seen.steps_left),
        (Ok(Value::Bool(true)), 4),
        "one and the same"
    );
}

#[test]
fn thousands_of_names_are_read_and_written_as_ten_are() {
    let name = |number: usize| Value::Exn(Name::new(&format!("{}{}", ["a", "b"][number % 2], number / 2)).unwrap());
    let names = Value::list((0..6000).map(name)).unwrap();
    let chunk = Chunk::new(Callee::Service(Name::new("print").unwrap()), [names]).unwrap();
    let packet = Packet { header: Header::injected(HERE, 1), chunk: Arc::new(chunk) };
    let (bytes, node) = (packet.bytes().unwrap(), Recorder::default());
    // Many: the index of those that there are is used (plan/src/code/names.rs).
    for _ in 0..3 {
        let again = Packet::decode(&bytes, &mut Libraryless(&node)).unwrap();
        assert_eq!(again.bytes().as_ref(), Some(&bytes));
    }
}
