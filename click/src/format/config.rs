//! The canonical form of a configuration in parentheses.
//!
//! Arguments stand on one line, or if the author broke the line or it is long, each on its own. What is in an argument stays as
//! it is, and a configuration with comments stays whole.

use crate::arguments::ranges;
use crate::syntax::scan::{Kind, pieces};

/// Bytes of a configuration that stands on one line.
const LINE_MAX: usize = 80;

/// A configuration with its parentheses, where its arguments would stand behind so many spaces.
pub(super) fn config(text: &str, indent: usize) -> String {
    let inner = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')).unwrap_or(text);
    let stays = |kind| matches!(kind, Kind::Line | Kind::Block | Kind::Directive);
    if pieces(inner).any(|piece| stays(piece.kind)) {
        return text.to_owned();
    }
    let ranges = ranges(inner);
    let arguments: Vec<&str> = ranges.iter().filter_map(|range| inner.get(range.clone())).collect();
    let mut at = 0;
    let mut breaks = false;
    for range in &ranges {
        breaks |= inner.get(at..range.start).is_some_and(|between| between.contains('\n'));
        breaks |= inner.get(range.clone()).is_some_and(|argument| argument.contains('\n'));
        at = range.end;
    }
    breaks &= !ranges.is_empty();
    // An empty last argument is none, so it needs a comma behind it.
    let end = if arguments.last().is_some_and(|last| last.is_empty()) { "," } else { "" };
    let line = format!("({}{end})", arguments.join(", "));
    if !breaks && line.len() <= LINE_MAX {
        return line;
    }
    let space = " ".repeat(indent);
    let lines: Vec<String> = arguments.iter().map(|argument| format!("\n{space}{argument}")).collect();
    format!("({}{end})", lines.join(","))
}

#[cfg(test)]
mod tests {
    use super::config;

    #[test]
    fn arguments_stand_on_one_line_or_each_on_its_own() {
        let cases = [
            ("()", "()"),
            ("( )", "()"),
            ("(a,b ,  c)", "(a, b, c)"),
            ("(a,\n b)", "(\n  a,\n  b)"),
            ("(\"a,b\",)", "(\"a,b\")"),
            ("(,)", "(,)"),
            ("(a,,)", "(a, ,)"),
            ("(a // b\n, c)", "(a // b\n, c)"),
        ];
        for (text, expected) in cases {
            assert_eq!(config(text, 2), expected, "{text}");
            assert_eq!(config(expected, 2), expected, "{text}");
        }
        let long = format!("({0}, {0})", "x".repeat(60));
        assert_eq!(config(&long, 1), format!("(\n {0},\n {0})", "x".repeat(60)));
    }
}
