//! The other end of a node's local sockets: for the command line, and for applications.

pub mod plan;
mod watch;

use super::apps::{ATTACH, ATTACHED, DELIVERED, ENDED, REFUSED, SEND, SETTLE, SETTLED, TELL, TELLS};
use super::lines::{Times, read_line};
use crate::code::bundle::Bundle;
use crate::config::default_run_dir;
use crate::sys::seqpacket::SeqPacket;
use crate::wire::{Addr, Digest, capsule};
use model::ways::Way;
use model::{Answer, Ask, Subject, WITHIN_MS};
use serde::de::value::Error as ValueError;
use serde::de::{DeserializeOwned, IntoDeserializer as _};
use serde::{Deserialize as _, Serialize};
use serde_json::Value;
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
pub use watch::Watched;

/// Bytes of the longest message.
const MESSAGE: usize = 65_536;

/// How long a node may take for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes of the longest answer.
const ANSWER_MAX: usize = 64 << 20;

/// Capsules kept that come while something else is waited for.
const EARLY_MAX: usize = 1024;

/// Why a node could not be asked.
#[derive(Debug)]
pub enum ClientError {
    /// Nobody listens.
    NotRunning(PathBuf, io::Error),
    /// The connection broke.
    Broken(io::Error),
    /// The node says no.
    Refused(String),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::NotRunning(path, error) if error.kind() == io::ErrorKind::PermissionDenied => {
                write!(f, "{}: {error}: only root and the node's own user may ask", path.display())
            }
            ClientError::NotRunning(path, error) => {
                write!(f, "no node answers at {}: {error}. Is it running? anode node run CONFIG.toml", path.display())
            }
            ClientError::Broken(error) => write!(f, "the connection to the node broke: {error}"),
            ClientError::Refused(why) => write!(f, "the node refuses: {why}"),
        }
    }
}

impl std::error::Error for ClientError {}

/// Where the nodes of the system have their run directories, whatever session somebody has who asks.
const SYSTEM: &str = "/run/anode";

/// The run directory of a node given by name or directory. A node of one's own comes before one of the system.
pub fn run_dir(node: &str) -> PathBuf {
    if node.contains('/') {
        return PathBuf::from(node);
    }
    let own = default_run_dir(node);
    let of_system = Path::new(SYSTEM).join(node);
    if !own.exists() && of_system.exists() { of_system } else { own }
}

/// The folders in which run directories are: of nodes of one's own, and of the system's.
pub fn run_places() -> Vec<PathBuf> {
    let own = default_run_dir("any").parent().map(Path::to_owned);
    let mut places: Vec<_> = own.into_iter().chain([PathBuf::from(SYSTEM)]).collect();
    places.dedup();
    places
}

/// A connection to a node's control socket.
pub struct Control {
    stream: BufReader<UnixStream>,
}

impl Control {
    /// Connects to the node with this run directory.
    pub fn connect(dir: &Path) -> Result<Control, ClientError> {
        let path = dir.join("control.sock");
        let stream = UnixStream::connect(&path).map_err(|error| ClientError::NotRunning(path, error))?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(ClientError::Broken)?;
        Ok(Control { stream: BufReader::new(stream) })
    }

    /// Asks, and gives the answer as it came.
    pub fn ask(&mut self, request: &impl Serialize) -> Result<Value, ClientError> {
        self.asked(request)
    }

    /// Asks, and gives the answer in the words of the protocol.
    pub fn asked<T: DeserializeOwned>(&mut self, request: &impl Serialize) -> Result<T, ClientError> {
        let mut request = serde_json::to_string(request).map_err(|error| ClientError::Broken(error.into()))?;
        request.push('\n');
        let asked = self.stream.get_mut().write_all(request.as_bytes());
        // A node that does not take the request has said why.
        let line = read_answer(&mut self.stream, PATIENCE, ANSWER_MAX).map_err(ClientError::Broken)?;
        if line.is_empty() {
            asked.map_err(ClientError::Broken)?;
        }
        match serde_json::from_slice(&line) {
            Ok(Answer::Ok(answer)) => Ok(answer),
            Ok(Answer::Error(why)) => Err(ClientError::Refused(why)),
            Err(_) => Err(ClientError::Broken(io::Error::new(io::ErrorKind::InvalidData, "no whole answer"))),
        }
    }

    /// The counter tree, as it came.
    pub fn status(&mut self) -> Result<Value, ClientError> {
        self.ask(&Ask::Status)
    }

    /// Where packets to these addresses go from there.
    pub fn ways(&mut self, to: &[Addr]) -> Result<Vec<Way>, ClientError> {
        self.asked(&Ask::Ways { to: to.iter().map(ToString::to_string).collect() })
    }

    /// The next answer of `status`, `domains`, `channels` or `log` that differs from the one before on this connection; the same
    /// again if there is none for some seconds.
    pub fn next(&mut self, of: &str) -> Result<Value, ClientError> {
        let of = Subject::deserialize(of.into_deserializer())
            .map_err(|error: ValueError| ClientError::Refused(error.to_string()))?;
        self.asked_next(of)
    }

    /// The same in the words of the protocol.
    pub fn asked_next<T: DeserializeOwned>(&mut self, of: Subject) -> Result<T, ClientError> {
        self.asked(&Ask::Next { of, within_ms: WITHIN_MS })
    }

    /// Is told what happens to packets from now on.
    pub fn watch(self) -> Result<Watched, ClientError> {
        self.watch_one_in(1)
    }

    /// The same of one packet in so many that come in alone, and without the kernel half.
    pub fn watch_one_in(mut self, one_in: u32) -> Result<Watched, ClientError> {
        let names = self.asked(&Ask::Watch { one_in })?;
        Watched::begin(self.stream, names)
    }

    /// Names of what records of packets say by number.
    pub fn names(&mut self) -> Result<crate::seen::words::Names, ClientError> {
        self.asked(&Ask::Names)
    }

    /// Puts a bundle into the node's store; gives its name.
    pub fn add_code(&mut self, bundle: &Bundle) -> Result<Digest, ClientError> {
        self.ask(&Ask::AddCode { bundle: hex::encode(bundle.write()) })?;
        Ok(bundle.name())
    }

    /// Takes code out of the node.
    pub fn remove_code(&mut self, name: &Digest) -> Result<(), ClientError> {
        self.ask(&Ask::RemoveCode { name: name.to_string() }).map(drop)
    }

    /// Makes a wasm module a PLAN service of this type.
    pub fn load_service(&mut self, name: &str, signature: &str, module: &[u8]) -> Result<(), ClientError> {
        let (name, signature, module) = (name.into(), signature.into(), hex::encode(module));
        self.ask(&Ask::LoadService { name, signature, module }).map(drop)
    }

    /// Takes a PLAN service out that was loaded.
    pub fn unload_service(&mut self, name: &str) -> Result<(), ClientError> {
        self.ask(&Ask::UnloadService { name: name.into() }).map(drop)
    }

    /// Stops the node; its kernel half too, or not.
    pub fn down(&mut self, keep_kernel: bool) -> Result<(), ClientError> {
        self.ask(&Ask::Down { keep_kernel }).map(drop)
    }
}

/// A line, or what has come before the end. All of it comes within a time, and is no longer than that: somebody may have taken the node
/// over, and whoever asks may be root.
fn read_answer(stream: &mut BufReader<UnixStream>, time: Duration, most: usize) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    match read_line(stream, &mut line, most, Times { idle: time, line: time }) {
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            Err(io::Error::new(error.kind(), format!("no whole answer within {time:?}")))
        }
        Ok(_) if line.len() == most && line.last() != Some(&b'\n') => {
            Err(io::Error::new(io::ErrorKind::InvalidData, format!("the answer is longer than {most} bytes")))
        }
        read => read.map(|_| line),
    }
}

/// An application attached to a node.
pub struct Attachment {
    socket: SeqPacket,
    port: u16,
    address: Addr,
    buffer: Vec<u8>,
    /// Came while something else was waited for.
    early: VecDeque<Came>,
    /// Whether the node has been asked to tell of ends, and has not answered yet.
    asking: bool,
}

impl Attachment {
    /// Attaches to the node with this run directory, at application port `port` (0: any).
    pub fn attach(dir: &Path, port: u16) -> Result<Attachment, ClientError> {
        let path = dir.join("apps.sock");
        let socket = SeqPacket::connect(&path).map_err(|error| ClientError::NotRunning(path, error))?;
        let [high, low] = port.to_be_bytes();
        socket.send(&[ATTACH, high, low]).map_err(ClientError::Broken)?;
        let mut buffer = vec![0; MESSAGE];
        let length = socket.receive_within(&mut buffer, PATIENCE).map_err(ClientError::Broken)?.unwrap_or(0);
        match &buffer[..length] {
            [ATTACHED, high, low, address @ ..] if address.len() == 16 => {
                let mut addr = Addr::UNSPECIFIED;
                addr.0.copy_from_slice(address);
                Ok(Attachment {
                    port: u16::from_be_bytes([*high, *low]),
                    address: addr,
                    socket,
                    buffer,
                    early: VecDeque::new(),
                    asking: false,
                })
            }
            [REFUSED, why @ ..] => Err(ClientError::Refused(String::from_utf8_lossy(why).into_owned())),
            _ => Err(ClientError::Broken(io::Error::new(io::ErrorKind::InvalidData, "no answer"))),
        }
    }

    /// The application port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The node's address.
    pub fn address(&self) -> Addr {
        self.address
    }

    /// From now on [`Attachment::receive`] tells of each capsule sent here that has ended at this node, and why, as a
    /// refusal. A node of before says nothing.
    pub fn tell_ends(&mut self) -> Result<(), ClientError> {
        self.asking = true;
        self.socket.send(&[TELL]).map_err(ClientError::Broken)
    }

    /// Sends a capsule. A refusal comes with the next [`Attachment::receive`].
    pub fn send(&self, header: &capsule::Header, payload: &[u8]) -> Result<(), ClientError> {
        let mut message = vec![0; 1 + capsule::HEADER];
        message[0] = SEND;
        let written = header.emit(&mut message[1..]);
        debug_assert!(written.is_ok());
        message.extend(payload);
        self.socket.send(&message).map_err(ClientError::Broken)
    }

    /// Waits until the node has taken in what was sent; an error: it has refused something. What it delivers or tells of
    /// ends meanwhile comes with [`Attachment::receive`].
    pub fn settle(&mut self) -> Result<(), ClientError> {
        self.socket.send(&[SETTLE]).map_err(ClientError::Broken)?;
        // With so many answers it was taken in.
        while self.early.len() < EARLY_MAX {
            match self.next(PATIENCE)? {
                Some(Told::Came(came)) => self.early.push_back(came),
                Some(Told::Settled) => break,
                Some(Told::Tells) => {}
                None => return Err(ClientError::Broken(io::ErrorKind::TimedOut.into())),
            }
        }
        Ok(())
    }

    /// The next capsule delivered, or nothing within the time.
    pub fn receive(&mut self, time: Duration) -> Result<Option<(capsule::Header, Vec<u8>)>, ClientError> {
        if let Some(early) = self.early.pop_front() {
            return early.map(Some).map_err(ClientError::Refused);
        }
        loop {
            match self.next(time)? {
                Some(Told::Came(came)) => return came.map(Some).map_err(ClientError::Refused),
                Some(Told::Settled | Told::Tells) => {}
                None => return Ok(None),
            }
        }
    }

    fn next(&mut self, time: Duration) -> Result<Option<Told>, ClientError> {
        let Some(length) = self.socket.receive_within(&mut self.buffer, time).map_err(ClientError::Broken)? else {
            return Ok(None);
        };
        match &self.buffer[..length] {
            [DELIVERED, bytes @ ..] => match capsule::Header::parse(bytes) {
                Ok(header) => Ok(Some(Told::Came(Ok((header, bytes[capsule::HEADER..].to_vec()))))),
                Err(error) => Err(ClientError::Broken(io::Error::new(io::ErrorKind::InvalidData, error))),
            },
            [SETTLED] => Ok(Some(Told::Settled)),
            [TELLS] => {
                self.asking = false;
                Ok(Some(Told::Tells))
            }
            // A node of before does not know the question. It answers in order, so this is the answer to it.
            [REFUSED, ..] if self.asking => {
                self.asking = false;
                Ok(Some(Told::Tells))
            }
            [ENDED, _, _, _, _, why @ ..] => Ok(Some(Told::Came(Err(String::from_utf8_lossy(why).into_owned())))),
            [REFUSED, why @ ..] => Err(ClientError::Refused(String::from_utf8_lossy(why).into_owned())),
            _ => Err(ClientError::Broken(io::ErrorKind::UnexpectedEof.into())),
        }
    }
}

/// A capsule delivered, or why one that was sent here has ended at this node.
type Came = Result<(capsule::Header, Vec<u8>), String>;

/// What a node tells an application.
enum Told {
    Came(Came),
    Settled,
    Tells,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of an answer that is written until nobody reads it any more, or to its end.
    fn answered(time: Duration, most: usize, mut answer: impl Iterator<Item = &'static [u8]> + Send) -> String {
        let (asks, mut node) = UnixStream::pair().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || answer.try_for_each(|part| node.write_all(part)));
            let read = read_answer(&mut BufReader::new(asks), time, most);
            read.map_or_else(|error| error.to_string(), |line| String::from_utf8(line).unwrap())
        })
    }

    #[test]
    fn an_answer_without_an_end_is_not_read_for_ever() {
        let long = Duration::from_secs(600);
        assert_eq!(answered(long, 10, [&b"an "[..], b"answer\nand another"].into_iter()), "an answer\n".to_owned());
        assert_eq!(answered(long, 100, [&b"half"[..]].into_iter()), "half");
        assert_eq!(
            answered(long, 1 << 20, std::iter::repeat(&[b'x'; 4096][..])),
            "the answer is longer than 1048576 bytes"
        );
        let slow = std::iter::repeat_with(|| {
            std::thread::park_timeout(Duration::from_millis(1));
            &b"x"[..]
        });
        assert_eq!(answered(Duration::from_millis(50), 1 << 20, slow), "no whole answer within 50ms");
    }
}
