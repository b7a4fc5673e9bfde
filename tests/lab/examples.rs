//! Examples in labs print what their pages show.

use crate::shown::{Copy, examples, shown};
use anode::lab::Lab;

/// Takes the lab down whatever happens.
struct Taken(String);

impl Drop for Taken {
    fn drop(&mut self) {
        let _ = Lab::down(&self.0);
    }
}

#[test]
fn pages_of_examples_show_what_labs_print() {
    if !crate::labs::able() {
        return;
    }
    let mut run = 0;
    for (number, example) in examples().into_iter().enumerate() {
        let commands = shown(&example, "lab");
        if commands.is_empty() {
            continue;
        }
        let lab = Taken(format!("x{}_{number}", std::process::id() % 100_000_000));
        let copy = Copy::of(&example, &lab.0);
        for (command, lines) in commands {
            copy.run(&command, &lines);
        }
        run += 1;
    }
    assert!(run >= 6, "{run} examples");
}
