//! The control socket of a running node under processes that may open it and only keep its places.

use crate::single::Node;
use anode::manage::client::Control;
use std::io::{ErrorKind, Write};
use std::os::unix::net::UnixStream;

/// More connections than are served at the same time, each of which `does` something.
fn crowd(node: &Node, does: impl Fn(&mut UnixStream)) -> Vec<UnixStream> {
    let path = node.run_dir().join("control.sock");
    let connect = |_| {
        let mut connection = UnixStream::connect(&path).unwrap();
        does(&mut connection);
        connection
    };
    (0..40).map(connect).collect()
}

#[test]
fn nobody_keeps_the_operator_from_status_or_down() {
    let node = Node::start("");
    let silent = crowd(&node, |_| ());
    let begun = crowd(&node, |connection| connection.write_all(b"{\"do\":\"sta").unwrap());
    // The second time nothing is answered until something has changed.
    let next = b"{\"do\":\"next\",\"of\":\"log\"}\n";
    let waiting = crowd(&node, |connection| connection.write_all(&next.repeat(2)).unwrap());
    // They ask as long as there is room, and take no answer.
    let deaf = crowd(&node, |connection| {
        connection.set_nonblocking(true).unwrap();
        let asks = "{\"do\":\"status\"}\n".repeat(1000);
        loop {
            match connection.write(asks.as_bytes()) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // It has given way already.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => break,
                Err(error) => panic!("{error}"),
            }
        }
    });
    let status = Control::connect(&node.run_dir()).unwrap().status().unwrap();
    assert!(status["connections"]["control"]["displaced"].as_u64().unwrap() >= 80, "{}", status["connections"]);
    let (done, said) = node.anode(&["node", "status"]);
    assert!(done, "{said}");
    node.down();
    drop((silent, begun, waiting, deaf));
}
