//! PLAN ports over TCP: a bridge from connections to the applications' socket.
//!
//! A message has its length in four octets before it, the most significant first; otherwise both sides say what they say on the
//! socket. The bridge has threads of its own and passes on only what concerns PLAN, so the worker never waits for
//! TCP, and who reaches the port can do no more than inject packets. By default nothing listens.
//!
//! Connections are few, and those of one address have a share of them ([`Shares`]); one that does not attach in time is closed.

use super::apps::{ATTACH_PLAN, CLOSE_PLAN, REFUSED, SEND_PLAN};
use crate::frame::shares::Shares;
use crate::sys::seqpacket::SeqPacket;
use crate::sys::threads::{self, Duty};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Connections at the same time.
const CONNECTIONS_MAX: u64 = 64;

/// Octets of the longest message.
pub const MESSAGE: usize = 65_536;

/// Pause when no connection can be taken.
const PAUSE: Duration = Duration::from_millis(100);

/// For how long a connection may not take what is sent to it.
const PATIENCE: Duration = Duration::from_secs(10);

/// For how long a connection may be open before its first message is there.
const ATTACH: Duration = Duration::from_secs(5);

/// Connections, by whose they are.
type Seats = Arc<Mutex<Shares<IpAddr>>>;

/// A place for a connection, given back with this.
struct Seat {
    seats: Seats,
    owner: IpAddr,
}

impl Seat {
    /// A place for whoever is at this address, if there is one for him.
    fn take(seats: &Seats, peer: SocketAddr) -> Option<Seat> {
        let owner = owner(peer.ip().to_canonical());
        let taken = seats.lock().unwrap_or_else(PoisonError::into_inner).take(owner, 1);
        taken.then(|| Seat { seats: seats.clone(), owner })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner).give(self.owner, 1);
    }
}

/// Who has a share: an address, in IPv6 with all others of its link.
fn owner(addr: IpAddr) -> IpAddr {
    match addr {
        IpAddr::V6(addr) => IpAddr::V6((addr.to_bits() >> 64 << 64).into()),
        v4 => v4,
    }
}

/// Serves PLAN ports at a TCP address; gives the address, which has a port even if none was asked for.
pub fn serve(listen: SocketAddr, apps: &Path) -> io::Result<SocketAddr> {
    let listener = TcpListener::from(crate::broker::tcp(listen)?);
    let local = listener.local_addr()?;
    let apps = apps.to_owned();
    let seats = Arc::new(Mutex::new(Shares::new(CONNECTIONS_MAX)));
    threads::start("anode-plan-tcp", Duty::PlanTcp, move || {
        loop {
            match listener.accept() {
                Ok((stream, peer)) => match Seat::take(&seats, peer) {
                    Some(seat) => {
                        if let Err(error) = start(stream, &apps, seat) {
                            tracing::warn!(%peer, %error, "no PLAN connection");
                        }
                    }
                    None => {
                        // Too short a message to wait for.
                        let _ = stream.set_nonblocking(true);
                        let _ = send(&stream, &refusal("too many PLAN connections from your address"));
                    }
                },
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    })?;
    Ok(local)
}

/// Two threads carry the messages of a connection, one in each direction.
fn start(stream: TcpStream, apps: &Path, seat: Seat) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let socket = Arc::new(SeqPacket::connect(apps)?);
    let (back, other) = (stream.try_clone()?, socket.clone());
    let seat = Arc::new(seat);
    let seats = (seat.clone(), seat);
    let ended = socket.clone();
    threads::start("anode-plan-out", Duty::PlanTcp, move || {
        let _ = outward(&other, &back);
        let _ = back.shutdown(Shutdown::Both);
        drop(seats.0);
    })?;
    let inward = threads::start("anode-plan-in", Duty::PlanTcp, move || {
        let _ = inward(&stream, &socket);
        let _ = stream.shutdown(Shutdown::Both);
        socket.shutdown();
        drop(seats.1);
    });
    // The other direction ends with this one, also if this one never was.
    inward.map(drop).inspect_err(|_| ended.shutdown())
}

fn outward(socket: &SeqPacket, stream: &TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; MESSAGE + 4];
    loop {
        match socket.receive(&mut buffer[4..])? {
            0 => return Ok(()),
            length => {
                buffer[..4].copy_from_slice(&(length as u32).to_be_bytes());
                (&mut &*stream).write_all(&buffer[..4 + length])?;
            }
        }
    }
}

fn inward(stream: &TcpStream, socket: &SeqPacket) -> io::Result<()> {
    let mut buffer = vec![0; MESSAGE];
    let mut until = Some(Instant::now() + ATTACH);
    loop {
        let length = receive(&mut Timed { stream, until }, &mut buffer)?;
        if length > 0 && buffer[0] == ATTACH_PLAN {
            // What has attached may be silent.
            stream.set_read_timeout(None)?;
            until = None;
        }
        match buffer.first() {
            Some(&(ATTACH_PLAN | SEND_PLAN | CLOSE_PLAN)) if length > 0 => socket.send(&buffer[..length])?,
            _ => send(stream, &refusal("only PLAN messages: 11 (attach), 12 (send), 13 (close)"))?,
        }
    }
}

/// A stream of which all must have come in time: a limit for each read would be none for who sends a byte now and then.
struct Timed<'a> {
    stream: &'a TcpStream,
    until: Option<Instant>,
}

impl Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(until) = self.until {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.stream.set_read_timeout(Some(left))?;
        }
        self.stream.read(buffer)
    }
}

fn refusal(why: &str) -> Vec<u8> {
    let mut message = vec![REFUSED];
    message.extend_from_slice(why.as_bytes());
    message
}

/// Sends a message with its length.
pub fn send(mut stream: &TcpStream, message: &[u8]) -> io::Result<()> {
    let mut framed = Vec::with_capacity(4 + message.len());
    framed.extend_from_slice(&(message.len() as u32).to_be_bytes());
    framed.extend_from_slice(message);
    stream.write_all(&framed)
}

/// Receives a message; its length.
pub fn receive(mut stream: impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length) as usize;
    let room = buffer.get_mut(..length).ok_or_else(|| io::Error::other("a message is too long"))?;
    stream.read_exact(room)?;
    Ok(length)
}
