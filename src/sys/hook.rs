//! The XDP hook of an interface, as everybody uses it that is no link of the bpf(2) call: by netlink. Example: what
//! `ip link set dev eth0 xdp obj FILE` has put there is found, taken away, and put back.
//!
//! A program that was attached so has no owner: whoever may change the interface may replace it, if he names the one
//! that he means. One that stands by a link is its owner's alone, and the kernel refuses.

use super::bpf::{Program, XdpMode};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

const HEADER: usize = 16;
const LINK_HEADER: usize = 16;
const ANSWER: usize = 64 << 10;

const ERROR: u16 = 2;
const NEW_LINK: u16 = 16;
const GET_LINK: u16 = 18;
const SET_LINK: u16 = 19;
/// Flags of requests: of any, and of one whose success is to be said.
const REQUEST: u16 = 1;
const ACK: u16 = 4;

/// The attribute of a link with its hook, and what is in it (linux/if_link.h).
const XDP: u16 = 43;
const NESTED: u16 = 0x8000;
const FD: u16 = 1;
const ATTACHED: u16 = 2;
const FLAGS: u16 = 3;
const PROGRAM_ID: u16 = 4;
const EXPECTED_FD: u16 = 8;

/// Where a program is to stand, and in whose place (linux/if_link.h).
const IF_NONE: u32 = 1;
const IN_STACK: u32 = 2;
const IN_DRIVER: u32 = 4;
const REPLACE: u32 = 16;

/// A program at an interface: its number, and how it stands there.
pub type Standing = (u32, XdpMode);

/// What stands at an interface, by whomever. An error too where it stands in the device itself, or in several ways.
pub fn standing(interface: u32) -> io::Result<Option<Standing>> {
    let answer = ask(&message(GET_LINK, REQUEST, interface, &[]))?;
    let Some(link) = answer.get(HEADER + LINK_HEADER..) else { return Err(io::ErrorKind::InvalidData.into()) };
    let Some(xdp) = attribute_of(link, XDP) else { return Ok(None) };
    let way = attribute_of(xdp, ATTACHED).and_then(|value| value.first().copied()).unwrap_or(0);
    let number = attribute_of(xdp, PROGRAM_ID).and_then(|value| value.first_chunk().copied()).map(u32::from_ne_bytes);
    match (way, number) {
        (0, _) => Ok(None),
        (1, Some(id)) => Ok(Some((id, XdpMode::Native))),
        (2, Some(id)) => Ok(Some((id, XdpMode::Generic))),
        _ => Err(io::Error::other("a program stands there in the device, or several do")),
    }
}

/// Takes a program away that stands at an interface; EBUSY: it is a link's.
pub fn take_away(interface: u32, program: &Program, mode: XdpMode) -> io::Result<()> {
    let expected = program.as_fd().as_raw_fd();
    set(interface, -1, flag(mode) | REPLACE, Some(expected))
}

/// Puts a program where none stands.
pub fn put(interface: u32, program: &Program, mode: XdpMode) -> io::Result<()> {
    set(interface, program.as_fd().as_raw_fd(), flag(mode) | IF_NONE, None)
}

fn flag(mode: XdpMode) -> u32 {
    match mode {
        XdpMode::Native => IN_DRIVER,
        XdpMode::Generic => IN_STACK,
    }
}

fn set(interface: u32, fd: i32, flags: u32, expected: Option<i32>) -> io::Result<()> {
    let mut inner = attribute(FD, &fd.to_ne_bytes());
    inner.extend(attribute(FLAGS, &flags.to_ne_bytes()));
    inner.extend(expected.map(|fd| attribute(EXPECTED_FD, &fd.to_ne_bytes())).unwrap_or_default());
    ask(&message(SET_LINK, REQUEST | ACK, interface, &attribute(XDP | NESTED, &inner))).map(drop)
}

/// A request about an interface.
fn message(kind: u16, flags: u16, interface: u32, attributes: &[u8]) -> Vec<u8> {
    let mut bytes = ((HEADER + LINK_HEADER + attributes.len()) as u32).to_ne_bytes().to_vec();
    bytes.extend([kind, flags].map(u16::to_ne_bytes).as_flattened());
    bytes.extend([1u32, 0].map(u32::to_ne_bytes).as_flattened());
    bytes.extend([0; 4]);
    bytes.extend([interface, 0, 0].map(u32::to_ne_bytes).as_flattened());
    bytes.extend(attributes);
    bytes
}

/// The kernel's first answer, if it is no error.
fn ask(request: &[u8]) -> io::Result<Vec<u8>> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(request, 0)?;
    let mut answer = vec![0; ANSWER];
    let got = socket.recv(&mut &mut answer[..], 0)?;
    answer.truncate(got);
    let kind = answer.get(4..6).map(|kind| u16::from_ne_bytes([kind[0], kind[1]]));
    match kind {
        Some(NEW_LINK) => Ok(answer),
        Some(ERROR) => {
            let code = answer.get(HEADER..).and_then(|rest| rest.first_chunk().copied()).map_or(0, i32::from_ne_bytes);
            if code == 0 { Ok(answer) } else { Err(io::Error::from_raw_os_error(code.saturating_neg())) }
        }
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// The value of an attribute among others.
fn attribute_of(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    let mut rest = bytes;
    loop {
        let length = usize::from(u16::from_ne_bytes(*rest.first_chunk()?));
        let found = u16::from_ne_bytes([*rest.get(2)?, *rest.get(3)?]) & 0x3fff;
        let value = rest.get(4..length)?;
        if found == kind {
            return Some(value);
        }
        rest = rest.get(length.next_multiple_of(4)..)?;
    }
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
    fn nothing_stands_at_the_loopback_interface_and_one_that_is_not_there_is_an_error() {
        let lo = crate::sys::netlink::interfaces().unwrap().into_iter().find(|found| found.name == "lo").unwrap();
        assert_eq!(standing(lo.index).unwrap(), None);
        assert_eq!(standing(u32::MAX >> 1).unwrap_err().raw_os_error(), Some(libc::ENODEV));
    }

    #[test]
    fn an_answer_that_is_cut_anywhere_is_passed_over() {
        let inner = [attribute(ATTACHED, &[1]), attribute(PROGRAM_ID, &7u32.to_ne_bytes())].concat();
        let whole = [attribute(3, b"eth0\0"), attribute(XDP | NESTED, &inner)].concat();
        let found = |bytes: &[u8]| attribute_of(attribute_of(bytes, XDP)?, PROGRAM_ID).map(<[u8]>::to_vec);
        assert_eq!(found(&whole), Some(7u32.to_ne_bytes().to_vec()));
        for length in 0..whole.len() {
            assert_eq!(found(&whole[..length]), None, "{length}");
        }
    }
}
