//! PLAN ports over TCP: a bridge from connections to the applications' socket.
//!
//! A message has its length in four bytes before it, the most significant first; otherwise it equals a message on the
//! socket. The bridge has threads of its own and passes on only PLAN, so the worker never waits for TCP, and a client
//! of the port can do no more than inject packets. By default nothing listens.
//!
//! Connections are few, and those of one address have a share of them ([`Shares`]); one that does not attach in time is
//! closed. An attached one may be silent until another finds no place. Then the one that was idle for longest gives
//! way, if it was for long enough.

use super::apps::{ATTACH_PLAN, CLOSE_PLAN, REFUSED, SEND_PLAN, TELL};
use super::connections::Counts;
use crate::frame::shares::Shares;
use crate::sys::seqpacket::SeqPacket;
use crate::sys::threads::{self, Duty};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Connections at the same time.
const CONNECTIONS_MAX: u64 = 64;

/// Bytes of the longest message.
pub const MESSAGE: usize = 65_536;

/// Pause when no connection can be taken.
const PAUSE: Duration = Duration::from_millis(100);

/// For how long a connection may not take what is sent to it.
const PATIENCE: Duration = Duration::from_secs(10);

/// For how long a connection may be open before its first message is there.
const ATTACH: Duration = Duration::from_secs(5);

/// For how long a connection that has attached must have carried nothing to give way to another one.
const IDLE: Duration = Duration::from_secs(300);

/// A connection that has a place.
struct Open {
    owner: IpAddr,
    /// When it has carried something.
    last: Instant,
    stream: TcpStream,
}

/// All of them, by number, and who has how many.
struct Table {
    shares: Shares<IpAddr>,
    open: BTreeMap<u64, Open>,
    next: u64,
}

impl Table {
    /// Makes room for one more of an owner by closing the connection that was idle for longest of those whose place is of use to it.
    fn displace(&mut self, owner: IpAddr, now: Instant) -> bool {
        let idle = |open: &Open| now.saturating_duration_since(open.last) >= IDLE;
        let mut idle: Vec<_> =
            self.open.iter().filter(|(_, open)| idle(open)).map(|(at, open)| (open.last, *at)).collect();
        idle.sort_unstable();
        for (_, number) in idle {
            let Some(theirs) = self.open.get(&number).map(|open| open.owner) else { continue };
            self.shares.give(theirs, 1);
            if self.shares.fits(owner, 1) {
                // It may be broken already.
                let _ = self.open.remove(&number).map(|open| open.stream.shutdown(Shutdown::Both));
                return true;
            }
            self.shares.take_back(theirs, 1);
        }
        false
    }
}

/// The places of connections.
#[derive(Clone)]
struct Seats {
    table: Arc<Mutex<Table>>,
    counts: Arc<Counts>,
}

impl Seats {
    fn new(counts: Arc<Counts>) -> Seats {
        let table = Table { shares: Shares::new(CONNECTIONS_MAX), open: BTreeMap::new(), next: 0 };
        Seats { table: Arc::new(Mutex::new(table)), counts }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // What it holds is right between any two statements.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for the connection of whoever is at this address, if there is one for him.
    fn take(&self, stream: &TcpStream, peer: SocketAddr, now: Instant) -> Option<Seat> {
        let owner = owner(peer.ip().to_canonical());
        let stream = stream.try_clone().ok()?;
        let mut table = self.table();
        if !table.shares.fits(owner, 1) {
            if !table.displace(owner, now) {
                self.counts.refused();
                return None;
            }
            self.counts.displaced();
        }
        table.shares.take_back(owner, 1);
        let number = table.next;
        table.next += 1;
        table.open.insert(number, Open { owner, last: now, stream });
        drop(table);
        Some(Seat { seats: self.clone(), number })
    }
}

/// A place for a connection, given back with this, if no other one has it already.
struct Seat {
    seats: Seats,
    number: u64,
}

impl Seat {
    /// The connection has carried something.
    fn carried(&self, now: Instant) {
        if let Some(open) = self.seats.table().open.get_mut(&self.number) {
            open.last = now;
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut table = self.seats.table();
        if let Some(open) = table.open.remove(&self.number) {
            table.shares.give(open.owner, 1);
        }
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
pub fn serve(listen: SocketAddr, apps: &Path, counts: Arc<Counts>) -> io::Result<SocketAddr> {
    let listener = TcpListener::from(crate::broker::tcp(listen)?);
    let local = listener.local_addr()?;
    let apps = apps.to_owned();
    let seats = Seats::new(counts);
    threads::start("anode-plan-tcp", Duty::PlanTcp, move || {
        loop {
            match listener.accept() {
                Ok((stream, peer)) => match seats.take(&stream, peer, Instant::now()) {
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
        let _ = outward(&other, &back, &seats.0);
        let _ = back.shutdown(Shutdown::Both);
        drop(seats.0);
    })?;
    let inward = threads::start("anode-plan-in", Duty::PlanTcp, move || {
        if inward(&stream, &socket, &seats.1).is_err_and(|error| error.kind() == io::ErrorKind::TimedOut) {
            seats.1.seats.counts.silent();
        }
        let _ = stream.shutdown(Shutdown::Both);
        socket.shutdown();
        drop(seats.1);
    });
    // The other direction ends with this one, also if this one never was.
    inward.map(drop).inspect_err(|_| ended.shutdown())
}

fn outward(socket: &SeqPacket, stream: &TcpStream, seat: &Seat) -> io::Result<()> {
    let mut buffer = vec![0; MESSAGE + 4];
    loop {
        match socket.receive(&mut buffer[4..])? {
            0 => return Ok(()),
            length => {
                buffer[..4].copy_from_slice(&(length as u32).to_be_bytes());
                (&mut &*stream).write_all(&buffer[..4 + length])?;
                seat.carried(Instant::now());
            }
        }
    }
}

fn inward(stream: &TcpStream, socket: &SeqPacket, seat: &Seat) -> io::Result<()> {
    let mut buffer = vec![0; MESSAGE];
    let mut until = Some(Instant::now() + ATTACH);
    loop {
        let length = receive(&mut Timed { stream, until }, &mut buffer)?;
        seat.carried(Instant::now());
        if length > 0 && buffer[0] == ATTACH_PLAN {
            // What has attached may be silent.
            stream.set_read_timeout(None)?;
            until = None;
        }
        match buffer.first() {
            Some(&(ATTACH_PLAN | SEND_PLAN | CLOSE_PLAN | TELL)) if length > 0 => socket.send(&buffer[..length])?,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Both ends of a connection.
    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (listener.accept().unwrap().0, client)
    }

    #[test]
    fn idle_connections_give_way_and_nobody_takes_the_last_place() {
        let counts = Arc::new(Counts::default());
        let (seats, begin) = (Seats::new(counts.clone()), Instant::now());
        let (stream, mut client) = pair();
        let from = |host: u8| SocketAddr::from(([10, 0, 0, host], 9));
        let fill = |host: u8, at: Instant| -> Vec<Seat> {
            (0..CONNECTIONS_MAX).map_while(|_| seats.take(&stream, from(host), at)).collect()
        };
        let first = fill(1, begin);
        assert_eq!(first.len() as u64, CONNECTIONS_MAX / 2, "the other half is there for others");
        let (later, end) = (begin + IDLE / 2, begin + IDLE);
        first[1..].iter().for_each(|seat| seat.carried(later));
        assert!(seats.take(&stream, from(1), end - Duration::from_nanos(1)).is_none(), "none was idle for long enough");
        let instead = seats.take(&stream, from(1), end);
        assert!(instead.is_some() && seats.take(&stream, from(1), end).is_none(), "one was");
        assert_eq!(client.read(&mut [0]).unwrap(), 0, "it is closed");
        let others: Vec<_> = (2..60).map(|host| fill(host, end)).collect();
        assert!(others[..5].iter().all(|own| !own.is_empty()));
        assert_eq!(
            seats.table().shares.held(),
            CONNECTIONS_MAX - 1,
            "for whoever comes there is one, but for the last"
        );
        assert!(seats.take(&stream, from(99), end).is_none());
        let newcomer = seats.take(&stream, from(99), later + IDLE);
        assert!(newcomer.is_some() && seats.table().shares.of([10, 0, 0, 1].into()) == CONNECTIONS_MAX / 2 - 1);
        drop((first, instead, others, newcomer));
        let table = seats.table();
        assert_eq!((table.shares.held(), table.open.len()), (0, 0), "no place is given back twice");
        let told = counts.status();
        assert!(told.displaced == 2 && told.refused > 60, "{told:?}");
    }
}
