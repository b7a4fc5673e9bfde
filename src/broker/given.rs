//! Sockets of interfaces that the broker has given away: so many of each kind may be there at the same time, whoever asks for them.
//!
//! A packet socket has a ring, which is memory of the kernel's; a node that somebody else has taken over would have as many as it has descriptors.
//! Which are still there the kernel says by their numbers (`/proc/net/packet`, `/proc/net/raw6`): also of those that are on their way in a message, or
//! another process's by now.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::fd::AsFd;

/// Packet sockets of an interface: a port has three, and others while it is opened anew.
pub const PACKETS_MAX: usize = 12;

/// Sockets for neighbour advertisements of an interface: a port has one, and another while it is opened anew.
pub const DISCOVERIES_MAX: usize = 4;

/// A kind of sockets of which there are not many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// Packet sockets.
    Packet,
    /// Raw ICMPv6 sockets.
    Discovery,
}

impl Kind {
    fn most(self) -> usize {
        match self {
            Kind::Packet => PACKETS_MAX,
            Kind::Discovery => DISCOVERIES_MAX,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Packet => "packet sockets",
            Kind::Discovery => "sockets for neighbour advertisements",
        }
    }

    /// The numbers of all that there are in this network.
    fn living(self) -> io::Result<BTreeSet<u64>> {
        // Where in a line the number is: that of `raw6` is followed by others.
        let (path, at) = match self {
            Kind::Packet => ("/proc/thread-self/net/packet", 8),
            Kind::Discovery => ("/proc/thread-self/net/raw6", 9),
        };
        let text = std::fs::read_to_string(path)?;
        let number = |line: &str| line.split_whitespace().nth(at)?.parse().ok();
        Ok(text.lines().skip(1).filter_map(number).collect())
    }
}

/// What was given away.
#[derive(Debug, Default)]
pub(super) struct Given {
    numbers: HashMap<(Kind, u32), Vec<u64>>,
    refused: u64,
}

impl Given {
    /// Refuses one more where there are as many as there may be.
    pub fn check(&mut self, kind: Kind, interface: u32, name: &str) -> Result<(), String> {
        let had = self.numbers.entry((kind, interface)).or_default();
        // Only who has so many asks which of them are gone. Without an answer all are there.
        if had.len() >= kind.most()
            && let Ok(living) = kind.living()
        {
            had.retain(|number| living.contains(number));
        }
        if had.len() < kind.most() {
            return Ok(());
        }
        self.refused += 1;
        let (most, what, refused) = (kind.most(), kind.name(), self.refused);
        tracing::warn!(interface = name, refused, "the node asks for more {what} of an interface than a port has");
        Err(format!("{name} has {most} {what}, and there are at most that many"))
    }

    /// Remembers one.
    pub fn note(&mut self, kind: Kind, interface: u32, socket: impl AsFd) -> io::Result<()> {
        let number = rustix::fs::fstat(socket)?.st_ino;
        self.numbers.entry((kind, interface)).or_default().push(number);
        Ok(())
    }
}
