//! Compiling of strangers' code: bounded before it begins, jailed while it lasts, without effect on others.
//!
//! Each case of `compiling/worst.rs` is a module that costs a compiler most per byte, in one way. What a node did with the first of
//! them (58 kB of unsigned wasm: 53 s, 1.3 GB, everybody's code waited 27 s) is what the others generalise.

mod vectors;
mod worst;

use crate::wait;
use anode::code::bundle::Kind;
use anode::code::check;
use anode::code::compiler::{CompilerLimits, Compilers, Failure, Job, Purpose};
use anode::code::link::Constants;
use anode::code::run::wasm::{Backstop, Compiler};
use anode::code::run::{Cause, Ingress, Prepare, Tier};
use anode::code::store::Store;
use anode::frame::{Payer, PortId};
use anode::kernel;
use anode::manage::loader::{Compiling, Loaded, Loader, Policy};
use anode::manage::revoked::Revocations;
use anode::node::Effect;
use anode::sys::poll::{Poll, Waker};
use anode::wire::Digest;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

const AT_ONCE: Purpose = Purpose::Capsule(Tier::Fast);

fn compilers(limits: CompilerLimits) -> Arc<Compilers> {
    crate::gate::pass();
    Compilers::new(env!("CARGO_BIN_EXE_anode").into(), limits)
}

/// A little module that forwards; every number another one.
fn small(number: u32) -> Vec<u8> {
    worst::capsule("", "", &format!("i32.const {number} drop i32.const 1"))
}

#[test]
fn the_bomb_is_refused_before_it_is_compiled() {
    let bomb = worst::loops(7000, 1000);
    assert!(bomb.len() < 65536, "{}", bomb.len());
    let refused = check::wasm(&bomb, 0).unwrap_err().to_string();
    assert!(refused.contains("units of work for the compiler"), "{refused}");
    assert_eq!(check::bounds(&bomb).unwrap_err().to_string(), refused, "services are bounded alike");
}

/// Whatever passes the check is compiled within the limits of a job, or is ended at one of them: nothing takes more,
/// breaks the compiler or hangs. How far below the limits honest code stays, `anode bench tiers` measures.
#[test]
fn what_passes_the_check_is_compiled_within_the_limits_or_ended_at_them() {
    let limits = CompilerLimits { wall_ms: 200_000, ..CompilerLimits::default() };
    let mut lane = compilers(limits).lane();
    let (mut passed, mut refused, mut compiled) = (0, 0, 0);
    for (name, wasm) in worst::cases() {
        if let Err(refusal) = check::wasm(&wasm, 0) {
            assert!(refusal.to_string().contains("are allowed"), "{name}: {refusal}");
            refused += 1;
            continue;
        }
        passed += 1;
        match lane.compile(&Job { purpose: AT_ONCE, module: &wasm }) {
            Ok(output) => {
                println!("{name}: {} us, {} kB", output.cpu_us, output.artifact.len() / 1024);
                assert!(output.artifact.len() < (limits.output_mib as usize) << 20, "{name}");
                compiled += 1;
            }
            Err(Failure::Limit("cpu_ms" | "memory_mib", _)) => println!("{name}: ended at a limit"),
            Err(failure) => panic!("{name}, {} bytes: {failure}", wasm.len()),
        }
    }
    assert!(passed > 60 && refused > 40 && compiled >= 50, "{passed} passed, {refused} refused, {compiled} compiled");
}

/// Each instruction on vectors as often as the check allows.
#[test]
fn every_instruction_on_vectors_is_compiled_within_the_limits() {
    let wall_ms = CompilerLimits::default().wall_ms;
    let mut lane = compilers(CompilerLimits { wall_ms: 10 * wall_ms, ..CompilerLimits::default() }).lane();
    let all = vectors::all();
    assert_eq!(all.len(), vectors::COUNT);
    for (number, code) in all {
        let wasm = vectors::most(&code);
        match lane.compile(&Job { purpose: AT_ONCE, module: &wasm }) {
            Ok(output) => println!("{number:#x}: {} us, {} kB", output.cpu_us, output.artifact.len() / 1024),
            Err(failure) => panic!("{number:#x}, {} bytes: {failure}", wasm.len()),
        }
    }
}

/// The least that a node's processor has: on amd64, SSE2. What it lacks, the compiler makes of other instructions, or of calls.
#[test]
fn every_processor_has_what_vectors_need() {
    let mut config = wasmtime::Config::new();
    // With a target named, nothing is taken from the processor that is here.
    config.target(&format!("{}-unknown-linux-gnu", std::env::consts::ARCH)).unwrap();
    let engine = wasmtime::Engine::new(config.wasm_relaxed_simd(false).consume_fuel(true)).unwrap();
    for (number, code) in vectors::all() {
        let done = engine.precompile_module(&vectors::module(&code, 1));
        assert!(done.is_ok(), "{number:#x}: {}", done.err().unwrap());
    }
}

#[test]
fn what_the_optimiser_cannot_do_in_time_it_does_not_do() {
    let mut lane = compilers(CompilerLimits::default()).lane();
    for (name, wasm) in worst::cases().into_iter().step_by(23) {
        if check::wasm(&wasm, 0).is_err() {
            continue;
        }
        for purpose in [Purpose::Capsule(Tier::Optimised), Purpose::Service] {
            match lane.compile(&Job { purpose, module: &wasm }) {
                Ok(_) | Err(Failure::Limit("cpu_ms" | "memory_mib", _)) => {}
                Err(failure) => panic!("{name}, {} bytes, {purpose:?}: {failure}", wasm.len()),
            }
        }
    }
}

#[test]
fn a_job_that_needs_more_than_its_limits_is_ended_and_the_next_one_is_not() {
    let large = worst::large(0);
    check::wasm(&large, 0).unwrap();
    for (limits, name) in [
        (CompilerLimits { cpu_ms: 4, ..CompilerLimits::default() }, "cpu_ms"),
        (CompilerLimits { memory_mib: 1, ..CompilerLimits::default() }, "memory_mib"),
    ] {
        let mut lane = compilers(limits).lane();
        let job = Job { purpose: AT_ONCE, module: &large };
        match lane.compile(&job) {
            Err(Failure::Limit(which, _)) => assert_eq!(which, name),
            other => panic!("{name}: {}", other.is_ok()),
        }
        if name == "memory_mib" {
            let job = Job { purpose: AT_ONCE, module: &small(1) };
            assert!(lane.compile(&job).is_ok(), "nothing of one job reaches the next");
        }
    }
}

#[test]
fn the_compiler_refuses_in_words_what_is_no_module() {
    let mut lane = compilers(CompilerLimits::default()).lane();
    for module in [&b""[..], b"\0asm", b"\0asm\x01\0\0\0\x01\xff", &[0xff; 4096]] {
        match lane.compile(&Job { purpose: AT_ONCE, module }) {
            Err(Failure::Refused(why)) => assert!(!why.is_empty()),
            other => panic!("{other:?}"),
        }
    }
    // Relaxed instructions may give other results on other processors: for capsules the check refuses them, for services both do.
    let relaxed = worst::capsule(
        "(func (param v128) (result v128) (f32x4.relaxed_madd (local.get 0) (local.get 0) (local.get 0)))",
        "",
        "i32.const 1",
    );
    for purpose in [AT_ONCE, Purpose::Service] {
        let refused = lane.compile(&Job { purpose, module: &relaxed });
        assert!(matches!(&refused, Err(Failure::Refused(why)) if why.contains("relaxed SIMD")), "{refused:?}");
    }
    assert!(check::bounds(&relaxed).unwrap_err().to_string().contains("relaxed SIMD"));
    let long = vec![0; 65537];
    assert!(matches!(lane.compile(&Job { purpose: Purpose::Service, module: &long }), Err(Failure::Refused(_))));
}

#[test]
fn without_a_compiler_nothing_is_held_against_the_code() {
    let mut lane = Compilers::new("/nonexistent".into(), CompilerLimits::default()).lane();
    let job = Job { purpose: AT_ONCE, module: &small(1) };
    assert!(matches!(lane.compile(&job), Err(Failure::Gone(_))));
    let mut lane = Compilers::new("/bin/true".into(), CompilerLimits::default()).lane();
    assert!(matches!(lane.compile(&job), Err(Failure::Gone(_))));
}

/// Processes whose command begins with this program; one that has ended has none.
fn processes_of(program: &Path) -> Vec<String> {
    let begins = |pid: &String| {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        command.starts_with(program.as_os_str().as_encoded_bytes())
    };
    let all = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    all.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).filter(begins).collect()
}

/// Kills all processes of a helper, and waits until they are gone.
fn kill_all(program: &Path) {
    let pids = processes_of(program);
    assert!(pids.len() > 1, "a jail has its first process, and the helper's: {pids:?}");
    // With the first of a jail the others end, and are not there to be killed: so what counts is that none is left.
    Command::new("kill").arg("-KILL").args(&pids).stderr(Stdio::null()).status().unwrap();
    pids.iter().for_each(|pid| wait::gone(pid.parse().unwrap()));
}

/// A name of this program's own, so that its processes are told from those of other tests.
fn own_program(folder: &tempfile::TempDir) -> PathBuf {
    let program = folder.path().join("anode");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_anode"), &program).unwrap();
    program
}

#[test]
fn a_compiler_that_is_killed_is_started_again_and_no_module_is_refused_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let program = own_program(&folder);
    let mut lane =
        Compilers::new(program.clone(), CompilerLimits { cpu_ms: 60_000, ..CompilerLimits::default() }).lane();
    for number in 0..3 {
        let output = lane.compile(&Job { purpose: AT_ONCE, module: &small(number) });
        assert!(output.is_ok(), "{number}: {output:?}");
        kill_all(&program);
    }
}

/// The first process has the way to the node, and each server its lane.
#[test]
fn no_process_of_the_compiler_has_a_second_way_to_the_node() {
    let folder = tempfile::tempdir().unwrap();
    let program = own_program(&folder);
    let mut lane =
        Compilers::new(program.clone(), CompilerLimits { cpu_ms: 60_000, ..CompilerLimits::default() }).lane();
    lane.compile(&Job { purpose: AT_ONCE, module: &small(0) }).unwrap();
    let is_compiler = |pid: &String| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "anode-compiler")
    };
    let compilers: Vec<String> = processes_of(&program).into_iter().filter(is_compiler).collect();
    assert_eq!(compilers.len(), 2, "{compilers:?}");
    for pid in compilers {
        let open = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        let ways = open.map(|entry| std::fs::read_link(entry.unwrap().path()).unwrap().display().to_string());
        let sockets: Vec<String> = ways.filter(|way| way.starts_with("socket:")).collect();
        assert_eq!(sockets.len(), 1, "{sockets:?}");
    }
}

/// Neither one that is stopped nor one whose first process alone is costs a module.
#[test]
fn a_compiler_that_is_stopped_is_replaced_while_a_job_waits() {
    let folder = tempfile::tempdir().unwrap();
    let program = own_program(&folder);
    let limits = CompilerLimits { cpu_ms: 60_000, wall_ms: 1, ..CompilerLimits::default() };
    let mut lane = Compilers::new(program.clone(), limits).lane();
    lane.open().unwrap();
    let stopped = processes_of(&program);
    Command::new("kill").arg("-STOP").args(&stopped).status().unwrap();
    // What has so little time by the clock may be ended by that, but by a compiler that works.
    let output = lane.compile(&Job { purpose: AT_ONCE, module: &small(0) });
    assert!(matches!(output, Ok(_) | Err(Failure::Limit("wall_ms", 1))), "{output:?}");
    assert!(stopped.iter().all(|pid| !Path::new("/proc").join(pid).exists()), "those before are gone");
}

#[test]
fn a_loader_that_is_killed_fails_one_program_in_words_and_the_next_has_another() {
    let folder = tempfile::tempdir().unwrap();
    let program = own_program(&folder);
    let loader = kernel::loader::Loader::new(program.clone(), false);
    let load = || {
        let constants = Constants { sets: 1, ..Constants::default() };
        let no_program = kernel::loader::Wanted { code: vec![0; 64], constants, ..Default::default() };
        loader.load(&no_program).unwrap_err().to_string()
    };
    let refused = load();
    assert!(!refused.contains("the loader failed"), "{refused}");
    kill_all(&program);
    let failed = load();
    assert!(failed.starts_with("the loader failed and was ended: "), "{failed}");
    assert_eq!(load(), refused, "by another one");
}

/// A loader as a node has it.
struct Bench {
    loader: Loader,
    poll: Poll,
    waker: Waker,
}

impl Bench {
    fn new(limits: CompilerLimits, jobs: usize) -> Bench {
        let waker = Waker::new().unwrap();
        let poll = Poll::new().unwrap();
        poll.add(&waker, 0).unwrap();
        let compiler = Compiler::new(Backstop::Ticker).unwrap();
        let compiling = Compiling { compiler, jailed: compilers(limits), jobs };
        let revocations = Arc::new(Revocations::open(None, Default::default()).unwrap());
        let policy = Policy { node: "n".into(), roles: Default::default(), revocations };
        let store = Store::open(None, Default::default()).unwrap();
        Bench { loader: Loader::start(store, compiling, policy, None, waker.clone()).unwrap(), poll, waker }
    }

    fn prepare(&self, from: u8, wasm: Vec<u8>) -> Digest {
        let ingress = Ingress::Port(PortId(0), Payer(u16::from(from)));
        let code = Digest::of(&wasm);
        let cause = Cause { ingress, principal: None };
        let prepare = Prepare { code, cause, tier: Tier::Fast, kind: Kind::Wasm, bytes: wasm.into(), window: 0 };
        assert!(self.loader.submit(Effect::Prepare(prepare)).is_ok());
        code
    }

    /// The next answer: of which code, and what is wrong with it.
    fn next(&mut self) -> (Digest, Option<String>) {
        let mut ready = Vec::new();
        loop {
            match self.loader.result() {
                Some(Loaded::Prepared(code, result)) => return (code, result.err()),
                Some(Loaded::Unprepared(code)) => return (code, Some("no place".into())),
                Some(_) => {}
                None => {
                    self.poll.wait(u64::MAX, &mut ready).unwrap();
                    self.waker.rest();
                }
            }
        }
    }
}

#[test]
fn others_code_is_ready_beside_bombs_which_are_ended_and_remembered() {
    let limits = CompilerLimits { cpu_ms: 30, ..CompilerLimits::default() };
    let mut bench = Bench::new(limits, 2);
    let bombs: Vec<Digest> = (0..40).map(|number| bench.prepare(1, worst::large(number))).collect();
    let others: Vec<Digest> = (0..3).map(|number| bench.prepare(2, small(number))).collect();
    let (mut before, mut why) = (0, Vec::new());
    let mut open = others.clone();
    while !open.is_empty() {
        let (code, failed) = bench.next();
        if bombs.contains(&code) {
            before += 1;
            why.extend(failed.clone());
        }
        if open.contains(&code) {
            assert_eq!(failed, None);
            open.retain(|other| *other != code);
        }
    }
    assert!(before < 20, "{before} of 40 bombs came before three small modules of somebody else");
    let mut last = None;
    for _ in before..bombs.len() {
        let (code, failed) = bench.next();
        last = failed.is_some().then_some(code).or(last);
        why.extend(failed);
    }
    assert!(why.iter().all(|why| why.contains("[compiler] cpu_ms = 30")), "{why:?}");
    assert!(why.len() > 20, "the limit was to be too low for them");
    // Known by what it is: no process is troubled with it again.
    let number = bombs.iter().position(|bomb| Some(*bomb) == last).unwrap();
    let again = bench.prepare(3, worst::large(number as u32));
    let (code, failed) = bench.next();
    assert!(code == again && failed.is_some_and(|why| why.contains("cpu_ms")));
    let status = bench.loader.shelf().status().unwrap().compiler;
    // A quick machine may get one or another done.
    assert_eq!((status.refused.total, status.refused.spared), (why.len() as u64, 1));
    assert_eq!(bench.loader.shelf().forgive(), Ok(why.len()));
    assert!(bench.loader.shelf().status().unwrap().compiler.refused.modules.is_empty());
}

#[test]
fn a_module_that_is_over_the_limit_is_refused_and_remembered_by_its_digest() {
    let mut bench = Bench::new(CompilerLimits { cpu_ms: 1, ..CompilerLimits::default() }, 1);
    // No compiler goes through so much in a millisecond.
    let module = worst::large(0);
    let name = bench.prepare(1, module.clone());
    let over = "[compiler] cpu_ms = 1;";
    assert!(matches!(bench.next(), (code, Some(why)) if code == name && why.contains(over)));
    let refused = |bench: &Bench| bench.loader.shelf().status().unwrap().compiler.refused;
    assert_eq!((refused(&bench).total, refused(&bench).spared), (1, 0));
    assert_eq!(refused(&bench).modules[0].module, name.to_string());
    // Whoever brings it next is told the same, and no process is troubled with it.
    bench.prepare(2, module);
    assert!(matches!(bench.next(), (code, Some(why)) if code == name && why.contains(over)));
    assert_eq!((refused(&bench).total, refused(&bench).spared), (1, 1));
}
