//! The journal: what mobile code has written, and what the node itself has, each line with a number.
//!
//! Who follows it asks `{"do":"next","of":"journal"}` again and again, and leaves out numbers that he has seen. A gap in
//! the numbers says how many lines he has missed. Both rings are of fixed size. Numbers are of one process, which the answer names.

use super::Handle;
use crate::log::recent;
use serde_json::{Value, json};

/// The last lines of both.
pub(super) fn lines(handle: &Handle) -> Result<Value, String> {
    let (first, lines) = handle.with_node(|node, _| (node.log_begins(), node.log()))?;
    let numbered = |(number, line)| {
        let mut value = handle.sources.line(line);
        value["number"] = json!(number);
        value["level"] = json!(if line.trap.is_some() { "warn" } else { "info" });
        value
    };
    let code: Vec<Value> = (first..).zip(&lines).map(numbered).collect();
    let own = recent().into_iter().map(|line| {
        let level = line.level.as_str().to_ascii_lowercase();
        json!({"number": line.number, "unix_ms": line.unix_ms, "level": level, "text": line.text})
    });
    Ok(json!({"process": std::process::id(), "code": code, "node": own.collect::<Vec<_>>()}))
}
