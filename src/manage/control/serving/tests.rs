//! Places of connections to the control socket, and those that ask nothing.

use super::*;
use crate::code::compiler::Compilers;
use crate::code::run::wasm::{Backstop, Compiler};
use crate::code::store::Store;
use crate::manage::loader::{Compiling, Loader, Policy};
use crate::manage::revoked::Revocations;
use crate::sys::poll::Waker;
use std::io::BufRead as _;
use std::path::Path;
use std::sync::mpsc::channel;

/// A control socket for one connection at a time.
fn listen(dir: &Path, idle: Duration) -> std::path::PathBuf {
    let path = dir.join(format!("{}.sock", idle.as_millis()));
    let waker = Waker::new().unwrap();
    let store = Store::open(None, Default::default()).unwrap();
    let revocations = Arc::new(Revocations::open(None, Default::default()).unwrap());
    let policy = Policy { node: "n".into(), roles: Default::default(), revocations };
    let compiler = Compiler::new(Backstop::FuelOnly).unwrap();
    let jailed = Compilers::new("/proc/self/exe".into(), Default::default());
    let compiling = Compiling { compiler, jailed, jobs: 1 };
    let loader = Loader::start(store, compiling, policy, None, waker.clone()).unwrap();
    let listener = UnixListener::bind(&path).unwrap();
    let (places, times) = (Places::new(1, Arc::default()), Times { idle, line: Duration::from_secs(3600) });
    serve_within(listener, Handle::new(channel().0, waker, loader.shelf(), None), places, times).unwrap();
    path
}

fn said(mut connection: &UnixStream, ask: &str) -> String {
    // A connection that is closed already says so when it is read.
    let _ = connection.write_all(ask.as_bytes());
    let mut line = String::new();
    let _ = BufReader::new(connection).read_line(&mut line);
    line
}

#[test]
fn connections_are_few_and_who_waits_gives_way() {
    let dir = tempfile::tempdir().unwrap();
    let path = listen(dir.path(), Duration::from_secs(3600));
    let first = UnixStream::connect(&path).unwrap();
    assert!(said(&first, "x\n").contains("not understood"));
    // Who waits gives way to who asks.
    assert!(said(&UnixStream::connect(&path).unwrap(), "x\n").contains("not understood"));
    assert_eq!(said(&first, ""), "", "closed without a word");
}

#[test]
fn a_connection_that_asks_nothing_is_closed_and_keeps_nobody_out() {
    let dir = tempfile::tempdir().unwrap();
    let path = listen(dir.path(), Duration::from_millis(20));
    let idle = UnixStream::connect(&path).unwrap();
    assert_eq!(said(&idle, ""), "", "closed without a word");
    // On a busy machine this one may be slow to ask, and closed too.
    let next = || said(&UnixStream::connect(&path).unwrap(), "x\n");
    assert!((0..100).any(|_| next().contains("not understood")));
}
