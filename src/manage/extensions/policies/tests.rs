//! Orders and admissions of real modules, in disciplines whose time is a number.

use crate::manage::extensions::{Extensions, Policies};
use crate::schedule::discipline::{Admission, ClassSpec, Discipline, DisciplineSpec, Leaving, OrderKind};
use crate::sys::clock::Clock;

const SHARES: &[u8] = include_bytes!("../../../../apps/extensions/shares.wat");
const EARLY: &[u8] = include_bytes!("../../../../apps/extensions/early.wat");

/// What these modules bring.
fn brought(modules: &[&[u8]]) -> Policies {
    let extensions = Extensions::start(Clock::start(), false).unwrap();
    extensions.prepare(modules.iter().map(|module| module.to_vec()).collect()).unwrap().policies
}

fn order(text: &str, classes: usize) -> DisciplineSpec {
    let class = |at: usize| ClassSpec { packets: 4_096, ..ClassSpec::named(&format!("c{at}")) };
    let spec = DisciplineSpec {
        order: text.parse::<OrderKind>().unwrap(),
        rate: None,
        classes: (0..classes).map(class).collect(),
    };
    spec.check().unwrap();
    spec
}

/// A module whose class `Order` has this body.
fn module(body: &str) -> Vec<u8> {
    format!(
        "(module (memory (export \"memory\") 1) (global (export \"an_buffer\") i32 (i32.const 0))
           (func (export \"Order\") (param i32) (result i32) {body})
           (@custom \"anode.extension\" \"name = 'bad'\\n[[engine]]\\nname = 'Order'\\nports = '1-/1'\\norder = true\"))"
    )
    .into_bytes()
}

#[test]
fn shares_divides_a_port_by_bytes() {
    let policies = brought(&[SHARES]);
    let mut discipline = Discipline::new(&order("shares/Shares(300, 100, 50)", 3), 7, &policies).unwrap();
    let bytes = [1_400usize, 64, 700];
    let mut sent = [0usize; 3];
    for (class, bytes) in bytes.into_iter().enumerate() {
        (0..50).for_each(|_| discipline.put(class, class, bytes, 0).unwrap());
    }
    for now in 0..20_000 {
        let Leaving::Packet(class) = discipline.next(now) else { panic!("packets wait") };
        sent[class] += bytes[class];
        discipline.put(class, class, bytes[class], now).unwrap();
    }
    let all: usize = sent.iter().sum();
    for (class, weight) in [300, 100, 50].into_iter().enumerate() {
        let part = sent[class] as f64 / (all as f64 * f64::from(weight) / 450.0);
        assert!((0.99..1.01).contains(&part), "class {class} of {sent:?}: {part}");
    }
    let counts = discipline.policy_counts(None).unwrap();
    assert_eq!((&*counts.name, counts.calls, counts.failed), ("shares/Shares(300, 100, 50)", 20_000, 0));
    assert!(counts.fuel > 0);
}

#[test]
fn modules_that_trap_loop_or_lie_lose_no_packet() {
    for body in ["unreachable", "(loop $l (br $l)) (i32.const 0)", "(i32.const 4)", "(i32.const -7)", "(i32.const 8)"] {
        let policies = brought(&[&module(body)]);
        let mut discipline = Discipline::new(&order("bad/Order", 2), 7, &policies).unwrap();
        (0..10).for_each(|packet| discipline.put(packet % 2, packet, 100, 0).unwrap());
        let left: Vec<_> = std::iter::from_fn(|| match discipline.next(0) {
            Leaving::Packet(packet) => Some(packet),
            _ => None,
        })
        .collect();
        assert_eq!(left.len(), 10, "{body}");
        let counts = discipline.policy_counts(None).unwrap();
        // What the last one gives is how many classes there are, which is none of them.
        assert_eq!((counts.calls, counts.failed), (10, 10), "{body}");
    }
}

#[test]
fn early_drops_the_more_the_more_wait() {
    let policies = brought(&[EARLY]);
    let mut spec = order("wfq", 1);
    spec.classes[0].admission = Admission::Extension("early/Early(100, 300)".parse().unwrap());
    let mut discipline = Discipline::new(&spec, 7, &policies).unwrap();
    let mut let_in = [0; 4];
    for packet in 0..100_000u32 {
        let waiting = discipline.packets();
        let is_in = discipline.put(0, packet, 100, 0).is_ok();
        let_in[waiting / 100] += usize::from(is_in);
        assert!(is_in || waiting >= 100);
    }
    assert_eq!(let_in[0], 100, "below the first bound all may wait");
    assert!(let_in[1] == 100 && let_in[2] > 50 && let_in[3] == 0, "{let_in:?}");
    let counts = discipline.counts(0).unwrap();
    assert_eq!((counts.full, counts.early + counts.waiting), (0, 100_000));
    assert_eq!(discipline.policy_counts(Some(0)).unwrap().failed, 0);
}

#[test]
fn what_there_is_not_or_what_cannot_be_is_said() {
    let policies = brought(&[SHARES, EARLY]);
    for (text, why) in [
        ("early/Early(1, 2)", "early/Early(1, 2): early has no order Early; it has none"),
        ("shares/Share(1)", "shares has no order Share; it has Shares"),
        ("names/Order", "no extension 'names' is loaded"),
        ("shares/Shares(0)", "shares/Shares(0): refused"),
        ("shares/Shares", "shares/Shares: refused"),
    ] {
        let said = Discipline::<u32>::new(&order(text, 1), 7, &policies).unwrap_err();
        assert!(said.contains(why), "{said}, not {why}");
    }
    let mut spec = order("wfq", 1);
    for (text, why) in [
        ("shares/Shares(1)", "shares has no admission Shares; it has none"),
        ("early/Early(3, 2)", "early/Early(3, 2): refused"),
        ("early/Early(3)", "early/Early(3): refused"),
    ] {
        spec.classes[0].admission = Admission::Extension(text.parse().unwrap());
        let said = Discipline::<u32>::new(&spec, 7, &policies).unwrap_err();
        assert!(said.contains(why), "{said}, not {why}");
    }
}
