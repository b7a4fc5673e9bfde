//! Any text as a PLAN program: the front end ends, formatting is stable, code survives its octets.
#![no_main]

use plan::{check, diagnostic, format, syntax};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(source) = std::str::from_utf8(bytes) else { return };
    let checked = check(source);
    assert_eq!(checked.code.is_some(), checked.diagnostics.is_empty());
    let few = checked.diagnostics.get(..checked.diagnostics.len().min(20)).unwrap_or(&[]);
    diagnostic::render(few, "fuzz", source, false);
    if let Some(code) = checked.code {
        let octets = code.write();
        assert_eq!(plan::code::Code::read(&octets).expect("written code is code").write(), octets);
    }
    if let Ok(once) = format::format(source) {
        assert_eq!(format::format(&once).as_deref(), Ok(&once[..]));
        let tokens = |text: &str| -> Vec<String> {
            let parsed = syntax::parse(text);
            parsed.tokens.iter().map(|spanned| spanned.span.text(text).to_owned()).collect()
        };
        assert_eq!(tokens(&once), tokens(source));
    }
});
