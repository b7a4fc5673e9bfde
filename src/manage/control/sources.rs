//! From which lines of their source traps come, for codes whose bundle somebody has given this node. Example: where
//! capsules of `ping.c` divide by zero, the log says `in capsule at ping.c:9`.
//!
//! ```text
//! add-code, accepted ─▶ functions, line table ─▶ here, by code      trap: (code, function, byte) ─▶ answers of control
//! ```
//!
//! Line tables travel beside bundles and never among neighbours. So code that came with a packet is told of by function
//! and byte, and whoever has its bundle finds the line. A trap costs the packet path three numbers. They are looked up
//! when somebody asks, by the thread of his connection.

use crate::code::run::traps::Places;
use crate::core::log::Line;
use crate::wire::Digest;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Bundles of which lines are kept, the last ones.
const BUNDLES_MAX: usize = 64;

/// Where the codes of some bundles were made from. All clones are one.
#[derive(Clone, Default)]
pub(super) struct Sources(Arc<Mutex<VecDeque<(Digest, Places)>>>);

impl Sources {
    /// Keeps what is known of a bundle's code, which the node has accepted, in the place of the bundle given first.
    pub(super) fn keep(&self, name: Digest, places: Places) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(known, _)| *known != name);
        if all.len() == BUNDLES_MAX {
            all.pop_front();
        }
        all.push_back((name, places));
    }

    /// Adds function and line to a trap of this code, as an answer has it; nothing where they are not known.
    pub(super) fn complete(&self, code: &str, trap: &mut Value) {
        let number = |name: &str| trap[name].as_u64().and_then(|number| u32::try_from(number).ok());
        let (Some(function), Some(byte)) = (number("function"), number("byte")) else { return };
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((_, places)) = all.iter().find(|(name, _)| name.to_string() == code) else { return };
        let (name, source) = places.find(function, byte);
        trap["name"] = json!(name);
        trap["source"] = json!(source);
    }

    /// A line of mobile code's log.
    pub(super) fn line(&self, line: &Line) -> Value {
        let code = line.code.to_string();
        let mut value = json!({"at": line.at, "code": code, "tag": line.tag, "value": line.value});
        if let Some(trap) = line.trap {
            let mut trap = json!(trap);
            self.complete(&code, &mut trap);
            value["trap"] = trap;
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::bundle::{Bundle, Kind, Lines};
    use crate::core::log::Trap;

    /// A bundle with one function, whose body was made from line 7.
    fn bundle(window: u32) -> Bundle {
        let module = wat::parse_str("(module (func (export \"capsule\") (result i32) unreachable))").unwrap();
        let mut bundle = Bundle::build("x", window, &[(Kind::Wasm, module.into())], None).unwrap();
        let mut lines = Lines::default();
        lines.add(Kind::Wasm, vec![(1, "x.c".into(), 7)]);
        bundle.add_lines(lines);
        bundle
    }

    #[test]
    fn a_trap_of_a_bundle_that_was_given_has_its_line_until_others_take_its_place() {
        let sources = Sources::default();
        let (first, trap) = (bundle(0), Trap { kind: "a trap", place: Some((0, 1)) });
        let line = |code| sources.line(&Line { at: 1, code, tag: 0, value: 0, trap: Some(trap) })["trap"].clone();
        let bare = json!({"kind": "a trap", "function": 0, "byte": 1});
        assert_eq!(line(first.name()), bare);
        sources.keep(first.name(), Places::of(&first));
        assert_eq!(
            line(first.name()),
            json!({"kind": "a trap", "function": 0, "byte": 1, "name": "capsule", "source": "x.c:7"})
        );
        for others in (1..=BUNDLES_MAX as u32).map(bundle) {
            sources.keep(others.name(), Places::of(&others));
        }
        assert_eq!(line(first.name()), bare);
        assert_eq!(line(bundle(9).name())["source"], "x.c:7");
    }
}
