//! A worker that hangs: native code that the operator trusts never returns. The process ends, and the kernel half serves on.

use crate::outlive::{down, kill, traces, up_with};
use crate::running::Running;
use crate::sender::{Sender, next_mark, receiver};
use crate::wait;
use anode::code::author::{self, AuthorOptions};
use anode::code::bundle::{Bundle, Kind};
use anode::trust::PrincipalKey;

/// Code that is at its first packet for ever.
fn hanging(author: &PrincipalKey) -> Bundle {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hangs.c");
    let source = "#include <anode/capsule.h>\nAN_CAPSULE(hangs, struct an_nothing)\n{\n    volatile u32 rounds = 1;\n    \
                  while (rounds)\n        rounds = 1;\n    return an_forward();\n}\n";
    std::fs::write(&path, source).unwrap();
    let options = AuthorOptions { only: Some(Kind::Native), ..AuthorOptions::default() };
    let built = author::build(&path, &options).unwrap();
    let native = built.representation(Kind::Native).unwrap().clone();
    Bundle::build("hangs", built.manifest().window(), &[(Kind::Native, native)], Some(author)).unwrap()
}

/// Node r hangs, with so many workers, in the code of a capsule that is sent to it.
fn hang(name: &str, workers: u16) -> Option<(Running, anode::wire::Digest, tempfile::TempDir)> {
    let author = PrincipalKey::from_seed([3; 32]);
    let more = format!(
        "[cpu]\nworkers = {workers}\nhang_s = 1\n[[role]]\nname = \"author\"\ntrusts = [\"{}\"]\n\
         representations = [\"wasm\", \"native\"]\n",
        author.id()
    );
    let (net, ping, store) = up_with(name, &more)?;
    let code = net.control("r").add_code(&hanging(&author)).unwrap();
    let daemon = net.daemon("r");
    let pid = daemon.pid();
    let mut sender = Sender::of(&net, code, "10.0.2.2", &[0; 16]);
    // Who has sent it is asked for credentials, which costs.
    sender.set_bound(1000);
    sender.send(1);
    wait::text(&daemon.log, None, |log| log.contains("has not come round").then_some(()));
    wait::gone(pid);
    Some((net, ping, store))
}

#[test]
fn a_worker_that_hangs_ends_the_process_and_the_kernel_half_serves_on() {
    for (name, workers) in [("hang", 1), ("hangw", 2)] {
        let Some((mut net, ping, _store)) = hang(name, workers) else { return };
        let far = receiver(&net, "b", "10.0.2.2");
        let mut sender = Sender::new(&net, ping, "10.0.2.2");
        for mark in 0..50 {
            sender.send(mark);
            assert_eq!(next_mark(&far), Some(mark), "{workers} workers: nobody is there, and it goes on");
        }
        // It is waited for.
        net.kill("r");
        let node = net.start_again("r");
        net.await_status("r", |status| status["codes"][0]["kernel"] == "running");
        sender.send(50);
        assert_eq!(next_mark(&far), Some(50), "the next process takes over");
        kill(node);
        down(&net, &[]);
        assert_eq!(traces(&net), [""; 0]);
    }
}
