//! Configurations that are wrong, and all that is said of them: `tests/cases/wrong`.

mod common;

use click::check;
use common::{classes, run, shown};
use std::cell::RefCell;

#[test]
fn mistakes_are_told_with_cause_place_and_remedy() {
    let classes = classes();
    let bad = RefCell::new(String::new());
    run("wrong", 70, |case| {
        let found = check(&case.source, &classes);
        let text = shown(&found.diagnostics, &case.source);
        // One mistake, one message, but where the title says how many there are.
        let many: usize = case.title.split(' ').find_map(|word| word.parse().ok()).unwrap_or(1);
        let hinted = found.diagnostics.iter().all(|diagnostic| diagnostic.hint.is_some());
        if found.graph.is_some() || found.diagnostics.len() != many || !hinted {
            *bad.borrow_mut() += &format!("{}\n{}{text}\n", case.title, case.source);
        }
        text
    });
    assert!(bad.borrow().is_empty(), "accepted, told more than once, or without a remedy:\n{}", bad.borrow());
}
