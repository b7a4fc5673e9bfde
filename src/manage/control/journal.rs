//! The journal: what mobile code has written, and what the node itself has, each line with a number.
//!
//! Who follows it asks `{"do":"next","of":"journal"}` again and again, and leaves out numbers that he has seen. A gap in
//! the numbers says how many lines he has missed. Both rings are of fixed size. Numbers are of one process, which the answer names.

use super::Handle;
use crate::log::recent;
use model::log::{Journal, Line, OwnLine};

/// The last lines of both.
pub(super) fn lines(handle: &Handle) -> Result<Journal, String> {
    let (first, lines) = handle.with_node(|node, _| (node.log_begins(), node.log()))?;
    let numbered = |(number, line): (u64, &crate::core::log::Line)| {
        let level = if line.trap.is_some() { "warn" } else { "info" };
        Line { number: Some(number), level: Some(level.into()), ..handle.sources.line(line) }
    };
    let code = (first..).zip(&lines).map(numbered).collect();
    let own = recent().into_iter().map(|line| OwnLine {
        number: line.number,
        unix_ms: line.unix_ms,
        level: line.level.as_str().to_ascii_lowercase(),
        text: line.text,
    });
    Ok(Journal { process: std::process::id(), code, node: own.collect() })
}
