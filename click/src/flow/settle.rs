//! Push or pull, and the kind of items, for ports that can do either.
//!
//! From every port that is settled by its class, what it is goes along connections, and through elements whose ports are not
//! settled. Where two meet that differ, the way from one to the other is told, once for all that hang together.

use super::ports::{Place, Ports, written};
use crate::classes::{Class, Item, Processing};
use crate::diagnostic::Diagnostic;
use crate::mistakes::Mistakes;
use std::collections::VecDeque;

/// Elements of a way that are named.
const NAMED_MAX: usize = 6;

/// Something that ports take over from each other.
pub(super) trait Settled: Copy + Eq {
    /// What nobody settles.
    const OTHERWISE: Self;

    /// What a class says of a port.
    fn said(class: &Class, output: bool, port: usize) -> Option<Self>;

    /// What a settled port does, behind its name.
    fn does(self, output: bool) -> String;

    /// What is wrong where two meet, and the remedy; whether the first is an output, and the second.
    fn clash(one: (Self, bool), other: (Self, bool)) -> (&'static str, String);
}

impl Settled for Processing {
    const OTHERWISE: Processing = Processing::Push;

    fn said(class: &Class, output: bool, port: usize) -> Option<Processing> {
        class.processing.of(output, port)
    }

    fn does(self, output: bool) -> String {
        match (self, output) {
            (Processing::Push, true) => "pushes",
            (Processing::Push, false) => "is pushed to",
            (Processing::Pull, true) => "is pulled from",
            (Processing::Pull, false) => "pulls",
        }
        .to_owned()
    }

    fn clash(one: (Self, bool), other: (Self, bool)) -> (&'static str, String) {
        // From upstream to downstream, if there is such an order.
        let upstream = if one.1 { one.0 } else { other.0 };
        let hint = match (one.1 != other.1, upstream) {
            (false, _) => "give each of them a path of its own",
            (true, Processing::Push) => "put a queue between them, which is pushed to and pulled from",
            (true, Processing::Pull) => "put an element between them that pulls and pushes, such as an Unqueue",
        };
        ("push and pull meet", hint.to_owned())
    }
}

impl Settled for Item {
    const OTHERWISE: Item = Item::Packet;

    fn said(class: &Class, output: bool, port: usize) -> Option<Item> {
        class.items.of(output, port)
    }

    fn does(self, output: bool) -> String {
        format!("{} {self}", if output { "gives" } else { "takes" })
    }

    fn clash(one: (Self, bool), other: (Self, bool)) -> (&'static str, String) {
        let hint =
            format!("put an element between them that makes the one of the other: {} and {} differ", one.0, other.0);
        ("items of two kinds meet", hint)
    }
}

/// How a port was reached.
#[derive(Clone, Copy)]
struct Reached<T> {
    what: T,
    /// The port before it on the way, itself at the beginning.
    from: usize,
    /// The settled port at which the way begins.
    root: usize,
}

/// Settles every port.
pub(super) fn settle<T: Settled>(ports: &Ports<'_>, mistakes: &mut Mistakes) -> Vec<T> {
    let said = |place: &Place| {
        let class = ports.class(place.hop.element)?;
        T::said(class, place.output, place.hop.port as usize)
    };
    let fixed: Vec<Option<T>> = ports.row.iter().map(said).collect();
    let begin = |(at, what): (usize, &Option<T>)| what.map(|what| Reached { what, from: at, root: at });
    let mut reached: Vec<Option<Reached<T>>> = fixed.iter().enumerate().map(begin).collect();
    let mut waiting: VecDeque<usize> = (0..reached.len()).filter(|at| fixed[*at].is_some()).collect();
    let mut together: Vec<usize> = (0..reached.len()).collect();
    while let Some(at) = waiting.pop_front() {
        let Some(here) = reached[at] else { continue };
        neighbours(ports, &fixed, at, &mut |next| match reached[next] {
            None => {
                reached[next] = Some(Reached { from: at, ..here });
                waiting.push_back(next);
            }
            Some(there) if there.what != here.what => {
                let (one, other) = (find(&mut together, here.root), find(&mut together, there.root));
                if one != other {
                    together[one] = other;
                    mistakes.add(clash(ports, &reached, at, next));
                }
            }
            Some(_) => {}
        });
    }
    reached.into_iter().map(|port| port.map_or(T::OTHERWISE, |port| port.what)).collect()
}

/// The one that stands for all that are known to hang together.
fn find(together: &mut [usize], mut at: usize) -> usize {
    while together[at] != at {
        together[at] = together[together[at]];
        at = together[at];
    }
    at
}

/// Ports that take over what this one is: those at the other ends of its connections, and within the element those that are not
/// settled, along its flow, if this one is not either.
fn neighbours<T>(ports: &Ports<'_>, fixed: &[Option<T>], at: usize, visit: &mut impl FnMut(usize)) {
    let place = ports.row[at];
    for connection in &ports.connections[at] {
        let connection = ports.graph.connections[*connection];
        let (hop, output) = if place.output { (connection.to, false) } else { (connection.from, true) };
        visit(ports.index(hop, output));
    }
    let Some(class) = ports.class(place.hop.element).filter(|_| fixed[at].is_none()) else { return };
    for other in ports.of(place.hop.element, !place.output).filter(|other| fixed[*other].is_none()) {
        let (here, there) = (place.hop.port as usize, ports.row[other].hop.port as usize);
        let (input, output) = if place.output { (there, here) } else { (here, there) };
        if class.flow.leads(input, output) {
            visit(other);
        }
    }
}

/// The way back from a port to the settled one, this included.
fn way<T: Copy>(reached: &[Option<Reached<T>>], mut at: usize) -> Vec<usize> {
    let mut found = vec![at];
    while let Some(port) = reached[at].filter(|port| port.from != at) {
        at = port.from;
        found.push(at);
    }
    found
}

fn clash<T: Settled>(ports: &Ports<'_>, reached: &[Option<Reached<T>>], one: usize, other: usize) -> Diagnostic {
    let mut whole: Vec<usize> = way(reached, one);
    whole.reverse();
    whole.extend(way(reached, other));
    // In the direction of the items, where there is one.
    let is_output = |at: Option<&usize>| at.is_some_and(|at| ports.row[*at].output);
    if !is_output(whole.first()) && is_output(whole.last()) {
        whole.reverse();
    }
    let (Some(&first), Some(&last)) = (whole.first(), whole.last()) else {
        return Diagnostic::new(crate::span::Span::NOWHERE, "nothing meets", "");
    };
    let what = |at: usize| (reached[at].map_or(T::OTHERWISE, |port| port.what), ports.row[at].output);
    let (message, hint) = T::clash(what(first), what(last));
    let name = |at: usize| format!("'{}'", written(ports.element(ports.row[at]), ports.row[at]));
    let ends = [first, last].map(|at| format!("{} {}", name(at), what(at).0.does(what(at).1)));
    let mut between: Vec<&str> = Vec::new();
    for at in whole.get(1..whole.len() - 1).unwrap_or_default() {
        let name = ports.element(ports.row[*at]).name.as_str();
        if between.last() != Some(&name) {
            between.push(name);
        }
    }
    let label = match between.len() {
        0 => ends.join(", "),
        count => {
            between.truncate(NAMED_MAX);
            let more = if count > NAMED_MAX { ", …" } else { "" };
            format!("{}, by way of {}{more}", ends.join(", "), between.join(", "))
        }
    };
    let (one, other) = (ports.row[one], ports.row[other]);
    let (from, to) = if one.output { (one.hop, other.hop) } else { (other.hop, one.hop) };
    let connection =
        ports.graph.connections.iter().find(|it| it.from == from && it.to == to).filter(|_| one.output != other.output);
    let span = connection.map_or(ports.element(one).span, |connection| connection.span);
    let second = ports.element(ports.row[last]);
    Diagnostic::new(span, message, label).other(second.span, format!("declared here: {}", second.class)).hint(hint)
}
