//! Records of several nodes as one history, as a simulation writes one, so that [`explain`] can tell it.
//!
//! A packet gets one number over all nodes. It keeps it where a frame comes in with the identity of one that has left another node
//! before, the first such one; what comes in otherwise, or is sent by an application, is a new packet.

use super::passed::{Met, Passed, PassedFrames};
use crate::seen::look::{Identity, Look, original};
use crate::seen::record::{Happened, Kernel, NO_PORT, Record, Told, kernel};
use crate::sim::explain;
use crate::sim::trace::{Carried, Entry, What};
use std::collections::{HashMap, VecDeque};

/// Records kept: the oldest go first.
const KEPT_MAX: usize = 200_000;

/// What is kept of a record.
enum Item {
    Came(u16, Look),
    Leaves(Look, usize),
    Happened(Happened),
    Kernel {
        port: u16,
        out: u16,
        done: u8,
        reason: u16,
        before: Look,
        after: Option<(Look, usize)>,
    },
    /// It came in by a port, and so many copies of it leave, known by a mark.
    Copied(u16, Look, Mark, u16),
    /// One of them leaves by a port.
    Copy(u16, Mark, Look, usize),
}

/// What copies in a kernel half are known by.
type Mark = [u8; kernel::MARK];

struct Kept {
    /// Nanoseconds of the host's monotonic clock.
    at: u64,
    node: usize,
    trace: u64,
    item: Item,
}

/// A node that is followed.
pub(super) struct Place {
    pub(super) name: String,
    /// When its clock began, by the host's monotonic clock.
    pub(super) origin: u64,
    /// Of each port, whether its frames are Ethernet frames.
    pub(super) ethernet: Vec<bool>,
}

/// What has been heard of all nodes.
pub(super) struct History {
    places: Vec<Place>,
    kept: VecDeque<Kept>,
    passed: PassedFrames,
}

/// A frame of which the story is wanted: its node, when it was there, and its identity.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    pub(super) node: usize,
    pub(super) at: u64,
    pub(super) identity: Option<Identity>,
}

impl History {
    pub(super) fn new(places: Vec<Place>) -> History {
        History { places, kept: VecDeque::new(), passed: PassedFrames::default() }
    }

    /// The frames of kernel halves in a story, as far as they are still kept.
    pub(super) fn passed(&self, story: &[Entry]) -> Vec<Passed> {
        self.passed.of(story, |node| self.places.get(node).map(|place| place.name.as_str()))
    }

    /// A frame of a kernel half has met engines.
    pub(super) fn note(&mut self, passed: &Passed, met: Met) {
        self.passed.note(passed, met);
    }

    /// Takes a record of a node.
    pub(super) fn take(&mut self, node: usize, record: &Record<'_>) {
        if let (Told::Kernel(told), Some(place)) = (&record.what, self.places.get(node)) {
            self.passed.keep(node, place.origin + record.at, told);
        }
        let Some(place) = self.places.get(node) else { return };
        let look =
            |port: u16, bytes: &[u8]| Look::at(place.ethernet.get(usize::from(port)).copied().unwrap_or(true), bytes);
        let item = match &record.what {
            Told::Frame(true, port, bytes) => Item::Came(*port, look(*port, &original(bytes.to_vec()).0)),
            Told::Frame(false, port, bytes) => Item::Leaves(look(*port, bytes), bytes.len()),
            Told::Happened(happened) => Item::Happened(happened.clone()),
            Told::Kernel(Kernel { done: kernel::COPIED, port, reason, before, after, .. }) if !after.is_empty() => {
                let Some(mark) = after.first_chunk() else { return };
                Item::Copied(*port, look(*port, before), *mark, *reason)
            }
            Told::Kernel(Kernel { done: kernel::COPY, port, before, after, .. }) => {
                let Some(mark) = before.first_chunk() else { return };
                Item::Copy(*port, *mark, look(*port, after), after.len())
            }
            Told::Kernel(Kernel { done, port, out, reason, before, after }) => {
                // What goes up to the user half has the port that it came by.
                let out_or_in = if *done == kernel::RAISED { *port } else { *out };
                let look_after = || (look(out_or_in, &original(after.to_vec()).0), after.len());
                let after = (!after.is_empty()).then(look_after);
                Item::Kernel {
                    port: *port,
                    out: *out,
                    done: *done,
                    reason: *reason,
                    before: look(*port, before),
                    after,
                }
            }
            Told::Missed(..) | Told::Unknown => return,
        };
        self.kept.push_back(Kept { at: place.origin + record.at, node, trace: record.trace, item });
        if self.kept.len() > KEPT_MAX {
            self.kept.pop_front();
        }
    }

    /// The story of a frame's packet, and whether it has ended; nothing: it is not known.
    pub(super) fn story(&self, wanted: Wanted) -> Option<(Vec<Entry>, bool)> {
        let at = self.places.get(wanted.node)?.origin + wanted.at;
        let mut order: Vec<&Kept> = self.kept.iter().collect();
        // Stable: what a node says at one time stays in its order.
        order.sort_by_key(|kept| kept.at);
        let mut told = Numbers { places: &self.places, passed: Some(&self.passed), ..Numbers::default() };
        order.iter().for_each(|kept| told.take(kept, at, &wanted));
        let packet = told.packet?;
        let mut entries: Vec<Entry> = told.entries.into_iter().flatten().collect();
        entries.sort_by_key(|entry| entry.at);
        let lines: Vec<String> = entries.iter().filter_map(|entry| serde_json::to_string(entry).ok()).collect();
        let lines = lines.join("\n");
        let story = explain::story(packet, || Ok(lines.as_bytes())).ok()?;
        let ends = |entry: &Entry| matches!(entry.what, What::Delivered { .. } | What::Dropped { .. });
        let has_ended = story.iter().any(|entry| entry.packet == packet && ends(entry));
        Some((story, has_ended))
    }
}

/// A frame on a link: its packet, when and where it left, its bytes.
struct Afloat {
    packet: u64,
    at: u64,
    node: usize,
    bytes: usize,
}

#[derive(Default)]
struct Numbers<'a> {
    places: &'a [Place],
    passed: Option<&'a PassedFrames>,
    /// By node and number there.
    packets: HashMap<(usize, u64), u64>,
    afloat: HashMap<Identity, VecDeque<Afloat>>,
    /// What the kernel half of a node has handed to its user half.
    raised: HashMap<(usize, Identity), u64>,
    /// What the kernel half of a node makes copies of, and how many.
    copied: HashMap<(usize, Mark), (u64, u16)>,
    /// Packets that were sent by applications and have not left yet: when, by which node, and the place of the entry.
    injected: HashMap<u64, (u64, usize, usize)>,
    last: u64,
    /// Nothing: what is not known yet.
    entries: Vec<Option<Entry>>,
    packet: Option<u64>,
}

impl Numbers<'_> {
    fn new_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn number(&mut self, node: usize, trace: u64) -> u64 {
        if trace == 0 {
            return 0;
        }
        if let Some(known) = self.packets.get(&(node, trace)) {
            return *known;
        }
        let number = self.new_number();
        self.packets.insert((node, trace), number);
        number
    }

    fn say(&mut self, at: u64, node: usize, packet: u64, what: What) {
        let entry = self.entry(at, node, packet, what);
        self.entries.push(Some(entry));
    }

    fn entry(&self, at: u64, node: usize, packet: u64, what: What) -> Entry {
        let name = self.places.get(node).map_or(String::new(), |place| place.name.clone());
        Entry { at, node: name, packet, what }
    }

    fn take(&mut self, kept: &Kept, at: u64, wanted: &Wanted) {
        let Kept { at: now, node, trace, item } = kept;
        let (now, node) = (*now, *node);
        let is_wanted = |look: &Look| (now, node) == (at, wanted.node) && look.identity == wanted.identity;
        match item {
            Item::Came(port, look) => {
                let raised = look.identity.and_then(|identity| self.raised.remove(&(node, identity)));
                let packet = raised.unwrap_or_else(|| self.comes(now, node, look));
                self.packets.insert((node, *trace), packet);
                if raised.is_none() {
                    self.say(now, node, packet, What::Received { port: *port });
                }
                if is_wanted(look) {
                    self.packet.get_or_insert(packet);
                }
            }
            Item::Leaves(look, bytes) => {
                let packet = self.number(node, *trace);
                self.leaves(now, node, packet, look, *bytes);
                if is_wanted(look) && packet != 0 {
                    self.packet.get_or_insert(packet);
                }
            }
            Item::Happened(happened) => self.happened(now, node, *trace, happened),
            Item::Copied(port, look, mark, copies) => {
                let packet = self.comes(now, node, look);
                self.say(now, node, packet, What::Received { port: *port });
                self.copied.insert((node, *mark), (packet, *copies));
                if is_wanted(look) {
                    self.packet.get_or_insert(packet);
                }
            }
            Item::Copy(port, mark, look, bytes) => {
                let packet = self.copy_leaves(now, node, (*port, mark, look, *bytes));
                if is_wanted(look) {
                    self.packet.get_or_insert(packet);
                }
            }
            Item::Kernel { port, out, done, reason, before, after } => {
                let packet = self.comes(now, node, before);
                self.say(now, node, packet, What::Received { port: *port });
                let met = self.passed.map_or(Vec::new(), |passed| passed.told(node, now));
                met.into_iter().for_each(|what| self.say(now, node, packet, what));
                match (*done, after) {
                    (kernel::SENT, Some((look, bytes))) => {
                        let to = look.ends.map_or(crate::wire::Addr::UNSPECIFIED, |(_, to)| to);
                        self.say(now, node, packet, What::Forwarded { port: *out, to });
                        self.leaves(now, node, packet, look, *bytes);
                    }
                    (kernel::RAISED, Some((Look { identity: Some(identity), .. }, _))) => {
                        self.raised.insert((node, *identity), packet);
                    }
                    (kernel::DROPPED, _) => {
                        let reason = crate::seen::join::reason(*reason).into();
                        self.say(now, node, packet, What::Dropped { reason });
                    }
                    _ => self.say(
                        now,
                        node,
                        packet,
                        What::Forwarded { port: NO_PORT, to: crate::wire::Addr::UNSPECIFIED },
                    ),
                }
                if is_wanted(before) || after.as_ref().is_some_and(|(look, _)| is_wanted(look)) {
                    self.packet.get_or_insert(packet);
                }
            }
        }
    }

    /// A copy leaves: a child of what it was made of, unless it is the only one.
    fn copy_leaves(&mut self, now: u64, node: usize, (port, mark, look, bytes): (u16, &Mark, &Look, usize)) -> u64 {
        let packet = match self.copied.get(&(node, *mark)) {
            Some((parent, 1)) => *parent,
            Some((parent, _)) => {
                let (parent, child) = (*parent, self.new_number());
                self.say(now, node, parent, What::Child { child });
                child
            }
            None => self.new_number(),
        };
        let to = look.ends.map_or(crate::wire::Addr::UNSPECIFIED, |(_, to)| to);
        self.say(now, node, packet, What::Forwarded { port, to });
        self.leaves(now, node, packet, look, bytes);
        packet
    }

    /// The packet that a frame is which comes in: one that is on its way, or a new one.
    fn comes(&mut self, now: u64, node: usize, look: &Look) -> u64 {
        let floating = look.identity.and_then(|identity| self.afloat.get_mut(&identity));
        let from_another = |afloat: &Afloat| afloat.node != node;
        let found = floating.and_then(|list| {
            let place = list.iter().position(from_another)?;
            list.remove(place)
        });
        let Some(Afloat { packet, at, node: from, bytes }) = found else { return self.new_number() };
        if packet == 0 {
            return self.new_number();
        }
        let to = self.places.get(node).map_or(String::new(), |place| place.name.clone());
        self.say(at, from, packet, What::Sent { carries: Carried::Capsule, to, bytes, arrives: now });
        packet
    }

    fn leaves(&mut self, now: u64, node: usize, packet: u64, look: &Look, bytes: usize) {
        if let Some((at, from, place)) = self.injected.remove(&packet)
            && let (Some(code), Some((source, destination))) = (look.code, look.ends)
        {
            // The hop that was spent here it had when it was sent.
            let bound = look.bound.unwrap_or(0).saturating_add(1);
            let what = What::Injected { code: code.to_string(), source, destination, bound, bytes };
            self.entries[place] = Some(self.entry(at, from, packet, what));
        }
        if let Some(identity) = look.identity {
            self.afloat.entry(identity).or_default().push_back(Afloat { packet, at: now, node, bytes });
        }
    }

    fn happened(&mut self, now: u64, node: usize, trace: u64, happened: &Happened) {
        let packet = self.number(node, trace);
        let what = match happened {
            // The frame says so itself; and who pays is not told.
            Happened::Received(_) | Happened::Charged(_) => return,
            Happened::Injected => {
                self.injected.insert(packet, (now, node, self.entries.len()));
                self.entries.push(None);
                return;
            }
            Happened::Waiting(code) => What::Waiting { code: code.to_string() },
            Happened::Requested(object, parts) => What::Requested { object: object.to_string(), parts: *parts },
            Happened::Served(object, parts) => What::Served { object: object.to_string(), parts: *parts },
            Happened::Arrived(object) => What::Arrived { object: object.to_string() },
            Happened::Ready(code) => What::Ready { code: code.to_string() },
            Happened::Ran(steps) => What::Ran { steps: *steps },
            Happened::Child(child) => What::Child { child: self.number(node, *child) },
            Happened::Forwarded(port, to) => What::Forwarded { port: *port, to: *to },
            Happened::Delivered(port) => What::Delivered { port: *port },
            Happened::Clamped(port, bound) => What::Clamped { port: *port, bound: *bound },
            Happened::Dropped(reason) => What::Dropped { reason: reason.clone() },
            Happened::Met(graph, engine) => What::Met { graph: graph.clone(), engine: engine.clone(), kernel: false },
        };
        self.say(now, node, packet, what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Addr;

    fn place(name: &str, origin: u64) -> Place {
        Place { name: name.into(), origin, ethernet: vec![true] }
    }

    fn kept(at: u64, node: usize, trace: u64, item: Item) -> Kept {
        Kept { at, node, trace, item }
    }

    #[test]
    fn copies_are_children_of_what_they_were_made_of_and_a_single_one_is_the_packet() {
        let look = |at: u8| Look { identity: Some(Identity([at; 8])), ..Look::default() };
        let mut history = History::new(vec![place("a", 0), place("b", 0)]);
        for (at, mark, copies) in [(10, 1, 2), (20, 2, 1)] {
            history.kept.push_back(kept(at, 0, 0, Item::Copied(0, look(at as u8), [mark; 12], copies)));
            for copy in 1..=u64::from(copies) {
                let identity = look((at + copy) as u8);
                history.kept.push_back(kept(at + copy, 0, 0, Item::Copy(copy as u16, [mark; 12], identity, 60)));
            }
        }
        history.kept.push_back(kept(30, 1, 9, Item::Came(0, look(12))));
        let story = |node, at, identity| history.story(Wanted { node, at, identity: look(identity).identity });
        let child = explain::words(&story(1, 30, 12).unwrap().0);
        for part in ["comes in by port 0", "its code sends child 3", "goes on by port 2 towards", "is on the link to b"]
        {
            assert!(child.contains(part), "{part}: {child}");
        }
        let alone = explain::words(&story(0, 20, 20).unwrap().0);
        assert!(alone.contains("goes on by port 1 towards") && !alone.contains("child"), "{alone}");
    }

    #[test]
    fn a_packet_keeps_its_number_over_nodes_and_two_of_one_identity_stay_two() {
        let look = |at: u8| Look { identity: Some(Identity([at; 8])), ..Look::default() };
        let mut history = History::new(vec![place("a", 0), place("b", 100)]);
        let to = Addr::UNSPECIFIED;
        for (at, trace) in [(1, 5), (2, 6)] {
            history.kept.push_back(kept(at, 0, trace, Item::Came(0, look(1))));
            history.kept.push_back(kept(at, 0, trace, Item::Happened(Happened::Forwarded(0, to))));
            history.kept.push_back(kept(at, 0, trace, Item::Leaves(look(2), 60)));
        }
        history.kept.push_back(kept(110, 1, 5, Item::Came(0, look(2))));
        history.kept.push_back(kept(111, 1, 6, Item::Came(0, look(2))));
        history.kept.push_back(kept(112, 1, 6, Item::Happened(Happened::Dropped("no-route".into()))));
        let story = |node, at, identity| history.story(Wanted { node, at, identity: look(identity).identity });
        let (second, has_ended) = story(0, 2, 1).unwrap();
        assert!(has_ended);
        let words = explain::words(&second);
        assert!(words.contains("is on the link to b, 60 bytes, there in 0.000109 ms"), "{words}");
        assert!(
            words.lines().last().unwrap().contains("b          packet 2           is dropped, no-route: "),
            "{words}"
        );
        assert!(words.lines().all(|line| line.contains("packet 2")), "{words}");
        let (first, has_ended) = story(1, 10, 2).unwrap();
        assert!(!has_ended && first.iter().all(|entry| entry.packet == 1), "the same packet, seen at the second node");
        assert!(story(1, 10, 1).is_none());
    }
}
