//! Limits on open sockets from the broker: so many of each kind at the same time, whoever asks for them.
//!
//! A packet socket has a ring in the kernel's memory, and others have deep buffers. A node under an attacker's control
//! would open as many as it has descriptors. The kernel lists the open ones by their numbers (`/proc/net/packet`,
//! `raw6`, `udp6`, `tcp`), or at least their count (`/proc/net/protocols`). It includes sockets on their way in a
//! message and those of other processes.

use crate::kernel::SOCKETS;
use crate::sys::threads::WORKERS_MAX;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

/// Packet sockets of an interface: a port has three, and others while it is opened anew.
pub const PACKETS_MAX: usize = 12 + 2 * WORKERS_MAX as usize;

/// Sockets for neighbour advertisements of an interface: a port has one, and another while it is opened anew.
pub const DISCOVERIES_MAX: usize = 4;

/// AF_XDP sockets of a node: as many as it may have, and others while they are opened anew.
pub const XDP_MAX: usize = 2 * SOCKETS as usize;

/// Sockets of an overlay port, and of PLAN ports: there is one.
pub const LISTENERS_MAX: usize = 4;

/// UDP sockets of one port: one for each worker, and those of before.
pub const UDP_MAX: usize = LISTENERS_MAX + WORKERS_MAX as usize;

/// A kind of sockets of which there are not many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// Packet sockets.
    Packet,
    /// Raw ICMPv6 sockets.
    Discovery,
    /// AF_XDP sockets.
    Xdp,
    /// UDP sockets.
    Udp,
    /// TCP sockets that listen.
    Tcp,
}

/// What has so many sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place {
    /// An interface.
    Interface(u32),
    /// Where a port listens.
    Address(SocketAddr),
    /// The node.
    Node,
}

/// What is known of the sockets of a kind that there are in this network.
enum Living {
    /// Their numbers.
    Numbers(BTreeSet<u64>),
    /// How many, those of others included.
    Count(usize),
}

impl Kind {
    fn most(self) -> usize {
        match self {
            Kind::Packet => PACKETS_MAX,
            Kind::Discovery => DISCOVERIES_MAX,
            Kind::Xdp => XDP_MAX,
            Kind::Udp => UDP_MAX,
            Kind::Tcp => LISTENERS_MAX,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Packet => "packet sockets",
            Kind::Discovery => "sockets for neighbour advertisements",
            Kind::Xdp => "AF_XDP sockets",
            Kind::Udp => "UDP sockets",
            Kind::Tcp => "TCP sockets that listen",
        }
    }

    /// What there is of it.
    fn living(self) -> io::Result<Living> {
        // Where in a line the number is: in those of the internet's protocols others follow it.
        let (files, at): (&[&str], _) = match self {
            Kind::Packet => (&["packet"], 8),
            Kind::Discovery => (&["raw6"], 9),
            Kind::Udp => (&["udp6", "udp"], 9),
            Kind::Tcp => (&["tcp6", "tcp"], 9),
            Kind::Xdp => return count("XDP").map(Living::Count),
        };
        let mut numbers = BTreeSet::new();
        for file in files {
            let text = match std::fs::read_to_string(format!("/proc/thread-self/net/{file}")) {
                Ok(text) => text,
                // A host without IPv6 has the other alone.
                Err(error) if error.kind() == io::ErrorKind::NotFound && files.len() > 1 => continue,
                Err(error) => return Err(error),
            };
            let number = |line: &str| line.split_whitespace().nth(at)?.parse::<u64>().ok();
            numbers.extend(text.lines().skip(1).filter_map(number));
        }
        Ok(Living::Numbers(numbers))
    }
}

/// How many sockets of a protocol there are in this network.
fn count(protocol: &str) -> io::Result<usize> {
    let text = std::fs::read_to_string("/proc/thread-self/net/protocols")?;
    let count = |line: &str| {
        let mut words = line.split_whitespace();
        if words.next() == Some(protocol) { words.nth(1)?.parse().ok() } else { None }
    };
    text.lines().find_map(count).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// The number that stands for a socket that is being opened: no socket has it.
const COMING: u64 = 0;

/// What was given away.
#[derive(Debug, Default)]
pub(super) struct Given {
    numbers: HashMap<(Kind, Place), Vec<u64>>,
    refused: u64,
}

impl Given {
    /// Has room for one more, or refuses it where there are as many as there may be.
    pub fn reserve(&mut self, kind: Kind, place: Place, name: &str) -> Result<(), String> {
        let had = self.numbers.entry((kind, place)).or_default();
        if had.len() >= kind.most() {
            // Only who has so many asks which of them are gone. Without an answer all are there.
            match kind.living() {
                Ok(Living::Numbers(living)) => had.retain(|number| *number == COMING || living.contains(number)),
                Ok(Living::Count(living)) => had.truncate(living),
                Err(_) => {}
            }
        }
        if had.len() < kind.most() {
            had.push(COMING);
            return Ok(());
        }
        self.refused += 1;
        let (most, what, refused) = (kind.most(), kind.name(), self.refused);
        tracing::warn!(at = name, refused, "the node asks for more {what} than it has use for");
        Err(format!("{name} has {most} {what}, and there are at most that many"))
    }

    /// Remembers one for which there was room; nothing: it has not come.
    pub fn note(&mut self, kind: Kind, place: Place, socket: Option<impl AsFd>) -> io::Result<()> {
        let had = self.numbers.entry((kind, place)).or_default();
        if let Some(at) = had.iter().position(|number| *number == COMING) {
            had.swap_remove(at);
        }
        if let Some(socket) = socket {
            had.push(rustix::fs::fstat(socket)?.st_ino);
        }
        Ok(())
    }
}
