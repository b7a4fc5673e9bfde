//! PLAN ports over TCP: a bridge from connections to the applications' socket.
//!
//! A message has its length in four octets before it, the most significant first; otherwise both sides say what they say on the
//! socket. The bridge has threads of its own and passes on only what concerns PLAN, so the worker never waits for
//! TCP, and who reaches the port can do no more than inject packets. By default nothing listens.

use super::apps::{ATTACH_PLAN, CLOSE_PLAN, REFUSED, SEND_PLAN};
use crate::sys::seqpacket::SeqPacket;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Connections at the same time.
const CONNECTIONS_MAX: usize = 64;

/// Octets of the longest message.
pub const MESSAGE: usize = 65_536;

/// Pause when no connection can be taken.
const PAUSE: Duration = Duration::from_millis(100);

/// For how long a connection may not take what is sent to it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Serves PLAN ports at a TCP address; gives the address, which has a port even if none was asked for.
pub fn serve(listen: SocketAddr, apps: &Path) -> io::Result<SocketAddr> {
    let listener = TcpListener::from(crate::broker::tcp(listen)?);
    let local = listener.local_addr()?;
    let apps = apps.to_owned();
    let live = Arc::new(());
    std::thread::Builder::new().name("anode-plan-tcp".into()).spawn(move || {
        loop {
            match listener.accept() {
                Ok((stream, _)) if Arc::strong_count(&live) > 2 * CONNECTIONS_MAX => {
                    let _ = send(&stream, &refusal("too many PLAN connections"));
                }
                Ok((stream, peer)) => {
                    if let Err(error) = start(stream, &apps, &live) {
                        tracing::warn!(%peer, %error, "no PLAN connection");
                    }
                }
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    })?;
    Ok(local)
}

/// Two threads carry the messages of a connection, one in each direction.
fn start(stream: TcpStream, apps: &Path, live: &Arc<()>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let socket = Arc::new(SeqPacket::connect(apps)?);
    let (back, other) = (stream.try_clone()?, socket.clone());
    let tickets = (live.clone(), live.clone());
    let thread = |name: &str| std::thread::Builder::new().name(name.into());
    thread("anode-plan-out").spawn(move || {
        let _ = outward(&other, &back);
        let _ = back.shutdown(Shutdown::Both);
        drop(tickets.0);
    })?;
    thread("anode-plan-in").spawn(move || {
        let _ = inward(&stream, &socket);
        let _ = stream.shutdown(Shutdown::Both);
        socket.shutdown();
        drop(tickets.1);
    })?;
    Ok(())
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
    loop {
        let length = receive(stream, &mut buffer)?;
        match buffer.first() {
            Some(&(ATTACH_PLAN | SEND_PLAN | CLOSE_PLAN)) if length > 0 => socket.send(&buffer[..length])?,
            _ => send(stream, &refusal("only PLAN messages: 11 (attach), 12 (send), 13 (close)"))?,
        }
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
pub fn receive(mut stream: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length) as usize;
    let room = buffer.get_mut(..length).ok_or_else(|| io::Error::other("a message is too long"))?;
    stream.read_exact(room)?;
    Ok(length)
}
