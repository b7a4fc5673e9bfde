//! Examples in the simulator print what their pages show.

use crate::shown::{Copy, examples, shown};

/// Every example with a lab file, of which some have commands for the simulator.
#[test]
fn pages_of_examples_show_what_the_simulator_prints() {
    let mut run = 0;
    for example in examples() {
        let copy = Copy::of(&example, &example);
        for (command, lines) in shown(&example, "sim") {
            copy.run(&command, &lines);
            run += 1;
        }
    }
    assert!(run >= 8, "{run} commands");
}

/// An example says what it is in its first lines, and is run in one of the two worlds at least.
#[test]
fn every_example_has_a_page_with_commands_that_are_run() {
    let all = examples();
    assert!(all.len() >= 11, "{all:?}");
    for example in all {
        let commands = shown(&example, "sim").len() + shown(&example, "lab").len();
        assert!(commands > 0, "{example}: no commands");
    }
}
