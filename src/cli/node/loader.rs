//! The part of `anode node status` on loading: compiled code, waiting jobs, refused modules.

use model::loader::{Loader, RefusedModule};
use std::fmt::Write as _;

/// What was compiled, what waits for that, and what the compiler has failed on.
pub(super) fn describe(text: &mut String, loader: &Loader) {
    let Loader { look_ups, queues, compiler, names } = loader;
    let _ = writeln!(
        text,
        "  compiler {} modules, {} optimised, {} failed, {} refused again without a try",
        compiler.compiled, compiler.optimised, compiler.failed, compiler.refused.spared
    );
    let _ = writeln!(
        text,
        "  names {} from the hosts file, {} looked up, {} not answered in time, {} under way",
        names.hosts, names.looked_up, names.late, names.busy
    );
    for (what, queues) in
        [("store", look_ups), ("credentials", queues), ("compiler", &compiler.queues), ("names", &names.queues)]
    {
        for queue in queues {
            let _ = writeln!(text, "  queue {what}, {}: {} wait, {} dropped", queue.of, queue.waiting, queue.dropped);
        }
    }
    for RefusedModule { module, purpose, why, left_s } in &compiler.refused.modules {
        let _ = writeln!(text, "  refused {module:.8}… as {purpose} for {left_s} s: {why}");
    }
}
