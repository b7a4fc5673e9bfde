//! No frame is lost without a counter, whatever channels, modules and environments do with it: `Bed` asserts that when it goes, too.

use crate::bed::{Bed, datagram_with};
use anode::code::run::trusted;
use anode::core::ledger::Balance;
use anode::core::reason::Reason;
use anode::frame::Frame;
use anode::node::EndedBy;
use anode::node::hosts::InProcess;
use anode::node::os::Resources;
use anode::nodeos::interface::{ChanSpec, DomainId, DomainSpec, InChanId, NodeOs, OutChanId, Upcall};
use anode::schedule::Policy;
use anode::trust::Role;
use anode::trust::grants::Grants;
use anode::trust::limits::Limits;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What an environment does with its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    Frees,
    Keeps,
    /// Sends them to a channel that is not there, and frees what comes back.
    SendsNowhere,
    /// Ends its own domain at the first, while others wait.
    EndsItself,
    /// Loses them: they are its own.
    Loses,
    /// Panics at the first, while others wait.
    Panics,
    /// Panics when it is told of the end of a domain.
    PanicsAtAnEnd,
    /// Panics when it is told of an event, and once more as it goes.
    PanicsByEvent,
}

struct Guest(Manner, Vec<Frame>);

impl InProcess for Guest {
    fn upcall(&mut self, os: &mut dyn NodeOs, domain: DomainId, upcall: Upcall) {
        let frame = match upcall {
            Upcall::Packet { frame, .. } => frame,
            Upcall::Event { .. } => panic!("as wanted"),
            _ => return,
        };
        match self.0 {
            Manner::Frees | Manner::PanicsAtAnEnd | Manner::PanicsByEvent => os.packet_free(domain, frame),
            Manner::Keeps => self.1.push(frame),
            Manner::SendsNowhere => {
                if let Err((frame, _)) = os.outchan_send(OutChanId(7), None, frame) {
                    os.packet_free(domain, frame);
                }
            }
            Manner::EndsItself => {
                os.packet_free(domain, frame);
                let _ = os.domain_terminate(domain);
            }
            Manner::Loses => drop(frame),
            Manner::Panics => panic!("as wanted, with {} bytes", frame.len()),
        }
    }

    fn ended(&mut self, _: DomainId) {
        assert_ne!(self.0, Manner::PanicsAtAnEnd, "as wanted");
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        assert_ne!(self.0, Manner::PanicsByEvent, "as wanted");
    }
}

fn role() -> Role {
    Role {
        grants: Grants { channels: 4, events: 8, domains: 4, ..Grants::default() },
        ..Role::anyone(Limits::default())
    }
}

fn balance(bed: &Bed) -> Balance {
    let balance = bed.driver.node.balance();
    assert_eq!(balance.unaccounted(), 0, "{balance:?}");
    balance
}

fn drops(bed: &Bed, reason: Reason) -> u64 {
    bed.driver.node.drops().of(reason)
}

/// A channel whose payloads are pieces of at most 64 bytes.
fn fragments(bed: &mut Bed, domain: DomainId) -> InChanId {
    let spec = ChanSpec { protocol: "if0/ip/udp/fragment(64)".into(), address: "*:5000".into(), ..ChanSpec::default() };
    bed.os(domain, |os| os.inchan_create(domain, &spec)).unwrap()
}

/// The piece of this number of one of three.
fn piece(bed: &mut Bed, number: u8, index: u8) {
    let payload = [&[0, number, index, 3][..], &[7; 64]].concat();
    bed.turn(|node, turn| node.receive(turn, datagram_with(5000, &payload)));
}

#[test]
fn whatever_an_environment_does_with_its_packets_they_are_accounted_for() {
    for policy in [Policy::Fifo, Policy::Wfq] {
        let ends = [Manner::EndsItself, Manner::Panics];
        for manner in [Manner::Frees, Manner::Keeps, Manner::SendsNowhere, Manner::Loses].into_iter().chain(ends) {
            let mut bed = Bed::new(policy);
            let domain = bed.domain(&role(), Box::new(Guest(manner, Vec::new())));
            bed.channel(domain, 5000);
            (0..10).for_each(|_| bed.feed(5000));
            assert_eq!(balance(&bed).held, if policy == Policy::Fifo { 0 } else { 10 });
            while let Some(ran) = bed.turn(|node, turn| node.run_next(turn)) {
                bed.driver.node.ran(ran, 1000, 1);
            }
            let (now, gone) = (balance(&bed), ends.contains(&manner));
            assert_eq!((now.delivered, now.held), (if gone { 1 } else { 10 }, 0), "{manner:?}");
            let ended = drops(&bed, Reason::DomainEnded);
            assert_eq!(ended + now.not_ours, if gone { 9 } else { 0 }, "what waited goes, or is Linux's again");
        }
    }
}

/// A domain whose environment is about to panic, beside another one's, and with packets that wait.
fn beside(bed: &mut Bed, manner: Manner) -> (DomainId, DomainId) {
    let ports = [(manner, 5000), (Manner::Frees, 6000)];
    let [wrong, good] = ports.map(|(manner, port)| {
        let domain = bed.domain(&role(), Box::new(Guest(manner, Vec::new())));
        bed.channel(domain, port);
        (0..5).for_each(|_| bed.feed(port));
        domain
    });
    (wrong, good)
}

/// That one is gone with its packets, and the other one runs.
fn goes_on_without(bed: &mut Bed, (wrong, good): (DomainId, DomainId), before: Resources) {
    assert_eq!(balance(bed).held, 5, "what waited for the other");
    assert_eq!((drops(bed, Reason::DomainEnded), bed.usage(wrong)), (5, None));
    assert_eq!(bed.driver.node.felled_by(wrong), Some(EndedBy::Node));
    let Resources { domains, hosts, channels, pools, .. } = before;
    let now = bed.driver.node.resources();
    assert_eq!((now.domains, now.hosts, now.channels, now.pools), (domains + 1, hosts + 1, channels + 1, pools + 1));
    while let Some(ran) = bed.turn(|node, turn| node.run_next(turn)) {
        bed.driver.node.ran(ran, 1000, 1);
    }
    assert_eq!((balance(bed).delivered, bed.usage(good).unwrap().packets), (5, 5));
}

#[test]
fn an_environment_that_panics_at_the_end_of_a_domain_ends_with_its_domains() {
    let mut bed = Bed::new(Policy::Wfq);
    let before = bed.driver.node.resources();
    let both = beside(&mut bed, Manner::PanicsAtAnEnd);
    let below = bed
        .os(both.0, |os| os.domain_create(both.0, &DomainSpec { title: "below".into(), ..DomainSpec::default() }))
        .unwrap();
    bed.turn(|node, turn| node.end_domain(turn, below, true));
    goes_on_without(&mut bed, both, before);
}

#[test]
fn an_environment_that_panics_by_an_event_and_as_it_goes_ends_with_its_domains() {
    let mut bed = Bed::new(Policy::Wfq);
    let before = bed.driver.node.resources();
    let both = beside(&mut bed, Manner::PanicsByEvent);
    bed.os(both.0, |os| os.event_schedule(both.0, 1, 7)).unwrap();
    bed.now += 2_000_000;
    bed.turn(|node, turn| node.timer(turn));
    goes_on_without(&mut bed, both, before);
}

#[test]
fn what_was_lent_to_a_call_that_panics_is_lent_no_more() {
    let mut bed = Bed::new(Policy::Fifo);
    let domain = bed.domain(&role(), Box::new(Guest(Manner::Frees, Vec::new())));
    let lent = |os: &mut dyn NodeOs| catch_unwind(AssertUnwindSafe(|| trusted::lend(os, || panic!("as wanted"))));
    assert!(bed.os(domain, |os| lent(os).is_err() && !trusted::is_lent()));
    assert!(catch_unwind(|| trusted::bar(|| panic!("as wanted"))).is_err() && !trusted::is_barred());
}

#[test]
fn pieces_of_packets_end_under_their_cause() {
    let mut bed = Bed::new(Policy::Fifo);
    let domain = bed.domain(&role(), Box::new(Guest(Manner::Frees, Vec::new())));
    let channel = fragments(&mut bed, domain);
    (0..3).for_each(|index| piece(&mut bed, 1, index));
    let whole = balance(&bed);
    assert_eq!((whole.received, whole.used, whole.delivered, whole.held), (3, 2, 1, 0), "three are one packet");
    (0..2).for_each(|index| piece(&mut bed, 2, index));
    assert_eq!(balance(&bed).held, 2);
    bed.now += 1_000_000_000;
    piece(&mut bed, 3, 0);
    assert_eq!((balance(&bed).held, drops(&bed, Reason::ReassemblyTimeout)), (1, 2), "the others did not come");
    (4..30).for_each(|number| piece(&mut bed, number, 0));
    let full = drops(&bed, Reason::ReassemblyFull);
    assert!(full > 0, "the oldest gave way");
    assert_eq!((balance(&bed).held, drops(&bed, Reason::ReassemblyTimeout)), (27 - full, 2));
    bed.os(domain, |os| os.inchan_destroy(channel)).unwrap();
    assert_eq!((balance(&bed).held, drops(&bed, Reason::ChannelGone)), (0, 27 - full), "they go with their channel");
    let channel = fragments(&mut bed, domain);
    (0..2).for_each(|index| piece(&mut bed, 1, index));
    bed.turn(|node, turn| node.end_domain(turn, domain, false));
    assert_eq!(
        (balance(&bed).held, drops(&bed, Reason::ChannelGone)),
        (0, 29 - full),
        "{channel:?} ends with its domain"
    );
}

#[test]
fn what_modules_cannot_read_is_the_channels_and_its_domains() {
    let mut bed = Bed::new(Policy::Fifo);
    let domain = bed.domain(&role(), Box::new(Guest(Manner::Frees, Vec::new())));
    fragments(&mut bed, domain);
    bed.feed(5000);
    assert_eq!((balance(&bed).dropped, drops(&bed, Reason::MalformedModule)), (1, 1));
    assert_eq!(bed.usage(domain).unwrap().drops.of(Reason::MalformedModule), 1, "its domain has it too");
}
