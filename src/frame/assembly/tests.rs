//! Assembly of messages when pieces are lost, doubled, out of order, late, or contradict each other.

use super::*;
use proptest::prelude::*;

const LIMITS: AssemblyLimits = AssemblyLimits { messages: 4, bytes: 20, within: 100 };

/// A table whose messages are of three pieces, two bytes each but for the last, which has one.
struct Toy(Assemblies<(char, u32), char, PartialMessage>);

impl Toy {
    fn new() -> Toy {
        Toy(Assemblies::new(LIMITS))
    }

    /// A piece of a source's message; what comes of it, in a word or as the message.
    fn take(&mut self, now: u64, source: char, id: u32, index: u8, piece: &str) -> String {
        let key = (source, id);
        let at = match self.0.find(now, &key) {
            Some(at) => Some(at),
            None => self.0.begin(now, (key, source), 5, PartialMessage::new(3, 2, 5), drop),
        };
        let Some(message) = at.and_then(|at| self.0.get_mut(at)) else { return "full".into() };
        match message.put(index, piece.as_bytes()) {
            Err(Misfit) => return "misfit".into(),
            Ok(false) => return "again".into(),
            Ok(true) => {}
        }
        let Some(whole) = message.whole() else { return "waits".into() };
        assert!(at.and_then(|at| self.0.take(at)).is_some());
        String::from_utf8(whole).unwrap()
    }
}

/// A piece: when, whose, of which message, which one, its bytes, and what comes of it.
type Event = (u64, char, u32, u8, &'static str, &'static str);

/// What comes, and what the table has in the end: messages, bytes, and messages lost.
type Case = (&'static str, &'static [Event], (usize, usize, u32));

const CASES: &[Case] = &[
    (
        "in order",
        &[(0, 'a', 1, 0, "ab", "waits"), (1, 'a', 1, 1, "cd", "waits"), (2, 'a', 1, 2, "e", "abcde")],
        (0, 0, 0),
    ),
    (
        "in another order",
        &[(0, 'a', 1, 2, "e", "waits"), (1, 'a', 1, 0, "ab", "waits"), (2, 'a', 1, 1, "cd", "abcde")],
        (0, 0, 0),
    ),
    ("one lost", &[(0, 'a', 1, 0, "ab", "waits"), (1, 'a', 1, 2, "e", "waits")], (1, 5, 0)),
    (
        "twice, and the first stays",
        &[
            (0, 'a', 1, 0, "ab", "waits"),
            (0, 'a', 1, 0, "ab", "again"),
            (0, 'a', 1, 0, "XY", "again"),
            (1, 'a', 1, 1, "cd", "waits"),
            (2, 'a', 1, 2, "e", "abcde"),
        ],
        (0, 0, 0),
    ),
    (
        "longer than its place, shorter, or beyond the message",
        &[
            (0, 'a', 1, 0, "abc", "misfit"),
            (0, 'a', 1, 1, "c", "misfit"),
            (0, 'a', 1, 1, "", "misfit"),
            (0, 'a', 1, 2, "ef", "misfit"),
            (0, 'a', 1, 3, "g", "misfit"),
            (0, 'a', 1, 255, "", "misfit"),
        ],
        (1, 5, 0),
    ),
    (
        "another source's pieces of a message of that number",
        &[
            (0, 'a', 1, 0, "ab", "waits"),
            (0, 'b', 1, 1, "XX", "waits"),
            (0, 'b', 1, 2, "X", "waits"),
            (1, 'a', 1, 2, "e", "waits"),
            (2, 'a', 1, 1, "cd", "abcde"),
        ],
        (1, 5, 0),
    ),
    (
        "two messages of one source at a time",
        &[
            (0, 'a', 1, 0, "ab", "waits"),
            (0, 'a', 2, 0, "AB", "waits"),
            (1, 'a', 2, 1, "CD", "waits"),
            (1, 'a', 1, 1, "cd", "waits"),
            (2, 'a', 2, 2, "E", "ABCDE"),
            (2, 'a', 1, 2, "e", "abcde"),
        ],
        (0, 0, 0),
    ),
    (
        "in time, and too late: then it begins anew",
        &[
            (0, 'a', 1, 0, "ab", "waits"),
            (99, 'a', 1, 1, "cd", "waits"),
            (100, 'a', 1, 2, "e", "waits"),
            (101, 'a', 1, 1, "cd", "waits"),
        ],
        (1, 5, 1),
    ),
    (
        "a full table: the oldest of whoever has most goes",
        &[
            (0, 'b', 1, 0, "ab", "waits"),
            (1, 'a', 1, 0, "ab", "waits"),
            (2, 'a', 2, 0, "ab", "waits"),
            (3, 'a', 3, 0, "ab", "waits"),
            (4, 'a', 4, 0, "ab", "waits"),
            (5, 'a', 2, 0, "ab", "again"),
            (5, 'a', 3, 0, "ab", "again"),
            (5, 'a', 4, 0, "ab", "again"),
            (5, 'b', 1, 1, "cd", "waits"),
            (5, 'b', 1, 2, "e", "abcde"),
        ],
        (3, 15, 1),
    ),
    (
        "a flood of first pieces displaces itself",
        &[
            (0, 'b', 1, 0, "ab", "waits"),
            (1, 'a', 1, 0, "XX", "waits"),
            (1, 'a', 2, 0, "XX", "waits"),
            (1, 'a', 3, 0, "XX", "waits"),
            (1, 'a', 4, 0, "XX", "waits"),
            (1, 'a', 5, 0, "XX", "waits"),
            (1, 'a', 6, 0, "XX", "waits"),
            (2, 'b', 1, 2, "e", "waits"),
            (3, 'b', 1, 1, "cd", "abcde"),
        ],
        (3, 15, 3),
    ),
];

#[test]
fn whatever_comes_has_one_outcome() {
    for (name, events, left) in CASES {
        let mut toy = Toy::new();
        for (now, source, id, index, piece, expected) in *events {
            let came = toy.take(*now, *source, *id, *index, piece);
            assert_eq!(came, *expected, "{name}: piece {index} of {source}{id} at {now}");
        }
        assert_eq!((toy.0.len(), toy.0.held(), toy.0.lost()), *left, "{name}");
        assert_eq!(toy.0.lost(), 0, "{name}: counted once");
    }
}

#[test]
fn bytes_are_a_limit_too_and_count_for_who_has_most_of_them() {
    let limits = AssemblyLimits { messages: 10, bytes: 20, within: 100 };
    let mut table = Assemblies::new(limits);
    let mut gone = vec![];
    let begin = |table: &mut Assemblies<u8, char, u8>, key, owner, bytes, gone: &mut Vec<u8>| {
        table.begin(0, (key, owner), bytes, key, |body| gone.push(body))
    };
    assert_eq!(begin(&mut table, 0, 'a', 21, &mut gone), None, "longer than the table");
    for (key, owner, bytes) in [(1, 'b', 1), (2, 'b', 1), (3, 'a', 10), (4, 'a', 8)] {
        assert!(begin(&mut table, key, owner, bytes, &mut gone).is_some() && gone.is_empty());
    }
    assert_eq!(begin(&mut table, 5, 'c', 5, &mut gone), Some(3));
    assert_eq!((&gone[..], table.held(), table.len()), (&[3][..], 15, 4), "the oldest of who has most bytes");
    // What is there grows: its place moves when an older one goes for it, and it goes itself when its owner has most.
    assert_eq!((table.grow(3, 2, drop), table.grow(3, 4, |body| gone.push(body))), (Some(3), Some(2)));
    assert_eq!((&gone[..], table.held(), table.get_mut(2)), (&[3, 4][..], 13, Some(&mut 5)));
    assert_eq!(table.grow(2, 8, |body| gone.push(body)), None);
    assert_eq!((&gone[..], table.held()), (&[3, 4, 5][..], 2));
    assert_eq!(table.grow(1, 20, |body| gone.push(body)), None, "longer than the table");
    assert_eq!((&gone[..], table.held(), table.lost()), (&[3, 4, 5, 2][..], 1, 4));
    assert_eq!((table.grow(7, 1, drop), table.take(7), table.get_mut(7)), (None, None, None), "no such place");
}

#[test]
fn late_messages_go_in_their_order_and_tell_when() {
    let mut table = Assemblies::new(LIMITS);
    assert_eq!(table.next_timer(), u64::MAX);
    for now in [0, 10, 20] {
        assert!(table.begin(now, (now, ()), 1, now, drop).is_some());
    }
    let mut gone = vec![];
    assert_eq!(table.next_timer(), 100);
    table.expire(99, |body| gone.push(body));
    assert!(gone.is_empty());
    table.expire(110, |body| gone.push(body));
    assert_eq!((gone, table.next_timer(), table.lost(), table.held()), (vec![0, 10], 120, 2, 1));
    assert_eq!((table.find(119, &20), table.find(120, &20)), (Some(0), None));
}

#[test]
fn pieces_are_noted_once_and_none_beyond_the_last() {
    for count in [1, 2, 63, 64, 65, 255] {
        let mut pieces = Pieces::new(count);
        for index in (0..count).rev() {
            assert!(!pieces.are_whole() && !pieces.has(index));
            assert_eq!(pieces.missing() >> index.min(63) & 1, 1);
            assert!(pieces.note(index) && !pieces.note(index) && pieces.has(index));
        }
        assert!(pieces.are_whole() && pieces.missing() == 0, "{count}");
        assert!((count..=255).all(|index| index < count || !pieces.note(index)));
    }
    assert!(Pieces::new(0).are_whole() && Pieces::new(0).missing() == 0);
}

proptest! {
    /// Pieces of messages of many sources, under the same numbers, lost, doubled and in any order: a message comes out
    /// once if all its pieces came and it was not displaced, with the bytes that its source sent.
    #[test]
    fn what_comes_out_is_what_went_in(
        lengths in prop::collection::vec(1usize..40, 1..12),
        order in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..300),
        messages in 1usize..12,
        bytes in 1usize..200,
    ) {
        const SIZE: usize = 3;
        let mut table = Assemblies::new(AssemblyLimits { messages, bytes, within: 100 });
        let message = |(n, length): (usize, &usize)| (0..*length).map(|at| (n * 50 + at) as u8).collect();
        let sent: Vec<Vec<u8>> = lengths.iter().enumerate().map(message).collect();
        let mut came = vec![std::collections::BTreeSet::new(); sent.len()];
        for (now, (which, piece)) in order.iter().enumerate() {
            let n = which.index(sent.len());
            let (source, id) = (n % 4, n / 4);
            let count = sent[n].len().div_ceil(SIZE);
            let index = piece.index(count);
            let found = table.find(now as u64, &(source, id));
            let body = PartialMessage::new(count as u8, SIZE, sent[n].len());
            let at = found.or_else(|| {
                came[n].clear();
                table.begin(now as u64, ((source, id), source), sent[n].len(), body, drop)
            });
            prop_assert_eq!(at.is_none(), sent[n].len() > bytes);
            let Some(at) = at else { continue };
            let piece = sent[n].chunks(SIZE).nth(index).unwrap();
            let message = table.get_mut(at).unwrap();
            prop_assert_eq!(message.put(index as u8, piece), Ok(came[n].insert(index)));
            let whole = message.whole();
            prop_assert_eq!(whole.is_some(), came[n].len() == count);
            if let Some(whole) = whole {
                prop_assert_eq!(&whole, &sent[n]);
                table.take(at);
            }
            prop_assert!(table.len() <= messages && table.held() <= bytes);
        }
        table.expire(u64::MAX, drop);
        prop_assert_eq!((table.len(), table.held(), table.next_timer()), (0, 0, u64::MAX));
    }
}
