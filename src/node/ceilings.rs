//! Cuts resource bounds of neighbours' packets to the ceiling of their port. Example: a capsule claims 10,000 hops, the
//! port allows 256, so it goes on with 256.
//!
//! Capsules come from `receiving` if their bound is above that of unsigned code, or from `loading` when their code has
//! come, since only then their principal is known. PLAN packets come from their environment. The kernel half punts a
//! packet above a ceiling, so this is the one place that cuts, counts and logs.

use super::codes::Code;
use super::output::{EventKind, Turn};
use super::running::set_bound;
use super::{Capsules, Cx};
use crate::core::bucket::TokenBucket;
use crate::frame::{Frame, PortId};
use crate::topology::Ceiling;
use crate::trust::ANYONE;
use crate::wire::{Addr, Digest, capsule};
use std::collections::VecDeque;

/// Sources that have been named in the log lately and are not named again; the oldest gives way.
const SAID_MAX: usize = 64;

/// Lines a second that the log takes, and at once.
const LINES_PER_SECOND: u64 = 1;
const LINES_BURST: u64 = 8;

/// Whose bounds were cut, or who was not let in, as far as the log has said it.
pub(super) struct Said {
    said: VecDeque<(PortId, Addr)>,
    lines: TokenBucket,
}

impl Default for Said {
    fn default() -> Said {
        Said { said: VecDeque::new(), lines: TokenBucket::new(LINES_PER_SECOND, LINES_BURST) }
    }
}

impl Said {
    /// Whether the log is to name this source.
    pub fn is_news(&mut self, now: u64, source: (PortId, Addr)) -> bool {
        if self.said.contains(&source) || !self.lines.take(now, 1) {
            return false;
        }
        if self.said.len() >= SAID_MAX {
            self.said.pop_front();
        }
        self.said.push_back(source);
        true
    }
}

impl Cx {
    /// The ceilings of a port.
    #[inline]
    pub(super) fn ceiling(&self, port: PortId) -> Ceiling {
        let port = self.core.topology.port(port);
        port.map_or(Ceiling::all(0), |port| port.ceiling)
    }

    /// Counts a packet with a bound that was cut from one number to another, and logs its source.
    pub(super) fn note_clamped(
        &mut self,
        turn: &mut Turn<'_>,
        source: (PortId, Addr),
        trace: u64,
        (bound, most): (u32, u32),
    ) {
        let (port, addr) = source;
        if let Some(gauge) = self.core.gauge(port) {
            gauge.clamped += 1;
        }
        turn.out.event(trace, EventKind::Clamped(port, bound));
        if self.control.clamps.is_news(turn.now, source) {
            let name = self.core.topology.port(port).map_or("", |port| &port.name);
            let setting = setting(self.ceiling(port), most);
            tracing::warn!(node = self.core.name, port = name, from = %addr, bound, most, "a resource bound is cut to {setting}");
        }
    }
}

impl Capsules {
    /// Cuts the bound of a capsule from `previous` that is above what anybody may have. If its code is not known yet, this is
    /// asked again when it is.
    #[cold]
    pub(super) fn clamp_capsule(
        &mut self,
        cx: &mut Cx,
        turn: &mut Turn<'_>,
        frame: &mut Frame,
        header: &mut capsule::Header,
    ) {
        let Some(signed) = self.is_signed(&header.code) else { return };
        let ceiling = cx.ceiling(frame.port);
        let most = if signed { ceiling.signed } else { ceiling.unsigned };
        if header.bound > most {
            cx.note_clamped(turn, (frame.port, header.previous), frame.trace, (header.bound, most));
            header.bound = most;
            set_bound(frame, most);
        }
    }

    /// Whether code acts in a role of its own; nothing if that is not known yet.
    fn is_signed(&self, code: &Digest) -> Option<bool> {
        match self.codes.of(code) {
            Some(Code::Ready(ready)) => Some(ready.grant.role.name != ANYONE),
            _ => None,
        }
    }
}

/// By which setting of a port with these ceilings a bound is cut to so much.
fn setting(of_port: Ceiling, most: u32) -> &'static str {
    match most {
        most if most == of_port.unsigned => "bound_max",
        most if most == of_port.signed => "signed_bound_max",
        _ => "bound_max of [plan]",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_has_the_name_of_the_setting_that_makes_it() {
        let ceiling = Ceiling { unsigned: 16, signed: 256 };
        assert_eq!(
            [16, 256, 8].map(|most| setting(ceiling, most)),
            ["bound_max", "signed_bound_max", "bound_max of [plan]"]
        );
        assert_eq!(setting(Ceiling::all(9), 9), "bound_max");
    }

    #[test]
    fn a_source_is_named_once_and_a_flood_of_sources_a_few_times() {
        let source = |number: u32| (PortId(0), Addr(u128::from(number).to_be_bytes()));
        let mut clamps = Said::default();
        assert!(clamps.is_news(0, source(1)) && !clamps.is_news(0, source(1)));
        let named = (2..10_000).filter(|number| clamps.is_news(0, source(*number))).count();
        assert_eq!((named, clamps.said.len()), (LINES_BURST as usize - 1, LINES_BURST as usize));
        assert!((0..10_000).all(|second| clamps.is_news((second + 1) * 2_000_000_000, source(20_000 + second as u32))));
        assert_eq!(clamps.said.len(), SAID_MAX);
    }
}
