//! XDP features of interfaces: whether a driver takes redirected frames (generic netlink, family `netdev`, Linux 6.3).
//!
//! A frame that XDP redirects to an interface arrives only if the driver takes such frames (`ndo-xmit`). A veth takes
//! them only while its *other* end has an XDP program or generic receive offload, wherever that end is. The kernel
//! keeps the feature of this end up to date, and tells of changes. So nobody need look beyond the link, or probe it by
//! frames.
//!
//! Messages are read by hand: the family has two requests and four attributes that matter here. Truncated messages are
//! skipped.

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_GENERIC};
use std::collections::HashMap;
use std::io;

/// `NETDEV_XDP_ACT_BASIC`: the driver runs XDP programs.
const RUNS: u64 = 1;

/// `NETDEV_XDP_ACT_NDO_XMIT` and `NETDEV_XDP_ACT_NDO_XMIT_SG`: frames that are redirected to it are taken, also those in several buffers.
const TAKES: u64 = 1 << 2;
const TAKES_SEVERAL: u64 = 1 << 6;

/// Bytes of the largest IP packet that is in one buffer wherever it comes from: an Ethernet's.
const ONE_BUFFER: u32 = 1500;

/// Bytes of the headers of netlink and generic netlink.
const HEADER: usize = 16;
const GENERIC: usize = 20;

/// Bytes of one answer of the kernel.
const ANSWER: usize = 64 << 10;

const DUMP: u16 = 0x301;
const REQUEST: u16 = 1;

/// `GENL_ID_CTRL`, its request for a family and the attributes of question and answer.
const CONTROL: u16 = 16;
const CONTROL_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const FAMILY_GROUPS: u16 = 7;
const GROUP_NAME: u16 = 1;
const GROUP_ID: u16 = 2;

/// `NETDEV_CMD_DEV_GET`, and the attributes of its answer.
const DEVICES: u8 = 1;
const DEVICE_INDEX: u16 = 1;
const DEVICE_FEATURES: u16 = 3;

/// Bytes of the largest IP packet that arrives when it is redirected to an interface, by the interface's index: 0 if none does.
pub type Redirected = HashMap<u32, u32>;

/// That of all interfaces. An error: this kernel does not say.
pub fn redirected() -> io::Result<Redirected> {
    Ok(features()?.into_iter().map(|(index, features)| (index, largest(features))).collect())
}

/// Whether the driver of each interface runs XDP programs. An error: this kernel does not say.
pub fn in_driver() -> io::Result<HashMap<u32, bool>> {
    Ok(features()?.into_iter().map(|(index, features)| (index, features & RUNS != 0)).collect())
}

/// The XDP features of all interfaces.
fn features() -> io::Result<HashMap<u32, u64>> {
    let family = family()?;
    let mut found = HashMap::new();
    for message in ask(family.id, DEVICES, &[], DUMP)? {
        let word = |kind| of(&message, kind);
        let index = word(DEVICE_INDEX).and_then(|value| value.first_chunk().copied()).map(u32::from_ne_bytes);
        let features = word(DEVICE_FEATURES).and_then(|value| value.first_chunk().copied()).map(u64::from_ne_bytes);
        found.extend(index.zip(features));
    }
    Ok(found)
}

/// A socket that hears of changes.
pub fn changes() -> io::Result<Socket> {
    let group = family()?.changes.ok_or(io::ErrorKind::Unsupported)?;
    let mut socket = Socket::new(NETLINK_GENERIC)?;
    socket.bind_auto()?;
    socket.add_membership(group)?;
    Ok(socket)
}

fn largest(features: u64) -> u32 {
    match (features & TAKES != 0, features & TAKES_SEVERAL != 0) {
        (false, _) => 0,
        (true, false) => ONE_BUFFER,
        (true, true) => u32::MAX,
    }
}

/// The family's numbers here.
struct Family {
    id: u16,
    /// Of the group that hears of changes.
    changes: Option<u32>,
}

fn family() -> io::Result<Family> {
    let answer = ask(CONTROL, CONTROL_FAMILY, &attribute(FAMILY_NAME, b"netdev\0"), REQUEST)?;
    let message = answer.first().ok_or(io::ErrorKind::Unsupported)?;
    let id = of(message, FAMILY_ID).and_then(|value| value.first_chunk().copied()).map(u16::from_ne_bytes);
    let groups = attributes(of(message, FAMILY_GROUPS).unwrap_or_default());
    let group = groups.map(|(_, group)| group).find(|group| of(group, GROUP_NAME) == Some(b"mgmt\0"));
    let changes = group.and_then(|group| of(group, GROUP_ID)?.first_chunk().copied()).map(u32::from_ne_bytes);
    Ok(Family { id: id.ok_or(io::ErrorKind::Unsupported)?, changes })
}

/// Asks the kernel: the attributes of each message of its answer.
fn ask(family: u16, command: u8, attributes: &[u8], flags: u16) -> io::Result<Vec<Vec<u8>>> {
    let mut socket = Socket::new(NETLINK_GENERIC)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut request = ((GENERIC + attributes.len()) as u32).to_ne_bytes().to_vec();
    request.extend([family, flags].map(u16::to_ne_bytes).as_flattened());
    request.extend([1u32, 0].map(u32::to_ne_bytes).as_flattened());
    request.extend([command, 1, 0, 0]);
    request.extend(attributes);
    socket.send(&request, 0)?;
    let (mut found, mut buffer) = (Vec::new(), vec![0; ANSWER]);
    loop {
        let got = socket.recv(&mut &mut buffer[..], 0)?;
        if take(&buffer[..got], &mut found)? || (flags != DUMP && !found.is_empty()) {
            return Ok(found);
        }
    }
}

/// Takes the messages of one datagram in; says whether the answer ends there.
fn take(datagram: &[u8], found: &mut Vec<Vec<u8>>) -> io::Result<bool> {
    let mut rest = datagram;
    while let (Some(length), Some(kind)) = (rest.first_chunk::<4>(), rest.get(4..6)) {
        let length = u32::from_ne_bytes(*length) as usize;
        let Some(message) = rest.get(..length).filter(|_| length >= HEADER) else { return Ok(true) };
        match u16::from_ne_bytes([kind[0], kind[1]]) {
            2 => {
                let code =
                    message.get(HEADER..).and_then(|rest| rest.first_chunk().copied()).map_or(0, i32::from_ne_bytes);
                return if code == 0 { Ok(true) } else { Err(io::Error::from_raw_os_error(code.saturating_neg())) };
            }
            3 => return Ok(true),
            _ => found.extend(message.get(GENERIC..).map(<[u8]>::to_vec)),
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    Ok(false)
}

/// The value of an attribute.
fn of(message: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(message).find(|(found, _)| *found == kind).map(|(_, value)| value)
}

/// Kind and value of each attribute, as far as they are whole.
fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(*rest.first_chunk()?));
        let kind = u16::from_ne_bytes([*rest.get(2)?, *rest.get(3)?]) & 0x3fff;
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, value))
    })
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = (4 + value.len() as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_of_each_interface_whether_it_takes_redirected_frames() {
        let all = redirected().unwrap();
        let lo = crate::sys::netlink::interfaces().unwrap().into_iter().find(|found| found.name == "lo").unwrap();
        assert_eq!(all.get(&lo.index), Some(&0), "the loopback interface has no XDP in its driver");
        assert_eq!(in_driver().unwrap().get(&lo.index), Some(&false));
    }

    #[test]
    fn features_say_what_arrives() {
        assert_eq!([0, 0x23, 0x27, 0x67].map(largest), [0, 0, ONE_BUFFER, u32::MAX]);
    }

    #[test]
    fn an_answer_that_is_cut_anywhere_is_passed_over() {
        let attributes =
            [attribute(DEVICE_INDEX, &7u32.to_ne_bytes()), attribute(DEVICE_FEATURES, &[0x67, 0, 0, 0, 0, 0, 0, 0])];
        let mut datagram = ((GENERIC + attributes.concat().len()) as u32).to_ne_bytes().to_vec();
        datagram.extend([20, 0].into_iter().chain([0; 14]));
        datagram.extend(attributes.concat());
        let mut found = Vec::new();
        assert!(!take(&datagram, &mut found).unwrap());
        assert_eq!(of(&found[0], DEVICE_INDEX), Some(&7u32.to_ne_bytes()[..]));
        for length in 0..datagram.len() {
            take(&datagram[..length], &mut Vec::new()).unwrap();
            assert!(of(&datagram[GENERIC..length.max(GENERIC)], DEVICE_FEATURES).is_none_or(|value| value.len() == 8));
        }
    }
}
