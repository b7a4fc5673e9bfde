//! Code wishes for edits of graphs: both halves answer alike, and what stands is taken from either.

use crate::place::user::User;
use crate::place::{Came, Place, frame, header};
use anode::code::author::{self, AuthorOptions};
use anode::frame::Frame;
use anode::node::graphs::{EditorAsk, GraphEditor, GraphRefusal};
use anode::node::wishing::WishCounts;
use anode::trust::limits::Limits;
use anode::trust::{PrincipalKey, Role, Roles};
use anode::wire::{Addr, Digest, capsule};
use std::path::Path;
use std::sync::Arc;

/// What is said of a wish: no such edit, no more in this second, none at all for this role.
const ABSENT: i32 = -1;
const FULL: i32 = -3;
const DENIED: i32 = -5;

/// No edits at either.
const NONE: [Vec<u32>; 2] = [Vec::new(), Vec::new()];

const MS: u64 = 1_000_000;

/// The answers of the user half alone, and of the kernel half.
type Both = [i32; 2];

fn role(key: &PrincipalKey) -> Role {
    let edit =
        |number: u32| format!("{{ number = {number}, name = \"e{number}\", graph = \"g\", write = \"c.reset=\" }}");
    let edits = [0, 1, 2, 63].map(edit).join(", ");
    toml::from_str(&format!(
        "name = \"plumber\"\ntrusts = [\"{}\"]\ngraphs = {{ edits_per_second = 10, edits = [{edits}] }}",
        key.id()
    ))
    .unwrap()
}

struct Wishes {
    place: Place,
    code: Digest,
    role: Arc<Role>,
    now: u64,
}

impl Wishes {
    /// Code of the role, or of nobody, that both halves run.
    fn new(is_signed: bool) -> Option<Wishes> {
        let key = PrincipalKey::from_seed([7; 32]);
        let role = role(&key);
        let mut place = Place::with_roles(Limits::default(), vec![role.clone()])?;
        for user in [&mut place.alone, &mut place.above] {
            user.judge("both", Roles::new(vec![role.clone()]).unwrap());
        }
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guests/wish.c");
        let options = AuthorOptions { key: is_signed.then_some(key), ..AuthorOptions::default() };
        let bundle = author::build(&source, &options).unwrap();
        place.add(&bundle).unwrap();
        let mut wishes = Wishes { place, code: bundle.name(), role: Arc::new(role), now: MS };
        assert_eq!(wishes.kernel(1), DENIED, "nobody has said what it may");
        let (now, first, expected) = (wishes.now, wishes.capsule(99), if is_signed { ABSENT } else { DENIED });
        let mut injected = vec![0; capsule::HEADER + 8];
        let own = capsule::Header { source: Addr::UNSPECIFIED, ..header(wishes.code) };
        own.emit(&mut injected).unwrap();
        for user in [&mut wishes.place.alone, &mut wishes.place.above] {
            // Nobody can be asked for credentials of what an application sends.
            user.control(now, |node, turn| node.inject(turn, Frame::from_bytes(&injected))).unwrap();
            assert_eq!(left(user), Some(0), "where it begins it wishes for nothing");
            user.put(now, 0, &first);
            assert_eq!(left(user), Some(expected));
        }
        wishes.place.share_state(now, wishes.code);
        Some(wishes)
    }

    fn capsule(&self, number: u32) -> Vec<u8> {
        frame(&header(self.code), &[&number.to_be_bytes()[..], &[0; 4]].concat(), false)
    }

    fn kernel(&mut self, number: u32) -> i32 {
        let capsule = self.capsule(number);
        match self.place.kernel_at(self.now, 0, &capsule).0 {
            Came::Sent(bytes) => said(&bytes),
            came => panic!("{number}: {came:?}"),
        }
    }

    /// Code wishes for an edit, in the user half alone and in the kernel half.
    fn wish(&mut self, number: u32) -> Both {
        let capsule = self.capsule(number);
        self.place.alone.put(self.now, 0, &capsule);
        [left(&mut self.place.alone).expect("the capsule goes on"), self.kernel(number)]
    }

    /// Time goes on at both, until they have looked.
    fn pass(&mut self, ms: u64) {
        self.now += ms * MS;
        self.place.alone.timer(self.now);
        self.place.timer(self.now);
    }

    /// The numbers of the edits that are to be done since the last call.
    fn begun(&mut self) -> [Vec<u32>; 2] {
        [&mut self.place.alone, &mut self.place.above]
            .map(|user| user.edits().drain(..).map(|edit| edit.number).collect())
    }

    /// One change of the role is used, at both.
    fn use_change(&mut self) {
        let (editor, now) = (GraphEditor { role: self.role.clone() }, self.now);
        for user in [&mut self.place.alone, &mut self.place.above] {
            let admitted = user.control(now, |node, _| node.admit_editor(now, &editor, "g", EditorAsk::Change));
            assert!(admitted.is_err_and(|refusal| refusal.why.contains("no graph g runs")));
        }
    }

    /// An edit that was begun is done at both, or is not.
    fn over(&mut self, number: u32, result: &Result<(), GraphRefusal>) {
        let now = self.now;
        for user in [&mut self.place.alone, &mut self.place.above] {
            let id = user.status().codes[0].domain.unwrap();
            let role = self.role.clone();
            let domain = anode::core::domain::DomainId(id);
            let wish = anode::node::wishing::WishedEdit { role, number, domain };
            user.control(now, |node, turn| {
                assert_eq!(node.check_wished(&wish), Ok(()));
                node.edited(turn, &wish, result.clone(), 0);
            });
        }
    }

    fn counts(&mut self) -> [WishCounts; 2] {
        [self.place.alone.status().graph_wishes, self.place.above.status().graph_wishes]
    }
}

/// What the capsule has noted that a user half sends on; what it asks neighbours goes the other way.
fn left(user: &mut User) -> Option<i32> {
    let went = user.take();
    went.frames.iter().find(|(port, _)| *port == 1).map(|(_, frame)| said(frame))
}

/// What a capsule has noted, at its end.
fn said(frame: &[u8]) -> i32 {
    i32::from_be_bytes(*frame.last_chunk().unwrap())
}

#[test]
fn both_halves_say_the_same_of_a_wish_and_the_node_takes_it_from_either() {
    let Some(mut wishes) = Wishes::new(true) else { return };
    let said = [0, 0, 9, 64, u32::MAX].map(|number| wishes.wish(number));
    assert_eq!(said, [[0; 2], [0; 2], [ABSENT; 2], [ABSENT; 2], [ABSENT; 2]]);
    wishes.pass(10);
    assert_eq!(wishes.begun(), [vec![0], vec![0]], "two wishes are one edit");
    // It is under way, and its role has used its change: what stands is still to come, and nothing else may be wished for.
    assert_eq!(wishes.wish(1), [0; 2]);
    wishes.use_change();
    wishes.pass(10);
    assert_eq!([1, 2, 0].map(|number| wishes.wish(number)), [[0; 2], [FULL; 2], [FULL; 2]]);
    wishes.pass(10);
    assert_eq!(wishes.begun(), NONE);
    wishes.over(0, &Ok(()));
    // A change comes back after 100 ms.
    wishes.pass(90);
    assert_eq!(wishes.begun(), [vec![1], vec![1]]);
    assert_eq!([2, 63].map(|number| wishes.wish(number)), [[0; 2]; 2]);
    let again = GraphRefusal::new(anode::nodeos::interface::Error::Again, "later".into());
    wishes.over(1, &Err(again));
    wishes.pass(10);
    // One after the other, in the order in which they have stood.
    assert_eq!(wishes.begun(), [vec![1], vec![1]]);
    for number in [1, 2, 63] {
        wishes.over(number, &Ok(()));
        wishes.pass(10);
        let left: Vec<u32> = [2, 63].into_iter().filter(|other| *other > number).take(1).collect();
        assert_eq!(wishes.begun(), [left.clone(), left]);
    }
    wishes.pass(1000);
    let [alone, above] = wishes.counts();
    assert_eq!(alone, WishCounts { taken: 4, later: 2, refused: 4 });
    // One more came before the node had said anything of the code.
    assert_eq!(above, WishCounts { refused: 5, ..alone });
}

#[test]
fn code_of_a_role_without_edits_is_denied_in_both_halves_and_that_is_counted() {
    let Some(mut wishes) = Wishes::new(false) else { return };
    assert_eq!([0, 1, 64].map(|number| wishes.wish(number)), [[DENIED; 2]; 3]);
    wishes.pass(1000);
    assert_eq!(wishes.begun(), NONE);
    let [alone, above] = wishes.counts();
    assert_eq!((alone, above.refused), (WishCounts { taken: 0, later: 0, refused: 4 }, alone.refused + 1));
}

#[test]
fn a_role_that_loses_its_edits_has_none_from_then_on() {
    let Some(mut wishes) = Wishes::new(true) else { return };
    assert_eq!(wishes.wish(0), [0; 2]);
    let mut role = (*wishes.role).clone();
    role.graphs.named.retain(|edit| edit.number > 0);
    let now = wishes.now;
    for user in [&mut wishes.place.alone, &mut wishes.place.above] {
        let roles = Arc::new(Roles::new(vec![role.clone()]).unwrap());
        user.control(now, |node, turn| node.set_roles(turn, roles));
    }
    assert_eq!([0, 1].map(|number| wishes.wish(number)), [[ABSENT; 2], [0; 2]]);
    wishes.pass(10);
    assert_eq!(wishes.begun(), [vec![1], vec![1]], "what it wished for before has gone with the edit");
}

#[test]
fn a_wish_whose_number_means_another_edit_by_now_is_not_done() {
    let Some(mut wishes) = Wishes::new(true) else { return };
    assert_eq!([0, 1].map(|number| wishes.wish(number)), [[0; 2]; 2]);
    let mut role = (*wishes.role).clone();
    role.graphs.named.iter_mut().filter(|edit| edit.number == 1).for_each(|edit| edit.write = Some("d.reset=".into()));
    let now = wishes.now;
    for user in [&mut wishes.place.alone, &mut wishes.place.above] {
        let roles = Arc::new(Roles::new(vec![role.clone()]).unwrap());
        user.control(now, |node, turn| node.set_roles(turn, roles));
    }
    wishes.role = Arc::new(role);
    wishes.pass(10);
    assert_eq!(wishes.begun(), [vec![0], vec![0]], "that one is what it was");
    wishes.over(0, &Ok(()));
    wishes.pass(200);
    assert_eq!(wishes.begun(), NONE, "the other one nobody has wished for");
    assert_eq!(wishes.wish(1), [0; 2]);
    wishes.pass(10);
    assert_eq!(wishes.begun(), [vec![1], vec![1]]);
}

/// Whoever ends it: an operator, or the node, which has it judged anew.
#[test]
fn what_code_was_refused_counts_though_it_ends_before_that_was_looked_at() {
    for is_operator in [true, false] {
        let Some(mut wishes) = Wishes::new(true) else { return };
        assert_eq!([9, 64].map(|number| wishes.wish(number)), [[ABSENT; 2]; 2]);
        let now = wishes.now;
        for user in [&mut wishes.place.alone, &mut wishes.place.above] {
            let before = user.status();
            let id = anode::core::domain::DomainId(before.codes[0].domain.unwrap());
            user.control(now, |node, turn| match is_operator {
                true => drop(node.end_domain(turn, id, true)),
                false => node.set_roles(turn, Arc::default()),
            });
        }
        let [alone, above] = wishes.counts();
        assert_eq!((alone.refused, above.refused), (3, 4));
    }
}

/// Both halves wish as fast as they can: none of it is lost, and it is one edit.
#[test]
fn what_both_halves_wish_for_at_once_stands_once() {
    const ROUNDS: usize = 20_000;
    let Some(mut wishes) = Wishes::new(true) else { return };
    let (frames, now) = ([wishes.capsule(0), wishes.capsule(1)], wishes.now);
    let own = [wishes.capsule(1), wishes.capsule(63)];
    wishes.place.at_once(&frames, ROUNDS, |user| {
        for _ in 0..ROUNDS {
            own.iter().for_each(|capsule| user.put(now, 0, capsule));
        }
        user.take();
    });
    let mut begun = Vec::new();
    for _ in 0..5 {
        wishes.now += 10 * MS;
        wishes.place.timer(wishes.now);
        for edit in wishes.place.above.edits().drain(..).collect::<Vec<_>>() {
            begun.push(edit.number);
            let now = wishes.now;
            wishes.place.above.control(now, |node, turn| node.edited(turn, &edit, Ok(()), 0));
        }
    }
    begun.sort_unstable();
    assert_eq!(begun, [0, 1, 63]);
}
