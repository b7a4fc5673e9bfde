//! Orders of extensions: a function says from which input of an engine the next packet is pulled.
//!
//! ```text
//! inputs (8) · those that had nothing, a bit each (8) · the input of the packet before (8) · its bytes (8) ─▶ function ─▶ input (8)
//! ```
//!
//! It sees no packets and loses none. Where it fails, or names an input that there is not or that had nothing, the first one is next that
//! has something: that is counted, and it is not asked again for this packet. Queues stand before it, and a shaper behind it, so with it a
//! graph has a discipline that an extension brings.

use super::engines::EngineFunction;
use crate::frame::Frame;
use crate::graph::class::PACKET_FUEL;
use crate::graph::engine::{Engine, GraphCx};

/// Inputs that an order knows; others are asked when these have nothing.
const INPUTS_MAX: u16 = 64;

/// An engine whose function is an order of its inputs.
pub(super) struct OrderEngine {
    function: EngineFunction,
    /// The packet before: its input, and its bytes until the function knows of it.
    last: (u16, usize),
}

impl OrderEngine {
    pub(super) fn new(function: EngineFunction) -> OrderEngine {
        OrderEngine { function, last: (0, 0) }
    }

    /// The input that is asked next, if the function names one; these have nothing.
    fn choose(&mut self, inputs: u16, empty: u64, (now, left): (u64, &mut u64)) -> Option<u16> {
        let (input, bytes) = self.last;
        self.last.1 = 0;
        let exchange = &mut self.function.exchange;
        exchange.clear();
        let words = [u64::from(inputs), empty, u64::from(input), bytes as u64];
        words.iter().for_each(|word| exchange.extend_from_slice(&word.to_le_bytes()));
        let called = self.function.call_within(now, left);
        called.ok().and_then(|()| named(&self.function.exchange, inputs, empty))
    }
}

impl Engine for OrderEngine {
    fn keeps(&self) -> Option<u64> {
        Some(self.function.bytes())
    }

    fn pull(&mut self, _: u16, cx: &mut GraphCx<'_>) -> Option<Frame> {
        let known = cx.inputs().min(INPUTS_MAX);
        // All calls for one packet have the fuel of one.
        let (mut empty, mut has_failed, mut left) = (0u64, false, PACKET_FUEL);
        for _ in 0..known {
            let chosen = if has_failed { None } else { self.choose(known, empty, (cx.now, &mut left)) };
            let input = chosen.unwrap_or(empty.trailing_ones() as u16);
            if chosen.is_none() && !core::mem::replace(&mut has_failed, true) {
                self.function.fail();
            }
            if let Some(frame) = cx.pull(input) {
                self.last = (input, frame.len());
                return Some(frame);
            }
            empty |= 1 << input;
        }
        (known..cx.inputs()).find_map(|input| cx.pull(input))
    }

    fn read(&self, handler: &str) -> Option<String> {
        self.function.read(handler)
    }

    fn take_state(&mut self, before: &mut dyn Engine) {
        if let Some(before) = before.as_any().and_then(|any| any.downcast_mut::<OrderEngine>()) {
            self.function.take_over(&mut before.function);
            self.last = before.last;
        }
    }

    fn as_any(&mut self) -> Option<&mut dyn core::any::Any> {
        Some(self)
    }
}

/// The input that a function has named, if there is such a one and it may have something.
fn named(exchange: &[u8], inputs: u16, empty: u64) -> Option<u16> {
    let input = u64::from_le_bytes(exchange.try_into().ok()?);
    let input = u16::try_from(input).ok().filter(|input| *input < inputs)?;
    (empty & 1 << input == 0).then_some(input)
}

#[cfg(test)]
mod tests {
    use super::named;

    #[test]
    fn an_order_names_an_input_that_may_have_something_or_none() {
        for (given, empty, input) in [(&[1u64][..], 0, Some(1)), (&[1], 1, Some(1)), (&[1], 2, None), (&[3], 0, None)] {
            let bytes: Vec<u8> = given.iter().flat_map(|word| word.to_le_bytes()).collect();
            assert_eq!(named(&bytes, 3, empty), input, "{given:?} {empty}");
        }
        for wrong in [&[][..], &[0; 7], &[0; 9], &[0xff; 8]] {
            assert_eq!(named(wrong, 3, 0), None, "{wrong:?}");
        }
    }
}
