//! No frame is lost without a counter, whatever channels, modules and environments do with it: `Bed` asserts that when it goes, too.

use crate::bed::{Bed, datagram_with};
use anode::core::ledger::Balance;
use anode::core::reason::Reason;
use anode::frame::Frame;
use anode::node::hosts::InProcess;
use anode::nodeos::interface::{ChanSpec, DomainId, InChanId, NodeOs, OutChanId, Upcall};
use anode::schedule::Policy;
use anode::trust::Role;
use anode::trust::grants::Grants;
use anode::trust::limits::Limits;

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
}

struct Guest(Manner, Vec<Frame>);

impl InProcess for Guest {
    fn upcall(&mut self, os: &mut dyn NodeOs, domain: DomainId, upcall: Upcall) {
        let Upcall::Packet { frame, .. } = upcall else { return };
        match self.0 {
            Manner::Frees => os.packet_free(domain, frame),
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
        }
    }
}

fn role() -> Role {
    Role { grants: Grants { channels: 4, ..Grants::default() }, ..Role::anyone(Limits::default()) }
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
        for manner in [Manner::Frees, Manner::Keeps, Manner::SendsNowhere, Manner::EndsItself, Manner::Loses] {
            let mut bed = Bed::new(policy);
            let domain = bed.domain(&role(), Box::new(Guest(manner, Vec::new())));
            bed.channel(domain, 5000);
            (0..10).for_each(|_| bed.feed(5000));
            assert_eq!(balance(&bed).held, if policy == Policy::Fifo { 0 } else { 10 });
            while let Some(ran) = bed.turn(|node, turn| node.run_next(turn)) {
                bed.driver.node.ran(ran, 1000, 1);
            }
            let (now, gone) = (balance(&bed), manner == Manner::EndsItself);
            assert_eq!((now.delivered, now.held), (if gone { 1 } else { 10 }, 0), "{manner:?}");
            let ended = drops(&bed, Reason::DomainEnded);
            assert_eq!(ended + now.not_ours, if gone { 9 } else { 0 }, "what waited goes, or is Linux's again");
        }
    }
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
