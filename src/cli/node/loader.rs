//! The part of `anode node status` on loading: compiled code, waiting jobs, refused modules.

use serde_json::Value;
use std::fmt::Write as _;

/// What was compiled, what waits for that, and what the compiler has failed on.
pub(super) fn describe(text: &mut String, loader: &Value) {
    let compiler = &loader["compiler"];
    let number = |value: &Value, key: &str| value[key].as_u64().unwrap_or(0);
    let _ = writeln!(
        text,
        "  compiler {} modules, {} optimised, {} failed, {} refused again without a try",
        number(compiler, "compiled"),
        number(compiler, "optimised"),
        number(compiler, "failed"),
        number(&compiler["refused"], "spared")
    );
    let names = &loader["names"];
    let _ = writeln!(
        text,
        "  names {} from the hosts file, {} looked up, {} not answered in time, {} under way",
        number(names, "hosts"),
        number(names, "looked_up"),
        number(names, "late"),
        number(names, "busy")
    );
    for (what, queues) in [
        ("store", &loader["look_ups"]),
        ("credentials", &loader["queues"]),
        ("compiler", &compiler["queues"]),
        ("names", &names["queues"]),
    ] {
        for queue in queues.as_array().into_iter().flatten() {
            let (of, waiting) = (queue["of"].as_str().unwrap_or("?"), number(queue, "waiting"));
            let _ = writeln!(text, "  queue {what}, {of}: {waiting} wait, {} dropped", number(queue, "dropped"));
        }
    }
    for module in compiler["refused"]["modules"].as_array().into_iter().flatten() {
        let field = |key: &str| module[key].as_str().unwrap_or("?");
        let left = number(module, "left_s");
        let _ =
            writeln!(text, "  refused {:.8}… as {} for {left} s: {}", field("module"), field("purpose"), field("why"));
    }
}
