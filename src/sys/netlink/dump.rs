//! One question to the kernel, and its answer in several datagrams. Unknown messages are skipped.

use super::news::HEADER;
use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use std::io;

/// Bytes of one answer of the kernel.
pub(super) const ANSWER: usize = 64 << 10;

/// Asks the kernel for all objects of one kind.
pub(super) fn dump(request: RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
    ask(request, NLM_F_DUMP | NLM_F_REQUEST)
}

/// Asks the kernel for something, and takes all of its answer in.
pub(super) fn ask(request: RouteNetlinkMessage, flags: u16) -> io::Result<Vec<RouteNetlinkMessage>> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut packet = NetlinkMessage::new(NetlinkHeader::default(), NetlinkPayload::from(request));
    packet.header.flags = flags;
    packet.header.sequence_number = 1;
    packet.finalize();
    let mut bytes = vec![0; packet.buffer_len()];
    packet.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    let (mut answer, mut buffer) = (Answer::default(), vec![0; ANSWER]);
    while !answer.done {
        let got = socket.recv(&mut &mut buffer[..], 0)?;
        answer.take(&buffer[..got])?;
    }
    if answer.skipped > 0 {
        tracing::warn!(messages = answer.skipped, "passed over what the kernel says and nobody here understands");
    }
    Ok(answer.found)
}

/// What the kernel answers, as far as it has come.
#[derive(Default)]
pub(super) struct Answer {
    pub found: Vec<RouteNetlinkMessage>,
    /// Messages that were not understood.
    pub skipped: usize,
    pub done: bool,
}

impl Answer {
    /// Takes the messages of one datagram in.
    pub fn take(&mut self, datagram: &[u8]) -> io::Result<()> {
        let mut rest = datagram;
        while let (Some(length), Some(kind)) = (rest.first_chunk::<4>(), rest.get(4..6)) {
            let length = u32::from_ne_bytes(*length) as usize;
            let kind = u16::from_ne_bytes([kind[0], kind[1]]);
            let Some(bytes) = rest.get(..length).filter(|_| length >= HEADER) else {
                self.skipped += 1;
                break;
            };
            match NetlinkMessage::<RouteNetlinkMessage>::deserialize(bytes).map(|message| message.payload) {
                Ok(NetlinkPayload::Done(_)) => self.done = true,
                Ok(NetlinkPayload::Error(error)) if error.code.is_none() => self.done = true,
                Ok(NetlinkPayload::Error(error)) => return Err(error.to_io()),
                Ok(NetlinkPayload::InnerMessage(inner)) => self.found.push(inner),
                Ok(_) => {}
                Err(error) if kind == NLMSG_DONE || kind == NLMSG_ERROR => {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, error.to_string()));
                }
                Err(error) => {
                    tracing::debug!(%error, kind, "netlink message not understood");
                    self.skipped += 1;
                }
            }
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        }
        Ok(())
    }
}
