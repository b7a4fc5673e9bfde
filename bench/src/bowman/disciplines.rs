//! Output disciplines: what a packet costs that waits in the queue of its class and leaves in the order of all of them.
//!
//! Classes are a hundred, with equal shares, and each has ten packets that wait: one comes as one leaves. Shares are of weights from 50
//! to 743, of frames of 64 to 1,513 bytes, in virtual time. Of an order of an extension these classes are 64, the most that one knows.

use std::cell::RefCell;

use anode::manage::extensions::{Extensions, Policies};
use anode::schedule::discipline::{
    ClassSpec, Discipline, DisciplineSpec, Leaving, MakesPolicies, NoExtensions, OrderKind,
};
use anode::sys::clock::Clock;

use super::super::micro::{COST, Micro};
use super::super::report::Report;
use super::super::series::{Key, Series, Target};
use super::super::{Error, Settings};

const CLASSES: usize = 100;
const WAITING: usize = 10;
/// Bytes of a packet, and nanoseconds of the clock that it takes: 1 Gbit/s.
const BYTES: usize = 1_000;
const PACKET_NS: u64 = 8_000;

/// An order of an extension, and of how many classes it is.
const BROUGHT: &str = "shares/Shares(1)";
const BROUGHT_CLASSES: usize = 64;
const SHARES: &[u8] = include_bytes!("../../../apps/extensions/shares.wat");

const REGIME: &str = "disciplines, 100 classes";
const DECISION_NS: f64 = 50.0;
const SHARE_OFF: f64 = 1.0;

/// Packets, as many as leave come.
struct Stand {
    discipline: Discipline<u32>,
    now: u64,
}

impl Stand {
    fn new(order: OrderKind) -> Result<Stand, Error> {
        Stand::of(order, CLASSES, &NoExtensions)
    }

    fn brought() -> Result<Stand, Error> {
        let order = BROUGHT.parse().map_err(Error::Node)?;
        Stand::of(order, BROUGHT_CLASSES, &shares()?)
    }

    fn of(order: OrderKind, classes: usize, policies: &dyn MakesPolicies) -> Result<Stand, Error> {
        let class = |at: usize| ClassSpec {
            priority: at as u8,
            deadline_ns: 1_000_000 * (at as u64 + 1),
            ..ClassSpec::named(&format!("c{at}"))
        };
        let spec = DisciplineSpec { order, rate: None, classes: (0..classes).map(class).collect() };
        let mut discipline = Discipline::new(&spec, 7, policies).map_err(Error::Node)?;
        for at in 0..classes * WAITING {
            let _ = discipline.put(at % classes, (at % classes) as u32, BYTES, 0);
        }
        Ok(Stand { discipline, now: 0 })
    }

    fn one(&mut self) -> bool {
        self.now += PACKET_NS;
        let Leaving::Packet(class) = self.discipline.next(self.now) else { return false };
        self.discipline.put(class as usize, class, BYTES, self.now).is_ok()
    }
}

/// Measures it, and gives targets.
pub(super) fn run(settings: &Settings, report: &mut Report) -> Result<Series, Error> {
    let stands = OrderKind::ALL.map(|order| Ok((order.clone(), RefCell::new(Stand::new(order)?))));
    let stands = stands.into_iter().collect::<Result<Vec<_>, Error>>()?;
    let brought = RefCell::new(Stand::brought()?);
    let mut micro = Micro::new(REGIME, None).variant("extension", || brought.borrow_mut().one());
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
        report.targets.extend(Target::never_above(name, &[farthest(order.clone())?], SHARE_OFF));
    }
    Ok(series)
}

/// What `shares` brings.
fn shares() -> Result<Policies, Error> {
    let extensions = Extensions::start(Clock::start(), false).map_err(|error| Error::Node(error.to_string()))?;
    Ok(extensions.prepare(vec![SHARES.to_vec()]).map_err(Error::Node)?.policies)
}

/// How far the class is from its share that is farthest, in hundredths of that.
fn farthest(order: OrderKind) -> Result<f64, Error> {
    let weight = |at: usize| 50 + at as u32 * 7;
    let bytes = |at: usize| 64 + at * 37 % 1_450;
    let class = |at: usize| ClassSpec { weight: weight(at), ..ClassSpec::named(&format!("c{at}")) };
    let spec = DisciplineSpec { order, rate: None, classes: (0..CLASSES).map(class).collect() };
    let (mut sent, mut now) = ([0u64; CLASSES], 0);
    let mut discipline = Discipline::new(&spec, 7, &NoExtensions).map_err(Error::Node)?;
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
    Ok((0..CLASSES).map(|at| (sent[at] as f64 / part(at) - 1.0).abs() * 100.0).fold(0.0, f64::max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_packets_come_as_leave() {
        for order in OrderKind::ALL {
            let mut stand = Stand::new(order.clone()).unwrap();
            assert!((0..5 * CLASSES).all(|_| stand.one()), "{order:?}");
            assert_eq!(stand.discipline.packets(), CLASSES * WAITING);
        }
        let mut stand = Stand::brought().unwrap();
        assert!((0..5 * CLASSES).all(|_| stand.one()));
        assert_eq!(stand.discipline.policy_counts(None).unwrap().failed, 0);
    }

    #[test]
    fn shares_are_kept_to_a_hundredth() {
        assert!(farthest(OrderKind::Wfq).unwrap() < SHARE_OFF && farthest(OrderKind::Drr).unwrap() < SHARE_OFF);
    }
}
