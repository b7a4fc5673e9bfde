//! Invariants of the crate `click/` for any bytes. The fuzz targets and `click/tests/fuzzed.rs` run the same.

use click::arguments::{bytes as unquoted, split, words};
use click::classes::{Class, Table};
use click::{check, diagnostic, format, syntax};
use std::sync::LazyLock;

/// Classes of all kinds of ports: name, ports, processing, flow, items.
const CLASSES: &[[&str; 5]] = &[
    ["Counter", "1/1", "a/a", "x/x", "p/p"],
    ["Discard", "1/0", "a", "x/x", "a/a"],
    ["FromDevice", "0/1", "h", "x/x", "p/p"],
    ["Idle", "-/-", "a/a", "x/y", "a/a"],
    ["Lanes", "-/=", "a/ah", "#/#", "a/a"],
    ["Null", "1/1", "a/a", "x/x", "a/a"],
    ["Queue", "1-/1", "h/l", "x/x", "a/a"],
    ["Sensor", "0/1", "h", "x/x", "i/i"],
    ["Tee", "1/1-", "h/h", "x/x", "p/p"],
    ["ToDevice", "1/0", "l", "x/x", "p/p"],
];

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut table = Table::default();
    for [name, ports, processing, flow, items] in CLASSES {
        let class = Class::new(ports).and_then(|class| class.processing(processing));
        let class = class.and_then(|class| class.flow(flow)).and_then(|class| class.items(items));
        table.add(name, class.expect("the codes are right"));
    }
    table.add_package("local");
    table
});

/// What is the same of two texts of one configuration: tokens without semicolons, configurations by their arguments.
fn tokens(text: &str) -> Vec<Vec<String>> {
    let parsed = syntax::parse(text);
    let token = |spanned: &syntax::token::Spanned| match spanned.token {
        syntax::token::Token::Sign(";") => None,
        syntax::token::Token::Config => {
            let text = spanned.span.text(text);
            text.strip_prefix('(').and_then(|text| text.strip_suffix(')')).map(split)
        }
        _ => Some(vec![spanned.span.text(text).to_owned()]),
    };
    parsed.tokens.iter().filter_map(token).collect()
}

/// A configuration: checking ends, formatting is stable, a flat graph is read again from its text. Whether it is a graph.
pub fn source(bytes: &[u8]) -> bool {
    let Ok(source) = std::str::from_utf8(bytes) else { return false };
    let checked = check(source, &*TABLE);
    assert_eq!(checked.graph.is_some(), checked.diagnostics.is_empty());
    let few = checked.diagnostics.get(..checked.diagnostics.len().min(20)).unwrap_or(&[]);
    diagnostic::render(few, "fuzz", source, false);
    if let Ok(once) = format::format(source) {
        assert_eq!(format::format(&once).as_deref(), Ok(&once[..]));
        assert_eq!(tokens(&once), tokens(source));
    }
    let Some(graph) = checked.graph else { return false };
    let flat = graph.graph.to_string();
    // Variables that stay may be others in the flat text, and that may be longer than a text can be.
    if !flat.contains('$') && flat.len() <= syntax::lexer::SOURCE_MAX {
        let read = check(&flat, &*TABLE);
        let again =
            read.graph.unwrap_or_else(|| panic!("{:?}\nof {flat}\nis what was written of\n{source}", read.diagnostics));
        assert_eq!(again.graph.to_string(), flat);
        assert_eq!(again.ports, graph.ports);
    }
    true
}

/// A configuration's inside: arguments, words and their bytes.
pub fn arguments(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for argument in split(text) {
        assert!(argument.len() <= text.len());
        let found = words(&argument);
        assert!(found.iter().map(|word| word.len()).sum::<usize>() <= argument.len());
        for word in found {
            unquoted(word);
        }
    }
}
