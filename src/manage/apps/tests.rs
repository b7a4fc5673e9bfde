//! Places of applications: one user has half of them, and who attaches to nothing loses his.

use super::*;
use crate::driver::Driver;
use crate::node::{NodeConfig, Sizes};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};

/// Applications at a socket, eight of them, and who has connected there.
fn apps(path: &std::path::Path, clients: usize) -> (Apps, Vec<SeqPacket>) {
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::NONBLOCK, None).unwrap();
    bind(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    listen(&socket, 64).unwrap();
    let mut apps = Apps::on(socket, 100, Arc::default()).unwrap();
    apps.places = Shares::new(8);
    (apps, (0..clients).map(|_| SeqPacket::connect(path).unwrap()).collect())
}

fn node() -> Node {
    let (routes, roles) = Default::default();
    let (ports, neighbours, sizes) = (vec![], vec![], Sizes::default());
    Node::new(NodeConfig { name: "n".into(), ports, neighbours, routes, roles, sizes, seed: 1, kernel: false })
}

#[test]
fn nobody_takes_the_last_place_and_who_attaches_to_nothing_loses_his() {
    let dir = tempfile::tempdir().unwrap();
    let (mut apps, clients) = apps(&dir.path().join("apps.sock"), 6);
    let (poll, mut driver, mut heard) = (Poll::new().unwrap(), Driver::new(node()), [0; 99]);
    apps.accept(0, &poll);
    assert_eq!(apps.applications.len(), 4, "one user has half");
    for refused in &clients[4..] {
        assert!(refused.receive(&mut heard).unwrap() > 1 && heard[0] == REFUSED);
        assert_eq!(refused.receive(&mut heard).unwrap(), 0);
    }
    let [second, third] = [u32::MAX, u32::MAX - 1];
    while apps.places.take(second, 1) {}
    assert!(apps.places.fits(third, 1), "whatever two users take, a third finds a place");
    apps.places.give(second, 8);
    clients[0].send(&[ATTACH, 0, 0]).unwrap();
    driver.turn(0, |node, turn| apps.receive(100, &poll, node, turn));
    driver.turn(0, |node, _| apps.look_after(ATTACHING - 1, &poll, node));
    assert_eq!((apps.applications.len(), apps.due), (4, ATTACHING));
    driver.turn(0, |node, _| apps.look_after(ATTACHING, &poll, node));
    assert_eq!((apps.applications.len(), apps.places.held(), apps.due), (1, 1, u64::MAX));
    for silent in &clients[1..4] {
        assert!(silent.receive(&mut heard).unwrap() > 1 && heard[0] == REFUSED);
        assert_eq!(silent.receive(&mut heard).unwrap(), 0, "its place is another one's");
    }
    assert!(clients[0].receive(&mut heard).unwrap() > 1 && heard[0] == ATTACHED, "it has a port, and may be silent");
    assert_eq!(apps.counts.status(), model::status::Connected { refused: 2, silent: 3, ..Default::default() });
}
