//! AF_PACKET sockets (packet(7)): the frames of one interface.
//!
//! A filter lets only what an active node looks at into the socket; the socket sees what comes in, not what goes
//! out. What comes in is in a ring shared with the kernel. A socket for all Ethernet types is asked about every frame of the interface; one
//! for a type of its own costs the frames of other types nothing.

use super::bpf::Program;
use super::option::{option, set_option};
use super::ring::{self, ReceiveRing};
pub use super::ring::{BLOCK_MIN, RING, Room, Seen, least_ring};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Bytes of frames on their way out that the kernel may keep for the socket.
const SEND_BUFFER: libc::c_int = 8 << 20;

/// A raw socket on one interface.
pub struct PacketSocket {
    ring: ReceiveRing,
    fd: OwnedFd,
}

impl PacketSocket {
    /// Opens the interface with this index for frames of every type that pass the filter, of up to `longest` bytes.
    pub fn open(interface: u32, longest: usize, filter: &Program) -> io::Result<PacketSocket> {
        PacketSocket::of_type(interface, libc::ETH_P_ALL as u16, longest, Room::Much, Some(filter))
    }

    /// Opens it for frames of one Ethernet type that pass the filter, if there is one.
    pub fn of_type(
        interface: u32,
        kind: u16,
        longest: usize,
        room: Room,
        filter: Option<&Program>,
    ) -> io::Result<PacketSocket> {
        PacketSocket::over(open(interface, kind, longest, room, filter.map(AsFd::as_fd), None)?, longest, room)
    }

    /// The same over a socket that was [opened](open) so.
    pub fn over(fd: OwnedFd, longest: usize, room: Room) -> io::Result<PacketSocket> {
        Ok(PacketSocket { ring: ReceiveRing::of(fd.as_fd(), longest, room)?, fd })
    }

    /// Has another filter from now on: each frame passes the one or the other.
    pub fn set_filter(socket: BorrowedFd<'_>, filter: &Program) -> io::Result<()> {
        set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_BPF, &filter.as_fd().as_raw_fd())
    }

    /// Shows the next frame to `look`; false if there is none.
    #[inline]
    pub fn receive(&mut self, look: impl FnOnce(&[u8])) -> bool {
        self.ring.take(look)
    }

    /// Shows the next frame as it lies in the ring, whole or not; false if there is none.
    #[inline]
    pub fn see(&mut self, look: impl FnOnce(Seen<'_>)) -> bool {
        self.ring.see(look)
    }

    /// Frames since the last call that were too long for it, and are nobody's.
    pub fn cut_short(&mut self) -> u32 {
        self.ring.cut_short()
    }

    /// Frames the kernel has dropped since the last call because nobody took them.
    pub fn overflows(&self) -> io::Result<u32> {
        // SAFETY: all-zero bytes are a valid value of this C structure.
        let mut stats: libc::tpacket_stats = unsafe { core::mem::zeroed() };
        let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes into `stats`, which is that long.
        let done = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut stats).cast(),
                &raw mut length,
            )
        };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(stats.tp_drops) }
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The number of an interface in this namespace.
pub fn index(interface: &str) -> io::Result<u32> {
    use rustix::net::{AddressFamily, SocketType, netdevice::name_to_index, socket};
    Ok(name_to_index(socket(AddressFamily::UNIX, SocketType::DGRAM, None)?, interface)?)
}

/// A socket on an interface, with its ring: all of it that needs a privilege.
pub fn open(
    interface: u32,
    kind: u16,
    longest: usize,
    room: Room,
    filter: Option<BorrowedFd<'_>>,
    beside: Option<BorrowedFd<'_>>,
) -> io::Result<OwnedFd> {
    // SAFETY: socket(2) takes three integers; protocol 0 keeps frames out until the bind.
    let raw = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made and nobody else has it.
    let fd = unsafe { OwnedFd::from_raw_fd(raw) };
    if let Some(filter) = filter {
        set_option(fd.as_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_BPF, &filter.as_raw_fd())?;
    }
    set_option(fd.as_fd(), libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1)?;
    // The queueing discipline would be one more queue behind ours.
    set_option(fd.as_fd(), libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1)?;
    // Without the privilege the system's limit stays, which only makes bursts shorter.
    let _ = set_option(fd.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &SEND_BUFFER);
    ring::make(fd.as_fd(), longest, room)?;
    bind(fd.as_fd(), interface, kind)?;
    stay(fd.as_fd(), beside)?;
    Ok(fd)
}

/// Keeps a socket at its interface for good: whoever has it cannot bind it to another. The kernel refuses that to
/// members of a fanout group, which none leaves. One that is `beside` no other is the only one of its group, so all frames
/// are its own. Of several each has the frames of its receive queues: the *i*th of *n* has those of *i*, *i* + *n*, …. What a
/// socket alone says of outgoing frames a group must say again: kernels that do not know that would take the node's own
/// frames for its neighbours', so there a socket can be bound anew.
fn stay(socket: BorrowedFd<'_>, beside: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let kind = libc::PACKET_FANOUT_QM | libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING;
    let group = match beside {
        Some(other) => option(other, libc::SOL_PACKET, libc::PACKET_FANOUT)?.cast_unsigned() & 0xffff | kind << 16,
        None if !can_stay() => return Ok(()),
        None => (kind | libc::PACKET_FANOUT_FLAG_UNIQUEID) << 16,
    };
    set_option(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, &group)
}

/// Whether groups can leave outgoing frames out: since Linux 6.2.
pub fn can_stay() -> bool {
    let system = rustix::system::uname();
    let release = system.release().to_string_lossy();
    let mut numbers =
        release.split(|letter: char| !letter.is_ascii_digit()).map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(2))
}

fn bind(socket: BorrowedFd<'_>, interface: u32, kind: u16) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid value of this C structure.
    let mut addr: libc::sockaddr_ll = unsafe { core::mem::zeroed() };
    addr.sll_family = libc::AF_PACKET as u16;
    addr.sll_protocol = kind.to_be();
    addr.sll_ifindex = interface as i32;
    // SAFETY: the address is a whole sockaddr_ll and its length is given.
    let done = unsafe {
        libc::bind(socket.as_raw_fd(), (&raw const addr).cast(), size_of::<libc::sockaddr_ll>() as libc::socklen_t)
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::net::netdevice::name_to_index;
    use std::process::Command;

    /// A network of this thread's own: `own` and its other end `peer`, and `other` with another. False without the right to one.
    fn network() -> bool {
        // SAFETY: of what threads share only the network changes, of which this one has nothing open.
        if unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) }.is_err() {
            println!("SKIPPED: networks are root's to make");
            return false;
        }
        let ip =
            |words: &str| assert!(Command::new("ip").args(words.split(' ')).status().unwrap().success(), "{words}");
        ip("link add own type veth peer name peer");
        ip("link add other type veth peer name another");
        for name in ["own", "peer", "other", "another"] {
            // Without IPv6 nothing is sent but by this test.
            ip(&format!("link set {name} up addrgenmode none"));
        }
        true
    }

    fn index(name: &str) -> u32 {
        name_to_index(
            rustix::net::socket(rustix::net::AddressFamily::UNIX, rustix::net::SocketType::DGRAM, None).unwrap(),
            name,
        )
        .unwrap()
    }

    fn open_at(name: &str, kind: i32) -> OwnedFd {
        open(index(name), kind as u16, 1664, Room::Little, None, None).unwrap()
    }

    /// Whoever is handed one, as a process of an environment without a list of system calls, has it where the broker has put it.
    #[test]
    fn a_packet_socket_stays_at_its_interface() {
        if !network() {
            return;
        }
        if !can_stay() {
            println!("SKIPPED: this kernel lets whoever has a packet socket bind it anew");
            return;
        }
        let socket = open_at("own", libc::ETH_P_ALL);
        for (interface, kind) in [(index("other"), libc::ETH_P_ALL), (index("own"), libc::ETH_P_ARP), (0, 0)] {
            let refused = bind(socket.as_fd(), interface, kind as u16).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(libc::EINVAL), "{interface}");
        }
        // It hears what comes in by its own, and not what leaves.
        let mut socket = PacketSocket::over(socket, 1664, Room::Little).unwrap();
        let mut heard = Vec::new();
        for (from, first) in [("other", 1), ("own", 2), ("peer", 3)] {
            // Of a type that nobody has.
            let mut frame = [0xff; 60];
            frame[12..15].copy_from_slice(&[0x88, 0xb5, first]);
            assert_eq!(rustix::io::write(open_at(from, libc::ETH_P_ARP), &frame), Ok(frame.len()));
        }
        // The kernel may hand frames on later; the last one is behind all others.
        while heard.last() != Some(&3) {
            if !socket.receive(|frame| heard.push(frame[14])) {
                poll(&mut [PollFd::new(&socket, PollFlags::IN)], None).unwrap();
            }
        }
        assert_eq!(heard, [3]);
    }
}
