//! Soft state that the kernel half keeps, and a kernel half that does not answer.

use crate::node_bench::{Bench, header, module, packet};
use anode::core::domain::Usage;
use anode::core::kept::Page;
use anode::core::state_store::{Change, Refused, SharedState, Value};
use anode::node::Shared;
use std::sync::Arc;

const IMPORTS: &str = "(import \"anode\" \"an_state_put\" (func $put (param i64 i32 i32) (result i32)))
    (import \"anode\" \"an_state_get\" (func $get (param i64 i32) (result i32)))";

/// A keeper with one answer to everything.
#[derive(Debug)]
struct Keeper(Result<(), Refused>);

impl SharedState for Keeper {
    fn value(&self, _: u64, _: u64) -> Result<Option<Value>, Refused> {
        self.0.map(|()| None)
    }

    fn change(&self, _: u64, _: Change<'_>, _: u32, _: u64) -> Result<u64, Refused> {
        self.0.map(|()| 0)
    }

    fn page(&self, _: u64, _: u64) -> Result<Page, Refused> {
        self.0.map(|()| Page::default())
    }
}

/// What code has used that kept two values, which went to this keeper, and then forwarded because a read gave this.
fn moved_then_read(keeper: Keeper, gave: i32) -> Usage {
    let put = |key: i32| format!("(call $put (i64.const {key}) (i32.const 1024) (i32.const 1000))");
    // The first capsule forwards without a read.
    let body = format!(
        "(if (i64.eqz (i64.load (i32.const 96))) ;; of the payload
            (then (return (i32.and (i32.eqz {}) (i32.eqz {})))))
        (i32.eq (call $get (i64.const 1) (i32.const 2048)) (i32.const {gave}))",
        put(1),
        put(2)
    );
    let mut bench = Bench::new();
    let code = bench.add(8, &module(IMPORTS, "", &body));
    bench.receive(0, &packet(&header(code), &[0; 8]));
    let shared = Shared { state: Arc::new(keeper), account: None, records: None };
    bench.driver.turn(bench.now, |node, turn| node.linked(turn, code, Ok(shared)));
    bench.receive(0, &packet(&header(code), &[1; 8]));
    assert_eq!(bench.outcome(), (2, 0, vec![]));
    bench.status().codes[0].usage.clone().unwrap()
}

#[test]
fn a_read_without_an_answer_is_not_an_absent_value() {
    let usage = moved_then_read(Keeper(Ok(())), -1);
    assert_eq!((usage.state_refused, usage.state_failed), (0, 0));
    let usage = moved_then_read(Keeper(Err(Refused::Failed)), -3);
    assert_eq!((usage.state_refused, usage.state_failed), (0, 3), "two that did not move, one that was not read");
}

#[test]
fn values_that_find_no_place_in_the_kernel_are_counted() {
    let usage = moved_then_read(Keeper(Err(Refused::Full)), -3);
    assert_eq!((usage.state_refused, usage.state_failed), (3, 0));
}
