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
use crate::manage::observe::told;
use crate::wire::Digest;
use model::status::Trap;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Bundles of which lines are kept, the last ones.
const BUNDLES_MAX: usize = 64;

/// Where the codes of some bundles were made from. All clones are one.
#[derive(Clone, Default)]
pub(in crate::manage) struct Sources(Arc<Mutex<VecDeque<(Digest, Places)>>>);

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

    /// Adds function and line to a trap of this code; nothing where they are not known.
    pub(in crate::manage) fn complete(&self, code: &str, trap: &mut Trap) {
        let (Some(function), Some(byte)) = (trap.function, trap.byte) else { return };
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((_, places)) = all.iter().find(|(name, _)| name.to_string() == code) else { return };
        let (name, source) = places.find(function, byte);
        (trap.name, trap.source) = (name.map(str::to_owned), source);
    }

    /// A line of mobile code's log.
    pub(super) fn line(&self, line: &Line) -> model::log::Line {
        let code = line.code.to_string();
        let trap = line.trap.as_ref().map(|trap| {
            let mut trap = told::trap(trap);
            self.complete(&code, &mut trap);
            trap
        });
        let (at, tag, value) = (line.at, line.tag, line.value);
        model::log::Line { at, code, tag, value, trap, number: None, level: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::bundle::{Bundle, Kind, Lines};
    use crate::core::log;

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
        let (first, trap) = (bundle(0), log::Trap { kind: "a trap", place: Some((0, 1)) });
        let line = |code| sources.line(&Line { at: 1, code, tag: 0, value: 0, trap: Some(trap) }).trap.unwrap();
        let bare = told::trap(&trap);
        assert_eq!(line(first.name()), bare);
        sources.keep(first.name(), Places::of(&first));
        let placed = Trap { name: Some("capsule".into()), source: Some("x.c:7".into()), ..bare.clone() };
        assert_eq!(line(first.name()), placed);
        for others in (1..=BUNDLES_MAX as u32).map(bundle) {
            sources.keep(others.name(), Places::of(&others));
        }
        assert_eq!(line(first.name()), bare);
        assert_eq!(line(bundle(9).name()).source.as_deref(), Some("x.c:7"));
    }
}
