//! Settings and features of a driver's interface, read and changed (`SIOCETHTOOL`).

use std::io;
use std::os::fd::{AsFd, AsRawFd};

const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_SFLAGS: u32 = 0x26;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSTATS: u32 = 0x1d;
const ETHTOOL_GSSET_INFO: u32 = 0x37;

/// `ETH_SS_STATS`, and `ETH_GSTRING_LEN`.
const STATISTICS: u32 = 1;
const NAME: usize = 32;

/// Statistics of an interface that are looked at, at most: more say nothing.
const STATISTICS_MAX: usize = 16_384;

const ETHTOOL_GTSO: u32 = 0x1e;
const ETHTOOL_GGRO: u32 = 0x2b;
const ETHTOOL_SGRO: u32 = 0x2c;

/// `ETH_FLAG_LRO`: the driver joins segments of a flow.
const LRO: u32 = 1 << 15;

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

/// `struct ethtool_sset_info` with room for the size of one set.
#[repr(C, align(8))]
struct Sets([u32; 5]);
impl Words for Sets {}

/// Asks the driver; nothing if it does not know the command.
fn ask<T: Words>(interface: &str, words: &mut T) -> io::Result<Option<()>> {
    // SAFETY: the structure is what its command fills, and has its size.
    unsafe { ask_at(interface, (&raw mut *words).cast()) }
}

/// Asks the driver.
///
/// # Safety
/// `words` must point to the structure of integers that the command in its first word fills, with room for all that is filled.
unsafe fn ask_at(interface: &str, words: *mut libc::c_char) -> io::Result<Option<()>> {
    // SAFETY: all-zero bytes are a valid value of this C structure.
    let mut request: libc::ifreq = unsafe { core::mem::zeroed() };
    if interface.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    request.ifr_name.iter_mut().zip(interface.bytes()).for_each(|(place, byte)| *place = byte as libc::c_char);
    request.ifr_ifru.ifru_data = words;
    let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::DGRAM, None)?;
    // SAFETY: the request names an interface and points to what the caller has promised; both outlive the call.
    let done = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    match io::Error::last_os_error() {
        _ if done >= 0 => Ok(Some(())),
        error if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(None),
        error => Err(error),
    }
}

/// The name of an interface.
pub fn name(interface: u32) -> io::Result<String> {
    let mut name = [0u8; libc::IF_NAMESIZE];
    // SAFETY: the kernel's name of an interface has room in so many bytes, its end included.
    if unsafe { libc::if_indextoname(interface, name.as_mut_ptr().cast()) }.is_null() {
        return Err(io::Error::last_os_error());
    }
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    Ok(String::from_utf8_lossy(&name[..end]).into_owned())
}

/// What the driver counts, under its own names; empty if it counts nothing.
pub fn statistics(interface: &str) -> io::Result<Vec<(String, u64)>> {
    let mut sets = Sets([ETHTOOL_GSSET_INFO, 0, 1 << STATISTICS, 0, 0]);
    let known = ask(interface, &mut sets)?;
    let count = known.map_or(0, |()| sets.0[4] as usize);
    if count == 0 || count > STATISTICS_MAX {
        return Ok(Vec::new());
    }
    // The kernel writes as many as there are at that moment, which may be more: a driver has more with each queue.
    let room = (2 * STATISTICS_MAX).max(4 * count);
    let mut names = vec![0u64; 2 + room * NAME / 8];
    let mut values = vec![0u64; 1 + room];
    put(&mut names, &[ETHTOOL_GSTRINGS, STATISTICS, count as u32]);
    put(&mut values, &[ETHTOOL_GSTATS, count as u32]);
    // SAFETY: both structures have room for more entries than any driver has while it was asked twice.
    let done =
        unsafe { (ask_at(interface, names.as_mut_ptr().cast())?, ask_at(interface, values.as_mut_ptr().cast())?) };
    if done.0.is_none() || done.1.is_none() {
        return Ok(Vec::new());
    }
    let names: Vec<u8> = names.iter().flat_map(|word| word.to_ne_bytes()).skip(12).collect();
    let text = |name: &[u8]| String::from_utf8_lossy(name.split(|byte| *byte == 0).next().unwrap_or(name)).into_owned();
    Ok(names.chunks_exact(NAME).take(count).map(text).zip(values.into_iter().skip(1)).collect())
}

/// Whether it is one end of a pair of virtual interfaces: their driver alone counts the number of the other end.
pub fn is_veth(interface: &str) -> bool {
    statistics(interface).is_ok_and(|all| all.iter().any(|(name, _)| name == "peer_ifindex"))
}

/// Puts 32-bit words at the start of others.
fn put(into: &mut [u64], words: &[u32]) {
    for (place, pair) in into.iter_mut().zip(words.chunks(2)) {
        let both = [pair[0], pair.get(1).copied().unwrap_or(0)].map(u32::to_ne_bytes);
        *place = u64::from_ne_bytes([both[0], both[1]].concat().try_into().unwrap_or_default());
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
    has_flag(interface, RXVLAN)
}

/// Has the driver take VLAN tags off frames or leave them; an error if it goes on as it did.
pub fn take_tags(interface: &str, take: bool) -> io::Result<()> {
    set_flag(interface, RXVLAN, take)
}

/// Whether the driver takes TCP data to send that is longer than the link carries (TSO).
pub fn takes_long(interface: &str) -> io::Result<bool> {
    let mut flags = Flags([ETHTOOL_GTSO, 0]);
    Ok(ask(interface, &mut flags)?.is_some() && flags.0[1] != 0)
}

/// Whether the kernel joins segments of a flow that come in together into one frame (GRO).
pub fn joins(interface: &str) -> io::Result<bool> {
    let mut flags = Flags([ETHTOOL_GGRO, 0]);
    Ok(ask(interface, &mut flags)?.is_some() && flags.0[1] != 0)
}

/// Has the kernel join segments, or not; an error if it goes on as it did.
pub fn join(interface: &str, on: bool) -> io::Result<()> {
    ask(interface, &mut Flags([ETHTOOL_SGRO, on.into()]))?;
    if joins(interface)? == on { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
}

/// Whether the driver joins segments of a flow (LRO).
pub fn driver_joins(interface: &str) -> io::Result<bool> {
    has_flag(interface, LRO)
}

/// Has the driver join segments, or not; an error if it goes on as it did.
pub fn driver_join(interface: &str, on: bool) -> io::Result<()> {
    set_flag(interface, LRO, on)
}

fn has_flag(interface: &str, flag: u32) -> io::Result<bool> {
    let mut flags = Flags([ETHTOOL_GFLAGS, 0]);
    Ok(ask(interface, &mut flags)?.is_some() && flags.0[1] & flag != 0)
}

fn set_flag(interface: &str, flag: u32, on: bool) -> io::Result<()> {
    let mut flags = Flags([ETHTOOL_GFLAGS, 0]);
    ask(interface, &mut flags)?;
    let wanted = if on { flags.0[1] | flag } else { flags.0[1] & !flag };
    ask(interface, &mut Flags([ETHTOOL_SFLAGS, wanted]))?;
    if has_flag(interface, flag)? == on { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
}
