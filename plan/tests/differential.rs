//! The two evaluators agree on every program in result, exceptions, packets and cost; what the checker accepts
//! makes no type errors.

mod common;

use common::generate::{Choices, source::source, untyped::code};
use common::{Recorder, both, cases, program};
use plan::code::Code;
use plan::eval::{Fault, Limits, Stop};
use plan::program::Program;
use plan::value::Chunk;
use proptest::prelude::*;
use std::sync::Arc;

/// Small limits, so that each is reached by some programs; and none.
fn limits(choices: &mut Choices<'_>) -> Limits {
    Limits {
        steps: choices.of(&[10_000, 50, 200, 10]),
        depth: choices.of(&[1024, 30, 100]),
        cells: choices.of(&[10_000, 20, 100]),
    }
}

proptest! {
    #![proptest_config(cases(3000))]

    #[test]
    fn the_evaluators_agree_on_nonsense(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let mut choices = Choices::new(&bytes);
        let (limits, bound) = (limits(&mut choices), choices.of(&[10, 0, 1, 3]));
        let code = code(&mut choices);
        let written = code.write();
        let read = Code::read(&written).unwrap();
        prop_assert_eq!(read.write(), written);
        let program = Arc::new(Program::new(read, &Recorder::default()));
        let last = program.code().definitions().len() - 1;
        let chunk = Chunk::of(&program, &format!("d{last}"), vec![]).unwrap();
        both(&chunk, limits, bound);
    }

    #[test]
    fn what_is_accepted_makes_no_type_errors(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut choices = Choices::new(&bytes);
        let (limits, bound) = (limits(&mut choices), choices.of(&[10, 0, 1, 3]));
        let text = source(&mut choices);
        let program = program(&text);
        let chunk = Chunk::of(&program, "main", vec![]).unwrap();
        let seen = both(&chunk, limits, bound);
        let wrong = matches!(seen.result, Err(Stop::Fault(Fault::Type(_) | Fault::Arity)));
        prop_assert!(!wrong, "{:?}\n{}", seen.result, text);
    }
}

#[test]
fn generated_programs_do_something() {
    // Otherwise the tests above could pass by testing nothing.
    let mut random = 1u64;
    let mut next = || {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (random >> 33) as u8
    };
    let (mut sends, mut handled, mut done, mut raised) = (0, 0, 0, 0);
    for _ in 0..1000 {
        let bytes: Vec<u8> = (0..300).map(|_| next()).collect();
        let text = source(&mut Choices::new(&bytes));
        let chunk = Chunk::of(&program(&text), "main", vec![]).unwrap();
        let seen = both(&chunk, Limits::default(), 10);
        sends += usize::from(seen.log.iter().any(|line| line.starts_with("send")));
        handled += usize::from(text.contains("handle"));
        match seen.result {
            Ok(_) => done += 1,
            Err(Stop::Raise(_)) => raised += 1,
            Err(Stop::Fault(_)) => {}
        }
    }
    assert!(sends > 20 && handled > 100 && done > 300 && raised > 50, "{sends} {handled} {done} {raised}");
}
