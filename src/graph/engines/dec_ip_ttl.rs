//! A hop is spent (RFC 1812 §5.3.1).

use crate::contract::plan::{FusedStep, FusedTest, IP_AT};
use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::fused::{FusedAt, FusedBody, FusedLabel, NoForm};
use crate::graph::packet;

/// `DecIPTTL`.
pub const CLASS: EngineClass = EngineClass {
    name: "DecIPTTL",
    doc: "Takes one off the time to live of IPv4 packets; those with none left leave by output 1, unchanged. \
          Handler: drops",
    make: Make::with("1/1-2", "a/ah", "x/x", |args| {
        args.ignore(&["MULTICAST", "ACTIVE"]);
        Some(Box::<DecIpTtl>::default())
    }),
};

#[derive(Default)]
struct DecIpTtl(u64);

impl Engine for DecIpTtl {
    fn push(&mut self, _: u16, mut frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        let bytes = packet::from_ip_mut(&mut frame);
        let Some([ttl, protocol]) = bytes.get(8..10).map(|two| [two[0], two[1]]) else { return Pushed::thrown(frame) };
        if ttl <= 1 {
            self.0 += 1;
            return Pushed::To(1, frame);
        }
        packet::change_word(bytes, 8, [ttl - 1, protocol]);
        Pushed::To(0, frame)
    }

    fn kernel(&self, _: u16, at: FusedAt, body: &mut FusedBody<'_>) -> Result<FusedLabel, NoForm> {
        at.plain_ip()?;
        let (none, some) = (body.to(1, at)?, body.to(0, at)?);
        let counted = body.steps(vec![FusedStep::Count(body.own(0))], none)?;
        let spent = body.steps(vec![FusedStep::SpendHop], some)?;
        let test = FusedTest { at: IP_AT + 8, width: 1, shift: 0, mask: 0xff, low: 0, high: 1, reach: 0 };
        body.test(test, counted, spent)
    }

    fn kernel_words(&self) -> u16 {
        1
    }

    fn add_kernel(&mut self, words: &[u64]) {
        self.0 += words.first().unwrap_or(&0);
    }

    fn read(&self, handler: &str) -> Option<String> {
        (handler == "drops").then(|| self.0.to_string())
    }
}
