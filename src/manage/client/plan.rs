//! An application at a PLAN port, attached by the node's socket or by TCP.

use super::{ClientError, PATIENCE};
use crate::ee::plan::message;
use crate::manage::apps::{ATTACH_PLAN, ATTACHED_PLAN, CLOSE_PLAN, ENDED, REFUSED, SEND_PLAN, TELL, TELLS};
use crate::manage::plan::{self, MESSAGE};
use crate::sys::seqpacket::SeqPacket;
use crate::wire::Addr;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

/// An application at a PLAN port.
pub struct PlanPort {
    link: Link,
    port: u64,
    session: [u8; 16],
    addresses: Vec<Addr>,
    buffer: Vec<u8>,
    /// Whether the node has been asked to tell of ends, and has not answered yet.
    asking: bool,
}

enum Link {
    Unix(SeqPacket),
    Tcp(TcpStream),
}

/// What a node says to an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// A value was printed.
    Printed(String),
    /// A value was delivered to a port; [`crate::apps::plan::delivered`] reads it.
    Delivered(u64, Vec<u8>),
    /// A connection was opened: its port, from where, to which number.
    Opened(u64, Addr, u32),
    /// It was closed.
    Closed(u64),
}

fn garbled() -> ClientError {
    ClientError::Broken(io::Error::new(io::ErrorKind::InvalidData, "an unknown message"))
}

impl PlanPort {
    /// Attaches to the node with this run directory, to listen as `number` if that is not 0.
    pub fn attach(dir: &Path, number: u32) -> Result<PlanPort, ClientError> {
        let path = dir.join("apps.sock");
        let socket = SeqPacket::connect(&path).map_err(|error| ClientError::NotRunning(path, error))?;
        PlanPort::begin(Link::Unix(socket), number)
    }

    /// Attaches by TCP.
    pub fn attach_tcp(to: SocketAddr, number: u32) -> Result<PlanPort, ClientError> {
        let stream = TcpStream::connect_timeout(&to, PATIENCE)
            .map_err(|error| ClientError::NotRunning(to.to_string().into(), error))?;
        stream.set_nodelay(true).map_err(ClientError::Broken)?;
        PlanPort::begin(Link::Tcp(stream), number)
    }

    fn begin(link: Link, number: u32) -> Result<PlanPort, ClientError> {
        let mut here = PlanPort {
            link,
            port: 0,
            session: [0; 16],
            addresses: Vec::new(),
            buffer: vec![0; MESSAGE],
            asking: false,
        };
        let mut ask = vec![ATTACH_PLAN];
        ask.extend_from_slice(&number.to_be_bytes());
        here.say(&ask)?;
        let length = here.hear(PATIENCE)?.unwrap_or(0);
        let (port, session, addresses) = match &here.buffer[..length] {
            [ATTACHED_PLAN, rest @ ..] => {
                let (port, rest) = rest.split_first_chunk::<8>().ok_or_else(garbled)?;
                let (session, rest) = rest.split_first_chunk::<16>().ok_or_else(garbled)?;
                let addresses = rest.as_chunks::<16>().0.iter().map(|bytes| Addr(*bytes)).collect();
                (u64::from_be_bytes(*port), *session, addresses)
            }
            [REFUSED, why @ ..] => return Err(ClientError::Refused(String::from_utf8_lossy(why).into_owned())),
            _ => return Err(garbled()),
        };
        (here.port, here.session, here.addresses) = (port, session, addresses);
        Ok(here)
    }

    /// The port.
    pub fn port(&self) -> u64 {
        self.port
    }

    /// The session key of what is injected here.
    pub fn session(&self) -> [u8; 16] {
        self.session
    }

    /// The node's addresses.
    pub fn addresses(&self) -> &[Addr] {
        &self.addresses
    }

    /// Injects a packet. A refusal comes with the next [`PlanPort::receive`].
    pub fn inject(&mut self, packet: &[u8]) -> Result<(), ClientError> {
        let mut message = Vec::with_capacity(1 + packet.len());
        message.push(SEND_PLAN);
        message.extend_from_slice(packet);
        self.say(&message)
    }

    /// From now on [`PlanPort::receive`] tells of each packet injected here that has ended at this node, and why, as a
    /// refusal. A node of before says nothing.
    pub fn tell_ends(&mut self) -> Result<(), ClientError> {
        self.asking = true;
        self.say(&[TELL])
    }

    /// Closes a connection to this application.
    pub fn close(&mut self, port: u64) -> Result<(), ClientError> {
        let mut message = vec![CLOSE_PLAN];
        message.extend_from_slice(&port.to_be_bytes());
        self.say(&message)
    }

    /// What the node says next, or nothing within the time.
    pub fn receive(&mut self, time: Duration) -> Result<Option<Told>, ClientError> {
        let Some(length) = self.hear(time)? else { return Ok(None) };
        let Some((kind, rest)) = self.buffer[..length].split_first() else {
            return Err(ClientError::Broken(io::ErrorKind::UnexpectedEof.into()));
        };
        if self.asking && [TELLS, REFUSED].contains(kind) {
            // A node of before refuses the question. It answers in order, so this is the answer to it.
            self.asking = false;
            return self.receive(time);
        }
        if let (ENDED, Some((_, why))) = (*kind, rest.split_first_chunk::<4>()) {
            return Err(ClientError::Refused(String::from_utf8_lossy(why).into_owned()));
        }
        if *kind == REFUSED {
            return Err(ClientError::Refused(String::from_utf8_lossy(rest).into_owned()));
        }
        let (port, rest) = rest.split_first_chunk::<8>().ok_or_else(garbled)?;
        let port = u64::from_be_bytes(*port);
        let told = match *kind {
            message::PRINTED => Told::Printed(String::from_utf8_lossy(rest).into_owned()),
            message::DELIVERED => Told::Delivered(port, rest.to_vec()),
            message::OPENED => {
                let (host, rest) = rest.split_first_chunk::<16>().ok_or_else(garbled)?;
                let number = rest.first_chunk::<4>().ok_or_else(garbled)?;
                Told::Opened(port, Addr(*host), u32::from_be_bytes(*number))
            }
            message::CLOSED => Told::Closed(port),
            _ => return Err(garbled()),
        };
        Ok(Some(told))
    }

    fn say(&mut self, message: &[u8]) -> Result<(), ClientError> {
        match &self.link {
            Link::Unix(socket) => socket.send(message),
            Link::Tcp(stream) => plan::send(stream, message),
        }
        .map_err(ClientError::Broken)
    }

    fn hear(&mut self, time: Duration) -> Result<Option<usize>, ClientError> {
        let heard = match &self.link {
            Link::Unix(socket) => socket.receive_within(&mut self.buffer, time),
            Link::Tcp(stream) => hear_tcp(stream, &mut self.buffer, time),
        };
        heard.map_err(ClientError::Broken)
    }
}

/// A message, or nothing if none begins within the time.
fn hear_tcp(stream: &TcpStream, buffer: &mut [u8], time: Duration) -> io::Result<Option<usize>> {
    stream.set_read_timeout(Some(time.max(Duration::from_millis(1))))?;
    match stream.peek(&mut [0]) {
        Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(_) => {}
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => return Ok(None),
        Err(error) => return Err(error),
    }
    stream.set_read_timeout(Some(PATIENCE))?;
    plan::receive(stream, buffer).map(Some)
}
