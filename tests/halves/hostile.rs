//! Hostile code: every sample of `tests/hostile/` is refused at its stage and for its reason, or runs and does no more
//! than it may.
//!
//! Most break a rule of `docs/bundle.md` and never get to the kernel; those that are well-formed are refused by its
//! verifier, in a thread of few rights; the others run on a packet here.

use crate::index;
use crate::place::{Came, Place, frame, header};
use crate::sample::{Body, Sample, Stage};
use anode::code::bundle::{Bundle, Kind, Manifest, Program};
use anode::code::check;
use anode::core::reason::Reason;
use anode::wire::{anep, capsule};

/// Why a sample of these stages is refused, if it is; they need no kernel.
fn refusal(sample: &Sample) -> Result<(), String> {
    match (sample.stage, &sample.body) {
        (Stage::Manifest, Body::Text(text)) => {
            let manifest = Manifest::parse(text.as_bytes()).map_err(|error| error.to_string())?;
            manifest.principal().map(drop).map_err(|error| error.to_string())
        }
        (Stage::File, Body::Bytes(bytes)) => Bundle::read(bytes).map(drop).map_err(|error| error.to_string()),
        (Stage::Form, Body::Bytes(bytes)) => {
            assert!(Program::parse(bytes).is_err(), "{}: its form is good", sample.name());
            check::bpf(bytes).map(drop).map_err(|refusal| refusal.to_string())
        }
        (Stage::Wasm, Body::Module(text)) => {
            let module = wat::parse_str(text).unwrap_or_else(|error| panic!("{}: {error}", sample.name()));
            check::wasm(&module, 0).map(drop).map_err(|refusal| refusal.to_string())
        }
        (_, Body::Program(program)) => check::bpf(&program.encode()).map(drop).map_err(|refusal| refusal.to_string()),
        _ => panic!("{}: the body is not of its stage", sample.name()),
    }
}

fn of_stage(stages: &[Stage]) -> Vec<Sample> {
    let found: Vec<_> = Sample::all().into_iter().filter(|sample| stages.contains(&sample.stage)).collect();
    for stage in stages {
        assert!(found.iter().any(|sample| sample.stage == *stage), "no sample of {stage:?}");
    }
    found
}

fn program(sample: &Sample) -> &Program {
    match &sample.body {
        Body::Program(program) => program,
        _ => panic!("{}: a program is expected", sample.name()),
    }
}

/// Fails with all of them, if any are wrong.
fn none(wrong: &[String]) {
    assert!(wrong.is_empty(), "{} samples:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn what_breaks_a_rule_is_refused_before_the_kernel() {
    let samples = of_stage(&[Stage::Manifest, Stage::File, Stage::Form, Stage::Wasm, Stage::Scanner]);
    let wrong = samples.iter().filter_map(|sample| match refusal(sample) {
        Err(why) if why.contains(&sample.reason) => None,
        other => Some(format!("{}: {other:?}", sample.name())),
    });
    none(&wrong.collect::<Vec<_>>());
}

#[test]
fn what_keeps_the_rules_is_refused_by_linker_or_verifier() {
    let Some(place) = Place::new() else { return };
    let mut wrong = vec![];
    for sample in of_stage(&[Stage::Linker, Stage::Verifier]) {
        refusal(&sample).unwrap_or_else(|why| panic!("{}: {why}", sample.name()));
        let said = place.load(program(&sample), sample.window);
        let by_verifier = said.as_ref().is_err_and(|why| why.contains("verifier"));
        let right = said.as_ref().is_err_and(|why| why.to_lowercase().contains(&sample.reason.to_lowercase()));
        if !right || by_verifier != (sample.stage == Stage::Verifier) {
            wrong.push(format!("{}: {said:?}", sample.name()));
        }
    }
    none(&wrong);
}

/// A bundle of the sample, and of a module that forwards.
fn bundle(sample: &Sample) -> Bundle {
    let module = wat::parse_str(
        r#"(module
            (memory (export "memory") 1024 1024 (pagesize 1))
            (global (export "an_arena") i32 (i32.const 0))
            (func (export "capsule") (param i32 i32) (result i32) (i32.const 1)))"#,
    );
    let representations = [(Kind::Wasm, module.unwrap().into()), (Kind::Bpf, program(sample).encode().into())];
    Bundle::build(&sample.name(), sample.window, &representations, None).unwrap()
}

#[test]
fn what_runs_does_no_more_than_it_may() {
    let Some(mut place) = Place::new() else { return };
    let mut wrong = vec![];
    for sample in of_stage(&[Stage::Contained]) {
        refusal(&sample).unwrap_or_else(|why| panic!("{}: {why}", sample.name()));
        let bundle = bundle(&sample);
        place.add(&bundle).unwrap_or_else(|why| panic!("{}: {why}", sample.name()));
        let bytes = frame(&header(bundle.name()), &[0x55; 30], false);
        // What comes of it if its code does nothing but forward; also, the user half has the code from then on.
        let Came::Sent(plain) = place.user(&bytes) else { panic!("{}: it is not forwarded", sample.name()) };
        place.share_state(1, bundle.name());
        let kernel = place.kernel(&bytes);
        let came = place.resume(&kernel);
        let became = match (&kernel, &came) {
            (Came::Dropped, _) if place.usage(bundle.name()).dropped_for_verdict == 1 => Reason::Verdict.name(),
            (_, Came::DroppedFor(reason)) => reason.name(),
            (_, Came::Sent(sent)) if outside_window(sent, sample.window) == outside_window(&plain, sample.window) => {
                "sent"
            }
            _ => "something else",
        };
        if became != sample.reason {
            wrong.push(format!("{}: {became}: {came:?}", sample.name()));
        }
    }
    none(&wrong);
}

/// The index of this folder and the threat model speak of samples, files and tests that are there.
#[test]
fn what_the_documents_name_is_there() {
    let samples = Sample::all();
    let stage = |name: &str| samples.iter().find(|sample| sample.name() == name).map(|sample| sample.stage);
    let wrong = [index::of_samples("tests/hostile/README.md", stage), index::of_tests("docs/threat-model.md")].concat();
    none(&wrong);
    assert!(index::notices_what_is_not_there());
}

/// A frame without the bytes that code may change.
fn outside_window(frame: &[u8], window: u32) -> Vec<u8> {
    const CAPSULE: usize = 14 + 20 + 8 + anep::HEADER;
    [&frame[..CAPSULE + capsule::LOCKED], &frame[CAPSULE + capsule::HEADER + window as usize..]].concat()
}
