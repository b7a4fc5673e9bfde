//! Surveys: what is found in slices is what is found at once, and rows that go meanwhile are in nobody's way.

use crate::bed::Bed;
use anode::node::survey::{NOTED_AT_ONCE, Survey, Surveyed};
use anode::nodeos::interface::DomainId;
use anode::nodeos::interface::{NodeOs, Upcall};
use anode::schedule::Policy;
use anode::trust::Role;
use std::collections::BTreeSet;

/// Takes what comes.
struct Sink;

impl anode::node::hosts::InProcess for Sink {
    fn upcall(&mut self, os: &mut dyn NodeOs, domain: DomainId, upcall: Upcall) {
        if let Upcall::Packet { frame, .. } = upcall {
            os.packet_free(domain, frame);
        }
    }
}

/// A node with so many domains, each with a channel.
fn bed(domains: u16) -> (Bed, Vec<DomainId>) {
    let mut bed = Bed::new(Policy::Wfq);
    let role = (*Role::of_node()).clone();
    let all = (0..domains).map(|port| {
        let domain = bed.domain(&role, Box::new(Sink));
        bed.channel(domain, 1000 + port);
        domain
    });
    let all = all.collect();
    (bed, all)
}

#[test]
fn slices_find_what_is_found_at_once() {
    let (mut bed, domains) = bed(20);
    bed.feed(1003);
    let mut slices = 0;
    let mut survey = Survey::of(Surveyed::Counters);
    while !bed.driver.node.survey(&mut survey, &[], || true) {
        slices += 1;
    }
    let (status, found, _) = survey.counters().unwrap();
    assert!(slices > domains.len() / 4, "{slices}");
    assert_eq!(format!("{status:?}"), format!("{:?}", bed.driver.node.status()));
    assert_eq!(format!("{found:?}"), format!("{:?}", bed.driver.node.domain_tree()));
    let mut survey = Survey::of(Surveyed::Channels);
    while !bed.driver.node.survey(&mut survey, &[], || true) {}
    assert_eq!(format!("{:?}", survey.channels()), format!("{:?}", bed.driver.node.channel_list()));
}

#[test]
fn what_goes_and_comes_between_slices_is_there_once_or_not() {
    let (mut bed, mut domains) = bed(20);
    let mut survey = Survey::of(Surveyed::Counters);
    let mut step = 0;
    while !bed.driver.node.survey(&mut survey, &[], || true) {
        step += 1;
        if step % 4 == 0
            && let Some(domain) = domains.pop()
        {
            bed.turn(|node, turn| node.end_environment(turn, domain));
            bed.domain(&Role::of_node(), Box::new(Sink));
        }
    }
    let (_, found, _) = survey.counters().unwrap();
    let ids: BTreeSet<_> = found.iter().map(|domain| domain.id).collect();
    assert_eq!(ids.len(), found.len(), "each once");
    assert!(domains.iter().all(|domain| ids.contains(&domain.0)), "what stays is there");
}

/// As above, while those that are noted in several steps go from either end and from the middle.
#[test]
fn of_a_parent_of_many_none_is_left_out_and_none_is_there_twice() {
    let many = 5 * NOTED_AT_ONCE / 2;
    let (mut bed, mut domains) = bed(many as u16);
    let mut survey = Survey::of(Surveyed::Counters);
    let mut step = 0;
    while !bed.driver.node.survey(&mut survey, &[], || true) {
        step += 1;
        let at = [0, domains.len() / 2, domains.len() - 1][step % 3];
        if domains.len() > many / 2 {
            let gone = domains.remove(at);
            bed.turn(|node, turn| node.end_environment(turn, gone));
        }
        if step % 5 == 0 {
            bed.domain(&Role::of_node(), Box::new(Sink));
        }
    }
    let (_, found, _) = survey.counters().unwrap();
    let ids: BTreeSet<_> = found.iter().map(|domain| domain.id).collect();
    assert_eq!(ids.len(), found.len(), "each once");
    assert!(domains.iter().all(|domain| ids.contains(&domain.0)), "what stays is there");
    // With nothing in between, in the order of the tree.
    let mut survey = Survey::of(Surveyed::Counters);
    while !bed.driver.node.survey(&mut survey, &[], || true) {}
    let (_, found, _) = survey.counters().unwrap();
    assert_eq!(format!("{found:?}"), format!("{:?}", bed.driver.node.domain_tree()));
}
