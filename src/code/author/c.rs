//! From a C source to the representations, by runs of clang that go on at once.
//!
//! Each target is compiled twice: as it travels, and with debugging information, which says the lines of what is made and
//! of what is refused. Whoever wants to know first whether all is right leaves that out ([`AuthorOptions::bare`]).

use super::clang::Clang;
use super::options::{AuthorOptions, Parts};
use super::said;
use super::{Error, lines, module, native, program};
use crate::code::bundle::{Kind, Lines, REPRESENTATION_MAX};
use std::path::Path;
use std::thread;

/// The object file that a run of the compiler has made.
type Object = Result<Vec<u8>, Error>;

/// What the runs for one target have made, without debugging information and with; nothing of the latter where it is not wanted.
type Made = Option<(Object, Object)>;

/// The same for wasm, and between both what the linker has made of the former.
type Linked = Option<(Object, Object, Object)>;

/// Compiles a C source for all that is asked for; adds what the compiler had to say.
pub(super) fn compile(source: &Path, options: &AuthorOptions, warnings: &mut String) -> Result<Parts, Error> {
    let clang = Clang::new(options.clang.as_deref(), source)?;
    let (wasm, bpf) = run(&clang, source, options);
    let mut parts = Parts { window: 0, wasm: None, bpf: None, native: None, lines: Lines::default() };
    let mut windows = Vec::new();
    if let Some((object, module, traced)) = wasm {
        let object = object?;
        windows.push(module::window(&object).map_err(|_| Error::NoCapsule.at(first_line(&clang)))?);
        if let Some(symbol) = module::undefined(&object)? {
            // What the compiler says of the same for bpf has a line of its own.
            let needs_library = symbol.starts_with("__");
            if let Some((Err(_), Err(_))) = bpf.as_ref().filter(|_| needs_library) {
                let (plain, traced) = bpf.unwrap_or((Ok(Vec::new()), Ok(Vec::new())));
                return Err(refused(&clang, plain, traced));
            }
            let at = called(&clang, source, bpf.as_ref(), &symbol);
            return Err(Error::Undefined { symbol, section: "CODE".into() }.at(at));
        }
        let linked = module::normalise(&module?)?;
        let traced = traced.unwrap_or_default();
        if bpf.is_none() {
            warn(&object, &traced, &clang, warnings)?;
        }
        parts.lines.add(Kind::Wasm, lines::wasm(&traced, &linked, clang.names()).unwrap_or_default());
        parts.wasm = Some(linked);
    }
    if let Some((plain, traced)) = bpf {
        let converted = converted(&clang, plain, traced, &mut parts.lines)?;
        windows.push(converted.window);
        let bytes = converted.program.encode();
        if bytes.len() > REPRESENTATION_MAX {
            let found = converted.program.code.len();
            return Err(Error::TooLong { found }.at(parts.lines.find(Kind::Bpf, REPRESENTATION_MAX / 8)));
        }
        parts.bpf = Some(bytes);
    }
    if options.native || options.only == Some(Kind::Native) {
        let needs = native::needs(&clang.native_object(source)?)?;
        windows.push(needs.window);
        parts.native = Some(clang.native_link(&native::table(&needs.symbols)?)?);
    }
    let said = clang.warnings();
    warnings.insert_str(0, &if said.is_empty() || warnings.is_empty() { said } else { said + "\n" });
    parts.window = window(&windows, options).map_err(|error| error.at(begins(&clang)))?;
    Ok(parts)
}

/// Runs clang for each target that is wanted, as it travels and with debugging information.
fn run(clang: &Clang, source: &Path, options: &AuthorOptions) -> (Linked, Made) {
    let wanted = |kind| options.only.is_none_or(|only| only == kind);
    let lost = || Error::Module { cause: "a run of the compiler was lost".into() };
    let traced = |made: &dyn Fn() -> Object| if options.bare { Ok(Vec::new()) } else { made() };
    let (of_wasm, of_bpf) = (|| traced(&|| clang.wasm_traced(source)), || traced(&|| clang.bpf_traced(source)));
    let linked = || match clang.wasm_object(source) {
        Ok(object) => (Ok(object), clang.wasm_link()),
        refused => (refused, Ok(Vec::new())),
    };
    thread::scope(|scope| {
        let wasm = wanted(Kind::Wasm).then(|| (scope.spawn(linked), scope.spawn(of_wasm)));
        let bpf = wanted(Kind::Bpf).then(|| (scope.spawn(|| clang.bpf_object(source)), scope.spawn(of_bpf)));
        let join = |one: thread::ScopedJoinHandle<'_, Object>| one.join().unwrap_or_else(|_| Err(lost()));
        let wasm = wasm.map(|(plain, traced)| {
            let (object, module) = plain.join().unwrap_or_else(|_| (Err(lost()), Ok(Vec::new())));
            (object, module, join(traced))
        });
        (wasm, bpf.map(|(plain, traced)| (join(plain), join(traced))))
    })
}

/// The bpf program of an object file, its lines added; an error says its line.
fn converted(clang: &Clang, plain: Object, traced: Object, lines: &mut Lines) -> Result<program::Converted, Error> {
    let names = clang.names();
    let (plain, traced) = match (plain, traced) {
        (Ok(plain), traced) => (plain, traced.unwrap_or_default()),
        (plain, traced) => return Err(refused(clang, plain, traced)),
    };
    let converted = program::convert(&plain).map_err(|broken| {
        let at = broken.at.and_then(|(section, offset)| lines::at(&traced, &section, offset, names));
        broken.error.at(at)
    })?;
    lines.add(Kind::Bpf, lines::bpf(&traced, &converted, names).unwrap_or_default());
    Ok(converted)
}

/// Why there is no object file for bpf. With debugging information the back end knows the line of an instruction, without
/// that of its function.
fn refused(clang: &Clang, plain: Object, traced: Object) -> Error {
    let (target, output, said, closer) = match (plain, traced) {
        (Err(Error::Compile { target, output, said }), Err(Error::Compile { said: closer, .. })) => {
            (target, output, said, closer)
        }
        (Err(error), _) | (_, Err(error)) => return error,
        (Ok(_), Ok(_)) => return Error::NothingToBuild,
    };
    let function = said.iter().find_map(|said| said.place.clone()).map(|(file, line)| format!("{file}:{line}"));
    let function = function.or_else(|| begins(clang));
    let closer = said::show(&closer, true, function.as_deref());
    Error::Compile { target, output: if closer.is_empty() { output } else { closer }, said }
}

/// Where a function is called, by the lines of the object file for bpf, or by the text.
fn called(clang: &Clang, source: &Path, bpf: Option<&(Object, Object)>, name: &str) -> Option<String> {
    let again;
    let traced = match bpf {
        Some((_, traced)) => traced.as_ref().ok(),
        None => {
            again = clang.bpf_traced(source).ok();
            again.as_ref()
        }
    };
    let place = traced.and_then(|object| {
        let (section, offset) = program::call_of(object, name)?;
        lines::at(object, &section, offset, clang.names())
    });
    place.or_else(|| mention(clang, source, name))
}

/// The last line of a source that has this in it.
fn mention(clang: &Clang, source: &Path, text: &str) -> Option<String> {
    let lines = std::fs::read_to_string(source).ok()?;
    let line = lines.lines().enumerate().filter(|(_, line)| line.contains(text)).last()?.0 + 1;
    Some(format!("{}:{line}", clang.names().source()))
}

/// The line where a source's program begins.
fn begins(clang: &Clang) -> Option<String> {
    mention(clang, clang.names().path(), "AN_CAPSULE(")
}

fn first_line(clang: &Clang) -> Option<String> {
    Some(format!("{}:1", clang.names().source()))
}

/// Warns of variables that code changes and no packet finds again.
fn warn(object: &[u8], traced: &[u8], clang: &Clang, warnings: &mut String) -> Result<(), Error> {
    for name in module::variables(object)? {
        let place = lines::declared(traced, &name, clang.names()).unwrap_or_else(|| clang.names().source().to_owned());
        let line = format!(
            "{}{place}: warning: '{name}' begins every packet with its first value, since nothing but soft state survives one\n  \
             remedy: keep it with an_state_put() or an_state_add(), make it const, or a variable of the function",
            if warnings.is_empty() { "" } else { "\n" }
        );
        warnings.push_str(&line);
    }
    Ok(())
}

/// The payload bytes in the window, which all targets say.
fn window(windows: &[u32], options: &AuthorOptions) -> Result<u32, Error> {
    let (Some(&window), true) = (windows.first(), windows.iter().min() == windows.iter().max()) else {
        return Err(match *windows {
            [wasm, bpf] | [wasm, bpf, _] => Error::WindowDiffers { wasm, bpf },
            _ => Error::NothingToBuild,
        });
    };
    match options.window {
        Some(asked) if asked != window => Err(Error::WindowIsFixed { asked, window }),
        _ => Ok(window),
    }
}
