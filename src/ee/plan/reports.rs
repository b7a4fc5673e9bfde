//! Failed packets, and the reports to their sources. Example: `NoRoute` from the third node of five.
//!
//! A report is paid with the rest of the bound of its packet, so a packet and its descendants cause no more reports
//! than that pays. The source is a claim of the packet. So an address gets no more than the node may send there of its
//! own accord, and few reports a second ([`crate::topology::reach`]). Reports to the node's own applications go nowhere
//! and are free.

use super::{Fate, Plan, PlanOs};
use crate::core::reason::Reason;
use crate::wire::Addr;
use plan::eval::Cause;
use plan::packet::Packet;
use plan::value::Host;

impl Plan {
    /// An evaluation has failed with so much of the bound left.
    pub(super) fn failed_evaluation(
        &mut self,
        env: &mut dyn PlanOs,
        packet: &Packet,
        cause: &Cause,
        (principal, left): (usize, u32),
    ) -> Fate {
        self.state.account.failed += 1;
        env.drop(principal, Reason::Evaluation);
        self.state.account.unused += self.report(env, packet, cause, left);
        Fate::Dropped
    }

    /// A packet whose layers cannot be opened.
    pub(super) fn failed(&mut self, env: &mut dyn PlanOs, packet: &Packet, cause: &Cause, principal: usize) -> Fate {
        let left = self.left_of(packet.header.bound);
        self.failed_evaluation(env, packet, cause, (principal, left))
    }

    /// Tells a packet's source that it failed, as far as what is left of its bound pays for that and the source may be
    /// sent so much. Gives what is left then.
    pub(super) fn report(&mut self, env: &mut dyn PlanOs, packet: &Packet, cause: &Cause, left: u32) -> u64 {
        let source = Addr(packet.header.source.0);
        let here = Host(env.way(source).own.0);
        let Some(report) = packet.report(cause, here, left) else { return left.into() };
        let at_home = env.topology().is_own(source);
        let mut bytes = self.buffers.pop().unwrap_or_default();
        bytes.clear();
        let may = match report.encode(&mut bytes) && (at_home || left > 0) {
            true if at_home => Ok(()),
            true => env.may_report(source, bytes.len()).map_err(Some),
            false => Err(None),
        };
        match may {
            Ok(()) => {
                self.state.account.reports += 1;
                self.push_local(env, &bytes);
            }
            Err(reason) => {
                self.state.account.unreported += 1;
                if let Some(reason) = reason {
                    env.withhold(reason);
                }
            }
        }
        self.recycle(bytes);
        if may.is_ok() { 0 } else { left.into() }
    }
}
