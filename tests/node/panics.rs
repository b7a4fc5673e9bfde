//! A further worker panics while it has packets: a keeper of soft state that the code asks for panics, in place of a mistake.

use crate::node_bench::{Bench, header, module, packet};
use crate::workers::Two;
use anode::code::run::Runtime;
use anode::core::kept::{Change, Page, Refused, SharedState, Value};
use anode::core::ledger::Unaccounted;
use anode::core::reason::Reason;
use anode::frame::{Frame, PeerId, PortId};
use anode::node::Shared;
use anode::schedule::Policy;
use anode::wire::Digest;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A keeper that panics once when it is armed.
#[derive(Debug, Default)]
struct Keeper(AtomicBool);

impl SharedState for Keeper {
    fn value(&self, _: u64, _: u64) -> Result<Option<Value>, Refused> {
        Ok(None)
    }

    fn change(&self, _: u64, _: Change<'_>, _: u32, _: u64) -> Result<u64, Refused> {
        assert!(!self.0.swap(false, Ordering::Relaxed), "as wanted");
        Ok(1)
    }

    fn page(&self, _: u64, _: u64) -> Result<Page, Refused> {
        Ok(Page::default())
    }
}

/// Two workers, whose code asks the keeper once for each packet.
fn two() -> (Two, Digest, Arc<Keeper>) {
    let imports = "(import \"anode\" \"an_state_add\" (func $add (param i64 i64 i32) (result i64)))";
    let body = "(drop (call $add (i64.const 9) (i64.const 1) (i32.const 60000))) (i32.const 1)";
    let mut two = Two::of(Bench::with_kernel(), Bench::new());
    let code = two.first.add(0, &module(imports, "", body));
    two.receive(1, 0, &packet(&header(code), b"x"));
    let keeper = Arc::new(Keeper::default());
    let (now, shared) = (two.first.now, Shared { state: keeper.clone(), account: None, records: None });
    two.first.driver.turn(now, |node, turn| node.linked(turn, code, Ok(shared)));
    two.receive(1, 0, &packet(&header(code), b"x"));
    (two, code, keeper)
}

/// Another node goes on in the place of the second worker's, of which so many frames were to be looked at.
fn begin_anew(two: &mut Two, taken: u64) {
    let unseen = taken - two.second.node.looked_at(&two.second.out);
    let fresh = Bench::new().into_driver();
    let before = std::mem::replace(&mut two.second.node, fresh.node);
    two.second.runtime = Runtime::default();
    let now = two.first.now;
    two.second.turn(now, |node, turn| node.go_on_from(turn, before, unseen));
}

#[test]
fn a_worker_that_panics_loses_what_it_had_and_its_counters_go_on() {
    for policy in [Policy::Fifo, Policy::Wfq] {
        let (mut two, code, keeper) = two();
        let now = two.first.now;
        two.second.node.set_scheduler(policy, now);
        let frame = |bytes: &[u8]| {
            let mut frame = Frame::from_bytes(bytes);
            (frame.port, frame.peer) = (PortId(0), PeerId(0));
            frame
        };
        let mut batch: Vec<Frame> = (0..7).map(|_| frame(&packet(&header(code), b"x"))).collect();
        batch.push(frame(b"nonsense, which is the first worker's"));
        let before = two.second.node.status_within(&two.second.out.frames);
        let sent = two.second.out.frames.len();
        keeper.0.store(true, Ordering::Relaxed);
        let taken = two.second.node.looked_at(&two.second.out) + 8;
        let ended = catch_unwind(AssertUnwindSafe(|| {
            two.second.turn(now, |node, turn| {
                node.receive_all(turn, &mut batch);
                while let Some(ran) = node.run_next(turn) {
                    node.ran(ran, ran.steps, turn.now);
                }
            });
        }));
        assert!(ended.is_err());
        begin_anew(&mut two, taken);
        let after = two.second.node.status_within(&two.second.out.frames);
        assert_eq!(after.unaccounted_by, Unaccounted::default(), "{policy:?}: {:?}", after.balance);
        let lost = after.drops.of(Reason::WorkerPanic);
        // What comes at once is not looked at if it comes behind the panic; what waits has been, with the frame of the first worker.
        let (expected, seen) = if policy == Policy::Fifo { (8, 1) } else { (7, 7) };
        assert_eq!((lost, after.drops.total() - before.drops.total()), (expected, expected), "{policy:?}");
        assert_eq!(after.ports[0].gauge.received - before.ports[0].gauge.received, seen, "{policy:?}");
        let usage = |status: &anode::node::status::Status| status.codes[0].usage.clone().unwrap();
        assert_eq!(usage(&after).packets - usage(&before).packets, seen, "{policy:?}: its account goes on");
        assert_eq!(usage(&after).forwarded, usage(&before).forwarded, "{policy:?}");
        assert_eq!(two.second.out.frames.len(), sent, "{policy:?}: what had been sent is still on its way");
        // It runs the code as before, without being fetched or compiled again, and hands over what is not for it.
        two.receive(1, 0, &packet(&header(code), b"x"));
        two.receive(1, 0, b"nonsense");
        while two.second.node.has_work() {
            two.second.turn(now, |node, turn| node.run_next(turn).map(|ran| node.ran(ran, ran.steps, now)));
        }
        assert_eq!(two.second.out.frames.len(), sent + 1, "{policy:?}");
        assert_eq!(two.first.driver.node.balance().received, if policy == Policy::Fifo { 1 } else { 2 });
    }
}

#[test]
fn what_was_said_of_codes_since_is_what_it_is_told_again() {
    let (mut two, code, _) = two();
    let other = two.first.add(0, &module("", "", "i32.const 1"));
    two.receive(1, 0, &packet(&header(other), b"x"));
    let now = two.first.now;
    assert!(two.first.driver.turn(now, |node, turn| node.remove_code(turn, &code)));
    two.settle();
    let taken = two.second.node.looked_at(&two.second.out);
    begin_anew(&mut two, taken);
    let status = two.second.node.status();
    assert_eq!(status.codes.iter().map(|code| code.name.clone()).collect::<Vec<_>>(), [other.to_string()]);
    assert_eq!(status.drops.total(), 0, "nothing was lost, as there was nothing");
}
