//! The applications' socket: a local program attaches to a port of the node, sends capsules and receives those for its
//! port.
//!
//! `apps.sock` in the node's run directory, sequenced packets. An application attaches to a port,
//! sends capsules and gets those delivered to its port. The messages (all numbers big endian):
//!
//! ```text
//! application ▶ node   01 port(16)      attach; port 0 takes any free one
//!                      02 capsule       header and payload; the node fills source and previous in
//!                      03               asks whether all before was taken in
//!                      04               tells from now on of each packet that ends here: 84, and 85 in the place of 8f
//!                      11 number(32)    attach to a PLAN port, to listen as the number if it is not 0
//!                      12 packet        a PLAN packet; the node fills source, port, session in
//!                      13 port(64)      close a connection
//! node ▶ application   81 port(16) address(128)
//!                      82 capsule       delivered
//!                      83               all before was taken in, or refused by now
//!                      84               it will be told
//!                      85 number(32) text   that packet of its own, from 1, has ended here, and why; once for each
//!                      8f text          the last message was refused, and why
//!                      90 port(64) session(128) address(128)…
//!                      91 port(64) text                      printed
//!                      92 port(64) packet                    delivered: the value is an argument of its chunk
//!                      93 port(64) host(128) number(32)      a connection was opened
//!                      94 port(64)                           a connection was closed
//! ```
//!
//! One connection, one port; it is free again when the connection ends. A connection that attaches to none in time is
//! closed. An application that does not read loses what comes for it, counted; it never holds the node up.

use super::connections::Counts;
use crate::core::reason::Reason;
use crate::frame::Sent;
use crate::frame::shares::Shares;
use crate::node::{Delivery, Node, SentEnd, Turn};
use crate::sys::poll::Poll;
use crate::sys::seqpacket::SeqPacket;
use crate::wire::{Addr, capsule};
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Attach to a port.
pub const ATTACH: u8 = 0x01;
/// Send a capsule.
pub const SEND: u8 = 0x02;
/// Ask whether all before was taken in.
pub const SETTLE: u8 = 0x03;
/// Ask to be told of packets that end here.
pub const TELL: u8 = 0x04;
/// It will be told.
pub const TELLS: u8 = 0x84;
/// A packet has ended here.
pub const ENDED: u8 = 0x85;
/// Attached.
pub const ATTACHED: u8 = 0x81;
/// A capsule was delivered.
pub const DELIVERED: u8 = 0x82;
/// All before was taken in, or refused by now.
pub const SETTLED: u8 = 0x83;
/// Refused.
pub const REFUSED: u8 = 0x8f;
/// Attach to a PLAN port.
pub const ATTACH_PLAN: u8 = 0x11;
/// Send a PLAN packet.
pub const SEND_PLAN: u8 = 0x12;
/// Close a connection to a PLAN port.
pub const CLOSE_PLAN: u8 = 0x13;
/// Attached to a PLAN port.
pub const ATTACHED_PLAN: u8 = 0x90;

/// Applications one node serves: fewer than the descriptors a process usually may have, since the
/// node's files and sockets need some too. Users have shares of them ([`Shares`]): half of them are there for one user alone.
pub const APPLICATIONS_MAX: u64 = 512;

/// Nanoseconds until a connection must be attached to a port; one that is may be silent.
const ATTACHING: u64 = 10_000_000_000;

/// Connections taken in one go.
const ACCEPTED_MAX: usize = 64;

/// Messages of one application taken in one go, so that one cannot keep the worker.
const TAKEN_MAX: usize = 64;

/// Bytes of the longest message.
const MESSAGE: usize = 65_536;

/// The first of the ports given to applications that want any.
const FIRST_FREE: u16 = 49_152;

/// Whose process is at the other end.
fn user_of(connection: &SeqPacket) -> Option<u32> {
    rustix::net::sockopt::socket_peercred(connection).ok().map(|peer| peer.uid.as_raw())
}

struct Application {
    connection: SeqPacket,
    /// Its user, as the kernel says.
    uid: u32,
    /// When it must be attached.
    until: u64,
    port: Option<u16>,
    plan: Option<u64>,
    /// Whether it is told of packets that end here.
    tells: bool,
    /// Packets it has sent.
    sent: u32,
    /// Those of which it was told last: several frames of one packet may end.
    told: VecDeque<u32>,
}

/// Packets that an application is not told of twice.
const TOLD_MAX: usize = 32;

impl Application {
    /// The number of its next packet; of none, if it wants no word of it.
    fn next(&mut self, by: u64) -> Sent {
        self.sent = self.sent.wrapping_add(1).max(1);
        Sent { by, number: if self.tells { self.sent } else { 0 } }
    }

    /// Whether it is to be told of this packet now.
    fn is_news(&mut self, number: u32) -> bool {
        if !self.tells || self.told.contains(&number) {
            return false;
        }
        if self.told.len() == TOLD_MAX {
            self.told.pop_front();
        }
        self.told.push_back(number);
        true
    }
}

/// The applications of a node.
pub struct Apps {
    socket: SeqPacket,
    /// Gives its descriptor up when there is none left, so that a connection can be taken and closed:
    /// one that nobody takes would wake the worker for ever.
    spare: Option<File>,
    applications: HashMap<u64, Application>,
    /// Who has how many.
    places: Shares<u32>,
    /// When the next connection must be attached.
    due: u64,
    counts: Arc<Counts>,
    by_port: HashMap<u16, u64>,
    by_plan: HashMap<u64, u64>,
    next_token: u64,
    next_port: u16,
    trace: u64,
    buffer: Vec<u8>,
}

impl Apps {
    /// Listens by this socket; applications have tokens from `first_token` up.
    pub fn on(socket: OwnedFd, first_token: u64, counts: Arc<Counts>) -> io::Result<Apps> {
        Ok(Apps {
            socket: SeqPacket::of(socket),
            spare: Some(File::open("/dev/null")?),
            applications: HashMap::new(),
            places: Shares::new(APPLICATIONS_MAX),
            due: u64::MAX,
            counts,
            by_port: HashMap::new(),
            by_plan: HashMap::new(),
            next_token: first_token,
            next_port: FIRST_FREE,
            trace: 0,
            buffer: vec![0; MESSAGE],
        })
    }

    /// The listening socket.
    pub fn socket(&self) -> &SeqPacket {
        &self.socket
    }

    /// Takes new connections.
    pub fn accept(&mut self, now: u64, poll: &Poll) {
        for _ in 0..ACCEPTED_MAX {
            let connection = match self.socket.accept() {
                Ok(connection) => connection,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => return self.turn_away(),
            };
            // Users are few: the socket is the node's own and root's.
            let Some(uid) = user_of(&connection).filter(|uid| self.places.take(*uid, 1)) else {
                self.counts.refused();
                let _ = connection.send(&refusal("too many applications of your user are attached to this node"));
                continue;
            };
            if poll.add(&connection, self.next_token).is_err() {
                self.places.give(uid, 1);
                continue;
            }
            let until = now + ATTACHING;
            self.applications.insert(
                self.next_token,
                Application {
                    connection,
                    uid,
                    until,
                    port: None,
                    plan: None,
                    tells: false,
                    sent: 0,
                    told: VecDeque::new(),
                },
            );
            self.due = self.due.min(until);
            self.next_token += 1;
        }
    }

    /// Closes connections that have not attached in time.
    pub fn look_after(&mut self, now: u64, poll: &Poll, node: &mut Node) {
        if now < self.due {
            return;
        }
        let mut silent = Vec::new();
        self.due = u64::MAX;
        for (token, application) in &self.applications {
            match (application.port, application.plan) {
                (None, None) if application.until <= now => silent.push(*token),
                (None, None) => self.due = self.due.min(application.until),
                _ => {}
            }
        }
        for token in silent {
            self.counts.silent();
            self.answer(token, &refusal("you have not attached to a port in time"));
            self.end(token, poll, node);
        }
    }

    /// No connection can be had: closes the one that waits.
    #[cold]
    fn turn_away(&mut self) {
        self.spare = None;
        drop(self.socket.accept());
        self.spare = File::open("/dev/null").ok();
    }

    /// Takes the messages of one application.
    pub fn receive(&mut self, token: u64, poll: &Poll, node: &mut Node, turn: &mut Turn<'_>) {
        for _ in 0..TAKEN_MAX {
            let Some(application) = self.applications.get(&token) else { return };
            match application.connection.receive(&mut self.buffer) {
                Ok(0) => return self.end(token, poll, node),
                Ok(length) => {
                    if let Err(why) = self.message(token, length, node, turn) {
                        self.answer(token, &refusal(&why));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => return self.end(token, poll, node),
            }
        }
    }

    /// Hands a delivered capsule to its application.
    pub fn deliver(&mut self, delivery: Delivery, node: &mut Node, turn: &mut Turn<'_>) {
        let Delivery { port, mut frame } = delivery;
        let application = self.by_port.get(&port).and_then(|token| self.applications.get(token));
        let Some(application) = application else {
            return node.refused_by_application(turn, frame, Reason::NoApplication);
        };
        if let Some(room) = frame.prepend(1) {
            room[0] = DELIVERED;
        }
        match application.connection.send(frame.bytes()) {
            Ok(()) => turn.out.pool.give(frame),
            Err(_) => node.refused_by_application(turn, frame, Reason::ApplicationFull),
        }
    }

    /// Hands a message to the application at a PLAN port.
    pub fn tell(&mut self, port: u64, message: &[u8], node: &mut Node, turn: &mut Turn<'_>) {
        let application = self.by_plan.get(&port).and_then(|token| self.applications.get(token));
        let reason = match application.map(|application| application.connection.send(message)) {
            Some(Ok(())) => return,
            Some(Err(_)) => Reason::ApplicationFull,
            None => Reason::NoPlanApplication,
        };
        node.untold(turn, reason);
    }

    /// Tells the application whose packet has ended here. One that does not read is told nothing.
    pub fn refused(&mut self, refusal: SentEnd) {
        let SentEnd { sent, reason, trap } = refusal;
        let Some(application) = self.applications.get_mut(&sent.by).filter(|_| sent.is_awaited()) else { return };
        if !application.is_news(sent.number) {
            return;
        }
        let mut message = vec![ENDED];
        message.extend(sent.number.to_be_bytes());
        message.extend(reason.name().bytes());
        message.extend(b": ");
        message.extend(reason.help().bytes());
        if let Some(trap) = trap {
            let place = trap.place.map(|(function, byte)| format!(", in function {function} at its byte {byte}"));
            let place = place.unwrap_or_default();
            message.extend(format!(" ({}{place}; anode node log says the line)", trap.kind).bytes());
        }
        // One that does not read its answers has itself to blame.
        let _ = application.connection.send(&message);
    }

    /// What became of a packet at once: whoever wants to be told of ends is told of this one alike.
    fn answer_sent(&mut self, sent: Sent, injected: Result<(), Reason>) -> Result<(), String> {
        match injected {
            Err(reason) if sent.is_awaited() => {
                self.refused(SentEnd { sent, reason, trap: None });
                Ok(())
            }
            injected => injected.map_err(|reason| format!("{}: {}", reason.name(), reason.help())),
        }
    }

    fn message(&mut self, token: u64, length: usize, node: &mut Node, turn: &mut Turn<'_>) -> Result<(), String> {
        match self.buffer[..length] {
            [ATTACH, high, low] => self.attach(token, u16::from_be_bytes([high, low]), node),
            [SEND, ..] => {
                if self.applications.get(&token).is_none_or(|application| application.port.is_none()) {
                    return Err("attach to a port first".into());
                }
                let mut frame = turn.out.pool.take();
                if length - 1 > frame.capacity() || length - 1 < capsule::HEADER {
                    turn.out.pool.give(frame);
                    return Err(format!("a capsule has {} to {} bytes", capsule::HEADER, crate::frame::FRAME));
                }
                frame.fill(&self.buffer[1..length]);
                self.trace += 1;
                frame.trace = self.trace;
                let sent =
                    self.applications.get_mut(&token).map_or(Sent::default(), |application| application.next(token));
                frame.sent = sent;
                let injected = node.inject(turn, frame);
                self.answer_sent(sent, injected)
            }
            [TELL] => {
                self.applications.get_mut(&token).into_iter().for_each(|application| application.tells = true);
                self.answer(token, &[TELLS]);
                Ok(())
            }
            [SETTLE] => {
                self.answer(token, &[SETTLED]);
                Ok(())
            }
            [ATTACH_PLAN, a, b, c, d] => self.attach_plan(token, u32::from_be_bytes([a, b, c, d]), node, turn),
            [SEND_PLAN, ..] => {
                let port = self.applications.get(&token).and_then(|application| application.plan);
                let port = port.ok_or("attach to a PLAN port first")?;
                let sent =
                    self.applications.get_mut(&token).map_or(Sent::default(), |application| application.next(token));
                let packet = &mut self.buffer[1..length];
                let injected = node.inject_plan_of(turn, port, packet, sent);
                self.answer_sent(sent, injected)
            }
            [CLOSE_PLAN, ..] if length == 9 => {
                let port = self.applications.get(&token).and_then(|application| application.plan);
                let closing = self.buffer[1..9].iter().fold(0, |port, byte| port << 8 | u64::from(*byte));
                port.into_iter().for_each(|port| node.close_plan(port, closing));
                Ok(())
            }
            _ => Err(
                "unknown message; known are 01 and 11 (attach), 02 and 12 (send), 03 (settle), 04 (tell), 13 (close)"
                    .into(),
            ),
        }
    }

    fn attach_plan(&mut self, token: u64, number: u32, node: &mut Node, turn: &mut Turn<'_>) -> Result<(), String> {
        let Some(application) = self.applications.get_mut(&token) else { return Ok(()) };
        if application.plan.is_some() {
            return Err("already attached to a PLAN port".into());
        }
        let seat = node.attach_plan(turn, number)?;
        application.plan = Some(seat.port);
        self.by_plan.insert(seat.port, token);
        let mut answer = vec![ATTACHED_PLAN];
        answer.extend(seat.port.to_be_bytes());
        answer.extend(seat.session);
        node.addresses().iter().for_each(|addr| answer.extend(addr.0));
        self.answer(token, &answer);
        Ok(())
    }

    fn attach(&mut self, token: u64, wanted: u16, node: &mut Node) -> Result<(), String> {
        let Some(application) = self.applications.get_mut(&token) else { return Ok(()) };
        if let Some(port) = application.port {
            return Err(format!("already attached to port {port}"));
        }
        let port = if wanted == 0 { free_port(&self.by_port, &mut self.next_port) } else { Some(wanted) };
        let port = port.ok_or("no application port is free")?;
        if !node.open(port) {
            return Err(format!("application port {port} is in use"));
        }
        application.port = Some(port);
        self.by_port.insert(port, token);
        let mut answer = vec![ATTACHED];
        answer.extend(port.to_be_bytes());
        answer.extend(node.address().unwrap_or(Addr::UNSPECIFIED).0);
        self.answer(token, &answer);
        Ok(())
    }

    fn answer(&self, token: u64, message: &[u8]) {
        if let Some(application) = self.applications.get(&token) {
            // One that does not read its answers has itself to blame.
            let _ = application.connection.send(message);
        }
    }

    fn end(&mut self, token: u64, poll: &Poll, node: &mut Node) {
        if let Some(application) = self.applications.remove(&token) {
            let _ = poll.remove(&application.connection);
            self.places.give(application.uid, 1);
            if let Some(port) = application.port {
                self.by_port.remove(&port);
                node.close(port);
            }
            if let Some(port) = application.plan {
                self.by_plan.remove(&port);
                node.detach_plan(port);
            }
        }
    }
}

fn refusal(why: &str) -> Vec<u8> {
    let mut message = vec![REFUSED];
    message.extend(why.bytes());
    message
}

fn free_port(used: &HashMap<u16, u64>, next: &mut u16) -> Option<u16> {
    for _ in FIRST_FREE..u16::MAX {
        let port = *next;
        *next = if port >= u16::MAX - 1 { FIRST_FREE } else { port + 1 };
        if !used.contains_key(&port) {
            return Some(port);
        }
    }
    None
}

#[cfg(test)]
mod tests;
