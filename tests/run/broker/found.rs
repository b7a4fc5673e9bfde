//! Programs of others at interfaces, which are kept while the node's stand there: whoever has taken the node over neither loses one
//! nor puts one anywhere, and whatever becomes of its process, each comes back.

use super::needs_root;
use super::others::configurations;
use anode::broker::acts::Acts;
use anode::broker::{Pin, PinRequest, Request};
use anode::config::NodeFile;
use anode::contract::PORTS;
use anode::kernel::{found, pins};
use anode::sys::bpf::{self, Hook, Link, Map, MapKind, MapShape, Program, XdpMode};
use anode::sys::hook;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The loopback interface of each network.
const LO: u32 = 1;

const SHAPE: MapShape = MapShape { kind: MapKind::Programs, key: 4, value: 4, entries: PORTS };

/// A program that passes everything: r0 = 2 (XDP_PASS), exit.
fn passing(name: &str) -> Program {
    Program::load(Hook::Xdp, name, &[0xb7, 0, 0, 0, 2, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0], &[], None).unwrap()
}

/// A network of this thread's own, with somebody's program at its loopback interface, and the broker of a node at that one.
struct Host {
    dir: tempfile::TempDir,
    somebodys: Program,
    acts: Acts,
}

impl Host {
    fn make() -> Host {
        // A child makes it, since a thread by itself must not.
        let mut maker = Command::new("unshare");
        maker.args(["--net", "sh", "-c", "ip link set lo up && echo ready && cat"]);
        let mut maker = maker.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = [0; 6];
        maker.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
        let network = fs::File::open(format!("/proc/{}/ns/net", maker.id())).unwrap();
        move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        drop(maker.stdin.take());
        maker.wait().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let file = NodeFile::parse("name = \"a\"\n[[port]]\npacket = \"lo\"\nkernel = true\n").unwrap();
        let acts = Acts::new(configurations(&file, dir.path()), dir.path().into(), None, std::process::id() as i32);
        acts.carry_out(&Request::Pins(PinRequest::Open), &[]).unwrap();
        let somebodys = passing("somebodys");
        hook::put(LO, &somebodys, XdpMode::Generic).unwrap();
        Host { dir, somebodys, acts }
    }

    fn root(&self) -> PathBuf {
        pins::root_of(self.dir.path())
    }

    fn asked(&self, request: PinRequest, with: Option<&Program>) -> Result<(), String> {
        let with: Vec<OwnedFd> = with.iter().map(|program| program.as_fd().try_clone_to_owned().unwrap()).collect();
        self.acts.carry_out(&Request::Pins(request), &with).map(drop).map_err(|error| error.to_string())
    }

    /// A program of ours comes before somebody's.
    fn put_before(&self, map: &Map) -> io::Result<Link> {
        let ours = passing("anode_test");
        let attach = || ours.attach_xdp(LO, XdpMode::Generic);
        found::put_before(&self.root(), LO, map.as_fd(), attach).map(|(link, _)| link)
    }

    fn has_somebodys_back(&self) -> bool {
        standing(LO) == Some(self.somebodys.info().unwrap().id)
    }

    fn names(&self) -> Vec<String> {
        let all = fs::read_dir(self.root()).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap());
        // Two are the kernel's own.
        let mut all: Vec<_> = all.filter(|name| !name.ends_with(".debug")).collect();
        all.sort_unstable();
        all
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = bpf::unmount(&self.root());
    }
}

/// The number of the program at an interface.
fn standing(interface: u32) -> Option<u32> {
    hook::standing(interface).unwrap().map(|(id, _)| id)
}

fn pin(name: String) -> Pin {
    Pin { set: None, name }
}

#[test]
fn what_is_kept_for_others_is_the_brokers() {
    crate::gate::pass();
    if !needs_root() {
        return;
    }
    let host = Host::make();
    let made = Command::new("ip").args(["link", "add", "foreign", "type", "veth", "peer", "name", "other"]).status();
    assert!(made.unwrap().success());
    let foreign = anode::sys::netlink::interfaces().unwrap().into_iter().find(|it| it.name == "foreign").unwrap().index;
    let network = fs::metadata("/proc/thread-self/ns/net").unwrap().ino();
    // A node that has been taken over keeps a program of its choice for an interface of its choice, and has it put there.
    for interface in [foreign, LO] {
        for mode in ["stack", "driver"] {
            let keep = PinRequest::Keep(pin(format!("found-{interface}-{mode}-{network}")));
            let why = host.asked(keep, Some(&passing("chosen"))).unwrap_err();
            assert!(why.contains("is not the node's: it is kept for somebody else"), "{why}");
        }
        host.asked(PinRequest::GiveBack { interface: Some(interface) }, None).unwrap();
    }
    assert_eq!((standing(foreign), host.has_somebodys_back()), (None, true));
    // Or it loses one that is kept.
    let map = Map::create("found_map", SHAPE).unwrap();
    let link = host.put_before(&map).unwrap();
    let kept = host.names();
    assert_eq!(kept, [format!("found-1-stack-{network}"), "found-link-1".into()]);
    for name in &kept {
        let why = host.asked(PinRequest::Forget(pin(name.clone())), None).unwrap_err();
        assert!(why.contains("is kept for somebody else"), "{why}");
    }
    let why = host.asked(PinRequest::Close, None).unwrap_err();
    assert!(why.contains("not put back yet"), "{why}");
    host.asked(PinRequest::Fetch(pin(kept[0].clone())), None).unwrap();
    // Or what the node has pinned as its link is none.
    host.asked(PinRequest::Keep(pin("link-1-stack".into())), Some(&passing("chosen"))).unwrap();
    host.asked(PinRequest::GiveBack { interface: None }, None).unwrap();
    assert!(host.has_somebodys_back());
    drop(link);
    assert_eq!(host.names(), ["link-1-stack"]);
    host.asked(PinRequest::Close, None).unwrap();
}

#[test]
fn a_map_of_another_shape_gets_no_program() {
    crate::gate::pass();
    if !needs_root() {
        return;
    }
    let host = Host::make();
    let others = [
        MapShape { kind: MapKind::Array, value: 192, ..SHAPE },
        MapShape { kind: MapKind::PerCpuArray, value: 192, ..SHAPE },
        MapShape { kind: MapKind::Array, ..SHAPE },
    ];
    for shape in others {
        let map = Map::create("cut_flows_map", shape).unwrap();
        let why = host.put_before(&map).unwrap_err().to_string();
        assert!(why.contains("a map of another shape"), "{why}");
        let mut value = vec![1; map.value_size()];
        map.get(&LO.to_ne_bytes(), &mut value).unwrap();
        assert!(value.iter().all(|byte| *byte == 0), "something of the broker's is in it");
        assert!(host.has_somebodys_back());
    }
    assert_eq!(host.names(), [""; 0]);
}

/// The link of a process is there until the last who has it open is gone, and a broker hears of its end before.
#[test]
fn a_program_is_put_back_while_the_process_that_took_its_place_still_dies() {
    crate::gate::pass();
    if !needs_root() {
        return;
    }
    let host = Host::make();
    let map = Map::create("found_map", SHAPE).unwrap();
    for _ in 0..2 {
        let link = host.put_before(&map).unwrap();
        assert!(!host.has_somebodys_back());
        found::give_back(&host.root(), None).unwrap();
        assert!(host.has_somebodys_back() && host.names().is_empty());
        drop(link);
        assert!(host.has_somebodys_back());
    }
    // One that is pinned nowhere, as a version before has left it, is waited for.
    let link = host.put_before(&map).unwrap();
    fs::remove_file(host.root().join("found-link-1")).unwrap();
    let why = found::give_back(&host.root(), Some(LO)).unwrap_err().to_string();
    assert!(why.contains("another node's stands there"), "{why}");
    assert_eq!(host.names().len(), 1, "it is kept");
    link.detach().unwrap();
    found::give_back(&host.root(), Some(LO)).unwrap();
    assert!(host.has_somebodys_back() && host.names().is_empty());
    // Where somebody has put another one, that stays.
    let link = host.put_before(&map).unwrap();
    fs::remove_file(host.root().join("found-link-1")).unwrap();
    link.detach().unwrap();
    let another = passing("another");
    hook::put(LO, &another, XdpMode::Generic).unwrap();
    found::give_back(&host.root(), Some(LO)).unwrap();
    assert_eq!((standing(LO), host.names().is_empty()), (Some(another.info().unwrap().id), true));
}

/// What fails when the node is to keep its own link leaves the interface as it was.
#[test]
fn a_link_that_cannot_be_kept_gives_the_place_back() {
    crate::gate::pass();
    if !needs_root() {
        return;
    }
    let host = Host::make();
    let map = Map::create("found_map", SHAPE).unwrap();
    let link = host.put_before(&map).unwrap();
    // In the place of its name there is something that no link replaces.
    fs::create_dir(host.root().join("link-1-stack")).unwrap();
    let pins = pins::Pins::open(host.dir.path()).unwrap();
    assert!(pins.keep_link(LO, XdpMode::Generic, &link).is_err());
    assert!(host.has_somebodys_back());
}
