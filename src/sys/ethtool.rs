//! What a driver says of an interface, and lets be changed (`SIOCETHTOOL`).

use std::io;
use std::os::fd::{AsFd, AsRawFd};

const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_SFLAGS: u32 = 0x26;
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// `ETH_FLAG_RXVLAN`: the driver takes the tag off a frame that comes in, and tells of it beside the frame.
const RXVLAN: u32 = 1 << 8;

/// A structure of words of which the first is the command, as all of these are that have no addresses.
trait Words: Sized {}

/// `struct ethtool_value`.
#[repr(C)]
struct Flags([u32; 2]);
impl Words for Flags {}

/// `struct ethtool_channels`: command, four maxima, then receive, transmit, other and combined queues.
#[repr(C)]
struct Channels([u32; 9]);
impl Words for Channels {}

/// Asks the driver; nothing if it does not know the command.
fn ask<T: Words>(interface: &str, words: &mut T) -> io::Result<Option<()>> {
    // SAFETY: all-zero octets are a valid value of this C structure.
    let mut request: libc::ifreq = unsafe { core::mem::zeroed() };
    if interface.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    request.ifr_name.iter_mut().zip(interface.bytes()).for_each(|(place, octet)| *place = octet as libc::c_char);
    request.ifr_ifru.ifru_data = (&raw mut *words).cast();
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None)?;
    // SAFETY: the request names an interface and points to the structure of integers that this command fills, which has its
    // size; both outlive the call.
    let done = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    match io::Error::last_os_error() {
        _ if done >= 0 => Ok(Some(())),
        error if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(None),
        error => Err(error),
    }
}

/// Receive queues that an interface uses; one if it does not say.
pub fn queues(interface: &str) -> io::Result<u32> {
    let mut channels = Channels([ETHTOOL_GCHANNELS, 0, 0, 0, 0, 0, 0, 0, 0]);
    let known = ask(interface, &mut channels)?;
    Ok(known.map_or(1, |()| (channels.0[5] + channels.0[8]).max(1)))
}

/// Whether the driver takes VLAN tags off frames.
pub fn takes_tags(interface: &str) -> io::Result<bool> {
    let mut flags = Flags([ETHTOOL_GFLAGS, 0]);
    Ok(ask(interface, &mut flags)?.is_some() && flags.0[1] & RXVLAN != 0)
}

/// Has the driver take VLAN tags off frames or leave them; an error if it goes on as it did.
pub fn take_tags(interface: &str, take: bool) -> io::Result<()> {
    let mut flags = Flags([ETHTOOL_GFLAGS, 0]);
    ask(interface, &mut flags)?;
    let wanted = if take { flags.0[1] | RXVLAN } else { flags.0[1] & !RXVLAN };
    ask(interface, &mut Flags([ETHTOOL_SFLAGS, wanted]))?;
    if takes_tags(interface)? == take { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
}
