//! AF_PACKET sockets (packet(7)): the frames of one interface.
//!
//! A classic BPF filter lets only what an active node looks at into the socket, so other traffic
//! costs it nothing; the socket sees what comes in, not what goes out. What comes in is in a ring shared with
//! the kernel.

use super::ring::ReceiveRing;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Octets of frames on their way out that the kernel may keep for the socket.
const SEND_BUFFER: libc::c_int = 8 << 20;

/// A raw socket on one interface.
pub struct PacketSocket {
    ring: ReceiveRing,
    fd: OwnedFd,
}

impl PacketSocket {
    /// Opens the interface with this index for frames that pass the filter, of up to `longest` octets;
    /// behind the `kernel` half also for those that it passes up.
    pub fn open(interface: u32, longest: usize, kernel: bool) -> io::Result<PacketSocket> {
        // SAFETY: socket(2) takes three integers; protocol 0 keeps frames out until the bind.
        let raw =
            unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just made and nobody else has it.
        let fd = unsafe { OwnedFd::from_raw_fd(raw) };
        attach_filter(fd.as_fd(), kernel)?;
        set_option(fd.as_fd(), libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1)?;
        // The queueing discipline would be one more queue behind ours.
        set_option(fd.as_fd(), libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1)?;
        // Without the privilege the system's limit stays, which only makes bursts shorter.
        let _ = set_option(fd.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &SEND_BUFFER);
        let ring = ReceiveRing::open(fd.as_fd(), longest)?;
        bind(fd.as_fd(), interface)?;
        Ok(PacketSocket { ring, fd })
    }

    /// Shows the next frame to `look`; false if there is none.
    #[inline]
    pub fn receive(&mut self, look: impl FnOnce(&[u8])) -> bool {
        self.ring.take(look)
    }

    /// Frames the kernel has dropped since the last call because nobody took them.
    pub fn overflows(&self) -> io::Result<u32> {
        // SAFETY: all-zero octets are a valid value of this C structure.
        let mut stats: libc::tpacket_stats = unsafe { core::mem::zeroed() };
        let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` octets into `stats`, which is that long.
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

fn bind(socket: BorrowedFd<'_>, interface: u32) -> io::Result<()> {
    // SAFETY: all-zero octets are a valid value of this C structure.
    let mut addr: libc::sockaddr_ll = unsafe { core::mem::zeroed() };
    addr.sll_family = libc::AF_PACKET as u16;
    addr.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    addr.sll_ifindex = interface as i32;
    // SAFETY: the address is a whole sockaddr_ll and its length is given.
    let done = unsafe {
        libc::bind(socket.as_raw_fd(), (&raw const addr).cast(), size_of::<libc::sockaddr_ll>() as libc::socklen_t)
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sets an option whose value the kernel takes as a C value of this very type.
pub(super) fn set_option<T>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: the kernel reads the value, whose length is given.
    let done = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const *value).cast(), size_of::<T>() as libc::socklen_t)
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn attach_filter(socket: BorrowedFd<'_>, kernel: bool) -> io::Result<()> {
    let mut filter = filter(kernel);
    // The program points to `filter`, which outlives the call; the kernel copies it.
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// The filter: untagged ARP, ICMPv6, IP protocol 107 and UDP to port 3322 that is no fragment, and not
/// for another host (an interface shows such frames while somebody captures on it). The
/// guard in front of the Linux stack (`bpf/guard.bpf.c`) takes the same capsules away from it. And what
/// the `kernel` half passes up (`bpf/contract.h`).
fn filter(kernel: bool) -> Vec<libc::sock_filter> {
    const PACKET_TYPE: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32;
    const VLAN_PRESENT: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_VLAN_TAG_PRESENT) as u32;
    let op = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let (load_half, load_byte) =
        (libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, libc::BPF_LD | libc::BPF_B | libc::BPF_ABS);
    let load_indirect = libc::BPF_LD | libc::BPF_H | libc::BPF_IND;
    let ip_length = libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH;
    let (equal, any) = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K);
    let give = libc::BPF_RET | libc::BPF_K;
    // Without a kernel half nothing comes up from it: the type of ARP, which is taken anyhow.
    let passed_up = if kernel { 0x88b5 } else { 0x0806 };
    // Jumps count from the instruction behind; 23 takes the frame, 24 leaves it.
    vec![
        op(load_byte, 0, 0, VLAN_PRESENT),               // 0
        op(equal, 0, 22, 0),                             // 1
        op(load_byte, 0, 0, PACKET_TYPE),                // 2
        op(equal, 20, 0, libc::PACKET_OTHERHOST as u32), // 3
        op(load_half, 0, 0, 12),                         // 4 ethertype
        op(equal, 17, 0, 0x0806),                        // 5 ARP: take
        op(equal, 0, 8, 0x0800),                         // 6 IPv4, else 15
        op(load_half, 0, 0, 20),                         // 7 fragment word
        op(any, 15, 0, 0x3fff),                          // 8
        op(load_byte, 0, 0, 23),                         // 9 protocol
        op(equal, 12, 0, 107),                           // 10
        op(equal, 0, 12, 17),                            // 11
        op(ip_length, 0, 0, 14),                         // 12
        op(load_indirect, 0, 0, 16),                     // 13 UDP destination port
        op(equal, 8, 9, 3322),                           // 14
        op(equal, 0, 6, 0x86dd),                         // 15 IPv6, else 22
        op(load_byte, 0, 0, 20),                         // 16 next header
        op(equal, 5, 0, 107),                            // 17
        op(equal, 4, 0, 58),                             // 18
        op(equal, 0, 4, 17),                             // 19
        op(load_half, 0, 0, 56),                         // 20
        op(equal, 1, 2, 3322),                           // 21
        op(equal, 0, 1, passed_up),                      // 22
        op(give, 0, 0, u32::MAX),                        // 23
        op(give, 0, 0, 0),                               // 24
    ]
}
