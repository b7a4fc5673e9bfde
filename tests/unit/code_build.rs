//! From C to bundles: clang's output for the guests passes every check, the same source gives the same name, and bad
//! sources are refused with cause and remedy. Needs clang and lld.

use anode::code::author::{self, AuthorOptions, Error};
use anode::code::bundle::{Bundle, Insn, Kind, Program};
use anode::code::check;
use anode::trust::PrincipalKey;
use std::path::{Path, PathBuf};

fn guest(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guests").join(name)
}

fn build(name: &str) -> Bundle {
    author::build(&guest(name), &AuthorOptions::default()).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Builds a C text that is not worth a file.
fn build_text(text: &str, options: &AuthorOptions) -> Result<Bundle, Error> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sample.c");
    std::fs::write(&path, text).unwrap();
    author::build(&path, options)
}

fn capsule(body: &str) -> String {
    format!("#include <anode/capsule.h>\nstruct p {{ u32 x; }};\nAN_CAPSULE(p, struct p) {{ {body} }}\n")
}

#[test]
fn every_guest_passes_in_both_representations() {
    let cases = [("forward.c", 0), ("deliver.c", 0), ("ping.c", 16), ("symbols.c", 16), ("loop.c", 128)];
    for (name, window) in cases {
        let bundle = build(name);
        assert_eq!(bundle.manifest().window(), window, "{name}");
        assert_eq!(bundle.manifest().title(), name.trim_end_matches(".c"));
        let report = check::check(&bundle).unwrap();
        let (wasm, bpf) = (report.wasm.unwrap(), report.bpf.unwrap());
        assert!(wasm.byte_pages && wasm.memory_bytes <= 1024 + 96 + window + 32, "{name}: {wasm:?}");
        assert!(wasm.mutable_globals.len() == 1 && !wasm.bulk_memory, "{name}: {wasm:?}");
        let mut imports: Vec<_> = wasm.imports.iter().map(|symbol| symbol.name).collect();
        imports.sort_unstable();
        assert_eq!(imports, bpf.symbols.iter().map(|symbol| symbol.name).collect::<Vec<_>>(), "{name}");
        assert_eq!(Bundle::read(&bundle.write()).unwrap().name(), bundle.name());
    }
}

#[test]
fn every_symbol_is_reachable_from_c() {
    let report = check::check(&build("symbols.c")).unwrap();
    assert_eq!(report.bpf.unwrap().symbols.len(), anode::abi::SYMBOLS.len());
}

#[test]
fn without_lines_the_same_is_made() {
    let bare = AuthorOptions { bare: true, ..AuthorOptions::default() };
    for name in ["ping.c", "sends.c", "calls.c"] {
        let (whole, bare) = (build(name), author::build(&guest(name), &bare).unwrap());
        assert_eq!((bare.name(), bare.manifest()), (whole.name(), whole.manifest()), "{name}");
        assert!(whole.lines().is_some() && bare.lines().is_none(), "{name}");
    }
    // What is wrong is refused either way.
    let broken = capsule("extern int away(void); return away();");
    assert!(build_text(&broken, &bare).is_err() && build_text(&broken, &AuthorOptions::default()).is_err());
}

#[test]
fn the_same_source_has_the_same_name_wherever_it_lies() {
    let first = build("loop.c");
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("loop.c");
    std::fs::copy(guest("loop.c"), &copy).unwrap();
    assert_eq!(author::build(&copy, &AuthorOptions::default()).unwrap().name(), first.name());
    assert_ne!(build("ping.c").name(), first.name());
}

#[test]
fn a_signed_bundle_names_its_principal() {
    let key = PrincipalKey::from_seed([3; 32]);
    let id = key.id();
    let bundle =
        author::build(&guest("ping.c"), &AuthorOptions { key: Some(key), ..AuthorOptions::default() }).unwrap();
    assert_eq!(check::check(&bundle).unwrap().principal, Some(id));
    assert_ne!(bundle.name(), build("ping.c").name());
}

#[test]
fn functions_of_the_program_are_called_where_they_were_placed() {
    let text = "#include <anode/capsule.h>\nstruct p { u32 x; };\n\
        static __attribute__((noinline)) u32 deep(u32 a) { return a * 3 ^ a >> 7; }\n\
        __attribute__((noinline)) u32 unused(u32 a) { return deep(a); }\n\
        static __attribute__((noinline)) u32 mid(u32 a) { return deep(a) + deep(a + 1); }\n\
        AN_CAPSULE(p, struct p) { w->payload.x = mid(w->payload.x) + deep(5); return an_forward(); }\n";
    let bundle = build_text(text, &AuthorOptions::default()).unwrap();
    let program = Program::parse(bundle.representation(Kind::Bpf).unwrap()).unwrap();
    assert_eq!(check::check(&bundle).unwrap().bpf.unwrap().functions, 3, "what nobody calls stays behind");
    // Each local call hits the first instruction behind an exit.
    let calls: Vec<(usize, &Insn)> =
        program.code.iter().enumerate().filter(|(_, insn)| insn.opcode == 0x85 && insn.src == 1).collect();
    assert!(calls.len() >= 3);
    for (at, insn) in calls {
        let target = (at as i64 + 1 + i64::from(insn.imm)) as usize;
        assert_eq!(program.code[target - 1].opcode, 0x95);
    }
}

#[test]
fn the_compilers_messages_are_shown() {
    let error = build_text(&capsule("return nonsense;"), &AuthorOptions::default()).unwrap_err();
    assert!(matches!(error, Error::Compile { target: "wasm32", .. }));
    assert!(error.to_string().contains("undeclared identifier 'nonsense'"), "{error}");
    let error = build_text("int main(void) { return 0; }", &AuthorOptions::default()).unwrap_err();
    assert!(error.to_string().contains("AN_CAPSULE"), "{error}");
    let error = build_text(&capsule("int unused_one; return an_drop();"), &AuthorOptions::default());
    assert!(error.is_ok(), "warnings do not refuse");
}

#[test]
fn what_bpf_cannot_have_is_refused_by_symbol_and_section() {
    let only = |kind| AuthorOptions { only: Some(kind), ..AuthorOptions::default() };
    let text = format!("static unsigned long long counter;\n{}", capsule("return counter++ & 1;"));
    let error = build_text(&text, &AuthorOptions::default()).unwrap_err().to_string();
    assert!(error.contains("'counter' is a variable"), "{error}");

    let text = "#include <anode/capsule.h>\nstatic const u32 table[4] = {1, 9, 7, 3};\nstruct p { u32 x; };\n\
        AN_CAPSULE(p, struct p) { return (int)table[w->payload.x & 3]; }\n";
    let error = build_text(text, &AuthorOptions::default()).unwrap_err().to_string();
    assert!(error.contains("'table'") && error.contains(".rodata"), "{error}");
    assert!(build_text(text, &only(Kind::Wasm)).is_ok(), "a constant table is fine in wasm alone");

    let text = format!("extern int an_fly(int);\n{}", capsule("return an_fly(2);"));
    let error = build_text(&text, &only(Kind::Bpf)).unwrap_err().to_string();
    assert!(error.contains("'an_fly'") && error.contains("neither defined nor a call"), "{error}");
    let error = build_text(&text, &only(Kind::Wasm)).unwrap_err().to_string();
    assert!(error.starts_with("sample.c:4: 'an_fly'"), "{error}");

    let text = "#include <anode/capsule.h>\nstruct p { unsigned long x; };\n\
        AN_CAPSULE(p, struct p) { return (int)w->payload.x; }\n";
    let error = build_text(text, &AuthorOptions::default()).unwrap_err();
    assert!(error.to_string().starts_with("sample.c:3: the payload type has 4 bytes in wasm and 8 in bpf"), "{error}");
}

#[test]
fn an_oversized_window_is_refused_by_the_compiler() {
    let text = "#include <anode/capsule.h>\nstruct p { u8 x[513]; };\nAN_CAPSULE(p, struct p) { return 0; }\n";
    let error = build_text(text, &AuthorOptions::default()).unwrap_err().to_string();
    assert!(error.contains("at most 512 bytes"), "{error}");
}

#[test]
fn modules_of_other_languages_become_wasm_only_bundles() {
    let text = r#"(module
        (memory (export "memory") 1)
        (global $sp (mut i32) (i32.const 4096))
        (global (export "an_arena") i32 (i32.const 4096))
        (global (export "__heap_base") i32 (i32.const 4300))
        (func $capsule (export "capsule") (param i32 i32) (result i32) (global.get $sp))
        (func (export "_start")))"#;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("other.wat");
    std::fs::write(&path, text).unwrap();
    let error = author::build(&path, &AuthorOptions::default()).unwrap_err().to_string();
    assert!(error.contains("--window"), "{error}");
    let options = AuthorOptions { window: Some(8), ..AuthorOptions::default() };
    let bundle = author::build(&path, &options).unwrap();
    assert!(bundle.representation(Kind::Bpf).is_none());
    let facts = check::check(&bundle).unwrap().wasm.unwrap();
    assert_eq!((facts.memory_bytes, facts.mutable_globals.len()), (4300, 1));

    let binary = directory.path().join("other.wasm");
    std::fs::write(&binary, wat::parse_str(text).unwrap()).unwrap();
    assert_eq!(author::build(&binary, &options).unwrap().name(), bundle.name());

    std::fs::write(&path, "(module (func (result i32)))").unwrap();
    assert!(matches!(author::build(&path, &options), Err(Error::Refused { .. } | Error::Module { .. })));
    std::fs::write(&path, "(module (fun))").unwrap();
    assert!(matches!(author::build(&path, &options), Err(Error::Text { .. })));
}

/// The number of the line of `text` that has `what` in it.
fn line_of(text: &str, what: &str) -> usize {
    text.lines().position(|line| line.contains(what)).unwrap() + 1
}

#[test]
fn a_refusal_names_the_instruction_its_line_and_the_remedy() {
    let text = capsule("u32 x = w->payload.x;\n__sync_fetch_and_add(&w->payload.x, x);\nreturn an_forward();");
    let error = build_text(&text, &AuthorOptions { only: Some(Kind::Bpf), ..AuthorOptions::default() })
        .unwrap_err()
        .to_string();
    let said = [&format!("sample.c:{}: bpf: ", line_of(&text, "__sync")), "lock *(u32 *)(r", "remedy: "];
    assert!(said.iter().all(|said| error.contains(*said)), "{error}");
    let text = format!("extern int an_fly(int);\n{}", capsule("int x = 2;\nreturn an_fly(x);"));
    let error = build_text(&text, &AuthorOptions { only: Some(Kind::Bpf), ..AuthorOptions::default() })
        .unwrap_err()
        .to_string();
    assert!(error.starts_with(&format!("sample.c:{}: 'an_fly'", line_of(&text, "return an_fly"))), "{error}");
}

#[test]
fn lines_travel_with_the_bundle_and_are_no_part_of_its_name() {
    let bundle = Bundle::read(&build("loop.c").write()).unwrap();
    let lines = bundle.lines().unwrap();
    let program = Program::parse(bundle.representation(Kind::Bpf).unwrap()).unwrap();
    let text = std::fs::read_to_string(guest("loop.c")).unwrap();
    let all = |kind, last| (0..last).filter_map(|at| lines.find(kind, at)).collect::<std::collections::BTreeSet<_>>();
    for (kind, last) in
        [(Kind::Bpf, program.code.len()), (Kind::Wasm, bundle.representation(Kind::Wasm).unwrap().len())]
    {
        let found = all(kind, last);
        let looped = format!("loop.c:{}", line_of(&text, "for ("));
        assert!(found.contains(&looped), "{kind}: {looped} is not in {found:?}");
        assert!(found.iter().all(|place| !place.starts_with('/')), "nothing of this machine: {found:?}");
    }
    let mut bare = bundle.clone();
    bare.add_lines(anode::code::bundle::Lines::default());
    assert!(bare.write().starts_with(b"ANB1") && bare.name() == bundle.name());
    assert!(bundle.write().len() < bare.write().len() + 1024, "it is small");
}

#[test]
fn a_bundle_that_is_refused_is_explained_by_the_lines_beside_it() {
    let bundle = build("ping.c");
    let lines = bundle.lines().unwrap().clone();
    let mut program = Program::parse(bundle.representation(Kind::Bpf).unwrap()).unwrap();
    let at = program.code.len() - 2;
    // A call of a kernel helper, smuggled in behind the compiler.
    program.code[at] = Insn { opcode: 0x85, imm: 12, ..Insn::default() };
    let mut bad = Bundle::build("ping", 16, &[(Kind::Bpf, program.encode().into())], None).unwrap();
    bad.add_lines(lines.clone());
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("bad.anb"), bad.write()).unwrap();
    let (status, _, error) = anode(directory.path(), &["check", "bad.anb"]);
    assert_eq!(status, 1);
    let source = format!("{}: bpf: ", lines.find(Kind::Bpf, at).unwrap());
    assert!(error.contains("call of kernel helper 12") && error.contains(&source), "{error}");
    let (status, out, _) = anode(directory.path(), &["check", "bad.anb", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((status, value["instruction"].as_str()), (1, Some(&*format!("{at}: call of kernel helper 12"))));
    assert_eq!((&value["source"], &value["checked"]), (&lines.find(Kind::Bpf, at).into(), &false.into()));
}

#[test]
fn a_source_is_checked_without_being_kept() {
    let directory = tempfile::tempdir().unwrap();
    let ping = guest("ping.c").display().to_string();
    let (status, out, error) = anode(directory.path(), &["check", &ping, "--no-lint", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((status, &value["name"]), (0, &build("ping.c").name().to_string().into()), "{error}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn without_compiler_the_package_to_install_is_named() {
    let options = AuthorOptions { clang: Some("/nonexistent/clang".into()), ..AuthorOptions::default() };
    let error = author::build(&guest("ping.c"), &options).unwrap_err().to_string();
    assert!(error.contains("apt-get install clang lld"), "{error}");
    let error = author::build(Path::new("/nonexistent/ping.c"), &AuthorOptions::default()).unwrap_err();
    assert!(matches!(error, Error::Unreadable { .. }), "{error}");
    let error = author::build(&guest("ping.rs"), &AuthorOptions::default()).unwrap_err();
    assert!(matches!(error, Error::Ending { .. }), "{error}");
}

/// `anode code …`: exit status, standard output and error.
fn anode(directory: &Path, arguments: &[&str]) -> (i32, String, String) {
    run_anode(directory, "code", arguments)
}

fn run_anode(directory: &Path, noun: &str, arguments: &[&str]) -> (i32, String, String) {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_anode"))
        .arg(noun)
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_commands_carry_a_bundle_from_source_to_store_and_out_again() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let done = |arguments: &[&str]| {
        let (status, out, error) = anode(here, arguments);
        assert_eq!(status, 0, "{arguments:?}: {error}");
        out
    };
    let json = |arguments: &[&str]| -> serde_json::Value { serde_json::from_str(&done(arguments)).unwrap() };
    let cred = |arguments: &[&str]| -> serde_json::Value {
        let (status, out, error) = run_anode(here, "cred", arguments);
        assert_eq!(status, 0, "{arguments:?}: {error}");
        serde_json::from_str(&out).unwrap()
    };
    let principal = cred(&["new", "me.key", "--json"])["principal"].clone();
    let source = guest("ping.c");
    let name = done(&["build", source.to_str().unwrap(), "--sign", "me.key"]);
    let name = name.trim();

    let checked = json(&["check", "ping.anb", "--json"]);
    assert_eq!(checked["name"], name);
    assert_eq!(checked["principal"], principal);
    assert_eq!(checked["window_bytes"], 16);
    assert_eq!(checked["representations"].as_array().unwrap().len(), 2);
    assert!(done(&["check", "ping.anb"]).contains("title: ping"));

    done(&["add", "ping.anb", "--store", "store"]);
    let listed = json(&["ls", "--store", "store", "--json"]);
    assert_eq!(listed.as_array().unwrap().len(), 3);
    assert!(listed.as_array().unwrap().iter().all(|entry| entry["pinned"] == true));
    assert!(done(&["ls", "--store", "store"]).contains(name));
    assert_eq!(json(&["show", &name[..9], "--store", "store", "--json"])["checked"], true);
    done(&["rm", name, "--store", "store"]);
    assert_eq!(json(&["ls", "--store", "store", "--json"]), serde_json::json!([]));
}

#[test]
fn the_commands_carry_a_role_from_a_root_to_code() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let run = |noun: &str, arguments: &[&str]| -> serde_json::Value {
        let (status, out, error) = run_anode(here, noun, &[arguments, &["--json"]].concat());
        assert_eq!(status, 0, "{arguments:?}: {error}");
        serde_json::from_str(&out).unwrap()
    };
    let id = |value: serde_json::Value| value["principal"].as_str().unwrap().to_owned();
    let (root, author) = (id(run("cred", &["new", "root.key"])), id(run("cred", &["new", "author.key"])));
    let node = format!(
        "name = 'n'\n[[role]]\nname = 'guest'\ntrusts = ['{root}']\n[[port]]\nudp = '127.0.0.1:1'\naddress = ['10.0.0.1/24']"
    );
    std::fs::write(here.join("n.toml"), node).unwrap();
    let grant = ["grant", "--root", "root.key", "--to", &author, "--role", "guest", "--until", "+1d", "-o", "a.cred"];
    assert_eq!(run("cred", &grant)["signatures"], "right");
    assert_eq!(run_anode(here, "cred", &grant).0, 1, "a credential is not overwritten");
    assert_eq!(run("cred", &["inspect", "a.cred"])["root"], *root);
    let source = guest("ping.c");
    let source = source.to_str().unwrap();

    let bare = run("code", &["build", source, "--sign", "author.key", "-o", "ping.anb"]);
    let role = |file: &str| run("code", &["check", file, "--node", "n.toml"])["at"]["role"].clone();
    assert_eq!(role("ping.anb"), "anyone");
    run("code", &["build", source, "--sign", "author.key", "--credential", "a.cred", "-o", "granted.anb"]);
    assert_eq!(role("granted.anb"), "guest");
    let attached = run("code", &["attach", "ping.anb", "a.cred"]);
    assert_eq!((role("ping.anb"), &attached["name"]), ("guest".into(), &bare["name"]), "the name stays");
    run("code", &["build", source, "--sign", "root.key", "-o", "root.anb"]);
    assert_eq!(role("root.anb"), "guest", "a root acts in its role itself");

    run("cred", &["attenuate", "a.cred", "--node", "elsewhere", "-o", "b.cred"]);
    run("code", &["attach", "ping.anb", "b.cred"]);
    let at = run("code", &["check", "ping.anb", "--node", "n.toml"])["at"].clone();
    assert_eq!(at["role"], "anyone");
    assert!(at["credential_refused"].as_str().unwrap().contains("elsewhere"), "{at}");

    run("code", &["build", source, "-o", "unsigned.anb"]);
    let (status, _, error) = run_anode(here, "code", &["attach", "unsigned.anb", "a.cred"]);
    assert_eq!((status, error.contains("nobody has signed")), (1, true), "{error}");
    run("code", &["add", "granted.anb", "--store", "store"]);
    let name = bare["name"].as_str().unwrap();
    assert_eq!(run("code", &["show", name, "--store", "store", "--node", "n.toml"])["at"]["role"], "guest");
    run("code", &["rm", name, "--store", "store"]);
    assert_eq!(run("code", &["ls", "--store", "store"]), serde_json::json!([]));
}

#[test]
fn a_refusal_ends_with_1_and_wrong_usage_with_2() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    std::fs::write(here.join("bad.anb"), "ANB1").unwrap();
    std::fs::write(here.join("bad.c"), "int x").unwrap();
    for (arguments, expected, said) in [
        (&["check", "bad.anb"][..], 1, "ends early"),
        (&["check", "none.anb"], 1, "none.anb"),
        (&["build", "bad.c"], 1, "expected ';'"),
        (&["build", "bad.c", "--sign", "none"], 1, "anode cred new"),
        (&["show", "abc", "--store", "store"], 1, "nothing in the store is named abc"),
        (&["ls", "--store", "/dev/null/x"], 1, "--store"),
        (&["fly"], 2, "unrecognized subcommand"),
    ] {
        let (status, out, error) = anode(here, arguments);
        assert_eq!((status, out.as_str()), (expected, ""), "{arguments:?}");
        assert!(error.contains(said), "{arguments:?}: {error}");
    }
    let left: Vec<_> = std::fs::read_dir(here).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left.len(), 3, "bad.anb, bad.c and the store: {left:?}");
}

/// Runs the wasm representation of a guest on a context and a window; the verdict, and both after.
fn run(bundle: &Bundle, context: &[u8; 64], window: &[u8]) -> (u32, Vec<u8>) {
    let bytes = bundle.representation(Kind::Wasm).unwrap();
    let facts = check::wasm(bytes, bundle.manifest().window()).unwrap();
    let mut config = wasmtime::Config::new();
    config.wasm_custom_page_sizes(true);
    let engine = wasmtime::Engine::new(&config).unwrap();
    let module = wasmtime::Module::new(&engine, bytes).unwrap();
    let mut store = wasmtime::Store::new(&engine, ());
    let instance = wasmtime::Instance::new(&mut store, &module, &[]).unwrap();
    let memory = instance.get_memory(&mut store, "memory").unwrap();
    assert_eq!(memory.data_size(&store), facts.memory_bytes as usize);
    let arena = facts.arena as usize;
    memory.write(&mut store, arena, context).unwrap();
    memory.write(&mut store, arena + 64, window).unwrap();
    let entry = instance.get_typed_func::<(u32, u32), u32>(&mut store, "capsule").unwrap();
    let verdict = entry.call(&mut store, (facts.arena, facts.arena + 64)).unwrap();
    (verdict, memory.data(&store)[arena + 64..arena + 64 + window.len()].to_vec())
}

#[test]
fn context_window_and_verdicts_are_where_the_specification_puts_them() {
    let mut context = [0; 64];
    context[..16].fill(0xaa);
    let ping = build("ping.c");
    let mut window = [[1; 16], [2; 16], [0; 16]].concat();
    assert_eq!(run(&ping, &context, &window), (1, window.clone()), "on the way: forward");
    context[24] = 1;
    let turned = [&[0xaa; 16][..], &[1; 16], &[0, 0, 0, 0, 1, 0, 0, 0], &[0; 8]].concat();
    assert_eq!(run(&ping, &context, &window), (1, turned), "at its destination: turns round");
    window[36] = 1;
    assert_eq!(run(&ping, &context, &window), (2, window.clone()), "back: deliver");
    assert_eq!(run(&build("deliver.c"), &context, &window[..32]).0, 2 | 7 << 16);
}

#[test]
fn a_large_structure_survives_its_assignment() {
    let window: Vec<u8> = (0..160).map(|byte| byte as u8).collect();
    let mix = |a: u32, b: u32| {
        let a = a ^ b;
        a.wrapping_mul(2_654_435_761) ^ (a >> 15)
    };
    let cells = window[32..].as_chunks::<4>().0;
    let sum = cells.iter().fold(1, |sum, cell| mix(sum, u32::from_be_bytes(*cell)));
    let expected: Vec<u8> = (0..32).flat_map(|i| sum.wrapping_add(i).to_be_bytes()).collect();
    assert_eq!(run(&build("loop.c"), &[0; 64], &window), (sum & 1, [&window[..32], &expected].concat()));
}
