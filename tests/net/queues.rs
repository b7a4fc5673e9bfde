//! Receive queues of nodes with several workers: fewer than workers, queues that come and go, and one that is flooded.

use crate::pace::Pace;
use crate::running::{HOSTS, Running, guest, sockets};
use crate::workers::{A, B, COUNT, capsule, cross, two_queues, with_workers};
use anode::wire::Digest;
use serde_json::Value;
use std::net::UdpSocket;
use std::time::Duration;

/// Time between two capsules.
const GAP: Duration = Duration::from_micros(200);

/// Frames that each worker of r has received.
fn received(status: &Value) -> Vec<u64> {
    let workers = status["workers"].as_array().unwrap_or_else(|| panic!("{status}"));
    workers.iter().map(|worker| worker["balance"]["received"].as_u64().unwrap()).collect()
}

/// With AF_XDP sockets or without.
fn maybe_sockets(xdp: bool) -> impl Fn(&str, &mut toml::Table) {
    move |node, config| {
        if xdp {
            sockets(false)(node, config);
        }
    }
}

/// Changes how many queues r has towards a, and a towards r: never fewer to receive than the other sends by.
fn set_queues(net: &Running, queues: u32) {
    let set = |node: &str, interface: &str, what: &str| {
        net.shell(node, &format!("ethtool -L {interface} {what} {queues} 2>&1 | grep -v unmodified >&2 || true"));
    };
    let (a, r) = (("a", "to-r", "tx"), ("r", "to-a", "rx"));
    let order = if queues == 1 { [a, r] } else { [r, a] };
    order.into_iter().for_each(|(node, interface, what)| set(node, interface, what));
    let now = net.shell("r", "ethtool -l to-a | tail -n 5 | grep -i rx");
    assert!(now.contains(&queues.to_string()), "{now}");
}

#[test]
fn more_workers_than_queues_are_said_and_all_capsules_pass() {
    for (name, xdp) in [("wq4", false), ("wq4x", true)] {
        let Some(mut net) = Running::build(name, HOSTS) else { return };
        net.start(&with_workers(4, maybe_sockets(xdp)));
        let code = net.control("r").add_code(&guest("state")).unwrap();
        assert_eq!(cross(&net, code), COUNT);
        let status = net.status("r");
        assert_eq!(received(&status).len(), 4, "{status}");
        assert!(status["drops"].as_object().unwrap().is_empty(), "{status}");
        assert!(net.log("r").contains("3 workers get no frame"), "{}", net.log("r"));
    }
}

/// Without AF_XDP sockets: Linux takes no queue away that has one.
#[test]
fn queues_come_and_go_while_capsules_pass_and_each_is_served() {
    let Some(mut net) = two_queues("wqc") else { return };
    net.start(&with_workers(2, maybe_sockets(false)));
    let code = net.control("r").add_code(&guest("state")).unwrap();
    assert_eq!(cross(&net, code), COUNT);
    for queues in [1, 2, 1, 2] {
        let (bytes, pace) = (capsule(code, A, B), Pace::apart(GAP));
        // What is on its way while the driver begins anew may be lost there; nothing of it within the node.
        let socket = net.lab.enter("a", || UdpSocket::bind((A, 0)).unwrap()).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| pace.run(|_| assert!(socket.send_to(&bytes, (B, 3322)).is_ok())));
            let _stopped = pace.stops_with_this();
            pace.await_more(10);
            set_queues(&net, queues);
        });
        let before = received(&net.status("r"));
        assert_eq!(cross(&net, code), COUNT, "{queues} queues");
        let now = received(&net.status("r"));
        let more = |at: usize| now[at] - before[at];
        assert!(more(0) > 20 && (more(1) > 20) == (queues == 2), "{queues} queues: {before:?} {now:?}");
    }
}

/// What r says of the AF_XDP sockets of its port to a: how many, and frames of each.
fn at_sockets(status: &Value) -> Vec<u64> {
    let port = &status["xdp"].as_array().unwrap_or_else(|| panic!("{status}"))[0];
    let each: Vec<_> = port["per_queue"].as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).collect();
    assert_eq!(port["sockets"], each.len(), "{status}");
    each
}

/// How often r has opened a port anew.
fn opened(net: &Running) -> usize {
    net.log("r").matches("the interface of a port is there again").count()
}

/// The interface has two queues from now on, and the port is opened anew for that.
fn add_queue(net: &Running) {
    let before = opened(net);
    set_queues(net, 2);
    net.until("r", || (opened(net) > before).then_some(()));
}

#[test]
fn a_queue_that_comes_has_a_socket_of_its_own_and_linux_takes_none_away_that_has_one() {
    let Some(mut net) = two_queues("wqs") else { return };
    set_queues(&net, 1);
    net.start(&with_workers(2, maybe_sockets(true)));
    let code = net.control("r").add_code(&guest("state")).unwrap();
    assert_eq!(cross(&net, code), COUNT);
    assert_eq!(at_sockets(&net.status("r")).len(), 1);
    add_queue(&net);
    let before = net.await_status("r", |status| at_sockets(status).len() == 2);
    assert_eq!(cross(&net, code), COUNT);
    let after = net.status("r");
    for (at, (now, was)) in at_sockets(&after).iter().zip(at_sockets(&before)).enumerate() {
        assert!(now - was > 20, "queue {at}: {before}\n{after}");
        assert!(received(&after)[at] - received(&before)[at] > 20, "worker {at}: {before}\n{after}");
    }
    net.shell("a", "ethtool -L to-r tx 1");
    let refused = net.shell("r", "ethtool -L to-a rx 1 2>&1 && echo taken away || true");
    assert!(!refused.contains("taken away"), "{refused}");
    assert_eq!(cross(&net, code), COUNT, "nothing has changed");
}

#[test]
fn capsules_of_a_queue_that_comes_run_in_the_kernel_half() {
    let Some(mut net) = two_queues("wqk") else { return };
    net.start(&with_workers(2, crate::running::in_kernel));
    let code = net.control("r").add_code(&guest("forward")).unwrap();
    assert_eq!(cross(&net, code), COUNT);
    net.await_status("r", |status| status["codes"][0]["kernel"] == "running");
    for _ in 0..2 {
        set_queues(&net, 1);
        add_queue(&net);
        assert_eq!(cross(&net, code), COUNT);
        let before = net.status("r");
        assert_eq!(cross(&net, code), COUNT);
        assert_eq!(received(&net.status("r")), received(&before), "all run there");
    }
}

/// A socket of a whose capsules come to this worker of r, and how many of the code were sent to find it.
fn socket_to(net: &Running, worker: usize, code: Digest) -> (UdpSocket, u64) {
    let bytes = capsule(code, A, B);
    for sent in 1..=64 {
        let socket = net.lab.enter("a", || UdpSocket::bind((A, 0)).unwrap()).unwrap();
        let before = received(&net.status("r"));
        socket.send_to(&bytes, (B, 3322)).unwrap();
        let sum = |counts: &[u64]| counts.iter().sum::<u64>();
        let now = received(&net.await_status("r", |status| sum(&received(status)) > sum(&before)));
        if now[worker] > before[worker] {
            return (socket, sent);
        }
    }
    panic!("no flow of 64 comes to worker {worker}");
}

#[test]
fn a_flood_in_one_queue_leaves_the_other_queue_s_domains_alone() {
    for (name, xdp) in [("wqf", false), ("wqfx", true)] {
        let Some(mut net) = two_queues(name) else { return };
        net.start(&with_workers(2, maybe_sockets(xdp)));
        let (flood, other) = (guest("state"), guest("forward"));
        let [flood, other] = [flood, other].map(|bundle| net.control("r").add_code(&bundle).unwrap());
        assert_eq!(cross(&net, flood), COUNT);
        // Both workers run both codes from now on.
        let [(flooded, _), (quiet, before)] =
            [(1, flood), (0, other)].map(|(worker, code)| socket_to(&net, worker, code));
        let of_other = |status: &Value| {
            let codes = status["codes"].as_array().unwrap();
            let code = codes.iter().find(|code| code["name"] == other.to_string());
            code.and_then(|code| code["total"]["forwarded"].as_u64()).unwrap_or(0)
        };
        net.await_status("r", |status| of_other(status) == before);
        let (bytes, pace) = (capsule(flood, A, B), Pace::apart(Duration::ZERO));
        std::thread::scope(|scope| {
            // The interface may take none for a moment.
            scope.spawn(|| pace.run(|_| drop(flooded.send_to(&bytes, (B, 3322)))));
            let _stopped = pace.stops_with_this();
            pace.await_more(1000);
            let bytes = capsule(other, A, B);
            for sent in 1..=100 {
                quiet.send_to(&bytes, (B, 3322)).unwrap();
                net.await_status("r", |status| of_other(status) >= before + sent);
            }
        });
        assert_eq!(of_other(&net.status("r")), before + 100, "{name}");
    }
}
