//! What extensions decide, here functions of this program, and that no packet is lost by them, whatever they give.

use super::*;
use crate::schedule::discipline::{Admission, ClassSpec, Discipline, DisciplineSpec, Leaving, NoRoom, OrderKind};
use proptest::prelude::*;
use std::sync::{Arc, Mutex};

type Given = Arc<Mutex<Vec<[u64; 4]>>>;

/// Gives these one after the other, and then nothing.
struct Script {
    gives: Vec<Option<u64>>,
    given: Given,
    counts: PolicyCounts,
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Script")
    }
}

impl BroughtPolicy for Script {
    fn decide(&mut self, given: [u64; 4], _: u64) -> Option<u64> {
        self.given.lock().unwrap().push(given);
        let gives = self.gives.get(self.counts.calls as usize).copied().flatten();
        self.counts.calls += 1;
        gives
    }

    fn fail(&mut self) {
        self.counts.failed += 1;
    }

    fn counts(&self) -> PolicyCounts {
        self.counts.clone()
    }
}

/// Makes such ones, whatever their names.
#[derive(Default)]
struct Scripts {
    gives: Vec<Option<u64>>,
    given: Given,
}

impl MakesPolicies for Scripts {
    fn order(&self, name: &PolicyName) -> Result<Box<dyn BroughtPolicy>, String> {
        let counts = PolicyCounts { name: name.text().into(), ..PolicyCounts::default() };
        Ok(Box::new(Script { gives: self.gives.clone(), given: self.given.clone(), counts }))
    }

    fn admission(&self, name: &PolicyName) -> Result<Box<dyn BroughtPolicy>, String> {
        self.order(name)
    }
}

fn name(text: &str) -> PolicyName {
    text.parse().unwrap()
}

fn ordered(classes: usize) -> DisciplineSpec {
    let order = OrderKind::Extension(Box::new(name("x/Order(3, 1)")));
    let classes = (0..classes).map(|at| ClassSpec::named(&format!("c{at}"))).collect();
    DisciplineSpec { order, rate: None, classes }
}

fn next(discipline: &mut Discipline<u32>) -> Option<u32> {
    match discipline.next(0) {
        Leaving::Packet(packet) => Some(packet),
        Leaving::Nothing => None,
        Leaving::At(at) => panic!("nothing has a rate: {at}"),
    }
}

#[test]
fn an_order_is_told_who_has_nothing_and_what_has_left_and_names_who_is_next() {
    let scripts = Scripts { gives: vec![Some(2), Some(2), Some(0), Some(2)], ..Scripts::default() };
    let mut discipline = Discipline::new(&ordered(3), 7, &scripts).unwrap();
    for (class, packet, bytes) in [(0, 1, 100), (2, 2, 200), (2, 3, 300)] {
        discipline.put(class, packet, bytes, 0).unwrap();
    }
    let left: Vec<_> = std::iter::from_fn(|| next(&mut discipline)).collect();
    assert_eq!(left, [2, 3, 1]);
    let expected = [[3, 0b010, 0, 0], [3, 0b010, 2, 200], [3, 0b110, 2, 300]];
    assert_eq!(*scripts.given.lock().unwrap(), expected, "it is asked only where something waits");
    discipline.put(2, 4, 400, 0).unwrap();
    assert_eq!(next(&mut discipline), Some(4));
    assert_eq!(scripts.given.lock().unwrap()[3], [3, 0b011, 0, 100]);
    let counts = discipline.policy_counts(None).unwrap();
    assert_eq!((&*counts.name, counts.calls, counts.failed), ("x/Order(3, 1)", 4, 0));
    assert_eq!(discipline.policy_counts(Some(0)), None);
}

#[test]
fn an_order_that_fails_is_counted_and_classes_have_their_turns() {
    let gives = vec![None, Some(7), Some(0), Some(u64::MAX), Some(0), Some(64)];
    let mut discipline = Discipline::new(&ordered(3), 7, &Scripts { gives, ..Scripts::default() }).unwrap();
    for packet in 0..6 {
        discipline.put(1 + packet % 2, packet as u32, 100, 0).unwrap();
    }
    let left: Vec<_> = std::iter::from_fn(|| next(&mut discipline)).collect();
    assert_eq!(left, [0, 1, 2, 3, 4, 5]);
    let counts = discipline.policy_counts(None).unwrap();
    assert_eq!((counts.calls, counts.failed), (6, 6), "0 has nothing when it is named");
}

#[test]
fn an_admission_drops_what_it_refuses_and_one_that_fails_lets_in() {
    let gives = vec![Some(1), Some(0), Some(2), None, Some(1), Some(0)];
    let scripts = Scripts { gives, ..Scripts::default() };
    let mut class = ClassSpec { packets: 3, ..ClassSpec::named("a") };
    class.admission = Admission::Extension(name("x/Gate"));
    let spec = DisciplineSpec { classes: vec![class], ..DisciplineSpec::default() };
    spec.check().unwrap();
    let mut discipline = Discipline::new(&spec, 7, &scripts).unwrap();
    let put = |discipline: &mut Discipline<u32>, now| discipline.put(0, 0, 90, now).map_err(|(_, why)| why);
    assert_eq!(put(&mut discipline, 5), Ok(()));
    assert_eq!(put(&mut discipline, 6), Err(NoRoom::Early));
    assert_eq!((put(&mut discipline, 7), put(&mut discipline, 8)), (Ok(()), Ok(())), "it fails twice");
    assert_eq!(put(&mut discipline, 9), Err(NoRoom::Full), "it is not asked");
    assert!((0..3).all(|_| discipline.next(10) == Leaving::Packet(0)));
    assert_eq!((put(&mut discipline, 30), put(&mut discipline, 31)), (Ok(()), Err(NoRoom::Early)));
    let expected = [[0, 3, 90, 5], [1, 3, 90, 0], [1, 3, 90, 0], [2, 3, 90, 0], [0, 3, 90, 20], [1, 3, 90, 0]];
    assert_eq!(*scripts.given.lock().unwrap(), expected);
    let (policy, counts) = (discipline.policy_counts(Some(0)).unwrap(), discipline.counts(0).unwrap());
    assert_eq!((policy.calls, policy.failed, counts.early, counts.full), (6, 2, 2, 1));
}

#[test]
fn names_are_of_a_class_of_an_extension() {
    let full = name("shares/Shares(3, (1))");
    assert_eq!((&*full.extension, &*full.class, &*full.arguments), ("shares", "Shares", "3, (1)"));
    assert_eq!((name("a/B").arguments, name("a/B()").text()), (String::new(), "a/B()"));
    for wrong in
        ["a", "/B", "a/", "a/b/c", "a/B(1", "a/B 1", "a/B(\u{7})", "a /B", &format!("a/B({})", "1".repeat(1_100))]
    {
        assert!(wrong.parse::<PolicyName>().unwrap_err().contains("is not EXTENSION/CLASS"), "{wrong}");
    }
    assert!(ordered(64).check().is_ok());
    assert!(ordered(65).check().unwrap_err().contains("of 65 classes: 64 at most"));
    let why = Discipline::<u32>::new(&ordered(1), 7, &NoExtensions).unwrap_err();
    assert_eq!(why, "no extension 'x' is loaded");
}

proptest! {
    /// Whatever an order gives, what was let in leaves once, in its class's order.
    #[test]
    fn no_order_loses_a_packet(
        gives in proptest::collection::vec(proptest::option::of(0u64..70), 0..64),
        puts in proptest::collection::vec(0usize..64, 1..64),
    ) {
        let scripts = Scripts { gives, ..Scripts::default() };
        let mut discipline = Discipline::new(&ordered(64), 7, &scripts).unwrap();
        for (packet, class) in puts.iter().enumerate() {
            discipline.put(*class, packet as u32, 100, 0).unwrap();
        }
        let left: Vec<u32> = std::iter::from_fn(|| next(&mut discipline)).collect();
        let mut sorted = left.clone();
        sorted.sort_unstable();
        prop_assert_eq!(sorted, (0..puts.len() as u32).collect::<Vec<_>>());
        for class in 0..64 {
            let own: Vec<_> = left.iter().filter(|packet| puts[**packet as usize] == class).collect();
            prop_assert!(own.is_sorted());
        }
    }
}

#[test]
fn who_fails_again_and_again_is_asked_seldom_until_it_does_not() {
    let gives = [vec![None; IN_VAIN_MAX as usize + 1], vec![Some(0)]].concat();
    let scripts = Scripts { gives, ..Scripts::default() };
    let policy = scripts.order(&name("x/Order")).unwrap();
    let (mut asked, now) = (Asked::new(policy), 5);
    let calls = || scripts.given.lock().unwrap().len();
    for _ in 0..100 {
        assert_eq!(asked.ask([0; 4], now, Some), None);
    }
    assert_eq!(calls(), 16);
    for (later, said, all) in
        [(REST - 1, None, 16), (REST, None, 17), (2 * REST - 1, None, 17), (2 * REST, Some(0), 18)]
    {
        assert_eq!((asked.ask([0; 4], now + later, Some), calls()), (said, all), "{later}");
    }
    assert_eq!((asked.ask([0; 4], now + 2 * REST, Some), calls()), (None, 19), "it is asked at once again");
}
