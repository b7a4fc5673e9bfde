//! Output disciplines: what a packet costs that waits in the queue of its class and leaves in the order of all of them.
//!
//! Classes are a hundred, with equal shares, and each has ten packets that wait: one comes as one leaves. Shares are of weights from 50
//! to 743, of frames of 64 to 1,513 bytes, in virtual time.

use std::cell::RefCell;

use anode::schedule::discipline::{ClassSpec, Discipline, DisciplineSpec, Leaving, OrderKind};

use super::super::micro::{COST, Micro};
use super::super::report::Report;
use super::super::series::{Key, Series, Target};
use super::super::{Error, Settings};

const CLASSES: usize = 100;
const WAITING: usize = 10;
/// Bytes of a packet, and nanoseconds of the clock that it takes: 1 Gbit/s.
const BYTES: usize = 1_000;
const PACKET_NS: u64 = 8_000;

const REGIME: &str = "disciplines, 100 classes";
const DECISION_NS: f64 = 50.0;
const SHARE_OFF: f64 = 1.0;

/// Packets, as many as leave come.
struct Stand {
    discipline: Discipline<u32>,
    now: u64,
}

impl Stand {
    fn new(order: OrderKind) -> Stand {
        let class = |at: usize| ClassSpec {
            priority: at as u8,
            deadline_ns: 1_000_000 * (at as u64 + 1),
            ..ClassSpec::named(&format!("c{at}"))
        };
        let spec = DisciplineSpec { order, rate: None, classes: (0..CLASSES).map(class).collect() };
        let mut discipline = Discipline::new(&spec, 7);
        for at in 0..CLASSES * WAITING {
            let _ = discipline.put(at % CLASSES, (at % CLASSES) as u32, BYTES, 0);
        }
        Stand { discipline, now: 0 }
    }

    fn one(&mut self) -> bool {
        self.now += PACKET_NS;
        let Leaving::Packet(class) = self.discipline.next(self.now) else { return false };
        self.discipline.put(class as usize, class, BYTES, self.now).is_ok()
    }
}

/// Measures it, and gives targets.
pub(super) fn run(settings: &Settings, report: &mut Report) -> Result<Series, Error> {
    let stands = OrderKind::ALL.map(|order| (order, RefCell::new(Stand::new(order))));
    let mut micro = Micro::new(REGIME, None);
    for (order, stand) in &stands {
        micro = micro.variant(order.name(), || stand.borrow_mut().one());
    }
    let series = micro.run(settings)?;
    for order in OrderKind::ALL {
        let key = Key { variant: order.name().into(), size: None, regime: REGIME.into(), metric: COST, unit: "ns" };
        let name = format!("{REGIME}: {}, decision and queue, ns", order.name());
        report.targets.extend(Target::at_most(name, series.values(&key), DECISION_NS));
    }
    for order in [OrderKind::Wfq, OrderKind::Drr] {
        let name = format!("{REGIME}: {}, farthest from its share, %", order.name());
        report.targets.extend(Target::never_above(name, &[farthest(order)], SHARE_OFF));
    }
    Ok(series)
}

/// How far the class is from its share that is farthest, in hundredths of that.
fn farthest(order: OrderKind) -> f64 {
    let weight = |at: usize| 50 + at as u32 * 7;
    let bytes = |at: usize| 64 + at * 37 % 1_450;
    let class = |at: usize| ClassSpec { weight: weight(at), ..ClassSpec::named(&format!("c{at}")) };
    let spec = DisciplineSpec { order, rate: None, classes: (0..CLASSES).map(class).collect() };
    let (mut discipline, mut sent, mut now) = (Discipline::new(&spec, 7), [0u64; CLASSES], 0);
    for at in 0..CLASSES * WAITING {
        let _ = discipline.put(at % CLASSES, at % CLASSES, bytes(at % CLASSES), 0);
    }
    for _ in 0..1_000_000 {
        let Leaving::Packet(class) = discipline.next(now) else { break };
        now += bytes(class) as u64 * 8;
        sent[class] += bytes(class) as u64;
        let _ = discipline.put(class, class, bytes(class), now);
    }
    let (all, weights): (u64, u32) = (sent.iter().sum(), (0..CLASSES).map(weight).sum());
    let part = |at: usize| all as f64 * f64::from(weight(at)) / f64::from(weights);
    (0..CLASSES).map(|at| (sent[at] as f64 / part(at) - 1.0).abs() * 100.0).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_packets_come_as_leave() {
        for order in OrderKind::ALL {
            let mut stand = Stand::new(order);
            assert!((0..5 * CLASSES).all(|_| stand.one()), "{order:?}");
            assert_eq!(stand.discipline.packets(), CLASSES * WAITING);
        }
    }

    #[test]
    fn shares_are_kept_to_a_hundredth() {
        assert!(farthest(OrderKind::Wfq) < SHARE_OFF && farthest(OrderKind::Drr) < SHARE_OFF);
    }
}
