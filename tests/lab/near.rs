//! Who a node's neighbours are, as its code is told by `an_neighbour`: the same in a lab, by either half, and in the
//! simulator, of one lab file and by one code, as soon as neighbours have said hello.

use crate::running::{self, Adjust, Running};
use crate::wait::{self, Patience};
use anode::code::bundle::Bundle;
use anode::lab::Topology;
use anode::sim::{Network, SECOND, Simulation};
use anode::wire::{Addr, Digest, capsule};
use serde_json::Value;

/// The application port of the far end.
const PORT: u16 = 7;

/// Bytes of what `tests/guests/near.c` carries.
const PAYLOAD: usize = 8 + 8 * 16;

/// Of the node in the middle: the other ends of its links, each by the first of its addresses there.
const NEIGHBOURS: [&str; 2] = ["10.0.1.1", "10.0.2.2"];

fn header(code: Digest) -> capsule::Header {
    let [source, destination] = ["10.0.1.1", "10.0.2.2"].map(|addr| addr.parse::<Addr>().unwrap());
    capsule::Header { app_port: PORT, bound: 8, code, previous: source, source, destination }
}

/// What code was told: how many there are, by a call and by its context, and who, in no order.
fn told(payload: &[u8]) -> (u32, u32, Vec<Addr>) {
    let number = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
    let addresses = payload[8..].as_chunks::<16>().0.iter().map(|bytes| Addr(*bytes));
    let mut found: Vec<Addr> = addresses.filter(|addr| !addr.is_unspecified()).collect();
    found.sort_unstable();
    (number(0), number(4), found)
}

fn all() -> (u32, u32, Vec<Addr>) {
    let mut all = NEIGHBOURS.map(|addr| addr.parse::<Addr>().unwrap());
    all.sort_unstable();
    (NEIGHBOURS.len() as u32, NEIGHBOURS.len() as u32, all.into())
}

fn simulated(near: &Bundle, hello: u16) -> (u32, u32, Vec<Addr>) {
    let mut network = Network::of(Topology::parse(running::LINE, "line.toml").unwrap());
    let [a, b] = ["a", "b"].map(|name| network.number(name).unwrap());
    network.hello = hello;
    let mut sim = Simulation::new(network, 1).unwrap();
    sim.run_for(2 * SECOND);
    sim.add_code(a, near);
    sim.collect(b, PORT);
    sim.inject(a, header(near.name()), &[0; PAYLOAD]).unwrap();
    sim.run_for(2 * SECOND);
    let [arrived] = &sim.take_arrivals()[..] else { panic!("{}", sim.report()) };
    told(&arrived.payload)
}

/// How often capsules have run in the kernel half of the node in the middle.
fn in_kernel(status: &Value) -> u64 {
    let codes = status["kernel"]["codes"].as_array().into_iter().flatten();
    codes.map(|code| code["usage"]["packets"].as_u64().unwrap()).sum()
}

/// In a lab; with the kernel half, what its code was told there.
fn in_a_lab(name: &str, near: &Bundle, kernel: bool, adjust: Adjust<'_>) -> Option<(u32, u32, Vec<Addr>)> {
    let net = Running::up_with(name, running::LINE, adjust)?;
    let said =
        |status: &Value| status["neighbours"].as_array().unwrap().iter().filter(|one| !one["hello"].is_null()).count();
    net.await_status("r", |status| said(status) == NEIGHBOURS.len());
    let (from, mut to) = (net.attach("a", PORT), net.attach("b", PORT));
    let code = net.control("a").add_code(near).unwrap();
    let patience = Patience::new();
    loop {
        let before = in_kernel(&net.status("r"));
        from.send(&header(code), &[0; PAYLOAD]).unwrap();
        let (_, payload) = to.receive(wait::PATIENCE).unwrap().unwrap();
        let ran = net.status("r");
        if in_kernel(&ran) > before || !kernel {
            return Some(told(&payload));
        }
        patience.left(|| format!("it does not run in the kernel half: {}", ran["kernel"]));
    }
}

#[test]
fn neighbours_that_have_said_hello_are_the_same_in_both_halves_and_in_the_simulator() {
    let near = running::guest("near");
    assert_eq!(simulated(&near, 10), all(), "the simulator, by hellos");
    assert_eq!(simulated(&near, 0), all(), "the simulator, where neighbours are configured");
    let Some(user) = in_a_lab("lnear", &near, false, &|_, _| {}) else { return };
    assert_eq!(user, all(), "the user half");
    assert_eq!(in_a_lab("lnearh", &near, true, &running::in_kernel), Some(all()), "the kernel half");
}
