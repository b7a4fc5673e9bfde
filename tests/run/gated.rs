//! The gate of tests ([`crate::gate`]): tests of one file go in together, those of another one wait, and no helper goes
//! in.

use crate::gate::pass;
use std::process::Command;
use std::sync::mpsc::channel;
use std::thread::Builder;

#[test]
fn a_program_of_tests_is_no_helper_of_a_node() {
    pass();
    let helper = Command::new("/proc/self/exe").arg("gated::tests_of_one_file").output().unwrap();
    assert_eq!(helper.status.code(), Some(1), "it ends where it would pass the gate");
}

#[test]
fn tests_of_one_file_pass_together_and_others_wait() {
    let (say, said) = channel();
    let (go, went) = channel::<()>();
    let enter = |name: &str, work: Box<dyn FnOnce() + Send>| {
        let body = || {
            pass();
            work();
        };
        Builder::new().name(name.into()).spawn(body).unwrap()
    };
    let tell = |word: &'static str| {
        let say = say.clone();
        move || say.send(word).unwrap()
    };
    let (one, other) = (tell("one"), tell("other"));
    let first = enter("this::one", Box::new(move || (one(), went.recv().unwrap()).1));
    assert_eq!(said.recv(), Ok("one"));
    let stranger = enter("that::one", Box::new(other));
    enter("this::other", Box::new(tell("again"))).join().unwrap();
    assert_eq!(said.recv(), Ok("again"), "the second of the same file does not wait, and the other file's does");
    assert!(said.try_recv().is_err());
    go.send(()).unwrap();
    first.join().unwrap();
    assert_eq!(said.recv(), Ok("other"));
    stranger.join().unwrap();
}
